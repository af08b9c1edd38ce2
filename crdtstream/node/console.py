"""The console of a node: connects it with what it shows.

It is loaded when it is made, at the first request for a page of it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.service import AdminService
from crdtstream.admin.tunables import Tunables
from crdtstream.metrics.figure_sources import FigureSources
from crdtstream.metrics.page import MetricsPage
from crdtstream.node.actions import Actions
from crdtstream.region.staleness import LagState
from crdtstream.resp.server import RespServer

if TYPE_CHECKING:
    from crdtstream.console.picture import NodeFigures


def console_of(
    measured: FigureSources,
    *,
    admin: AdminService,
    tunables: Tunables,
    calls: PeerCalls,
    metrics: MetricsPage,
    resp: RespServer,
    actions: Actions,
) -> Callable[[], ASGIApp]:
    """A function that loads the console of a node and makes it.

    Args:
        measured: the parts of the node that are measured.
        calls: the way to the other regions.
    """

    def make() -> ASGIApp:
        from crdtstream.admin.members import members_reply
        from crdtstream.admin.operating import Operating
        from crdtstream.admin.other_regions import OtherRegions
        from crdtstream.console.app import make_console
        from crdtstream.console.console_sources import WALK_SECONDS_MAX, ConsoleSources

        engine, settings = measured.engine, measured.settings
        others = OtherRegions(engine, settings, calls)
        return make_console(
            ConsoleSources(
                settings=settings,
                engine=engine,
                version=measured.version,
                logins=measured.logins,
                status=admin.status,
                members=lambda: members_reply(engine, settings),
                node=lambda: _figures(measured),
                others=others.ask,
                group_progress=others.ask_group,
                walk=lambda: metrics.walker.fresh(WALK_SECONDS_MAX),
                slow_commands=resp.slowlog.calls,
                operating=Operating(engine, settings, calls, tunables),
                begin=actions.begin,
            )
        )

    return make


def _figures(measured: FigureSources) -> "NodeFigures":
    from crdtstream.console.picture import NodeFigures

    engine, clients, certificates = measured.engine, measured.clients(), measured.certificates
    region = engine.region
    staleness = region.staleness
    return NodeFigures(
        memory=region.memory.account.parts,
        wal_bytes=region.disk.wal_bytes,
        commands=region.database.statistics.calls,
        clients_max=clients.clients_max,
        clients_blocked=clients.blocked,
        received_bytes=clients.received_bytes,
        sent_bytes=clients.sent_bytes,
        lag_effects=staleness.lag.effects,
        lag_ms=staleness.lag.ms(engine.now()),
        lag_exceeded=staleness.state is LagState.EXCEEDED,
        checkpoint_failure=region.checkpointing.failure,
        certificate_trouble=("" if certificates is None else certificates.trouble) or "",
    )
