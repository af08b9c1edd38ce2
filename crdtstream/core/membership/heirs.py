"""Acting regions: a region itself or, once it was removed, the one that inherited from it.

Some things only one region does: it deletes the keys whose deadline it set, and delivers the
entries of a group whose home it is, or of its own lane.  A removed region's heir does them, and the
heir's heir once that was removed as well (``rules`` 4).

This is asked often: the callers share one object, which is changed with the members.
"""

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members


class Heirs:
    """See the module's text; one and the same object of a replica for good."""

    __slots__ = ("_by_removed",)

    def __init__(self) -> None:
        self._by_removed: dict[RegionId, RegionId] = {}

    def acting_for(self, region: RegionId) -> RegionId:
        """The region that does what only this region would do."""
        return self._by_removed.get(region, region)

    def follow(self, members: Members) -> frozenset[RegionId]:
        """The members have changed.

        Returns:
            The removed regions for which another region acts than before.
        """
        found = {region: members.heir_of(region) for region in members.removed}
        by_removed = {region: heir for region, heir in found.items() if heir is not None}
        assert all(heir not in found for heir in by_removed.values()), "a removed region acts"
        before = {region: self.acting_for(region) for region in by_removed}
        self._by_removed = by_removed
        return frozenset(region for region, heir in by_removed.items() if before[region] != heir)
