"""A union of half-open ranges of numbers: apart, ascending, those that touch joined.

    add 0..4, 6..9         [0 4)  [6 9)
    add 4..5               [0   5)[6 9)       touches the first: one range
    add 5..6               [0      9)         touches both
    missing 7..12          [9 12)

Whether the numbers of a range include its first or its last one is for its user to say: the
arithmetic is the same.  Entries' IDs are ``(from, to]`` (``intervals.py``), rows of a numbered
producer ``[start, stop)``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

N = TypeVar("N", bound=int)


class Ranges(Generic[N]):
    """The union.  Every question is O(log ranges)."""

    __slots__ = ("_froms", "_tos")

    def __init__(self) -> None:
        self._froms: list[N] = []
        self._tos: list[N] = []

    def __iter__(self) -> Iterator[tuple[N, N]]:
        return zip(self._froms, self._tos, strict=True)

    def __bool__(self) -> bool:
        return bool(self._froms)

    def run_end(self, position: N) -> N:
        """End of the range that ``position`` is in; ``position`` itself if there is none."""
        at = bisect_right(self._froms, position) - 1
        return max(position, self._tos[at]) if at >= 0 else position

    def next_after(self, position: N) -> tuple[N, N] | None:
        """The first range that ends beyond ``position``."""
        at = bisect_right(self._tos, position)
        return None if at == len(self._tos) else (self._froms[at], self._tos[at])

    def behind(self, position: N, count: int) -> list[tuple[N, N]]:
        """As ``next_after``, the first ``count`` of them."""
        at = bisect_right(self._tos, position)
        stop = at + count
        return list(zip(self._froms[at:stop], self._tos[at:stop], strict=True))

    def within(self, start: N, end: N) -> Iterator[tuple[N, N]]:
        """The ranges that have something in common with one, ascending."""
        first, stop = bisect_right(self._tos, start), bisect_left(self._froms, end)
        return zip(self._froms[first:stop], self._tos[first:stop], strict=True)

    def missing(self, start: N, end: N) -> list[tuple[N, N]]:
        """The parts of a range that are in none, ascending."""
        assert start <= end, "it ends before it begins"
        left = []
        position = start
        for at in range(bisect_right(self._tos, start), bisect_left(self._froms, end)):
            if self._froms[at] > position:
                left.append((position, self._froms[at]))
            position = self._tos[at]
        if position < end:
            left.append((position, end))
        return left

    def add(self, start: N, end: N) -> list[tuple[N, N]]:
        """Unite with one more range; returns the parts of it that were new, ascending."""
        assert start < end, "an empty range"
        fresh = self.missing(start, end)
        # What only touches is joined, too.
        first = bisect_left(self._tos, start)
        stop = bisect_right(self._froms, end)
        if first < stop:
            start = min(start, self._froms[first])
            end = max(end, self._tos[stop - 1])
        self._froms[first:stop] = [start]
        self._tos[first:stop] = [end]
        assert not first or self._tos[first - 1] < start, "it touches the one before"
        assert first + 1 == len(self._froms) or end < self._froms[first + 1], "or the one behind"
        return fresh

    def remove(self, start: N, end: N) -> None:
        """Take a range out; one that reaches over both of its ends becomes two."""
        assert start < end, "an empty range"
        first = bisect_right(self._tos, start)
        stop = bisect_left(self._froms, end)
        if first >= stop:
            return
        left = [(self._froms[first], start)] if self._froms[first] < start else []
        right = [(end, self._tos[stop - 1])] if self._tos[stop - 1] > end else []
        kept = left + right
        self._froms[first:stop] = [low for low, _ in kept]
        self._tos[first:stop] = [high for _, high in kept]
        assert len(self._froms) == len(self._tos)
