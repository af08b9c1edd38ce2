"""Statistics of the engine: commits, their sizes, and the time that they took."""

from dataclasses import dataclass, field
from typing import Final

from crdtstream.region.histogram import Histogram

COMMIT_US_BOUNDS: Final = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000),
    *(250_000, 500_000, 1_000_000, 2_500_000, 5_000_000),
)
COMMIT_RECORDS_BOUNDS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000)


@dataclass(slots=True)
class EngineStats:
    """Counters since the engine was made.

    Attributes:
        commits_at_once: number of commits that were made where their tick ended.
        batches_committed: number of committed records with effects; the others are local.
        commit_us: time that each commit took that succeeded, in microseconds.
        commit_records: number of records in each of them.
        sync_us: time that each sync took that was no part of a commit.
        fetch_us: time that it took to read each request for entries that are on disk.
    """

    commits: int = 0
    commits_at_once: int = 0
    records_committed: int = 0
    batches_committed: int = 0
    bytes_committed: int = 0
    commit_failures: int = 0
    commit_us: Histogram = field(default_factory=lambda: Histogram(COMMIT_US_BOUNDS))
    commit_records: Histogram = field(default_factory=lambda: Histogram(COMMIT_RECORDS_BOUNDS))
    sync_us: Histogram = field(default_factory=lambda: Histogram(COMMIT_US_BOUNDS))
    fetch_us: Histogram = field(default_factory=lambda: Histogram(COMMIT_US_BOUNDS))
