"""One region node: its parts, wired together, from start to stop."""

import asyncio
import contextlib
import dataclasses
import faulthandler
import gc
import importlib.metadata
import os
import secrets
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import grpc
import structlog
import uvloop
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from starlette.applications import Starlette

from crdtstream.admin.service import AdminService, NodeParts
from crdtstream.admin.tunables import Tunables
from crdtstream.bootstrapper import Bootstrapper
from crdtstream.checkpointer import Checkpointer
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.cutting import read_absences
from crdtstream.database.database import Database
from crdtstream.engine import Engine
from crdtstream.folder import begin_database, begin_joining, read_folder, settings_of_new
from crdtstream.health import ADMIN, BOOTSTRAP, MEMBERSHIP, QUERY, REPLICATION, tell_health
from crdtstream.heap import free_bytes
from crdtstream.http.app import make_app
from crdtstream.http.parts import HttpParts
from crdtstream.http.server import http_server, listening_socket
from crdtstream.joining import Joined, note_joined
from crdtstream.machine import random_uid, uniform, wall_clock_off_by
from crdtstream.metrics.page import MetricsPage
from crdtstream.metrics.parts import ClientFigures, MetricsParts
from crdtstream.open_files import FILES_SPARE, allow_clients
from crdtstream.passwords import password_mark
from crdtstream.query.service import QueryService
from crdtstream.region.known_members import peers_of
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.opening import FolderState
from crdtstream.region.peers import Peers
from crdtstream.region.region import Region
from crdtstream.replication.bootstrap_client import CopyFromPeer
from crdtstream.replication.bootstrap_server import BootstrapService
from crdtstream.replication.membership_client import Courier
from crdtstream.replication.membership_server import MembershipService
from crdtstream.replication.puller import FRAMING_BYTES_MAX, Pullers
from crdtstream.replication.server import ReplicationService
from crdtstream.resp.commands.server.memory import buffered_bytes, resident_bytes
from crdtstream.resp.server import RespServer
from crdtstream.resp.wire.encode import encode
from crdtstream.settings import Limits, NodeSettings, QueryPort, endpoint
from crdtstream.storage_watch import Measures, StorageWatch
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import Failpoints, parse_failpoint
from crdtstream.store.log import Fsync
from crdtstream.store.marker import EmptyFolder
from crdtstream.store.replay import recover
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.sqlite_staging import SqliteStaging
from crdtstream.store.staging import staged_state
from crdtstream.turns import Turn
from crdtstream.upkeep.cut import cut_of_folder
from crdtstream.v1 import (
    admin_pb2_grpc,
    bootstrap_pb2_grpc,
    membership_pb2_grpc,
    query_pb2_grpc,
    replication_pb2_grpc,
)

logger = structlog.get_logger(__name__)

ASKING_SECONDS: Final = 0.01
EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
# Entries are long-lived; a collection of the youngest per 700 allocations finds next to nothing.
# One walks over 5,000 objects, or 20,000 that the ones before it left, in a few milliseconds; over
# all that there are, once in 50 million.
GC_THRESHOLDS: Final = (5_000, 3, 2_500)
APPEND_BYTES_MAX: Final = 64 << 20
PROGRESS_COLUMNS: Final = 40
# Calls at a time on the query port.
QUERY_CALLS_MAX: Final = 256


class NodeError(Exception):
    """The node cannot start; the text says why and what to do."""


def run(
    settings: NodeSettings,
    *,
    config_file: Path | None = None,
    begins_database: bool = False,
    accepts_loss: bool = False,
    joined: Joined | None = None,
) -> NoReturn:
    """Run a region node until SIGTERM, SIGINT or SHUTDOWN, and end this process.

    The exit status is 0, or 1 with the reason on stderr if the node cannot start or has to stop.

    Args:
        config_file: where the settings came from, for CONFIG REWRITE.
        begins_database: the folder is empty, and a new database begins with it.
        accepts_loss: without peers, a log whose end is lost is opened as a new database.
        joined: what the folder of a node that joins is to have; None: it joined before.
    """
    if not __debug__:
        raise SystemExit("this program checks itself with assertions: run Python without -O")
    # A fatal signal, as SIGBUS of a mapped file that cannot be read, leaves its stack on stderr.
    faulthandler.enable()
    _begin_drill(settings)
    settings = _with_files_for_clients(settings)
    node = Node(
        settings,
        config_file=config_file,
        begins_database=begins_database,
        accepts_loss=accepts_loss,
        joined=joined,
    )
    status = EXIT_STOPPED
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(node.run())
    except (NodeError, StoreError) as error:
        sys.stderr.write(f"region {settings.region}: {error}\n")
        status = EXIT_FAILED
    # Python would take each object apart, for seconds with many streams, while whoever starts the
    # node again waits for that.  The log is closed, and nothing else is left to do.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def tell_progress(what: str, done: int, total: int) -> None:
    """Show how far a folder of an earlier format was taken over."""
    share = done / total if total else 1.0
    if sys.stderr.isatty():
        bar = "#" * int(share * PROGRESS_COLUMNS)
        sys.stderr.write(f"\r{what} [{bar:<{PROGRESS_COLUMNS}}] {share:4.0%}")
        sys.stderr.write("\n" if done >= total else "")
        sys.stderr.flush()
    elif done in (0, total):
        logger.info(what, bytes_done=done, bytes_total=total)


class Node:
    """The parts of a node, made one after the other by ``run``."""

    def __init__(
        self,
        settings: NodeSettings,
        *,
        config_file: Path | None = None,
        begins_database: bool = False,
        accepts_loss: bool = False,
        joined: Joined | None = None,
    ) -> None:
        self._joined = joined
        self.settings = settings
        self.config_file = config_file
        self._begins_database = begins_database
        self._accepts_loss = accepts_loss
        self.region = RegionId(settings.region)
        self._now = wall_clock_off_by(settings.drill.clock_offset_ms)
        self._stop = asyncio.Event()
        # What the process takes by itself, and what it had read when it began to serve.
        self._base_bytes = self._read_bytes = 0
        # The record that says that the staged state was merged, if it was replayed.
        self._merged_seq = 0

    async def run(self) -> None:
        """Start, serve until a signal, stop.

        Raises:
            NodeError: an address cannot be had.
            StoreError: the folder cannot be used.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        settings = self.settings
        fsync = Fsync(settings.appendfsync)
        log = await SqliteLog.open(
            settings.dir,
            region=self.region,
            database_id=settings.database_id,
            fsync=fsync,
            failpoints=self._failpoints(),
            progress=tell_progress,
            empty=(
                EmptyFolder.IS_NEW
                if self._begins_database or self._peers
                else EmptyFolder.IS_NEW_IF_UNMARKED
            ),
            on_loss=self._on_loss(),
        )
        is_whole = False
        staging: SqliteStaging | None = None
        try:
            checkpoints = await SqliteCheckpoints.open(log)
            staging = await SqliteStaging.open(settings.dir, failpoints=self._failpoints())
            checkpoints.staging = staging
            engine = await self._recover(log, checkpoints, staging, fsync)
            with _single_reason():
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(tasks, engine, log, checkpoints, staging)
            is_whole = engine.region.fault is None
        finally:
            if staging is not None:
                await staging.close()
            if is_whole:
                await log.close()
            else:
                await log.abandon()
        if engine.region.outstanding.is_gone:
            raise StoreError(engine.region.fault or "the folder is gone")
        logger.info("stopped", region=self.region)

    def _on_loss(self) -> dict[str, str] | None:
        """What a log whose end is lost becomes; None: it is not opened."""
        if self._peers:
            # They have what is lost here, and answer before this region writes.
            return {}
        # Programs may know dots that are used again: the database must not be the same for them.
        return settings_of_new(random_uid()) if self._accepts_loss else None

    def _failpoints(self) -> Failpoints:
        try:
            return parse_failpoint(self.settings.drill.failpoint)
        except ValueError as error:
            raise NodeError(f"drill.failpoint: {error}") from error

    def _new_replica(self, staging: SqliteStaging, peers: Iterable[RegionId]) -> Replica:
        settings = self.settings
        replica = Replica(
            self.region,
            node_entries_max=settings.stream_node_max_entries,
            node_bytes_max=settings.stream_node_max_bytes,
            peers=peers,
        )
        replica.idmp_duration_s = settings.stream_idmp_duration
        replica.idmp_maxsize = settings.stream_idmp_maxsize
        replica.staged = partial(staged_state, staging)
        return replica

    async def _recover(
        self,
        log: SqliteLog,
        checkpoints: SqliteCheckpoints,
        staging: SqliteStaging,
        fsync: Fsync,
    ) -> Engine:
        settings = self.settings
        before_bytes = resident_bytes()
        folder = await self._read_folder(log)
        known = peers_of(self.region, folder.membership.members, self._peers)
        recovered = await recover(log, checkpoints, partial(self._new_replica, staging, known))
        replica = recovered.replica
        self._base_bytes, self._read_bytes = before_bytes, resident_bytes() - before_bytes
        region = Region(
            replica,
            Database(replica),
            seq=log.last_seq,
            folder=folder,
            now=self._now(),
            identity=Identity(self.region, settings.database_id, secrets.randbits(63)),
            peers=Peers(self.region, known),
            configured=self._peers,
            encode=encode,
            clock=time.perf_counter_ns,
            uniform=uniform,
            make_uid=random_uid,
            limits=_region_limits(settings.limits),
        )
        residency = replica.residency
        region.room.memory.evict = lambda size: residency.evict(size, Turn().is_over)
        region.room.memory.has_more = lambda: residency.may_leave
        region.note_beginning(log.first_seq, log.begins)
        # It counts towards the next checkpoint.
        region.checkpointing.grown_bytes = recovered.bytes
        region.checkpointing.grown_us = recovered.replay_us
        if recovered.checkpoint is not None:
            row = recovered.checkpoint.row
            region.checkpointing.note_found(
                row.seq, row.made_ms, size_bytes=recovered.checkpoint.bytes
            )
            region.retention.note_covered(row.seq)
        await read_absences(region, log)
        self._merged_seq = recovered.merged_seq
        engine = Engine(region, log, fsync=fsync, now=self._now, images=checkpoints)
        await engine.begin()
        # What was just read back lives as long as the node: let no collection walk over it.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        logger.info(
            "log read",
            region=self.region,
            rows=recovered.records,
            checkpoint=None if recovered.checkpoint is None else recovered.checkpoint.row.seq,
            keys=len(replica),
        )
        return engine

    async def _read_folder(self, log: SqliteLog) -> FolderState:
        if self._begins_database:
            return await begin_database(log, random_uid)
        if self._joined is not None:
            found = await begin_joining(log, self._joined.database_uid, self._joined.kept)
            note_joined(self.settings.dir)
            return found
        return await read_folder(log, is_proven=log.is_proven, is_same=log.is_same)

    @property
    def _peers(self) -> dict[RegionId, str]:
        return {RegionId(peer.region): peer.address for peer in self.settings.peers}

    async def _serve(
        self,
        tasks: asyncio.TaskGroup,
        engine: Engine,
        log: SqliteLog,
        checkpoints: SqliteCheckpoints,
        staging: SqliteStaging,
    ) -> None:
        """Everything between recovery and the end of the log's life."""
        settings, region = self.settings, engine.region
        residency = region.replica.residency
        tunables = Tunables(region, log, settings)
        await tunables.restore()
        batch_bytes_max = settings.limits.batch_bytes_max
        mark = password_mark(settings.requirepass, settings.database_id)
        pullers = Pullers(engine, batch_bytes_max=batch_bytes_max, password_mark=mark)
        replication = ReplicationService(engine, password_mark=mark)
        bootstrap = BootstrapService(
            engine,
            checkpoints,
            database_id=settings.database_id,
            image_bytes_max=batch_bytes_max,
        )
        resp = RespServer(engine, settings, config_file=self.config_file)
        resp.shut_down = self._stop.set
        version, started_ms = importlib.metadata.version("crdtstream"), engine.now()
        admin = AdminService(
            NodeParts(
                settings=settings,
                engine=engine,
                tunables=tunables,
                version=version,
                started_ms=started_ms,
                clients=lambda: len(resp.connections),
                log_bytes=log.record_bytes,
                backup=lambda: cut_of_folder(
                    log.path, checkpoints.hold(), version=version, cut_ms=engine.now()
                ),
            )
        )
        metrics = MetricsPage(
            MetricsParts(
                settings=settings,
                engine=engine,
                version=version,
                clients=lambda: _client_figures(resp),
                log_bytes=log.record_bytes,
            )
        )
        pages = make_app(
            HttpParts(
                settings=settings,
                engine=engine,
                version=version,
                metrics_text=metrics.text,
            )
        )
        committer = tasks.create_task(engine.run())
        async with contextlib.AsyncExitStack() as serving:
            # The engine stops last: those who end before it still wait for commits.
            serving.callback(engine.stop)
            query = QueryService(engine, settings)
            await serving.enter_async_context(
                self._grpc_server(tasks, replication, bootstrap, admin, query, engine)
            )
            await serving.enter_async_context(self._query_server(query))
            storage = StorageWatch(
                engine,
                Measures(
                    base=lambda: self._base_bytes,
                    resident=resident_bytes,
                    free=free_bytes,
                    clients=lambda: buffered_bytes(resp.connections),
                    log_tail=lambda: log.tail_bytes,
                    bound_log_tail=log.bound_tail,
                    disk=lambda: log.bytes_on_disk() + staging.bytes_on_disk(),
                    wal=log.wal_bytes,
                    nodes=lambda: residency.total_bytes,
                    may_leave=lambda: (
                        residency.warm_bytes + residency.packed_bytes + log.tail_spare_bytes
                    ),
                ),
                log=log,
            )
            serving.callback(tasks.create_task(_count_older(log)).cancel)
            checkpointer = Checkpointer(region, log, checkpoints, engine, now=self._now)
            serving.callback(tasks.create_task(log.write_ahead()).cancel)
            engine.on_logged = checkpointer.note_logged
            bootstrapper = Bootstrapper(
                region,
                log,
                staging,
                engine,
                CopyFromPeer(engine, settings),
                now=self._now,
                failpoints=self._failpoints(),
            )
            await bootstrapper.begin(self._merged_seq)
            watchers = (metrics.stalls, metrics.walker, storage, checkpointer, bootstrapper)
            for watching in (*watchers, Courier(engine)):
                serving.callback(tasks.create_task(watching.run()).cancel)
            await serving.enter_async_context(self._http_server(tasks, pages))
            serving.callback(tasks.create_task(pullers.run()).cancel)
            await self._ask_peers(region)
            try:
                await resp.start(settings.host, settings.resp_port)
            except OSError as error:
                raise _address_error("resp_port", settings.host, settings.resp_port) from error
            serving.push_async_callback(resp.stop)
            self._base_bytes = max(self._base_bytes, resident_bytes() - self._read_bytes)
            logger.info(
                "serving",
                region=self.region,
                resp=endpoint(settings.host, settings.resp_port),
                grpc=endpoint(settings.host, settings.grpc_port),
                http=endpoint(settings.host, settings.http_port),
            )
            await self._stop.wait()
            logger.info("stopping", region=self.region)
        await committer

    async def _ask_peers(self, region: Region) -> None:
        """Let clients in when it is known what was missed, so that they are not refused for that.

        It is bounded by ``limits.catch_up_answer_ms_max``.
        """
        opening = region.opening
        while opening.catching_up.is_asking and not opening.readiness.is_recovering:
            if self._stop.is_set():
                return
            await asyncio.sleep(ASKING_SECONDS)

    @contextlib.asynccontextmanager
    async def _grpc_server(
        self,
        tasks: asyncio.TaskGroup,
        replication: ReplicationService,
        bootstrap: BootstrapService,
        admin: AdminService,
        query: QueryService,
        engine: Engine,
    ) -> AsyncIterator[None]:
        settings = self.settings
        bytes_max = settings.limits.batch_bytes_max + FRAMING_BYTES_MAX
        server = grpc.aio.server(
            options=(
                ("grpc.max_send_message_length", bytes_max),
                # What a program appends in one call.
                ("grpc.max_receive_message_length", APPEND_BYTES_MAX),
                # A second node on this port must fail, not share it.
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_time_ms", max(1_000, settings.limits.link_silence_ms_max)),
                ("grpc.keepalive_timeout_ms", settings.limits.link_silence_ms_max),
                ("grpc.http2.min_ping_interval_without_data_ms", 500),
                ("grpc.http2.max_ping_strikes", 0),
            )
        )
        healthy = health.aio.HealthServicer()
        replication_pb2_grpc.add_ReplicationServicer_to_server(replication, server)
        bootstrap_pb2_grpc.add_BootstrapServicer_to_server(bootstrap, server)
        membership = MembershipService(engine, settings)
        membership_pb2_grpc.add_MembershipServicer_to_server(membership, server)
        admin_pb2_grpc.add_AdminServicer_to_server(admin, server)
        query_pb2_grpc.add_QueryServicer_to_server(query, server)
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        reflection.enable_server_reflection(
            (
                *(REPLICATION, BOOTSTRAP, MEMBERSHIP, ADMIN, QUERY),
                *(health.SERVICE_NAME, reflection.SERVICE_NAME),
            ),
            server,
        )
        try:
            server.add_insecure_port(endpoint(settings.host, settings.grpc_port))
        except RuntimeError as error:
            raise _address_error("grpc_port", settings.host, settings.grpc_port) from error
        await server.start()
        telling = tasks.create_task(tell_health(healthy, engine))
        try:
            yield
        finally:
            telling.cancel()
            await healthy.enter_graceful_shutdown()
            engine.region.links.stop()
            await server.stop(grace=0.5)
            await bootstrap.close()

    @contextlib.asynccontextmanager
    async def _query_server(self, query: QueryService) -> AsyncIterator[None]:
        """The port of ``[query]``, if there is to be one."""
        wanted = self.settings.query
        if not wanted.port:
            yield
            return
        server = grpc.aio.server(
            options=(
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", APPEND_BYTES_MAX),
            ),
            maximum_concurrent_rpcs=QUERY_CALLS_MAX,
        )
        query_pb2_grpc.add_QueryServicer_to_server(query, server)
        address = endpoint(wanted.host, wanted.port)
        credentials = _tls_credentials(wanted)
        try:
            if credentials is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise _address_error("query.port", wanted.host, wanted.port) from error
        await server.start()
        try:
            yield
        finally:
            await server.stop(grace=0.5)

    @contextlib.asynccontextmanager
    async def _http_server(self, tasks: asyncio.TaskGroup, pages: Starlette) -> AsyncIterator[None]:
        settings = self.settings
        try:
            listener = listening_socket(settings.host, settings.http_port)
        except OSError as error:
            raise _address_error("http_port", settings.host, settings.http_port) from error
        server = http_server(pages)
        serving = tasks.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.end()
            await serving


async def _count_older(log: SqliteLog) -> None:
    """Tell whether rows are missing that other regions may still need."""
    try:
        await log.count_older()
    except StoreError as error:
        logger.error("links cannot send what the log does not have", reason=str(error))


def _begin_drill(settings: NodeSettings) -> None:
    """Warn of what a rehearsal makes wrong with this node; plant the bug that it is to have."""
    drill = settings.drill
    if drill.clock_offset_ms:
        logger.warning(
            "rehearsal: this node's clock is wrong on purpose (drill.clock_offset_ms)",
            region=settings.region,
            offset_ms=drill.clock_offset_ms,
        )
    if drill.failpoint:
        logger.warning(
            "rehearsal: this node dies, or its disk refuses, on purpose (drill.failpoint)",
            region=settings.region,
            failpoint=drill.failpoint,
        )
    if drill.plant != "none":
        from crdtstream.drill.planted import plant

        logger.warning(
            "rehearsal: this node has a bug on purpose (drill.plant) and will lose data",
            region=settings.region,
            plant=drill.plant,
        )
        plant(drill.plant)


def _with_files_for_clients(settings: NodeSettings) -> NodeSettings:
    """Settings with as many clients as this process may open files for, as Redis does it."""
    wanted = settings.limits.clients_max
    allowed = allow_clients(wanted)
    if allowed == wanted:
        return settings
    logger.warning(
        "clients_max is lowered to what this process may open files for; raise the hard limit of "
        "open files (ulimit -Hn, LimitNOFILE in systemd), or set limits.clients_max",
        region=settings.region,
        clients_max=allowed,
        wanted=wanted,
        files_wanted=wanted + FILES_SPARE,
    )
    limits = settings.limits.model_copy(update={"clients_max": allowed})
    return settings.model_copy(update={"limits": limits})


def _client_figures(resp: RespServer) -> ClientFigures:
    connections = resp.connections.values()
    totals = resp.traffic.totals()
    return ClientFigures(
        connected=len(connections),
        clients_max=resp.limits.clients_max,
        blocked=resp.database.waiting_count + sum(one.is_postponed for one in connections),
        connections=totals["total_connections_received"],
        rejected=totals["rejected_connections"],
        cut_off_unread=totals["client_output_buffer_limit_disconnections"],
        received_bytes=totals["total_net_input_bytes"],
        sent_bytes=totals["total_net_output_bytes"],
    )


def _region_limits(limits: Limits) -> RegionLimits:
    names = [one.name for one in dataclasses.fields(RegionLimits)]
    return RegionLimits(**{name: getattr(limits, name) for name in names})


def _tls_credentials(port: QueryPort) -> grpc.ServerCredentials | None:
    """What the port shows and wants to see; None without TLS.

    Raises:
        NodeError: a file cannot be read.
    """
    if port.tls_cert_file is None or port.tls_key_file is None:
        return None
    try:
        key, certificate = port.tls_key_file.read_bytes(), port.tls_cert_file.read_bytes()
        ca = None if port.tls_client_ca_file is None else port.tls_client_ca_file.read_bytes()
        # gRPC would say nothing, and then refuse every connection.
        context = ssl.create_default_context(
            ssl.Purpose.CLIENT_AUTH, cafile=port.tls_client_ca_file
        )
        context.load_cert_chain(port.tls_cert_file, port.tls_key_file, password="")
    except ssl.SSLError as error:
        raise NodeError(
            f"query: {port.tls_cert_file}, {port.tls_key_file}: no certificate (or no CA) and its"
            f" key in PEM: {error.reason or error}"
        ) from error
    except OSError as error:
        raise NodeError(f"query: {error.filename} cannot be read: {error.strerror}") from error
    return grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=ca, require_client_auth=ca is not None
    )


@contextlib.contextmanager
def _single_reason() -> Iterator[None]:
    """Take an error of a known kind out of the groups that TaskGroups wrap it in."""
    try:
        yield
    except BaseExceptionGroup as group:
        known, others = group.split((NodeError, StoreError))
        if others is not None or known is None:
            raise
        # A task with a TaskGroup of its own raises a group, too.
        reason: BaseException = known
        while isinstance(reason, BaseExceptionGroup):
            reason = reason.exceptions[0]
        raise reason from group


def _address_error(name: str, host: str, port: int) -> NodeError:
    return NodeError(
        f"{host}:{port} cannot be listened on ({name}): another process has it, or the address is "
        "not this machine's; stop that process or choose another port"
    )
