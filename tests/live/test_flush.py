"""All keys are deleted in all regions, once everybody has the deletes, and nothing more."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import VENV
from tests.live.cluster import Cluster, Node, running_regions
from tests.live.test_members import crdb
from tests.patience import seconds, wait_until

KEYS = 200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three regions that have the same: streams, a group, strings."""
    with running_regions(3, tmp_path) as cluster:
        pipeline = cluster[1].client.pipeline(transaction=False)
        for number in range(KEYS):
            pipeline.xadd(f"s{number}", {"n": number})
        pipeline.set("lock", "v")
        pipeline.xgroup_create("s0", "g", "0")
        pipeline.execute()
        cluster.converge()
        yield cluster


def flush(node: Node, *words: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    if not typed:
        return crdb(node, "flush", *words)
    command = [str(VENV / "bin" / "crdtstream"), "crdb", "flush", "--address", node.grpc_address]
    return subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds(),
        input=typed,
    )


def sizes(cluster: Cluster) -> list[int]:
    return [node.client.dbsize() for node in cluster.nodes.values()]


def test_all_regions_have_deleted_all_when_it_ends(cluster: Cluster) -> None:
    """Asked by its name only; a second time it has nothing to do."""
    shown = flush(cluster[2], "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert f"has {KEYS + 1} keys with {KEYS} stream entries" in shown.stdout
    other = flush(cluster[1], "--yes", "--crdb-guid", "0" * 32)
    assert other.returncode == 2
    assert "no database" in other.stderr
    for typed, reason in (("other\n", "not other; nothing is deleted"), ("", "Aborted")):
        refused = flush(cluster[2], typed=typed)
        assert refused.returncode == 1
        assert reason in refused.stderr
    assert sizes(cluster) == [KEYS + 1] * 3
    run = flush(cluster[2], typed="crdb\n")
    assert run.returncode == 0, run.stderr
    assert f"{KEYS + 1} keys with {KEYS} stream entries are deleted" in run.stdout
    assert sizes(cluster) == [0] * 3
    again = flush(cluster[3], "--yes", "--json")
    assert again.returncode == 0, again.stderr
    told = json.loads(again.stdout)
    assert (told["status"], told["keys"], told["lacks"]) == ("finished", 0, [])
    cluster.converge()


def test_entries_that_another_region_adds_at_the_same_time_stay(cluster: Cluster) -> None:
    """Its group does not: that is delete-wins, as with DEL."""
    for node in cluster.nodes.values():
        node.set_links(paused=True)
    cluster[2].client.xadd("s0", {"n": "concurrent"})
    assert flush(cluster[1], "--yes", "--no-wait").returncode == 0
    assert sizes(cluster) == [0, KEYS + 1, KEYS + 1]
    for node in cluster.nodes.values():
        node.set_links(paused=False)
    cluster.converge()
    assert sizes(cluster) == [1] * 3
    ((_, fields),) = cluster[3].client.xrange("s0")
    assert fields == {b"n": b"concurrent"}
    assert cluster[3].client.xinfo_groups("s0") == []


@pytest.mark.long
def test_a_region_that_is_away_is_named_and_deletes_when_it_is_back(cluster: Cluster) -> None:
    cluster[3].end(signal.SIGKILL)
    run = flush(cluster[1], "--yes", "--timeout", "1")
    assert run.returncode == 1
    assert "region 3 lacks" in run.stderr
    assert "region 2" not in run.stderr.splitlines()[-1]
    assert cluster[2].client.dbsize() == 0
    cluster[3].start()
    assert flush(cluster[1], "--yes").returncode == 0
    assert sizes(cluster) == [0] * 3


@pytest.mark.long
@pytest.mark.parametrize("victim", ["the command", "its region"])
def test_killed_in_the_middle_a_second_one_finishes(cluster: Cluster, victim: str) -> None:
    count = 40_000
    pipeline = cluster[1].client.pipeline(transaction=False)
    for number in range(count):
        pipeline.set(f"k{number}", "v")
    pipeline.execute()
    cluster.converge()
    command = [str(VENV / "bin" / "crdtstream"), "crdb", "flush", "--yes"]
    process = subprocess.Popen(
        [*command, "--address", cluster[1].grpc_address], stderr=subprocess.DEVNULL
    )
    wait_until(lambda: cluster[1].client.dbsize() < count, "some are deleted")
    if victim == "the command":
        process.kill()
        process.wait()
    else:
        cluster[1].end(signal.SIGKILL)
        assert process.wait(seconds()) == 1
        cluster[1].start()
    assert cluster[1].client.dbsize() > 0, "it was over before"
    run = flush(cluster[1], "--yes")
    assert run.returncode == 0, run.stderr
    assert sizes(cluster) == [0] * 3
    cluster.converge()
