"""MONITOR: sends every command to the clients that watch, just before it runs.

    +1339518083.107412 [0 127.0.0.1:60866] "keys" "*"

As in Redis, commands of operators (CONFIG, SLOWLOG, CLIENT KILL ...) are not shown, EXEC is shown
after what it ran, and passwords never are.  A watcher that does not keep up is cut off by the same
bounds as a subscriber.  Without watchers it costs nothing.
"""

import time
from collections.abc import Mapping
from typing import Final, Protocol

from crdtstream.commands.command import documented
from crdtstream.commands.reply import NO_REPLY, OK, CommandError, Reply
from crdtstream.core.ids import Millis
from crdtstream.database.database import Database
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand
from crdtstream.resp.commands.server.redaction import without_secrets

NOT_IN_EXEC: Final = "ERR MONITOR isn't allowed for DENY BLOCKING client"

_ESCAPES: Final = {
    ord('"'): b'\\"',
    ord("\\"): b"\\\\",
    ord("\n"): b"\\n",
    ord("\r"): b"\\r",
    ord("\t"): b"\\t",
    ord("\a"): b"\\a",
    ord("\b"): b"\\b",
}
# Each byte as it is shown.
_SHOWN: Final = [
    _ESCAPES.get(byte, bytes([byte]) if 0x20 <= byte < 0x7F else b"\\x%02x" % byte)
    for byte in range(256)
]


class Watched(Protocol):
    """A connection, as far as MONITOR is concerned: it may watch, and all are watched."""

    @property
    def address(self) -> str: ...

    def show(self, line: bytes) -> None:
        """Send it a line."""


class Monitors:
    """The clients that watch.

    Args:
        connections: all clients, by session id; they come and go.
        clock_offset_ms: by how much this node's clock is wrong in a rehearsal.
    """

    def __init__(
        self,
        database: Database,
        connections: Mapping[int, Watched],
        *,
        clock_offset_ms: int = 0,
    ) -> None:
        self._database = database
        self._connections = connections
        self._clock_offset_ns = clock_offset_ms * 1_000_000
        self._watching: dict[int, Session] = {}

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {b"monitor": self._start}
        return documented(SessionCommand, functions)

    def includes(self, session: Session) -> bool:
        return session.id in self._watching

    def leave(self, session: Session) -> None:
        """RESET, or the client is gone."""
        if self._watching.pop(session.id, None) is not None and not self._watching:
            self._database.on_call = None

    def _start(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MONITOR: OK, and then a line per command; a second one gets no answer, as in Redis."""
        if session.in_exec:
            raise CommandError(NOT_IN_EXEC)
        if self.includes(session):
            return NO_REPLY
        self._watching[session.id] = session
        self._database.on_call = self._tell
        return OK

    def _tell(self, session: Session, argv: list[bytes]) -> None:
        connections = self._connections
        caller = connections.get(session.id)
        # A session that is not ours belongs to another caller of the database.
        address = "?:0" if caller is None else caller.address
        line = monitor_line(time.time_ns() + self._clock_offset_ns, address, argv)
        for watcher_id in self._watching:
            connections[watcher_id].show(line)


def monitor_line(unix_ns: int, address: str, argv: list[bytes]) -> bytes:
    """A command as MONITOR shows it."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    words = b" ".join(b'"%b"' % _quoted(argument) for argument in without_secrets(argv))
    return b"+%d.%06d [0 %b] %b\r\n" % (seconds, rest // 1000, address.encode(), words)


def _quoted(argument: bytes) -> bytes:
    return b"".join(map(_SHOWN.__getitem__, argument))
