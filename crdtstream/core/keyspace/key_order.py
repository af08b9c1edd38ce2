"""The keys by checksum: an order that insertions do not shift, for SCAN and RANDOMKEY.

Keys are in buckets by the first bits of their checksums, and a bucket is sorted when it is scanned.
When there are too many keys for the buckets, one more is made: the next one in order becomes two,
told apart by one more bit (linear hashing; Litwin 1980):

    first bits   000   001   01   10   11        of 2^2 buckets the first has become two,
                                                 and the next one that will is 01

So adding or removing a key takes the same time with many keys as with few, except that the list of
buckets is moved.  Keys that a client chooses by their checksums may all be in one bucket: then each
scan sorts them all.

Always so: there are 2^bits + parted buckets, and fewer than 2^bits were parted.
"""

from collections.abc import Container, Iterator
from itertools import chain
from typing import Final
from zlib import crc32

from crdtstream.core.ids import U64_MAX
from crdtstream.core.size import Size

# 2^64 divided by the golden ratio.
GOLDEN_SECTION: Final = 0x9E3779B97F4A7C15
CHECKSUM_BITS: Final = 32
# A bucket becomes two when there are more keys than this for each bucket; two become one when there
# are fewer than a quarter.
BUCKET_KEYS: Final = Size(64, least=1)


class KeyOrder:
    """A set of keys."""

    __slots__ = ("_bits", "_buckets", "_count", "_draws", "_parted")

    def __init__(self) -> None:
        self._count = 0
        self._draws = 0
        self._buckets: list[set[bytes]] = [set()]
        # Number of first bits by which buckets are told apart, and of buckets that became two
        # already: what they became is told apart by one bit more.
        self._bits = 0
        self._parted = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        """All keys, in no order.  They must not change meanwhile."""
        for bucket in self._buckets:
            yield from bucket

    def _at(self, checksum: int) -> int:
        """Index of the bucket that has the keys of this checksum."""
        at = checksum >> CHECKSUM_BITS - self._bits
        if at < self._parted:
            return checksum >> CHECKSUM_BITS - self._bits - 1
        return at + self._parted

    def add(self, key: bytes) -> None:
        """Add a key that is not in it."""
        bucket = self._buckets[self._at(crc32(key))]
        assert key not in bucket
        bucket.add(key)
        self._count += 1
        if self._count > BUCKET_KEYS.value * len(self._buckets) and self._bits < CHECKSUM_BITS:
            self._part()

    def remove(self, key: bytes) -> None:
        """Remove a key, which must be in it."""
        self._buckets[self._at(crc32(key))].remove(key)
        self._count -= 1
        while 4 * self._count < BUCKET_KEYS.value * (len(self._buckets) - 1):
            self._join()

    def _part(self) -> None:
        """The next bucket becomes two."""
        at = 2 * self._parted
        bit = 1 << CHECKSUM_BITS - self._bits - 1
        first: set[bytes] = set()
        second: set[bytes] = set()
        for key in self._buckets[at]:
            (second if crc32(key) & bit else first).add(key)
        self._buckets[at : at + 1] = [first, second]
        self._parted += 1
        if self._parted == 1 << self._bits:
            self._bits += 1
            self._parted = 0

    def _join(self) -> None:
        """The two buckets that came last become one again."""
        if not self._parted:
            self._bits -= 1
            self._parted = 1 << self._bits
        self._parted -= 1
        at = 2 * self._parted
        # A new set: one that has shrunk would keep its memory.
        self._buckets[at : at + 2] = [self._buckets[at] | self._buckets[at + 1]]

    def scan(
        self, cursor: int, count: int, *, without: Container[bytes]
    ) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on."""
        keys: list[bytes] = []
        if cursor >> CHECKSUM_BITS:
            return 0, keys
        checksum = -1
        for at in range(self._at(cursor), len(self._buckets)):
            for found, key in self._sorted(at, cursor):
                # Keys of one checksum stay together: the cursor cannot stand between them.
                if len(keys) >= count and found != checksum:
                    return found, keys
                checksum = found
                if key not in without:
                    keys.append(key)
        return 0, keys

    def draw(self, *, without: Container[bytes]) -> bytes | None:
        """One of the keys, None if there are none.

        No chance is in it: the draws go round all checksums in steps of the golden section, so that
        the next one lies far from the last.  The bucket that one falls in has its keys drawn in
        turns.  O(a bucket + keys left out).
        """
        self._draws += 1
        drawn = self._draws * GOLDEN_SECTION & U64_MAX
        first = self._at(drawn >> CHECKSUM_BITS)
        # The bits of it behind those that have found the bucket.
        within = drawn << self._bits + (first < 2 * self._parted) & U64_MAX
        for at in range(first, first + len(self._buckets)):
            places = self._sorted(at % len(self._buckets), 0)
            row = within * len(places) >> 64
            for _, key in chain(places[row:], places[:row]):
                if key not in without:
                    return key
        return None

    def _sorted(self, at: int, start: int) -> list[tuple[int, bytes]]:
        """The keys of a bucket whose checksums are not below ``start``, with these, in order."""
        places = [(crc32(key), key) for key in self._buckets[at]]
        return sorted(place for place in places if place[0] >= start)
