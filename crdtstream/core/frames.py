"""Zstandard frames: made here, and read from outside.

    28 b5 2f fd   descriptor   window   content size   blocks   checksum
    the magic                           claimed

A few bytes from outside may become gigabytes.  So only a frame that claims a size within a bound is
unpacked, and no further than that.  One that is to be skipped (it begins otherwise) is refused.
"""

from typing import Any, Final

from backports.zstd import (
    CompressionParameter,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    get_frame_info,
)

FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"


class FrameError(ValueError):
    """Bytes that are no frame, are damaged, or claim more than there may be; the text says which.

    It is a ValueError, as are the other errors of what is damaged on disk.
    """


class FramePacker:
    """Makes frames that claim the size of their content.

    It keeps the library's tables: a packer for each frame would take three times as long if frames
    are small.  One thread at a time may use it.
    """

    __slots__ = ("_compressor",)

    def __init__(self, *, level: int, has_checksum: bool = False) -> None:
        """
        Args:
            has_checksum: a frame ends with a checksum of its content.
        """
        options: dict[int, int] = {
            CompressionParameter.compression_level: level,
            CompressionParameter.checksum_flag: int(has_checksum),
        }
        self._compressor = ZstdCompressor(options=options)

    def pack(self, content: bytes) -> bytes:
        return self._compressor.compress(content, ZstdCompressor.FLUSH_FRAME)


def claimed_size(frame: bytes) -> int:
    """The size of its content that a frame claims, in bytes.

    Raises:
        FrameError: it is no frame of content, or claims no size.
    """
    if not frame.startswith(FRAME_MAGIC):
        raise FrameError("no zstandard frame")
    try:
        # The library's types leave out that a frame need not claim a size.
        info: Any = get_frame_info(frame)
    except ZstdError as error:
        raise FrameError("a damaged zstandard frame: no whole header") from error
    size: int | None = info.decompressed_size
    if size is None:
        raise FrameError("a frame that does not claim the size of its content")
    return size


def unpack_frame(frame: bytes, *, bytes_max: int) -> bytes:
    """The content of a frame.

    Raises:
        FrameError: it claims more than ``bytes_max``, or holds something else than it claims.
    """
    size = claimed_size(frame)
    if size > bytes_max:
        raise FrameError(f"a frame of {size} bytes is not within {bytes_max}")
    unpacker = ZstdDecompressor()
    try:
        # With room for one byte more the library reads on to the checksum at the end.
        content = unpacker.decompress(frame, size + 1)
    except ZstdError as error:
        raise FrameError(f"a damaged zstandard frame: {error}") from error
    if not unpacker.eof:
        raise FrameError("a damaged zstandard frame: it ends early")
    if len(content) != size:
        raise FrameError(f"a frame with {len(content)} bytes in place of {size}")
    return content
