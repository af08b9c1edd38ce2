"""No two changes are decided for one epoch, and no vote stands in the way of every change.

Every state is visited that members can reach with so many attempts, crashes, restores and deaths;
see ``world.py``.  A member that knew of two decisions would raise ``ForkError``; all decisions that
were ever kept are compared besides, also those that all have forgotten.
"""

from collections.abc import Mapping

import pytest

from crdtstream.core.member_changes import Change
from tests.membership.world import Faults, World, founded, moved, removal, renamed

EACH_OTHER: Mapping[int, Change] = {0: removal(2, heir=1), 1: removal(1, heir=2)}
TWO_NAMES: Mapping[int, Change] = {0: renamed(1, "a"), 1: renamed(2, "b")}
TWO_ADDRESSES: Mapping[int, Change] = {0: moved(3, "a"), 1: moved(3, "b")}
THREE: Mapping[int, Change] = {**EACH_OTHER, 2: renamed(3, "c")}


def check(count: int, wishes: Mapping[int, Change], faults: Faults, *, states_min: int) -> None:
    """``states_min``: fewer states would mean that the world does less than it says."""
    world = World(founded(count), dict(wishes))
    world.explore(faults)
    assert not world.stuck, world.stuck[0]
    assert world.decided == set(wishes.values()), "each of the wishes wins somewhere"
    assert world.state_count >= states_min


def test_two_remove_each_other_in_every_order() -> None:
    check(3, EACH_OTHER, Faults(proposals=2, crashes=1, deaths=1), states_min=1000)


@pytest.mark.long
def test_two_remove_each_other_while_a_folder_is_restored() -> None:
    check(3, EACH_OTHER, Faults(proposals=2, restores=1), states_min=4000)


@pytest.mark.long
def test_folders_are_restored_one_after_the_other() -> None:
    """V18: who recovers votes for what another one has voted for.  Its lost vote may have been one
    of a majority, and the next folder that is lost the last that had the decision."""
    check(3, EACH_OTHER, Faults(proposals=2, restores=2), states_min=30_000)


@pytest.mark.long
def test_four_members_in_every_order() -> None:
    check(4, EACH_OTHER, Faults(proposals=2), states_min=2000)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(proposals=3),
        Faults(proposals=2, crashes=1),
        pytest.param(Faults(proposals=3, crashes=1), marks=pytest.mark.long),
    ],
)
def test_two_go_on_before_the_effect_of_the_first_change_has_come(faults: Faults) -> None:
    """V4, V5: the decision stands for its votes; both want to remove the third, each as heir."""
    first = renamed(1, "a")
    behind: dict[int, Change] = {0: removal(3, heir=1), 1: removal(3, heir=2)}
    world = World(founded(3), {0: first}, behind)
    world.explore(faults, checks_progress=False)
    assert world.decided == {first, *behind.values()}


@pytest.mark.parametrize(
    "faults",
    [
        Faults(proposals=2, crashes=1),
        pytest.param(Faults(proposals=3), marks=pytest.mark.long),
    ],
)
def test_two_correct_an_address_that_is_wrong_before_its_effect_has_come(faults: Faults) -> None:
    """The wrong address was decided, and nobody reaches the region to which it belongs."""
    wrong = moved(3, "wrong")
    world = World(founded(3), {0: wrong}, dict(TWO_ADDRESSES))
    world.explore(faults, checks_progress=False)
    assert world.decided == {wrong, *TWO_ADDRESSES.values()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "wishes", "faults"),
    [
        (3, EACH_OTHER, Faults(2, 1, 1, 1)),
        (3, TWO_NAMES, Faults(2, crashes=1)),
        (4, EACH_OTHER, Faults(2, deaths=1)),
    ],
)
def test_with_crashes_and_deaths(count: int, wishes: Mapping[int, Change], faults: Faults) -> None:
    check(count, wishes, faults, states_min=20_000)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("count", "wishes", "faults"),
    [
        (3, EACH_OTHER, Faults(3, 1, 1, 0)),
        (3, TWO_NAMES, Faults(2, 0, 1, 0)),
        (3, THREE, Faults(3, 0, 0, 0)),
        (4, EACH_OTHER, Faults(2, 1, 0, 1)),
        (4, EACH_OTHER, Faults(2, 0, 1, 0)),
        (3, EACH_OTHER, Faults(3, 0, 2, 0)),
        (3, EACH_OTHER, Faults(2, 0, 3, 0)),
    ],
)
def test_more_attempts_and_faults(count: int, wishes: Mapping[int, Change], faults: Faults) -> None:
    check(count, wishes, faults, states_min=4000)
