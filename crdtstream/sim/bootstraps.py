"""The staging and the calls of a simulated node's bootstrapper, which is the real one.

Between two turns anything may happen, at either end: clients write, a line is cut, a disk refuses,
a process dies.  The state is read from the sender's checkpoints as a node reads it; only the call
between the two is simulated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.ids import RegionId
from crdtstream.region.links.errors import PeerError
from crdtstream.sim.checkpoints import Process, SimCheckpoints, a_turn
from crdtstream.sim.disk import Disk
from crdtstream.store.checkpoints import CheckpointRow, Purpose
from crdtstream.store.staging import MemoryStaging, StagedCut, StagedImage, Staging

# Few images come at a time, so that many events may happen between them.
PIECE_BYTES: Final = 256


@dataclass(slots=True)
class SimStaging(MemoryStaging):
    """A staging on a simulated disk; faults of that disk are faults of the staging.

    Attributes:
        disk: while it refuses, the staging refuses.
    """

    disk: Disk = field(kw_only=True)
    # All that was ever complete: an earlier copy of the folder has its staging with it.
    _complete: dict[bytes, tuple[StagedCut, dict[int, StagedImage]]] = field(default_factory=dict)

    async def begin(self, cut: StagedCut) -> None:
        self.disk.check()
        await MemoryStaging.begin(self, cut)

    async def put(self, images: Sequence[StagedImage]) -> None:
        self.disk.check()
        await MemoryStaging.put(self, images)

    async def finish(self) -> None:
        self.disk.check()
        await MemoryStaging.finish(self)
        assert self._cut is not None
        self._complete[self._cut.id] = self._cut, dict(self._images)

    async def discard(self) -> None:
        self.disk.check()
        await MemoryStaging.discard(self)

    def put_back(self, cut_id: bytes | None) -> None:
        """Put an earlier staging back, with this cut; None: without any."""
        self._forget()
        if cut_id is not None:
            self._cut, images = self._complete[cut_id]
            self._images = dict(images)
            self.is_complete = True


class SimPeer(Process, Protocol):
    """Parts of the sending region that a copy uses."""

    is_up: bool
    run_id: int
    checkpoints: SimCheckpoints
    staging: SimStaging


class SimCopy:
    """Copy of a peer's state, as gRPC would make it.

    Attributes:
        count: number of calls; cuts are named by it.
    """

    def __init__(
        self, node: "SimPeer", region: RegionId, reach: Callable[[RegionId], SimPeer | None]
    ) -> None:
        """The copies of one process.

        Args:
            reach: returns the process of a region; None: no message gets there and back now.
        """
        self._node = node
        self._region = region
        self._reach = reach
        self.count = 0

    async def __call__(self, source: RegionId, staging: Staging) -> None:
        await a_turn()
        peer = self._reached(source, None)
        run_id, vv = peer.run_id, dict(self._node.region.replica.vv)
        if self._region not in peer.region.peers.addresses:
            # As the service of a node: a removed region gets nothing more, and hears of it.
            raise PeerError(source, peer.region.membership.told_unknown(self._region))
        if not peer.region.replica.database_uid or peer.region.bootstrap.needs_staging:
            raise PeerError(source, "it has no database yet, or gets a state itself")
        async with peer.checkpoints.hold(Purpose.BOOTSTRAP) as hold:
            if hold.checkpoint is None or covers(vv, hold.checkpoint.row.vv):
                peer.region.checkpointing.want_an_end()
                raise PeerError(source, "it has no checkpoint that has what lacks here")
            row = hold.checkpoint.row
            self.count += 1
            name = b"%d.%d.%d" % (self._region, self._node.run_id, self.count)
            sent = await peer.checkpoints.sent(row.generation)
            peer.region.links.note_sent(row.vv.get(source, 0))
            cut = StagedCut(name.ljust(16, b"."), source, self._vv_of(peer, row), *sent)
            said = peer.region.numbering.said()
            reason = self._node.region.numbering.hear_state(source, cut.vv, said)
            if reason is not None:
                raise PeerError(source, reason)
            await staging.begin(cut)
            progress = self._node.region.bootstrap.progress
            progress.begin(cut.vv, images=cut.images, bytes=cut.bytes)
            after = 0
            while images := await peer.checkpoints.images(
                row.generation, after=after, bytes_max=PIECE_BYTES
            ):
                await a_turn()
                self._reached(source, run_id)
                peer.region.retention.note_staging(self._region, dict(row.vv))
                await staging.put(images)
                after = images[-1].number
        await a_turn()
        await staging.finish()

    def _vv_of(self, _peer: SimPeer, row: CheckpointRow) -> VersionVector:
        """Version vector of the sender's checkpoint, as the sender reports it."""
        return dict(row.vv)

    def _reached(self, source: RegionId, run_id: int | None) -> SimPeer:
        peer = self._reach(source)
        if peer is None or not peer.is_up or run_id not in (None, peer.run_id):
            raise PeerError(source, "it cannot be reached")
        return peer
