"""Zstandard frames that claim another size than they have: nothing takes memory beyond its bound.

Each border that unpacks says how large a content may be.  What it takes is measured, as Python
counts it: the content, and a few copies of it.
"""

import tracemalloc
from functools import cache, partial
from random import Random
from typing import Final

from backports.zstd import CompressionParameter, compress

from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.packing import unpack
from crdtstream.region.links.errors import PeerError
from crdtstream.replication.wire import BatchUnpacker
from crdtstream.store.rows import RowReader, columns_crc
from crdtstream.v1 import replication_pb2 as pb
from tests.fuzz.damage import NUMBERS, damaged_bytes, one_of
from tests.fuzz.surface import Surface

BYTES_MAX: Final = 1 << 16
# Copies of the content, and objects for its parts: an empty batch has two bytes.
MEMORY_MAX: Final = 40 * BYTES_MAX
MAGIC: Final = b"\x28\xb5\x2f\xfd"
# What the content of a bomb has; of a frame without a size, too.
LARGE: Final = 1 << 24


def target(data: bytes) -> object:
    """The first byte: who unpacks it."""
    tracemalloc.start()
    try:
        found = _unpacked(data[:1], data[1:])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= MEMORY_MAX + 4 * len(data), f"{peak} bytes for {len(data)}"
    return found


def _unpacked(by: bytes, frame: bytes) -> object:
    try:
        match by:
            case b"L":
                batches = BatchUnpacker(RegionId(2), bytes_max=BYTES_MAX).unpack(frame)
                assert sum(map(len, batches)) <= BYTES_MAX
                return len(batches)
            case b"N":
                body = unpack(frame, size=BYTES_MAX)
                assert len(body) == BYTES_MAX
                return len(body)
            case _:
                head = (1, 2, 1, 1)
                reader = RowReader(batch_bytes_max=BYTES_MAX)
                logged, is_sound = reader.read(
                    [*head, frame, None, columns_crc(*head, frame, None)]
                )
                assert logged is not None
                batch = logged.record.batch
                assert batch is not None
                assert len(batch) <= max(BYTES_MAX, len(frame))
                return is_sound
    except (PeerError, ValueError) as error:
        return str(error)


@cache
def seeds() -> list[bytes]:
    sized = partial(compress, level=1)
    unsized = partial(
        compress,
        options={
            CompressionParameter.compression_level: 1,
            CompressionParameter.content_size_flag: 0,
        },
    )
    content = bytes(BYTES_MAX)
    batches = pb.BatchList(batches=[b"batch", b""] * 10).SerializeToString()
    frames = [
        sized(content),
        sized(batches),
        sized(b""),
        sized(bytes(LARGE)),
        unsized(content),
        unsized(bytes(LARGE)),
        sized(batches) + sized(bytes(LARGE)),
        # Frames that are to be skipped may stand anywhere.
        b"\x50\x2a\x4d\x18\x08\0\0\0" + bytes(8) + sized(batches),
    ]
    return [by + frame for by in (b"L", b"N", b"R") for frame in frames]


def with_a_size(data: bytes, draw: Random) -> bytes:
    """A frame whose header claims another size: its descriptor says in how many bytes."""
    frame = data[1:]
    if not frame.startswith(MAGIC):
        return damaged_bytes(data, draw)
    flag = draw.randrange(4)
    width = (1, 2, 4, 8)[flag]
    number = draw.choice((draw.choice(NUMBERS), BYTES_MAX, BYTES_MAX + 1, LARGE))
    # Bit 5: a single segment, which has no window of its own.
    descriptor = bytes([flag << 6 | 1 << 5 | draw.choice((0, 4))])
    claimed = (number & (1 << 8 * width) - 1).to_bytes(width, "little")
    # The blocks of the frame as it was; a header has 2 to 14 bytes behind the magic.
    blocks = frame[4 + draw.choice((2, 3, 5, 6, 9)) :]
    return data[:1] + MAGIC + descriptor + claimed + blocks


BOMBS: Final = Surface(
    "bombs",
    target,
    seeds,
    one_of(with_a_size, damaged_bytes),
    "Zstandard frames that are bombs: from links, of macro nodes, in the log",
)
