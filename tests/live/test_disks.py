"""A disk that refuses: writes are refused, reads go on, nothing acknowledged is lost."""

import json
import resource
import signal
import sqlite3
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import redis

from crdtstream.store.folder_lock import LOG_FILE
from tests.live.cluster import Cluster, Node, cluster_of, running_regions
from tests.patience import seconds, wait_until

VALUE = "x" * 10_000


def limit_files(node: Node, bytes_max: int) -> None:
    """Let no file of the node's grow beyond a size: to it, that is a full disk."""
    assert node.process is not None
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))


def fill(node: Node, acknowledged: list[bytes]) -> None:
    """Write until it is refused."""
    for _ in range(200):
        try:
            acknowledged.append(node.client.xadd("s", {"f": VALUE}))
        except redis.ResponseError:
            return
    raise AssertionError("the disk never got full")


def health(node: Node) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/health") as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_node_whose_log_cannot_be_written_serves(tmp_path: Path) -> None:
    with cluster_of(1, tmp_path) as cluster:
        cluster.configure()
        node = cluster[1]
        log, node.log = node.log, Path("/dev/full")
        log.touch()
        node.launch("--new-database")
        node.log = log
        node.wait()
        node.client.xadd("s", {"f": "v"})
        assert node.end() == 0


def test_a_full_disk_stops_writes_only_and_only_while_it_is_full(three_regions: Cluster) -> None:
    node = three_regions[1]
    acknowledged: list[bytes] = []
    acknowledged.append(node.client.xadd("s", {"f": "v"}))
    limit_files(node, 256 << 10)
    fill(node, acknowledged)
    with pytest.raises(redis.ResponseError, match=r"MISCONF .*log\.sqlite: cannot write row"):
        node.client.xadd("s", {"f": "v"})
    assert node.client.xlen("s") >= len(acknowledged)
    status, body = health(node)
    assert status == 503
    assert "cannot write row" in str(body["fault"])
    assert "cannot write row" in node.status().fault
    # Other regions go on.  Their effects wait: what is applied here must be logged here.
    three_regions[2].client.xadd("s", {"f": "v"})

    limit_files(node, resource.RLIM_INFINITY)
    wait_until(lambda: health(node)[0] == 200, "the disk is used again")
    acknowledged.append(node.client.xadd("s", {"f": "v"}))
    three_regions.converge()
    found = {entry_id for entry_id, _ in three_regions[2].client.xrange("s")}
    assert set(acknowledged) <= found


def test_a_node_killed_while_the_disk_is_full_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        acknowledged: list[bytes] = []
        limit_files(node, 256 << 10)
        fill(node, acknowledged)
        node.end(signal.SIGKILL)
        node.start()
        assert [entry_id for entry_id, _ in node.client.xrange("s")][: len(acknowledged)] == (
            acknowledged
        )
        entry_id = node.client.xadd("s", {"f": "v"})
        assert entry_id not in acknowledged


def test_a_damaged_row_stops_the_start_and_says_what_to_do(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        node = cluster[1]
        for _ in range(3):
            node.client.xadd("s", {"f": "v"})
        node.end()
        with sqlite3.connect(node.folder / LOG_FILE) as connection:
            connection.execute("UPDATE log SET batch = zeroblob(length(batch)) WHERE seq = 2")
        assert node.launch().wait(seconds()) == 1
        node.process = None
        text = node.log.read_text()
        assert f"{LOG_FILE}: row 2 of table log is damaged (checksum). Keep the folder" in text
        assert "Traceback" not in text
