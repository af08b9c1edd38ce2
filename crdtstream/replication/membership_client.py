"""Messages on who is a member, to other regions: each is one call, and may be lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

import grpc

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.changes import INSTANCE_BYTES, MembersError
from crdtstream.core.membership.deciding import Letter
from crdtstream.core.size import Seconds, Size
from crdtstream.engine import Engine
from crdtstream.region.ready import News
from crdtstream.replication.letters import encode_letter
from crdtstream.replication.puller import short_details
from crdtstream.v1 import membership_pb2 as pb
from crdtstream.v1 import membership_pb2_grpc as rpc

CALL_SECONDS_MAX: Final = Seconds(5.0, least=0.1)
# Messages under way to one region; those beyond are lost, and sent again later.
UNDER_WAY_MAX: Final = Size(16, least=1)


class Courier:
    """Delivers letters for as long as ``run`` runs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._letters: asyncio.Queue[Letter | News] = asyncio.Queue()
        self._under_way: dict[RegionId, int] = {}
        self._channels: dict[str, grpc.aio.Channel] = {}
        engine.on_letters = self._take

    def _take(self, letters: Sequence[Letter | News]) -> None:
        for letter in letters:
            self._letters.put_nowait(letter)

    async def run(self) -> None:
        """Deliver what there is, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    letter = await self._letters.get()
                    count = self._under_way.get(letter.to, 0)
                    if count < UNDER_WAY_MAX.value:
                        self._under_way[letter.to] = count + 1
                        tasks.create_task(self._deliver(letter))
        finally:
            for channel in self._channels.values():
                await channel.close()

    async def _deliver(self, letter: Letter | News) -> None:
        region = self._engine.region
        address = region.membership.members.address_of(letter.to)
        try:
            if address is not None:
                await rpc.MembershipStub(self._channel(address)).Deliver(
                    encode_letter(region, letter), timeout=CALL_SECONDS_MAX.value
                )
        except grpc.RpcError:
            # Whoever wants an answer asks again.
            pass
        finally:
            self._under_way[letter.to] -= 1

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            self._channels[address] = channel = grpc.aio.insecure_channel(address)
        return channel


@contextlib.asynccontextmanager
async def called(address: str, what: str) -> AsyncIterator[rpc.MembershipStub]:
    """The service at an address, for one call.

    Args:
        what: who is asked, for people.

    Raises:
        MembersError: it does not answer, or refuses; the text says what to do.
    """
    options = (("grpc.use_local_subchannel_pool", 1),)
    try:
        async with grpc.aio.insecure_channel(address, options=options) as channel:
            yield rpc.MembershipStub(channel)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            raise MembersError(
                f"{what} at {address} runs a version that knows of no members; run the same"
                " version everywhere first"
            ) from error
        details = error.details() or error.code().name
        raise MembersError(f"{what} at {address}: {short_details(details)}") from error


async def sealed(engine: Engine, region: RegionId, request: pb.SealRequest) -> pb.SealReply:
    """Ask a region that is to be removed how far its seal is; see ``sealing.py``.

    Args:
        request: what step; who asks whom is filled in.

    Raises:
        MembersError: it does not answer, or refuses.
    """
    here = engine.region
    address = here.membership.members.address_of(region)
    if address is None:
        raise MembersError(f"there is no region {region}")
    request.database_id = here.links.identity.database_id
    request.database_uid = here.replica.database_uid
    request.sender, request.to = here.replica.region, region
    async with called(address, f"region {region}") as stub:
        reply: pb.SealReply = await stub.Seal(request, timeout=CALL_SECONDS_MAX.value)
    return reply


async def introduced(
    database_id: str, region: RegionId, peer: RegionId, address: str
) -> pb.Introduction:
    """How a peer names itself and the others.

    Raises:
        MembersError: it does not answer, or is not that region of this database.
    """
    async with called(address, f"region {peer}") as stub:
        request = pb.IntroduceRequest(database_id=database_id, region=region)
        found: pb.Introduction = await stub.Introduce(request, timeout=CALL_SECONDS_MAX.value)
    if found.region != peer or len(found.instance) != INSTANCE_BYTES:
        raise MembersError(
            f"{address} is region {found.region}, not region {peer}; correct the peer's address"
        )
    return found
