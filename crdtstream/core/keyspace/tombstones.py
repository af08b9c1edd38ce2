"""Tombstones, which delete-wins needs: destroys that a create may not have observed.

A tombstone is the dot of a DestroyGroup (of one group) or of a DeleteKey (of every group of its
key).  Per name only the greatest dot of each origin is kept: a create's context that covers it
covers the smaller ones too.  A tombstone is dropped once it is causally stable: then no create can
arrive that had not observed it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TypeAlias

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.ids import RegionId

# A group and its key, or a key alone: a DEL leaves one for each key, and bytes take less memory.
_Name: TypeAlias = bytes | tuple[bytes, bytes]


class Tombstones:
    """Tombstones by key and group of it (group None: the key itself)."""

    __slots__ = ("_groups", "_numbers")

    def __init__(self) -> None:
        # By origin the dot numbers, which ascend, so that forgetting costs what is forgotten: the
        # first is found at once though others before it were removed.
        self._numbers: dict[RegionId, OrderedDict[_Name, int]] = {}
        # Of each key the groups that have any.
        self._groups: dict[bytes, set[bytes]] = {}

    def __len__(self) -> int:
        """Number of tombstones: of each key and group one for each origin that destroyed it."""
        return sum(map(len, self._numbers.values()))

    def __contains__(self, key: bytes) -> bool:
        """True if the key or a group of it has tombstones."""
        return key in self._groups or any(key in numbers for numbers in self._numbers.values())

    def of(self, key: bytes) -> dict[bytes | None, VersionVector]:
        """The dots of the key, and of its groups."""
        groups = [None, *sorted(self._groups.get(key, ()))]
        dots = {group: self.dots_of(key, group) for group in groups}
        return {group: vv for group, vv in dots.items() if vv}

    def dots_of(self, key: bytes, group: bytes | None) -> VersionVector:
        """The dots of the key (group None), or of a group of it."""
        return self._dots_of(_name(key, group))

    def _dots_of(self, name: _Name) -> VersionVector:
        return {
            region: self._numbers[region][name]
            for region in sorted(self._numbers)
            if name in self._numbers[region]
        }

    def add(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        region, n = dot
        numbers = self._numbers.get(region)
        if numbers is None:
            self._numbers[region] = numbers = OrderedDict()
        name = _name(key, group)
        if name in numbers:
            assert numbers[name] < n, "an origin's dots ascend"
            # The later one counts, and takes its place behind the others.
            numbers.move_to_end(name)
        numbers[name] = n
        if group is not None:
            self._groups.setdefault(key, set()).add(group)

    def unite(self, dot: Dot, key: bytes, group: bytes | None) -> None:
        """Another region remembers a destroy.  ``restore_order`` once all are here."""
        if self.dots_of(key, group).get(dot.region, 0) < dot.n:
            self.add(dot, key, group)

    def forget(self, key: bytes) -> None:
        """Nothing counts that was remembered of the key and its groups."""
        for group, dots in self.of(key).items():
            for region in dots:
                self._forget(region, _name(key, group))

    def _forget(self, region: RegionId, name: _Name) -> None:
        del self._numbers[region][name]
        if isinstance(name, tuple) and not self._dots_of(name):
            key, group = name
            groups = self._groups[key]
            groups.remove(group)
            if not groups:
                del self._groups[key]

    def observed_by(self, context: VersionVector, key: bytes, group: bytes | None = None) -> bool:
        """True if an effect with this context had observed every destroy of the key and group."""
        name = _name(key, group)
        return all(
            max(numbers.get(key, 0), numbers.get(name, 0)) <= context.get(region, 0)
            for region, numbers in self._numbers.items()
        )

    def forget_stable(self, stable: VersionVector, note: Callable[[bytes], object]) -> None:
        """Drop what the causally stable version vector covers.

        Args:
            note: called with each key, before something of it is dropped.
        """
        for region, numbers in self._numbers.items():
            n_stable = stable.get(region, 0)
            while numbers:
                name = next(iter(numbers))
                if numbers[name] > n_stable:
                    break
                note(name[0] if isinstance(name, tuple) else name)
                self._forget(region, name)

    # --- What a checkpoint has ----------------------------------------------------------------

    def restore(self, key: bytes, tombstones: Iterator[tuple[bytes | None, VersionVector]]) -> None:
        """Put back what ``of`` returned; call ``restore_order`` once all are back."""
        for group, dots in tombstones:
            for region, n in dots.items():
                self.add(Dot(region, n), key, group)

    def restore_order(self) -> None:
        for region, numbers in self._numbers.items():
            ordered = sorted(numbers.items(), key=lambda named: named[1])
            self._numbers[region] = OrderedDict(ordered)


def _name(key: bytes, group: bytes | None) -> _Name:
    return key if group is None else (key, group)
