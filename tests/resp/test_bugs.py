"""A command that breaks half-way: the node ends, and nothing of it is logged or told."""

import asyncio
import time
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


class BreakingClock:
    """Raises at one of its calls: a bug before a run has changed anything, or after."""

    def __init__(self, *, at_call: int) -> None:
        self._left = at_call

    def __call__(self) -> int:
        self._left -= 1
        if not self._left:
            raise ValueError("a slip")
        return time.perf_counter_ns()


XADDS = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n" * 8


async def test_a_run_that_breaks_before_it_changes_anything_is_called_one_by_one(
    tmp_path: Path,
) -> None:
    region = make_region(1, ())
    log = MemoryLog()
    engine = Engine(region, log)
    server = RespServer(engine, NodeSettings(region=1, dir=tmp_path))
    await engine.begin()
    await server.start("127.0.0.1", 0)
    running = asyncio.create_task(engine.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(5):
        writer.write(b"XADD s 1 f v\r\n")
        assert [await reader.readline() for _ in range(2)][1].startswith(b"1-")
        before = region.database.runs.xadds_called
        region.database.clock = BreakingClock(at_call=1)
        writer.write(XADDS + b"XLEN s\r\n")
        told = [await reader.readline() for _ in range(17)]
        assert told[-1] == b":9\r\n"
        assert [line[:1] for line in told[:16:2]] == [b"$"] * 8
        # The next ones are a run again.
        assert region.database.runs.xadds_called == before
        writer.write(XADDS + b"XLEN s\r\n")
        assert [await reader.readline() for _ in range(17)][-1] == b":17\r\n"
        assert region.database.runs.xadds_called == before + 1
    assert not running.done()
    writer.close()
    engine.stop()
    await running
    await server.stop(patience_ms=0)


async def test_a_run_that_breaks_half_way_ends_the_node_and_leaves_nothing(tmp_path: Path) -> None:
    region = make_region(1, ())
    log = MemoryLog()
    engine = Engine(region, log)
    server = RespServer(engine, NodeSettings(region=1, dir=tmp_path))
    await engine.begin()
    await server.start("127.0.0.1", 0)
    running = asyncio.create_task(engine.run())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(5):
        writer.write(b"XADD s 1 f v\r\n")
        assert [await reader.readline() for _ in range(2)][1].startswith(b"1-")
        region.database.clock = BreakingClock(at_call=2)
        writer.write(XADDS)
        with pytest.raises(BaseExceptionGroup) as group:
            await running
    assert group.group_contains(ValueError, match="a slip")
    assert log.last_seq == 1
    await server.stop(patience_ms=0)
    assert await reader.read() == b""
    writer.close()


async def test_an_append_in_a_transaction_that_breaks_ends_the_node(tmp_path: Path) -> None:
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
    _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(5):
        # Its reply could only lie: the entry is there, and the command has changed nothing.
        writer.write(b"MULTI\r\nXADD s * f v\r\nXLEN s\r\nEXEC\r\n")
        with pytest.raises(BaseExceptionGroup) as group:
            await running
    assert group.group_contains(ValueError, match="a slip")
    assert log.last_seq == 0
    await server.stop(patience_ms=0)
    writer.close()
