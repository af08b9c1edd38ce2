"""Up to which dots a trim or a DEL removed entries of streams that are gone.

Readers by dots (cursors, the query service) learn from it that they missed something.  A stream
that is there keeps this itself (``Stream.lost``).  Keys come and go without end, so of the streams
that are gone only the latest are remembered.
"""

from collections import OrderedDict
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size

KEYS_MAX: Final = Size(10_000, least=1)


class TrimmedKeys:
    """By key and origin the highest dot number that a trim or a DEL removed."""

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: OrderedDict[bytes, dict[RegionId, int]] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        return key in self._by_key

    def keys(self) -> list[bytes]:
        return sorted(self._by_key)

    def of(self, key: bytes) -> dict[RegionId, int]:
        return self._by_key.get(key, {})

    @property
    def to_forget(self) -> bytes | None:
        """The key that the next one to be kept pushes out."""
        return next(iter(self._by_key)) if len(self._by_key) >= KEYS_MAX.value else None

    def keep(self, key: bytes, lost: dict[RegionId, int]) -> None:
        """The stream is gone; what it knew of its lost entries is kept here."""
        if lost:
            self._by_key[key] = lost
            if len(self._by_key) > KEYS_MAX.value:
                self._by_key.popitem(last=False)

    def take(self, key: bytes) -> dict[RegionId, int]:
        """The stream is there again, and keeps it from now on."""
        return self._by_key.pop(key, {})

    def restore(self, key: bytes, lost: dict[RegionId, int]) -> None:
        """Put back what was kept, the key that is gone the longest first."""
        self._by_key[key] = lost
