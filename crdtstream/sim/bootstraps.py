"""Bootstraps of a simulated node: the real bootstrapper, a turn of it at a time.

Between two turns anything may happen, at either end: clients write, a line is cut, a disk refuses,
a process dies.  What is copied is read from the sender's checkpoints as a node reads it; the call
between the two is all that is simulated.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from crdtstream.bootstrapper import Bootstrapper
from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.ids import RegionId
from crdtstream.region.links.errors import PeerError
from crdtstream.sim.checkpoints import Process, SimCheckpoints, a_turn
from crdtstream.sim.disk import Disk
from crdtstream.store.checkpoints import CheckpointRow, Purpose
from crdtstream.store.staging import MemoryStaging, StagedCut, StagedImage, Staging

# Few images come at a time, so that much may happen between them.
PIECE_BYTES: Final = 256


@dataclass(slots=True)
class SimStaging(MemoryStaging):
    """A staging on a simulated disk; what a test does to that disk, it does to this.

    Attributes:
        disk: what it refuses, is refused here.
    """

    disk: Disk = field(kw_only=True)
    # What was ever complete: an earlier copy of the folder has its staging with it.
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

    def lose_power(self) -> None:
        """What is not complete was not synced."""
        if not self.is_complete:
            self._forget()

    def put_back(self, cut_id: bytes | None) -> None:
        """An earlier copy of the folder has this cut in its staging; None: it has none."""
        self._forget()
        if cut_id is not None:
            self._cut, images = self._complete[cut_id]
            self._images = dict(images)
            self.is_complete = True


class SimPeer(Process, Protocol):
    """What a copy needs of the region that sends its state."""

    is_up: bool
    run_id: int
    checkpoints: SimCheckpoints
    staging: SimStaging


class SimCopy:
    """Copies the state of a peer, as gRPC would.

    Attributes:
        count: calls that were made, by which cuts are named.
    """

    def __init__(
        self, node: "SimPeer", region: RegionId, reach: Callable[[RegionId], SimPeer | None]
    ) -> None:
        """The copies of one process.

        Args:
            reach: the process of a region; None: no message gets there and back now.
        """
        self._node = node
        self._region = region
        self._reach = reach
        self.count = 0

    async def __call__(self, source: RegionId, staging: Staging) -> None:
        await a_turn()
        peer = self._reached(source, None)
        run_id, vv = peer.run_id, dict(self._node.region.replica.vv)
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
        """What the sender says of its checkpoint."""
        return dict(row.vv)

    def _reached(self, source: RegionId, run_id: int | None) -> SimPeer:
        peer = self._reach(source)
        if peer is None or not peer.is_up or run_id not in (None, peer.run_id):
            raise PeerError(source, "it cannot be reached")
        return peer


class BootstrapTurns:
    """The bootstrapper of one process."""

    def __init__(self, bootstrapper: Bootstrapper) -> None:
        self._bootstrapper = bootstrapper
        self._running: Coroutine[Any, Any, None] | None = None

    def go_on(self, turns: int) -> None:
        """Look whether something is due, and take a few turns of it."""
        running = self._running = self._running or self._bootstrapper.look()
        try:
            for _ in range(turns):
                running.send(None)
        except StopIteration:
            self._running = None

    def end(self) -> None:
        """The process dies."""
        if self._running is not None:
            self._running.close()
            self._running = None
