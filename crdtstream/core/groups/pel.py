"""The PEL: entries that were delivered here and not acknowledged yet, with whom and since when.

A pending entry (NACK) stands in two lists.  One is its lane's, by ID (``LaneProgress.pel``).  The
other is its consumer's, or, if nobody owns it, the group's:

    lane 1    10-1 ─┐      ┌─ alice    10-1/lane 1
    lane 2    12-2 ─┼──────┼─ bob      12-2/lane 2
    lane 1    14-1 ─┘      └─ unowned  14-1/lane 1

Always so: a NACK stands in the list of its lane and in exactly one of the others.  Whoever changes
either list does it here.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice

from sortedcontainers import SortedDict

from crdtstream.core.effects import Release
from crdtstream.core.groups.idle_order import IdleOrder
from crdtstream.core.groups.progress import Consumer, LaneProgress, Nack, once_more
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId


class Pel:
    """See the module's text.

    Attributes:
        consumers: by name.
        unowned: pending entries that nobody owns, in the order in which they are to be claimed.
        claims_idle: whether somebody ever waited for idle entries (XREADGROUP CLAIM); then it must
            be told when some may be older.
    """

    __slots__ = ("_idle_order", "_lanes", "claims_idle", "consumers", "unowned")

    def __init__(self, lanes: Mapping[RegionId, LaneProgress]) -> None:
        self._lanes = lanes
        self.consumers: SortedDict[bytes, Consumer] = SortedDict()
        self.unowned: OrderedDict[tuple[StreamId, RegionId], Nack] = OrderedDict()
        # Made when somebody first asks for idle entries, None before: other groups do not pay.
        self._idle_order: IdleOrder | None = None
        self.claims_idle = False

    # --- Questions ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(len(progress.pel) for progress in self._lanes.values())

    def __iter__(self) -> Iterator[Nack]:
        """All pending entries, by ID, equal IDs by lane."""
        return self.from_id(ID_MIN)

    def from_id(self, start: StreamId) -> Iterator[Nack]:
        """Pending entries whose ID is not below ``start``, by ID, equal IDs by lane."""
        pels = [progress.pel for progress in self._lanes.values() if progress.pel]
        if len(pels) == 1:
            (pel,) = pels
            return (pel[entry_id] for entry_id in pel.irange(start))
        keys = merge(*(_keys_with_lane(pel, start) for pel in pels))
        return (self._lanes[region].pel[entry_id] for entry_id, region in keys)

    def in_lane(self, region: RegionId, *, above: StreamId, count: int) -> list[Nack]:
        """The next pending entries of one lane, ascending: those whose IDs are above the given."""
        progress = self._lanes.get(region)
        if progress is None:
            return []
        pel = progress.pel
        return [
            pel[entry_id] for entry_id in islice(pel.irange(above, inclusive=(False, False)), count)
        ]

    def longest_idle(self) -> Iterable[Nack]:
        """Pending entries that somebody owns, the longest idle first.

        O(1) to begin, but O(n log n) for n entries where the order was lost (``idle_order.py``).
        """
        if self._idle_order is None or not self._idle_order.is_in_order:
            self._idle_order = IdleOrder(nack for nack in self if nack.consumer is not None)
        return self._idle_order

    # --- Owners -------------------------------------------------------------------------------

    def own(
        self, region: RegionId, entry_id: StreamId, consumer: Consumer, now: Millis, count: int
    ) -> None:
        """An entry is pending with a consumer from now on, whoever had it before."""
        pel = self._lanes[region].pel
        nack = pel.get(entry_id)
        if nack is None:
            pel[entry_id] = nack = Nack(region, entry_id, consumer, now, count)
        else:
            if nack.consumer is not consumer:
                self._disown(nack)
            nack.consumer = consumer
            nack.delivered_ms = now
            nack.delivery_count = count
        consumer.pel[entry_id, region] = nack
        if self._idle_order is not None:
            self._idle_order.place(nack)

    def redeliver(self, ids: Mapping[RegionId, tuple[StreamId, ...]], now: Millis) -> None:
        """History was read again: the count goes up, the idle time to 0."""
        for nack in self._found(ids):
            nack.delivered_ms = now
            nack.delivery_count = once_more(nack.delivery_count)
            if self._idle_order is not None and nack.consumer is not None:
                self._idle_order.place(nack)

    def release(self, change: Release) -> None:
        """XNACK: the entries have no owner any more and wait, in this order, to be claimed.

        One that was not pending (FORCE) is from now on.
        """
        for region, entry_id, count in change.nacks:
            nack = self._lanes[region].pel.get(entry_id)
            if nack is None:
                self.add_unowned(region, entry_id, count)
                continue
            self._disown(nack)
            nack.consumer = None
            nack.delivered_ms = Millis(0)
            nack.delivery_count = count
            self.unowned[entry_id, region] = nack

    def add_unowned(self, region: RegionId, entry_id: StreamId, count: int) -> None:
        """An entry that is not pending here is from now on, owned by nobody."""
        nack = Nack(region, entry_id, None, Millis(0), count)
        self._lanes[region].pel[entry_id] = nack
        self.unowned[entry_id, region] = nack

    def _disown(self, nack: Nack) -> None:
        """Take a NACK out of all lists but the lane's."""
        place = nack.id, nack.lane
        if nack.consumer is None:
            del self.unowned[place]
        else:
            del nack.consumer.pel[place]
            if self._idle_order is not None:
                self._idle_order.forget(nack)

    # --- Ends ---------------------------------------------------------------------------------

    def drop(self, nack: Nack) -> None:
        """An entry is not pending any more."""
        del self._lanes[nack.lane].pel[nack.id]
        self._disown(nack)

    def acknowledge(self, ids: Mapping[RegionId, tuple[StreamId, ...]]) -> None:
        for nack in self._found(ids):
            self.drop(nack)

    def forget(self, region: RegionId, entry_id: StreamId) -> bool:
        """An entry stops being pending, whoever owns it; whether it was."""
        progress = self._lanes.get(region)
        nack = None if progress is None else progress.pel.get(entry_id)
        if nack is None:
            return False
        self.drop(nack)
        return True

    def drop_within(
        self,
        progress: LaneProgress,
        start: StreamId,
        end: StreamId,
        *,
        keep: Mapping[StreamId, int],
    ) -> None:
        """What is pending of a lane in (start, end] was acknowledged elsewhere, but ``keep``."""
        pel = progress.pel
        for entry_id in list(pel.irange(start, end, inclusive=(False, True))):
            if entry_id not in keep:
                self.drop(pel[entry_id])

    def _found(self, ids: Mapping[RegionId, tuple[StreamId, ...]]) -> Iterator[Nack]:
        """Those of the entries that are pending.

        All are, except in a log of format 1, where handovers left other entries pending.
        """
        for region, lane_ids in ids.items():
            progress = self._lanes.get(region)
            if progress is not None:
                for entry_id in lane_ids:
                    nack = progress.pel.get(entry_id)
                    if nack is not None:
                        yield nack

    # --- Consumers ----------------------------------------------------------------------------

    def consumer(self, name: bytes, now: Millis) -> Consumer:
        """The consumer of that name, created if it is new."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = Consumer(name, now)
            self.consumers[name] = consumer
        consumer.seen_ms = max(consumer.seen_ms, now)
        return consumer


def _keys_with_lane(
    pel: "SortedDict[StreamId, Nack]", start: StreamId
) -> Iterator[tuple[StreamId, RegionId]]:
    for entry_id in pel.irange(start):
        yield entry_id, pel[entry_id].lane
