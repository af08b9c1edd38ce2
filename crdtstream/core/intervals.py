"""Acknowledged intervals of one lane: disjoint, ascending, adjacent ones joined.

An interval ``(from, to]`` says that every entry of the lane with ``from < ID <= to`` was
acknowledged, or deleted, in the region that issued it (``AckFrontier``).  In the usual case there
is one, beginning at the group's start; its end is the frontier.
"""

from bisect import bisect_left

from crdtstream.core.ids import ID_MIN, StreamId
from crdtstream.core.ranges import Ranges


class Intervals(Ranges[StreamId]):
    """A union of intervals of IDs."""

    __slots__ = ()

    @property
    def end(self) -> StreamId:
        """The end of the last interval, 0-0 without one."""
        return self._tos[-1] if self._tos else ID_MIN

    def contains(self, entry_id: StreamId) -> bool:
        return self.contains_all(entry_id, entry_id)

    def contains_all(self, first: StreamId, last: StreamId) -> bool:
        """True if one interval has everything from ``first`` to ``last``, both included."""
        assert first <= last
        at = bisect_left(self._tos, last)
        return at < len(self._tos) and self._froms[at] < first
