"""Messages about the members, to other regions: each is one call, and may be lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

import grpc
import structlog

from crdtstream.access.peer_calls import PLAIN_CALLS, PeerCalls
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError
from crdtstream.core.size import Seconds, Size
from crdtstream.core.uid import DatabaseUid, shown_uid
from crdtstream.engine.engine import Engine
from crdtstream.region.ready import AnyLetter
from crdtstream.replication.letters import encode_letter
from crdtstream.replication.puller import REFUSED, short_details
from crdtstream.v1 import membership_pb2 as pb
from crdtstream.v1 import membership_pb2_grpc as rpc

CALL_SECONDS_MAX: Final = Seconds(5.0, least=0.1)
# Messages under way to one region; those beyond are lost, and sent again later.
UNDER_WAY_MAX: Final = Size(16, least=1)
LOG_SECONDS: Final = Seconds(60.0, least=0.001)

logger = structlog.get_logger(__name__)


class Courier:
    """Delivers letters for as long as ``run`` runs."""

    def __init__(self, engine: Engine, calls: PeerCalls = PLAIN_CALLS) -> None:
        self._engine = engine
        self._calls = calls
        # When the refusal of a password may be logged again, in the loop's time.
        self._log_from = 0.0
        self._letters: asyncio.Queue[AnyLetter] = asyncio.Queue()
        self._under_way: dict[RegionId, int] = {}
        engine.on_letters = self._take

    def _take(self, letters: Sequence[AnyLetter]) -> None:
        for letter in letters:
            self._letters.put_nowait(letter)

    async def run(self) -> None:
        """Deliver what there is, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                letter = await self._letters.get()
                count = self._under_way.get(letter.to, 0)
                if count < UNDER_WAY_MAX.value:
                    self._under_way[letter.to] = count + 1
                    tasks.create_task(self._deliver(letter))

    async def _deliver(self, letter: AnyLetter) -> None:
        region = self._engine.region
        # A changed address may be wrong, and then the link goes on at the one before.
        address = region.links.address_of(letter.to)
        if address is None:
            address = region.membership.members.address_of(letter.to)
        try:
            if address is not None:
                async with self._calls.channel(address, letter.to) as channel:
                    await rpc.MembershipStub(channel).Deliver(
                        encode_letter(region, letter),
                        timeout=CALL_SECONDS_MAX.value,
                        metadata=self._calls.metadata,
                    )
        except grpc.RpcError as error:
            # A region that wants an answer asks again.
            is_refused = isinstance(error, grpc.aio.AioRpcError) and (
                error.code() is grpc.StatusCode.UNAUTHENTICATED
            )
            if is_refused:
                self._note_refused(letter.to)
        finally:
            self._under_way[letter.to] -= 1

    def _note_refused(self, to: RegionId) -> None:
        at = asyncio.get_running_loop().time()
        if at >= self._log_from:
            self._log_from = at + LOG_SECONDS.value
            logger.error("a region does not take this region's messages", peer=to, reason=REFUSED)


@contextlib.asynccontextmanager
async def called(
    calls: PeerCalls, address: str, region: RegionId | None
) -> AsyncIterator[rpc.MembershipStub]:
    """The service of a region, for one call; the call has the login in its metadata.

    Args:
        region: None: the node at the address, whichever region it is.

    Raises:
        MembersError: it does not answer, or refuses; the text says what to do.
    """
    what = "the node" if region is None else f"region {region}"
    try:
        async with calls.channel(address, region) as channel:
            yield rpc.MembershipStub(channel)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            raise MembersError(f"{what} at {address}: {REFUSED}") from error
        details = error.details() or error.code().name
        raise MembersError(f"{what} at {address}: {short_details(details)}") from error


async def sealed(
    engine: Engine, region: RegionId, request: pb.SealRequest, calls: PeerCalls
) -> pb.SealReply:
    """Ask a region that is to be removed how far its seal is; see ``sealing.py``.

    Args:
        request: the step; sender and receiver are filled in.

    Raises:
        MembersError: it does not answer, or refuses.
    """
    here = engine.region
    address = here.links.address_of(region)
    if address is None:
        raise MembersError(f"there is no region {region}")
    request.database_id = here.links.identity.database_id
    request.database_uid = here.replica.database_uid
    request.sender, request.to = here.replica.region, region
    async with called(calls, address, region) as stub:
        reply: pb.SealReply = await stub.Seal(
            request, timeout=CALL_SECONDS_MAX.value, metadata=calls.metadata
        )
    return reply


async def introduced(
    database_id: str,
    region: RegionId,
    peer: RegionId,
    address: str,
    calls: PeerCalls = PLAIN_CALLS,
) -> pb.Introduction:
    """Ask a peer for its introduction.

    Raises:
        MembersError: it does not answer, or is not that region of this database.
    """
    async with called(calls, address, peer) as stub:
        request = pb.IntroduceRequest(database_id=database_id, region=region)
        found: pb.Introduction = await stub.Introduce(
            request, timeout=CALL_SECONDS_MAX.value, metadata=calls.metadata
        )
    if found.region != peer:
        raise MembersError(
            f"{address} is region {found.region}, not region {peer}; correct the peer's address"
        )
    return found


async def check_is_there(
    database_id: str,
    uid: DatabaseUid,
    region: RegionId,
    peer: RegionId,
    address: str,
    calls: PeerCalls = PLAIN_CALLS,
) -> None:
    """See that a region of this database answers at an address.

    Args:
        uid: of the database; empty while it is not known.

    Raises:
        MembersError: it does not; the text says what answers.
    """
    found = await introduced(database_id, region, peer, address, calls)
    its = DatabaseUid(found.database_uid)
    if uid and its and its != uid:
        raise MembersError(
            f"{address} is region {peer} of database {shown_uid(its)}, and this one is"
            f" {shown_uid(uid)}"
        )
