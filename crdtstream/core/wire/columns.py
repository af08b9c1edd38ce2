"""The columns of a batch's appends as bytes.

Numbers of one batch are mostly alike: its IDs are of the same second and have the region's number
in their lowest bits, and its entries are of the same size.  So bytes that all have in common are
written once, without zeros at their end, and of those that differ one plane after the other: the
lower ones of all numbers, then the higher ones.

    numbers    0x1a0701   0x1aff01   0x1a1001
    head       2 bytes in common, some differ
    planes     the second lowest
    common     01 1a
    plane      07 ff 10

Planes are cut out of, and put back into, the numbers as they lie in memory, so that what it takes
hardly grows with their number.
"""

import sys
from array import array
from collections.abc import Sequence
from typing import Final

_SIZES: Final = {"I": 4, "Q": 8}
# Head of a column: how many bytes its numbers have in common; and whether others differ.
_COMMON_MASK: Final = 15
_DIFFERS: Final = 16


class ColumnsError(Exception):
    """Bytes that are no columns, or not the right number; the text says what is wrong."""


def write_columns(columns: "Sequence[array[int]]") -> bytes:
    """The columns' bytes; each is of ``I`` or ``Q``, and none is empty."""
    parts: list[bytes] = []
    for column in columns:
        assert column, "a column without numbers has no head to be read back"
        if len(column) == 1:
            _put_one(parts, column[0])
        else:
            _put(parts, column)
    return b"".join(parts)


def _put_one(parts: list[bytes], number: int) -> None:
    common = (number.bit_length() + 7) // 8
    parts.append(common.to_bytes(1, "little"))
    parts.append(number.to_bytes(common, "little"))


def _put(parts: list[bytes], column: "array[int]") -> None:
    size, count = column.itemsize, len(column)
    data = little_endian(column).tobytes()
    common = bytearray()
    differing = 0
    planes = []
    for at in range(size):
        plane = data[at::size]
        if plane == plane[:1] * count:
            common += plane[:1]
        else:
            differing |= 1 << at
            planes.append(plane)
    once = bytes(common.rstrip(b"\0"))
    parts.append(bytes((len(once) | _DIFFERS, differing) if planes else (len(once),)))
    parts.append(once)
    parts += planes


class ColumnsReader:
    """Columns, one after the other.  The caller that takes them knows how many numbers each has."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, typecode: str, count: int) -> "array[int]":
        """The next column; it takes as much memory as it has numbers, however few its bytes are.

        Raises:
            ColumnsError: it ends too early, or its numbers do not fit the type.
        """
        size = _SIZES[typecode]
        (head,) = self._bytes(1)
        if not head & _DIFFERS:
            if head > size:
                raise ColumnsError(f"no head of numbers of {size} bytes")
            column = array(typecode, [int.from_bytes(self._bytes(head), "little")])
            return column * count
        (differing,) = self._bytes(1)
        differs = [at for at in range(size) if differing >> at & 1]
        common = head & _COMMON_MASK
        if (
            not differing
            or differing >> size
            or head >= 2 * _DIFFERS
            or len(differs) + common > size
        ):
            raise ColumnsError(f"no head of numbers of {size} bytes")
        once = iter(self._bytes(common).ljust(size, b"\0"))
        first = bytes([0 if differing >> at & 1 else next(once) for at in range(size)])
        numbers = bytearray(first * count)
        for at in differs:
            numbers[at::size] = self._bytes(count)
        column = array(typecode)
        column.frombytes(numbers)
        return little_endian(column)

    def check_end(self) -> None:
        """See that all was taken.

        Raises:
            ColumnsError: there are more bytes.
        """
        if self._at != len(self._data):
            raise ColumnsError(f"{len(self._data) - self._at} bytes too many")

    def _bytes(self, count: int) -> bytes:
        begin, self._at = self._at, self._at + count
        if self._at > len(self._data):
            raise ColumnsError("they end too early")
        return self._data[begin : self._at]


def little_endian(column: "array[int]") -> "array[int]":
    """The column's numbers with their lowest bytes first."""
    if sys.byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped
