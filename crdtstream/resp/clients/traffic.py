"""Traffic of clients: the counters of INFO stats, and rates over the last moments.

Counters count from the start of the node; CONFIG RESETSTAT only moves the point from which they
are shown.  Rates are taken from samples, at most RATE_SAMPLES of them, no two closer together than
RATE_SAMPLE_MS.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.database.statistics import Statistics

RATE_SAMPLES: Final = Size(16, least=1)
RATE_SAMPLE_MS: Final = Size(100, least=1)


class Counted(Protocol):
    """A connection, as far as its bytes are concerned."""

    bytes_in: int
    bytes_out: int


class Rates(NamedTuple):
    """Per second, over the last samples."""

    commands: float
    bytes_in: float
    bytes_out: float


class _Sample(NamedTuple):
    ms: int
    commands: int
    bytes_in: int
    bytes_out: int


class Traffic:
    """The counters of all clients, also of those that have left.

    Attributes:
        received, rejected: how many clients came, and how many of them were not admitted.
        cut_off_unread: how many were cut off because they left too much unread.
        cut_off_asking: how many because they sent too much that could not be run.
        evicted: how many because all clients together took too much memory.
        rates_due_ms: when ``sample`` is to be called next, by the next client that sends something.

    Args:
        connections: of all clients, by session ID; it changes as they connect and leave.
    """

    def __init__(
        self, statistics: Statistics, replica: Replica, connections: Mapping[int, Counted]
    ) -> None:
        self.received = 0
        self.rejected = 0
        self.cut_off_unread = 0
        self.cut_off_asking = 0
        self.evicted = 0
        self.rates_due_ms = 0
        self._statistics = statistics
        self._replica = replica
        self._connections = connections
        # Counts of connections that are closed.
        self._gone_bytes_in = 0
        self._gone_bytes_out = 0
        self._counted_before: dict[str, int] = {}
        self._samples: deque[_Sample] = deque(maxlen=RATE_SAMPLES.value)

    def note_gone(self, connection: Counted) -> None:
        """Keep the counts of a client that has left."""
        self._gone_bytes_in += connection.bytes_in
        self._gone_bytes_out += connection.bytes_out

    # --- Counters -----------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """INFO stats: since the start, or since the counters were reset."""
        before = self._counted_before
        return {name: total - before.get(name, 0) for name, total in self.totals().items()}

    def reset(self) -> None:
        """CONFIG RESETSTAT."""
        self._statistics.reset()
        self._samples.clear()
        self._counted_before = self.totals()

    def totals(self) -> dict[str, int]:
        """The counters since the start, whatever was reset."""
        here = self._connections.values()
        return {
            "total_connections_received": self.received,
            "total_commands_processed": self._statistics.calls,
            "total_net_input_bytes": self._gone_bytes_in + sum(c.bytes_in for c in here),
            "total_net_output_bytes": self._gone_bytes_out + sum(c.bytes_out for c in here),
            "rejected_connections": self.rejected,
            "client_query_buffer_limit_disconnections": self.cut_off_asking,
            "client_output_buffer_limit_disconnections": self.cut_off_unread,
            "total_error_replies": self._statistics.errors,
            "evicted_clients": self.evicted,
            "expired_keys": self._replica.expired_count,
        }

    # --- Rates --------------------------------------------------------------------------------

    def sample(self, now: Millis) -> None:
        """Remember how much was done until now; to be called when ``rates_due_ms`` has come."""
        self.rates_due_ms = now + RATE_SAMPLE_MS.value
        totals = self.totals()
        self._samples.append(
            _Sample(
                now,
                totals["total_commands_processed"],
                totals["total_net_input_bytes"],
                totals["total_net_output_bytes"],
            )
        )

    def rates(self, now: Millis) -> Rates:
        """Over the last samples until now."""
        if now >= self.rates_due_ms:
            self.sample(now)
        if len(self._samples) < 2:
            return Rates(0.0, 0.0, 0.0)
        first, last = self._samples[0], self._samples[-1]
        seconds = max(1, last.ms - first.ms) / 1000
        return Rates(
            max(0, last.commands - first.commands) / seconds,
            max(0, last.bytes_in - first.bytes_in) / seconds,
            max(0, last.bytes_out - first.bytes_out) / seconds,
        )
