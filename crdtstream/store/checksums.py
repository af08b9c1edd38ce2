"""The checksum of an image's packed body, wherever it is kept: in ``log.sqlite``, in a staging."""

import zlib


def body_crc(number: int, packed: bytes) -> int:
    """A CRC-32 of the packed body and of the number of its image."""
    return zlib.crc32(packed, zlib.crc32(b"%d," % number))


def is_sound_body(number: object, packed: object, crc: object) -> bool:
    """True if a row of the table ``body`` is as it was written."""
    return isinstance(number, int) and isinstance(packed, bytes) and body_crc(number, packed) == crc
