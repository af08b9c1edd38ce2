"""``maxmemory-clients``: a bound on the memory of all clients together, as Redis has it.

When it is exceeded the largest client is ended, and the next one, until the rest is below it.  Each
client counts with what it has sent and was not run, what waits for it, and its transaction, watches
and subscriptions.  CLIENT NO-EVICT spares a client, and it counts all the same.

Connections cost strangers nothing, so they must not have others ended.  A client with a login is
ended only if all clients with a login exceed the bound by themselves.  For the rest of what exceeds
it, clients that have not logged in are ended.

Clients are weighed when they send or are sent something.  Without a bound nothing is weighed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from crdtstream.core.sizes import parse_memory
from crdtstream.resp.clients.connection import CONNECTION_BYTES, Connection
from crdtstream.resp.clients.newcomers import Newcomers

# Redis takes no smaller bound for what it is.
BOUND_BYTES_MIN: Final = 128 << 10
PERCENT_MAX: Final = 100

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """A number of bytes, or a part of ``maxmemory``.

    Attributes:
        amount: 0: no bound.
        is_percent: it is of a hundred parts of ``maxmemory``.
    """

    amount: int = 0
    is_percent: bool = False

    def __str__(self) -> str:
        return f"{self.amount}%" if self.is_percent else str(self.amount)

    def in_bytes(self, maxmemory: int) -> int:
        """Bytes; 0: no bound, also where it is a part of a memory without one."""
        size = maxmemory * self.amount // PERCENT_MAX if self.is_percent else self.amount
        return max(size, BOUND_BYTES_MIN) if size else 0


def parse_bound(text: str) -> MemoryBound | None:
    """``0``, ``100mb`` or ``5%``; None: it is none of these."""
    if text.endswith("%"):
        digits = text[:-1]
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= 3
        return MemoryBound(int(digits), is_percent=True) if is_number else None
    size = parse_memory(text)
    return None if size is None else MemoryBound(size)


class ClientMemory:
    """Ends the largest clients while all together are too large.

    Attributes:
        weighs: there is a bound, so ``weigh`` has to be called.

    Args:
        connections: of all clients, by session ID; they come and go.
        newcomers: those of them that have not logged in.
        maxmemory: returns the bound of the node; 0: none.
        on_evicted: called for each client that is ended.
    """

    def __init__(
        self,
        connections: Mapping[int, Connection],
        bound: MemoryBound,
        *,
        newcomers: Newcomers,
        maxmemory: Callable[[], int],
        on_evicted: Callable[[], None],
    ) -> None:
        self._on_evicted = on_evicted
        self._connections = connections
        self._newcomers = newcomers
        self._bound = bound
        self.weighs = bound.amount > 0
        self._maxmemory = maxmemory
        # Of clients with more than every client has, when they were weighed last.
        self._weights: dict[int, int] = {}
        self._total = 0
        # Ended, and still connected until the next turn of the loop.
        self._ended: set[int] = set()

    @property
    def bound(self) -> MemoryBound:
        return self._bound

    @bound.setter
    def bound(self, bound: MemoryBound) -> None:
        self._bound = bound
        self.weighs = bound.amount > 0
        if self.weighs:
            for connection in list(self._connections.values()):
                self._put(connection)
            self._evict()
        else:
            self._weights.clear()
            self._total = 0

    def weigh(self, connection: Connection) -> None:
        """Note what a client has now; it or others may be ended for it."""
        self._put(connection)
        self._evict()

    def forget(self, connection: Connection) -> None:
        """Note that a client is gone."""
        self._ended.discard(connection.session.id)
        self._total -= self._weights.pop(connection.session.id, 0)

    def _put(self, connection: Connection) -> None:
        session_id = connection.session.id
        if session_id not in self._connections or session_id in self._ended:
            return
        weight = connection.memory_bytes - CONNECTION_BYTES
        self._total += weight - self._weights.pop(session_id, 0)
        if weight:
            self._weights[session_id] = weight

    @property
    def _used(self) -> int:
        return self._total + CONNECTION_BYTES * (len(self._connections) - len(self._ended))

    def _evict(self) -> None:
        bytes_max = self._bound.in_bytes(self._maxmemory())
        if not bytes_max or self._used < bytes_max:
            return
        # They may have fetched much since.
        for session_id in list(self._weights):
            self._put(self._connections[session_id])
        newcomers = self._newcomers.connections
        self._evict_others(newcomers, bytes_max)
        for connection in sorted(newcomers, key=_bytes_of, reverse=True):
            if self._used < bytes_max:
                return
            self._note_end(connection)
            self._newcomers.end(connection, "all clients exceed maxmemory-clients")

    def _evict_others(self, newcomers: list[Connection], bytes_max: int) -> None:
        """End the largest clients with a login until what all of these take is below the bound."""
        spared = {one.session.id for one in newcomers}
        bytes_max += sum(map(_bytes_of, newcomers))
        for session_id in sorted(self._weights, key=self._weights.__getitem__, reverse=True):
            if self._used < bytes_max:
                return
            connection = self._connections[session_id]
            is_spared = connection.no_evict or session_id in spared
            if not is_spared and not connection.has_ended:
                self._end(connection)

    def _end(self, connection: Connection) -> None:
        logger.warning(
            "client evicted for maxmemory-clients",
            address=connection.address,
            bytes=connection.memory_bytes,
        )
        self._note_end(connection)
        connection.abort()

    def _note_end(self, connection: Connection) -> None:
        """Count a client that is ended here; what it has is free in the next turn of the loop."""
        self._on_evicted()
        self.forget(connection)
        self._ended.add(connection.session.id)


def _bytes_of(connection: Connection) -> int:
    return connection.memory_bytes
