"""Many IDs at once, as two columns: what a command hands out, or acknowledges, together.

    ids   7-1  7-1025  9-2
    ms    [ 7,    7,   9 ]
    seq   [ 1, 1025,   2 ]

Macro nodes and records keep IDs the same way, so columns are copied from one to the other without
a Python integer for each ID: those have 128 bits, and making one takes longer than all the rest.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Final, TypeAlias, overload

from crdtstream.core.ids import SEQ_BITS, U64_MAX, StreamId

# Fewer IDs or entries are cheaper one by one.
FEW: Final = 16


class IdColumns:
    """IDs, column by column.  They must not change while somebody else has them.

    It is equal to any sequence of the same IDs.
    """

    __slots__ = ("ms", "seq")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ms: "array[int]", seq: "array[int]") -> None:
        self.ms = ms
        self.seq = seq

    @classmethod
    def of(cls, ids: Iterable[StreamId]) -> "IdColumns":
        """The columns of these IDs."""
        ids = list(ids)
        return cls(
            array("Q", [entry_id >> SEQ_BITS for entry_id in ids]),
            array("Q", [entry_id & U64_MAX for entry_id in ids]),
        )

    def __len__(self) -> int:
        return len(self.ms)

    def __iter__(self) -> Iterator[StreamId]:
        for ms, seq in zip(self.ms, self.seq, strict=True):
            yield StreamId(ms << SEQ_BITS | seq)

    @overload
    def __getitem__(self, at: int) -> StreamId: ...

    @overload
    def __getitem__(self, at: slice) -> "IdColumns": ...

    def __getitem__(self, at: int | slice) -> "StreamId | IdColumns":
        if isinstance(at, slice):
            return IdColumns(self.ms[at], self.seq[at])
        return StreamId(self.ms[at] << SEQ_BITS | self.seq[at])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, IdColumns):
            return self.ms == other.ms and self.seq == other.seq
        if isinstance(other, list | tuple):
            return len(other) == len(self) and all(a == b for a, b in zip(self, other, strict=True))
        return NotImplemented

    def __repr__(self) -> str:
        return f"IdColumns.of({list(self)})"

    def ascend(self) -> bool:
        """Whether the IDs ascend without repeats."""
        ms, seq = self.ms, self.seq
        if all(map(lt, ms, islice(ms, 1, None))):
            return True
        halves = list(zip(ms, seq, strict=True))
        return all(map(lt, halves, islice(halves, 1, None)))


# Some IDs, in whichever form they came.
Ids: TypeAlias = Sequence[StreamId] | IdColumns


def from_columns(ms: "array[int]", seq: "array[int]") -> Ids:
    """The IDs of two columns, in the form that is cheaper for as many."""
    if len(ms) >= FEW:
        return IdColumns(ms, seq)
    return tuple([StreamId(a << SEQ_BITS | b) for a, b in zip(ms, seq, strict=True)])


def those_at(ids: Ids, rows: Sequence[tuple[int, int]]) -> Ids:
    """Some of the IDs: each row says where it begins and how many it has; they ascend.

    If that is all of them it is the very same object.
    """
    if sum(count for _, count in rows) == len(ids):
        return ids
    return [entry_id for at, count in rows for entry_id in ids[at : at + count]]
