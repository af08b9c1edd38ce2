"""Votes and members, to bytes and back; what cannot be is refused."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from crdtstream.core.checkpoint.contents import ContentError, packed, unpacked
from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import Removal, Revoke
from crdtstream.core.membership.contents import MembersContent, VotesContent
from crdtstream.core.membership.deciding import Ballot, Vote, Votes
from crdtstream.core.membership.encoding import (
    Kept,
    Numbered,
    Said,
    decode_kept,
    decode_members,
    decode_said,
    decode_votes,
    encode_kept,
    encode_members,
    encode_said,
    encode_votes,
)
from crdtstream.core.membership.members import EPOCHS_MAX, Members, apply
from tests.membership.test_members import activate, add
from tests.membership.world import founded, instance, removal, renamed

R2 = RegionId(2)


def lived() -> Members:
    """A region of each status, numbers that are drawn, a cut, dots of some epochs, and two revoked
    certificates."""
    members = apply(founded(3), removal(2, 1, Removal.WITHOUT_MAJORITY), Dot(RegionId(1), 7))
    members = apply(members.with_cut(R2, 0), add(9))
    return apply(apply(members, Revoke(b"\x7c", 2_000, 1_000)), Revoke(b"\x19", 3_000, 1_000))


VOTES = (
    Votes(1),
    Votes(7, Ballot(3, R2)),
    Votes(7, Ballot(3, R2), Vote(Ballot(2, RegionId(1)), renamed(1, "x"))),
    Votes(7, Ballot(3, R2), Vote(Ballot(3, R2), renamed(1, "x")), removal(3, heir=1)),
    Votes(7, Ballot(3, R2), earlier=(renamed(1, "x"), removal(3, heir=1))),
)


def test_recent_changes_are_read_as_they_were_kept_and_checked() -> None:
    recent = (Numbered(2, renamed(1, "x")), Numbered(3, removal(3, heir=1)))
    kept = Kept(instance(1), VOTES[1], founded(3), recent=recent)
    assert decode_kept(encode_kept(kept)) == kept
    said = Said(instance(1), founded(3), epoch=4, recent=recent)
    assert decode_said(encode_said(said)) == said
    for wrong in (Numbered(0, renamed(1, "x")), Numbered(EPOCHS_MAX + 1, renamed(1, "x"))):
        with pytest.raises(ContentError, match="recent: an epoch is out of range"):
            decode_kept(encode_kept(replace(kept, recent=(wrong,))))
        with pytest.raises(ContentError, match="recent: an epoch is out of range"):
            decode_said(encode_said(replace(said, recent=(wrong,))))


@pytest.mark.parametrize("votes", VOTES)
def test_votes_are_read_as_they_were_kept(votes: Votes) -> None:
    assert decode_votes(encode_votes(votes)) == votes


@pytest.mark.parametrize(
    "members", [Members(), founded(3), lived(), apply(lived(), activate(9))], ids=range(4)
)
def test_members_are_read_as_they_were_kept(members: Members) -> None:
    assert decode_members(encode_members(members)) == members


def test_damaged_votes_are_not_taken_for_none() -> None:
    data = encode_votes(VOTES[-1])
    for wrong in (b"", data[:-1], data + b"\xc0", encode_members(founded(1))):
        with pytest.raises(ContentError):
            decode_votes(wrong)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (VotesContent(0, (0, RegionId(0)), None, None), "epoch 0 is out of range"),
        (VotesContent(1, (-1, RegionId(1)), None, None), "there is no ballot -1 of region 1"),
        (VotesContent(1, (1, RegionId(1024)), None, None), "there is no ballot 1 of region 1024"),
        (VotesContent(1, (1, RegionId(1)), None, b"x"), "change"),
    ],
)
def test_votes_that_cannot_be_are_refused(wrong: VotesContent, reason: str) -> None:
    with pytest.raises(ContentError, match=reason):
        decode_votes(packed(wrong))


def test_a_vote_above_its_promise_is_refused() -> None:
    votes = Votes(7, Ballot(1, R2), Vote(Ballot(3, R2), renamed(1, "x")))
    with pytest.raises(ContentError, match="above the promised one"):
        decode_votes(encode_votes(votes))


WRONG: dict[str, Callable[[list[object]], object]] = {
    "the regions do not ascend": lambda all_: [all_[0][::-1], *all_[1:]],  # type: ignore[index]
    "epoch 1 is of other regions": lambda all_: [
        all_[0],
        [[bytes(32), None], *all_[1][1:]],  # type: ignore[index]
        *all_[2:],
    ],
    "made this": lambda all_: [
        all_[0],
        [[all_[1][0][0], [1, 1]], *all_[1][1:]],  # type: ignore[index]
        *all_[2:],
    ],
    "no region is active": lambda all_: [[], *all_[1:]],
    "numbers cannot be drawn above 1024": lambda all_: [*all_[:2], 1024],
    "a hash of another length": lambda all_: [all_[0], [[b"x", None]], 0],
    "there is no dot 0:1": lambda all_: [all_[0], [[bytes(32), [0, 1]]], 0],
    "region 1 cannot be so": lambda all_: [all_[0], [], 0],
    "the revoked certificates do not ascend": lambda all_: [*all_[:3], all_[3][::-1]],  # type: ignore[index]
    "one epoch revoked two": lambda all_: [*all_[:3], [[b"\1", 9, 1, 4], [b"\2", 9, 1, 4]]],
    "was revoked at epoch 1": lambda all_: [*all_[:3], [[b"\1", 9, 1, 1]]],
    "was revoked at epoch 9": lambda all_: [*all_[:3], [[b"\1", 9, 1, 9]]],
    "a serial number is above 0": lambda all_: [*all_[:3], [[b"", 9, 1, 4]]],
    "1025 revoked certificates, of 1024": lambda all_: [
        *all_[:3],
        [[number.to_bytes(2, "big"), 9, 1, 4] for number in range(256, 256 + 1025)],
    ],
}


@pytest.mark.parametrize("reason", WRONG)
def test_members_that_cannot_be_are_refused(reason: str) -> None:
    content = unpacked(encode_members(lived()), list[object])
    with pytest.raises(ContentError, match=reason):
        decode_members(_packed(WRONG[reason](content)))


def test_no_region_inherits_from_itself_by_others() -> None:
    """A search for its heir would never end."""
    members = apply(apply(founded(3), removal(2, heir=3)), removal(3, heir=1))
    assert decode_members(encode_members(members)) == members
    first, second, third = members.regions
    circle = replace(members, regions=(first, second, replace(third, heir=R2)))
    with pytest.raises(ContentError, match="region 3 has the heir 2, who is none"):
        decode_members(encode_members(circle))


@pytest.mark.parametrize(
    "change",
    [
        {"added": 0},
        {"changed": 9},
        {"instance": b"short"},
        {"heir": 3},
        {"cut": 1},
        {"region": 0},
    ],
)
def test_a_member_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    content = unpacked(encode_members(founded(1)), MembersContent)
    wrong = msgspec.structs.replace(content.regions[0], **change)
    with pytest.raises(ContentError, match="cannot be so"):
        decode_members(packed(msgspec.structs.replace(content, regions=[wrong])))


def test_only_a_region_that_the_files_named_may_have_no_folder() -> None:
    members = apply(apply(founded(1), add(2)), activate(2))
    content = unpacked(encode_members(members), MembersContent)
    wrong = [content.regions[0], msgspec.structs.replace(content.regions[1], instance=b"")]
    with pytest.raises(ContentError, match="region 2 cannot be so"):
        decode_members(packed(msgspec.structs.replace(content, regions=wrong)))


def _packed(content: object) -> bytes:
    return msgspec.msgpack.encode(content)
