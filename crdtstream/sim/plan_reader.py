"""A program that reads by plans (I14), as Spark does from one micro-batch to the next."""

from collections import deque
from typing import Final

from crdtstream.core.clock import VersionVector, covers, meet
from crdtstream.core.effects import Append
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId
from crdtstream.core.lanes.bulk_reading import dot_numbers
from crdtstream.core.lanes.slices import Within
from crdtstream.core.replica import Replica
from crdtstream.query import planning
from crdtstream.sim.model import loses
from crdtstream.sim.records import Records
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.streams import READ_KEY
from crdtstream.sim.violation import ViolationError

# Entries of one range of a plan.
PLAN_ENTRIES: Final = 2


class PlanReader:
    """A program that goes on where its last plan ended, in whatever region."""

    def __init__(self, records: Records) -> None:
        self._records = records
        # Its position.
        self._planned_vv: VersionVector = {}

    def note_lost(self, held: VersionVector) -> None:
        """Go back to ``held``: all that was read was durable, unless a folder was put back."""
        self._planned_vv = meet([self._planned_vv, held])

    def read(self, node: SimNode) -> None:
        """Continue to read READ_KEY, in any region: each entry comes once.

        A region that is behind the program's position refuses it.
        """
        if node.number in self._records.apart:
            return
        reused = self._records.reused
        while reused:
            origin, first_n = reused.popitem()
            self._planned_vv = _clamped(self._planned_vv, origin, first_n - 1)
        replica, upto = node.region.replica, dict(node.region.outstanding.durable_vv)
        for removed, cut in node.region.membership.members.cuts.final.items():
            # Its reads beyond the cut are lost, and it goes on.
            self._planned_vv = _clamped(self._planned_vv, removed, cut)
        if not covers(upto, self._planned_vv):
            return
        bounds = planning.Bounds([READ_KEY], self._planned_vv, upto, frozenset())
        counts: list[planning.LaneCount] = []
        ranges: list[planning.Range] = []
        for steps in (
            planning.count(replica, bounds, counts),
            planning.cut(counts, bounds, range_entries=PLAN_ENTRIES, into=ranges),
        ):
            deque(steps, maxlen=0)
        found = sorted(dot for each in ranges for dot in _dots_in(replica, each))
        appended = [
            one
            for (origin, n), one in self._records.issued.items()
            if isinstance(one.effect, Append)
            and one.effect.key == READ_KEY
            and n <= replica.vv.get(origin, 0)
        ]
        expected = sorted(
            (one.origin, one.n)
            for one in appended
            if self._planned_vv.get(one.origin, 0) < one.n <= upto.get(one.origin, 0)
            # Of a row that was salvaged into two regions, one stays.
            and not loses(one, appended)
        )
        if found != expected:
            raise ViolationError(
                f"I14: a plan of region {node.number} from {self._planned_vv} to {upto} has "
                f"{found} instead of {expected}"
            )
        self._planned_vv = upto


def _clamped(vv: VersionVector, region: RegionId, n: int) -> VersionVector:
    return {**vv, region: min(vv.get(region, 0), n)} if vv.get(region, 0) > n else vv


def _dots_in(replica: Replica, part: planning.Range) -> list[tuple[RegionId, int]]:
    """Entries of one range of a plan, as a scan reads them."""
    stream = replica.keys.held_stream(part.key)
    lane = None if stream is None else stream.lanes.get(part.origin)
    if lane is None:
        return []
    within = Within(part.above_n, part.upto_n, ID_MIN, ID_MAX)
    return [(part.origin, n) for n in dot_numbers(lane, within)]
