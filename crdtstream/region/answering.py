"""Time that a request waits in this region for its answer: for the event loop, and for the log.

    request arrives ──> the loop comes to it ──> it runs ──> the log has what it tells ──> answer
                   loop                                 log

A region that answers late is not down: commands succeed, no lag grows, and clients stay with it.
So the region measures itself, and its health pages say no beyond a bound.  Two times count:

    loop   how late a timer of the event loop fired.  It was at least this late during half of the
           last ``LOOP_WINDOW_NS``, so one stall does not show, however long a command ran.
    log    how long the oldest record of a commit waited until the log had it: the median of the
           last ``COMMITS``.  A commit under way counts as well, once it takes long.

A region that is slow stays so until it takes less than half of the bound.  Otherwise clients that
leave because of it, and so make it quick again, would return at once.

Times are nanoseconds of a monotonic clock.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from crdtstream.core.size import Size

LOOP_WINDOW_NS: Final = Size(3_000_000_000, least=1)
# Wakes in that window: more often than each 20 ms the timer is not due.
WAKES_MAX: Final = Size(150, least=1)
COMMITS: Final = Size(5, least=1)
# Older commits say nothing any more.
COMMITS_WINDOW_NS: Final = Size(10_000_000_000, least=1)
# A commit under way for longer than this counts before it ends.
HANGS_NS: Final = Size(2_000_000_000, least=1)
NS_PER_MS: Final = 1_000_000


class AnswerTime:
    """See the module's text.

    Attributes:
        ms_max: the tunable ``availability_latency_tolerance_ms``; 0: no bound.
        log_waits_since_ns: when the oldest record that the log lacks began to wait; None: it has
            all.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.ms_max = 0
        self.log_waits_since_ns: int | None = None
        self._clock = clock
        # End, length and lateness of each wake's time.
        self._wakes: deque[tuple[int, int, int]] = deque(maxlen=WAKES_MAX.value)
        self._commits: deque[int] = deque(maxlen=COMMITS.value)
        self._commit_ended_ns = 0
        self._is_slow = False

    def note_wake(self, slept_ns: int, late_ns: int) -> None:
        """Note a timer that fired ``late_ns`` after it was due, ``slept_ns`` after it was set."""
        self._wakes.append((self._clock(), slept_ns, max(0, late_ns)))

    def note_logged(self, ns: int, at_ns: int) -> None:
        """Note that the log has a commit since ``at_ns``, whose oldest record waited ``ns``."""
        self._commits.append(ns)
        self._commit_ended_ns = at_ns

    @property
    def loop_ms(self) -> int:
        """Time by which the loop comes late to a request."""
        begins_ns = self._clock() - LOOP_WINDOW_NS.value
        # A time that began before the window counts by the part within.
        times = sorted(
            (late_ns, min(slept_ns, ended_ns - begins_ns))
            for ended_ns, slept_ns, late_ns in self._wakes
            if ended_ns > begins_ns
        )
        left_ns = LOOP_WINDOW_NS.value // 2
        for late_ns, ns in reversed(times):
            left_ns -= ns
            if left_ns <= 0:
                return late_ns // NS_PER_MS
        # Right after the start: for half of the window nothing is known.
        return 0

    @property
    def log_ms(self) -> int:
        """Time that an answer waits for the log."""
        now_ns = self._clock()
        found_ns = 0
        if (
            len(self._commits) == COMMITS.value
            and now_ns - self._commit_ended_ns < COMMITS_WINDOW_NS.value
        ):
            found_ns = sorted(self._commits)[COMMITS.value // 2]
        if self.log_waits_since_ns is not None:
            waits_ns = now_ns - self.log_waits_since_ns
            if waits_ns >= HANGS_NS.value:
                found_ns = max(found_ns, waits_ns)
        return found_ns // NS_PER_MS

    def obstacle(self) -> str | None:
        """Reason why clients should use another region; None: answers come in time."""
        if not self.ms_max:
            self._is_slow = False
            return None
        loop_ms, log_ms = self.loop_ms, self.log_ms
        bound_ms = self.ms_max // 2 if self._is_slow else self.ms_max
        self._is_slow = loop_ms + log_ms > bound_ms
        if not self._is_slow:
            return None
        return (
            f"answers take {loop_ms + log_ms} ms here: {loop_ms} ms until the event loop comes to a"
            f" request, {log_ms} ms until the log has what it changed; {self.ms_max} ms are"
            " tolerated (availability_latency_tolerance_ms)"
        )
