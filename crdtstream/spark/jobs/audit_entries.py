"""Entries of all regions side by side, dot by dot.

    region 1  (key, origin, n) -> digest  ┐
    region 2  (key, origin, n) -> digest  ├─ one row per dot: copies_1, digest_1, copies_2, …
    region 3  (key, origin, n) -> digest  ┘

A dot names one entry and its content never changes, so regions agree on a dot if each holds it once
with the same digest, or none holds it.  The digest is xxHash64 over ID, fields, producer and
idempotent ID, computed in the JVM: two different contents are taken for one once in 2^64.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all Spark programs call it

from crdtstream.spark.jobs.regions import RegionAddress, nodes_at
from crdtstream.spark.nodes import Nodes
from crdtstream.spark.options import NodesOptions
from crdtstream.v1 import query_pb2

# Suspects whose dots lie this close are looked up with one scan.
LOOKUP_SPAN: Final = 4096
# Entries that one task reads: some seconds' work.
TASK_ENTRIES: Final = 500_000
# For every core, however little there is to read.
TASKS_PER_CORE: Final = 2

RANGES_SCHEMA: Final = (
    "region INT, address STRING, key BINARY, origin INT, above_n LONG, upto_n LONG, mark STRING"
)
ENTRIES_SCHEMA: Final = (
    "region INT, key BINARY, origin INT, n LONG, id STRING,"
    " fields BINARY, producer BINARY, idempotent_id BINARY"
)
_ENTRIES: Final = pa.schema(
    [
        ("region", pa.int32()),
        ("key", pa.binary()),
        ("origin", pa.int32()),
        ("n", pa.int64()),
        ("id", pa.string()),
        ("fields", pa.binary()),
        ("producer", pa.binary()),
        ("idempotent_id", pa.binary()),
    ]
)
DOT: Final = ("key", "origin", "n")


class RegionRange(NamedTuple):
    """Dots of one lane, to be read in one region; ``mark``: in which incarnation of the origin."""

    region: int
    address: str
    key: bytes
    origin: int
    above_n: int
    upto_n: int
    mark: str


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """Work of a task: it reads the ranges it is given, each at its own region."""

    options: NodesOptions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # A connection to each region, for all ranges of the task.
        with ExitStack() as opened:
            nodes: dict[str, Nodes] = {}
            for row in chain.from_iterable(batch.to_pylist() for batch in batches):
                wanted = RegionRange(**row)
                if wanted.address not in nodes:
                    node = nodes_at(self.options, wanted.address)
                    nodes[wanted.address] = opened.enter_context(node)
                yield from _read(nodes[wanted.address], wanted)


def _read(node: Nodes, wanted: RegionRange) -> Iterator[pa.RecordBatch]:
    request = query_pb2.ScanRequest(
        key=wanted.key,
        origin=wanted.origin,
        above_n=wanted.above_n,
        upto_n=wanted.upto_n,
        upto_token=f"{wanted.origin}:{wanted.upto_n}{wanted.mark}",
    )
    for batch in node.scan(request):
        yield _with_range(batch, wanted)


def _with_range(batch: pa.RecordBatch, wanted: RegionRange) -> pa.RecordBatch:
    """The wire's columns as ``ENTRIES_SCHEMA`` has them."""
    count = batch.num_rows
    ms, seq = (pc.cast(batch.column(name), pa.string()) for name in ("ms", "seq"))
    columns = [
        pa.repeat(pa.scalar(wanted.region, pa.int32()), count),
        pa.repeat(pa.scalar(wanted.key, pa.binary()), count),
        pa.repeat(pa.scalar(wanted.origin, pa.int32()), count),
        pc.cast(batch.column("n"), pa.int64()),
        pc.binary_join_element_wise(ms, seq, "-"),
        *(batch.column(name) for name in ("fields", "producer", "idempotent_id")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ENTRIES)


def read_ranges(ranges: DataFrame, options: NodesOptions, *, entries_count: int) -> DataFrame:
    """The entries of the ranges (``RANGES_SCHEMA``), about ``entries_count`` of them, as
    ``ENTRIES_SCHEMA``."""
    least = TASKS_PER_CORE * ranges.sparkSession.sparkContext.defaultParallelism
    tasks = max(least, entries_count // TASK_ENTRIES)
    return ranges.repartition(tasks).mapInArrow(ReadRanges(options), ENTRIES_SCHEMA)


def side_by_side(entries: DataFrame, regions: Sequence[int]) -> DataFrame:
    """One row per dot: ``id``, and per region r how many copies it holds (null: none) and their
    digest, ``copies_r`` and ``digest_r``."""
    digested = entries.select("region", *DOT, "id", _digest().alias("digest"))
    return digested.groupBy(*DOT).agg(
        F.max("id").alias("id"),
        *[
            column
            for region in regions
            for column in (
                F.sum(F.when(F.col("region") == region, 1)).alias(f"copies_{region}"),
                F.max(F.when(F.col("region") == region, F.col("digest"))).alias(f"digest_{region}"),
            )
        ],
    )


def _digest() -> Column:
    """Over all that the append said; what is absent counts differently from what is empty."""
    return F.xxhash64(
        "id", "fields", F.isnull("producer"), "producer", F.isnull("idempotent_id"), "idempotent_id"
    )


def agreed(regions: Sequence[int]) -> Column:
    """True where every region holds the dot once, with one content."""
    once = _all(F.coalesce(F.col(f"copies_{region}"), F.lit(0)) == 1 for region in regions)
    return once & ~differing(regions)


def differing(regions: Sequence[int]) -> Column:
    """True where regions that hold the dot hold different contents."""
    digests = [F.col(f"digest_{region}") for region in regions]
    if len(digests) == 1:
        return F.lit(False)
    # Both skip nulls: regions that do not hold it.
    return F.least(*digests) != F.greatest(*digests)


def _all(conditions: Iterable[Column]) -> Column:
    whole = F.lit(True)
    for condition in conditions:
        whole = whole & condition
    return whole


def lookup_ranges(
    spark: SparkSession,
    suspects: DataFrame,
    addresses: Sequence[RegionAddress],
    marks: Mapping[int, str],
) -> DataFrame:
    """Ranges that hold the suspects' dots, each for every region; ``RANGES_SCHEMA``.

    Args:
        marks: by origin in which incarnation its dots are.
    """
    mark = F.lit("")
    for origin, one in marks.items():
        mark = F.when(F.col("origin") == origin, one).otherwise(mark)
    regions = [(one.region, one.address) for one in addresses]
    everywhere = spark.createDataFrame(regions, "region INT, address STRING")
    spans = (
        suspects.groupBy("key", "origin", F.floor(F.col("n") / LOOKUP_SPAN).alias("span"))
        .agg((F.min("n") - 1).alias("above_n"), F.max("n").alias("upto_n"))
        .drop("span")
        .withColumn("mark", mark)
    )
    return everywhere.crossJoin(spans)


def ids_given_twice(dots: DataFrame) -> DataFrame:
    """IDs that stand in one stream more than once: ``key``, ``id``."""
    return dots.groupBy("key", "id").count().where("count > 1").drop("count")


def duplicate_ids(dots: DataFrame, twice: DataFrame) -> DataFrame:
    """Entries with such IDs: ``key``, ``id``, ``dots`` (by origin)."""
    by_origin = (
        dots.join(twice, ["key", "id"])
        .groupBy("key", "id", "origin")
        .agg(F.concat_ws(", ", F.sort_array(F.collect_list("n"))).alias("numbers"))
    )
    return by_origin.groupBy("key", "id").agg(
        F.map_from_entries(F.collect_list(F.struct("origin", "numbers"))).alias("dots")
    )


def lanes(dots: DataFrame, regions: Sequence[int]) -> DataFrame:
    """Per lane and region what was compared: ``stream`` (as text), ``key``, ``origin``, ``region``,
    ``entries``, ``digest`` (of the entries' digests and dots), ``agrees`` (with all others)."""
    held = [column for region in regions for column in _held(region)]
    digests = [F.col(f"digest_{region}") for region in regions]
    agrees = F.array_size(F.array_distinct(F.array(*digests))) == 1
    per_region = F.array(
        *[
            F.struct(
                F.lit(region).alias("region"),
                F.col(f"entries_{region}").alias("entries"),
                F.lower(F.lpad(F.hex(f"digest_{region}"), 16, "0")).alias("digest"),
                agrees.alias("agrees"),
            )
            for region in regions
        ]
    )
    return (
        dots.groupBy("key", "origin")
        .agg(*held)
        .select(F.decode("key", "UTF-8").alias("stream"), "key", "origin", F.inline(per_region))
    )


def _held(region: int) -> Iterator[Column]:
    """Columns for what one region holds of a lane.

    The dot is in the digest, so that equal entries do not cancel out.
    """
    copies, digest = f"copies_{region}", f"digest_{region}"
    bound = F.when(F.col(digest).isNotNull(), F.xxhash64("n", copies, digest))
    yield F.coalesce(F.sum(copies), F.lit(0)).alias(f"entries_{region}")
    yield F.coalesce(F.bit_xor(bound), F.lit(0)).alias(digest)
