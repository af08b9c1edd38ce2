"""The door for Redis clients: listens, admits, keeps the list of who is there."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from crdtstream.commands.reply import Reply
from crdtstream.core.ids import Millis
from crdtstream.database.session import Handler, Session
from crdtstream.engine import Engine
from crdtstream.resp.clients.connection import Connection
from crdtstream.resp.clients.limits import connection_limits
from crdtstream.resp.clients.pause import ClientPause
from crdtstream.resp.clients.pubsub import Delivery
from crdtstream.resp.clients.wait import Wait
from crdtstream.resp.commands.connection.client import ClientCommands
from crdtstream.resp.commands.connection.hello import ConnectionCommands
from crdtstream.resp.commands.server.acl import AclCommands
from crdtstream.resp.commands.server.command import Introspection
from crdtstream.resp.commands.server.config import Config
from crdtstream.resp.commands.server.info import Info
from crdtstream.resp.commands.server.latency import COMMAND, FAST_COMMAND, LatencyMonitor
from crdtstream.resp.commands.server.memory import MemoryCommands
from crdtstream.resp.commands.server.monitor import Monitors
from crdtstream.resp.commands.server.node import ServerCommands
from crdtstream.resp.commands.server.slowlog import Slowlog
from crdtstream.settings import NodeSettings

logger = structlog.get_logger(__name__)

MAX_CLIENTS: Final = "ERR max number of clients reached"
BACKLOG: Final = 511
# Rates are over the last so many samples, taken while clients send, no closer than this.
RATE_SAMPLES: Final = 16
RATE_SAMPLE_MS: Final = 100
# Idle clients are looked for this often at most.
IDLE_CHECK_SECONDS_MIN: Final = 1.0


@dataclass(slots=True)
class _Traffic:
    """What connections that are closed had done."""

    bytes_in: int = 0
    bytes_out: int = 0


class RespServer:
    """Serves Redis clients over TCP.

    Idle it does nothing at all: no task runs and no timer is set.

    Attributes:
        engine, database: what the commands work on.
        settings: as the node was started.
        config_file: where the settings came from, for CONFIG REWRITE; None: from no file.
        connections: everyone who is connected, by session id.
        limits: of each connection; CONFIG SET may replace it.
        idle_seconds_max, tcp_keepalive_s: of each connection, 0: none; CONFIG SET may change them.
        log_level: as in the settings; CONFIG SET may change it.
        started_ms, port: since when, and where it listens.
        rates_due_ms: when ``sample_rates`` is to be called next, by whoever has something to run.
        slowlog, latency, monitors, pause: what operators look through and at.
        shut_down: stops the node, soon (SHUTDOWN); whoever runs the node sets it.
        cut_off_unread: how many clients were cut off as they left too much unread.
    """

    def __init__(
        self, engine: Engine, settings: NodeSettings, *, config_file: Path | None = None
    ) -> None:
        database = engine.database
        self.engine = engine
        self.database = database
        self.settings = settings
        self.config_file = config_file
        self.limits = connection_limits(settings.limits)
        self.connections: dict[int, Connection] = {}
        self.idle_seconds_max = settings.timeout
        self.tcp_keepalive_s = settings.tcp_keepalive
        self.log_level: str = settings.log_level
        self.started_ms = engine.now()
        self.port = 0
        self.slowlog = Slowlog(
            slower_than_us=settings.slowlog_log_slower_than, length_max=settings.slowlog_max_len
        )
        self.latency = LatencyMonitor(
            database.statistics, threshold_ms=settings.latency_monitor_threshold
        )
        self.monitors = Monitors(self)
        self.pause = ClientPause(self)
        self.shut_down: Callable[[], None] | None = None
        self.cut_off_unread = 0
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._received = 0
        self._rejected = 0
        self._gone = _Traffic()
        self._counted_before: dict[str, int] = {}
        self._all_gone = asyncio.Event()
        self._idle_timer: asyncio.TimerHandle | None = None
        # (ms, commands, bytes in, bytes out), the oldest first; and when the next is due.
        self._rate_samples: deque[tuple[int, int, int, int]] = deque(maxlen=RATE_SAMPLES)
        self.rates_due_ms = 0
        database.clock = time.perf_counter_ns
        database.on_slow = self._note_slow
        self.watch_slowness()
        engine.deliver = self.deliver
        database.channels.deliver = Delivery(self.connections)
        engine.on_relief.append(self._resume_all)
        for commands in (
            ConnectionCommands(self),
            ClientCommands(self),
            Introspection(database),
            Config(self),
            Info(self),
            Wait(engine),
            ServerCommands(self),
            MemoryCommands(self),
            AclCommands(settings.requirepass.encode()),
            self.slowlog,
            self.latency,
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
        if self._idle_timer is not None:
            self._idle_timer.cancel()
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

    # --- What took long -----------------------------------------------------------------------

    def watch_slowness(self) -> None:
        """Have the database tell of what SLOWLOG or LATENCY want to know; after each change of
        their thresholds."""
        thresholds = (self.slowlog.threshold_ns, self.latency.threshold_ns)
        found = [threshold for threshold in thresholds if threshold is not None]
        self.database.slow_ns = min(found, default=sys.maxsize)

    def _note_slow(self, session: Session, handler: Handler, argv: list[bytes], ns: int) -> None:
        unix_s = self.engine.now() // 1000
        self.latency.note(
            FAST_COMMAND if handler.fast else COMMAND, ms=ns // 1_000_000, unix_s=unix_s
        )
        if handler.slowlogged:
            connection = self.connections.get(session.id)
            self.slowlog.note(
                argv,
                usec=ns // 1000,
                unix_s=unix_s,
                address="?:0" if connection is None else connection.address,
                client_name=session.name,
            )

    # --- Counters -----------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """INFO stats: since the start, or since the counters were reset."""
        return {
            name: total - self._counted_before.get(name, 0)
            for name, total in self._totals().items()
        }

    def reset_counters(self) -> None:
        """CONFIG RESETSTAT."""
        self.database.statistics.reset()
        self._rate_samples.clear()
        self._counted_before = self._totals()

    def _totals(self) -> dict[str, int]:
        here = self.connections.values()
        gone = self._gone
        return {
            "total_connections_received": self._received,
            "total_commands_processed": self.database.statistics.calls,
            "total_net_input_bytes": gone.bytes_in + sum(c.bytes_in for c in here),
            "total_net_output_bytes": gone.bytes_out + sum(c.bytes_out for c in here),
            "rejected_connections": self._rejected,
            "client_output_buffer_limit_disconnections": self.cut_off_unread,
            "total_error_replies": self.database.statistics.errors,
            "expired_keys": self.engine.replica.expired_count,
        }

    def sample_rates(self, now: Millis) -> None:
        """Remember how much was done until now; to be called when ``rates_due_ms`` has come."""
        self.rates_due_ms = now + RATE_SAMPLE_MS
        totals = self._totals()
        self._rate_samples.append(
            (
                now,
                totals["total_commands_processed"],
                totals["total_net_input_bytes"],
                totals["total_net_output_bytes"],
            )
        )

    def rates(self, now: Millis) -> tuple[float, float, float]:
        """Commands, bytes in and bytes out per second, over the last samples until now."""
        if now >= self.rates_due_ms:
            self.sample_rates(now)
        if len(self._rate_samples) < 2:
            return 0.0, 0.0, 0.0
        first, last = self._rate_samples[0], self._rate_samples[-1]
        seconds = max(1, last[0] - first[0]) / 1000
        commands, bytes_in, bytes_out = (
            max(0, last[at] - first[at]) / seconds for at in range(1, 4)
        )
        return commands, bytes_in, bytes_out

    # --- Connections --------------------------------------------------------------------------

    def admit(self, connection: Connection) -> str | None:
        """Take a client in; or why not, as error text."""
        self._received += 1
        if len(self.connections) >= self.limits.clients_max or self._stopping:
            self._rejected += 1
            return MAX_CLIENTS
        connection.session.authenticated = not self.settings.requirepass
        self.connections[connection.session.id] = connection
        self.check_idle()
        return None

    def remove(self, connection: Connection) -> None:
        """A client is gone."""
        self.connections.pop(connection.session.id, None)
        self.monitors.leave(connection.session)
        self._gone.bytes_in += connection.bytes_in
        self._gone.bytes_out += connection.bytes_out
        if self._stopping and not self.connections:
            self._all_gone.set()

    def settle(self, now: Millis) -> None:
        """Hand on the answers of those for whom something changed."""
        for session, reply in self.database.settle(now):
            self.deliver(session, reply)

    def deliver(self, session: Session, reply: Reply) -> None:
        """Hand on what a command that was blocked has come to."""
        connection = self.connections.get(session.id)
        # A session that is not ours belongs to whoever else calls the database.
        if connection is not None:
            connection.deliver(reply)

    def go_on(self) -> None:
        """CLIENT PAUSE is over: serve the blocked, then run what was postponed."""
        for session, reply in self.database.serve_all(self.engine.now()):
            self.deliver(session, reply)
        self.engine.schedule()
        for connection in self._connections():
            connection.go_on()

    # --- Idle clients -------------------------------------------------------------------------

    def check_idle(self) -> None:
        """See to it that clients who are silent for too long are hung up on; cheap when it is."""
        if self.idle_seconds_max and self._idle_timer is None and self.connections:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(
                max(IDLE_CHECK_SECONDS_MIN, self.idle_seconds_max / 4), self.hang_up_on_idle
            )

    def hang_up_on_idle(self) -> None:
        """Not on those who wait for something: the blocked, subscribers, monitors."""
        self._idle_timer = None
        oldest = self.engine.now() - self.idle_seconds_max * 1000
        if self.idle_seconds_max:
            for connection in self._connections():
                if connection.active_ms < oldest and not self._may_be_silent(connection):
                    connection.abort()
        self.check_idle()

    def _may_be_silent(self, connection: Connection) -> bool:
        session = connection.session
        return (
            session.subscriptions > 0
            or connection.is_postponed
            or self.monitors.includes(session)
            or self.database.is_waiting(session)
        )

    def _resume_all(self) -> None:
        for connection in self._connections():
            connection.resume()

    def _connections(self) -> Iterator[Connection]:
        yield from list(self.connections.values())
