"""This region as its links see it: what they ask of it, and what they tell it."""

from collections.abc import Callable
from dataclasses import dataclass

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.channels import Channels
from crdtstream.region.freshness import Lags
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity, Standing
from crdtstream.region.links.routes import Routes
from crdtstream.region.opening import Opening
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.tick import Tick


@dataclass(slots=True, eq=False)
class OwnSide:
    """What all links of one region share.

    Attributes:
        lags: how far this region is behind its peers.
        learn: takes a region's durable version vector, as a peer told it.
        arrived: something was put into an inbox.
    """

    identity: Identity
    replica: Replica
    channels: Channels
    outstanding: Outstanding
    knowledge: Knowledge
    lags: Lags
    replication_lag: ReplicationLag
    opening: Opening
    routes: Routes
    tick: Tick
    limits: RegionLimits
    learn: Callable[[RegionId, VersionVector], None]
    arrived: Callable[[], None]

    def standing(self) -> Standing:
        return Standing(self.opening.database, self.opening.is_asking)
