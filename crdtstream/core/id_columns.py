"""Many IDs at once, as two columns: what a command delivers, or acknowledges, together.

    ids   7-1  7-1025  9-2
    ms    [ 7,    7,   9 ]
    seq   [ 1, 1025,   2 ]

Macro nodes and records keep IDs the same way, so columns are copied from one to the other without
a Python integer for each ID: those have 128 bits, and making one takes longer than all the rest.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count, islice
from operator import ge, le, lt
from sys import byteorder
from typing import Final, TypeAlias, overload

from crdtstream.core.ids import SEQ_BITS, U64_MAX, StreamId
from crdtstream.core.size import Size

_HALF_MAX: Final = (1 << 32) - 1
# Of 64 bits as two numbers of 32, which of them is the lower half.
LOW_HALF: Final = 0 if byteorder == "little" else 1
# Fewer IDs or entries are cheaper one by one.
FEW: Final = Size(16, least=1)


class IdColumns:
    """IDs, column by column.  They must not change while other code holds them.

    It is equal to any sequence of the same IDs.
    """

    __slots__ = ("ms", "seq")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, ms: "array[int]", seq: "array[int]") -> None:
        assert len(ms) == len(seq), "an ID has two halves"
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

    def index_from(self, entry_id: StreamId, start: int = 0) -> int:
        """Index of the first ID that is not below this one, from ``start`` on; they ascend."""
        ms = entry_id >> SEQ_BITS
        low = bisect_left(self.ms, ms, start)
        high = bisect_right(self.ms, ms, low)
        return bisect_left(self.seq, entry_id & U64_MAX, low, high)

    def selected(self, mask: bytearray) -> "IdColumns":
        """The IDs where the mask has a 1; if these are all, the very same object."""
        if 0 not in mask:
            return self
        return IdColumns(array("Q", compress(self.ms, mask)), array("Q", compress(self.seq, mask)))

    def ascending(self) -> "IdColumns":
        """The same IDs, ascending, each once; there must be one."""
        base_ms = min(self.ms)
        if max(self.ms) - base_ms > _HALF_MAX or max(self.seq) > _HALF_MAX:
            pairs = sorted(set(zip(self.ms, self.seq, strict=True)))
            return IdColumns(
                array("Q", [ms for ms, _ in pairs]), array("Q", [seq for _, seq in pairs])
            )
        keys = array("Q", sorted(set(self.joined(base_ms))))
        halves = array("I", keys.tobytes())
        return IdColumns(
            array("Q", map(base_ms.__add__, halves[1 - LOW_HALF :: 2])),
            array("Q", halves[LOW_HALF::2]),
        )

    def joined(self, base_ms: int) -> "array[int]":
        """Each ID in 64 bits: the distance of its time from ``base_ms``, and the sequence; both
        must fit into 32 bits.

        A column is taken as one long number, of 64 bits for each ID.  Subtracting and shifting
        such numbers does so with each of their parts, as no part borrows from another one or flows
        over into it: no time is below the base, and less than 32 bits remain of each.
        """
        ms = int.from_bytes(self.ms, byteorder)
        base = int.from_bytes(array("Q", [base_ms]) * len(self), byteorder)
        seq = int.from_bytes(self.seq, byteorder)
        keys = array("Q")
        keys.frombytes(((ms - base << 32) + seq).to_bytes(8 * len(self), byteorder))
        return keys

    def ascend(self) -> bool:
        """True if the IDs ascend without repeats."""
        # A list has its numbers made once; a column makes them for each look.
        ms = self.ms.tolist()
        if all(map(lt, ms, islice(ms, 1, None))):
            return True
        if not all(map(le, ms, islice(ms, 1, None))):
            return False
        seq = self.seq.tolist()
        # Where a sequence does not rise, the next millisecond begins.
        for at in compress(count(1), map(ge, seq, islice(seq, 1, None))):
            if ms[at - 1] == ms[at]:
                return False
        return True


# Some IDs, in whichever form they came.
Ids: TypeAlias = Sequence[StreamId] | IdColumns


def from_columns(ms: "array[int]", seq: "array[int]") -> Ids:
    """The IDs of two columns, in the form that is cheaper for their number."""
    if len(ms) >= FEW.value:
        return IdColumns(ms, seq)
    return tuple([StreamId(a << SEQ_BITS | b) for a, b in zip(ms, seq, strict=True)])


def from_ids(ids: Sequence[StreamId]) -> Ids:
    """The same IDs, in the form that is cheaper for their number."""
    return IdColumns.of(ids) if len(ids) >= FEW.value else ids


def columns_of(ids: Ids) -> IdColumns:
    """The same IDs as columns."""
    return ids if isinstance(ids, IdColumns) else IdColumns.of(ids)


def those_at(ids: Ids, rows: Sequence[tuple[int, int]]) -> Ids:
    """Some of the IDs: each row says where it begins and how many it has; they ascend.

    If that is all of them it is the very same object.
    """
    if sum(count for _, count in rows) == len(ids):
        return ids
    return [entry_id for at, count in rows for entry_id in ids[at : at + count]]
