"""The door for Redis clients: listens, admits, keeps the list of who is there."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import structlog

from crdtstream.commands.reply import Reply
from crdtstream.commands.session import Session
from crdtstream.core.ids import Millis
from crdtstream.engine import Engine
from crdtstream.resp.client_commands import ClientCommands
from crdtstream.resp.config import Config
from crdtstream.resp.connection import Connection
from crdtstream.resp.connection_commands import ConnectionCommands
from crdtstream.resp.info import Info
from crdtstream.resp.introspection import Introspection
from crdtstream.resp.limits import connection_limits
from crdtstream.resp.wait import Wait
from crdtstream.settings import NodeSettings

logger = structlog.get_logger(__name__)

MAX_CLIENTS: Final = "ERR max number of clients reached"
BACKLOG: Final = 511


@dataclass(slots=True)
class _Traffic:
    """What connections that are closed had done."""

    commands: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class RespServer:
    """Serves Redis clients over TCP.

    Idle it does nothing at all: no task runs and no timer is set.

    Attributes:
        engine, database: what the commands work on.
        settings: as the node was started.
        connections: everyone who is connected, by session id.
        limits: of each connection; CONFIG SET may replace it.
        started_ms, port: since when, and where it listens.
    """

    def __init__(self, engine: Engine, settings: NodeSettings) -> None:
        database = engine.database
        self.engine = engine
        self.database = database
        self.settings = settings
        self.limits = connection_limits(settings.limits)
        self.connections: dict[int, Connection] = {}
        self.started_ms = engine.now()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._received = 0
        self._rejected = 0
        self._gone = _Traffic()
        self._counted_before: dict[str, int] = {}
        self._all_gone = asyncio.Event()
        engine.deliver = self._deliver
        engine.on_relief.append(self._resume_all)
        for commands in (
            ConnectionCommands(settings.requirepass.encode(), database),
            ClientCommands(self),
            Introspection(database),
            Config(self),
            Info(self),
            Wait(engine),
        ):
            database.register(commands.commands())

    # --- Listening ----------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host, port, backlog=BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self, *, patience_ms: int | None = None) -> None:
        """Accept and run nothing more; let every client have the replies it is owed, and hang up.

        The engine must be running still, as replies wait for it.

        Args:
            patience_ms: how long clients get to fetch their replies; None: ``shutdown_ms_max``.
        """
        if self._server is None:
            return
        if patience_ms is None:
            patience_ms = self.settings.limits.shutdown_ms_max
        self._stopping = True
        self._server.close()
        for connection in self._connections():
            connection.close()
        if self.connections:
            try:
                await asyncio.wait_for(self._all_gone.wait(), patience_ms / 1000)
            except TimeoutError:
                for connection in self._connections():
                    connection.abort()
        self._server = None

    # --- Counters -----------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """INFO stats: since the start, or since the counters were reset."""
        return {
            name: total - self._counted_before.get(name, 0)
            for name, total in self._totals().items()
        }

    def reset_counters(self) -> None:
        self._counted_before = self._totals()

    def _totals(self) -> dict[str, int]:
        here = self.connections.values()
        gone = self._gone
        return {
            "total_connections_received": self._received,
            "total_commands_processed": gone.commands + sum(c.commands for c in here),
            "total_net_input_bytes": gone.bytes_in + sum(c.bytes_in for c in here),
            "total_net_output_bytes": gone.bytes_out + sum(c.bytes_out for c in here),
            "rejected_connections": self._rejected,
        }

    # --- Connections --------------------------------------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        """Take a client in; or why not, as error text."""
        self._received += 1
        if len(self.connections) >= self.limits.clients_max or self._stopping:
            self._rejected += 1
            return MAX_CLIENTS
        connection.session.authenticated = not self.settings.requirepass
        self.connections[connection.session.id] = connection
        return None

    def remove(self, connection: Connection) -> None:
        """A client is gone."""
        self.connections.pop(connection.session.id, None)
        self._gone.commands += connection.commands
        self._gone.bytes_in += connection.bytes_in
        self._gone.bytes_out += connection.bytes_out
        if self._stopping and not self.connections:
            self._all_gone.set()

    def settle(self, now: Millis) -> None:
        """Hand on the answers of those for whom something changed."""
        for session, reply in self.database.settle(now):
            self._deliver(session, reply)

    def _deliver(self, session: Session, reply: Reply) -> None:
        connection = self.connections.get(session.id)
        # A session that is not ours belongs to whoever else calls the database.
        if connection is not None:
            connection.deliver(reply)

    def _resume_all(self) -> None:
        for connection in self._connections():
            connection.resume()

    def _connections(self) -> Iterator[Connection]:
        yield from list(self.connections.values())
