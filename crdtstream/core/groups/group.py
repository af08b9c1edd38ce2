"""A consumer group: what is replicated of it, and what only this region knows.

    creates   replicated: the live creates with their starts, acknowledged intervals and modes
    reading   local: how far each lane was read here, and what is not to be delivered
    pel       local: pending entries and their consumers

The group exists while it has a live create.  An effect changes ``creates`` and then what follows
from it here; a local change changes ``reading`` and ``pel`` alone.

What this region may report to the others of a lane is (run_from, just before the first pending], at
most up to last-delivered: ``vouched_for``; the picture is in ``reading.py``.

The group is a part of a checkpoint, and each chunk of its PEL is another one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter

from crdtstream.core.checkpoint.key_parts import KeyPart
from crdtstream.core.checkpoint.parts import Changes, Encoded, Kind, Part
from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.effects import Claim, Deliver, LaneHandover, Mode, Release, SetGroupMode, Start
from crdtstream.core.groups import takeover
from crdtstream.core.groups.creates import NO_INTERVALS, Create, Creates
from crdtstream.core.groups.entries_read import entries_read_after
from crdtstream.core.groups.group_encoding import encode_group
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.pel_chunk import Consumer, Nack, PelChunk, Span
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.groups.reading import Reading
from crdtstream.core.groups.undelivered import (
    undelivered,
    undelivered_count,
    undelivered_slices,
)
from crdtstream.core.groups.unstable_settings import Setting
from crdtstream.core.id_columns import Ids, from_ids
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.lanes.lane import Lane, LastId
from crdtstream.core.lanes.slices import Found, Slice
from crdtstream.core.membership.heirs import Heirs


class Group(Part):
    """See the module's text.

    Attributes:
        owner, name: the key that it is a group of, and what it is called there.
        number: what its parts call it; no other group that this replica ever had has it.
        creates: what is replicated.
        lanes: by lane how far it was read here; lanes not read yet are not in it.
        settings: the SetGroupModes that are not causally stable, by dot (``unstable_settings.py``).
        consumers: by name.
    """

    __slots__ = (
        "_changes",
        "_here",
        "consumers",
        "creates",
        "lanes",
        "name",
        "number",
        "owner",
        "pel",
        "reading",
        "settings",
    )

    kind = Kind.GROUP

    def __init__(
        self,
        here: RegionId,
        heirs: Heirs,
        changes: Changes,
        *,
        owner: KeyPart,
        name: bytes,
        number: int,
    ) -> None:
        super().__init__()
        self._here = here
        self._changes = changes
        self.owner = owner
        self.name = name
        self.number = number
        self.creates = Creates()
        self.reading = Reading(here, self.creates, heirs)
        self.lanes: dict[RegionId, LaneProgress] = self.reading.lanes
        self.pel = Pel(self.lanes, changes, number)
        self.settings: dict[Dot, Setting] = {}
        self.consumers: dict[bytes, Consumer] = self.pel.consumers

    # --- As parts -----------------------------------------------------------------------------

    def _note(self) -> None:
        """Note that the group is about to change outside its chunks."""
        if self.changed_after != self._changes.cut_number:
            self._changes.note(self)

    def encode(self) -> Encoded:
        """All but the chunks."""
        head = encode_group(
            self.name,
            self.number,
            creates=self.creates,
            reading=self.reading,
            pel=self.pel,
            settings=self.settings,
        )
        return Encoded(self.owner.number, 0, head, b"")

    def chunks(self) -> Iterator[PelChunk]:
        """The pending entries, as parts."""
        return self.pel.chunks()

    def drop(self) -> None:
        """The group is gone, and all its parts.  It must not change any more."""
        assert len(self.pel) == sum(owner.pending_count for owner in self.pel.owners())
        self.pel.drop_all()
        self._changes.drop(self)

    # --- Replicated ---------------------------------------------------------------------------

    @property
    def mode(self) -> ModeRegister:
        """Register that names the region which delivers new entries."""
        return self.creates.mode

    @property
    def home(self) -> RegionId | None:
        """With Mode.HOME the region that delivers now: the named one, or its heir."""
        home = self.mode.home
        return None if home is None else self.reading.heirs.acting_for(home)

    def who_hands_out(self, lane: RegionId) -> RegionId | None:
        """The region that delivers a lane's new entries now; None: each for itself."""
        return self.mode.acting(lane, self.reading.heirs)

    def hands_out(self, lane: RegionId) -> bool:
        """True if this region delivers a lane's new entries now."""
        return self.reading.hands_out(lane)

    @property
    def intervals(self) -> Mapping[RegionId, Intervals]:
        """Per lane what was acknowledged."""
        return self.creates.intervals

    def start_of(self, region: RegionId) -> StreamId:
        """The group's start in a lane; 0-0 before any create."""
        return self.creates.start_of(region)

    def frontier(self, region: RegionId) -> StreamId:
        """The end of the acknowledged run that begins at the start."""
        return self.creates.frontier(region)

    def add_create(
        self, dot: Dot, start: Start, entries_read: int | None, lanes: Collection[RegionId]
    ) -> None:
        """A create came.  The start becomes the pointwise minimum over all live creates."""
        self._note()
        before = {region: self.start_of(region) for region in self.lanes}
        if not self.creates:
            self.reading.take_read_hint(entries_read, lanes)
        self.creates.add(dot, start)
        for region, old_start in before.items():
            new_start = self.start_of(region)
            if new_start < old_start:
                self.reading.go_back(region, new_start)

    def drop_creates(self, context: VersionVector) -> None:
        """End the creates that the context covers; without any left the group is to be removed."""
        self._note()
        self.creates.drop_covered_by(context)
        if self.creates:
            # The mode may have gone with them.
            takeover.settle_who_hands_out(self.reading)

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
        self._note()
        fresh = self.creates.unite(region, start, end, context)
        progress = self.reading.keep(region)
        for low, high in fresh:
            self.pel.drop_within(region, low, high, keep={})
        self.reading.skip_and_count(region, progress, lane, last_ids)

    def merge_creates(
        self,
        creates: Mapping[Dot, Create],
        lanes: Mapping[RegionId, Lane],
        last_ids: Mapping[RegionId, LastId],
    ) -> None:
        """Take in the creates of two states, each with what either of them knows.

        Positions and what is pending follow: a lower start takes a lane back, then what is newly
        acknowledged is not pending any more, and is skipped.  Modes are only shown: what a change
        of mode does besides is up to the caller.
        """
        self._note()
        starts = {region: self.start_of(region) for region in self.lanes}
        before = dict(self.creates.all())
        self.creates.replace(
            {dot: before.get(dot) or one.without_intervals() for dot, one in creates.items()}
        )
        for region, start in starts.items():
            if self.start_of(region) < start:
                self.reading.go_back(region, self.start_of(region))
        known = self.creates.intervals
        self.creates.replace(creates)
        for region, intervals in self.creates.intervals.items():
            of_lane = known.get(region, NO_INTERVALS)
            fresh = [part for low, high in intervals for part in of_lane.missing(low, high)]
            if not fresh:
                continue
            progress = self.reading.keep(region)
            for low, high in fresh:
                self.pel.drop_within(region, low, high, keep={})
            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)

    def repair(
        self,
        creates: Mapping[Dot, Create],
        settings: Mapping[Dot, Setting],
        unread: Mapping[RegionId, Iterable[tuple[StreamId, StreamId]]],
        lanes: Mapping[RegionId, Lane],
        last_ids: Mapping[RegionId, LastId],
    ) -> None:
        """Replace what is known of the group here by what another region knows of it.

        Consumers, positions and what is pending stay, and follow as in ``merge_creates``.

        Args:
            settings: those that are not causally stable; all of them were applied here.
            unread: by lane stretches of IDs, in order, whose entries cannot have been delivered
                here as they are now.
        """
        self._note()
        starts = {region: self.start_of(region) for region in self.lanes}
        known = self.creates.intervals
        self.creates.replace(creates)
        self.settings.clear()
        self.settings.update(settings)
        for region, start in starts.items():
            if self.start_of(region) < start:
                self.reading.go_back(region, self.start_of(region))
            now = self.creates.intervals_of(region)
            # What was acknowledged by mistake was skipped here.
            skipped = [
                part
                for low, high in known.get(region, NO_INTERVALS)
                for part in now.missing(low, high)
            ]
            for low, high in sorted([*skipped, *unread.get(region, ())]):
                self.lanes[region].read_again(low, high)
        for region in {*starts, *self.creates.intervals}:
            progress = self.reading.keep(region)
            of_lane = known.get(region, NO_INTERVALS)
            for low, high in self.creates.intervals_of(region):
                for fresh in of_lane.missing(low, high):
                    self.pel.drop_within(region, *fresh, keep={})
            self.reading.skip_and_count(region, progress, lanes.get(region), last_ids)
        takeover.settle_who_hands_out(self.reading)

    def settle_who_hands_out(self) -> None:
        """The mode may have changed: take up what was left to others if it falls to this region."""
        takeover.settle_who_hands_out(self.reading)

    def inherit(self, removed: frozenset[RegionId]) -> bool:
        """Others act for these regions from now on; returns whether that may matter here."""
        mode = self.mode
        if mode.mode is Mode.AT_LEAST_ONCE or (mode.home is not None and mode.home not in removed):
            return False
        self._note()
        takeover.settle_who_hands_out(self.reading)
        return True

    def set_mode(self, effect: SetGroupMode, dot: Dot, context: VersionVector) -> None:
        """A SetGroupMode, whether it wins or not."""
        self._note()
        takeover.change_mode(self.reading, self.pel, effect, dot.region, context)
        assert dot not in self.settings, "an effect is applied once"
        self.settings[dot] = Setting(effect, context)

    def forget_setting(self, dot: Dot) -> None:
        """A SetGroupMode is causally stable."""
        if dot in self.settings:
            self._note()
            del self.settings[dot]

    # --- Reports to other regions -------------------------------------------------------------

    def handover(self, lanes: Iterable[RegionId]) -> dict[RegionId, LaneHandover]:
        """The facts that the new home must know of each lane; see LaneHandover."""
        return {
            region: self.progress(region).handover() for region in sorted({*lanes, *self.lanes})
        }

    def may_vouch_for(self, lane: RegionId) -> bool:
        """Partitioned, only the region that delivers a lane issues what was acknowledged of it."""
        return self.mode.mode is not Mode.PARTITIONED or self.hands_out(lane)

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
        first_pending = progress.pel.first_above(acknowledged)
        assert first_pending is None or first_pending > acknowledged >= start
        if first_pending is not None and first_pending <= end:
            end = ID_MIN if lane is None else lane.predecessor(first_pending)
            assert end < first_pending, "a pending entry is not vouched for"
        assert end <= progress.last_delivered
        return (start, end) if end > acknowledged else None

    # --- Positions ----------------------------------------------------------------------------

    def progress(self, region: RegionId) -> LaneProgress:
        """This region's progress in a lane; if it has not read it yet, where it would begin.

        Asking leaves no trace.
        """
        return self.reading.progress(region)

    def position_after(self, region: RegionId, position: StreamId) -> StreamId:
        """Position where a lane is read on: behind ``position`` and what is to be skipped."""
        for start, end in self.reading.to_skip(region, self.progress(region), position):
            if start > position:
                break
            position = end
        return position

    def last_delivered_id(self, lanes: Iterable[RegionId]) -> StreamId:
        """The ID that XINFO shows: the maximum over lanes, and over the start of lanes to come."""
        return self.reading.last_delivered_id(lanes)

    def entries_read(self, lanes: Collection[RegionId]) -> int | None:
        """Redis's entries-read, summed over the lanes; None if one lane's is unknown."""
        return self.reading.entries_read(lanes)

    def undelivered(self, lanes: Iterable[Lane]) -> Iterator[Found]:
        """Entries that ``>`` delivers next: beyond last-delivered in every lane, merged by ID."""
        return undelivered(self.reading, lanes)

    def undelivered_slices(self, lanes: Iterable[Lane], count: int) -> dict[RegionId, list[Slice]]:
        """The first ``count`` entries that ``undelivered`` would yield, by lane and macro node."""
        return undelivered_slices(self.reading, lanes, count)

    def undelivered_count(self, lanes: Iterable[Lane]) -> int:
        """Number of entries that ``undelivered`` would yield; see there for its cost."""
        return undelivered_count(self.reading, lanes)

    def set_position(
        self, position: Start, lanes: Collection[RegionId], entries_read: int | None
    ) -> None:
        """XGROUP SETID.  Set back, a lane ignores the intervals known now until it passed them."""
        self._note()
        self.reading.set_position(position, lanes, entries_read)

    # --- Delivery -----------------------------------------------------------------------------

    def deliver(
        self, change: Deliver, lanes: Mapping[RegionId, Lane], last_ids: Mapping[RegionId, LastId]
    ) -> None:
        """Entries were delivered to a consumer (created if it is new)."""
        self._note()
        consumer = self.pel.consumer(change.consumer, change.now)
        if not change.noack:
            consumer.active_ms = change.now
        for region, ids in change.ids.items():
            progress = self.reading.keep(region)
            if not change.noack:
                self.pel.deliver(region, ids, consumer, delivered_ms=change.now, count=1)
            read = entries_read_after(progress, lanes[region], last_ids[region].id, ids)
            progress.deliver_upto(ids[-1], read)
            if not self.reading.skips_nothing(region, progress):
                self.reading.skip_and_count(region, progress, lanes[region], last_ids)

    def redeliver(self, ids: Mapping[RegionId, Ids], consumer_name: bytes, now: Millis) -> None:
        """History was read again: the count goes up, the idle time to 0."""
        self._note()
        self.pel.consumer(consumer_name, now)
        self.pel.redeliver(ids, now)

    def acknowledge(self, ids: Mapping[RegionId, Ids]) -> None:
        self.pel.acknowledge(ids)

    def claim(self, change: Claim, lanes: Collection[RegionId]) -> None:
        """Pending entries get a new owner; some turned out to be gone; LASTID moves on."""
        self._note()
        consumer = self.pel.consumer(change.consumer, change.now)
        if change.nacks:
            consumer.active_ms = change.now
        if change.last_id is not None:
            self.reading.jump_ahead(change.last_id, lanes)
        for region, nacks in change.nacks.items():
            self.reading.keep(region)
            for (then, count), alike in groupby(nacks, key=itemgetter(1, 2)):
                ids = from_ids([entry_id for entry_id, _, _ in alike])
                self.pel.deliver(region, ids, consumer, delivered_ms=then, count=count)
        self.pel.acknowledge(change.dropped)

    def release(self, change: Release) -> None:
        """XNACK: the entries have no owner any more and wait, in this order, to be claimed.

        One that was not pending (FORCE) is from now on.
        """
        self._note()
        for region, _, _ in change.nacks:
            self.reading.keep(region)
        self.pel.release(change)

    def forget_pending(self, region: RegionId, ids: Ids) -> bool:
        """End pending entries of one lane, ascending, of any owner; True if there were any."""
        return self.pel.forget(region, ids)

    # --- Consumers ----------------------------------------------------------------------------

    def consumer(self, name: bytes, now: Millis) -> Consumer:
        """The consumer of that name, created if it is new; it was seen now."""
        self._note()
        return self.pel.consumer(name, now)

    def delete_consumer(self, name: bytes) -> None:
        """Remove a consumer with its pending entries: they are given up, and a new run begins."""
        self._note()
        for nack in self.consumers[name].nacks():
            self.reading.give_up(nack.lane, nack.id)
        self.pel.delete_consumer(name)

    # --- What is pending ----------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        return len(self.pel) if self.lanes else 0

    @property
    def pending_bytes(self) -> int:
        """Memory that pending entries take; O(chunks + consumers)."""
        return self.pel.used_bytes

    def pending(self) -> Iterator[Nack]:
        """All pending entries, by ID, equal IDs by lane."""
        return iter(self.pel)

    def pending_from(self, start: StreamId) -> Iterator[Nack]:
        """Pending entries whose ID is not below ``start``, by ID, equal IDs by lane."""
        return self.pel.from_id(start)

    def pending_spans(self, start: StreamId = ID_MIN) -> Iterator[Span] | None:
        """Spans of pending entries whose ID is not below ``start``, by ID; None if they are in
        several lanes, and have to be merged."""
        return self.pel.spans_from(start)

    def pending_in(self, region: RegionId, *, above: StreamId, count: int) -> list[Nack]:
        """The next pending entries of one lane, ascending: those whose IDs are above the given."""
        return self.pel.in_lane(region, above=above, count=count)

    @property
    def claims_idle(self) -> bool:
        """True once a client has waited for idle entries: it is woken when some may be."""
        return self.pel.claims_idle

    def note_idle_claims(self) -> None:
        """Note that a client reads idle entries, or waits for some (XREADGROUP CLAIM)."""
        self.pel.claims_idle = True

    def longest_idle(self, latest: int | None = None) -> Iterator[Nack]:
        """Pending entries with an owner, the longest idle first.

        Args:
            latest: those that were delivered after this time are left out.
        """
        return self.pel.longest_idle(latest)

    def unowned(self) -> Iterator[Nack]:
        """Pending entries without an owner, in the order in which they are to be claimed."""
        return self.pel.unowned()

    @property
    def unowned_count(self) -> int:
        return self.pel.nobody.pending_count

    # --- What is done with --------------------------------------------------------------------

    def is_settled(self, region: RegionId, entry_id: StreamId, *, alone: bool) -> bool:
        """As ``are_settled``, of one entry."""
        if entry_id in self.progress(region).pel:
            return False
        return self.are_settled(region, entry_id, entry_id, alone=alone)

    def are_settled(
        self, region: RegionId, first: StreamId, last: StreamId, *, alone: bool
    ) -> bool:
        """True if a lane's entries from ``first`` to ``last``, none of them pending, are done with.

        They are if an interval has them, or if they were acknowledged here and this region
        delivers.  What was jumped or given up here counts, as in Redis, only if no other region
        still has to deliver it.  False also if one look is not enough: then ask for each ID.

        Args:
            alone: no other region has this database.
        """
        progress = self.progress(region)
        if last > progress.last_delivered and first <= progress.ignore_until:
            # Set back: what was acknowledged before is to be delivered here once more.
            return False
        if last <= self.start_of(region):
            return True
        if self.creates.intervals_of(region).contains_all(first, last):
            return True
        if not self.hands_out(region):
            return False
        if progress.was_handed_out(first, last):
            return True
        hands_out_alone = alone or self.reading.hands_out_alone(region)
        return last <= progress.last_delivered and hands_out_alone

    def settled_end(self, region: RegionId) -> StreamId:
        """Beyond this ID nothing of a lane is settled."""
        progress = self.progress(region)
        known = self.creates.intervals_of(region).end
        return max(progress.last_delivered, progress.handed_out.end, known)

    def settled_upto(self, region: RegionId) -> StreamId:
        """Up to here every region may drop a lane's entries: all are acknowledged, none is pending
        here, and none would be delivered here again (XGROUP SETID back)."""
        progress = self.progress(region)
        end = self.frontier(region)
        if progress.pel:
            end = min(end, StreamId(progress.pel.first_id - 1))
        if progress.ignore_until > progress.last_delivered:
            end = min(end, progress.last_delivered)
        return end
