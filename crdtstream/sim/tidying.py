"""The operators' last acts: who is gone for good is removed, and who was to join comes.

After it the part that is kept (``branches.py``) is a database that is well.
"""

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
from crdtstream.sim.node import SimNode
from crdtstream.sim.operators import Operators
from crdtstream.sim.world import World


def tidy(world: World, operators: Operators) -> None:
    """Let an operator do the next thing that is to be done, if nobody waits for an earlier one."""
    kept = kept_of(world.up())
    voting = [node for node in kept if is_active(node) and node.region.membership.part.may_vote]
    if not voting or any(operators.waits(node) for node in kept):
        return
    # If one cannot, another one may.
    node = voting[world.steady_ms // 400 % len(voting)]
    members = members_of(node)
    gone = _gone(world, kept, newest_of(kept))
    if not members.epoch:
        dead = sorted(world.dead & set(node.configured))
        if dead:
            operators.adopt(node, absent=dead[0])
        return
    for region in gone:
        member = members.find(region)
        if member is None or member.status is Status.REMOVED:
            continue
        left = sorted(one.number for one in kept if one.number in members.active)
        needs = len(members.active) // 2 + 1
        if len(left) >= needs:
            operators.remove(node, region)
        else:
            operators.remove(node, region, survivors=left)
        return
    operators.join(node)


def _gone(world: World, kept: list[SimNode], members: Members) -> list[RegionId]:
    """The members that will not come back: dead, or of another part."""
    here = {node.number for node in kept}
    return [one for one in members.remaining if one not in here and one in world.nodes]


def is_tidy(world: World, operators: Operators) -> bool:
    """Whether there is nothing left to do, and all agree on who is a member."""
    kept = kept_of(world.up())
    newest = newest_of(kept)
    return (
        not any(operators.waits(node) for node in kept)
        and (newest.epoch > 0 or not world.dead)
        and all(_agrees(node, newest) for node in kept)
        and (not newest.epoch or sorted(node.number for node in kept) == list(newest.active))
        and all(
            is_removed(node)
            for node in world.up()
            if node not in kept and not _is_apart(node, kept)
        )
    )


def _agrees(node: SimNode, newest: Members) -> bool:
    """Whether a region knows the newest members, by their effects, with all cuts."""
    known, applied = members_of(node), node.region.replica.members
    return (
        known.hash == applied.hash == newest.hash
        and not node.region.membership.members.cuts.leaving
        and node.region.membership.part.votes.epoch == newest.epoch + 1
    )


def _is_apart(node: SimNode, kept: list[SimNode]) -> bool:
    """Whether it went on without those that are kept, and links between them are refused."""
    return any(are_split(node, other) for other in kept)


def are_beyond_help(world: World) -> bool:
    """Whether a removal is decided, and nobody who is left may issue its effect."""
    kept = kept_of(world.up())
    newest = newest_of(kept)
    is_waiting = bool(kept) and all(node.region.opening.is_recovering for node in kept)
    is_decided = any(node.region.replica.members.epoch < newest.epoch for node in kept)
    return is_waiting and is_decided and bool(_gone(world, kept, newest))


def shown(node: SimNode) -> str:
    """How a region stands, for who reads why the end never came."""
    membership = node.region.membership
    votes = membership.part.votes
    return (
        f"{membership.known.listed()}, applied {node.region.replica.members.epoch}, vv"
        f" {dict(node.region.replica.vv)}, votes {votes.epoch} decided {votes.decided},"
        f" leaving {sorted(membership.members.cuts.leaving)}, cuts {membership.members.cuts.final}"
        f" {node.region.bootstrap.phase} {node.region.bootstrap.failure}"
    )
