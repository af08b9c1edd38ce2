"""Fields and values of many entries at once, from the RESP arrays that the wire carries.

An entry's fields arrive as the bytes that XADD stored, a RESP array of bulk strings:

    *2\\r\\n $4\\r\\n text\\r\\n $5\\r\\n hello\\r\\n        (blanks only here, for reading)

A column of them is read across, not down: step k reads the k-th ``$length`` of all rows with a
handful of numpy operations, so the work of Python depends on the number of fields, not of rows.
The steps find where each name and value starts and how long it is.  One Arrow array is then laid
over the same bytes; in it pieces alternate with the bytes between them:

    bytes    *2..$4..text..$5..hello..*2..$4..text..$3..bye..
    offsets          |   |    |    |          |   |    |  |
    pieces           0   1    2    3          4   5    6  7     names: 0, 4, …   values: 2, 6, …

Taking every fourth piece copies names and values into arrays of their own.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# No annotation of numpy or Arrow says more than this one, as neither is checked element by element.
Ints: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

_STAR, _DOLLAR, _CR, _LF, _ZERO = b"*$\r\n0"
# A length has no more digits than fit into what a node accepts, and never more than this.
_DIGITS_MAX: Final = 10
# Comparing each name with those behind it in its entry costs a pass for each distance.
_DISTANCES_MAX: Final = 16


class FieldsError(ValueError):
    """A blob is no RESP array of fields and values.

    Attributes:
        row: of the column, the first such one.
    """

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} holds no RESP array of fields and values")
        self.row = row


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and values of all rows, one after the other.

    Attributes:
        names: binary, without nulls.
        values: binary, beside each name.
        starts: of each row the index of its first pair, and at the end how many there are.
        shared: the names of every row, where all have the same in the same order; else None.
    """

    names: pa.BinaryArray
    values: pa.BinaryArray
    starts: Ints
    shared: tuple[bytes, ...] | None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def row_of_pair(self) -> Ints:
        """To which row each pair belongs."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def values_of(self, name: bytes) -> pa.BinaryArray:
        """Of each row the value of a field; null where it has none, the last of several."""
        found = self._pairs_of(name)
        return self.values.take(pa.array(found, mask=found < 0))

    def _pairs_of(self, name: bytes) -> Ints:
        """Of each row the index of the last pair with this name; -1: none."""
        if self.shared is not None:
            if name not in self.shared:
                return np.full(len(self), -1)
            from_end = self.shared[::-1].index(name)
            return self.starts[1:] - 1 - from_end
        same = pc.equal(self.names, pa.scalar(name, pa.binary()))
        pairs = np.flatnonzero(same.to_numpy(zero_copy_only=False))
        found = np.full(len(self), -1)
        # Of repeated indices the last assignment holds.
        found[self.row_of_pair[pairs]] = pairs
        return found


def decode_fields(column: pa.BinaryArray) -> Fields:
    """Names and values of a column of blobs.

    Cost: some operations over all rows per field; no Python object per row.

    Raises:
        FieldsError: a blob is not well-formed, or null.
    """
    if column.null_count:
        raise FieldsError(int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]))
    _, offsets_buffer, data_buffer = column.buffers()
    if not len(column):
        nothing = pa.array([], pa.binary())
        return Fields(nothing, nothing, np.zeros(1, np.int64), ())
    offsets = np.frombuffer(offsets_buffer, np.int32)[column.offset :][: len(column) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    if not data.size:
        raise FieldsError(0)

    counts, starts, lengths = _segments(data, offsets.astype(np.int64))
    pieces = _pieces(data_buffer, starts, lengths)
    pair_starts = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts // 2, out=pair_starts[1:])
    names = pieces.take(pa.array(np.arange(0, 2 * len(starts), 4)))
    values = pieces.take(pa.array(np.arange(2, 2 * len(starts), 4)))
    return Fields(names, values, pair_starts, _shared_names(counts, lengths, names))


def without_repeats(names: pa.Array, fields: Fields) -> Ints | None:
    """Pairs that are kept if each row has a name once, with its last value; None: all pairs.

    Args:
        names: of the pairs, in the form in which they are compared: two that are different bytes
            may be one text.
        fields: have these pairs.
    """
    if fields.shared is not None:
        first_row = names[: len(fields.shared)].to_pylist()
        if len(set(first_row)) == len(first_row):
            return None
    codes = _codes(names)
    row_of_pair = fields.row_of_pair
    again = _comes_again(codes, row_of_pair, int(np.diff(fields.starts).max(initial=0)))
    return np.flatnonzero(~again) if again.any() else None


def _segments(data: Bytes, offsets: Ints) -> tuple[Ints, Ints, Ints]:
    """Of each row how many bulk strings it has; of those, row by row, starts and lengths."""
    at, ends = offsets[:-1], offsets[1:]
    counts, at, good = _numbers(data, at, _STAR)
    good &= (counts > 0) & (counts % 2 == 0)
    # No bulk string is shorter than its "$0\r\n\r\n", so a count that is made up ends here.
    good &= counts <= (ends - at) // 6
    _refuse(~good)

    first = np.cumsum(counts) - counts
    starts, lengths = np.empty((2, int(counts.sum())), np.int64)
    rows: Any = slice(None)
    for k in range(int(counts.max())):
        if k >= counts.min():
            rows = np.flatnonzero(counts > k)
        length, start, good = _numbers(data, at[rows], _DOLLAR)
        end = start + length
        good &= (data.take(end, mode="clip") == _CR) & (data.take(end + 1, mode="clip") == _LF)
        good &= end + 2 <= ends[rows]
        _refuse(~good, rows)
        starts[first[rows] + k] = start
        lengths[first[rows] + k] = length
        if isinstance(rows, slice):
            at = end + 2
        else:
            at[rows] = end + 2
    _refuse(at != ends)
    return counts, starts, lengths


def _numbers(data: Bytes, at: Ints, marker: int) -> tuple[Ints, Ints, Flags]:
    """Read ``marker digits CR LF`` at ``at``: the numbers, their ends, and if they are well-formed.

    Reading beyond the end of the data finds the last byte again, which never looks like a good
    ending.  The caller, which knows the ends of rows, refuses what lies beyond a row's end.
    """
    good = data.take(at, mode="clip") == marker
    at = at + 1
    digit = data.take(at, mode="clip") - np.uint8(_ZERO)
    good &= digit <= 9
    number = digit.astype(np.int64)
    for _ in range(_DIGITS_MAX):
        at += digit <= 9
        char = data.take(at, mode="clip")
        digit = char - np.uint8(_ZERO)
        more = digit <= 9
        if not more.any():
            break
        number = np.where(more, 10 * number + digit, number)
    good &= (char == _CR) & (data.take(at + 1, mode="clip") == _LF)
    return number, at + 2, good


def _refuse(bad: Flags, rows: Any = None) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise FieldsError(row if rows is None or isinstance(rows, slice) else int(rows[row]))


def _pieces(data: pa.Buffer, starts: Ints, lengths: Ints) -> pa.BinaryArray:
    """Over the same bytes: at 2i the i-th segment, at 2i + 1 what lies between it and the next."""
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2] = starts
    offsets[1::2] = starts + lengths
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), data]
    )


def _shared_names(counts: Ints, lengths: Ints, names: pa.BinaryArray) -> tuple[bytes, ...] | None:
    """The names that all rows have, if they do, by comparing bytes alone."""
    count = int(counts[0])
    if (counts != count).any():
        return None
    of_names = lengths.reshape(-1, count)[:, 0::2]
    if (of_names != of_names[0]).any():
        return None
    row_bytes = int(of_names[0].sum())
    if row_bytes:
        _, offsets, data = names.buffers()
        begin = int(np.frombuffer(offsets, np.int32)[names.offset])
        rows = np.frombuffer(data, np.uint8)[begin:][: len(counts) * row_bytes]
        table = rows.reshape(-1, row_bytes)
        if (table != table[0]).any():
            return None
    return tuple(names[: count // 2].to_pylist())


def _codes(names: pa.Array) -> Ints:
    """A number for each name, equal for equal ones."""
    codes: Ints = names.dictionary_encode().indices.cast(pa.int64()).to_numpy()
    return codes


def _comes_again(codes: Ints, row_of_pair: Ints, pairs_max: int) -> Flags:
    """Of each pair whether its name stands in its row once more, further behind."""
    again = np.zeros(len(codes), np.bool_)
    if pairs_max <= _DISTANCES_MAX:
        for distance in range(1, pairs_max):
            same = codes[:-distance] == codes[distance:]
            again[:-distance] |= same & (row_of_pair[:-distance] == row_of_pair[distance:])
        return again
    # Many fields: they are sorted by row and name, equal ones in their order; neighbours decide.
    order = np.lexsort((codes, row_of_pair))
    same = (np.diff(codes[order]) == 0) & (np.diff(row_of_pair[order]) == 0)
    again[order[:-1]] = same
    return again
