"""Replies of the query service about a region that went on in another folder (rule 18).

Numbers of the earlier folder were given again, so a call names the incarnation."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Begin, Lineage
from crdtstream.core.membership.lost import removed_ends
from crdtstream.engine.engine import Engine
from crdtstream.store.log import MemoryLog
from crdtstream.v1 import effects_pb2
from crdtstream.v1 import query_pb2 as pb
from crdtstream.v1 import query_pb2_grpc as rpc
from tests.harness.driven import make_region
from tests.query.test_durable_reads import serving
from tests.query.test_removed_regions import done, scan

R1 = RegionId(1)
# Region 1 has five entries; its folder was put back to what it was after two of them.
FIRST = Begin(1000, b"first folder....", 0)
SECOND = Begin(2000, b"second folder...", 2)
NOW: Final = "1:5@2000"
LOST = (
    "LOST region 1 goes on in another folder, which began after its effect 2; of its effects 3…"
    " nothing exists"
)
Asks = Callable[[rpc.QueryStub, str], Any]


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(make_region(1, (2,)), MemoryLog())
    engine.region.replica.lineages = {R1: Lineage().begun(FIRST).begun(SECOND)}
    await engine.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run())
        await done(engine, *["XADD s * f v"] * 5)
        yield engine
        engine.stop()


def vector(token: str) -> effects_pb2.VersionVector:
    """The numbers of a token alone."""
    n = int(token.removeprefix("1:").partition("@")[0])
    return effects_pb2.VersionVector(regions=[1], counts=[n])


def trimming(token: str) -> pb.TrimReadRequest:
    return pb.TrimReadRequest(key=b"s", before_ms=1 << 50, read=vector(token), read_token=token)


def scanning(token: str) -> pb.ScanRequest:
    upto_n = vector(token).counts[0]
    return pb.ScanRequest(key=b"s", origin=1, upto_n=upto_n, upto_token=token)


# All calls that name dots.
ASKS: dict[str, Asks] = {
    "above": lambda stub, token: stub.Plan(
        pb.PlanRequest(above=vector(token), above_token=token, upto_token=NOW)
    ),
    "upto": lambda stub, token: stub.Plan(
        pb.PlanRequest(upto=vector(token), upto_token=token, only_end=True)
    ),
    "scan": lambda stub, token: scan(stub, scanning(token)),
    "trim": lambda stub, token: stub.TrimRead(trimming(token)),
    "plan of a trim": lambda stub, token: stub.PlanTrim(trimming(token)),
}


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code(), refused.value.details() or ""


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_effects_of_an_earlier_folder_are_lost(
    engine: Engine, tmp_path: Path, ask: Asks
) -> None:
    async with serving(engine, tmp_path) as stub:
        for token in ("1:3@1000", "1:99@1000", "1:3"):
            assert await refusal(ask(stub, token)) == (grpc.StatusCode.OUT_OF_RANGE, LOST)
        # A restore that nobody here knows, and that is over.
        _, told = await refusal(ask(stub, "1:1@1500"))
        assert "of its effects 1… nothing exists" in told
        stream = engine.region.replica.stream(b"s")
        assert stream is not None
        assert stream.length == 5


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_an_incarnation_that_is_not_known_here_is_waited_for(
    engine: Engine, tmp_path: Path, ask: Asks
) -> None:
    """The number is here, and may be of another effect."""
    async with serving(engine, tmp_path) as stub:
        code, told = await refusal(ask(stub, "1:1@3000"))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert told.startswith("behind: region 1 has 1:5 durably")


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
async def test_effects_that_all_incarnations_have_can_be_asked_for(
    engine: Engine, tmp_path: Path, ask: Asks
) -> None:
    async with serving(engine, tmp_path) as stub:
        for token in ("1:2@1000", "1:2", NOW):
            await ask(stub, token)


async def test_a_position_and_a_plan_say_in_which_incarnation_their_dots_are(
    engine: Engine, tmp_path: Path
) -> None:
    async with serving(engine, tmp_path) as stub:
        uid = "000102030405060708090a0b0c0d0e0f/"
        assert (await stub.GetPosition(pb.PositionRequest())).token == uid + NOW
        for request, end in (
            (pb.PlanRequest(), NOW),
            (pb.PlanRequest(upto_token="1:2"), "1:2@2000"),
            (pb.PlanRequest(entries_max=3, only_end=True), "1:3@2000"),
            (pb.PlanRequest(entries_max=3, only_end=True, above_token="1:4@2000"), NOW),
        ):
            assert (await stub.Plan(request)).end_token == uid + end
        engine.region.replica.lineages = {R1: Lineage().begun(FIRST)}
        assert (await stub.GetPosition(pb.PositionRequest())).token == uid + "1:5"
        assert (await stub.Plan(pb.PlanRequest())).end_token == uid + "1:5"


@pytest.mark.parametrize(
    ("token", "ends", "last_n", "unheard"),
    [
        ("1:5@2000", {}, None, []),
        ("1:2", {}, None, []),
        ("1:4", {}, 2, []),
        ("1:4@3000", {}, None, [1]),
        # It was removed as well: whichever ends sooner.
        ("1:5@1000", {R1: 4}, 2, []),
        ("1:5@1000", {R1: 1}, 1, []),
        ("1:5@2000", {R1: 4}, 4, []),
    ],
)
async def test_a_position_names_the_lost_and_the_unheard_effects_of_a_token(
    engine: Engine,
    tmp_path: Path,
    token: str,
    ends: dict[RegionId, int],
    last_n: int | None,
    unheard: list[int],
) -> None:
    engine.region.replica.ends = removed_ends(ends)
    async with serving(engine, tmp_path) as stub:
        position = await stub.GetPosition(pb.PositionRequest(token=token))
    assert [(one.region, one.last_n) for one in position.lost] == (
        [] if last_n is None else [(1, last_n)]
    )
    assert list(position.unheard) == unheard


@pytest.mark.parametrize("token", ["1:2@", "1:2@x", "2:1,2:1", "77aa" * 8 + "/1:2"])
async def test_tokens_that_are_not_of_this_database_are_refused(
    engine: Engine, tmp_path: Path, token: str
) -> None:
    async with serving(engine, tmp_path) as stub:
        for call in (
            stub.Plan(pb.PlanRequest(above_token=token)),
            stub.Plan(pb.PlanRequest(upto_token=token)),
            scan(stub, pb.ScanRequest(key=b"s", origin=1, upto_n=2, upto_token=token)),
            stub.TrimRead(pb.TrimReadRequest(key=b"s", read_token=token)),
            stub.GetPosition(pb.PositionRequest(token=token)),
        ):
            code, told = await refusal(call)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert told.startswith("Invalid ")


async def test_a_scan_s_token_is_of_its_dots(engine: Engine, tmp_path: Path) -> None:
    async with serving(engine, tmp_path) as stub:
        for token in ("1:4@2000", "2:5", "1:5@2000,2:1"):
            request = pb.ScanRequest(key=b"s", origin=1, upto_n=5, upto_token=token)
            assert (
                "does not say what origin and upto_n do" in (await refusal(scan(stub, request)))[1]
            )


async def test_a_program_of_an_earlier_version_is_answered_as_before(
    engine: Engine, tmp_path: Path
) -> None:
    """It gives numbers back as they were told, and could not read at all otherwise."""
    async with serving(engine, tmp_path) as stub:
        durable = (await stub.GetPosition(pb.PositionRequest())).durable_vv
        plan = await stub.Plan(pb.PlanRequest(above=vector("1:3"), upto=durable))
        assert [(one.above_n, one.upto_n) for one in plan.ranges] == [(3, 5)]
        await scan(stub, pb.ScanRequest(key=b"s", origin=1, upto_n=5))
