"""Replays an archive into streams: by time, stream and condition, at a rate, each entry once.

    plan      which entries: those up to a vector, so that an archive that grows changes nothing;
              cut by time into chunks of about as many entries
    chunk k   read, sorted by ID, appended as "replay:<id>:<partition>", batch k, row 0, 1, …
    done k    noted, and the next one begins

Rows with the same number are appended once, in any region.  So a replay that was killed, and is run
again with its ID, goes on in the chunk it was in, and does not append again what it has appended.

An archive may be replayed into any database, its own or another one.  The notes of a replay are
true in the database that it was begun in, which the plan names; see ``replay_plan``.

Each stream's entries are appended in the order of their IDs.  With a rate, or a speed-up of the
original times, one task appends them all, in one order over all streams, as they were written.  At
full speed several tasks append, each to its own streams.

Entries get new IDs and dots, as all that is appended does; their content is the same, byte for
byte.  ``id_field`` keeps the old ID in a field of this name.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs.archive_check import check_content, chosen
from crdtstream.spark.jobs.archive_reader import (
    between,
    each_message_once,
    is_delta,
    read_archive,
)
from crdtstream.spark.jobs.archive_state import load
from crdtstream.spark.jobs.failures import SPARK_ERRORS, is_missing_file, told
from crdtstream.spark.jobs.folder import ArchiveError, Folder, TakenError, folder_at
from crdtstream.spark.jobs.pace import Pace, Pacing, slices
from crdtstream.spark.jobs.read_back import write_parquet
from crdtstream.spark.jobs.replay_options import (
    ReplayError,
    ReplayOptions,
    ReplayOutcome,
    check_options,
)
from crdtstream.spark.jobs.replay_plan import (
    REPLAYS,
    UID,
    Plan,
    check_plan,
    derived_id,
    what_of,
)
from crdtstream.spark.jobs.shared_folder import check_shared
from crdtstream.spark.lanes import Lanes, Producer
from crdtstream.spark.nodes import Nodes, NodesError
from crdtstream.spark.options import RowOrder, SinkOptions
from crdtstream.spark.row_encoding import encode_maps, pieces
from crdtstream.spark.sink import by_stream
from crdtstream.spark.vectors import Vector, beyond, join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ArchiveError", "ReplayError", "ReplayOptions", "ReplayOutcome", "replay"]

# Entries that one Spark job sorts and appends, and that are read again after a kill.  Tests set it.
CHUNK_ENTRIES = 200_000
CHUNKS_MAX: Final = 10_000
PARTITIONS_MAX: Final = 8
ROWS_PER_APPEND: Final = 2_000
# An archiving program may merge files that were just listed: list them again.
READS_MAX: Final = 5
_DONE_SCHEMA: Final = "appended long, known long, anchor_s double, anchor double"


def replay(spark: "SparkSession", options: ReplayOptions) -> ReplayOutcome:
    """Append the entries of an archive to streams, except those that an earlier run appended.

    Raises:
        ArchiveError: there is no archive, or the replay cannot go on; run again, it goes on where
            it was.
    """
    check_options(options)
    try:
        return _Replay(spark, options).run()
    except NodesError as error:
        raise ReplayError(str(error)) from error
    except OSError as error:
        raise ReplayError(f"{options.path}: {error}") from error
    except SPARK_ERRORS as error:
        raise ReplayError(f"Spark failed: {told(error)}") from error


# By what an entry of an archive is known.
_ENTRY: Final = ["origin", "dot", "id"]


class _Done(NamedTuple):
    """Counts of a chunk's tasks; ``anchor``: see ``Pace``."""

    appended: int = 0
    known: int = 0
    anchor: tuple[float, float] | None = None


class _Replay:
    """One run of a replay."""

    def __init__(self, spark: "SparkSession", options: ReplayOptions) -> None:
        self._spark = spark
        self._options = options
        with Nodes.of(options.nodes) as nodes:
            nodes.refuse_strangers()
            self._what = what_of(options) | {"database": nodes.position().database_id}
            self._nodes = replace(options.nodes, database_uid=nodes.database_uid)
        self._folder: Folder = folder_at(spark, options.path)
        self._id = options.replay_id or derived_id(self._what, self._nodes.database_uid)
        self._home = f"{REPLAYS}/{self._id}"
        self._pacing = _pacing(options)
        # Listed once, as an archive may have very many files.
        self._entries: DataFrame | None = None

    def run(self) -> ReplayOutcome:
        self._check_archive()
        plan = self._plan()
        first = self._chunks_done()
        if first < plan.chunks:
            self._refuse_growth(plan)
        entries = known = 0
        anchor: tuple[float, float] | None = None
        for chunk in range(first, plan.chunks):
            done = self._append(plan, chunk, Pace(self._pacing, anchor, entries + known))
            anchor = anchor or done.anchor
            entries += done.appended
            known += done.known
            self._note_done(chunk, done)
        return ReplayOutcome(
            replay_id=self._id,
            database_uid=self._nodes.database_uid,
            entries=entries,
            entries_known=known,
            entries_total=plan.entries,
            chunks=max(0, plan.chunks - first),
            chunks_total=plan.chunks,
        )

    def _check_archive(self) -> None:
        """
        Raises:
            DamagedArchiveError: files that are to be replayed are not as they were read back.
        """
        options = self._options
        if not is_delta(self._spark, options.path):
            which = chosen(options.streams, options.start_ms, options.end_ms)
            check_content(self._folder, which, outcome="Nothing was appended.")

    # --- The plan -----------------------------------------------------------------------------

    def _plan(self) -> Plan:
        """The plan of an earlier run, or a new one."""
        path = f"{self._home}/plan.json"
        try:
            plan = Plan.of_json(self._folder.read(path))
        except FileNotFoundError:
            plan = self._new_plan()
            self._folder.create(path, plan.to_json())
        check_plan(self._id, plan, self._what, self._nodes.database_uid)
        return plan

    def _new_plan(self) -> Plan:
        vector, past = self._vector()
        chosen = self._chosen(vector, past)
        copies = self._find_copies(chosen)
        entries = self._without_copies(chosen, copies)
        total = entries.count()
        count = min(CHUNKS_MAX, -(-total // CHUNK_ENTRIES))
        shares = [index / count for index in range(1, count)]
        bounds: list[int] = []
        if shares:
            accuracy = 100 * count
            (row,) = entries.agg(F.percentile_approx("ms", shares, accuracy).alias("ms")).collect()
            bounds = sorted(set(row.ms or ()))
        cores = self._spark.sparkContext.defaultParallelism
        partitions = self._options.partitions or min(cores, PARTITIONS_MAX)
        return Plan(
            what=self._what | {UID: self._nodes.database_uid},
            vector=vector,
            beyond=past,
            partitions=1 if self._pacing is not None else partitions,
            entries=total,
            bounds=tuple(bounds),
            copies=copies,
        )

    def _refuse_growth(self, plan: Plan) -> None:
        """
        Raises:
            ReplayError: the archive has entries that cannot be told from those of the plan.
        """
        state = load(self._folder)
        if state is None:
            return
        unclear = beyond(plan.beyond, plan.vector)
        grown = beyond(state.published, plan.vector)
        if state.beyond == plan.beyond and not unclear.keys() & grown.keys():
            return
        raise ReplayError(
            f"replay {self._id!r} was begun before the archive took note of effects that exist"
            f" nowhere (up to {state.beyond.token}), or before it had others with the same numbers:"
            " it is unknown which entries are still to be appended. Give another replay_id, which"
            " appends all"
        )

    def _vector(self) -> tuple[Vector, Vector]:
        """Up to where the archive is now, and its entries of regions whose effects end before."""
        state = load(self._folder)
        if state is not None:
            return state.published, state.beyond
        # A copy of the published files alone: no program adds to it while it is read.
        dots = read_archive(self._spark, self._options.path).groupBy("origin")
        rows = dots.agg(F.max("dot").alias("dot")).collect()
        return Vector({row.origin: row.dot for row in rows}), Vector()

    def _chosen(self, vector: Vector, past: Vector) -> DataFrame:
        """The entries of the archive that are meant: up to a vector, or what it had beyond."""
        options = self._options
        entries = read_archive(
            self._spark,
            options.path,
            streams=options.streams,
            start_ms=options.start_ms,
            end_ms=options.end_ms,
        )
        covered = F.lit(False)
        for origin, dot in join([vector, past]).items():
            covered = covered | ((F.col("origin") == origin) & (F.col("dot") <= dot))
        entries = entries.where(covered)
        if not options.where:
            return entries
        try:
            entries = entries.where(options.where)
            deterministic = entries._jdf.queryExecution().analyzed().deterministic()
        except (AnalysisException, ParseException) as error:
            raise ReplayError(f"where: {error}") from error
        if not deterministic:
            raise ReplayError("where: must say the same of an entry each time (no rand(), uuid())")
        return entries

    # --- Copies of messages -------------------------------------------------------------------

    def _find_copies(self, chosen: DataFrame) -> int:
        """Keep, for all chunks, which entries are left out; returns how many."""
        if not self._options.each_message_once:
            return 0
        produced = chosen.where(F.col("idempotent_id").isNotNull())
        kept = each_message_once(produced)
        # The ID as well: a region may have given the number twice, see ``State.beyond``.
        copies = produced.join(kept, _ENTRY, "left_anti").select(_ENTRY)
        check_shared(self._spark, self._folder, self._home, outcome="Nothing was appended")
        path = f"{self._home}/copies"
        # Of a run that was killed before it had a plan.
        self._folder.delete(path)
        written, _ = write_parquet(copies, self._folder, path)
        return written.rows

    def _copies(self) -> DataFrame:
        return self._spark.read.parquet(self._folder.url(f"{self._home}/copies"))

    def _without_copies(self, entries: DataFrame, copies: int) -> DataFrame:
        if not copies:
            return entries
        named = self._copies()
        return entries.join(named, named.columns, "left_anti")

    # --- Chunks -------------------------------------------------------------------------------

    def _chunks_done(self) -> int:
        names = self._folder.names(f"{self._home}/done")
        numbers = [int(name.removesuffix(".json")) for name in names if name.endswith(".json")]
        return max(numbers, default=-1) + 1

    def _note_done(self, chunk: int, done: _Done) -> None:
        content = json.dumps({"appended": done.appended, "known": done.known}).encode()
        try:
            self._folder.create(f"{self._home}/done/{chunk:08}.json", content)
        except TakenError:
            raise ReplayError(
                f"another program does replay {self._id!r} at the same time: nothing was appended "
                "twice; let it go on alone"
            ) from None
        if chunk:
            self._folder.delete(f"{self._home}/done/{chunk - 1:08}.json")

    def _append(self, plan: Plan, chunk: int, pace: Pace) -> _Done:
        """Append a chunk's entries; reads the archive again while its files change."""
        for attempt in range(READS_MAX):
            if self._entries is None:
                self._entries = self._without_copies(
                    self._chosen(plan.vector, plan.beyond), plan.copies
                )
            try:
                return self._append_once(_chunk_of(self._entries, plan, chunk), plan, chunk, pace)
            except SPARK_ERRORS as error:
                if "StaleAppendError" in str(error):
                    raise ReplayError(
                        f"chunks after {chunk} of replay {self._id!r} are appended already: another"
                        " program does this replay, or what was noted of it in the archive is"
                        " lost. Let one alone go on; or give another replay_id, which appends all"
                    ) from error
                if not is_missing_file(error) or attempt == READS_MAX - 1:
                    raise ReplayError(
                        f"chunk {chunk} of {plan.chunks} was not appended whole: {told(error)}. "
                        f"Run it again with replay_id {self._id!r}, and it goes on there"
                    ) from error
                self._entries = None
        raise AssertionError("the last attempt returns or raises")

    def _append_once(self, entries: DataFrame, plan: Plan, chunk: int, pace: Pace) -> _Done:
        options = self._options
        target = F.concat(F.lit(bytearray(options.prefix)), "key")
        if options.target:
            target = F.lit(bytearray(options.target))
        rows = (
            entries.select(
                target.alias("target"), "id", "ms", "fields", "raw", "seq", "origin", "dot"
            )
            .repartition(plan.partitions, "target")
            .sortWithinPartitions(F.col("ms").asc_nulls_last(), _id_ms(), "seq", "origin", "dot")
        )
        task = _Task(
            sink=SinkOptions(
                nodes=self._nodes,
                stream=b"",
                write_id=self._id,
                row_order=RowOrder.GIVEN,
                append_rows_max=ROWS_PER_APPEND,
            ),
            producer=f"replay:{self._id}",
            batch=chunk,
            id_field=options.id_field.encode(),
            pace=pace,
        )
        done = rows.mapInArrow(task, _DONE_SCHEMA).collect()
        anchors = [(row.anchor_s, row.anchor) for row in done if row.anchor_s is not None]
        return _Done(
            sum(row.appended for row in done),
            sum(row.known for row in done),
            anchors[0] if anchors else None,
        )


@dataclass(frozen=True, slots=True)
class _Task:
    """Work of each task on its rows; it is sent to the workers."""

    sink: SinkOptions
    producer: str
    batch: int
    id_field: bytes
    pace: Pace

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        producer = Producer(f"{self.producer}:{context.partitionId()}".encode(), self.batch)
        clock = self.pace.started()
        with Lanes(self.sink, producer) as lanes:
            for batch in (piece for whole in batches for piece in pieces(whole)):
                encoded = _encoded(batch, self.id_field)
                for part in slices(batch.column("ms"), clock):
                    clock.wait(part.value)
                    targets = batch.column("target")[part.start : part.stop]
                    lanes.append(by_stream(targets, encoded[part.start : part.stop]))
                    if not clock.is_running:
                        # Rows that an earlier run had appended need no wait.
                        lanes.wait()
                        clock.note(part.value, is_new=lanes.appended > 0)
            lanes.wait()
        anchor_s, anchor = clock.anchor or (None, None)
        yield pa.RecordBatch.from_pydict(
            {
                "appended": pa.array([lanes.appended], pa.int64()),
                "known": pa.array([lanes.known], pa.int64()),
                "anchor_s": pa.array([anchor_s], pa.float64()),
                "anchor": pa.array([anchor], pa.float64()),
            }
        )


def _encoded(batch: pa.RecordBatch, id_field: bytes) -> pa.BinaryArray:
    """Each entry's fields as RESP: as they were, or from the map where that holds all."""
    raw = batch.column("raw")
    encoded = pc.coalesce(raw, encode_maps(batch.column("fields")))
    if not id_field:
        return encoded
    ids = batch.column("id").cast(pa.binary()).to_pylist()
    return pa.array(
        [
            _with_field(blob, id_field, entry_id)
            for blob, entry_id in zip(encoded.to_pylist(), ids, strict=True)
        ],
        pa.binary(),
    )


def _with_field(blob: bytes, name: bytes, value: bytes) -> bytes:
    count, _, rest = blob.removeprefix(b"*").partition(b"\r\n")
    field = b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(value), value)
    return b"*%d\r\n%b%b" % (int(count) + 2, rest, field)


def _chunk_of(entries: DataFrame, plan: Plan, chunk: int) -> DataFrame:
    """The entries between two bounds."""
    start_ms = plan.bounds[chunk - 1] if chunk else None
    end_ms = plan.bounds[chunk] if chunk < len(plan.bounds) else None
    return between(entries, start_ms, end_ms)


def _id_ms() -> Any:
    """Of IDs whose milliseconds are no LONG, as a number; they come last, in order."""
    text = F.split_part(F.col("id"), F.lit("-"), F.lit(1))
    return F.when(F.col("ms").isNull(), text.cast("decimal(20,0)"))


def _pacing(options: ReplayOptions) -> Pacing | None:
    if options.speedup is not None:
        return Pacing(per_second=1_000 * options.speedup, by_time=True)
    if options.rate is not None:
        return Pacing(per_second=options.rate, by_time=False)
    return None
