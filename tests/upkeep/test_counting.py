"""Effects of a folder that count nowhere, of any origin, and the entries among them."""

from collections.abc import Mapping

import pytest

from crdtstream.core.histories import Difference
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.incarnations import Begin, Lineage, Lineages
from crdtstream.core.member_changes import Add, JoinToken, Removal
from crdtstream.core.membership.members import Members, apply
from crdtstream.upkeep.counting import (
    Beyond,
    Count,
    Known,
    NotCountedError,
    Running,
    beyond_of,
    count_of,
)
from tests.harness.regions import Node
from tests.membership.world import contact, founded, removal, renamed
from tests.upkeep.test_removed import rows, salvaged, salvaged_beyond

R1, R2, R3, R7 = map(RegionId, (1, 2, 3, 7))
FIRST, LATER = Begin(100, bytes(16), 0), Begin(900, b"f" * 16, 30)
GOES_ON = Lineage((FIRST,))
LOST_DISK = Lineage((FIRST, LATER))


def running(
    vv: Mapping[RegionId, int] | None = None,
    *,
    lineages: Lineages | None = None,
    cuts: Mapping[RegionId, int | None] | None = None,
    members: Members | None = None,
) -> Running:
    """A region that runs: it has 30 effects of region 1, and knows that region 3 was removed."""
    members = members or apply(founded(3), removal(3, 1))
    return Running(
        vv or {R1: 30, R2: 9},
        lineages or {},
        {},
        {R3: 40} if cuts is None else cuts,
        members.epoch,
        members.hash,
        frozenset(one.region for one in members.regions),
    )


def had_by_folder(lineages: Lineages | None = None) -> Known:
    """The folder of region 3, which has 50 effects of its own, and as many of region 1."""
    return Known({R1: 50, R2: 9, R3: 50}, lineages or {})


def test_effects_of_an_incarnation_that_ended_count_nowhere() -> None:
    """Region 1 lost its disk, and goes on behind 30; it has issued more than the folder has."""
    had = had_by_folder({R1: GOES_ON})
    there = running({R1: 70}, lineages={R1: LOST_DISK})
    count = count_of(R1, Members(), had, there)
    assert count == Count(30)
    assert list(beyond_of(R1, count, had)) == [Beyond(R1, 30, 50, incarnation=100)]


def test_effects_of_an_origin_that_goes_on_with_them_all_count() -> None:
    had = had_by_folder({R1: GOES_ON})
    for lineages in ({R1: GOES_ON}, {}):
        count = count_of(R1, Members(), had, running(lineages=lineages))
        assert count == Count(None), "a region that knows less says nothing"
        assert list(beyond_of(R1, count, had)) == []


def test_of_a_removed_origin_counts_its_cut() -> None:
    had, there = had_by_folder(), running(cuts={R1: 35, R3: 40})
    for region, n in ((R1, 35), (R2, None), (R3, 40)):
        assert count_of(region, Members(), had, there) == Count(n)
    told = Known(had.vv, cuts={R3: 42})
    assert count_of(R3, Members(), told, running(cuts={R3: None})) == Count(42)


def test_a_cut_that_is_not_final_yet_is_waited_for() -> None:
    had, there = had_by_folder(), running(cuts={R1: None, R2: None, R3: 40})
    with pytest.raises(NotCountedError, match="how many effects of region 1 count"):
        count_of(R1, Members(), had, there)
    assert count_of(R2, Members(), had, there) == Count(None), "all of it is there"


def test_of_an_origin_that_went_on_and_was_removed_the_lower_number_counts() -> None:
    """It lost its disk behind 30 and wrote more, of which 60 counted when it was removed."""
    had = had_by_folder({R1: GOES_ON})
    there = running({R1: 60}, lineages={R1: LOST_DISK}, cuts={R1: 60})
    assert count_of(R1, Members(), had, there) == Count(30)


def test_a_clone_counts_up_to_where_it_is_known_to_be_the_same() -> None:
    first, other = Node(1), Node(1)
    for number in range(4):
        for node in (first, other):
            node.run(f"XADD x {20 + number}-1 f v{number}")
    first.run("XADD x * f first")
    other.run("XADD x * f other")
    had = Known(dict(first.replica.vv), {}, first.replica.histories.points())
    there = Running(dict(other.replica.vv), {}, other.replica.histories.points())
    apart = Difference(R1, 4, 5)
    count = count_of(R1, Members(), had, there)
    assert count == Count(4, apart)
    assert list(beyond_of(R1, count, had)) == [Beyond(R1, 4, 5, apart=apart)]


def with_seven(members: Members) -> Members:
    return apply(members, Add(R7, contact(7), JoinToken(bytes(32), Millis(10**15))))


def test_a_region_that_joined_another_part_counts_for_nothing() -> None:
    """Two parts went on alone, and region 7 joined one of them; the other one goes on."""
    split = founded(3)
    one = apply(split, removal(3, 1, Removal.WITHOUT_MAJORITY))
    other = apply(apply(split, removal(1, 3, Removal.WITHOUT_MAJORITY)), removal(2, 3))
    other = with_seven(other)
    had = Known({R7: 5})
    there = running(members=one)
    assert count_of(R7, other, had, there) == Count(0)
    assert list(beyond_of(R7, Count(0), had)) == [Beyond(R7, 0, 5)]
    assert count_of(R7, one, had, there) == Count(None), "the folder does not know it, either"
    further = apply(apply(one, removal(2, 1)), renamed(1, "eu"))
    assert count_of(R7, other, had, running(members=further)) == Count(0)


def test_a_region_of_which_has_not_been_heard_yet_is_not_salvaged() -> None:
    """The region that runs is behind, and its history is the folder's own."""
    before = apply(founded(3), removal(3, 1, Removal.WITHOUT_MAJORITY))
    assert count_of(R7, with_seven(before), Known({R7: 5}), running(members=before)) == Count(None)


# --- The entries ----------------------------------------------------------------------------------


def test_entries_that_a_lost_region_had_sent_to_this_one_alone_are_salvaged() -> None:
    """Each once, whether they are found in the folder of region 3, of 2, or of region 1 itself."""
    lost, third, fourth, into = Node(1), Node(3), Node(4), Node(2)
    lost("XADD x 10-1 f counts")
    for node in (third, fourth, into):
        node.pull(lost)
    for number in range(3):
        lost(f"XADD x {20 + number}-1 f v{number}")
    third("XADD x 15-3 f own")
    for node in (third, fourth):
        node.pull(lost)
    beyond = Beyond(R1, 1, 4, incarnation=100)
    assert [one.appended for one in salvaged_beyond(third, into, beyond)] == [3]
    for node in (third, fourth, lost):
        assert [one.known for one in salvaged_beyond(node, into, beyond)] == [3]
    assert [one.appended for one in salvaged(third, into)] == [1]
    assert rows(into) == ["counts", "v0", "v1", "v2", "own"]


def test_entries_of_two_incarnations_are_named_by_their_own() -> None:
    """The folder of the origin itself may have one of them only."""
    third, into = Node(3), Node(2)
    origin = Node(1)
    for number in range(4):
        origin(f"XADD x {20 + number}-1 f v{number}")
    third.pull(origin)
    lineage = Lineage((FIRST, Begin(200, b"g" * 16, 2)))
    had = Known({R1: 4}, {R1: lineage})
    found = list(beyond_of(R1, Count(1), had))
    assert found == [Beyond(R1, 1, 2, 100), Beyond(R1, 2, 4, 200)]
    for beyond in found:
        salvaged_beyond(third, into, beyond)
    assert rows(into) == ["v1", "v2", "v3"]
    assert list(beyond_of(R1, Count(None), had)) == list(beyond_of(R1, Count(4), had)) == []
    assert [one.incarnation for one in beyond_of(R1, Count(1), Known({R1: 4}))] == [0]


def test_effects_of_two_folders_with_one_number_are_two_entries() -> None:
    """Region 1 lost its disk twice, each time with an entry that one other region had only."""
    into = Node(2)
    for incarnation, text in ((100, "first"), (200, "second")):
        origin, folder = Node(1), Node(3)
        origin(f"XADD x * f {text}")
        folder.pull(origin)
        for count in (1, 0):
            (done,) = salvaged_beyond(folder, into, Beyond(R1, 0, 1, incarnation))
            assert done.appended == count
    assert rows(into) == ["first", "second"]
