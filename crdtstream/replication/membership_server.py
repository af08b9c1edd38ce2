"""The ``Membership`` service of one node: what other regions say on who is a member."""

import asyncio
from typing import Final, NoReturn, TypeAlias

import grpc
import structlog

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.membership.changes import MembersError
from crdtstream.core.membership.encoding import encode_members
from crdtstream.core.size import Seconds
from crdtstream.engine import Engine
from crdtstream.replication.introductions import introduction_of
from crdtstream.replication.letters import LetterError, take_letter
from crdtstream.settings import NodeSettings
from crdtstream.v1 import membership_pb2 as pb
from crdtstream.v1 import membership_pb2_grpc as rpc

logger = structlog.get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[object, object]"

# A wrong token is answered after so long, one at a time: guessing is of no use.
WRONG_TOKEN_SECONDS: Final = Seconds(1.0, least=0.001)


class MembershipService(rpc.MembershipServicer):
    """Answers for one node."""

    def __init__(self, engine: Engine, settings: NodeSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._guesses = asyncio.Lock()

    async def Deliver(  # noqa: N802 - gRPC's name
        self, request: pb.MembershipLetter, context: Context
    ) -> pb.Delivered:
        await self._check_database(request.database_id, context)
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
        return await introduction_of(self._engine, self._settings)

    async def Join(self, request: pb.JoinRequest, context: Context) -> pb.JoinReply:  # noqa: N802
        region = self._engine.region
        membership = region.membership
        try:
            joining = membership.joining(request.secret, request.instance, self._engine.now())
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
        )

    async def _check_database(self, database_id: str, context: Context) -> None:
        if database_id != self._settings.database_id:
            await _refuse(
                context,
                f"this is database {self._settings.database_id!r}, not {database_id!r};"
                " correct database_id, or the address",
            )


async def _refuse(context: Context, reason: str) -> NoReturn:
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)
    raise AssertionError("abort raises")
