"""A region's folder is put back to a backup, and gives numbers again that Spark had read.

What was read of the lost folder is told as lost; what has these numbers now is read, all of it.
"""

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crdtstream.spark.jobs.archive import ArchiveError, archive, verify
from crdtstream.spark.jobs.archive_state import load
from crdtstream.spark.jobs.audit import AuditOptions, audit
from crdtstream.spark.jobs.folder import LocalFolder
from crdtstream.spark.jobs.regions import Regions, RegionsError
from crdtstream.spark.jobs.replay import ReplayError, ReplayOptions, replay
from crdtstream.spark.vectors import Vector, join
from tests.live.cluster import Cluster, running_regions, vv_of
from tests.spark.test_archive import add, nodes_options, options_of
from tests.spark.test_stream_source import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

LOST = "LOST region 1 goes on in another folder, which began after its effect 10; of its effects 11"
STREAM = b"s"


class Restored:
    """Two regions; what region 1 had since a backup is nowhere else when its folder is lost."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._backup = folder / "backup"
        self.kept = add(cluster, 1, STREAM, range(10))
        cluster.converge()
        cluster[1].end()
        shutil.copytree(cluster[1].folder, self._backup)
        cluster[1].start()
        cluster[2].set_links(paused=True)
        self.lost = add(cluster, 1, STREAM, range(10, 15))
        self.new: list[str] = []

    def put_back(self, *, entries: int) -> None:
        """The backup takes the folder's place, and numbers its entries from 1:11 on."""
        node = self.cluster[1]
        node.end(signal.SIGKILL)
        shutil.rmtree(node.folder)
        shutil.copytree(self._backup, node.folder)
        self.cluster[2].set_links(paused=False)
        node.start()
        self.write(entries)

    def write(self, entries: int) -> None:
        self.new += add(self.cluster, 1, STREAM, range(100, 100 + entries))
        self.cluster.converge()
        assert vv_of(self.cluster[2].status())[1] == 10 + len(self.new)


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Restored]:
    with running_regions(2, tmp_path) as cluster:
        yield Restored(cluster, tmp_path)


def test_a_query_that_had_read_what_is_lost_is_told_and_reads_all_that_is_new(
    spark: "SparkSession", restored: Restored, tmp_path: Path
) -> None:
    query = Query(spark, tmp_path / "query", restored.cluster, failoverSeconds=20)
    query.run()
    assert len(query.rows()) == 15
    restored.put_back(entries=7)

    with pytest.raises(Exception, match=f"(?s){LOST}.*names 5 of them.*failOnDataLoss=false"):
        query.run()
    assert len(query.rows()) == 15
    query.options["failOnDataLoss"] = "false"
    batches = query.run()
    assert {entry_id for _, entry_id, _ in query.rows()} == {
        *restored.kept,
        *restored.lost,
        *restored.new,
    }
    assert len(query.rows()) == 10 + 5 + 7
    assert [batch["rows"] for batch in batches] == [7]
    assert batches[-1]["latest"].get("lostEffects", {"1": 5}) == {"1": 5}
    # From here on it names the folder that the region goes on in, and is told no more.
    assert str(batches[-1]["end"]["1"]).startswith("17@")
    query.options["failOnDataLoss"] = "true"
    restored.write(2)
    assert [batch["rows"] for batch in query.run()] == [2]


def test_an_archive_that_holds_what_is_lost_is_told_and_gets_all_that_is_new(
    spark: "SparkSession", restored: Restored, tmp_path: Path
) -> None:
    path = tmp_path / "archive"
    options = options_of(restored.cluster, path, STREAM)
    assert archive(spark, options).entries == 15
    begun = ReplayOptions(options.nodes, path=str(path), prefix=b"copy-", replay_id="begun")
    assert replay(spark, begun).entries == 15
    # As after a kill: nothing is known of how far it was.
    shutil.rmtree(path / "_archive" / "replays" / "begun" / "done")
    restored.put_back(entries=3)

    # Dots of the lost folder trim nothing.
    trimming = replace(options, trim_older_than_seconds=0)
    with pytest.raises(ArchiveError, match=LOST):
        archive(spark, trimming)
    assert restored.cluster[1].client.xlen(STREAM) == 13
    # It was told while the new entries were fewer than the lost ones, and goes on.
    bearing = replace(options, fail_on_data_loss=False)
    assert archive(spark, bearing).entries == 3
    assert archive(spark, options).entries == 0
    state = load(LocalFolder(path))
    assert state is not None
    assert dict(state.beyond) == {1: 15}
    # The plan of before would take entries of both folders for the same.
    with pytest.raises(ReplayError, match=r"still to be appended\. Give another replay_id"):
        replay(spark, begun)
    small = replace(begun, replay_id="small")
    assert replay(spark, small).entries == 18
    assert verify(spark, str(path)).faults == ()
    # Of what it has now all may go.
    assert archive(spark, trimming).trimmed == 13


def test_an_audit_compares_the_folder_that_goes_on_and_no_other(
    spark: "SparkSession", restored: Restored
) -> None:
    nodes = nodes_options(restored.cluster)
    with Regions(nodes) as regions:
        cut = join(regions.applied().values())
    restored.put_back(entries=7)
    # An audit that began before: both regions have as many effects, and they are others.
    with Regions(nodes) as regions, pytest.raises(RegionsError, match=LOST):
        regions.wait_until_durable(cut, seconds_max=20)
    outcome = audit(spark, AuditOptions(nodes, streams=(STREAM,)))
    assert outcome.clean
    assert outcome.entries == 17
    assert isinstance(outcome.cut, Vector)
    assert "1:17@" in outcome.cut.token
