"""The body of a macro node: its columns, written so that zstandard finds what is alike.

    n         nothing if the dot numbers are consecutive; else the distances between them
    ms        distances between them; the first is in the head
    seq       as they are
    lengths   as they are
    arrivals  their number; dot numbers and times, each the first one and distances
    names     producers; idempotent ids: dot numbers, producers, lengths, bytes;
              numbered rows: dot numbers, counts, producers, batches, rows
    fields    of all entries, without holes

Numbers of a column are of the smallest size that holds the largest of them: one byte says which,
then they follow, little-endian.  So distances between IDs take one byte mostly, and runs of equal
bytes are what zstandard likes best.
"""

import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate, islice, pairwise
from operator import sub
from typing import Final

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import SEQ_BITS, U64_MAX
from crdtstream.core.lanes.columns import Names, NodeColumns, NumberedRuns
from crdtstream.core.lanes.header import Header

_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
# No producers, no names, no numbered rows.
_NO_NAMES: Final = bytes(12)


def narrow(values: Sequence[int]) -> "array[int]":
    """The numbers in the smallest type that holds them all."""
    greatest = max(values) if values else 0
    if greatest < 1 << 8:
        return array("B", values)
    return array(_CODES[_width(greatest)], values)


def _width(value: int) -> int:
    return 1 if value < 1 << 8 else 2 if value < 1 << 16 else 4 if value < 1 << 32 else 8


# --- Writing ------------------------------------------------------------------------------------


def encode_body(columns: NodeColumns) -> bytes:
    """The entries of a warm columns."""
    fields = columns.live_fields()
    # An error here is found when the entries are read, weeks after the log is cut.
    assert len(columns.n) == len(columns.ms) == len(columns.seq) == len(columns.lengths)
    assert len(fields) == sum(columns.lengths), "entries without their fields"
    parts: list[bytes | bytearray] = []
    if columns.n[-1] - columns.n[0] + 1 != len(columns.n):
        _put(parts, _distances(columns.n))
    _put(parts, _distances(columns.ms))
    _put(parts, columns.seq)
    _put(parts, columns.lengths)
    arrivals = columns.arrivals
    _put_count(parts, len(arrivals) // 2)
    _put_ascending(parts, arrivals[::2])
    _put_ascending(parts, arrivals[1::2])
    _put_names(parts, columns.idempotent or {}, columns.numbered or [])
    parts.append(fields)
    return b"".join(parts)


def _put_names(
    parts: list[bytes | bytearray],
    idempotent: Names,
    numbered: NumberedRuns,
) -> None:
    if not idempotent and not numbered:
        parts.append(_NO_NAMES)
        return
    names = sorted(idempotent.items())
    producers = sorted(
        {name.producer for _, name in names} | {first.producer for _, _, first in numbered}
    )
    _put_count(parts, len(producers))
    _put_count(parts, len(names))
    _put_count(parts, len(numbered))
    at = {producer: index for index, producer in enumerate(producers)}
    _put(parts, list(map(len, producers)))
    parts += producers
    if names:
        _put_ascending(parts, [n for n, _ in names])
        _put(parts, [at[name.producer] for _, name in names])
        _put(parts, [len(name.id) for _, name in names])
        parts += [name.id for _, name in names]
    if numbered:
        _put_ascending(parts, [n for n, _, _ in numbered])
        _put(parts, [count for _, count, _ in numbered])
        _put(parts, [at[first.producer] for _, _, first in numbered])
        _put(parts, [first.batch for _, _, first in numbered])
        _put(parts, [first.row for _, _, first in numbered])


def _distances(values: Sequence[int]) -> list[int]:
    return list(map(sub, islice(values, 1, None), values))


def _put_ascending(parts: list[bytes | bytearray], values: Sequence[int]) -> None:
    parts.append((values[0] if values else 0).to_bytes(8, "little"))
    _put(parts, _distances(values))


def _put_count(parts: list[bytes | bytearray], count: int) -> None:
    parts.append(count.to_bytes(4, "little"))


def _put(parts: list[bytes | bytearray], values: Sequence[int]) -> None:
    column = narrow(values)
    if column.itemsize == 1:
        # Most columns of small nodes.
        parts.append(b"\1" + column.tobytes())
        return
    if sys.byteorder == "big":
        column.byteswap()
    parts.append(column.itemsize.to_bytes(1, "little"))
    parts.append(column.tobytes())


# --- Reading ------------------------------------------------------------------------------------


def decode_body(body: bytes, header: Header) -> NodeColumns:
    """The columns of a closed macro node, each as small as it can be, from its body and its head.

    Raises:
        ValueError: the body is none, or not this node's.
    """
    reader = _Reader(body)
    count = header.entries
    n: Sequence[int] = range(header.first_n, header.last_n + 1)
    if len(n) != count:
        n = reader.ascending_from(header.first_n, count, what="dot numbers")
    ms = reader.ascending_from(header.first_id >> SEQ_BITS, count, what="IDs", strictly=False)
    seq = reader.column(count)
    lengths = reader.column(count)
    arrivals = array("Q", bytes(16 * reader.count()))
    for half in (0, 1):
        arrivals[half::2] = reader.ascending(len(arrivals) // 2, strictly=False)
    if header.came_at_once:
        arrivals = array("Q", (header.first_n, header.first_arrival))
    idempotent, numbered = reader.names()
    fields = bytearray(reader.rest())
    ends = list(accumulate(lengths, initial=0))

    _check(n[-1] == header.last_n, "dot numbers")
    _check(_id(ms[0], seq[0]) == header.first_id, "its first ID")
    _check(_id(ms[-1], seq[-1]) == header.last_id, "its last ID")
    _check(_ascend(ms, seq), "IDs that ascend")
    _check(ends[-1] == len(fields) == header.fields_bytes, "bytes of fields")
    _check(
        not arrivals or (arrivals[1], arrivals[-1]) == (header.first_arrival, header.last_arrival),
        "times of arrival",
    )
    starts = narrow(ends[:-1])
    return NodeColumns(ms, seq, n, starts, lengths, fields, arrivals, idempotent, numbered)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"a macro node's body does not have {what}, as its head has")


def _id(ms: int, seq: int) -> int:
    return ms << SEQ_BITS | seq


def _ascend(ms: "array[int]", seq: "array[int]") -> bool:
    """True if the IDs ascend strictly; their ms never descend."""
    halves = zip(pairwise(ms), pairwise(seq), strict=True)
    return all(earlier < later or low < high for (earlier, later), (low, high) in halves)


class _Reader:
    """Takes a body apart, from its beginning to its end."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._body):
            raise ValueError(f"a macro node's body ends at byte {len(self._body)}, before {end}")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._at)

    def count(self) -> int:
        count = int.from_bytes(self.take(4), "little")
        if count > len(self._body):
            raise ValueError(f"a macro node's body of {len(self._body)} bytes counts to {count}")
        return count

    def column(self, count: int) -> "array[int]":
        width = self.take(1)[0]
        if width not in _CODES:
            raise ValueError(f"a macro node's body has numbers of {width} bytes")
        column = array(_CODES[width])
        column.frombytes(self.take(width * count))
        if sys.byteorder == "big":
            column.byteswap()
        return column

    def ascending_from(
        self, first: int, count: int, *, what: str, strictly: bool = True
    ) -> "array[int]":
        distances = self.column(max(0, count - 1))
        if strictly and 0 in distances:
            raise ValueError(f"a macro node's body has {what} that do not ascend")
        if first + sum(distances) > U64_MAX:
            raise ValueError(f"a macro node's body has {what} beyond 64 bits")
        return array("Q", accumulate(distances, initial=first))

    def ascending(self, count: int, *, strictly: bool = True) -> "array[int]":
        first = int.from_bytes(self.take(8), "little")
        column = self.ascending_from(first, count, what="numbers", strictly=strictly)
        return column if count else array("Q")

    def texts(self, count: int) -> list[bytes]:
        return [self.take(length) for length in self.column(count)]

    def names(
        self,
    ) -> tuple[Names | None, NumberedRuns | None]:
        producer_count, name_count, run_count = self.count(), self.count(), self.count()
        if not producer_count:
            _check(not name_count and not run_count, "producers")
            return None, None
        producers = self.texts(producer_count)
        idempotent: Names = {}
        if name_count:
            ns = self.ascending(name_count)
            named_by = self._each_of(producers, name_count)
            ids = self.texts(name_count)
            idempotent = dict(zip(ns, map(IdempotentId, named_by, ids), strict=True))
        numbered: NumberedRuns = []
        if run_count:
            ns = self.ascending(run_count, strictly=False)
            counts = self.column(run_count)
            named_by = self._each_of(producers, run_count)
            firsts = map(Numbered, named_by, self.column(run_count), self.column(run_count))
            numbered = list(zip(ns, counts, firsts, strict=True))
        return idempotent or None, numbered or None

    def _each_of(self, producers: list[bytes], count: int) -> list[bytes]:
        column = self.column(count)
        if max(column) >= len(producers):
            raise ValueError("a macro node's body has a producer without a name")
        return [producers[index] for index in column]
