"""Digests of ever smaller parts, which two regions compare to find where they differ.

    database ─> 256 buckets of keys ─> key ─> part ─> (of a lane) stretch of dots ─> entry

A digest is made in steps, while the state goes on changing.  So it belongs to no single version
vector: each fact is read once, between the vector of the first step and that of the last.  That is
enough: every fact in a digest has a dot, or only grows, and one that is gone never returns.  Along
ascending vectors a fact is absent, then present, then absent:

    sample       at region 1   then at 2   then at 1   then at 2     each covers what came before
    fact         0/1           ...                                   0…0 1…1 0…0 and nothing else

So digests X, Y, X, Y with X unlike Y cannot be caused by effects that are still on their way: the
regions differ.  Equal digests mean equal facts, whatever the vectors.  (``crdtstream crdb verify``
decides by this.)

Entries that are on disk only are read only if the sums in the heads of their macro nodes are not
enough: where a stretch ends within a node, or a block of entries is in two nodes.

Buckets are the first eight bits of a key's CRC-32: keys of a bucket are neighbours in the order in
which SCAN walks them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from enum import IntEnum
from hashlib import blake2b
from heapq import merge
from typing import Final, NamedTuple
from zlib import crc32

from crdtstream.core.groups.group import Group
from crdtstream.core.ids import ID_MIN, U64_MAX, RegionId, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.keyspace.keys import Keys
from crdtstream.core.lanes.blocks import (
    DIGEST_MASK,
    Piece,
    block_of,
    digest_of_block,
    digest_of_entry,
    digest_of_long,
    long_pieces,
    short_pieces,
)
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.slices import Slice, Within
from crdtstream.core.membership.members import Members
from crdtstream.core.size import Size
from crdtstream.core.whole.digest import (
    bytes_of_acked_lane,
    bytes_of_config,
    bytes_of_creates,
    bytes_of_expiry,
    bytes_of_interval,
    bytes_of_last_id,
    bytes_of_members,
    bytes_of_mode,
    bytes_of_string,
)

DIGEST_BYTES: Final = 16
BUCKETS: Final = 256
_BUCKET_SHIFT: Final = 24
_KEYS_END: Final = BUCKETS << _BUCKET_SHIFT
# Keys without stream and string are sorted in 65,536 slots, each when the walk reaches it.
_SLOT_SHIFT: Final = 16
# Keys that are taken from the order at a time.
KEYS_AT_ONCE: Final = Size(64, least=1)
# Acknowledged intervals hashed in one step.
INTERVALS_AT_ONCE: Final = Size(256, least=1)
# Macro nodes looked at in one step: more than the 256 in which a block of entries can lie.
NODES_AT_ONCE: Final = Size(600, least=300)
NO_BLOCK: Final = -1
NO_REGION: Final = RegionId(0)


class PartKind(IntEnum):
    """Kinds of parts of a key, or of the database, in the order in which they are reported."""

    MEMBERS = 1
    LANE = 2
    LAST_ID = 3
    CREATES = 4
    MODE = 5
    ACKED = 6
    EXPIRY = 7
    CONFIG = 8
    STRING = 9


class PartName(NamedTuple):
    """Name of a part.

    Attributes:
        group: its group; empty if it belongs to none.
        lane: its origin; 0 if it belongs to none.
    """

    kind: PartKind
    group: bytes
    lane: RegionId


class PartSum(NamedTuple):
    """A part with its digest.

    Attributes:
        size: of a lane how many entries it has, of what is acknowledged how many intervals.
        last_n: of a lane the dot number of its last entry, of a last-ID register its own.
        last_id: of a last-ID register the ID, of what is acknowledged the end of the last interval.
    """

    name: PartName
    digest: bytes
    size: int = 0
    last_n: int = 0
    last_id: StreamId = ID_MIN


class EntrySum(NamedTuple):
    """An entry: its dot number, its ID, how many bytes its fields take, and a digest of all that is
    replicated of it."""

    n: int
    id: StreamId
    fields_bytes: int
    digest: bytes


def bucket_of(key: bytes) -> int:
    return crc32(key) >> _BUCKET_SHIFT


def digest_of_members(members: Members) -> bytes:
    """Digest of the members of a database, and of their history."""
    return _hash(bytes_of_members(members))


class LaneSum:
    """The sum over the blocks of a lane, or of a stretch of it, made in steps.

    A stretch begins and ends between two blocks.

    Attributes:
        entries: how many were counted.
        total: the sum of their blocks' digests, as in ``lanes/blocks.py``.
    """

    __slots__ = ("_above_n", "_upto_n", "entries", "total")

    def __init__(self, above_n: int = 0, upto_n: int = U64_MAX) -> None:
        # Everything up to here is counted, and no block continues behind it.
        self._above_n = above_n
        self._upto_n = upto_n
        self.entries = 0
        self.total = 0

    def go_on(self, lane: Lane, is_over: Callable[[], bool]) -> bool:
        """Count until the turn ends, and at least one block; True if all is counted.

        Raises:
            ColdError: entries are needed that are on disk only; nothing of this step is counted.
        """
        within = Within(self._above_n, self._upto_n)
        slices = lane.slices(within, entries_max=U64_MAX, nodes_max=NODES_AT_ONCE.value)
        step = _Step(self._above_n)
        for slice_ in slices:
            step.count(slice_)
            if step.above_n > self._above_n and is_over():
                break
        else:
            if len(slices) < NODES_AT_ONCE.value:
                step.end()
                self._add(step)
                return True
        assert step.above_n > self._above_n, "a block has no more macro nodes than entries"
        self._add(step)
        return False

    def _add(self, step: "_Step") -> None:
        self.total = (self.total + step.total) & DIGEST_MASK
        self.entries += step.entries
        self._above_n = step.above_n

    @property
    def digest(self) -> bytes:
        return self.total.to_bytes(DIGEST_BYTES, "little")


class _Step:
    """Sums of one step: whole blocks, and everything up to ``above_n``.

    The last block may continue in the next macro node.  Then it is open, and what is held since it
    began is counted when it ends.  A step that ends earlier leaves that to the next one.
    """

    __slots__ = (
        "_block",
        "_held",
        "_held_entries",
        "_last_n",
        "_pieces",
        "above_n",
        "entries",
        "total",
    )

    def __init__(self, above_n: int) -> None:
        self.above_n = above_n
        self.total = 0
        self.entries = 0
        self._last_n = above_n
        self._block = NO_BLOCK
        self._pieces: list[Piece] = []
        self._held = 0
        self._held_entries = 0

    def count(self, slice_: Slice) -> None:
        node, start, stop = slice_
        first_n, last_n = node.short_ends()
        is_whole = stop - start == len(node)
        if is_whole and not first_n:
            self._hold(node.own_digest(), len(node))
        elif is_whole and block_of(first_n) != self._block and not _goes_on(node, last_n):
            self._close(self._last_n)
            self._hold(node.own_digest(), len(node))
        else:
            self._count_pieces(node, start, stop)
        self._last_n = node.last_n if is_whole else node.n[stop - 1]
        if self._block == NO_BLOCK:
            self._close(self._last_n)

    def _count_pieces(self, node: MacroNode, start: int, stop: int) -> None:
        columns = node.columns
        low, high = columns.n[start], columns.n[stop - 1]
        # In the order of their first dots; no block crosses an end of the slice.
        found = [(_first_n(piece), block, piece) for block, piece in short_pieces(columns)]
        found += [(n, NO_BLOCK, piece) for n, piece in long_pieces(columns)]
        found.sort(key=lambda one: one[0])
        for n, block, piece in found:
            if not low <= n <= high:
                continue
            if block == NO_BLOCK:
                self._hold(digest_of_long(piece), piece.entries)
                continue
            if block != self._block:
                self._close(max(self._last_n, n - 1))
                self._block = block
            self._pieces.append(piece)

    def _hold(self, digest: int, entries: int) -> None:
        self._held += digest
        self._held_entries += entries

    def _close(self, upto_n: int) -> None:
        """Nothing of the open block lies behind this dot number, and all up to there is held."""
        if self._pieces:
            self._hold(digest_of_block(self._pieces), sum(one.entries for one in self._pieces))
            self._pieces = []
        self._block = NO_BLOCK
        self.total += self._held
        self.entries += self._held_entries
        self._held = self._held_entries = 0
        self.above_n = max(self.above_n, upto_n)

    def end(self) -> None:
        """Nothing comes any more."""
        self._close(self._last_n)


def _goes_on(node: MacroNode, last_short_n: int) -> bool:
    """True if the last block of a macro node has entries in a later node, too."""
    block = block_of(last_short_n)
    after = node.next
    while after is not None and block_of(after.first_n) == block:
        first_n, _ = after.short_ends()
        if first_n:
            return block_of(first_n) == block
        after = after.next
    return False


def _first_n(piece: Piece) -> int:
    return int.from_bytes(piece.columns[2][:8], "little")


class KeySums:
    """The parts of a key with their digests, made in steps: lane by lane, then the rest.

    Attributes:
        parts: what was made so far; all of them when ``go_on`` has said so.
    """

    __slots__ = ("_key", "_keys", "_lane", "_others", "_sum", "parts")

    def __init__(self, keys: Keys, key: bytes) -> None:
        self._keys = keys
        self._key = key
        self._others = _other_parts(keys, key)
        # The lane that is being counted, or was counted last.
        self._lane = NO_REGION
        self._sum: LaneSum | None = None
        self.parts: list[PartSum] = []

    def go_on(self, is_over: Callable[[], bool]) -> bool:
        """
        Raises:
            ColdError: entries are needed that are on disk only; what was counted stays.
        """
        # Between two calls the stream may be deleted, or another one get its name: what exists is
        # counted.
        stream = self._keys.held_stream(self._key)
        lanes = {} if stream is None else stream.lanes
        while True:
            if self._sum is None:
                behind = [region for region in lanes if region > self._lane]
                if not behind:
                    break
                self._lane, self._sum = min(behind), LaneSum()
            lane = lanes.get(self._lane)
            if lane is not None and not self._sum.go_on(lane, is_over):
                return False
            self._note_lane(lane, self._sum)
            self._sum = None
        for part in self._others:
            if part is not None:
                self.parts.append(part)
            if is_over():
                return False
        return True

    def _note_lane(self, lane: Lane | None, total: LaneSum) -> None:
        if total.entries:
            name = PartName(PartKind.LANE, b"", self._lane)
            last_n = lane.tail.last_n if lane is not None and lane.tail is not None else 0
            self.parts.append(PartSum(name, total.digest, total.entries, last_n))

    @property
    def digest(self) -> bytes:
        """Digest of all parts; empty for a key that has none."""
        if not self.parts:
            return b""
        hasher = blake2b(digest_size=DIGEST_BYTES)
        for one in sorted(self.parts):
            kind, group, lane = one.name
            head = b"%d %d %d %d " % (kind, lane, len(group), one.size)
            hasher.update(head + group + one.digest)
        return hasher.digest()


def _other_parts(keys: Keys, key: bytes) -> Iterator[PartSum | None]:
    """All but the lanes, made in steps: the state may change between two of them.

    What is known of a group is dropped with it, so the dots of its creates are in each part of it:
    a mode or an interval of one that was made again is another fact.

    Returns:
        Parts; None: a step without one.
    """
    stream = keys.held_stream(key)
    if stream is not None:
        for region, register in sorted(stream.last_ids.items()):
            digest = _hash(bytes_of_last_id(register))
            name = PartName(PartKind.LAST_ID, b"", region)
            yield PartSum(name, digest, 0, register.n, register.id)
        for group_name in sorted(stream.groups):
            yield from _parts_of_group(keys, key, group_name)
    registers = keys.registers.get(key)
    if registers is not None:
        if expiry := bytes_of_expiry(registers):
            yield _part(PartKind.EXPIRY, expiry)
        if config := bytes_of_config(registers):
            yield _part(PartKind.CONFIG, config)
    string = keys.held_string(key)
    if string is not None:
        yield _part(PartKind.STRING, bytes_of_string(string))


def _parts_of_group(keys: Keys, key: bytes, name: bytes) -> Iterator[PartSum | None]:
    group = _group(keys, key, name)
    if group is None:
        return
    creates = bytes_of_creates(group)
    yield _part(PartKind.CREATES, creates, name)
    if mode := bytes_of_mode(group):
        yield _part(PartKind.MODE, creates + mode, name)
    for region in sorted(group.intervals):
        acked = AckedSum(creates, region)
        while True:
            # It may have gone, and one of its name may be another one, with other creates.
            group = _group(keys, key, name)
            if group is None or bytes_of_creates(group) != creates:
                return
            intervals = group.intervals.get(region)
            if intervals is None or not acked.go_on(intervals):
                break
            yield None
        if acked.count:
            part = PartName(PartKind.ACKED, name, region)
            yield PartSum(part, acked.digest, acked.count, 0, acked.end)


def _group(keys: Keys, key: bytes, name: bytes) -> Group | None:
    stream = keys.held_stream(key)
    return None if stream is None else stream.groups.get(name)


class AckedSum:
    """The digest of a group's acknowledged intervals of one lane, made in steps.

    Intervals grow together between two steps.  So the last one is held open: it is hashed when one
    that does not touch it is known, or at the end.

    Attributes:
        count: how many intervals there are, the open one among them.
        end: the end of the last one.
    """

    __slots__ = ("_begin", "_hasher", "count", "end")

    def __init__(self, creates: bytes, region: RegionId) -> None:
        self._hasher = blake2b(creates + bytes_of_acked_lane(region), digest_size=DIGEST_BYTES)
        self._begin = ID_MIN
        self.count = 0
        self.end = ID_MIN

    def go_on(self, intervals: Intervals) -> bool:
        """Take the next ones; whether there may be more."""
        found = intervals.behind(self.end, INTERVALS_AT_ONCE.value)
        for low, high in found:
            if low > self.end or not self.count:
                self._close()
                self.count += 1
                self._begin = low
            self.end = high
        return len(found) == INTERVALS_AT_ONCE.value

    def _close(self) -> None:
        if self.count:
            self._hasher.update(bytes_of_interval(self._begin, self.end))

    @property
    def digest(self) -> bytes:
        hasher = self._hasher.copy()
        if self.count:
            hasher.update(bytes_of_interval(self._begin, self.end))
        return hasher.digest()


def _part(kind: PartKind, data: bytes, group: bytes = b"") -> PartSum:
    return PartSum(PartName(kind, group, NO_REGION), _hash(data))


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def keys_between(keys: Keys, first_bucket: int, last_bucket: int) -> Iterator[bytes | None]:
    """Every key of some buckets that has replicated state, in the order of SCAN.

    Keys may be made and deleted between two of them; one that stays is met once.  None: there is
    none yet, and the caller may give others their turn.
    """
    end = (last_bucket + 1) << _BUCKET_SHIFT
    cursor = first_bucket << _BUCKET_SHIFT
    # A register may be there without stream and string, and is in no order then.  Few are.
    # They are sorted a slot at a time, when the walk reaches it.
    alone: dict[int, list[tuple[int, bytes]]] = {}
    for at, key in enumerate(list(keys.registers)):
        if at % KEYS_AT_ONCE.value == 0:
            yield None
        if keys.held_stream(key) is None and keys.held_string(key) is None:
            checksum = crc32(key)
            if cursor <= checksum < end:
                alone.setdefault(checksum >> _SLOT_SHIFT, []).append((checksum, key))
    slots = sorted(alone)
    while cursor < end:
        after, found = keys.scan_held(cursor, KEYS_AT_ONCE.value)
        stop = min(after or _KEYS_END, end)
        # A step ends where the next slot that has some ends.
        at = bisect_left(slots, cursor >> _SLOT_SHIFT)
        slot = alone[slots[at]] if at < len(slots) else []
        if slot:
            stop = min(stop, (slots[at] + 1) << _SLOT_SHIFT)
        here = sorted(one for one in slot if cursor <= one[0] < stop)
        both = merge(((crc32(key), key) for key in found), here)
        # One that got a stream since is in both.
        for checksum, key in dict.fromkeys(both):
            if checksum < stop:
                yield key
        cursor = stop


def entries_above(lane: Lane, within: Within, entries_max: int) -> list[EntrySum]:
    """The next entries within the bounds, a macro node's at most.

    Raises:
        ColdError: they are on disk only.
    """
    found = []
    for node, start, stop in lane.slices(within, entries_max=entries_max, nodes_max=1):
        columns = node.columns
        for at in range(start, stop):
            digest = digest_of_entry(columns, at).to_bytes(DIGEST_BYTES, "little")
            found.append(EntrySum(columns.n[at], columns.id_at(at), columns.lengths[at], digest))
    return found


def bucket_sum(total: int, key: bytes, digest: bytes) -> int:
    """The sum over a bucket with one key more."""
    head = len(key).to_bytes(8, "little")
    return (total + int.from_bytes(_hash(head + key + digest), "little")) & DIGEST_MASK
