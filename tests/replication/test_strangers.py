"""Errors that name region and address where a server that is no region answers."""

from collections.abc import AsyncIterator

import grpc
import pytest

from crdtstream.access.peer_calls import PLAIN_CALLS
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError
from crdtstream.core.uid import NO_UID, DatabaseUid
from crdtstream.replication.membership_client import called, check_is_there, introduced
from crdtstream.v1 import membership_pb2 as pb
from crdtstream.v1 import membership_pb2_grpc as rpc

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


async def test_it_is_not_asked_who_it_is(stranger: str) -> None:
    with pytest.raises(MembersError, match=f"region 2 at .* {REFUSED}"):
        await introduced("crdb", R1, R2, stranger)


OWN, OTHER = (DatabaseUid(bytes([n]) * 16) for n in (1, 2))


class Introduces(rpc.MembershipServicer):
    """A node that says who it is."""

    def __init__(self, region: RegionId, uid: DatabaseUid) -> None:
        self._reply = pb.Introduction(region=region, database_uid=uid)

    async def Introduce(  # noqa: N802 - gRPC's name
        self, request: pb.IntroduceRequest, context: object
    ) -> pb.Introduction:
        return self._reply


@pytest.mark.parametrize(
    ("region", "uid", "told"),
    [
        (R2, OWN, None),
        (R2, NO_UID, None),
        (R1, OWN, "is region 1, not region 2"),
        (R2, OTHER, f"is region 2 of database {OTHER.hex()}, and this one is {OWN.hex()}"),
    ],
)
async def test_an_address_is_taken_if_that_region_of_the_database_answers_there(
    region: RegionId, uid: DatabaseUid, told: str | None
) -> None:
    server = grpc.aio.server()
    rpc.add_MembershipServicer_to_server(Introduces(region, uid), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        if told is None:
            await check_is_there("crdb", OWN, R1, R2, address)
        else:
            with pytest.raises(MembersError, match=told):
                await check_is_there("crdb", OWN, R1, R2, address)
    finally:
        await server.stop(None)


async def test_it_is_not_sealed(stranger: str) -> None:
    with pytest.raises(MembersError, match=REFUSED):
        async with called(PLAIN_CALLS, stranger, R2) as stub:
            await stub.Seal(pb.SealRequest(step=pb.SealRequest.Step.LOOK))
