"""Effects that a version vector names and that exist nowhere, for good.

    region 3 was removed, and 1,204,310 of its effects count

    token 1:42,3:1204310  ──>  nothing is lost
    token 1:42,3:1204331  ──>  LOST region 3 was removed; of its effects 1204311… nothing exists

Tokens, cursors and the offsets of Spark's queries outlive the region that issued them.  One that
names effects beyond the region's end can never be reached, so it is answered at once.

An end is known once the removed region's cut is final (``region_cut.py``).  Until then a wait
may still succeed, so it goes on; it is looked at again when an end becomes known.

``Ends`` says by region where its effects end and why.  It was removed; or it goes on in another
folder, which does not have all that an earlier one had (``core/incarnations.py``); or it numbered
other effects in a copy of its folder that nothing tells apart (``core/histories.py``).
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.incarnations import Lineages, Marked, lost

# The first word of the error that clients get.
LOST: Final = "LOST"
WAS_REMOVED: Final = "was removed"
WAS_CLONED: Final = "numbered effects in two copies of one folder, and has other ones here"
WENT_ON: Final = "goes on in another folder, which began after its effect"


class End(NamedTuple):
    """End of the effects of a region.

    Attributes:
        last_n: the last one that counts; 0: none does.
        why: what became of the region, as the sentence says it.
    """

    last_n: int
    why: str = WAS_REMOVED


Ends: TypeAlias = Mapping[RegionId, End]


class Lost(NamedTuple):
    """Effects of one region that a version vector names and that do not exist.

    Attributes:
        end: where its effects end.
        named_n: the last one that the version vector names.
    """

    region: RegionId
    end: End
    named_n: int

    @property
    def effects(self) -> int:
        return self.named_n - self.end.last_n

    def __str__(self) -> str:
        return (
            f"region {self.region} {self.end.why}; of its effects {self.end.last_n + 1}…"
            " nothing exists"
        )


def removed_ends(cuts: Mapping[RegionId, int]) -> Ends:
    """The ends of removed regions whose cuts are final."""
    return {region: End(cut) for region, cut in cuts.items()}


def ends_for(
    ends: Ends, lineages: Lineages, vv: VersionVector, numbers: Mapping[RegionId, int]
) -> Ends:
    """All ends that matter to a version vector: of regions, and of incarnations that it names.

    Args:
        ends: of removed regions.
        numbers: by region the incarnation in which it is named; without one it is 0.
    """
    marked = {region: Marked(n, numbers.get(region, 0)) for region, n in vv.items()}
    first_lost = lost(lineages, marked)
    return sooner(ends, {o: End(n - 1, f"{WENT_ON} {n - 1}") for o, n in first_lost.items()})


def sooner(ends: Ends, others: Ends) -> Ends:
    """The lower end of each region: it may go on in another folder first, and then be removed."""
    found = dict(ends)
    for region, end in others.items():
        if region not in found or end.last_n < found[region].last_n:
            found[region] = end
    return found


def lost_of(vv: VersionVector, ends: Ends) -> tuple[Lost, ...]:
    """Parts of a version vector that are lost, ascending by region; usually none."""
    return tuple(
        Lost(region, end, vv[region])
        for region, end in sorted(ends.items())
        if vv.get(region, 0) > end.last_n
    )


def existing(vv: VersionVector, ends: Ends) -> VersionVector:
    """Part of a version vector that exists: no region counts beyond its end."""
    if not lost_of(vv, ends):
        return vv
    found = {
        region: min(n, ends[region].last_n if region in ends else n) for region, n in vv.items()
    }
    return {region: n for region, n in found.items() if n}


def told_lost(lost: Iterable[Lost]) -> str:
    """The error that a client gets; one sentence for each region."""
    return f"{LOST} {'; '.join(map(str, lost))}"
