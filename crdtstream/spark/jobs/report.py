"""Report on the streams, by windows of event time, and on the regions: tables and a page.

    output/
      report.html     the page: complete in itself, nothing is loaded from anywhere, no script
      windows/        per stream, window and field: entries, numbers and their percentiles
      throughput/     per stream, origin region and window: entries
      lag/            per sample and directed pair of regions: replication lag
      regions/        per region: effects a second, and what it lacks
      dead_letters/   pending entries that were delivered too often

The tables are Parquet.  Entries come from the regions, or from an archive; lag, effects a second
and dead letters are of the present, from every region that answers; the page names the others.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs import report_samples as samples
from crdtstream.spark.jobs import report_windows as windows
from crdtstream.spark.jobs.archive_check import check_content, chosen
from crdtstream.spark.jobs.archive_reader import is_delta
from crdtstream.spark.jobs.archive_state import check_database, load
from crdtstream.spark.jobs.folder import ArchiveError, folder_at
from crdtstream.spark.jobs.regions import Absence, Regions, told_as
from crdtstream.spark.jobs.report_dead_letters import dead_letters_table, find_dead_letters
from crdtstream.spark.jobs.report_page import Page, page_of
from crdtstream.spark.jobs.report_page_streams import FieldWindow, StreamPart
from crdtstream.spark.jobs.report_windows import StreamField
from crdtstream.spark.jobs.shared_folder import check_shared
from crdtstream.spark.jobs.tables import replace_tables
from crdtstream.spark.options import NodesOptions, OptionsError

__all__ = ["ReportError", "ReportOptions", "ReportOutcome", "StreamField", "report"]

PAGE_FILE: Final = "report.html"
# About as many points as a line of the page has; with more windows, those of the page are wider.
PAGE_WINDOWS_MAX: Final = 240
PAGE_STREAMS_MAX: Final = 24
PAGE_FIELDS_MAX: Final = 6
PAGE_DEAD_LETTERS_MAX: Final = 200


class ReportError(Exception):
    """There is no report.  The text says what to do."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report.

    Attributes:
        nodes: at least one region's address; the peers that it names are asked too.
        output: folder of the report, whose tables and page are replaced.
        streams: names or patterns as KEYS takes them; none: every stream.
        archive: folder of an archive to read the entries from; empty: the regions.
        fields: numeric fields to report on.
        window_seconds: length of a window; whole milliseconds.
        start_ms, end_ms: only entries of this time, the end not included; None: no bound.
        sample_seconds: how long the regions are watched.
        sample_interval_seconds: how often they are asked in that time.
        deliveries_max: a pending entry that was delivered more often is a dead letter.
        looked_up_max: how many dead letters of a region are shown with their fields.
    """

    nodes: NodesOptions
    output: str
    streams: tuple[bytes, ...] = ()
    archive: str = ""
    fields: tuple[StreamField, ...] = ()
    window_seconds: float = 60.0
    start_ms: int | None = None
    end_ms: int | None = None
    sample_seconds: float = 10.0
    sample_interval_seconds: float = 0.5
    deliveries_max: int = 5
    looked_up_max: int = 1_000

    def __post_init__(self) -> None:
        """
        Raises:
            OptionsError: with all that is wrong.
        """
        problems = []
        if not self.output:
            problems.append("output: name a folder")
        if self.window_ms < 1:
            problems.append("window_seconds: a window has at least a millisecond")
        if self.start_ms is not None and self.end_ms is not None and self.start_ms >= self.end_ms:
            problems.append("start_ms: not before end_ms")
        if self.sample_interval_seconds <= 0:
            problems.append("sample_interval_seconds: not above 0")
        if self.deliveries_max < 0:
            problems.append("deliveries_max: below 0")
        if problems:
            raise OptionsError("report: " + "; ".join(problems))

    @property
    def window_ms(self) -> int:
        return round(self.window_seconds * 1_000)


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """Outcome of a report.

    Attributes:
        database_uid: identity of the database.
        regions: that were asked and answered.
        absent: those that did not, and why.
        streams: with entries in some window.
        entries: in windows.
        undated: entries whose IDs are no time up to the year 9999; they are in no window.
        lag_ms_p99: the worst of any pair, over the last batches that arrived.
        lag_effects_max: the most that any region had yet to apply of another, in any sample.
        dead_letters: how many.
        page: the page's path or address.
    """

    database_uid: str
    regions: tuple[int, ...]
    absent: Mapping[str, str]
    streams: int
    entries: int
    undated: int
    lag_ms_p99: int
    lag_effects_max: int
    dead_letters: int
    output: str
    page: str
    seconds: float


def report(spark: SparkSession, options: ReportOptions) -> ReportOutcome:
    """Write a report.

    Raises:
        ReportError: no region answers, there is no such archive, or the folder cannot be written.
    """
    with (
        told_as(ReportError),
        Regions(options.nodes, Absence.NOTED) as regions,
        ExitStack() as held,
    ):
        try:
            return _Report(spark, options, regions, held).run()
        except ArchiveError as error:
            raise ReportError(str(error)) from error


class _Report:
    """One report; ``held`` lets go of what Spark keeps for it."""

    def __init__(
        self, spark: SparkSession, options: ReportOptions, regions: Regions, held: ExitStack
    ) -> None:
        self._spark = spark
        self._options = options
        self._regions = regions
        self._held = held
        self._folder = folder_at(spark, options.output)

    def run(self) -> ReportOutcome:
        began = time.monotonic()
        options, regions = self._options, self._regions
        self._check_archive()
        check_shared(self._spark, self._folder, "_draft", outcome="No report was written")
        taken = samples.take_samples(
            regions,
            seconds=options.sample_seconds,
            interval_seconds=options.sample_interval_seconds,
        )
        links = samples.link_samples(taken)
        summaries = samples.region_summaries(regions, taken)
        letters = find_dead_letters(
            regions,
            options.streams,
            deliveries_max=options.deliveries_max,
            looked_up_max=options.looked_up_max,
        )
        narrow = self._narrow()
        streams = self._stream_parts(narrow)
        chosen = windows.chosen_fields(narrow, options.fields)
        found = {name for _, name in chosen}
        undated = narrow.where(~windows.is_dated()).count()

        tables = {
            "lag": samples.lag_table(self._spark, links),
            "regions": samples.regions_table(self._spark, summaries),
            "dead_letters": dead_letters_table(self._spark, letters),
            "throughput": windows.entries_by_origin(narrow),
            "windows": windows.field_windows(narrow, chosen),
        }
        replace_tables(self._folder, tables)
        page = Page(
            database_id=regions.database_id,
            database_uid=regions.database_uid,
            made_at=datetime.now(UTC),
            source=f"archive {options.archive}" if options.archive else "the regions",
            window_ms=options.window_ms,
            entries=sum(part.entries for part in streams),
            undated=undated,
            missing_fields=sorted({field.name for field in options.fields} - found),
            streams_count=len(streams),
            streams=self._shown(narrow, streams, chosen),
            regions=summaries,
            absent=regions.absent,
            links=links,
            letters_count=len(letters),
            deliveries_max=options.deliveries_max,
            letters=letters[:PAGE_DEAD_LETTERS_MAX],
        )
        return ReportOutcome(
            database_uid=regions.database_uid,
            regions=tuple(one.region for one in summaries),
            absent=dict(regions.absent),
            streams=page.streams_count,
            entries=page.entries,
            undated=undated,
            lag_ms_p99=max((link.lag_ms_p99 for link in links), default=0),
            lag_effects_max=max((link.lag_effects for link in links), default=0),
            dead_letters=page.letters_count,
            output=options.output,
            page=self._publish(page_of(page)),
            seconds=time.monotonic() - began,
        )

    def _check_archive(self) -> None:
        """
        Raises:
            ArchiveError: it is of another database than the regions.
        """
        options, state = self._options, None
        if options.archive:
            which = chosen(options.streams, options.start_ms, options.end_ms)
            folder = folder_at(self._spark, options.archive)
            if is_delta(self._spark, options.archive):
                state = load(folder)
            else:
                state = check_content(folder, which, outcome="No report was written.")
        if state is not None:
            check_database(
                self._options.archive,
                state,
                database=self._regions.database_id,
                uid=self._regions.database_uid,
                advice="leave --archive out: the report is of the regions then",
            )

    def _narrow(self) -> DataFrame:
        """Columns of the entries that windows need, read once."""
        options = self._options
        bounds: Final = {"start_ms": options.start_ms, "end_ms": options.end_ms}
        if options.archive:
            entries = windows.read_archived(self._spark, options.archive, options.streams, **bounds)
        else:
            entries = windows.read_streams(
                self._spark, self._regions.nodes, options.streams, **bounds
            )
        narrow = windows.narrowed(entries, options.fields, window_ms=options.window_ms)
        kept = narrow.persist(StorageLevel.DISK_ONLY)
        self._held.callback(kept.unpersist)
        return kept

    def _stream_parts(self, narrow: DataFrame) -> list[StreamPart]:
        """All streams with entries in windows, the longest first."""
        found = (
            narrow.where(windows.is_dated())
            .groupBy("stream")
            .agg(
                F.count("*").alias("entries"),
                F.min("ms").alias("first_ms"),
                F.max("ms").alias("last_ms"),
            )
            .orderBy(F.col("entries").desc(), "stream")
        )
        return [
            StreamPart(
                name=row["stream"],
                entries=row["entries"],
                first_ms=row["first_ms"],
                last_ms=row["last_ms"],
                width_ms=page_width(row["first_ms"], row["last_ms"], self._options.window_ms),
            )
            for row in found.collect()
        ]

    def _shown(
        self, narrow: DataFrame, streams: list[StreamPart], chosen: list[tuple[str, str]]
    ) -> list[StreamPart]:
        """The streams of the page, with their windows, which are as wide as lines need them."""
        shown = streams[:PAGE_STREAMS_MAX]
        wide = windows.with_widths(narrow, [(part.name, part.width_ms) for part in shown])
        by_origin = windows.entries_by_origin(wide).collect()
        fields = [
            pair
            for part in shown
            for pair in [one for one in chosen if one[0] == part.name][:PAGE_FIELDS_MAX]
        ]
        of_fields = windows.field_windows(wide, fields).where("field IS NOT NULL")
        rows = of_fields.orderBy("window_start").collect() if fields else []
        return [
            replace(
                part,
                entries_by_origin=_by_origin(
                    row for row in by_origin if row["stream"] == part.name
                ),
                fields=_by_field(row for row in rows if row["stream"] == part.name),
            )
            for part in shown
        ]

    def _publish(self, page: str) -> str:
        """Put the page in the folder, in the place of an earlier one."""
        draft = f".{PAGE_FILE}-{uuid4().hex}"
        self._folder.create(draft, page.encode())
        if self._folder.read(draft) != page.encode():
            raise ReportError(f"{self._folder.url(draft)} is not as it was written: run again")
        self._folder.replace(draft, PAGE_FILE)
        return f"{self._options.output.rstrip('/')}/{PAGE_FILE}"


def page_width(first_ms: int, last_ms: int, window_ms: int) -> int:
    """Width of windows on the page: a whole multiple of those of the tables."""
    count = last_ms // window_ms - first_ms // window_ms + 1
    return -(-count // PAGE_WINDOWS_MAX) * window_ms


def _by_origin(rows: Iterable[Row]) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for row in rows:
        found.setdefault(row["origin"], {})[row["start_ms"]] = row["entries"]
    return found


def _by_field(rows: Iterable[Row]) -> dict[str, list[FieldWindow]]:
    found: dict[str, list[FieldWindow]] = {}
    names = FieldWindow.__slots__
    for row in rows:
        window = FieldWindow(**{name: row[name] for name in names})
        found.setdefault(row["field"], []).append(window)
    return found
