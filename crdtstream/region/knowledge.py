"""What this region knows of the others: what they durably have, and what is stable by that."""

from collections.abc import Iterable, Mapping

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join
from crdtstream.core.ids import RegionId
from crdtstream.core.stability import StabilityTracker


class Knowledge:
    """The durable version vectors of other regions, from acks, heartbeats and gossip."""

    def __init__(self, region: RegionId, peers: Iterable[RegionId]) -> None:
        self._region = region
        self._vvs: dict[RegionId, VersionVector] = {}
        self._stability = StabilityTracker(region, peers)

    @property
    def vvs(self) -> Mapping[RegionId, VersionVector]:
        """Per region the durable version vector that it was last heard to have."""
        return self._vvs

    def of(self, region: RegionId) -> VersionVector:
        return self._vvs.get(region, {})

    def learn(self, region: RegionId, durable_vv: VersionVector) -> bool:
        """A region's durable version vector; returns whether that is news."""
        known = self._vvs.get(region)
        if region == self._region or (known is not None and covers(known, durable_vv)):
            return False
        grown: MutableVersionVector = dict(known or {})
        join(grown, durable_vv)
        self._vvs[region] = grown
        self._stability.learn(region, grown)
        return True

    def stable(self, own_durable_vv: VersionVector) -> VersionVector:
        """Up to where effects are causally stable here (``rules`` 3)."""
        return self._stability.stable(own_durable_vv)

    def count_with(self, region: RegionId, n: int) -> int:
        """How many other regions durably have ``n`` effects of a region."""
        return sum(vv.get(region, 0) >= n for vv in self._vvs.values())
