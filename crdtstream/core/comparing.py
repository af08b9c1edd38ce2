"""What two regions compare to find where they differ: digests of ever smaller parts.

    database ─> 256 buckets of keys ─> key ─> part ─> (of a lane) stretch of dots ─> entry

All of it is made in steps, while the state goes on changing, so a digest is of no single version
vector: each fact is looked at once, between the vector at the first step and that at the last.
That is enough, as every fact in a digest has a dot, or grows only, and one that is gone does not
come again.  Seen along vectors that ascend, a fact is absent, then there, then absent:

    sample       at region 1   then at 2   then at 1   then at 2     each covers what came before
    fact         0/1           ...                                   0…0 1…1 0…0 and nothing else

So digests X, Y, X, Y with X unlike Y cannot come of effects on their way: regions are unequal.
Equal digests are equal facts, at whatever vectors.  (``crdtstream crdb verify`` decides by this.)

Entries that are on disk only are not read as long as the sums in the heads of their macro nodes
tell: that is so but where a stretch ends within a node, or a block of entries is in two of them.

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

from crdtstream.core.digest import (
    bytes_of_acked,
    bytes_of_config,
    bytes_of_creates,
    bytes_of_expiry,
    bytes_of_last_id,
    bytes_of_members,
    bytes_of_mode,
    bytes_of_string,
)
from crdtstream.core.ids import ID_MIN, U64_MAX, RegionId, StreamId
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
from crdtstream.core.lanes.node import MacroNode
from crdtstream.core.lanes.slices import Slice, Within
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.core.stream import Stream

DIGEST_BYTES: Final = 16
BUCKETS: Final = 256
_BUCKET_SHIFT: Final = 24
_KEYS_END: Final = BUCKETS << _BUCKET_SHIFT
# Keys that are taken from the order at a time.
KEYS_AT_ONCE: Final = Size(64, least=1)
# Macro nodes looked at in one step; a block of entries lies in at most 256.
NODES_AT_ONCE: Final = Size(600, least=2)
NO_BLOCK: Final = -1
NO_REGION: Final = RegionId(0)


class PartKind(IntEnum):
    """What a part of a key is, or of the database; the order in which they are told."""

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
    """Which part it is.

    Attributes:
        group: of which group; empty for what belongs to none.
        lane: of which origin; 0 for what belongs to none.
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


def digest_of_members(replica: Replica) -> bytes:
    """Nothing while no change of the members was decided."""
    members = replica.members
    return _hash(bytes_of_members(members)) if members.epoch else b""


class LaneSum:
    """The sum over the blocks of a lane, or of a stretch of it, made in steps.

    A stretch begins and ends between two blocks.

    Attributes:
        entries: how many were counted.
        total: the sum of their blocks' digests, as in ``lanes/blocks.py``.
    """

    __slots__ = ("_above_n", "_upto_n", "entries", "total")

    def __init__(self, above_n: int = 0, upto_n: int = U64_MAX) -> None:
        # Everything up to here is counted, and no block goes on behind it.
        self._above_n = above_n
        self._upto_n = upto_n
        self.entries = 0
        self.total = 0

    def go_on(self, lane: Lane, is_over: Callable[[], bool]) -> bool:
        """Count until the turn is over, and at least one block; whether all is counted.

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
    """What a step counts: whole blocks, and all that lies up to ``above_n``.

    The last block may go on in the next macro node: it is open, and what is held since it began is
    counted when it ends.  A step that ends before leaves that to the next one.
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
        # In the order of their first dots; no block goes on over an end of the slice.
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
    """Whether the last block of a macro node has entries in one behind it."""
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

    __slots__ = ("_key", "_lane", "_replica", "_sum", "parts")

    def __init__(self, replica: Replica, key: bytes) -> None:
        self._replica = replica
        self._key = key
        # The lane that is being counted, or was counted last.
        self._lane = NO_REGION
        self._sum: LaneSum | None = None
        self.parts: list[PartSum] = []

    def go_on(self, is_over: Callable[[], bool]) -> bool:
        """
        Raises:
            ColdError: entries are needed that are on disk only; what was counted stays.
        """
        # The stream may go meanwhile, or another one have its name: what is there is counted.
        stream = self._replica.held_stream(self._key)
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
        self.parts += _other_parts(self._replica, self._key, stream)
        return True

    def _note_lane(self, lane: Lane | None, total: LaneSum) -> None:
        if total.entries:
            name = PartName(PartKind.LANE, b"", self._lane)
            last_n = lane.tail.last_n if lane is not None and lane.tail is not None else 0
            self.parts.append(PartSum(name, total.digest, total.entries, last_n))

    @property
    def digest(self) -> bytes:
        """Of all parts; empty of a key that has none."""
        if not self.parts:
            return b""
        hasher = blake2b(digest_size=DIGEST_BYTES)
        for one in sorted(self.parts):
            kind, group, lane = one.name
            head = b"%d %d %d %d " % (kind, lane, len(group), one.size)
            hasher.update(head + group + one.digest)
        return hasher.digest()


def _other_parts(replica: Replica, key: bytes, stream: Stream | None) -> Iterator[PartSum]:
    """All but the lanes.

    What is known of a group goes when it does, so the dots of its creates are in each part of it:
    a mode or an interval of one that was made again is another fact.
    """
    if stream is not None:
        for region, register in sorted(stream.last_ids.items()):
            digest = _hash(bytes_of_last_id(register))
            name = PartName(PartKind.LAST_ID, b"", region)
            yield PartSum(name, digest, 0, register.n, register.id)
        for group_name, group in sorted(stream.groups.items()):
            creates = bytes_of_creates(group)
            yield _part(PartKind.CREATES, creates, group_name)
            if mode := bytes_of_mode(group):
                yield _part(PartKind.MODE, creates + mode, group_name)
            for region, intervals in sorted(group.intervals.items()):
                acked = creates + bytes_of_acked(region, intervals)
                name = PartName(PartKind.ACKED, group_name, region)
                count = sum(1 for _ in intervals)
                yield PartSum(name, _hash(acked), count, 0, intervals.end)
    registers = replica.held_registers(key)
    if registers is not None:
        if expiry := bytes_of_expiry(registers):
            yield _part(PartKind.EXPIRY, expiry)
        if config := bytes_of_config(registers):
            yield _part(PartKind.CONFIG, config)
    string = replica.held_string(key)
    if string is not None:
        yield _part(PartKind.STRING, bytes_of_string(string))


def _part(kind: PartKind, data: bytes, group: bytes = b"") -> PartSum:
    return PartSum(PartName(kind, group, NO_REGION), _hash(data))


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def keys_between(replica: Replica, first_bucket: int, last_bucket: int) -> Iterator[bytes | None]:
    """Every key of some buckets of which something is replicated, in the order of SCAN.

    Keys may come and go between two of them; one that stays is met once.  None: there is none yet,
    and who walks may give others their turn.
    """
    end = (last_bucket + 1) << _BUCKET_SHIFT
    cursor = first_bucket << _BUCKET_SHIFT
    # A register may be there without stream and string, and is in no order then.  Few are.
    alone: list[tuple[int, bytes]] = []
    for at, key in enumerate(replica.register_keys()):
        if at % KEYS_AT_ONCE.value == 0:
            yield None
        if replica.held_stream(key) is None and replica.held_string(key) is None:
            alone.append((crc32(key), key))
    alone.sort()
    while cursor < end:
        after, keys = replica.scan_held_keys(cursor, KEYS_AT_ONCE.value)
        stop = min(after or _KEYS_END, end)
        here = alone[bisect_left(alone, (cursor, b"")) : bisect_left(alone, (stop, b""))]
        both = merge(((crc32(key), key) for key in keys), here)
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
