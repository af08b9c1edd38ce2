"""Bounds on what a lost region takes with it, on real nodes with cut links."""

import json
import shutil
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from toxiproxy import Proxy, Toxiproxy
from typer.testing import CliRunner

from crdtstream.cli import rladmin
from tests.live.cluster import Cluster, Node, cluster_of
from tests.patience import wait_until

BOUND = 100


class TwoRegions:
    """Two regions, each link through a proxy."""

    def __init__(self, cluster: Cluster, toxiproxy: Toxiproxy) -> None:
        self.cluster = cluster
        self.one, self.two = cluster[1], cluster[2]
        self.proxies: list[Proxy] = []
        addresses = {}
        for puller, peer in ((1, 2), (2, 1)):
            proxy = toxiproxy.create(cluster[peer].grpc_address, f"lag-{puller}-pulls-{peer}")
            self.proxies.append(proxy)
            addresses[puller, peer] = proxy.listen
        cluster.configure(addresses)
        cluster.start()

    def cut(self) -> None:
        for proxy in self.proxies:
            proxy.disable()

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.enable()


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, toxiproxy_server: Toxiproxy
) -> Iterator[TwoRegions]:
    with cluster_of(2, tmp_path_factory.mktemp("lag")) as cluster:
        yield TwoRegions(cluster, toxiproxy_server)
    toxiproxy_server.destroy_all()


@pytest.fixture
def regions(running: TwoRegions) -> Iterator[TwoRegions]:
    """Equal, and without bounds, before and after."""
    yield running
    running.heal()
    for node in (running.one, running.two):
        set_bounds(node, effects=0, ms=0, action="warn")
    running.cluster.converge()


def set_bounds(node: Node, *, effects: int = 0, ms: int = 0, action: str) -> None:
    bounds = {
        "max_replication_lag_effects": effects,
        "max_replication_lag_ms": ms,
        "replication_lag_action": action,
    }
    node.client.config_set(*(word for bound in bounds.items() for word in bound))


def lag(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = node.client.info("crdt")
    return found


def add_many(node: Node, key: str, count: int) -> list[object]:
    """One pipeline; its replies."""
    pipeline = node.client.pipeline(transaction=False)
    for index in range(count):
        pipeline.xadd(key, {"n": index})
    replies: list[object] = pipeline.execute(raise_on_error=False)
    return replies


def is_healthy(node: Node) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/health") as reply:
            return bool(json.load(reply)["healthy"])
    except urllib.error.HTTPError:
        return False


def settled(regions: TwoRegions) -> None:
    wait_until(lambda: lag(regions.one)["crdt_replication_lag_effects"] == 0, "nothing lags")


def test_writes_beyond_the_bound_are_refused_and_reads_go_on(regions: TwoRegions) -> None:
    one = regions.one
    settled(regions)
    set_bounds(one, effects=BOUND, action="refuse")
    regions.cut()
    replies = add_many(one, "refused", 3 * BOUND)

    taken = [reply for reply in replies if isinstance(reply, bytes)]
    assert len(taken) == BOUND
    assert {str(reply).split()[0] for reply in replies[BOUND:]} == {"LAGGED"}
    assert one.client.xlen("refused") == BOUND
    shown = lag(one)
    assert shown["crdt_replication_lag_state"] == "exceeded"
    assert shown["crdt_replication_lag_effects"] == BOUND
    assert shown["crdt_replication_lag_refused_writes"] == 2 * BOUND
    wait_until(lambda: not is_healthy(one), "the region says that it refuses writes")

    regions.heal()
    wait_until(lambda: isinstance(add_many(one, "refused", 1)[0], bytes), "writes are taken again")
    wait_until(lambda: is_healthy(one), "the region is well again")
    assert "too much of this region is in no other region" in one.log.read_text()


def test_the_bound_in_time(regions: TwoRegions) -> None:
    one = regions.one
    settled(regions)
    set_bounds(one, ms=400, action="refuse")
    regions.cut()
    began = time.monotonic()
    one.client.xadd("timed", {"f": "v"})
    wait_until(lambda: not isinstance(add_many(one, "timed", 1)[0], bytes), "writes are refused")
    assert time.monotonic() - began > 0.4
    assert isinstance(add_many(regions.two, "timed", 1)[0], bytes), "the other has its own bounds"


def test_a_throttled_write_waits_for_the_others(regions: TwoRegions) -> None:
    one = regions.one
    settled(regions)
    set_bounds(one, effects=10, action="throttle")
    regions.cut()
    replies: list[object] = []
    writer = threading.Thread(target=lambda: replies.extend(add_many(one, "throttled", 40)))
    writer.start()
    reader = one.connect()
    wait_until(
        lambda: reader.info("crdt")["crdt_replication_lag_waiting_clients"] == 1, "a write waits"
    )
    assert 10 <= reader.xlen("throttled") < 40
    regions.heal()
    writer.join()
    reader.close()
    assert all(isinstance(reply, bytes) for reply in replies)
    assert lag(one)["crdt_replication_lag_throttled_writes"] >= 1
    wait_until(lambda: lag(one)["crdt_replication_acknowledged_per_sec"] > 0, "the rate is shown")


def lose(regions: TwoRegions) -> set[bytes]:
    """Ends the first region for good, with its disk; the entries that only it had."""
    one, two = regions.one, regions.two
    written = {entry_id for entry_id, _ in one.client.xrange("lost")}
    one.end(signal.SIGKILL)
    shutil.rmtree(one.folder)
    kept = {entry_id for entry_id, _ in two.client.xrange("lost")}
    regions.heal()
    one.start()
    return written - kept


def test_a_region_that_is_lost_while_cut_off_takes_the_bound_with_it(regions: TwoRegions) -> None:
    settled(regions)
    set_bounds(regions.one, effects=BOUND, action="refuse")
    regions.cut()
    add_many(regions.one, "lost", 3 * BOUND)
    assert len(lose(regions)) == BOUND


def test_a_region_that_is_lost_under_load_takes_no_more_than_the_bound(
    regions: TwoRegions,
) -> None:
    """Links are cut at some moment under load; then the region and its disk are gone.

    The other may have all that the lost one wrote, as its acknowledgements were cut off too.
    """
    one = regions.one
    settled(regions)
    set_bounds(one, effects=BOUND, action="refuse")
    acknowledged: list[bytes] = []
    is_cut = threading.Event()

    def write() -> None:
        client = one.connect()
        is_refused = False
        while not is_refused:
            began_cut = is_cut.is_set()
            pipeline = client.pipeline(transaction=False)
            for _ in range(25):
                pipeline.xadd("lost", {"f": "v"})
            replies = pipeline.execute(raise_on_error=False)
            acknowledged.extend(reply for reply in replies if isinstance(reply, bytes))
            is_refused = began_cut and not isinstance(replies[-1], bytes)
        client.close()

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    wait_until(lambda: len(acknowledged) > 10 * BOUND, "there is load")
    regions.cut()
    is_cut.set()
    for writer in writers:
        writer.join()
    assert lag(one)["crdt_replication_lag_effects"] == BOUND

    lost = lose(regions)
    assert len(lost & set(acknowledged)) == len(lost) <= BOUND


def test_operators_tune_it_and_it_is_kept(regions: TwoRegions) -> None:
    one = regions.one
    settled(regions)
    where = ["--address", one.grpc_address]
    for words, status, said in (
        ("max_replication_lag_effects 5", 0, "Finished successfully"),
        ("replication_lag_action refuse", 0, "Finished successfully"),
        ("max_replication_lag_ms 2147483648", 1, "a number from 0 (no bound) to 2147483647"),
        ("max_replication_lag_ms 1.5", 1, "a number from 0 (no bound) to 2147483647"),
        ("max_replication_lag_effects many", 1, "a number from 0 (no bound) to 1000000000000"),
        ("replication_lag_action panic", 1, "allowed are warn, throttle, refuse"),
    ):
        done = CliRunner().invoke(rladmin.app, ["tune", "db", "crdb", *words.split(), *where])
        assert (done.exit_code, said in done.output) == (status, True), done.output
    shown = CliRunner().invoke(rladmin.app, ["info", "db", "crdb", *where]).output
    assert "    max_replication_lag_effects: 5\n" in shown
    assert "    replication_lag_action: refuse\n" in shown
    with pytest.raises(redis.ResponseError, match="a number from 0"):
        one.client.config_set("max_replication_lag_ms", "1.5")

    regions.cut()
    add_many(one, "tuned", 1)
    one.end()
    one.launch()
    one.wait(for_writes=False)
    assert lag(one)["crdt_max_replication_lag_effects"] == 5
    said = "LAGGED region 1 started again and no other region has said yet"
    wait_until(lambda: str(add_many(one, "tuned", 1)[0]).startswith(said), "it is refused")
    assert one.client.xlen("tuned") == 1
    regions.heal()
    wait_until(lambda: isinstance(add_many(one, "tuned", 1)[0], bytes), "a peer has said so")
