"""What must always hold of the members, looked at after every step (I20, I21).

As all checks, it looks from outside: which changes were made, the regions' logs and votes say.
"""

from itertools import combinations

from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.changes import Change, Removal, Remove
from crdtstream.core.membership.members import Members, chain
from crdtstream.sim.branches import is_remaining, is_removed, members_of
from crdtstream.sim.node import SimNode
from crdtstream.sim.operators import Operators
from crdtstream.sim.violation import ViolationError
from crdtstream.sim.world import World


class MemberChecks:
    """Watches the members of one world."""

    def __init__(self, world: World, operators: Operators) -> None:
        self._world = world
        self._operators = operators
        # By the hash of the history that ends with it.
        self._changes: dict[bytes, Change] = {}
        # By number, of the history that ends with the change that gave it.
        self._given: dict[RegionId, bytes] = {}
        self._seen: dict[RegionId, tuple[object, ...]] = {}

    def note_effect(self, effect: ChangeMembers) -> None:
        """An effect on the members is in a log."""
        self._changes[chain(effect.previous, effect.change)] = effect.change

    def look(self) -> None:
        """Between two steps.

        Raises:
            ViolationError: an invariant does not hold.
        """
        seen = {node.number: _facts_of(node) for node in self._world.up()}
        if seen == self._seen:
            return
        self._seen = seen
        for node in self._world.up():
            part = node.region.membership.part
            if part.votes.decided is not None:
                self._changes[part.decided_members.hash] = part.votes.decided
        for node in self._world.up():
            self._look_at_numbers(members_of(node))
            _look_at_removed(node)
            _look_at_cuts(node)
        for node, other in combinations(self._world.up(), 2):
            self._compare(node, other)
        self._look_at_answers()

    def _look_at_numbers(self, members: Members) -> None:
        for one in members.regions:
            given = members.hash_at(one.added)
            if self._given.setdefault(one.region, given) != given:
                raise ViolationError(f"I20: number {one.region} is given twice: {members.listed()}")

    def _compare(self, node: SimNode, other: SimNode) -> None:
        mine, its = members_of(node), members_of(other)
        common = min(mine.epoch, its.epoch)
        if mine.hash_at(common) != its.hash_at(common):
            epoch = next(
                epoch for epoch in range(1, common + 1) if mine.hash_at(epoch) != its.hash_at(epoch)
            )
            changes = [self._changes.get(one.hash_at(epoch)) for one in (mine, its)]
            if not any(map(_is_alone, changes)):
                raise ViolationError(
                    f"I20: epoch {epoch} was decided twice, as {changes}: region {node.number} has"
                    f" {mine.listed()}, region {other.number} {its.listed()}"
                )
            return
        if is_remaining(node) and is_remaining(other):
            _compare_cuts(node, other)

    def _look_at_answers(self) -> None:
        """Who heard that a change was not made finds it nowhere; who heard that it was, there."""
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


def _look_at_removed(node: SimNode) -> None:
    if is_removed(node) and node.region.refuses_writes is None:
        raise ViolationError(f"I21: region {node.number} was removed, knows it, and takes writes")


def _look_at_cuts(node: SimNode) -> None:
    """I21: nothing of a removed region beyond its cut is in a member's state."""
    if not is_remaining(node):
        return
    for region, cut in node.region.membership.members.cuts.final.items():
        n = node.region.replica.vv.get(region, 0)
        if n != cut:
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
