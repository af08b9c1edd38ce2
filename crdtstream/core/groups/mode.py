"""The mode of a group: who hands out new entries.

Source: ``rules`` 13.
"""

from dataclasses import dataclass
from typing import Final

from crdtstream.core.effects import Mode
from crdtstream.core.ids import RegionId

# Who issued a mode that was never set.
NOBODY: Final = RegionId(0)


@dataclass(frozen=True, slots=True)
class ModeRegister:
    """Who hands out new entries, and which setting of it this is.

    Attributes:
        epoch, issuer: the highest epoch wins, then the lowest issuing region; 0 before any.
        home: the region that hands out, with Mode.HOME.
    """

    epoch: int = 0
    issuer: RegionId = NOBODY
    mode: Mode = Mode.AT_LEAST_ONCE
    home: RegionId | None = None

    def is_handed_out_by(self, region: RegionId, lane: RegionId) -> bool:
        """Whether ``region`` hands out the new entries of ``lane``."""
        match self.mode:
            case Mode.HOME:
                return region == self.home
            case Mode.PARTITIONED:
                return region == lane
            case _:
                return True

    def beats(self, other: "ModeRegister") -> bool:
        return (self.epoch, -self.issuer) > (other.epoch, -other.issuer)
