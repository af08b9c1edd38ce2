"""Bounds of bootstraps: an operator limits the state that is sent to a region that lacks it."""

from dataclasses import dataclass
from typing import Final

BACKLOG_BYTES_DEFAULT: Final = 8 << 30


@dataclass(slots=True)
class BootstrapBounds:
    """Bounds of one region, as a sender.

    Attributes:
        bytes_per_s: how fast the state is sent to one region; 0: as fast as it can be.
        backlog_bytes_max: how much of the log is kept for a region that gets the state.
    """

    bytes_per_s: int = 0
    backlog_bytes_max: int = BACKLOG_BYTES_DEFAULT
