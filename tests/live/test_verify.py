"""``crdtstream crdb verify`` between real nodes: under load, with damage, with a region down."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.bootstraps import level
from tests.live.cluster import Cluster, Node, cluster_of, running_regions
from tests.live.damage import flip
from tests.live.forked import completed
from tests.live.test_members import crdb
from tests.patience import wait_until

KEYS = ("flights", "weather", "events")


@contextmanager
def load(*nodes: Node) -> Iterator[None]:
    """Each node takes writes of all kinds until the end."""
    stop = threading.Event()

    def write(node: Node) -> None:
        client = node.connect()
        for number in range(1_000_000):
            if stop.is_set():
                return
            key = KEYS[number % len(KEYS)]
            for _ in range(5):
                client.xadd(key, {"value": f"{node.region}.{number}"})
            client.xreadgroup("group", f"c{node.region}", {key: ">"}, count=3, noack=True)
            if key != "flights":
                client.xtrim(key, maxlen=400, approximate=False)
            client.set(f"string-{number % 50}", number)
            if number % 10 == 0:
                client.delete(f"string-{number % 7}")

    threads = [threading.Thread(target=write, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def started(cluster: Cluster) -> None:
    cluster.configure()
    cluster.start()
    for key in KEYS:
        cluster[1].client.xgroup_create(key, "group", "0", mkstream=True)
    for number in range(40):
        cluster[1].client.xadd("flights", {"from": f"airport-{number:02}"})
    level(*cluster.nodes.values())


def plant(node: Node) -> None:
    """Change a field of the 18th entry of ``flights``, while the node does not run."""
    node.end(signal.SIGKILL)
    flip(node, b"airport-17", b"airport-71")
    node.start()


def verified(node: Node, *words: str) -> tuple[int, dict[str, Any]]:
    run = crdb(node, "verify", "--json", *words)
    assert run.stdout, run.stderr
    return run.returncode, json.loads(run.stdout)


@pytest.mark.long
def test_regions_that_take_writes_are_equal(tmp_path: Path) -> None:
    with cluster_of(3, tmp_path) as cluster:
        started(cluster)
        # Longer than gRPC's messages are by default.
        cluster[1].client.set(b"k" * (5 << 20), "v")
        with load(*cluster.nodes.values()):
            for words in ((), ("--key", "flights"), ("--instance-id", "1", "--instance-id", "3")):
                # What changes all the time may be undecided; nothing may be proved to differ.
                _, found = verified(cluster[1], *words)
                told = {one["status"] for pair in found["pairs"] for one in pair["differences"]}
                assert "different" not in told, found
        level(*cluster.nodes.values())
        status, found = verified(cluster[1])
        assert status == 0, found
        assert {pair["status"] for pair in found["pairs"]} == {"equal"}
        assert all(pair["keys"] >= len(KEYS) for pair in found["pairs"])


def test_a_field_that_was_changed_on_disk_is_named(tmp_path: Path) -> None:
    with cluster_of(3, tmp_path) as cluster:
        started(cluster)
        plant(cluster[2])
        level_vectors(cluster)
        with load(cluster[1], cluster[3]):
            status, found = verified(cluster[1], "--timeout", "1")
        assert status == 1
        proved = [
            (pair["regions"], one)
            for pair in found["pairs"]
            for one in pair["differences"]
            if one["status"] == "different"
        ]
        assert [regions for regions, _ in proved] == [[1, 2], [2, 3]]
        repair = "crdtstream crdb repair flights --instance-id"
        assert found["repairs"] == [f"{repair} 2 --source 1 --dry-run"]
        for _, one in proved:
            assert (one["key"], one["part"], one["lane"]) == ("flights", "lane", 1)
            entry = one["entry"]
            ids = [region["id"] for region in entry["regions"].values()]
            ((expected, fields),) = cluster[1].client.xrange("flights", ids[0], ids[0])
            assert ids == [expected.decode()] * 2
            assert fields == {b"from": b"airport-17"}
        run = crdb(
            cluster[1], "verify", "--key", "flights", "--instance-id", "1", "--instance-id", "2"
        )
        assert run.returncode == 1
        assert "1 - 2  different: key flights: lane 1, dots 0-255" in run.stdout
        assert "with unequal fields or producer" in run.stdout
        for region, source in ((2, 1), (1, 2)):
            assert f"repair: {repair} {region} --source {source} --dry-run" in run.stdout


@pytest.mark.long
def test_regions_with_equal_vectors_are_not_equal_before_they_are_compared(
    tmp_path: Path,
) -> None:
    with cluster_of(3, tmp_path) as cluster:
        started(cluster)
        wait = ["crdtstream", "sync", "wait", "--address", cluster[1].grpc_address]
        run = completed(wait)
        assert run.returncode == 0, run.stderr
        plant(cluster[2])
        level_vectors(cluster)
        run = completed(wait)
        assert run.returncode == 1
        assert "1 - 2  different: key flights: lane 1" in run.stderr
        assert "equal:" not in run.stderr


def level_vectors(cluster: Cluster) -> None:
    """As ``level``, which also waits for equal digests."""
    nodes = cluster.nodes.values()
    wait_until(lambda: len({str(node.status().vv) for node in nodes}) == 1, "equal vectors")


@pytest.mark.parametrize(
    ("count", "words", "told"),
    [
        (2, (), "two regions are needed to compare"),
        (3, (), "not compared:"),
        (3, ("--instance-id", "1", "--instance-id", "2"), "region 2 does not answer"),
    ],
)
@pytest.mark.long
def test_a_region_that_is_down_is_not_equal(
    count: int, words: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    with cluster_of(count, tmp_path) as cluster:
        started(cluster)
        cluster[2].end(signal.SIGKILL)
        run = crdb(cluster[1], "verify", *words)
        assert run.returncode == 1, run.stdout + run.stderr
        assert told in run.stderr


def test_one_region_alone_is_a_wrong_question(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as cluster:
        run = crdb(cluster[1], "verify")
        assert run.returncode == 2
        assert "two regions are needed to compare" in run.stderr
