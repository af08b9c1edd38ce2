"""Incarnations of a region: which folder numbered its effects, from where on (``rules`` 18).

A region numbers its effects in one folder.  When it goes on in another one - a backup, a copy, an
earlier state of itself - numbers that the old folder used may be used again:

    effects        1 ─── 5 6 7          the old folder: incarnation 0
                         └ 6 7 8 9      a backup of it: incarnation 1, it begins after 5
    lineage        (1, folder B, after 5)

So a start whose folder proves nothing *bids* for the next incarnation, and begins it when every
member has the bid in its folder.  The *lineage* of a region is all the begins that are known, the
newest one last.  From it follows all else:

    a dot 1:7 of incarnation 0      is lost, as incarnation 1 began after 5
    a dot 1:4 of incarnation 0      is what 1:4 is today
    a folder of incarnation 0       is an earlier one: it takes no writes, and has no links

Numbers of incarnations ascend, and a folder is drawn at random for each, so the last begin says
which lineage it is.  Of two the one with the higher last begin stands, and a region with effects
that do not count in it cannot take it (:func:`joined`): two histories that differ never become one.

The number is the time at which the node started that bid, in ms, or one more than the highest that
is known.  So two restores of one backup that know nothing of each other have two numbers.
Incarnation 0 is what a region had before its first begin.

Dots of a region's first incarnation, before which there was nothing, are named without a number, as
most regions never have another one.  That needs to be sure that it is the first: a bid that was
granted and is followed by another one may have begun, and its dots had no number either.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import msgspec

from crdtstream.core.checkpoint.contents import ContentError, packed, unpacked
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import REGION_MAX, Millis, RegionId

FOLDER_BYTES: Final = 16
# A region that is killed each day, and cannot prove its folder, reaches this number in nine months.
# Older ones are kept as one number.
BEGINS_MAX: Final = 256
NUMBER_MAX: Final = 2**63 - 1


class IncarnationError(Exception):
    """Two histories of a region differ; the text says from where on."""


class Begin(NamedTuple):
    """One incarnation of a region.

    Attributes:
        number: ascends within a region.
        folder: random, and drawn for this incarnation only.
        after_n: how many effects of earlier incarnations count.
    """

    number: int
    folder: bytes
    after_n: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The incarnations of one region, as far as they are known.

    Attributes:
        begins: numbers ascend; at most ``BEGINS_MAX``, the newest.
        forgotten_n: the least ``after_n`` of those that are not kept; None: all are kept.
        bid: asked for, and perhaps begun; its number is above all others.
        is_first_unsure: before the first one that is known another one may have begun, whose dots
            were named without a number.
    """

    begins: tuple[Begin, ...] = ()
    forgotten_n: int | None = None
    bid: Begin | None = None
    is_first_unsure: bool = False

    @property
    def number(self) -> int:
        """Number of the newest incarnation."""
        return self.begins[-1].number if self.begins else 0

    @property
    def named(self) -> int:
        """Number by which dots of the newest incarnation are named; 0: by none."""
        is_first = len(self.begins) == 1 and not self.begins[0].after_n
        is_sure = self.forgotten_n is None and not self.is_first_unsure
        return 0 if is_first and is_sure else self.number

    @property
    def highest(self) -> Begin | None:
        """The newest incarnation that has begun, or perhaps has."""
        if self.bid is not None:
            return self.bid
        return self.begins[-1] if self.begins else None

    def next_number(self, started: Millis) -> int:
        """Number of an incarnation that a node which started at ``started`` bids for."""
        highest = 0 if self.highest is None else self.highest.number
        return max(highest + 1, started)

    def counting(self, number: int) -> int | None:
        """Number of an incarnation's effects that still count.

        Args:
            number: at most that of the newest one.

        Returns:
            None: all of them.
        """
        if not number and self.begins and self.is_first_unsure:
            return 0
        if not number and self.forgotten_n is None and self.begins and not self.begins[0].after_n:
            # Before the first one there was nothing: what names none is of the first one.
            number = self.begins[0].number
        later = [begin.after_n for begin in self.begins if begin.number > number]
        if self.begins and number < self.begins[0].number and self.forgotten_n is not None:
            later.append(self.forgotten_n)
        is_kept = self.forgotten_n is None or (self.begins and number > self.begins[0].number)
        if number and is_kept and all(begin.number != number for begin in self.begins):
            # No record says that it began, so nothing that it numbered is anywhere.
            return 0
        return min(later, default=None)

    def begun(self, begin: Begin) -> "Lineage":
        """The lineage once this has begun."""
        assert begin.number > self.number or not self.begins
        bid, is_unsure = _still(self.bid, begin), self._is_unsure_after(begin)
        grown = Lineage((*self.begins, begin), self.forgotten_n, bid, is_unsure)
        return grown.shortened(BEGINS_MAX)

    def shortened(self, count: int) -> "Lineage":
        """The same with the newest ``count`` incarnations; of the others the least number stays."""
        older = [begin.after_n for begin in self.begins[:-count]]
        if not older:
            return self
        if self.forgotten_n is not None:
            older.append(self.forgotten_n)
        return replace(self, begins=self.begins[-count:], forgotten_n=min(older))

    def with_bid(self, bid: Begin) -> "Lineage":
        """The lineage once this was asked for, and granted here."""
        assert not self.begins or bid.number > self.number
        return replace(self, bid=bid, is_first_unsure=self._is_unsure_after(bid))

    def _is_unsure_after(self, begin: Begin) -> bool:
        """True if another incarnation may have begun before the one that follows."""
        bid = self.bid
        may_be_gone = bid is not None and bid != begin and not self.begins and not bid.after_n
        return self.is_first_unsure or may_be_gone


Lineages: TypeAlias = Mapping[RegionId, Lineage]

NO_LINEAGE: Final = Lineage()


def _still(bid: Begin | None, last: Begin | None) -> Begin | None:
    """A bid, if it has not begun, and nothing later has."""
    return None if bid is None or (last is not None and bid.number <= last.number) else bid


def _rank(lineage: Lineage) -> tuple[int, bytes]:
    """Order of lineages: the higher one of two stands."""
    if not lineage.begins:
        return -1, b""
    last = lineage.begins[-1]
    # Two of one number: members that granted the first one have forgotten it.
    return last.number, last.folder


def shared(one: Lineage, other: Lineage) -> int | None:
    """Number up to which two lineages share effects; None: they are the same lineage."""
    if _rank(one) == _rank(other):
        return None
    in_both = set(one.begins) & set(other.begins)
    common = max((begin.number for begin in in_both), default=-1)
    apart = [begin.after_n for begin in (*one.begins, *other.begins) if begin.number > common]
    if not in_both:
        apart += [n for n in (one.forgotten_n, other.forgotten_n) if n is not None]
    return min(apart)


def counted(mine: Lineage, theirs: Lineage) -> int | None:
    """Number of effects of one lineage that count in another one; None: all of them, as far as that
    one is known.

    Args:
        theirs: of a region that runs; if it knows less than ``mine``, nothing has ended yet.
    """
    if not mine.begins:
        return theirs.counting(0)
    return None if set(theirs.begins) <= set(mine.begins) else shared(mine, theirs)


def stretches(lineage: Lineage, above_n: int, upto_n: int) -> Iterator[tuple[int, int, int]]:
    """Effects above a number and up to one, by the incarnation in which each was numbered.

    Returns:
        Number of the incarnation, and above and up to which effect; ascending.
    """
    edges = {begin.after_n for begin in lineage.begins if above_n < begin.after_n < upto_n}
    for above, upto in pairwise(sorted({above_n, upto_n} | edges)):
        numbers = [begin.number for begin in lineage.begins if begin.after_n <= above]
        yield max(numbers, default=0), above, upto


def ends(one: Lineages, other: Lineages) -> dict[RegionId, int]:
    """Number up to which effects are shared, for each region whose lineage differs in the two."""
    found = {}
    for region in sorted(one.keys() | other.keys()):
        count = shared(one.get(region, NO_LINEAGE), other.get(region, NO_LINEAGE))
        if count is not None:
            found[region] = count
    return found


def differ(one: Lineage, one_n: int, other: Lineage, other_n: int) -> int | None:
    """Look whether two regions hold effects of a third one that cannot stand beside each other.

    Args:
        one_n, other_n: number of effects that they have, each by its lineage.

    Returns:
        The number of effects that both may have, if the region whose lineage does not stand has
        more; else None.
    """
    count = shared(one, other)
    if count is None:
        return None
    older_n = one_n if _rank(one) < _rank(other) else other_n
    return count if older_n > count else None


def joined(mine: Lineage, n: int, theirs: Lineage) -> Lineage:
    """Lineage known here once another region has said what it knows.

    Args:
        n: number of effects that are here.

    Raises:
        IncarnationError: some of these do not count in the lineage that stands.
    """
    if _rank(theirs) <= _rank(mine):
        stands = mine
    else:
        count = shared(mine, theirs)
        if count is not None and n > count:
            raise IncarnationError(f"its effects from {count + 1} on were numbered twice")
        stands = theirs
    last = stands.begins[-1] if stands.begins else None
    bid = _still(mine.bid, last)
    other = _still(theirs.bid, last)
    # One that would end effects which are here was never granted here, and so has not begun.
    if other is not None and n <= other.after_n and (bid is None or other.number > bid.number):
        bid = other
    is_unsure = stands.is_first_unsure
    if not stands.begins:
        bids = [one for one in (mine.bid, theirs.bid) if one is not None and one != bid]
        is_unsure = mine.is_first_unsure or theirs.is_first_unsure
        is_unsure |= n == 0 and 0 in [one.after_n for one in bids]
    return replace(stands, bid=bid, is_first_unsure=is_unsure)


def granted(mine: Lineage, n: int, bid: Begin) -> Lineage | None:
    """Lineage known here once a region's bid is granted; None: it is not granted.

    Args:
        n: number of the region's effects that are here; none of them may end.
    """
    if bid == mine.bid or (mine.begins and bid == mine.begins[-1]):
        return mine
    highest = mine.highest
    if n > bid.after_n or (highest is not None and bid.number <= highest.number):
        return None
    return mine.with_bid(bid)


# --- Dots that left their region ------------------------------------------------------------------


class Marked(NamedTuple):
    """Number of a region's effects that a reader has had, in one of its incarnations."""

    n: int
    number: int


def marked_by(lineages: Lineages, vv: VersionVector) -> dict[RegionId, Marked]:
    """A version vector that may leave this region."""
    return {region: Marked(n, lineages.get(region, NO_LINEAGE).named) for region, n in vv.items()}


def lost(lineages: Lineages, marked: Mapping[RegionId, Marked]) -> dict[RegionId, int]:
    """First effect, by region, that a reader has had and that no region has any more."""
    found = {}
    for region, (n, number) in sorted(marked.items()):
        lineage = lineages.get(region)
        if lineage is None or number > lineage.number:
            continue
        count = lineage.counting(number)
        if count is not None and n > count:
            found[region] = count + 1
    return found


def unheard(lineages: Lineages, marked: Mapping[RegionId, Marked]) -> set[RegionId]:
    """Regions whose named incarnation is not known here yet: its dots mean nothing here."""
    return {
        region
        for region, (_, number) in marked.items()
        if number > lineages.get(region, NO_LINEAGE).number
    }


# --- As bytes -------------------------------------------------------------------------------------


class _LineageContent(msgspec.Struct, array_like=True, frozen=True):
    region: RegionId
    begins: list[Begin]
    forgotten_n: int | None
    bid: Begin | None
    is_first_unsure: bool = False


class _SaidContent(msgspec.Struct, array_like=True, frozen=True):
    own: Begin | None
    lineages: list[_LineageContent]
    successor: Begin | None = None


@dataclass(frozen=True, slots=True)
class Incarnations:
    """Incarnations of all regions, as a folder keeps them and as they are sent to peers.

    Attributes:
        own: the one that this folder began, and is of; None: it has begun none.
        lineages: of all regions, as far as known.
        successor: the folder in which the region goes on, instead of this one.
    """

    own: Begin | None = None
    lineages: Lineages = field(default_factory=dict)
    successor: Begin | None = None


NO_INCARNATIONS: Final = Incarnations()


def encode_incarnations(one: Incarnations) -> bytes:
    """Bytes of them; equal ones give equal bytes."""
    lineages = [
        _LineageContent(
            region,
            list(lineage.begins),
            lineage.forgotten_n,
            lineage.bid,
            lineage.is_first_unsure,
        )
        for region, lineage in sorted(one.lineages.items())
    ]
    return packed(_SaidContent(one.own, lineages, one.successor))


def decode_incarnations(data: bytes) -> Incarnations:
    """The inverse.

    Raises:
        ContentError: no incarnations can be so; the text says why.
    """
    content = unpacked(data, _SaidContent)
    lineages = {one.region: _lineage(one) for one in content.lineages}
    if len(lineages) != len(content.lineages):
        raise ContentError("incarnations: a region stands there twice")
    for begin in (content.own, content.successor):
        if begin is not None:
            check_begin(begin)
    return Incarnations(content.own, lineages, content.successor)


def incarnations_of(text: str) -> Incarnations:
    """Decode the incarnations that a folder keeps in hexadecimal.

    Raises:
        ValueError: it is damaged.
    """
    return decode_incarnations(bytes.fromhex(text))


def _lineage(content: _LineageContent) -> Lineage:
    begins = tuple(content.begins)
    wrong = (
        not 1 <= content.region <= REGION_MAX
        or len(begins) > BEGINS_MAX
        or not all(a.number < b.number for a, b in pairwise(begins))
        or (content.forgotten_n is not None and not 0 <= content.forgotten_n <= NUMBER_MAX)
        or (content.bid is not None and begins and content.bid.number <= begins[-1].number)
    )
    if wrong:
        raise ContentError(f"incarnations: those of region {content.region} cannot be so")
    for begin in begins if content.bid is None else (*begins, content.bid):
        check_begin(begin)
    return Lineage(begins, content.forgotten_n, content.bid, content.is_first_unsure)


def check_begin(begin: Begin) -> None:
    """
    Raises:
        ContentError: no incarnation can begin so.
    """
    is_right = (
        len(begin.folder) == FOLDER_BYTES
        and 0 <= begin.number <= NUMBER_MAX
        and 0 <= begin.after_n <= NUMBER_MAX
    )
    if not is_right:
        raise ContentError(f"incarnations: none can be {begin}")
