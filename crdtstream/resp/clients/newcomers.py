"""Clients that have not logged in: how many there may be, and for how long.

A connection without a login costs a stranger next to nothing, so strangers must not take the places
of clients with a password.  There are few places for newcomers.  When one more comes, the one that
has waited longest makes room: a client that logs in does so in one round trip, and one that only
holds a place is the oldest.  One timer ends those that do not log in in time.

Always so: a client that has logged in is never ended from here.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from crdtstream.core.size import Seconds
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.clients.limits import ConnectionLimits

# Of the places for clients at most this part is for those that have not logged in.
PART: Final = 2
LOG_SECONDS: Final = Seconds(60.0, least=0.0)

logger = structlog.get_logger(__name__)


class _Newcomer(NamedTuple):
    connection: Connection
    since_s: float


class Newcomers:
    """Clients that have to log in and have not; all others are none of its business.

    Attributes:
        cut_off: how many were ended: they did not log in in time, made room for others, or sent
            or left unread more than a client may without a login.

    Args:
        limits: returns those that hold now.
    """

    def __init__(self, limits: Callable[[], ConnectionLimits]) -> None:
        self.cut_off = 0
        self._limits = limits
        # By session ID; the first one has waited longest.  Some may be trusted by now.
        self._newcomers: dict[int, _Newcomer] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._log_from_s = 0.0

    @property
    def count(self) -> int:
        """Number of clients that are connected and have not logged in."""
        self._drop_others()
        return len(self._newcomers)

    @property
    def connections(self) -> list[Connection]:
        """Clients that have not logged in; the first one has waited longest."""
        self._drop_others()
        return [one.connection for one in self._newcomers.values()]

    def add(self, connection: Connection) -> None:
        """Note a client that has to log in from now on."""
        loop = asyncio.get_running_loop()
        session_id = connection.session.id
        self._newcomers.pop(session_id, None)
        self._newcomers[session_id] = _Newcomer(connection, loop.time())
        if len(self._newcomers) > self._places:
            self._drop_others()
            while len(self._newcomers) > self._places:
                self._end_first("more clients without a login than limits.newcomers_max")
        self._watch()

    def remove(self, connection: Connection) -> None:
        """Note that a client is gone."""
        self._newcomers.pop(connection.session.id, None)

    def stop(self) -> None:
        """End no client from now on."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _places(self) -> int:
        limits = self._limits()
        return min(limits.newcomers_max, max(1, limits.clients_max // PART))

    def _drop_others(self) -> None:
        """Forget those that have logged in, or need not any more.

        Cost: O(places); less than accepting a connection.
        """
        self._newcomers = {
            session_id: one
            for session_id, one in self._newcomers.items()
            if not one.connection.is_trusted
        }

    def _watch(self) -> None:
        """Set the timer for the one that has waited longest, unless it is set."""
        if self._timer is None and self._newcomers and self._limits().login_ms_max:
            first = next(iter(self._newcomers.values()))
            due_s = first.since_s + self._limits().login_ms_max / 1000
            self._timer = asyncio.get_running_loop().call_at(due_s, self._end_late)

    def _end_late(self) -> None:
        self._timer = None
        self._drop_others()
        login_s = self._limits().login_ms_max / 1000
        now_s = asyncio.get_running_loop().time()
        while login_s and self._newcomers:
            first = next(iter(self._newcomers.values()))
            # The clock of timers may be ahead of the loop's by its resolution.
            if first.since_s + login_s > now_s + 0.001:
                break
            self._end_first("no login within limits.login_ms_max")
        self._watch()

    def note_cut_off(self, connection: Connection, why: str) -> None:
        """Count a client that is cut off without a login."""
        self.cut_off += 1
        now_s = asyncio.get_running_loop().time()
        # One line a minute: connections cost a stranger nothing, and would fill the log.
        if now_s >= self._log_from_s:
            self._log_from_s = now_s + LOG_SECONDS.value
            logger.warning("client cut off", address=connection.address, why=why, all=self.cut_off)

    def end(self, connection: Connection, why: str) -> None:
        """End a client that has not logged in."""
        self.remove(connection)
        self.note_cut_off(connection, why)
        connection.abort()

    def _end_first(self, why: str) -> None:
        self.end(next(iter(self._newcomers.values())).connection, why)
