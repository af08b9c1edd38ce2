"""Acknowledged intervals of one lane: disjoint, ascending, adjacent ones joined.

An interval ``(from, to]`` says that every entry of the lane with ``from < ID <= to`` was
acknowledged, or deleted, in the region that issued it (``AckFrontier``).  In the usual case there
is one, beginning at the group's start; its end is the frontier.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from crdtstream.core.ids import ID_MIN, StreamId


class Intervals:
    """A union of half-open intervals.  Every question is O(log intervals)."""

    __slots__ = ("_froms", "_tos")

    def __init__(self) -> None:
        self._froms: list[StreamId] = []
        self._tos: list[StreamId] = []

    def __iter__(self) -> Iterator[tuple[StreamId, StreamId]]:
        return zip(self._froms, self._tos, strict=True)

    def __bool__(self) -> bool:
        return bool(self._froms)

    @property
    def end(self) -> StreamId:
        """The end of the last interval, 0-0 without one."""
        return self._tos[-1] if self._tos else ID_MIN

    def run_end(self, position: StreamId) -> StreamId:
        """How far the entries behind ``position`` are acknowledged without a gap."""
        at = bisect_right(self._froms, position) - 1
        return max(position, self._tos[at]) if at >= 0 else position

    def contains(self, entry_id: StreamId) -> bool:
        return self.contains_all(entry_id, entry_id)

    def contains_all(self, first: StreamId, last: StreamId) -> bool:
        """Whether one interval has everything from ``first`` to ``last``, both included."""
        at = bisect_left(self._tos, last)
        return at < len(self._tos) and self._froms[at] < first

    def next_after(self, position: StreamId) -> tuple[StreamId, StreamId] | None:
        """The first interval that ends beyond ``position``."""
        at = bisect_right(self._tos, position)
        return None if at == len(self._tos) else (self._froms[at], self._tos[at])

    def remove(self, start: StreamId, end: StreamId) -> None:
        """Take ``(start, end]`` out; an interval that reaches over both of its ends becomes two."""
        first = bisect_right(self._tos, start)
        stop = bisect_left(self._froms, end)
        if first >= stop:
            return
        left = [(self._froms[first], start)] if self._froms[first] < start else []
        right = [(end, self._tos[stop - 1])] if self._tos[stop - 1] > end else []
        kept = left + right
        self._froms[first:stop] = [low for low, _ in kept]
        self._tos[first:stop] = [high for _, high in kept]

    def add(self, start: StreamId, end: StreamId) -> list[tuple[StreamId, StreamId]]:
        """Unite with ``(start, end]`` and return the parts of it that were new, ascending."""
        first = bisect_left(self._tos, start)  # touches (start: joined too
        stop = bisect_right(self._froms, end)
        fresh = []
        position = start
        for at in range(first, stop):
            if self._froms[at] > position:
                fresh.append((position, self._froms[at]))
            position = max(position, self._tos[at])
        if position < end:
            fresh.append((position, end))
        if first < stop:
            start = min(start, self._froms[first])
            end = max(end, self._tos[stop - 1])
        self._froms[first:stop] = [start]
        self._tos[first:stop] = [end]
        return fresh
