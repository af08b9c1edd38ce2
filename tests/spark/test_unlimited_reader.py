"""The reader for PySpark 4.1, called in the order in which that calls it; the node is a fake."""

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from crdtstream.spark.entries import default_schema
from crdtstream.spark.nodes import NodesError
from crdtstream.spark.options import OptionsError, SourceOptions, ValueFormat
from crdtstream.spark.pyspark_versions import reported_offset
from crdtstream.spark.ranges import RangesPartition
from crdtstream.spark.stream_source import EntriesStreamReader
from crdtstream.spark.unlimited_reader import UnlimitedReader
from tests.spark.test_stream_offsets import OWN, Region, make, vector

__all__ = ["make"]


def reader_of(*nodes: Region, **options: str) -> UnlimitedReader:
    addresses = ",".join(node.address for node in nodes)
    parsed = SourceOptions.parse({"nodes": addresses, "failoverSeconds": "1"} | options)
    return UnlimitedReader(EntriesStreamReader(default_schema(ValueFormat.STRING), parsed), parsed)


def ranges(reader: UnlimitedReader, start: Any, end: Any) -> list[tuple[int, int, int]]:
    """(origin, above, upto) of all tasks of a batch."""
    partitions = reader.partitions(start, end)
    assert all(isinstance(one, RangesPartition) for one in partitions)
    return [(r.origin, r.above_n, r.upto_n) for one in partitions for r in one.ranges]  # type: ignore[attr-defined]


def test_a_limit_is_refused(make: Callable[..., Region]) -> None:
    with pytest.raises(OptionsError, match=r"maxEntriesPerTrigger needs PySpark 4\.2 or newer"):
        reader_of(make(1), maxEntriesPerTrigger="5")


def test_a_new_query_reads_all_and_goes_on(make: Callable[..., Region]) -> None:
    node = make(1, r1=5)
    reader = reader_of(node)
    first = reader.latestOffset()
    start = reader.initialOffset()
    assert (start, first) == ({}, {"1": 5, **OWN})
    assert ranges(reader, start, first) == [(1, 0, 5)]
    assert reader.latestOffset() == first
    node.durable = vector(r1=8, r2=3)
    second = reader.latestOffset()
    assert ranges(reader, first, second) == [(1, 5, 8), (2, 0, 3)]
    assert reader.latestOffset() == second


def test_planned_entries_stay_read_at_a_node_that_is_behind(make: Callable[..., Region]) -> None:
    node = make(1, r1=5)
    reader = reader_of(node)
    reader.partitions(reader.initialOffset(), reader.latestOffset())
    node.durable = vector(r1=3, r2=1)
    assert reader.latestOffset() == {"1": 5, "2": 1, **OWN}


def test_a_restart_goes_on_from_the_checkpoint(make: Callable[..., Region]) -> None:
    """Also if the node is behind: rows that were read stay read."""
    reader = reader_of(make(2, r1=450, r2=60))
    seen = {"1": 500, "2": 40, **OWN}
    assert reader.partitions(seen, seen) == []
    end = reader.latestOffset()
    assert end == {"1": 500, "2": 60, **OWN}
    assert ranges(reader, seen, end) == [(2, 40, 60)]


def test_without_news_a_restart_stays_where_it_was(make: Callable[..., Region]) -> None:
    reader = reader_of(make(1, r1=5))
    seen = {"1": 5, **OWN}
    reader.partitions(seen, seen)
    assert json.dumps(reader.latestOffset()) == json.dumps(seen)


def test_a_batch_that_is_run_again_is_the_start_of_the_next(make: Callable[..., Region]) -> None:
    node = make(1, r1=9)
    reader = reader_of(node)
    before, seen = {"1": 2, **OWN}, {"1": 5, **OWN}
    reader.partitions(seen, seen)
    assert ranges(reader, before, seen) == [(1, 2, 5)]
    assert ranges(reader, seen, reader.latestOffset()) == [(1, 5, 9)]


@pytest.mark.parametrize("counts", [{}, {"r1": 5}])
def test_latest_is_where_the_query_began(
    make: Callable[..., Region], counts: dict[str, int]
) -> None:
    node = make(1, **counts)
    reader = reader_of(node, startingOffsets="latest")
    first = reader.latestOffset()
    assert reader.partitions(reader.initialOffset(), first) == []
    node.durable = vector(r1=6)
    # Another process goes on.
    again = reader_of(node, startingOffsets="latest")
    again.partitions(first, first)
    assert ranges(again, first, again.latestOffset()) == [(1, counts.get("r1", 0), 6)]


def test_a_query_of_nothing_begins_at_no_dot(make: Callable[..., Region]) -> None:
    reader = reader_of(make(1))
    assert reader.latestOffset() == OWN


def test_a_beginning_beyond_the_nodes_is_waited_for(make: Callable[..., Region]) -> None:
    reader = reader_of(make(1, r1=3), startingOffsets='{"1": 7}')
    with pytest.raises(NodesError, match="were they set up again"):
        reader.latestOffset()


# --- Where Spark asks for the end before it says the beginning -----------------------------------


def test_a_run_ends_at_the_node_that_has_most(make: Callable[..., Region]) -> None:
    reader = reader_of(make(2, r1=450), make(1, r1=500))
    assert reader.latestOffset() == {"1": 500, **OWN}


def test_a_run_that_would_end_before_its_beginning_is_refused(make: Callable[..., Region]) -> None:
    reader = reader_of(make(2, r1=450, r2=60))
    assert reader.latestOffset() == {"1": 450, "2": 60, **OWN}
    seen = {"1": 500, "2": 40, **OWN}
    reader.partitions(seen, seen)
    with pytest.raises(NodesError, match=r"regions \[1\].*read them twice. Run again"):
        reader.latestOffset()


def test_a_run_that_ends_behind_its_beginning_goes_on(make: Callable[..., Region]) -> None:
    reader = reader_of(make(1, r1=500))
    upto = reader.latestOffset()
    seen = {"1": 450, **OWN}
    reader.partitions(seen, seen)
    reader.latestOffset()
    assert ranges(reader, seen, upto) == [(1, 450, 500)]


# --- Progress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"1": 5, "cuts": [[1, 2]]}', "{'1': 5, 'cuts': [[1, 2]]}"])
def test_an_offset_is_understood_as_each_version_reports_it(text: str) -> None:
    assert reported_offset(text) == {"1": 5, "cuts": [[1, 2]]}


@pytest.mark.parametrize("text", [None, "", "None", "null"])
def test_no_offset_is_none(text: str | None) -> None:
    assert reported_offset(text) == {}
