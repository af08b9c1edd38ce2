"""INFO: which sections are told, and the fields that clients and exporters read."""

import contextlib
import time
from typing import Any

import pytest
import redis

from crdtstream.resp.clients.traffic import RATE_SAMPLE_MS
from tests import patience
from tests.resp.node import Node, request, running
from tests.resp.test_protocol import wait_until

BY_DEFAULT = [
    *["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Modules"],
    *["Errorstats", "Cluster", "Keyspace", "Crdt"],
]
ALL = [
    *BY_DEFAULT[:8],
    *["Commandstats", "Errorstats", "Latencystats", "Cluster", "Keyspace", "Crdt"],
]


def titles(node: Node, *sections: bytes) -> list[str]:
    with node.client() as client:
        client.send(request(b"INFO", *sections))
        header = b""
        while not header.endswith(b"\r\n"):
            header += client.read(1)
        lines = client.read(int(header[1:]) + 2).decode().split("\r\n")
    return [line[2:] for line in lines if line.startswith("# ")]


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ([], BY_DEFAULT),
        (["default"], BY_DEFAULT),
        (["all"], ALL),
        (["EVERYTHING"], ALL),
        (["everything", "nosuch"], ALL),
        (["clients", "SERVER", "clients"], ["Server", "Clients"]),
        (["commandstats", "default"], [*BY_DEFAULT[:8], "Commandstats", *BY_DEFAULT[8:]]),
        (["nosuch"], []),
        (["cluster", "nosuch"], ["Cluster"]),
    ],
)
def test_sections_come_in_one_order_and_once(
    node: Node, sections: list[str], told: list[str]
) -> None:
    assert titles(node, *[section.encode() for section in sections]) == told


def test_clients_find_what_they_look_for(r: Any) -> None:
    r.xadd("info", {"f": "v"})
    told = r.info("everything")
    assert told["redis_mode"] == "standalone"
    assert told["role"] == "master"
    assert told["loading"] == told["cluster_enabled"] == 0
    assert told["rdb_bgsave_in_progress"] == told["aof_rewrite_in_progress"] == 0
    assert told["master_repl_offset"] >= 1
    assert len(told["run_id"]) == len(told["master_replid"]) == 40
    assert told["db0"].keys() >= {"keys", "expires", "avg_ttl"}
    assert 0 < told["used_memory"] <= told["used_memory_peak"]
    assert told["total_system_memory"] > told["used_memory"]
    for name in ("evicted_keys", "tracking_clients", "pubsub_channels", "watching_clients"):
        assert told[name] == 0


def test_keys_that_expire_are_counted_with_their_mean_time() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r:
        assert r.info("keyspace") == {}
        for key, seconds in ((b"a", 1_000), (b"b", 3_000), (b"c", None)):
            r.xadd(key, {"f": "v"})
            if seconds is not None:
                r.expire(key, seconds)
        told = r.info("keyspace")["db0"]
        assert (told["keys"], told["expires"]) == (3, 2)
        assert 1_900_000 < told["avg_ttl"] <= 2_000_000


def test_keys_that_have_expired_are_counted() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r:
        for key in (b"a", b"b", b"c"):
            r.xadd(key, {"f": "v"})
        assert r.info("stats")["expired_keys"] == 0
        r.pexpire(b"a", 1)
        r.pexpire(b"b", 1)
        r.expire(b"c", 1_000)
        r.delete(b"c")
        wait_until(node, "region.replica.keys.known() == []")
        assert r.info("stats")["expired_keys"] == 2
        r.config_resetstat()
        assert r.info("stats")["expired_keys"] == 0


def test_watchers_and_subscribers_are_counted(node: Node, r: Any) -> None:
    with node.client() as watcher, node.client() as subscriber:
        watcher.ask(request(b"WATCH", b"a", b"b"), b"+OK\r\n")
        subscriber.send(request(b"SUBSCRIBE", b"x", b"y") + request(b"PSUBSCRIBE", b"n*"))
        subscriber.read(len(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n") * 2)
        subscriber.read(10)
        told = r.info("everything")
    assert told["watching_clients"] == told["pubsub_clients"] == 1
    assert told["total_watched_keys"] == 2
    assert (told["pubsub_channels"], told["pubsub_patterns"]) == (2, 1)


def test_rates_are_those_of_late(node: Node, r: Any) -> None:
    with node.client() as client:
        r.config_resetstat()
        told: dict[str, Any] = {}

        def is_busy() -> bool:
            client.ask(request(b"ECHO", b"x") * 1000, b"$1\r\nx\r\n" * 1000)
            told.update(r.info("stats"))
            return bool(told["instantaneous_ops_per_sec"] >= 100)

        patience.wait_until(is_busy, "a rate is told")
    assert told["instantaneous_input_kbps"] > 1
    assert told["instantaneous_output_kbps"] > 0.5
    assert told["total_net_input_bytes"] > 20_000


def test_a_rate_counts_the_bytes_of_the_commands_that_it_counts(node: Node, r: Any) -> None:
    echo = request(b"ECHO", b"x")
    with node.client() as client:
        r.config_resetstat()
        time.sleep(2 * RATE_SAMPLE_MS.value / 1000)
        # A sample is due when these arrive, and another one when INFO does.
        client.ask(echo * 1000, b"$1\r\nx\r\n" * 1000)
        time.sleep(2 * RATE_SAMPLE_MS.value / 1000)
        told = r.info("stats")
    command_bytes = told["instantaneous_input_kbps"] * 1024 / told["instantaneous_ops_per_sec"]
    assert command_bytes == pytest.approx(len(echo), rel=0.1)


def test_commands_processed_are_those_that_ran(node: Node, r: Any) -> None:
    r.ping()
    r.config_resetstat()
    with pytest.raises(redis.ResponseError):
        r.execute_command("NOSUCH")
    pipe = r.pipeline(transaction=True)
    pipe.echo("one")
    pipe.echo("two")
    pipe.execute()
    # RESETSTAT itself, MULTI, ECHO twice, EXEC.
    assert r.info("stats")["total_commands_processed"] == 5


def test_a_bootstrap_stands_beside_the_links(r: Any) -> None:
    found = r.info("crdt")
    assert found["crdt_bootstrap_phase"] == "idle"
    assert found["crdt_bootstrap_source"] == 0
    assert found["crdt_bootstrap_bytes_done"] == found["crdt_bootstrap_bytes"] == 0
    assert found["crdt_bootstrap_taken_over"] == found["crdt_bootstrap_failures"] == 0
