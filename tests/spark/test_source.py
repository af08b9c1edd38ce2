"""``spark.read.format("crdtstream")`` on real regions: all entries of one cut, each once."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.cluster import Cluster, Node, vv_of
from tests.patience import LONG, seconds, wait_until
from tests.spark.conftest import QUICK_ENVIRONMENT, nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def reading(spark: "SparkSession", cluster: Cluster, **options: object) -> "DataFrame":
    given = {"nodes": nodes_of(cluster)} | {name: str(value) for name, value in options.items()}
    return spark.read.format("crdtstream").options(**given).load()


def append(node: Node, stream: str, rows: Iterable[dict[str, object]]) -> list[str]:
    """XADD all rows; returns their IDs."""
    pipeline = node.client.pipeline(transaction=False)
    for row in rows:
        pipeline.xadd(stream, row)
    return [entry_id.decode() for entry_id in pipeline.execute()]


def xrange_rows(node: Node, *streams: str) -> set[tuple[str, str, str]]:
    """(stream, ID, fields) of all entries, as a redis client reads them."""
    return {
        (stream, entry_id.decode(), json.dumps(decoded(fields), sort_keys=True))
        for stream in streams
        for entry_id, fields in node.client.xrange(stream)
    }


def decoded(fields: dict[bytes, bytes]) -> dict[str, str]:
    return {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in fields.items()
    }


def spark_rows(frame: "DataFrame") -> list[tuple[str, str, str]]:
    rows = frame.select("stream", "id", "fields").collect()
    return [(row.stream, row.id, json.dumps(row.fields, sort_keys=True)) for row in rows]


def told_by(error: "pytest.ExceptionInfo[Exception]") -> str:
    return str(error.value)


@pytest.fixture(scope="module")
def orders(shared_regions: Cluster) -> Cluster:
    """Regions with entries in several streams and lanes, all of them known everywhere."""
    for region, node in shared_regions.nodes.items():
        append(node, "orders", ({"n": n, "region": region} for n in range(500)))
        append(node, f"only-{region}", ({"n": n} for n in range(20)))
    shared_regions[1].client.xadd("bytes", {b"\xff\x00": b"\xc3("})
    shared_regions[2].client.xadd("tracked", {"a": 1}, idmp=("shop", "77"))
    shared_regions.converge()
    return shared_regions


ORDERS = ["orders", "only-1", "only-2", "only-3", "bytes", "tracked"]


def test_a_read_is_what_xrange_says(spark: "SparkSession", orders: Cluster) -> None:
    found = spark_rows(reading(spark, orders))
    assert set(found) >= xrange_rows(orders[3], *ORDERS)
    assert len(found) == len(set(found))


def test_every_column_tells_of_its_entry(spark: "SparkSession", orders: Cluster) -> None:
    vector = vv_of(orders[1].status())
    rows = reading(spark, orders, streams="orders").collect()
    assert len(rows) == 1_500
    for row in rows:
        assert row.id == f"{row.ms}-{row.seq}"
        assert row.seq % 1024 == row.origin == int(row.fields["region"])
        assert round(row.timestamp.timestamp() * 1000) == row.ms
        assert 1 <= row.dot <= vector[row.origin]
        assert (row.producer, row.idempotent_id) == (None, None)
    assert len({(row.origin, row.dot) for row in rows}) == 1_500
    (tracked,) = reading(spark, orders, streams="tracked").collect()
    assert (tracked.producer, tracked.idempotent_id) == ("shop", "77")


def test_bytes_are_text_or_bytes_as_asked(spark: "SparkSession", orders: Cluster) -> None:
    (text,) = reading(spark, orders, streams="bytes").collect()
    assert text.fields == {"\ufffd\x00": "\ufffd("}
    row = reading(spark, orders, streams="bytes", valueFormat="binary").selectExpr(
        "map_keys(fields) as names", "map_values(fields) as texts"
    )
    (binary,) = row.collect()
    assert ([bytes(b) for b in binary.names], [bytes(b) for b in binary.texts]) == (
        [b"\xff\x00"],
        [b"\xc3("],
    )


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"streams": "only-*"}, 60),
        ({"streams": "only-1,only-3"}, 40),
        ({"streams": "only-?", "regions": "2,3"}, 40),
        ({"streams": "orders", "regions": "2"}, 500),
        ({"streams": "none"}, 0),
        ({"streams": "orders", "endingId": "5"}, 0),
        ({"streams": "orders", "startingId": "7", "endingId": "5"}, 0),
        ({"streams": "orders", "startingTime": "2020-01-01", "endingTime": "2100-01-01"}, 1_500),
    ],
)
def test_options_say_what_is_read(
    spark: "SparkSession", orders: Cluster, options: dict[str, object], count: int
) -> None:
    assert reading(spark, orders, **options).count() == count


def test_bounds_by_id_are_inclusive(spark: "SparkSession", orders: Cluster) -> None:
    ids = [entry_id.decode() for entry_id, _ in orders[1].client.xrange("orders")]
    frame = reading(spark, orders, streams="orders", startingId=ids[10], endingId=ids[1_200])
    assert sorted(row.id for row in frame.select("id").collect()) == sorted(ids[10:1_201])


def test_a_cut_is_between_two_vectors(spark: "SparkSession", orders: Cluster) -> None:
    options = {"streams": "orders", "startingOffsets": '{"1": 100, "2": 450}'}
    frame = reading(spark, orders, **options, endingOffsets='{"1": 110, "2": 500}')
    assert {(row.origin, row.dot) for row in frame.collect()} == {
        *((1, n) for n in range(101, 111)),
        *((2, n) for n in range(451, 501)),
    }


@pytest.mark.parametrize("partitions", [2, 7, 12])
def test_partitions_are_as_many_as_asked_and_share_nothing(
    spark: "SparkSession", orders: Cluster, partitions: int
) -> None:
    frame = reading(spark, orders, streams="orders", minPartitions=partitions)
    assert partitions <= frame.rdd.getNumPartitions() <= 2 * partitions
    found = spark_rows(frame)
    assert len(found) == 1_500
    assert set(found) == xrange_rows(orders[1], "orders")


def test_many_small_streams_share_a_task(spark: "SparkSession", orders: Cluster) -> None:
    pipeline = orders[1].client.pipeline(transaction=False)
    for n in range(300):
        pipeline.xadd(f"small:{n}", {"n": n})
    pipeline.execute()
    frame = reading(spark, orders, streams="small:*", nodes=orders[1].grpc_address)
    assert frame.rdd.getNumPartitions() == 1
    assert {row.stream for row in frame.collect()} == {f"small:{n}" for n in range(300)}


FILTERS = [
    "stream = 'orders'",
    "stream in ('only-1', 'only-2')",
    "stream like 'only-%' and not stream = 'only-2'",
    "stream like '%-3' or origin = 1",
    "stream != 'orders'",
    "origin = 2",
    "origin in (1, 3) and stream > 'only-2'",
    "origin >= 2 and origin <= 9",
    "origin is null",
    "ms >= {ms} and stream = 'orders'",
    "ms < {ms}",
    "ms in ({ms}, {ms} + 1)",
    "ms is not null and ms <> {ms}",
    "timestamp > timestamp_millis({ms})",
    "timestamp <= timestamp_millis({ms})",
    "timestamp = timestamp_millis({ms})",
    "timestamp >= timestamp_micros({ms} * 1000 + 1)",
    "timestamp < timestamp_micros({ms} * 1000 - 1)",
    "timestamp > '2100-01-01'",
    "id = '{id}'",
    "id in ('{id}', '5-1', 'nonsense')",
    "id = '0{id}'",
    "id > '{id}'",
    "seq = 1025",
    "seq in (1, 2, 3)",
    "dot > 480 and dot <= 510",
    "dot = 7",
    "dot between 490 and 470",
    "fields['n'] = '7' and origin = 3",
    "ms < 0",
    "stream = 'orders' and ms > 9223372036854775806",
]


# What a source takes over, what it takes over in part, and what it cannot.
FILTERS_WITHOUT_PUSHDOWN = (
    "id in ('{id}', '5-1', 'nonsense')",
    "ms in ({ms}, {ms} + 1)",
    "fields['n'] = '7' and origin = 3",
)


def condition_of(text: str, orders: Cluster) -> str:
    """A filter's text with an entry from the middle of ``orders``."""
    middle = orders[1].client.xrange("orders")[700][0].decode()
    return text.format(ms=middle.split("-")[0], id=middle)


def orders_read(spark: "SparkSession", orders: Cluster) -> "DataFrame":
    return reading(spark, orders).where("stream not like 'small:%'")


@pytest.fixture(scope="module")
def expected(spark: "SparkSession", orders: Cluster) -> dict[str, list[tuple[str, str, str]]]:
    """Rows that meet each filter, as Spark evaluates it on rows that are no source's."""
    frame = orders_read(spark, orders)
    rows = spark.createDataFrame(frame.collect(), frame.schema)
    conditions = [f"({condition_of(text, orders)}) as `{n}`" for n, text in enumerate(FILTERS)]
    told = rows.selectExpr("stream", "id", "fields", *conditions).collect()
    assert len(told) > 1_500
    return {
        text: sorted(
            (row.stream, row.id, json.dumps(row.fields, sort_keys=True))
            for row in told
            if row[str(n)]
        )
        for n, text in enumerate(FILTERS)
    }


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_finds_the_same_wherever_it_is_evaluated(
    spark: "SparkSession",
    orders: Cluster,
    expected: dict[str, list[tuple[str, str, str]]],
    text: str,
) -> None:
    assert spark.conf.get(PUSHDOWN) == "true"
    found = orders_read(spark, orders).where(condition_of(text, orders))
    assert sorted(spark_rows(found)) == expected[text]


@pytest.mark.parametrize("text", FILTERS_WITHOUT_PUSHDOWN)
def test_a_filter_that_is_not_pushed_down_finds_the_same(
    spark: "SparkSession",
    orders: Cluster,
    expected: dict[str, list[tuple[str, str, str]]],
    text: str,
) -> None:
    spark.conf.set(PUSHDOWN, "false")
    try:
        found = orders_read(spark, orders).where(condition_of(text, orders))
        assert sorted(spark_rows(found)) == expected[text]
    finally:
        spark.conf.set(PUSHDOWN, "true")


# A step of Spark's own, with code generated for it or not.
FILTERING = re.compile(r"^[ :+-]*(?:\*\(\d+\) )?Filter ", re.MULTILINE)


def plan_of(frame: "DataFrame") -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_filters_that_are_taken_over_are_not_evaluated_again(
    spark: "SparkSession", orders: Cluster
) -> None:
    frame = reading(spark, orders)
    exact = frame.where("stream = 'orders' and origin = 2 and ms > 5 and dot > 3 and id = '5-2'")
    assert not FILTERING.search(plan_of(exact))
    assert FILTERING.search(plan_of(frame.where("ms in (5, 7)")))
    # What is taken over only in part still bounds what is read: nothing at all here.
    assert frame.where("ms in (5, 7)").rdd.getNumPartitions() <= 1
    assert FILTERING.search(plan_of(frame.where("fields['n'] = '7'")))


def test_fields_become_typed_columns(spark: "SparkSession", orders: Cluster) -> None:
    frame = (
        spark.read.format("crdtstream")
        .schema("stream STRING, n INT, region DOUBLE, missing DATE, id STRING")
        .options(nodes=nodes_of(orders), streams="orders")
        .load()
    )
    rows = frame.collect()
    assert {(row.n, row.region) for row in rows} == {
        (n, float(region)) for n in range(500) for region in (1, 2, 3)
    }
    assert {(row.stream, row.missing) for row in rows} == {("orders", None)}
    assert {row.id for row in rows} == {i for _, i, _ in xrange_rows(orders[2], "orders")}


@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST", "dropmalformed"])
def test_a_bad_value_is_null_an_error_or_a_row_less(
    spark: "SparkSession", orders: Cluster, mode: str
) -> None:
    stream = f"bad-{mode}"
    good, bad = append(orders[1], stream, [{"v": "17"}, {"v": "seventeen"}])
    frame = (
        spark.read.format("crdtstream")
        .schema("id STRING, v INT")
        .options(nodes=orders[1].grpc_address, streams=stream, mode=mode)
        .load()
    )
    if mode == "FAILFAST":
        with pytest.raises(Exception, match="seventeen") as error:
            frame.collect()
        for part in (stream, bad, "'v'"):
            assert part in told_by(error)
        return
    found = [(row.id, row.v) for row in frame.collect()]
    assert found == [(good, 17)] + ([(bad, None)] if mode == "PERMISSIVE" else [])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"nodes": "nowhere"}, "not host:port"),
        ({"endingtiem": "5"}, "did you mean 'endingTime'"),
        ({"maxEntriesPerTrigger": "5"}, "is for readStream"),
        ({"startingOffsets": "latest"}, "is for readStream"),
        ({"endingOffsets": '{"1": 999999}', "failoverSeconds": "0.2"}, "behind"),
        ({"nodes": "127.0.0.1:1", "failoverSeconds": "0.2"}, "Start the nodes"),
    ],
)
def test_impossible_reads_get_an_error(
    spark: "SparkSession", orders: Cluster, options: dict[str, object], told: str
) -> None:
    with pytest.raises(Exception, match=re.escape(told)):
        reading(spark, orders, **options).collect()


def test_a_type_that_no_field_has_is_told(spark: "SparkSession", orders: Cluster) -> None:
    frame = (
        spark.read.format("crdtstream")
        .schema("a ARRAY<STRING>")
        .options(nodes=nodes_of(orders))
        .load()
    )
    with pytest.raises(Exception, match=r"'a' is array<string>; a field can be"):
        frame.collect()


def test_the_format_is_found_without_registration() -> None:
    """By a session that knows nothing of us, with this Python."""
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".getOrCreate()\n"
        "print(spark.read.format('crdtstream').option('nodes', 'a:1').load().columns)\n"
    )
    from crdtstream.spark.java import find_java

    environment = {"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}
    environment |= QUICK_ENVIRONMENT
    outcome = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds(LONG),
        check=False,
    )
    assert "'stream', 'id', 'timestamp'" in outcome.stdout, outcome.stderr


def test_the_region_that_is_read_may_be_killed(spark: "SparkSession", regions: Cluster) -> None:
    """Each entry comes once all the same: the others go on where it was."""
    value = "x" * 2_000
    for region, node in regions.nodes.items():
        append(node, "large", ({"n": n, "r": region, "v": value} for n in range(4_000)))
    regions.converge()
    expected = {i for _, i, _ in xrange_rows(regions[2], "large")}

    frame = reading(spark, regions, streams="large", minPartitions=2)

    def kill_it_once_it_is_read(rows: Any) -> Any:
        """In the task: the first rows are here, and most are not."""
        for at, row in enumerate(rows):
            if at == 100:
                Path(flag).touch()
            yield row.id

    flag = regions[1].folder / "being-read"
    killer = threading.Thread(target=_kill_when, args=(flag, regions[1]))
    killer.start()
    found = frame.select("id").rdd.mapPartitions(kill_it_once_it_is_read).collect()
    killer.join()

    assert regions[1].process is None, "it was not killed while it was read"
    assert len(found) == 12_000
    assert set(found) == expected


def _kill_when(flag: Path, node: Node) -> None:
    wait_until(flag.exists, "the region is being read")
    node.end(signal.SIGKILL)
