"""redis-py and valkey-py on asyncio."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.clients.conftest import wait_until_blocked
from tests.clients.libraries import Library, by_key, ids_of
from tests.resp.node import Node


@pytest.fixture
async def r(node: Node, library: Library) -> AsyncIterator[Any]:
    async with library.connect_asyncio(node.port, decode_responses=True) as client:
        yield client


async def blocked(node: Node, count: int = 1) -> None:
    """``wait_until_blocked`` for a test whose own loop must go on."""
    await asyncio.to_thread(wait_until_blocked, node, count)


async def test_streams_and_groups(r: Any) -> None:
    ids = [await r.xadd("s", {"n": n}) for n in range(4)]
    assert ids_of(await r.xrange("s")) == ids
    assert ids_of(by_key(await r.xread({"s": ids[1]}))["s"]) == ids[2:]
    assert await r.xgroup_create("s", "g", id="0")
    got = by_key(await r.xreadgroup("g", "alice", {"s": ">"}, count=3))["s"]
    assert ids_of(got) == ids[:3]
    assert await r.xack("s", "g", ids[0]) == 1
    assert (await r.xpending("s", "g"))["pending"] == 2
    assert ids_of(await r.xclaim("s", "g", "bob", 0, [ids[1]])) == [ids[1]]
    assert ids_of((await r.xautoclaim("s", "g", "carol", 0))[1]) == ids[1:3]
    assert (await r.xinfo_groups("s"))[0]["lag"] == 1
    assert len((await r.xinfo_stream("s", full=True))["entries"]) == 4
    assert [key async for key in r.scan_iter()] == ["s"]


async def test_bytes_stay_bytes(node: Node, library: Library) -> None:
    value = bytes(range(256))
    async with library.connect_asyncio(node.port) as r:
        entry_id = await r.xadd(value, {value: value})
        assert by_key(await r.xread({value: 0})) == {value: [(entry_id, {value: value})]}


async def test_another_client_wakes_a_blocking_read(r: Any, node: Node) -> None:
    reader = asyncio.create_task(r.xread({"s": "$"}, block=10_000))
    await blocked(node)
    async with r.pipeline() as pipe:
        pipe.xadd("s", {"n": 1})
        pipe.xadd("s", {"n": 2})
        ids = await pipe.execute()
    assert ids_of(by_key(await reader)["s"]) == ids


async def test_many_tasks_of_one_client(r: Any) -> None:
    ids = await asyncio.gather(*(r.xadd("s", {"n": n}) for n in range(50)))
    assert sorted(ids_of(await r.xrange("s"))) == sorted(ids)
    assert len(set(ids)) == 50


async def test_consumers_share_what_is_appended(r: Any, node: Node) -> None:
    await r.xgroup_create("s", "g", mkstream=True)
    got: list[tuple[str, str]] = []

    async def consume(name: str) -> None:
        while True:
            entries = by_key(await r.xreadgroup("g", name, {"s": ">"}, count=1, block=10_000))["s"]
            ((entry_id, fields),) = entries
            await r.xack("s", "g", entry_id)
            if "end" in fields:
                return
            got.append((entry_id, fields["n"]))

    consumers = [asyncio.create_task(consume(f"c{n}")) for n in range(4)]
    await blocked(node, 4)
    sent = [(await r.xadd("s", {"n": n}), str(n)) for n in range(100)]
    for _ in consumers:
        await r.xadd("s", {"end": 1})
    await asyncio.gather(*consumers)
    # Each entry went to one consumer, exactly once.
    assert sorted(got) == sorted(sent)
    assert (await r.xpending("s", "g"))["pending"] == 0


async def test_a_cancelled_blocking_read_leaves_nothing_behind(
    r: Any, node: Node, library: Library
) -> None:
    await r.xgroup_create("s", "g", mkstream=True)
    async with library.connect_asyncio(node.port, decode_responses=True) as consumer:
        reader = asyncio.create_task(consumer.xreadgroup("g", "gone", {"s": ">"}, block=60_000))
        await blocked(node)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await blocked(node, 0)
        # The pool has thrown the connection away: an answer to another question may be on it.
        assert await consumer.ping()
    await r.xadd("s", {"a": 1})
    assert (await r.xpending("s", "g"))["pending"] == 0


async def test_watch_makes_a_transaction_try_again(r: Any) -> None:
    attempts = 0

    async def append_its_length(pipe: Any) -> None:
        nonlocal attempts
        attempts += 1
        length = await pipe.xlen("s")
        if attempts == 1:
            await r.xadd("s", {"from": "elsewhere"})
        pipe.multi()
        pipe.xadd("s", {"length": length})

    await r.transaction(append_its_length, "s")
    assert attempts == 2
    assert [fields for _, fields in await r.xrange("s")] == [{"from": "elsewhere"}, {"length": "1"}]


async def test_errors_have_the_library_s_own_types(r: Any, library: Library) -> None:
    error = library.module.ResponseError
    with pytest.raises(error, match=r"^NOGROUP"):
        await r.xreadgroup("g", "c", {"none": ">"})
    await r.xgroup_create("s", "g", mkstream=True)
    with pytest.raises(error, match=r"^BUSYGROUP"):
        await r.xgroup_create("s", "g")
    with pytest.raises(error, match=r"^unknown command 'LPUSH'"):
        await r.lpush("k", "v")
