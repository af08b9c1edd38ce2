"""Status of the other regions, and progress of a group there, for pages that show all of them.

They are asked as regions ask each other.  One request of each kind at a time is sent to a region,
so that one who asks often costs the others little.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import grpc

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.admin.members import members_reply
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.replication.puller import REFUSED
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc

Reply = TypeVar("Reply", pb.StatusReply, pb.GroupProgressReply)
# A region that takes longer does not answer.
ASK_SECONDS_MAX: Final = Seconds(2.0, least=0.01)


class OtherRegions:
    """The other members, as one node asks them."""

    def __init__(self, engine: Engine, settings: NodeSettings, calls: PeerCalls) -> None:
        self._engine = engine
        self._settings = settings
        self._calls = calls
        self._groups = asyncio.Lock()

    async def ask(self) -> Mapping[int, pb.StatusReply | str]:
        """By region its status, or the reason why there is none."""

        async def status(stub: rpc.AdminStub) -> pb.StatusReply:
            found: pb.StatusReply = await stub.Status(
                pb.StatusRequest(), metadata=self._calls.metadata
            )
            return found

        return await self._ask_all(status)

    async def ask_group(self, key: bytes, group: bytes) -> Mapping[int, pb.GroupProgress | str]:
        """By region the progress of a group, or the reason why there is none."""

        async def progress(stub: rpc.AdminStub) -> pb.GroupProgressReply:
            found: pb.GroupProgressReply = await stub.GroupProgress(
                pb.GroupProgressRequest(key=key, group=group), metadata=self._calls.metadata
            )
            return found

        async with self._groups:
            answers = await self._ask_all(progress)
        return {region: _progress_of(answer) for region, answer in answers.items()}

    async def _ask_all(
        self, call: Callable[[rpc.AdminStub], Awaitable[Reply]]
    ) -> dict[int, Reply | str]:
        members = members_reply(self._engine, self._settings)
        removed = pb.MemberStatus.Status.REMOVED
        others = [
            one for one in members.members if one.region != members.region and one.status != removed
        ]
        answers = await asyncio.gather(*(self._ask(one, call) for one in others))
        return dict(zip((one.region for one in others), answers, strict=True))

    async def _ask(
        self, member: pb.MemberStatus, call: Callable[[rpc.AdminStub], Awaitable[Reply]]
    ) -> Reply | str:
        try:
            async with (
                asyncio.timeout(ASK_SECONDS_MAX.value),
                self._calls.channel(member.grpc_address, RegionId(member.region)) as channel,
            ):
                reply = await call(rpc.AdminStub(channel))
        except TimeoutError:
            return f"no answer from {member.grpc_address} within {ASK_SECONDS_MAX.value:g} s"
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return REFUSED
            return f"{member.grpc_address}: {error.details() or error.code().name}"
        if (reply.region, reply.database_id) != (member.region, self._settings.database_id):
            return (
                f"region {reply.region} of database {reply.database_id} answers at"
                f" {member.grpc_address}"
            )
        return reply


def _progress_of(answer: pb.GroupProgressReply | str) -> pb.GroupProgress | str:
    if isinstance(answer, str):
        return answer
    return answer.progress if answer.HasField("progress") else "it has no such group"
