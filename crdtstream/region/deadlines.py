"""Deadlines of a region's parts: when time is to be passed to the region, although nothing happens.

    part             its deadline            set when
    ───────────      ────────────            ────────────────────────────────────────────
    catching up        5 000  ┐              it asks, something comes, it is level
    bound of lag           –  │              a tick ends while a bound is set
    cold reads             –  ├─ earliest    reading failed, and the rest has ended
    bid                    –  │   = 5 000    it is sent, or ends
    rest of links          –  │      │       batches are applied while a checkpoint is late
    effect, joining,   7 250  │      │       the membership looked at what is under way
    wishes, seal           –  ┘      │
                                     v
                               Ready.deadline ──> the node's timer ──> pass_time: each part looks

A part sets its deadline itself, when what it waits for begins, changes or ends.  Setting one
compares two numbers.  Only if the earliest deadline moves to a later time, or ends, all of them
are looked at: there are nine.  A heap would need as many steps to find an overwritten entry, and
would keep it until then (``docs/decisions/a-table-of-deadlines.md``).

Clients that wait and keys that expire are thousands.  They have heaps of their own, in the
database.

Always so: ``earliest`` is the least of all that are set, None if none is.
"""

from crdtstream.core.ids import Millis


class Deadlines:
    """The deadlines of one region.

    Attributes:
        earliest: see the module's text.
    """

    __slots__ = ("_all", "earliest")

    def __init__(self) -> None:
        self.earliest: Millis | None = None
        self._all: list[Deadline] = []

    def new(self) -> "Deadline":
        """A deadline of one part, for as long as the region lives; not set."""
        deadline = Deadline(self)
        self._all.append(deadline)
        return deadline

    def all_set(self) -> list[Millis]:
        """Those that are set."""
        return [deadline.at for deadline in self._all if deadline.at is not None]

    def note(self, before: Millis | None, at: Millis | None) -> None:
        """Note that one of them has moved."""
        earliest = self.earliest
        if at is not None and (earliest is None or at <= earliest):
            self.earliest = at
        elif before == earliest:
            self._find_earliest()
        assert self.earliest is None or at is None or self.earliest <= at

    def _find_earliest(self) -> None:
        earliest: Millis | None = None
        for deadline in self._all:
            at = deadline.at
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        self.earliest = earliest


class Deadline:
    """The deadline of one part.

    Attributes:
        at: None: nothing of the part depends on time.
    """

    __slots__ = ("_deadlines", "at")

    def __init__(self, deadlines: Deadlines) -> None:
        self.at: Millis | None = None
        self._deadlines = deadlines

    def set(self, at: Millis | None) -> None:
        """Move it; None: end it."""
        before = self.at
        if at != before:
            self.at = at
            self._deadlines.note(before, at)
