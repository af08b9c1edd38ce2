"""Tombstones, which delete-wins needs: destroys that a create may not have observed.

A tombstone is the dot of a DestroyGroup (of one group) or of a DeleteKey (of every group of its
key).  Per name only the greatest dot of each origin is kept: a create's context that covers it
covers the smaller ones too.  A tombstone is dropped once it is causally stable: then no create can
arrive that had not observed it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers
from crdtstream.core.ids import RegionId

NO_DOTS: Mapping[bytes | None, VersionVector] = {}


class Tombstones:
    """Tombstones by key and group of it (group None: the key itself)."""

    __slots__ = ("_by_key", "_queues", "count")

    def __init__(self) -> None:
        self._by_key: dict[bytes, dict[bytes | None, MutableVersionVector]] = {}
        self.count = 0
        # In the order of each origin's dots, so that forgetting costs what is forgotten.
        self._queues: dict[RegionId, deque[tuple[int, bytes, bytes | None]]] = {}

    def __len__(self) -> int:
        """Number of keys and groups that have tombstones."""
        return self.count

    def __contains__(self, key: bytes) -> bool:
        """True if the key or a group of it has tombstones."""
        return key in self._by_key

    def of(self, key: bytes) -> Mapping[bytes | None, VersionVector]:
        """The dots of the key, and of its groups."""
        return self._by_key.get(key, NO_DOTS)

    def add(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        region, n = dot
        groups = self._by_key.get(key)
        if groups is None:
            self._by_key[key] = groups = {}
        dots = groups.get(group)
        if dots is None:
            groups[group] = {region: n}
            self.count += 1
        else:
            assert dots.get(region, 0) < n, "an origin's dots ascend"
            dots[region] = n
        assert self.count >= len(self._by_key)
        queue = self._queues.get(region)
        if queue is None:
            self._queues[region] = queue = deque()
        queue.append((n, key, group))

    def unite(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        """Another region remembers a destroy.  ``restore_order`` once all are here."""
        if self._by_key.get(key, {}).get(group, {}).get(dot.region, 0) < dot.n:
            self.add(dot, key, group)

    def forget(self, key: bytes) -> None:
        """Nothing counts that was remembered of the key and its groups."""
        self.count -= len(self._by_key.pop(key, {}))
        assert self.count >= len(self._by_key)

    def observed_by(self, context: VersionVector, key: bytes, group: bytes | None = None) -> bool:
        """True if an effect with this context had observed every destroy of the key and group."""
        groups = self._by_key.get(key)
        return groups is None or all(
            covers(context, groups.get(name, {})) for name in {None, group}
        )

    def forget_stable(self, stable: VersionVector, note: Callable[[bytes], object]) -> None:
        """Drop what the causally stable version vector covers.

        Args:
            note: called with each key, before something of it is dropped.
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
            self.count -= 1
            if not groups:
                del self._by_key[key]
        assert self.count >= len(self._by_key)

    # --- What a checkpoint has ----------------------------------------------------------------

    def restore(self, key: bytes, tombstones: Iterator[tuple[bytes | None, VersionVector]]) -> None:
        """Put back what ``of`` returned; call ``restore_order`` once all are back."""
        for group, dots in tombstones:
            for region, n in dots.items():
                self.add(Dot(region, n), key, group)

    def restore_order(self) -> None:
        for region, queue in self._queues.items():
            self._queues[region] = deque(sorted(queue, key=lambda row: row[0]))
