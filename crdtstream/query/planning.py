"""Cutting what lies between two version vectors into ranges of dots.

A long stream takes a while to count.  So the work here is done in small steps: the generators yield
between them, and their caller lets other tasks run.  Lanes grow and shrink between two steps; the
bounds stay right, as they are dots, and only the counts become outdated.
"""

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from crdtstream.commands.glob import compile_glob
from crdtstream.core.clock import MutableVersionVector, VersionVector, join
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId
from crdtstream.core.lanes.bulk_reading import dot_numbers, ends
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.slices import Within
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size

# Numbers of each in one step, which takes from a fraction of a millisecond to a few.
STEP_CUTS: Final = Size(500, least=1)
STEP_KEYS: Final = Size(200, least=1)
STEP_RANGES: Final = Size(500, least=1)
_GLOB_SIGNS: Final = frozenset(b"*?[\\")

# A step yields nothing, to let other tasks run, or the numbers of images of entries that it needs
# from disk before it goes on.
Needs: TypeAlias = Sequence[int]
NOTHING: Final[Needs] = ()
Steps: TypeAlias = Generator[Needs, None, None]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a read: keys, dots, origins and IDs.

    Attributes:
        keys: ascending.
        above, upto: dots in between; an origin that is not in ``upto`` has none.
        origins: only these; empty: all.
    """

    keys: list[bytes]
    above: VersionVector
    upto: VersionVector
    origins: frozenset[RegionId]
    start: StreamId = ID_MIN
    end: StreamId = ID_MAX

    def within(self, origin: RegionId) -> Within | None:
        """Bounds within an origin's lane; None if no entry can be within them."""
        above_n, upto_n = self.above.get(origin, 0), self.upto.get(origin, 0)
        if upto_n <= above_n or (self.origins and origin not in self.origins):
            return None
        return Within(above_n, upto_n, self.start, self.end)


@dataclass(slots=True)
class LaneCount:
    """Counts of entries up to certain dots of a lane.

    Attributes:
        last_ns: ascending; dot numbers at which the lane is cut cheaply (``reading.ends``).
        counts: entries up to and including that one.
    """

    key: bytes
    origin: RegionId
    last_ns: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.counts[-1] if self.counts else 0

    def whole_upto(self, n: int) -> tuple[int, int]:
        """The highest of ``last_ns`` up to ``n``, 0 if there is none, and the entries up to it."""
        at = bisect_right(self.last_ns, n)
        return (self.last_ns[at - 1], self.counts[at - 1]) if at else (0, 0)


class Range(NamedTuple):
    """Entries of one lane with dot numbers in (above_n, upto_n]; how many, when it was counted."""

    key: bytes
    origin: RegionId
    above_n: int
    upto_n: int
    entries: int


class _Patterns:
    """Names and patterns as KEYS takes them; none matches every key.

    Attributes:
        names: patterns without a sign of a pattern in them.
        globs: the others.
        step_keys: how many keys are compared with them in one step.
    """

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self.names = {one for one in patterns if not _GLOB_SIGNS & frozenset(one)}
        self.globs = [compile_glob(one) for one in patterns if one not in self.names]
        self.step_keys = max(1, STEP_KEYS.value // max(1, len(self.globs)))
        self._all = not patterns

    def match(self, key: bytes) -> bool:
        return self._all or key in self.names or any(matches(key) for matches in self.globs)


def matching_keys(replica: Replica, patterns: Sequence[bytes], into: list[bytes]) -> Steps:
    """Put the streams that match one of the patterns into a list, ascending; no pattern: all."""
    wanted = _Patterns(patterns)
    if patterns and not wanted.globs:
        into += sorted(key for key in wanted.names if replica.keys.held_stream(key) is not None)
        return
    runs: list[list[bytes]] = []
    cursor = 0
    while True:
        cursor, keys = replica.keys.scan_held(cursor, wanted.step_keys)
        streams = [key for key in keys if replica.keys.held_stream(key) is not None]
        runs.append(sorted(filter(wanted.match, streams)))
        if not cursor:
            break
        yield NOTHING
    ordered = heapq.merge(*runs)
    while some := list(islice(ordered, STEP_KEYS.value)):
        into += some
        yield NOTHING


class Loss(NamedTuple):
    """Of a lane the highest dot number that a trim or a DEL removed."""

    key: bytes
    origin: RegionId
    lost_n: int


def count(replica: Replica, bounds: Bounds, into: list[LaneCount]) -> Steps:
    """Count the entries of every lane within the bounds; lanes without any are left out."""
    for at, key in enumerate(bounds.keys):
        if at % STEP_KEYS.value == STEP_KEYS.value - 1:
            yield NOTHING
        stream = replica.keys.held_stream(key)
        for origin in [] if stream is None else sorted(stream.lanes):
            within = bounds.within(origin)
            if within is not None:
                lane_count = LaneCount(key, origin)
                yield from _count_lane(replica, within, lane_count)
                if lane_count.total:
                    into.append(lane_count)


def _count_lane(replica: Replica, within: Within, into: LaneCount) -> Steps:
    while True:
        # In each step again: since the last one the stream may have gone.
        lane = _lane(replica, into.key, into.origin)
        try:
            found = [] if lane is None else ends(lane, within, nodes_max=STEP_CUTS.value)
        except ColdError as error:
            yield error.images
            continue
        total = into.total
        for last_n, entries in found:
            total += entries
            into.last_ns.append(last_n)
            into.counts.append(total)
        if len(found) < STEP_CUTS.value:
            return
        within = Within(into.last_ns[-1], within.upto_n, within.start, within.end)
        yield NOTHING


def _lane(replica: Replica, key: bytes, origin: RegionId) -> Lane | None:
    stream = replica.keys.held_stream(key)
    return None if stream is None else stream.lanes.get(origin)


def end_after(
    replica: Replica,
    bounds: Bounds,
    counts: Iterable[LaneCount],
    *,
    entries_max: int,
    into: MutableVersionVector,
) -> Steps:
    """The version vector up to which there are ``entries_max`` entries; all if there are fewer.

    Every origin gets its share, in proportion to what it has, so that none is left behind.
    """
    join(into, bounds.above)
    join(into, bounds.upto)
    by_origin: dict[RegionId, list[LaneCount]] = {}
    for one in counts:
        by_origin.setdefault(one.origin, []).append(one)
    totals = {origin: sum(lane.total for lane in lanes) for origin, lanes in by_origin.items()}
    if sum(totals.values()) <= entries_max:
        return
    for origin, share in _shares(totals, entries_max).items():
        end = yield from _end_of_share(replica, bounds, by_origin[origin], share)
        if end:
            into[origin] = end
        else:
            del into[origin]


def _shares(totals: Mapping[RegionId, int], entries_max: int) -> dict[RegionId, int]:
    """``entries_max`` shared in proportion; the rest is added where the remainders are largest."""
    total = sum(totals.values())
    shares = {origin: entries_max * one // total for origin, one in totals.items()}
    by_rest = sorted(totals, key=lambda origin: (-(entries_max * totals[origin] % total), origin))
    for origin in by_rest[: entries_max - sum(shares.values())]:
        shares[origin] += 1
    # An origin that has little gets something, too, while another one can do with less.
    for origin in [origin for origin, share in sorted(shares.items()) if not share]:
        richest = max(shares, key=lambda one: shares[one])
        if shares[richest] > 1:
            shares[richest] -= 1
            shares[origin] = 1
    return shares


def _end_of_share(
    replica: Replica, bounds: Bounds, lanes: list[LaneCount], share: int
) -> Generator[Needs, None, int]:
    """The dot number up to which the lanes of one origin have ``share`` entries together."""
    origin = lanes[0].origin
    # Between two of these each lane has a part of one macro node at most.
    cuts = sorted({n for lane in lanes for n in lane.last_ns})
    low, high = 0, len(cuts)
    while low < high:
        middle = (low + high) // 2
        if (yield from _entries_upto(replica, bounds, lanes, cuts[middle])) <= share:
            low = middle + 1
        else:
            high = middle
    if low == len(cuts):
        return bounds.upto[origin]
    below = cuts[low - 1] if low else bounds.above.get(origin, 0)
    left = share - (yield from _entries_upto(replica, bounds, lanes, below))
    behind: list[int] = []
    for at, lane in enumerate(lanes):
        if at % STEP_KEYS.value == STEP_KEYS.value - 1:
            yield NOTHING
        behind += yield from _ns(replica, bounds, lane, below, cuts[low])
    behind.sort()
    # Something may have been removed since it was counted.
    return behind[left] - 1 if 0 <= left < len(behind) else cuts[low]


def _entries_upto(
    replica: Replica, bounds: Bounds, lanes: list[LaneCount], n: int
) -> Generator[Needs, None, int]:
    entries = 0
    for at, lane in enumerate(lanes):
        if at % STEP_KEYS.value == STEP_KEYS.value - 1:
            yield NOTHING
        whole_n, whole = lane.whole_upto(n)
        entries += whole + len((yield from _ns(replica, bounds, lane, whole_n, n)))
    return entries


def _ns(
    replica: Replica, bounds: Bounds, lane: LaneCount, above_n: int, upto_n: int
) -> "Generator[Needs, None, array[int]]":
    """The dot numbers of a lane's entries within the bounds and in (above_n, upto_n]."""
    above_n = max(above_n, bounds.above.get(lane.origin, 0))
    while True:
        found = _lane(replica, lane.key, lane.origin)
        if found is None or upto_n <= above_n:
            return array("Q")
        try:
            return dot_numbers(found, Within(above_n, upto_n, bounds.start, bounds.end))
        except ColdError as error:
            yield error.images


def cut(
    counts: Iterable[LaneCount], bounds: Bounds, *, range_entries: int, into: list[Range]
) -> Steps:
    """Cut the counted lanes into ranges of about ``range_entries`` entries (0: not at all).

    A range ends where the lane is cut cheaply, so it may have some more; none is empty.
    """
    for lane in counts:
        above_n, upto_n = bounds.above.get(lane.origin, 0), bounds.upto[lane.origin]
        wanted = -(-lane.total // range_entries) if range_entries else 1
        parts = min(wanted, len(lane.counts))
        taken = 0
        for part in range(1, parts + 1):
            at = bisect_left(lane.counts, lane.total * part // parts)
            end_n = upto_n if part == parts else lane.last_ns[at]
            if lane.counts[at] > taken:
                into.append(Range(lane.key, lane.origin, above_n, end_n, lane.counts[at] - taken))
                above_n, taken = end_n, lane.counts[at]
            if len(into) % STEP_RANGES.value == STEP_RANGES.value - 1:
                yield NOTHING


def collect_losses(
    replica: Replica, bounds: Bounds, patterns: Sequence[bytes], *, into: list[Loss]
) -> Steps:
    """Collect losses beyond ``above``, also of streams that no longer exist."""
    wanted = _Patterns(patterns)
    gone: list[bytes] = []
    for at, key in enumerate(replica.keys.gone()):
        if at % wanted.step_keys == wanted.step_keys - 1:
            yield NOTHING
        if wanted.match(key):
            gone.append(key)
    for at, key in enumerate(heapq.merge(bounds.keys, gone)):
        if at % STEP_KEYS.value == STEP_KEYS.value - 1:
            yield NOTHING
        for origin, lost_n in sorted(replica.keys.lost(key).items()):
            asked = not bounds.origins or origin in bounds.origins
            if asked and lost_n > bounds.above.get(origin, 0):
                into.append(Loss(key, origin, lost_n))
