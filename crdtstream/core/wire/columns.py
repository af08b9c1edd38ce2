"""The columns of a batch's appends as bytes.

Numbers of one batch are mostly alike: its IDs are of the same second, its entries of the same
size.  So what their high bytes have in common is written once, and of their low bytes one plane
after the other: all lowest bytes, then all second ones, and so on.

    numbers    0x1a2b07   0x1a2bff   0x1a2b10
    head       1 plane, 2 bytes in common
    common     2b 1a
    planes     07 ff 10

Planes are cut out of, and put back into, the numbers as they lie in memory, so that what it takes
hardly grows with their number.
"""

import sys
from array import array
from collections.abc import Sequence
from typing import Final

_SIZES: Final = {"I": 4, "Q": 8}
# Head of a column: the number of planes, and that of the bytes in common.
_PLANES_SHIFT: Final = 4
_COMMON_MASK: Final = 15


class ColumnsError(Exception):
    """Bytes that are no columns, or not as many; the text says what is wrong."""


def write_columns(columns: "Sequence[array[int]]") -> bytes:
    """The columns' bytes; each is of ``I`` or ``Q``, and none is empty."""
    parts: list[bytes] = []
    for column in columns:
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
    data = _little_endian(column).tobytes()
    planes = size
    while planes:
        plane = data[planes - 1 :: size]
        if plane != plane[:1] * count:
            break
        planes -= 1
    common = data[planes:size].rstrip(b"\0")
    parts.append((planes << _PLANES_SHIFT | len(common)).to_bytes(1, "little"))
    parts.append(common)
    parts += [data[plane::size] for plane in range(planes)]


class ColumnsReader:
    """Columns, one after the other.  Who takes them knows how many numbers each has."""

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
        planes, common = head >> _PLANES_SHIFT, head & _COMMON_MASK
        if planes + common > size:
            raise ColumnsError(f"numbers of {planes + common} bytes, not {size}")
        high = bytes(planes) + self._bytes(common)
        numbers = bytearray(high.ljust(size, b"\0") * count)
        for plane in range(planes):
            numbers[plane::size] = self._bytes(count)
        column = array(typecode)
        column.frombytes(numbers)
        return _little_endian(column)

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


def _little_endian(column: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped
