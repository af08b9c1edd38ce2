"""What delete-wins must remember: destroys that a create may not have observed.

A tombstone is the dot of a DestroyGroup (of one group) or of a DeleteKey (of every group of its
key).  Per name only the greatest dot of each origin is kept: a create's context that covers it
covers the smaller ones too.  A tombstone goes once it is causally stable, because then no create
can arrive that had not observed it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers
from crdtstream.core.ids import RegionId

NO_DOTS: Mapping[bytes | None, VersionVector] = {}


class Tombstones:
    """Tombstones by key and group of it (group None: the key itself)."""

    __slots__ = ("_by_key", "_count", "_queues")

    def __init__(self) -> None:
        self._by_key: dict[bytes, dict[bytes | None, MutableVersionVector]] = {}
        self._count = 0
        # In the order of each origin's dots, so that forgetting costs what is forgotten.
        self._queues: dict[RegionId, deque[tuple[int, bytes, bytes | None]]] = {}

    def __len__(self) -> int:
        """How many keys and groups have some."""
        return self._count

    def __contains__(self, key: bytes) -> bool:
        """Whether the key or a group of it has some."""
        return key in self._by_key

    def of(self, key: bytes) -> Mapping[bytes | None, VersionVector]:
        """The dots of the key, and of its groups."""
        return self._by_key.get(key, NO_DOTS)

    def add(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        groups = self._by_key.setdefault(key, {})
        if group not in groups:
            groups[group] = {}
            self._count += 1
        groups[group][dot.region] = dot.n
        self._queues.setdefault(dot.region, deque()).append((dot.n, key, group))

    def unite(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        """Another region remembers a destroy.  ``restore_order`` once all are here."""
        if self._by_key.get(key, {}).get(group, {}).get(dot.region, 0) < dot.n:
            self.add(dot, key, group)

    def observed_by(self, context: VersionVector, key: bytes, group: bytes | None = None) -> bool:
        """Whether an effect with this context had observed every destroy of the key and group."""
        groups = self._by_key.get(key)
        return groups is None or all(
            covers(context, groups.get(name, {})) for name in {None, group}
        )

    def forget_stable(self, stable: VersionVector, note: Callable[[bytes], object]) -> None:
        """Drop what the causally stable version vector covers.

        Args:
            note: told of each key, before something of it goes.
        """
        for region, queue in self._queues.items():
            n_stable = stable.get(region, 0)
            while queue and queue[0][0] <= n_stable:
                n, key, group = queue.popleft()
                groups = self._by_key.get(key)
                dots = None if groups is None else groups.get(group)
                # A later destroy of the same origin has taken the place: that one stays.
                if groups is not None and dots is not None and dots.get(region) == n:
                    note(key)
                    self._drop(key, groups, group, dots, region)

    def _drop(
        self,
        key: bytes,
        groups: dict[bytes | None, MutableVersionVector],
        group: bytes | None,
        dots: MutableVersionVector,
        region: RegionId,
    ) -> None:
        del dots[region]
        if not dots:
            del groups[group]
            self._count -= 1
            if not groups:
                del self._by_key[key]

    # --- What a checkpoint has ----------------------------------------------------------------

    def restore(self, key: bytes, tombstones: Iterator[tuple[bytes | None, VersionVector]]) -> None:
        """Put back what ``of`` told; ``restore_order`` once all are there."""
        for group, dots in tombstones:
            for region, n in dots.items():
                self.add(Dot(region, n), key, group)

    def restore_order(self) -> None:
        for region, queue in self._queues.items():
            self._queues[region] = deque(sorted(queue, key=lambda row: row[0]))
