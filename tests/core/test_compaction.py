"""Compaction: what becomes of small nodes, how often, and where the large ones end."""

from collections.abc import Callable, Iterator

import pytest

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId, make_id
from crdtstream.core.lanes.blocks import LONG, block_of
from crdtstream.core.lanes.bulk_reading import digest_of
from crdtstream.core.lanes.compaction import (
    FULL_BYTES,
    FULL_ENTRIES,
    LOOKED_AT_MAX,
    STRETCH_NODES_MAX,
    Compaction,
    compact,
    small_bytes,
)
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from tests.cold_nodes import freeze, save


def filled(limits: NodeLimits, count: int, *, size: int = 26, first_n: int = 1) -> Lane:
    lane = Lane(RegionId(1), limits)
    append(lane, range(first_n, first_n + count), size)
    return lane


def append(lane: Lane, ns: range, size: int = 26) -> None:
    for n in ns:
        lane.append(make_id(n, 1), n, bytes([n % 251]) * size, Millis(n))


def compact_all(limits: NodeLimits) -> None:
    while compact(limits):
        pass


def entries(lane: Lane) -> Iterator[tuple[int, bytes]]:
    for entry_id, node, index in lane.scan(ID_MIN, ID_MAX):
        yield entry_id, bytes(node.fields_at(index))


@pytest.mark.parametrize("size", [1, 26, 200, LONG - 1, LONG, 1200, 70_000])
def test_large_nodes_end_between_blocks(size: int) -> None:
    limits = NodeLimits()
    lane = filled(limits, 4000 if size < 2000 else 20, size=size, first_n=77)
    before = list(entries(lane))
    digest = digest_of(lane)
    save(limits)
    compact_all(limits)
    assert list(entries(lane)) == before
    assert digest_of(lane) == digest
    nodes = list(lane.macro_nodes())[:-2]
    assert nodes
    for node in nodes:
        after = node.next
        assert after is not None
        assert size >= LONG or block_of(node.last_n) != block_of(after.first_n)
        assert len(node) <= FULL_ENTRIES.value
        assert node.fields_bytes <= max(FULL_BYTES.value, size)
        assert node.fields_bytes > FULL_BYTES.value // 3 or len(node) > FULL_ENTRIES.value // 2


@pytest.mark.parametrize(
    ("nodes", "left"),
    # Each is looked at by itself, and in its stretch.  Three alike are not put together.
    [(1, 8), (3, 27)],
)
def test_a_step_looks_at_few_nodes_though_it_finds_nothing(
    nodes: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOOKED_AT_MAX, "value", 4)
    limits = NodeLimits(entries_max=2)
    for _ in range(10):
        filled(limits, 2 * nodes + 1)
    assert len(limits.small) == 10 * nodes
    assert compact(limits)
    assert len(limits.small) == left


def test_the_digest_of_cold_nodes_needs_no_entries() -> None:
    limits = NodeLimits()
    lane = filled(limits, 4000)
    digest = digest_of(lane)
    save(limits)
    append(lane, range(4001, 4002))
    expected = digest_of(lane)
    save(limits)
    compact_all(limits)
    freeze(limits)
    assert limits.residency.absent_count == lane.macro_node_count
    assert digest_of(lane) == expected != digest
    assert limits.residency.fetched_count == 0


def test_an_entry_is_written_again_a_few_times_at_most() -> None:
    """A cut after every few entries: the worst that can happen to a lane."""
    limits = NodeLimits()
    lane = Lane(RegionId(1), limits)
    written = 0
    count = 12_000
    for first_n in range(1, count, 10):
        append(lane, range(first_n, first_n + 10))
        compact_all(limits)
        cut = limits.changes.cut()
        while (taken := cut.take()) is not None:
            written += len(taken[0])  # type: ignore[arg-type]
        cut.finish()
    assert written < 6 * count
    assert lane.macro_node_count < 30


def test_the_end_of_a_lane_is_left_alone() -> None:
    limits = NodeLimits(entries_max=2)
    lane = filled(limits, 9)
    compact_all(limits)
    tail = lane.tail
    assert tail is not None
    assert [len(node) for node in lane.macro_nodes()] == [8, 1]
    lane.append(make_id(10, 1), 10, b"x", Millis(10))
    assert lane.tail is tail


def test_a_round_ends_though_writers_are_quicker() -> None:
    limits = NodeLimits()
    large = small_bytes() // 2
    lane = filled(limits, 41, size=large)
    begun_with, n = len(limits.small), 41
    compaction = Compaction(limits)
    for _turn in range(begun_with):
        append(lane, range(n + 1, n + 11), large)
        n += 10
        if compaction.go_on(lambda: True):
            break
    else:
        pytest.fail("it has looked at each node that was small, and goes on")
    sizes = [len(node) for node in lane.macro_nodes()]
    assert sizes[0] > 1, "what was there is put together"
    assert sizes[-10:] == [1] * 10, "what came meanwhile is for the next round"
    compact_all(limits)
    assert [one for one, _ in entries(lane)] == [make_id(one, 1) for one in range(1, n + 1)]


def test_a_round_goes_on_until_it_is_to_stop() -> None:
    limits = NodeLimits(entries_max=FULL_ENTRIES.value // 5, bytes_max=0)
    lane = filled(limits, 40 * limits.entries_max + 1)
    compaction = Compaction(limits)
    assert not compaction.go_on(lambda: True)
    assert len(sizes(lane)) > 30
    assert compaction.go_on(lambda: False)
    assert len(sizes(lane)) < 20


def test_a_round_ends_with_the_nodes_that_it_began_with() -> None:
    limits = NodeLimits(entries_max=2)
    lane = filled(limits, 21)
    compaction = Compaction(limits)
    for n in range(1, 21):
        lane.remove(make_id(n, 1), n_max=21)
    assert compaction.go_on(lambda: True)


def test_nothing_is_appended_to_a_merged_node() -> None:
    limits = NodeLimits(entries_max=0, bytes_max=0)
    lane = Lane(RegionId(1), limits)
    for n in range(1, 9):
        append(lane, range(n, n + 1))
        save(limits)
    compact_all(limits)
    append(lane, range(9, 10))
    assert [len(node) for node in lane.macro_nodes()] == [8, 1]
    lane.remove(make_id(9, 1), n_max=9)
    append(lane, range(10, 11))
    assert [len(node) for node in lane.macro_nodes()] == [8, 1]


def arrivals(lane: Lane) -> list[Millis]:
    return [node.columns.arrived_at(index) for _, node, index in lane.scan(ID_MIN, ID_MAX)]


@pytest.mark.parametrize("together", [1, 2, 3, 7, 700])
def test_entries_keep_when_they_came(together: int) -> None:
    """Also at the seams: between the nodes that are put together, and between those they become."""
    limits = NodeLimits(entries_max=10)
    lane = Lane(RegionId(1), limits)
    for n in range(1, 6001):
        lane.append(make_id(n, 1), n, b"x", Millis(1 + n // together))
    before = arrivals(lane)
    compact_all(limits)
    assert 2 < sum(1 for _ in lane.macro_nodes()) < 60
    assert arrivals(lane) == before


def test_a_merged_node_reaches_as_far_as_its_last_one_did() -> None:
    """A lane has no ID below the highest that was ever in it; the same of times of arrival.  And
    its key is still below all that ever came in."""
    limits = NodeLimits(entries_max=2)
    lane = filled(limits, 17)
    lane.remove(make_id(1, 1), n_max=17)
    lane.remove(make_id(16, 1), n_max=17)
    compact_all(limits)
    (merged,) = [node for node in lane.macro_nodes() if node.last_id == make_id(15, 1)]
    assert len(merged) > 2
    assert merged.highest_id == make_id(16, 1)
    assert (merged.first_arrival, merged.last_arrival) == (1, 16)
    assert merged.key_id == make_id(1, 1)


def test_entries_keep_their_dots_though_some_between_are_gone() -> None:
    limits = NodeLimits(entries_max=50)
    lane = filled(limits, 2_000)
    for n in range(5, 2_000, 10):
        lane.remove(make_id(n, 1), n_max=2_000)
    before = dots(lane)
    assert len(before) == 1_800
    compact_all(limits)
    assert dots(lane) == before


def dots(lane: Lane) -> list[int]:
    return [node.columns.n[index] for _, node, index in lane.scan(ID_MIN, ID_MAX)]


def sizes(lane: Lane) -> list[int]:
    return [len(node) for node in lane.macro_nodes()]


# Three nodes of 780 entries: the first 1,345 end with a block, the others end within one.
REST = 191
NODE_ENTRIES = 780


@pytest.mark.parametrize(
    ("behind", "halves"),
    [(NODE_ENTRIES + 1, [498, 497, NODE_ENTRIES, 1]), (1, [995, 1]), (0, [995])],
    ids=["a small node", "an open node", "nothing"],
)
def test_the_rest_of_a_stretch_is_halved_if_it_can_go_with_what_is_behind(
    behind: int, halves: list[int]
) -> None:
    limits = NodeLimits(entries_max=NODE_ENTRIES, bytes_max=0)
    lane = filled(limits, 3 * NODE_ENTRIES + behind, first_n=REST)
    if not behind:
        save(limits)
    compact(limits)
    assert sizes(lane) == [1345, *halves]


def test_large_nodes_of_many_stretches_end_between_blocks() -> None:
    """The rest of each stretch goes with what is behind it."""
    limits = NodeLimits(entries_max=NODE_ENTRIES, bytes_max=0)
    lane = filled(limits, 9 * NODE_ENTRIES + 1, first_n=REST)
    compact_all(limits)
    large = [one for one in lane.macro_nodes() if len(one) >= FULL_ENTRIES.value // 2]
    assert len(large) == 4
    assert all(block_of(one.last_n) != block_of(one.last_n + 1) for one in large)


def test_of_very_many_small_nodes_some_are_put_together_in_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(STRETCH_NODES_MAX, "value", 4)
    limits = NodeLimits(entries_max=2)
    lane = filled(limits, 13)
    assert compact(limits)
    assert sizes(lane) == [8, 2, 2, 1]


def test_a_step_that_leaves_nothing_small_is_the_last_one() -> None:
    limits = NodeLimits(entries_max=FULL_ENTRIES.value // 5, bytes_max=0)
    lane = filled(limits, 4 * limits.entries_max + 1)
    assert not compact(limits)
    assert sizes(lane) == [4 * limits.entries_max, 1]


def test_small_nodes_on_disk_only_are_not_compacted() -> None:
    limits = NodeLimits(entries_max=2)
    lane = filled(limits, 8)
    freeze(limits)
    append(lane, range(9, 18))
    compact_all(limits)
    assert sizes(lane) == [2, 2, 2, 2, 8, 1]
    assert limits.residency.absent_count == 4


def test_a_merged_node_is_restored_as_it_is() -> None:
    limits = NodeLimits(entries_max=2)
    lane = filled(limits, 9)
    compact_all(limits)
    merged = lane.head
    assert merged is not None
    restored = MacroNode.restored(1, merged.encode().head, lane)
    assert (len(restored), restored.added) == (8, 8)


def by_name(lane: Lane, first_n: int, count: int) -> None:
    for n in range(first_n, first_n + count):
        lane.mark_idempotent(make_id(n, 1), n, IdempotentId(b"p", b"%d" % n))


def by_number(lane: Lane, first_n: int, count: int) -> None:
    lane.mark_numbered(first_n, count, Numbered(b"p", 1, first_n))


@pytest.mark.parametrize("mark", [by_name, by_number])
def test_entries_keep_what_their_producers_call_them(
    mark: Callable[[Lane, int, int], None],
) -> None:
    """Also at the seams.  With names, half as many entries are as much work."""
    limits = NodeLimits(entries_max=50)
    lane = Lane(RegionId(1), limits)
    for n in range(1, 5_000, 70):
        append(lane, range(n, n + 70))
        mark(lane, n, 60)
    before = names(lane)
    assert len(set(before)) > 4_000
    compact_all(limits)
    assert names(lane) == before
    assert FULL_ENTRIES.value // 4 < max(sizes(lane)) <= FULL_ENTRIES.value // 2
    for node in lane.macro_nodes():
        # Nothing is kept of entries and rows of other nodes.
        assert set(node.idempotent or ()) <= {*node.n}
        assert all(count > 0 for _, count, _ in node.numbered or [])


def names(lane: Lane) -> list[IdempotentId | None]:
    return [node.columns.idempotent_at(index) for _, node, index in lane.scan(ID_MIN, ID_MAX)]
