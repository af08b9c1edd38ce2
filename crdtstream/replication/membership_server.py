"""The ``Membership`` service of one node: takes other regions' messages about the members."""

import asyncio
from typing import Final, NoReturn, TypeAlias

import grpc
import structlog

from crdtstream.access.callers import Callers, check_region
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import MembersError
from crdtstream.core.membership.encoding import encode_members
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.region.members.sealing import homes
from crdtstream.replication.letters import LetterError, take_letter
from crdtstream.replication.wire import DATABASE_ID_LENGTH_MAX
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import membership_pb2 as pb
from crdtstream.v1 import membership_pb2_grpc as rpc

logger = structlog.get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[object, object]"

# A wrong token is answered after this time, one at a time: guessing is of no use.
WRONG_TOKEN_SECONDS: Final = Seconds(1.0, least=0.001)


class MembershipService(rpc.MembershipServicer):
    """Answers for one node."""

    def __init__(
        self, engine: Engine, settings: NodeSettings, *, callers: Callers | None = None
    ) -> None:
        """A service for an engine's region.

        Args:
            callers: knows the region that calls; None: it is the one that it says it is.
        """
        self._engine = engine
        self._settings = settings
        self._callers = callers
        self._guesses = asyncio.Lock()

    async def Deliver(  # noqa: N802 - gRPC's name
        self, request: pb.MembershipLetter, context: Context
    ) -> pb.Delivered:
        await self._check_database(request.database_id, context)
        await check_region(self._callers, context, request.sender, "the letter")
        try:
            take_letter(self._engine.region, request, self._engine.now())
        except LetterError as error:
            await _refuse(context, str(error))
        except ContentError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return pb.Delivered()

    async def Introduce(  # noqa: N802
        self, request: pb.IntroduceRequest, context: Context
    ) -> pb.Introduction:
        await self._check_database(request.database_id, context)
        await check_region(self._callers, context, request.region, "Introduce")
        return pb.Introduction(
            region=self._settings.region, database_uid=self._engine.region.replica.database_uid
        )

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.JoinReply:  # noqa: N802
        region = self._engine.region
        membership = region.membership
        # Before the token is bound to a folder: a thief without the region's certificate must not
        # keep the region out.
        expected = membership.members.region_of_token(request.secret)
        if expected is not None:
            await check_region(self._callers, context, expected, "the token")
        try:
            joining = membership.members.joining(
                request.secret, request.instance, self._engine.now()
            )
        except MembersError as error:
            async with self._guesses:
                await asyncio.sleep(WRONG_TOKEN_SECONDS.value)
            logger.warning("a node is not let in", reason=str(error))
            await _refuse(context, str(error))
        logger.info("a node joins", joining=joining)
        return pb.JoinReply(
            region=joining,
            database_id=self._settings.database_id,
            database_uid=region.replica.database_uid,
            members=encode_members(membership.told),
            peers=[
                pb.NamedPeer(region=one, address=address)
                for one in membership.known.active
                if (address := membership.members.address_of(one)) or one == region.replica.region
            ],
        )

    async def Seal(self, request: pb.SealRequest, context: Context) -> pb.SealReply:  # noqa: N802
        region = self._engine.region
        membership, sealing = region.membership, region.membership.sealing
        await self._check_database(request.database_id, context)
        await check_region(self._callers, context, request.sender, "Seal")
        await self._check_receiver(request.to, request.database_uid, context)
        sender = RegionId(request.sender)
        if not membership.members.takes_from(sender) or membership.members.is_removed:
            await _refuse(context, f"region {sender} is no member: {membership.known.listed()}")
        now = self._engine.now()
        try:
            match request.step:
                case pb.SealRequest.Step.SEAL:
                    membership.seal(RegionId(request.heir), request.epoch, now)
                case pb.SealRequest.Step.END:
                    sealing.end()
        except MembersError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        looks = request.step == pb.SealRequest.Step.LOOK
        # A final seal refuses writes, as was asked for: no trouble.
        obstacle = None if sealing.is_final else region.opening.obstacle
        replica = region.replica
        return pb.SealReply(
            sealed=sealing.kept is not None,
            epoch=0 if sealing.kept is None else sealing.kept.epoch,
            groups=sum(1 for _ in homes(replica, list(replica))) if looks else 0,
            handed_over=sealing.is_handed_over,
            issued=replica.issued,
            lacks=[pb.SealLack(region=r, effects=n) for r, n in sealing.lacking.items()],
            trouble=sealing.trouble or region.fault or obstacle or "",
        )

    async def _check_receiver(self, to: int, uid: bytes, context: Context) -> None:
        replica = self._engine.region.replica
        if to != replica.region or (replica.database_uid and uid != replica.database_uid):
            await _refuse(context, "this is another region, or another database")

    async def _check_database(self, database_id: str, context: Context) -> None:
        if database_id != self._settings.database_id:
            await _refuse(
                context,
                f"this is database {self._settings.database_id!r}, not"
                f" {database_id[:DATABASE_ID_LENGTH_MAX]!r};"
                " correct database_id, or the address",
            )


async def _refuse(context: Context, reason: str) -> NoReturn:
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
    raise AssertionError("abort raises")
