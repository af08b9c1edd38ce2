"""Spread of the effect of a change of the members: which regions are known to have it."""

from typing import Protocol

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members
from crdtstream.region.ground import Ground
from crdtstream.region.members.known_members import KnownMembers
from crdtstream.region.outstanding import Durable
from crdtstream.region.readiness import Recovery


class Spread(Protocol):
    """See the module's text."""

    def has_stable_members(self, members: Members) -> bool:
        """True if the last effect of these members is causally stable; not while it recovers."""

    def lacking_members(self, members: Members) -> list[RegionId]:
        """Regions that are not known to have it durably."""


class KnownSpread:
    """The spread by what the other regions have said."""

    def __init__(
        self, ground: Ground, members: KnownMembers, durable: Durable, recovery: Recovery
    ) -> None:
        self._peers, self._knowledge = ground.peers, ground.knowledge
        self._members = members
        self._durable = durable
        self._recovery = recovery

    def has_stable_members(self, members: Members) -> bool:
        if members.epoch == 1:
            # No effect reports what all files name.
            return True
        dot = members.history[-1].dot
        if dot is None or self._recovery.is_recovering or not self._members.have_all_applied:
            return False
        stable = self._knowledge.stable(self._durable.durable_vv)
        return stable.get(dot.region, 0) >= dot.n

    def lacking_members(self, members: Members) -> list[RegionId]:
        dot = members.history[-1].dot
        if dot is None:
            return []
        others = sorted(self._peers.counting - {dot.region})
        return [one for one in others if self._knowledge.of(one).get(dot.region, 0) < dot.n]
