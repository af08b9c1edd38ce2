"""Turns: the time that background work may hold the event loop at once, and when it looks again."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from crdtstream.region.beats import beat_within

# A command that comes in a turn waits for this time, and for the one step that is under way.
TURN_NS: Final = 1_000_000


class Turn:
    """A turn of the event loop, from now on."""

    __slots__ = ("_began_ns", "_ns", "_timer_ns")

    def __init__(
        self, timer_ns: Callable[[], int] = time.perf_counter_ns, *, ns: int = TURN_NS
    ) -> None:
        """
        Args:
            ns: its length.
        """
        self._ns = ns
        self._timer_ns = timer_ns
        self._began_ns = timer_ns()

    @property
    def us(self) -> int:
        """Time that it has taken by now."""
        return (self._timer_ns() - self._began_ns) // 1000

    def is_over(self) -> bool:
        return self._timer_ns() - self._began_ns > self._ns


def next_beat(seconds: float) -> float:
    """Time of the event loop at which a look that is made each ``seconds`` is due again."""
    return beat_within(asyncio.get_running_loop().time(), seconds)


async def until_beat(seconds: float) -> None:
    """Sleep until a look that is made each ``seconds`` is due again."""
    await asyncio.sleep(next_beat(seconds) - asyncio.get_running_loop().time())
