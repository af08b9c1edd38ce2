"""Limits of one reply of XREAD or XREADGROUP: MAXCOUNT and MAXSIZE."""

from typing import Final

# What a stream costs in a reply besides its entries and its key: the framing, with long counts.
STREAM_FRAMING_BYTES: Final = 24


class Budget:
    """Room that MAXCOUNT and MAXSIZE leave in one reply, over all its streams.

    MAXSIZE counts the reply's own bytes, framing included, as RESP2 has it (RESP3 differs by a
    few); a stream counts with its first entry.  The first entry of all is always within it: a
    reader whose entry is too large gets on.
    """

    __slots__ = ("_bytes_left", "_count_left", "_framing_bytes", "_is_empty", "is_spent")

    def __init__(self, maxcount: int | None, maxsize: int | None) -> None:
        self._count_left = maxcount
        self._bytes_left = maxsize
        self._framing_bytes = 0
        self._is_empty = True
        self.is_spent = False

    def begin_stream(self, key: bytes) -> None:
        """The entries that follow are of this key."""
        self._framing_bytes = len(key) + STREAM_FRAMING_BYTES

    def take(self, entry: bytes) -> bool:
        """Take one more entry; True if there is room.  A spent budget takes nothing more."""
        if self.is_spent:
            return False
        if self._bytes_left is not None:
            self._bytes_left -= self._framing_bytes + len(entry)
            self._framing_bytes = 0
            if self._bytes_left < 0 and not self._is_empty:
                self.is_spent = True
                return False
        self._is_empty = False
        if self._count_left is not None:
            self._count_left -= 1
            self.is_spent = self._count_left == 0
        return True
