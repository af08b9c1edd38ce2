"""The repairer: replaces a damaged key of this region by what another region has.

    hold ─> copy of the key ─> the same vector ─> compare ─> replace ─> a checkpoint ─> discard
            │ into the staging                    │          └ one record of the log
            └ again, if this region issued        └ equal: nothing to repair
              something in between

What the region holds back until the end is in ``region/repair.py``; what is compared and replaced
is in ``core/merge/repairing.py``.  The log gets one record: the staged key was taken over.  Before
its commit the folder is as it was, and after it the repair is done; a restart replays it with what
is staged.  Once a checkpoint has what came of it, the staging is removed (``bootstrapper.py``).

A failure before that leaves what was there.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.merge.repairing import Damage, Repairing
from crdtstream.core.size import Seconds
from crdtstream.engine.checkpointer import Ticks
from crdtstream.engine.turns import Turn
from crdtstream.region.links.errors import PeerError, RefusedError
from crdtstream.region.region import Region
from crdtstream.region.repair import RepairPhase
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints
from crdtstream.store.staging import StagedCut, Staging

logger = structlog.get_logger(__name__)

# Length of a key in log lines.
SHOWN_BYTES: Final = 64
# Pause before it looks again whether the other region can send the key, or all is applied.
RETRY_SECONDS: Final = Seconds(0.25, least=0.001)
LOOK_SECONDS: Final = Seconds(0.01, least=0.001)


class CopyKey(Protocol):
    """Copies a key of a peer into the staging, as of a version vector that covers this region's."""

    async def __call__(self, source: RegionId, staging: Staging, key: bytes | None = None) -> None:
        """
        Raises:
            PeerError: the peer cannot send it now; ``RefusedError``: it never can.
            StoreError: this region's disk refuses.
        """


class RepairError(Exception):
    """The key was not replaced, and all is as before; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a repair.

    Attributes:
        vv: the version vector at which both regions were compared.
        damage: differences that were found here; empty: the key was left as it was.
        record: the record of the log that has it; 0: nothing was changed.
        images, bytes: size of the copy.
    """

    vv: VersionVector
    damage: Damage
    record: int
    images: int
    bytes: int


class Repairer:
    """See the module's text."""

    def __init__(
        self,
        region: Region,
        staging: Staging,
        ticks: Ticks,
        copy: CopyKey,
        *,
        now: Callable[[], Millis],
        failpoints: Failpoints = NO_FAILPOINTS,
    ) -> None:
        self._region = region
        self._staging = staging
        self._ticks = ticks
        self._copy = copy
        self._now = now
        self._failpoints = failpoints
        self._obstacle = ""

    async def repair(
        self, key: bytes, source: RegionId, *, seconds: float, is_rehearsal: bool = False
    ) -> Repaired:
        """Replace a key, if it is damaged.

        Args:
            seconds: time that it may take until it is known what differs.
            is_rehearsal: only report what would be replaced.

        Raises:
            RepairError: it was not replaced.
        """
        self._check(source)
        try:
            async with self._held(key, source):
                self._obstacle = "it was not begun"
                try:
                    async with asyncio.timeout(seconds) as limit:
                        cut, repairing = await self._compared(key, source)
                        # A replacement is not interrupted.
                        limit.reschedule(None)
                except TimeoutError as error:
                    raise RepairError(
                        f"after {seconds:g} s the key could not be compared: {self._obstacle}."
                        " Nothing has changed; try again, perhaps with a longer --timeout"
                    ) from error
                record = 0
                if repairing.damage and not is_rehearsal:
                    record = await self._replace(cut, repairing)
                else:
                    repairing.give_up()
                return Repaired(cut.vv, repairing.damage, record, cut.images, cut.bytes)
        except StoreError as error:
            raise RepairError(f"this region's disk: {error}. Nothing has changed") from error

    def _check(self, source: RegionId) -> None:
        """
        Raises:
            RepairError: nothing can be repaired now.
        """
        region = self._region
        here = region.replica.region
        if source == here or source not in region.peers.active:
            raise RepairError(f"region {source} is no other active region of region {here}")
        if source not in region.links.heard:
            raise RepairError(
                f"region {here} has no link to region {source}; see `crdtstream status`, and try"
                " again when it is up"
            )
        if region.refuses_writes:
            raise RepairError(f"region {here} takes no writes now: {region.refuses_writes}")
        if not region.repair.is_idle or region.bootstrap.needs_staging:
            raise RepairError(
                f"region {here} repairs a key already, or gets the state of another region; try"
                " again when that is done (`crdtstream status`)"
            )

    @contextlib.asynccontextmanager
    async def _held(self, key: bytes, source: RegionId) -> AsyncIterator[None]:
        """Hold the region: it issues nothing, and applies only what it is told to.  At the end all
        goes on, and the staging is removed if it is not of the state."""
        region = self._region
        region.repair.hold(key, source)
        logger.info("repair: a key is compared", key=key[:SHOWN_BYTES], peer=source)
        try:
            yield
        finally:
            try:
                if not region.bootstrap.is_saving:
                    await self._staging.discard()
            finally:
                region.repair.end()

    # --- Until it is known what differs -------------------------------------------------------

    async def _compared(self, key: bytes, source: RegionId) -> tuple[StagedCut, Repairing]:
        """
        Raises:
            RepairError: it cannot be compared.
            StoreError: this region's disk refuses.
        """
        region = self._region
        while True:
            await self._settle()
            cut = await self._copied(key, source)
            self._failpoints.reach("repair.staged")
            region.repair.aim(cut.vv)
            if await self._reaches(cut.vv):
                break
            self._obstacle = "this region issues effects all the time"
            region.repair.hold_again()
            await self._staging.discard()
        region.repair.phase = RepairPhase.COMPARING
        self._obstacle = "comparing takes too long"
        try:
            repairing = region.replica.repairing(Merged(cut.id, cut.source, cut.vv, cut.key))
            await self._look(repairing)
        except (ContentError, UnreadableError) as error:
            raise RepairError(
                f"what region {source} has of the key cannot be used: {error}. Run `crdtstream"
                f" fsck` there, or name another region with --source. Nothing has changed"
            ) from error
        self._failpoints.reach("repair.proved")
        if region.replica.vv != cut.vv:
            repairing.give_up()
            raise RepairError("this region has changed meanwhile. Nothing was repaired; try again")
        return cut, repairing

    async def _settle(self) -> None:
        """Make all that clients did durable effects, so that the other region can have them."""
        self._obstacle = "acknowledgements wait for entries on disk"
        while True:
            seq = self._ticks.end_tick()
            await self._ticks.wait_logged(seq)
            if not self._region.replica.has_open_record:
                return
            await asyncio.sleep(LOOK_SECONDS.value)

    async def _copied(self, key: bytes, source: RegionId) -> StagedCut:
        """The staged key, complete.

        Raises:
            RepairError: the other region never sends it.
        """
        while True:
            try:
                await self._copy(source, self._staging, key)
                break
            except RefusedError as error:
                raise RepairError(f"{error}. Nothing has changed") from error
            except PeerError as error:
                self._obstacle = str(error)
            await asyncio.sleep(RETRY_SECONDS.value)
        found = self._staging.staged()
        assert found is not None
        return found[0]

    async def _reaches(self, vv: VersionVector) -> bool:
        """True if this region has applied exactly ``vv``; False: it has issued something beyond."""
        replica = self._region.replica
        while replica.vv != vv:
            if not covers(vv, replica.vv):
                return False
            self._obstacle = f"{self._region.repair.lacks} effects did not come by links"
            await asyncio.sleep(LOOK_SECONDS.value)
        return True

    async def _look(self, repairing: Repairing) -> None:
        while True:
            if not repairing.look(Turn().is_over):
                return
            await asyncio.sleep(0)

    # --- The last step ------------------------------------------------------------------------

    async def _replace(self, cut: StagedCut, repairing: Repairing) -> int:
        region = self._region
        region.repair.phase = RepairPhase.REPLACING
        # From here on in one turn of the loop, to the end of the tick.
        region.merge(repairing, self._now())
        seq = self._ticks.end_tick()
        region.bootstrap.note_repaired(seq, cut.source)
        logger.info("repair: the key is replaced", peer=cut.source, record=seq)
        self._failpoints.reach("repair.merged")
        await self._ticks.wait_logged(seq)
        self._failpoints.reach("repair.logged")
        region.checkpointing.want()
        return seq
