"""A connection to one region at a time, with the way of moving that docs/failover.md recommends.

    home ──request fails──> next region ──its requests fail──> the one after …
      ^                          │
      └── /readyz of home is 200 ┘   (asked each half second, and twice in a row)

A reply that the region cannot do this now counts as failed too (MISCONF, LAGGED, …); any other
error reply is the application's own.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any, Final

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from crdtstream.drill.access import Access
from crdtstream.drill.load.journal import Journal
from crdtstream.drill.plan import (
    ELSEWHERE,
    HOME_CHECK_SECONDS,
    REQUEST_SECONDS_MAX,
    RETRY_SECONDS,
    LoadPlan,
    Place,
)
from crdtstream.drill.records import Client, Moved, Outcome, Request

_NOT_HOME: Final = re.compile(r"NOTHOME .*?region (\d+)")
# Looks in a row at which home must be well before a client returns to it.
WELL_IN_A_ROW: Final = 2


class Answer:
    """End of a request.

    Attributes:
        reply: of the region; None unless ``outcome`` is OK.
        ended: time of its end.
    """

    __slots__ = ("ended", "error", "outcome", "region", "reply")

    def __init__(
        self, outcome: Outcome, reply: Any, *, region: int, ended: float, error: str = ""
    ) -> None:
        self.outcome = outcome
        self.reply = reply
        self.region = region
        self.ended = ended
        self.error = error

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK


class RegionalClient:
    """One client: its connection, and its region.

    Args:
        client: its identity, which is noted in the journal.
    """

    def __init__(self, plan: LoadPlan, client: Client, journal: Journal) -> None:
        self.client = client
        self._plan = plan
        self._journal = journal
        others = [region for region in plan.places if region != client.home]
        # Producers spread, so that no single region gets all.  Consumers of a group stay together:
        # two regions deliver the same entries until they hear of each other's acknowledgements.
        turn = hash_of(client.name) % len(others) if others and not client.group else 0
        self._preferred = [client.home, *others[turn:], *others[:turn]]
        self._home = self.region = client.home
        self._redis = self._connection(self.region)
        self._home_is_well = False
        # False where another region named this one (NOTHOME).
        self._health_said_so = False
        journal.note(client)

    async def request(self, words: Sequence[Any], *, due: float | None = None) -> Answer:
        """Send a request once, note its end, and move if it says so."""
        if self._home_is_well and self.region != self._home:
            await self._move(self._home, trusts_health=self._health_said_so)
        began = time.monotonic()
        region = self.region
        error = ""
        reply = None
        try:
            reply = await self._redis.execute_command(*words)
            outcome = Outcome.OK
        except ResponseError as refusal:
            outcome, error = Outcome.REFUSED, str(refusal).split(" ", 1)[0]
            self._follow(str(refusal))
        except (RedisError, OSError, TimeoutError) as failure:
            outcome, error = Outcome.UNKNOWN, type(failure).__name__
        ended = time.monotonic()
        self._journal.note(
            Request(
                self.client.name,
                region,
                began if due is None else due,
                began,
                ended,
                outcome,
                error,
            )
        )
        answer = Answer(outcome, reply, region=region, ended=ended, error=error)
        if outcome is Outcome.UNKNOWN or error in ELSEWHERE:
            await self._leave()
        return answer

    async def watch_home(self) -> None:
        """Look whether home is well while the client is elsewhere, until cancelled."""
        in_a_row = 0
        while True:
            await asyncio.sleep(HOME_CHECK_SECONDS)
            if self.region == self._home:
                in_a_row = 0
                self._home_is_well = False
                continue
            is_well = await is_ready(self._plan.places[self._home], self._plan.access)
            in_a_row = in_a_row + 1 if is_well else 0
            self._home_is_well = self._health_said_so = in_a_row >= WELL_IN_A_ROW

    def _follow(self, refusal: str) -> None:
        """Make the region home that NOTHOME names, and go there with the next request."""
        named = _NOT_HOME.match(refusal)
        if named and int(named[1]) in self._plan.places and self.client.moves:
            self._home = int(named[1])
            self._home_is_well = self.region != self._home
            self._health_said_so = False

    async def close(self) -> None:
        await self._redis.aclose()

    async def _leave(self) -> None:
        """Go to the next region, or, if this client does not move, try the same one again."""
        self._home_is_well = False
        if self.client.moves and len(self._preferred) > 1:
            at = self._preferred.index(self.region)
            await self._move(self._preferred[(at + 1) % len(self._preferred)])
        await asyncio.sleep(RETRY_SECONDS)

    async def _move(self, target: int, *, trusts_health: bool = False) -> None:
        moved = Moved(self.client.name, time.monotonic(), self.region, target, trusts_health)
        self._journal.note(moved)
        await self._redis.aclose()
        self.region = target
        self._home_is_well = False
        self._redis = self._connection(target)

    def _connection(self, region: int) -> "redis.Redis":
        place = self._plan.places[region]
        return redis.Redis(
            host=place.host,
            port=place.port,
            **self._plan.access.connection(tls=place.resp_tls),
            socket_timeout=REQUEST_SECONDS_MAX,
            socket_connect_timeout=REQUEST_SECONDS_MAX,
            # A request that is sent twice would be two entries; callers that retry do it knowingly.
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            # The shapes of replies must not depend on the version's default.
            protocol=2,
            single_connection_client=True,
        )


def hash_of(name: str) -> int:
    """Number of a text that is the same in every process."""
    return sum(name.encode())


async def is_ready(place: Place, access: Access) -> bool:
    """True if ``GET /readyz`` of a region answers 200 in time."""
    tls = access.https() if place.http_tls else None
    try:
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(place.host, place.http_port, ssl=tls)
            try:
                request = f"GET /readyz HTTP/1.1\r\nHost: {place.host}\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                status = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
    return status.split()[1:2] == [b"200"]
