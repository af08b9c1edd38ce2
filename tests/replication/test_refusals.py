"""Who may pull from a region, asked as a stranger would: one call, and what is answered first."""

import contextlib
from collections.abc import AsyncIterator
from typing import TypedDict, Unpack

import grpc
import pytest

from crdtstream.region.links.messages import PROTOCOL_VERSION
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc
from tests.replication.regions import LiveRegion, addresses


class OpenFields(TypedDict, total=False):
    """What a peer says of itself as it opens a call."""

    protocol: int
    region: int
    database_id: str
    run_id: int


PEER: OpenFields = {
    "protocol": PROTOCOL_VERSION,
    "region": 2,
    "database_id": "crdb",
    "run_id": 7,
}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """Region 1, whose peer is region 2."""
    where = addresses(2)
    async with LiveRegion(1, where).running():
        yield where[1]


@contextlib.asynccontextmanager
async def answered(address: str, **differs: Unpack[OpenFields]) -> AsyncIterator[str]:
    """What a region says to an Open: welcome, or the name of the status; the call stays open."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = rpc.ReplicationStub(channel).Sync()
        await call.write(pb.SyncRequest(open=pb.Open(origins=[1], **(PEER | differs))))
        try:
            message = await call.read()
        except grpc.aio.AioRpcError as error:
            yield error.code().name
        else:
            yield message.WhichOneof("kind")
        call.cancel()


@pytest.mark.parametrize(
    ("differs", "answer"),
    [
        ({}, "welcome"),
        ({"database_id": "other"}, "FAILED_PRECONDITION"),
        ({"protocol": PROTOCOL_VERSION + 1}, "FAILED_PRECONDITION"),
        ({"region": 1}, "FAILED_PRECONDITION"),
        ({"region": 3}, "PERMISSION_DENIED"),
    ],
)
async def test_only_a_peer_of_the_same_database_is_let_in(
    address: str, differs: OpenFields, answer: str
) -> None:
    async with answered(address, **differs) as found:
        assert found == answer


async def test_while_a_region_is_linked_no_other_node_is_let_in_as_it(address: str) -> None:
    async with answered(address) as first, answered(address, run_id=8) as second:
        assert (first, second) == ("welcome", "ALREADY_EXISTS")


async def test_a_node_may_open_its_link_again(address: str) -> None:
    async with answered(address) as first, answered(address) as second:
        assert (first, second) == ("welcome", "welcome")
