"""``rules`` 4, 7: the heir of a removed region deletes the keys whose deadline that region set."""

import pytest

from crdtstream.core.effects import DeleteString, ExpireKey
from tests.harness.group_modes import issued
from tests.harness.members import RESTARTS, members, remove
from tests.harness.regions import Node, sync

STREAM = ("XADD k 1 f v", "PEXPIRE k 1000")
STRING = ("SET k v PX 1000",)
DELETES = (ExpireKey, DeleteString)
EQUAL_OR_SMALLER = (
    "ERR The ID specified in XADD is equal or smaller than the target stream top item"
)
kinds = pytest.mark.parametrize("lines", [STREAM, STRING], ids=["stream", "string"])


def let_pass(ms: int, *nodes: Node) -> None:
    """The time passes, and what is due falls to whom it falls."""
    for node in nodes:
        node.now += ms
    for node in nodes:
        node.expire()


def deletes(node: Node) -> int:
    """Number of deletes of expired keys that the region has issued."""
    return sum(isinstance(effect, DELETES) for effect in issued(node))


@kinds
def test_the_heir_deletes_what_was_due_before_the_removal(lines: tuple[str, ...]) -> None:
    r1, r2, r3 = nodes = members()
    r3.run(*lines)
    sync(*nodes)
    let_pass(2000, r1, r2)
    assert (deletes(r1), deletes(r2)) == (0, 0), "the region of the deadline does it"
    remove(r1, 3, heir=2)
    sync(r1, r2)
    let_pass(0, r1, r2)
    assert (deletes(r1), deletes(r2)) == (0, 1), "the heir alone"
    sync(r1, r2)
    assert r1.replica.keys.held_stream(b"k") is None
    assert r1("DBSIZE") == r2("DBSIZE") == 0


@kinds
def test_the_heir_deletes_what_is_due_after_the_removal(lines: tuple[str, ...]) -> None:
    r1, r2, r3 = nodes = members()
    r3.run(*lines)
    sync(*nodes)
    remove(r1, 3, heir=2)
    sync(r1, r2)
    let_pass(0, r1, r2)
    assert (deletes(r1), deletes(r2)) == (0, 0), "it is not over yet"
    let_pass(2000, r1, r2)
    assert (deletes(r1), deletes(r2)) == (0, 1)


@kinds
def test_a_deadline_of_a_removed_region_that_comes_late_falls_to_the_heir(
    lines: tuple[str, ...],
) -> None:
    """Region 1 had it; it lies within the cut."""
    r1, r2, r3 = members()
    r3.run(*lines)
    r1.pull(r3)
    remove(r2, 3, heir=2)
    let_pass(2000, r1, r2)
    sync(r1, r2)
    let_pass(0, r1, r2)
    assert (deletes(r1), deletes(r2)) == (0, 1)


@kinds
@pytest.mark.parametrize("how", RESTARTS)
@pytest.mark.parametrize("saved", ["before", "after"])
def test_an_heir_that_starts_again_deletes_them_all_the_same(
    lines: tuple[str, ...], how: str, saved: str
) -> None:
    restart = RESTARTS[how]
    r1, r2, r3 = nodes = members()
    r3.run(*lines)
    sync(*nodes)
    let_pass(2000, r2)
    if saved == "before":
        restart(r2)
    remove(r1, 3, heir=2)
    r2.pull(r1)
    if saved == "after":
        restart(r2)
    let_pass(0, r2)
    assert deletes(r2) == 1


@kinds
def test_an_heir_that_hears_of_it_by_a_merge_deletes_them(lines: tuple[str, ...]) -> None:
    r1, r2, r3 = members()
    r3.run(*lines)
    r2.pull(r3)
    let_pass(2000, r2)
    remove(r1, 3, heir=2)
    r2.merge(r1)
    let_pass(0, r2)
    assert deletes(r2) == 1


@kinds
def test_the_heir_of_an_heir_deletes_what_both_left(lines: tuple[str, ...]) -> None:
    r1, r2, r3, r4 = nodes = members(4)
    r3.run(*lines)
    sync(*nodes)
    r2.run("XADD l 1 f v", "PEXPIRE l 1000")
    sync(*nodes)
    remove(r1, 3, heir=2)
    remove(r1, 2, heir=4)
    sync(r1, r4)
    let_pass(2000, r1, r4)
    assert (deletes(r1), deletes(r4)) == (0, 2)


def test_the_heir_deletes_in_the_order_of_the_deadlines() -> None:
    r1, r2, r3 = nodes = members()
    for key, ms in (("c", 10), ("a", 30), ("b", 20)):
        r3.run(f"XADD {key} 1 f v", f"PEXPIRE {key} {ms}")
    sync(*nodes)
    let_pass(2000, r2)
    remove(r1, 3, heir=2)
    r2.pull(r1)
    let_pass(0, r2)
    keys = [effect.key for effect in issued(r2) if isinstance(effect, ExpireKey)]
    assert keys == [b"c", b"b", b"a"]


def test_a_key_that_came_back_is_spared_by_the_heir() -> None:
    r1, r2, r3 = nodes = members()
    r3.run(*STREAM)
    sync(*nodes)
    let_pass(2000, r2)
    remove(r1, 3, heir=2)
    r2.pull(r1)
    r2.now -= 2000
    r2.expire()
    assert deletes(r2) == 0
    assert r2("EXISTS k") == 1


def test_a_region_that_applies_its_own_removal_deletes_no_more() -> None:
    r1, _, r3 = nodes = members()
    r3.run(*STREAM)
    r3.run("SET l v PX 1000")
    sync(*nodes)
    remove(r1, 3, heir=2)
    sync(*nodes)
    let_pass(2000, r3)
    assert deletes(r3) == 0


def test_last_ids_and_floors_of_the_removed_lane_stay_as_they_are() -> None:
    """The lane grows no more; its last ID counts until a delete that had observed it."""
    r1, r2, r3 = nodes = members()
    r3.run("XADD x 500-3 f v", "XGROUP CREATE x g 0", "PEXPIRE x 1000")
    sync(*nodes)
    remove(r1, 3, heir=2)
    sync(r1, r2)
    assert r1("XADD x 1-1 f v") == r2("XADD x 1-2 f v") == EQUAL_OR_SMALLER
    let_pass(2000, r1, r2)
    sync(r1, r2)
    assert r1("EXISTS x") == r2("EXISTS x") == 0
    # What begins now is behind nothing that a group can have read of lanes 1 and 2.
    r1.run("XGROUP CREATE x h 0 MKSTREAM")
    assert r1.run("XADD x 1-1 f v") == "1-1"
    sync(r1, r2)
    assert r2.run("XADD x 2-2 f v") == "2-2"
    sync(r1, r2)
    assert r1("XRANGE x - +") == r2("XRANGE x - +") == ["1-1", "2-2"]
