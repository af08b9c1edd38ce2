"""The mode of a group: who hands out new entries, and what one region hands over to the next.

Source: ``rules`` 13.
"""

from dataclasses import dataclass
from typing import Final

from crdtstream.core.effects import LaneHandover, Mode
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.ids import Region

# Who issued a mode that was never set.
NOBODY: Final = Region(0)


@dataclass(frozen=True, slots=True)
class ModeRegister:
    """Who hands out new entries, and which setting of it this is.

    Attributes:
        epoch, issuer: the highest epoch wins, then the lowest issuing region; 0 before any.
        home: the region that hands out, with Mode.HOME.
    """

    epoch: int = 0
    issuer: Region = NOBODY
    mode: Mode = Mode.AT_LEAST_ONCE
    home: Region | None = None

    def is_handed_out_by(self, region: Region, lane: Region) -> bool:
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


def handover_of(progress: LaneProgress) -> LaneHandover:
    """What the next to hand out a lane's entries must know of it."""
    return LaneHandover(
        run_from=min(progress.run_from, progress.last_delivered),
        last_delivered=progress.last_delivered,
        handed_out=tuple(progress.handed_out),
        ignore_until=progress.ignore_until,
        pending=tuple((entry_id, nack.delivery_count) for entry_id, nack in progress.pel.items()),
        entries_read=progress.entries_read,
    )
