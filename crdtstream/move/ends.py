"""Both ends of a move, connections to them, and trying again.

Work that is given to ``Ends`` may run twice: it first reads how far the target has come.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from crdtstream.move.address import Address
from crdtstream.move.connection import Connection
from crdtstream.move.errors import LostError, MoveError, SmallerError, UnreachableError

Result = TypeVar("Result")

RETRY_SECONDS: Final = 60.0
# Work that breaks again and again may progress a little each time, and never end.
FAILURES_MAX: Final = 1_000
_BACKOFF_SECONDS_FIRST: Final = 0.1
_BACKOFF_SECONDS_MAX: Final = 2.0
# Products by the field of INFO that only they have; the rest are Redis.
_PRODUCTS: Final = {"crdtstream_version": "crdtstream", "valkey_version": "valkey"}


@dataclass(frozen=True, slots=True)
class Product:
    """A server's name and version.

    Attributes:
        redis_version: the version of Redis whose commands it has.
        is_replica: it takes its writes from another server.
        is_cluster: it has only a part of the keys of a Redis Cluster.
    """

    name: str
    version: str
    redis_version: tuple[int, ...]
    is_replica: bool
    is_cluster: bool

    @property
    def is_region(self) -> bool:
        return self.name == "crdtstream"

    @property
    def has_counters(self) -> bool:
        """True if streams and groups count entries (Redis 7)."""
        return self.redis_version >= (7,)


class Pair(NamedTuple):
    """A connection to each end."""

    source: Connection
    target: Connection


class _PageBounds(NamedTuple):
    """``Connection.page_entries_max`` of each end."""

    source: dict[bytes, int]
    target: dict[bytes, int]


class Ends:
    """Source and target.

    Attributes:
        source: where keys come from.
        target: where they go.
        of_source: the product there; known after ``greet``.
        of_target: the same of the target.
    """

    def __init__(
        self,
        source: Address,
        target: Address,
        *,
        retry_seconds: float,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.source = source
        self.target = target
        self.of_source: Product
        self.of_target: Product
        self._retry_seconds = retry_seconds
        self._say = say
        self._is_waiting = False
        self._free: list[Pair] = []
        self._page_bounds = _PageBounds({}, {})
        # When something last succeeded: by this the patience with an end is measured.
        self._moved = time.monotonic()

    async def greet(self) -> None:
        """Learn what the ends are.

        Raises:
            MoveError: one of them does not answer, or refuses.  Nobody waits for an end that cannot
                be reached in the beginning: its address is wrong, more likely.
        """
        self.of_source, self.of_target = await self.work(_greet, is_first=True)

    def progressed(self) -> None:
        """Something was brought, or read: an end that breaks now gets all of the patience again."""
        self._moved = time.monotonic()

    async def work(
        self, task: Callable[[Pair], Awaitable[Result]], *, is_first: bool = False
    ) -> Result:
        """Run a task that may run twice; again with new connections while an end cannot answer.

        Raises:
            MoveError: of the task; or nothing has progressed, since it first failed, for as long as
                is tried.
        """
        failed: float | None = None
        failures = 0
        backoff = _BACKOFF_SECONDS_FIRST
        while True:
            pair = None
            try:
                pair = self._free.pop() if self._free else await self._connect()
                result = await task(pair)
            except LostError as error:
                if is_first and isinstance(error, UnreachableError):
                    raise MoveError(f"{error}. Is its address right?") from error
                now = time.monotonic()
                failed = now if failed is None else failed
                failures += 1
                since = now - max(failed, self._moved)
                if since >= self._retry_seconds or failures == FAILURES_MAX:
                    raise MoveError(
                        f"{error}; tried for {since:.0f} s. When it is well, run the same command"
                        " again: it goes on where it was"
                    ) from error
                self._wait_for(error)
            else:
                self._is_waiting = False
                self._free.append(pair)
                pair = None
                return result
            finally:
                if pair is not None:
                    _close(pair)
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _BACKOFF_SECONDS_MAX)

    def _wait_for(self, error: LostError) -> None:
        """Tell people once that an end is waited for."""
        if not self._is_waiting and not isinstance(error, SmallerError):
            self._is_waiting = True
            self._say(f"{error}; tries again for {self._retry_seconds:.0f} s")

    def close(self) -> None:
        while self._free:
            _close(self._free.pop())

    async def _connect(self) -> Pair:
        source = await Connection.open(self.source, self._page_bounds.source)
        try:
            pair = Pair(source, await Connection.open(self.target, self._page_bounds.target))
        except BaseException:
            source.close()
            raise
        for one in pair:
            one.progressed = self.progressed
        return pair


async def _greet(pair: Pair) -> tuple[Product, Product]:
    return await _product(pair.source), await _product(pair.target)


async def _product(connection: Connection) -> Product:
    facts: dict[str, str] = {}
    for section in ("server", "replication"):
        text: bytes = await connection.call("INFO", section)
        lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
        facts.update((name, value) for name, _, value in lines)
    field, name = next(
        (one for one in _PRODUCTS.items() if one[0] in facts), ("redis_version", "redis")
    )
    redis = facts.get("redis_version", "0")
    return Product(
        name,
        facts.get(field, "?"),
        tuple(int(part) for part in redis.split(".") if part.isdigit()),
        facts.get("role") == "slave",
        facts.get("redis_mode") == "cluster",
    )


def _close(pair: Pair) -> None:
    pair.source.close()
    pair.target.close()
