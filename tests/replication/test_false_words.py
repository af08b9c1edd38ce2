"""A program that links as region 2 and says to have what it cannot have (``claims.py``)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.database.database import WAITING
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import Open, Progress, Standing, ToServer
from crdtstream.region.links.serve import Serve
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.replication.server import ReplicationService
from crdtstream.replication.wire import encode_request
from crdtstream.v1 import replication_pb2_grpc as rpc
from tests.harness.cutting_log import CuttingLog
from tests.harness.driven import UID, said_of
from tests.patience import seconds, until
from tests.replication.regions import LiveRegion, addresses
from tests.replication.test_cut_logs import add_each_by_itself, cut

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
ENTRIES = 100
STANDING = Standing(DatabaseIdentity(UID), recovering=False, regains=False)
NOTHING: Mapping[RegionId, Any] = {}


class Liar:
    """Region 2, by its own account."""

    def __init__(self, call: Any, said: bytes) -> None:
        self._call = call
        self._said = said

    async def open(self, *, origins: Iterable[RegionId] = (), vv: VersionVector = NOTHING) -> None:
        await self._say(
            Open(R2, "crdb", 7, frozenset(origins), vv, STANDING, membership=self._said)
        )

    async def ack(
        self, vv: VersionVector, others: Mapping[RegionId, VersionVector] = NOTHING
    ) -> None:
        await self._say(Progress(vv, Millis(1), STANDING, others=others))

    async def _say(self, message: ToServer) -> None:
        await self._call.write(encode_request(message))

    async def end(self) -> tuple[str, str]:
        """The status and the reason with which the region ends the call."""
        try:
            while await self._call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        return "OK", ""


@contextlib.asynccontextmanager
async def linked(address: str, count: int = 2) -> AsyncIterator[Liar]:
    async with grpc.aio.insecure_channel(address) as channel:
        call = rpc.ReplicationStub(channel).Sync()
        yield Liar(call, said_of(*range(1, count + 1)))
        call.cancel()


@contextlib.asynccontextmanager
async def region_alone(count: int = 2) -> AsyncIterator[tuple[LiveRegion, str]]:
    """Region 1, which has written and sent nothing, and whose log may be cut; its address."""
    where = addresses(count)
    async with LiveRegion(1, where, log=CuttingLog()).running() as region:
        await add_each_by_itself(region, ENTRIES)
        region.region.retention.backlog_bytes_max = 0
        region.region.retention.backlog_ttl_s = 0
        yield region, where[1]


async def seen_to_be_alone(region: LiveRegion) -> None:
    """WAIT counts nobody, nothing is stable, nothing is cut, and all of it lags."""
    answers = region.answers
    answers.clear()
    assert region.call("WAIT", "1", "1") is WAITING
    await until(lambda: answers)
    assert answers == [0]
    assert await cut(region) == 0
    assert region.region.staleness.lag.effects == ENTRIES
    assert region.knows_of(R2) == region.knows_of(R3) == {}


@pytest.mark.parametrize("claimed", [1, ENTRIES, ENTRIES + 1, 1 << 40])
async def test_an_ack_of_what_was_never_sent_ends_the_link_and_counts_for_nothing(
    claimed: int,
) -> None:
    async with region_alone() as (region, address):
        with capture_logs() as logs:
            async with linked(address) as liar:
                await liar.open()
                await liar.ack({R1: claimed}, others={R3: {R1: ENTRIES}})
                code, reason = await liar.end()
        told = [log for log in logs if log["log_level"] == "error"]
        assert [log["reason"] for log in told] == [reason]
        assert code == "INVALID_ARGUMENT"
        assert f"region 2: durable_vv: it says to have {claimed} effects of region 1" in reason
        assert "it can have 0 at most, of 100 in the log" in reason
        await seen_to_be_alone(region)


@pytest.mark.pure
async def test_a_link_that_fails_while_its_first_message_is_written_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(_service: object, serve: Serve, _requests: object) -> None:
        raise PeerError(serve.region, "it lies")

    monkeypatch.setattr(ReplicationService, "_read_acks", fail)
    async with region_alone() as (_, address), linked(address) as liar:
        await liar.open()
        async with asyncio.timeout(seconds()):
            assert await liar.end() == ("INVALID_ARGUMENT", "region 2: it lies")


@pytest.mark.parametrize("claimed", [ENTRIES + 1, 1 << 40])
async def test_an_open_with_more_than_the_log_has_is_refused(claimed: int) -> None:
    async with region_alone() as (region, address):
        async with linked(address) as liar:
            await liar.open(origins=[R1], vv={R1: claimed})
            code, reason = await liar.end()
        assert code == "FAILED_PRECONDITION"
        assert f"it says to have {claimed} effects of region 1" in reason
        await seen_to_be_alone(region)
        assert not region.serves


async def test_gossip_of_what_was_never_sent_counts_for_nothing() -> None:
    async with region_alone(3) as (region, address), linked(address, 3) as liar:
        await liar.open()
        await liar.ack({R2: 5}, others={R3: {R1: ENTRIES}})
        await until(lambda: region.knows_of(R2) == {R2: 5})
        assert region.knows_of(R3) == {}
        assert await cut(region) == 0


async def test_an_ack_of_what_was_sent_counts() -> None:
    async with region_alone() as (region, address), linked(address) as peer:
        await peer.open(origins=[R1])
        await until(lambda: R2 in region.serves and region.serves[R2].sent_vv == {R1: ENTRIES})
        await peer.ack({R1: ENTRIES})
        await until(lambda: region.knows_of(R2) == {R1: ENTRIES})
        assert region.call("WAIT", "1", "0") == 1
        assert await cut(region) == ENTRIES
