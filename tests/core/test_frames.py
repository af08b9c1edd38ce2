"""Zstandard frames from outside: memory is taken within the bound, whatever they claim."""

import tracemalloc

import pytest
from backports.zstd import CompressionParameter, compress

from crdtstream.core.frames import FRAME_MAGIC, FrameError, FramePacker, claimed_size, unpack_frame

BYTES_MAX = 1 << 16
CONTENT = bytes(range(256)) * 4
FRAME = FramePacker(level=3).pack(CONTENT)
MIB = 1 << 20


def claiming(size: int) -> bytes:
    """The frame, with another size in its header: of one segment, in eight bytes."""
    return FRAME_MAGIC + b"\xe0" + size.to_bytes(8, "little") + FRAME[-600:]


def skipped(size: int) -> bytes:
    """A frame that a reader is to skip, and says how long it is."""
    return b"\x50\x2a\x4d\x18" + size.to_bytes(4, "little") + b"few"


def test_a_frame_is_unpacked() -> None:
    assert claimed_size(FRAME) == len(CONTENT)
    assert unpack_frame(FRAME, bytes_max=len(CONTENT)) == CONTENT
    empty = FramePacker(level=3).pack(b"")
    assert unpack_frame(empty, bytes_max=0) == b""


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (FramePacker(level=3).pack(CONTENT + b"x"), "a frame of 1025 bytes is not within 1024"),
        (claiming(BYTES_MAX), "not within"),
        (claiming((1 << 63) - 1), "not within"),
        (claiming(1000), "damaged"),
        (FRAME[:-1], "damaged"),
        (FRAME_MAGIC, "damaged"),
        (
            compress(CONTENT, options={CompressionParameter.content_size_flag: 0}),
            "does not claim the size",
        ),
        (skipped(1 << 30), "no zstandard frame"),
        (skipped(3) + FRAME, "no zstandard frame"),
        (b"", "no zstandard frame"),
    ],
)
def test_other_bytes_are_refused_before_memory_is_taken_for_them(frame: bytes, reason: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match=reason):
            unpack_frame(frame, bytes_max=len(CONTENT))
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
