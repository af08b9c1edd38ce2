"""Real nodes with a bug: each does the harm that drills are to notice."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import Cluster, Node, cluster_of
from tests.patience import wait_until
from tests.planted.program import program_of

pytestmark = [pytest.mark.live, pytest.mark.long]


@pytest.fixture
def two_regions(tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(2, tmp_path) as cluster:
        cluster.configure()
        yield cluster


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Node]:
    """A region without others, not running."""
    with cluster_of(1, tmp_path) as cluster:
        cluster.configure()
        yield cluster[1]


def test_ack_before_commit_loses_what_was_acknowledged(region: Node) -> None:
    region.start()
    kept = region.client.xadd("s", {"n": 1})
    region.end()
    region.program = program_of("ack-before-commit")
    region.start()
    assert "has a bug on purpose (ack-before-commit)" in region.log.read_text()
    region.client.xadd("s", {"n": 2})
    region.end(signal.SIGKILL)

    region.program = None
    region.start()
    assert [entry_id for entry_id, _ in region.client.xrange("s")] == [kept]


def test_frontier_too_far_skips_an_entry_elsewhere(two_regions: Cluster) -> None:
    for node in two_regions.nodes.values():
        node.program = program_of("frontier-too-far")
    two_regions.start()
    one, two = two_regions[1].client, two_regions[2].client
    first, _skipped, third = (one.xadd("s", {"n": n}) for n in range(3))
    one.xgroup_create("s", "g", "0")
    one.xreadgroup("g", "alice", {"s": ">"}, count=1)
    one.xack("s", "g", first)
    two_regions.converge()

    ((_, read),) = two.xreadgroup("g", "bob", {"s": ">"})
    assert [entry_id for entry_id, _ in read] == [third]


def test_dot_lost_on_restart_takes_an_entry_of_one_region(two_regions: Cluster) -> None:
    two_regions.start()
    one, two = two_regions[1], two_regions[2]
    kept, lost = (one.client.xadd("s", {"n": n}) for n in range(2))
    two_regions.converge()
    one.end(signal.SIGKILL)
    one.program = program_of("dot-lost-on-restart")
    one.start()

    assert [entry_id for entry_id, _ in one.client.xrange("s")] == [kept]
    assert [entry_id for entry_id, _ in two.client.xrange("s")] == [kept, lost]
    assert one.client.execute_command("CRDT.DIGEST") != two.client.execute_command("CRDT.DIGEST")


def test_healthy_while_stale_says_yes_while_writes_are_refused(two_regions: Cluster) -> None:
    node = two_regions[1]
    node.launch()
    node.wait(for_writes=False)
    assert health(node) == (503, False)
    node.end()
    node.program = program_of("healthy-while-stale")
    node.launch()
    node.wait(for_writes=False)
    wait_until(lambda: health(node)[0], "the page is there")
    assert health(node) == (200, True)
    with pytest.raises(Exception, match="MISCONF"):
        node.client.execute_command("XADD", "s", "*", "f", "v")


def health(node: Node) -> tuple[int, bool]:
    """Status, and text of the page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/health") as reply:
            return reply.status, json.load(reply)["healthy"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["healthy"]
    except OSError:
        return 0, False
