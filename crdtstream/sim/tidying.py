"""The operators' last acts: regions that are gone for good are removed, and awaited ones join.

After them the part that is kept (``branches.py``) is a database that is well.
"""

from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Members, Status
from crdtstream.sim.branches import (
    are_split,
    is_active,
    is_removed,
    kept_of,
    members_of,
    newest_of,
)
from crdtstream.sim.operators import Operators
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.world import World

# Number of times that a removal is tried by a majority, if one is left.
REMOVALS_MAX: Final = 10


def tidy(world: World, operators: Operators) -> None:
    """Let an operator do the next thing, if no operator waits for an earlier one."""
    kept = kept_of(world.up())
    active = [node for node in kept if is_active(node)]
    voting = [node for node in active if node.region.membership.part.may_vote]
    if not voting and len(active) == 1:
        # The last one left goes on alone, though its folder may lack votes.
        voting = active
    if any(operators.waits(node) for node in kept):
        return
    if not voting:
        # Folders that lost votes wait for all members, one that is to join among them.
        if active:
            operators.join(active[0])
        return
    # If one region cannot, another one may.
    node = voting[world.steady_ms // 400 % len(voting)]
    members = members_of(node)
    gone = _gone(world, kept, newest_of(kept))
    for region in gone:
        member = members.find(region)
        if member is None or member.status is Status.REMOVED:
            continue
        left = sorted(one.number for one in voting if one.number in members.active)
        needs = len(members.active) // 2 + 1
        # A region that recovers may lack the epoch before, and wait for this removal to get it:
        # after some time an operator does what the refusal says.
        well = [one for one in left if not world.nodes[one].region.opening.is_recovering]
        operators.removals[region] += 1
        if len(well) < needs <= len(left) and operators.removals[region] > REMOVALS_MAX:
            if node.number in well:
                operators.remove(node, region, survivors=well)
            elif left == [node.number]:
                # It is the only member that is left, and goes on alone.
                operators.remove(node, region, survivors=left)
        elif len(left) >= needs:
            operators.remove(node, region)
        else:
            operators.remove(node, region, survivors=left)
        return
    # A sealed region that recovers may wait for one that was to join, and votes only then.
    operators.join(node)
    # A region that was sealed for a removal stays so until that, or another change, is decided.
    sealed = [
        one.number for one in kept if one.region.membership.sealing.is_final and one is not node
    ]
    if sealed:
        operators.seal(node, sealed[0])


def _gone(world: World, kept: list[SimNode], members: Members) -> list[RegionId]:
    """Members that will not return: dead, or of another part."""
    here = {node.number for node in kept}
    return [one for one in members.remaining if one not in here and one in world.nodes]


def is_tidy(world: World, operators: Operators) -> bool:
    """True if nothing is left to do, and all agree on the members."""
    kept = kept_of(world.up())
    newest = newest_of(kept)
    return (
        not any(operators.waits(node) for node in kept)
        and all(_agrees(node, newest) for node in kept)
        and sorted(node.number for node in kept) == list(newest.active)
        and all(
            is_removed(node)
            for node in world.up()
            if node not in kept and not _is_apart(node, kept)
        )
    )


def _agrees(node: SimNode, newest: Members) -> bool:
    """True if a region knows the newest members, by their effects, with all cuts."""
    known, applied = members_of(node), node.region.replica.members
    return (
        known.hash == applied.hash == newest.hash
        and not node.region.membership.members.cuts.leaving
        and node.region.membership.part.votes.pending_from == newest.epoch + 1
    )


def _is_apart(node: SimNode, kept: list[SimNode]) -> bool:
    """True if it went on without those that are kept, and links between them are refused."""
    return any(are_split(node, other) for other in kept)


def shown(node: SimNode) -> str:
    """State of a region, for a reader who looks for the reason why the end never came."""
    membership = node.region.membership
    votes = membership.part.votes
    return (
        f"{membership.known.listed()}, applied {node.region.replica.members.epoch}, vv"
        f" {dict(node.region.replica.vv)}, votes {votes.epoch} decided {votes.decided},"
        f" leaving {sorted(membership.members.cuts.leaving)}, cuts {membership.members.cuts.final}"
        f" {node.region.bootstrap.phase} {node.region.bootstrap.failure}"
    )
