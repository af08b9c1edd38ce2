"""Jobs on a cluster: where workers do not share the folder, nothing is lost, and it is told."""

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from crdtstream.spark.jobs.archive_state import load
from crdtstream.spark.jobs.folder import LocalFolder
from tests.conftest import free_base_port, require
from tests.live.cluster import Node, running_regions
from tests.patience import wait_until
from tests.spark.clustered import SparkCluster, can_isolate, spark_cluster
from tests.spark.conftest import require_spark

pytestmark = pytest.mark.live

ENTRIES = 302
STREAM = "flights"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    require_spark()
    require(can_isolate(), "unshare --mount is not permitted here: run as root")
    folder, port = tmp_path_factory.mktemp("cluster"), free_base_port(1) + 1
    with spark_cluster(folder, port) as running:
        # The worker comes while the program starts.
        log = folder / "master.log"
        wait_until(lambda: "elected leader" in log.read_text(), "Spark's master")
        yield running


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_regions(1, tmp_path_factory.mktemp("region")) as regions:
        yield regions[1]


@pytest.fixture(scope="module")
def outcomes(cluster: SparkCluster, region: Node) -> dict[str, dict[str, Any]]:
    """Outcomes of the jobs, run one after the other: entries that one removes, no later one has."""
    with region.client.pipeline(transaction=False) as pipeline:
        for number in range(ENTRIES):
            pipeline.xadd(STREAM, {"number": number})
        pipeline.execute()
    return cluster.run(
        *[f"apart/{job}" for job in ("trim", "audit", "report", "unprobed")],
        "shared/trim",
        nodes=region.grpc_address,
        streams=STREAM,
    )


@pytest.mark.parametrize(
    ("job", "kind"),
    [
        ("trim", "NotSharedError"),
        ("audit", "AuditError"),
        ("report", "ReportError"),
    ],
)
def test_a_folder_that_workers_do_not_share_is_refused(
    outcomes: dict[str, dict[str, Any]], cluster: SparkCluster, job: str, kind: str
) -> None:
    error = outcomes[f"apart/{job}"]["error"]

    assert error.startswith(f"{kind}: {cluster.apart}")
    assert "this program reads 0 of 4 files that tasks wrote" in error
    assert "Name a path that all of them share" in error
    # Neither here nor there anything remains of what was tried.
    assert cluster.at_worker(cluster.apart).is_dir()
    for at in (cluster.apart, cluster.at_worker(cluster.apart)):
        assert list(at.rglob("probe-*")) == []
    for name in ("findings", "lanes", "windows", "report.html"):
        assert list(cluster.apart.rglob(name)) == []


def test_rows_that_the_driver_cannot_read_back_are_not_committed_or_trimmed(
    outcomes: dict[str, dict[str, Any]], cluster: SparkCluster
) -> None:
    error = outcomes["apart/unprobed"]["error"]

    assert error.startswith(f"ArchiveError: {ENTRIES} rows with digest ")
    assert "this program sees 0 of them, in 0 files" in error
    # The tasks did write, and all entries are left for the next job.
    files = list(cluster.at_worker(cluster.apart).rglob("*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in files) == ENTRIES
    assert outcomes["shared/trim"]["entries"] == ENTRIES
    state = load(LocalFolder(cluster.apart / "archive"))
    assert state is not None
    assert (state.entries, state.batch, state.vector) == (0, -1, {})


def test_a_folder_that_all_share_is_written(
    outcomes: dict[str, dict[str, Any]], cluster: SparkCluster, region: Node
) -> None:
    assert outcomes["shared/trim"] == {"entries": ENTRIES, "trimmed": ENTRIES}
    assert region.client.xlen(STREAM) == 0
    files = list(cluster.shared.glob("archive/stream=*/date=*/*.parquet"))
    assert sum(pq.read_metadata(path).num_rows for path in files) == ENTRIES
    assert list(cluster.shared.rglob("probe-*")) == []
