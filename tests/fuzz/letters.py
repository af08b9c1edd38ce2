"""Letters of other regions about members and incarnations, and what a folder keeps of them."""

from functools import cache
from random import Random
from typing import Final

from google.protobuf.message import DecodeError

from crdtstream.core.bids import Bid, BidAnswer, encode_bid_letter
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.histories import heard
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import (
    Begin,
    Incarnations,
    Lineage,
    decode_incarnations,
    encode_incarnations,
)
from crdtstream.core.member_changes import Activate, Add, JoinToken
from crdtstream.core.membership.encoding import (
    Kept,
    Numbered,
    Said,
    Seal,
    decode_kept,
    decode_said,
    encode_kept,
    encode_members,
    encode_message,
    encode_said,
)
from crdtstream.core.membership.members import apply
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.replication.letters import LetterError, take_letter
from crdtstream.v1 import membership_pb2 as pb
from tests.fuzz.damage import damaged_bytes, damaged_msgpack, damaging, pieces_of, story
from tests.fuzz.links import check, settle
from tests.fuzz.surface import Surface
from tests.harness.driven import UID, Driven, make_region
from tests.membership.test_messages import MESSAGES
from tests.membership.world import contact, founded, instance, renamed

# The first piece of a story: decoders of what a folder keeps, and of what comes as a link opens.
DECODERS: Final = {
    b"kept": decode_kept,
    b"said": decode_said,
    b"incarnations": decode_incarnations,
    b"histories": heard,
}
MEMBERS: Final = founded(3)


def target(data: bytes) -> object:
    """A story of letters; or a decoder's name, and what it gets."""
    pieces = pieces_of(data)
    if pieces and pieces[0] in DECODERS:
        results = []
        for piece in pieces[1:]:
            try:
                results.append(str(DECODERS[pieces[0]](piece)))
            except ContentError as error:
                results.append(str(error))
        return results
    kept = Kept(instance(1), members=MEMBERS)
    folder = FolderState(is_proven=True, database=DatabaseIdentity(UID), membership=kept)
    driven = Driven(make_region(1, (2, 3), folder=folder))
    for piece in pieces:
        driven.clock += 100
        try:
            take_letter(driven.region, pb.MembershipLetter.FromString(piece), driven.now)
        except (DecodeError, LetterError, ContentError):
            continue
        _keep_and_settle(driven)
    driven.clock += 10_000
    driven.region.pass_time(driven.now)
    _keep_and_settle(driven)
    check(driven)
    return None


def _keep_and_settle(driven: Driven) -> None:
    settle(driven)
    change = driven.region.folder.next_change
    if change is not None:
        driven.region.folder.note_written(change, driven.now)
        settle(driven)


@cache
def seeds() -> list[bytes]:
    add = Add(RegionId(4), contact(4), JoinToken(bytes(32), Millis(5_000)))
    later = apply(MEMBERS, add)
    begun = Begin(5, instance(2), 0)
    bids = [
        encode_bid_letter(Bid(RegionId(1), 7, begun)),
        encode_bid_letter(BidAnswer(RegionId(1), 7, instance(1), True, 3)),
    ]
    letters = [
        *(_letter(message=encode_message(message)) for message in MESSAGES),
        *(_letter(incarnation=bid) for bid in bids),
        _letter(members=encode_members(later)),
    ]
    activated = apply(later, Activate(RegionId(4), instance(4)))
    said = Said(instance(2), later, 2, decided=add, recent=(Numbered(1, renamed(2, "x")),))
    kept = Kept(instance(1), members=activated, seal=Seal(RegionId(2), 3), secret=b"secret")
    lineage = Lineage((Begin(1, instance(1), 0), begun), 3, Begin(9, instance(3), 4))
    incarnations = Incarnations(begun, {RegionId(2): lineage}, Begin(10, instance(2), 7))
    told = {
        b"kept": encode_kept(kept),
        b"said": encode_said(said),
        b"incarnations": encode_incarnations(incarnations),
        b"histories": _histories(),
    }
    return [story(*letters), *map(story, letters), *(story(*pair) for pair in told.items())]


def _letter(*, message: bytes = b"", members: bytes = b"", incarnation: bytes = b"") -> bytes:
    return pb.MembershipLetter(
        database_id="crdb",
        database_uid=UID,
        sender=2,
        to=1,
        message=message,
        members=members,
        incarnation=incarnation,
    ).SerializeToString()


def _histories() -> bytes:
    from tests.fuzz.links import peer_histories

    return peer_histories()


_LETTER: Final = damaging(
    pb.MembershipLetter,
    {
        f"crdtstream.v1.MembershipLetter.{field}": damaged_msgpack
        for field in ("message", "members", "incarnation")
    },
)


def damage(data: bytes, draw: Random) -> bytes:
    pieces = pieces_of(data)
    if not pieces:
        return damaged_bytes(data, draw)
    at = draw.randrange(len(pieces))
    if pieces[0] in DECODERS:
        at = max(at, min(1, len(pieces) - 1))
        pieces[at] = damaged_msgpack(pieces[at], draw)
    elif draw.random() < 0.2:
        pieces.insert(at, pieces.pop(draw.randrange(len(pieces))))
    else:
        pieces[at] = _LETTER(pieces[at], draw)
    return story(*pieces)


LETTERS: Final = Surface(
    "letters",
    target,
    seeds,
    damage,
    "letters about members and incarnations, and what folders and links say of them",
)
