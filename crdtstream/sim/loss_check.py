"""I15: a bound on lag bounds how many entries the loss of a region takes with it."""

from typing import Final

from crdtstream.core.effects import Append
from crdtstream.core.ids import RegionId
from crdtstream.sim.records import Records
from crdtstream.sim.streams import HOME_KEY, READ_KEY, ROWS_KEY
from crdtstream.sim.violation import ViolationError

# Entries of these are appended by XADD and programs only.
APPENDED_TO: Final = (READ_KEY, HOME_KEY, ROWS_KEY)


class LossCheck:
    """Check of one world.

    Args:
        bound: number of entries in no other region beyond which a region refuses more; None: it
            never does.
    """

    def __init__(self, records: Records, bound: int | None) -> None:
        self._records = records
        self._bound = bound
        # Per region the number of its effects that were durable in another one at some time.
        self._elsewhere: dict[RegionId, int] = {}
        # State of the disks at the last look.
        self._weighed: list[tuple[int, int]] = []

    def note_lost(self) -> None:
        """Look again, also if the disks hold as much as before."""
        self._weighed.clear()

    def look(self) -> None:
        """Weigh what the loss of each disk would take.

        A peer's disk that is lost as well is a second loss: what it had still counts as elsewhere.
        """
        bound, logged = self._bound, self._records.logged
        weighed = [(one.count, one.synced) for one in logged.values()]
        if bound is None or weighed == self._weighed:
            return
        self._weighed = weighed
        numbers = logged.keys()
        for number in numbers:
            known = [logged[other].synced_vv.get(number, 0) for other in numbers - {number}]
            elsewhere = max(*known, self._elsewhere.get(number, 0))
            self._elsewhere[number] = elsewhere
            lost = [
                n
                for (origin, n), one in self._records.issued.items()
                if origin == number
                and elsewhere < n <= self._records.doubted.get(number, n)
                and isinstance(one.effect, Append)
                and one.effect.key in APPENDED_TO
            ]
            if len(lost) > bound:
                raise ViolationError(
                    f"I15: region {number} would take {len(lost)} entries with it, and writes are "
                    f"refused beyond {bound}"
                )
