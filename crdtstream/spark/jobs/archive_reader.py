"""Reading an archive: with the types it was written with, and by streams and time.

``spark.read.parquet(path)`` reads the same entries; DuckDB and pandas do, too.  This module adds
three things.  Names of streams are never taken for numbers.  Patterns and times select the few
folders that can hold such entries.  And entries that a killed program left half published are read
as if they were published.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs.archive_check import Chosen, check_there, chosen
from crdtstream.spark.jobs.archive_layout import (
    ARCHIVE_SCHEMA,
    DATED_MS_MAX,
    is_exact,
    key_of,
    label_of,
    matching,
)
from crdtstream.spark.jobs.archive_state import Publication
from crdtstream.spark.jobs.folder import ArchiveError, Folder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# More labels than this are not worth a list in a query's plan.
LABELS_MAX: Final = 1_000


def read_archive(
    spark: "SparkSession",
    path: str,
    *,
    streams: Sequence[bytes] = (),
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> DataFrame:
    """Read the published entries of an archive, one row per entry, in no order.

    Args:
        path: the archive's folder.
        streams: names, or patterns as KEYS takes them; none: all streams.
        start_ms: of IDs, included.
        end_ms: of IDs, not included.

    Columns: ``key`` (the stream's name as bytes), ``id``, ``timestamp``, ``ms``, ``seq``,
    ``origin``, ``dot``, ``fields`` (text), ``raw`` (the entry as RESP, where ``fields`` does not
    hold all of it; else null), ``producer``, ``idempotent_id``, ``stream`` (as its folder is
    called), ``date``.

    Raises:
        ArchiveError: there is no archive.
        DamagedArchiveError: it lacks files that its state names.
    """
    if is_delta(spark, path):
        entries = spark.read.format("delta").load(path)
    else:
        entries = _published(spark, folder_at(spark, path), chosen(streams, start_ms, end_ms))
    return between(_of_streams(entries, streams), start_ms, end_ms)


def each_message_once(entries: DataFrame) -> DataFrame:
    """Without the copies of messages that a producer wrote in two regions at once.

    Both copies could be read, and so archived, before the regions heard of each other and one was
    removed: the one with the greater dot.  It is left out here, if the other one is there.
    """
    of_message = Window.partitionBy("key", "producer", "idempotent_id").orderBy("origin", "dot")
    produced = F.col("idempotent_id").isNotNull()
    once = (
        entries.where(produced)
        .withColumn("copy", F.row_number().over(of_message))
        .where("copy = 1")
        .drop("copy")
    )
    return entries.where(~produced).unionByName(once)


def is_delta(spark: "SparkSession", path: str) -> bool:
    """True if the archive is a table of Delta Lake."""
    return bool(folder_at(spark, path).names("_delta_log"))


def _published(spark: "SparkSession", folder: Folder, which: Chosen) -> DataFrame:
    state = check_there(folder, which, outcome="Nothing was read.")
    if state is None and not any(name.startswith("stream=") for name in folder.names("")):
        raise ArchiveError(f"{folder.url()} is no archive, or nothing was archived there yet")
    if state is not None and state.publication is not None:
        return _half_published(spark, folder, state.publication)
    if not any(name.startswith("stream=") for name in folder.names("")):
        return spark.createDataFrame([], ARCHIVE_SCHEMA)
    return spark.read.schema(ARCHIVE_SCHEMA).parquet(folder.url())


def _half_published(spark: "SparkSession", folder: Folder, publication: Publication) -> DataFrame:
    """As if all that was decided were done: files to hide are not read, those to come are."""
    hidden = {path for move in publication.moves for path in move.hide}
    staged = [source for move in publication.moves for source, _ in move.show]
    shown = [
        file.path
        for name in folder.names("")
        if name.startswith("stream=")
        for file in folder.files(name)
        if file.path.endswith(".parquet") and file.path not in hidden
    ]
    parts = [
        spark.read.schema(ARCHIVE_SCHEMA)
        .option("basePath", folder.url(base))
        .parquet(*[folder.url(path) for path in paths])
        for base, paths in (
            ("", shown),
            (publication.staging, [path for path in staged if folder.exists(path)]),
        )
        if paths
    ]
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])


def _of_streams(entries: DataFrame, patterns: Sequence[bytes]) -> DataFrame:
    if not patterns:
        return entries
    labels = _labels(entries, patterns)
    if len(labels) <= LABELS_MAX:
        return entries.where(F.col("stream").isin(sorted(labels)))
    names = entries.sparkSession.createDataFrame(
        [(label,) for label in sorted(labels)], "stream string"
    )
    return entries.join(F.broadcast(names), "stream", "left_semi")


def _labels(entries: DataFrame, patterns: Sequence[bytes]) -> set[str]:
    """Of streams that the patterns mean, as their folders are called."""
    labels = {label_of(pattern) for pattern in patterns if is_exact(pattern)}
    globs = [pattern for pattern in patterns if not is_exact(pattern)]
    if not globs:
        return labels
    for row in entries.select("stream").distinct().collect():
        key = key_of(row.stream)
        if key is None:
            # Too long for a folder's name: any of its rows has the name.
            (found,) = entries.where(F.col("stream") == row.stream).select("key").head(1)
            key = bytes(found.key)
        if matching(globs, key):
            labels.add(row.stream)
    return labels


def between(entries: DataFrame, start_ms: int | None, end_ms: int | None) -> DataFrame:
    """The entries with such IDs; bounds the date as well, which is what finds the folders.

    IDs whose milliseconds no LONG holds are beyond any ``start_ms``, and any ``end_ms``.
    """
    if start_ms is not None:
        entries = entries.where((F.col("ms") >= start_ms) | F.col("ms").isNull()).where(
            F.col("date") >= F.lit(_date(start_ms))
        )
    if end_ms is not None:
        entries = entries.where(F.col("ms") < end_ms).where(F.col("date") <= F.lit(_date(end_ms)))
    return entries


def _date(ms: int) -> str:
    seconds = min(max(ms, 0), DATED_MS_MAX) // 1_000
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
