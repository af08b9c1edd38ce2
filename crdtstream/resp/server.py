"""The server for Redis clients: listens, admits clients, and knows which are connected.

It also passes what they need to the commands about connections or the node; ``resp/commands`` has
these commands, and none of them knows the server.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from crdtstream.access.logins import Door, Logins, Verdict
from crdtstream.access.slowing import Slowing, source_of
from crdtstream.certificates.watching import Certificates
from crdtstream.core.notifications import parse_classes
from crdtstream.database.acl.log import AclLog, Context, Refused
from crdtstream.database.acl.selectors import Reason
from crdtstream.database.session import Session
from crdtstream.engine.engine import Engine
from crdtstream.resp.accounts import Accounts
from crdtstream.resp.clients.connection import CERTIFICATE_NAME, Connection
from crdtstream.resp.clients.idle import IdleClients
from crdtstream.resp.clients.limits import connection_limits
from crdtstream.resp.clients.memory_bound import ClientMemory, parse_bound
from crdtstream.resp.clients.newcomers import Newcomers
from crdtstream.resp.clients.pause import ClientPause
from crdtstream.resp.clients.pubsub import Delivery
from crdtstream.resp.clients.traffic import Traffic
from crdtstream.resp.clients.waiting_logins import WaitingLogins
from crdtstream.resp.commands.connection.client import ClientCommands
from crdtstream.resp.commands.connection.hello import ConnectionCommands
from crdtstream.resp.commands.server.about_node import NodeCommands
from crdtstream.resp.commands.server.acl import AclCommands
from crdtstream.resp.commands.server.command import Introspection
from crdtstream.resp.commands.server.config import Config
from crdtstream.resp.commands.server.info import Info
from crdtstream.resp.commands.server.latency import LatencyMonitor
from crdtstream.resp.commands.server.memory import MemoryCommands
from crdtstream.resp.commands.server.monitor import Monitors
from crdtstream.resp.commands.server.parameters import Parts, make_parameters
from crdtstream.resp.commands.server.saving import SavingCommands
from crdtstream.resp.commands.server.slowlog import Slowlog
from crdtstream.resp.commands.server.slowness import Slowness
from crdtstream.resp.transport.contexts import TlsContexts, common_name, serial_of
from crdtstream.resp.transport.ports import PLAIN, TLS, ClientPorts
from crdtstream.settings.node_settings import NodeSettings

logger = structlog.get_logger(__name__)

MAX_CLIENTS: Final = "ERR max number of clients reached"
MAX_CLIENTS_OF_ADDRESS: Final = "ERR max number of clients reached for this address"


class RespServer:
    """Serves Redis clients over TCP and TLS.

    Idle it does nothing at all: no task runs and no timer is set.

    Attributes:
        engine, region, database: the commands work on these.
        settings: as the node was started.
        connections: of all clients, by session ID.
        limits: of each connection; CONFIG SET may replace it.
        tcp_keepalive_s: of each connection, 0: none; CONFIG SET may change it.
        ports: where it listens.
        traffic: counters of all clients.
        newcomers: clients that have not logged in.
        memory: the bound on the memory of all clients.
        slowlog, monitors, pause: tools of operators.
        logs_in_by_certificate: a client is the user that its certificate names, if there is one;
            CONFIG SET may change it.
        accounts: the users, and what changes them.
        acl_log: refused requests and logins.
        acl: the commands on users, for operators who push them.
        shut_down: stops the node, soon (SHUTDOWN); the node sets it.
    """

    def __init__(
        self,
        engine: Engine,
        settings: NodeSettings,
        *,
        config_file: Path | None = None,
        logins: Logins | None = None,
        certificates: Certificates | None = None,
        figures: Callable[[], Mapping[str, int]] = dict,
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
        self.ports = ClientPorts(
            TlsContexts(certificates, settings.tls_options),
            make_protocol=lambda: Connection(self, region, engine.now),
            describe=self._describe,
        )
        self.logs_in_by_certificate = settings.tls_auth_clients_user == "CN"
        self.traffic = Traffic(database.statistics, region.replica, self.connections)
        self.newcomers = Newcomers(lambda: self.limits)
        bound = parse_bound(settings.maxmemory_clients)
        assert bound is not None, "settings take what CONFIG takes"
        self.memory = ClientMemory(
            self.connections,
            bound,
            newcomers=self.newcomers,
            maxmemory=lambda: region.memory.maxmemory,
            on_evicted=self._note_evicted,
        )
        self.slowlog = Slowlog(
            slower_than_us=settings.slowlog_log_slower_than, length_max=settings.slowlog_max_len
        )
        self.monitors = Monitors(
            database, self.connections, clock_offset_ms=settings.drill.clock_offset_ms
        )
        self.pause = ClientPause(database, self.go_on)
        self.accounts = Accounts(database.users, settings)
        self.acl_log = AclLog(settings.acllog_max_len)
        self._waiting_logins = WaitingLogins(
            Slowing() if logins is None else logins.slowing,
            address_of=self._address_of,
            go_on=self._try_login_again,
            note_refused=partial(logins.note_refused, Door.RESP) if logins else _note_nothing,
        )
        # Number of connections by address; none without one.
        self._by_source: Counter[str] = Counter()
        self.shut_down: Callable[[], None] | None = None
        self._idle = IdleClients(
            self.connections,
            seconds_max=settings.timeout,
            now=engine.now,
            may_be_silent=self._may_be_silent,
        )
        self._is_started = False
        self._stopping = False
        self._all_gone = asyncio.Event()
        database.clock = time.perf_counter_ns
        database.channels.deliver = Delivery(self.connections)
        classes = parse_classes(settings.notify_keyspace_events)
        assert classes is not None, "settings take what CONFIG takes"
        database.notifications.want(classes)
        self._register_commands(config_file, logins, figures)

    def _register_commands(
        self,
        config_file: Path | None,
        logins: Logins | None,
        figures: Callable[[], Mapping[str, int]],
    ) -> None:
        engine, database, settings = self.engine, self.database, self.settings
        replica, connections = self.region.replica, self.connections
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
                ports=self.ports,
                certificate_logins=self,
                accounts=self.accounts,
                acl_log=self.acl_log,
            )
        )
        clients = ClientCommands(
            database,
            connections,
            self.pause,
            is_monitor=self.monitors.includes,
            unblock=self.region.clients.unblock,
        )
        self.acl = AclCommands(
            database,
            self.accounts,
            connections,
            self.acl_log,
            describe=lambda session: clients.line_of(session, engine.now()),
            now=engine.now,
        )
        saving = SavingCommands(replica, self.region.checkpointing)
        for commands in (
            ConnectionCommands(
                database,
                self._waiting_logins,
                on_reset=self._reset,
                on_wrong=self.acl.note_refused,
            ),
            clients,
            Introspection(database.commands),
            Config(parameters, file=config_file, reset_counters=self._reset_counters),
            saving,
            Info(
                engine,
                settings,
                connections,
                self.traffic,
                config_file=config_file,
                clients_max=lambda: self.limits.clients_max,
                ports=self.ports,
                saving=saving,
                logins=logins,
                acl_log=self.acl_log,
                figures=figures,
                newcomers=self.newcomers,
            ),
            NodeCommands(replica, stop=self._stop_node),
            MemoryCommands(self.region, connections),
            self.acl,
            self.slowlog,
            latency,
            self.monitors,
        ):
            database.register(commands.commands())

    # --- Listening ----------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port of clients without TLS; 0: there is none."""
        return self.ports.number(PLAIN)

    @property
    def tls_port(self) -> int:
        """The port of clients with TLS; 0: there is none."""
        return self.ports.number(TLS)

    async def start(self, host: str, port: int | None, tls_port: int | None = None) -> None:
        """Listen.

        Args:
            port, tls_port: 0: any free one; None: no such port.

        Raises:
            OSError: the host has no address.
            PortError: a port cannot be had.
        """
        wanted = {PLAIN: port, TLS: tls_port}
        numbers = {name: number for name, number in wanted.items() if number is not None}
        await self.ports.start(host, numbers)
        self._is_started = True

    async def stop(self, *, patience_ms: int | None = None) -> None:
        """Accept and run nothing more; let every client have the replies it is owed, and hang up.

        The engine must be running still, as replies wait for it.

        Args:
            patience_ms: how long clients get to fetch their replies; None: ``shutdown_ms_max``.
        """
        if not self._is_started:
            return
        if patience_ms is None:
            patience_ms = self.settings.limits.shutdown_ms_max
        self._stopping = True
        self._idle.stop()
        self.newcomers.stop()
        await self.ports.close()
        for connection in self._connections():
            connection.close()
        if self.connections:
            try:
                await asyncio.wait_for(self._all_gone.wait(), patience_ms / 1000)
            except TimeoutError:
                for connection in self._connections():
                    connection.abort()
        self._is_started = False

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
        source = _source_of(connection)
        most = self.limits.clients_per_address_max
        if most and self._by_source[source] >= most:
            self.traffic.rejected += 1
            return MAX_CLIENTS_OF_ADDRESS
        self._by_source[source] += 1
        connection.session.authenticated = not self.database.users.ask
        self.connections[connection.session.id] = connection
        self._log_in_by_certificate(connection)
        if not connection.session.authenticated:
            self.newcomers.add(connection)
        self._idle.watch()
        return None

    def _describe(self, own: ssl.SSLSocket) -> dict[str, Any]:
        """Knowledge of a client that its connection gets from the handshake.

        Raises:
            PermissionError: its certificate was revoked.
            ValueError: its certificate cannot be read, though OpenSSL took it.
        """
        if self._is_revoked(own):
            raise PermissionError(f"the client's certificate {_shown_certificate(own)} was revoked")
        return {CERTIFICATE_NAME: common_name(own)} if self.logs_in_by_certificate else {}

    def _is_revoked(self, own: ssl.SSLSocket) -> bool:
        members = self.region.membership.members
        if not members.known.revoked:
            return False
        serial = serial_of(own)
        return serial is not None and members.is_revoked(serial)

    def end_revoked(self) -> None:
        """Cut off the clients whose certificates were revoked since they connected."""
        for connection in self._connections():
            own = connection.tls
            try:
                is_revoked = own is not None and self._is_revoked(own)
            except (OSError, ValueError):
                # It has gone, and its certificate with it.
                is_revoked = True
            if is_revoked:
                connection.abort()

    def _log_in_by_certificate(self, connection: Connection) -> None:
        """Log a client in as the user that its certificate names; without such a user it stays as
        it is, and may log in by AUTH."""
        name = connection.certificate_name
        if name is None:
            return
        session, user = connection.session, self.database.users.get(name.encode())
        if user is not None and user.is_on:
            session.user = user
            session.authenticated = True
        else:
            refused = Refused(Reason.TLS_CERT, Context.TOPLEVEL, b"", name.encode())
            self.acl.note_refused(session, refused)

    def note_cut_off(self, connection: Connection, why: str) -> None:
        """A client that has not logged in is cut off."""
        self.newcomers.note_cut_off(connection, why)

    def remove(self, connection: Connection) -> None:
        """A client is gone."""
        if self.connections.pop(connection.session.id, None) is not None:
            source = _source_of(connection)
            self._by_source[source] -= 1
            if not self._by_source[source]:
                del self._by_source[source]
        self.newcomers.remove(connection)
        self.memory.forget(connection)
        self.monitors.leave(connection.session)
        self._waiting_logins.forget(connection.session)
        self.traffic.note_gone(connection)
        if self._stopping and not self.connections:
            self._all_gone.set()

    def _note_evicted(self) -> None:
        self.traffic.evicted += 1

    def go_on(self) -> None:
        """End a CLIENT PAUSE."""
        self.region.clients.end_pause(self.engine.now())

    def hang_up_on_idle(self) -> None:
        """Disconnect clients that have been silent for too long, now."""
        self._idle.hang_up()

    def _may_be_silent(self, connection: Connection) -> bool:
        """True for a client that waits for something: blocked, a subscriber or a monitor."""
        session = connection.session
        return (
            session.subscriptions > 0
            or connection.is_postponed
            or self.monitors.includes(session)
            or self.database.is_waiting(session)
        )

    def _reset(self, session: Session) -> None:
        """RESET: drop what the server keeps of the client besides its session."""
        self.monitors.leave(session)
        connection = self.connections[session.id]
        connection.no_evict = connection.no_touch = connection.is_tracking = False
        if not session.authenticated:
            self.newcomers.add(connection)

    def _reset_counters(self) -> None:
        """CONFIG RESETSTAT."""
        self.traffic.reset()
        self.acl_log.reset_counters()

    def _try_login_again(self, session_id: int) -> None:
        """Let a client whose login had to wait go on."""
        self.region.clients.try_again(session_id)

    def _address_of(self, session: Session) -> str:
        connection = self.connections.get(session.id)
        return "?:0" if connection is None else connection.address

    def _connections(self) -> Iterator[Connection]:
        yield from list(self.connections.values())


def _shown_certificate(own: ssl.SSLSocket) -> str:
    """Serial and holder of a client's certificate, as the log has them."""
    serial, name = serial_of(own), common_name(own)
    assert serial is not None, "it was found by its serial"
    return f"{serial:x}" if name is None else f"{serial:x} of {name!r}"


def _source_of(connection: Connection) -> str:
    return source_of(connection.address.rpartition(":")[0].strip("[]"))


def _note_nothing(_verdict: Verdict, _address: str) -> None:
    """Without doors for others, refused logins are counted nowhere."""
