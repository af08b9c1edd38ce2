"""Votes and members, to bytes and back; what cannot be is refused."""

from collections.abc import Callable

import msgspec
import pytest

from crdtstream.core.checkpoint.contents import ContentError, packed, unpacked
from crdtstream.core.clock import Dot
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.changes import Removal
from crdtstream.core.membership.contents import MembersContent, VotesContent
from crdtstream.core.membership.deciding import Ballot, Vote, Votes
from crdtstream.core.membership.encoding import (
    decode_members,
    decode_votes,
    encode_members,
    encode_votes,
)
from crdtstream.core.membership.members import Members, apply
from tests.membership.test_members import activate, add
from tests.membership.world import adopted, removal, renamed

R2 = RegionId(2)


def lived() -> Members:
    """A region of each status, numbers that are drawn, a cut, and dots of some epochs."""
    members = apply(adopted(3), removal(2, 1, Removal.WITHOUT_MAJORITY), Dot(RegionId(1), 7))
    return apply(members.with_cut(R2, 0), add(9))


VOTES = (
    Votes(1),
    Votes(7, Ballot(3, R2)),
    Votes(7, Ballot(3, R2), Vote(Ballot(2, RegionId(1)), renamed(1, "x"))),
    Votes(7, Ballot(3, R2), Vote(Ballot(3, R2), renamed(1, "x")), removal(3, heir=1)),
)


@pytest.mark.parametrize("votes", VOTES)
def test_votes_are_read_as_they_were_kept(votes: Votes) -> None:
    assert decode_votes(encode_votes(votes)) == votes


@pytest.mark.parametrize(
    "members", [Members(), adopted(3), lived(), apply(lived(), activate(9))], ids=range(4)
)
def test_members_are_read_as_they_were_kept(members: Members) -> None:
    assert decode_members(encode_members(members)) == members


def test_damaged_votes_are_not_taken_for_none() -> None:
    data = encode_votes(VOTES[-1])
    for wrong in (b"", data[:-1], data + b"\xc0", encode_members(adopted(1))):
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
    "no region is active": lambda all_: [[], *all_[1:]],
    "numbers cannot be drawn above 1024": lambda all_: [*all_[:2], 1024],
    "a hash of another length": lambda all_: [all_[0], [[b"x", None]], 0],
    "there is no dot 0:1": lambda all_: [all_[0], [[bytes(32), [0, 1]]], 0],
    "region 1 cannot be so": lambda all_: [all_[0], [], 0],
}


@pytest.mark.parametrize("reason", WRONG)
def test_members_that_cannot_be_are_refused(reason: str) -> None:
    content = unpacked(encode_members(lived()), list[object])
    with pytest.raises(ContentError, match=reason):
        decode_members(_packed(WRONG[reason](content)))


@pytest.mark.parametrize(
    "change",
    [
        {"added": 0},
        {"changed": 9},
        {"instance": b""},
        {"instance": b"short"},
        {"heir": 3},
        {"cut": 1},
        {"region": 0},
    ],
)
def test_a_member_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    content = unpacked(encode_members(adopted(1)), MembersContent)
    wrong = msgspec.structs.replace(content.regions[0], **change)
    with pytest.raises(ContentError, match="cannot be so"):
        decode_members(packed(msgspec.structs.replace(content, regions=[wrong])))


def _packed(content: object) -> bytes:
    return msgspec.msgpack.encode(content)
