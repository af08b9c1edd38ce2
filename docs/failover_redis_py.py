"""A redis-py client that moves to another region by itself: the recipe of docs/failover.md.

    python docs/failover_redis_py.py 127.0.0.1:6381 127.0.0.2:6381 127.0.0.3:6381

Each region's HTTP port is the one given with --http-port, on the same host as its Redis port. User
and password are read from the environment variables REDIS_USERNAME and REDIS_PASSWORD; those of
health pages from PAGES_USERNAME and PAGES_PASSWORD, if they are others. With --tls-ca-cert-file the
Redis ports are reached over TLS; with --tls-cert-file and --tls-key-file the client shows a
certificate. With --https the health pages are reached over TLS as well, as with `tls_http`.
"""

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.multidb.healthcheck import HealthCheck, LagAwareHealthCheck, PingHealthCheck
from redis.backoff import ConstantBackoff
from redis.multidb.client import MultiDBClient
from redis.multidb.config import DatabaseConfig, InitialHealthCheck, MultiDbConfig
from redis.multidb.exception import (
    InitialHealthCheckFailedError,
    NoValidDatabaseException,
    TemporaryUnavailableException,
)
from redis.retry import Retry

# What a command raises while no region is available. The last three are no RedisError.
NO_REGION = (
    redis.RedisError,
    InitialHealthCheckFailedError,
    NoValidDatabaseException,
    TemporaryUnavailableException,
)
# Longer than `link_silence_ms_max` of the regions: with less, the loss of one of two regions makes
# the other one unavailable as well, until it knows that its peer is gone.
LAG_MS_MAX = 5_000


class LagAwareByRegion(LagAwareHealthCheck):
    """redis-py's own check, one for each region.

    Up to redis-py 8.1 one instance keeps one base URL, and sets it anew while requests to the
    other regions are under way: with several regions it asks the wrong one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options
        self._checks: dict[str, LagAwareHealthCheck] = {}

    async def check_health(self, database: Any, hc_client: Any) -> bool:
        url = database.health_check_url
        check = self._checks.setdefault(url, LagAwareHealthCheck(**self._options))
        return await check.check_health(database, hc_client)


def lag_check(http_port: int, *, lag_ms_max: int = LAG_MS_MAX, **options: Any) -> HealthCheck:
    """Away from a region that is down, refuses writes, or is further behind than this.

    `options` are redis-py's: `auth_basic=("default", password)`, `ca_file`, `client_cert_file`,
    `client_key_file`, `verify_tls` ...
    """
    return LagAwareByRegion(
        **options,
        rest_api_port=http_port,
        lag_aware_tolerance=lag_ms_max,
        http_timeout=1.0,
        health_check_probes=1,
        health_check_timeout=1.0,
    )


class PingOverTls(PingHealthCheck):
    """redis-py's own check, with a connection that speaks TLS.

    Up to redis-py 8.1 the client that is made for checks leaves out `ssl=True`, so it finds every
    region down.
    """

    def __init__(self, connection: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._connection = connection

    async def check_health(self, database: Any, hc_client: Any) -> bool:
        region = database.client.get_connection_kwargs()
        place = {"host": region["host"], "port": region["port"]}
        async with redis.asyncio.Redis(**self._connection, **place) as client:
            return await super().check_health(database, client)


def ping_check(**connection: Any) -> HealthCheck:
    """Away from a region that is down or refuses writes.

    `connection` is what `failover_client` gets; only TLS needs it.
    """
    options = {"health_check_probes": 1, "health_check_timeout": 1.0}
    if connection.get("ssl"):
        return PingOverTls(connection, **options)
    return PingHealthCheck(**options)


def regions_of(
    addresses: Sequence[str], *, pages: str = "http", **connection: Any
) -> list[DatabaseConfig]:
    """The nearest first: it is used while it is healthy, and again once it is so.

    `connection` is redis-py's, the same for all regions: `password`, `username`, `ssl=True`,
    `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile` ... `pages` is "https" if the regions'
    HTTP ports speak TLS.
    """
    configs = []
    for place, address in enumerate(addresses):
        host, _, port = address.rpartition(":")
        configs.append(
            DatabaseConfig(
                weight=1.0 / (1 + place),
                health_check_url=f"{pages}://{host}",
                client_kwargs={
                    "host": host,
                    "port": int(port),
                    # A frozen region must not hold a command for longer.
                    "socket_timeout": 1.0,
                    "socket_connect_timeout": 1.0,
                    **connection,
                },
            )
        )
    return configs


def settings_of(
    addresses: Sequence[str],
    check: HealthCheck,
    *,
    interval_seconds: float = 1.0,
    **connection: Any,
) -> dict[str, Any]:
    """What the client and its asyncio twin are configured with."""
    return {
        "databases_config": regions_of(addresses, **connection),
        "health_checks": [check],
        "health_check_interval": interval_seconds,
        # One region that is down must not keep a client from starting.
        "initial_health_check_policy": InitialHealthCheck.ONE_AVAILABLE,
        # Back to the nearest region once it is healthy; 120 s unless said otherwise.
        "auto_fallback_interval": interval_seconds,
        # A command that fails is tried again, and by then in another region.
        "command_retry": Retry(ConstantBackoff(interval_seconds), retries=5),
    }


def failover_client(
    addresses: Sequence[str],
    check: HealthCheck,
    *,
    interval_seconds: float = 1.0,
    **connection: Any,
) -> MultiDBClient:
    """A client of several regions; ``addresses`` with the nearest first."""
    settings = settings_of(addresses, check, interval_seconds=interval_seconds, **connection)
    return MultiDBClient(MultiDbConfig(**settings))


def main() -> None:
    """Append an entry each second, and print which region took it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("addresses", nargs="+", metavar="host:port", help="the nearest first")
    parser.add_argument("--http-port", type=int, default=8381)
    parser.add_argument("--stream", default="messages")
    parser.add_argument(
        "--tls-ca-cert-file", metavar="PATH", help="TLS; who signed the certificates"
    )
    parser.add_argument("--tls-cert-file", metavar="PATH", help="certificate of this client")
    parser.add_argument("--tls-key-file", metavar="PATH", help="its key")
    parser.add_argument("--https", action="store_true", help="TLS for the health pages")
    given = parser.parse_args()
    user, password = os.environ.get("REDIS_USERNAME"), os.environ.get("REDIS_PASSWORD")
    connection: dict[str, Any] = {"username": user, "password": password}
    asks_as = os.environ.get("PAGES_USERNAME", user or "default")
    asks_with = os.environ.get("PAGES_PASSWORD", password)
    asking: dict[str, Any] = {"auth_basic": (asks_as, asks_with) if asks_with else None}
    if given.tls_ca_cert_file is not None:
        connection |= {
            "ssl": True,
            "ssl_ca_certs": given.tls_ca_cert_file,
            "ssl_certfile": given.tls_cert_file,
            "ssl_keyfile": given.tls_key_file,
        }
    if given.https:
        connection["pages"] = "https"
        asking["ca_file"] = given.tls_ca_cert_file
    client = failover_client(given.addresses, lag_check(given.http_port, **asking), **connection)
    while True:
        try:
            # With an idempotent ID, a retry in another region is recognised: no entry comes twice.
            entry = client.xadd(
                given.stream, {"at": str(time.time())}, idmp=("p1", str(time.time_ns()))
            )
            print(entry.decode(), flush=True)
        except NO_REGION as error:
            print(f"no region at present: {error}", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
