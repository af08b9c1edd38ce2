"""Replicated state of a group: its live creates, and what belongs to each of them.

A group exists while it has a live create.  Usually there is one; regions that create a group at the
same time leave one each.  A user's destroy ends them all.  The delete that expiry issues
(``ExpireKey``) ends only those that it had observed.  So an acknowledged interval or a mode belongs
to the creates that its issuer had observed, and ends with the last of these:

    create 1:5 ── interval (0, 9], mode home 1       the group shows the union of the intervals
    create 2:3 ── interval (4, 7]                     and, of the modes, the one that wins

So what is shown depends on the effects that were applied, and not on their order.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from crdtstream.core.clock import Dot, VersionVector, covers_dot
from crdtstream.core.effects import Start
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.ids import ID_MIN, RegionId, StreamId
from crdtstream.core.intervals import Intervals

NO_INTERVALS: Final = Intervals()


class Create:
    """One create, and what was issued by regions that had observed it."""

    __slots__ = ("intervals", "mode", "start")

    def __init__(self, start: Start) -> None:
        self.start = start
        self.intervals: dict[RegionId, Intervals] = {}
        self.mode = ModeRegister()

    def united(self, other: "Create") -> "Create":
        """The same create as two regions know it, with what either of them knows."""
        create = Create(self.start)
        for one in (self, other):
            for region, intervals in one.intervals.items():
                for low, high in intervals:
                    create.intervals.setdefault(region, Intervals()).add(low, high)
        create.mode = other.mode if other.mode.beats(self.mode) else self.mode
        return create

    def knows_as(self, other: "Create") -> bool:
        """True if the same create has the same acknowledged intervals and mode elsewhere."""
        mine = {region: list(intervals) for region, intervals in self.intervals.items()}
        theirs = {region: list(intervals) for region, intervals in other.intervals.items()}
        return self.mode == other.mode and mine == theirs

    def without_intervals(self) -> "Create":
        """The same create without acknowledged intervals."""
        create = Create(self.start)
        create.mode = self.mode
        return create


class Creates:
    """The live creates of one group, by dot.

    Attributes:
        intervals: per lane what was acknowledged: the union over the creates.
        mode: the region that delivers: of the creates' modes the one that wins.
    """

    __slots__ = ("_by_dot", "intervals", "mode")

    def __init__(self) -> None:
        self._by_dot: dict[Dot, Create] = {}
        self.intervals: dict[RegionId, Intervals] = {}
        self.mode = ModeRegister()

    def __len__(self) -> int:
        return len(self._by_dot)

    def __iter__(self) -> Iterator[Dot]:
        """The dots, in the order in which the creates came to be here."""
        return iter(self._by_dot)

    def items(self) -> Iterator[tuple[Dot, Start]]:
        """Dots and starts, in that order."""
        for dot, create in self._by_dot.items():
            yield dot, create.start

    def all(self) -> Iterator[tuple[Dot, Create]]:
        """Dots and creates, in that order."""
        return iter(self._by_dot.items())

    # --- Starts -------------------------------------------------------------------------------

    def start_of(self, region: RegionId) -> StreamId:
        """The group's start in a lane: the minimum over the creates; 0-0 before any."""
        lowest: StreamId | None = None
        for create in self._by_dot.values():
            start = position_in(create.start, region)
            if lowest is None or start < lowest:
                lowest = start
        return ID_MIN if lowest is None else lowest

    @property
    def only_start(self) -> StreamId | None:
        """The group's start, if one ID is all that is known of it; else None."""
        if len(self._by_dot) != 1 or self.intervals:
            return None
        start = next(iter(self._by_dot.values())).start
        return start if isinstance(start, int) else None

    def scalar_start(self) -> StreamId:
        """Its start in a lane that has no appends yet, as one ID to show."""
        return min((scalar(create.start) for create in self._by_dot.values()), default=ID_MIN)

    # --- Acknowledged runs --------------------------------------------------------------------

    def intervals_of(self, region: RegionId) -> Intervals:
        """Acknowledged intervals of a lane; only to be read."""
        return self.intervals.get(region, NO_INTERVALS)

    def frontier(self, region: RegionId) -> StreamId:
        """The end of the acknowledged run that begins at the start."""
        return self.intervals_of(region).run_end(self.start_of(region))

    # --- Changes ------------------------------------------------------------------------------

    def add(self, dot: Dot, start: Start) -> None:
        assert dot not in self._by_dot, "an effect is applied once"
        self._by_dot[dot] = Create(start)

    def drop_covered_by(self, context: VersionVector) -> None:
        """End the creates that the context covers, with what only they hold up."""
        gone = [dot for dot in self._by_dot if covers_dot(context, dot)]
        if not gone:
            return
        for dot in gone:
            del self._by_dot[dot]
        self._unite_all()
        assert not self.covers_any(context)

    def replace(self, creates: Mapping[Dot, Create]) -> None:
        """Replace all creates by these."""
        self._by_dot = dict(creates)
        self._unite_all()

    def restore(self, creates: Iterable[tuple[Dot, Create]]) -> None:
        """Put back what ``all`` returned."""
        self._by_dot.update(creates)
        self._unite_all()

    def _unite_all(self) -> None:
        """Unite the intervals and the mode of all creates."""
        self.intervals = {}
        self.mode = ModeRegister()
        for create in self._by_dot.values():
            for region, intervals in create.intervals.items():
                for start, end in intervals:
                    self.intervals.setdefault(region, Intervals()).add(start, end)
            if create.mode.beats(self.mode):
                self.mode = create.mode

    def covers_any(self, context: VersionVector) -> bool:
        """True if an issuer with this context had observed one of the live creates."""
        return any(covers_dot(context, dot) for dot in self._by_dot)

    def unite(
        self, region: RegionId, start: StreamId, end: StreamId, context: VersionVector
    ) -> list[tuple[StreamId, StreamId]]:
        """Add an interval that was issued under ``context``.

        Returns:
            The parts of it that no live create had yet, ascending.
        """
        observed = self._observed(context)
        assert observed, "an interval belongs to a create that its issuer had observed"
        for create in observed:
            create.intervals.setdefault(region, Intervals()).add(start, end)
        fresh = self.intervals.setdefault(region, Intervals()).add(start, end)
        assert self.intervals[region].run_end(start) >= end
        return fresh

    def set_mode(self, register: ModeRegister, context: VersionVector) -> bool:
        """Take a mode that was issued under ``context``; returns whether it wins."""
        observed = self._observed(context)
        assert observed, "a mode belongs to a create that its issuer had observed"
        for create in observed:
            if register.beats(create.mode):
                create.mode = register
        if not register.beats(self.mode):
            return False
        self.mode = register
        assert all(not create.mode.beats(register) for create in self._by_dot.values())
        return True

    def _observed(self, context: VersionVector) -> list[Create]:
        return [create for dot, create in self._by_dot.items() if covers_dot(context, dot)]


def position_in(start: Start, region: RegionId) -> StreamId:
    """Position of a start in one lane; 0-0 in lanes that it does not name."""
    return start if isinstance(start, int) else start.get(region, ID_MIN)


def scalar(start: Start) -> StreamId:
    """A start as the one ID to show."""
    return max(start.values(), default=ID_MIN) if isinstance(start, Mapping) else start
