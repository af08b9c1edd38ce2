"""Idempotent producers: an append that is tried again, here or in another region, is one entry.

Two things are kept, for different reasons:

* The *window* of a stream: the latest ids of each producer.  From it the region that gets a retry
  recognises it and answers the first entry's ID (IDMP-DURATION and IDMP-MAXSIZE bound it).  An id
  is as old as it has been in this region: another region's clock may be far from ours.
* *Records*: the dot of every idempotent append, until it is causally stable.  Two regions that
  append the same id concurrently find out when their effects meet.  Then the one with the smaller
  dot stays and the other is removed, in every region, without an effect.

Records outlive removal, trim, DEL and the window: the region that hears of the two in the other
order, or after a DEL, must decide the same.  Whether an append loses depends on dots and contexts
alone:

    it loses to every append of the same (key, producer, id) with a smaller dot that is concurrent
    to it - not covered by its context, nor it by the other's.

Source: ``rules`` 20.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers_dot, join
from crdtstream.core.effects import IdempotentId
from crdtstream.core.ids import Millis, RegionId, StreamId

# What XCFGSET takes.
DURATION_S_MAX: Final = 86_400
MAXSIZE_MAX: Final = 10_000


class Tracked:
    """An idempotent id in the window.

    Attributes:
        entry_id, dot: of the entry that its first append made.
        arrived: when that append came to this region, by its clock.
        hits: retries that were recognised here.
    """

    __slots__ = ("arrived", "dot", "entry_id", "hits")

    def __init__(self, entry_id: StreamId, dot: Dot, arrived: Millis) -> None:
        self.entry_id = entry_id
        self.dot = dot
        self.arrived = arrived
        self.hits = 0


class Window:
    """The idempotent ids that one stream recognises, by producer, each in the order they came.

    Always so: producers stand in the order of their latest ids, and each has one.  So silent
    producers are found in front, and forgetting costs what is forgotten.

    Attributes:
        added, duplicates: ids that came in, and retries that were recognised here, since the
            stream began; local, for XINFO.
        id_count: ids that are kept.
    """

    __slots__ = ("_by_producer", "added", "duplicates", "id_count")

    def __init__(self) -> None:
        self._by_producer: OrderedDict[bytes, OrderedDict[bytes, Tracked]] = OrderedDict()
        self.added = 0
        self.duplicates = 0
        self.id_count = 0

    @property
    def producer_count(self) -> int:
        return len(self._by_producer)

    def find(self, idempotent: IdempotentId, *, now: Millis, duration_s: int) -> Tracked | None:
        """The entry of that id, if it has not been here for too long."""
        ids = self._by_producer.get(idempotent.producer)
        tracked = None if ids is None else ids.get(idempotent.id)
        if tracked is None or _is_over(tracked, now, duration_s):
            return None
        return tracked

    def note_retry(self, tracked: Tracked) -> None:
        """A retry was recognised; local, for XINFO, and in no log."""
        tracked.hits += 1
        self.duplicates += 1

    def add(
        self,
        idempotent: IdempotentId,
        entry_id: StreamId,
        dot: Dot,
        *,
        arrived: Millis,
        maxsize: int,
    ) -> None:
        """Recognise an id from now on; the producer's oldest is dropped when there are too many."""
        producer = idempotent.producer
        ids = self._by_producer.get(producer)
        if ids is None:
            ids = self._by_producer[producer] = OrderedDict()
        else:
            self._by_producer.move_to_end(producer)
        if ids.pop(idempotent.id, None) is None:
            self.id_count += 1
        ids[idempotent.id] = Tracked(entry_id, dot, arrived)
        self.added += 1
        while len(ids) > maxsize:
            self._forget_first(ids)

    def forget(self, idempotent: IdempotentId) -> None:
        """Recognise an id no more, if it is here."""
        ids = self._by_producer.get(idempotent.producer)
        if ids is not None and ids.pop(idempotent.id, None) is not None:
            self.id_count -= 1
            if not ids:
                del self._by_producer[idempotent.producer]
        assert self.id_count >= len(self._by_producer), "a producer without an id is kept"

    def forget_old(self, *, now: Millis, duration_s: int) -> None:
        """Drop the producers whose ids are all too old, and the old ids of the latest producer.

        Old ids of the others are dropped when they append again.  O(what is dropped).
        """
        while self._by_producer:
            producer = next(iter(self._by_producer))
            ids = self._by_producer[producer]
            if not _is_over(ids[next(reversed(ids))], now, duration_s):
                break
            self.id_count -= len(ids)
            del self._by_producer[producer]
        if self._by_producer:
            producer = next(reversed(self._by_producer))
            ids = self._by_producer[producer]
            while ids and _is_over(ids[next(iter(ids))], now, duration_s):
                self._forget_first(ids)
            if not ids:
                del self._by_producer[producer]
        assert self.id_count >= len(self._by_producer), "a producer without an id is kept"

    def _forget_first(self, ids: OrderedDict[bytes, Tracked]) -> None:
        ids.popitem(last=False)
        self.id_count -= 1
        assert self.id_count >= 0

    def clear(self) -> None:
        """XCFGSET changed a bound: everything is forgotten, as in Redis."""
        self._by_producer.clear()
        self.id_count = 0

    def clear_covered_by(self, context: VersionVector) -> None:
        """The key was deleted: forget what the deleter had observed."""
        for producer, ids in list(self._by_producer.items()):
            for name, tracked in list(ids.items()):
                if covers_dot(context, tracked.dot):
                    del ids[name]
            if not ids:
                del self._by_producer[producer]
        self.added = self.id_count = sum(map(len, self._by_producer.values()))
        self.duplicates = 0

    # --- What a checkpoint has ----------------------------------------------------------------

    def items(self) -> Iterator[tuple[bytes, Iterator[tuple[bytes, Tracked]]]]:
        """The ids of each producer, in their order."""
        for producer, ids in self._by_producer.items():
            yield producer, iter(ids.items())

    def restore(self, producer: bytes, ids: Iterator[tuple[bytes, Tracked]]) -> None:
        """Put back what ``items`` returned, one producer after the other."""
        self._by_producer[producer] = OrderedDict(ids)
        self.id_count += len(self._by_producer[producer])


def _is_over(tracked: Tracked, now: Millis, duration_s: int) -> bool:
    return now - tracked.arrived >= duration_s * 1000


class Collapsed(NamedTuple):
    """An entry that was removed because a concurrent append of the same id stayed.

    Attributes:
        dot, idempotent: of the entry that was removed.
        stays, stays_id: dot and ID of the one that stayed.
    """

    dot: Dot
    idempotent: IdempotentId
    stays: Dot
    stays_id: StreamId


class _KeyRecords:
    """The records of one key.

    Attributes:
        by_name: by idempotent id the entries that have it, by dot, in the order in which they were
            applied here: an entry comes behind all that it had observed.
        collapsed: by ID those of them that lost.
        deleted: the entries that a delete of the key took are those that this version vector
            covers.  A delete takes what its context covers, and has been applied behind all of it.
    """

    __slots__ = ("by_name", "collapsed", "deleted")

    def __init__(self) -> None:
        self.by_name: dict[IdempotentId, dict[Dot, StreamId]] = {}
        self.collapsed: dict[StreamId, dict[Dot, Collapsed]] = {}
        self.deleted: MutableVersionVector = {}


class IdempotencyRecords:
    """Every idempotent append that is not causally stable yet, by key."""

    __slots__ = ("_by_key", "queues")

    def __init__(self) -> None:
        self._by_key: dict[bytes, _KeyRecords] = {}
        # In the order of each origin's dots, so that forgetting costs what is forgotten.
        self.queues: dict[RegionId, deque[tuple[int, bytes, IdempotentId]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.queues.values()))

    def __contains__(self, key: bytes) -> bool:
        """True if the key has records."""
        return key in self._by_key

    def add(self, dot: Dot, key: bytes, idempotent: IdempotentId, entry_id: StreamId) -> None:
        records = self._by_key.get(key)
        if records is None:
            records = self._by_key[key] = _KeyRecords()
        records.by_name.setdefault(idempotent, {})[dot] = entry_id
        self.queues.setdefault(dot.region, deque()).append((dot.n, key, idempotent))

    def concurrent(
        self, context: VersionVector, key: bytes, idempotent: IdempotentId
    ) -> list[tuple[Dot, StreamId]]:
        """Appends of the same id that an append with this context had not observed.

        That they had not observed it either is certain: it would have been applied before them.
        """
        records = self._by_key.get(key)
        found = {} if records is None else records.by_name.get(idempotent, {})
        return sorted(
            (dot, entry_id) for dot, entry_id in found.items() if not covers_dot(context, dot)
        )

    def recognised(self, key: bytes, idempotent: IdempotentId) -> tuple[Dot, StreamId] | None:
        """The entry that a retry of this id stands for; None if each was deleted with the key.

        Several may have stayed, if the window had forgotten the earlier one when the later one was
        appended.  Then it is the last: a delete of the key that takes it takes the others, too.
        """
        records = self._by_key[key]
        for dot, entry_id in reversed(records.by_name[idempotent].items()):
            has_lost = dot in records.collapsed.get(entry_id, {})
            if not has_lost and not covers_dot(records.deleted, dot):
                return dot, entry_id
        return None

    def knows(self, key: bytes, idempotent: IdempotentId) -> bool:
        """True if an append of this id may not be causally stable."""
        records = self._by_key.get(key)
        return records is not None and idempotent in records.by_name

    def note_deleted(self, key: bytes, context: VersionVector) -> None:
        """Note that the key was deleted by an issuer that had observed what the context covers."""
        records = self._by_key.get(key)
        if records is not None:
            join(records.deleted, context)

    def note_collapsed(self, key: bytes, entry_id: StreamId, collapsed: Collapsed) -> None:
        """Note an entry that gave way; of several to which it did, the smallest dot counts."""
        rows = self._by_key[key].collapsed.setdefault(entry_id, {})
        before = rows.get(collapsed.dot)
        if before is None or collapsed.stays < before.stays:
            rows[collapsed.dot] = collapsed

    def collapsed(self, key: bytes, entry_id: StreamId) -> list[Collapsed]:
        """The removed entries with this ID, for as long as their records are kept."""
        records = self._by_key.get(key)
        rows = {} if records is None else records.collapsed.get(entry_id, {})
        return [row for _, row in sorted(rows.items())]

    def forget_stable(self, stable: VersionVector, note: Callable[[bytes], object]) -> None:
        """Drop the records that the causally stable version vector covers.

        Args:
            note: called with each key, before something of it is dropped.
        """
        for region, queue in self.queues.items():
            n_stable = stable.get(region, 0)
            while queue and queue[0][0] <= n_stable:
                n, key, idempotent = queue.popleft()
                note(key)
                self.forget(key, idempotent, Dot(region, n))

    def has(self, key: bytes, idempotent: IdempotentId, dot: Dot) -> bool:
        """True if this very append is remembered."""
        records = self._by_key.get(key)
        return records is not None and dot in records.by_name.get(idempotent, {})

    def forget(self, key: bytes, idempotent: IdempotentId, dot: Dot) -> None:
        """An append is causally stable, as another region knows; ``restore_order`` then."""
        records = self._by_key[key]
        entries = records.by_name[idempotent]
        entry_id = entries.pop(dot)
        rows = records.collapsed.get(entry_id)
        if rows is not None and rows.pop(dot, None) is not None and not rows:
            del records.collapsed[entry_id]
        if not entries:
            del records.by_name[idempotent]
            if not records.by_name:
                del self._by_key[key]

    def forget_key(self, key: bytes) -> None:
        """Nothing counts that was remembered of the key; ``restore_order`` then."""
        self._by_key.pop(key, None)

    # --- What a checkpoint has ----------------------------------------------------------------

    def of(self, key: bytes) -> Iterator[tuple[Dot, IdempotentId, StreamId]]:
        """The records of a key."""
        records = self._by_key.get(key)
        if records is not None:
            for idempotent, entries in records.by_name.items():
                for dot, entry_id in entries.items():
                    yield dot, idempotent, entry_id

    def collapsed_of(self, key: bytes) -> Iterator[tuple[StreamId, Collapsed]]:
        """The removed entries of a key, with their IDs."""
        records = self._by_key.get(key)
        if records is not None:
            for entry_id, rows in records.collapsed.items():
                for collapsed in rows.values():
                    yield entry_id, collapsed

    def deleted_of(self, key: bytes) -> VersionVector:
        """Version vector that covers those of a key's entries which a delete of the key removed."""
        records = self._by_key.get(key)
        return {} if records is None else records.deleted

    def restore_order(self) -> None:
        """All records of all keys were added, those of one key in their order, or forgotten."""
        for region, queue in self.queues.items():
            # Of a key that was forgotten and is known again a record may be noted twice.
            rows = {row for row in queue if self.has(row[1], row[2], Dot(region, row[0]))}
            self.queues[region] = deque(sorted(rows, key=lambda row: row[0]))
