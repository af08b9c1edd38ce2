"""How far this region has read each lane of a group, and what it skips there.

Per lane, in order of ID:

    start        frontier       run_from         first pending      last_delivered
      |==============|.............|=================|.x..x............|- - - - - - ->
       (known interval)            (delivered here, acknowledged)       not delivered yet

* ``run_from``: from here on every entry up to last-delivered was handed out here, or is covered
  by an interval.  Jumps (XGROUP SETID, LASTID) and entries given up (DELCONSUMER) begin a new run;
  the stretches before them are kept in ``handed_out``.
* Delivery skips what an interval covers, unless XGROUP SETID went back behind it on purpose.
* What is jumped or given up while others hand out too is theirs to deliver (``takeover.py``).

Always so: a lane in ``lanes`` was changed by something that is logged.  Of other lanes it is only
said where they would begin.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from crdtstream.core.clock import Dot
from crdtstream.core.effects import Mode
from crdtstream.core.groups.creates import Creates, Start, position_in, scalar
from crdtstream.core.groups.entries_read import entries_read_skipped
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId
from crdtstream.core.lanes.lane import Lane, LastId
from crdtstream.core.membership.heirs import Heirs


class Reading:
    """See the module's text.

    Attributes:
        here: the region that reads.
        creates: what is replicated of the group.
        heirs: who acts for removed regions.
        lanes: by lane how far it was read; lanes not read yet are not in it.
        position_of_others: where lanes that are not in ``lanes`` yet are read from, if XGROUP SETID
            said so.
        position_known: the creates that were here then.
        position_is_left: whether it was a jump while others handed out too, or their own lanes.
        read_hint: ENTRIESREAD: how many were read, and of which lane; None: of all that will come.
    """

    __slots__ = (
        "creates",
        "heirs",
        "here",
        "lanes",
        "position_is_left",
        "position_known",
        "position_of_others",
        "read_hint",
    )

    def __init__(self, here: RegionId, creates: Creates, heirs: Heirs) -> None:
        self.here = here
        self.creates = creates
        self.heirs = heirs
        self.lanes: dict[RegionId, LaneProgress] = {}
        self.position_of_others: Start | None = None
        self.position_known: frozenset[Dot] = frozenset()
        self.position_is_left = False
        self.read_hint: tuple[int, RegionId | None] | None = None

    def progress(self, region: RegionId) -> LaneProgress:
        """How far this region has read a lane; where it would begin, if it has not yet.

        Asking leaves no trace: what is kept must come from logged changes alone, or replay would
        not live through the same.
        """
        progress = self.lanes.get(region)
        if progress is None:
            progress = LaneProgress(self._first_position(region), self._hinted(region))
            self.skip_covered(region, progress)
        return progress

    def keep(self, region: RegionId) -> LaneProgress:
        progress = self.lanes.get(region)
        if progress is None:
            self.lanes[region] = progress = self.progress(region)
            if self.position_of_others is not None:
                self.note_left_out(region, progress)
        return progress

    def _first_position(self, region: RegionId) -> StreamId:
        """Where a lane begins that was not read yet.

        The group's start; or what XGROUP SETID said, unless a create that came after it lowered
        the start, and then no higher than that.
        """
        if self.position_of_others is None:
            return self.creates.start_of(region)
        position = position_in(self.position_of_others, region)
        starts = [(dot, position_in(start, region)) for dot, start in self.creates.items()]
        known = [start for dot, start in starts if dot in self.position_known]
        lowest = min(known, default=ID_MIN)
        for dot, start in starts:
            if dot not in self.position_known and start < lowest:
                lowest = start
                position = min(position, start)
        return position

    def last_delivered_id(self, lanes: Iterable[RegionId]) -> StreamId:
        """What XINFO shows: the maximum over the lanes, and over the start of lanes to come."""
        return max(
            (self.progress(region).last_delivered for region in lanes),
            default=(
                self.creates.scalar_start()
                if self.position_of_others is None
                else scalar(self.position_of_others)
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
            intervals = self.creates.intervals.get(region)
            if target < progress.last_delivered and intervals is not None:
                progress.ignore_until = intervals.end
            self.note_left_out(region, progress)
            progress.jump(target)
            progress.handed_out.remove(target, ID_MAX)
            progress.skip_pending_until = ID_MIN
            progress.entries_read = self._hinted(region)
        self._set_position_of_others(position)

    def _set_position_of_others(self, position: Start) -> None:
        """Where this region begins to read the lanes that are to come."""
        is_partitioned = self.creates.mode.mode is Mode.PARTITIONED
        if is_partitioned and self.here not in self.lanes:
            # The own lane jumps now.  So what is still to come is of others.
            self.keep(self.here).jump(position_in(position, self.here))
        self.position_of_others = position
        self.position_known = frozenset(self.creates)
        self.position_is_left = is_partitioned or not self.hands_out_alone(self.here)

    def jump_ahead(self, position: StreamId, lanes: Collection[RegionId]) -> None:
        """XCLAIM LASTID: read on from there, in the lanes that are not as far."""
        if not lanes and self.last_delivered_id(lanes) < position:
            # Nothing was appended yet: it will count for the lanes to come.
            self._set_position_of_others(position)
        for region in lanes:
            progress = self.keep(region)
            if progress.last_delivered < position:
                self.note_left_out(region, progress)
                progress.jump(position)

    def note_left_out(self, region: RegionId, progress: LaneProgress) -> None:
        """Something is jumped or given up: for good, or left to other regions."""
        if not self.hands_out_alone(region):
            progress.has_left_out = True

    def go_back(self, region: RegionId, start: StreamId) -> None:
        """Go back to the frontier; a lane that XGROUP SETID set back further stays there."""
        progress = self.lanes[region]
        frontier = self.creates.intervals_of(region).run_end(start)
        if frontier >= progress.last_delivered:
            return
        self.keep_as_handed_out(progress)
        progress.last_delivered = progress.run_from = frontier
        progress.entries_read = None

    def keep_as_handed_out(self, progress: LaneProgress) -> None:
        progress.skip_pending_until = max(progress.skip_pending_until, progress.last_delivered)
        progress.keep_run()

    # --- Who hands out ------------------------------------------------------------------------

    def hands_out(self, region: RegionId) -> bool:
        """Whether this region hands out this lane's new entries."""
        acting = self.creates.mode.acting(region, self.heirs)
        return acting is None or acting == self.here

    def hands_out_alone(self, region: RegionId) -> bool:
        """Whether, as far as is known here, no other region hands out this lane's entries."""
        return self.creates.mode.acting(region, self.heirs) == self.here

    def settle_position_of_others(self) -> None:
        """Mode or members may have changed: who reads for others, too, reads all lanes from the
        start."""
        if not self.hands_out(self.here):
            self.position_is_left = True
        elif self.position_is_left:
            # XGROUP SETID spoke of this region's own reading; now it reads for the others, too.
            self.position_of_others = None
            self.position_is_left = False

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
            progress.entries_read = entries_read_skipped(progress, lane, last_id, position)

    def skip_covered(self, region: RegionId, progress: LaneProgress) -> None:
        """Move last-delivered to the end of an interval that contains it."""
        if self.skips_nothing(region, progress):
            return
        for start, end in self.to_skip(region, progress, progress.last_delivered):
            if start > progress.last_delivered:
                return
            progress.last_delivered = end

    def skips_nothing(self, region: RegionId, progress: LaneProgress) -> bool:
        """Whether ``to_skip`` has nothing beyond last-delivered: mostly so, and told at once."""
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
            position = found[1]
