"""Changes of the members as effects: what was decided, issued by a region of a test."""

from collections.abc import Callable
from typing import Final

from crdtstream.core.effects import ChangeMembers
from crdtstream.core.member_changes import Change
from tests.harness.regions import Node
from tests.membership.world import founded, removal


def decide(node: Node, change: Change) -> ChangeMembers:
    """Issue what was decided behind the epoch that the region has."""
    members = node.replica.members
    effect = ChangeMembers(members.epoch + 1, members.hash, change)
    node.replica.issue(effect)
    node.end_tick()
    return effect


def members(count: int = 3) -> list[Node]:
    """Regions whose files name all of them."""
    first = founded(count)
    return [Node(region, members=first) for region in range(1, count + 1)]


def remove(node: Node, region: int, *, heir: int) -> None:
    """A removal that was decided reaches a region, which issues it."""
    decide(node, removal(region, heir=heir))


def save_and_restart(node: Node) -> None:
    """SAVE, then kill -9."""
    node.cut()
    node.checkpoints.finish(node.replica)
    node.restart()
    assert len(node.log) == node.checkpoints.records, "nothing is left to replay"


def replay(node: Node) -> None:
    """kill -9 before anything was saved."""
    node.end_tick()
    node.restart()


# How a region starts again.
RESTARTS: Final[dict[str, Callable[[Node], None]]] = {
    "by its log": replay,
    "by a checkpoint": save_and_restart,
}
