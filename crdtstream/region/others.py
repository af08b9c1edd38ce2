"""Other regions: what they are known to have, and what follows from it.

Knowledge    what each durably has  ──> WAIT, WAITAOF
Lags         how far this region is behind each
Staleness    what would be lost with this region, and the bounds of that
Stability    what all of them have: what was kept for others only is dropped
"""

from crdtstream.region.client_side import ClientSide
from crdtstream.region.freshness import Lags
from crdtstream.region.ground import Ground
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.participation import Participation
from crdtstream.region.peers import PeersChange
from crdtstream.region.stability import Stability
from crdtstream.region.staleness import Staleness
from crdtstream.region.storage import Storage
from crdtstream.region.wait import Wait


class Others:
    """See the module's text; the attributes are as of ``Region``."""

    def __init__(
        self, ground: Ground, front: ClientSide, storage: Storage, participation: Participation
    ) -> None:
        replica, database, peers = ground.replica, ground.database, ground.peers
        tick, now, clients = ground.tick, ground.now, front.clients
        self.knowledge = ground.knowledge
        interval_ms = ground.limits.heartbeat_interval_ms
        self.lags = Lags(peers, replica, heartbeat_interval_ms=interval_ms)
        lag = ReplicationLag(replica, peers, now=now)
        self.staleness = Staleness(replica, lag, tick, database, clients, ground.deadlines, now=now)
        database.register(Wait(database, storage.outstanding, self.knowledge).commands())
        self.stability = Stability(
            replica,
            tick,
            clients,
            knowledge=self.knowledge,
            retention=storage.retention,
            outstanding=storage.outstanding,
            membership=participation.membership,
            recovery=participation.readiness,
        )

    def follow_peers(self, change: PeersChange) -> None:
        """Have the parts follow that keep something for a peer."""
        self.knowledge.follow_peers(change)
        self.lags.follow_peers(change)
        self.staleness.lag.follow_peers(change)
