"""Idempotent producers: an append that is tried again, here or in another region, is one entry.

Two things are kept, for different reasons:

* The *window* of a stream: the latest ids of each producer.  From it the region where a retry
  comes in recognises it and answers the first entry's ID (IDMP-DURATION and IDMP-MAXSIZE bound it).
  An id is as old as it has been in this region: another region's clock may be far from ours.
* *Records*: the dot of every idempotent append, until it is causally stable.  Two regions that
  append the same id without knowing of each other find out when their effects meet; then the one
  with the smaller dot stays and the other goes, in every region, without an effect.

Records outlive removal, trim, DEL and the window: the region that hears of the two in the other
order, or after a DEL, must decide the same.  Whether an append loses depends on dots and contexts
alone:

    it loses to every append of the same (key, producer, id) with a smaller dot that is concurrent
    to it - not covered by its context, nor it by the other's.

Source: ``rules`` 20.
"""

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from crdtstream.core.clock import Dot, VersionVector, covers_dot
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

    Always so: producers stand in the order of their latest ids, and each has one.  So who has gone
    silent is found in front, and forgetting costs what is forgotten.

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
        """Recognise an id from now on; the producer's oldest goes when there are too many."""
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

    def forget_old(self, *, now: Millis, duration_s: int) -> None:
        """Drop the producers whose ids are all too old, and the old ids of the latest producer.

        Old ids of the others go when they append again.  O(what goes).
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

    def _forget_first(self, ids: OrderedDict[bytes, Tracked]) -> None:
        ids.popitem(last=False)
        self.id_count -= 1

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


def _is_over(tracked: Tracked, now: Millis, duration_s: int) -> bool:
    return now - tracked.arrived >= duration_s * 1000


class Collapsed(NamedTuple):
    """An entry that went because a concurrent append of the same id stayed.

    Attributes:
        dot, idempotent: of the entry that went.
        stays, stays_id: dot and ID of the one that stayed.
    """

    dot: Dot
    idempotent: IdempotentId
    stays: Dot
    stays_id: StreamId


class IdempotencyRecords:
    """Every idempotent append that is not causally stable yet, of all keys."""

    __slots__ = ("_by_name", "_collapsed", "_queues")

    def __init__(self) -> None:
        # Those of them that lost, by their IDs: for people who ask where an entry went.
        self._collapsed: dict[tuple[bytes, StreamId], dict[Dot, Collapsed]] = {}
        self._by_name: dict[tuple[bytes, IdempotentId], dict[Dot, StreamId]] = {}
        # In the order of each origin's dots, so that forgetting costs what is forgotten.
        self._queues: dict[RegionId, deque[tuple[int, bytes, IdempotentId]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, dot: Dot, key: bytes, idempotent: IdempotentId, entry_id: StreamId) -> None:
        self._by_name.setdefault((key, idempotent), {})[dot] = entry_id
        self._queues.setdefault(dot.region, deque()).append((dot.n, key, idempotent))

    def concurrent(
        self, context: VersionVector, key: bytes, idempotent: IdempotentId
    ) -> list[tuple[Dot, StreamId]]:
        """Appends of the same id that an append with this context had not observed.

        That they had not observed it either is certain: it would have been applied before them.
        """
        records = self._by_name.get((key, idempotent), {})
        return sorted(
            (dot, entry_id) for dot, entry_id in records.items() if not covers_dot(context, dot)
        )

    def note_collapsed(self, key: bytes, entry_id: StreamId, collapsed: Collapsed) -> None:
        self._collapsed.setdefault((key, entry_id), {})[collapsed.dot] = collapsed

    def collapsed(self, key: bytes, entry_id: StreamId) -> list[Collapsed]:
        """The entries with this ID that went, for as long as their records are kept."""
        return [row for _, row in sorted(self._collapsed.get((key, entry_id), {}).items())]

    def _forget_collapsed(self, key: bytes, entry_id: StreamId, dot: Dot) -> None:
        rows = self._collapsed.get((key, entry_id), {})
        if rows.pop(dot, None) is not None and not rows:
            del self._collapsed[key, entry_id]

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop the records that the causally stable version vector covers."""
        for region, queue in self._queues.items():
            n_stable = stable.get(region, 0)
            while queue and queue[0][0] <= n_stable:
                n, key, idempotent = queue.popleft()
                records = self._by_name[key, idempotent]
                dot = Dot(region, n)
                self._forget_collapsed(key, records.pop(dot), dot)
                if not records:
                    del self._by_name[key, idempotent]
