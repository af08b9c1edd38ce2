"""A node of the base install, without pyarrow: it serves all but scans, and says what to do."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import grpc
import pytest
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.v1 import query_pb2 as pb
from tests.conftest import free_base_port
from tests.live.cluster import Cluster, cluster_of
from tests.patience import seconds
from tests.query.test_service import Query

pytestmark = pytest.mark.live

# Python refuses to import what stands as None among the modules, as if it were not installed.
WITHOUT_ARROW: Final = """
import sys
sys.modules["pyarrow"] = None
from crdtstream.cli.start import main
sys.argv = ["crdtstream", "node", *sys.argv[1:]]
main()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(1, tmp_path, program=WITHOUT_ARROW) as cluster:
        cluster.configure()
        yield cluster


def test_a_node_without_arrow_serves_all_but_scans(cluster: Cluster) -> None:
    cluster.start()
    node = cluster[1]
    node.client.xadd("s", {"f": "v"})
    with node.channel() as channel:
        query = Query(channel)
        assert [one.key for one in query.streams()] == [b"s"]
        assert query.append(b"s", b"row") == (1, 0)
        for scan in (
            query.stub.Scan(pb.ScanRequest(key=b"s", origin=1)),
            query.stub.ScanPending(pb.ScanPendingRequest()),
        ):
            with pytest.raises(grpc.RpcError, match=r"pip install 'crdtstream\[query\]'") as error:
                list(scan)
            # Readers of Spark end on it with this text, and do not try again for a minute.
            assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert node.client.xlen("s") == 2


@pytest.mark.long
def test_a_port_for_spark_without_arrow_stops_the_start(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster[1]
    monkeypatch.setenv("CRDTSTREAM_QUERY__PORT", str(free_base_port(1)))
    assert node.launch().wait(seconds()) == 1
    assert "query.port: pyarrow is not installed here; pip install 'crdtstream[query]'" in (
        node.log.read_text()
    )
    assert not node.folder.exists()


def test_salvage_without_arrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = ["crdb", "salvage", str(tmp_path), "--address", "127.0.0.1:7381"]
    ended = CliRunner().invoke(program(["crdb"]), words)
    assert ended.exit_code == 1
    assert "pip install 'crdtstream[query]'" in ended.stderr
