"""Entries by windows of event time: their number, their origins, statistics of numeric fields.

An entry's time is the milliseconds of its ID.  Windows begin at whole multiples of their length,
since 1970.  IDs that are no time of the years up to 9999 (clients may choose any ID) are in no
window; they are counted apart.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs.archive_layout import DATED_MS_MAX, matching
from crdtstream.spark.jobs.archive_reader import each_message_once, read_archive
from crdtstream.spark.options import NodesOptions
from crdtstream.spark.vectors import U64_MAX, offset_of

PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99)
# With up to this number of different values in a window percentiles are exact; with more they are
# off by at most one rank in this number.
PERCENTILE_ACCURACY: Final = 10_000
# Texts that are numbers: as people and programs write them, without nan, inf, hex or suffixes.
_NUMBER: Final = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"


@dataclass(frozen=True, slots=True)
class StreamField:
    """A numeric field of some streams.

    Attributes:
        pattern: which streams, as KEYS takes it.
        name: of the field.
    """

    pattern: bytes
    name: str

    @classmethod
    def parse(cls, text: str) -> "StreamField":
        """``PATTERN=NAME``, or ``NAME`` alone for all streams."""
        pattern, equals, name = text.rpartition("=")
        if not name:
            raise ValueError(f"{text!r} names no field; write NAME or PATTERN=NAME")
        return cls(pattern.encode("utf-8", "surrogateescape") if equals else b"*", name)


def read_streams(
    spark: SparkSession,
    nodes: NodesOptions,
    streams: Sequence[bytes],
    *,
    start_ms: int | None,
    end_ms: int | None,
) -> DataFrame:
    """Entries from the database: ``stream``, ``ms``, ``origin``, ``fields``."""
    given = {
        **nodes.given(),
        # The beginning of every lane, in this database alone.
        "startingOffsets": json.dumps(offset_of({}, nodes.database_uid)),
        "streams": ",".join(_as_option(pattern) for pattern in streams),
        "startingId": "" if start_ms is None else f"{start_ms}-0",
        "endingId": "" if end_ms is None else f"{end_ms - 1}-{U64_MAX}",
    }
    reader = spark.read.format("crdtstream").schema(
        "stream STRING, ms LONG, origin INT, fields MAP<STRING, STRING>"
    )
    return reader.options(**{name: value for name, value in given.items() if value}).load()


def _as_option(pattern: bytes) -> str:
    """As the option `streams` has it; a byte that is no UTF-8 is any byte there."""
    return pattern.decode("utf-8", "replace").replace("\ufffd", "?").replace(",", "\\,")


def read_archived(
    spark: SparkSession,
    path: str,
    streams: Sequence[bytes],
    *,
    start_ms: int | None,
    end_ms: int | None,
) -> DataFrame:
    """The same from an archive: streams under their true names, each message once."""
    found = read_archive(spark, path, streams=streams, start_ms=start_ms, end_ms=end_ms)
    return each_message_once(found).select(
        F.decode("key", "UTF-8").alias("stream"), "ms", "origin", "fields"
    )


def narrowed(entries: DataFrame, fields: Iterable[StreamField], *, window_ms: int) -> DataFrame:
    """Columns of entries that windows need.

    They are ``stream``, ``ms``, ``origin``, ``width_ms`` of windows and, as an array of
    (``field``, ``value``), the fields that are asked for.
    """
    names = sorted({field.name for field in fields})
    values = [
        F.struct(F.lit(name).alias("field"), F.col("fields")[name].alias("value")) for name in names
    ]
    kind = "ARRAY<STRUCT<field: STRING, value: STRING>>"
    return entries.select(
        "stream",
        "ms",
        "origin",
        F.lit(window_ms).cast("long").alias("width_ms"),
        F.array(*values).cast(kind).alias("values"),
    )


def with_widths(narrow: DataFrame, widths: Sequence[tuple[str, int]]) -> DataFrame:
    """Of some streams only, each with windows of its own width, in ms."""
    of_stream = narrow.sparkSession.createDataFrame(list(widths), "stream STRING, width_ms LONG")
    return narrow.drop("width_ms").join(F.broadcast(of_stream), "stream")


def is_dated() -> Column:
    """True where an entry is in some window."""
    return F.coalesce(F.col("ms").between(0, DATED_MS_MAX), F.lit(False))


def chosen_fields(narrow: DataFrame, fields: Sequence[StreamField]) -> list[tuple[str, str]]:
    """Of each stream the fields to look at, as far as any entry has them; ascending."""
    there = narrow.select("stream", F.inline("values")).where("value IS NOT NULL")
    return sorted(
        (stream, name)
        for stream, name in there.select("stream", "field").distinct().collect()
        if any(
            field.name == name and matching((field.pattern,), stream.encode("utf-8", "replace"))
            for field in fields
        )
    )


def entries_by_origin(narrow: DataFrame) -> DataFrame:
    """Per stream, origin region and window: ``entries``, and how many that is a second."""
    counted = (
        narrow.where(is_dated())
        .groupBy("stream", "origin", *_window())
        .agg(F.count("*").alias("entries"))
    )
    return counted.select("stream", "origin", *_bounds(), "entries", _per_second())


def field_windows(narrow: DataFrame, chosen: Sequence[tuple[str, str]]) -> DataFrame:
    """Per stream, window and field: ``entries`` of the window, how many of them have a number
    there (``numbers``) or something else (``others``), and the numbers' spread.

    A stream without chosen fields has one row per window, whose ``field`` is null.
    """
    spark = narrow.sparkSession
    wanted = spark.createDataFrame(list(chosen), "stream STRING, field STRING")
    dated = narrow.where(is_dated())
    # One row per entry and field that is chosen of its stream.
    by_field = dated.select("stream", "ms", "width_ms", F.inline("values")).join(
        F.broadcast(wanted), ["stream", "field"]
    )
    without = dated.join(F.broadcast(wanted.select("stream").distinct()), "stream", "left_anti")
    rows = by_field.unionByName(
        without.select(
            "stream",
            "ms",
            "width_ms",
            F.lit(None).cast("string").alias("field"),
            F.lit(None).cast("string").alias("value"),
        )
    )
    is_number = F.col("value").rlike(_NUMBER)
    number = F.when(is_number, F.trim("value").try_cast("double"))
    # A number like 1e999 is infinite: no mean would be left of it.
    finite = F.when(F.abs(number) != float("inf"), number)
    spread = F.percentile_approx("number", list(PERCENTILES), PERCENTILE_ACCURACY)
    summed = (
        rows.withColumn("number", finite)
        .groupBy("stream", "field", *_window())
        .agg(
            F.count("*").alias("entries"),
            F.count("number").alias("numbers"),
            (F.count("value") - F.count("number")).alias("others"),
            F.min("number").alias("min"),
            F.avg("number").alias("mean"),
            F.max("number").alias("max"),
            spread.alias("spread"),
        )
    )
    percentiles = [
        F.col("spread")[at].alias(f"p{share * 100:g}") for at, share in enumerate(PERCENTILES)
    ]
    return summed.select(
        "stream",
        "field",
        *_bounds(),
        "entries",
        _per_second(),
        *("numbers", "others", "min", "mean", "max"),
        *percentiles,
    )


def _window() -> list[Column]:
    start = F.floor(F.col("ms") / F.col("width_ms")) * F.col("width_ms")
    return [start.cast("long").alias("start_ms"), F.col("width_ms")]


def _bounds() -> list[Column]:
    return [
        F.col("start_ms"),
        F.timestamp_millis("start_ms").alias("window_start"),
        F.timestamp_millis(F.col("start_ms") + F.col("width_ms")).alias("window_end"),
    ]


def _per_second() -> Column:
    return (F.col("entries") * 1_000 / F.col("width_ms")).alias("per_second")
