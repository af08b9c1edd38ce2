"""Options and outcome of an archive's job."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from crdtstream.spark.jobs.folder import ArchiveError
from crdtstream.spark.options import NodesOptions
from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS, without_limits

FILE_BYTES_DEFAULT: Final = 64 << 20
ENTRIES_PER_BATCH_DEFAULT: Final = 1_000_000


class ArchiveFormat(Enum):
    """Of what the archive consists."""

    PARQUET = "parquet"
    DELTA = "delta"


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """Options of an archive: what to archive, and how.

    Attributes:
        nodes: where to read.
        path: the archive's folder: one of this machine, or of a file system that Spark reaches.
        streams: names, or patterns as KEYS takes them; none: every stream.  They cannot be changed
            for an existing archive.
        format: see the class.
        follow: go on until stopped; else archive the entries that exist now, and end.
        batch_seconds: when following, how often entries are read.
        publish_seconds: when following, how often entries that were read become visible.
        entries_per_batch_max: bounds the memory and time of a micro-batch, in entries; None: by
            ``ENTRIES_PER_BATCH_DEFAULT``, where PySpark can bound one (4.2 and newer).
        file_bytes: size that files should have.
        small_files_max: how many files of less than half of that size a stream's day may keep; if
            there would be more, they are merged into one (which may be small, so 0 means 1).
        compact: merge small files of all days, even if nothing is new, until each day has one.
        trim_older_than_seconds: remove what is archived, acknowledged by all groups of its stream
            and older than this from the database; None: nothing.
        fail_on_data_loss: end with an error when entries were trimmed before they were read.
    """

    nodes: NodesOptions
    path: str
    streams: tuple[bytes, ...] = ()
    format: ArchiveFormat = ArchiveFormat.PARQUET
    follow: bool = False
    batch_seconds: float = 10.0
    publish_seconds: float = 300.0
    entries_per_batch_max: int | None = None
    file_bytes: int = FILE_BYTES_DEFAULT
    small_files_max: int = 4
    compact: bool = False
    trim_older_than_seconds: float | None = None
    fail_on_data_loss: bool = True


@dataclass(frozen=True, slots=True)
class ArchiveOutcome:
    """Outcome of a run.

    Attributes:
        entries: archived by this run.
        entries_total: in the archive.
        batches: micro-batches of this run.
        files: that it wrote; 0 in a table of Delta Lake, which counts its own.
        files_merged: small ones that were merged into those.
        trimmed: entries that were removed from the database.
        vector: all entries of the streams with dots at or below are in the archive.
        database_uid: identity of the database whose entries they are.
    """

    entries: int
    entries_total: int
    batches: int
    files: int
    files_merged: int
    trimmed: int
    vector: Mapping[int, int]
    database_uid: str


def check_options(options: ArchiveOptions) -> None:
    """
    Raises:
        ArchiveError: with all that cannot be meant.
    """
    problems = [
        f"{name} must be above 0"
        for name in ("batch_seconds", "publish_seconds", "entries_per_batch_max", "file_bytes")
        if (value := getattr(options, name)) is not None and value <= 0
    ]
    problems += [
        f"{name} must not be negative"
        for name in ("small_files_max", "trim_older_than_seconds")
        if (getattr(options, name) or 0) < 0
    ]
    if options.entries_per_batch_max is not None and not HAS_READ_LIMITS:
        problems.append(without_limits("--entries-per-batch"))
    if problems:
        raise ArchiveError("; ".join(problems))


def entries_per_batch(options: ArchiveOptions) -> int | None:
    """Most entries of a micro-batch; None where PySpark cannot bound it."""
    if not HAS_READ_LIMITS:
        return None
    return options.entries_per_batch_max or ENTRIES_PER_BATCH_DEFAULT
