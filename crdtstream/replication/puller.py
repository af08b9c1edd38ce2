"""A pulling link: the loop of gRPC calls around the state machine ``Pull``."""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncIterator
from typing import Final, TypeAlias

import grpc

from crdtstream.access.peer_calls import NAME_IS_WRONG, NOT_TRUSTED, PLAIN_CALLS, PeerCalls
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.engine.engine import Engine
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.link import Failed, Refused
from crdtstream.region.links.messages import FromServer, ToServer
from crdtstream.region.links.pull import Connect, HangUp, Over, Pull, PullAction, Send, Sleep
from crdtstream.region.peers import PeersChange
from crdtstream.replication.server import INCARNATIONS_KEY
from crdtstream.replication.sleeping import sleep_until
from crdtstream.replication.wire import (
    BatchUnpacker,
    decode_response,
    encode_request,
    unpacked_bytes,
)
from crdtstream.secrets.password_marks import METADATA_KEY, NOT_SAID
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc

Call: TypeAlias = "grpc.aio.StreamStreamCall[pb.SyncRequest, pb.SyncResponse]"

# A message with more than this is decoded in a thread: links send as much where one batch is that
# large.
ASIDE_BYTES: Final = Size(2 << 20, least=0)
# Added to a message's batches by protobuf and compression at worst, generously.
FRAMING_BYTES_MAX: Final = 1 << 20

# Bounds of the part of ``check_s`` after which a link begins again.
CHECK_PARTS: Final = (0.8, 1.2)
# Why a region refuses the login of another one.
REFUSED: Final = (
    "it takes another password than this region has; set the same requirepass in the files of both"
    " regions"
)
REFUSALS: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
)


class Pullers:
    """Keeps a loop for each link by which the region pulls, as its peers come and go."""

    def __init__(
        self,
        engine: Engine,
        *,
        batch_bytes_max: int,
        password_mark: int = NOT_SAID,
        calls: PeerCalls = PLAIN_CALLS,
        check_s: float = math.inf,
    ) -> None:
        """Keep links for an engine's region.

        Args:
            check_s: time in seconds after which a link begins again, so that both sides look at
                each other's certificates; by chance 20 % more or less, so that not all links do so
                at once.
        """
        self._engine = engine
        self._batch_bytes_max = batch_bytes_max
        self._password_mark = password_mark
        self._calls = calls
        self._check_s = check_s
        self._kept: set[Pull] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Keep the links for as long as the node lives."""
        on_change = self._engine.region.peers.on_change
        on_change.append(self._note_change)
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._changed.clear()
                    for pull in self._engine.region.links.pulls.values():
                        if pull not in self._kept:
                            self._kept.add(pull)
                            tasks.create_task(self._keep(pull))
                    await self._changed.wait()
        finally:
            on_change.remove(self._note_change)

    def _note_change(self, _change: PeersChange) -> None:
        self._changed.set()

    async def _keep(self, pull: Pull) -> None:
        puller = Puller(
            pull,
            self._engine,
            batch_bytes_max=self._batch_bytes_max,
            password_mark=self._password_mark,
            calls=self._calls,
            check_s=self._check_s,
        )
        try:
            await puller.run()
        finally:
            self._kept.remove(pull)
            del self._engine.on_link[pull]


class Puller:
    """Does what one ``Pull`` says.

    One task writes to the call and waits; while there is a call, another one reads from it.
    """

    def __init__(
        self,
        pull: Pull,
        engine: Engine,
        *,
        batch_bytes_max: int,
        password_mark: int,
        calls: PeerCalls,
        check_s: float,
    ) -> None:
        self._pull = pull
        self._engine = engine
        self._batch_bytes_max = batch_bytes_max
        self._password_mark = password_mark
        self._calls = calls
        self._check_s = check_s
        self._unpacker = BatchUnpacker(pull.peer, bytes_max=batch_bytes_max)
        self._wake = asyncio.Event()
        self._may_read = asyncio.Event()
        engine.on_link[pull] = self._woken

    def _woken(self) -> None:
        self._wake.set()
        self._may_read.set()

    async def run(self) -> None:
        """Keep the link for as long as the node runs, or until it ends."""
        while True:
            self._wake.clear()
            match self._next():
                case Connect():
                    await self._call_peer()
                case Sleep(until):
                    await self._sleep(until)
                case Over():
                    return
                case Send() | HangUp() as action:
                    raise AssertionError(f"{action} outside of a call")

    async def _call_peer(self) -> None:
        """One call, from its beginning to its end."""
        clock = asyncio.get_running_loop().time
        check_at = clock() + self._check_s * random.uniform(*CHECK_PARTS)  # noqa: S311 - spread
        async with self._call() as call, asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(self._receive(call))
            writer: asyncio.Task[None] | None = None
            while True:
                self._wake.clear()
                if clock() >= check_at:
                    check_at = math.inf
                    self._pull.reopen()
                is_writing = writer is not None and not writer.done()
                match self._next(may_send=not is_writing):
                    case Send(message):
                        # A write waits for the connection, and for the peer to read: the link
                        # must go on watching during that time.
                        writer = tasks.create_task(self._send(call, message))
                        await asyncio.sleep(0)
                    case Sleep(until):
                        await self._sleep(check_at if until is None else min(until, check_at))
                    case HangUp():
                        reader.cancel()
                        if writer is not None:
                            writer.cancel()
                        return
                    case Connect() | Over() as action:
                        raise AssertionError(f"{action} within a call")

    def _next(self, *, may_send: bool = True) -> PullAction:
        at = asyncio.get_running_loop().time()
        return self._pull.next(self._engine.now(), at, may_send=may_send)

    async def _sleep(self, until: float | None) -> None:
        await sleep_until(self._wake, None if until == math.inf else until)

    async def _send(self, call: Call, message: ToServer) -> None:
        # The call may be over; its reader hears why.
        with contextlib.suppress(asyncio.InvalidStateError, grpc.RpcError):
            await call.write(encode_request(message))
        self._wake.set()

    @contextlib.asynccontextmanager
    async def _call(self) -> AsyncIterator[Call]:
        silence_ms = self._engine.region.limits.link_silence_ms_max
        options = (
            ("grpc.max_receive_message_length", self._batch_bytes_max + FRAMING_BYTES_MAX),
            ("grpc.keepalive_time_ms", max(1_000, silence_ms)),
            ("grpc.keepalive_timeout_ms", silence_ms),
            ("grpc.http2.max_pings_without_data", 0),
        )
        pull = self._pull
        # One connection per call, without gRPC's own pauses between attempts: ours count.
        async with self._calls.channel(pull.address, pull.peer, options) as channel:
            call = rpc.ReplicationStub(channel).Sync(
                wait_for_ready=False,
                metadata=((METADATA_KEY, str(self._password_mark)),),
            )
            try:
                yield call
            finally:
                call.cancel()

    # --- Receiving ----------------------------------------------------------------------------

    async def _receive(self, call: Call) -> None:
        """Read until the call ends, and pass its reason to the link."""
        try:
            await self._read_messages(call)
        except PeerError as error:
            self._lost(Failed(str(error)))
        except grpc.aio.AioRpcError as error:
            self._lost(_event_of(error))
        except grpc.RpcError as error:
            self._lost(Failed(str(error)))

    def _lost(self, event: Failed | Refused) -> None:
        self._pull.lost(event, self._engine.now())

    async def _read_messages(self, call: Call) -> None:
        pull = self._pull
        loop = asyncio.get_running_loop()
        while True:
            message = await call.read()
            if message is grpc.aio.EOF:
                raise PeerError(pull.peer, "ended the call")
            if not isinstance(message, pb.SyncResponse):
                # gRPC returns None for bytes that are no message of this kind.
                raise PeerError(pull.peer, "a message that cannot be read; is it a region node?")
            if message.WhichOneof("kind") == "batches":
                pull.stats.bytes_wire += len(message.batches.zstd)
            received = await decoded(pull.peer, message, self._unpacker)
            pull.receive(received, self._engine.now(), loop.time())
            while not pull.may_read:
                self._may_read.clear()
                await self._may_read.wait()


async def decoded(peer: RegionId, message: pb.SyncResponse, unpacker: BatchUnpacker) -> FromServer:
    """``decode_response``; a large message, as of a transaction, is decoded beside the event loop.

    Its bytes take tens of milliseconds for each MiB of entries, and clients are served meanwhile.

    Raises:
        PeerError: see there.
    """
    if unpacked_bytes(message) <= ASIDE_BYTES.value:
        return decode_response(peer, message, unpacker)
    return await asyncio.to_thread(decode_response, peer, message, unpacker)


def _event_of(error: grpc.aio.AioRpcError) -> Failed | Refused:
    if error.code() in REFUSALS:
        is_duplicate = error.code() is grpc.StatusCode.ALREADY_EXISTS
        told = dict(error.trailing_metadata() or ()).get(INCARNATIONS_KEY, b"")
        incarnations = told if isinstance(told, bytes) else b""
        return Refused(error.details() or error.code().name, is_duplicate, incarnations)
    return Failed(f"{error.code().name}: {short_details(error.details() or 'no reason given')}")


def short_details(details: str) -> str:
    """Shorten gRPC's text about an address that cannot be reached to its cause.

    The address is left out, as each link's line has it, and so are the texts of outer layers.
    """
    if NAME_IS_WRONG in details:
        return (
            "its certificate is of another region or database; correct the address, or give that"
            " node the files of its own region"
        )
    _, is_untrusted, why = details.partition(NOT_TRUSTED)
    if is_untrusted:
        return (
            f"its certificate is not trusted ({why.lstrip(': ').removesuffix(': OK')}); compare its"
            " authority and dates with tls_ca_cert_file here"
        )
    _, marker, last = details.partition("last error: ")
    return last.rpartition("Failed to connect to remote host: ")[2] if marker else details
