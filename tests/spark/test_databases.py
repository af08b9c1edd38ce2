"""A database that is set up again under its old name is another one, and nothing takes it for the
one before: archives, checkpoints, replays, reports, tasks that go on elsewhere.

    node 1   fifty entries, which are archived and read;  set up again:  two hundred entries
    node 2   on its own, a database of the same name
"""

import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from crdtstream.cli.pipeline import app
from crdtstream.spark.entries import default_schema
from crdtstream.spark.jobs.archive import ArchiveOptions, archive
from crdtstream.spark.jobs.replay import ReplayError, ReplayOptions, replay
from crdtstream.spark.jobs.report import ReportError, ReportOptions, report
from crdtstream.spark.nodes import Nodes, NodesError, OtherDatabaseError
from crdtstream.spark.options import NodesOptions, Security, SourceOptions, ValueFormat
from crdtstream.spark.source import EntriesReader
from tests.live.cluster import Cluster, Node, cluster_of
from tests.spark.test_stream_source import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

STREAM = "s"


@dataclass(frozen=True, slots=True)
class Anew:
    """Nodes and files after the database was set up again.

    Attributes:
        cluster: the node that was set up again, and one that has a database of its own.
        before, now: identities of the first node's databases.
        archive: folder of an archive of the database before, and of a replay of it, ``named``,
            which went into that database.
        query: has a checkpoint of the database before.
    """

    cluster: Cluster
    before: str
    now: str
    archive: Path
    query: Query

    @property
    def node(self) -> Node:
        return self.cluster[1]

    @property
    def nodes(self) -> NodesOptions:
        return nodes_at(self.node)


def nodes_at(*nodes: Node, seconds: float = 20.0) -> NodesOptions:
    return NodesOptions(tuple(node.grpc_address for node in nodes), Security(), seconds)


def fill(node: Node, count: int) -> None:
    with node.client.pipeline(transaction=False) as pipeline:
        for number in range(count):
            pipeline.xadd(STREAM, {"number": number})
        pipeline.execute()


@pytest.fixture(scope="module")
def anew(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anew]:
    folder = tmp_path_factory.mktemp("anew")
    with cluster_of(2, folder) as cluster:
        for node in cluster.nodes.values():
            node.configure({})
        node = cluster[1]
        node.start()
        fill(node, 50)
        before = node.status().database_uid
        query = Query(spark, folder, cluster, streams=STREAM, nodes=node.grpc_address)
        path = folder / "archive"
        options = ArchiveOptions(nodes_at(node), str(path), (STREAM.encode(),))
        assert archive(spark, options).entries == 50
        named = ReplayOptions(nodes_at(node), str(path), target=b"copy", replay_id="named")
        assert replay(spark, named).entries == 50
        assert sum(batch["rows"] for batch in query.run()) == 50
        node.end(signal.SIGKILL)
        shutil.rmtree(node.folder)
        node.start("--new-database")
        fill(node, 200)
        yield Anew(cluster, before, node.status().database_uid, path, query)


def content_of(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_tells(error: object, *parts: str) -> None:
    for part in parts:
        assert part in str(error)


# --- What is refused ----------------------------------------------------------------------------


def test_an_archive_of_the_database_before_is_refused_and_stays_as_it_is(
    spark: "SparkSession", anew: Anew
) -> None:
    assert anew.now != anew.before
    archived = content_of(anew.archive)
    words = ["archive", str(anew.archive), "--streams", STREAM, "--trim-older-than", "0"]

    result = CliRunner().invoke(app, [*words, "--address", anew.node.grpc_address, "--json"])

    assert (result.exit_code, result.stdout) == (1, "")
    assert_tells(result.stderr, anew.before, anew.now, "choose another folder")
    assert content_of(anew.archive) == archived
    assert anew.node.client.xlen(STREAM) == 200


def test_a_query_with_a_checkpoint_of_the_database_before_is_refused(anew: Anew) -> None:
    with pytest.raises(Exception, match="begin with a new checkpoint") as error:
        anew.query.run()
    assert_tells(error.value, anew.before, anew.now)
    assert len(anew.query.rows()) == 50


def test_a_replay_that_was_begun_in_the_database_before_does_not_go_on_in_another(
    spark: "SparkSession", anew: Anew
) -> None:
    options = ReplayOptions(anew.nodes, str(anew.archive), target=b"copy", replay_id="named")
    with pytest.raises(ReplayError, match="give another replay_id") as error:
        replay(spark, options)
    assert_tells(error.value, anew.before, anew.now)
    assert anew.node.client.xlen("copy") == 0


def test_an_archive_is_replayed_into_any_database_once(spark: "SparkSession", anew: Anew) -> None:
    """Without a name the replay is another one in each."""
    options = ReplayOptions(anew.nodes, str(anew.archive), prefix=b"of-before-")
    first, second = replay(spark, options), replay(spark, options)
    assert (first.entries, second.entries) == (50, 0)
    assert (first.replay_id, first.database_uid) == (second.replay_id, anew.now)

    anew.cluster[2].start()
    elsewhere = replay(spark, replace(options, nodes=nodes_at(anew.cluster[2])))
    anew.cluster[2].end(signal.SIGKILL)
    assert elsewhere.entries == 50
    assert elsewhere.replay_id != first.replay_id


def test_a_report_does_not_mix_an_archive_with_regions_of_another_database(
    spark: "SparkSession", anew: Anew, tmp_path: Path
) -> None:
    output = tmp_path / "report"
    options = ReportOptions(anew.nodes, str(output), archive=str(anew.archive), sample_seconds=0.0)
    with pytest.raises(ReportError) as error:
        report(spark, options)
    assert_tells(error.value, anew.before, anew.now)
    assert not output.exists()


def test_nodes_of_two_databases_are_refused(
    spark: "SparkSession", anew: Anew, tmp_path: Path
) -> None:
    anew.cluster[2].start()
    both = nodes_at(*anew.cluster.nodes.values())
    uids = [node.status().database_uid for node in anew.cluster.nodes.values()]
    frame = spark.read.format("crdtstream").option("nodes", ",".join(both.addresses)).load()
    asks: list[Callable[[], Any]] = [
        frame.count,
        lambda: archive(spark, ArchiveOptions(both, str(tmp_path / "archive"))),
        lambda: replay(spark, ReplayOptions(both, str(anew.archive), target=b"no")),
    ]
    for ask in asks:
        with pytest.raises(Exception, match="regions of different databases") as error:
            ask()
        assert_tells(error.value, *uids, "name nodes of one database")
    anew.cluster[2].end(signal.SIGKILL)


def test_a_failover_to_a_node_of_another_database_is_refused(anew: Anew) -> None:
    """It was away when the work was planned."""
    one, other = anew.cluster.nodes.values()
    addresses = f"{one.grpc_address},{other.grpc_address}"
    options = SourceOptions.parse({"nodes": addresses, "streams": STREAM})
    reader = EntriesReader(default_schema(ValueFormat.STRING), options)
    (partition,) = reader.partitions()
    with Nodes.of(options.nodes) as nodes:
        nodes.streams()
        one.end(signal.SIGKILL)
        other.start()
        asks: list[Callable[[], Any]] = [lambda: list(reader.read(partition)), nodes.streams]
        try:
            for ask in asks:
                with pytest.raises(OtherDatabaseError, match="name nodes") as error:
                    ask()
                assert_tells(error.value, anew.now, other.status().database_uid)
        finally:
            other.end(signal.SIGKILL)
            one.start()


def test_a_node_that_does_not_know_its_database_yet_is_not_read(tmp_path: Path) -> None:
    """Its peer has never been there."""
    with cluster_of(2, tmp_path) as cluster:
        cluster.configure()
        cluster[1].launch()
        cluster[1].wait(for_writes=False)
        address = cluster[1].grpc_address
        for known in ("", "5f0c" * 8):
            options = replace(nodes_at(cluster[1], seconds=0.2), database_uid=known)
            with (
                Nodes.of(options) as nodes,
                pytest.raises(NodesError, match=r"within 0\.2 s") as error,
            ):
                nodes.streams()
            assert_tells(error.value, address, "none yet" if known else "no identity yet")
