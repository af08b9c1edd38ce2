"""Invariants of the members, checked after every step (I20, I21).

Like all checks, it looks from outside: the regions' logs and votes show which changes were made.
"""

from collections import defaultdict
from itertools import combinations

from crdtstream.core.clock import MutableVersionVector, join
from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import Change, Removal, Remove
from crdtstream.core.membership.members import Members, chain
from crdtstream.sim.branches import are_split, is_apart, is_remaining, is_removed, members_of
from crdtstream.sim.operators import Operators
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.violation import ViolationError
from crdtstream.sim.world import World


class MemberChecks:
    """Watches the members of one world."""

    def __init__(self, world: World, operators: Operators) -> None:
        self._world = world
        self._operators = operators
        # Changes by the hash of the history that ends with each.
        self._changes: dict[bytes, Change] = {}
        # By number, the hash of the history that ends with the change that assigned it.
        self._given: dict[RegionId, bytes] = {}
        self._seen: dict[RegionId, tuple[object, ...]] = {}
        # By region, the effects that were durable in one of its folders.
        self._had: defaultdict[RegionId, MutableVersionVector] = defaultdict(dict)
        # Histories whose last change may have been decided by a part without a majority; and by
        # region, the epoch that it knew at the last look, and if it was told to go on alone.
        self._alone: set[bytes] = set()
        self._before: dict[RegionId, tuple[int, bool]] = {}

    def note_effect(self, effect: ChangeMembers) -> None:
        """Note an effect on the members in a log."""
        self._changes[chain(effect.previous, effect.change)] = effect.change

    def was_decided(self, change: Change) -> bool:
        """True if such a change was decided, for whatever epoch."""
        return change in self._changes.values()

    def look(self) -> None:
        """Check between two steps.

        Raises:
            ViolationError: an invariant does not hold.
        """
        for node in self._world.up():
            join(self._had[node.number], node.region.outstanding.durable_vv)
        seen = {node.number: _facts_of(node) for node in self._world.up()}
        if seen == self._seen:
            return
        self._seen = seen
        for node in self._world.up():
            part = node.region.membership.part
            if part.votes.decided is not None:
                self._changes[part.decided_members.hash] = part.votes.decided
        # Members that only a file names may be replaced by those that the others know.
        settled = [node for node in self._world.up() if node.region.membership.members.is_kept]
        for node in settled:
            self._note_alone(node)
            self._look_at_numbers(members_of(node))
        for node in self._world.up():
            _look_at_beginning(node)
            _look_at_removed(node)
            _look_at_cuts(node)
            self._look_at_seals(node)
        for node, other in combinations(settled, 2):
            self._compare(node, other)
        self._look_at_answers()

    def _note_alone(self, node: SimNode) -> None:
        """Note what a region decides while it is to go on without the others.

        The epoch before its removal may be open: it is closed alone, by what was accepted there.
        """
        membership, known = node.region.membership, members_of(node)
        epoch, was_told = self._before.get(node.number, (0, False))
        is_told = any(wish.survivors for wish in membership._wishes.pending)
        self._before[node.number] = known.epoch, is_told
        decided = [known.hash_at(one) for one in range(epoch + 1, known.epoch + 1)]
        if was_told or is_told or any(_is_alone(self._changes.get(one)) for one in decided):
            self._alone.update(decided)

    def _look_at_numbers(self, members: Members) -> None:
        for one in members.regions:
            given = members.hash_at(one.added)
            if self._given.setdefault(one.region, given) != given:
                raise ViolationError(f"I20: number {one.region} is given twice: {members.listed()}")

    def _look_at_seals(self, node: SimNode) -> None:
        """I21: all effects of a sealed region count.

        Except those that a member once had durably: the seal was right, and its folder was put back
        before it went on without those that have them still.
        """
        members = members_of(node)
        for region, cut in node.region.membership.members.cuts.final.items():
            member = members.find(region)
            if member is None:
                continue
            change = self._changes.get(members.hash_at(member.changed))
            if not isinstance(change, Remove) or change.how is not Removal.SEALED:
                continue
            sealed = self._world.nodes[region]
            # In another part of a split database it may have gone on, by another change.
            is_known = sealed.is_up and not are_split(node, sealed)
            issued = sealed.region.replica.issued if is_known else cut
            had = max(self._had[one].get(region, 0) for one in members.active)
            if issued > max(cut, had):
                raise ViolationError(
                    f"I21: region {region} was sealed and has issued {issued} effects, of which"
                    f" {cut} count in region {node.number}"
                )

    def _compare(self, node: SimNode, other: SimNode) -> None:
        mine, its = members_of(node), members_of(other)
        common = min(mine.epoch, its.epoch)
        if mine.hash_at(common) != its.hash_at(common):
            epoch = next(
                epoch for epoch in range(1, common + 1) if mine.hash_at(epoch) != its.hash_at(epoch)
            )
            hashes = [one.hash_at(epoch) for one in (mine, its)]
            changes = [self._changes.get(one) for one in hashes]
            if self._alone.isdisjoint(hashes) and not any(map(_is_alone, changes)):
                raise ViolationError(
                    f"I20: epoch {epoch} was decided twice, as {changes}: region {node.number} has"
                    f" {mine.listed()}, region {other.number} {its.listed()}"
                )
            return
        if mine.epoch == its.epoch and mine.revoked != its.revoked:
            raise ViolationError(
                f"I20: at epoch {mine.epoch} region {node.number} refuses {mine.revoked}, and"
                f" region {other.number} {its.revoked}"
            )
        if not is_apart(node, other):
            _compare_cuts(node, other)

    def _look_at_answers(self) -> None:
        """I20: a change that was reported as not made is found nowhere."""
        for secret_hash, asked in self._operators.tokens():
            if not asked.is_certainly_not_made:
                continue
            for node in self._world.up():
                for one in members_of(node).regions:
                    if one.token is not None and one.token.sha256 == secret_hash:
                        raise ViolationError(
                            f"I20: region {one.region} was added, and region {asked.coordinator}"
                            f" had told that it was not: {asked.refused}"
                        )


def _facts_of(node: SimNode) -> tuple[object, ...]:
    membership = node.region.membership
    return (
        node.run_id,
        membership.known.hash,
        membership.part.votes.decided,
        dict(membership.members.cuts.final),
        tuple(node.region.replica.vv.get(one, 0) for one in membership.members.cuts.final),
        node.region.refuses_writes is None,
        len(membership.members.cuts.leaving),
    )


def _is_alone(change: Change | None) -> bool:
    return isinstance(change, Remove) and change.how is Removal.WITHOUT_MAJORITY


def _look_at_beginning(node: SimNode) -> None:
    """I20: members that no folder keeps may be replaced; so a region that is ready has its folder
    keep them."""
    membership, is_ready = node.region.membership, not node.region.opening.readiness.is_recovering
    if is_ready and membership.share.is_whole and not membership.members.is_kept:
        raise ViolationError(f"I20: region {node.number} is ready, and its folder keeps no members")


def _look_at_removed(node: SimNode) -> None:
    if is_removed(node) and node.region.refuses_writes is None:
        raise ViolationError(f"I21: region {node.number} was removed, knows it, and takes writes")


def _look_at_cuts(node: SimNode) -> None:
    """I21: a member's state has nothing of a removed region beyond its cut."""
    if not is_remaining(node):
        return
    for region, cut in node.region.membership.members.cuts.final.items():
        n = node.region.replica.vv.get(region, 0)
        # A removed region hears its own cut before its folder has its removal.
        if n != cut and region != node.number:
            raise ViolationError(
                f"I21: region {node.number} has {n} effects of region {region}, whose cut is {cut}"
            )


def _compare_cuts(node: SimNode, other: SimNode) -> None:
    mine, its = (
        node.region.membership.members.cuts.final,
        other.region.membership.members.cuts.final,
    )
    for region in mine.keys() & its.keys():
        if mine[region] != its[region]:
            raise ViolationError(
                f"I21: the cut of region {region} is {mine[region]} in region {node.number} and"
                f" {its[region]} in region {other.number}"
            )
