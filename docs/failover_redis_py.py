"""A redis-py client that moves to another region by itself: the recipe of docs/failover.md.

    python docs/failover_redis_py.py 127.0.0.1:6381 127.0.0.2:6381 127.0.0.3:6381

Each region's HTTP port is the one given with --http-port, on the same host as its Redis port. A
password is read from the environment variable REDIS_PASSWORD. With --tls-ca both ports are reached
over TLS, by the proxies in front of the regions.
"""

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import redis
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


def lag_check(http_port: int, *, lag_ms_max: int = LAG_MS_MAX, **tls: Any) -> HealthCheck:
    """Away from a region that is down, refuses writes, or is further behind than this.

    `tls` is redis-py's: `ca_file`, `client_cert_file`, `client_key_file`, `verify_tls` ...
    """
    return LagAwareByRegion(
        **tls,
        rest_api_port=http_port,
        lag_aware_tolerance=lag_ms_max,
        http_timeout=1.0,
        health_check_probes=1,
        health_check_timeout=1.0,
    )


def ping_check() -> HealthCheck:
    """Away from a region that is down or refuses writes."""
    return PingHealthCheck(health_check_probes=1, health_check_timeout=1.0)


def regions_of(addresses: Sequence[str], **connection: Any) -> list[DatabaseConfig]:
    """The nearest first: it is used while it is healthy, and again once it is so.

    `connection` is redis-py's, the same for all regions: `password`, `username`, `ssl=True`,
    `ssl_ca_certs` ... With `ssl` the health pages are asked over HTTPS.
    """
    scheme = "https" if connection.get("ssl") else "http"
    configs = []
    for place, address in enumerate(addresses):
        host, _, port = address.rpartition(":")
        configs.append(
            DatabaseConfig(
                weight=1.0 / (1 + place),
                health_check_url=f"{scheme}://{host}",
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
    parser.add_argument("--tls-ca", metavar="FILE", help="TLS; who signed the certificates")
    given = parser.parse_args()
    connection: dict[str, Any] = {"password": os.environ.get("REDIS_PASSWORD")}
    https: dict[str, Any] = {}
    if given.tls_ca is not None:
        connection |= {"ssl": True, "ssl_ca_certs": given.tls_ca}
        https = {"ca_file": given.tls_ca}
    client = failover_client(given.addresses, lag_check(given.http_port, **https), **connection)
    while True:
        try:
            # With an idempotent ID, a retry in another region is recognised: no entry comes twice.
            entry = client.xadd(
                "messages", {"at": str(time.time())}, idmp=("p1", str(time.time_ns()))
            )
            print(entry.decode(), flush=True)
        except NO_REGION as error:
            print(f"no region at present: {error}", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
