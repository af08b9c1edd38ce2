"""Spark on a closed set-up: mutual TLS on the gRPC port, and a user of few rights.

Every way to the nodes is gone once: read, stream, sink, archive, replay, report, audit, failover.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from crdtstream.cli.pipeline import app as pipeline
from crdtstream.spark.jobs.failures import SPARK_ERRORS, told
from tests.live.closed import Closed, closed_regions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    with closed_regions(3, tmp_path_factory.mktemp("closed")) as closed:
        for region, node in closed.cluster.nodes.items():
            for n in range(4):
                node.client.xadd(f"orders:{region}", {"n": n})
            node.client.xadd("salaries", {"who": "everybody"})
        closed.cluster.converge()
        yield closed


def options_of(closed: Closed, user: str | None = "etl", **differs: str) -> dict[str, str]:
    """Options of the source and the sink: a reader's certificate, and perhaps a user."""
    paths = closed.reader.paths
    login = {"user": user, "passwordFile": str(closed.password_file())} if user else {}
    return {
        "nodes": closed.addresses,
        "tlsCertFile": str(paths.certificate),
        "tlsKeyFile": str(paths.key),
        "tlsCaCertFile": str(paths.ca),
        **login,
        **differs,
    }


def read(spark: "SparkSession", closed: Closed, streams: str, **differs: Any) -> "DataFrame":
    given = options_of(closed, **differs)
    return spark.read.format("crdtstream").options(**given, streams=streams).load()


def run(closed: Closed, *words: str, user: str = "etl") -> Result:
    """A command of ``pipeline``, with the options that all commands have."""
    presented = (*closed.reader.options, "--user", user)
    at = ("--address", closed.addresses, "--password-file", str(closed.password_file()))
    return CliRunner().invoke(pipeline, [*words, *at, *presented])


# --- Reading ------------------------------------------------------------------------------------


def test_a_user_reads_the_streams_that_it_may_read(spark: "SparkSession", closed: Closed) -> None:
    rows = read(spark, closed, "orders:*").collect()
    assert sorted((row.origin, row.fields["n"]) for row in rows) == [
        (region, str(n)) for region in (1, 2, 3) for n in range(4)
    ]


def test_a_readers_certificate_alone_reads_everything(
    spark: "SparkSession", closed: Closed
) -> None:
    assert read(spark, closed, "salaries", user=None).count() == 3


@pytest.mark.parametrize(
    ("user", "streams", "said"),
    [
        ("etl", "salaries", "this user may not run XRANGE on 1 of 1 keys"),
        ("etl", "*", "this user may not run XRANGE on 1 of 4 keys"),
        ("writer", "orders:1", "this user may not run XRANGE on 1 of 1 keys"),
    ],
)
def test_a_right_too_few_is_named(
    spark: "SparkSession", closed: Closed, user: str, streams: str, said: str
) -> None:
    with pytest.raises(SPARK_ERRORS) as error:
        read(spark, closed, streams, user=user).count()
    assert said in told(error.value)
    assert "give it the right" in told(error.value)


def test_a_wrong_password_is_told_with_the_options_that_carry_it(
    spark: "SparkSession", closed: Closed, tmp_path: Path
) -> None:
    wrong = tmp_path / "password"
    wrong.write_text("guessed\n")
    with pytest.raises(SPARK_ERRORS) as error:
        read(spark, closed, "orders:*", passwordFile=str(wrong)).count()
    assert "user or password is wrong: give the options user and passwordFile" in told(error.value)
    assert "guessed" not in str(error.value)


def test_without_the_authority_nothing_is_sent(spark: "SparkSession", closed: Closed) -> None:
    other = closed.folder / "other"
    if not other.exists():
        closed.authority.run("init", str(other))
    with pytest.raises(SPARK_ERRORS) as error:
        read(
            spark, closed, "orders:*", tlsCaCertFile=str(other / "ca.pem"), failoverSeconds="0.5"
        ).count()
    assert "a certificate of an authority in tlsCaCertFile" in told(error.value)


# --- Streams ------------------------------------------------------------------------------------


def test_a_query_copies_a_stream(spark: "SparkSession", closed: Closed, tmp_path: Path) -> None:
    """From ``readStream`` through the sink, with the rights to read, append, and no others."""
    source = (
        spark.readStream.format("crdtstream")
        .options(**options_of(closed), streams="orders:1,orders:2,orders:3")
        .load()
    )
    sink = (
        source.select("fields")
        .writeStream.format("crdtstream")
        .options(**options_of(closed), stream="orders:copy", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
    )
    query = sink.start()
    assert query.awaitTermination(200)
    assert query.exception() is None
    closed.cluster.converge()
    assert closed[2].client.xlen("orders:copy") == 12


def test_a_user_that_may_only_read_writes_nothing(spark: "SparkSession", closed: Closed) -> None:
    rows = spark.createDataFrame([("x",)], "n string")
    with pytest.raises(SPARK_ERRORS) as error:
        rows.write.format("crdtstream").options(
            **options_of(closed, user="reader"), stream="orders:refused"
        ).mode("append").save()
    assert "this user may not run XADD on 1 of 1 keys" in told(error.value)
    assert closed[1].client.exists("orders:refused") == 0


def test_a_user_that_may_write_needs_no_right_to_read(
    spark: "SparkSession", closed: Closed
) -> None:
    rows = spark.createDataFrame([("x",), ("y",)], "n string")
    rows.write.format("crdtstream").options(
        **options_of(closed, user="writer"), stream="orders:written"
    ).mode("append").save()
    closed.cluster.converge()
    assert closed[3].client.xlen("orders:written") == 2


# --- Jobs ---------------------------------------------------------------------------------------


def test_a_stream_goes_to_an_archive_and_back(
    spark: "SparkSession", closed: Closed, tmp_path: Path
) -> None:
    archive = str(tmp_path / "archive")
    archived = run(closed, "archive", archive, "--streams", "orders:1", "--json")
    assert archived.exit_code == 0, archived.stderr
    assert json.loads(archived.stdout)["entries"] == 4
    replayed = run(closed, "replay", archive, "--to-stream", "orders:again", "--json")
    assert replayed.exit_code == 0, replayed.stderr
    assert json.loads(replayed.stdout)["entries"] == 4
    refused = run(closed, "archive", str(tmp_path / "b"), "--streams", "salaries", "--json")
    assert refused.exit_code == 1, refused.stderr
    assert "this user may not run" in refused.stderr


def test_an_audit_and_a_report(spark: "SparkSession", closed: Closed, tmp_path: Path) -> None:
    closed.cluster.converge()
    words = ("audit", "--streams", "orders:1", "--out", "", "--json")
    refused = run(closed, *words)
    assert refused.exit_code == 1, refused.stderr
    assert "give the user the right +info" in refused.stderr
    audited = run(closed, *words, user="auditor")
    assert audited.exit_code == 0, audited.stderr
    assert json.loads(audited.stdout)["regions"] == [1, 2, 3]
    page = ("report", str(tmp_path / "page"), "--field", "n", "--sample", "1")
    reported = run(closed, *page, "--streams", "orders:1", "--json", user="auditor")
    assert reported.exit_code == 0, reported.stderr
    assert json.loads(reported.stdout)["entries"] == 4


# --- Failover -----------------------------------------------------------------------------------


def test_a_read_goes_on_in_another_region(spark: "SparkSession", closed: Closed) -> None:
    """The last test, as it ends a region."""
    closed.cluster.converge()
    expected = closed[2].client.xlen("orders:1")
    closed[1].end(signal.SIGKILL)
    try:
        assert read(spark, closed, "orders:1").count() == expected
    finally:
        closed[1].start()
