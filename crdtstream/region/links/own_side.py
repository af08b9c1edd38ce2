"""This region as its links see it: what they ask of it, and what they report to it."""

from collections.abc import Mapping

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.region.assembled import Assembled
from crdtstream.region.links.claims import Claims
from crdtstream.region.links.messages import Identity, Standing
from crdtstream.region.links.routes import Routes
from crdtstream.region.links.words import Words


class OwnSide:
    """Values that all links of one region share; those that are not named here are as of
    ``Region``.

    Attributes:
        identity: the name of this region for its peers.
        replication_lag: the effects of this region that no peer durably has.
        claims: what others can have of this region's effects.
        routes: the origins that each link is asked for.
    """

    def __init__(self, identity: Identity, made: Assembled) -> None:
        ground, storage = made.ground, made.storage
        part, others = made.participation, made.others
        self.identity = identity
        self.replica, self.database = ground.replica, ground.database
        self.tick, self.limits = ground.tick, ground.limits
        self.cold = made.client_side.cold
        self.outstanding, self.retention = storage.outstanding, storage.retention
        self.bootstrap, self.repair = storage.bootstrap, storage.repair
        self.membership, self.numbering = part.membership, part.numbering
        self.compared, self.opening, self.holding = part.compared, part.opening, part.holding
        self.knowledge, self.lags = others.knowledge, others.lags
        self.replication_lag, self.stability = others.staleness.lag, others.stability
        self.claims = Claims(ground.peers, storage.outstanding, part.opening)
        self.routes = Routes(
            ground.peers,
            part.peer_runs,
            ground.tick,
            now=ground.now,
            relay_after_ms=ground.limits.inbox_wait_ms_max,
        )

    def learn_others(
        self, others: Mapping[RegionId, VersionVector], words: Words, *, by: RegionId
    ) -> None:
        """Learn what third regions durably have, as ``by`` reports it; ignore what they cannot
        have.

        Args:
            words: those of the call by which it reports that.
        """
        for region, said_vv in others.items():
            vv = words.counting(region, said_vv)
            # A region's own word is no gossip: it is checked where the region sends it itself.
            if region != by and vv is not None and self.claims.is_possible(vv):
                self.stability.learn(region, vv, by=by)

    def standing(self) -> Standing:
        opening = self.opening
        return Standing(opening.database, opening.is_asking, opening.is_recovering)
