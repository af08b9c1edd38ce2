"""Rows of the log: what is packed, that it is read back as it was, and that damage is found."""

import random
import zlib
from pathlib import Path

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.frames import FRAME_MAGIC
from crdtstream.core.ids import RegionId
from crdtstream.store.log import Fsync, Logged
from crdtstream.store.rows import (
    PACKED_BYTES_MIN,
    RowPacker,
    RowReader,
    record_crc,
    stored_bytes,
)
from crdtstream.store.sqlite import SqliteLog

R1 = RegionId(1)
NOISE = random.Random(1).randbytes(4_096)
# A row as it was first written in this format.
GOLDEN = bytes.fromhex("28b52ffd60e802650000286669656c640100e051152d")


def row(batch: bytes | None, local: bytes | None = None) -> Logged:
    return Logged(7, Record(R1, 3, 5, batch, local))


@pytest.mark.parametrize(
    ("batch", "is_packed"),
    [
        (None, False),
        (b"", False),
        (b"x" * (PACKED_BYTES_MIN.value - 1), False),
        (b"x" * PACKED_BYTES_MIN.value, True),
        (NOISE, False),
        # Else it would be taken for packed.
        (FRAME_MAGIC, True),
        (FRAME_MAGIC + NOISE, True),
    ],
)
def test_a_row_is_read_back_as_it_was(batch: bytes | None, is_packed: bool) -> None:
    columns = RowPacker().columns(row(batch, b"local"))
    stored = columns[4]
    assert (stored != batch) is is_packed
    assert RowReader().read(columns) == (row(batch, b"local"), True)
    assert stored_bytes(columns) == (len(stored) if isinstance(stored, bytes) else 0) + 5


def test_a_row_of_an_earlier_format_is_read_as_it_stands() -> None:
    logged = row(b"x" * 10 * PACKED_BYTES_MIN.value)
    record = logged.record
    columns = (7, 1, 3, 5, record.batch, None, record_crc(logged))
    assert RowReader().read(columns) == (logged, True)


def test_a_packed_row_is_read_as_it_was_first_written() -> None:
    packed = (7, 1, 3, 5, GOLDEN, None, zlib.crc32(GOLDEN, zlib.crc32(b"7,1,3,5,22,-1")))
    assert RowReader().read(packed) == (row(b"field" * 200), True)


def test_every_flip_of_a_packed_row_is_found() -> None:
    columns = list(RowPacker().columns(row(b"field value" * 100)))
    packed, reader = columns[4], RowReader()
    assert isinstance(packed, bytes)
    for at in range(8 * len(packed)):
        flipped = bytearray(packed)
        flipped[at // 8] ^= 1 << at % 8
        columns[4] = bytes(flipped)
        _, is_sound = reader.read(columns)
        assert not is_sound


def test_a_frame_that_is_none_is_damage_though_its_checksum_is_right() -> None:
    broken = GOLDEN[:-1]
    columns = (7, 1, 3, 5, broken, None, zlib.crc32(broken, zlib.crc32(b"7,1,3,5,21,-1")))
    _, is_sound = RowReader().read(columns)
    assert not is_sound


def test_a_frame_that_claims_more_than_a_batch_may_have_is_damage() -> None:
    columns = RowPacker().columns(row(b"x" * 10_000))
    assert RowReader(batch_bytes_max=10_000).read(columns)[1]
    assert not RowReader(batch_bytes_max=9_999).read(columns)[1]


async def test_a_read_is_bounded_by_the_unpacked_size(tmp_path: Path) -> None:
    """A thousand rows of a MiB take some KiB in the table."""
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.NO)
    try:
        count = 40
        for n in range(1, count + 1):
            await log.append([Record(R1, n, n, b"%d" % n * (1 << 19), None)])
        assert await log.bytes_from(1) < 1 << 20
        log.bound_tail(is_short=True)
        for _ in range(2):
            # The second time it knows about how much the rows become.
            seq = 1
            while seq < count:
                found = await log.read_from(seq, bytes_max=4 << 20)
                assert sum(len(one.record.batch or b"") for one in found) <= 4 << 20
                for logged in found:
                    assert logged.record.batch == b"%d" % logged.seq * (1 << 19)
                assert [one.seq for one in found] == list(range(seq, seq + len(found)))
                seq += len(found)
    finally:
        await log.abandon()
