"""The packed form of what a checkpoint keeps of a part: a zstandard frame.

It is what the store keeps, and what memory keeps of macro nodes that are seldom read.  The frame
has a checksum of what is in it.
"""

from typing import Final

from crdtstream.core.frames import FrameError, FramePacker, claimed_size, unpack_frame

# Measured in bytes an entry at levels 1, 3 and 9: sensor
# readings 10.8, 10.9, 10.0; 1 KiB of words 453, 458, 449; level 9 takes several times as long.
LEVEL: Final = 3
# A frame says how long its content is; longer ones are damage, not data.
BODY_BYTES_MAX: Final = 256 << 20


def pack(body: bytes) -> bytes:
    """The frame of a body; of an empty one, nothing.  Threads may call it at the same time."""
    if not body:
        return b""
    return FramePacker(level=LEVEL, has_checksum=True).pack(body)


def unpack(packed: bytes, *, size: int | None = None) -> bytes:
    """Decompress what was packed.

    Args:
        size: of the result, in bytes, if it is known from elsewhere: no more memory than that is
            taken, whatever the frame claims.

    Raises:
        ValueError: it is no such frame, or its content is damaged or of another size.
    """
    if not packed and not size:
        return b""
    claimed = claimed_size(packed)
    if size is not None and claimed != size:
        raise FrameError(f"a frame of {claimed} bytes in place of {size}")
    return unpack_frame(packed, bytes_max=BODY_BYTES_MAX)
