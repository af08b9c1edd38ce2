"""Replies of the query service about lost effects, and about lanes that other regions deliver."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import removed_ends
from crdtstream.engine.engine import Engine
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.harness.driven import Told, make_region
from tests.patience import until
from tests.query.test_durable_reads import serving

R3 = RegionId(3)
LOST = "LOST region 3 was removed; of its effects 8… nothing exists"


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """Region 1 with three entries, and region 3 that was removed and ended at 3:7."""
    region = make_region(1, (2,))
    region.replica.ends = removed_ends({R3: 7})
    engine = Engine(region, MemoryLog())
    await engine.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run())
        await done(engine, *["XADD s * f v"] * 3, "XGROUP CREATE s g 0")
        yield engine
        engine.stop()


async def done(engine: Engine, *lines: str) -> None:
    """Run commands, and wait until they are durable."""
    region = engine.region
    client = Told(region).client
    requests = [[word.encode() for word in line.split()] for line in lines]
    client.run(iter(requests), engine.now(), bytes_max=1 << 20)
    await until(lambda: region.outstanding.durable_vv == region.replica.vv, "all is durable")


def vector(n: int) -> effects_pb2.VersionVector:
    return effects_pb2.VersionVector(regions=[3], counts=[n])


async def scan(stub: rpc.QueryStub, request: pb.ScanRequest) -> None:
    async for _ in stub.Scan(request):
        pass


async def test_calls_that_name_lost_effects_are_refused_and_others_are_not(
    engine: Engine, tmp_path: Path
) -> None:
    async with serving(engine, tmp_path) as stub:
        (end,) = (await stub.GetPosition(pb.PositionRequest())).ends
        assert (end.region, end.last_n, end.why) == (3, 7, "was removed")
        assert (await stub.Plan(pb.PlanRequest(above=vector(7)))).ranges
        for call in (
            stub.Plan(pb.PlanRequest(above=vector(8))),
            stub.Plan(pb.PlanRequest(upto=vector(8))),
            scan(stub, pb.ScanRequest(key=b"s", origin=3, upto_n=8)),
        ):
            with pytest.raises(grpc.RpcError) as raised:
                await call
            refusal = raised.value
            assert isinstance(refusal, grpc.aio.AioRpcError)
            assert (refusal.code(), refusal.details()) == (grpc.StatusCode.OUT_OF_RANGE, LOST)


@pytest.mark.parametrize(
    ("mode", "undelivered"),
    [("at-least-once", 3), ("home 1", 3), ("home 2", 0), ("partitioned", 3)],
)
async def test_entries_that_other_regions_deliver_are_not_undelivered_here(
    engine: Engine, tmp_path: Path, mode: str, undelivered: int
) -> None:
    await done(engine, f"CRDT.XGROUP SETMODE s g {mode}")
    request = pb.ListStreamsRequest(with_groups=True, with_undelivered=True)
    async with serving(engine, tmp_path) as stub:
        (stream,) = [one async for one in stub.ListStreams(request)]
    assert [group.undelivered for group in stream.groups] == [undelivered]


async def test_a_removed_region_shows_what_counts_of_it(engine: Engine, tmp_path: Path) -> None:
    """Of three entries of its own two count; programs do not read the third, or come to it."""
    engine.region.replica.ends = removed_ends({RegionId(1): 2})
    async with serving(engine, tmp_path) as stub:
        position = await stub.GetPosition(pb.PositionRequest())
        assert list(position.durable_vv.counts) == [2]
        (lane,) = (await stub.Plan(pb.PlanRequest())).ranges
        assert lane.upto_n == 2
        request = pb.ScanRequest(key=b"s", origin=1, upto_n=3)
        with pytest.raises(grpc.RpcError, match="LOST region 1 was removed; of its effects 3…"):
            await scan(stub, request)
