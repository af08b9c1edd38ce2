"""Below which IDs this region must not append to a key that has expired.

Expiry takes the last-ID registers that it had observed, so the key may begin again at lower IDs, as
in Redis.  Unlike a user's delete it spares groups that it had not observed.  Such a group may have
read, and told to be acknowledged, everything up to the old last ID of a lane:

    R1 makes g, reads R2's 100 and acknowledges it      (0, 100] of lane 2
    R2 lets the key expire, and appends 5               nobody would ever hand it out

So the region whose lane it is goes on above its old last ID.  That ends when the expiry is causally
stable and no group is left, or when a user deletes the key, which ends all groups.  A delete that
had not observed the expiry is not enough: a group made behind the delete may have read the lane
before the expiry came.

    R3 deletes x, unaware of R1's 100
    R2 applies both, makes g, reads 100 and acknowledges it      (0, 100] of lane 1
    R1 lets x expire, hears of the delete, and appends 5         nobody would ever hand it out

Always so: of two expiries that raised a floor the later had observed the earlier, as it took an
entry that was appended behind it.  So a delete that covers all of them covers the latest, and one
that does not leaves the highest floor.
"""

from collections.abc import Collection

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers
from crdtstream.core.ids import ID_MIN, StreamId


class Floors:
    """The floors of one region's own lanes, by key; local, and the same after a replay."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[bytes, tuple[StreamId, MutableVersionVector]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def keys(self) -> Collection[bytes]:
        """The keys that have one."""
        return self._by_key.keys()

    def of(self, key: bytes) -> StreamId:
        """The next ID must be above this one; 0-0 where any will do."""
        found = self._by_key.get(key)
        return ID_MIN if found is None else found[0]

    def raise_to(self, key: bytes, last_id: StreamId, expiry: Dot) -> None:
        """An ExpireKey took this region's last ID of the key."""
        before, dots = self._by_key.get(key, (ID_MIN, {}))
        dots[expiry.region] = max(expiry.n, dots.get(expiry.region, 0))
        self._by_key[key] = max(before, last_id), dots

    def forget(self, key: bytes) -> None:
        """No group can be left that has read the key's lanes."""
        del self._by_key[key]

    def forget_covered_by(self, key: bytes, context: VersionVector) -> None:
        """A user deleted the key: forget the floor if the delete had observed its expiries."""
        found = self._by_key.get(key)
        if found is not None and covers(context, found[1]):
            self.forget(key)

    def facts_of(self, key: bytes) -> tuple[StreamId, VersionVector] | None:
        """The floor and the expiries that it is for."""
        return self._by_key.get(key)

    def restore(self, key: bytes, floor: StreamId, expiries: VersionVector) -> None:
        """Put back what ``facts_of`` told."""
        self._by_key[key] = floor, dict(expiries)

    def stable_keys(self, stable: VersionVector) -> list[bytes]:
        """Keys all of whose expiries are causally stable."""
        return [key for key, (_, dots) in self._by_key.items() if covers(stable, dots)]
