"""Effects that a version vector names and that exist nowhere, for good.

    region 3 was removed, and 1,204,310 of its effects count

    token 1:42,3:1204310  ──>  nothing is lost
    token 1:42,3:1204331  ──>  LOST region 3 was removed; of its effects 1204311… nothing exists

Tokens, cursors and the offsets of Spark's queries outlive the region that gave them out.  One that
names effects beyond the region's end can never be reached, so it is answered at once.

An end is known once the removed region's cut is final (``cut.py``).  Until then a wait may still
come to its end, so it goes on; it is looked at again when an end becomes known.

``Ends`` says by region where its effects end and why.  A removal is the one reason today.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId

# The first word of the error that clients get.
LOST: Final = "LOST"
WAS_REMOVED: Final = "was removed"


class End(NamedTuple):
    """Where the effects of a region end.

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


def lost_of(vv: VersionVector, ends: Ends) -> tuple[Lost, ...]:
    """What of a version vector is lost, ascending by region; mostly nothing."""
    return tuple(
        Lost(region, end, vv[region])
        for region, end in sorted(ends.items())
        if vv.get(region, 0) > end.last_n
    )


def told_lost(lost: Iterable[Lost]) -> str:
    """The error that a client gets; one sentence for each region."""
    return f"{LOST} {'; '.join(map(str, lost))}"
