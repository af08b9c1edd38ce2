"""Losses of streams that are gone: the dots up to which a trim or a DEL removed entries.

Readers by dots (cursors, the query service) learn from it that they missed something.  An existing
stream keeps this itself (``Stream.lost``).  Keys are made and deleted without end, so of the
streams that are gone only the latest are remembered.
"""

from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size

KEYS_MAX: Final = Size(10_000, least=1)


class TrimmedKeys:
    """Highest dot number, by key and origin, that a trim or a DEL removed."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        # Origins and numbers by turns: a dictionary for each key takes four times as much.
        self._by_key: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def keys(self) -> list[bytes]:
        return sorted(self._by_key)

    def of(self, key: bytes) -> dict[RegionId, int]:
        return _unpacked(self._by_key.get(key, ()))

    @property
    def to_forget(self) -> bytes | None:
        """The key that the next one to be kept pushes out."""
        return next(iter(self._by_key)) if len(self._by_key) >= KEYS_MAX.value else None

    def keep(self, key: bytes, lost: Mapping[RegionId, int]) -> None:
        """The stream is gone; what it knew of its lost entries is kept here."""
        assert key not in self._by_key, "a stream that exists keeps its losses itself"
        assert lost
        self._by_key[key] = _packed(lost)
        if len(self._by_key) > KEYS_MAX.value:
            self._by_key.popitem(last=False)

    def take(self, key: bytes) -> dict[RegionId, int]:
        """The stream exists again, and keeps it from now on."""
        return _unpacked(self._by_key.pop(key, ()))

    def restore(self, key: bytes, lost: Mapping[RegionId, int]) -> None:
        """Put back what was kept, the key that is gone the longest first."""
        self._by_key[key] = _packed(lost)


def _packed(lost: Mapping[RegionId, int]) -> tuple[int, ...]:
    if len(lost) == 1:
        return next(iter(lost.items()))
    return tuple(chain.from_iterable(lost.items()))


def _unpacked(numbers: tuple[int, ...]) -> dict[RegionId, int]:
    if not numbers:
        return {}
    return {RegionId(numbers[at]): numbers[at + 1] for at in range(0, len(numbers), 2)}
