"""Pending entries in the order in which they are to be claimed: those with an owner, or those
without one.

The lowest turn comes first (``turns.py``), equal ones by ID, equal IDs by lane.  The order is
kept by chunk only: of each a turn is known below which it has none.

    heap    (250, chunk 7)  (260, chunk 1)  (400, chunk 9)  ...

A caller opens the first chunk and sorts what is in it, then the next when its turn has come.  A
chunk whose first entries are gone is found too early; then it gets a later turn.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from crdtstream.core.groups.pel_chunk import NOBODY, Nack, PelChunk
from crdtstream.core.ids import RegionId, StreamId
from crdtstream.core.size import Size

# Turns in the heap that are out of date are dropped when there are this many more than chunks.
_STALE: Final = Size(64, least=0)


class ClaimOrder:
    """See the module's text."""

    __slots__ = ("_are_owned", "_heap", "_pushed", "_turns")

    def __init__(self, chunks: Iterable[PelChunk], *, owned: bool) -> None:
        self._are_owned = owned
        # By chunk its lowest turn, or a lower one.
        self._turns: dict[PelChunk, int] = {}
        # The same and turns that are out of date, with a number that nothing else has.
        self._heap: list[tuple[int, int, PelChunk]] = []
        self._pushed = 0
        for chunk in chunks:
            turns = self._sorted(chunk)
            if turns:
                self.place(chunk, turns[0][0])

    def place(self, chunk: PelChunk, turn: int) -> None:
        """Entries of a chunk have this turn from now on."""
        if chunk in self._turns and self._turns[chunk] <= turn:
            return
        self._push(chunk, turn)
        if len(self._heap) > 2 * len(self._turns) + _STALE.value:
            self._heap = [one for one in self._heap if self._turns.get(one[2]) == one[0]]
            heapify(self._heap)

    def move(self, chunk: PelChunk, to: PelChunk) -> None:
        """Entries of a chunk are in another one from now on."""
        if chunk in self._turns:
            self.place(to, self._turns[chunk])

    def forget(self, chunk: PelChunk) -> None:
        """A chunk is gone."""
        self._turns.pop(chunk, None)

    def nacks(self, latest: int | None = None) -> Iterator[Nack]:
        """The entries; those with a turn above ``latest`` are left out.

        O(chunks) to begin, but a copy of pointers; O(n log n) for a chunk of n stretches.
        Nothing may change until it is done.
        """
        self._drop_stale()
        chunks = self._heap.copy()
        opened: set[PelChunk] = set()
        # The next entry of each chunk that was opened: its turn, ID, lane, and what follows.
        heads: list[tuple[int, StreamId, RegionId, Iterator[tuple[int, Nack]], Nack]] = []
        while True:
            while chunks and (not heads or chunks[0][0] <= heads[0][0]):
                turn, _, chunk = chunks[0]
                if latest is not None and turn > latest:
                    break
                heappop(chunks)
                if self._turns.get(chunk) == turn and chunk not in opened:
                    opened.add(chunk)
                    entries = self._opened(chunk)
                    head = next(entries, None)
                    if head is not None:
                        turn, nack = head
                        heappush(heads, (turn, nack.id, nack.lane, entries, nack))
            if not heads:
                return
            turn, _, _, entries, nack = heads[0]
            if latest is not None and turn > latest:
                return
            yield nack
            head = next(entries, None)
            if head is None:
                heappop(heads)
            else:
                turn, nack = head
                heapreplace(heads, (turn, nack.id, nack.lane, entries, nack))

    def _drop_stale(self) -> None:
        heap = self._heap
        while heap and self._turns.get(heap[0][2]) != heap[0][0]:
            heappop(heap)

    def _opened(self, chunk: PelChunk) -> Iterator[tuple[int, Nack]]:
        """The entries of a chunk in order, each with its turn; what was too early is put right."""
        found = self._sorted(chunk)
        if not found:
            del self._turns[chunk]
            return
        assert found[0][0] >= self._turns[chunk], "it was found too late"
        if found[0][0] > self._turns[chunk]:
            self._push(chunk, found[0][0])
        for turn, start, stop in found:
            for nack in chunk.nacks(start, stop):
                yield turn, nack

    def _sorted(self, chunk: PelChunk) -> list[tuple[int, int, int]]:
        """Time, start and stop of the stretches that are to be in this order."""
        return sorted(
            (turn, start, stop)
            for (owner, turn, _), start, stop in chunk.values(0, len(chunk))
            if (owner.number != NOBODY) is self._are_owned
        )

    def _push(self, chunk: PelChunk, turn: int) -> None:
        assert len(chunk), "an empty chunk has no turn"
        self._turns[chunk] = turn
        self._pushed += 1
        heappush(self._heap, (turn, self._pushed, chunk))
