"""Partitions: ranges of dots, each in one lane, that one task reads one after the other.

A partition is sent to its task with all that reading needs, so a task that is run again, elsewhere
or later, reads the same entries.  Lanes may be many and small, so a partition may hold many ranges.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from crdtstream.spark.entries import Columns, Lane, merged
from crdtstream.spark.nodes import Nodes, Scanning
from crdtstream.spark.options import EntryId, NodesOptions
from crdtstream.spark.selection import Selection
from crdtstream.spark.vectors import vector_of
from crdtstream.v1 import effects_pb2, query_pb2

# Lanes whose lag is reported, the longest first.
LAGS_MAX: Final = 100
# Below this a task costs more than what it reads.
RANGE_ENTRIES_MIN: Final = 20_000


@dataclass(frozen=True, slots=True)
class EntryRange:
    """Entries of one lane.

    Attributes:
        above_n, upto_n: dot numbers in between, the last included.
        start, end: of IDs, both included.
        entries: when it was planned.
        lost_n: the highest dot of the lane that was known to be lost then; 0: none.
        mark: in which incarnation of its origin the dots are, see ``Vector``.
    """

    key: bytes
    origin: int
    above_n: int
    upto_n: int
    start: EntryId
    end: EntryId
    entries: int
    lost_n: int = 0
    mark: str = ""

    @property
    def request(self) -> query_pb2.ScanRequest:
        return query_pb2.ScanRequest(
            key=self.key,
            origin=self.origin,
            above_n=self.above_n,
            upto_n=self.upto_n,
            upto_token=f"{self.origin}:{self.upto_n}{self.mark}",
            start=effects_pb2.Id(ms=self.start.ms, seq=self.start.seq),
            end=effects_pb2.Id(ms=self.end.ms, seq=self.end.seq),
        )

    def told(self) -> str:
        """The lane in words."""
        return f"stream {self.key.decode('utf-8', 'replace')!r}, region {self.origin}"


@dataclass(frozen=True)
class RangesPartition(InputPartition):
    """Ranges that one task reads; ``database_uid``: the database of these dots."""

    ranges: tuple[EntryRange, ...]
    database_uid: str

    def at(self, nodes: NodesOptions) -> NodesOptions:
        """Nodes to read it from: the given ones, if they are of its database."""
        return replace(nodes, database_uid=self.database_uid)


def ranges_of(plan: query_pb2.PlanReply, selection: Selection) -> list[EntryRange]:
    """The planned ranges of the streams that are selected."""
    end = vector_of(plan.end, plan.end_token)
    return [
        EntryRange(
            one.key,
            one.origin,
            one.above_n,
            one.upto_n,
            selection.start,
            selection.end,
            one.entries,
            mark=end.mark_at(one.origin, one.upto_n),
        )
        for one in plan.ranges
        if selection.takes(one.key)
    ]


def packed(
    ranges: Iterable[EntryRange], *, entries: int, database_uid: str
) -> list[RangesPartition]:
    """Partitions of about ``entries`` entries each, the ranges in the order given.

    All ranges in a row are cut at every multiple of ``entries``, so what one partition has too much
    another one has not to make up for.
    """
    partitions: dict[int, list[EntryRange]] = {}
    before = 0
    for one in ranges:
        partitions.setdefault(before // entries, []).append(one)
        before += one.entries
    return [RangesPartition(tuple(some), database_uid) for some in partitions.values()]


def read_ranges(
    options: NodesOptions,
    columns: Columns,
    partition: RangesPartition,
    *,
    check: Callable[[EntryRange, Scanning, int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The entries of a partition's ranges, in few and large batches.

    Args:
        check: called behind each range, with how many entries were read.
    """
    with Nodes.of(partition.at(options)) as nodes:
        yield from merged(_converted(nodes, columns, partition.ranges, check))


def _converted(
    nodes: Nodes,
    columns: Columns,
    ranges: Sequence[EntryRange],
    check: Callable[[EntryRange, Scanning, int], None] | None,
) -> Iterator[pa.RecordBatch]:
    for one in ranges:
        scanning = nodes.scan(one.request)
        entries = 0
        # Merged before, as converting has a price per batch; and after, as lanes may be small.
        for wire in merged(scanning):
            entries += wire.num_rows
            yield columns.batch(wire, Lane(one.key, one.origin))
        if check is not None:
            check(one, scanning, entries)


def lane_name(key: bytes, origin: int) -> str:
    """A lane in one word, as in ``orders/1``."""
    return f"{key.decode('utf-8', 'backslashreplace')}/{origin}"


def origin_of(lane_name: str) -> int:
    return int(lane_name.rpartition("/")[2])


def lags(ranges: Iterable[EntryRange]) -> dict[str, int]:
    """Entries by "stream/region", the most first."""
    found: dict[str, int] = {}
    for one in ranges:
        lane = lane_name(one.key, one.origin)
        found[lane] = found.get(lane, 0) + one.entries
    most = sorted(found.items(), key=lambda lag: (-lag[1], lag[0]))[:LAGS_MAX]
    return dict(most)
