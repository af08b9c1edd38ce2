"""Changes of the members as effects: what was decided, issued by a region of a test."""

from collections.abc import Callable
from typing import Final

from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import Adopt, Adopted, Change
from tests.harness.regions import Node, sync
from tests.membership.world import contact, instance, removal

ADOPT: Final = Adopt(tuple(Adopted(RegionId(n), instance(n), contact(n)) for n in (1, 2, 3)))


def decide(node: Node, change: Change) -> ChangeMembers:
    """Issue what was decided behind the epoch that the region has."""
    members = node.replica.members
    effect = ChangeMembers(members.epoch + 1, members.hash, change)
    node.replica.issue(effect)
    node.end_tick()
    return effect


def adopt(*nodes: Node) -> None:
    """The regions are members, and all know it."""
    regions = sorted(node.region for node in nodes)
    adopted = [Adopted(RegionId(n), instance(n), contact(n)) for n in regions]
    decide(nodes[0], Adopt(tuple(adopted)))
    sync(*nodes)


def members(count: int = 3) -> list[Node]:
    """Regions that are members from the beginning."""
    nodes = [Node(region) for region in range(1, count + 1)]
    adopt(*nodes)
    return nodes


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
