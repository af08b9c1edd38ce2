"""Counting: which effects of a folder no member has, of any origin, as a region that runs knows.

    folder of region 3     3:1 …… 3:50 │ 3:51 …… 3:80     region 3 was removed, and 50 count
                           1:1 …… 1:30 │ 1:31 …… 1:50     region 1 lost its disk, and goes on behind
                                                          30 in another folder
                           2:1 ………… 2:70                  region 2 goes on in the folder that
                                                          numbered them: it has them

A folder has effects of others beyond those that count as well: region 3 may be the only one to
which an origin had sent them.  An origin ends by its removal (its cut), by a later incarnation, by
a clone of its folder, or because it belongs to another part of the database, which went on alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from crdtstream.core.clock import VersionVector
from crdtstream.core.histories import Difference, Points, difference
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import NO_LINEAGE, Lineage, Lineages, counted, stretches
from crdtstream.core.membership.members import NO_HASH, Members


class NotCountedError(Exception):
    """It is not known yet how many effects of a region count; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Known:
    """Knowledge of effects that a folder or a region has.

    Attributes:
        lineages: the incarnations of all regions.
        points: where batches of the origins end.
        cuts: by removed region how many of its effects count; None: that is not final.  A folder
            knows it of its own region only.
    """

    vv: VersionVector
    lineages: Lineages = field(default_factory=dict)
    points: Points = field(default_factory=dict)
    cuts: Mapping[RegionId, int | None] = field(default_factory=dict)

    def lineage(self, origin: RegionId) -> Lineage:
        return self.lineages.get(origin, NO_LINEAGE)

    def points_of(self, origin: RegionId) -> Points:
        return {origin: self.points[origin]} if origin in self.points else {}


@dataclass(frozen=True, slots=True)
class Running(Known):
    """The same of a region that runs, with the members that it knows.

    Attributes:
        regions: all that are members, or were.
    """

    epoch: int = 0
    hash: bytes = NO_HASH
    regions: frozenset[RegionId] = frozenset()


@dataclass(frozen=True, slots=True)
class Beyond:
    """Effects of a folder that count nowhere: of one origin, numbered in one incarnation.

    Attributes:
        above_n, upto_n: their numbers.
        incarnation: in which the origin numbered them.  Each folder that has such an effect names
            it by the same incarnation.
        apart: they are of a clone of the folder in which the origin goes on; only some of them may
            be.
    """

    origin: RegionId
    above_n: int
    upto_n: int
    incarnation: int = 0
    apart: Difference | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """Effects of an origin that count.

    Attributes:
        n: their number; None: all that the folder has.
        apart: where they differ from those of the folder, which is a clone's.
    """

    n: int | None
    apart: Difference | None = None


def count_of(origin: RegionId, members: Members, folder: Known, there: Running) -> Count:
    """Number of effects of an origin that count.

    Args:
        members: as the folder knows them.

    Raises:
        NotCountedError: that is not known there yet.
    """
    apart = difference(folder.points_of(origin), there.points_of(origin))
    number = counted(folder.lineage(origin), there.lineage(origin))
    known = [] if number is None else [number]
    cut = folder.cuts.get(origin, there.cuts.get(origin))
    if cut is not None:
        known.append(cut)
    elif origin in there.cuts:
        if folder.vv.get(origin, 0) > there.vv.get(origin, 0):
            raise NotCountedError(
                f"it is not known yet how many effects of region {origin} count: the others must"
                " first say what they have of it; try again in a moment"
            )
    elif is_of_another_part(origin, members, there):
        known.append(0)
    n = min(known, default=None)
    if apart is not None and (n is None or apart.same_n < n):
        return Count(apart.same_n, apart)
    return Count(n)


def is_of_another_part(origin: RegionId, members: Members, there: Running) -> bool:
    """True if an origin joined a part of the database that went on without the region that runs.

    Where that one has decided as much as the folder had when the origin was added, it would know
    the origin; where it has not, the folder's history must continue its own.
    """
    member = members.find(origin)
    if member is None or origin in there.regions:
        return False
    return there.epoch >= member.added or members.hash_at(there.epoch) != there.hash


def beyond_of(origin: RegionId, count: Count, folder: Known) -> Iterator[Beyond]:
    """The effects of an origin that the folder has, and that count nowhere."""
    upto_n = folder.vv.get(origin, 0)
    if count.n is None or count.n >= upto_n:
        return
    lineage = folder.lineage(origin)
    if count.apart is not None:
        yield Beyond(origin, count.n, upto_n, lineage.number, count.apart)
        return
    for number, above_n, upto in stretches(lineage, count.n, upto_n):
        yield Beyond(origin, above_n, upto, number)
