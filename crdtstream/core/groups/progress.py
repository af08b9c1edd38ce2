"""What only this region knows of a group: how far it read each lane, and what is pending with whom.

A pending entry (NACK) stands in two lists: in that of its lane by ID, and in that of its consumer,
or, if nobody owns it, of the group (``pel.py`` keeps the lists in step).
"""

from typing import Final

from sortedcontainers import SortedDict

from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.intervals import Intervals

# A delivery count is a signed 64-bit number to clients.
DELIVERY_COUNT_MAX: Final = (1 << 63) - 1


class Nack:
    """One delivered, not yet acknowledged entry.

    Attributes:
        consumer: None when nobody owns it: given back (XNACK), or taken over from another region.
    """

    __slots__ = ("consumer", "delivered_ms", "delivery_count", "id", "lane")

    def __init__(
        self,
        lane: RegionId,
        entry_id: StreamId,
        consumer: "Consumer | None",
        now: Millis,
        count: int,
    ) -> None:
        self.lane = lane
        self.id = entry_id
        self.consumer = consumer
        self.delivered_ms = now
        self.delivery_count = count


class Consumer:
    """A member of the group in this region.

    Attributes:
        seen_ms: last attempt (not logged by itself: an idle poll costs no disk write).
        active_ms: last time it got something, None before that.
        pel: its pending entries by (ID, lane): the order in which history is read.
    """

    __slots__ = ("active_ms", "name", "pel", "seen_ms")

    def __init__(self, name: bytes, now: Millis) -> None:
        self.name = name
        self.seen_ms = now
        self.active_ms: Millis | None = None
        self.pel: SortedDict[tuple[StreamId, RegionId], Nack] = SortedDict()


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
        self.pel: SortedDict[StreamId, Nack] = SortedDict()

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
