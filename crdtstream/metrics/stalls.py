"""Stalls of the event loop: a task sleeps, and measures how late it wakes.

It sleeps for 20 ms while the loop's thread works, and each time for longer while the thread is
idle.  A stall takes time, most of it the processor's; so an idle node need not wake fifty times a
second to find none.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from crdtstream.metrics.definitions import STALL_US_BOUNDS
from crdtstream.region.histogram import Histogram

INTERVAL_SECONDS: Final = 0.02
# The longest sleep; any stall as long as this is noticed, whatever went before.
QUIET_SECONDS: Final = 0.64
# The thread is busy above this share of the time, or above this time; or if this task woke so late.
BUSY_SHARE: Final = 0.05
BUSY_NS: Final = 8_000_000
LATE_NS: Final = 2_000_000
# The longest stall is shown for once to twice this time.
WINDOW_NS: Final = 30_000_000_000


class StallWatch:
    """Stalls of the loop that ``run`` is a task of.

    Attributes:
        stall_us: how late the task woke, each time.
    """

    def __init__(
        self,
        clock: Callable[[], int] = time.monotonic_ns,
        on_wake: Callable[[int, int], None] = lambda _slept_ns, _late_ns: None,
    ) -> None:
        """``on_wake``: called with how long the task slept, and how much of that it was late."""
        self._on_wake = on_wake
        self.stall_us = Histogram(STALL_US_BOUNDS)
        self._clock = clock
        self._window_ends_ns = clock() + WINDOW_NS
        self._longest_us = 0
        self._longest_before_us = 0

    async def run(self) -> None:
        """Watch for as long as the node lives."""
        seconds = INTERVAL_SECONDS
        worked_ns = time.thread_time_ns()
        while True:
            due_ns = self._clock() + round(seconds * 1e9)
            await asyncio.sleep(seconds)
            late_ns = self._clock() - due_ns
            self.note(late_ns)
            self._on_wake(round(seconds * 1e9) + late_ns, late_ns)
            worked_before_ns, worked_ns = worked_ns, time.thread_time_ns()
            seconds = next_interval(seconds, worked_ns - worked_before_ns, late_ns)

    def note(self, late_ns: int) -> None:
        """The task woke so late; a timer that was early is not late."""
        late_us = max(0, late_ns // 1000)
        self.stall_us.note(late_us)
        self._turn_over()
        self._longest_us = max(self._longest_us, late_us)

    @property
    def longest_us(self) -> int:
        """The longest within the last one to two windows."""
        self._turn_over()
        return max(self._longest_us, self._longest_before_us)

    def _turn_over(self) -> None:
        now = self._clock()
        if now < self._window_ends_ns:
            return
        is_next = now < self._window_ends_ns + WINDOW_NS
        self._longest_before_us = self._longest_us if is_next else 0
        self._longest_us = 0
        self._window_ends_ns = now + WINDOW_NS


def next_interval(seconds: float, worked_ns: int, late_ns: int) -> float:
    """Length of the next sleep, after one of ``seconds`` with ``worked_ns`` of work in the loop."""
    if worked_ns > min(BUSY_SHARE * seconds * 1e9, BUSY_NS) or late_ns > LATE_NS:
        return INTERVAL_SECONDS
    return min(QUIET_SECONDS, 2 * seconds)
