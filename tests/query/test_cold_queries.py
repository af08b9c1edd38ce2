"""Plans, scans and trims of programs, of entries that are on disk only."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from crdtstream.core.lanes.cold import TRIES_MAX
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.engine.engine import Engine
from crdtstream.store.errors import ImageError, StoreError
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.cold_nodes import freeze
from tests.harness.driven import Told, make_region
from tests.patience import until
from tests.query.test_durable_reads import serving

COUNT = 200
NODE_ENTRIES = 10


class Disk:
    """Images that take a turn of the event loop to be read.

    Attributes:
        images: what is kept.
        read: how many were read.
        fault: why nothing can be read; None: it can.
    """

    def __init__(self) -> None:
        self.images: dict[int, bytes] = {}
        self.read = 0
        self.fault: str | None = None

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise StoreError(self.fault)
        self.read += len(numbers)
        return {number: self.images[number] for number in numbers}


@dataclass(slots=True)
class Queried:
    """A region with a stream, a group that has read it, and a program that queries it."""

    engine: Engine
    disk: Disk
    stub: rpc.QueryStub

    def call(self, *words: str) -> None:
        client = Told(self.engine.region).client
        argv = [word.encode() for word in words]
        client.run(iter([argv]), self.engine.now(), bytes_max=1 << 20)

    async def settled(self) -> None:
        region = self.engine.region
        await until(lambda: region.outstanding.durable_vv == region.replica.vv, "all is durable")

    def freeze(self) -> None:
        self.disk.images |= freeze(self.engine.region.replica.node_limits)

    async def scan(self, *, above_n: int = 0, upto_n: int = 0) -> list[int]:
        """The dot numbers that a scan reads."""
        request = pb.ScanRequest(key=b"s", origin=1, above_n=above_n, upto_n=upto_n)
        pieces = [piece.data async for piece in self.stub.Scan(request)]
        rows = pa.ipc.open_stream(pa.py_buffer(b"".join(pieces))).read_all()
        numbers: list[int] = rows.column("n").to_pylist()
        return numbers

    async def plan(self, *, range_entries: int) -> pb.PlanReply:
        request = pb.PlanRequest(patterns=[b"s"], range_entries=range_entries)
        reply: pb.PlanReply = await self.stub.Plan(request)
        return reply

    @property
    def inline(self) -> int:
        return self.engine.region.replica.residency.loaded_inline


@contextlib.asynccontextmanager
async def queried(folder: Path) -> AsyncIterator[Queried]:
    disk = Disk()
    engine = Engine(make_region(peers=()), MemoryLog(), images=disk)
    replica = engine.region.replica
    replica.node_limits.entries_max = NODE_ENTRIES
    replica.residency.loader = disk.images.__getitem__
    await engine.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run())
        async with serving(engine, folder) as stub:
            one = Queried(engine, disk, stub)
            for _ in range(COUNT):
                one.call("XADD", "s", "*", "f", "v")
            await one.settled()
            one.freeze()
            yield one
        engine.stop()


async def test_a_scan_reads_what_is_on_disk(tmp_path: Path) -> None:
    async with queried(tmp_path) as one:
        assert await one.scan() == list(range(1, COUNT + 1))
        one.freeze()
        assert await one.scan(above_n=15, upto_n=33) == list(range(16, 34))
        assert one.inline == 0


async def test_a_plan_reads_only_where_it_cuts(tmp_path: Path) -> None:
    async with queried(tmp_path) as one:
        warm = await one.plan(range_entries=30)
        read = one.disk.read
        assert sum(entries.entries for entries in warm.ranges) == COUNT
        above = effects_pb2.VersionVector(regions=[1], counts=[15])
        request = pb.PlanRequest(patterns=[b"s"], above=above, only_end=True, entries_max=42)
        end = (await one.stub.Plan(request)).end
        assert list(end.counts) == [57]
        assert read == 0
        assert one.inline == 0


async def test_a_scan_leaves_in_memory_what_others_read(tmp_path: Path) -> None:
    async with queried(tmp_path) as one:
        replica = one.engine.region.replica
        await one.scan(above_n=COUNT - NODE_ENTRIES)
        stream = replica.stream(b"s")
        assert stream is not None
        nodes: list[MacroNode] = list(stream.lanes[replica.region].macro_nodes())
        nodes[-1].used = True
        await one.scan()
        assert nodes[-1].used
        assert [at for at, node in enumerate(nodes[:-2]) if node.used] == []


async def test_archived_entries_are_trimmed_without_being_read(tmp_path: Path) -> None:
    async with queried(tmp_path) as one:
        read = effects_pb2.VersionVector(regions=[1], counts=[COUNT // 2 + 5])
        request = pb.TrimReadRequest(key=b"s", read=read, before_ms=1 << 60)
        removed = (await one.stub.TrimRead(request)).removed
        assert removed == COUNT // 2 + 5
        # But for the macro node that is cut, and what is read ahead of it.
        assert await one.scan() == list(range(removed + 1, COUNT + 1))
        assert one.inline == 0


async def test_a_scan_that_cannot_read_says_why_and_can_be_made_again(tmp_path: Path) -> None:
    async with queried(tmp_path) as one:
        one.disk.fault = "input/output error"
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await one.scan()
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "cannot be read from disk: input/output error" in (raised.value.details() or "")
        one.disk.fault = None
        assert len(await one.scan()) == COUNT


async def test_a_trim_that_cannot_read_in_place_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory, what was read leaves again: the last attempt reads in place."""
    monkeypatch.setattr(TRIES_MAX, "value", 0)

    def refuse(_image: int) -> bytes:
        raise ImageError("input/output error")

    async with queried(tmp_path) as one:
        one.engine.region.replica.residency.loader = refuse
        read = effects_pb2.VersionVector(regions=[1], counts=[COUNT // 2 + 5])
        request = pb.TrimReadRequest(key=b"s", read=read, before_ms=1 << 60)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await one.stub.TrimRead(request)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "cannot be read from disk: input/output error" in (raised.value.details() or "")


async def test_clients_wait_for_the_engine_to_read(tmp_path: Path) -> None:
    async with queried(tmp_path) as one:
        client = Told(one.engine.region)
        client.client.run(
            iter([[b"XRANGE", b"s", b"-", b"+"]]), one.engine.now(), bytes_max=1 << 20
        )
        await until(lambda: client.resumed, "it goes on")
        assert one.disk.read
        assert one.engine.stats.fetch_us.count
