"""Getting the state of another region: one call, whose images are put in a staging.

A call that breaks leaves the images that arrived in the staging.  The next one names their cut, and
goes on behind the last image if the sender still keeps that checkpoint; otherwise it begins again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Final, NoReturn, TypeAlias

import grpc

from crdtstream.access.peer_calls import PLAIN_CALLS, Options, PeerCalls
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds
from crdtstream.engine.engine import Engine
from crdtstream.region.bootstrap import CopyProgress
from crdtstream.region.links.errors import PeerError, RefusedError
from crdtstream.region.peers import Peers, PeersChange
from crdtstream.replication.bootstrap_wire import (
    CopyAsked,
    Resume,
    check_nodes,
    decode_begin,
    decode_images,
    encode_asked,
)
from crdtstream.replication.puller import FRAMING_BYTES_MAX, REFUSALS, REFUSED, short_details
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.staging import StagedCut, Staging
from crdtstream.v1 import bootstrap_pb2 as pb
from crdtstream.v1 import bootstrap_pb2_grpc as rpc

Hear: TypeAlias = Callable[[RegionId, VersionVector, bytes], str | None]
Call: TypeAlias = "grpc.aio.UnaryStreamCall[pb.CopyRequest, pb.CopyPiece]"

# A sender that sends nothing for this long is given up.  One that its own bound slows down sends
# a piece every half minute.
SILENCE_SECONDS_MAX: Final = Seconds(60.0, least=1.0)


class CopyFromPeer:
    """Copies from a peer; for the bootstrapper."""

    def __init__(self, engine: Engine, settings: NodeSettings, calls: PeerCalls) -> None:
        self._engine = engine
        self._limits = settings.limits
        self._calls = calls

    async def __call__(self, source: RegionId, staging: Staging, key: bytes | None = None) -> None:
        """See ``Copy`` in ``engine/bootstrapper.py``, and ``CopyKey`` in ``engine/repairer.py``."""
        region = self._engine.region
        identity = region.links.identity
        asked = CopyAsked(
            region=identity.region,
            database_id=identity.database_id,
            uid=region.replica.database_uid,
            run_id=identity.run_id,
            vv=dict(region.replica.vv),
            bytes_per_s=region.retention.bootstrap.bytes_per_s,
            key=key,
        )
        async with ended_with_links(region.peers, source) as address:
            await copy(
                source,
                region.links.address_of(source) or address,
                staging,
                asked,
                hear=region.numbering.hear_state,
                progress=region.bootstrap.progress,
                image_bytes_max=self._limits.batch_bytes_max,
                silence_ms_max=self._limits.link_silence_ms_max,
                calls=self._calls,
            )


@contextlib.asynccontextmanager
async def ended_with_links(peers: Peers, source: RegionId) -> AsyncIterator[str]:
    """Yield a peer's address; the block under it ends when the peer is no longer there.

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
    hear: Hear,
    progress: CopyProgress,
    image_bytes_max: int,
    silence_ms_max: int,
    calls: PeerCalls = PLAIN_CALLS,
) -> StagedCut:
    """Get the state of a peer, and return when it is complete in the staging.

    Args:
        asked: the request, without the place to go on: the staging has that.
        hear: given the peer, the version vector of its state, and what it says of incarnations;
            returns why the state cannot be taken.
        image_bytes_max: bound of one image; as of one batch, ``limits.batch_bytes_max``.
        silence_ms_max: when a connection that answers nothing is given up.

    Raises:
        RefusedError: the peer never sends it to this region as it is; the text says what to do.
        PeerError: the call broke, the peer cannot send it now, or sent what cannot be used.
        StoreError: this region's disk refused.
    """
    found = staging.staged()
    if found is not None and staging.is_complete:
        assert found[0].key == asked.key
        return found[0]
    if found is not None and found[0].source == peer and found[0].key == asked.key:
        asked = replace(asked, resume=Resume(found[0].id, found[1]))
    options = _options(image_bytes_max, silence_ms_max)
    async with _called(calls, calls.channel(address, peer, options), asked) as call:
        cut = await _begin(peer, call, staging, hear, progress, asked.key)
        await _stage(peer, call, staging, cut, progress)
    await staging.finish()
    return cut


async def _begin(
    peer: RegionId,
    call: Call,
    staging: Staging,
    hear: Hear,
    progress: CopyProgress,
    key: bytes | None,
) -> StagedCut:
    """Take the first message, and begin with the cut or go on with it."""
    message = await _read(peer, call)
    if message.WhichOneof("kind") != "begin":
        raise PeerError(peer, "the first message must be begin")
    cut = decode_begin(peer, message.begin)
    if cut.key != key:
        raise PeerError(peer, "begin: it sends other keys than it was asked for; upgrade it")
    reason = hear(peer, cut.vv, message.begin.incarnations)
    if reason is not None:
        raise RefusedError(peer, reason)
    found = staging.staged()
    if not message.begin.resumed:
        await staging.begin(cut)
    elif found is None or found[0] != cut:
        raise PeerError(peer, "begin: it goes on with a cut that is not the one that is here")
    progress.begin(cut.vv, images=cut.images, bytes=cut.bytes)
    progress.images_done, progress.bytes_done = staging.sums.images, staging.sums.bytes
    progress.images_before, progress.is_resumed = staging.sums.images, message.begin.resumed
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
                images = decode_images(peer, message.images, after=found[1])
                await asyncio.to_thread(check_nodes, peer, images)
                await staging.put(images)
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
    """Discard what is staged, as it cannot become complete: the next call begins again."""
    await staging.discard()
    raise PeerError(peer, f"it sent {reason}; the copy begins again")


# --- The call -------------------------------------------------------------------------------------


def _options(image_bytes_max: int, silence_ms_max: int) -> Options:
    return (
        ("grpc.max_receive_message_length", image_bytes_max + FRAMING_BYTES_MAX),
        ("grpc.keepalive_time_ms", max(1_000, silence_ms_max)),
        ("grpc.keepalive_timeout_ms", silence_ms_max),
        ("grpc.http2.max_pings_without_data", 0),
    )


@contextlib.asynccontextmanager
async def _called(
    calls: PeerCalls, opened: grpc.aio.Channel, asked: CopyAsked
) -> AsyncIterator[Call]:
    async with opened as channel:
        call = rpc.BootstrapStub(channel).Copy(
            encode_asked(asked), wait_for_ready=False, metadata=calls.metadata
        )
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
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            raise PeerError(peer, REFUSED) from error
        kind = RefusedError if error.code() in REFUSALS else PeerError
        raise kind(
            peer, f"{error.code().name}: {short_details(error.details() or 'no reason given')}"
        ) from error
    if message is grpc.aio.EOF:
        raise PeerError(peer, "ended the call before the end of the images")
    if not isinstance(message, pb.CopyPiece):
        # gRPC returns None for bytes that are no message of this kind.
        raise PeerError(peer, "a message that cannot be read; is it a region node?")
    return message
