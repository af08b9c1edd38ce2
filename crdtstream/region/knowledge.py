"""What this region knows of the others: what they durably have, and what is stable by that.

What a region says while it recovers (``links/readiness.py``) is true, and counts for WAIT and for
cutting the log.  It does not count for causal stability, here or by gossip elsewhere:

    R1 issues 1:7, which R3 alone gets, and loses it.
    R1 recovers, gets 2:4 and says that it has {1:6, 2:4}; so does R3.  All have 2:4 - yet 1:7,
    which did not observe 2:4, is still to come to R1 and R2.
"""

from collections.abc import Iterable, Mapping

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join
from crdtstream.core.ids import RegionId
from crdtstream.core.stability import StabilityTracker


class Knowledge:
    """The durable version vectors of other regions, from acks, heartbeats and gossip."""

    def __init__(self, region: RegionId, peers: Iterable[RegionId]) -> None:
        self._region = region
        self._vvs: dict[RegionId, VersionVector] = {}
        self._counted: dict[RegionId, VersionVector] = {}
        self._stability = StabilityTracker(region, peers)

    @property
    def vvs(self) -> Mapping[RegionId, VersionVector]:
        """Per region the durable version vector that it was last heard to have."""
        return self._vvs

    @property
    def counted(self) -> Mapping[RegionId, VersionVector]:
        """The same, but for what was said by regions that recovered.

        A version vector in here never changes: one that grows is another object.
        """
        return self._counted

    def of(self, region: RegionId) -> VersionVector:
        return self._vvs.get(region, {})

    def learn(self, region: RegionId, durable_vv: VersionVector, *, regains: bool = False) -> bool:
        """A region's durable version vector; returns whether that is news.

        Args:
            regains: the region says that it recovers.
        """
        if region == self._region:
            return False
        is_news = _grow(self._vvs, region, durable_vv)
        if not regains and _grow(self._counted, region, durable_vv):
            self._stability.learn(region, self._counted[region])
            is_news = True
        return is_news

    def stable(self, own_durable_vv: VersionVector) -> VersionVector:
        """Up to where effects are causally stable here (``rules`` 3)."""
        return self._stability.stable(own_durable_vv)

    def count_with(self, region: RegionId, n: int) -> int:
        """How many other regions durably have ``n`` effects of a region."""
        return sum(vv.get(region, 0) >= n for vv in self._vvs.values())


def _grow(vvs: dict[RegionId, VersionVector], region: RegionId, durable_vv: VersionVector) -> bool:
    """Add what a region says to what it said before; returns whether that is more."""
    known = vvs.get(region)
    if known is not None and covers(known, durable_vv):
        return False
    grown: MutableVersionVector = dict(known or {})
    join(grown, durable_vv)
    vvs[region] = grown
    return True
