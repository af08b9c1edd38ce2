"""Ports of a node beside that of Redis clients: gRPC, the query service's, HTTP.

Each is a context: inside it the port is served, and at its end the calls on it end.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from starlette.applications import Starlette

from crdtstream.access.callers import Callers
from crdtstream.access.calls import CallGuard
from crdtstream.access.certified import CertificateGuard
from crdtstream.access.first_messages import FirstMessages
from crdtstream.access.logins import Logins, region_or_user
from crdtstream.access.server_credentials import server_credentials
from crdtstream.access.shown import ShownCertificates
from crdtstream.admin.service import AdminService
from crdtstream.certificates.errors import CertificateError
from crdtstream.certificates.node_files import Paths
from crdtstream.certificates.watching import Certificates
from crdtstream.database.permits import log_in
from crdtstream.engine.engine import Engine
from crdtstream.http.server import http_server, listening_socket
from crdtstream.http.tls import HttpsContexts
from crdtstream.node.errors import NodeError
from crdtstream.node.health import ADMIN, BOOTSTRAP, MEMBERSHIP, QUERY, REPLICATION, tell_health
from crdtstream.node.rights import (
    BETWEEN_REGIONS,
    NEVER_OPEN,
    OPEN_HERE,
    OPEN_TO_ALL,
    RIGHTS,
    USERS_NEED,
)
from crdtstream.node.trust import follow_authorities, follow_revoked
from crdtstream.query.service import QueryService
from crdtstream.replication.bootstrap_server import BootstrapService
from crdtstream.replication.membership_server import MembershipService
from crdtstream.replication.puller import FRAMING_BYTES_MAX
from crdtstream.replication.server import ReplicationService
from crdtstream.settings.addresses import endpoint, is_loopback
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import QueryPort
from crdtstream.v1 import (
    admin_pb2_grpc,
    bootstrap_pb2_grpc,
    membership_pb2_grpc,
    query_pb2_grpc,
    replication_pb2_grpc,
)

APPEND_BYTES_MAX: Final = 64 << 20
# One message on a gRPC port that strangers reach: gRPC has one bound for all methods of a port, and
# some ask for no login.  Programs send rows in requests of 1 MiB.
STRANGERS_MESSAGE_BYTES_MAX: Final = 4 << 20
# Number of calls at a time on the query port.
QUERY_CALLS_MAX: Final = 256
# Of each gRPC port: connections at a time, calls at a time of one connection, bytes of a call's
# metadata, time to say what a connection speaks, and time that it may be open without a call.
# Programs connect again by themselves.
CALLERS_MAX: Final = 256
CALLS_PER_CALLER_MAX: Final = 128
METADATA_BYTES_MAX: Final = 8 << 10
HANDSHAKE_MS_MAX: Final = 10_000
WITHOUT_CALL_MS_MAX: Final = 10_000
LIMITS_OF_CALLERS: Final = (
    ("grpc.max_allowed_incoming_connections", CALLERS_MAX),
    ("grpc.max_concurrent_streams", CALLS_PER_CALLER_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS_MAX),
    ("grpc.max_connection_idle_ms", WITHOUT_CALL_MS_MAX),
)


@dataclass(frozen=True, slots=True)
class GrpcServices:
    """Our services on the gRPC port."""

    replication: ReplicationService
    bootstrap: BootstrapService
    membership: MembershipService
    admin: AdminService
    query: QueryService


def _guard(
    settings: NodeSettings, engine: Engine, logins: Logins, callers: Callers | None
) -> CallGuard | CertificateGuard:
    """The guard of the gRPC port."""
    if callers is None:
        opens = OPEN_HERE if is_loopback(settings.grpc_host) else OPEN_TO_ALL
        users = partial(log_in, engine.region.database)
        judge = region_or_user(users, settings.requirepass, settings.database_id)
        judges = dict.fromkeys(BETWEEN_REGIONS, judge)
        return CallGuard(logins, opens=opens, closed=NEVER_OPEN, judges=judges, needs=USERS_NEED)
    peers = engine.region.peers
    return CertificateGuard(
        callers, logins, rights=RIGHTS, is_member=lambda region: region in peers.addresses
    )


@contextlib.asynccontextmanager
async def grpc_port(
    settings: NodeSettings,
    tasks: asyncio.TaskGroup,
    services: GrpcServices,
    engine: Engine,
    *,
    logins: Logins,
    callers: Callers | None,
) -> AsyncIterator[None]:
    """The port of peers, operators and programs.

    Args:
        callers: knows them by their certificates; None: the port has no TLS.

    Raises:
        NodeError: another process has the port, or the address is not this machine's.
    """
    bytes_max = settings.limits.batch_bytes_max + FRAMING_BYTES_MAX
    guard = _guard(settings, engine, logins, callers)
    # With certificates, no message is read before its caller is known.
    meets_strangers = callers is None and not is_loopback(settings.grpc_host)
    server = grpc.aio.server(
        options=(
            ("grpc.max_send_message_length", bytes_max),
            # Size of what a program appends in one call.
            (
                "grpc.max_receive_message_length",
                STRANGERS_MESSAGE_BYTES_MAX if meets_strangers else APPEND_BYTES_MAX,
            ),
            *LIMITS_OF_CALLERS,
            # A second node on this port must fail, not share it.
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", max(1_000, settings.limits.link_silence_ms_max)),
            ("grpc.keepalive_timeout_ms", settings.limits.link_silence_ms_max),
            ("grpc.http2.min_ping_interval_without_data_ms", 500),
            ("grpc.http2.max_ping_strikes", 0),
        ),
        interceptors=(guard, FirstMessages(opens=OPEN_TO_ALL)),
    )
    healthy = health.aio.HealthServicer()
    replication_pb2_grpc.add_ReplicationServicer_to_server(services.replication, server)
    bootstrap_pb2_grpc.add_BootstrapServicer_to_server(services.bootstrap, server)
    membership_pb2_grpc.add_MembershipServicer_to_server(services.membership, server)
    admin_pb2_grpc.add_AdminServicer_to_server(services.admin, server)
    query_pb2_grpc.add_QueryServicer_to_server(services.query, server)
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection(
        (
            *(REPLICATION, BOOTSTRAP, MEMBERSHIP, ADMIN, QUERY),
            *(health.SERVICE_NAME, reflection.SERVICE_NAME),
        ),
        server,
    )
    try:
        if callers is None:
            server.add_insecure_port(settings.grpc_address)
        else:
            credentials = server_credentials(callers.certificates)
            server.add_secure_port(settings.grpc_address, credentials)
    except RuntimeError as error:
        raise address_error("grpc_port", settings.grpc_host, settings.grpc_port) from error
    await server.start()
    running = [tasks.create_task(tell_health(healthy, engine))]
    if isinstance(guard, CertificateGuard):
        certificates = guard.callers.certificates
        running.append(tasks.create_task(follow_authorities(certificates, guard, engine)))
        running.append(tasks.create_task(follow_revoked(engine, guard.end_revoked)))
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await healthy.enter_graceful_shutdown()
        engine.region.links.stop()
        await server.stop(grace=0.5)
        await services.bootstrap.close()


@contextlib.asynccontextmanager
async def query_port(
    wanted: QueryPort,
    tasks: asyncio.TaskGroup,
    query: QueryService,
    engine: Engine,
    *,
    logins: Logins,
    reload: asyncio.Event,
) -> AsyncIterator[None]:
    """The port of ``[query]``, if it is configured.

    Args:
        reload: its certificate files are to be read now; they are watched as well.

    Raises:
        NodeError: it cannot be listened on, or its certificates cannot be used.
    """
    if not wanted.port:
        yield
        return
    interceptors = [CallGuard(logins, opens=()), FirstMessages(opens=())]
    shown = ShownCertificates(engine.region.membership.members.is_revoked)
    if wanted.tls_client_ca_file is not None:
        interceptors.insert(0, shown)
    server = grpc.aio.server(
        options=(
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", APPEND_BYTES_MAX),
            *LIMITS_OF_CALLERS,
        ),
        interceptors=interceptors,
        maximum_concurrent_rpcs=QUERY_CALLS_MAX,
    )
    query_pb2_grpc.add_QueryServicer_to_server(query, server)
    address = endpoint(wanted.host, wanted.port)
    certificates = await _query_certificates(wanted)
    try:
        if certificates is None:
            server.add_insecure_port(address)
        else:
            asks_callers = wanted.tls_client_ca_file is not None
            credentials = server_credentials(certificates, asks_callers=asks_callers)
            server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise address_error("query.port", wanted.host, wanted.port) from error
    await server.start()
    watching = [follow_revoked(engine, shown.end_revoked)]
    if certificates is not None:
        watching += [certificates.run(), certificates.reload_at(reload)]
    running = [tasks.create_task(one) for one in watching]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await server.stop(grace=0.5)


@contextlib.asynccontextmanager
async def http_port(
    settings: NodeSettings,
    tasks: asyncio.TaskGroup,
    pages: Starlette,
    certificates: Certificates | None,
) -> AsyncIterator[None]:
    """The port of health checks, metrics and pages.

    Args:
        certificates: of the node; None: it has none, and the port speaks no TLS.

    Raises:
        NodeError: it cannot be listened on.
    """
    try:
        listener = listening_socket(settings.http_host, settings.http_port)
    except OSError as error:
        raise address_error("http_port", settings.http_host, settings.http_port) from error
    context = None
    if settings.tls_http:
        assert certificates is not None, "the settings have the files"
        context = HttpsContexts(certificates).context
    server = http_server(pages, context)
    serving = tasks.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.end()
        await serving


async def _query_certificates(port: QueryPort) -> Certificates | None:
    """Certificates of the port; None: it has no TLS.

    Raises:
        NodeError: they cannot be used.
    """
    if port.tls_cert_file is None or port.tls_key_file is None:
        return None
    paths = Paths(port.tls_cert_file, port.tls_key_file, port.tls_client_ca_file)
    try:
        return await Certificates.open(paths, None)
    except CertificateError as error:
        raise NodeError(f"query: {error}") from error


def address_error(name: str, host: str, port: int) -> NodeError:
    """The error of a port that cannot be listened on; ``name`` is its setting."""
    return NodeError(
        f"{host}:{port} cannot be listened on ({name}): another process has it, or the address is "
        "not this machine's; stop that process or choose another port"
    )
