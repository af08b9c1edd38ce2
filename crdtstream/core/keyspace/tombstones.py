"""What delete-wins must remember: destroys that a create may not have observed.

A tombstone is the dot of a DestroyGroup (of one group) or of a DeleteKey (of every group of its
key).  Per name only the greatest dot of each origin is kept: a create's context that covers it
covers the smaller ones too.  A tombstone goes once it is causally stable, because then no create
can arrive that had not observed it.
"""

from collections import deque

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers
from crdtstream.core.ids import RegionId


class Tombstones:
    """Tombstones by key, and by group of a key (group None: the key itself)."""

    __slots__ = ("_by_name", "_queues")

    def __init__(self) -> None:
        self._by_name: dict[tuple[bytes, bytes | None], MutableVersionVector] = {}
        # In the order of each origin's dots, so that forgetting costs what is forgotten.
        self._queues: dict[RegionId, deque[tuple[int, bytes, bytes | None]]] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def add(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        self._by_name.setdefault((key, group), {})[dot.region] = dot.n
        self._queues.setdefault(dot.region, deque()).append((dot.n, key, group))

    def observed_by(self, context: VersionVector, key: bytes, group: bytes | None = None) -> bool:
        """Whether an effect with this context had observed every destroy of the key and group."""
        return all(
            covers(context, self._by_name.get(name, {})) for name in {(key, None), (key, group)}
        )

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop what the causally stable version vector covers."""
        for region, queue in self._queues.items():
            n_stable = stable.get(region, 0)
            while queue and queue[0][0] <= n_stable:
                n, key, group = queue.popleft()
                dots = self._by_name.get((key, group))
                # A later destroy of the same origin has taken the place: that one stays.
                if dots is not None and dots.get(region) == n:
                    del dots[region]
                    if not dots:
                        del self._by_name[key, group]
