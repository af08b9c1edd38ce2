"""A command that breaks half-way: the node ends, and nothing of it is logged or told."""

import asyncio
import time
from pathlib import Path

import pytest

from crdtstream.commands.command import Command, RunCommand
from crdtstream.commands.reply import Reply
from crdtstream.core.effects import CreateGroup
from crdtstream.core.ids import ID_MIN, Millis
from crdtstream.core.replica import Replica
from crdtstream.engine.engine import Engine
from crdtstream.resp.server import RespServer
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region
from tests.patience import seconds


class Serving:
    """A node in this process, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.region = make_region(1, ())
        self.log = MemoryLog()
        self.engine = Engine(self.region, self.log)
        self.server = RespServer(self.engine, NodeSettings(region=1, dir=folder))

    async def start(self, *, xlen: RunCommand | None = None) -> None:
        """Start it; XLEN may be another command."""
        if xlen is not None:
            old = self.region.database.commands[b"xlen"]
            self.region.database.register([Command(b"xlen", xlen, old.arity, old.flags)])
        await self.engine.begin()
        await self.server.start("127.0.0.1", 0)
        self.running = asyncio.create_task(self.engine.run())
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.server.port)

    async def stop(self) -> None:
        self.writer.close()
        self.engine.stop()
        await self.running
        await self.server.stop(patience_ms=0)


async def test_a_command_that_breaks_half_way_ends_the_node_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    serving = Serving(tmp_path)

    def broken(replica: Replica, _now: Millis, argv: list[bytes]) -> Reply:
        replica.issue(CreateGroup(argv[1], b"half", ID_MIN))
        raise AssertionError("a bug")

    await serving.start(xlen=broken)
    serving.writer.write(b"XADD s * f v\r\n")
    assert (await serving.reader.readuntil(b"-1\r\n")).startswith(b"$")
    serving.writer.write(b"XADD s * f v\r\nXLEN s\r\nXADD s * f v\r\n")
    with pytest.raises(BaseExceptionGroup) as group:
        await asyncio.wait_for(serving.running, seconds())
    assert group.group_contains(AssertionError, match="a bug")
    assert serving.log.last_seq == 1
    await serving.server.stop(patience_ms=0)
    assert await serving.reader.read() == b""
    serving.writer.close()


async def test_a_command_that_breaks_before_it_changes_anything_is_answered(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    def broken(_replica: Replica, _now: Millis, _argv: list[bytes]) -> Reply:
        raise ValueError("a slip")

    await serving.start(xlen=broken)
    serving.writer.write(b"XLEN s\r\nXADD s * f v\r\nPING\r\n")
    async with asyncio.timeout(seconds()):
        assert (await serving.reader.readline()).startswith(
            b"-ERR internal error: this command has changed"
        )
        assert (await serving.reader.readline()).startswith(b"$")
        assert b"-" in await serving.reader.readline()
        assert await serving.reader.readline() == b"+PONG\r\n"
        serving.writer.write(b"MULTI\r\nXLEN s\r\nEXEC\r\nPING\r\n")
        told = [await serving.reader.readline() for _ in range(4)]
    assert told[:2] == [b"+OK\r\n", b"+QUEUED\r\n"]
    assert told[2].startswith(b"-ERR internal error")
    assert told[3] == b"+PONG\r\n"
    assert not serving.running.done()
    assert serving.log.last_seq == 1
    await serving.stop()


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
    serving = Serving(tmp_path)
    await serving.start()
    async with asyncio.timeout(seconds()):
        serving.writer.write(b"XADD s 1 f v\r\n")
        assert [await serving.reader.readline() for _ in range(2)][1].startswith(b"1-")
        before = serving.region.database.runs.xadds_called
        serving.region.database.clock = BreakingClock(at_call=1)
        serving.writer.write(XADDS + b"XLEN s\r\n")
        told = [await serving.reader.readline() for _ in range(17)]
        assert told[-1] == b":9\r\n"
        assert [line[:1] for line in told[:16:2]] == [b"$"] * 8
        # The next ones are a run again.
        assert serving.region.database.runs.xadds_called == before
        serving.writer.write(XADDS + b"XLEN s\r\n")
        assert [await serving.reader.readline() for _ in range(17)][-1] == b":17\r\n"
        assert serving.region.database.runs.xadds_called == before + 1
    assert not serving.running.done()
    await serving.stop()


async def test_a_run_that_breaks_half_way_ends_the_node_and_leaves_nothing(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    await serving.start()
    async with asyncio.timeout(seconds()):
        serving.writer.write(b"XADD s 1 f v\r\n")
        assert [await serving.reader.readline() for _ in range(2)][1].startswith(b"1-")
        serving.region.database.clock = BreakingClock(at_call=2)
        serving.writer.write(XADDS)
        with pytest.raises(BaseExceptionGroup) as group:
            await serving.running
    assert group.group_contains(ValueError, match="a slip")
    assert serving.log.last_seq == 1
    await serving.server.stop(patience_ms=0)
    assert await serving.reader.read() == b""
    serving.writer.close()


async def test_an_append_in_a_transaction_that_breaks_ends_the_node(tmp_path: Path) -> None:
    serving = Serving(tmp_path)

    def broken(_replica: Replica, _now: Millis, _argv: list[bytes]) -> Reply:
        raise ValueError("a slip")

    await serving.start(xlen=broken)
    async with asyncio.timeout(seconds()):
        # Its reply could only lie: the entry is there, and the command has changed nothing.
        serving.writer.write(b"MULTI\r\nXADD s * f v\r\nXLEN s\r\nEXEC\r\n")
        with pytest.raises(BaseExceptionGroup) as group:
            await serving.running
    assert group.group_contains(ValueError, match="a slip")
    assert serving.log.last_seq == 0
    await serving.server.stop(patience_ms=0)
    serving.writer.close()
