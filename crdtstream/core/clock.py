"""Dots, version vectors and causal contexts.

A dot ``(region, n)`` names the n-th effect that a region issued.  A version vector says for each
region how many of its effects are included; because effects of one region are applied in order
and without gaps, this small map is the whole history of a replica.  A causal context is the
version vector that an effect's issuer had, its own component being n - 1 (``rules`` 1).

Absent regions count as 0; no component is ever stored as 0.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from crdtstream.core.ids import RegionId

VersionVector: TypeAlias = Mapping[RegionId, int]
MutableVersionVector: TypeAlias = dict[RegionId, int]


class Versioned(Protocol):
    """Anything whose state has a version vector; what is applied here, as of a replica."""

    @property
    def vv(self) -> VersionVector: ...


class Dot(NamedTuple):
    """The n-th effect (n from 1) that ``region`` issued."""

    region: RegionId
    n: int


def covers_dot(vv: VersionVector, dot: Dot) -> bool:
    return vv.get(dot.region, 0) >= dot.n


def covers(vv: VersionVector, other: VersionVector) -> bool:
    """True if everything in ``other`` is in ``vv`` too."""
    for region, n in other.items():  # noqa: SIM110 - each commit asks
        if vv.get(region, 0) < n:
            return False
    return True


def join(vv: MutableVersionVector, other: VersionVector) -> None:
    """Raise ``vv`` to the pointwise maximum of both."""
    for region, n in other.items():
        if n > vv.get(region, 0):
            vv[region] = n


def meet(vectors: Iterable[VersionVector]) -> MutableVersionVector:
    """The pointwise minimum; of no vector at all, the empty one."""
    vectors = list(vectors)
    if not vectors:
        return {}
    first, *others = vectors
    result: MutableVersionVector = {}
    for region, n in first.items():
        low = min((other.get(region, 0) for other in others), default=n)
        if min(n, low) > 0:
            result[region] = min(n, low)
    return result


def capped(vv: VersionVector, most: VersionVector) -> VersionVector:
    """``vv`` with no more of each region than ``most`` says; the very same if it has no more.

    Args:
        most: a region that is absent has no bound, and one may stand here as 0.
    """
    if all(vv.get(region, 0) <= n for region, n in most.items()):
        return vv
    result: MutableVersionVector = {}
    for region, n in vv.items():
        count = min(n, most.get(region, n))
        if count > 0:
            result[region] = count
    return result


def missing(vv: VersionVector, other: VersionVector) -> int:
    """Number of effects of ``other`` that are not in ``vv``."""
    return sum(max(0, n - vv.get(region, 0)) for region, n in other.items())


def format_vv(vv: VersionVector) -> str:
    """``1:42,2:17``, regions ascending."""
    return ",".join(f"{region}:{n}" for region, n in sorted(vv.items()))
