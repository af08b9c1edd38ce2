"""A consumer group: what is replicated of it, and what only this region knows.

Replicated: the creates that are alive (the group exists while there is one) and, per lane, the
acknowledged intervals.  Local: consumers, pending entries, and how far each lane was read.

Per lane, in order of ID:

    start        frontier       run_from         first pending      last_delivered
      |==============|.............|=================|.x..x............|- - - - - - ->
       (known interval)            (delivered here, acknowledged)       not delivered yet

* ``run_from``: from here on every entry up to last-delivered was handed out here, or is covered
  by an interval.  Jumps (XGROUP SETID, LASTID) and entries given up (DELCONSUMER) begin a new run;
  the stretches before them are kept in ``handed_out``.
* What this region may tell the others is (run_from, just before the first pending], at most up to
  last-delivered: ``measure``.
* Delivery skips what an interval covers, unless XGROUP SETID went back behind it on purpose.

Replicated too is the mode: whether every region hands out new entries, one of them (the home), or
each its own lane (``rules`` 13).  What a region jumps or gives up while others hand out too is
theirs to deliver; so it is taken up again when a mode makes this region the one that hands out.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from typing import Final, TypeAlias

from sortedcontainers import SortedDict

from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.effects import (
    Claim,
    Deliver,
    LaneHandover,
    Mode,
    Release,
    SetGroupMode,
    counted,
)
from crdtstream.core.groups.creates import Creates, Start, position_in, scalar
from crdtstream.core.groups.entries_read import entries_read_after, entries_read_skipped
from crdtstream.core.groups.idle_order import ByAge
from crdtstream.core.groups.mode import ModeRegister, handover_of
from crdtstream.core.groups.progress import Consumer, LaneProgress, Nack, once_more
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, Region, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.lanes.lane import Lane, LastId, MacroNode

Found: TypeAlias = tuple[StreamId, Region, MacroNode, int]

NO_INTERVALS: Final = Intervals()


class Group:
    """See the module's text."""

    __slots__ = (
        "_by_age",
        "_here",
        "_position",
        "_position_is_left",
        "_position_known",
        "_read_hint",
        "claims_idle",
        "consumers",
        "creates",
        "lanes",
        "unowned",
    )

    def __init__(self, here: Region) -> None:
        self._here = here
        self.creates = Creates()
        self.lanes: dict[Region, LaneProgress] = {}
        self.consumers: SortedDict[bytes, Consumer] = SortedDict()
        # Pending entries that nobody owns, in the order in which they are to be claimed.
        self.unowned: OrderedDict[tuple[StreamId, Region], Nack] = OrderedDict()
        # Those that somebody owns by delivery time, oldest first; made when somebody first asks
        # for idle ones (XREADGROUP CLAIM), None before: other groups do not pay for it.
        self._by_age: ByAge | None = None
        # Whether somebody ever asked; who waits for idle entries must hear when some may be older.
        self.claims_idle = False
        # Where lanes that are not in ``lanes`` yet are read from, if XGROUP SETID said so.
        self._position: Start | None = None
        # The creates that were here then, and whether it was a jump while others handed out too.
        self._position_known: frozenset[Dot] = frozenset()
        self._position_is_left = False
        # ENTRIESREAD: how many were read, and of which lane; None: of all that will come.
        self._read_hint: tuple[int, Region | None] | None = None

    # --- Replicated ---------------------------------------------------------------------------

    @property
    def mode(self) -> ModeRegister:
        """Who hands out new entries."""
        return self.creates.mode

    @property
    def intervals(self) -> Mapping[Region, Intervals]:
        """Per lane what was acknowledged."""
        return self.creates.intervals

    def add_create(
        self, dot: Dot, start: Start, entries_read: int | None, lanes: Collection[Region]
    ) -> None:
        """A create came.  The start becomes the pointwise minimum over all live creates."""
        before = {region: self.start_of(region) for region in self.lanes}
        if not self.creates:
            self._take_read_hint(entries_read, lanes)
        self.creates.add(dot, start)
        for region, old_start in before.items():
            new_start = self.start_of(region)
            if new_start < old_start:
                self._take_back(region, new_start)

    def drop_creates(self, context: VersionVector) -> None:
        """End the creates that the context covers; without any the group is to go."""
        self.creates.drop_covered_by(context)
        if self.creates:
            # The mode may have gone with them.
            self._settle_who_hands_out()

    def _take_back(self, region: Region, start: StreamId) -> None:
        """Go back to the frontier; a lane that XGROUP SETID set back further stays there."""
        progress = self.lanes[region]
        frontier = self.frontier(region, start)
        if frontier >= progress.last_delivered:
            return
        self._keep_as_handed_out(progress)
        progress.last_delivered = progress.run_from = frontier
        progress.entries_read = None

    def start_of(self, region: Region) -> StreamId:
        """Where the group begins in a lane; 0-0 before any create."""
        return self.creates.start_of(region)

    def frontier(self, region: Region, start: StreamId) -> StreamId:
        """The end of the acknowledged run that begins at ``start``."""
        return self.intervals.get(region, NO_INTERVALS).run_end(start)

    def unite(
        self,
        region: Region,
        start: StreamId,
        end: StreamId,
        context: VersionVector,
        lane: Lane | None,
        last_ids: Mapping[Region, LastId],
    ) -> None:
        """An AckFrontier's interval: what it newly covers is no longer pending or to be read."""
        fresh = self.creates.unite(region, start, end, context)
        progress = self._kept_progress(region)
        for low, high in fresh:
            for entry_id in list(progress.pel.irange(low, high, inclusive=(False, True))):
                self._drop_nack(progress.pel[entry_id])
        self._skip_and_count(region, progress, lane, last_ids)

    # --- Who hands out --------------------------------------------------------------------------

    def handover(self, lanes: Iterable[Region]) -> dict[Region, LaneHandover]:
        """What the new home must know of each lane; see LaneHandover."""
        return {
            region: handover_of(self.progress(region)) for region in sorted({*lanes, *self.lanes})
        }

    def set_mode(self, effect: SetGroupMode, issuer: Region, context: VersionVector) -> None:
        """A SetGroupMode, whether it wins or not.

        What regions hand out in the end depends on the set of these effects, and not on their
        order: a handover that is meant for this region tells what was handed out whenever it
        comes, and everything that was left to others is taken up as soon as it falls to this one.
        """
        register = ModeRegister(effect.epoch, issuer, effect.mode, effect.home)
        wins = self.creates.set_mode(register, context)
        if issuer != self._here and not effect.forced and register.mode is not Mode.AT_LEAST_ONCE:
            for region, handover in sorted(effect.handover.items()):
                if register.is_handed_out_by(self._here, region):
                    self._note_handover(region, handover)
                    if wins:
                        self._go_on_from(region, handover)
                        self._take_back_behind(region, context)
        if wins and effect.forced:
            # Whoever takes a lane begins at its frontier, whatever a handover said before.
            for region in self._lanes_handed_out():
                self._take_up(region)
        self._settle_who_hands_out()

    def _lanes_handed_out(self) -> list[Region]:
        """The lanes whose new entries this region hands out, of those that it knows."""
        mode = self.mode
        return [region for region in self.lanes if mode.is_handed_out_by(self._here, region)]

    def _hands_out_alone(self, region: Region) -> bool:
        """Whether, as far as is known here, no other region hands out this lane's entries."""
        mode = self.mode
        return mode.mode is not Mode.AT_LEAST_ONCE and mode.is_handed_out_by(self._here, region)

    def _settle_who_hands_out(self) -> None:
        """The mode may have changed: take up what was left to others and is theirs no more."""
        mode, here = self.mode, self._here
        for region, progress in self.lanes.items():
            if not mode.is_handed_out_by(here, region):
                # From now on others deliver what was jumped here, however it came to be.
                progress.has_left_out = True
            elif progress.has_left_out:
                self._take_up(region)
        if not mode.is_handed_out_by(here, here):
            self._position_is_left = True
        elif self._position_is_left:
            # XGROUP SETID spoke of this region's own reading; now it reads for the others, too.
            self._position = None
            self._position_is_left = False

    def _take_up(self, region: Region) -> None:
        """Go back to the frontier, and from there over what was handed out here."""
        progress = self.lanes[region]
        progress.has_left_out = False
        position, read = progress.last_delivered, progress.entries_read
        self._take_back(region, self.start_of(region))
        self._skip_covered(region, progress)
        if progress.last_delivered == position:
            progress.entries_read = read

    def _take_back_behind(self, region: Region, context: VersionVector) -> None:
        """Go back if a create with a lower start is here of which the old home had not heard."""
        seen = [start for dot, start in self.creates.items() if covers_dot(context, dot)]
        start = self.start_of(region)
        if start < min(position_in(one, region) for one in seen):
            self._take_back(region, start)

    def _note_handover(self, region: Region, handover: LaneHandover) -> None:
        """What the old home had handed out is not handed out again here.

        What of it had not been acknowledged becomes pending here, owned by nobody.
        """
        progress = self._kept_progress(region)
        # What had been handed out here before, under another mode, is not handed out again; but
        # for what the old home was set back to read once more.
        self._keep_as_handed_out(progress)
        progress.handed_out.remove(handover.last_delivered, handover.ignore_until)
        runs = [(handover.run_from, handover.last_delivered), *handover.handed_out]
        for start, end in runs:
            if start < end:
                progress.handed_out.add(start, end)

        pending = dict(handover.pending)
        for start, end in runs:
            # Acknowledged there, though not in a row.
            for entry_id in list(progress.pel.irange(start, end, inclusive=(False, True))):
                if entry_id not in pending:
                    self._drop_nack(progress.pel[entry_id])
        known = self.intervals.get(region, NO_INTERVALS)
        for entry_id, count in pending.items():
            if entry_id > handover.ignore_until and known.contains(entry_id):
                # Acknowledged in a third region, of which the old home had not heard.
                continue
            if entry_id not in progress.pel:
                nack = Nack(region, entry_id, None, Millis(0), count)
                progress.pel[entry_id] = nack
                self.unowned[entry_id, region] = nack

    def _go_on_from(self, region: Region, handover: LaneHandover) -> None:
        """Stand where the old home stopped.

        The run that begins at its ``run_from`` is now vouched for here, and stops at what it left
        pending.
        """
        progress = self.lanes[region]
        progress.has_left_out = False
        progress.run_from = handover.run_from
        progress.last_delivered = handover.last_delivered
        progress.ignore_until = handover.ignore_until
        read = handover.entries_read
        progress.entries_read = None if read is None else counted(read)
        self._skip_covered(region, progress)

    def may_vouch_for(self, lane: Region) -> bool:
        """Partitioned, only a lane's own region tells what was acknowledged of it."""
        return self.mode.mode is not Mode.PARTITIONED or lane == self._here

    def _keep_as_handed_out(self, progress: LaneProgress) -> None:
        progress.skip_pending_until = max(progress.skip_pending_until, progress.last_delivered)
        progress.keep_run()

    # --- Positions ----------------------------------------------------------------------------

    def progress(self, region: Region) -> LaneProgress:
        """This region's reading of a lane; of one not read yet, where it would begin.

        Asking leaves no trace: what is kept must come from logged changes alone, or replay would
        not live through the same.
        """
        progress = self.lanes.get(region)
        if progress is None:
            progress = LaneProgress(self._first_position(region), self._hinted(region))
            self._skip_covered(region, progress)
        return progress

    def _kept_progress(self, region: Region) -> LaneProgress:
        progress = self.progress(region)
        self.lanes[region] = progress
        return progress

    def _first_position(self, region: Region) -> StreamId:
        """Where a lane begins that was not read yet.

        The group's start; or what XGROUP SETID said, unless a create that came after it lowered
        the start, and then no higher than that.
        """
        if self._position is None:
            return self.start_of(region)
        position = position_in(self._position, region)
        starts = [(dot, position_in(start, region)) for dot, start in self.creates.items()]
        known = [start for dot, start in starts if dot in self._position_known]
        lowest = min(known, default=ID_MIN)
        for dot, start in starts:
            if dot not in self._position_known and start < lowest:
                lowest = start
                position = min(position, start)
        return position

    def last_delivered_id(self, lanes: Iterable[Region]) -> StreamId:
        """What XINFO shows: the maximum over the lanes, and over the start of lanes to come."""
        return max(
            (self.progress(region).last_delivered for region in lanes),
            default=(
                self.creates.scalar_start() if self._position is None else scalar(self._position)
            ),
        )

    def set_position(
        self, position: Start, lanes: Collection[Region], entries_read: int | None
    ) -> None:
        """XGROUP SETID.  Set back, a lane ignores the intervals known now until it passed them."""
        self._take_read_hint(entries_read, lanes)
        for region in lanes:
            progress = self._kept_progress(region)
            target = position_in(position, region)
            intervals = self.intervals.get(region)
            if target < progress.last_delivered and intervals is not None:
                progress.ignore_until = intervals.end
            self._note_left_out(region, progress)
            progress.jump(target)
            progress.handed_out.remove(target, ID_MAX)
            progress.skip_pending_until = ID_MIN
            progress.entries_read = self._hinted(region)
        self._set_position_of_others(position)

    def _set_position_of_others(self, position: Start) -> None:
        """Where this region begins to read the lanes that are to come."""
        self._position = position
        self._position_known = frozenset(self.creates)
        self._position_is_left = not self._hands_out_alone(self._here)

    def _note_left_out(self, region: Region, progress: LaneProgress) -> None:
        """Something is jumped or given up: for good, or left to other regions."""
        if not self._hands_out_alone(region):
            progress.has_left_out = True

    def _take_read_hint(self, entries_read: int | None, lanes: Collection[Region]) -> None:
        """One number for the whole stream: only with one lane it is clear what it says."""
        if entries_read is None or len(lanes) > 1:
            self._read_hint = None
        else:
            self._read_hint = entries_read, next(iter(lanes), None)

    def _hinted(self, region: Region) -> int | None:
        """A lane's entries-read before anything was delivered; of one begun later nothing was."""
        if self._read_hint is None:
            return None
        count, of_lane = self._read_hint
        return count if of_lane in (None, region) else 0

    def entries_read(self, lanes: Collection[Region]) -> int | None:
        """Redis's entries-read, summed over the lanes; None if one lane's is unknown."""
        if not lanes:
            return None if self._read_hint is None else self._read_hint[0]
        counts = [self.progress(region).entries_read for region in lanes]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _skip_and_count(
        self,
        region: Region,
        progress: LaneProgress,
        lane: Lane | None,
        last_ids: Mapping[Region, LastId],
    ) -> None:
        """As ``_skip_covered``; what was skipped counts as read."""
        position = progress.last_delivered
        self._skip_covered(region, progress)
        if progress.last_delivered != position:
            last_id = last_ids[region].id if region in last_ids else ID_MIN
            progress.entries_read = entries_read_skipped(progress, lane, last_id, position)

    def _skip_covered(self, region: Region, progress: LaneProgress) -> None:
        """Move last-delivered to the end of an interval that contains it."""
        for start, end in self._to_skip(region, progress, progress.last_delivered):
            if start > progress.last_delivered:
                return
            progress.last_delivered = end

    def _to_skip(
        self, region: Region, progress: LaneProgress, position: StreamId
    ) -> Iterator[tuple[StreamId, StreamId]]:
        """Stretches beyond ``position`` that are not to be delivered, by their starts."""
        intervals = self.intervals.get(region)
        while True:
            found = progress.handed_out.next_after(position)
            if intervals is not None:
                covered = intervals.next_after(max(position, progress.ignore_until))
                if covered is not None:
                    start = max(covered[0], progress.ignore_until)
                    found = min(found or (ID_MAX, ID_MAX), (start, covered[1]))
            if found is None:
                return
            yield found
            position = found[1]

    # --- Delivery -----------------------------------------------------------------------------

    def undelivered(self, lanes: Iterable[Lane]) -> Iterator[Found]:
        """What ``>`` hands out next: beyond last-delivered in every lane, merged by ID."""
        sources = []
        for lane in lanes:
            progress = self.progress(lane.region)
            if lane.length and lane.last_id > progress.last_delivered:
                sources.append(self._undelivered_in(lane, progress))
        return sources[0] if len(sources) == 1 else merge(*sources)

    def _undelivered_in(self, lane: Lane, progress: LaneProgress) -> Iterator[Found]:
        region = lane.region
        position = progress.last_delivered
        stretches = self._to_skip(region, progress, position)
        for start, end in chain(stretches, [(ID_MAX, ID_MAX)]):
            if position < start:
                for entry_id, node, index in lane.scan(StreamId(position + 1), start):
                    if entry_id <= progress.skip_pending_until and entry_id in progress.pel:
                        continue
                    yield entry_id, region, node, index
            position = end

    def undelivered_count(self, lanes: Iterable[Lane]) -> int:
        """How many entries ``undelivered`` would give.

        O(stretches to skip * macro nodes between them and the nearer end of the lane); what is
        pending and not to be delivered anew counts one by one.
        """
        return sum(
            self._undelivered_count_in(lane, self.progress(lane.region))
            for lane in lanes
            if lane.length
        )

    def _undelivered_count_in(self, lane: Lane, progress: LaneProgress) -> int:
        position = progress.last_delivered
        count = lane.count_above(position)
        for start, end in self._to_skip(lane.region, progress, position):
            if lane.last_id <= position:
                break
            # Stretches may overlap: of each only what lies beyond the one before.
            if end > position:
                count -= lane.count_above(max(start, position)) - lane.count_above(end)
                position = end
        for entry_id in progress.pel.irange(
            progress.last_delivered, progress.skip_pending_until, inclusive=(False, True)
        ):
            is_counted = not self._is_skipped(lane.region, progress, entry_id)
            if is_counted and lane.find(entry_id) is not None:
                count -= 1
        return count

    def _is_skipped(self, region: Region, progress: LaneProgress, entry_id: StreamId) -> bool:
        """Whether an ID beyond last-delivered lies in a stretch that is not to be delivered."""
        stretch = next(self._to_skip(region, progress, StreamId(entry_id - 1)), None)
        return stretch is not None and stretch[0] < entry_id

    def deliver(
        self, change: Deliver, lanes: Mapping[Region, Lane], last_ids: Mapping[Region, LastId]
    ) -> None:
        """Entries were handed out to a consumer (created if it is new)."""
        consumer = self.consumer(change.consumer, change.now)
        if not change.noack:
            consumer.active_ms = change.now
        for region, ids in change.ids.items():
            progress = self._kept_progress(region)
            if not change.noack:
                for entry_id in ids:
                    self._own(progress, region, entry_id, consumer, change.now, 1)
            progress.entries_read = entries_read_after(
                progress, lanes[region], last_ids[region].id, ids
            )
            progress.last_delivered = ids[-1]
            self._skip_and_count(region, progress, lanes[region], last_ids)

    def redeliver(
        self, ids: Mapping[Region, tuple[StreamId, ...]], consumer_name: bytes, now: Millis
    ) -> None:
        """History was read again: the count goes up, the idle time to 0."""
        self.consumer(consumer_name, now)
        for region, lane_ids in ids.items():
            pel = self.progress(region).pel
            for entry_id in lane_ids:
                nack = pel.get(entry_id)
                if nack is None:
                    # A log of format 1, where handovers left other entries pending.
                    continue
                nack.delivered_ms = now
                nack.delivery_count = once_more(nack.delivery_count)
                if self._by_age is not None and nack.consumer is not None:
                    self._by_age.place(nack)

    def release(self, change: Release) -> None:
        """XNACK: the entries have no owner any more and wait, in this order, to be claimed.

        One that was not pending (FORCE) is from now on.
        """
        for region, entry_id, count in change.nacks:
            pel = self._kept_progress(region).pel
            nack = pel.get(entry_id)
            if nack is None:
                pel[entry_id] = nack = Nack(region, entry_id, None, Millis(0), count)
            else:
                self._disown(nack)
            nack.consumer = None
            nack.delivered_ms = Millis(0)
            nack.delivery_count = count
            self.unowned[entry_id, region] = nack

    def acknowledge(self, ids: Mapping[Region, tuple[StreamId, ...]]) -> None:
        for region, lane_ids in ids.items():
            pel = self.progress(region).pel
            for entry_id in lane_ids:
                nack = pel.get(entry_id)
                # None: a log of format 1, where handovers left other entries pending.
                if nack is not None:
                    self._drop_nack(nack)

    def claim(self, change: Claim, lanes: Collection[Region]) -> None:
        """Pending entries get a new owner; some turned out to be gone; LASTID moves on."""
        consumer = self.consumer(change.consumer, change.now)
        if change.nacks:
            consumer.active_ms = change.now
        if change.last_id is not None:
            if not lanes and self.last_delivered_id(lanes) < change.last_id:
                # Nothing was appended yet: it will count for the lanes to come.
                self._set_position_of_others(change.last_id)
            for region in lanes:
                progress = self._kept_progress(region)
                if progress.last_delivered < change.last_id:
                    self._note_left_out(region, progress)
                    progress.jump(change.last_id)
        for region, nacks in change.nacks.items():
            progress = self._kept_progress(region)
            for entry_id, delivered_ms, count in nacks:
                self._own(progress, region, entry_id, consumer, delivered_ms, count)
        self.acknowledge(change.dropped)

    def _own(
        self,
        progress: LaneProgress,
        region: Region,
        entry_id: StreamId,
        consumer: Consumer,
        now: Millis,
        count: int,
    ) -> None:
        nack = progress.pel.get(entry_id)
        if nack is None:
            nack = Nack(region, entry_id, consumer, now, count)
            progress.pel[entry_id] = nack
        else:
            if nack.consumer is not consumer:
                self._disown(nack)
            nack.consumer = consumer
            nack.delivered_ms = now
            nack.delivery_count = count
        consumer.pel[entry_id, region] = nack
        if self._by_age is not None:
            self._by_age.place(nack)

    def _disown(self, nack: Nack) -> None:
        """Take a NACK out of all lists but the lane's."""
        place = nack.id, nack.lane
        if nack.consumer is None:
            del self.unowned[place]
        else:
            del nack.consumer.pel[place]
            if self._by_age is not None:
                self._by_age.forget(nack)

    def _drop_nack(self, nack: Nack) -> None:
        del self.lanes[nack.lane].pel[nack.id]
        self._disown(nack)

    def forget_pending(self, region: Region, entry_id: StreamId) -> bool:
        """An entry stops being pending, whoever owns it; whether it was."""
        progress = self.lanes.get(region)
        nack = None if progress is None else progress.pel.get(entry_id)
        if nack is None:
            return False
        self._drop_nack(nack)
        return True

    def is_settled(self, region: Region, entry_id: StreamId, *, alone: bool) -> bool:
        """As ``are_settled``, of one entry."""
        if entry_id in self.progress(region).pel:
            return False
        return self.are_settled(region, entry_id, entry_id, alone=alone)

    def are_settled(self, region: Region, first: StreamId, last: StreamId, *, alone: bool) -> bool:
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
        if self.intervals.get(region, NO_INTERVALS).contains_all(first, last):
            return True
        if not self.mode.is_handed_out_by(self._here, region):
            return False
        if progress.was_handed_out(first, last):
            return True
        return last <= progress.last_delivered and (alone or self._hands_out_alone(region))

    def settled_end(self, region: Region) -> StreamId:
        """Beyond this ID nothing of a lane is settled."""
        progress = self.progress(region)
        intervals = self.intervals.get(region)
        known = ID_MIN if intervals is None else intervals.end
        return max(progress.last_delivered, progress.handed_out.end, known)

    def settled_upto(self, region: Region) -> StreamId:
        """Up to here every region may drop a lane's entries: all are acknowledged, none is pending
        here, and none would be handed out here again (XGROUP SETID back)."""
        progress = self.progress(region)
        end = self.frontier(region, self.start_of(region))
        if progress.pel:
            end = min(end, StreamId(progress.pel.peekitem(0)[0] - 1))
        if progress.ignore_until > progress.last_delivered:
            end = min(end, progress.last_delivered)
        return end

    def owned_by_age(self) -> Iterable[Nack]:
        """Pending entries that somebody owns, the longest idle first; see ``by_age.py``."""
        self.claims_idle = True
        if self._by_age is None or not self._by_age.is_in_order:
            self._by_age = ByAge(nack for nack in self.pending() if nack.consumer is not None)
        return self._by_age

    # --- Consumers ----------------------------------------------------------------------------

    def consumer(self, name: bytes, now: Millis) -> Consumer:
        """The consumer of that name, created if it is new."""
        consumer = self.consumers.get(name)
        if consumer is None:
            consumer = Consumer(name, now)
            self.consumers[name] = consumer
        consumer.seen_ms = max(consumer.seen_ms, now)
        return consumer

    def delete_consumer(self, name: bytes) -> None:
        """A consumer goes, with its pending entries: they are given up, the run begins anew."""
        consumer = self.consumers[name]
        for entry_id, region in list(consumer.pel):
            progress = self.lanes[region]
            self._note_left_out(region, progress)
            progress.give_up(entry_id)
            self._drop_nack(progress.pel[entry_id])
        del self.consumers[name]

    def pending(self) -> Iterator[Nack]:
        """All pending entries, by ID, equal IDs by lane."""
        return self.pending_from(ID_MIN)

    def pending_from(self, start: StreamId) -> Iterator[Nack]:
        """Pending entries whose ID is not below ``start``, by ID, equal IDs by lane."""
        pels = [progress.pel for progress in self.lanes.values() if progress.pel]
        if len(pels) == 1:
            (pel,) = pels
            return (pel[entry_id] for entry_id in pel.irange(start))
        keys = merge(*(_keys_with_lane(pel, start) for pel in pels))
        return (self.lanes[region].pel[entry_id] for entry_id, region in keys)

    def pending_in(self, region: Region, *, above: StreamId, count: int) -> list[Nack]:
        """The next pending entries of one lane, ascending: those whose IDs are above the given."""
        progress = self.lanes.get(region)
        if progress is None:
            return []
        pel = progress.pel
        return [
            pel[entry_id] for entry_id in islice(pel.irange(above, inclusive=(False, False)), count)
        ]

    @property
    def pending_count(self) -> int:
        return sum(len(progress.pel) for progress in self.lanes.values())

    # --- The frontier -------------------------------------------------------------------------

    def measure(self, lane: Lane | None, region: Region) -> tuple[StreamId, StreamId] | None:
        """The interval that this region can vouch for now, if it is not known already."""
        progress = self.lanes.get(region)
        if progress is None:
            return None
        start = progress.run_from
        end = progress.last_delivered
        # What is pending inside a known interval was taken up again here (XCLAIM FORCE, SETID); it
        # was acknowledged once, and does not hold back what follows.
        known = self.intervals.get(region)
        acknowledged = start if known is None else known.run_end(start)
        pel = progress.pel
        at = pel.bisect_right(acknowledged)
        if at < len(pel):
            first_pending = pel.keys()[at]
            if first_pending <= end:
                end = ID_MIN if lane is None else lane.predecessor(first_pending)
        return (start, end) if end > acknowledged else None


def _keys_with_lane(
    pel: "SortedDict[StreamId, Nack]", start: StreamId
) -> Iterator[tuple[StreamId, Region]]:
    for entry_id in pel.irange(start):
        yield entry_id, pel[entry_id].lane
