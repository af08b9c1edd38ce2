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

from crdtstream.core.clock import Versioned, VersionVector, missing
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import RegionId


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

    def __init__(self, applied: Versioned, here: RegionId) -> None:
        """
        Args:
            applied: what is applied here.
            here: this region.
        """
        self.phase = RepairPhase.IDLE
        self.key = b""
        self.source = here
        self._applied = applied
        self._here = here
        self._upto: VersionVector = {}

    def hold(self, key: bytes, source: RegionId) -> None:
        """Apply nothing and issue nothing from now on."""
        assert self.phase is RepairPhase.IDLE
        self.phase, self.key, self.source = RepairPhase.COPYING, key, source

    def aim(self, upto: VersionVector) -> None:
        """Apply what is missing up to a version vector, and nothing beyond."""
        self.phase, self._upto = RepairPhase.CATCHING_UP, dict(upto)

    def hold_again(self) -> None:
        """Apply nothing, until another aim is known."""
        self.phase = RepairPhase.COPYING

    def end(self) -> None:
        """End the repair: all goes on."""
        self.phase, self.key, self.source, self._upto = RepairPhase.IDLE, b"", self._here, {}

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
        return missing(self._applied.vv, self._upto)

    @property
    def obstacle(self) -> str | None:
        """Reason why clients' writes are refused; None: not because of a repair."""
        if self.is_idle:
            return None
        # Without the key's name: that may be anything, and this is an error of a client.
        return (
            f"region {self._here} takes no writes while a key is compared with that of region"
            f" {self.source}, and perhaps replaced (`crdtstream crdb repair`); try again in a"
            " moment, or write in another region"
        )
