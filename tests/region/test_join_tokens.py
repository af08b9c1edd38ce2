"""Join tokens: the node that each of them lets in, and the other regions' knowledge of it."""

from dataclasses import replace
from hashlib import sha256

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import Activate, Add, Change, JoinToken, MembersError
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import apply
from crdtstream.region.members.known_members import KnownMembers
from tests.harness.driven import PROVEN, make_region
from tests.membership.world import contact, founded, instance, removal

SECRET, OTHERS_SECRET = b"s" * 32, b"o" * 32
R3, R4 = RegionId(3), RegionId(4)
UNTIL = Millis(5_000)
FIRST, SECOND = instance(3), instance(9)


def region_1(*changes: Change) -> KnownMembers:
    """As region 1 knows the members: region 3 may join until a time, then these changes."""
    members = founded(2)
    token = JoinToken(sha256(SECRET).digest(), UNTIL)
    for change in (Add(R3, contact(3), token), *changes):
        members = apply(members, change)
    folder = replace(PROVEN, membership=Kept(instance(1), members=members))
    return make_region(1, (2,), folder=folder).membership.members


def test_the_node_that_shows_it_in_time_joins_as_often_as_it_asks() -> None:
    members = region_1()
    for now in (0, UNTIL, UNTIL):
        assert members.joining(SECRET, FIRST, Millis(now)) == R3


@pytest.mark.parametrize(
    ("changes", "secret", "now", "reason"),
    [
        ((), SECRET, UNTIL + 1, "the token of region 3 is out of date: take the region back with"),
        ((), OTHERS_SECRET, 0, "was used, or is of another database; make a new one with"),
        ((), b"", 0, "was used, or is of another database; make a new one with"),
        ((Activate(R3, FIRST),), SECRET, 0, "was used, or is of another database"),
        ((removal(3, 1),), SECRET, 0, "was used, or is of another database"),
    ],
    ids=["too late", "of another database", "empty", "used", "taken back"],
)
def test_a_token_that_lets_nobody_in_says_what_to_do(
    changes: tuple[Change, ...], secret: bytes, now: int, reason: str
) -> None:
    with pytest.raises(MembersError, match=reason):
        region_1(*changes).joining(secret, FIRST, Millis(now))


def test_a_second_machine_with_the_token_is_refused_also_by_the_link() -> None:
    members = region_1()
    members.joining(SECRET, FIRST, Millis(0))
    with pytest.raises(MembersError, match="another node joins as region 3 with this token; each"):
        members.joining(SECRET, SECOND, Millis(0))
    member = members.known.find(R3)
    assert member is not None
    assert members.wrong_token(member, SECRET, FIRST) is None
    assert "another node joins" in str(members.wrong_token(member, SECRET, SECOND))


def test_a_token_is_of_one_region() -> None:
    others = JoinToken(sha256(OTHERS_SECRET).digest(), UNTIL)
    members = region_1(Add(R4, contact(4), others))
    member = members.known.find(R4)
    assert member is not None
    told = members.wrong_token(member, SECRET, SECOND)
    assert told == "the token is of region 3, not of region 4"
