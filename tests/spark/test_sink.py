"""The sink in Spark: rows become entries, each once, however often they are written."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from crdtstream.spark.lanes import Producer
from crdtstream.spark.layout import Layout
from crdtstream.spark.options import SinkOptions
from crdtstream.spark.sink import Appended, append_rows
from tests.live.cluster import Cluster
from tests.spark.conftest import nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.live

Write = Callable[..., None]


@pytest.fixture
def write(shared_regions: Cluster) -> Write:
    """Appends a DataFrame, with options."""

    def write(frame: "DataFrame", mode: str = "append", **options: str) -> None:
        writer(shared_regions, frame, **options).mode(mode).save()

    return write


def writer(regions: Cluster, frame: "DataFrame", **options: str) -> "DataFrameWriter":
    return frame.write.format("crdtstream").option("nodes", nodes_of(regions)).options(**options)


def entries(regions: Cluster, stream: str) -> list[dict[bytes, bytes]]:
    """The fields of a stream's entries, by ID, as all regions have them."""
    regions.converge()
    return [fields for _, fields in regions[2].client.xrange(stream)]


# --- What becomes of a row --------------------------------------------------------------------


def test_columns_are_fields_as_spark_casts_them(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    """Of each type that has a text; nulls are left out."""
    frame = spark.sql(
        """
        SELECT true AS bool, 1Y AS byte, -2S AS short, 3 AS `int`, 4L AS long, 0.1F AS `float`,
               1e-7D AS tiny, 123456789.5D AS large, 0D AS zero, double('NaN') AS nan,
               CAST(0 AS DECIMAL(38, 18)) AS zeros, -1.50BD AS `decimal`, DATE '2013-01-01' AS day,
               DATE '-0044-03-15' AS ides,
               TIMESTAMP '2013-01-01 05:15:00.120' AS moment,
               TIMESTAMP_NTZ '2013-01-01 05:15:00' AS wall, TIME '05:15:00.5' AS clock,
               'naïve' AS text, CAST('x' AS CHAR(3)) AS padded, NULL AS nothing,
               CAST(NULL AS INT) AS missing
        """
    )
    write(frame, stream="types")
    cast = frame.select([f.col(f"`{name}`").cast("string").alias(name) for name in frame.columns])
    (shown,) = cast.take(1)
    expected = {
        name.encode(): text.encode() for name, text in shown.asDict().items() if text is not None
    }
    assert len(expected) == 19
    assert entries(shared_regions, "types") == [expected]


def test_moments_are_text_in_the_sessions_time_zone(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = spark.sql("SELECT TIMESTAMP '2013-07-01 05:15:00' AS moment")
        write(frame, stream="zones")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert entries(shared_regions, "zones") == [{b"moment": b"2013-07-01 05:15:00"}]


def test_bytes_are_fields_as_they_are(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    write(spark.sql("SELECT X'ff00' AS b"), stream="bytes")
    assert entries(shared_regions, "bytes") == [{b"b": b"\xff\x00"}]


def test_a_map_is_the_fields_and_each_row_names_its_stream(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    frame = spark.createDataFrame(
        [("m1", {"a": 1, "b": None}), ("m2", {"c": 3}), ("m1", {"a": 4})],
        "stream STRING, fields MAP<STRING, INT>",
    )
    write(frame.coalesce(1))
    assert entries(shared_regions, "m1") == [{b"a": b"1"}, {b"a": b"4"}]
    assert entries(shared_regions, "m2") == [{b"c": b"3"}]


def test_streams_may_be_bytes(spark: "SparkSession", shared_regions: Cluster, write: Write) -> None:
    write(spark.sql("SELECT X'fffe' AS stream, 1 AS a"))
    shared_regions.converge()
    assert [fields for _, fields in shared_regions[3].client.xrange(b"\xff\xfe")] == [{b"a": b"1"}]


def test_rows_that_were_read_can_be_written_unchanged(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    """To the streams that it came from, or to another one."""
    for number in range(5):
        shared_regions[1 + number % 3].client.xadd("read", {"n": number, b"\xff": b"\xfe"})
    shared_regions.converge()
    frame = (
        spark.read.format("crdtstream")
        .options(nodes=nodes_of(shared_regions), streams="read", valueFormat="binary")
        .load()
    )
    write(frame.withColumn("stream", f.lit("copied")))
    write(frame.drop("stream"), stream="copied too")
    original = sorted(map(str, entries(shared_regions, "read")))
    assert len(original) == 5
    for copy in ("copied", "copied too"):
        assert sorted(map(str, entries(shared_regions, copy))) == original


def test_many_rows_in_many_partitions(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    """In each stream, the rows of a partition stay in their order."""
    rows, partitions = 30_000, 3
    frame = spark.range(0, rows, 1, partitions).select(
        f.concat(f.lit("many-"), f.col("id") % 2).alias("stream"), "id"
    )
    write(frame)
    found: list[int] = []
    for stream in ("many-0", "many-1"):
        numbers = [int(fields[b"id"]) for fields in entries(shared_regions, stream)]
        for start in range(0, rows, rows // partitions):
            part = [n for n in numbers if start <= n < start + rows // partitions]
            assert part == sorted(part)
        found += numbers
    assert sorted(found) == list(range(rows))


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("1 AS a", {}, "Give the option 'stream'"),
        ("'s' AS stream, 1 AS a", {"stream": "s"}, "drop the column if the option is meant"),
        ("1 AS stream, 1 AS a", {}, "the column 'stream' is int: cast it to STRING"),
        ("'s' AS stream", {}, "no column is left to be a field"),
        ("array(1) AS a, named_struct('x', 1) AS b", {"stream": "s"}, "'b' is struct<x:int>"),
        ("map('a', 1) AS a", {"stream": "s"}, "'a' is map<string,int>: give it as text"),
        ("INTERVAL '1' DAY AS a", {"stream": "s"}, "'a' is interval day: cast to STRING"),
        ("map('a', array(1)) AS fields", {"stream": "s"}, "the values of 'fields' are array<int>"),
        (
            "map('a', 1) AS fields, 1 AS b",
            {"stream": "s"},
            "besides the map 'fields' there are 'b'",
        ),
        ("1 AS a", {"stream": "s", "writeid": "x" * 1_001}, "writeId.*longer than 1000 bytes"),
        ("1 AS a, 2 AS a", {"stream": "s"}, "2 columns are named 'a'"),
        ("1 AS a", {"stream": "s", "steam": "s"}, "did you mean 'stream'"),
        ("1 AS a", {"stream": "s", "path": "/x"}, "a path means nothing here"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_impossible_requests_are_refused(
    spark: "SparkSession",
    shared_regions: Cluster,
    write: Write,
    select: str,
    options: dict[str, str],
    message: str,
) -> None:
    """Before anything is written."""
    shared_regions[1].client.delete("s")
    with pytest.raises(Exception, match=message):
        write(spark.sql(f"SELECT {select}"), **options)
    assert shared_regions[1].client.xlen("s") == 0


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("overwrite", "streams are only appended to"),
        ("error", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
        ("ignore", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    ],
)
def test_only_append_is_a_mode(
    spark: "SparkSession", write: Write, mode: str, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        write(spark.sql("SELECT 1 AS a"), mode=mode, stream="s")


def test_a_row_without_a_field_or_a_stream_is_named(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    frame = spark.range(0, 10, 1, 1)
    with pytest.raises(Exception, match=r"partition 0, batch 0: row 4 .*has no field"):
        write(frame.selectExpr("nullif(id, 4) AS a"), stream="named")
    with pytest.raises(Exception, match=r"partition 0, batch 0: row 7 .*has no stream"):
        write(frame.selectExpr("id AS a", "nullif('named', if(id = 7, 'named', '')) AS stream"))
    assert entries(shared_regions, "named") == []


# --- Each row once ------------------------------------------------------------------------------


def test_a_write_with_its_id_adds_nothing_when_it_is_run_again(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    frame = spark.range(0, 1_000, 1, 4)
    for _ in range(2):
        write(frame, stream="once", writeId="nightly 2026-01-31")
    assert len(entries(shared_regions, "once")) == 1_000
    write(frame, stream="once", writeId="nightly 2026-02-01")
    assert len(entries(shared_regions, "once")) == 2_000
    write(frame, stream="once")
    write(frame, stream="once")
    assert len(entries(shared_regions, "once")) == 4_000


def test_a_write_that_failed_half_way_is_completed_when_it_is_run_again(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    """The third partition fails behind its 5,000th row, after the first two were written."""

    def rows(fail_at: int) -> "DataFrame":
        return spark.range(0, 30_000, 1, 3).selectExpr(
            f"if(id = {fail_at}, raise_error('planned'), id) AS id"
        )

    options = {"stream": "half", "writeId": "half", "rowsPerAppend": "100"}
    with pytest.raises(Exception, match="planned"):
        write(rows(fail_at=25_000), **options)
    written = len(entries(shared_regions, "half"))
    assert 0 < written < 30_000
    write(rows(fail_at=-1), **options)
    numbers = [int(fields[b"id"]) for fields in entries(shared_regions, "half")]
    assert sorted(numbers) == list(range(30_000))


def test_sorted_rows_may_come_in_another_order_when_they_are_written_again(
    spark: "SparkSession", shared_regions: Cluster, write: Write
) -> None:
    frame = spark.range(0, 1_000, 1, 1)
    options = {"stream": "sorted", "writeId": "sorted", "rowOrder": "sorted"}
    write(frame, **options)
    write(frame.sortWithinPartitions(f.desc("id")), **options)
    # Of RESP's bytes: shorter values first.
    numbers = [int(fields[b"id"]) for fields in entries(shared_regions, "sorted")]
    assert numbers == list(range(1_000))


def test_another_region_takes_what_one_has_not_told(
    spark: "SparkSession", shared_regions: Cluster
) -> None:
    """Written at one region, and again at another that has not heard of it: one copy stays."""
    frame = spark.range(0, 1_000, 1, 2)
    for node in shared_regions.nodes.values():
        node.set_links(paused=True)
    try:
        for region in (1, 2):
            writer(
                shared_regions,
                frame,
                nodes=shared_regions[region].grpc_address,
                stream="two",
                writeId="two",
            ).mode("append").save()
            assert shared_regions[region].client.xlen("two") == 1_000
    finally:
        for node in shared_regions.nodes.values():
            node.set_links(paused=False)
    numbers = [int(fields[b"id"]) for fields in entries(shared_regions, "two")]
    assert sorted(numbers) == list(range(1_000))


def test_copies_of_a_task_run_at_once_in_several_regions(shared_regions: Cluster) -> None:
    """As Spark's speculation has it: none of them knows of the others."""
    rows = 20_000
    batch = pa.record_batch(
        {"stream": [f"copies-{n % 3}" for n in range(rows)], "n": [f"{n}" for n in range(rows)]}
    )

    def attempt(region: int) -> Appended:
        options = SinkOptions.parse({"nodes": shared_regions[region].grpc_address})
        return append_rows(
            [batch], Layout(None, ("n",)), options, producer=Producer(b"copies:0", 3), partition=0
        )

    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(attempt, (1, 2, 3, 1, 2, 3)))
    assert all(one.appended + one.known == rows for one in done)
    for stream in range(3):
        numbers = [int(fields[b"n"]) for fields in entries(shared_regions, f"copies-{stream}")]
        assert sorted(numbers) == list(range(stream, rows, 3))


# --- Streaming ----------------------------------------------------------------------------------


class Flow:
    """A directory of text files, and queries that write their lines to a stream.

    Attributes:
        lines: how many lines there are.
    """

    def __init__(self, spark: "SparkSession", regions: Cluster, folder: Path) -> None:
        self.lines = 0
        self._spark = spark
        self._regions = regions
        self._folder = folder
        self._input = folder / "input"
        self._input.mkdir()
        self._files = 0

    def put(self, lines: int) -> None:
        """Another file, which is another micro-batch."""
        text = "".join(f"{self.lines + at}\n" for at in range(lines))
        ready = self._folder / "next"
        ready.write_text(text)
        # Spark takes the oldest file first, in milliseconds.
        os.utime(ready, (self._files, self._files))
        ready.rename(self._input / f"{self._files}.txt")
        self.lines += lines
        self._files += 1

    def frame(self) -> "DataFrame":
        reader = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        return reader.load(str(self._input))

    def writer(self, name: str, frame: "DataFrame | None" = None) -> "DataStreamWriter":
        """For a checkpoint of this name."""
        frame = self.frame() if frame is None else frame
        return (
            frame.writeStream.format("crdtstream")
            .option("nodes", nodes_of(self._regions))
            .option("checkpointLocation", str(self.checkpoint(name)))
            .trigger(availableNow=True)
        )

    def checkpoint(self, name: str) -> Path:
        return self._folder / name

    def run(self, name: str, stream: str, **options: str) -> "StreamingQuery":
        """Write what is there, to its end."""
        query = self.writer(name).option("stream", stream).options(**options).start()
        query.awaitTermination()
        return query

    def numbers(self, stream: str) -> list[int]:
        return [int(fields[b"value"]) for fields in entries(self._regions, stream)]


@pytest.fixture
def flow(spark: "SparkSession", shared_regions: Cluster, tmp_path: Path) -> Iterator[Flow]:
    yield Flow(spark, shared_regions, tmp_path)
    for query in spark.streams.active:
        query.stop()


def test_a_query_goes_on_from_its_checkpoint(flow: Flow) -> None:
    for lines in (10, 1, 100):
        flow.put(lines)
    flow.run("checkpoint", "flow")
    flow.put(50)
    flow.run("checkpoint", "flow")
    assert flow.numbers("flow") == list(range(161))


def test_a_batch_that_was_not_committed_is_written_again_and_adds_nothing(
    flow: Flow, shared_regions: Cluster
) -> None:
    """As after a kill between the tasks' end and the commit: Spark runs the batch again."""
    for _ in range(3):
        flow.put(100)
    query = flow.run("checkpoint", "again")
    assert flow.numbers("again") == list(range(300))
    for name in ("2", ".2.crc"):
        (flow.checkpoint("checkpoint") / "commits" / name).unlink()
    flow.put(100)
    flow.run("checkpoint", "again")
    assert flow.numbers("again") == list(range(400))
    names = provenance(shared_regions, "again")
    assert names == [
        (f"{query.id}:0", f"{batch}:{row}") for batch in range(4) for row in range(100)
    ]


def provenance(regions: Cluster, stream: str) -> list[tuple[str, str]]:
    """Producer and idempotent id of a stream's entries."""
    client = regions[1].client
    names = []
    for entry_id, _ in client.xrange(stream):
        (row,) = client.execute_command("CRDT.WHY", stream, entry_id)
        why: dict[bytes, Any] = (
            row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True))
        )
        names.append((why[b"producer"].decode(), why[b"idempotent-id"].decode()))
    return names


def test_a_checkpoint_set_back_too_far_is_refused(flow: Flow) -> None:
    """Rows appended too long ago are no longer remembered, so they would be added twice."""
    flow.put(10)
    flow.run("checkpoint", "back")
    shutil.copytree(flow.checkpoint("checkpoint"), flow.checkpoint("backup"))
    for _ in range(3):
        flow.put(10)
    flow.run("checkpoint", "back")
    with pytest.raises(Exception, match=r"later batches of .* were committed"):
        flow.run("backup", "back")
    assert flow.numbers("back") == list(range(40))


def test_queries_do_not_get_into_each_others_way(flow: Flow) -> None:
    """Of one name, with the same rows, one after the other, in one stream and in another."""
    flow.put(10)
    for checkpoint in ("a", "b"):
        query = flow.writer(checkpoint).queryName("same").option("stream", "both").start()
        query.awaitTermination()
    assert sorted(flow.numbers("both")) == sorted([*range(10), *range(10)])
    flow.put(5)
    flow.run("a", "other")
    assert flow.numbers("other") == list(range(10, 15))


def test_each_batch_of_foreach_batch_is_a_write_of_its_own(
    flow: Flow, shared_regions: Cluster
) -> None:
    for _ in range(2):
        flow.put(10)

    def save(frame: "DataFrame", batch: int) -> None:
        for _ in range(2):
            writer(shared_regions, frame, stream="each", writeId=f"each-{batch}").mode(
                "append"
            ).save()

    checkpoint = str(flow.checkpoint("each"))
    query = flow.frame().writeStream.foreachBatch(save).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    assert flow.numbers("each") == list(range(20))


def test_streaming_refuses_what_it_cannot_do(flow: Flow) -> None:
    flow.put(1)
    with pytest.raises(Exception, match=r"writeId is for df.write"):
        flow.run("checkpoint", "refused", writeId="x")
    counts = flow.frame().groupBy("value").count()
    complete = flow.writer("complete", counts).option("stream", "refused").outputMode("complete")
    with pytest.raises(Exception, match="streams are only appended to"):
        complete.start().awaitTermination()
    with pytest.raises(Exception, match="does not support Update mode"):
        complete.outputMode("update").start().awaitTermination()
    assert flow.numbers("refused") == []
