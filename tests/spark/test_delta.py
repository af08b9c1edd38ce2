"""`pipeline archive --format delta` with the real Delta Lake, whose jars Spark gets from Maven."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from crdtstream.spark.jobs.archive import ArchiveError, ArchiveFormat, archive, verify
from crdtstream.spark.jobs.archive_layout import label_of
from crdtstream.spark.jobs.replay import ReplayOptions, replay
from crdtstream.spark.session import is_running, make_session
from tests.conftest import require
from tests.live.cluster import Cluster
from tests.spark.conftest import TEST_CONF, TEST_MASTER, require_spark
from tests.spark.test_archive import options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pyspark = pytest.importorskip("pyspark")

DELTA_VERSION: Final = "4.4.0"
# Versions of Spark for which Delta Lake of that version is published.
SPARKS_OF_DELTA: Final = ("4.1", "4.2")
SPARK_VERSION: Final = ".".join(pyspark.__version__.split(".")[:2])

pytestmark = [
    pytest.mark.live,
    pytest.mark.long,
    pytest.mark.skipif(
        SPARK_VERSION not in SPARKS_OF_DELTA,
        reason=f"Delta Lake {DELTA_VERSION} is for Spark {' and '.join(SPARKS_OF_DELTA)};"
        " make test-spark-oldest",
    ),
]

CONF: Final = {
    "spark.jars.packages": f"io.delta:delta-spark_{SPARK_VERSION}_2.13:{DELTA_VERSION}",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    **TEST_CONF,
}
# A name that no folder can have as it is.
KEY: Final = b"orders/\xff"


@pytest.fixture(scope="module")
def spark() -> Iterator["SparkSession"]:
    """A session with Delta Lake: only one that is started with its jars has it."""
    require_spark()
    require(not is_running(), "run this file by itself: a Spark session without Delta Lake runs")
    try:
        session = make_session("crdtstream-delta", master=TEST_MASTER, conf=CONF)
    except Exception as error:
        # What Java says of jars that it did not get is on stderr.
        require(False, f"{CONF['spark.jars.packages']} cannot be had from Maven: {error}")
        raise
    yield session
    session.stop()


def add(cluster: Cluster, key: bytes, count: int) -> None:
    for node in cluster.nodes.values():
        for number in range(count):
            node.client.xadd(key, {"number": number})
    cluster.converge()


def test_streams_go_to_a_table_and_back(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = replace(options_of(shared_regions, tmp_path, b"orders*"), format=ArchiveFormat.DELTA)
    add(shared_regions, KEY, 10)
    first = archive(spark, options)
    assert (first.entries, first.entries_total) == (30, 30)

    # Killed when the table and the state had the last batch, and Spark's checkpoint did not.
    for name in ("0", ".0.crc"):
        (tmp_path / "_archive" / "checkpoint" / "commits" / name).unlink()
    add(shared_regions, KEY, 5)
    add(shared_regions, b"orders-plain", 1)
    second = archive(spark, replace(options, trim_older_than_seconds=0.0))
    assert (second.entries, second.entries_total, second.trimmed) == (18, 48, 48)
    assert shared_regions[1].client.xlen(KEY) == 0

    rows = spark.read.format("delta").load(str(tmp_path))
    assert {row.stream for row in rows.select("stream").distinct().collect()} == {
        label_of(KEY),
        label_of(b"orders-plain"),
    }
    assert rows.select("id").distinct().count() == rows.count() == 48
    assert verify(spark, str(tmp_path)).faults == ()
    back = replay(spark, ReplayOptions(options.nodes, str(tmp_path), target=b"again"))
    assert back.entries == 48
    shared_regions.converge()
    numbers = [int(fields[b"number"]) for _, fields in shared_regions[2].client.xrange("again")]
    assert sorted(numbers) == sorted([*range(10)] * 3 + [*range(5)] * 3 + [0] * 3)


def test_a_batch_that_the_state_did_not_get_is_in_the_table_once(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after Delta Lake's commit; it knows the batch by its number when it comes again."""
    options = replace(options_of(shared_regions, tmp_path, b"cut"), format=ArchiveFormat.DELTA)
    add(shared_regions, b"cut", 5)

    def killed(*_: object, **__: object) -> None:
        raise ArchiveError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("crdtstream.spark.jobs.delta.check_in_table", killed)
        with pytest.raises(ArchiveError, match="killed"):
            archive(spark, options)
    assert spark.read.format("delta").load(str(tmp_path)).count() == 15

    assert archive(spark, options).entries_total == 15
    assert spark.read.format("delta").load(str(tmp_path)).count() == 15
    assert verify(spark, str(tmp_path)).faults == ()


def test_nothing_is_trimmed_that_a_table_has_lost(
    spark: "SparkSession", shared_regions: Cluster, tmp_path: Path
) -> None:
    options = replace(options_of(shared_regions, tmp_path, b"kept"), format=ArchiveFormat.DELTA)
    add(shared_regions, b"kept", 10)
    assert archive(spark, options).entries == 30
    lost = next(tmp_path.glob("stream=kept/*/*.parquet"))
    lost.unlink()

    with pytest.raises(ArchiveError, match="Nothing was trimmed"):
        archive(spark, replace(options, trim_older_than_seconds=0.0))

    assert shared_regions[1].client.xlen("kept") == 30
