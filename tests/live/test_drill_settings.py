"""Settings for rehearsals, on real nodes: a wrong clock, and bugs that a drill must notice."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cluster import Cluster, Node, cluster_of, wait_until

pytestmark = pytest.mark.live

HOUR_MS = 3_600_000


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


def plant(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("CRDTSTREAM_DRILL_PLANTS", "1")
    monkeypatch.setenv("CRDTSTREAM_DRILL__PLANT", name)


@pytest.mark.long
def test_a_clock_that_is_wrong_on_purpose(
    two_regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = two_regions[1], two_regions[2]
    one.launch()
    monkeypatch.setenv("CRDTSTREAM_DRILL__CLOCK_OFFSET_MS", str(-2 * HOUR_MS))
    two.launch()
    one.wait()
    two.wait()

    (right, _), (wrong, _) = one.client.time(), two.client.time()
    assert right - wrong == pytest.approx(2 * HOUR_MS // 1000, abs=60)
    entry_id = two.client.xadd("s", {"f": "v"})
    assert right * 1000 - int(entry_id.split(b"-")[0]) > HOUR_MS
    assert two.client.info("crdt")["crdt_drill_clock_offset_ms"] == -2 * HOUR_MS
    assert "crdt_drill_clock_offset_ms" not in one.client.info("crdt")
    assert "clock is wrong on purpose" in two.log.read_text()
    two_regions.converge()


@pytest.mark.long
def test_a_planted_ack_before_commit_loses_what_was_acknowledged(
    region: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    region.start()
    kept = region.client.xadd("s", {"n": 1})
    region.end()
    plant(monkeypatch, "ack-before-commit")
    region.start()
    assert "this node has a bug on purpose" in region.log.read_text()
    assert region.client.info("crdt")["crdt_drill_plant"] == "ack-before-commit"
    region.client.xadd("s", {"n": 2})
    region.end(signal.SIGKILL)

    monkeypatch.delenv("CRDTSTREAM_DRILL__PLANT")
    region.start()
    assert [entry_id for entry_id, _ in region.client.xrange("s")] == [kept]


@pytest.mark.long
def test_a_planted_frontier_too_far_skips_an_entry_elsewhere(
    two_regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, "frontier-too-far")
    two_regions.start()
    one, two = two_regions[1].client, two_regions[2].client
    first, _skipped, third = (one.xadd("s", {"n": n}) for n in range(3))
    one.xgroup_create("s", "g", "0")
    one.xreadgroup("g", "alice", {"s": ">"}, count=1)
    one.xack("s", "g", first)
    two_regions.converge()

    ((_, read),) = two.xreadgroup("g", "bob", {"s": ">"})
    assert [entry_id for entry_id, _ in read] == [third]


@pytest.mark.long
def test_a_planted_dot_lost_on_restart_takes_an_entry_of_one_region(
    two_regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_regions.start()
    one, two = two_regions[1], two_regions[2]
    kept, lost = (one.client.xadd("s", {"n": n}) for n in range(2))
    two_regions.converge()
    one.end(signal.SIGKILL)
    plant(monkeypatch, "dot-lost-on-restart")
    one.start()

    assert [entry_id for entry_id, _ in one.client.xrange("s")] == [kept]
    assert [entry_id for entry_id, _ in two.client.xrange("s")] == [kept, lost]
    assert one.client.execute_command("CRDT.DIGEST") != two.client.execute_command("CRDT.DIGEST")


@pytest.mark.long
def test_a_planted_health_says_yes_while_writes_are_refused(
    two_regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = two_regions[1]
    node.launch()
    node.wait(for_writes=False)
    assert health(node) == (503, False)
    node.end()
    plant(monkeypatch, "healthy-while-stale")
    node.launch()
    node.wait(for_writes=False)
    wait_until(lambda: health(node)[0], "the page is there")
    assert health(node) == (200, True)
    with pytest.raises(Exception, match="MISCONF"):
        node.client.execute_command("XADD", "s", "*", "f", "v")


def health(node: Node) -> tuple[int, bool]:
    """Status, and what the page says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/health") as reply:
            return reply.status, json.load(reply)["healthy"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["healthy"]
    except OSError:
        return 0, False
