"""This region as its links see it: what they ask of it, and what they tell it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.channels import Channels
from crdtstream.region.bootstrap import Bootstrap
from crdtstream.region.freshness import Lags
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.claims import Claims
from crdtstream.region.links.messages import Identity, Standing
from crdtstream.region.links.routes import Routes
from crdtstream.region.membership import Membership
from crdtstream.region.opening import Opening
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.retention import Retention
from crdtstream.region.tick import Tick


class Learn(Protocol):
    """Takes a region's durable version vector."""

    def __call__(
        self,
        region: RegionId,
        durable_vv: VersionVector,
        *,
        by: RegionId,
        regains: bool = False,
    ) -> None:
        """``by`` tells it: the region itself, or another one.

        Args:
            regains: the region says that it recovers.
        """


@dataclass(slots=True, eq=False)
class OwnSide:
    """What all links of one region share.

    Attributes:
        lags: how far this region is behind its peers.
        retention: what the log has for whom.
        bootstrap: the state of another region that this one takes over.
        membership: who is a member.
        claims: what others can have of this region's effects.
        learn: takes a region's durable version vector, as a peer told it of itself or of others.
        arrived: something was put into an inbox.
        is_awaited: whether somebody waits to hear what peers have.
        holds_links: whether nothing is applied for a while, so that nothing more is read.
        is_held: whether a batch, which is ready, has to wait for entries that are read from disk.
    """

    identity: Identity
    replica: Replica
    channels: Channels
    outstanding: Outstanding
    knowledge: Knowledge
    lags: Lags
    replication_lag: ReplicationLag
    opening: Opening
    membership: Membership
    retention: Retention
    claims: Claims
    bootstrap: Bootstrap
    routes: Routes
    tick: Tick
    limits: RegionLimits
    learn: Learn
    arrived: Callable[[], None]
    is_awaited: Callable[[], bool]
    holds_links: Callable[[], bool]
    is_held: Callable[[EffectBatch, Millis], bool]

    def learn_others(self, others: Mapping[RegionId, VersionVector], *, by: RegionId) -> None:
        """``by`` says what third regions durably have; what they cannot have is passed over."""
        for region, vv in others.items():
            # A region's own word is no gossip: it is checked where it says so itself.
            if region != by and self.claims.is_possible(vv):
                self.learn(region, vv, by=by)

    def standing(self) -> Standing:
        opening = self.opening
        return Standing(opening.database, opening.is_asking, opening.is_recovering)
