"""Valkey GLIDE for Python: a core written in Rust, RESP3, one connection for all threads."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import glide_sync as glide
import pytest
from glide_sync import IdBound, MaxId, MinId, RequestError

from tests.clients.conftest import wait_until_blocked
from tests.patience import seconds
from tests.resp.node import Node


@contextmanager
def connected(node: Node) -> Iterator[Any]:
    address = glide.NodeAddress("127.0.0.1", node.port)
    client = glide.GlideClient.create(
        glide.GlideClientConfiguration([address], request_timeout=int(1_000 * seconds()))
    )
    with closing(client):
        yield client


@pytest.fixture
def r(node: Node) -> Iterator[Any]:
    with connected(node) as client:
        yield client


def test_streams_and_groups(r: Any) -> None:
    ids = [r.xadd("s", [("n", str(n))]) for n in range(4)]
    assert list(r.xrange("s", MinId(), MaxId())) == ids
    assert list(r.xrevrange("s", MaxId(), IdBound(ids[2]))) == [ids[3], ids[2]]
    assert list(r.xread({"s": ids[1]})[b"s"]) == ids[2:]
    assert r.xgroup_create("s", "g", "0") == "OK"
    assert list(r.xreadgroup({"s": ">"}, "g", "alice")[b"s"]) == ids
    assert r.xack("s", "g", [ids[0], ids[3]]) == 2
    assert r.xpending("s", "g") == [2, ids[1], ids[2], [[b"alice", b"2"]]]
    rows = r.xpending_range("s", "g", MinId(), MaxId(), 10)
    assert [row[:2] for row in rows] == [[ids[1], b"alice"], [ids[2], b"alice"]]
    assert list(r.xclaim("s", "g", "bob", 0, [ids[1]])) == [ids[1]]
    cursor, claimed, deleted = r.xautoclaim("s", "g", "carol", 0, "0")
    assert (cursor, list(claimed), deleted) == (b"0-0", ids[1:3], [])
    assert r.xautoclaim_just_id("s", "g", "carol", 0, "0")[1] == ids[1:3]
    (group,) = r.xinfo_groups("s")
    assert (group[b"consumers"], group[b"pending"], group[b"lag"]) == (3, 2, 0)
    assert {row[b"name"] for row in r.xinfo_consumers("s", "g")} == {b"alice", b"bob", b"carol"}
    assert r.xinfo_stream("s")[b"length"] == 4
    full = r.xinfo_stream_full("s")
    assert [entry_id for entry_id, _ in full[b"entries"]] == ids
    assert full[b"groups"][0][b"pel-count"] == 2
    assert r.xtrim("s", glide.TrimByMaxLen(exact=True, threshold=2)) == 2


def test_values_of_any_bytes_survive(r: Any) -> None:
    value = bytes(range(256)) * 10
    entry_id = r.xadd(value, [(value, value), (b"", b"")])
    assert r.xread({value: "0"}) == {value: {entry_id: [[value, value], [b"", b""]]}}


def test_another_client_wakes_a_blocking_read(r: Any, node: Node) -> None:
    appended: list[bytes] = []

    def append() -> None:
        wait_until_blocked(node)
        with connected(node) as other:
            appended.append(other.xadd("s", [("a", "1")]))

    thread = threading.Thread(target=append)
    thread.start()
    reply = r.xread({"s": "$"}, glide.StreamReadOptions(block_ms=10_000))
    thread.join()
    assert list(reply[b"s"]) == appended
    assert r.xread({"s": "$"}, glide.StreamReadOptions(block_ms=10)) is None


@pytest.mark.parametrize("is_atomic", [True, False], ids=["transaction", "pipeline"])
def test_batches(r: Any, is_atomic: bool) -> None:
    batch = glide.Batch(is_atomic=is_atomic)
    batch.xadd("s", [("a", "1")])
    batch.xgroup_create("none", "g", "0")
    batch.xadd("s", [("a", "2")])
    batch.xlen("s")
    first, error, second, length = r.exec(batch, raise_on_error=False)
    assert isinstance(error, RequestError)
    assert (list(r.xrange("s", MinId(), MaxId())), length) == ([first, second], 2)


def test_a_lost_watch_is_no_result(r: Any, node: Node) -> None:
    assert r.watch(["s"]) == "OK"
    with connected(node) as other:
        other.xadd("s", [("a", "1")])
    batch = glide.Batch(is_atomic=True)
    batch.xadd("s", [("a", "2")])
    assert r.exec(batch, raise_on_error=True) is None
    assert r.xlen("s") == 1


def test_a_transaction_with_a_command_that_is_none_does_nothing(r: Any) -> None:
    batch = glide.Batch(is_atomic=True)
    batch.xadd("s", [("a", "1")])
    batch.custom_command(["XADD", "s"])
    with pytest.raises(RequestError, match="wrong number of arguments"):
        r.exec(batch, raise_on_error=True)
    assert r.xlen("s") == 0


def test_errors(r: Any) -> None:
    with pytest.raises(RequestError, match="NOGROUP"):
        r.xreadgroup({"none": ">"}, "g", "c")
    r.xgroup_create("s", "g", "0", glide.StreamGroupOptions(make_stream=True))
    with pytest.raises(RequestError, match="BUSYGROUP"):
        r.xgroup_create("s", "g", "0")
    with pytest.raises(RequestError, match="unknown command 'LPUSH'"):
        r.lpush("k", ["v"])


def test_it_comes_back_after_its_connection_was_killed(r: Any, node: Node) -> None:
    entry_id = r.xadd("s", [("a", "1")])
    with connected(node) as other:
        assert other.custom_command(["CLIENT", "KILL", "ID", str(r.client_id())]) == 1
    # The request that finds the connection closed may fail; GLIDE connects again by itself.
    with suppress(glide.ConnectionError):
        r.ping()
    assert list(r.xrange("s", MinId(), MaxId())) == [entry_id]
