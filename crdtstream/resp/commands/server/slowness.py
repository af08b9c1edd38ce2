"""Slow commands: the database reports them, SLOWLOG and LATENCY keep them.

The database reports only commands that take at least the lower of the two thresholds.  While both
are off it reports none, and measuring costs nothing.
"""

import sys
from collections.abc import Callable

from crdtstream.core.ids import Millis
from crdtstream.database.database import Database
from crdtstream.database.session import Handler, Session
from crdtstream.resp.commands.server.latency import COMMAND, FAST_COMMAND, LatencyMonitor
from crdtstream.resp.commands.server.slowlog import Slowlog


class Slowness:
    """Passes slow commands from the database to SLOWLOG and LATENCY.

    Args:
        address_of: where a client is, ``host:port``.
    """

    def __init__(
        self,
        database: Database,
        slowlog: Slowlog,
        latency: LatencyMonitor,
        *,
        now: Callable[[], Millis],
        address_of: Callable[[Session], str],
    ) -> None:
        self._database = database
        self._slowlog = slowlog
        self._latency = latency
        self._now = now
        self._address_of = address_of
        database.on_slow = self._note
        self.watch()

    def watch(self) -> None:
        """Have the database report what is needed; call this after each change of a threshold."""
        thresholds = (self._slowlog.threshold_ns, self._latency.threshold_ns)
        found = [threshold for threshold in thresholds if threshold is not None]
        self._database.slow_ns = min(found, default=sys.maxsize)

    def _note(self, session: Session, handler: Handler, argv: list[bytes], ns: int) -> None:
        unix_s = self._now() // 1000
        event = FAST_COMMAND if handler.fast else COMMAND
        self._latency.note(event, ms=ns // 1_000_000, unix_s=unix_s)
        if handler.slowlogged:
            self._slowlog.note(
                argv,
                usec=ns // 1000,
                unix_s=unix_s,
                address=self._address_of(session),
                client_name=session.name,
            )
