"""The door for Redis clients: listens, admits, and knows who is there.

It also hands every command about connections or the node what it needs; ``resp/commands`` has
these commands, and none of them knows the server.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import structlog

from crdtstream.database.session import Session
from crdtstream.engine import Engine
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.clients.idle import IdleClients
from crdtstream.resp.clients.limits import connection_limits
from crdtstream.resp.clients.pause import ClientPause
from crdtstream.resp.clients.pubsub import Delivery
from crdtstream.resp.clients.traffic import Traffic
from crdtstream.resp.commands.connection.client import ClientCommands
from crdtstream.resp.commands.connection.hello import ConnectionCommands
from crdtstream.resp.commands.server.acl import AclCommands
from crdtstream.resp.commands.server.command import Introspection
from crdtstream.resp.commands.server.config import Config
from crdtstream.resp.commands.server.info import Info
from crdtstream.resp.commands.server.latency import LatencyMonitor
from crdtstream.resp.commands.server.memory import MemoryCommands
from crdtstream.resp.commands.server.monitor import Monitors
from crdtstream.resp.commands.server.node import NodeCommands
from crdtstream.resp.commands.server.parameters import Parts, make_parameters
from crdtstream.resp.commands.server.saving import SavingCommands
from crdtstream.resp.commands.server.slowlog import Slowlog
from crdtstream.resp.commands.server.slowness import Slowness
from crdtstream.settings import NodeSettings

logger = structlog.get_logger(__name__)

MAX_CLIENTS: Final = "ERR max number of clients reached"
BACKLOG: Final = 511


class RespServer:
    """Serves Redis clients over TCP.

    Idle it does nothing at all: no task runs and no timer is set.

    Attributes:
        engine, region, database: what the commands work on.
        settings: as the node was started.
        connections: everyone who is connected, by session id.
        limits: of each connection; CONFIG SET may replace it.
        tcp_keepalive_s: of each connection, 0: none; CONFIG SET may change it.
        port: where it listens.
        traffic: what the clients have done.
        slowlog, monitors, pause: what operators look through and at.
        shut_down: stops the node, soon (SHUTDOWN); the node sets it.
    """

    def __init__(
        self, engine: Engine, settings: NodeSettings, *, config_file: Path | None = None
    ) -> None:
        region = engine.region
        database = region.database
        self.engine = engine
        self.region = region
        self.database = database
        self.settings = settings
        self.limits = connection_limits(settings.limits)
        self.connections: dict[int, Connection] = {}
        self.tcp_keepalive_s = settings.tcp_keepalive
        self.port = 0
        self.traffic = Traffic(database.statistics, region.replica, self.connections)
        self.slowlog = Slowlog(
            slower_than_us=settings.slowlog_log_slower_than, length_max=settings.slowlog_max_len
        )
        self.monitors = Monitors(
            database, self.connections, clock_offset_ms=settings.drill.clock_offset_ms
        )
        self.pause = ClientPause(database, self.go_on)
        self.shut_down: Callable[[], None] | None = None
        self._idle = IdleClients(
            self.connections,
            seconds_max=settings.timeout,
            now=engine.now,
            may_be_silent=self._may_be_silent,
        )
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._all_gone = asyncio.Event()
        database.clock = time.perf_counter_ns
        database.channels.deliver = Delivery(self.connections)
        self._register_commands(config_file)

    def _register_commands(self, config_file: Path | None) -> None:
        engine, database, settings = self.engine, self.database, self.settings
        replica, connections = self.region.replica, self.connections
        password = settings.requirepass.encode()
        latency = LatencyMonitor(
            database.statistics, threshold_ms=settings.latency_monitor_threshold
        )
        slowness = Slowness(
            database, self.slowlog, latency, now=engine.now, address_of=self._address_of
        )
        parameters = make_parameters(
            Parts(
                settings=settings,
                region=self.region,
                bounds=self,
                idle=self._idle,
                slowlog=self.slowlog,
                latency=latency,
                slowness=slowness,
                port=lambda: self.port,
            )
        )
        saving = SavingCommands(replica, self.region.checkpointing)
        for commands in (
            ConnectionCommands(database, password, on_reset=self._reset),
            ClientCommands(
                database,
                connections,
                self.pause,
                is_monitor=self.monitors.includes,
                unblock=self.region.unblock,
            ),
            Introspection(database.commands),
            Config(parameters, file=config_file, reset_counters=self.traffic.reset),
            saving,
            Info(
                engine,
                settings,
                connections,
                self.traffic,
                config_file=config_file,
                clients_max=lambda: self.limits.clients_max,
                port=lambda: self.port,
                saving=saving,
            ),
            NodeCommands(replica, stop=self._stop_node),
            MemoryCommands(self.region, connections),
            AclCommands(password),
            self.slowlog,
            latency,
            self.monitors,
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
            lambda: Connection(self, self.region, self.engine.now), host, port, backlog=BACKLOG
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
        self._idle.stop()
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

    def _stop_node(self, *, force: bool) -> bool:
        """SHUTDOWN; see ``commands.server.node.Stop``."""
        if self.shut_down is None or (self.region.fault is not None and not force):
            return False
        self.shut_down()
        return True

    # --- Connections --------------------------------------------------------------------------

    def stop_on_bug(self, error: Exception) -> None:
        """A command broke half-way: the node ends, and logs nothing of it."""
        self.engine.stop_on_bug(error)

    def admit(self, connection: Connection) -> str | None:
        """Take a client in; or why not, as error text."""
        self.traffic.received += 1
        if len(self.connections) >= self.limits.clients_max or self._stopping:
            self.traffic.rejected += 1
            return MAX_CLIENTS
        connection.session.authenticated = not self.settings.requirepass
        self.connections[connection.session.id] = connection
        self._idle.watch()
        return None

    def remove(self, connection: Connection) -> None:
        """A client is gone."""
        self.connections.pop(connection.session.id, None)
        self.monitors.leave(connection.session)
        self.traffic.note_gone(connection)
        if self._stopping and not self.connections:
            self._all_gone.set()

    def go_on(self) -> None:
        """CLIENT PAUSE is over."""
        self.region.end_pause(self.engine.now())

    def hang_up_on_idle(self) -> None:
        """Hang up now on those who have been silent for too long."""
        self._idle.hang_up()

    def _may_be_silent(self, connection: Connection) -> bool:
        """Those who wait for something: the blocked, subscribers, monitors."""
        session = connection.session
        return (
            session.subscriptions > 0
            or connection.is_postponed
            or self.monitors.includes(session)
            or self.database.is_waiting(session)
        )

    def _reset(self, session: Session) -> None:
        """RESET: what the server knows of the client besides its session."""
        self.monitors.leave(session)
        connection = self.connections[session.id]
        connection.no_evict = connection.no_touch = False

    def _address_of(self, session: Session) -> str:
        connection = self.connections.get(session.id)
        return "?:0" if connection is None else connection.address

    def _connections(self) -> Iterator[Connection]:
        yield from list(self.connections.values())
