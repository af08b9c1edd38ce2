"""Pending entries of one lane: its chunks, ascending, and the queries about them.

    chunks   [ 10-1 .. 14-1 ]  [ 15-1 .. 31-7 ]  [ 40-1 .. ]

All changes are made in ``pel.py``.
"""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from crdtstream.core.groups.pel_chunk import Alike, Nack, PelChunk, Span
from crdtstream.core.id_columns import FEW, IdColumns, Ids, those_at
from crdtstream.core.ids import ID_MIN, StreamId


class LanePel:
    """See the module's text.  Its length is how many entries are pending.

    Queries are O(log n) for n entries, and what they return.
    """

    __slots__ = ("chunks", "length")

    def __init__(self) -> None:
        self.chunks: list[PelChunk] = []
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[StreamId]:
        """The IDs, ascending."""
        for chunk in self.chunks:
            yield from chunk.ids(0, len(chunk))

    def __contains__(self, entry_id: StreamId) -> bool:
        return self.place_of(entry_id) is not None

    def get(self, entry_id: StreamId) -> Nack | None:
        found = self.place_of(entry_id)
        return None if found is None else found[0].nack_at(found[1])

    def place_of(self, entry_id: StreamId) -> tuple[PelChunk, int] | None:
        """Its chunk, and where it stands there."""
        chunks = self.chunks
        if not chunks:
            return None
        chunk = chunks[-1]
        if entry_id < chunk.first:
            chunk = chunks[self.chunk_index(entry_id)]
        index = chunk.index_of(entry_id)
        return None if index is None else (chunk, index)

    # --- Bounds -------------------------------------------------------------------------------

    @property
    def first_id(self) -> StreamId:
        """The lowest ID; there must be one."""
        return self.chunks[0].id_at(0)

    @property
    def last_id(self) -> StreamId:
        """The highest ID; there must be one."""
        return self.chunks[-1].last_id

    def first_above(self, entry_id: StreamId) -> StreamId | None:
        """The lowest ID above the given one."""
        for chunk, start in self._from(StreamId(entry_id + 1)):
            return chunk.id_at(start)
        return None

    # --- Several ------------------------------------------------------------------------------

    def among(self, ids: Ids) -> Ids:
        """The pending ones of ascending IDs; usually all, and then the very same object.

        O(1) for each of a row that was delivered in a row.
        """
        if len(ids) == 1:
            return ids if self.place_of(ids[0]) is not None else ids[:0]
        if isinstance(ids, IdColumns) and len(ids) >= FEW.value:
            return ids.selected(self.which(ids))
        return those_at(ids, [(at, stop - start) for at, _, start, stop in self.spans(ids)])

    def which(self, ids: IdColumns) -> bytearray:
        """Mask of ascending IDs: 1 for those that are pending, else 0."""
        mask = bytearray(len(ids))
        for at, stop, chunk in self.by_chunk(ids):
            mask[at:stop] = bytes(chunk.which(ids[at:stop]))
        return mask

    def within(self, above: StreamId, upto: StreamId) -> Iterator[StreamId]:
        """The IDs above the first and not above the second one, ascending."""
        for chunk, start, stop in self.spans_within(above, upto):
            yield from chunk.ids(start, stop)

    def count_within(self, above: StreamId, upto: StreamId) -> int:
        """Number of entries above the first and not above the second ID; O(chunks) between them."""
        return sum(stop - start for _, start, stop in self.spans_within(above, upto))

    def nacks(self, start: StreamId = ID_MIN) -> Iterator[Nack]:
        """Pending entries whose ID is not below ``start``, ascending."""
        if not self.chunks:
            return
        at = self.chunk_index(start)
        chunk = self.chunks[at]
        index = chunk.index_from(start) if start > chunk.first else 0
        yield from chunk.nacks(index, len(chunk))
        for chunk in self.chunks[at + 1 :]:
            yield from chunk.nacks(0, len(chunk))

    def spans_from(self, start: StreamId) -> Iterator[Span]:
        """Spans of the entries whose ID is not below ``start``, ascending."""
        for chunk, first in self._from(start):
            yield chunk, first, len(chunk)

    # --- Chunks, for ``pel.py`` -----------------------------------------------------------------

    def chunk_index(self, entry_id: StreamId) -> int:
        """Index of the chunk that has the ID, or would have it; there must be a chunk."""
        chunks = self.chunks
        assert chunks, "no chunk can have it"
        # Most look-ups are for what came last, or first.
        last = len(chunks) - 1
        if not last or entry_id >= chunks[last].first:
            return last
        if entry_id < chunks[1].first:
            return 0
        return bisect_right(chunks, entry_id, key=_first) - 1

    def alike_of(self, ids: IdColumns) -> Iterator[tuple[Alike, IdColumns]]:
        """Pending entries, ascending: those together that differ in their IDs only."""
        for at, stop, chunk in self.by_chunk(ids):
            some = ids[at:stop]
            for alike, first, end in chunk.alike_of(some):
                yield alike, some[first:end]

    def by_chunk(self, ids: IdColumns) -> Iterator[tuple[int, int, PelChunk]]:
        """IDs that ascend, by the chunk in which they are if they are pending.

        Chunks may change between two results: each is looked up when it is asked for.

        Yields:
            The index of the chunk's first ID, the index behind its last one, and the chunk.
        """
        at = 0
        while at < len(ids) and self.chunks:
            index = self.chunk_index(ids[at])
            stop = len(ids)
            if index + 1 < len(self.chunks):
                stop = ids.index_from(self.chunks[index + 1].first, at)
            assert at < stop, "an ID is in no chunk"
            yield at, stop, self.chunks[index]
            at = stop

    def spans(self, ids: Ids) -> Iterator[tuple[int, PelChunk, int, int]]:
        """Spans in which ascending IDs are pending, neighbours together.

        Chunks may change between two results: each is looked up when it is asked for.

        Yields:
            Index of the span's first ID, its chunk, and its start and stop there.
        """
        at = 0
        while at < len(ids) and self.chunks:
            chunk = self.chunks[self.chunk_index(ids[at])]
            start = chunk.index_from(ids[at])
            count = chunk.matching(start, ids, at)
            if count:
                yield at, chunk, start, start + count
            at += count or 1

    def spans_within(self, above: StreamId, upto: StreamId) -> Iterator[tuple[PelChunk, int, int]]:
        """Entries above the first and not above the second ID, by chunk."""
        for chunk, start in self._from(StreamId(above + 1)):
            if chunk.id_at(start) > upto:
                return
            yield chunk, start, chunk.index_from(StreamId(upto + 1))

    def _from(self, start: StreamId) -> Iterator[tuple[PelChunk, int]]:
        """The chunks that have an ID from ``start`` on, and where the first such stands."""
        if not self.chunks:
            return
        at = self.chunk_index(start)
        chunk = self.chunks[at]
        index = chunk.index_from(start)
        if index < len(chunk):
            yield chunk, index
        # The others have no lower ID.
        for chunk in self.chunks[at + 1 :]:
            yield chunk, 0


_first: Final = attrgetter("first")
