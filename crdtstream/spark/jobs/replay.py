"""An archive back into streams: by time, stream and condition, at a rate, each entry once.

    plan      which entries: those up to a vector, so that an archive that grows changes nothing;
              cut by time into chunks of about as many entries
    chunk k   read, sorted by ID, appended as "replay:<id>:<partition>", batch k, row 0, 1, …
    done k    noted, and the next one begins

What is numbered alike is appended once, in whatever region: a replay that was killed, and is run
again with its id, goes on in the chunk it was in, and what it had appended of it is there already.

Each stream's entries come in the order of their IDs.  With a rate, or a speed-up of the original
times, one task appends them all, in one order over all streams, as it was written; at full speed,
several tasks do, each with its own streams.

Entries get new IDs and dots, as whatever is appended does; what they hold is the same, byte for
byte.  ``id_field`` keeps the old ID in a field of this name.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.encoding import encode_maps, pieces
from crdtstream.spark.jobs.archive_layout import HIDDEN
from crdtstream.spark.jobs.archive_reader import between, each_message_once, read_archive
from crdtstream.spark.jobs.archive_state import load
from crdtstream.spark.jobs.failures import SPARK_ERRORS, is_missing_file, told
from crdtstream.spark.jobs.folder import ArchiveError, Folder, TakenError, folder_at
from crdtstream.spark.jobs.pace import Pace, Pacing, slices
from crdtstream.spark.jobs.read_back import write_parquet
from crdtstream.spark.jobs.shared_folder import check_shared
from crdtstream.spark.lanes import Lanes, Producer
from crdtstream.spark.nodes import Nodes, NodesError
from crdtstream.spark.options import NodesOptions, RowOrder, SinkOptions
from crdtstream.spark.sink import by_stream
from crdtstream.spark.vectors import Vector, offset_of, parse_vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ArchiveError", "ReplayError", "ReplayOptions", "ReplayOutcome", "replay"]

# What one Spark job sorts and appends, and what is read again after a kill.  Tests set it.
CHUNK_ENTRIES = 200_000
CHUNKS_MAX: Final = 10_000
PARTITIONS_MAX: Final = 8
ROWS_PER_APPEND: Final = 2_000
# Files that an archiving program merges meanwhile are gone for who had listed them: list again.
READS_MAX: Final = 5
REPLAYS: Final = f"{HIDDEN}/replays"

_DONE_SCHEMA: Final = "appended long, known long, anchor_s double, anchor double"


class ReplayError(ArchiveError):
    """The replay cannot be done, or not go on.  The text says what to do."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to replay, and where to.

    Attributes:
        nodes: where to append.
        path: the archive's folder.
        streams: names, or patterns as KEYS takes them; none: every stream of the archive.
        start_ms: of IDs, included; None: no bound.
        end_ms: of IDs, not included; None: no bound.
        where: a condition in SQL on the archive's columns, as ``fields['dest'] = 'LAX'``.
        target: the stream that all entries go to; empty: to streams of their own names.
        prefix: what goes before those names.
        id_field: the field that keeps the entry's old ID; empty: none does.
        rate: entries per second, at most; None: as fast as they are taken.
        speedup: so many times as fast as they were written; None: whatever `rate` says.
        replay_id: by what name this replay is known when it is run again; empty: made from what
            is replayed and where to, so that the same command again does the same replay, and
            nothing once that is done.
        each_message_once: leave out the second copy of a message that was written in two regions
            at once; see ``archive_reader.each_message_once``.
        partitions: how many tasks append at a time, without a rate; 0: as many as there are cores,
            up to eight.
    """

    nodes: NodesOptions
    path: str
    streams: tuple[bytes, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    where: str = ""
    target: bytes = b""
    prefix: bytes = b""
    id_field: str = ""
    rate: float | None = None
    speedup: float | None = None
    replay_id: str = ""
    each_message_once: bool = True
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What a run did.

    Attributes:
        replay_id: by what name to run it again.
        entries: appended by this run.
        entries_known: that this run found appended already, by one before that was killed.
        entries_total: that the replay is of.
        chunks: that this run did.
        chunks_total: of the replay.
    """

    replay_id: str
    entries: int
    entries_known: int
    entries_total: int
    chunks: int
    chunks_total: int


def replay(spark: "SparkSession", options: ReplayOptions) -> ReplayOutcome:
    """Append what an archive holds to streams; what an earlier run of it appended, not again.

    Raises:
        ArchiveError: there is no archive, or the replay cannot go on; run again, it goes on where
            it was.
    """
    _check(options)
    try:
        return _Replay(spark, options).run()
    except NodesError as error:
        raise ReplayError(str(error)) from error
    except OSError as error:
        raise ReplayError(f"{options.path}: {error}") from error
    except SPARK_ERRORS as error:
        raise ReplayError(f"Spark failed: {told(error)}") from error


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is decided once, and kept for all runs of a replay.

    Attributes:
        what: the options that decide what is appended.
        vector: of the archive: entries with dots above came later.
        partitions: tasks of a chunk.
        entries: how many there are, in all.
        bounds: of IDs' milliseconds, between chunks.
        copies: how many entries are left out, as copies of others.
    """

    what: dict[str, Any]
    vector: Vector
    partitions: int
    entries: int
    bounds: tuple[int, ...]
    copies: int

    @property
    def chunks(self) -> int:
        return len(self.bounds) + 1 if self.entries else 0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self) | {"vector": offset_of(self.vector)}, indent=1).encode()

    @classmethod
    def of_json(cls, text: bytes) -> "_Plan":
        told = json.loads(text)
        told["vector"] = parse_vector(told["vector"])
        told["bounds"] = tuple(told["bounds"])
        return cls(**told)


class _Done(NamedTuple):
    """What a chunk's tasks did; ``anchor``: see ``Pace``."""

    appended: int = 0
    known: int = 0
    anchor: tuple[float, float] | None = None


class _Replay:
    """One run of a replay."""

    def __init__(self, spark: "SparkSession", options: ReplayOptions) -> None:
        self._spark = spark
        self._options = options
        with Nodes.of(options.nodes) as nodes:
            self._what = _what(options) | {"database": nodes.position().database_id}
        self._id = options.replay_id or _derived_id(self._what)
        self._folder: Folder = folder_at(spark, options.path)
        self._home = f"{REPLAYS}/{self._id}"
        self._pacing = _pacing(options)
        # Listed once, as an archive may have very many files.
        self._entries: DataFrame | None = None

    def run(self) -> ReplayOutcome:
        plan = self._plan()
        first = self._chunks_done()
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
            entries=entries,
            entries_known=known,
            entries_total=plan.entries,
            chunks=max(0, plan.chunks - first),
            chunks_total=plan.chunks,
        )

    # --- The plan -----------------------------------------------------------------------------

    def _plan(self) -> _Plan:
        """The plan of an earlier run, or a new one."""
        path = f"{self._home}/plan.json"
        try:
            plan = _Plan.of_json(self._folder.read(path))
        except FileNotFoundError:
            plan = self._new_plan()
            self._folder.create(path, plan.to_json())
        if plan.what != self._what:
            differing = sorted(
                name for name in self._what if plan.what.get(name) != self._what[name]
            )
            raise ReplayError(
                f"replay {self._id!r} was begun with other {', '.join(differing)}: give it the "
                "same, or another replay_id"
            )
        return plan

    def _new_plan(self) -> _Plan:
        vector = self._vector()
        chosen = self._chosen(vector)
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
        return _Plan(
            what=self._what,
            vector=vector,
            partitions=1 if self._pacing is not None else partitions,
            entries=total,
            bounds=tuple(bounds),
            copies=copies,
        )

    def _vector(self) -> Vector:
        """Up to where the archive is, now."""
        state = load(self._folder)
        if state is not None:
            return state.published
        # A copy of the published files alone: nobody adds to it while it is read.
        dots = read_archive(self._spark, self._options.path).groupBy("origin")
        return {row.origin: row.dot for row in dots.agg(F.max("dot").alias("dot")).collect()}

    def _chosen(self, vector: Vector) -> DataFrame:
        """The entries of the archive that are meant, up to a vector."""
        options = self._options
        entries = read_archive(
            self._spark,
            options.path,
            streams=options.streams,
            start_ms=options.start_ms,
            end_ms=options.end_ms,
        )
        covered = F.lit(False)
        for origin, dot in vector.items():
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
        copies = produced.join(kept, ["origin", "dot"], "left_anti").select("origin", "dot")
        check_shared(self._spark, self._folder, self._home)
        path = f"{self._home}/copies"
        # Of a run that was killed before it had a plan.
        self._folder.delete(path)
        written, _ = write_parquet(copies, self._folder, path)
        return written.rows

    def _copies(self) -> DataFrame:
        reader = self._spark.read.schema("origin int, dot long")
        return reader.parquet(self._folder.url(f"{self._home}/copies"))

    def _without_copies(self, entries: DataFrame, copies: int) -> DataFrame:
        return entries.join(self._copies(), ["origin", "dot"], "left_anti") if copies else entries

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

    def _append(self, plan: _Plan, chunk: int, pace: Pace) -> _Done:
        """Append a chunk's entries; reads the archive anew while its files change below us."""
        for attempt in range(READS_MAX):
            if self._entries is None:
                self._entries = self._without_copies(self._chosen(plan.vector), plan.copies)
            try:
                return self._append_once(_chunk_of(self._entries, plan, chunk), plan, chunk, pace)
            except SPARK_ERRORS as error:
                if "StaleBatchError" in str(error):
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

    def _append_once(self, entries: DataFrame, plan: _Plan, chunk: int, pace: Pace) -> _Done:
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
                nodes=options.nodes,
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
    """What each task does with its rows; sent to where they are."""

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
                        # What an earlier run had appended is not waited for.
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
    """Each entry's fields as RESP: as they were, or from the map where it tells all."""
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


def _chunk_of(entries: DataFrame, plan: _Plan, chunk: int) -> DataFrame:
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


def _what(options: ReplayOptions) -> dict[str, Any]:
    """The options that decide what is appended, as JSON has them."""

    def text(name: bytes) -> str:
        return name.decode("utf-8", "surrogateescape")

    return {
        "streams": [text(pattern) for pattern in options.streams],
        "start_ms": options.start_ms,
        "end_ms": options.end_ms,
        "where": options.where,
        "target": text(options.target),
        "prefix": text(options.prefix),
        "id_field": options.id_field,
        "each_message_once": options.each_message_once,
    }


def _derived_id(what: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def _check(options: ReplayOptions) -> None:
    problems = []
    if options.rate is not None and options.speedup is not None:
        problems.append("give a rate or a speedup, not both")
    for name, value in (("rate", options.rate), ("speedup", options.speedup)):
        if value is not None and not value > 0:
            problems.append(f"{name} must be above 0")
    if options.target and options.prefix:
        problems.append("give a target or a prefix, not both")
    if options.partitions < 0:
        problems.append("partitions must not be negative")
    if options.replay_id and not _is_name(options.replay_id):
        problems.append("replay_id: letters, digits, _, - and . only, at most 100 of them")
    if problems:
        raise ReplayError("; ".join(problems))


def _is_name(text: str) -> bool:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
    return len(text) <= 100 and set(text) <= allowed and not text.startswith(".")
