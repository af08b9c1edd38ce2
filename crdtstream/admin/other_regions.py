"""Status of the other regions, asked as regions ask each other; for what shows all of them.

One request at a time is sent to each region, so that one who asks often costs the others little.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import grpc

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.members import members_reply
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.replication.puller import REFUSED
from crdtstream.settings import NodeSettings
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc

# A region that takes longer does not answer.
ASK_SECONDS_MAX: Final = Seconds(2.0, least=0.01)


class OtherRegions:
    """The other members, as one node asks them."""

    def __init__(self, engine: Engine, settings: NodeSettings, calls: PeerCalls) -> None:
        self._engine = engine
        self._settings = settings
        self._calls = calls

    async def ask(self) -> Mapping[int, pb.StatusReply | str]:
        """By region its status, or the reason why there is none."""
        members = members_reply(self._engine, self._settings)
        removed = pb.MemberStatus.Status.REMOVED
        others = [
            one for one in members.members if one.region != members.region and one.status != removed
        ]
        answers = await asyncio.gather(*(self._ask(one, members) for one in others))
        return dict(zip((one.region for one in others), answers, strict=True))

    async def _ask(self, member: pb.MemberStatus, members: pb.MembersReply) -> pb.StatusReply | str:
        calls = self._calls
        try:
            async with (
                asyncio.timeout(ASK_SECONDS_MAX.value),
                calls.channel(member.grpc_address, RegionId(member.region)) as channel,
            ):
                stub = rpc.AdminStub(channel)
                status: pb.StatusReply = await stub.Status(
                    pb.StatusRequest(), metadata=calls.metadata
                )
        except TimeoutError:
            return f"no answer from {member.grpc_address} within {ASK_SECONDS_MAX.value:g} s"
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return REFUSED
            return f"{member.grpc_address}: {error.details() or error.code().name}"
        if (status.region, status.database_id) != (member.region, members.database_id):
            return (
                f"region {status.region} of database {status.database_id} answers at"
                f" {member.grpc_address}"
            )
        return status
