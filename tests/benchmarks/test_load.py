"""The load generator, on a real redis-server and a real nats-server; and one whole small run."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.generators import (
    blocked_clients,
    in_pipelines,
    parse_benchmark,
    pings,
    run_load,
    xadds,
)
from benchmarks.load.paced import STAMP
from benchmarks.load.wire import Connection, LoadError
from benchmarks.nats_servers import MIRROR, SUBJECT, nats_pair
from benchmarks.parts import regions
from benchmarks.relay import relay
from benchmarks.systems import System, redis_servers, started
from tests.conftest import ROOT, program
from tests.patience import wait_until

pytestmark = pytest.mark.live
KEY = "bench"
PAGE = (
    "WARNING: something\n"
    '"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms",'
    '"p99_latency_ms","max_latency_ms"\n'
    '"XADD bench * field value","103092.78","0.262","0.088","0.255","0.335","0.383","0.607"\n'
)


def test_table_of_redis_benchmark_is_read_by_its_head() -> None:
    found = {"rate_per_s": 103_092.78, "p50_ms": 0.255, "p99_ms": 0.383}
    assert parse_benchmark(PAGE) == found


def test_stamp_is_found_only_when_it_is_whole() -> None:
    stamp = b"T%019d" % 4711
    assert STAMP.findall(b"MSG a 1 22\r\n" + stamp + b"\r\n\r\n") == [b"%019d" % 4711]
    assert STAMP.findall(stamp[:-3]) == []


@pytest.fixture(scope="module")
def redis_alone() -> Iterator[System]:
    program("redis-server")
    with started({"Redis": redis_servers()}) as systems:
        yield systems["Redis"]


@pytest.fixture
def port(redis_alone: System) -> int:
    redis_alone.client().flushall()
    return redis_alone.ports[0]


@pytest.mark.parametrize("requests", [1, 16, 1_001])
def test_redis_benchmark_sends_whole_pipelines(
    port: int, redis_alone: System, requests: int
) -> None:
    program("redis-benchmark")
    xadds(port, pipeline=16, requests=requests, key=KEY)
    assert redis_alone.client().xlen(KEY) == in_pipelines(requests, 16)


def test_the_end_of_an_odd_number_of_requests_is_found(redis_alone: System, port: int) -> None:
    program("redis-benchmark")
    assert regions.measure(redis_alone, 1, 1_001)["rate_per_s"] > 0


def test_consumers_read_and_acknowledge_everything_once(port: int) -> None:
    run_load("fill", port=port, key=KEY, count=2_345)
    run_load("groups", port=port, key=KEY, count=1)
    found = run_load(
        "consume", port=port, key=KEY, group="g0", connections=3, count=100, consumers=7
    )
    assert (found["entries"], found["acknowledged"]) == (2_345, 2_345)
    assert found["generator_seconds"] > 0


def test_delivered_entries_stay_pending(port: int, redis_alone: System) -> None:
    run_load("fill", port=port, key=KEY, count=1_234)
    run_load("groups", port=port, key=KEY, count=2, consumers=3)
    assert run_load("deliver", port=port, key=KEY, group="g1", count=100)["delivered"] == 1_234
    assert redis_alone.client().xpending(KEY, "g1")["pending"] == 1_234
    assert redis_alone.client().xpending(KEY, "g0")["pending"] == 0


def test_every_message_is_acknowledged_in_whatever_order(port: int, redis_alone: System) -> None:
    run_load("fill", port=port, key=KEY, count=100)
    run_load("groups", port=port, key=KEY, count=1)
    run_load("acknowledge_at_random", port=port, key=KEY, group="g0", count=100, seed=1)
    run_load("produce_read_acknowledge", port=port, key=KEY, group="g0", count=50, read=10)
    assert redis_alone.client().xpending(KEY, "g0")["pending"] == 0
    assert redis_alone.client().xlen(KEY) == 150


@pytest.mark.parametrize("group", ["g0", ""], ids=["group", "reader"])
def test_at_a_rate_nothing_is_lost_and_nothing_comes_twice(port: int, group: str) -> None:
    run_load("groups", port=port, key=KEY, count=1)
    found = run_load(
        "through_redis",
        port=port,
        read_port=port,
        key=KEY,
        group=group,
        rate=500,
        seconds=0.5,
        producers=3,
        consumers=2,
        count=10,
    )
    # A second to get warm comes before; readers without a group get each message.
    copies = 1 if group else 2
    assert (found["sent"], found["received"]) == (750, 750 * copies)
    assert len(found["latencies_ms"]) == 250 * copies
    assert min(found["latencies_ms"]) > 0
    assert len(found["late_ms"]) == 250


def test_blocked_clients_wait_until_they_are_let_go(port: int, redis_alone: System) -> None:
    def blocked() -> int:
        return int(redis_alone.client().info("clients")["blocked_clients"])

    with blocked_clients(port, 20):
        wait_until(lambda: blocked() == 20, "20 blocked clients")
    wait_until(lambda: blocked() == 0, "no blocked client")


def test_pings_are_sent_meanwhile_and_the_longest_is_kept(port: int) -> None:
    with pings(port) as found:
        Connection(port).call(b"EVAL", b"local n = 0; for i = 1, 3e6 do n = n + i end", b"0")
    assert found["max_ms"] > 1


def test_error_ends_the_load(port: int) -> None:
    with pytest.raises(LoadError, match="unknown command"):
        Connection(port).call(b"NOSUCHCOMMAND")


def test_relay_passes_on_and_counts_both_directions(port: int) -> None:
    with relay() as between:
        between.target = port
        with socket.create_connection(("127.0.0.1", between.port)) as connection:
            connection.sendall(b"PING\r\n")
            assert connection.recv(16) == b"+PONG\r\n"
        assert between.passed_bytes == 6 + 7


def test_mirror_of_nats_gets_what_was_published(tmp_path: Path) -> None:
    program("nats-server")
    with nats_pair(tmp_path) as pair:
        pair.make_stream()
        run_load("publish", port=pair.port, subject=SUBJECT, count=2_345, size=10)
        wait_until(lambda: pair.mirrored() == 2_345, "the mirror")
        pair.make_stream()
        found = run_load(
            "through_nats",
            port=pair.port,
            read_port=pair.leaf_port,
            subject=SUBJECT,
            stream=MIRROR,
            rate=500,
            seconds=0.5,
            producers=3,
        )
        assert (found["sent"], found["received"]) == (750, 750)
        assert len(found["latencies_ms"]) == 250


@pytest.mark.long
@pytest.mark.timeout(300)
def test_whole_run_with_tiny_amounts(tmp_path: Path) -> None:
    """One region beside Redis, and two with a link: there are figures for both systems."""
    program("redis-server")
    program("redis-benchmark")
    figures = tmp_path / "figures.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks", "--part", "consume", "wire"]
    command += ["--scale", "0.002", "--rounds", "1", "--json", str(figures)]
    told = subprocess.run(
        command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    outcomes = json.loads(figures.read_text())
    assert [one["part"] for one in outcomes] == ["consume", "wire"]
    for one in outcomes:
        systems = {sample["system"] for sample in one["samples"]}
        assert systems == {one["reference"], "crdtstream"}
        assert one["about"] in told
        for sample in one["samples"]:
            assert sample["figures"]
            assert all(value >= 0 for value in sample["figures"].values())
