"""Getting the state of another region: one call, whose images are put in a staging.

A call that breaks leaves what arrived in the staging.  The next one names it, and goes on behind
the last image if the sender still keeps that checkpoint; otherwise it begins anew.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final, NoReturn, TypeAlias

import grpc

from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.engine import Engine
from crdtstream.region.bootstrap import CopyProgress
from crdtstream.region.links.errors import PeerError, RefusedError
from crdtstream.region.peers import Peers, PeersChange
from crdtstream.replication.bootstrap_wire import (
    CopyAsked,
    Resume,
    decode_begin,
    decode_images,
    encode_asked,
)
from crdtstream.replication.puller import FRAMING_BYTES_MAX, REFUSALS, short_details
from crdtstream.settings import NodeSettings
from crdtstream.store.staging import StagedCut, Staging
from crdtstream.v1 import bootstrap_pb2 as pb
from crdtstream.v1 import bootstrap_pb2_grpc as rpc

Call: TypeAlias = "grpc.aio.UnaryStreamCall[pb.CopyRequest, pb.CopyPiece]"

# A sender that sends nothing for so long is given up.  Slower ones than its own bound allows send
# a piece every half minute.
SILENCE_SECONDS_MAX: Final = Seconds(60.0, least=1.0)


class CopyFromPeer:
    """Copies from a peer; for the bootstrapper."""

    def __init__(self, engine: Engine, settings: NodeSettings) -> None:
        self._engine = engine
        self._limits = settings.limits

    async def __call__(self, source: RegionId, staging: Staging) -> None:
        """See ``Copy`` in ``bootstrapper.py``."""
        region = self._engine.region
        identity = region.links.identity
        asked = CopyAsked(
            region=identity.region,
            database_id=identity.database_id,
            uid=region.replica.database_uid,
            run_id=identity.run_id,
            vv=dict(region.replica.vv),
            bytes_per_s=region.retention.bootstrap.bytes_per_s,
        )
        async with ended_with_links(region.peers, source) as address:
            await copy(
                source,
                address,
                staging,
                asked,
                progress=region.bootstrap.progress,
                image_bytes_max=self._limits.batch_bytes_max,
                silence_ms_max=self._limits.link_silence_ms_max,
            )


@contextlib.asynccontextmanager
async def ended_with_links(peers: Peers, source: RegionId) -> AsyncIterator[str]:
    """Where a peer is; what is done here ends when it is there no more.

    Raises:
        PeerError: it is no peer any more, or has another address.
    """
    reason = ""

    def look(_change: PeersChange) -> None:
        nonlocal reason
        if peers.addresses.get(source) != address:
            reason = "it is no peer any more, or has another address"
            scope.reschedule(asyncio.get_running_loop().time())

    address = peers.addresses[source]
    peers.on_change.append(look)
    try:
        async with asyncio.timeout(None) as scope:
            yield address
    except TimeoutError as error:
        raise PeerError(source, reason) from error
    finally:
        peers.on_change.remove(look)


async def copy(
    peer: RegionId,
    address: str,
    staging: Staging,
    asked: CopyAsked,
    *,
    progress: CopyProgress,
    image_bytes_max: int,
    silence_ms_max: int,
) -> StagedCut:
    """Get the state of a peer, and return when it is complete in the staging.

    Args:
        asked: who asks, without where to go on: the staging says that.
        image_bytes_max: what one image may take; as one batch, ``limits.batch_bytes_max``.
        silence_ms_max: when a connection that answers nothing is given up.

    Raises:
        RefusedError: the peer never sends it to this region as it is; the text says what to do.
        PeerError: the call broke, the peer cannot send it now, or sent what cannot be used.
        StoreError: this region's disk refused.
    """
    found = staging.staged()
    if found is not None and staging.is_complete:
        return found[0]
    if found is not None and found[0].source == peer:
        asked = replace(asked, resume=Resume(found[0].id, found[1]))
    async with _called(address, asked, image_bytes_max, silence_ms_max) as call:
        cut = await _begin(peer, call, staging, progress)
        await _stage(peer, call, staging, cut, progress)
    await staging.finish()
    return cut


async def _begin(peer: RegionId, call: Call, staging: Staging, progress: CopyProgress) -> StagedCut:
    """Take the first message, and begin with the cut or go on with it."""
    message = await _read(peer, call)
    if message.WhichOneof("kind") != "begin":
        raise PeerError(peer, "the first message must be begin")
    cut = decode_begin(peer, message.begin)
    found = staging.staged()
    if not message.begin.resumed:
        await staging.begin(cut)
    elif found is None or found[0] != cut:
        raise PeerError(peer, "begin: it goes on with a cut that is not the one that is here")
    progress.begin(cut.vv, images=cut.images, bytes=cut.bytes)
    progress.images_done, progress.bytes_done = staging.sums.images, staging.sums.bytes
    return cut


async def _stage(
    peer: RegionId, call: Call, staging: Staging, cut: StagedCut, progress: CopyProgress
) -> None:
    """Put all that comes, until the peer says that it was all."""
    clock = asyncio.get_running_loop().time
    began, before = clock(), staging.sums.bytes
    while True:
        message = await _read(peer, call)
        match message.WhichOneof("kind"):
            case "images":
                found = staging.staged()
                assert found is not None
                await staging.put(decode_images(peer, message.images, after=found[1]))
                sums = staging.sums
                if sums.images > cut.images or sums.bytes > cut.bytes:
                    await _give_up(peer, staging, "more images, or larger ones, than it said")
                progress.images_done, progress.bytes_done = sums.images, sums.bytes
                progress.rate = (sums.bytes - before) / max(clock() - began, 1e-9)
            case "end":
                if staging.sums != cut.sums:
                    await _give_up(peer, staging, "other images than it said: some are missing")
                return
            case _:
                raise PeerError(peer, "only images and the end may follow begin")


async def _give_up(peer: RegionId, staging: Staging, reason: str) -> NoReturn:
    """What is staged cannot become complete: the next call begins anew."""
    await staging.discard()
    raise PeerError(peer, f"it sent {reason}; the copy begins anew")


# --- The call -------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _called(
    address: str, asked: CopyAsked, image_bytes_max: int, silence_ms_max: int
) -> AsyncIterator[Call]:
    options = (
        ("grpc.max_receive_message_length", image_bytes_max + FRAMING_BYTES_MAX),
        ("grpc.keepalive_time_ms", max(1_000, silence_ms_max)),
        ("grpc.keepalive_timeout_ms", silence_ms_max),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    )
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        call = rpc.BootstrapStub(channel).Copy(encode_asked(asked), wait_for_ready=False)
        try:
            yield call
        finally:
            call.cancel()


async def _read(peer: RegionId, call: Call) -> pb.CopyPiece:
    """The next message.

    Raises:
        RefusedError, PeerError: there is none; the text says why.
    """
    try:
        async with asyncio.timeout(SILENCE_SECONDS_MAX.value):
            message = await call.read()
    except TimeoutError as error:
        raise PeerError(
            peer, f"it sent nothing for {SILENCE_SECONDS_MAX.value:g} s; try again"
        ) from error
    except grpc.aio.AioRpcError as error:
        kind = RefusedError if error.code() in REFUSALS else PeerError
        raise kind(
            peer, f"{error.code().name}: {short_details(error.details() or 'no reason given')}"
        ) from error
    if message is grpc.aio.EOF:
        raise PeerError(peer, "ended the call before the end of the images")
    if not isinstance(message, pb.CopyPiece):
        # gRPC gives None for bytes that are no message of this kind.
        raise PeerError(peer, "a message that cannot be read; is it a region node?")
    return message
