"""This region's progress in each lane of a group, and what it skips there.

Per lane, what is replicated and what is this region's own (``progress.py``), in order of ID:

    start        frontier       run_from         first pending      last_delivered
      |==============|.............|=================|.x..x............|- - - - - - ->
       (known interval)            (delivered here, acknowledged)       not delivered yet

* Jumps (XGROUP SETID, LASTID) and entries given up (DELCONSUMER) begin a new run.
* Delivery skips what an interval covers, unless XGROUP SETID went back behind it on purpose.
* What is jumped or given up while others deliver too is theirs to deliver (``takeover.py``).

Always so:
  * A lane in ``lanes`` was changed by something that is logged.  Other lanes have only the position
    where they would begin.
  * A lane that another region delivers has left something out, if it was read here when that was
    settled (``settle_who_hands_out``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from crdtstream.core.clock import Dot
from crdtstream.core.effects import Mode, Start
from crdtstream.core.groups.creates import Creates, position_in, scalar
from crdtstream.core.groups.entries_read import entries_read_skipped
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId
from crdtstream.core.lanes.lane import Lane, LastId
from crdtstream.core.membership.heirs import Heirs


@dataclass(frozen=True, slots=True)
class PositionOfOthers:
    """The position that XGROUP SETID set for lanes that were not read before.

    Attributes:
        position: one ID, or one for each lane.
        known: the creates that were here then; a later one with a lower start counts.
        is_left: whether it was a jump while others delivered too, or of their own lanes.
    """

    position: Start
    known: frozenset[Dot]
    is_left: bool


class Reading:
    """See the module's text.

    Attributes:
        here: the region that reads.
        creates: what is replicated of the group.
        heirs: the regions that act for removed ones.
        lanes: by lane how far it was read; lanes not read yet are not in it.
        position_of_others: where lanes that are not in ``lanes`` yet are read from; None: from the
            group's start.
        read_hint: ENTRIESREAD: the number of entries read, and the lane; None: all lanes to come.
    """

    __slots__ = (
        "creates",
        "heirs",
        "here",
        "lanes",
        "position_of_others",
        "read_hint",
    )

    def __init__(self, here: RegionId, creates: Creates, heirs: Heirs) -> None:
        self.here = here
        self.creates = creates
        self.heirs = heirs
        self.lanes: dict[RegionId, LaneProgress] = {}
        self.position_of_others: PositionOfOthers | None = None
        self.read_hint: tuple[int, RegionId | None] | None = None

    def progress(self, region: RegionId) -> LaneProgress:
        """This region's progress in a lane; if it has not read it yet, where it would begin.

        Asking leaves no trace: only logged changes may alter what is kept, or a replay would end in
        another state.
        """
        progress = self.lanes.get(region)
        if progress is None:
            progress = LaneProgress(self.first_position(region), self._hinted(region))
            self.skip_covered(region, progress)
        return progress

    def is_untouched(self, region: RegionId) -> bool:
        """True if nothing of a lane was read here or acknowledged: all beyond its first position is
        to be delivered."""
        return region not in self.lanes and region not in self.creates.intervals

    def read_upto(self, region: RegionId) -> tuple[StreamId, int | None]:
        """Last-delivered and entries-read of ``progress``, which is not made if it need not be."""
        if self.is_untouched(region):
            return self.first_position(region), self._hinted(region)
        progress = self.progress(region)
        return progress.last_delivered, progress.entries_read

    @property
    def only_start(self) -> StreamId | None:
        """The group's start, if all facts of its reading follow from this one ID; else None."""
        if self.lanes or self.position_of_others is not None or self.read_hint is not None:
            return None
        return self.creates.only_start

    def keep(self, region: RegionId) -> LaneProgress:
        progress = self.lanes.get(region)
        if progress is None:
            self.lanes[region] = progress = self.progress(region)
            if self.position_of_others is not None:
                self._note_left_out(region, progress)
            elif not self.hands_out(region):
                # As of every lane that others came to deliver while it was kept already.
                progress.leave_out()
        return progress

    def first_position(self, region: RegionId) -> StreamId:
        """Position where a lane begins that was not read yet.

        It is the group's start, or the position that XGROUP SETID set.  If a create that came later
        lowered the start, it is not above that.
        """
        others = self.position_of_others
        if others is None:
            return self.creates.start_of(region)
        position = position_in(others.position, region)
        starts = [(dot, position_in(start, region)) for dot, start in self.creates.items()]
        known = [start for dot, start in starts if dot in others.known]
        lowest = min(known, default=ID_MIN)
        for dot, start in starts:
            if dot not in others.known and start < lowest:
                lowest = start
                position = min(position, start)
        return position

    def last_delivered_id(self, lanes: Iterable[RegionId]) -> StreamId:
        """The ID that XINFO shows: the maximum over lanes, and over the start of lanes to come."""
        return max(
            (self.progress(region).last_delivered for region in lanes),
            default=(
                self.creates.scalar_start()
                if self.position_of_others is None
                else scalar(self.position_of_others.position)
            ),
        )

    # --- Jumps --------------------------------------------------------------------------------

    def set_position(
        self, position: Start, lanes: Collection[RegionId], entries_read: int | None
    ) -> None:
        """XGROUP SETID.  Set back, a lane ignores the intervals known now until it passed them."""
        self.take_read_hint(entries_read, lanes)
        for region in lanes:
            progress = self.keep(region)
            target = position_in(position, region)
            self._note_left_out(region, progress)
            progress.set_position(
                target,
                known_until=self.creates.intervals_of(region).end,
                entries_read=self._hinted(region),
            )
        self._set_position_of_others(position)

    def _set_position_of_others(self, position: Start) -> None:
        """Set where this region begins to read the lanes that are to come."""
        is_partitioned = self.creates.mode.mode is Mode.PARTITIONED
        if is_partitioned and self.here not in self.lanes:
            # The own lane jumps now.  So what is still to come is of others.
            self.keep(self.here).jump(position_in(position, self.here))
        is_left = is_partitioned or not self.hands_out_alone(self.here)
        self.position_of_others = PositionOfOthers(position, frozenset(self.creates), is_left)

    def jump_ahead(self, position: StreamId, lanes: Collection[RegionId]) -> None:
        """XCLAIM LASTID: read on from there, in the lanes that are not as far."""
        if not lanes and self.last_delivered_id(lanes) < position:
            # Nothing was appended yet: it will count for the lanes to come.
            self._set_position_of_others(position)
        for region in lanes:
            progress = self.keep(region)
            if progress.last_delivered < position:
                self._note_left_out(region, progress)
                progress.jump(position)

    def give_up(self, region: RegionId, entry_id: StreamId) -> None:
        """Give up a pending entry (DELCONSUMER)."""
        progress = self.lanes[region]
        self._note_left_out(region, progress)
        progress.give_up(entry_id)

    def _note_left_out(self, region: RegionId, progress: LaneProgress) -> None:
        """Something is jumped or given up: for good, or left to other regions."""
        if not self.hands_out_alone(region):
            progress.leave_out()

    def go_back(self, region: RegionId, start: StreamId) -> None:
        """Go back to the frontier; a lane that XGROUP SETID set back further stays there."""
        progress = self.lanes[region]
        frontier = self.creates.intervals_of(region).run_end(start)
        if frontier < progress.last_delivered:
            progress.take_back(frontier)

    # --- Delivery -----------------------------------------------------------------------------

    def hands_out(self, region: RegionId) -> bool:
        """True if this region delivers this lane's new entries."""
        acting = self.creates.mode.acting(region, self.heirs)
        return acting is None or acting == self.here

    def hands_out_alone(self, region: RegionId) -> bool:
        """True if, as far as is known here, this region alone delivers this lane's entries."""
        return self.creates.mode.acting(region, self.heirs) == self.here

    def settle_position_of_others(self) -> None:
        """Mode or members may have changed: a region that reads for others, too, reads all lanes
        from the start."""
        others = self.position_of_others
        if others is None:
            return
        if not self.hands_out(self.here):
            self.position_of_others = PositionOfOthers(others.position, others.known, is_left=True)
        elif others.is_left:
            # XGROUP SETID spoke of this region's own reading; now it reads for the others, too.
            self.position_of_others = None

    # --- ENTRIESREAD --------------------------------------------------------------------------

    def take_read_hint(self, entries_read: int | None, lanes: Collection[RegionId]) -> None:
        """One number for the whole stream: what it says of a lane is clear only if there is one."""
        if entries_read is None or len(lanes) > 1:
            self.read_hint = None
        else:
            self.read_hint = entries_read, next(iter(lanes), None)

    def _hinted(self, region: RegionId) -> int | None:
        """A lane's entries-read before anything was delivered; 0 for a lane that began later."""
        if self.read_hint is None:
            return None
        count, of_lane = self.read_hint
        return count if of_lane in (None, region) else 0

    def entries_read(self, lanes: Collection[RegionId]) -> int | None:
        """Redis's entries-read, summed over the lanes; None if one lane's is unknown."""
        if not lanes:
            return None if self.read_hint is None else self.read_hint[0]
        counts = [self.progress(region).entries_read for region in lanes]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    # --- What is not to be delivered ----------------------------------------------------------

    def skip_and_count(
        self,
        region: RegionId,
        progress: LaneProgress,
        lane: Lane | None,
        last_ids: Mapping[RegionId, LastId],
    ) -> None:
        """As ``skip_covered``; what was skipped counts as read."""
        position = progress.last_delivered
        self.skip_covered(region, progress)
        if progress.last_delivered != position:
            last_id = last_ids[region].id if region in last_ids else ID_MIN
            progress.count_read(entries_read_skipped(progress, lane, last_id, position))

    def skip_covered(self, region: RegionId, progress: LaneProgress) -> None:
        """Move last-delivered to the end of an interval that contains it."""
        if self.skips_nothing(region, progress):
            return
        for start, end in self.to_skip(region, progress, progress.last_delivered):
            if start > progress.last_delivered:
                return
            progress.skip_to(end)

    def skips_nothing(self, region: RegionId, progress: LaneProgress) -> bool:
        """True if ``to_skip`` has nothing beyond last-delivered: a quick test of the usual case."""
        if progress.handed_out:
            return False
        intervals = self.creates.intervals.get(region)
        return intervals is None or intervals.end <= progress.last_delivered

    def to_skip(
        self, region: RegionId, progress: LaneProgress, position: StreamId
    ) -> Iterator[tuple[StreamId, StreamId]]:
        """Stretches beyond ``position`` that are not to be delivered, by their starts."""
        intervals = self.creates.intervals.get(region)
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
            assert found[1] > position, "the next stretch ends where this one does"
            position = found[1]
