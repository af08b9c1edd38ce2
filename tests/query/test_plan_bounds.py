"""Plans where ranges meet: no dot is in two of them and none in no range (I14).

What Hypothesis finds in ``test_planning.py`` by chance, here for certain.
"""

import pytest

from crdtstream.core.clock import MutableVersionVector
from crdtstream.core.ids import RegionId
from crdtstream.query import planning
from crdtstream.query.planning import Bounds, LaneCount, Range, Steps
from tests.harness.regions import Node

R1 = RegionId(1)


def done(steps: Steps) -> None:
    for _ in steps:
        pass


@pytest.fixture
def ten() -> Node:
    """Ten entries, three to a macro node."""
    node = Node(1)
    node.replica.node_limits.entries_max = 3
    node.run(*[f"XADD a {ms} f v" for ms in range(1, 11)])
    return node


def counted(node: Node, bounds: Bounds) -> list[LaneCount]:
    counts: list[LaneCount] = []
    done(planning.count(node.replica, bounds, counts))
    return counts


def bounds_above(n: int) -> Bounds:
    above = {R1: n} if n else {}
    return Bounds([b"a"], above, {R1: 10}, frozenset())


@pytest.mark.parametrize("above_n", range(10))
@pytest.mark.parametrize("range_entries", [1, 3, 4, 100])
def test_a_range_begins_where_the_one_before_ends(
    ten: Node, above_n: int, range_entries: int
) -> None:
    bounds = bounds_above(above_n)
    ranges: list[Range] = []
    done(planning.cut(counted(ten, bounds), bounds, range_entries=range_entries, into=ranges))
    ends = [one.upto_n for one in ranges]
    assert [one.above_n for one in ranges] == [above_n, *ends[:-1]]
    assert ends[-1] == 10
    assert [one.entries for one in ranges] == [one.upto_n - one.above_n for one in ranges]


@pytest.mark.parametrize("above_n", [0, 2, 3])
@pytest.mark.parametrize("entries_max", [1, 2, 3, 4, 6, 7])
def test_an_end_is_just_before_the_first_entry_too_many(
    ten: Node, above_n: int, entries_max: int
) -> None:
    bounds = bounds_above(above_n)
    end: MutableVersionVector = {}
    counts = counted(ten, bounds)
    done(planning.end_after(ten.replica, bounds, counts, entries_max=entries_max, into=end))
    assert end == {R1: above_n + entries_max}
