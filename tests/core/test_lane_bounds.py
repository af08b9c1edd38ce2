"""Lanes where macro nodes meet: the last entry of one, the first of the next, equal milliseconds.

What Hypothesis finds in ``test_lane.py`` by chance, here for certain.
"""

import random
from array import array

import pytest

from crdtstream.core.ids import U64_MAX, Millis, RegionId, StreamId, make_id
from crdtstream.core.lanes import chain
from crdtstream.core.lanes.compaction import compact
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.slices import Within

# Two entries a node: 1-1 1-2 | 1-3 2-1 | 3-1, with dot numbers 1, 3, 5, 7, 9.
IDS = [make_id(1, 1), make_id(1, 2), make_id(1, 3), make_id(2, 1), make_id(3, 1)]
NS = [1, 3, 5, 7, 9]


@pytest.fixture
def lane() -> Lane:
    lane = Lane(RegionId(1), NodeLimits(entries_max=2))
    for entry_id, n in zip(IDS, NS, strict=True):
        lane.append(entry_id, n, b"x", Millis(0))
    return lane


def test_nodes_are_full_and_no_fuller(lane: Lane) -> None:
    assert [len(node) for node in lane.macro_nodes()] == [2, 2, 1]


@pytest.mark.parametrize(
    ("entries_max", "bytes_max", "filled"),
    [
        (3, 0, [3, 2]),
        (0, 6, [2, 1, 2]),
        (0, 5, [1, 1, 1, 1, 1]),
        (0, 2, [1, 1, 1, 1, 1]),
        (0, 0, [5]),
        (1, 100, [1, 1, 1, 1, 1]),
    ],
)
def test_a_node_is_closed_when_it_is_full(
    entries_max: int, bytes_max: int, filled: list[int]
) -> None:
    """By whichever is full first; an entry that is too large by itself has a node of its own."""
    lane = Lane(RegionId(1), NodeLimits(entries_max=entries_max, bytes_max=bytes_max))
    for entry_id, n, size in zip(IDS, NS, (3, 3, 5, 3, 3), strict=True):
        lane.append(entry_id, n, b"x" * size, Millis(0))
    assert [len(node) for node in lane.macro_nodes()] == filled


@pytest.mark.parametrize("is_run", [False, True])
def test_a_cut_closes_the_last_node(is_run: bool) -> None:
    limits = NodeLimits()
    lane = Lane(RegionId(1), limits)
    lane.append(IDS[0], NS[0], b"x", Millis(0))
    limits.changes.cut().abandon()
    if is_run:
        one = array("Q", [1])
        run = EntryRun(one, array("Q", [2]), array("I", [1]), b"x")
        lane.extend(run, first_n=3, now=Millis(0))
    else:
        lane.append(IDS[1], NS[1], b"x", Millis(0))
    assert [len(node) for node in lane.macro_nodes()] == [1, 1]


@pytest.mark.parametrize("at", range(5))
def test_every_entry_is_found_and_its_neighbours_are_told(lane: Lane, at: int) -> None:
    found = lane.find(IDS[at])
    assert found is not None
    node, index = found
    assert (node.id_at(index), node.n[index]) == (IDS[at], NS[at])
    assert lane.predecessor(IDS[at]) == (IDS[at - 1] if at else 0)
    assert lane.count_above(IDS[at]) == 4 - at


@pytest.mark.parametrize("above_n", range(10))
def test_a_scan_beyond_a_dot_begins_with_the_very_next_entry(lane: Lane, above_n: int) -> None:
    beyond = [n for n in NS if n > above_n]
    assert [node.n[index] for _, node, index in lane.scan_dots(above_n)] == beyond
    slices = lane.slices(Within(above_n), entries_max=10)
    assert [n for node, start, stop in slices for n in node.n[start:stop]] == beyond


@pytest.mark.parametrize("at", range(5))
def test_a_prefix_ends_at_its_id_and_at_its_dot(lane: Lane, at: int) -> None:
    assert lane.remove_prefix(up_to=IDS[at], n_max=NS[at] - 1) == (NS[at - 1] if at else 0)
    assert lane.first_id == IDS[at]
    assert lane.remove_prefix(up_to=IDS[at], n_max=NS[at]) == NS[at]
    assert lane.length == 4 - at


@pytest.mark.parametrize("at", range(5))
def test_an_entry_goes_from_its_dot_on(lane: Lane, at: int) -> None:
    assert lane.remove(IDS[at], n_max=NS[at] - 1) == 0
    assert lane.length == 5
    assert lane.remove(IDS[at], n_max=NS[at]) == NS[at]
    assert lane.find(IDS[at]) is None


@pytest.mark.pure
@pytest.mark.parametrize("seed", range(20))
def test_entries_above_are_counted_by_segments(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain.SEGMENT_NODES, "value", 2)
    drawn = random.Random(seed)
    limits = NodeLimits(entries_max=2)
    lane = Lane(RegionId(1), limits)
    ids: list[StreamId] = []
    n = 0
    for _ in range(120):
        what = drawn.random()
        if what < 0.5:
            for _ in range(drawn.randrange(1, 8)):
                n += 1
                ids.append(StreamId(ids[-1] + 1 if ids else make_id(drawn.randrange(1, 9), 1)))
                lane.append(ids[-1], n, b"x", Millis(0))
        elif what < 0.8 and ids:
            # Also the last one, and so on to the empty lane.
            at = drawn.choice([drawn.randrange(len(ids)), len(ids) - 1])
            assert lane.remove(ids.pop(at), n_max=U64_MAX)
        elif what < 0.9 and ids:
            at = drawn.randrange(min(10, len(ids)))
            lane.remove_prefix(up_to=ids[at], n_max=U64_MAX)
            del ids[: at + 1]
        else:
            limits.changes.cut().abandon()
            while compact(limits):
                pass
        for at, entry_id in enumerate(ids):
            assert lane.count_above(entry_id) == len(ids) - at - 1
            assert lane.count_above(StreamId(entry_id - 1)) == len(ids) - at
