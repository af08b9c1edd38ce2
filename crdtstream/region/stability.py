"""Stability in one region: what others durably have is learned, and need not be kept for them.

    acks, heartbeats, gossip ── learn ──> knowledge, retention ──┬──> WAIT is answered
                                                                 └──> stable: tombstones and floors
                                                                      that only what could still
                                                                      arrive needs are dropped

Source: ``rules`` 3.
"""

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members
from crdtstream.core.replica import Replica
from crdtstream.region.client_table import ClientTable
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.members.membership import Membership
from crdtstream.region.outstanding import Durable
from crdtstream.region.peers import Peers
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
        peers: Peers,
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
        self._peers = peers
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
            and self._counts_all_members
        ):
            self._replica.forget_stable(self._knowledge.stable(self._outstanding.durable_vv))

    @property
    def _counts_all_members(self) -> bool:
        """True if the peers are those of the newest members that are applied here."""
        return self._membership.known.epoch >= self._replica.members.epoch

    # --- The effect of a change of the members ------------------------------------------------

    def has_stable_members(self, members: Members) -> bool:
        """True if the last effect of these members is causally stable; not while it recovers."""
        if members.epoch == 1:
            # No effect reports what all files name.
            return True
        dot = members.history[-1].dot
        if dot is None or self._recovery.is_recovering or not self._counts_all_members:
            return False
        stable = self._knowledge.stable(self._outstanding.durable_vv)
        return stable.get(dot.region, 0) >= dot.n

    def lacking_members(self, members: Members) -> list[RegionId]:
        """Regions that are not known to have it durably."""
        dot = members.history[-1].dot
        if dot is None:
            return []
        others = sorted(self._peers.counting - {dot.region})
        return [one for one in others if self._knowledge.of(one).get(dot.region, 0) < dot.n]

    @property
    def has_members_everywhere(self) -> bool:
        """True if all regions that count are known to have the last epoch's effect durably."""
        applied = self._membership.part.members
        return applied.epoch == self._membership.known.epoch and self.has_stable_members(applied)
