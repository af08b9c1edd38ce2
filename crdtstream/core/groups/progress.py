"""What only this region knows of a lane in a group: how far it read it, and what is pending."""

from typing import Final

from crdtstream.core.groups.lane_pel import LanePel
from crdtstream.core.ids import ID_MIN, StreamId
from crdtstream.core.intervals import Intervals

# A delivery count is a signed 64-bit number to clients.
DELIVERY_COUNT_MAX: Final = (1 << 63) - 1


class LaneProgress:
    """How far this region has read one lane, and what is pending there; the picture is in
    ``reading.py``.

    Attributes:
        ignore_until: set back by XGROUP SETID: intervals are ignored up to here (``rules`` 11).
        handed_out: stretches outside the run that were handed out here too, holes left out.  What
            is not pending of them was acknowledged.  Delivery skips those that lie ahead, where a
            create with a lower start took the lane back (``rules`` 10).
        has_left_out: something was jumped or given up here while other regions handed out too.  It
            is taken up again should this region hand out after a change of mode (``rules`` 13).
        skip_pending_until: the lane was taken back: up to here what is pending is not delivered
            again, not even where its run was forgotten (XGROUP SETID forward, DELCONSUMER).
        entries_read: Redis's counter, None when unknown.
    """

    __slots__ = (
        "entries_read",
        "handed_out",
        "has_left_out",
        "ignore_until",
        "last_delivered",
        "pel",
        "run_from",
        "skip_pending_until",
    )

    def __init__(self, position: StreamId, entries_read: int | None) -> None:
        self.last_delivered = position
        self.run_from = position
        self.ignore_until = ID_MIN
        self.handed_out = Intervals()
        self.has_left_out = False
        self.skip_pending_until = ID_MIN
        self.entries_read = entries_read
        self.pel = LanePel()

    def jump(self, position: StreamId) -> None:
        """Read on from ``position``.  Within the current run everything stays accounted for."""
        if not self.run_from <= position <= self.last_delivered:
            self.keep_run()
            self.run_from = position
        self.last_delivered = position

    def keep_run(self) -> None:
        """Remember the current run as handed out; another one is to begin."""
        if self.run_from < self.last_delivered:
            self.handed_out.add(self.run_from, self.last_delivered)

    def give_up(self, entry_id: StreamId) -> None:
        """A pending entry is nobody's any more: it leaves a hole in what was handed out here."""
        if self.run_from < entry_id <= self.last_delivered:
            self.handed_out.add(self.run_from, entry_id)
            self.run_from = entry_id
        self.handed_out.remove(StreamId(entry_id - 1), entry_id)

    def was_handed_out(self, first: StreamId, last: StreamId) -> bool:
        """Whether everything from ``first`` to ``last`` lies in one stretch handed out here."""
        return (
            self.run_from < first and last <= self.last_delivered
        ) or self.handed_out.contains_all(first, last)


def once_more(delivery_count: int) -> int:
    """The delivery count after another delivery; it ends where XNACK FATAL puts it."""
    return min(delivery_count + 1, DELIVERY_COUNT_MAX)
