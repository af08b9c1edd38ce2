"""Findings of an audit, and the table of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs.audit_entries import differing
from crdtstream.spark.options import EntryId

# key: the stream's name as it is; stream: as text.  n: the dot's number, of entries; origin alone:
# the lane, of frontiers.  has: by region.
FINDINGS_SCHEMA: Final = (
    "kind STRING, fails BOOLEAN, stream STRING, key BINARY, group STRING, origin INT, n LONG,"
    " id STRING, regions ARRAY<INT>, has MAP<INT, STRING>"
)
_COLUMNS: Final = ("kind", "fails", "stream", "key", "group", "origin", "n", "id", "regions", "has")


class Kind(Enum):
    """Kind of a finding.  The origin's own copy is taken as right, where that region has one."""

    # An entry that its origin has and others lack.
    MISSING = "missing"
    # An entry that its origin does not have, and others do.
    EXTRA = "extra"
    # Different contents under one dot.
    DIFFERING = "differing"
    # A region returned the same dot more than once.
    REPEATED = "repeated"
    # Entries of one stream with the same ID, alike in all regions.
    DUPLICATE_ID = "duplicate-id"
    # A stream or a group that not all regions have; a group that is not equally far in all.
    STREAM = "stream"
    GROUP = "group"
    FRONTIER = "frontier"


class Subject(NamedTuple):
    """One thing without a dot that all regions should have alike.

    Attributes:
        kind: ``STREAM``, ``GROUP`` or ``FRONTIER``.
        group: empty of a stream.
        origin: the lane, of a frontier; else 0.
    """

    kind: Kind
    key: bytes
    group: bytes = b""
    origin: int = 0


# By region, the ID that it has of a subject; None if it has nothing.
ByRegion: TypeAlias = Mapping[int, EntryId | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        fails: it makes the audit fail.
        key: the stream.
        origin, n: the dot, of entries; ``origin`` is the lane, of a frontier.
        regions: where it is wrong; all, of a duplicate ID.
        has: by region, what it has; of a duplicate ID the dots that share it, by origin.
    """

    kind: Kind
    fails: bool
    key: bytes
    group: str | None
    origin: int | None
    n: int | None
    id: str | None
    regions: tuple[int, ...]
    has: Mapping[int, str]

    def __str__(self) -> str:
        about = [f"stream {text_of(self.key)!r}"]
        if self.group is not None:
            about.append(f"group {self.group!r}")
        if self.id is not None:
            about.append(f"entry {self.id}")
        if self.n is not None:
            about.append(f"dot {self.origin}:{self.n}")
        elif self.origin is not None:
            about.append(f"lane {self.origin}")
        has = ", ".join(f"{region}: {what}" for region, what in sorted(self.has.items()))
        where = ", ".join(map(str, self.regions))
        return f"{self.kind.value} in region {where}: {', '.join(about)} ({has})"


def text_of(name: bytes) -> str:
    """A name to be read by people; bytes that are no UTF-8 are shown as U+FFFD."""
    return name.decode("utf-8", "replace")


def entry_findings(dots: DataFrame, regions: Sequence[int]) -> DataFrame:
    """Dots (see ``audit_entries.side_by_side``) that are not alike everywhere, as findings."""
    copies = {r: F.coalesce(F.col(f"copies_{r}"), F.lit(0)) for r in regions}
    digests = {r: F.col(f"digest_{r}") for r in regions}
    # Null where the origin has no copy, or was removed from the database.
    right: Column = F.lit(None).cast("long")
    for region in regions:
        right = F.when(F.col("origin") == region, digests[region]).otherwise(right)
    absent_anywhere = F.least(*copies.values(), F.lit(1)) == 0
    kind = (
        F.when(differing(regions), Kind.DIFFERING.value)
        .when(absent_anywhere & right.isNotNull(), Kind.MISSING.value)
        .when(absent_anywhere, Kind.EXTRA.value)
        .otherwise(Kind.REPEATED.value)
    )
    wrong = {
        r: F.when(F.col("kind") == Kind.DIFFERING.value, ~digests[r].eqNullSafe(right))
        .when(F.col("kind") == Kind.MISSING.value, copies[r] == 0)
        .when(F.col("kind") == Kind.EXTRA.value, copies[r] > 0)
        .otherwise(copies[r] > 1)
        for r in regions
    }
    has = {
        r: F.when(copies[r] == 0, "missing")
        .when(copies[r] == 1, F.lower(F.lpad(F.hex(digests[r]), 16, "0")))
        .otherwise(F.concat(copies[r].cast("string"), F.lit(" times")))
        for r in regions
    }
    return _shaped(
        dots.withColumn("kind", kind),
        fails=F.lit(True),
        regions=F.array_compact(F.array(*[F.when(wrong[r], F.lit(r)) for r in regions])),
        has=F.create_map(*[part for r in regions for part in (F.lit(r), has[r])]),
    )


def duplicate_findings(duplicates: DataFrame, regions: Sequence[int], *, fails: bool) -> DataFrame:
    """IDs that stand more than once in a stream (see ``audit_entries.duplicate_ids``)."""
    return _shaped(
        duplicates.withColumn("kind", F.lit(Kind.DUPLICATE_ID.value)),
        fails=F.lit(fails),
        regions=F.array(*[F.lit(region) for region in regions]),
        has=F.col("dots"),
    )


def _shaped(frame: DataFrame, **given: Column) -> DataFrame:
    """The frame with exactly the columns of a table of findings; null where it has none."""
    given["stream"] = F.decode("key", "UTF-8")
    present = {name: F.col(name) for name in frame.columns} | given
    return frame.select(*[present.get(name, F.lit(None)).alias(name) for name in _COLUMNS]).to(
        frame.sparkSession.createDataFrame([], FINDINGS_SCHEMA).schema
    )


def key_findings(spark: SparkSession, differing: Mapping[Subject, ByRegion]) -> DataFrame:
    """Streams, groups and frontiers that regions have differently."""
    return spark.createDataFrame([_key_row(*one) for one in differing.items()], FINDINGS_SCHEMA)


def _key_row(subject: Subject, has: ByRegion) -> tuple[Any, ...]:
    shown = {region: "missing" if what is None else "there" for region, what in has.items()}
    # Of streams and groups it is unknown which regions are right; of frontiers the furthest is.
    wrong = sorted(has)
    reached = {region: what for region, what in has.items() if what is not None}
    if subject.kind is Kind.FRONTIER:
        shown = {region: str(what) for region, what in reached.items()}
        furthest = max(reached.values())
        wrong = [region for region in wrong if reached[region] < furthest]
    return (
        subject.kind.value,
        True,
        text_of(subject.key),
        subject.key,
        None if subject.kind is Kind.STREAM else text_of(subject.group),
        subject.origin or None,
        None,
        None,
        wrong,
        shown,
    )


def finding_of(row: Row) -> Finding:
    """A row of the table."""
    return Finding(
        kind=Kind(row["kind"]),
        fails=row["fails"],
        key=bytes(row["key"]),
        group=row["group"],
        origin=row["origin"],
        n=row["n"],
        id=row["id"],
        regions=tuple(row["regions"]),
        has=dict(row["has"]),
    )
