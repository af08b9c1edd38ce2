"""One region node: its parts, wired together, from start to stop."""

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import structlog
import uvloop

from crdtstream.admin.tunables import Tunables
from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import Paths
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import RegionId
from crdtstream.database.acl.users import Users
from crdtstream.engine.folder import settings_of_new
from crdtstream.machine.heap import give_back_memory
from crdtstream.machine.inputs import random_uid, wall_clock_off_by
from crdtstream.node.actions import Actions
from crdtstream.node.errors import NodeError
from crdtstream.node.joining import Joined
from crdtstream.node.notices import (
    tell_drill,
    tell_open_folder,
    tell_openness,
    tell_readable_secrets,
    with_files_for_clients,
)
from crdtstream.node.ports import address_error, grpc_port, http_port, query_port
from crdtstream.node.recovery import Folder, Recovered, failpoints_of, recover
from crdtstream.node.service_manager import ServiceManager
from crdtstream.node.services import Services
from crdtstream.node.trust import follow_revoked, tell_own_revoked
from crdtstream.query.arrow_extra import NO_ARROW, is_arrow_installed
from crdtstream.region.region import Region
from crdtstream.resp.accounts import Accounts, AccountsError
from crdtstream.resp.server import RespServer
from crdtstream.resp.transport.ports import PLAIN, TLS, PortError
from crdtstream.secrets.private_files import keep_files_private
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync
from crdtstream.store.marker import EmptyFolder
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.store.sqlite_staging import SqliteStaging

logger = structlog.get_logger(__name__)

ASKING_SECONDS: Final = 0.01
EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1


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
        config_file: the file of the settings, for CONFIG REWRITE.
        begins_database: the folder is empty, and a new database begins with it.
        accepts_loss: without peers, a log whose end is lost is opened as a new database.
        joined: content for the folder of a node that joins; None: it joined before.
    """
    # A fatal signal, as SIGBUS of a mapped file that cannot be read, leaves its stack on stderr.
    faulthandler.enable()
    tell_drill(settings)
    tell_openness(settings)
    tell_readable_secrets(settings, config_file)
    tell_open_folder(settings)
    keep_files_private()
    settings = with_files_for_clients(settings)
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
    # Python would take each object apart, for seconds with many streams, while the restart of the
    # node waits for that.  The log is closed, and nothing else is left to do.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


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
        self._reload = asyncio.Event()
        self._manager = ServiceManager.of_environment(os.environ)

    async def run(self) -> None:
        """Start, serve until a signal, stop.

        Raises:
            NodeError: an address is not available, or the certificate cannot be used.
            StoreError: the folder cannot be used.
        """
        loop = asyncio.get_running_loop()
        # Before all that takes time, and for good: unhandled, it would end the process.
        loop.add_signal_handler(signal.SIGHUP, self._reload.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        settings = self.settings
        _check_users(settings)
        _check_arrow(settings)
        certificates = await _open_certificates(settings)
        log = await self._open_log()
        is_whole = False
        staging: SqliteStaging | None = None
        try:
            checkpoints = await SqliteCheckpoints.open(log)
            staging = await SqliteStaging.open(settings.dir, failpoints=failpoints_of(settings))
            checkpoints.staging = staging
            recovered = await recover(
                settings,
                Folder(log, checkpoints, staging),
                now=self._now,
                begins_database=self._begins_database,
                joined=self._joined,
            )
            with _single_reason():
                async with asyncio.TaskGroup() as tasks:
                    await self._serve(tasks, recovered, certificates)
            region = recovered.engine.region
            is_whole = region.fault is None
        finally:
            if staging is not None:
                await staging.close()
            if is_whole:
                await log.close()
            else:
                await log.abandon()
        if region.outstanding.is_gone:
            raise StoreError(region.fault or "the folder is gone")
        logger.info("stopped", region=self.region)

    async def _open_log(self) -> SqliteLog:
        settings = self.settings
        return await SqliteLog.open(
            settings.dir,
            region=self.region,
            database_id=settings.database_id,
            fsync=Fsync(settings.appendfsync),
            failpoints=failpoints_of(settings),
            empty=(
                EmptyFolder.IS_NEW
                if self._begins_database or settings.peers
                else EmptyFolder.IS_NEW_IF_UNMARKED
            ),
            on_loss=self._on_loss(),
            volume_id=settings.volume_id,
        )

    def _on_loss(self) -> dict[str, str] | None:
        """State for a log whose end is lost; None: it is not opened."""
        if self.settings.peers:
            # They have what is lost here, and answer before this region writes.
            return {}
        # Programs may know dots that are used again: it must be another database for them.
        return settings_of_new(random_uid()) if self._accepts_loss else None

    async def _serve(
        self, tasks: asyncio.TaskGroup, recovered: Recovered, certificates: Certificates | None
    ) -> None:
        """Everything between recovery and the end of the log's life."""
        settings, engine, log = self.settings, recovered.engine, recovered.folder.log
        tunables = Tunables(engine.region, log, settings)
        await tunables.restore()
        actions = Actions(tasks)
        services = Services(
            settings,
            recovered,
            tunables,
            now=self._now,
            certificates=certificates,
            config_file=self.config_file,
            shut_down=self._stop.set,
            actions=actions,
        )
        logins, grpc = services.logins, services.grpc
        committer = tasks.create_task(engine.run())
        async with contextlib.AsyncExitStack() as serving:
            # The engine stops last: tasks that end before it still wait for commits.
            serving.callback(engine.stop)
            await serving.enter_async_context(
                grpc_port(settings, tasks, grpc, engine, logins=logins, callers=services.callers)
            )
            await serving.enter_async_context(
                query_port(
                    settings.query, tasks, grpc.query, engine, logins=logins, reload=self._reload
                )
            )
            if certificates is not None:
                for watching in (certificates.run(), certificates.reload_at(self._reload)):
                    serving.callback(tasks.create_task(watching).cancel)
                own = partial(tell_own_revoked, certificates, engine)
                for end in (services.resp.end_revoked, own):
                    serving.callback(tasks.create_task(follow_revoked(engine, end)).cancel)
                own()
            await services.bootstrapper.begin(recovered.merged_seq)
            working = [log.write_ahead(), _count_older(log)]
            for work in (*working, *(watcher.run() for watcher in services.watchers)):
                serving.callback(tasks.create_task(work).cancel)
            # Once no page begins another one.
            serving.callback(actions.cancel)
            await serving.enter_async_context(
                http_port(settings, tasks, services.pages, certificates)
            )
            serving.callback(tasks.create_task(services.pullers.run()).cancel)
            await self._ask_peers(engine.region)
            await self._open_to_clients(services.resp)
            serving.push_async_callback(services.resp.stop)
            await asyncio.to_thread(give_back_memory)
            recovered.memory.note_serving()
            logger.info(
                "serving",
                region=self.region,
                **({"resp": settings.resp_address} if settings.resp_port else {}),
                **({"tls_port": settings.tls_port} if settings.tls_port else {}),
                grpc=settings.grpc_address,
                http=settings.http_address,
            )
            await self._manager.tell_surely(
                "READY=1", f"STATUS=region {self.region} serves clients"
            )
            serving.callback(tasks.create_task(self._manager.keep_alive()).cancel)
            await self._stop.wait()
            await self._manager.tell_surely(
                "STOPPING=1", f"STATUS=region {self.region} closes its log"
            )
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

    async def _open_to_clients(self, resp: RespServer) -> None:
        """Listen for Redis clients.

        Raises:
            NodeError: a port cannot be listened on.
        """
        settings = self.settings
        try:
            await resp.start(settings.host, settings.resp_port or None, settings.tls_port or None)
        except PortError as error:
            name = {PLAIN: "resp_port", TLS: "tls_port"}[error.name]
            raise address_error(name, settings.host, error.number) from error
        except OSError as error:
            raise address_error("host", settings.host, settings.client_port) from error


async def _open_certificates(settings: NodeSettings) -> Certificates | None:
    """The certificates of the node; None if none is configured.

    Raises:
        NodeError: they cannot be used.
    """
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    paths = Paths(
        certificate=settings.tls_cert_file,
        key=settings.tls_key_file,
        ca=settings.tls_ca_cert_file,
        key_password=settings.tls_key_file_pass_file,
        ca_folder=settings.tls_ca_cert_dir,
    )
    wanted = Wanted(RegionId(settings.region), settings.database_id)
    try:
        return await Certificates.open(paths, wanted if settings.tls_replication else None)
    except CertificateError as error:
        raise NodeError(f"its certificate cannot be used: {error}") from error


async def _count_older(log: SqliteLog) -> None:
    """Report whether rows are missing that other regions may still need."""
    try:
        await log.count_older()
    except StoreError as error:
        logger.error("links cannot send what the log does not have", reason=str(error))


def _check_users(settings: NodeSettings) -> None:
    """Refuse users that cannot be put in use, before the folder is opened.

    Raises:
        NodeError: it names all that is wrong.
    """
    try:
        Accounts(Users(), settings)
    except AccountsError as error:
        raise NodeError("users: " + "\n  ".join(error.problems)) from error


def _check_arrow(settings: NodeSettings) -> None:
    """Refuse a port for Spark that could not send entries, before the folder is opened.

    Raises:
        NodeError: it names the extra to install.
    """
    if settings.query.port and not is_arrow_installed():
        raise NodeError(f"query.port: {NO_ARROW}, or remove the port")


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
