"""Plans and scans name durable dots only (``rules`` 18): a power cut gives others to new entries.

The entries here are in the log, and XRANGE shows them, but no sync has returned since.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from crdtstream.core.ids import RegionId
from crdtstream.engine.agenda import SYNC_SECONDS
from crdtstream.engine.engine import Engine
from crdtstream.query.service import QueryService
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import Fsync
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.harness.driven import Told, make_region
from tests.patience import until
from tests.store.held_log import HeldLog

R1 = RegionId(1)


@dataclass(slots=True)
class Queried:
    """One region on a log that can be held back, and a program that queries it."""

    engine: Engine
    log: HeldLog
    stub: rpc.QueryStub

    async def add(self, count: int) -> None:
        """Append entries and wait until they are in the log."""
        client = Told(self.engine.region).client
        argv = [b"XADD", b"s", b"*", b"f", b"v"]
        client.run(iter([argv] * count), self.engine.now(), bytes_max=1 << 20)
        region = self.engine.region
        await until(lambda: region.outstanding.logged_vv == region.replica.vv, "all is in the log")

    async def made_durable(self) -> None:
        self.log.let_go()
        region = self.engine.region
        await until(lambda: region.outstanding.durable_vv == region.replica.vv, "all is durable")


@contextlib.asynccontextmanager
async def serving(engine: Engine, folder: Path) -> AsyncIterator[rpc.QueryStub]:
    server = grpc.aio.server()
    service = QueryService(engine, NodeSettings(region=1, dir=folder))
    rpc.add_QueryServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield rpc.QueryStub(channel)
    finally:
        await server.stop(grace=0)


@pytest.fixture
async def one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Queried]:
    """A region with three durable entries and two that are not."""
    monkeypatch.setitem(SYNC_SECONDS, Fsync.EVERYSEC, 0.005)
    log = HeldLog(Fsync.EVERYSEC)
    engine = Engine(make_region(1, ()), log, fsync=Fsync.EVERYSEC)
    await engine.begin()
    async with asyncio.TaskGroup() as tasks, serving(engine, tmp_path) as stub:
        tasks.create_task(engine.run())
        queried = Queried(engine, log, stub)
        await queried.add(3)
        await queried.made_durable()
        log.hold()
        await queried.add(2)
        try:
            yield queried
        finally:
            log.let_go()
            engine.stop()


def upto(n: int) -> effects_pb2.VersionVector:
    return effects_pb2.VersionVector(regions=[1], counts=[n])


async def scanned(one: Queried) -> list[int]:
    """The dot numbers that a scan without an end reads."""
    pieces = [piece.data async for piece in one.stub.Scan(pb.ScanRequest(key=b"s", origin=1))]
    rows = pa.ipc.open_stream(pa.py_buffer(b"".join(pieces))).read_all()
    numbers: list[int] = rows.column("n").to_pylist()
    return numbers


async def test_a_plan_ends_at_what_is_durable(one: Queried) -> None:
    reply = await one.stub.Plan(pb.PlanRequest(patterns=[b"s"]))
    assert reply.end == upto(3)
    assert [(found.upto_n, found.entries) for found in reply.ranges] == [(3, 3)]
    await one.made_durable()
    assert (await one.stub.Plan(pb.PlanRequest(patterns=[b"s"]))).end == upto(5)


async def test_a_scan_ends_at_what_is_durable(one: Queried) -> None:
    assert await scanned(one) == [1, 2, 3]
    await one.made_durable()
    assert await scanned(one) == [1, 2, 3, 4, 5]


async def test_requests_for_effects_that_are_not_durable_are_refused(one: Queried) -> None:
    request = pb.PlanRequest(patterns=[b"s"], upto=upto(4))
    with pytest.raises(grpc.aio.AioRpcError, match="has 1:3 durably, and was asked for 1:4"):
        await one.stub.Plan(request)
    await one.made_durable()
    assert (await one.stub.Plan(request)).end == upto(4)
