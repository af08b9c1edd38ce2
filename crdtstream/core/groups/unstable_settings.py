"""SetGroupModes that are not causally stable, as they were issued.

A group's mode register says which region delivers, and forgets the rest of what set it: what the
old home handed over, and whether it was taken by force.  A region that takes over another region's
state (``merge/``) has to do all that these effects would have done here:

    R1 hands the group over to R2, 120 pending; R2 has not heard of it
    R2 is rebuilt from R3's state, which says: home is R2
    Without the handover 120 would have no owner, and never be processed.

So every region keeps them, with the group that they were applied to, until no other region can lack
them.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.effects import SetGroupMode
from crdtstream.core.ids import RegionId


class Setting(NamedTuple):
    """A SetGroupMode, and what its issuer had observed."""

    effect: SetGroupMode
    context: VersionVector


class UnstableSettings:
    """Groups that have settings, in the order of each origin's dots."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: dict[RegionId, deque[tuple[int, bytes, bytes]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def note(self, dot: Dot, key: bytes, group: bytes) -> None:
        """A group has a setting with this dot from now on."""
        self.queues.setdefault(dot.region, deque()).append((dot.n, key, group))

    def forget_stable(
        self, stable: VersionVector, forget: Callable[[Dot, bytes, bytes], object]
    ) -> None:
        """Settings that the causally stable version vector covers are needed no more.

        Args:
            forget: called with each of them, and the key and the name of its group.
        """
        for region, queue in self.queues.items():
            n_stable = stable.get(region, 0)
            while queue and queue[0][0] <= n_stable:
                n, key, group = queue.popleft()
                assert not queue or queue[0][0] >= n, "they stand in the order of their dots"
                forget(Dot(region, n), key, group)

    def restore_order(self) -> None:
        """All settings of all groups were noted, in whatever order."""
        for region, queue in self.queues.items():
            self.queues[region] = deque(sorted(set(queue)))


def in_causal_order(settings: Iterable[tuple[Dot, Setting]]) -> list[tuple[Dot, Setting]]:
    """Each behind all that it had observed."""
    # What an effect had observed has a smaller context than the effect itself.
    return sorted(settings, key=lambda row: (sum(row[1].context.values()), row[0]))
