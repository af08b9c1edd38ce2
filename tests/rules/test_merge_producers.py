"""Producers of two states made one: retries are recognised, and nothing else is (``rules`` 20)."""

import pytest

from tests.harness.regions import Node, sync
from tests.rules.test_convergence import append_rows
from tests.rules.test_rules import append_once

ADD = "XADD x IDMP p a * f v"


def forget_stable(*nodes: Node) -> None:
    """All have the same, and durably."""
    for node in nodes:
        node.replica.forget_stable(node.replica.vv)


# --- Messages: concurrent appends -----------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1])
def test_appends_of_one_name_beyond_each_other_are_one(at: int) -> None:
    nodes = [Node(1), Node(2)]
    ids = [append_once(node) for node in nodes]
    nodes[at].merge(nodes[1 - at])
    assert nodes[at]("XRANGE x - +") == [ids[0]]
    nodes[1 - at].merge(nodes[at])
    sync(*nodes)


def test_an_append_gives_way_to_one_that_was_deleted_elsewhere() -> None:
    r1, r2 = Node(1), Node(2)
    first = append_once(r1)
    r1.run(f"XDEL x {first}")
    append_once(r2)
    r2.merge(r1)
    assert r2("XRANGE x - +") == []


def test_an_append_that_had_observed_the_other_stays() -> None:
    r1, r2 = Node(1), Node(2)
    first = append_once(r1)
    r2.pull(r1)
    second = append_once(r2)
    r1.merge(r2)
    assert r1("XRANGE x - +") == [first, second]


def test_a_message_that_gave_way_elsewhere_is_recognised_no_more() -> None:
    """Region 2's gave way to region 1's in region 1, which had deleted its own with the key."""
    r1, r2 = Node(1), Node(2)
    r1.run(ADD)
    r1.run("DEL x")
    r2.run(ADD)
    r1.pull(r2)
    r2.merge(r1)
    assert r2("XLEN x") == 0
    r2.now += 1
    again = r2.run(ADD)
    assert r2("XRANGE x - +") == [again]


def test_of_several_the_one_that_gave_way_stays_with_the_smallest() -> None:
    nodes = [Node(1), Node(2), Node(3)]
    ids = [append_once(node) for node in nodes]
    nodes[2].pull(nodes[0])
    nodes[2].merge(nodes[1])
    entry_id = next(
        entry_id
        for entry_id, collapsed in nodes[2].replica._state.idempotency.collapsed_of(b"x")
        if collapsed.dot.region == 3
    )
    (collapsed,) = nodes[2].replica.collapsed(b"x", entry_id)
    assert nodes[2]("XRANGE x - +") == [ids[0]]
    assert collapsed.stays.region == 1


def test_a_record_that_the_other_forgot_as_stable_names_nothing_deleted() -> None:
    """Region 2 forgot the record, and then deleted the key; a retry at region 1 is a new entry."""
    r1, r2 = Node(1), Node(2)
    r1.run(ADD)
    r2.pull(r1)
    r2.replica.forget_stable(r2.replica.vv)
    r2.run("DEL x")
    r2.run("XADD x 5 f v")
    r1.merge(r2)
    assert r1("XRANGE x - +") == ["5-0"]
    r1.now += 1
    again = r1.run(ADD)
    assert r1("XRANGE x - +") == ["5-0", again]


def test_a_message_deleted_with_its_key_elsewhere_is_recognised_no_more() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(ADD)
    r2.pull(r1)
    r2.run("DEL x")
    r2.run("XADD x 5 f v")
    r1.merge(r2)
    r1.now += 1
    again = r1.run(ADD)
    assert r1("XRANGE x - +") == ["5-0", again]


# --- The window (C9) ------------------------------------------------------------------------------


def test_a_retry_of_what_came_by_a_state_is_recognised() -> None:
    r1, r2 = Node(1), Node(2)
    first = r1.run(ADD)
    r2.merge(r1)
    assert r2.run(ADD) == first
    assert r2("XLEN x") == 1


def test_a_message_that_came_by_a_state_is_as_old_as_it_is_here() -> None:
    r1, r2 = Node(1, now=1000), Node(2, now=500_000)
    first = r1.run(ADD)
    r2.merge(r1)
    r2.now += 99_000
    assert r2.run(ADD) == first
    r2.now += 1_000
    assert r2.run(ADD) != first


def test_a_window_that_forgot_a_name_takes_it_back_while_the_entry_lives() -> None:
    """All appends of it are causally stable: the other side alone still knows it."""
    r1, r2 = Node(1), Node(2)
    first = r1.run(ADD)
    sync(r1, r2)
    forget_stable(r1, r2)
    stream = r2.replica.stream(b"x")
    assert stream is not None
    assert stream.window is not None
    stream.window.clear()
    r2.merge(r1)
    assert r2.run(ADD) == first


@pytest.mark.parametrize("keeps", [0, 1])
def test_a_name_known_to_one_side_is_forgotten_if_its_entry_is_gone(keeps: int) -> None:
    nodes = [Node(1), Node(2)]
    first = nodes[0].run(ADD)
    sync(*nodes)
    forget_stable(*nodes)
    stream = nodes[1 - keeps].replica.stream(b"x")
    assert stream is not None
    assert stream.window is not None
    stream.window.clear()
    nodes[1 - keeps].run(f"XDEL x {first}")
    nodes[0].merge(nodes[1])
    nodes[0].now += 1
    again = nodes[0].run(ADD)
    assert again != first
    assert nodes[0]("XRANGE x - +") == [again]


def test_a_name_known_to_both_sides_is_recognised_though_its_entry_is_gone() -> None:
    r1, r2 = Node(1), Node(2)
    first = r1.run(ADD)
    sync(r1, r2)
    forget_stable(r1, r2)
    r2.run(f"XDEL x {first}")
    r1.merge(r2)
    assert r1.run(ADD) == first


def test_a_window_keeps_its_bound() -> None:
    r1, r2 = Node(1), Node(2)
    for node in (r1, r2):
        node.replica.keys.idmp_maxsize = 2
    for name in "abc":
        r1.run(f"XADD x IDMP p {name} * f v")
        r2.run(f"XADD x IDMP p {name}{name} * f v")
    r2.merge(r1)
    stream = r2.replica.stream(b"x")
    assert stream is not None
    assert stream.window is not None
    assert stream.window.id_count == 2


def test_a_bound_that_changed_elsewhere_forgets_the_window() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(ADD)
    sync(r1, r2)
    forget_stable(r1, r2)
    r2.run("XCFGSET x IDMP-DURATION 7")
    r1.merge(r2)
    stream = r1.replica.stream(b"x")
    assert stream is not None
    assert stream.window is None or stream.window.id_count == 0


# --- Numbered rows (C8) ---------------------------------------------------------------------------


def rows_of(node: Node) -> int:
    found = node("XLEN x")
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("deleted", [0, 5])
def test_rows_deleted_here_are_not_known_by_an_older_state(deleted: int) -> None:
    """C8: region 1 deletes its row with the key, and takes over an older state: a retry is new.

    So are batches before the one that was deleted.
    """
    r1, r2 = Node(1), Node(2)
    append_rows(r1, deleted, 0, 1)
    r2.pull(r1)
    r1.run("DEL x")
    r1.merge(r2)
    append_rows(r1, 0, 0, 1)
    r1.end_tick()
    assert rows_of(r1) == 1


def test_rows_that_came_by_a_state_are_forgotten_when_they_are_stable_here() -> None:
    r1, r2 = Node(1), Node(2)
    append_rows(r1, 0, 0, 1)
    r1.end_tick()
    forget_stable(r1)
    r2.merge(r1)
    assert r2.replica.idempotency_record_count == 1
    forget_stable(r2)
    assert r2.replica.idempotency_record_count == 0


def test_rows_deleted_elsewhere_are_known_no_more() -> None:
    r1, r2 = Node(1), Node(2)
    append_rows(r1, 0, 0, 1)
    r2.pull(r1)
    r2.run("DEL x")
    r1.merge(r2)
    append_rows(r1, 0, 0, 1)
    r1.end_tick()
    assert rows_of(r1) == 1


@pytest.mark.parametrize("forgets", [0, 1])
def test_stable_rows_stay_known(forgets: int) -> None:
    """C8: one side knows rows as stable: a batch that is written again adds nothing."""
    nodes = [Node(1), Node(2)]
    append_rows(nodes[0], 0, 0, 3)
    sync(*nodes)
    forget_stable(nodes[forgets])
    nodes[0].merge(nodes[1])
    append_rows(nodes[0], 0, 0, 3)
    nodes[0].end_tick()
    assert rows_of(nodes[0]) == 3


def test_stable_rows_are_known_to_an_empty_region() -> None:
    r1, r2 = Node(1), Node(2)
    append_rows(r1, 0, 0, 3)
    r1.end_tick()
    forget_stable(r1)
    r2.merge(r1)
    append_rows(r2, 0, 0, 3)
    r2.end_tick()
    assert rows_of(r2) == 3


def test_stable_rows_deleted_with_the_key_elsewhere_are_known_no_more() -> None:
    r1, r2 = Node(1), Node(2)
    append_rows(r1, 0, 0, 1)
    sync(r1, r2)
    forget_stable(r1, r2)
    r2.run("DEL x")
    r1.merge(r2)
    append_rows(r1, 0, 0, 1)
    r1.end_tick()
    assert rows_of(r1) == 1


def test_the_newest_batch_follows_from_the_rows_that_are_known() -> None:
    """Region 2's batch 3 is over batch 0 by three: batch 0 is refused once region 2 is heard."""
    r1, r2 = Node(1), Node(2)
    append_rows(r1, 0, 0, 1)
    append_rows(r2, 3, 0, 1)
    r1.merge(r2)
    before = rows_of(r1)
    append_rows(r1, 1, 0, 1)
    r1.end_tick()
    assert (before, rows_of(r1)) == (2, 2)


@pytest.mark.parametrize("at", [0, 1])
def test_rows_of_both_sides_are_there_once(at: int) -> None:
    nodes = [Node(1), Node(2)]
    append_rows(nodes[0], 0, 0, 3)
    append_rows(nodes[1], 0, 1, 4)
    for node in nodes:
        node.end_tick()
    nodes[at].merge(nodes[1 - at])
    assert rows_of(nodes[at]) == 5
    nodes[1 - at].merge(nodes[at])
    sync(*nodes)


def test_rows_that_are_stable_elsewhere_are_not_stable_here() -> None:
    """A run that is said to be stable settles nothing: region 3 may still bring the same rows."""
    r1, r2, r3 = Node(1), Node(2), Node(3)
    append_rows(r1, 0, 0, 2)
    r1.end_tick()
    forget_stable(r1)
    append_rows(r3, 0, 0, 2)
    r2.merge(r1)
    r2.pull(r3)
    assert rows_of(r2) == 2
