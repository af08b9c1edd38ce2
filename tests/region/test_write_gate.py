"""The write gate: several reasons for refusing writes, which come and go by themselves."""

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.region.tick import Tick
from crdtstream.region.write_gate import REFUSED_AS_STALE, REFUSED_BY_DISK, Cause, WriteGate


class Gate:
    """A gate, and what it tells the database."""

    def __init__(self) -> None:
        self.database = Database(Replica(RegionId(1)))
        self.tick = Tick()
        self.gate = WriteGate(self.database, self.tick)


def test_of_several_reasons_the_first_cause_is_told() -> None:
    one = Gate()
    told = []
    for cause in reversed(Cause):
        one.gate.refuse(cause, cause.name)
        told.append(one.database.fault)
    assert told == ["REPAIR", "SEAL", "OPENING", "DISK"]


def test_writes_are_taken_again_when_no_reason_is_left() -> None:
    one = Gate()
    one.gate.refuse(Cause.SEAL, "it is to be removed")
    one.gate.refuse(Cause.OPENING, "it lacks effects")
    one.gate.refuse(Cause.OPENING, None)
    assert (one.database.fault, one.gate.takes_again) == ("it is to be removed", False)
    one.tick.close()
    one.gate.refuse(Cause.SEAL, None)
    assert (one.database.fault, one.gate.takes_again) == (None, True)
    assert one.tick.is_open, "keys that expired in the meantime are deleted"


@pytest.mark.parametrize(
    ("cause", "told"), [(Cause.DISK, REFUSED_BY_DISK), (Cause.SEAL, REFUSED_AS_STALE)]
)
def test_refusals_are_counted_by_the_disk_or_by_the_state(cause: Cause, told: str) -> None:
    one = Gate()
    one.gate.refuse(cause, "a reason")
    assert one.database.statistics.refused_because == told
    assert one.gate.fault == ("a reason" if cause is Cause.DISK else None)
