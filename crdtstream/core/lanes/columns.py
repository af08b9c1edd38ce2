"""The columns of a macro node: its entries, while they are in memory; see ``lane.py``.

The arrays may be changed in place only while the node is open.  Of a closed one they are as small
as they can be: numbers of other types than an open node has, a range of dot numbers.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, compress, count
from operator import itemgetter
from typing import Final, TypeAlias

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import SEQ_BITS, Millis, StreamId

# By dot number what an entry's producer calls it.
Names: TypeAlias = dict[int, IdempotentId]
# First dot number, how many, and what the first one is.
NumberedRuns: TypeAlias = list[tuple[int, int, Numbered]]


# Columns without numbers.  Nothing is ever added to them.
NEVER_GROWS: Final = array("Q")
_NO_U32: Final = array("I")


class NodeColumns:
    """Entries of a lane, column by column.

    Attributes:
        holes_bytes: bytes of ``fields`` that no entry has any more.
        growing_n: the column ``n`` itself while the node is open.  That of a closed node may be a
            range, which takes no memory; nothing is appended to it.
    """

    __slots__ = (
        "arrivals",
        "fields",
        "growing_n",
        "holes_bytes",
        "idempotent",
        "lengths",
        "ms",
        "n",
        "numbered",
        "seq",
        "starts",
    )

    def __init__(
        self,
        ms: "array[int]",
        seq: "array[int]",
        n: Sequence[int],
        starts: "array[int]",
        lengths: "array[int]",
        fields: bytearray,
        arrivals: "array[int]",
        idempotent: Names | None,
        numbered: NumberedRuns | None,
    ) -> None:
        self.ms = ms
        self.seq = seq
        self.n = n
        self.starts = starts
        self.lengths = lengths
        self.fields = fields
        self.arrivals = arrivals
        self.idempotent = idempotent
        self.numbered = numbered
        self.holes_bytes = 0
        self.growing_n = NEVER_GROWS

    @staticmethod
    def opened() -> "NodeColumns":
        """Empty ones, to which entries are appended."""
        # Copies: a new array takes twice as long, and each new stream has a node.
        n = NEVER_GROWS[:]
        columns = NodeColumns(
            NEVER_GROWS[:],
            NEVER_GROWS[:],
            n,
            _NO_U32[:],
            _NO_U32[:],
            bytearray(),
            NEVER_GROWS[:],
            None,
            None,
        )
        columns.growing_n = n
        return columns

    # --- Reading ------------------------------------------------------------------------------

    def id_at(self, index: int) -> StreamId:
        return StreamId(self.ms[index] << SEQ_BITS | self.seq[index])

    def fields_at(self, index: int) -> bytearray:
        start = self.starts[index]
        return self.fields[start : start + self.lengths[index]]

    def matching(self, index: int, ids: Ids, at: int) -> int:
        """Number of IDs from ``at`` on that stand here, one after the other, from ``index`` on."""
        most = min(len(self.ms) - index, len(ids) - at)
        if (
            isinstance(ids, IdColumns)
            # With gaps the last one differs, and nothing is copied to find that out.
            and self.seq[index + most - 1] == ids.seq[at + most - 1]
            and self.ms[index : index + most] == ids.ms[at : at + most]
            and self.seq[index : index + most] == ids.seq[at : at + most]
        ):
            return most
        count = 0
        while count < most and self.id_at(index + count) == ids[at + count]:
            count += 1
        return count

    def places(self, ids: IdColumns) -> list[int]:
        """Index of each of the IDs, -1 for one that is not here."""
        where = dict(zip(zip(self.ms, self.seq, strict=True), count(), strict=False))
        return [where.get(pair, -1) for pair in zip(ids.ms, ids.seq, strict=True)]

    def arrived_at(self, index: int) -> Millis:
        """Time at which the entry came to this region, by its clock; 0 if unknown."""
        at = bisect_right(self.arrivals[::2], self.n[index])
        return Millis(self.arrivals[2 * at - 1]) if at else Millis(0)

    def idempotent_at(self, index: int) -> IdempotentId | None:
        """The name that an entry's producer gave it; None: none."""
        row = self.numbered_at(index)
        if row is not None:
            return row.name(0)
        return None if self.idempotent is None else self.idempotent.get(self.n[index])

    def numbered_at(self, index: int) -> Numbered | None:
        """Row of a numbered producer that an entry is; None: it is none."""
        if self.numbered is None:
            return None
        n = self.n[index]
        at = bisect_right(self.numbered, n, key=itemgetter(0)) - 1
        if at < 0:
            return None
        first_n, count, first = self.numbered[at]
        return first.behind(n - first_n) if n < first_n + count else None

    def live_fields(self) -> bytes | bytearray:
        """The fields of all entries without holes, in order."""
        if not self.holes_bytes:
            return self.fields
        fields = bytes(self.fields)
        return b"".join(
            [
                fields[start : start + length]
                for start, length in zip(self.starts, self.lengths, strict=True)
            ]
        )

    # --- Removing -----------------------------------------------------------------------------

    def remove(self, start: int, stop: int) -> None:
        """Remove the entries of a slice; fields' bytes are dropped once half of them are holes."""
        if self.idempotent is not None:
            self._remove_names(self.n[start:stop])
        if stop - start == 1:
            self.holes_bytes += self.lengths[start]
            del self.ms[start], self.seq[start], self.starts[start], self.lengths[start]
        else:
            self.holes_bytes += sum(self.lengths[start:stop])
            del self.ms[start:stop], self.seq[start:stop]
            del self.starts[start:stop], self.lengths[start:stop]
        self._remove_n(start, stop)
        assert self.holes_bytes <= len(self.fields)
        if 2 * self.holes_bytes > len(self.fields):
            self._close_holes()

    def remove_rows(self, rows: Sequence[int]) -> None:
        """As ``remove``, of entries in whatever places; each once."""
        if self.idempotent is not None:
            self._remove_names(map(self.n.__getitem__, rows))
        self.holes_bytes += sum(map(self.lengths.__getitem__, rows))
        mask = bytearray(b"\1") * len(self.ms)
        for row in rows:
            mask[row] = 0
        self.ms[:] = array(self.ms.typecode, compress(self.ms, mask))
        self.seq[:] = array(self.seq.typecode, compress(self.seq, mask))
        self.starts[:] = array(self.starts.typecode, compress(self.starts, mask))
        self.lengths[:] = array(self.lengths.typecode, compress(self.lengths, mask))
        n = array("Q", compress(self.n, mask))
        if self.n is self.growing_n:
            self.growing_n[:] = n
        else:
            self.n = n
        assert len(self.ms) == len(self.seq) == len(self.n) == len(self.lengths)
        assert self.holes_bytes <= len(self.fields)
        if 2 * self.holes_bytes > len(self.fields):
            self._close_holes()

    def _remove_names(self, ns: Iterable[int]) -> None:
        assert self.idempotent is not None
        for n in ns:
            self.idempotent.pop(n, None)
        if not self.idempotent:
            # As if none had ever had one: what is written does not depend on what was in memory.
            self.idempotent = None

    def _remove_n(self, start: int, stop: int) -> None:
        if self.n is self.growing_n:
            del self.growing_n[start:stop]
        elif not start:
            # A range may lose entries at both ends, and is still one.
            self.n = self.n[stop:]
        elif stop == len(self.n):
            self.n = self.n[:start]
        else:
            self.n = array("Q", [*self.n[:start], *self.n[stop:]])

    def _close_holes(self) -> None:
        self.fields = bytearray(self.live_fields())
        self.holes_bytes = 0
        end = 0
        for index, length in enumerate(self.lengths):
            self.starts[index] = end
            end += length
        assert end == len(self.fields)


def part_of(columns: NodeColumns, start: int, stop: int) -> NodeColumns:
    """Some of the entries, with their names, as columns of their own; no times of arrival."""
    assert 0 <= start < stop <= len(columns.ms)
    first_n, last_n = columns.n[start], columns.n[stop - 1]
    lengths = columns.lengths[start:stop]
    fields = bytearray().join([columns.fields_at(at) for at in range(start, stop)])
    names = {n: one for n, one in (columns.idempotent or {}).items() if first_n <= n <= last_n}
    starts = array("I", accumulate(lengths[:-1], initial=0))
    return NodeColumns(
        columns.ms[start:stop],
        columns.seq[start:stop],
        columns.n[start:stop],
        starts,
        lengths,
        fields,
        array("Q"),
        names or None,
        runs_within(columns.numbered or [], first_n, last_n) or None,
    )


def runs_within(runs: NumberedRuns, first_n: int, last_n: int) -> NumberedRuns:
    """The parts of numbered runs whose dot numbers lie between two, both included."""
    within = []
    for run_n, length, first in runs:
        begin, end = max(run_n, first_n), min(run_n + length, last_n + 1)
        if begin < end:
            within.append((begin, end - begin, first.behind(begin - run_n)))
    return within


def widened(typecode: str, column: Sequence[int]) -> "array[int]":
    """A column with numbers of this type; a closed macro node may have it in a smaller one."""
    if isinstance(column, array) and column.typecode == typecode:
        return column
    return array(typecode, column)
