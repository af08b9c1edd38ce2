"""Floors: an origin must not append to a key that has expired below these IDs.

Expiry removes the last-ID registers that it had observed, so the key may begin again at lower IDs,
as in Redis.  Unlike a user's delete it spares groups that it had not observed.  Such a group may
have read, and acknowledged to all regions, everything up to the old last ID of a lane:

    R1 makes g, reads R2's 100 and acknowledges it      (0, 100] of lane 2
    R2 lets the key expire, and appends 5               no region would ever deliver it

So the lane's region goes on above its old last ID.  That ends when the expiry is causally stable
and no group is left, or when a user deletes the key, which ends all groups.  A delete that had not
observed the expiry is not enough: a group made behind the delete may have read the lane before the
expiry came.

    R3 deletes x, unaware of R1's 100
    R2 applies both, makes g, reads 100 and acknowledges it      (0, 100] of lane 1
    R1 lets x expire, hears of the delete, and appends 5         no region would ever deliver it

Every region keeps the floors of all origins: one that lost its folder gets its own floors with the
state of another region.

    R1's x has 100-1, acknowledged at R2; x expires; R1's folder is lost, and R1 is rebuilt from R2
    R1 appends 5                                         without a floor none would deliver it

Always so: of two expiries that raised an origin's floor the later had observed the earlier, as it
took an entry that was appended behind it.  So a delete that covers all of them covers the latest,
and one that does not leaves the highest floor.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers, join
from crdtstream.core.ids import ID_MIN, RegionId, StreamId


class Floor(NamedTuple):
    """One origin's floor in one key.

    Attributes:
        last_id: the origin's next ID in the key must be above this one.
        expiries: by issuer the last ExpireKey that raised it.
    """

    last_id: StreamId
    expiries: MutableVersionVector


NO_FLOORS: Final[Mapping[RegionId, Floor]] = {}


class Floors:
    """The floors of all origins, by key, and which of them are of this region's own lanes.

    Attributes:
        by_key: by origin, of each key that has one.
    """

    __slots__ = ("_here", "_own", "by_key")

    def __init__(self, here: RegionId) -> None:
        self._here = here
        self.by_key: dict[bytes, dict[RegionId, Floor]] = {}
        self._own: dict[bytes, StreamId] = {}

    def __len__(self) -> int:
        """Number of keys that have a floor."""
        return len(self.by_key)

    def __contains__(self, key: bytes) -> bool:
        return key in self.by_key

    def keys(self) -> Collection[bytes]:
        """The keys in which this region's own lane has one."""
        return self._own.keys()

    def of(self, key: bytes) -> StreamId:
        """This region's next ID must be above this one; 0-0 where any will do."""
        return self._own.get(key, ID_MIN)

    def raise_to(self, key: bytes, origin: RegionId, last_id: StreamId, expiry: Dot) -> None:
        """An ExpireKey took an origin's last ID of the key."""
        self.unite(key, origin, Floor(last_id, {expiry.region: expiry.n}))

    def unite(self, key: bytes, origin: RegionId, floor: Floor) -> None:
        """The higher ID counts, until neither is needed any more."""
        floors = self.by_key.setdefault(key, {})
        before = floors.get(origin)
        expiries = dict(floor.expiries)
        last_id = floor.last_id
        if before is not None:
            join(expiries, before.expiries)
            last_id = max(last_id, before.last_id)
        floors[origin] = Floor(last_id, expiries)
        if origin == self._here:
            assert last_id >= self._own.get(key, ID_MIN), "a floor only rises"
            self._own[key] = last_id
        assert len(self._own) <= len(self.by_key)

    def forget(self, key: bytes) -> None:
        """No group can be left that has read the key's lanes."""
        del self.by_key[key]
        self._own.pop(key, None)

    def forget_covered_by(self, key: bytes, context: VersionVector) -> None:
        """A user deleted the key: forget floors if the delete had observed all their expiries."""
        floors = self.by_key.get(key)
        if floors is None:
            return
        for origin, floor in list(floors.items()):
            if covers(context, floor.expiries):
                del floors[origin]
        if self._here not in floors:
            self._own.pop(key, None)
        if not floors:
            del self.by_key[key]
        assert len(self._own) <= len(self.by_key)

    def facts_of(self, key: bytes) -> Mapping[RegionId, Floor]:
        """Floors of the key, by origin."""
        return self.by_key.get(key, NO_FLOORS)

    def restore(self, key: bytes, origin: RegionId, floor: Floor) -> None:
        """Put back what ``facts_of`` returned."""
        self.unite(key, origin, floor)

    def stable_keys(self, stable: VersionVector) -> list[bytes]:
        """Keys all of whose expiries are causally stable."""
        return [
            key
            for key, floors in self.by_key.items()
            if all(covers(stable, floor.expiries) for floor in floors.values())
        ]
