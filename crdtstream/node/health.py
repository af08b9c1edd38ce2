"""Standard gRPC health service of a node: which of its services can be used for now."""

from typing import Final

from grpc_health.v1 import health, health_pb2

from crdtstream.engine.engine import Engine
from crdtstream.v1 import admin_pb2, bootstrap_pb2, membership_pb2, query_pb2, replication_pb2

REPLICATION: Final = replication_pb2.DESCRIPTOR.services_by_name["Replication"].full_name
MEMBERSHIP: Final = membership_pb2.DESCRIPTOR.services_by_name["Membership"].full_name
BOOTSTRAP: Final = bootstrap_pb2.DESCRIPTOR.services_by_name["Bootstrap"].full_name
ADMIN: Final = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name
QUERY: Final = query_pb2.DESCRIPTOR.services_by_name["Query"].full_name
SERVING: Final = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING


async def tell_health(healthy: health.aio.HealthServicer, engine: Engine) -> None:
    """Keep the standard gRPC health service current; each service has a meaning of its own.

    "" (the node)   it takes writes
    Query           its database is known, so it can be read
    Replication     peers can pull from its log, also while it takes no writes itself
    Bootstrap       peers can ask for its state; the answer says whether it has one to send
    Membership      it takes part in deciding on the members
    Admin           operators can look, and put it right
    """
    told: dict[str, bool] = {}
    while True:
        engine.standing_changed.clear()
        region = engine.region
        serves = {
            "": region.refuses_writes is None,
            QUERY: bool(region.replica.database_uid),
            REPLICATION: True,
            BOOTSTRAP: True,
            MEMBERSHIP: True,
            ADMIN: True,
        }
        for service, is_serving in serves.items():
            if told.get(service) is not is_serving:
                told[service] = is_serving
                await healthy.set(service, SERVING if is_serving else NOT_SERVING)
        await engine.standing_changed.wait()
