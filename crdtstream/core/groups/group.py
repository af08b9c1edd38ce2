"""A consumer group: what is replicated of it, and what only this region knows.

    creates   replicated: the live creates with their starts, acknowledged intervals and modes
    reading   local: how far each lane was read here, and what is not to be delivered
    pel       local: pending entries and their consumers

The group exists while it has a live create.  An effect changes ``creates`` and then what follows
from it here; a local change changes ``reading`` and ``pel`` alone.

What this region may tell the others of a lane is (run_from, just before the first pending], at most
up to last-delivered: ``vouched_for``; the picture is in ``reading.py``.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping

from sortedcontainers import SortedDict

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.effects import Claim, Deliver, LaneHandover, Mode, Release, SetGroupMode
from crdtstream.core.groups import takeover
from crdtstream.core.groups.creates import Creates, Start
from crdtstream.core.groups.entries_read import entries_read_after
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.progress import Consumer, LaneProgress, Nack
from crdtstream.core.groups.reading import Reading
from crdtstream.core.groups.undelivered import undelivered, undelivered_count
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.lanes.lane import Found, Lane, LastId


class Group:
    """See the module's text.

    Attributes:
        creates: what is replicated.
        lanes: by lane how far it was read here; lanes not read yet are not in it.
        consumers: by name.
        unowned: pending entries that nobody owns, in the order in which they are to be claimed.
    """

    __slots__ = ("_here", "_pel", "_reading", "consumers", "creates", "lanes", "unowned")

    def __init__(self, here: RegionId) -> None:
        self._here = here
        self.creates = Creates()
        self._reading = Reading(here, self.creates)
        self.lanes: dict[RegionId, LaneProgress] = self._reading.lanes
        self._pel = Pel(self.lanes)
        self.consumers: SortedDict[bytes, Consumer] = self._pel.consumers
        self.unowned: OrderedDict[tuple[StreamId, RegionId], Nack] = self._pel.unowned

    # --- Replicated ---------------------------------------------------------------------------

    @property
    def mode(self) -> ModeRegister:
        """Who hands out new entries."""
        return self.creates.mode

    @property
    def intervals(self) -> Mapping[RegionId, Intervals]:
        """Per lane what was acknowledged."""
        return self.creates.intervals

    def start_of(self, region: RegionId) -> StreamId:
        """Where the group begins in a lane; 0-0 before any create."""
        return self.creates.start_of(region)

    def frontier(self, region: RegionId) -> StreamId:
        """The end of the acknowledged run that begins at the start."""
        return self.creates.frontier(region)

    def add_create(
        self, dot: Dot, start: Start, entries_read: int | None, lanes: Collection[RegionId]
    ) -> None:
        """A create came.  The start becomes the pointwise minimum over all live creates."""
        before = {region: self.start_of(region) for region in self.lanes}
        if not self.creates:
            self._reading.take_read_hint(entries_read, lanes)
        self.creates.add(dot, start)
        for region, old_start in before.items():
            new_start = self.start_of(region)
            if new_start < old_start:
                self._reading.go_back(region, new_start)

    def drop_creates(self, context: VersionVector) -> None:
        """End the creates that the context covers; without any the group is to go."""
        self.creates.drop_covered_by(context)
        if self.creates:
            # The mode may have gone with them.
            takeover.settle_who_hands_out(self._reading)

    def unite(
        self,
        region: RegionId,
        start: StreamId,
        end: StreamId,
        context: VersionVector,
        lane: Lane | None,
        last_ids: Mapping[RegionId, LastId],
    ) -> None:
        """An AckFrontier's interval: what it newly covers is no longer pending or to be read."""
        fresh = self.creates.unite(region, start, end, context)
        progress = self._reading.keep(region)
        for low, high in fresh:
            self._pel.drop_within(progress, low, high, keep={})
        self._reading.skip_and_count(region, progress, lane, last_ids)

    def set_mode(self, effect: SetGroupMode, issuer: RegionId, context: VersionVector) -> None:
        """A SetGroupMode, whether it wins or not."""
        takeover.change_mode(self._reading, self._pel, effect, issuer, context)

    # --- What the other regions are told ------------------------------------------------------

    def handover(self, lanes: Iterable[RegionId]) -> dict[RegionId, LaneHandover]:
        """What the new home must know of each lane; see LaneHandover."""
        return {
            region: takeover.handover_of(self.progress(region))
            for region in sorted({*lanes, *self.lanes})
        }

    def may_vouch_for(self, lane: RegionId) -> bool:
        """Partitioned, only a lane's own region tells what was acknowledged of it."""
        return self.mode.mode is not Mode.PARTITIONED or lane == self._here

    def vouched_for(self, region: RegionId, lane: Lane | None) -> tuple[StreamId, StreamId] | None:
        """The interval of a lane that this region can vouch for now, if it is not known already."""
        progress = self.lanes.get(region)
        if progress is None:
            return None
        start = progress.run_from
        end = progress.last_delivered
        # What is pending inside a known interval was taken up again here (XCLAIM FORCE, SETID); it
        # was acknowledged once, and does not hold back what follows.
        acknowledged = self.creates.intervals_of(region).run_end(start)
        pel = progress.pel
        at = pel.bisect_right(acknowledged)
        if at < len(pel):
            first_pending = pel.keys()[at]
            if first_pending <= end:
                end = ID_MIN if lane is None else lane.predecessor(first_pending)
        return (start, end) if end > acknowledged else None

    # --- Positions ----------------------------------------------------------------------------

    def progress(self, region: RegionId) -> LaneProgress:
        """How far this region has read a lane; where it would begin, if it has not yet.

        Asking leaves no trace.
        """
        return self._reading.progress(region)

    def last_delivered_id(self, lanes: Iterable[RegionId]) -> StreamId:
        """What XINFO shows: the maximum over the lanes, and over the start of lanes to come."""
        return self._reading.last_delivered_id(lanes)

    def entries_read(self, lanes: Collection[RegionId]) -> int | None:
        """Redis's entries-read, summed over the lanes; None if one lane's is unknown."""
        return self._reading.entries_read(lanes)

    def undelivered(self, lanes: Iterable[Lane]) -> Iterator[Found]:
        """What ``>`` hands out next: beyond last-delivered in every lane, merged by ID."""
        return undelivered(self._reading, lanes)

    def undelivered_count(self, lanes: Iterable[Lane]) -> int:
        """How many entries ``undelivered`` would give; see there for its cost."""
        return undelivered_count(self._reading, lanes)

    def set_position(
        self, position: Start, lanes: Collection[RegionId], entries_read: int | None
    ) -> None:
        """XGROUP SETID.  Set back, a lane ignores the intervals known now until it passed them."""
        self._reading.set_position(position, lanes, entries_read)

    # --- Delivery -----------------------------------------------------------------------------

    def deliver(
        self, change: Deliver, lanes: Mapping[RegionId, Lane], last_ids: Mapping[RegionId, LastId]
    ) -> None:
        """Entries were handed out to a consumer (created if it is new)."""
        consumer = self._pel.consumer(change.consumer, change.now)
        if not change.noack:
            consumer.active_ms = change.now
        for region, ids in change.ids.items():
            progress = self._reading.keep(region)
            if not change.noack:
                for entry_id in ids:
                    self._pel.own(region, entry_id, consumer, change.now, 1)
            progress.entries_read = entries_read_after(
                progress, lanes[region], last_ids[region].id, ids
            )
            progress.last_delivered = ids[-1]
            self._reading.skip_and_count(region, progress, lanes[region], last_ids)

    def redeliver(
        self, ids: Mapping[RegionId, tuple[StreamId, ...]], consumer_name: bytes, now: Millis
    ) -> None:
        """History was read again: the count goes up, the idle time to 0."""
        self._pel.consumer(consumer_name, now)
        self._pel.redeliver(ids, now)

    def acknowledge(self, ids: Mapping[RegionId, tuple[StreamId, ...]]) -> None:
        self._pel.acknowledge(ids)

    def claim(self, change: Claim, lanes: Collection[RegionId]) -> None:
        """Pending entries get a new owner; some turned out to be gone; LASTID moves on."""
        consumer = self._pel.consumer(change.consumer, change.now)
        if change.nacks:
            consumer.active_ms = change.now
        if change.last_id is not None:
            self._reading.jump_ahead(change.last_id, lanes)
        for region, nacks in change.nacks.items():
            self._reading.keep(region)
            for entry_id, delivered_ms, count in nacks:
                self._pel.own(region, entry_id, consumer, delivered_ms, count)
        self._pel.acknowledge(change.dropped)

    def release(self, change: Release) -> None:
        """XNACK: the entries have no owner any more and wait, in this order, to be claimed.

        One that was not pending (FORCE) is from now on.
        """
        for region, _, _ in change.nacks:
            self._reading.keep(region)
        self._pel.release(change)

    def forget_pending(self, region: RegionId, entry_id: StreamId) -> bool:
        """An entry stops being pending, whoever owns it; whether it was."""
        return self._pel.forget(region, entry_id)

    # --- Consumers ----------------------------------------------------------------------------

    def consumer(self, name: bytes, now: Millis) -> Consumer:
        """The consumer of that name, created if it is new; it was seen now."""
        return self._pel.consumer(name, now)

    def delete_consumer(self, name: bytes) -> None:
        """A consumer goes, with its pending entries: they are given up, and a new run begins."""
        consumer = self.consumers[name]
        for entry_id, region in list(consumer.pel):
            progress = self.lanes[region]
            self._reading.note_left_out(region, progress)
            progress.give_up(entry_id)
            self._pel.drop(progress.pel[entry_id])
        del self.consumers[name]

    # --- What is pending ----------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        return len(self._pel)

    def pending(self) -> Iterator[Nack]:
        """All pending entries, by ID, equal IDs by lane."""
        return iter(self._pel)

    def pending_from(self, start: StreamId) -> Iterator[Nack]:
        """Pending entries whose ID is not below ``start``, by ID, equal IDs by lane."""
        return self._pel.from_id(start)

    def pending_in(self, region: RegionId, *, above: StreamId, count: int) -> list[Nack]:
        """The next pending entries of one lane, ascending: those whose IDs are above the given."""
        return self._pel.in_lane(region, above=above, count=count)

    @property
    def claims_idle(self) -> bool:
        """Whether somebody ever waited for idle entries: who does must hear when some may be."""
        return self._pel.claims_idle

    def note_idle_claims(self) -> None:
        """Somebody reads idle entries, or waits for some (XREADGROUP CLAIM)."""
        self._pel.claims_idle = True

    def longest_idle(self) -> Iterable[Nack]:
        """Pending entries that somebody owns, the longest idle first."""
        return self._pel.longest_idle()

    # --- What is done with --------------------------------------------------------------------

    def is_settled(self, region: RegionId, entry_id: StreamId, *, alone: bool) -> bool:
        """As ``are_settled``, of one entry."""
        if entry_id in self.progress(region).pel:
            return False
        return self.are_settled(region, entry_id, entry_id, alone=alone)

    def are_settled(
        self, region: RegionId, first: StreamId, last: StreamId, *, alone: bool
    ) -> bool:
        """Whether a lane's entries from ``first`` to ``last``, none of them pending, are done with.

        They are if an interval has them, or if they were acknowledged here and this region hands
        out.  What was jumped or given up here counts, as in Redis, only if no other
        region still owes it.  False also where one look does not tell: ask one by one then.

        Args:
            alone: no other region has this database.
        """
        progress = self.progress(region)
        if last > progress.last_delivered and first <= progress.ignore_until:
            # Set back: what was acknowledged before is to be handed out here once more.
            return False
        if last <= self.start_of(region):
            return True
        if self.creates.intervals_of(region).contains_all(first, last):
            return True
        if not self.mode.is_handed_out_by(self._here, region):
            return False
        if progress.was_handed_out(first, last):
            return True
        hands_out_alone = alone or self._reading.hands_out_alone(region)
        return last <= progress.last_delivered and hands_out_alone

    def settled_end(self, region: RegionId) -> StreamId:
        """Beyond this ID nothing of a lane is settled."""
        progress = self.progress(region)
        known = self.creates.intervals_of(region).end
        return max(progress.last_delivered, progress.handed_out.end, known)

    def settled_upto(self, region: RegionId) -> StreamId:
        """Up to here every region may drop a lane's entries: all are acknowledged, none is pending
        here, and none would be handed out here again (XGROUP SETID back)."""
        progress = self.progress(region)
        end = self.frontier(region)
        if progress.pel:
            end = min(end, StreamId(progress.pel.peekitem(0)[0] - 1))
        if progress.ignore_until > progress.last_delivered:
            end = min(end, progress.last_delivered)
        return end
