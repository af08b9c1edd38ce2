"""Runs of XADDs, called as one command where nobody could tell the difference.

Who looks at single commands - a transaction, MONITOR, a SLOWLOG of quick ones, a bound on what
lags, clients who wait for the stream or watch it - has them called one by one.  What ``call`` of
the database checks and does for each of them is then the same for all, and done once.
"""

from collections.abc import Callable
from typing import Final, Protocol

from crdtstream.commands.streams.xadd import xadd
from crdtstream.commands.streams.xadd_run import XaddRun, fits, xadd_run
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.admission import Fullness, Pause, WriteLimit
from crdtstream.database.dispatch import Dispatch
from crdtstream.database.serving import Serving
from crdtstream.database.session import Handler, Session, Talk
from crdtstream.database.statistics import SAMPLES_MAX
from crdtstream.database.transactions import Transactions
from crdtstream.database.writes import OpenWrites

# A run takes a millisecond or two.  Who wants to be told of commands that take no longer than this
# has each of them measured.
SLOW_NS_MIN: Final = 5_000_000


class Host(Protocol):
    """Who calls commands; the attributes are those of ``Database``."""

    fault: str | None
    pause: Pause | None
    limit: WriteLimit | None
    full: Fullness | None
    slow_ns: int
    clock: Callable[[], int]
    on_slow: Callable[[Session, Handler, list[bytes], int], None] | None
    on_call: Callable[[Session, list[bytes]], None] | None

    @property
    def replica(self) -> Replica: ...

    def advance(self, now: Millis) -> None:
        """Say what time it is."""

    def has_room_in_batch(self, size: int) -> bool:
        """Whether the open batch can take so many bytes without being closed."""


class XaddRuns:
    """See the module's text.

    Attributes:
        called: how many runs were called since the start.
    """

    __slots__ = ("_dispatch", "_host", "_serving", "_transactions", "_writes", "called")

    def __init__(
        self,
        host: Host,
        *,
        dispatch: Dispatch,
        transactions: Transactions,
        serving: Serving,
        writes: OpenWrites,
    ) -> None:
        self._host = host
        self._dispatch = dispatch
        self._transactions = transactions
        self._serving = serving
        self._writes = writes
        self.called = 0

    def takes(self, session: Session, now: Millis, run: XaddRun) -> bool:
        """Whether the run may be called now as one command; else its commands are, one by one."""
        host = self._host
        replica = host.replica
        if now != replica.now:
            host.advance(now)
        handler = self._dispatch.spelled.get(run.name)
        return (
            handler is not None
            and handler.on_replica is xadd
            # Nobody refuses it, or puts it off.
            and session.authenticated
            and not session.subscriptions
            and session.queue is None
            and host.full is None
            and host.fault is None
            and host.pause is None
            and host.limit is None
            # Nobody looks at each command.
            and session.talk is Talk.ON
            and host.on_call is None
            and host.slow_ns >= SLOW_NS_MIN
            and run.key not in self._transactions.watchers
            and not self._serving.waiting.has_any(run.key)
            # All of it is to be in one batch, and in the lane's end.
            and host.has_room_in_batch(run.batch_bytes)
            and fits(replica, now, run)
        )

    def call(self, session: Session, now: Millis, run: XaddRun) -> bytes:
        """Call a run that is taken; its replies, one behind the other.

        What it took is shared out evenly.  If it was as long as a slow command takes, then for
        something that came in between, and one of its commands would have been told of, too.
        """
        host = self._host
        started = host.clock()
        replies = xadd_run(host.replica, now, run)
        self.called += 1
        self._writes.note(session)
        handler = self._dispatch.spelled[run.name]
        session.last_command = handler.name
        ns = host.clock() - started
        handler.samples.extend([ns // len(run)] * len(run))
        if len(handler.samples) >= SAMPLES_MAX:
            handler.stats.fold()
        if ns >= host.slow_ns and host.on_slow is not None:
            host.on_slow(session, handler, next(run.requests()), ns)
        return replies
