"""The keys by checksum: an order that insertions do not shift, for SCAN and RANDOMKEY.

They are in stretches of some hundreds, each a sorted list:

    stretches   [ 17 … 90 ]  [ 95 … 204 ]  [ 207 … 950 ]
    ends             90           206           950           one bisection finds the stretch

A command that deletes many keys takes them out in one pass at its end (``removing_many``).

Always so: no stretch is empty.  No key of it is above its end, which is below the next stretch.
"""

from bisect import bisect_left
from collections.abc import Container, Iterator
from itertools import chain
from typing import Final, TypeAlias
from zlib import crc32

from crdtstream.core.ids import U64_MAX
from crdtstream.core.size import Size

# 2^64 divided by the golden ratio.
GOLDEN_SECTION: Final = 0x9E3779B97F4A7C15
# A stretch of more keys becomes two.
STRETCH_KEYS_MAX: Final = Size(1024, least=2)
# This part of all keys is added one by one; of more all are put in order again.
FEW_PART: Final = Size(4, least=0)
# Of keys that are removed together fewer than this part of all are taken out one by one; for more
# a pass over all keys takes less.
PASS_PART: Final = Size(16, least=0)

_Place: TypeAlias = tuple[int, bytes]


class KeyOrder:
    """A set of keys."""

    __slots__ = ("_count", "_draws", "_ends", "_leaving", "_removes_many", "_stretches")

    def __init__(self) -> None:
        self._stretches: list[list[_Place]] = []
        self._ends: list[_Place] = []
        self._count = 0
        self._draws = 0
        # Within ``removing_many``: removed keys whose places are still there.
        self._removes_many = False
        self._leaving: dict[bytes, None] = {}

    def __len__(self) -> int:
        return self._count - len(self._leaving)

    def add(self, key: bytes) -> None:
        """Add a key that is not in it."""
        if self._leaving:
            self._take_out_leaving()
        place = crc32(key), key
        self._count += 1
        if not self._ends:
            self._set([place])
            return
        at = bisect_left(self._ends, place)
        if at == len(self._ends):
            at -= 1
            self._ends[at] = place
        stretch = self._stretches[at]
        stretch.insert(bisect_left(stretch, place), place)
        if len(stretch) > STRETCH_KEYS_MAX.value:
            middle = len(stretch) // 2
            self._stretches.insert(at, stretch[:middle])
            self._ends.insert(at, stretch[middle - 1])
            del stretch[:middle]

    def remove(self, key: bytes) -> None:
        """Remove a key, which must be in it."""
        if self._removes_many:
            assert key not in self._leaving, "no such key"
            self._leaving[key] = None
        else:
            self._take_out(key)

    def removing_many(self) -> "RemovingMany":
        """Context in which removed keys keep their places, until all are taken out at its end.

        What is added within takes them out first; nothing else reads the order within.
        """
        return RemovingMany(self)

    def _take_out_leaving(self) -> None:
        leaving, self._leaving = self._leaving, {}
        if PASS_PART.value * len(leaving) < self._count:
            for key in leaving:
                self._take_out(key)
            return
        stretches, ends = self._stretches, self._ends
        self._stretches, self._ends = [], []
        for stretch, end in zip(stretches, ends, strict=True):
            kept = [place for place in stretch if place[1] not in leaving]
            if kept:
                self._stretches.append(kept)
                self._ends.append(end)
        self._count -= len(leaving)
        assert sum(map(len, self._stretches)) == self._count, "no such key"

    def _take_out(self, key: bytes) -> None:
        place = crc32(key), key
        at = bisect_left(self._ends, place)
        stretch = self._stretches[at]
        row = bisect_left(stretch, place)
        assert stretch[row] == place, "no such key"
        del stretch[row]
        self._count -= 1
        if not stretch:
            del self._stretches[at], self._ends[at]

    def take_in(self, others: "KeyOrder") -> None:
        """Take in other keys as well, none of which is in it.  O(n), or O(k log n) for few."""
        assert not self._leaving
        assert not others._leaving
        if FEW_PART.value * others._count < self._count:
            for _, key in others._from(0, 0):
                self.add(key)
        else:
            self._set(sorted(chain(self._from(0, 0), others._from(0, 0))))

    def _set(self, places: list[_Place]) -> None:
        """Replace all keys by these, which ascend."""
        size = max(1, STRETCH_KEYS_MAX.value // 2)
        self._stretches = [places[at : at + size] for at in range(0, len(places), size)]
        self._ends = [stretch[-1] for stretch in self._stretches]
        self._count = len(places)

    def _from(self, at: int, row: int) -> Iterator[_Place]:
        """All from a place in a stretch on, in order.  They must not change meanwhile."""
        assert not self._leaving, "what was removed would be among them"
        while at < len(self._stretches):
            yield from self._stretches[at][row:]
            at, row = at + 1, 0

    def scan(
        self, cursor: int, count: int, *, without: Container[bytes]
    ) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on."""
        keys: list[bytes] = []
        checksum = -1
        start = cursor, b""
        at = bisect_left(self._ends, start)
        row = bisect_left(self._stretches[at], start) if at < len(self._stretches) else 0
        for found, key in self._from(at, row):
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
        that the next one lies far from the last.  O(stretches + keys left out).
        """
        self._draws += 1
        row = (self._draws * GOLDEN_SECTION & U64_MAX) * self._count >> 64
        at = 0
        while at < len(self._stretches) and row >= len(self._stretches[at]):
            row -= len(self._stretches[at])
            at += 1
        # Once round.  Those behind it come again, which changes nothing: all of them are left out.
        places = chain(self._from(at, row), self._from(0, 0))
        return next((key for _, key in places if key not in without), None)


class RemovingMany:
    """:meth:`KeyOrder.removing_many`, for a ``with``; within another one it does nothing."""

    def __init__(self, order: KeyOrder) -> None:
        self._order = order
        self._is_inner = False

    def __enter__(self) -> None:
        self._is_inner = self._order._removes_many
        self._order._removes_many = True

    def __exit__(self, *_exc: object) -> None:
        if not self._is_inner:
            self._order._removes_many = False
            if self._order._leaving:
                self._order._take_out_leaving()
