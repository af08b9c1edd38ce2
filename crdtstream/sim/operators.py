"""Operators' changes of the members of a world: the commands of ``crdtstream crdb``.

Each is a wish of one region, whose outcome is reported later, or never if that region's process
dies.  A command that does not apply does nothing, as any other step of a history.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import (
    INSTANCE_BYTES,
    Add,
    Change,
    Contact,
    JoinToken,
    MembersError,
    Removal,
    Remove,
    Revoke,
    Update,
)
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import Members
from crdtstream.core.membership.revoked import serial_bytes
from crdtstream.region.members.wishes import UndecidedError
from crdtstream.sim.branches import is_active
from crdtstream.sim.simulated_node import Joins, SimNode
from crdtstream.sim.world import World, address_of

TOKEN_MS: Final = 1 << 40
DAY_SECONDS: Final = 86_400


@dataclass(slots=True, eq=False)
class Asked:
    """An operator's wish, of one process.

    Attributes:
        made: the members after it.
        refused: reason why it was not made, or why that is unknown.
    """

    coordinator: RegionId
    run_id: int
    made: Members | None = None
    refused: MembersError | None = None

    def note_made(self, members: Members) -> None:
        self.made = members

    def note_not_made(self, error: MembersError) -> None:
        self.refused = error

    @property
    def is_certainly_not_made(self) -> bool:
        return self.refused is not None and not isinstance(self.refused, UndecidedError)

    @property
    def is_told(self) -> bool:
        return self.made is not None or self.refused is not None


class Operators:
    """All operators of a world.

    Attributes:
        asked: wishes that wait for an outcome; one that was reported stays until it is looked at.
        secrets: of all tokens, each with the wish that it was made for.
        removals: number of attempts, per region, to remove it at the end.
        on_joined: called with the node of each region that joins.
    """

    def __init__(self, world: World) -> None:
        self.asked: list[Asked] = []
        self.secrets: dict[bytes, Asked] = {}
        self.removals: Counter[RegionId] = Counter()
        self.on_joined: Callable[[SimNode], None] = _nobody_looks
        self._world = world
        self._joined = 0

    def tokens(self) -> Iterator[tuple[bytes, Asked]]:
        """Hash of each token, and the wish that it was made for."""
        return ((sha256(secret).digest(), asked) for secret, asked in self.secrets.items())

    def waits(self, node: SimNode) -> bool:
        """True if an operator waits for an answer of this process."""
        return any(
            not one.is_told and (one.coordinator, one.run_id) == (node.number, node.run_id)
            for one in self.asked
        )

    def _wish(
        self, node: SimNode, make: Callable[[Members], Change], survivors: Iterable[RegionId] = ()
    ) -> Asked:
        asked = Asked(node.number, node.run_id)
        self.asked.append(asked)
        node.region.membership.wish(make, asked, node.clock, survivors=survivors)
        return asked

    # --- Commands -----------------------------------------------------------------------------

    def add(self, node: SimNode, draw: int) -> None:
        """``crdb add-instance``."""
        if not node.is_up:
            return
        secret = b"%d.%d" % (len(self.secrets), node.number)
        token = JoinToken(sha256(secret).digest(), Millis(node.clock + TOKEN_MS))

        def make(members: Members) -> Change:
            number = members.next_number(draw)
            return Add(number, _contact(number), token)

        self.secrets[secret] = self._wish(node, make)

    def join(self, via: SimNode) -> None:
        """``node --join``, with a token of a region that joins and has no node yet."""
        if not via.is_up or not via.region.replica.database_uid:
            return
        membership = via.region.membership
        for secret in self.secrets:
            self._joined += 1
            instance = (1 << 64 | self._joined).to_bytes(INSTANCE_BYTES, "big")
            members = membership.told
            joining = {one.token.sha256: one for one in members.regions if one.token is not None}
            member = joining.get(sha256(secret).digest())
            if member is None or member.region in self._world.nodes:
                continue
            with suppress(MembersError):
                region = membership.members.joining(secret, instance, via.clock)
                peers = {
                    one: membership.members.address_of(one) or address_of(one)
                    for one in members.active
                }
                kept = Kept(instance, members=members, secret=secret)
                joins = Joins(via.region.replica.database_uid, kept)
                self.on_joined(self._world.join(region, peers, joins, clock=via.clock))
                return

    def update(self, node: SimNode, region: RegionId) -> None:
        """Let a region have another address (``crdb update-instance``)."""
        if not node.is_up:
            return

        def make(members: Members) -> Change:
            member = members.find(region)
            if member is None:
                raise MembersError(f"there is no region {region}")
            address = member.contact.grpc or address_of(region)
            moves = int(address.rpartition(":")[2])
            return Update(region, _contact(region, moves=moves))

        self._wish(node, make)

    def revoke(self, node: SimNode, serial: int, days: int) -> None:
        """``certs revoke`` of a certificate that expires in some days, or did so before."""
        if not node.is_up:
            return
        at = node.clock // 1000
        change = Revoke(serial_bytes(serial), at + days * DAY_SECONDS, at)
        self._wish(node, lambda _members: change)

    def remove(
        self,
        node: SimNode,
        region: RegionId,
        *,
        heir_at: int = 0,
        survivors: Iterable[RegionId] = (),
    ) -> None:
        """``crdb remove-instance --force``.

        Args:
            heir_at: index of the heir among those that are left.
            survivors: with ``--without-majority``, the regions that are left.
        """
        if not node.is_up:
            return
        left = tuple(survivors)
        how = Removal.WITHOUT_MAJORITY if left else Removal.FORCED

        def make(members: Members) -> Change:
            heirs = [one for one in members.active if one != region]
            if not heirs:
                raise MembersError("nobody is left")
            return Remove(region, heirs[heir_at % len(heirs)], how)

        self._wish(node, make, left)

    def seal(self, node: SimNode, region: RegionId, *, heir_at: int = 0) -> None:
        """``crdb remove-instance`` of a region that runs, which asks repeatedly.

        One call asks the region once.  When it is sealed for the next epoch, its removal is wanted:
        for this epoch or not at all.
        """
        other = node.reach(region)
        membership = node.region.membership
        members, epoch = membership.part.members, membership.part.votes.epoch
        if not node.is_up or other is None or node.number == region or not is_active(node):
            return
        heirs = [one for one in members.active if one != region]
        if region not in members.active or not heirs:
            return
        heir = heirs[heir_at % len(heirs)]
        sealing = other.region.membership.sealing
        with suppress(MembersError):
            other.region.membership.seal(heir, epoch, other.clock)
        if sealing.kept is None or sealing.kept.epoch != epoch:
            return

        def make(members: Members) -> Change:
            if members.epoch + 1 != epoch:
                raise MembersError("another change was decided before")
            return Remove(region, heir, Removal.SEALED)

        self._wish(node, make)

    def unseal(self, node: SimNode) -> None:
        """Let the region take writes again after a timeout, if that is possible."""
        if node.is_up:
            with suppress(MembersError):
                node.region.membership.sealing.end()


def _contact(region: RegionId, *, moves: int = 0) -> Contact:
    return Contact(f"region-{region}", address_of(region, moves=moves))


def _nobody_looks(_node: SimNode) -> None:
    pass
