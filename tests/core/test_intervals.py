"""A union of intervals equals the set of its points."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.ids import StreamId
from crdtstream.core.intervals import Intervals

SPANS = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda ab: (ab[0], ab[0] + ab[1]))


def points(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {point for start, end in spans for point in range(start + 1, end + 1)}


@given(
    st.lists(SPANS, max_size=8),
    SPANS,
    st.integers(0, 40),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_intervals_equal_a_set_of_points(
    spans: list[tuple[int, int]],
    more: tuple[int, int],
    position: int,
    removed: tuple[int, int],
) -> None:
    intervals = Intervals()
    known: set[int] = set()
    for start, end in [*spans, more]:
        fresh = intervals.add(StreamId(start), StreamId(end))
        assert points(fresh) == points([(start, end)]) - known
        known |= points([(start, end)])
    assert points(list(intervals)) == known
    assert intervals.contains(StreamId(position)) == (position in known)
    listed = list(intervals)
    assert all(a[1] < b[0] for a, b in pairwise(listed)), "joined"

    end = position
    while end + 1 in known:
        end += 1
    assert intervals.run_end(StreamId(position)) == end
    following = intervals.next_after(StreamId(position))
    assert (following is None) == (max(known) <= position)
    assert following is None or following[1] > position

    assert (
        intervals.behind(StreamId(position), 2) == [one for one in listed if one[1] > position][:2]
    )

    low, high = sorted(removed)
    everything = set(range(low + 1, high + 1))
    is_whole = any(start <= low and high <= end for start, end in listed)
    if low < high:
        assert intervals.contains_all(StreamId(low + 1), StreamId(high)) == is_whole
        intervals.remove(StreamId(low), StreamId(high))
    assert points(list(intervals)) == known - everything
    assert all(start < end for start, end in intervals)
