"""The end of a node's process: all acknowledged writes are on disk, and it ends at once."""

import contextlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from crdtstream.store.folder_lock import LOG_FILE
from tests.live import cluster
from tests.live.cluster import Cluster, Node, cluster_of
from tests.patience import seconds

# Python's own way to end a process: whatever is registered runs, and objects are taken apart.
WATCHED_PROGRAM = f"""
import atexit
from crdtstream.core.replica import Replica
atexit.register(print, "taken apart", flush=True)
Replica.__del__ = lambda _: print("taken apart", flush=True)
{cluster.NODE_PROGRAM}
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with cluster_of(1, tmp_path) as regions:
        regions[1].program = WATCHED_PROGRAM
        # Only a clean end proves this folder.
        regions.configure(appendfsync="no")
        yield regions[1]


def begin(node: Node) -> None:
    node.start("--new-database")
    for _ in range(10):
        node.client.xadd("s", {"f": "v"})


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_node_ends_at_once_and_takes_nothing_apart(node: Node, number: signal.Signals) -> None:
    """With many streams that would take many seconds, in which nobody is served."""
    begin(node)
    assert node.end(number) == 0
    said = node.log.read_text()
    assert "stopped" in said.splitlines()[-1]
    assert "taken apart" not in said
    with sqlite3.connect(node.folder / LOG_FILE) as log:
        assert log.execute("SELECT value FROM meta WHERE key = 'clean_shutdown'").fetchone() == (
            "yes",
        )
    node.start()
    assert node.client.xlen("s") == 10


@pytest.mark.long
def test_a_node_that_cannot_serve_takes_nothing_apart_either(node: Node, tmp_path: Path) -> None:
    begin(node)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    second = Cluster(1, elsewhere)[1]
    second.resp_port, second.program = node.resp_port, node.program
    second.configure({})
    assert second.launch("--new-database").wait(seconds()) == 1
    said = second.log.read_text()
    assert "cannot be listened on (resp_port)" in said.splitlines()[-1]
    assert "taken apart" not in said


def test_a_fatal_signal_leaves_a_line_and_takes_nothing(node: Node) -> None:
    """A file that SQLite has mapped into memory has been cut short: the system sends SIGBUS."""
    begin(node)
    os.truncate(node.folder / f"{LOG_FILE}-shm", 0)
    with contextlib.suppress(redis.RedisError):
        node.client.xadd("s", {"f": "v"})
    assert node.process is not None
    assert node.process.wait(seconds()) == -signal.SIGBUS
    node.process = None
    assert "Fatal Python error: Bus error" in node.log.read_text()
    node.start()
    assert node.client.xlen("s") in (10, 11)
