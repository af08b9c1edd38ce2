"""Publishing: archived entries become files that readers see, and many small files become one.

    segments/a  segments/b          stream=EWR/date=…/part-3-0   part-5-1   (small)
            \\       |                         |            |
             one Spark job: by stream and date, sorted by ID
                              |
    staging/…/stream=EWR/date=…/x.parquet     then the moves are decided, in one step
                              |
    old files → old/…, x.parquet → stream=EWR/date=…/part-7-0.parquet

After a kill before the moves are decided, nothing has changed.  After a later one, the next program
does the moves that are not done: each may be done twice.  Nothing is lost or doubled in either
case.

For a reader that lists the partitions' folders, entries appear file by file, and each file is whole
or does not exist.  Merged small files are moved away before the merged one appears, in two or a few
renames.  A reader that lists in between misses their entries, and never sees any twice.  A reader
that listed before, and opens a file that was moved, gets an error, and has to read again.
"""

import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it
from pyspark.sql.types import (
    BinaryType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from crdtstream.spark.jobs.archive_layout import (
    ARCHIVE_SCHEMA,
    FILE_SCHEMA,
    SEGMENTS,
    STAGING,
    Partition,
    date_of,
    label_of,
)
from crdtstream.spark.jobs.archive_state import (
    Move,
    Publication,
    Segment,
    State,
    commit,
)
from crdtstream.spark.jobs.content import NOTHING, Content, content_of
from crdtstream.spark.jobs.folder import FileSize, Folder
from crdtstream.spark.jobs.ledger import (
    Ledger,
    damaged,
    faults,
    note_all,
    read_ledger,
    write_ledger,
)
from crdtstream.spark.jobs.moves import finish
from crdtstream.spark.jobs.read_back import microseconds, read_back, write_parquet

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import SparkSession

# More tasks than this would each write little, and the driver would mind many.
TASKS_MAX: Final = 1_000

_PLAN_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("date", DateType()),
        StructField("stream", StringType()),
        StructField("first_ms", LongType()),
        StructField("piece_ms", LongType()),
        StructField("pieces", IntegerType()),
    ]
)


@dataclass(frozen=True, slots=True)
class Merging:
    """When the small files of a partition become one.

    Attributes:
        file_bytes: how large a file shall be; half of it is small.
        small_files_max: how many small ones a partition may keep.
    """

    file_bytes: int
    small_files_max: int

    def merged(self, files: Sequence[FileSize], *, one_more: bool) -> tuple[str, ...]:
        """Of a partition's files those to merge, if a small one is about to come or not."""
        small = [file.path for file in files if 2 * file.file_bytes < self.file_bytes]
        count = len(small) + one_more
        return tuple(small) if count > max(1, self.small_files_max) else ()


@dataclass(frozen=True, slots=True)
class Published:
    """Counts of what became visible.

    Attributes:
        entries: of segments.
        files: that were written.
        merged: files that were merged into those.
    """

    entries: int = 0
    files: int = 0
    merged: int = 0


@dataclass(frozen=True, slots=True)
class _Target:
    """Partition that gets new files.

    Attributes:
        key, date: the stream and the day.
        entries: how many are new.
        entries_bytes: about how many bytes they will take.
        first_ms, last_ms: of their IDs.
        merged: files that are written again with them.
        merged_bytes: the size of those.
    """

    key: bytes
    date: "datetime.date"
    entries: int
    entries_bytes: int
    first_ms: int
    last_ms: int
    merged: tuple[str, ...]
    merged_bytes: int


def write_segment(folder: Folder, entries: DataFrame) -> Segment | None:
    """The entries, which have the files' columns, in a segment that no state names yet.

    None: there were none, as the tasks that read and write them reported.

    Raises:
        NotReadBackError: they are not all there as they were written.
    """
    path = f"{SEGMENTS}/{uuid.uuid4().hex}"
    written, files = write_parquet(entries.select(*FILE_SCHEMA.fieldNames()), folder, path)
    if not written.rows:
        folder.delete(path)
        return None
    folder.sync(path)
    return Segment(path, written.rows, _bytes(files), written.digest)


def publish(
    spark: "SparkSession",
    folder: Folder,
    state: State,
    merging: Merging,
    *,
    everywhere: bool = False,
) -> tuple[State, Published]:
    """Make all segments visible, and merge small files where they go; or in all partitions.

    Raises:
        ArchiveError: another program writes to the archive.
        NotReadBackError: the new files do not hold what the segments and the merged files do.
    """
    state = finish(folder, state)
    targets = _targets(spark, folder, state.segments, merging)
    if everywhere:
        targets += _others(spark, folder, targets, merging)
    if not targets:
        # Batches whose entries are all gone are published as well.
        if state.published != state.vector:
            state = commit(folder, replace(state, published=state.vector))
        return state, Published()

    ledger = dict(read_ledger(folder, state.ledger))
    _check_merged(folder, ledger, targets)
    staging = f"{STAGING}/{uuid.uuid4().hex}"
    expected = _content(spark, folder, state, targets)
    _write(spark, folder, state, targets, staging, merging)
    # Noted first: a file that changes after it was noted is not the one that was read back.
    staged = [file.path for file in folder.files(staging) if file.path.endswith(".parquet")]
    noted = note_all(folder, staged)
    columns = FILE_SCHEMA.fieldNames()
    written = read_back(spark, folder, staging, ARCHIVE_SCHEMA, expected, columns=columns)
    folder.sync(staging)
    number = state.version + 1
    moves = _moves(number, staging, written, targets)
    for move in moves:
        for path in move.hide:
            del ledger[path]
        for source, target in move.show:
            ledger[target] = replace(noted[source], path=target)
    decided = Publication(
        number=number,
        staging=staging,
        moves=moves,
        segments=tuple(segment.path for segment in state.segments),
        entries=expected.rows,
    )
    state = commit(
        folder,
        replace(
            state,
            publication=decided,
            published=state.vector,
            ledger=write_ledger(folder, number, ledger),
        ),
    )
    return finish(folder, state), Published(
        entries=sum(target.entries for target in targets),
        files=len(written),
        merged=sum(len(target.merged) for target in targets),
    )


def _check_merged(folder: Folder, ledger: Ledger, targets: Sequence[_Target]) -> None:
    """
    Raises:
        DamagedArchiveError: a file that is to be merged is not the one that was read back.
    """
    merged = [path for target in targets for path in target.merged]
    found = [f"{path} is no file of the archive" for path in merged if path not in ledger]
    found += faults(folder, [ledger[path] for path in merged if path in ledger], moving={})
    if found:
        raise damaged(
            folder, found, outcome="Nothing was merged or trimmed; new entries stay in segments."
        )


def _targets(
    spark: "SparkSession", folder: Folder, segments: Sequence[Segment], merging: Merging
) -> list[_Target]:
    """The partitions of new entries."""
    if not segments:
        return []
    counted = (
        _of_segments(spark, folder, segments)
        .groupBy("key", "date")
        .agg(F.count("*").alias("n"), _span(F.min).alias("low"), _span(F.max).alias("high"))
        .collect()
    )
    entry_bytes = sum(s.file_bytes for s in segments) / sum(s.entries for s in segments)
    files = _files_of(folder, {label_of(row.key) for row in counted})
    targets = []
    for row in counted:
        new_bytes = math.ceil(row.n * entry_bytes)
        there = files.get(Partition(label_of(row.key), row.date.isoformat()), [])
        merged = merging.merged(there, one_more=2 * new_bytes < merging.file_bytes)
        merged_bytes = sum(file.file_bytes for file in there if file.path in merged)
        targets.append(
            _Target(
                bytes(row.key), row.date, row.n, new_bytes, row.low, row.high, merged, merged_bytes
            )
        )
    return targets


def _others(
    spark: "SparkSession", folder: Folder, targets: Sequence[_Target], merging: Merging
) -> list[_Target]:
    """Partitions without new entries that have small files to merge."""
    known = {Partition(label_of(target.key), target.date.isoformat()) for target in targets}
    found = []
    for partition, files in _files_of(folder, None).items():
        merged = merging.merged(files, one_more=False)
        if partition in known or not merged:
            continue
        rows = _of_files(spark, folder, merged)
        (row,) = rows.agg(
            F.first("key").alias("key"),
            F.first("date").alias("date"),
            _span(F.min).alias("low"),
            _span(F.max).alias("high"),
        ).collect()
        merged_bytes = sum(file.file_bytes for file in files if file.path in merged)
        found.append(
            _Target(bytes(row.key), row.date, 0, 0, row.low, row.high, merged, merged_bytes)
        )
    return found


def _span(bound: Callable[[str], Column]) -> Column:
    """The first or last of some IDs' milliseconds; 0 where no LONG holds any."""
    return F.coalesce(bound("ms"), F.lit(0).cast("long"))


def _files_of(folder: Folder, labels: Iterable[str] | None) -> dict[Partition, list[FileSize]]:
    """The visible files of some streams, or of all."""
    wanted = None if labels is None else frozenset(labels)
    found: dict[Partition, list[FileSize]] = defaultdict(list)
    for stream in folder.names(""):
        if not stream.startswith("stream="):
            continue
        if wanted is not None and Partition.of(f"{stream}/date=").label not in wanted:
            continue
        for file in folder.files(stream):
            if file.path.endswith(".parquet"):
                found[Partition.of(file.path)].append(file)
    return found


def _write(
    spark: "SparkSession",
    folder: Folder,
    state: State,
    targets: Sequence[_Target],
    staging: str,
    merging: Merging,
) -> None:
    """New and merged entries, as files in the partitions' folders below ``staging``."""
    parts = []
    if state.segments:
        parts.append(_of_segments(spark, folder, state.segments))
    merged = [path for target in targets for path in target.merged]
    if merged:
        parts.append(_of_files(spark, folder, merged).drop("stream"))
    entries = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])

    plan = [_piece_plan(target, merging) for target in targets]
    pieces = sum(pieces for *_, pieces in plan)
    # A partition's small files, and what is new, are in one piece, in one task, in one file.
    placed = entries.join(F.broadcast(spark.createDataFrame(plan, _PLAN_SCHEMA)), ["key", "date"])
    piece = F.floor((F.col("ms") - F.col("first_ms")) / F.col("piece_ms"))
    last = F.col("pieces") - 1
    placed = placed.withColumn("piece", F.greatest(F.lit(0), F.least(piece, last)))
    rows = (
        placed.repartition(min(pieces, TASKS_MAX), "stream", "date", "piece")
        .sortWithinPartitions("stream", "date", "piece", "ms", "seq", "origin", "dot")
        .select(*FILE_SCHEMA.fieldNames(), "stream", "date")
    )
    with microseconds(spark):
        rows.write.partitionBy("stream", "date").parquet(folder.url(staging))


def _content(
    spark: "SparkSession", folder: Folder, state: State, targets: Sequence[_Target]
) -> Content:
    """Content that the new files must have.

    It is that of the segments when they were written, and that of the files that are merged.
    """
    columns = FILE_SCHEMA.fieldNames()
    total = sum((segment.content for segment in state.segments), start=NOTHING)
    merged = [path for target in targets for path in target.merged]
    if merged:
        total += content_of(_of_files(spark, folder, merged).select(*columns))
    return total


def _piece_plan(
    target: _Target, merging: Merging
) -> tuple[bytes, "datetime.date", str, int, int, int]:
    """Into how many pieces, of equal time, what a partition gets is cut."""
    pieces = max(1, round((target.entries_bytes + target.merged_bytes) / merging.file_bytes))
    span_ms = target.last_ms - target.first_ms + 1
    piece_ms = max(1, -(-span_ms // pieces))
    label = label_of(target.key)
    return target.key, target.date, label, target.first_ms, piece_ms, pieces


def _moves(
    number: int, staging: str, written: Sequence[FileSize], targets: Sequence[_Target]
) -> tuple[Move, ...]:
    """Partition by partition, so that what is missing in between is missing for a moment."""
    shown: dict[Partition, list[tuple[str, str]]] = defaultdict(list)
    for index, file in enumerate(written):
        folders = file.path.removeprefix(f"{staging}/").rpartition("/")[0]
        name = f"part-{number:08}-{index:05}.parquet"
        shown[Partition.of(file.path)].append((file.path, f"{folders}/{name}"))
    hidden = {
        Partition(label_of(target.key), target.date.isoformat()): target.merged
        for target in targets
    }
    return tuple(
        Move(hidden.get(partition, ()), tuple(moves)) for partition, moves in shown.items()
    )


def _of_segments(spark: "SparkSession", folder: Folder, segments: Sequence[Segment]) -> DataFrame:
    paths = [folder.url(segment.path) for segment in segments]
    return spark.read.schema(FILE_SCHEMA).parquet(*paths).withColumn("date", date_of(F.col("ms")))


def _of_files(spark: "SparkSession", folder: Folder, paths: Sequence[str]) -> DataFrame:
    """Published files, with the columns of their partition."""
    reader = spark.read.schema(ARCHIVE_SCHEMA).option("basePath", folder.url())
    return reader.parquet(*[folder.url(path) for path in paths])


def _bytes(files: Sequence[FileSize]) -> int:
    return sum(file.file_bytes for file in files)
