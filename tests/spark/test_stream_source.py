"""``spark.readStream.format("crdtstream")`` on real regions: each entry once, none skipped."""

import json
import shutil
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crdtstream.spark.pyspark_versions import HAS_READ_LIMITS, reported_offset
from crdtstream.spark.vectors import beyond, parse_vector
from tests.live.cluster import Cluster, vv_of
from tests.patience import wait_until
from tests.spark.conftest import nodes_of
from tests.spark.test_source import append, xrange_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

limits = pytest.mark.skipif(not HAS_READ_LIMITS, reason="this PySpark does not limit batches")


class Query:
    """A query that writes what it reads to files, with a checkpoint of its own; it can be run
    again and again, as one query."""

    def __init__(self, spark: "SparkSession", folder: Path, cluster: Cluster, **options: object):
        self.spark = spark
        self.options = {"nodes": nodes_of(cluster)} | {k: str(v) for k, v in options.items()}
        self.checkpoint = folder / "checkpoint"
        self.rows_folder = folder / "rows"

    def start(self, **trigger: Any) -> "StreamingQuery":
        from pyspark.sql import functions as f

        frame = self.spark.readStream.format("crdtstream").options(**self.options).load()
        # Files know nothing of maps with text; the task tells how a batch was cut.
        fields = f.to_json("fields").alias("fields")
        return (
            frame.select(
                "stream", "id", "origin", "dot", fields, f.spark_partition_id().alias("task")
            )
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(**trigger)
            .start(str(self.rows_folder))
        )

    def run(self) -> list[dict[str, Any]]:
        """Read all that is there now; returns the progress of each micro-batch with rows.

        PySpark 4.1 ends a run behind a batch that is run again, so there a second run follows.
        """
        batches = []
        for _ in range(1 if HAS_READ_LIMITS or not self._is_unfinished() else 2):
            query = self.start(availableNow=True)
            query.awaitTermination()
            batches += [told(one) for one in query.recentProgress if one.numInputRows]
        return batches

    @contextmanager
    def running(self) -> Iterator["StreamingQuery"]:
        query = self.start(processingTime="0 seconds")
        try:
            yield query
        finally:
            query.stop()

    def rows(self) -> list[tuple[str, str, str]]:
        """Rows of the files: (stream, ID, fields)."""
        return [
            (row.stream, row.id, json.dumps(json.loads(row.fields), sort_keys=True))
            for row in self._read("stream", "id", "fields")
        ]

    def dots(self) -> list[tuple[int, int]]:
        return [(row.origin, row.dot) for row in self._read("origin", "dot")]

    def cuts(self) -> set[tuple[int, int, int]]:
        """Dots by the task that wrote them."""
        return {tuple(row) for row in self._read("task", "origin", "dot")}

    def _read(self, *columns: str) -> list[Any]:
        if not self.rows_folder.exists():
            return []
        frame = self.spark.read.schema(
            "stream STRING, id STRING, origin INT, dot LONG, fields STRING, task INT"
        ).parquet(str(self.rows_folder))
        return list(frame.select(*columns).collect())

    def _is_unfinished(self) -> bool:
        return self._last("offsets") > self._last("commits")

    def _last(self, log: str) -> int:
        return max((int(path.name) for path in (self.checkpoint / log).glob("[0-9]*")), default=-1)

    def forget_last_batch(self) -> None:
        """As after a kill: the last micro-batch was planned, and nobody knows of its end."""
        number = self._last("commits")
        logs = [self.checkpoint / "commits", self.rows_folder / "_spark_metadata"]
        for log in logs:
            for name in (str(number), f".{number}.crc"):
                (log / name).unlink(missing_ok=True)


def told(progress: Any) -> dict[str, Any]:
    (source,) = progress["sources"]
    return {
        "rows": progress.numInputRows,
        "start": reported_offset(source["startOffset"]),
        "end": reported_offset(source["endOffset"]),
        "latest": reported_offset(source["latestOffset"]),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "query"


@pytest.fixture
def stream() -> str:
    """A name that no other test uses: the regions are shared."""
    return f"s-{uuid.uuid4().hex[:8]}"


@limits
def test_all_is_read_in_batches_of_the_limit(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    for node in shared_regions.nodes.values():
        append(node, stream, ({"n": n} for n in range(50)))
    vector = vv_of(shared_regions.converge())
    query = Query(spark, folder, shared_regions, streams=stream, maxEntriesPerTrigger=40)
    batches = query.run()

    assert [batch["rows"] for batch in batches] == [40, 40, 40, 30]
    assert sorted(query.rows()) == sorted(xrange_rows(shared_regions[1], stream))
    # Offsets are vectors, each begins where the last one ended, and none goes back.
    assert parse_vector(batches[-1]["end"]) == vector
    for before, after in pairwise(batches):
        assert after["start"] == before["end"]
        assert not beyond(parse_vector(before["end"]), parse_vector(after["end"]))
    # What is still to be read is told by lane.
    lags = [batch["latest"]["lagEntries"] for batch in batches]
    assert [sum(lag.values()) for lag in lags] == [110, 70, 30, 0]
    assert set(lags[0]) == {f"{stream}/{region}" for region in (1, 2, 3)}


@pytest.mark.skipif(HAS_READ_LIMITS, reason="this PySpark limits batches")
def test_a_limit_that_cannot_be_kept_is_refused(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    append(shared_regions[1], stream, [{"n": 1}])
    query = Query(spark, folder, shared_regions, streams=stream, maxEntriesPerTrigger=40)
    refusal = r"maxEntriesPerTrigger needs PySpark 4\.2 or newer: .*Leave it out"
    with pytest.raises(Exception, match=refusal):
        query.run()
    assert query.rows() == []


def test_a_late_entry_with_a_low_id_is_not_skipped(
    spark: "SparkSession", regions: Cluster, folder: Path
) -> None:
    query = Query(spark, folder, regions, nodes=regions[1].grpc_address, streams="s")
    for node in regions.nodes.values():
        node.set_links(paused=True)
    late = regions[2].client.xadd("s", {"from": "2"}, id="5-*")
    early = regions[1].client.xadd("s", {"from": "1"}, id="1000-*")
    query.run()
    assert [entry_id for _, entry_id, _ in query.rows()] == [early.decode()]

    for node in regions.nodes.values():
        node.set_links(paused=False)
    regions.converge()
    query.run()
    assert {entry_id for _, entry_id, _ in query.rows()} == {early.decode(), late.decode()}
    assert len(query.rows()) == 2


def test_a_query_goes_on_from_its_checkpoint(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    query = Query(spark, folder, shared_regions, streams=f"{stream}*")
    for round_number in range(3):
        # Each time also a stream that was not there before.
        for node in shared_regions.nodes.values():
            append(node, stream, ({"round": round_number, "n": n} for n in range(10)))
            append(node, f"{stream}-{round_number}", [{"n": 1}])
        shared_regions.converge()
        assert sum(batch["rows"] for batch in query.run()) == 33
    assert query.run() == []
    names = [stream, *(f"{stream}-{round_number}" for round_number in range(3))]
    assert sorted(query.rows()) == sorted(xrange_rows(shared_regions[2], *names))


def test_a_batch_that_is_run_again_is_the_same_and_cut_in_the_same_way(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    query = Query(spark, folder, shared_regions, streams=stream, minPartitions=5)
    for node in shared_regions.nodes.values():
        append(node, stream, ({"n": n} for n in range(200)))
    shared_regions.converge()
    query.run()
    rows, cuts = query.rows(), query.cuts()
    assert len({task for task, _, _ in cuts}) == 5

    query.forget_last_batch()
    # What came since is not in it.
    for node in shared_regions.nodes.values():
        append(node, stream, [{"n": "later"}])
    shared_regions.converge()
    again = Query(spark, folder, shared_regions, streams=stream, minPartitions=5)
    again.rows_folder = folder / "rows-again"
    shutil.copytree(query.rows_folder / "_spark_metadata", again.rows_folder / "_spark_metadata")
    first, *_ = again.run()
    assert first["rows"] == len(rows) == 600
    replayed = {cut for cut in again.cuts() if cut[1:] in {cut[1:] for cut in cuts}}
    assert replayed == cuts
    assert len(again.dots()) == len(set(again.dots())) == 603


def test_latest_begins_behind_what_is_there(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    append(shared_regions[1], stream, [{"n": "before"}])
    shared_regions.converge()
    query = Query(spark, folder, shared_regions, streams=stream, startingOffsets="latest")
    assert query.run() == []
    added = append(shared_regions[2], stream, [{"n": "after"}])
    shared_regions.converge()
    # A kill in the very first batch must not move the beginning.
    query.forget_last_batch()
    query.run()
    assert [entry_id for _, entry_id, _ in query.rows()] == added


def test_a_query_begins_at_a_vector(spark: "SparkSession", regions: Cluster, folder: Path) -> None:
    append(regions[1], "s", ({"n": n} for n in range(10)))
    append(regions[2], "s", ({"n": n} for n in range(10)))
    regions.converge()
    query = Query(spark, folder, regions, startingOffsets='{"1": 7}')
    query.run()
    assert sorted(query.dots()) == [(1, 8), (1, 9), (1, 10), *((2, n) for n in range(1, 11))]


def test_new_streams_and_regions_come_by_themselves(
    spark: "SparkSession", regions: Cluster, folder: Path
) -> None:
    """While the query runs; region 3 has issued nothing when it begins."""
    append(regions[1], "first", [{"n": 1}])
    regions.converge()
    query = Query(spark, folder, regions)
    with query.running() as running:

        def has(stream: str) -> bool:
            assert running.exception() is None, running.exception()
            return stream in {row[0] for row in query.rows()}

        wait_until(lambda: has("first"), "the first stream is read")
        append(regions[1], "second", [{"n": 2}])
        wait_until(lambda: has("second"), "a new stream is read")
        append(regions[3], "third", [{"n": 3}])
        wait_until(lambda: has("third"), "a new region is read")
    assert sorted(query.rows()) == sorted(xrange_rows(regions[3], "first", "second", "third"))


def test_effects_that_are_no_entries_make_no_batches(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    node = shared_regions[1]
    ids = append(node, stream, ({"n": n} for n in range(10)))
    node.client.xgroup_create(stream, "g", id="0")
    shared_regions.converge()
    query = Query(spark, folder, shared_regions, streams=stream)
    (batch,) = query.run()
    node.client.xreadgroup("g", "c", {stream: ">"})
    node.client.xack(stream, "g", *ids)
    append(node, f"other-{stream}", [{"n": 1}])
    shared_regions.converge()
    assert query.run() == []
    added = append(node, stream, [{"n": "last"}])
    shared_regions.converge()
    (batch,) = query.run()
    assert batch["rows"] == 1
    assert added[0] in {entry_id for _, entry_id, _ in query.rows()}


def trimmed_before_it_is_read(cluster: Cluster, query: Query, stream: str) -> list[str]:
    """The query has read some; what comes then is trimmed but for the last two."""
    append(cluster[1], stream, ({"n": n} for n in range(10)))
    cluster.converge()
    query.run()
    kept = append(cluster[1], stream, ({"n": n} for n in range(10)))[-2:]
    cluster[1].client.xtrim(stream, maxlen=2, approximate=False)
    cluster.converge()
    return kept


def test_trimming_what_was_not_read_ends_a_query(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    query = Query(spark, folder, shared_regions, streams=stream)
    trimmed_before_it_is_read(shared_regions, query, stream)
    with pytest.raises(Exception, match=f"(?s){stream}.*trimmed.*failOnDataLoss=false"):
        query.run()
    assert len(query.rows()) == 10


def test_a_query_goes_on_without_what_was_trimmed_if_it_is_told_to(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    query = Query(spark, folder, shared_regions, streams=stream, failOnDataLoss="false")
    kept = trimmed_before_it_is_read(shared_regions, query, stream)
    (batch,) = query.run()
    assert batch["rows"] == 2
    assert {entry_id for _, entry_id, _ in query.rows()} >= set(kept)


def test_trimming_what_was_read_is_no_loss(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    query = Query(spark, folder, shared_regions, streams=stream)
    append(shared_regions[1], stream, ({"n": n} for n in range(10)))
    shared_regions.converge()
    query.run()
    shared_regions[1].client.xtrim(stream, maxlen=0, approximate=False)
    append(shared_regions[1], stream, [{"n": "more"}])
    shared_regions.converge()
    assert [batch["rows"] for batch in query.run()] == [1]


@limits
def test_entries_trimmed_before_a_query_began_are_no_loss(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    """Not in its first batch, not in later ones, and not after a restart among them."""
    node = shared_regions[1]
    append(node, f"{stream}-a", ({"n": n} for n in range(30)))
    append(node, f"{stream}-b", ({"n": n} for n in range(100)))
    append(node, f"{stream}-a", ({"n": n} for n in range(10)))
    node.client.xtrim(f"{stream}-b", maxlen=10, approximate=False)
    shared_regions.converge()
    query = Query(spark, folder, shared_regions, streams=f"{stream}-*", maxEntriesPerTrigger=10)
    batches = query.run()
    assert [batch["rows"] for batch in batches] == [10] * 5
    assert f"{stream}-b/1" in batches[0]["end"]["lostBefore"]
    assert "lostBefore" not in batches[-1]["end"]

    # A restart behind the first batch.
    for number in range(4, 0, -1):
        query.forget_last_batch()
        (query.checkpoint / "offsets" / str(number)).unlink()
        (query.checkpoint / "offsets" / f".{number}.crc").unlink(missing_ok=True)
    assert [batch["rows"] for batch in query.run()] == [10] * 4
    assert sorted(query.rows()) == sorted(xrange_rows(node, f"{stream}-a", f"{stream}-b"))


def test_a_checkpoint_of_other_nodes_is_refused(
    spark: "SparkSession", shared_regions: Cluster, folder: Path, stream: str
) -> None:
    query = Query(
        spark,
        folder,
        shared_regions,
        streams=stream,
        startingOffsets='{"1": 999999999}',
        failoverSeconds="0.5",
    )
    with pytest.raises(Exception, match="another database, or were they set up again"):
        query.run()


def test_the_region_that_is_read_may_die_and_come_back(
    spark: "SparkSession", regions: Cluster, folder: Path
) -> None:
    """Others take over; what only the dead one had comes when it is back; each entry once."""
    for node in regions.nodes.values():
        append(node, "s", ({"n": n} for n in range(100)))
    regions.converge()
    query = Query(spark, folder, regions, failoverSeconds=20)
    with query.running() as running:

        def has_read(count: int) -> bool:
            assert running.exception() is None, running.exception()
            return len(query.rows()) >= count

        wait_until(lambda: has_read(300), "the regions are read")
        # Read at region 1, and known nowhere else.
        for number in (2, 3):
            regions[number].set_links(paused=True, peers=[1])
        append(regions[1], "s", ({"only": n} for n in range(5)))
        wait_until(lambda: has_read(305), "what only region 1 has is read")
        append(regions[1], "s", [{"unread": 1}])
        regions[1].end(signal.SIGKILL)
        append(regions[2], "s", ({"meanwhile": n} for n in range(5)))
        wait_until(lambda: has_read(310), "region 2 is read on, though it is behind")
        for number in (2, 3):
            regions[number].set_links(paused=False, peers=[1])
        regions[1].start()
        regions.converge()
        wait_until(lambda: has_read(311), "all is read")
    assert sorted(query.rows()) == sorted(xrange_rows(regions[3], "s"))
