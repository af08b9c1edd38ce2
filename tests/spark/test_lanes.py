"""A task's rows on their way to a node: numbers, sizes, order, and what is left by a failure."""

import pickle
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import grpc
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StringType, StructField, StructType

from crdtstream.core.fields import encode_fields
from crdtstream.spark import lanes, sink
from crdtstream.spark.lanes import Producer, requests
from crdtstream.spark.layout import Layout, SinkError
from crdtstream.spark.nodes import NodesError
from crdtstream.spark.options import SinkOptions
from crdtstream.spark.sink import (
    Appended,
    append_rows,
    batch_writer,
    by_stream,
    stream_writer,
)
from crdtstream.v1 import query_pb2 as pb
from tests.spark.append_node import AppendNode, RefusedError, append_node
from tests.spark.fake_node import UID

PRODUCER = Producer(b"query:3", 7)


@pytest.fixture
def node() -> Iterator[AppendNode]:
    with append_node() as running:
        yield running


def table(rows: int, *, streams: int = 1, first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + rows)
    return pa.record_batch(
        {
            "stream": pa.array([f"s{number % streams}" for number in numbers]),
            "n": pa.array(numbers, pa.int64()),
        }
    )


def fields_of(number: int) -> bytes:
    return encode_fields([b"n", b"%d" % number])


def append(node: AppendNode, *batches: pa.RecordBatch, **options: str) -> Appended:
    given = {"nodes": node.address, "failoverSeconds": "10", **options}
    parsed = SinkOptions.parse(given)
    schema = StructType([StructField(name, StringType()) for name in batches[0].schema.names])
    layout = Layout.of(schema, parsed.stream)
    return append_rows(batches, layout, parsed, producer=PRODUCER, partition=3)


def test_rows_are_appended_in_order_and_counted(node: AppendNode) -> None:
    done = append(node, table(3), table(4, first=3))
    assert done == Appended(partition=3, appended=7, known=0)
    assert node.rows(b"s0") == [fields_of(number) for number in range(7)]
    assert list(node.entries[b"s0"]) == [(b"query:3", 7, row) for row in range(7)]


def test_rows_are_numbered_in_each_stream(node: AppendNode) -> None:
    append(node, table(10, streams=3), table(10, streams=3, first=10))
    for stream in range(3):
        expected = [fields_of(number) for number in range(20) if number % 3 == stream]
        assert node.rows(b"s%d" % stream) == expected
        numbers = [row for _, _, row in node.entries[b"s%d" % stream]]
        assert numbers == list(range(len(expected)))


def test_again_adds_nothing(node: AppendNode) -> None:
    """However Spark cuts the rows this time."""
    append(node, table(100, streams=2))
    before = {stream: dict(entries) for stream, entries in node.entries.items()}
    done = append(node, table(30, streams=2), table(70, streams=2, first=30), rowsPerAppend="7")
    assert done == Appended(partition=3, appended=0, known=100)
    assert node.entries == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_failed_call_is_made_again(node: AppendNode, moment: str) -> None:
    """Each third call fails once, after or before the node has done it."""

    def fail(number: int, _request: pb.AppendRequest) -> None:
        if number % 3 == 0:
            raise RefusedError(grpc.StatusCode.UNAVAILABLE, "planned")

    setattr(node, moment, fail)
    append(node, table(200, streams=2), rowsPerAppend="10")
    assert len(node.calls) > 20
    for stream in range(2):
        assert node.rows(b"s%d" % stream) == [
            fields_of(number) for number in range(200) if number % 2 == stream
        ]


def test_a_task_that_fails_leaves_a_beginning_of_each_stream(node: AppendNode) -> None:
    def fail(number: int, _request: pb.AppendRequest) -> None:
        if number >= 9:
            raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, "planned")

    node.before = fail
    batches = [table(40, streams=3, first=first) for first in range(0, 400, 40)]
    with pytest.raises(NodesError, match=r"partition 3, batch 7: .*planned.*run it again"):
        append(node, *batches, rowsPerAppend="3")
    for entries in node.entries.values():
        rows = [row for _, _, row in entries]
        assert rows == list(range(len(rows)))

    node.before = lambda _number, _request: None
    done = append(node, *batches)
    assert 0 < done.known < done.known + done.appended == 400
    assert all(len(set(node.rows(b"s%d" % stream))) in (133, 134) for stream in range(3))


def test_an_overtaken_task_is_told_so(node: AppendNode) -> None:
    def stale(_number: int, _request: pb.AppendRequest) -> None:
        raise RefusedError(grpc.StatusCode.FAILED_PRECONDITION, "stale: batch 7 is over")

    node.before = stale
    with pytest.raises(
        SinkError, match=r"later batches of query:3 were committed.*batch 7 is over"
    ):
        append(node, table(1))


def test_nobody_there(node: AppendNode) -> None:
    with pytest.raises(NodesError, match=r"partition 3, batch 7: no node did Append.*run it again"):
        append(node, table(1), nodes="127.0.0.1:1", failoverSeconds="0")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"stream": ["a", "b"], "n": ["1", None]}, r"row 6 .*has no field"),
        ({"stream": ["a", None], "n": ["1", "2"]}, r"row 6 .*has no stream"),
    ],
    ids=["no field", "no stream"],
)
def test_a_bad_row_is_named_and_nothing_behind_it_is_appended(
    node: AppendNode, columns: dict[str, list[str | None]], message: str
) -> None:
    with pytest.raises(SinkError, match=message):
        append(node, table(5), pa.record_batch(columns))
    found = node.rows(b"s0")
    assert found == [fields_of(number) for number in range(len(found))]
    assert node.entries.keys() <= {b"s0"}


def test_a_row_too_large_for_a_node_is_named(
    node: AppendNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "REQUEST_BYTES_MAX", 1_000)
    monkeypatch.setattr(lanes, "ROW_BYTES_MAX", 1_000)
    with pytest.raises(SinkError, match=r"row 2 .* of stream 's' has 1,0\d\d bytes; a node takes"):
        append(node, pa.record_batch({"n": ["a", "b", "x" * 1_000]}), stream="s")
    assert len(node.rows(b"s")) == 2


def test_the_largest_row_that_a_message_holds(node: AppendNode) -> None:
    around = len(encode_fields([b"n", b"x" * lanes.ROW_BYTES_MAX])) - lanes.ROW_BYTES_MAX
    value = "x" * (lanes.ROW_BYTES_MAX - around)
    append(node, pa.record_batch({"n": ["a", value, "b"]}), stream="s")
    assert [len(row) for row in node.rows(b"s")] == [18, lanes.ROW_BYTES_MAX, 18]
    with pytest.raises(SinkError, match="row 0"):
        append(node, pa.record_batch({"n": [value + "x"]}), stream="s")


def test_sorted_rows_get_the_same_numbers_however_they_come(node: AppendNode) -> None:
    """Equal rows, too: each copy is a row of its own."""
    rows = [(f"s{number % 2}", f"{number // 3}") for number in range(40)]
    one = pa.record_batch(dict(zip(("stream", "n"), zip(*rows, strict=True), strict=True)))
    other = one.take(pa.array(reversed(range(40))))
    append(node, one, rowOrder="sorted", rowsPerAppend="6")
    before = {stream: dict(entries) for stream, entries in node.entries.items()}
    done = append(node, other.slice(0, 7), other.slice(7), rowOrder="sorted", rowsPerAppend="5")
    assert done == Appended(partition=3, appended=0, known=40)
    assert node.entries == before
    for stream, entries in before.items():
        expected = [encode_fields([b"n", n.encode()]) for s, n in rows if s.encode() == stream]
        assert list(entries.values()) == sorted(expected)


@pytest.mark.parametrize(("rows", "row_bytes"), [(5, 1 << 20), (1_000, 50)], ids=["rows", "bytes"])
def test_sorted_rows_are_in_order_however_they_are_cut(
    node: AppendNode, monkeypatch: pytest.MonkeyPatch, rows: int, row_bytes: int
) -> None:
    monkeypatch.setattr(sink, "SORTED_ROWS", rows)
    monkeypatch.setattr(sink, "SORTED_BYTES", row_bytes)
    append(
        node, *[table(10, streams=3, first=first) for first in (30, 0, 20, 10)], rowOrder="sorted"
    )
    for stream in range(3):
        expected = sorted(fields_of(number) for number in range(40) if number % 3 == stream)
        assert node.rows(b"s%d" % stream) == expected


def test_no_rows(node: AppendNode) -> None:
    assert append(node, table(0)) == Appended(partition=3, appended=0, known=0)
    assert node.calls == []


def test_all_tasks_append_to_the_database_that_was_there_at_the_start(node: AppendNode) -> None:
    """One that goes on at another node must not append to another database."""
    schema = StructType([StructField("n", StringType())])
    given = {"nodes": node.address, "stream": "s"}
    for make in (batch_writer, stream_writer):
        node.databases.clear()
        sent = pickle.loads(pickle.dumps(make(given, schema, overwrite=False)))
        rows = [table(3).select(["n"])]
        append_rows(rows, sent._layout, sent._options, producer=PRODUCER, partition=3)
        assert sent._options.nodes.database_uid == UID
        assert node.databases == {UID}


def test_commits_and_aborts_of_tasks_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    schema = StructType([StructField("a", StringType())])
    with append_node() as node:
        options = {"nodes": node.address, "stream": "s"}
        batch = batch_writer({**options, "writeId": "nightly"}, schema, overwrite=False)
        stream = stream_writer(options, schema, overwrite=False)
    many = [Appended(at, 10, 1) for at in range(30)]
    batch.commit([Appended(0, 3, 4), Appended(1, 5, 0)])
    batch.abort([Appended(0, 3, 4), None])
    stream.commit(many, 17)
    stream.abort([None, None], 18)
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == (
        "write nightly: 8 rows appended, 4 were there, by 2 of 2 tasks (0: 3+4, 1: 5+0)"
    )
    assert told[1].startswith("write nightly failed: 3 rows appended, 4 were there, by 1 of 2")
    assert told[1].endswith("run it again with this writeId, and nothing is added twice")
    assert told[2].startswith("batch 17: 300 rows appended, 30 were there, by 30 of 30 tasks (0: ")
    assert told[2].endswith("19: 10+1, …)")
    assert told[3].startswith("batch 18 failed: 0 rows appended, 0 were there, by 0 of 2 tasks ()")


@given(st.lists(st.tuples(st.sampled_from([b"", b"a", b"\xff"]), st.binary(max_size=3))))
def test_streams_are_told_apart_and_keep_their_order(rows: list[tuple[bytes, bytes]]) -> None:
    expected = defaultdict(list)
    for stream, fields in rows:
        expected[stream].append(fields)
    streams = pa.array([stream for stream, _ in rows], pa.binary())
    found = by_stream(streams, pa.array([fields for _, fields in rows], pa.binary()))
    assert {stream: group.to_pylist() for stream, group in found} == expected
    assert len(found) == len(expected)


@given(
    st.lists(st.integers(0, 40), max_size=30),
    st.integers(0, 5),
    st.integers(1, 8),
    st.integers(20, 100),
)
def test_requests_are_bounded_and_complete(
    sizes: list[int], before: int, rows_max: int, bytes_max: int
) -> None:
    encoded = pa.array([b"no"] * before + [b"x" * size for size in sizes], pa.binary())
    encoded = encoded.slice(before)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "REQUEST_BYTES_MAX", bytes_max)
        made = list(requests(b"s", encoded, producer=PRODUCER, first_row=5, rows_max=rows_max))
    row = 5
    found = []
    for request in made:
        assert request.first_row == row
        lengths = memoryview(request.lengths).cast("I").tolist()
        assert sum(lengths) == len(request.fields)
        assert 1 <= len(lengths) <= rows_max
        assert len(request.fields) <= bytes_max or len(lengths) == 1
        row += len(lengths)
        found += lengths
    assert found == sizes
    # None is smaller than it need be.
    for request, later in pairwise(made):
        more = len(request.fields) + memoryview(later.lengths).cast("I")[0]
        assert len(request.lengths) == 4 * rows_max or more > bytes_max
