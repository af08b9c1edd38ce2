"""Branches: the regions of a world that belong together, by what each knows of the members.

Without ``--without-majority`` all regions belong together that are not removed.  With it two parts
may have gone on without each other; an operator keeps one of them, here the one with the most
regions.
"""

from collections.abc import Iterable

from crdtstream.core.membership.members import Members
from crdtstream.sim.simulated_node import SimNode


def members_of(node: SimNode) -> Members:
    """The newest members that a region knows."""
    return node.region.membership.known


def is_remaining(node: SimNode) -> bool:
    """True if a region is a member, as far as it knows itself."""
    return node.number in members_of(node).remaining


def is_active(node: SimNode) -> bool:
    """True if a region has a say, as far as it knows itself."""
    return node.number in members_of(node).active


def is_removed(node: SimNode) -> bool:
    """True if a region knows that it was removed."""
    return node.number in members_of(node).removed


def are_split(node: SimNode, other: SimNode) -> bool:
    """True if two regions went on without each other.

    One that lost its folder and was not ready since takes over what the other one knows.
    """
    if not (node.region.membership.members.is_kept and other.region.membership.members.is_kept):
        return False
    mine, its = members_of(node), members_of(other)
    common = min(mine.epoch, its.epoch)
    return mine.hash_at(common) != its.hash_at(common)


def is_apart(node: SimNode, other: SimNode) -> bool:
    """True if nothing can get from either region to the other any more."""
    return (
        other.number in members_of(node).removed
        or node.number in members_of(other).removed
        or are_split(node, other)
    )


def kept_of(nodes: Iterable[SimNode]) -> list[SimNode]:
    """Nodes of the part that is kept: they are up and count each other as members.

    Ascending; the newest members that one of them knows are ``newest_of`` them.
    """
    found: list[list[SimNode]] = []
    candidates = [node for node in nodes if node.is_up and is_remaining(node)]
    for top in candidates:
        members = members_of(top)
        part = [
            node
            for node in candidates
            if not are_split(node, top)
            and members_of(node).epoch <= members.epoch
            and node.number in members.remaining
        ]
        found.append(part)
    return max(found, key=lambda part: (_active_count(part), newest_of(part).epoch), default=[])


def _active_count(part: list[SimNode]) -> int:
    return sum(map(is_active, part))


def newest_of(nodes: Iterable[SimNode]) -> Members:
    """The newest members that one of several regions of one part knows."""
    known = (members_of(node) for node in nodes)
    return max(known, key=lambda members: members.epoch, default=Members())
