"""coredis: asyncio, RESP3 only, errors by kind, consumers of its own."""

import asyncio
from typing import Any

import coredis
import pytest
from coredis.exceptions import (
    ConnectionError,  # noqa: A004
    StreamConsumerGroupError,
    StreamDuplicateConsumerGroupError,
    UnknownCommandError,
    WatchError,
)
from coredis.retry import NoRetryPolicy

from tests.clients.conftest import wait_until_blocked
from tests.patience import exactly
from tests.resp.node import Node


def connect(node: Node, **options: Any) -> Any:
    """A client to enter in the test's own task, as coredis wants it."""
    return coredis.Redis(port=node.port, **{"decode_responses": True, **options})


def ids_of(entries: Any) -> list[Any]:
    return [entry.identifier for entry in entries]


async def blocked(node: Node, count: int = 1) -> None:
    await asyncio.to_thread(wait_until_blocked, node, count)


async def test_streams_and_groups(node: Node) -> None:
    async with connect(node) as r:
        ids = [await r.xadd("s", {"n": str(n)}) for n in range(4)]
        assert ids_of(await r.xrange("s")) == ids
        assert ids_of((await r.xread({"s": ids[1]}))["s"]) == ids[2:]
        assert await r.xgroup_create("s", "g", "0")
        assert ids_of((await r.xreadgroup("g", "alice", {"s": ">"}, count=3))["s"]) == ids[:3]
        assert await r.xack("s", "g", [ids[0]]) == 1
        pending = await r.xpending("s", "g")
        assert (pending.pending, pending.minimum_identifier) == (2, ids[1])
        rows = await r.xpending("s", "g", start="-", end="+", count=10)
        assert [(row.identifier, row.consumer) for row in rows] == [(i, "alice") for i in ids[1:3]]
        assert ids_of(await r.xclaim("s", "g", "bob", 0, [ids[1]])) == [ids[1]]
        cursor, claimed, deleted = await r.xautoclaim("s", "g", "carol", 0, "0")
        assert (cursor, ids_of(claimed), deleted) == ("0-0", ids[1:3], ())
        (group,) = await r.xinfo_groups("s")
        assert (group["consumers"], group["pending"], group["lag"]) == (3, 2, 1)
        full = await r.xinfo_stream("s", full=True)
        assert ids_of(full["entries"]) == ids
        assert full["groups"][0]["pel-count"] == 2
        assert {key async for key in r.scan_iter()} == {"s"}


async def test_bytes_stay_bytes(node: Node) -> None:
    value = bytes(range(256))
    async with connect(node, decode_responses=False) as r:
        entry_id = await r.xadd(value, {value: value})
        (entry,) = (await r.xread({value: 0}))[value]
        assert (entry.identifier, dict(entry.field_values)) == (entry_id, {value: value})


async def test_another_client_wakes_a_blocking_read(node: Node) -> None:
    async with connect(node) as r:
        reader = asyncio.ensure_future(r.xread({"s": "$"}, block=10_000))
        await blocked(node)
        async with connect(node) as other:
            entry_id = await other.xadd("s", {"a": "1"})
        assert ids_of((await reader)["s"]) == [entry_id]


async def test_pipelines_and_transactions(node: Node) -> None:
    async with connect(node) as r:
        for is_transaction in (False, True):
            await r.delete(["s"])
            async with r.pipeline(transaction=is_transaction) as pipe:
                first, second = pipe.xadd("s", {"a": "1"}), pipe.xadd("s", {"a": "2"})
                length = pipe.xlen("s")
            assert await length == 2
            assert ids_of(await r.xrange("s")) == [await first, await second]


async def test_a_lost_watch_is_an_error(node: Node) -> None:
    async with connect(node) as r:

        async def append_twice() -> None:
            async with r.pipeline(transaction=False) as pipe, pipe.watch("s"):
                await r.xadd("s", {"a": "1"})
                pipe.xadd("s", {"a": "2"})

        with pytest.raises(WatchError):
            await append_twice()
        assert await r.xlen("s") == 1


async def test_errors_have_types_of_their_own(node: Node) -> None:
    async with connect(node) as r:
        with pytest.raises(StreamConsumerGroupError, match="No such key"):
            await r.xreadgroup("g", "c", {"none": ">"})
        await r.xgroup_create("s", "g", mkstream=True)
        with pytest.raises(StreamDuplicateConsumerGroupError):
            await r.xgroup_create("s", "g")
        with pytest.raises(UnknownCommandError, match="LPUSH"):
            await r.lpush("k", ["v"])


async def test_a_killed_reader_takes_nothing_with_it(node: Node) -> None:
    async with connect(node) as r:
        await r.xgroup_create("s", "g", mkstream=True)
        async with connect(node, retry_policy=NoRetryPolicy()) as victim:
            reader = asyncio.ensure_future(victim.xreadgroup("g", "gone", {"s": ">"}, block=60_000))
            await blocked(node)
            (row,) = (row for row in await r.client_list() if "b" in row["flags"])
            assert await r.client_kill(identifier=int(row["id"])) == 1
            with pytest.raises(ConnectionError):
                await reader
        await blocked(node, 0)
        await r.xadd("s", {"a": "1"})
        assert (await r.xpending("s", "g")).pending == 0


async def test_its_own_group_consumer(node: Node) -> None:
    async with connect(node) as r:
        async with r.xconsumer(
            ["a", "b"], group="g", consumer="alice", timeout=exactly(10_000), buffer_size=10
        ) as consumer:
            sent = [(key, await r.xadd(key, {"n": str(n)})) for n in range(5) for key in ("a", "b")]
            got = []
            for _ in sent:
                stream, entry = await consumer.get_entry()
                await r.xack(stream, "g", [entry.identifier])
                got.append((stream, entry.identifier))
            assert sorted(got) == sorted(sent)
        for key in ("a", "b"):
            assert (await r.xpending(key, "g")).pending == 0
