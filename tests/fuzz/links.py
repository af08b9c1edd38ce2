"""Messages of links, at both of their ends.

``LINKS``: another region pulls from here, and sends its Open and its acks.  ``PULLERS``: this
region pulls, and the other one sends its Welcome, heartbeats, batches and publications.
"""

from functools import cache
from typing import Final

from google.protobuf.message import DecodeError

from crdtstream.core.frames import FrameError, FramePacker, unpack_frame
from crdtstream.core.histories import said
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Incarnations, Lineage, encode_incarnations
from crdtstream.core.membership.encoding import Said, encode_said
from crdtstream.database.listening import Kind
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.link import Failed
from crdtstream.region.links.listeners import ListenerCount
from crdtstream.region.links.messages import (
    Batches,
    Open,
    Progress,
    Publications,
    Refusal,
    Standing,
    ToPuller,
    ToServer,
    Welcome,
)
from crdtstream.region.links.publications import Publication
from crdtstream.region.links.pull import Over, Pull
from crdtstream.region.links.pull import Send as SendToServer
from crdtstream.region.links.pull import Sleep as Rest
from crdtstream.region.links.serve import End, Read, Seek, Send, Serve, Sleep
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.replication.wire import (
    BatchPacker,
    BatchUnpacker,
    decode_ack,
    decode_open,
    decode_response,
    encode_request,
    encode_response,
)
from crdtstream.v1 import replication_pb2 as pb
from tests.fuzz.batches import DAMAGE_TO_BATCH
from tests.fuzz.damage import (
    damaged_msgpack,
    damaging,
    damaging_story,
    pieces_of,
    remade,
    story,
)
from tests.fuzz.histories import (
    HERE,
    OTHER,
    PEER,
    check_whole,
    other_with_something,
    peer_with_everything,
)
from tests.fuzz.surface import INPUT_BYTES_MAX, Surface
from tests.harness.driven import SAID, UID, Driven, make_region
from tests.harness.regions import Node
from tests.membership.world import founded, instance

STANDING: Final = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
BATCHES_BYTES_MAX: Final = 16 * INPUT_BYTES_MAX
# Actions of a link between two messages: it comes to rest long before.
ACTIONS_MAX: Final = 1_000
PEERS: Final = (PEER, OTHER)

OF_HERE: Final = (
    "XADD x 9 f v",
    "XADD x 12 f v",
    "XGROUP CREATE x g 0",
    "XREADGROUP GROUP g d COUNT 1 STREAMS x >",
    "XACK x g 9-0",
    "SET s other",
    "XADD z 21 f v",
)


def region_with_something() -> Driven:
    driven = Driven(make_region(1, PEERS))
    for line in OF_HERE:
        driven.ask(*line.split())
    return driven


def settle(driven: Driven) -> None:
    """Apply what came, and commit what came of it."""
    driven.region.apply_arrivals(driven.now)
    driven.end_tick()
    if driven.queue:
        driven.commit()


def check(driven: Driven) -> None:
    """See that clients are answered, and that a restart reads the same."""
    settle(driven)
    for line in ("XRANGE x - +", "XINFO STREAM x FULL", "XREADGROUP GROUP g e STREAMS x >"):
        driven.call(*line.split())
    driven.end_tick()
    driven.commit()
    replica = driven.region.replica
    replica.issue_frontiers()
    driven.end_tick()
    driven.commit()
    check_whole(replica, driven.log, others=PEERS)


# --- Another region pulls -------------------------------------------------------------------------


def target_of_links(data: bytes) -> object:
    """A story of requests, each in the place of one call's message: an Open begins a new call."""
    driven = region_with_something()
    serve: Serve | None = None
    at = 1.0
    for piece in pieces_of(data):
        try:
            request = pb.SyncRequest.FromString(piece)
        except DecodeError:
            continue
        at += 1.0
        driven.clock += 1_000
        try:
            if serve is None or request.WhichOneof("kind") == "open":
                found = driven.region.links.accept(decode_open(request.open), at)
                serve = None if isinstance(found, Refusal) else found
            else:
                serve.receive(decode_ack(serve.region, request), at)
        except PeerError:
            if serve is not None:
                driven.region.links.hang_up(serve)
                serve = None
        settle(driven)
        if serve is not None and not _served(driven, serve, at):
            driven.region.links.hang_up(serve)
            serve = None
    check(driven)
    return sorted(driven.region.knowledge.of(PEER).items())


def _served(driven: Driven, serve: Serve, at: float) -> bool:
    """Do what the link says until it rests; False if it has ended."""
    packer = BatchPacker()
    for _ in range(ACTIONS_MAX):
        match serve.next(driven.now, at):
            case Seek(vv, origins):
                seqs = [
                    seq
                    for seq, record in enumerate(driven.log, 1)
                    if record.origin in origins and record.last_n > vv.get(record.origin, 0)
                ]
                serve.begin_at(seqs[0] if seqs else len(driven.log) + 1)
            case Read(seq, _):
                serve.take(driven.log[seq - 1 :])
            case Send(message):
                encode_response(message, packer).SerializeToString()
            case Sleep():
                return True
            case End():
                return False
    raise AssertionError("a link that never rests")


@cache
def seeds_of_links() -> list[bytes]:
    incarnations = Incarnations(
        Begin(1, instance(2), 0), {PEER: Lineage((Begin(1, instance(2), 0),))}
    )
    plain = Open(PEER, "crdb", 7, frozenset((HERE, PEER)), {PEER: 3}, STANDING, membership=SAID)
    known = Open(
        PEER,
        "crdb",
        8,
        frozenset((HERE, OTHER)),
        {PEER: 3, OTHER: 1},
        STANDING,
        membership=encode_said(Said(instance(2), founded(3), 2)),
        incarnations=encode_incarnations(incarnations),
        histories=peer_histories(),
    )
    acks = [
        Progress(
            {HERE: n, PEER: 3},
            Millis(5_000),
            STANDING,
            others={OTHER: {HERE: n}},
            taken_bytes=10 * n,
            stamp_ms=9,
            echo_ms=3,
            next_ms=100,
            staging_vv={HERE: 2} if n == 2 else None,
            epoch=n,
        )
        for n in (1, 2, 4)
    ]
    stories: list[list[ToServer]] = [
        [plain, *acks],
        [known, *acks],
        [plain, acks[0], plain, acks[2]],
    ]
    return [
        story(*(encode_request(message).SerializeToString() for message in messages))
        for messages in stories
    ]


@cache
def peer_histories() -> bytes:
    return said(peer_with_everything().replica.histories)


_TOLD: Final = {
    f"crdtstream.v1.{message}.{field}": damaged_msgpack
    for message in ("Open", "Welcome", "Progress")
    for field in ("membership", "incarnations", "histories")
}

LINKS: Final = Surface(
    "links",
    target_of_links,
    seeds_of_links,
    damaging_story(damaging(pb.SyncRequest, _TOLD)),
    "requests of a region that pulls from here: Open and acks",
)


# --- This region pulls ----------------------------------------------------------------------------


def target_of_pullers(data: bytes) -> object:
    """A story of responses; after a failure the link begins again, and takes the next ones."""
    driven = region_with_something()
    pull = driven.region.links.pulls[PEER]
    unpacker = BatchUnpacker(PEER, bytes_max=BATCHES_BYTES_MAX)
    at = 1.0
    _driven(driven, pull, at)
    for piece in pieces_of(data):
        at += 10.0
        driven.clock += 10_000
        try:
            response = pb.SyncResponse.FromString(piece)
            pull.receive(decode_response(PEER, response, unpacker), driven.now, at)
        except DecodeError:
            pull.lost(Failed("no message"), driven.now)
        except PeerError as error:
            pull.lost(Failed(str(error)), driven.now)
        settle(driven)
        _driven(driven, pull, at)
    check(driven)
    return sorted(driven.region.replica.vv.items()), driven.region.replica.digest()


def _driven(driven: Driven, pull: Pull, at: float) -> None:
    """Do what the link says until it rests."""
    for _ in range(ACTIONS_MAX):
        match pull.next(driven.now, at):
            case Rest() | Over():
                driven.end_tick()
                return
            case SendToServer(message):
                encode_request(message).SerializeToString()
            case _:
                pass
    raise AssertionError("a link that never rests")


@cache
def seeds_of_pullers() -> list[bytes]:
    peer = peer_with_everything()
    own = batches_of(peer, PEER)
    vv = dict(peer.replica.vv)
    aware = peer_with_everything(other_with_something())
    welcome = Welcome(PEER, 7, vv, STANDING, own_n=0, histories=peer_histories(), membership=SAID)
    told = Welcome(
        PEER,
        8,
        vv,
        STANDING,
        own_n=2,
        begins={},
        membership=encode_said(Said(instance(2), founded(3), 2)),
        incarnations=encode_incarnations(Incarnations()),
    )
    heartbeat = Progress(vv, Millis(20_000), STANDING, others={OTHER: vv}, stamp_ms=3, next_ms=250)
    heard = Publications(
        PEER,
        [Publication(b"c", b"message", False, 1), Publication(b"c", b"later", True, 99)],
        [ListenerCount(Kind.CHANNEL, b"c", 1), ListenerCount(Kind.PATTERN, b"*", 2)],
    )
    first, rest = own[: len(own) // 2], own[len(own) // 2 :]
    alone: list[ToPuller] = [welcome, Batches(first), heartbeat, heard, Batches(rest), heartbeat]
    apart: list[ToPuller] = [told, *(Batches([batch]) for batch in own), heartbeat]
    # These wait for effects of region 3, until the link begins again and asks for those as well.
    waiting: list[ToPuller] = [welcome, Batches(batches_of(aware, PEER)), heartbeat, heartbeat]
    asked: list[ToPuller] = [
        welcome,
        Batches(batches_of(aware, OTHER)),
        Batches(batches_of(aware, PEER)),
    ]
    return [_responses(messages) for messages in (alone, apart, [*waiting, *asked, heartbeat])]


def batches_of(node: Node, origin: RegionId) -> list[bytes]:
    """The batches of an origin that are in a region's log."""
    return [
        record.batch for record in node.log if record.batch is not None and record.origin == origin
    ]


def _responses(messages: list[ToPuller]) -> bytes:
    packer = BatchPacker()
    return story(*(encode_response(one, packer).SerializeToString() for one in messages))


def _unzipped(frame: bytes) -> bytes | None:
    try:
        return unpack_frame(frame, bytes_max=BATCHES_BYTES_MAX)
    except FrameError:
        return None


DAMAGE_TO_BATCHES: Final = damaging(
    pb.BatchList, {"crdtstream.v1.BatchList.batches": DAMAGE_TO_BATCH}
)
_IN_RESPONSES: Final = _TOLD | {
    "crdtstream.v1.Batches.zstd": remade(_unzipped, FramePacker(level=1).pack, DAMAGE_TO_BATCHES)
}

PULLERS: Final = Surface(
    "pullers",
    target_of_pullers,
    seeds_of_pullers,
    damaging_story(damaging(pb.SyncResponse, _IN_RESPONSES)),
    "responses of a region that this one pulls from: effects, heartbeats, publications",
)
