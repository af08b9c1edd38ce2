"""A chunk of the PEL: up to 1,024 pending entries of one lane, neighbours by ID.

What is delivered together has one owner, one delivery time and one count.  So a chunk keeps the IDs
one by one, and the rest by stretches.  Each begins at some ID and reaches to the next one:

    IDs      [ 10-1  10-2  12-1  12-2  14-1 ]
    from     [ 10-1              12-2       ]
    owner    [ alice             bob        ]
    turn     [ 1700000000000     1700000000250 ]   when they were delivered
    count    [ 1                 1          ]

A stretch begins at an ID and not at an index, so acknowledging moves none: 10-2 is removed from the
first column, and nothing else happens.  Stretches that have no entry any more stay for a while.
Entries that were delivered one by one have a stretch each, of 32 bytes.

An ID is kept as a *key* (``pel_keys.py``): 64 bits, as long as that is enough for all IDs of the
chunk.

Always so:
  * Keys ascend; the first stretch begins at the first key or before it.
  * ``held`` says of each owner how many entries it has here, and an owner with none is not in it.
    An owner's chunks are those that have it in ``held``.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence
from heapq import merge
from itertools import chain, filterfalse, pairwise
from operator import attrgetter
from struct import Struct
from sys import getsizeof
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.checkpoint.parts import Encoded, Image, Kind, Part
from crdtstream.core.groups.pel_keys import (
    KEY_SEQ_BITS,
    KEY_SEQ_END,
    REACH_MS,
    base_for,
    fit,
    id_of,
    key_of,
    keys_of,
    texts_of,
)
from crdtstream.core.groups.turns import delivered_at
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import ID_MAX, ID_MIN, SEQ_BITS, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.size import Size
from crdtstream.core.wire.codec import pack, unpack

ENTRIES_MAX: Final = Size(1024, least=2)

# What looking up one entry costs, in entries that are gone over one after the other.
ROW_ENTRIES: Final = Size(32, least=1)
# Stretches without an entry are dropped when there are this many more than entries.
_EMPTY_STRETCHES: Final = Size(32, least=0)
# How an image begins: whether keys are IDs, base_ms, how many entries and stretches.
_HEAD: Final = Struct("<BQII")
_ID_BYTES: Final = 16
# Its number; consumers begin with 1.
NOBODY: Final = 0


class Nack(NamedTuple):
    """A pending entry as it was when it was asked for; they sort by ID, equal IDs by lane.

    Attributes:
        consumer: None if it has no owner: given back (XNACK), or taken over from another region.
        delivered_ms: 0 without a consumer.
    """

    id: StreamId
    lane: RegionId
    consumer: "Consumer | None"
    delivered_ms: Millis
    delivery_count: int


class Alike(NamedTuple):
    """Neighbouring pending entries that have all the same but their IDs; see ``Nack``.

    Attributes:
        start, stop: where they are in their chunk.
    """

    consumer: "Consumer | None"
    delivered_ms: Millis
    delivery_count: int
    start: int
    stop: int


# Neighbours in a chunk: it, and there their start and stop.
Span: TypeAlias = tuple["PelChunk", int, int]


class Owner:
    """Owner of pending entries: a consumer or, in the same way, *nobody*.

    Attributes:
        number: unique among all owners that its group ever had.
        pending_count: number of entries that are pending with it.
        chunks: by lane the chunks in which it has entries, ascending; no lane is empty.
    """

    __slots__ = ("chunks", "number", "pending_count")

    def __init__(self, number: int) -> None:
        self.number = number
        self.pending_count = 0
        self.chunks: dict[RegionId, list[PelChunk]] = {}

    def nacks(self, start: StreamId = ID_MIN) -> Iterator[Nack]:
        """Its pending entries whose ID is not below ``start``, by ID, equal IDs by lane.

        O(log n) for n chunks, and what is taken.
        """
        lanes = [self._nacks_in(chunks, start) for chunks in self.chunks.values()]
        return lanes[0] if len(lanes) == 1 else merge(*lanes)

    def _nacks_in(self, chunks: list["PelChunk"], start: StreamId) -> Iterator[Nack]:
        for chunk, first, stop in self._spans_in(chunks, start):
            yield from chunk.nacks(first, stop)

    def _spans_in(self, chunks: list["PelChunk"], start: StreamId) -> Iterator[Span]:
        at = max(0, bisect_right(chunks, start, key=_first) - 1)
        for chunk in chunks[at:]:
            for first, stop in chunk.stretches_of(self, chunk.index_from(start)):
                yield chunk, first, stop

    def spans(self, start: StreamId = ID_MIN) -> Iterator[Span] | None:
        """Spans of its pending entries whose ID is not below ``start``, by ID; None if they are in
        several lanes, and have to be merged."""
        if len(self.chunks) > 1:
            return None
        return chain.from_iterable(self._spans_in(chunks, start) for chunks in self.chunks.values())

    @property
    def used_bytes(self) -> int:
        """Memory that its lists of chunks take."""
        return getsizeof(self.chunks) + sum(map(getsizeof, self.chunks.values()))

    def gain(self, chunk: "PelChunk", count: int) -> None:
        """More entries of a chunk are its own."""
        assert count > 0
        self.pending_count += count
        held = chunk.held
        if self in held:
            held[self] += count
            return
        held[self] = count
        chunks = self.chunks.setdefault(chunk.region, [])
        if chunks and chunks[-1].first > chunk.first:
            insort(chunks, chunk, key=_first)
        else:
            chunks.append(chunk)

    def lose(self, chunk: "PelChunk", count: int) -> None:
        """Entries of a chunk are no longer its own."""
        self.pending_count -= count
        held = chunk.held
        left = held[self] - count
        assert left >= 0, "it loses more than it holds"
        assert self.pending_count >= 0
        if left:
            held[self] = left
            return
        del held[self]
        chunks = self.chunks[chunk.region]
        if len(chunks) == 1:
            del self.chunks[chunk.region]
        else:
            at = bisect_left(chunks, chunk.first, key=_first)
            assert chunks[at] is chunk, "another chunk has its place"
            del chunks[at]


class Consumer(Owner):
    """A member of the group in this region.

    Attributes:
        seen_ms: last attempt (not logged by itself: an idle poll costs no disk write).
        active_ms: last time it got something, None before that.
    """

    __slots__ = ("active_ms", "name", "seen_ms")

    def __init__(self, number: int, name: bytes, now: Millis) -> None:
        assert number != NOBODY
        super().__init__(number)
        self.name = name
        self.seen_ms = now
        self.active_ms: Millis | None = None


# Owner, turn and count.  The lower the turn, the sooner an entry is to be claimed; that of an owned
# one has its delivery time in it (``turns.py``).
Values: TypeAlias = tuple[Owner, int, int]


class PelChunk(Part):
    """See the module's text.  An index is that of an entry; ``start`` and ``stop`` are two.

    Attributes:
        group: the number of its group.
        region: whose lane it is.
        first: no ID in it is below; it tells a lane's chunks apart.
        held: by owner how many entries.
    """

    __slots__ = (
        "_base_ms",
        "_counts",
        "_froms",
        "_keys",
        "_owners",
        "_turns",
        "first",
        "group",
        "held",
        "region",
    )

    kind = Kind.PENDING

    def __init__(self, group: int, region: RegionId, first: StreamId) -> None:
        super().__init__()
        self.group = group
        self.region = region
        self.first = first
        self.held: dict[Owner, int] = {}
        # None: the keys are the IDs.
        self._base_ms: int | None = base_for(first)
        self._keys: MutableSequence[int] = array("Q")
        self._froms: MutableSequence[int] = array("Q")
        self._owners: list[Owner] = []
        self._turns = array("Q")
        self._counts = array("Q")

    def begin_again(self, region: RegionId, first: StreamId) -> None:
        """As a new one, of this region; it must be empty, and no part of anything.

        Stretches without an entry may stay: what comes next often has the same owner and turn.
        """
        assert not self._keys
        assert not self.held
        self.changed_after = 0
        self.region = region
        self.first = first
        base_ms = self._base_ms
        if base_ms is None or not 0 <= (first >> SEQ_BITS) - base_ms < REACH_MS:
            self._base_ms = base_for(first)
            self._keys = array("Q")
            self._froms = array("Q")
            self._cut_stretches(0)

    def __len__(self) -> int:
        return len(self._keys)

    # --- IDs and keys -------------------------------------------------------------------------

    @property
    def last_id(self) -> StreamId:
        return id_of(self._keys[-1], self._base_ms)

    def id_at(self, index: int) -> StreamId:
        return id_of(self._keys[index], self._base_ms)

    def ids(self, start: int, stop: int) -> list[StreamId]:
        base_ms = self._base_ms
        return [id_of(key, base_ms) for key in self._keys[start:stop]]

    def index_from(self, entry_id: StreamId) -> int:
        """Index of the first entry that is not below the ID; the length if there is none."""
        base_ms = self._base_ms
        key: int = entry_id
        if base_ms is not None:
            # A higher sequence than any here stands where the next millisecond begins.
            seq = min(entry_id & U64_MAX, KEY_SEQ_END)
            key = ((entry_id >> SEQ_BITS) - base_ms << KEY_SEQ_BITS) + seq
        return bisect_left(self._keys, key)

    def are_few(self, count: int) -> bool:
        """True if looking up ``count`` entries one by one costs less than going over all."""
        return ROW_ENTRIES.value * count < len(self._keys)

    def index_of(self, entry_id: StreamId) -> int | None:
        """Index of the entry with this ID."""
        keys = self._keys
        key = key_of(entry_id, self._base_ms)
        index = bisect_left(keys, key)
        return index if index < len(keys) and keys[index] == key else None

    def matching(self, index: int, ids: Ids, at: int) -> int:
        """Number of IDs from ``at`` on that stand, one after the other, from ``index`` on.

        O(1) for each of them at most.
        """
        keys, base_ms = self._keys, self._base_ms
        most = min(len(keys) - index, len(ids) - at)
        if most > 2 and keys[index + most - 1] == key_of(ids[at + most - 1], base_ms):
            # Usually all of them, then.
            some = ids if most == len(ids) else ids[at : at + most]
            # Without this bound a key could be that of two IDs.
            if fit(some, base_ms) and keys[index : index + most] == keys_of(some, base_ms):
                return most
        count = 0
        while count < most and keys[index + count] == key_of(ids[at + count], base_ms):
            count += 1
        return count

    def which(self, ids: IdColumns) -> Iterable[bool]:
        """For each of ascending IDs, whether it is here."""
        base_ms = self._base_ms
        if self.are_few(len(ids)) or not fit(ids, base_ms):
            return [self.index_of(entry_id) is not None for entry_id in ids]
        return map(set(self._keys).__contains__, keys_of(ids, base_ms))

    def _column(self, keys: Sequence[int]) -> MutableSequence[int]:
        return list(keys) if self._base_ms is None else array("Q", keys)

    def _take_in(self, ids: Ids) -> Sequence[int]:
        """The keys of more IDs, which ascend; all keys change if these have none."""
        base_ms = self._base_ms
        if len(ids) == 1 and base_ms is not None:
            # Mostly so; without a call of `fit`.
            ms = (ids[0] >> SEQ_BITS) - base_ms
            seq = ids[0] & U64_MAX
            if 0 <= ms < 2 * REACH_MS and seq < KEY_SEQ_END:
                return [ms << KEY_SEQ_BITS | seq]
        if not fit(ids, base_ms):
            self._give_other_keys(ids)
        return keys_of(ids, self._base_ms)

    def _give_other_keys(self, more: Ids) -> None:
        """Choose keys that fit what is here and ``more``."""
        self._drop_empty_stretches()
        ids = self.ids(0, len(self))
        froms = [id_of(key, self._base_ms) for key in self._froms]
        both = sorted([*ids, *more])
        lowest_ms = base_for(both[0])
        self._base_ms = base_ms = lowest_ms if fit(both, lowest_ms) else None
        self._keys = self._column([key_of(entry_id, base_ms) for entry_id in ids])
        self._froms = self._column([key_of(entry_id, base_ms) for entry_id in froms])

    # --- Reading ------------------------------------------------------------------------------

    def nack_at(self, index: int) -> Nack:
        key = self._keys[index]
        owner, turn, count = self._values(bisect_right(self._froms, key) - 1)
        return Nack(id_of(key, self._base_ms), self.region, *_shown(owner, turn), count)

    def nacks(self, start: int, stop: int) -> Iterator[Nack]:
        region, base_ms = self.region, self._base_ms
        for at, first, end in self._stretches(start, stop):
            consumer, delivered_ms = _shown(self._owners[at], self._turns[at])
            count = self._counts[at]
            for key in self._keys[first:end]:
                yield Nack(id_of(key, base_ms), region, consumer, delivered_ms, count)

    def alike(self, start: int, stop: int) -> Iterator[Alike]:
        """As ``nacks``, those together that differ in their IDs only."""
        for at, first, end in self._stretches(start, stop):
            consumer, delivered_ms = _shown(self._owners[at], self._turns[at])
            yield Alike(consumer, delivered_ms, self._counts[at], first, end)

    def texts(self, start: int, stop: int) -> list[bytes]:
        """The IDs as clients see them."""
        return texts_of(self._keys[start:stop], self._base_ms)

    def values(self, start: int, stop: int) -> list[tuple[Values, int, int]]:
        """Values of the entries, stretch by stretch, each with its start and stop."""
        return [(self._values(at), first, end) for at, first, end in self._stretches(start, stop)]

    def stretches_of(self, owner: Owner, start: int) -> Iterator[tuple[int, int]]:
        """Stretches of an owner's entries, from an index on: start and stop of each."""
        if self.held[owner] == len(self):
            if start < len(self):
                yield start, len(self)
            return
        if start == len(self):
            return
        keys, froms, owners = self._keys, self._froms, self._owners
        at = bisect_right(froms, keys[start]) - 1
        while True:
            try:
                at = owners.index(owner, at)
            except ValueError:
                return
            first = max(start, bisect_left(keys, froms[at]))
            at += 1
            stop = bisect_left(keys, froms[at], first) if at < len(froms) else len(keys)
            if first < stop:
                yield first, stop

    def _stretches(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The stretches that have some of the entries: which, its first entry, its end."""
        keys, froms = self._keys, self._froms
        while start < stop:
            at = bisect_right(froms, keys[start]) - 1
            end = stop
            if at + 1 < len(froms) and froms[at + 1] <= keys[stop - 1]:
                end = bisect_left(keys, froms[at + 1], start, stop)
            yield at, start, end
            start = end

    def _values(self, at: int) -> Values:
        return self._owners[at], self._turns[at], self._counts[at]

    # --- Changing -----------------------------------------------------------------------------

    def append(self, ids: Ids, owner: Owner, turn: int, count: int) -> None:
        """Add entries above all others, ascending, that have all the same."""
        keys = self._take_in(ids)
        assert not self._keys or self._keys[-1] < keys[0], "keys ascend"
        self._keys.extend(keys)
        froms = self._froms
        # Stretches whose entries are gone may begin above.
        if froms and froms[-1] >= keys[0]:
            self._cut_stretches(bisect_left(froms, keys[0]))
        if not froms or self._values(-1) != (owner, turn, count):
            froms.append(keys[0])
            self._owners.append(owner)
            self._turns.append(turn)
            self._counts.append(count)
        assert len(froms) == len(self._owners) == len(self._turns) == len(self._counts)
        owner.gain(self, len(keys))

    def insert(self, index: int, entry_id: StreamId, owner: Owner, turn: int, count: int) -> None:
        """Add one entry where it belongs."""
        (key,) = self._take_in([entry_id])
        assert not index or self._keys[index - 1] < key, "keys ascend"
        assert index == len(self._keys) or key < self._keys[index], "keys ascend"
        self._keys.insert(index, key)
        self.first = min(self.first, entry_id)
        self._put(index, index + 1, (owner, turn, count))
        owner.gain(self, 1)

    def assign(self, start: int, stop: int, owner: Owner, turn: int, count: int) -> None:
        """Set the owner, turn and count of these entries."""
        assert 0 <= start < stop <= len(self._keys)
        owner.gain(self, stop - start)
        for (before, _, _), first, end in self.values(start, stop):
            before.lose(self, end - first)
        self._put(start, stop, (owner, turn, count))

    def remove(self, start: int, stop: int) -> None:
        """These entries are not pending any more."""
        keys = self._keys
        assert 0 <= start < stop <= len(keys)
        if stop - start == 1:
            at = bisect_right(self._froms, keys[start]) - 1
            self._owners[at].lose(self, 1)
            del keys[start]
        else:
            for at, first, end in self._stretches(start, stop):
                self._owners[at].lose(self, end - first)
            del keys[start:stop]
        self._drop_many_empty_stretches()

    def remove_those(self, ids: IdColumns) -> int:
        """These entries are not pending any more, those that are here; how many?

        O(entries) of the chunk: for many IDs, in whatever places.
        """
        base_ms = self._base_ms
        if fit(ids, base_ms):
            gone = set(keys_of(ids, base_ms))
        else:
            gone = {key_of(entry_id, base_ms) for entry_id in ids}
        is_gone = gone.__contains__
        before = len(self._keys)
        for at, first, end in self._stretches(0, before):
            count = sum(map(is_gone, self._keys[first:end]))
            if count:
                self._owners[at].lose(self, count)
        self._keys = self._column(list(filterfalse(is_gone, self._keys)))
        assert sum(self.held.values()) == len(self), "owners have more or fewer than are here"
        self._drop_many_empty_stretches()
        return before - len(self._keys)

    def assign_those(self, ids: IdColumns, owner: Owner, turn: int, count: int) -> None:
        """As ``assign``, of entries that are here, in whatever places; O(entries) of the chunk."""
        base_ms = self._base_ms
        is_meant = set(keys_of(ids, base_ms)).__contains__
        found = self.values(0, len(self))
        owner.gain(self, len(ids))
        new, last = (owner, turn, count), None
        froms: list[int] = []
        held: list[Values] = []
        for values, first, end in found:
            keys = self._keys[first:end]
            changed = sum(map(is_meant, keys))
            if changed:
                values[0].lose(self, changed)
            for key in keys if 0 < changed < end - first else keys[:1]:
                now = new if changed and is_meant(key) else values
                if now != last:
                    froms.append(key)
                    held.append(now)
                    last = now
        self._froms = self._column(froms)
        self._owners = [owner for owner, _, _ in held]
        self._turns = array("Q", [turn for _, turn, _ in held])
        self._counts = array("Q", [count for _, _, count in held])
        assert sum(self.held.values()) == len(self), "an ID that is not here was given an owner"

    def alike_of(self, ids: IdColumns) -> Iterator[tuple[Alike, int, int]]:
        """Stretches of ascending entries, all here, that differ in their IDs only; each with the
        index of its first ID, and the index behind its last one."""
        keys = keys_of(ids, self._base_ms)
        at = 0
        if self.are_few(len(ids)):
            while at < len(keys):
                alike = next(self.alike(bisect_left(self._keys, keys[at]), len(self)))
                stop = bisect_right(keys, self._keys[alike.stop - 1], at)
                yield alike, at, stop
                at = stop
            return
        for alike in self.alike(0, len(self)):
            stop = bisect_right(keys, self._keys[alike.stop - 1], at)
            if at < stop:
                yield alike, at, stop
                at = stop

    def split(self) -> "PelChunk":
        """Cut it in two; returns the upper one."""
        middle = len(self) // 2
        upper = PelChunk(self.group, self.region, self.id_at(middle))
        upper._base_ms = self._base_ms
        upper._keys = self._keys[middle:]
        upper._froms = self._column([])
        for values, first, end in self.values(middle, len(self)):
            owner, turn, count = values
            upper._froms.append(self._keys[first])
            upper._owners.append(owner)
            upper._turns.append(turn)
            upper._counts.append(count)
            owner.gain(upper, end - first)
            owner.lose(self, end - first)
        del self._keys[middle:]
        self._drop_empty_stretches()
        assert self.last_id < upper.first
        assert sum(self.held.values()) == len(self) > 0
        assert sum(upper.held.values()) == len(upper) > 0
        return upper

    def absorb(self, upper: "PelChunk") -> None:
        """Add the entries of the chunk above, which is to be dropped; it stays as it is, except
        ``held``."""
        assert self.last_id < upper.first, "it is not the chunk above"
        for (owner, turn, count), start, stop in upper.values(0, len(upper)):
            self.append(upper.ids(start, stop), owner, turn, count)
            owner.lose(upper, stop - start)

    def _put(self, start: int, stop: int, values: Values) -> None:
        """Give entries these values; what follows keeps its own."""
        keys, froms = self._keys, self._froms
        low = bisect_left(froms, keys[start])
        high = len(froms)
        parts = [(keys[start], values)]
        if stop < len(keys):
            high = bisect_right(froms, keys[stop])
            following = self._values(high - 1)
            if following != values:
                parts.append((keys[stop], following))
        if low and self._values(low - 1) == values:
            del parts[0]
        froms[low:high] = self._column([key for key, _ in parts])
        self._owners[low:high] = [owner for _, (owner, _, _) in parts]
        self._turns[low:high] = array("Q", [turn for _, (_, turn, _) in parts])
        self._counts[low:high] = array("Q", [count for _, (_, _, count) in parts])
        assert froms[0] <= keys[0], "the first entries have no stretch"
        assert len(froms) == len(self._owners) == len(self._turns) == len(self._counts)
        self._drop_many_empty_stretches()

    def _cut_stretches(self, at: int) -> None:
        del self._froms[at:], self._owners[at:], self._turns[at:], self._counts[at:]

    def _drop_many_empty_stretches(self) -> None:
        if len(self._owners) > 2 * len(self._keys) + _EMPTY_STRETCHES.value:
            self._drop_empty_stretches()

    def _drop_empty_stretches(self) -> None:
        """Each stretch begins at its first entry then."""
        found = self.values(0, len(self))
        self._froms = self._column([self._keys[first] for _, first, _ in found])
        self._owners = [owner for (owner, _, _), _, _ in found]
        self._turns = array("Q", [turn for (_, turn, _), _, _ in found])
        self._counts = array("Q", [count for (_, _, count), _, _ in found])

    # --- As an image --------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """Memory that it takes."""
        columns = (self._keys, self._froms, self._owners, self._turns, self._counts, self.held)
        total = getsizeof(self) + sum(map(getsizeof, columns))
        if self._base_ms is None:
            total += sum(map(getsizeof, self._keys))
        return total

    def encode(self) -> Encoded:
        """Head, keys, and by stretch: index of its first entry, number of its owner, turn, count.

        Owners are those of the group's part.
        """
        # A cut may have to write one that a neighbour has absorbed: its owners know it no more.
        assert not self.held or sum(self.held.values()) == len(self), "entries without an owner"
        found = self.values(0, len(self))
        is_wide = self._base_ms is None
        if isinstance(self._keys, array):
            keys = pack(self._keys)
        else:
            keys = b"".join(key.to_bytes(_ID_BYTES, "little") for key in self._keys)
        body = b"".join(
            (
                _HEAD.pack(is_wide, self._base_ms or 0, len(self), len(found)),
                keys,
                pack(array("I", [first for _, first, _ in found])),
                pack(array("Q", [owner.number for (owner, _, _), _, _ in found])),
                pack(array("Q", [turn for (_, turn, _), _, _ in found])),
                pack(array("Q", [count for (_, _, count), _, _ in found])),
            )
        )
        return Encoded(self.group, self.region, b"", body)

    @classmethod
    def decode(cls, image: Image, owners: Mapping[int, Owner]) -> "PelChunk":
        """The chunk of an image; its owners do not know yet that they have it (``enter``).

        Raises:
            ValueError: this is no image of a chunk; says why.
        """
        body = image.body
        if image.kind is not Kind.PENDING:
            raise ValueError(f"image {image.number}: of kind {image.kind.name}, not PENDING")
        if len(body) < _HEAD.size:
            raise ValueError(f"image {image.number}: {len(body)} bytes are no chunk of a PEL")
        is_wide, base_ms, entry_count, stretch_count = _HEAD.unpack_from(body)
        key_bytes = _ID_BYTES if is_wide else 8
        sizes = [key_bytes * entry_count, *(size * stretch_count for size in (4, 8, 8, 8))]
        if is_wide > 1 or len(body) != _HEAD.size + sum(sizes):
            raise ValueError(
                f"image {image.number}: {len(body)} bytes do not hold {entry_count} entries in "
                f"{stretch_count} stretches"
            )
        columns = []
        at = _HEAD.size
        for size in sizes:
            columns.append(body[at : at + size])
            at += size
        chunk = cls(image.owner, RegionId(image.lane), ID_MIN)
        chunk.image = image.number
        chunk._base_ms = None if is_wide else base_ms
        chunk._keys = _wide(columns[0]) if is_wide else unpack("Q", columns[0], field="keys")
        firsts = unpack("I", columns[1], field="stretches")
        numbers = unpack("Q", columns[2], field="owners")
        chunk._turns = unpack("Q", columns[3], field="turns")
        chunk._counts = unpack("Q", columns[4], field="counts")
        if not entry_count or not _ascends(chunk._keys):
            raise ValueError(f"image {image.number}: its IDs are none, or do not ascend")
        if not is_wide and id_of(chunk._keys[-1], base_ms) > ID_MAX:
            raise ValueError(f"image {image.number}: an ID of more than 128 bits")
        if not firsts or firsts[0] or firsts[-1] >= entry_count or not _ascends(firsts):
            raise ValueError(f"image {image.number}: its stretches do not hold its entries")
        unknown = [number for number in numbers if number not in owners]
        if unknown:
            raise ValueError(f"image {image.number}: no consumer has the number {unknown[0]}")
        chunk._froms = chunk._column([chunk._keys[first] for first in firsts])
        chunk._owners = [owners[number] for number in numbers]
        chunk.first = chunk.id_at(0)
        return chunk

    def enter(self) -> None:
        """Register the entries of a decoded chunk with their owners."""
        for (owner, _, _), first, end in self.values(0, len(self)):
            owner.gain(self, end - first)


def _shown(owner: Owner, turn: int) -> tuple[Consumer | None, Millis]:
    """Consumer and delivery time as clients see them."""
    return (owner, delivered_at(turn)) if isinstance(owner, Consumer) else (None, Millis(0))


_first: Final = attrgetter("first")


def _ascends(numbers: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def _wide(data: bytes) -> list[int]:
    return [
        int.from_bytes(data[at : at + _ID_BYTES], "little") for at in range(0, len(data), _ID_BYTES)
    ]
