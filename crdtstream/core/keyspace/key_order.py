"""The keys by checksum: an order that insertions do not shift, for SCAN and RANDOMKEY."""

from collections.abc import Container
from itertools import chain
from typing import Final
from zlib import crc32

from sortedcontainers import SortedList

from crdtstream.core.ids import U64_MAX

# 2^64 divided by the golden ratio.
GOLDEN_SECTION: Final = 0x9E3779B97F4A7C15


class KeyOrder:
    """A set of keys."""

    __slots__ = ("_draws", "_keys")

    def __init__(self) -> None:
        self._keys: SortedList[tuple[int, bytes]] = SortedList()
        self._draws = 0

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: bytes) -> None:
        self._keys.add((crc32(key), key))

    def remove(self, key: bytes) -> None:
        self._keys.remove((crc32(key), key))

    def take_in(self, others: "KeyOrder") -> None:
        """Take in other keys as well.  O(n), or O(k log n) for few."""
        self._keys.update(others._keys)

    def scan(
        self, cursor: int, count: int, *, without: Container[bytes]
    ) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on."""
        keys: list[bytes] = []
        checksum = -1
        for found, key in self._keys.irange((cursor, b"")):
            # Keys of one checksum stay together: the cursor cannot stand between them.
            if len(keys) >= count and found != checksum:
                return found, keys
            checksum = found
            if key not in without:
                keys.append(key)
        return 0, keys

    def draw(self, *, without: Container[bytes]) -> bytes | None:
        """One of the keys, None if there are none.

        No chance is in it: the draws go round all keys in steps of the golden section, so
        that the next one lies far from the last.  O(log n + keys left out).
        """
        self._draws += 1
        at = (self._draws * GOLDEN_SECTION & U64_MAX) * len(self._keys) >> 64
        behind = self._keys.islice(at)
        before = self._keys.islice(0, at)
        return next((key for _, key in chain(behind, before) if key not in without), None)
