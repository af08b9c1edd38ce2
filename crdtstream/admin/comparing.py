"""Finds where two regions differ: walks down the digests of both, and proves each difference.

    members, 256 buckets ─> keys of unequal buckets ─> parts of unequal keys ─> stretches of dots
    of an unequal lane ─> entries

Regions go on taking writes, so an inequality may be an effect on its way.  Two samples of each
region decide.  They are taken in turns, each when its region has applied all effects that the
sample before has shown.  A difference that both pairs show alike is not caused by effects on their
way (``core/comparing.py`` has the proof).  A difference that keeps changing is sampled again until
the time has expired, and then is *undecided*.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import combinations, pairwise
from typing import Final, Protocol, TypeAlias

from crdtstream.admin.client import vv_of
from crdtstream.core.clock import VersionVector, missing
from crdtstream.core.comparing import BUCKETS, PartKind
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.blocks import BLOCK_BITS
from crdtstream.core.wire.codec import encode_vv
from crdtstream.v1 import admin_pb2 as pb

# Keys of one region that are held in memory here at a time, or those of a bucket.
KEYS_AT_ONCE: Final = 100_000
# A lane is divided by this at each level.
STRETCHES: Final = 256
STRETCH_BITS: Final = 8
# Longest time for a region to apply what another one has shown.
WAIT_MS: Final = 2_000
PAUSE_SECONDS: Final = 0.05
# Kind, group, lane.
PartKey: TypeAlias = tuple[PartKind, bytes, int]


class Side(Protocol):
    """A region that answers with digests: an ``AdminClient``."""

    def digests(self, request: pb.DigestsRequest) -> Iterator[pb.DigestsReply]:
        """The pages of an answer.

        Raises:
            AdminError: it refused, or does not answer.
        """


class Verdict(Enum):
    """Result of the comparison of two regions, or of a part in both."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class EntryFound:
    """An entry as one region has it."""

    id: str
    fields_bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference of a part that two regions have.

    Attributes:
        key: empty of the members.
        part: its kind; lane and group are 0 and empty where it has none.
        stretch: of a lane the dot numbers of the block that differs, the first and the last.
        n: of a lane the dot number of the first entry that differs.
        left, right: of an entry what each side has.
        verdict: says if it is proved.
    """

    key: bytes
    part: PartKind
    lane: int
    group: bytes
    verdict: Verdict
    stretch: tuple[int, int] | None = None
    n: int = 0
    left: EntryFound | None = None
    right: EntryFound | None = None


@dataclass(slots=True)
class Pair:
    """Two regions, compared.

    Attributes:
        keys: how many keys the left one has.
        keys_left_out: how many keys looked unequal and were not looked into, as enough differences
            were found, or as there was an obstacle.
        differences: of the keys that were looked into, in the order of SCAN.
        obstacle: why the two cannot be compared now; empty if they can.
    """

    left: RegionId
    right: RegionId
    keys: int = 0
    keys_left_out: int = 0
    differences: list[Difference] = field(default_factory=list)
    obstacle: str = ""

    @property
    def keys_different(self) -> set[bytes]:
        """The keys that are proved unequal; the members are among them as an empty one."""
        return {one.key for one in self.differences if one.verdict is Verdict.DIFFERENT}

    @property
    def verdict(self) -> Verdict:
        verdicts = {one.verdict for one in self.differences}
        if Verdict.DIFFERENT in verdicts:
            return Verdict.DIFFERENT
        return Verdict.UNDECIDED if verdicts or self.keys_left_out else Verdict.EQUAL


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer of one region: its items, and what it had applied when the last one was made."""

    items: Sequence[pb.DigestItem]
    vv: VersionVector
    is_behind: bool


def sample(side: Side, request: pb.DigestsRequest, at_least: VersionVector) -> Sample:
    """Ask a region, once it has applied ``at_least``; a page says so if it does not in time.

    Raises:
        AdminError: it refused, or does not answer.
    """
    asked = pb.DigestsRequest()
    asked.CopyFrom(request)
    asked.at_least.CopyFrom(encode_vv(at_least))
    asked.wait_ms = WAIT_MS
    items: list[pb.DigestItem] = []
    vv: VersionVector = {}
    is_behind = False
    for page in side.digests(asked):
        items += page.items
        vv, is_behind = vv_of(page.vv), page.is_behind
    return Sample(items, vv, is_behind)


class BehindError(Exception):
    """A region does not get what another one shows; the text says which, and how much."""


class Comparing:
    """Compares all regions with each other.

    Args:
        sides: by region whom to ask; two at least.
        differences_max: how many keys of a pair are looked into, once they are proved unequal.
        seconds: for how long a difference that keeps changing is looked at again, of each key.
        key: compare only this one.
    """

    def __init__(
        self,
        sides: Mapping[RegionId, Side],
        *,
        differences_max: int,
        seconds: float,
        key: bytes | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sides = dict(sorted(sides.items()))
        self._differences_max = differences_max
        self._seconds = seconds
        self._key = key
        self._clock = clock
        self._sleep = sleep

    def pairs(self) -> list[Pair]:
        """Every two regions, compared.

        Raises:
            AdminError: a region refused, or does not answer any more.
        """
        pairs = [Pair(left, right) for left, right in combinations(self._sides, 2)]
        if self._key is not None:
            for pair in pairs:
                pair.keys = 1
                self._look_into(pair, self._key)
            return pairs
        request = pb.DigestsRequest(buckets=pb.BucketsOf())
        asked = {region: sample(side, request, {}) for region, side in self._sides.items()}
        buckets = {region: _buckets(one) for region, one in asked.items()}
        for pair in pairs:
            pair.keys = sum(item.size for item in buckets[pair.left])
            if _members(asked[pair.left]) != _members(asked[pair.right]):
                self._judge(pair, b"", pb.DigestsRequest(parts=pb.PartsOf()))
        self._compare_keys(pairs, buckets)
        return pairs

    # --- Keys ---------------------------------------------------------------------------------

    def _compare_keys(
        self, pairs: Sequence[Pair], buckets: Mapping[RegionId, Sequence[pb.DigestItem]]
    ) -> None:
        sizes = {
            number: max(found[number].size for found in buckets.values())
            for number in range(BUCKETS)
            if len({found[number].digest for found in buckets.values()}) > 1
        }
        for first, last in _gathered(sizes):
            request = pb.DigestsRequest(keys=pb.KeysOf(first=first, last=last))
            keys = {
                region: {item.name: item.digest for item in sample(side, request, {}).items}
                for region, side in self._sides.items()
            }
            for pair in pairs:
                left, right = keys[pair.left], keys[pair.right]
                for key in dict.fromkeys([*left, *right]):
                    if left.get(key) != right.get(key):
                        self._look_into(pair, key)

    def _look_into(self, pair: Pair, key: bytes) -> None:
        if pair.obstacle or len(pair.keys_different) >= self._differences_max:
            pair.keys_left_out += 1
            return
        self._judge(pair, key, pb.DigestsRequest(parts=pb.PartsOf(key=key)))

    # --- Parts --------------------------------------------------------------------------------

    def _judge(self, pair: Pair, key: bytes, request: pb.DigestsRequest) -> None:
        """Find out which parts differ, and note it."""
        try:
            pair.differences += self._differences(pair, key, request)
        except BehindError as error:
            pair.obstacle = str(error)
            pair.keys_left_out += 1

    def _differences(self, pair: Pair, key: bytes, request: pb.DigestsRequest) -> list[Difference]:
        """
        Raises:
            BehindError: a region does not get what the other one shows.
        """
        deadline = self._clock() + self._seconds
        chain = Chain(self._sides, pair)
        found: dict[PartKey, Difference] = {}
        settled: set[PartKey] = set()
        while True:
            parts = [_parts(one) for one in chain.more(request)]
            names = {name for part in parts for name in part}
            for name in sorted(names - settled - found.keys()):
                kind, group, lane = name
                told = Difference(key, kind, lane, group, Verdict.DIFFERENT)
                items = [part.get(name) for part in parts]
                verdict = _verdict_of(kind, items)
                if verdict is not Verdict.EQUAL and kind is PartKind.LANE:
                    last_n = max(item.last_n for item in items if item is not None)
                    in_lane = self._in_lane(pair, told, last_n, deadline)
                    if in_lane is not None:
                        found[name] = in_lane
                    elif verdict is Verdict.DIFFERENT:
                        # The stored digests of its macro nodes are wrong, and the entries are not.
                        found[name] = told
                    else:
                        settled.add(name)
                elif verdict is Verdict.EQUAL:
                    settled.add(name)
                elif verdict is Verdict.DIFFERENT:
                    found[name] = told
            still = sorted(names - settled - found.keys())
            if not still or self._clock() >= deadline:
                break
            self._sleep(PAUSE_SECONDS)
        for name in still:
            kind, group, lane = name
            found[name] = Difference(key, kind, lane, group, Verdict.UNDECIDED)
        return [found[name] for name in sorted(found)]

    # --- Lanes --------------------------------------------------------------------------------

    def _in_lane(
        self, pair: Pair, told: Difference, last_n: int, deadline: float
    ) -> Difference | None:
        """The first entry of a lane that is proved to differ; None: there is none.

        Raises:
            BehindError: a region does not get what the other one shows.
        """
        bits = STRETCH_BITS
        while last_n >> bits >= STRETCHES:
            bits += STRETCH_BITS
        while True:
            found = self._in_stretches(pair, told, bits, 0)
            if found is None or found.verdict is Verdict.DIFFERENT:
                return found
            if self._clock() >= deadline:
                return found
            self._sleep(PAUSE_SECONDS)

    def _in_stretches(
        self, pair: Pair, told: Difference, bits: int, first: int
    ) -> Difference | None:
        """Of 256 stretches the first entry that differs; an undecided one if none is proved to."""
        of = pb.StretchesOf(key=told.key, origin=told.lane, first=first, count=STRETCHES, bits=bits)
        request = pb.DigestsRequest(stretches=of)
        left, right = Chain(self._sides, pair).two(request)
        here = {item.number: item.digest for item in left.items}
        there = {item.number: item.digest for item in right.items}
        undecided = None
        for number in sorted(here.keys() | there.keys()):
            if here.get(number) == there.get(number):
                continue
            found = (
                self._in_block(pair, told, number)
                if bits == BLOCK_BITS
                else self._in_stretches(pair, told, bits - STRETCH_BITS, number << STRETCH_BITS)
            )
            if found is not None and found.verdict is Verdict.DIFFERENT:
                return found
            undecided = undecided or found
        return undecided

    def _in_block(self, pair: Pair, told: Difference, block: int) -> Difference | None:
        of = pb.EntriesOf(key=told.key, origin=told.lane, block=block)
        samples = Chain(self._sides, pair).more(pb.DigestsRequest(entries=of))
        found = [{item.number: item for item in one.items} for one in samples]
        stretch = block << BLOCK_BITS, ((block + 1) << BLOCK_BITS) - 1
        undecided = None
        for n in sorted({n for entries in found for n in entries}):
            items = [entries.get(n) for entries in found]
            verdict = verdict_of([None if item is None else item.digest for item in items])
            if verdict is Verdict.EQUAL:
                continue
            one = replace(
                told,
                verdict=verdict,
                stretch=stretch,
                n=n,
                left=_entry(items[0]),
                right=_entry(items[1]),
            )
            if verdict is Verdict.DIFFERENT:
                return one
            undecided = undecided or one
        return undecided


class Chain:
    """Samples of two regions in turns: one is taken when all is applied that the last one shows."""

    def __init__(self, sides: Mapping[RegionId, Side], pair: Pair) -> None:
        self._sides = sides
        self._pair = pair
        self._vv: VersionVector = {}

    def two(self, request: pb.DigestsRequest) -> tuple[Sample, Sample]:
        """One of the left region, then one of the right one.

        Raises:
            AdminError: a region refused, or does not answer.
            BehindError: one does not get what the other one shows.
        """
        return self._next(request, self._pair.left), self._next(request, self._pair.right)

    def more(self, request: pb.DigestsRequest) -> list[Sample]:
        """Two of each, the left region first: as many as prove a difference."""
        return [*self.two(request), *self.two(request)]

    def _next(self, request: pb.DigestsRequest, region: RegionId) -> Sample:
        found = sample(self._sides[region], request, self._vv)
        if found.is_behind:
            lacks = missing(found.vv, self._vv)
            raise BehindError(
                f"region {region} has not applied {lacks} effects that another region shows, for"
                f" {WAIT_MS / 1000:g} s: see `crdtstream status`, and compare again when its links"
                " are up"
            )
        self._vv = found.vv
        return found


def verdict_of(digests: Sequence[bytes | None]) -> Verdict:
    """Decide about one fact, or facts that have dots, by samples of left and right in turns.

    Two neighbours that are alike were equal.  Left, right, left, right with the lefts alike and the
    rights alike is no effect on its way.

    Args:
        digests: None: the fact does not exist there.
    """
    if any(one == other for one, other in pairwise(digests)):
        return Verdict.EQUAL
    is_still = all(digests[at] == digests[at % 2] for at in range(len(digests)))
    return Verdict.DIFFERENT if is_still else Verdict.UNDECIDED


def _verdict_of(kind: PartKind, items: Sequence[pb.DigestItem | None]) -> Verdict:
    verdict = verdict_of([None if item is None else item.digest for item in items])
    if verdict is not Verdict.UNDECIDED:
        return verdict
    if kind is PartKind.LAST_ID and any(
        one is not None and other is not None and one.last_n == other.last_n
        for one, other in pairwise(items)
    ):
        # One effect has set both.
        return Verdict.DIFFERENT
    if kind is PartKind.LAST_ID or (
        kind is PartKind.ACKED and all(item is None or item.size == 1 for item in items)
    ):
        # It only grows, so each sample has at least what the last one had.
        grown = [(item.last_n, item.ms, item.seq) for item in items if item is not None]
        if len(grown) == len(items) and grown == sorted(grown):
            return Verdict.EQUAL
    return verdict


def _gathered(sizes: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Neighbouring buckets, the first and the last, with no more keys than are held at a time."""
    run: list[int] = []
    keys = 0
    for number, size in sorted(sizes.items()):
        if run and (number != run[-1] + 1 or keys + size > KEYS_AT_ONCE):
            yield run[0], run[-1]
            run, keys = [], 0
        run.append(number)
        keys += size
    if run:
        yield run[0], run[-1]


def _buckets(found: Sample) -> list[pb.DigestItem]:
    return [item for item in found.items if not item.kind]


def _members(found: Sample) -> dict[PartKey, pb.DigestItem]:
    return _parts(Sample([item for item in found.items if item.kind], found.vv, found.is_behind))


def _parts(found: Sample) -> dict[PartKey, pb.DigestItem]:
    return {(PartKind(item.kind), item.name, item.origin): item for item in found.items}


def _entry(item: pb.DigestItem | None) -> EntryFound | None:
    return None if item is None else EntryFound(f"{item.ms}-{item.seq}", item.size)
