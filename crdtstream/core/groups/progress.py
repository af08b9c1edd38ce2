"""This region's own facts of a lane in a group: how far it read it, and what is pending.

A lane is a line of entries, by ID.  Most fields are places on it.  Usually:

    0-0 . . . . . [===handed_out===] . . . . run_from [=====x====x=====] last_delivered - - - ->
                   an earlier run             x: pending, not acknowledged       not delivered yet

The *run* is ``(run_from, last_delivered]``: every entry in it was delivered here, or is covered by
an interval.  The region reports only what it acknowledged of its run (``vouched_for``).  Below
``run_from`` it knows only the stretches in ``handed_out``.  Three moves leave something ahead of
last-delivered that is not delivered as other entries are:

    set back        last_delivered - - - - - - - - - - - - - ignore_until - - - ->
    (SETID)         up to ignore_until all is delivered once more, whatever an interval says

    taken back      last_delivered - - [==handed_out==] - - x - skip_pending_until - - - ->
    (lower create)  the stretch is not delivered again, nor is what is pending (x)

    handover        last_delivered - - [==handed_out==] - - - - - - - - - ->
    (rule 13)       the stretch was delivered by the old home

A place that is not ahead of last-delivered has no effect on what is delivered next.

Always so:
  * ``run_from <= last_delivered``.
  * Delivering and skipping raise last-delivered.  Only ``jump``, ``take_back`` and
    ``continue_from`` lower it.
  * A move out of the run begins another one: nothing is vouched for that was not read since.
  * A run that ends is in ``handed_out``; an entry that was given up is in neither.
  * Stretches of ``handed_out`` are disjoint and ascend (``ranges.py``).
  * ``skip_pending_until`` only rises, until XGROUP SETID makes it 0-0.  Then ``handed_out`` has
    nothing ahead of last-delivered either.

The fields change here only: ``tests/core/test_progress.py`` reads the code and keeps it so.
"""

from typing import Final

from crdtstream.core.effects import LaneHandover, counted
from crdtstream.core.groups.lane_pel import LanePel
from crdtstream.core.ids import ID_MAX, ID_MIN, StreamId
from crdtstream.core.intervals import Intervals

# A delivery count is a signed 64-bit number to clients.
DELIVERY_COUNT_MAX: Final = (1 << 63) - 1
# The stretches of most lanes, which are none.  Nothing is ever added to it.
_NOTHING: Final = Intervals()


class LaneProgress:
    """This region's progress in one lane, and what is pending there; see the module's text.

    Attributes:
        run_from, last_delivered: the current run.
        ignore_until: set back by XGROUP SETID: intervals are ignored up to here (``rules`` 11).
        handed_out: stretches outside the run that were delivered here too, holes left out.  What is
            not pending of them was acknowledged.  Delivery skips those that lie ahead (``rules``
            10).
        has_left_out: something was jumped or given up here while other regions delivered too.  It
            is taken up again if this region delivers after a change of mode (``rules`` 13).
        skip_pending_until: the lane was taken back: up to here what is pending is not delivered
            again, not even where its run was forgotten (XGROUP SETID forward, DELCONSUMER).
        entries_read: Redis's counter, None when unknown.
        pel: what is pending.
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
        self.handed_out = _NOTHING
        self.has_left_out = False
        self.skip_pending_until = ID_MIN
        self.entries_read = entries_read
        self.pel = LanePel()
        self._check()

    @staticmethod
    def restored(
        *,
        run_from: StreamId,
        last_delivered: StreamId,
        ignore_until: StreamId,
        handed_out: Intervals,
        has_left_out: bool,
        skip_pending_until: StreamId,
        entries_read: int | None,
    ) -> "LaneProgress":
        """As a checkpoint has it; ``run_from`` is not beyond ``last_delivered``."""
        progress = LaneProgress(last_delivered, entries_read)
        progress.run_from = run_from
        progress.ignore_until = ignore_until
        if handed_out:
            progress.handed_out = handed_out
        progress.has_left_out = has_left_out
        progress.skip_pending_until = skip_pending_until
        progress._check()
        return progress

    def _check(self) -> None:
        """Check what always holds; every move ends with it."""
        assert self.run_from <= self.last_delivered, "the run ends before it begins"

    # --- Forward ------------------------------------------------------------------------------

    def deliver_upto(self, entry_id: StreamId, entries_read: int | None) -> None:
        """Entries up to this one were delivered; the run grows."""
        assert entry_id > self.last_delivered, "delivering begins beyond last-delivered"
        self.last_delivered = entry_id
        self.entries_read = entries_read
        self._check()

    def skip_to(self, end: StreamId) -> None:
        """Skip what is not to be delivered: it was acknowledged, or delivered here; the run grows.

        What it counts as is up to the caller (``count_read``).
        """
        assert end > self.last_delivered, "skipping goes forward"
        self.last_delivered = end
        self._check()

    def count_read(self, entries_read: int | None) -> None:
        self.entries_read = entries_read

    # --- Anywhere -----------------------------------------------------------------------------

    def jump(self, position: StreamId) -> None:
        """Read on from ``position``.  Within the current run everything stays accounted for."""
        if not self.run_from <= position <= self.last_delivered:
            self._keep_run()
            self.run_from = position
        self.last_delivered = position
        self._check()

    def set_position(
        self, position: StreamId, *, known_until: StreamId, entries_read: int | None
    ) -> None:
        """Read on from ``position``, whatever was delivered beyond it: XGROUP SETID.

        Args:
            known_until: the end of the intervals known now; set back, they are ignored up to there.
        """
        if position < self.last_delivered and known_until > ID_MIN:
            self.ignore_until = known_until
        self.jump(position)
        if position < ID_MAX:
            self.handed_out.remove(position, ID_MAX)
        self.skip_pending_until = ID_MIN
        self.entries_read = entries_read
        assert self.handed_out.end <= self.last_delivered, "nothing ahead is to be skipped"
        self._check()

    # --- Back ---------------------------------------------------------------------------------

    def take_back(self, position: StreamId) -> None:
        """Go back; what was delivered beyond ``position``, or is pending there, is not delivered
        again."""
        assert position < self.last_delivered, "it is taken back, not on"
        self.keep_as_handed_out()
        self.last_delivered = self.run_from = position
        self.entries_read = None
        self._check()

    def read_again(self, low: StreamId, high: StreamId) -> None:
        """Entries of a stretch were never delivered as they are now: go back to it if need be.

        What lies behind it is not delivered again, and what is pending of it stays so.
        """
        if low < self.last_delivered:
            self.take_back(low)
        self.handed_out.remove(low, high)
        assert low >= self.last_delivered, "the stretch is ahead now"

    def keep_as_handed_out(self) -> None:
        """The current run is not delivered again, wherever the next one begins."""
        self.skip_pending_until = max(self.skip_pending_until, self.last_delivered)
        self._keep_run()

    def _keep_run(self) -> None:
        """Remember the current run as delivered; another one is to begin."""
        if self.run_from < self.last_delivered:
            self._add_stretch(self.run_from, self.last_delivered)

    def _add_stretch(self, start: StreamId, end: StreamId) -> None:
        if self.handed_out is _NOTHING:
            self.handed_out = Intervals()
        self.handed_out.add(start, end)

    # --- Holes, and what is left to others ----------------------------------------------------

    def give_up(self, entry_id: StreamId) -> None:
        """Give up a pending entry: it leaves a hole in what was delivered here."""
        if self.run_from < entry_id <= self.last_delivered:
            self._add_stretch(self.run_from, entry_id)
            self.run_from = entry_id
        self.handed_out.remove(StreamId(entry_id - 1), entry_id)
        assert not self.was_handed_out(entry_id, entry_id), "a hole counts as acknowledged"
        self._check()

    def leave_out(self) -> None:
        """Something is, or was, jumped or given up here that other regions deliver."""
        self.has_left_out = True

    def take_up_left_out(self) -> None:
        """This region delivers now, and goes back to everything that was left to others."""
        self.has_left_out = False

    # --- A change of home ---------------------------------------------------------------------

    def take_in(self, handover: LaneHandover) -> list[tuple[StreamId, StreamId]]:
        """Entries that the old home had delivered are not delivered again here.

        Nor are those delivered here before, under another mode, except what the old home was set
        back to read once more.

        Returns:
            The stretches that were delivered there.
        """
        self.keep_as_handed_out()
        if handover.last_delivered < handover.ignore_until:
            self.handed_out.remove(handover.last_delivered, handover.ignore_until)
        runs = [
            (start, end)
            for start, end in [(handover.run_from, handover.last_delivered), *handover.handed_out]
            if start < end
        ]
        for start, end in runs:
            self._add_stretch(start, end)
        return runs

    def continue_from(self, handover: LaneHandover) -> None:
        """Stand where the old home stopped: its run is vouched for here from now on.

        ``take_in`` comes before: what was delivered here is kept.
        """
        assert self.skip_pending_until >= self.last_delivered, "the current run was not kept"
        self.has_left_out = False
        self.run_from = handover.run_from
        self.last_delivered = handover.last_delivered
        self.ignore_until = handover.ignore_until
        read = handover.entries_read
        self.entries_read = None if read is None else counted(read)
        self._check()

    # --- Questions ----------------------------------------------------------------------------

    def handover(self) -> LaneHandover:
        """The facts of the lane that the next region to deliver its entries must know."""
        return LaneHandover(
            run_from=self.run_from,
            last_delivered=self.last_delivered,
            handed_out=tuple(self.handed_out),
            ignore_until=self.ignore_until,
            pending=tuple((nack.id, nack.delivery_count) for nack in self.pel.nacks()),
            entries_read=self.entries_read,
        )

    def was_handed_out(self, first: StreamId, last: StreamId) -> bool:
        """True if everything from ``first`` to ``last`` lies in one stretch delivered here."""
        return (
            self.run_from < first and last <= self.last_delivered
        ) or self.handed_out.contains_all(first, last)


def once_more(delivery_count: int) -> int:
    """The delivery count after another delivery; it ends where XNACK FATAL puts it."""
    return min(delivery_count + 1, DELIVERY_COUNT_MAX)
