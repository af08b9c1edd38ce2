"""Turns: how long background work may hold the event loop at a time."""

import time
from collections.abc import Callable
from typing import Final

# A command that comes meanwhile waits for so long, and for the one step that is under way.
TURN_NS: Final = 1_000_000


class Turn:
    """A turn of the event loop, from now on."""

    __slots__ = ("_began_ns", "_timer_ns")

    def __init__(self, timer_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._timer_ns = timer_ns
        self._began_ns = timer_ns()

    @property
    def us(self) -> int:
        """How long it has taken by now."""
        return (self._timer_ns() - self._began_ns) // 1000

    def is_over(self) -> bool:
        return self._timer_ns() - self._began_ns > TURN_NS
