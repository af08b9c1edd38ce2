"""Histories: which effects an origin's dots number, as regions compare and batches say it.

A region numbers its effects.  So does a copy of its folder that nothing tells apart from it (a
snapshot of a virtual machine, a clone of a file system).  Both say 1:6 and mean two things:

    region 1        1:1 ── 1:5 ─┬─ 1:6 ─ 1:7            one copy
                                └─ 1:6 ── 1:8           the other one

A batch is the same bytes in every region.  Its hash is made of these bytes, which contain the hash
of its origin's batch before it (``EffectBatch.follows``).  So a hash stands for all the effects of
an origin up to there, and a batch that does not follow what is here is found before it is applied.

Two regions that meet compare *points*: by origin the ends of batches, with their hashes.  Of
millions some hundred are kept.  The rule is the same everywhere, so two regions have kept some of
the same points even if one is far ahead.  The zero bits at a hash's end are its *rank*; half of all
points have rank 0, a quarter rank 1, and so on.  A point is kept until ``KEPT`` newer ones have its
rank or a higher one:

    rank 0   · · · · · · · · · · · · · · · · · · · · · · · · · · · · | | | |
    rank 1    ·   ·   ·   ·   ·   ·   ·   ·   ·   ·   ·   |   |   |   |
    rank 2      ·       ·       ·       ·       |       |       |       |
                                                                           └ the newest

So none of the last ``KEPT`` points of a rank, or of a higher one, is missing.  If one region has a
point there that the other one lacks, a batch ends here that does not end there: they differ as
well.

Effects of which no point is known are taken for equal.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.checkpoint.contents import (
    ContentError,
    HistoriesContent,
    packed,
    unpacked,
)
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import EffectBatch
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.membership.lost import WAS_CLONED, End, Ends
from crdtstream.core.size import Size

UNKNOWN: Final = 0
HASH_BITS: Final = 64
# Of a hash in a token or cursor; by chance one of four thousand million others is the same.
SHORT_BITS: Final = HASH_BITS // 2
# Where one region is a hundred batches behind another, both have points about ten batches apart.
KEPT: Final = 16
# How many there may be before those are dropped that need not be kept.
POINTS_MAX: Final = Size(1024, least=1)
# Points of all origins together that a message at the opening of a link has; of each origin at
# least the newest ``KEPT``.
SAID_POINTS_MAX: Final = Size(4096, least=1)
_N_MAX: Final = 2**63 - 1


class Difference(NamedTuple):
    """Two regions have other effects of a third one, or of one of them, under the same numbers.

    Attributes:
        region: whose effects.
        same_n: up to there they are known to be the same.
        by_n: up to there they are known not to be.
    """

    region: RegionId
    same_n: int
    by_n: int


class HistoryError(Exception):
    """A batch, or a state, is of another history than the effects that are here."""

    def __init__(self, difference: Difference) -> None:
        region, _, by_n = difference
        super().__init__(f"the effects of region {region} up to {by_n} are others than those here")
        self.difference = difference


class Point(NamedTuple):
    """The end of a batch: which effect is its last one, and the batch's hash."""

    n: int
    hash: int


Points: TypeAlias = Mapping[RegionId, list[Point]]


def hash_of(encoded: bytes) -> int:
    """The hash of a batch: never ``UNKNOWN``."""
    return int.from_bytes(sha256(encoded).digest()[: HASH_BITS // 8], "big") or 1


def rank_of(hash_: int) -> int:
    """Number of zero bits at its end."""
    return (hash_ & -hash_).bit_length() - 1


class _Line:
    """The points of one origin, ascending."""

    __slots__ = ("hashes", "ns")

    def __init__(self) -> None:
        self.ns = array("Q")
        self.hashes = array("Q")

    def thin(self) -> None:
        """Drop those that need not be kept."""
        newer = [0] * HASH_BITS
        ns, hashes = array("Q"), array("Q")
        for at in range(len(self.ns) - 1, -1, -1):
            hash_ = self.hashes[at]
            rank = rank_of(hash_)
            if newer[rank] < KEPT:
                ns.append(self.ns[at])
                hashes.append(hash_)
                for lower in range(rank + 1):
                    newer[lower] += 1
        assert ns[0] == self.ns[-1], "the newest one is always kept"
        ns.reverse()
        hashes.reverse()
        self.ns, self.hashes = ns, hashes


class Histories:
    """Histories of all origins, as far as their effects were applied here."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[RegionId, _Line] = {}

    def note(self, origin: RegionId, n: int, hash_: int) -> None:
        """A batch of an origin that ends there was applied, or issued."""
        line = self._lines.get(origin)
        if line is None:
            line = self._lines[origin] = _Line()
        assert not line.ns or n > line.ns[-1], "batches of an origin come in order"
        assert hash_ != UNKNOWN
        line.ns.append(n)
        line.hashes.append(hash_)
        if len(line.ns) > POINTS_MAX.value:
            line.thin()

    def hash_at_end(self, origin: RegionId, n: int) -> int:
        """The hash of the newest batch, which ends there; else ``UNKNOWN``."""
        line = self._lines.get(origin)
        if line is None or line.ns[-1] != n:
            assert line is None or line.ns[-1] < n, "the newest batch ends behind the next one"
            return UNKNOWN
        return line.hashes[-1]

    def point_before(self, origin: RegionId, n: int) -> Point | None:
        """The newest point that is kept and not beyond an effect of an origin; None: there is
        none."""
        line = self._lines.get(origin)
        if line is None or line.ns[0] > n:
            return None
        at = bisect_right(line.ns, n) - 1
        return Point(line.ns[at], line.hashes[at])

    def newest(self) -> dict[RegionId, Point]:
        """End of the newest batch, by origin."""
        return {
            origin: Point(line.ns[-1], line.hashes[-1])
            for origin, line in sorted(self._lines.items())
        }

    def parts_from(self, origin: RegionId, point: Point) -> bool:
        """True if a point of another region is known not to be of the history that is here."""
        line = self._lines.get(origin)
        if line is None or point.n > line.ns[-1]:
            return False
        at = bisect_right(line.ns, point.n) - 1
        if at >= 0 and line.ns[at] == point.n:
            return line.hashes[at] != point.hash
        # Between two of the newest no batch has ended.
        return at >= max(0, len(line.ns) - KEPT)

    def mark(self, origin: RegionId) -> int:
        """Half a hash of all the effects of an origin; ``UNKNOWN``: nothing is known of them."""
        line = self._lines.get(origin)
        return UNKNOWN if line is None else line.hashes[-1] >> SHORT_BITS

    def points(self) -> dict[RegionId, list[Point]]:
        """Points that are kept, by origin, ascending."""
        for line in self._lines.values():
            line.thin()
        return {
            origin: list(map(Point, line.ns, line.hashes))
            for origin, line in sorted(self._lines.items())
        }

    def take_over(self, theirs: Points, here: VersionVector, there: VersionVector) -> None:
        """Another region's state is merged: what it has more of follows what is here.

        Args:
            here, there: what was applied here, and what the other region had.
        """
        for origin, n in there.items():
            if n > here.get(origin, 0):
                points = theirs.get(origin, [])
                is_known = bool(points) and points[-1].n == n
                self.set_points(origin, points if is_known else [])

    def set_points(self, origin: RegionId, points: Iterable[Point]) -> None:
        """Set an origin's points to those of a checkpoint; none: it is unknown."""
        self._lines.pop(origin, None)
        for n, hash_ in points:
            self.note(origin, n, hash_)


# --- Comparing ------------------------------------------------------------------------------------


def difference(mine: Points, theirs: Points) -> Difference | None:
    """Place where the histories of an origin part first; None: nothing is known to differ."""
    for origin in sorted(mine.keys() & theirs.keys()):
        found = _parting(mine[origin], theirs[origin])
        if found is not None:
            return Difference(origin, *found)
    return None


def _parting(mine: list[Point], theirs: list[Point]) -> tuple[int, int] | None:
    """Number up to which two histories are known to be the same, and one at which they differ."""
    apart = [*_apart(mine, theirs), *_apart(theirs, mine)]
    if not apart:
        return None
    by_n = min(apart)
    same = [point.n for point in set(mine) & set(theirs) if point.n < by_n]
    return max(same, default=0), by_n


def _apart(points: list[Point], others: list[Point]) -> list[int]:
    """Ends of batches that the others lack, and would have if they were of one history."""
    known = {point.n: point.hash for point in others}
    begins, newest_n = _begins(others), others[-1].n
    return [
        n
        for n, hash_ in points
        if known.get(n, hash_) != hash_
        or (n not in known and begins[rank_of(hash_)] <= n <= newest_n)
    ]


def _begins(points: list[Point]) -> list[int]:
    """By rank, the number from which on no point of that rank, or of a higher one, is missing."""
    begins = [_N_MAX] * HASH_BITS
    newer = [0] * HASH_BITS
    for n, hash_ in reversed(points):
        for rank in range(rank_of(hash_) + 1):
            if newer[rank] < KEPT:
                newer[rank] += 1
                begins[rank] = n
    return begins


def check_same(mine: Histories, theirs: Points) -> None:
    """
    Raises:
        HistoryError: they differ.
    """
    found = difference(mine.points(), theirs)
    if found is not None:
        raise HistoryError(found)


def check_follows(batch: EffectBatch, mine: Histories) -> None:
    """Check that a batch, which is the next of its origin, follows what was applied here.

    Raises:
        HistoryError: it follows something else.
    """
    before_n = batch.first_n - 1
    before = mine.hash_at_end(batch.origin, before_n)
    if UNKNOWN not in (batch.follows, before) and batch.follows != before:
        raise HistoryError(Difference(batch.origin, 0, before_n))


# --- Dots that left their region ------------------------------------------------------------------


def shortened(points: Mapping[RegionId, Point]) -> dict[RegionId, Point]:
    """Points as they leave the region, each with half a hash."""
    return {region: Point(n, hash_ >> SHORT_BITS) for region, (n, hash_) in points.items()}


def other_ends(mine: Histories, named: Mapping[RegionId, Point]) -> Ends:
    """Ends of regions whose points, as a client or peer names them, are of other effects than here.

    A point that is not kept here, or was not applied yet, is taken for equal.
    """
    ends = {}
    for region, (n, short) in sorted(named.items()):
        point = mine.point_before(region, n)
        if point is not None and point.n == n and point.hash >> SHORT_BITS != short:
            ends[region] = End(n - 1, WAS_CLONED)
    return ends


# --- As bytes -------------------------------------------------------------------------------------


def said(histories: Histories) -> bytes:
    """Bytes of the newest points, for a peer, as a link opens."""
    points = histories.points()
    if not points:
        return b""
    most = max(KEPT, SAID_POINTS_MAX.value // len(points))
    return packed(content_of(points, most=most))


def heard(data: bytes) -> Points:
    """The inverse; of no bytes, no points.

    Raises:
        ContentError: no histories can be so.
    """
    return points_of(unpacked(data, HistoriesContent)) if data else {}


def content_of(points: Points, *, most: int = _N_MAX) -> HistoriesContent:
    """Points as checkpoints have them; of each origin the newest ones, at most ``most``."""
    return {
        origin: [(point.n, point.hash) for point in line[-most:]] for origin, line in points.items()
    }


def points_of(content: HistoriesContent) -> dict[RegionId, list[Point]]:
    """The inverse.

    Raises:
        ContentError: no history can be so.
    """
    found = {}
    for origin, line in content.items():
        points = [Point(n, hash_) for n, hash_ in line]
        is_right = (
            1 <= origin <= REGION_MAX
            and 0 < len(points) <= KEPT * HASH_BITS
            and all(0 < n <= _N_MAX and 0 < hash_ < 1 << HASH_BITS for n, hash_ in points)
            and all(one.n < other.n for one, other in pairwise(points))
        )
        if not is_right:
            raise ContentError(f"histories: that of region {origin} cannot be so")
        found[origin] = points
    return found
