"""Participation: a region's part in its database, and whether it may issue and apply effects now.

    Membership   who is a member, and this region's say in it       ┐
    Numbering    which folder numbers the effects of each region    ├─> Opening: may it issue?
    Compared     whether peers have the effects that are here       │   Holding: may it apply?
    CatchingUp   how far it was behind as it started                ┘

These parts need each other, so they are made in one place.
"""

from collections.abc import Mapping

from crdtstream.core.ids import RegionId
from crdtstream.region.catching_up import CatchingUp
from crdtstream.region.client_side import ClientSide
from crdtstream.region.ground import Ground
from crdtstream.region.histories import Compared
from crdtstream.region.holding import Holding
from crdtstream.region.members.membership import Levels, Membership
from crdtstream.region.numbering import Numbering
from crdtstream.region.opening import FolderState, Opening
from crdtstream.region.peer_runs import PeerRuns
from crdtstream.region.peers import PeersChange
from crdtstream.region.readiness import Readiness
from crdtstream.region.storage import Storage


class Participation:
    """See the module's text.

    Attributes:
        readiness: what recovering peers and this region have told each other.
        peer_runs: peers whose effects are held, as they recover.
        membership, numbering, compared, holding, opening: its parts; see above.
    """

    def __init__(
        self,
        ground: Ground,
        front: ClientSide,
        storage: Storage,
        *,
        region: Levels,
        folder: FolderState,
        configured: Mapping[RegionId, str],
        run_id: int,
    ) -> None:
        """A region that starts; the arguments are as of ``Region``, and its parts."""
        replica, peers, runtime = ground.replica, ground.peers, ground.runtime
        tick, deadlines, now = ground.tick, ground.deadlines, ground.now
        self.peer_runs = PeerRuns(tick)
        self.readiness = Readiness(
            peers,
            database=folder.database,
            is_proven=folder.is_proven,
            has_effects=bool(replica.vv),
            make_uid=runtime.make_uid,
        )
        self.membership = Membership(
            ground,
            kept=folder.membership,
            instance=runtime.make_uid(),
            votes_are_proven=folder.is_proven or folder.is_same,
            configured=configured,
            region=region,
            front=front,
            outstanding=storage.outstanding,
            recovery=self.readiness,
        )
        self.numbering = Numbering(
            replica,
            tick,
            peers,
            deadlines,
            kept=folder.incarnations,
            run_id=run_id,
            make_folder=runtime.make_uid,
            recovery=self.readiness,
            now=now,
        )
        self.compared = Compared(replica, tick)
        self.holding = Holding(
            checkpointing=storage.checkpointing,
            memory=storage.memory,
            bootstrap=storage.bootstrap,
            repair=storage.repair,
            numbering=self.numbering,
            membership=self.membership,
            readiness=self.readiness,
        )
        self._catching_up = CatchingUp(
            peers,
            replica,
            self.peer_runs,
            deadlines,
            now=now,
            holding=self.holding,
            answer_ms_max=ground.limits.catch_up_answer_ms_max,
            stall_ms_max=ground.limits.catch_up_stall_ms_max,
        )
        self.opening = Opening(
            replica,
            storage.outstanding,
            tick,
            front.gate,
            self.readiness,
            stored=folder.database,
            numbering=self.numbering,
            membership=self.membership,
            compared=self.compared,
            peer_runs=self.peer_runs,
            catching_up=self._catching_up,
        )

    def follow_peers(self, change: PeersChange) -> None:
        """Have the parts follow that keep something for a peer."""
        self.readiness.follow_peers(change)
        self.numbering.follow_peers(change)
        self.compared.follow_peers(change)
        self._catching_up.follow_peers(change)
