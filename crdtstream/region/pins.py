"""Images that were fetched from disk stay in memory until whom that wakes has run.

Who asked for entries runs in the tick in which they come, or is woken by it and runs in the next
one.  Until then they must not leave again, however little memory there is.
"""

from collections import deque
from collections.abc import Iterable

from crdtstream.core.lanes.residency import Residency


class Pins:
    """What was fetched, and in which tick."""

    __slots__ = ("_pinned", "_residency", "_ticks")

    def __init__(self, residency: Residency) -> None:
        self._residency = residency
        # Ticks that ended while something was pinned; others do not matter.
        self._ticks = 0
        self._pinned: deque[tuple[int, list[int]]] = deque()

    def add(self, images: Iterable[int]) -> None:
        """These came in the open tick."""
        self._pinned.append((self._ticks, list(images)))

    def note_tick(self) -> None:
        """A tick ends: what came before the one that ended last may leave memory again."""
        pinned = self._pinned
        if not pinned:
            return
        self._ticks += 1
        while pinned and pinned[0][0] < self._ticks - 1:
            self._residency.unpin(pinned.popleft()[1])
