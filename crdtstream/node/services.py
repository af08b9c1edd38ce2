"""The parts of a node around its engine.  They are started and ended by ``node.py``."""

import importlib.metadata
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

from starlette.applications import Starlette

from crdtstream.access.basic import login_of_region
from crdtstream.access.callers import Callers, figures
from crdtstream.access.logins import Logins
from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.health_reports import HealthReports
from crdtstream.admin.service import AdminService, NodeParts
from crdtstream.admin.tunables import Tunables
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import Millis
from crdtstream.database.permits import Permits, log_in
from crdtstream.engine.bootstrapper import Bootstrapper
from crdtstream.engine.checkpointer import Checkpointer
from crdtstream.engine.engine import Engine
from crdtstream.engine.repairer import Repairer
from crdtstream.engine.storage_watch import Measures, StorageWatch
from crdtstream.http.app import make_app
from crdtstream.http.page_sources import PageSources
from crdtstream.machine.heap import free_bytes
from crdtstream.metrics.figure_sources import ClientFigures, FigureSources
from crdtstream.metrics.page import MetricsPage
from crdtstream.node.actions import Actions
from crdtstream.node.console import console_of
from crdtstream.node.ports import GrpcServices
from crdtstream.node.recovery import Recovered, failpoints_of
from crdtstream.node.refusals import note_refused
from crdtstream.query.service import QueryService
from crdtstream.replication.bootstrap_client import CopyFromPeer
from crdtstream.replication.bootstrap_server import BootstrapService
from crdtstream.replication.membership_client import Courier
from crdtstream.replication.membership_server import MembershipService
from crdtstream.replication.puller import Pullers
from crdtstream.replication.server import ReplicationService
from crdtstream.resp.commands.server.memory import buffered_bytes, resident_bytes
from crdtstream.resp.server import RespServer
from crdtstream.secrets.password_marks import password_mark
from crdtstream.settings.addresses import is_loopback
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.upkeep.folder_cut import cut_of_folder


class Services:
    """The parts around the engine, each made once.

    Attributes:
        certificates: of this node; None: none is configured.
        callers: of the gRPC port, by their certificates; None: it does not know who they are.
        logins: of calls and requests that name a user.
        calls: the way to the other regions.
        resp: the server of Redis clients.
        grpc: what the gRPC port serves.
        pages: what the HTTP port serves.
        pullers: the links to the other regions.
        bootstrapper: takes over another region's state.
        watchers: what runs in a loop of its own, as long as the node serves.
    """

    def __init__(
        self,
        settings: NodeSettings,
        recovered: Recovered,
        tunables: Tunables,
        *,
        now: Callable[[], Millis],
        certificates: Certificates | None,
        config_file: Path | None,
        shut_down: Callable[[], None],
        actions: Actions,
    ) -> None:
        """Make them; nothing runs yet.

        Args:
            now: milliseconds since 1970, by the node's clock.
            config_file: the file of the settings, for CONFIG REWRITE.
            shut_down: called by SHUTDOWN.
            actions: of the console.
        """
        engine = self._engine = recovered.engine
        self._settings, self._folder, self._memory = settings, recovered.folder, recovered.memory
        self._now = now
        self._version = importlib.metadata.version("crdtstream")
        self._started_ms = engine.now()
        self.certificates = certificates
        self.callers = _callers(settings, certificates, engine)
        self.calls = PeerCalls(
            settings.database_id,
            login_of_region(settings.requirepass, settings.database_id),
            certificates if settings.tls_replication else None,
        )
        database = engine.region.database
        self.logins = Logins(
            partial(log_in, database),
            asks=lambda: database.users.ask,
            anonymous=lambda: Permits(database, database.users.default),
        )
        self.logins.on_refused = partial(note_refused, database)
        self.resp = RespServer(
            engine,
            settings,
            config_file=config_file,
            logins=self.logins,
            certificates=certificates,
            figures=partial(figures, certificates, self.callers),
        )
        self.resp.shut_down = shut_down
        self._mark = password_mark(settings.requirepass, settings.database_id)
        self.pullers = Pullers(
            engine,
            batch_bytes_max=settings.limits.batch_bytes_max,
            password_mark=self._mark,
            calls=self.calls,
            check_s=settings.peer_certificate_check_s if settings.tls_replication else math.inf,
        )
        self._copying = CopyFromPeer(engine, settings, self.calls)
        self.bootstrapper = Bootstrapper(
            engine.region,
            self._folder.log,
            self._folder.staging,
            engine,
            self._copying,
            now=now,
            failpoints=failpoints_of(settings),
        )
        self._metrics = MetricsPage(self._measured())
        self.grpc = self._grpc_services(tunables)
        self.pages = self._pages(tunables, actions)
        self.watchers = (
            self._metrics.stalls,
            self._metrics.walker,
            StorageWatch(engine, self._measures(), log=self._folder.log),
            Checkpointer(
                engine.region, self._folder.log, self._folder.checkpoints, engine, now=now
            ),
            self.bootstrapper,
            self.grpc.bootstrap,
            Courier(engine, self.calls),
        )

    def _grpc_services(self, tunables: Tunables) -> GrpcServices:
        settings, engine, callers = self._settings, self._engine, self.callers
        return GrpcServices(
            ReplicationService(engine, password_mark=self._mark, callers=callers),
            BootstrapService(
                engine,
                self._folder.checkpoints,
                database_id=settings.database_id,
                image_bytes_max=settings.limits.batch_bytes_max,
                callers=callers,
            ),
            MembershipService(engine, settings, callers=callers),
            AdminService(self._administered(tunables)),
            QueryService(engine, settings),
        )

    def _administered(self, tunables: Tunables) -> NodeParts:
        engine, folder, version = self._engine, self._folder, self._version
        return NodeParts(
            settings=self._settings,
            engine=engine,
            tunables=tunables,
            version=version,
            started_ms=self._started_ms,
            clients=lambda: len(self.resp.connections),
            log_bytes=folder.log.record_bytes,
            backup=lambda: cut_of_folder(
                folder.log.path, folder.checkpoints.hold(), version=version, cut_ms=engine.now()
            ),
            repairer=Repairer(
                engine.region,
                folder.staging,
                engine,
                self._copying,
                now=self._now,
                failpoints=failpoints_of(self._settings),
            ),
            users=self.resp.acl,
            calls=self.calls,
            certificates=self.certificates,
        )

    def _measured(self) -> FigureSources:
        return FigureSources(
            settings=self._settings,
            engine=self._engine,
            version=self._version,
            clients=partial(_client_figures, self.resp),
            log_bytes=self._folder.log.record_bytes,
            logins=self.logins,
            certificates=self.certificates,
            callers=self.callers,
        )

    def _pages(self, tunables: Tunables, actions: Actions) -> Starlette:
        settings = self._settings
        return make_app(
            PageSources(
                settings=settings,
                engine=self._engine,
                version=self._version,
                metrics_text=self._metrics.text,
                health_reports=HealthReports(self._engine, settings, self.calls).of,
                logins=None if is_loopback(settings.http_host) else self.logins,
                certificates=self.certificates,
                make_console=console_of(
                    self._measured(),
                    admin=self.grpc.admin,
                    tunables=tunables,
                    calls=self.calls,
                    metrics=self._metrics,
                    resp=self.resp,
                    actions=actions,
                ),
            )
        )

    def _measures(self) -> Measures:
        log, memory = self._folder.log, self._memory
        residency = self._engine.region.replica.residency
        return Measures(
            base=lambda: memory.base_bytes,
            resident=resident_bytes,
            free=free_bytes,
            clients=lambda: buffered_bytes(self.resp.connections),
            log_tail=lambda: log.tail_bytes,
            bound_log_tail=log.bound_tail,
            disk=lambda: self._folder.disk_bytes,
            wal=log.wal_bytes,
            nodes=lambda: residency.total_bytes,
            may_leave=lambda: residency.warm_bytes + residency.packed_bytes + log.tail_spare_bytes,
        )


def _callers(
    settings: NodeSettings, certificates: Certificates | None, engine: Engine
) -> Callers | None:
    if not settings.tls_replication:
        return None
    assert certificates is not None, "the settings have the files"
    return Callers(certificates, engine.region.membership.members.is_revoked)


def _client_figures(resp: RespServer) -> ClientFigures:
    connections = resp.connections.values()
    totals = resp.traffic.totals()
    handshakes = resp.ports.handshakes.counts
    return ClientFigures(
        connected=len(connections),
        clients_max=resp.limits.clients_max,
        blocked=resp.database.waiting_count + sum(one.is_postponed for one in connections),
        connections=totals["total_connections_received"],
        rejected=totals["rejected_connections"],
        cut_off_unread=totals["client_output_buffer_limit_disconnections"],
        cut_off_newcomers=resp.newcomers.cut_off,
        received_bytes=totals["total_net_input_bytes"],
        sent_bytes=totals["total_net_output_bytes"],
        handshakes_done=handshakes.done,
        handshakes_failed=handshakes.failed,
        handshakes_late=handshakes.late,
    )
