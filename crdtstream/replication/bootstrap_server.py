"""Sending the state to a region that lacks it: the images of a checkpoint, read while others write.

    Copy ─> the caller is checked ─> the newest verified checkpoint is held ─> begin
                                     │
         images, images …  <─────────┘  a piece at a time, in the order of their numbers
         end

The checkpoint is held by region and cut, not by call: after a call that breaks, another one goes on
behind the last image that arrived.  The hold lapses when nothing was sent for a minute
(``HOLD_IDLE_SECONDS``), and ends within seconds once the region durably has what it was sent.

The pieces are read in the thread of a connection of its own, each in a short transaction.  Each is
read only when gRPC has taken the one before.  So nothing is read ahead of a slow receiver, and a
copy takes the memory of a few pieces.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import grpc
import structlog

from crdtstream.access.callers import Callers, check_region
from crdtstream.core.clock import VersionVector, covers, missing
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Seconds, Size
from crdtstream.core.uid import shown_uid
from crdtstream.engine.engine import Engine
from crdtstream.engine.turns import until_beat
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import PROTOCOL_VERSION, Refusal, RefusalKind
from crdtstream.replication.bootstrap_wire import (
    CopyAsked,
    decode_asked,
    encode_begin,
    encode_images,
)
from crdtstream.replication.server import CODES
from crdtstream.store.checkpoints import HOLD_IDLE_SECONDS, Checkpoints, Hold, Purpose
from crdtstream.store.errors import StoreError
from crdtstream.store.staging import ALL_OWNERS, CUT_ID_BYTES, StagedCut, StagedImage
from crdtstream.v1 import bootstrap_pb2 as pb
from crdtstream.v1 import bootstrap_pb2_grpc as rpc

Context: TypeAlias = "grpc.aio.ServicerContext[pb.CopyRequest, pb.CopyPiece]"

# One message; a single image may take more.
PIECE_BYTES: Final = Size(256 << 10, least=1)
# Regions that are sent the state at a time.  Each keeps a checkpoint on the disk.
COPIES_MAX: Final = Size(2, least=1)
# Time between two looks for copies that have ended: each keeps log and images on the disk.
LOOK_SECONDS: Final = Seconds(1.0, least=0.01)

logger = structlog.get_logger(__name__)


class _RefusedError(Exception):
    """There is no copy, or no more of it: the status of the call, and the reason."""

    def __init__(self, code: grpc.StatusCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(slots=True, eq=False)
class _Copy:
    """Copy of the state that is sent to one region.

    Attributes:
        cut: None while the checkpoint is prepared.
        hold: keeps that checkpoint.
        key: the only one that is sent; None: all are.
        owner: its number in the checkpoint.
        calls: how many calls it had; only the newest one goes on.
        is_sent: all of it was sent, and may have arrived.
        ended: why there is no more of it; empty: it goes on.
    """

    region: RegionId
    key: bytes | None = None
    owner: int = ALL_OWNERS
    holding: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    hold: Hold | None = None
    cut: StagedCut | None = None
    calls: int = 0
    is_sent: bool = False
    ended: str = ""

    @property
    def lasts(self) -> bool:
        """True if it may go on; one that is being prepared may."""
        return not self.ended and (self.hold is None or self.hold.lasts)


class BootstrapService(rpc.BootstrapServicer):
    """The ``Bootstrap`` service of one node."""

    def __init__(
        self,
        engine: Engine,
        checkpoints: Checkpoints,
        *,
        database_id: str,
        image_bytes_max: int,
        callers: Callers | None = None,
    ) -> None:
        """A service that sends the checkpoints of the engine's region.

        Args:
            image_bytes_max: bound of one image; as of one batch, ``limits.batch_bytes_max``.
            callers: knows the region that calls; None: it is the one that it says it is.
        """
        self._engine = engine
        self._callers = callers
        self._checkpoints = checkpoints
        self._database_id = database_id
        self._image_bytes_max = image_bytes_max
        self._copies: dict[RegionId, _Copy] = {}

    # --- What others ask ----------------------------------------------------------------------

    @property
    def cuts(self) -> Mapping[RegionId, StagedCut]:
        """Cuts that are being sent, or whose copy may be continued, by region."""
        return {
            region: copy.cut
            for region, copy in self._copies.items()
            if copy.cut is not None and copy.lasts
        }

    def end(self, region: RegionId, reason: str) -> None:
        """End the copy to a region, if there is one; its call says why."""
        copy = self._copies.get(region)
        if copy is not None:
            copy.ended = reason
            if copy.hold is not None:
                copy.hold.end()

    async def run(self) -> None:
        """End the holds of copies that lapsed or were taken over, until it is cancelled."""
        while True:
            await until_beat(LOOK_SECONDS.value)
            await self._release_ended()

    async def close(self) -> None:
        """Hold nothing any more: the node stops."""
        for region in list(self._copies):
            await self._release(self._copies[region], "the node stops")

    # --- One call -----------------------------------------------------------------------------

    async def Copy(self, request: pb.CopyRequest, context: Context) -> None:  # noqa: N802
        """Send the state, from its beginning or from where an earlier call broke."""
        await check_region(self._callers, context, request.region, "Copy")
        try:
            asked = self._checked(request)
            copy, after = await self._take(asked)
            await self._send(copy, after, asked, context)
        except _RefusedError as error:
            logger.warning("the state is not sent", peer=request.region, reason=str(error))
            await context.abort(error.code, str(error))
        except StoreError as error:
            logger.error("the state cannot be sent", peer=request.region, reason=str(error))
            await context.abort(grpc.StatusCode.DATA_LOSS, str(error))

    async def _send(self, copy: _Copy, after: int, asked: CopyAsked, context: Context) -> None:
        cut = copy.cut
        assert cut is not None
        call = copy.calls
        resumed = asked.resume is not None and asked.resume.cut_id == cut.id
        logger.info(
            "the state is sent", peer=copy.region, images=cut.images, bytes=cut.bytes, after=after
        )
        # It may say so as soon as it has merged them.
        region = self._engine.region
        region.links.note_sent(cut.vv.get(region.replica.region, 0))
        said = region.numbering.said()
        await context.write(encode_begin(cut, resumed=resumed, incarnations=said))
        loop = asyncio.get_running_loop()
        may_send_at = loop.time()
        while True:
            await self._look_at_log(copy)
            images = await self._next_piece(copy, after)
            # It was held while it was read.
            _go_on(copy, call)
            if not images:
                break
            await context.write(encode_images(images))
            after = images[-1].number
            may_send_at = max(may_send_at, loop.time()) + self._seconds_of(images, asked)
            await asyncio.sleep(max(0.0, may_send_at - loop.time()))
            _go_on(copy, call)
        await context.write(pb.CopyPiece(end=pb.CopyEnd()))
        copy.is_sent = True
        logger.info("the state was sent", peer=copy.region)

    async def _look_at_log(self, copy: _Copy) -> None:
        """Keep the log behind the cut for the other region, as long as that is not too much.

        Raises:
            StoreError: the log cannot be looked at.
        """
        assert copy.hold is not None
        assert copy.hold.checkpoint is not None
        row = copy.hold.checkpoint.row
        if copy.region not in self._engine.region.peers.addresses:
            self.end(copy.region, "it is no peer any more")
        retention = self._engine.region.retention
        retention.note_staging(copy.region, row.vv)
        behind, most = await self._engine.log.bytes_from(row.seq + 1), retention.bootstrap
        if behind > most.backlog_bytes_max:
            self.end(
                copy.region,
                f"the log has grown by {behind} bytes since, more than bootstrap_backlog_size "
                f"({most.backlog_bytes_max}); if this happens again raise that, or "
                "bootstrap_bytes_per_s",
            )

    async def _next_piece(self, copy: _Copy, after: int) -> list[StagedImage]:
        """The images behind the one with this number, as many as a message takes.

        Raises:
            StoreError: one is damaged, or too large for a message.
        """
        assert copy.hold is not None
        assert copy.hold.checkpoint is not None
        images = await self._checkpoints.images(
            copy.hold.checkpoint.row.generation,
            after=after,
            bytes_max=PIECE_BYTES.value,
            owner=copy.owner,
        )
        for image in images:
            if image.bytes > self._image_bytes_max:
                raise StoreError(
                    f"image {image.number} has {image.bytes} bytes, more than a message takes "
                    f"({self._image_bytes_max}); raise limits.batch_bytes_max in all regions"
                )
        return images

    def _seconds_of(self, images: list[StagedImage], asked: CopyAsked) -> float:
        """Time that they take at the allowed speed, bounded so that the hold does not lapse."""
        own = self._engine.region.retention.bootstrap.bytes_per_s
        bounds = [bound for bound in (own, asked.bytes_per_s) if bound]
        if not bounds:
            return 0.0
        return min(sum(image.bytes for image in images) / min(bounds), HOLD_IDLE_SECONDS.value / 2)

    # --- What is sent -------------------------------------------------------------------------

    async def _take(self, asked: CopyAsked) -> tuple[_Copy, int]:
        """The copy that a region goes on with, or a new one, and behind which image it begins.

        Raises:
            _RefusedError: there is none now.
            StoreError: the checkpoint is damaged.
        """
        await self._release_ended()
        copy = self._copies.get(asked.region)
        if copy is not None and copy.cut is None:
            raise _RefusedError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "another call of that region is being prepared; try again in a moment",
            )
        resume = asked.resume
        if resume is not None and copy is not None and copy.key != asked.key:
            resume = None
        if copy is None or copy.cut is None or resume is None or resume.cut_id != copy.cut.id:
            if copy is not None:
                await self._release(copy, "the region has begun again")
            copy, resume = await self._begin(asked), None
        copy.calls += 1
        return copy, 0 if resume is None else resume.after

    async def _begin(self, asked: CopyAsked) -> _Copy:
        """Hold a checkpoint for a region.

        Raises:
            _RefusedError: there is none with what it lacks, or no room for another copy.
            StoreError: it is damaged.
        """
        if asked.region in self._copies or len(self._copies) >= COPIES_MAX.value:
            raise _RefusedError(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{len(self._copies)} regions are sent the state already; try again when one of "
                "them has it",
            )
        # From here on it counts, and no second one is begun for the region.
        copy = self._copies[asked.region] = _Copy(asked.region, asked.key)
        try:
            copy.hold = await copy.holding.enter_async_context(
                self._checkpoints.hold(Purpose.BOOTSTRAP)
            )
            checkpoint = copy.hold.checkpoint
            if checkpoint is None or not self._is_of_use(checkpoint.row.vv, asked):
                self._engine.region.checkpointing.want_an_end()
                raise _RefusedError(
                    grpc.StatusCode.UNAVAILABLE,
                    "this region has no checkpoint yet that has what the other one lacks; one "
                    "is written now, try again in a moment",
                )
            generation = checkpoint.row.generation
            if asked.key is not None:
                copy.owner = await self._checkpoints.owner_of(generation, asked.key)
            sent = await self._checkpoints.sent(generation, copy.owner)
            copy.cut = StagedCut(
                secrets.token_bytes(CUT_ID_BYTES),
                self._engine.region.replica.region,
                checkpoint.row.vv,
                *sent,
                key=asked.key,
            )
        except BaseException:
            await self._release(copy, "it was not begun")
            raise
        return copy

    def _is_of_use(self, vv: VersionVector, asked: CopyAsked) -> bool:
        """True if a checkpoint at this version vector is of use to a region that asks.

        Raises:
            _RefusedError: at present no checkpoint could be.
        """
        if asked.key is None:
            return not covers(asked.vv, vv)
        replica = self._engine.region.replica
        if not covers(replica.vv, asked.vv):
            raise _RefusedError(
                grpc.StatusCode.UNAVAILABLE,
                f"region {replica.region} has not applied {missing(replica.vv, asked.vv)} effects"
                f" that region {asked.region} has; look at its links (`crdtstream status`)",
            )
        return covers(vv, asked.vv)

    async def _release_ended(self) -> None:
        for copy in list(self._copies.values()):
            if not copy.lasts:
                await self._release(copy, copy.ended or "the region took nothing for too long")
            elif self._is_taken_over(copy):
                await self._release(copy, "the region has it")

    def _is_taken_over(self, copy: _Copy) -> bool:
        """True if the region says that it durably has what it was sent."""
        durable_vv = self._engine.region.knowledge.of(copy.region)
        return copy.is_sent and copy.cut is not None and covers(durable_vv, copy.cut.vv)

    async def _release(self, copy: _Copy, reason: str) -> None:
        copy.ended = copy.ended or reason
        if self._copies.get(copy.region) is copy:
            del self._copies[copy.region]
        await copy.holding.aclose()

    # --- Permission ---------------------------------------------------------------------------

    def _checked(self, request: pb.CopyRequest) -> CopyAsked:
        """Decode and check a region's request.

        Raises:
            _RefusedError: the region may not have a copy, or not now.
        """
        try:
            asked = decode_asked(request)
        except PeerError as error:
            raise _RefusedError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        refusal = self._refusal(asked)
        if refusal is not None:
            raise _RefusedError(CODES[refusal.kind], refusal.reason)
        region = self._engine.region
        # One that recovers may send: two that do may each have what the other one lacks.
        if not region.replica.database_uid:
            raise _RefusedError(
                grpc.StatusCode.UNAVAILABLE,
                f"region {region.replica.region} does not know its database yet; ask another one, "
                "or try again in a moment",
            )
        # The rest of a copy that broke, and is not continued, does not matter.
        if region.bootstrap.needs_staging:
            raise _RefusedError(
                grpc.StatusCode.UNAVAILABLE,
                f"region {region.replica.region} gets the state of another region itself; ask "
                "that one, or try again when it is done",
            )
        return asked

    def _refusal(self, asked: CopyAsked) -> Refusal | None:
        """Why this region is never sent anything; as for a link (``region/links/links.py``)."""
        region = self._engine.region
        own = region.replica.region
        if asked.protocol != PROTOCOL_VERSION:
            return Refusal(
                RefusalKind.MISMATCH,
                f"region {own} speaks link protocol {PROTOCOL_VERSION}, not {asked.protocol}; run "
                "the same version everywhere",
            )
        if asked.database_id != self._database_id:
            return Refusal(
                RefusalKind.MISMATCH,
                f"region {own} holds database {self._database_id!r}, not {asked.database_id!r}; "
                "correct database_id, or the peer's address",
            )
        if asked.region == own:
            return Refusal(
                RefusalKind.MISMATCH,
                f"both sides are region {own}; each region needs a number of its own",
            )
        uid = region.replica.database_uid
        if asked.uid and uid and asked.uid != uid:
            return Refusal(
                RefusalKind.MISMATCH,
                f"region {own} belongs to database {shown_uid(uid)}, region {asked.region} to "
                f"{shown_uid(asked.uid)}, which was set up on its own: correct the address",
            )
        if asked.region not in region.peers.addresses:
            return Refusal(
                RefusalKind.UNKNOWN,
                region.membership.told_unknown(asked.region),
            )
        linked = region.links.serves.get(asked.region)
        if linked is not None and not linked.is_over and linked.run_id != asked.run_id:
            return Refusal(
                RefusalKind.DUPLICATE,
                f"another node is linked to region {own} as region {asked.region}; stop one of "
                "the two, or give it a region number of its own",
            )
        return None


def _go_on(copy: _Copy, call: int) -> None:
    """See that the call may send on, and keep the checkpoint for it.

    Raises:
        _RefusedError: it may not.
    """
    assert copy.hold is not None
    reason = copy.ended
    if not reason and copy.calls != call:
        reason = "another call of that region goes on with it"
    if not reason:
        try:
            copy.hold.go_on()
        except StoreError as error:
            reason = copy.ended = str(error)
    if reason:
        raise _RefusedError(grpc.StatusCode.ABORTED, f"the copy has ended: {reason}")
