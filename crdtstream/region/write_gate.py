"""The write gate: all reasons for which clients' writes are refused, and the one that is told.

    disk ──────┐
    opening ───┤                          ┌─> database.fault: the error that writes get
    seal ──────┼─ refuse(cause, reason) ──┤
    repair ────┘                          └─> once none is left: keys that expired are deleted

A reason stays until the same cause says that there is none.
"""

from enum import IntEnum, auto
from typing import Final

from crdtstream.database.database import Database
from crdtstream.region.tick import Tick

# The reason in a word, where refusals are counted.
REFUSED_BY_DISK: Final = "disk"
REFUSED_AS_STALE: Final = "stale"


class Cause(IntEnum):
    """Causes of a refusal, the most important first: a client is told that one.

    Attributes:
        DISK: the log cannot be written.
        OPENING: this region may issue nothing yet, or not any more.
        SEAL: it is to be removed.
        REPAIR: a key is repaired.
    """

    DISK = auto()
    OPENING = auto()
    SEAL = auto()
    REPAIR = auto()


class WriteGate:
    """See the module's text.

    Attributes:
        fault: reason why the disk refuses; None while it does not.
        takes_again: writes are taken again, and time has not been passed since.
    """

    def __init__(self, database: Database, tick: Tick) -> None:
        self.fault: str | None = None
        self.takes_again = False
        self._database = database
        self._tick = tick
        self._reasons: dict[Cause, str] = {}

    def refuse(self, cause: Cause, reason: str | None) -> None:
        """Refuse writes because of this from now on; None: not because of it."""
        reasons = self._reasons
        if reasons.get(cause) == reason:
            return
        if reason is None:
            del reasons[cause]
        else:
            reasons[cause] = reason
        self.fault = reasons.get(Cause.DISK)
        database = self._database
        database.fault = reasons[min(reasons)] if reasons else None
        database.statistics.refused_because = (
            REFUSED_AS_STALE if self.fault is None else REFUSED_BY_DISK
        )
        if not reasons:
            # Keys that expired in the meantime are still to be deleted.
            self.takes_again = True
            self._tick.open()
