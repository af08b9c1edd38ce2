"""This region as its links see it: what they ask of it, and what they report to it."""

from collections.abc import Mapping
from dataclasses import dataclass

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.region.bootstrap import Bootstrap
from crdtstream.region.cold_reads import ColdReads
from crdtstream.region.freshness import Lags
from crdtstream.region.histories import Compared
from crdtstream.region.holding import Holding
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.claims import Claims
from crdtstream.region.links.messages import Identity, Standing
from crdtstream.region.links.routes import Routes
from crdtstream.region.links.words import Words
from crdtstream.region.members.membership import Membership
from crdtstream.region.numbering import Numbering
from crdtstream.region.opening import Opening
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.repair import Repair
from crdtstream.region.retention import Retention
from crdtstream.region.stability import Stability
from crdtstream.region.tick import Tick


@dataclass(slots=True, eq=False)
class OwnSide:
    """Values that all links of one region share.

    Attributes:
        lags: how far this region is behind its peers.
        retention: the records of the log that are kept for members.
        bootstrap: the state of another region that this one takes over.
        membership: the members.
        numbering: the incarnations of this region and of others.
        compared: whether peers have the effects that are here.
        claims: what others can have of this region's effects.
        stability: takes in what peers report to have durably.
        holding: whether nothing is applied for a time, so that nothing more is read.
        repair: whether a batch has to wait until the repair of a key ends.
        cold: reads entries that a batch needs.
    """

    identity: Identity
    replica: Replica
    database: Database
    outstanding: Outstanding
    knowledge: Knowledge
    lags: Lags
    replication_lag: ReplicationLag
    opening: Opening
    membership: Membership
    numbering: Numbering
    compared: Compared
    retention: Retention
    claims: Claims
    bootstrap: Bootstrap
    routes: Routes
    tick: Tick
    limits: RegionLimits
    stability: Stability
    holding: Holding
    repair: Repair
    cold: ColdReads

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
