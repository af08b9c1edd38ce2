"""Pins: images that were fetched from disk stay in memory until the woken callers have run.

A caller that asked for entries runs in the tick in which they come, or is woken by it and runs in
the next one.  Until then they must not leave again, however short memory is.
"""

from collections import deque
from collections.abc import Iterable

from crdtstream.core.lanes.residency import Residency


class Pins:
    """Images that were fetched, by the tick in which they came.

    Attributes:
        pinned: images by the tick in which they came, the earliest first.
    """

    __slots__ = ("_residency", "_ticks", "pinned")

    def __init__(self, residency: Residency) -> None:
        self._residency = residency
        # Ticks that ended while something was pinned; others do not matter.
        self._ticks = 0
        self.pinned: deque[tuple[int, list[int]]] = deque()

    def add(self, images: Iterable[int]) -> None:
        """Note that these came in the open tick."""
        self.pinned.append((self._ticks, list(images)))

    def note_tick(self) -> None:
        """Note that a tick ends: what came before the one that ended last may leave memory again.

        To be called if anything is pinned.
        """
        pinned = self.pinned
        self._ticks += 1
        while pinned and pinned[0][0] < self._ticks - 1:
            self._residency.unpin(pinned.popleft()[1])
