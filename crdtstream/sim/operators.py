"""What operators do to the members of a world: the commands of ``crdtstream crdb``.

Each is a wish of one region, whose outcome is told later, or never if that region's process dies.
Whatever does not apply does nothing, as any other step of a history.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.changes import (
    INSTANCE_BYTES,
    Add,
    Adopt,
    Adopted,
    Change,
    Contact,
    JoinToken,
    MembersError,
    Removal,
    Remove,
    Update,
)
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import Members
from crdtstream.region.wishes import UndecidedError
from crdtstream.sim.branches import members_of
from crdtstream.sim.node import Joins, SimNode
from crdtstream.sim.world import World, address_of

TOKEN_MS: Final = 1 << 40


@dataclass(slots=True, eq=False)
class Asked:
    """An operator's wish, of one process.

    Attributes:
        made: the members behind it.
        refused: why it was not made, or why nobody knows.
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
        asked: what they wait to hear; what was told stays until it is looked at.
        secrets: of all tokens, with the wish that each was made for.
        on_joined: called with the node of each region that joins.
    """

    def __init__(self, world: World) -> None:
        self.asked: list[Asked] = []
        self.secrets: dict[bytes, Asked] = {}
        self.on_joined: Callable[[SimNode], None] = _nobody_looks
        self._world = world
        self._joined = 0

    def tokens(self) -> Iterator[tuple[bytes, Asked]]:
        """The hash of each token, and the wish that it was made for."""
        return ((sha256(secret).digest(), asked) for secret, asked in self.secrets.items())

    def waits(self, node: SimNode) -> bool:
        """Whether somebody waits for an answer of this process."""
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

    def adopt(self, node: SimNode, *, absent: RegionId | None = None) -> None:
        """``crdb adopt``, if all but a dead region answer.

        The first call has their folders keep their uids; a later one finds these.
        """
        if not node.is_up or members_of(node).epoch:
            return
        named = {node.number: node}
        for peer in node.configured:
            if peer != absent:
                other = node.reach(peer)
                if other is None:
                    return
                named[peer] = other
        for one in named.values():
            one.region.membership.want_kept()
        if not all(one.region.membership.is_kept for one in named.values()):
            return
        instances = {number: one.region.membership.instance for number, one in named.items()}
        if absent is not None:
            # No folder has it.
            instances[absent] = bytes(INSTANCE_BYTES)
        adopted = Adopt(
            tuple(
                Adopted(number, instance, _contact(number))
                for number, instance in sorted(instances.items())
            )
        )
        voters = [number for number, one in named.items() if one.region.membership.part.may_vote]
        self._wish(node, lambda _members: adopted, [] if absent is None else sorted(voters))

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
                    one.region: one.contact.grpc
                    for one in members.regions
                    if one.region in members.active
                }
                kept = Kept(instance, members=members, secret=secret)
                joins = Joins(via.region.replica.database_uid, kept)
                self.on_joined(self._world.join(region, peers, joins, clock=via.clock))
                return

    def update(self, node: SimNode, region: RegionId) -> None:
        """``crdb update-instance``: a region is somewhere else."""
        if not node.is_up:
            return

        def make(members: Members) -> Change:
            member = members.find(region)
            if member is None:
                raise MembersError(f"there is no region {region}")
            moves = int(member.contact.grpc.rpartition(":")[2])
            return Update(region, _contact(region, moves=moves))

        self._wish(node, make)

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
            heir_at: which of those that are left inherits.
            survivors: with ``--without-majority``, who is left.
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


def _contact(region: RegionId, *, moves: int = 0) -> Contact:
    return Contact(f"region-{region}", address_of(region, moves=moves))


def _nobody_looks(_node: SimNode) -> None:
    pass
