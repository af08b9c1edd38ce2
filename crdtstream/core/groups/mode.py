"""The mode of a group: the region that delivers new entries.

Source: ``rules`` 13.
"""

from dataclasses import dataclass
from typing import Final

from crdtstream.core.effects import Mode
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.heirs import Heirs

# Issuer of a mode that was never set.
NOBODY: Final = RegionId(0)


@dataclass(frozen=True, slots=True)
class ModeRegister:
    """Setting of the region that delivers new entries.

    Attributes:
        epoch, issuer: the highest epoch wins, then the lowest issuing region; 0 before any.
        home: with Mode.HOME the region that was named to deliver; once it is removed, its heir
            delivers.
    """

    epoch: int = 0
    issuer: RegionId = NOBODY
    mode: Mode = Mode.AT_LEAST_ONCE
    home: RegionId | None = None

    def named(self, lane: RegionId) -> RegionId | None:
        """The region that is to deliver the lane's new entries; None: each for itself."""
        match self.mode:
            case Mode.HOME:
                return self.home
            case Mode.PARTITIONED:
                return lane
            case _:
                return None

    def acting(self, lane: RegionId, heirs: Heirs) -> RegionId | None:
        """The region that delivers the lane's new entries: the one named, or its heir."""
        named = self.named(lane)
        return None if named is None else heirs.acting_for(named)

    def beats(self, other: "ModeRegister") -> bool:
        return (self.epoch, -self.issuer) > (other.epoch, -other.issuer)
