"""Limits of clients with a login: bytes left unread, bytes sent, and the memory of all together."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from crdtstream.core.ids import Millis
from crdtstream.resp.clients.connection import CONNECTION_BYTES, Connection
from crdtstream.resp.clients.memory_bound import BOUND_BYTES_MIN, MemoryBound, parse_bound
from crdtstream.resp.clients.output_limits import (
    PUBSUB_LIMIT,
    OutputLimit,
    OutputLimits,
    UnreadBound,
)
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.settings.tables import Limits
from tests.patience import wait_until
from tests.resp.node import Node, RawClient, request, running, settings

PING = request(b"PING")
PONG = b"+PONG\r\n"
MIB = 1 << 20


@contextmanager
def operated(given: NodeSettings | None = None) -> Iterator[tuple[Node, Any]]:
    """A node, and a client of its operator that is never evicted."""
    with running(given) as node, redis.Redis(port=node.port, protocol=2) as r:
        r.client_no_evict("ON")
        yield node, r


def stat(r: Any, name: str) -> int:
    return int(r.info("stats")[name])


def count(node: Node) -> int:
    return node.call(lambda: len(node.server.connections))


# --- What is left unread ------------------------------------------------------------------------


def test_each_class_has_its_bounds_and_others_stay() -> None:
    limits = OutputLimits()
    changed = limits.changed("PUBSUB 16mb 1k 5 normal 2gb 0 0")
    assert changed.pubsub == OutputLimit(16 << 20, 1_000, 5)
    assert changed.normal == OutputLimit(2 << 30)
    assert changed.replica == limits.replica
    for name in ("slave", "replica"):
        assert limits.changed(f"{name} 1 2 3").replica == OutputLimit(1, 2, 3)
    assert str(limits) == "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"


def test_much_unread_is_borne_for_a_while_and_more_not_at_all() -> None:
    bound, limit = UnreadBound(), PUBSUB_LIMIT
    start, soft_ms = 1_000, limit.soft_s * 1_000

    def excess(unread_bytes: int, after_ms: int) -> str | None:
        return bound.excess(limit, unread_bytes, Millis(start + after_ms))

    assert excess(limit.soft, 0) is None
    assert excess(limit.soft, soft_ms) is None
    assert excess(limit.soft - 1, soft_ms + 1) is None
    assert excess(limit.soft, soft_ms + 2) is None
    assert excess(limit.soft, 2 * soft_ms + 3) == (
        "it has left 8388608 bytes and more unread for 60 s"
    )
    assert UnreadBound().excess(limit, limit.hard - 1, Millis(0)) is None
    assert UnreadBound().excess(limit, limit.hard, Millis(0)) == (
        "it leaves 33554432 bytes unread, and the limit is 33554432"
    )
    assert UnreadBound().excess(OutputLimit(), 1 << 40, Millis(0)) is None


def test_a_client_with_much_unread_is_ended_after_the_time_though_nothing_more_is_sent() -> None:
    with operated() as (node, r), node.client() as client:
        r.config_set("client-output-buffer-limit", "normal 0 1mb 0")
        client.send(request(b"ECHO", b"v" * (16 * MIB)))
        wait_until(lambda: stat(r, "client_output_buffer_limit_disconnections") == 1)
        assert count(node) == 1


ECHO_BYTES = 16 * MIB
ECHO = request(b"ECHO", b"v" * ECHO_BYTES)
ECHO_REPLY_BYTES = len(b"$16777216\r\n\r\n") + ECHO_BYTES


def leave_much_unread(node: Node, client: RawClient) -> Connection:
    """Have the client leave more unread than the soft bound; its connection."""
    # The system takes less than a reply, also after the client has fetched much.
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.send(ECHO)
    session_id = max(node.server.connections)
    connection = node.server.connections[session_id]
    wait_until(lambda: node.call(lambda: connection._unread_bound.much_since is not None))
    return connection


def fetch(node: Node, client: RawClient, connection: Connection) -> None:
    assert len(client.read(ECHO_REPLY_BYTES)) == ECHO_REPLY_BYTES
    client.ask(PING, PONG)
    assert node.call(lambda: connection._unread_bound.much_since) is None


def test_a_client_has_one_timer_however_often_it_leaves_much_unread() -> None:
    with operated() as (node, r), node.client() as client:
        r.config_set("client-output-buffer-limit", "normal 0 1mb 3600")
        timers = []
        for _ in range(3):
            connection = leave_much_unread(node, client)
            timers.append(connection._unread_timer)
            fetch(node, client, connection)
        assert timers[0] is not None
        assert all(one is timers[0] for one in timers)
        client.socket.close()
        wait_until(lambda: count(node) == 1)
        assert timers[0].cancelled()


def test_a_client_that_fetched_its_replies_is_judged_again_later() -> None:
    """Its timer has looked once, and found nothing."""
    with operated() as (node, r), node.client() as client:
        r.config_set("client-output-buffer-limit", "normal 0 1mb 1")
        connection = leave_much_unread(node, client)
        timer = connection._unread_timer
        fetch(node, client, connection)
        wait_until(lambda: node.call(lambda: connection._unread_timer) is not timer)
        leave_much_unread(node, client)
        wait_until(lambda: stat(r, "client_output_buffer_limit_disconnections") == 1)


def test_a_listener_has_the_bounds_of_its_class() -> None:
    with operated() as (node, r), node.client() as client:
        r.config_set("client-output-buffer-limit", "normal 1mb 0 0 pubsub 0 0 0")
        client.ask(request(b"SUBSCRIBE", b"c"), b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
        for _ in range(16):
            r.publish("c", b"v" * MIB)
        assert count(node) == 2
        r.config_set("client-output-buffer-limit", "pubsub 1mb 0 0")
        r.publish("c", b"v")
        wait_until(lambda: count(node) == 1)


# --- What is sent -------------------------------------------------------------------------------


def half_request(size: int, declared: int | None = None) -> bytes:
    """A request whose second argument never ends."""
    return b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (declared or size + 1) + b"v" * size


@pytest.mark.parametrize(
    "parts",
    [
        [half_request(0, 3 * MIB)],
        [b"*200000\r\n", *[b"$10000\r\n" + b"v" * 10_000 + b"\r\n"] * 300],
        [request(b"MULTI"), *[request(b"ECHO", b"v" * 100_000)] * 30],
    ],
    ids=["argument", "arguments", "transaction"],
)
def test_a_client_that_sends_without_end_is_cut_off_without_an_answer(parts: list[bytes]) -> None:
    with operated() as (_, r), r, running_client(r) as client:
        r.config_set("client-query-buffer-limit", 2 * MIB)
        with suppress(ConnectionError):
            for part in parts:
                client.send(part)
        wait_until(lambda: stat(r, "client_query_buffer_limit_disconnections") == 1)
        rest = b""
        with suppress(ConnectionError):
            rest = client.read(1 << 20)
        assert b"-" not in rest


@contextmanager
def running_client(r: Any) -> Iterator[RawClient]:
    with RawClient(r.connection_pool.connection_kwargs["port"]) as client:
        yield client


def test_less_than_the_limit_is_no_reason() -> None:
    with operated() as (_, r), running_client(r) as client:
        r.config_set("client-query-buffer-limit", 2 * MIB)
        client.send(request(b"MULTI") + request(b"ECHO", b"v" * MIB) + request(b"DISCARD"))
        client.expect(b"+OK\r\n+QUEUED\r\n+OK\r\n")
        # What was given up does not count.
        client.send(request(b"MULTI") + request(b"ECHO", b"v" * MIB))
        client.expect(b"+OK\r\n+QUEUED\r\n")
        assert stat(r, "client_query_buffer_limit_disconnections") == 0


# --- All together -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bound", "of_1000000"),
    [
        ("0", MemoryBound(0), 0),
        ("3mb", MemoryBound(3 * MIB), 3 * MIB),
        ("1", MemoryBound(1), BOUND_BYTES_MIN),
        ("0%", MemoryBound(0, is_percent=True), 0),
        ("50%", MemoryBound(50, is_percent=True), 500_000),
        ("1%", MemoryBound(1, is_percent=True), BOUND_BYTES_MIN),
    ],
)
def test_the_bound_is_bytes_or_a_part_of_maxmemory(
    text: str, bound: MemoryBound, of_1000000: int
) -> None:
    assert parse_bound(text) == bound
    assert bound.in_bytes(1_000_000) == of_1000000
    assert not bound.is_percent or bound.in_bytes(0) == 0


@pytest.mark.parametrize("text", ["", "-1", "1.5%", "%", "5 %", "x", "9999%"])
def test_anything_else_is_no_bound(text: str) -> None:
    assert parse_bound(text) is None


def test_the_largest_clients_are_evicted_until_the_rest_is_below_the_bound() -> None:
    with operated() as (node, r), ExitStack() as open_ones:
        sizes = [MIB, 3 * MIB, 2 * MIB, MIB]
        clients = [open_ones.enter_context(node.client()) for _ in sizes]
        for client, size in zip(clients, sizes, strict=True):
            client.send(half_request(size))
        wait_until(lambda: total(node) >= sum(sizes))
        r.config_set("maxmemory-clients", "4mb")
        clients[1].expect_closed()
        # 1 + 2 + 1 MiB and what every client takes are above 4 MiB.
        clients[2].expect_closed()
        wait_until(lambda: stat(r, "evicted_clients") == 2)
        assert count(node) == 3


def total(node: Node) -> int:
    return node.call(
        lambda: sum(one.memory_bytes - CONNECTION_BYTES for one in node.server.connections.values())
    )


@pytest.mark.parametrize(
    "parts",
    [
        [half_request(4 * MIB)],
        [request(b"MULTI"), *[request(b"ECHO", b"v" * 100_000)] * 40],
        [request(b"ECHO", b"v" * (16 * MIB))],
        [request(b"WATCH", *[b"%d" % n for n in range(60_000)])],
        [request(b"SUBSCRIBE", *[b"%d" % n for n in range(60_000)])],
    ],
    ids=["request", "transaction", "replies", "watches", "subscriptions"],
)
def test_whatever_a_client_takes_counts(parts: list[bytes]) -> None:
    with operated() as (node, r), running_client(r) as client:
        r.config_set("maxmemory-clients", 3 * MIB)
        with suppress(ConnectionError):
            for part in parts:
                client.send(part)
        wait_until(lambda: stat(r, "evicted_clients") == 1)
        wait_until(lambda: count(node) == 1)


def test_no_evict_spares_a_client_and_reset_ends_that() -> None:
    with operated() as (node, r), running_client(r) as client:
        r.config_set("maxmemory-clients", 3 * MIB)
        client.ask(request(b"CLIENT", b"NO-EVICT", b"ON"), b"+OK\r\n")
        client.send(half_request(5 * MIB))
        wait_until(lambda: total(node) >= 5 * MIB)
        assert count(node) == 2
        client.send(b"v\r\n")
        client.read(5 * MIB + 1 + len(b"$5242881\r\n\r\n"))
        client.ask(request(b"RESET"), b"+RESET\r\n")
        with suppress(ConnectionError):
            client.send(half_request(5 * MIB))
        wait_until(lambda: stat(r, "evicted_clients") == 1)


def test_a_part_of_maxmemory_follows_it() -> None:
    with operated() as (node, r), running_client(r) as client:
        r.config_set("maxmemory-clients", "50%")
        client.send(half_request(2 * MIB))
        wait_until(lambda: total(node) >= 2 * MIB)
        assert stat(r, "evicted_clients") == 0
        assert node.call(lambda: node.server.memory.bound.in_bytes(4 * MIB)) == 2 * MIB


def test_without_a_bound_nothing_is_weighed() -> None:
    with operated() as (node, r), running_client(r) as client:
        r.config_set("maxmemory-clients", MIB)
        r.config_set("maxmemory-clients", 0)
        client.send(half_request(2 * MIB))
        wait_until(lambda: total(node) >= 2 * MIB)
        assert node.call(lambda: node.server.memory._weights) == {}
        assert count(node) == 2


def test_settings_say_what_config_shows() -> None:
    given = NodeSettings(
        region=1,
        dir=Path("unused"),
        maxmemory_clients="5%",
        limits=Limits(output_buffer_bytes_soft=5, output_buffer_soft_s=6, pubsub_buffer_soft_s=7),
    )
    with operated(given) as (_, r):
        assert r.config_get("maxmemory-clients") == {"maxmemory-clients": "5%"}
        shown = r.config_get("client-output-buffer-limit")["client-output-buffer-limit"]
        assert shown == ("normal 0 5 6 slave 268435456 67108864 60 pubsub 33554432 8388608 7")
        assert "evicted_clients" in r.info("stats")
    assert settings().maxmemory_clients == "0"
