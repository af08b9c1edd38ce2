"""A command that breaks half-way: the node ends, and nothing of it is logged or told."""

import asyncio
from pathlib import Path

import pytest

from crdtstream.commands.command import Command
from crdtstream.commands.reply import Reply
from crdtstream.core.effects import CreateGroup
from crdtstream.core.ids import ID_MIN, Millis
from crdtstream.core.replica import Replica
from crdtstream.engine import Engine
from crdtstream.resp.server import RespServer
from crdtstream.settings import NodeSettings
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region


async def test_a_command_that_breaks_half_way_ends_the_node_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    region = make_region(1, ())
    log = MemoryLog()
    engine = Engine(region, log)
    server = RespServer(engine, NodeSettings(region=1, dir=tmp_path))

    def broken(replica: Replica, _now: Millis, argv: list[bytes]) -> Reply:
        replica.issue(CreateGroup(argv[1], b"half", ID_MIN))
        raise AssertionError("a bug")

    xlen = region.database.commands[b"xlen"]
    region.database.register([Command(b"xlen", broken, xlen.arity, xlen.flags)])
    await engine.begin()
    await server.start("127.0.0.1", 0)
    running = asyncio.create_task(engine.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"XADD s * f v\r\n")
    assert (await reader.readuntil(b"-1\r\n")).startswith(b"$")
    writer.write(b"XADD s * f v\r\nXLEN s\r\nXADD s * f v\r\n")
    with pytest.raises(BaseExceptionGroup) as group:
        await asyncio.wait_for(running, 5)
    assert group.group_contains(AssertionError, match="a bug")
    assert log.last_seq == 1
    await server.stop(patience_ms=0)
    assert await reader.read() == b""
    writer.close()


async def test_a_command_that_breaks_before_it_changes_anything_is_answered(tmp_path: Path) -> None:
    region = make_region(1, ())
    log = MemoryLog()
    engine = Engine(region, log)
    server = RespServer(engine, NodeSettings(region=1, dir=tmp_path))

    def broken(_replica: Replica, _now: Millis, _argv: list[bytes]) -> Reply:
        raise ValueError("a slip")

    xlen = region.database.commands[b"xlen"]
    region.database.register([Command(b"xlen", broken, xlen.arity, xlen.flags)])
    await engine.begin()
    await server.start("127.0.0.1", 0)
    running = asyncio.create_task(engine.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"XLEN s\r\nXADD s * f v\r\nPING\r\n")
    async with asyncio.timeout(5):
        assert (await reader.readline()).startswith(
            b"-ERR internal error: this command has changed"
        )
        assert (await reader.readline()).startswith(b"$")
        assert b"-" in await reader.readline()
        assert await reader.readline() == b"+PONG\r\n"
        writer.write(b"MULTI\r\nXLEN s\r\nEXEC\r\nPING\r\n")
        told = [await reader.readline() for _ in range(4)]
    assert told[:2] == [b"+OK\r\n", b"+QUEUED\r\n"]
    assert told[2].startswith(b"-ERR internal error")
    assert told[3] == b"+PONG\r\n"
    assert not running.done()
    assert log.last_seq == 1
    writer.close()
    engine.stop()
    await running
    await server.stop(patience_ms=0)
