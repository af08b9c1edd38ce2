"""Serving peers that pull: the loop of one gRPC call around the state machine ``Serve``."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, TypeAlias

import grpc
import structlog

from crdtstream.access.callers import Callers, check_region
from crdtstream.access.methods import begin
from crdtstream.core.ids import RegionId
from crdtstream.engine.engine import Engine
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import Refusal, RefusalKind
from crdtstream.region.links.serve import CUT_SECONDS, End, Read, Seek, Send, Serve, Sleep
from crdtstream.replication.sleeping import sleep_until
from crdtstream.replication.wire import BatchPacker, decode_ack, decode_open, encode_response
from crdtstream.secrets.password_marks import METADATA_KEY, NOT_SAID, do_passwords_differ
from crdtstream.store.errors import StoreError
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc

Requests: TypeAlias = AsyncIterator[pb.SyncRequest]
Context: TypeAlias = "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]"

logger = structlog.get_logger(__name__)

CODES: Final = {
    RefusalKind.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    RefusalKind.MISMATCH: grpc.StatusCode.FAILED_PRECONDITION,
    RefusalKind.DUPLICATE: grpc.StatusCode.ALREADY_EXISTS,
    RefusalKind.UNKNOWN: grpc.StatusCode.PERMISSION_DENIED,
}


# Metadata by which a refused puller hears of the incarnations of its region.
INCARNATIONS_KEY: Final = "crdtstream-incarnations-bin"


class _CutOffError(Exception):
    """The log begins behind what the puller lacks; the text says so."""


class ReplicationService(rpc.ReplicationServicer):
    """The ``Replication`` service of one node."""

    def __init__(
        self, engine: Engine, *, password_mark: int = NOT_SAID, callers: Callers | None = None
    ) -> None:
        """A service that has heard of no peer's password yet.

        Args:
            password_mark: of the password that this node takes (``secrets/password_marks.py``).
            callers: knows the region that calls; None: it is the one that it says it is.
        """
        self._engine = engine
        self._callers = callers
        self._password_mark = password_mark
        # Of each peer the mark that it said last.
        self._peer_marks: dict[RegionId, int] = {}

    async def Sync(self, requests: Requests, context: Context) -> None:  # noqa: N802 - gRPC's name
        """Serve one link, from its Open on, until either side ends it."""
        serve = await self._open(requests, context)
        wake = asyncio.Event()
        self._engine.on_link[serve] = wake.set
        failure: tuple[grpc.StatusCode, str] | None = None
        try:
            await begin(context)
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read_acks(serve, requests))
                await self._send(serve, context, wake)
                reader.cancel()
        except* PeerError as group:
            failure = (grpc.StatusCode.INVALID_ARGUMENT, str(group.exceptions[0]))
        except* _CutOffError as group:
            failure = (grpc.StatusCode.OUT_OF_RANGE, str(group.exceptions[0]))
        except* StoreError as group:
            failure = (grpc.StatusCode.DATA_LOSS, str(group.exceptions[0]))
        finally:
            del self._engine.on_link[serve]
            self._engine.region.links.hang_up(serve)
        if failure is not None:
            logger.error("cannot serve a peer", peer=serve.region, reason=failure[1])
            await context.abort(*failure)

    async def _open(self, requests: Requests, context: Context) -> Serve:
        """The link that a call asks for; one that may not be is refused with the reason."""
        request = await anext(aiter(requests), None)
        if request is None or request.WhichOneof("kind") != "open":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be open")
        assert request is not None
        try:
            opening = decode_open(request.open)
        except PeerError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await check_region(self._callers, context, opening.region, "Open")
        at = asyncio.get_running_loop().time()
        serve = self._engine.region.links.accept(opening, at)
        if isinstance(serve, Refusal):
            trailing = ((INCARNATIONS_KEY, serve.incarnations),) if serve.incarnations else ()
            await context.abort(CODES[serve.kind], serve.reason, trailing)
            raise AssertionError("abort raises")
        self._note_password(serve.region, _password_mark_of(context))
        return serve

    def _note_password(self, peer: RegionId, mark: int) -> None:
        """Warn once if a peer takes another password: clients that move there are refused.

        The link goes on. Regions do not need the password, and refusing would turn a change of it,
        made in one region after the other, into a partition.
        """
        if self._peer_marks.get(peer) == mark:
            return
        self._peer_marks[peer] = mark
        if do_passwords_differ(self._password_mark, mark):
            logger.warning(
                "passwords differ",
                peer=peer,
                reason=f"region {peer} takes another password than this region, so clients that "
                "move between the two are refused; set the same requirepass in both",
            )

    async def _read_acks(self, serve: Serve, requests: Requests) -> None:
        """Until the puller ends the call.

        Raises:
            PeerError: a message cannot be used; the call ends, whatever is being written.
        """
        loop = asyncio.get_running_loop()
        async for request in requests:
            serve.receive(decode_ack(serve.region, request), loop.time())
        serve.end()

    async def _send(self, serve: Serve, context: Context, wake: asyncio.Event) -> None:
        """Do what the link says until it ends."""
        loop = asyncio.get_running_loop()
        now = self._engine.now
        retention = self._engine.region.retention
        packer = BatchPacker()
        while True:
            wake.clear()
            begins = retention.begins
            match serve.next(now(), loop.time()):
                case Seek() | Read() as action:
                    try:
                        await self._read_log(serve, action)
                    except StoreError:
                        # Records that are being cut just now are missing, and nothing is damaged.
                        if retention.begins == begins and not retention.cutting_seq:
                            raise
                        await asyncio.sleep(CUT_SECONDS.value)
                case Send(message):
                    packed = encode_response(message, packer)
                    serve.stats.bytes_wire += len(packed.batches.zstd)
                    await context.write(packed)
                case Sleep(until):
                    await sleep_until(wake, until)
                case End(reason):
                    if reason:
                        raise _CutOffError(reason)
                    return

    async def _read_log(self, serve: Serve, action: Seek | Read) -> None:
        """Find out what the link asks of the log.

        Raises:
            StoreError: the log cannot be read, or not any more.
        """
        log = self._engine.log
        match action:
            case Seek(vv, origins):
                serve.begin_at(await log.seek(vv, origins))
            case Read(seq, bytes_max):
                found = await log.read_from(seq, bytes_max=bytes_max)
                # Behind a cut other records come than those that were asked for.
                if found and found[0].seq == seq:
                    serve.take([logged.record for logged in found])


def _password_mark_of(context: Context) -> int:
    """The puller's mark of its password; ``NOT_SAID`` if there is none, or it is no mark."""
    text = dict(context.invocation_metadata() or ()).get(METADATA_KEY, "")
    is_mark = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= 3
    return int(text) if is_mark else NOT_SAID
