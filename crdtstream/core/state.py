"""The state of a region: everything that effects and local changes are applied to.

It is a pure function of what was applied (``applying``), in whichever order the effects of several
regions came: equal version vectors, equal digests (I1).  ``replica.py`` decides what is applied
when; nothing here issues an effect or knows of batches.
"""

from collections.abc import Iterable

from crdtstream.core.clock import MutableVersionVector, VersionVector
from crdtstream.core.effects import Numbered
from crdtstream.core.ids import ID_MIN, RegionId, StreamId
from crdtstream.core.issuing.grown_runs import GrownRuns
from crdtstream.core.keyspace.floors import Floors
from crdtstream.core.keyspace.keyspace import Keyspace
from crdtstream.core.keyspace.tombstones import Tombstones
from crdtstream.core.lanes.lane import NodeLimits
from crdtstream.core.producers.idempotency import IdempotencyRecords
from crdtstream.core.producers.numbered import NumberedRecords, Rows


class State:
    """See the module's text.

    Attributes:
        region: whose state it is.
        vv: what has been applied; one and the same dictionary for good.
        keys: streams, registers and deadlines.
        tombstones, idempotency, numbered: remembered until causally stable.
        floors: below which IDs this region must not append.
        grown_runs: groups of which there may be something to tell the other regions.
        acknowledged_count: pending entries acknowledged here since the process started.
    """

    __slots__ = (
        "_peers",
        "acknowledged_count",
        "floors",
        "grown_runs",
        "idempotency",
        "keys",
        "numbered",
        "region",
        "tombstones",
        "vv",
    )

    def __init__(
        self, region: RegionId, peers: Iterable[RegionId], node_limits: NodeLimits
    ) -> None:
        self.region = region
        self._peers = frozenset(peers)
        self.vv: MutableVersionVector = {}
        self.keys = Keyspace(region, node_limits)
        self.tombstones = Tombstones()
        self.floors = Floors()
        self.idempotency = IdempotencyRecords()
        self.numbered = NumberedRecords()
        self.grown_runs = GrownRuns()
        self.acknowledged_count = 0

    @property
    def is_alone(self) -> bool:
        """Whether this database has no other region, as far as is known here."""
        return not self._peers and self.vv.keys() <= {self.region}

    @property
    def issued(self) -> int:
        """How many effects of this region have been applied."""
        return self.vv.get(self.region, 0)

    def lane_end(self, key: bytes, origin: RegionId) -> StreamId:
        """The last ID of a lane, 0-0 if it is empty."""
        stream = self.keys.streams.get(key)
        lane = None if stream is None else stream.lanes.get(origin)
        return ID_MIN if lane is None else lane.last_id

    def floor_of(self, key: bytes) -> StreamId:
        """What this region appends to the key must be above this ID, and the last-generated one.

        0-0 but for a key that has expired, or is about to before the next write (``floors.py``).
        """
        floor = self.floors.of(key)
        if key in self.keys.due and not self.is_alone:
            stream = self.keys.streams.get(key)
            own = None if stream is None else stream.last_ids.get(self.region)
            floor = max(floor, ID_MIN if own is None else own.id)
        return floor

    def missing_rows(self, key: bytes, rows: Numbered, count: int) -> list[Rows]:
        """Which of ``count`` rows of a numbered producer were not appended yet, ascending.

        Raises:
            StaleBatchError: the batch is too old to tell.
        """
        if key in self.keys.due:
            # Its time is over: before anything is appended it goes, and what it recognised too.
            return [(rows.row, rows.row + count)]
        return self.numbered.missing(key, rows, count)

    # --- What is kept until it is causally stable -----------------------------------------------

    @property
    def idempotency_record_count(self) -> int:
        """Idempotent appends that are not causally stable yet, and runs of rows of numbered
        producers."""
        return len(self.idempotency) + len(self.numbered)

    @property
    def kept_until_stable(self) -> bool:
        """Whether ``forget_stable`` may find something to drop."""
        return bool(self.tombstones or self.floors or self.idempotency_record_count)

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop what is kept only for effects that can no longer arrive."""
        self.tombstones.forget_stable(stable)
        self.idempotency.forget_stable(stable)
        self.numbered.forget_stable(stable)
        for key in self.floors.stable_keys(stable):
            stream = self.keys.streams.get(key)
            if stream is None or not stream.groups:
                self.floors.forget(key)
