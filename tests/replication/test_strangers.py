"""Errors that name region and address where a server that is no region answers."""

from collections.abc import AsyncIterator

import grpc
import pytest

from crdtstream.access.peer_calls import PLAIN_CALLS
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError
from crdtstream.replication.membership_client import called, introduced
from crdtstream.v1 import membership_pb2 as pb

R1, R2 = RegionId(1), RegionId(2)
REFUSED = "Method not found!"


@pytest.fixture
async def stranger() -> AsyncIterator[str]:
    """The address of a server that has no service for members."""
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_it_adopts_no_members(stranger: str) -> None:
    with pytest.raises(MembersError, match=f"region 2 at .* {REFUSED}"):
        await introduced("crdb", R1, R2, stranger)


async def test_it_is_not_sealed(stranger: str) -> None:
    with pytest.raises(MembersError, match=REFUSED):
        async with called(PLAIN_CALLS, stranger, R2) as stub:
            await stub.Seal(pb.SealRequest(step=pb.SealRequest.Step.LOOK))
