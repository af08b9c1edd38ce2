"""A repair of one key: what a region does not do during it; without any IO.

    hold ─────────────> aim at V ─────────────> level at V ───> replace, or nothing ───> end
      nothing is          what peers sent         nothing is
      applied             up to V is applied      applied

The key comes as another region has it at a version vector V that covers this region's.  It is
compared, and replaced, when this region has applied V and nothing beyond (``merge/repairing.py``).
So it issues nothing from the beginning to the end: writes are refused, keys do not expire.  Reads
go on.

``engine/repairer.py`` copies and replaces, and reports the outcome here.
"""

from enum import StrEnum

from crdtstream.core.clock import VersionVector, missing
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.region.bootstrap import Bootstrap, CopyProgress
from crdtstream.region.tick import Tick
from crdtstream.region.write_gate import Cause, WriteGate


class RepairPhase(StrEnum):
    """Phase of a repair; ``crdb repair`` prints these words."""

    IDLE = "idle"
    COPYING = "copying"
    CATCHING_UP = "catching up"
    COMPARING = "comparing"
    REPLACING = "replacing"


class Repair:
    """The repair that is under way, if one is.

    Attributes:
        phase: see the module's text.
        key: its key; empty while idle.
        source: the region whose state it is to be.
    """

    def __init__(self, replica: Replica, tick: Tick, gate: WriteGate, bootstrap: Bootstrap) -> None:
        """
        Args:
            bootstrap: its staging is lent to a repair.
        """
        self.phase = RepairPhase.IDLE
        self.key = b""
        self.source = replica.region
        self._replica = replica
        self._tick = tick
        self._gate = gate
        self._bootstrap = bootstrap
        self._upto: VersionVector = {}

    def hold(self, key: bytes, source: RegionId) -> None:
        """Apply nothing and take no writes from now on."""
        assert self.phase is RepairPhase.IDLE
        self.phase, self.key, self.source = RepairPhase.COPYING, key, source
        self._bootstrap.is_lent = True
        self._bootstrap.progress = CopyProgress(self._tick)
        self._gate.refuse(Cause.REPAIR, self.obstacle)

    def aim(self, upto: VersionVector) -> None:
        """Apply what is missing up to a version vector, and nothing beyond."""
        self.phase, self._upto = RepairPhase.CATCHING_UP, dict(upto)
        self._apply_again()

    def hold_again(self) -> None:
        """Apply nothing, until another aim is known."""
        self.phase = RepairPhase.COPYING

    def end(self) -> None:
        """End the repair: all goes on."""
        self.phase, self.key, self._upto = RepairPhase.IDLE, b"", {}
        self.source = self._replica.region
        self._bootstrap.is_lent = False
        self._gate.refuse(Cause.REPAIR, None)
        self._apply_again()

    def _apply_again(self) -> None:
        self._tick.may_apply = True
        self._tick.open()

    @property
    def is_idle(self) -> bool:
        return self.phase is RepairPhase.IDLE

    @property
    def holds_links(self) -> bool:
        """True if nothing that peers send is applied."""
        return self.phase not in (RepairPhase.IDLE, RepairPhase.CATCHING_UP)

    def is_beyond(self, batch: EffectBatch) -> bool:
        """True if a batch has to wait until the end."""
        if self.phase is not RepairPhase.CATCHING_UP:
            return False
        return batch.last_n > self._upto.get(batch.origin, 0)

    @property
    def lacks(self) -> int:
        """Number of effects to be applied before the two can be compared."""
        return missing(self._replica.vv, self._upto)

    @property
    def obstacle(self) -> str | None:
        """Reason why clients' writes are refused; None: not because of a repair."""
        if self.is_idle:
            return None
        # Without the key's name: that may be anything, and this is an error of a client.
        return (
            f"region {self._replica.region} takes no writes while a key is compared with that of"
            f" region {self.source}, and perhaps replaced (`crdtstream crdb repair`); try again in"
            " a moment, or write in another region"
        )
