"""Input of one client that is still to be parsed: it came while the client's requests had to wait.

It is kept as it came.  Once it is parsed, a request of two bytes takes a hundred.  Short pieces
are joined, so that many of them take no more than their bytes, and runs of commands are found
across them.
"""

from collections import deque
from typing import Final

from crdtstream.core.size import Size

# Input is parsed and run in pieces of about this size; other clients come between.
PIECE_BYTES: Final = Size(1 << 18, least=1)


class Arrivals:
    """Bytes, in the order in which they came.

    Attributes:
        size: number of bytes.
    """

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[bytes | bytearray] = deque()
        self.size = 0

    def is_next_within(self, turn_bytes: int) -> bool:
        """True if the next piece may still be run in a turn that has run this many bytes."""
        next_bytes = len(self._pieces[0]) if self._pieces else 0
        return turn_bytes + next_bytes <= PIECE_BYTES.value

    def add(self, data: bytes) -> None:
        self.size += len(data)
        last = self._pieces[-1] if self._pieces else b""
        if not self._pieces or len(last) + len(data) > PIECE_BYTES.value:
            self._pieces.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            self._pieces[-1] = bytearray(last + data)

    def take(self) -> bytes:
        """The next piece; there must be one."""
        piece = bytes(self._pieces.popleft())
        self.size -= len(piece)
        return piece

    def clear(self) -> None:
        self._pieces.clear()
        self.size = 0
