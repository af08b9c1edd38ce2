"""Statistics of a link: what it has carried, and how late."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.size import Size
from crdtstream.region.histogram import Histogram

# Batches whose lag is remembered for percentiles.
LAG_WINDOW_BATCHES: Final = Size(4_096, least=1)
LAG_MS_BOUNDS: Final = (
    *(1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000),
    *(300_000, 3_600_000),
)


@dataclass(slots=True)
class Lag:
    """Lags of batches, in ms from sealing at the origin to durable application here.

    Attributes:
        newest: of the last batch.
        window: of the last batches.
        all: of all batches since the node started.
    """

    newest: int = 0
    window: deque[int] = field(default_factory=lambda: deque(maxlen=LAG_WINDOW_BATCHES.value))
    all: Histogram = field(default_factory=lambda: Histogram(LAG_MS_BOUNDS))

    def note(self, lag_ms: int) -> None:
        # A peer's clock that is ahead of ours must not make a lag negative.
        self.newest = max(0, lag_ms)
        self.window.append(self.newest)
        self.all.note(self.newest)

    def percentiles(self, *ranks: float) -> list[int]:
        """The lag at each rank (0 to 1); 0 before the first batch."""
        if not self.window:
            return [0 for _ in ranks]
        ordered = sorted(self.window)
        return [ordered[min(len(ordered) - 1, int(rank * len(ordered)))] for rank in ranks]


@dataclass(slots=True)
class PullStats:
    """Counts of what came from a peer.

    Attributes:
        bytes_again: of ``bytes_uncompressed``, batches that had been applied here already.
    """

    batches: int = 0
    effects: int = 0
    bytes_wire: int = 0
    bytes_uncompressed: int = 0
    bytes_again: int = 0
    publications: int = 0
    lag: Lag = field(default_factory=Lag)
    peer_vv: VersionVector = field(default_factory=dict)
    heard_ms: int = 0
    clock_skew_ms: int = 0


@dataclass(slots=True)
class ServeStats:
    """Counts of what a peer pulled from here.

    Attributes:
        publications: sent.
        publications_lost: not sent, because there was no link, or a slow one.
    """

    batches: int = 0
    effects: int = 0
    bytes_wire: int = 0
    bytes_uncompressed: int = 0
    publications: int = 0
    publications_lost: int = 0
