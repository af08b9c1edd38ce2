"""Entries of two states made one: by dot, and a macro node at a time (``rules`` 16)."""

from itertools import product

import pytest

from crdtstream.core.ids import RegionId
from tests.harness.merging import merge_as_by_links
from tests.harness.regions import Node, sync

# How many entries a macro node may have, here and there.
SIZES = list(product((1, 2, 3, 100), repeat=2))


def with_nodes_of(here: int, there: int, count: int = 9) -> tuple[Node, Node]:
    """Region 2 has what region 1 appended."""
    r1, r2 = Node(1), Node(2)
    r1.limit_nodes(there, 4096)
    r2.limit_nodes(here, 4096)
    r1.run(*[f"XADD x {ms} f v{ms}" for ms in range(1, count + 1)])
    r2.pull(r1)
    return r1, r2


def ids(*numbers: int) -> list[str]:
    return [f"{ms}-0" for ms in numbers]


@pytest.mark.parametrize(("here", "there"), SIZES)
def test_entries_removed_in_either_state_are_gone_after_a_merge(here: int, there: int) -> None:
    r1, r2 = with_nodes_of(here, there)
    r1.run("XDEL x 1 4 5")
    r2.run("XDEL x 3 4 9")
    merge_as_by_links(r2, r1)
    assert r2("XRANGE x - +") == ids(2, 6, 7, 8)
    r1.merge(r2)
    assert r1("XRANGE x - +") == ids(2, 6, 7, 8)
    sync(r1, r2)


@pytest.mark.parametrize(("here", "there"), SIZES)
def test_a_macro_node_may_lie_across_what_is_known_here(here: int, there: int) -> None:
    """The entry that was removed stands in the node in which something is new."""
    r1, r2 = with_nodes_of(here, there, count=2)
    r1.run("XDEL x 1", "XADD x 3 f v", "XADD x 4 f v", "XDEL x 3", "XADD x 5 f v")
    merge_as_by_links(r2, r1)
    assert r2("XRANGE x - +") == ids(2, 4, 5)
    sync(r1, r2)


@pytest.mark.parametrize(("here", "there"), SIZES)
def test_entries_appended_since_stay_after_a_merge(here: int, there: int) -> None:
    r1, r2 = with_nodes_of(here, there, count=3)
    r1.run("XADD x 4 f v", "XADD x 5 f v")
    r2.run("XDEL x 2", "XADD x 6-2 f v")
    r1.merge(r2)
    assert r1("XRANGE x - +") == ["1-0", *ids(3, 4, 5), "6-2"]
    r2.merge(r1)
    sync(r1, r2)


@pytest.mark.parametrize("remove", ["DEL x", "XTRIM x MAXLEN 0"])
def test_an_entry_appended_since_all_was_removed_elsewhere_stays(remove: str) -> None:
    r1, r2 = with_nodes_of(2, 2, count=3)
    r2.run(remove)
    r1.run("XADD x 4 f v")
    merge_as_by_links(r1, r2)
    assert r1("XRANGE x - +") == ids(4)


@pytest.mark.parametrize("remove", ["DEL x", "XTRIM x MAXLEN 0", "FLUSHALL"])
def test_a_lane_of_which_the_other_has_nothing_left_is_emptied(remove: str) -> None:
    r1, r2 = with_nodes_of(2, 2)
    r1.run(remove)
    r1.run("XADD z 1 f v")
    r2.run("XADD x 20-2 f v")
    merge_as_by_links(r2, r1)
    assert r2("XRANGE x - +") == ["20-2"]


@pytest.mark.parametrize(("here", "there"), SIZES)
def test_an_id_that_was_appended_again_after_a_delete_is_the_new_entry(
    here: int, there: int
) -> None:
    r1, r2 = with_nodes_of(here, there, count=4)
    r1.run("DEL x", "XADD x 2 f again")
    merge_as_by_links(r2, r1)
    assert r2("XRANGE x - +") == ids(2)
    sync(r1, r2)


def test_a_lower_id_after_a_delete_is_taken_over() -> None:
    r1, r2 = with_nodes_of(2, 2, count=4)
    r1.run("DEL x", "XADD x 1 f again", "XADD x 2 f again")
    r2.run("XADD x 9-2 f v")
    merge_as_by_links(r2, r1)
    assert r2("XRANGE x - +") == [*ids(1, 2), "9-2"]


def test_nodes_that_are_alike_are_not_read() -> None:
    r1, r2 = with_nodes_of(2, 2)
    for node in (r1, r2):
        node.cut()
        node.checkpoints.finish(node.replica)
        node.replica.residency.drop_all()
    r1.run("XADD x 10 f v", "XDEL x 2")
    before = r2.replica.residency.loaded_inline
    r2.merge(r1)
    # The one node in which an entry was removed, on both sides; here again for what its end lacks.
    assert r2.replica.residency.loaded_inline - before == 3
    sync(r1, r2)


@pytest.mark.parametrize("cold", ["here", "there", "both"])
def test_entries_on_disk_are_merged_as_those_in_memory(cold: str) -> None:
    r1, r2 = with_nodes_of(2, 3)
    r1.run("XDEL x 1 4 8", "XADD x 10 f v", "XADD x 11 f v")
    r2.run("XDEL x 5")
    for node, name in ((r1, "there"), (r2, "here")):
        if cold in (name, "both"):
            node.cut()
            node.checkpoints.finish(node.replica)
            node.replica.residency.drop_all()
    merge_as_by_links(r2, r1)
    assert r2("XRANGE x - +") == ids(2, 3, 6, 7, 9, 10, 11)


def test_a_trim_in_the_merged_state_is_a_loss_here() -> None:
    """A cursor that stands before it is told so."""
    r1, r2 = with_nodes_of(2, 2)
    r1.run("XTRIM x MAXLEN 4")
    r2.merge(r1)
    assert r2.replica.keys.lost(b"x") == {1: 5}


def test_a_delete_in_the_merged_state_is_a_loss_here() -> None:
    r1, r2 = with_nodes_of(2, 2)
    r1.run("DEL x")
    r2.merge(r1)
    assert r2.replica.keys.lost(b"x") == {1: 9}
    assert r2.replica.keys.gone() == [b"x"]


def test_of_a_loss_the_higher_one_counts() -> None:
    r1, r2 = with_nodes_of(2, 2)
    r1.run("XTRIM x MAXLEN 4")
    r2.run("XTRIM x MAXLEN 7")
    for node, other in ((r2, r1), (r1, r2)):
        node.merge(other)
        assert node.replica.keys.lost(b"x") == {1: 5}


def test_a_delete_that_the_merged_state_has_forgotten_is_a_loss_here() -> None:
    """It remembers losses of the latest keys only; who has the entries still notes that they go."""
    r1, r2 = with_nodes_of(2, 2)
    r2.run("XADD x 20-2 f v")
    r1.run("DEL x")
    r1.replica._keys._trimmed.take(b"x")
    r1.run("XADD z 1 f v")
    r2.merge(r1)
    assert r2("XRANGE x - +") == ["20-2"]
    assert r2.replica.keys.lost(b"x") == {1: 9}


def test_counters_of_a_lane_do_not_go_back() -> None:
    r1, r2 = with_nodes_of(2, 2)
    r1.run("XADD x 10 f v", "XDEL x 7")
    r2.run("XDEL x 9")
    r2.merge(r1)
    stream = r2.replica.stream(b"x")
    assert stream is not None
    assert stream.lanes[RegionId(1)].entries_added == 10
    assert stream.lanes[RegionId(1)].max_deleted_id == 9 << 64
    r2.merge(r1)
    assert stream.lanes[RegionId(1)].entries_added == 10


def test_counters_of_a_lane_whose_entries_are_gone_are_taken_over() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XDEL x 1 2")
    r2.merge(r1)
    assert r2("XINFO STREAM x") == r1("XINFO STREAM x")


def test_a_key_that_came_to_be_here_alone_is_left_alone() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD y 1 f v")
    r2.run("XADD x 1-2 f v", "XGROUP CREATE x g 0")
    r2.cut()
    r2.checkpoints.finish(r2.replica)
    r2.replica.touched.clear()
    r2.merge(r1)
    assert r2.replica.touched == {b"y"}
    assert r2("XRANGE x - +") == ["1-2"]


def test_a_key_that_both_have_wakes_nobody() -> None:
    r1, r2 = with_nodes_of(2, 2)
    r1.run("XADD y 1 f v")
    r2.replica.touched.clear()
    r2.merge(r1)
    assert r2.replica.touched == {b"y"}


def test_a_chain_of_states_leaves_what_one_state_would_leave() -> None:
    """Region 4 hears of region 1 by the states of regions 2 and 3."""
    r1, r2 = with_nodes_of(2, 2)
    r3, r4 = Node(3), Node(4)
    r1.run("XDEL x 2", "XADD x 10 f v")
    r2.run("XDEL x 5")
    r2.merge(r1)
    r3.run("XADD x 11-3 f v")
    r3.merge(r2)
    r4.merge(r3)
    assert r4("XRANGE x - +") == [*ids(1, 3, 4, 6, 7, 8, 9, 10), "11-3"]
    assert r4.digest == r3.digest


def test_a_restored_region_takes_its_own_effects_over() -> None:
    r1, r2 = with_nodes_of(2, 2)
    r1.run("XDEL x 9", "XADD x 10 f v")
    r2.pull(r1)
    del r1.log[1:]
    r1.restart()
    r1.merge(r2)
    assert r1.replica.vv == r2.replica.vv
    assert r1("XRANGE x - +") == ids(*range(1, 9), 10)
