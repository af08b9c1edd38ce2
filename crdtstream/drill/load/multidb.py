"""redis-py's MultiDBClient as a producer: the failover is entirely its own.

Its intervals are shorter than its defaults, so that a drill of some seconds sees it leave and
return.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio.multidb.client import MultiDBClient
from redis.asyncio.multidb.config import DatabaseConfig, InitialHealthCheck, MultiDbConfig
from redis.asyncio.multidb.healthcheck import HealthCheck, LagAwareHealthCheck, PingHealthCheck
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.multidb.exception import (
    InitialHealthCheckFailedError,
    NoValidDatabaseException,
    TemporaryUnavailableException,
)

from crdtstream.drill.drill import Producers
from crdtstream.drill.load.journal import Journal
from crdtstream.drill.load.regional import Answer
from crdtstream.drill.plan import REQUEST_SECONDS_MAX, LoadPlan
from crdtstream.drill.records import Client, Moved, Outcome, Request, lane_of

CHECK_SECONDS: Final = 0.5
FALLBACK_SECONDS: Final = 1.0
GRACE_SECONDS: Final = 0.5
# A region further behind than this is left.
LAG_MS_MAX: Final = 2_000
# For two regions: more than ``link_silence_ms_max``, until which the survivor's lag grows.
LAG_MS_MAX_OF_TWO: Final = 5_000
# Ends of a request that was not answered; the last three are no RedisError.
UNANSWERED: Final = (
    RedisError,
    OSError,
    TimeoutError,
    InitialHealthCheckFailedError,
    NoValidDatabaseException,
    TemporaryUnavailableException,
)


class MultiDb:
    """One such client.

    It does not report which region answered; the ID of the entry does.
    """

    def __init__(self, plan: LoadPlan, item: Producers, client: Client, journal: Journal) -> None:
        self.client = client
        self._journal = journal
        journal.note(client)
        self._region = client.home
        self._client = MultiDBClient(_config(plan, item, client.home))

    async def request(self, words: Sequence[Any], *, due: float | None = None) -> Answer:
        """Send a request once, and note how it ended."""
        began = time.monotonic()
        error = ""
        reply = None
        try:
            reply = await self._client.execute_command(*words)
            outcome = Outcome.OK
        except ResponseError as refusal:
            outcome, error = Outcome.REFUSED, str(refusal).split(" ", 1)[0]
        except UNANSWERED as failure:
            outcome, error = Outcome.UNKNOWN, type(failure).__name__
        ended = time.monotonic()
        if outcome is Outcome.OK:
            self._note_region(lane_of(str(reply)), ended)
        at_due = began if due is None else due
        region = self._region
        self._journal.note(Request(self.client.name, region, at_due, began, ended, outcome, error))
        return Answer(outcome, reply, region=region, ended=ended, error=error)

    def _note_region(self, region: int, at: float) -> None:
        if region != self._region:
            self._journal.note(Moved(self.client.name, at, self._region, region))
            self._region = region

    async def close(self) -> None:
        await self._client.aclose()


def _config(plan: LoadPlan, item: Producers, home: int) -> MultiDbConfig:
    databases = [
        DatabaseConfig(
            weight=1.0 if region == home else 0.5 / region,
            from_url=f"{'rediss' if place.resp_tls else 'redis'}://{place.host}:{place.port}",
            client_kwargs={
                **plan.access.of_redis(),
                **(plan.access.tls_of_redis() if place.resp_tls else {}),
                "socket_timeout": REQUEST_SECONDS_MAX,
                "socket_connect_timeout": REQUEST_SECONDS_MAX,
                "decode_responses": True,
                "protocol": 2,
            },
            grace_period=GRACE_SECONDS,
            health_check_url=f"{'https' if place.http_tls else 'http'}://{place.host}",
        )
        for region, place in plan.places.items()
    ]
    return MultiDbConfig(
        databases_config=databases,
        command_retry=Retry(NoBackoff(), 0),
        min_num_failures=1,
        failure_rate_threshold=0.0,
        failures_detection_window=1.0,
        health_checks=[_health_check(plan, item)],
        health_check_interval=CHECK_SECONDS,
        # One region that is down must not keep a client from starting.
        initial_health_check_policy=InitialHealthCheck.ONE_AVAILABLE,
        auto_fallback_interval=FALLBACK_SECONDS,
    )


class _LagAwareByRegion(LagAwareHealthCheck):
    """redis-py's own check, one for each region.

    Up to redis-py 8.1 one instance keeps one base URL, and changes it while requests to other
    regions are under way, so with several regions it asks the wrong one.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = options
        self._checks: dict[str, LagAwareHealthCheck] = {}

    async def check_health(self, database: Any, hc_client: Any) -> bool:
        url = database.health_check_url
        check = self._checks.setdefault(url, LagAwareHealthCheck(**self._options))
        return bool(await check.check_health(database, hc_client))


def _health_check(plan: LoadPlan, item: Producers) -> HealthCheck:
    if item.health_check == "ping":
        return PingHealthCheck(health_check_probes=1, health_check_timeout=REQUEST_SECONDS_MAX)
    # It knows one HTTP port for all databases; their hosts differ.
    [port] = {place.http_port for place in plan.places.values()}
    access = plan.access
    return _LagAwareByRegion(
        rest_api_port=port,
        auth_basic=(access.user, access.password) if access.password else None,
        # Over TLS it also checks the host, which cannot be changed.
        ca_file=None if access.tls_ca_cert_file is None else str(access.tls_ca_cert_file),
        lag_aware_tolerance=LAG_MS_MAX if len(plan.places) > 2 else LAG_MS_MAX_OF_TWO,
        http_timeout=REQUEST_SECONDS_MAX,
        health_check_probes=1,
        health_check_timeout=REQUEST_SECONDS_MAX,
    )
