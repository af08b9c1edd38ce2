"""A state that was taken over, in memory and on disk: macro nodes, checkpoints, restarts."""

import pytest

from crdtstream.core.checkpoint.parts import STAGED
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.macro_node import MacroNode, State
from tests.harness.regions import Node, sync


def taken_over(count: int = 6) -> tuple[Node, Node]:
    """Region 2 has region 1's lane, in nodes of two entries, by its state."""
    r1, r2 = Node(1), Node(2, now=5000)
    for node in (r1, r2):
        node.limit_nodes(2, 4096)
    for ms in range(1, count + 1):
        r1.run(f"XADD x {ms} f v{ms}")
    r2.merge(r1)
    return r1, r2


def nodes_of(node: Node) -> list[MacroNode]:
    stream = node.replica.stream(b"x")
    assert stream is not None
    return list(stream.lanes[RegionId(1)].macro_nodes())


def checkpoint(node: Node) -> None:
    node.cut()
    node.checkpoints.finish(node.replica)


def all_ids(count: int = 6) -> list[str]:
    return [f"{ms}-0" for ms in range(1, count + 1)]


def test_macro_nodes_are_taken_over_without_being_read() -> None:
    _, r2 = taken_over()
    nodes = nodes_of(r2)
    assert [node.is_absent for node in nodes] == [True] * 3
    assert all(node.image >= STAGED for node in nodes)
    assert r2.replica.residency.loaded_inline == 0


def test_all_entries_arrive_when_the_state_is_merged() -> None:
    _, r2 = taken_over()
    for node in nodes_of(r2):
        assert [node.arrived_at(at) for at in range(len(node))] == [5000, 5000]


def test_a_node_that_was_taken_over_and_read_leaves_memory_and_is_read_again() -> None:
    r1, r2 = taken_over()
    for _ in range(2):
        assert r2("XRANGE x - +") == all_ids()
        r2.replica.residency.drop_all()
        assert {node.counted_as for node in nodes_of(r2)} == {State.ABSENT}
    sync(r1, r2)


def test_a_node_that_was_read_stays_in_memory_until_its_own_image_can_be_read() -> None:
    """It is encoded as it is now, and not as it came."""
    _, r2 = taken_over()
    assert r2("XRANGE x - +") == all_ids()
    r2.cut()
    r2.checkpoints.write(99)
    r2.replica.residency.drop_all()
    assert {node.counted_as for node in nodes_of(r2)} == {State.WARM}
    r2.checkpoints.finish(r2.replica)
    r2.replica.residency.drop_all()
    assert {node.counted_as for node in nodes_of(r2)} == {State.ABSENT}
    assert r2("XRANGE x - +") == all_ids()


@pytest.mark.parametrize("reads", ["before", "while it is written", "not"])
def test_a_checkpoint_has_what_was_taken_over(reads: str) -> None:
    r1, r2 = taken_over()
    if reads == "before":
        r2("XRANGE x - +")
    r2.cut()
    r2.checkpoints.write(4)
    if reads == "while it is written":
        r2("XRANGE x - +")
    r2.checkpoints.finish(r2.replica)
    r2.checkpoints.staged.clear()
    for _ in range(2):
        assert r2("XRANGE x - +") == all_ids()
        r2.replica.residency.drop_all()
    r2.restart()
    for _ in range(2):
        assert r2("XRANGE x - +") == all_ids()
        r2.replica.residency.drop_all()
    assert all(node.arrived_at(1) == 5000 for node in nodes_of(r2))
    sync(r1, r2)


def test_a_checkpoint_that_is_abandoned_leaves_what_was_taken_over() -> None:
    r1, r2 = taken_over()
    r2("XRANGE x - 3")
    r2.cut()
    r2.checkpoints.write(99)
    r2.checkpoints.abandon()
    r2.replica.residency.drop_all()
    assert r2("XRANGE x - +") == all_ids()
    checkpoint(r2)
    r2.restart()
    assert r2("XRANGE x - +") == all_ids()
    sync(r1, r2)


def test_a_node_that_is_read_during_a_checkpoint_that_is_abandoned_leaves_as_it_came() -> None:
    """Its image is that of the staging again, whose body has the times of the other region."""
    _, r2 = taken_over()
    r2.cut()
    r2.checkpoints.write(99)
    assert r2("XRANGE x - +") == all_ids()
    r2.checkpoints.abandon()
    r2.replica.residency.drop_all()
    assert {node.counted_as for node in nodes_of(r2)} == {State.ABSENT}
    assert r2("XRANGE x - +") == all_ids()
    assert all(node.arrived_at(1) == 5000 for node in nodes_of(r2))
    checkpoint(r2)
    r2.restart()
    assert r2("XRANGE x - +") == all_ids()


def test_a_state_merged_during_a_cut_is_not_in_that_checkpoint() -> None:
    """The images are held against what there was at the cut; a restart merges again."""
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XDEL x 1")
    r2.pull(r1)
    r2.run("XADD x 3-1 f v", "XGROUP CREATE x g 0", "XADD y 1 f v")
    r2.cut()
    r1.run("XADD x 4 f v", "XDEL x 2", "SET y v", "XGROUP CREATE x h 0")
    r2.merge(r1)
    digest = r2.digest
    r2.checkpoints.finish(r2.replica)
    r2.restart()
    assert r2.digest == digest
    sync(r1, r2)


def test_a_node_that_was_taken_over_can_be_changed() -> None:
    r1, r2 = taken_over()
    r2.run("XDEL x 2 3")
    checkpoint(r2)
    r2.replica.residency.drop_all()
    r2.restart()
    assert r2("XRANGE x - +") == ["1-0", "4-0", "5-0", "6-0"]
    sync(r1, r2)


def test_a_merge_is_replayed_as_it_was() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XGROUP CREATE x g 0")
    r2.run("XADD x 2-1 f v", "XGROUP CREATE x g $", "XREADGROUP GROUP g c STREAMS x >")
    r2.merge(r1)
    r2.run("XREADGROUP GROUP g c STREAMS x >", "XADD x 3-1 f v")
    before = r2.digest, r2("XPENDING x g - + 9")
    r2.restart()
    assert (r2.digest, r2("XPENDING x g - + 9")) == before
    sync(r1, r2)


def test_a_region_that_lost_effects_of_its_own_goes_on_behind_them() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    r2.pull(r1)
    r1.log.clear()
    r1.restart()
    r1.merge(r2)
    assert r1.replica.issued == 2
    r1.run("XADD x 3 f v")
    assert r1.replica.issued == 3
    r2.pull(r1)
    assert r2("XRANGE x - +") == all_ids(3)


def test_a_merge_of_what_is_had_changes_nothing() -> None:
    r1, r2 = taken_over()
    checkpoint(r2)
    before = r2.digest
    r2.merge(r1)
    assert r2.digest == before
    r2.cut()
    # The root alone.
    assert r2.checkpoints.left == 1
