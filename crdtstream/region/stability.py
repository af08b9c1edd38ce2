"""Stability in one region: what others durably have is learned, and need not be kept for them.

    acks, heartbeats, gossip ── learn ──> knowledge, retention ──┬──> WAIT is answered
                                                                 └──> stable: tombstones and floors
                                                                      that only what could still
                                                                      arrive needs are dropped

Source: ``rules`` 3.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.region.client_table import ClientTable
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.members.membership import Membership
from crdtstream.region.outstanding import Durable
from crdtstream.region.readiness import Recovery
from crdtstream.region.retention import Retention
from crdtstream.region.tick import Tick


class Stability:
    """See the module's text."""

    def __init__(
        self,
        replica: Replica,
        tick: Tick,
        clients: ClientTable,
        *,
        knowledge: Knowledge,
        retention: Retention,
        outstanding: Durable,
        membership: Membership,
        recovery: Recovery,
    ) -> None:
        self._replica = replica
        self._tick = tick
        self._clients = clients
        self._knowledge = knowledge
        self._retention = retention
        self._outstanding = outstanding
        self._membership = membership
        self._recovery = recovery

    def learn(
        self,
        region: RegionId,
        durable_vv: VersionVector,
        *,
        by: RegionId | None = None,
        regains: bool = False,
    ) -> None:
        """Take in a region's durable version vector, from its ack or heartbeat or by gossip.

        Args:
            by: the region that says so; None: the region itself.
            regains: the region says that it recovers.
        """
        if by in (None, region):
            self._retention.note_durable(region, durable_vv)
        else:
            self._retention.note_told(region, durable_vv)
        if self._knowledge.learn(region, durable_vv, regains=regains):
            self.forget_stable()
            self._clients.settle_acks(self._replica.keys.now)
            self._tick.open()

    def forget_stable(self) -> None:
        """Drop what is kept only for effects that can no longer arrive.

        While this region recovers, effects of its own that it lost can still arrive: they are
        concurrent to all that it has heard since.  And a region counts from where its add is
        applied on: until the folder has that, its word is not used.
        """
        if (
            self._replica.kept_until_stable
            and not self._recovery.is_recovering
            and self._membership.members.have_all_applied
        ):
            self._replica.forget_stable(self._knowledge.stable(self._outstanding.durable_vv))
