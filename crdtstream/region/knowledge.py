"""Knowledge of the other regions: what they durably have, and what is stable by that.

What a region says while it recovers (``readiness.py``) is true, and counts for WAIT and for
cutting the log.  It does not count for causal stability, here or by gossip elsewhere:

    R1 issues 1:7, which R3 alone gets, and loses it.
    R1 recovers, gets 2:4 and says that it has {1:6, 2:4}; so does R3.  All have 2:4 - yet 1:7,
    which did not observe 2:4, is still to come to R1 and R2.
"""

from collections.abc import Mapping

from crdtstream.core.clock import MutableVersionVector, VersionVector, capped, covers, join
from crdtstream.core.ids import RegionId
from crdtstream.core.stability import StabilityTracker
from crdtstream.region.peers import Peers, PeersChange


class Knowledge:
    """The durable version vectors of other regions, from acks, heartbeats and gossip."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._vvs: dict[RegionId, VersionVector] = {}
        self._counted: dict[RegionId, VersionVector] = {}
        self._stability = StabilityTracker(peers.here, ())
        self._stability.count(peers.counting, has=peers.has)

    def follow_peers(self, change: PeersChange) -> None:
        for region in change.gone:
            self._vvs.pop(region, None)
            self._counted.pop(region, None)
        self._stability.count(self._peers.counting, has=self._peers.has)
        for region in change.added:
            # Others reported it before this region knew that it is a peer.
            self._stability.learn(region, self._counted.get(region, {}))

    @property
    def vvs(self) -> Mapping[RegionId, VersionVector]:
        """Durable version vector of each region, as last heard."""
        return self._vvs

    def others_have(self) -> dict[RegionId, int]:
        """Number of effects of this region that each other active region durably has."""
        return {one: self.of(one).get(self._peers.here, 0) for one in self._peers.active}

    @property
    def counted(self) -> Mapping[RegionId, VersionVector]:
        """The same, except what was said by regions that recovered.

        A version vector in here never changes: one that grows is another object.
        """
        return self._counted

    def of(self, region: RegionId) -> VersionVector:
        return self._vvs.get(region, {})

    def learn(self, region: RegionId, durable_vv: VersionVector, *, regains: bool = False) -> bool:
        """Note a region's durable version vector; return True if that is news.

        Args:
            regains: the region says that it recovers.
        """
        if region == self._peers.here or self._peers.is_gone(region):
            return False
        is_news = _grow(self._vvs, region, durable_vv)
        if not regains and _grow(self._counted, region, durable_vv):
            self._stability.learn(region, self._counted[region])
            is_news = True
        return is_news

    def note_ends(self, ends: Mapping[RegionId, int]) -> None:
        """Note that effects beyond these ends do not count any more; their numbers are used again.

        What such a region said before, it said in an earlier incarnation; it says it again.
        """
        for vvs in (self._vvs, self._counted):
            for region in ends:
                vvs.pop(region, None)
            for region, vv in vvs.items():
                vvs[region] = capped(vv, ends)
        self._stability.note_ends(ends)

    def stable(self, own_durable_vv: VersionVector) -> VersionVector:
        """Version vector of what is causally stable here (``rules`` 3)."""
        return self._stability.stable(own_durable_vv)

    def count_with(self, region: RegionId, n: int) -> int:
        """Number of active peers that durably have ``n`` effects of a region."""
        active = self._peers.active
        return sum(peer in active and vv.get(region, 0) >= n for peer, vv in self._vvs.items())


def _grow(vvs: dict[RegionId, VersionVector], region: RegionId, durable_vv: VersionVector) -> bool:
    """Add what a region says to what it said before; return True if that is more."""
    known = vvs.get(region)
    if known is not None and covers(known, durable_vv):
        return False
    grown: MutableVersionVector = dict(known or {})
    join(grown, durable_vv)
    vvs[region] = grown
    return True
