"""Decides if commits that sync run on the event loop, by how long the last ones took.

    at once ── the last 16 took more than SPENT_NS_MAX in all ──> thread, for REST_NS
       ^                                                             │
       └───────────────── the rest has ended: on trial ──────────────┘

A sync that takes a fraction of a millisecond runs at the end of the tick, on the event loop.
Clients' next requests wait in their sockets, and become one tick.  When some syncs are slow, a
thread makes them and the loop goes on; requests that arrive during a sync share the next commit.

In the thread the time of a sync cannot be separated from the time until the thread has the
interpreter's lock again.  So the way back is a trial: the first commits after a rest are made at
once again, and if they fail the trial, the next rest is twice as long.  A trial costs at most
SPENT_NS_MAX and one slow sync, which is little compared to the second before it.
"""

from collections import deque
from typing import Final

from crdtstream.core.size import Size

COMMITS: Final = Size(16, least=1)
# One millisecond of each: what a commit by the thread costs on a busy loop.
SPENT_NS_MAX: Final = Size(16_000_000, least=0)
REST_NS: Final = Size(1_000_000_000, least=1)
# After trials that failed.
REST_NS_MAX: Final = Size(64_000_000_000, least=1)


class Pace:
    """The last commits that were made at once."""

    def __init__(self) -> None:
        self._took: deque[int] = deque()
        self._spent_ns = 0
        self._rest_ns = REST_NS.value
        self._rests_until_ns = 0

    def is_quick(self, now_ns: int) -> bool:
        """True if the next commit is to be made at once."""
        return now_ns >= self._rests_until_ns

    def note(self, took_ns: int, now_ns: int) -> None:
        """A commit was made at once, and ended now."""
        took = self._took
        took.append(took_ns)
        self._spent_ns += took_ns
        stood_trial = len(took) > COMMITS.value
        if stood_trial:
            self._spent_ns -= took.popleft()
            self._rest_ns = REST_NS.value
        if self._spent_ns > SPENT_NS_MAX.value:
            self._rests_until_ns = now_ns + self._rest_ns
            self._rest_ns = min(REST_NS_MAX.value, 2 * self._rest_ns)
            took.clear()
            self._spent_ns = 0
