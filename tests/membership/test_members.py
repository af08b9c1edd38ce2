"""Changes that may follow each other, and the members after each."""

import random
from dataclasses import replace

import pytest

from crdtstream.core.clock import Dot
from crdtstream.core.ids import REGION_MAX, Millis, RegionId
from crdtstream.core.member_changes import (
    SECONDS_MAX,
    Activate,
    Add,
    Change,
    Contact,
    JoinToken,
    MembersError,
    Removal,
    Remove,
    Revoke,
    Update,
    decode_change,
    encode_change,
)
from crdtstream.core.membership.members import (
    NO_HASH,
    ForkError,
    Members,
    Relation,
    Status,
    apply,
    beginning_of,
    chain,
    compare,
    follow,
    genesis,
    newest,
)
from tests.membership.world import contact, founded, instance, removal, renamed

TOKEN = JoinToken(bytes(range(32)), Millis(1_700_000_000_000))
R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))
GENESIS_OF_1_AND_3 = "331eed50a6b40376ac5e138c3560343c99b9b03933870f089776d5a97498f905"


def add(number: int, name: str = "") -> Add:
    return Add(RegionId(number), contact(number, name), TOKEN)


def activate(number: int) -> Activate:
    return Activate(RegionId(number), instance(number))


def after(members: Members, *changes: Change) -> Members:
    for change in changes:
        members = apply(members, change)
    return members


CHANGES: tuple[Change, ...] = (
    Add(R4, Contact("eu", "[::1]:7000", "", "eu:8080", ("eu.example", "alt")), TOKEN),
    activate(4),
    renamed(1, "us"),
    *(removal(1, 2, how) for how in Removal),
    Revoke(b"\x7c", 2_000, 1_000),
)


# --- Views --------------------------------------------------------------------------------------


def test_a_region_joins_votes_and_leaves() -> None:
    members = founded(3)
    assert members.voters == (1, 2, 3)

    members = apply(members, add(4))
    assert members.voters == (1, 2, 3)
    assert members.remaining == (1, 2, 3, 4)

    members = apply(members, activate(4))
    assert members.voters == (1, 2, 3, 4)
    found = members.find(R4)
    assert found is not None
    assert (found.instance, found.token) == (instance(4), None)

    members = apply(members, removal(2, heir=1))
    assert members.voters == members.remaining == (1, 3, 4)
    assert members.removed == (2,)
    assert members.epoch == 4


def test_the_heir_is_named_and_does_not_move() -> None:
    """M16: with the lowest remaining region as heir, adding 1 would move what 5 left."""
    members = apply(genesis([R2, R3, RegionId(5)]), removal(5, heir=2))
    assert members.next_number() == 6
    with pytest.raises(MembersError, match="region 1 is not the next number, which is 6"):
        apply(members, add(1))
    members = after(members, add(6), activate(6))
    assert members.heir_of(RegionId(5)) == 2
    # The heir is removed as well (M15): its heir takes both.
    members = apply(members, removal(2, heir=6))
    assert members.heir_of(RegionId(5)) == members.heir_of(R2) == 6
    assert members.heir_of(R3) is None


# --- Numbers ------------------------------------------------------------------------------------


def test_a_number_is_never_given_again() -> None:
    members = after(founded(2), removal(2, heir=1))
    assert members.next_number() == 3
    for used in (1, 2):
        with pytest.raises(MembersError, match="a number is never given again"):
            apply(members, replace(add(3), region=RegionId(used)))
    # Nor that of one that never became active.
    members = after(members, add(3), removal(3, heir=1))
    assert members.next_number() == 4


def test_after_the_last_number_none_is_left() -> None:
    members = genesis([RegionId(REGION_MAX - 1)])
    assert members.numbers_left == 1
    members = apply(members, add(REGION_MAX))
    assert members.numbers_left == 0
    with pytest.raises(MembersError, match="all numbers up to 1023 were given"):
        members.next_number()
    with pytest.raises(MembersError, match="is not in 1 to 1023"):
        add(REGION_MAX + 1)


def test_without_a_majority_both_sides_draw_other_numbers() -> None:
    members = founded(4)
    here = after(
        members,
        removal(3, heir=1, how=Removal.WITHOUT_MAJORITY),
        removal(4, heir=1, how=Removal.WITHOUT_MAJORITY),
    )
    there = after(
        members,
        removal(1, heir=3, how=Removal.WITHOUT_MAJORITY),
        removal(2, heir=3, how=Removal.WITHOUT_MAJORITY),
    )
    draw = random.Random(1)
    mine, other = (one.next_number(draw.getrandbits(64)) for one in (here, there))
    assert mine != other
    assert min(mine, other) > 4
    # It need not be the next one, and still none is given twice.
    here = apply(here, add(mine))
    assert here.numbers_left == REGION_MAX - 5
    assert all(here.next_number(draw.getrandbits(64)) != mine for _ in range(5000))
    with pytest.raises(ForkError, match="the database has split"):
        newest(here, [there])


# --- What does not follow -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (add(3), "region 3 was a member before"),
        (add(5), "region 5 is not the next number, which is 4"),
        (add(4, name="region-1"), "region 1 has the name 'region-1'"),
        (Add(R4, Contact("x", "host2:6379"), TOKEN), "region 2 has the address host2:6379"),
        (Add(R4, Contact("x", "a:1", "a:1"), TOKEN), "one address is named twice"),
        (activate(3), "region 3 is active, not joining"),
        (activate(9), "there is no region 9"),
        (renamed(9, "x"), "there is no region 9"),
        (renamed(2, "region-1"), "region 1 has the name 'region-1'"),
        (renamed(2, "region-2"), "has this name and these addresses already"),
        (removal(9, heir=1), "there is no region 9"),
        (removal(1, heir=9), "there is no region 9"),
    ],
)
def test_a_change_that_does_not_follow_is_refused(change: Change, reason: str) -> None:
    with pytest.raises(MembersError, match=reason):
        apply(after(founded(3), Update(R2, contact(2))), change)


def test_a_removed_region_stays_removed() -> None:
    members = after(founded(3), removal(2, heir=1))
    for change in (removal(2, heir=1), renamed(2, "again"), activate(2), removal(3, heir=2)):
        with pytest.raises(MembersError, match="region 2 is removed, not"):
            apply(members, change)
    # Its name and its addresses are free.
    assert apply(members, Update(R3, contact(2))).epoch == 3


def test_a_joining_region_inherits_nothing() -> None:
    with pytest.raises(MembersError, match="region 4 is joining, not active"):
        apply(apply(founded(3), add(4)), removal(3, heir=4))


def test_the_last_active_region_cannot_be_removed() -> None:
    members = after(founded(2), removal(2, heir=1), add(3))
    with pytest.raises(MembersError, match="region 1 is the last active one"):
        apply(members, removal(1, heir=3))


def test_a_copied_folder_is_not_a_second_region() -> None:
    with pytest.raises(MembersError, match="one folder is named as two regions"):
        after(founded(2), add(3), activate(3), add(4), Activate(R4, instance(3)))
    # Nor does the folder of a removed region come in again under a new number.
    with pytest.raises(MembersError, match="one folder is named as two regions"):
        after(
            *(founded(2), add(3), activate(3), removal(3, heir=1), add(4)),
            Activate(R4, instance(3)),
        )


# --- Epoch 1 ------------------------------------------------------------------------------------


def test_the_files_name_the_members_of_the_first_epoch() -> None:
    members = genesis([R3, R1])
    assert members.epoch == 1
    assert members.voters == members.remaining == (1, 3)
    assert members == genesis([R1, R3])
    assert members.hash != genesis([R1, R2]).hash
    # It is fixed for good: folders keep the hashes that follow it.
    assert members.hash.hex() == GENESIS_OF_1_AND_3


def test_regions_of_unequal_files_refuse_each_other() -> None:
    here, there = genesis([R1, R2, R3]), genesis([R3, R4])
    with pytest.raises(ForkError, match="the database began with other regions") as told:
        newest(here, [there])
    assert "1 region-1 active, 2 region-2 active, 3 region-3 active" in str(told.value)
    assert "3 region-3 active, 4 region-4 active" in str(told.value)
    # Not only while nothing was decided since.
    for mine, other in ((apply(here, add(4)), there), (here, apply(there, add(5)))):
        with pytest.raises(ForkError, match="the database began with other regions"):
            newest(mine, [other])


def test_a_history_leads_back_to_its_first_epoch() -> None:
    lived = after(founded(3), Update(R1, contact(1)), removal(2, heir=1), add(4), activate(4))
    assert beginning_of(lived) == founded(3)
    assert beginning_of(Members()) == Members()


def test_no_change_makes_the_first_epoch() -> None:
    with pytest.raises(MembersError, match="no members are known yet"):
        apply(Members(), add(1))
    for members in (Members(), founded(2)):
        with pytest.raises(MembersError, match="epoch 1 does not follow"):
            follow(members, 1, NO_HASH, add(3))


def test_addresses_may_be_missing_only_for_those_whom_the_files_name() -> None:
    with pytest.raises(MembersError, match="replication_endpoint"):
        Add(R4, Contact("eu", ""), TOKEN)
    # A new name leaves the address to the files.
    assert apply(founded(2), Update(R1, Contact("us", ""))).epoch == 2


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: Contact("", "a:1"), "fqdn: '' is not 1 to 64 printable"),
        (lambda: Contact("a\n", "a:1"), "fqdn"),
        (lambda: Contact("a" * 65, "a:1"), "fqdn"),
        (lambda: Contact("a", "a"), "replication_endpoint: 'a' is not host:port"),
        (lambda: Contact("a", "a:0"), "is not host:port"),
        (lambda: Contact("a", "a:65536"), "is not host:port"),
        (lambda: Contact("a", ":1"), "is not host:port"),
        (lambda: Contact("a", "a:1", resp="b"), "^endpoint: 'b' is not host:port"),
        (lambda: Contact("a", "a:1", http="b:x"), "url: 'b:x' is not host:port"),
        (lambda: Contact("a", "a:1", certificates=("x",) * 17), "certificates: more than 16"),
        (lambda: JoinToken(b"short", Millis(1)), "a hash has 32 bytes"),
        (lambda: JoinToken(bytes(32), Millis(-1)), "check the clock"),
        (lambda: Activate(R1, b"short"), "the uid of a folder has 16 bytes"),
        (lambda: removal(2, heir=2), "cannot inherit from itself"),
        (lambda: removal(0, heir=2), "is not in 1 to 1023"),
        (lambda: Revoke(b"", 2, 1), "a serial number is above 0"),
        (lambda: Revoke(b"\x00\x01", 2, 1), "a serial number is above 0"),
        (lambda: Revoke(b"\x01" * 21, 2, 1), "has at most 20 bytes"),
        (lambda: Revoke(b"\x01", -1, 1), "-1 is no time between 1970 and 9999"),
        (lambda: Revoke(b"\x01", 1, SECONDS_MAX + 1), "is no time between 1970 and 9999"),
    ],
)
def test_malformed_changes_are_refused(wrong: object, reason: str) -> None:
    assert callable(wrong)
    with pytest.raises(MembersError, match=reason):
        wrong()


# --- Bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_has_one_form_in_bytes(change: Change) -> None:
    data = encode_change(change)
    assert decode_change(data) == change
    for wrong in (data[:-1], data + b"\xc0", b"", b"\xff" * 9):
        with pytest.raises(MembersError):
            decode_change(wrong)


def test_other_bytes_of_the_same_change_are_refused() -> None:
    data = encode_change(activate(4))
    # MessagePack may write a small number in two bytes as well.
    longer = data.replace(b"\xa6region\x04", b"\xa6region\xcc\x04")
    assert longer != data
    with pytest.raises(MembersError, match="not in canonical form"):
        decode_change(longer)


def test_a_kind_of_a_later_version_asks_for_an_upgrade() -> None:
    data = encode_change(activate(4)).replace(b"\xa8activate", b"\xa8demolish")
    with pytest.raises(MembersError, match="upgrade this node"):
        decode_change(data)


def test_the_hash_of_a_history_is_fixed_for_good() -> None:
    """A changed encoding would split each database whose regions are upgraded one by one."""
    members = after(founded(2), add(3), activate(3), renamed(1, "x"), removal(2, heir=1))
    assert members.hash.hex() == (
        "ae0f4e644be52fa38460298a118fc25687a0fdf06f927e4c36bf171ceb3b349b"
    )


# --- History ------------------------------------------------------------------------------------


def test_the_longer_history_of_one_line_is_the_newer() -> None:
    members = founded(3)
    longer = after(members, removal(2, heir=1))
    assert compare(members, longer) is Relation.BEHIND
    assert compare(longer, members) is Relation.AHEAD
    assert compare(longer, longer) is Relation.EQUAL
    assert compare(Members(), longer) is Relation.BEHIND
    assert newest(members, [Members(), longer, members]) == longer


def test_a_fork_is_told_with_both_lists() -> None:
    members = founded(3)
    here, there = apply(members, removal(2, heir=1)), apply(members, removal(1, heir=2))
    # Also if one of the two has gone on since.
    for other in (there, apply(there, renamed(3, "x"))):
        assert compare(here, other) is Relation.FORK
        with pytest.raises(ForkError) as raised:
            newest(here, [other])
        assert here.listed() in str(raised.value)
        assert other.listed() in str(raised.value)


LIVED = after(founded(4), removal(2, heir=1), add(5)).with_cut(R2, 4)
GONE_ON = after(LIVED.with_cut(R2, None), activate(5), renamed(1, "x"), removal(3, heir=4))
# What a region is told to have become, though its history says nothing of it.
MADE_UP: dict[str, tuple[RegionId, dict[str, object]]] = {
    "a removed region is active": (R2, {"status": Status.ACTIVE, "heir": None}),
    "a removed region has another heir": (R2, {"heir": R4}),
    "it was removed later": (R2, {"changed": 4}),
    "an active region joins": (R1, {"status": Status.JOINING, "instance": b"", "token": TOKEN}),
    "a folder is another one": (R1, {"instance": instance(9)}),
    "it has moved without a change": (R4, {"contact": contact(4, "y")}),
    "it was added at another epoch": (RegionId(5), {"added": 4}),
    "it was there all the time": (RegionId(5), {"region": RegionId(6)}),
}


def test_a_longer_history_takes_its_regions_on() -> None:
    assert newest(LIVED, [GONE_ON]) == GONE_ON


@pytest.mark.parametrize("made_up", MADE_UP)
def test_regions_that_cannot_have_become_so_are_refused(made_up: str) -> None:
    region, change = MADE_UP[made_up]
    regions = tuple(
        replace(one, **change) if one.region == region else one  # type: ignore[arg-type]
        for one in GONE_ON.regions
    )
    with pytest.raises(ForkError, match="cannot have become what it is told to be"):
        newest(LIVED, [replace(GONE_ON, regions=regions)])


def test_effects_of_equal_epoch_and_hash_are_one() -> None:
    """Any region that knows a decision may issue it; the smallest dot stands in every order."""
    members = founded(2)
    change = renamed(1, "x")
    told = [Dot(R2, 7), Dot(R1, 9)]
    found = []
    for order in (told, told[::-1]):
        now = members
        for dot in order:
            now = follow(now, 2, members.hash, change, dot)
        later = follow(now, 3, now.hash, renamed(2, "y"), Dot(R1, 20))
        # One of an earlier epoch may come behind later ones.
        found.append(follow(later, 2, members.hash, change, Dot(R2, 8)))
    assert found[0] == found[1]
    assert found[0].epoch == 3
    assert found[0].dot_of(R1) == Dot(R1, 9)


def test_the_dot_of_an_add_is_known_after_later_changes() -> None:
    members = follow(founded(1), 2, founded(1).hash, add(2), Dot(R1, 5))
    members = follow(members, 3, members.hash, activate(2), Dot(R2, 1))
    assert members.added_by(R2) == Dot(R1, 5)
    assert members.dot_of(R2) == Dot(R2, 1)


def test_an_effect_of_another_history_is_a_fork() -> None:
    members = founded(3)
    here = apply(members, removal(2, heir=1))
    with pytest.raises(ForkError, match="epoch 2 was decided twice"):
        follow(here, 2, members.hash, removal(1, heir=2))
    other = apply(members, renamed(3, "x"))
    with pytest.raises(ForkError, match="of another history"):
        follow(here, 3, other.hash, renamed(1, "y"))
    with pytest.raises(MembersError, match="epoch 4 does not follow epoch 2"):
        follow(here, 4, here.hash, renamed(1, "y"))


def test_each_change_is_in_every_later_hash() -> None:
    members = founded(3)
    assert apply(members, renamed(1, "x")).hash == chain(members.hash, renamed(1, "x"))
    here = after(members, renamed(1, "x"), renamed(1, "r1"))
    there = after(members, renamed(1, "y"), renamed(1, "r1"))
    assert {one.status for one in here.regions} == {Status.ACTIVE}
    assert [one.contact for one in here.regions] == [one.contact for one in there.regions]
    assert here.hash != there.hash


def test_the_kind_of_a_removal_is_part_of_the_change() -> None:
    hashes = {apply(founded(3), Remove(R2, R1, how)).hash for how in Removal}
    assert len(hashes) == len(Removal)
