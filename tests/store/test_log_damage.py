"""Damage that a log must notice when it is opened or read again: changed bits, and a crash."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.checkpoints import CheckpointRow
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints

R1 = RegionId(1)


async def open_log(folder: Path) -> SqliteLog:
    return await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqliteLog]:
    """A log that ends as by a crash, and whatever a test makes of it."""
    log = await open_log(folder)
    try:
        yield log
    finally:
        await log.abandon()


@pytest.mark.parametrize("column", ["batch", "local"])
async def test_one_changed_bit_is_noticed(tmp_path: Path, column: str) -> None:
    """The size stays as it was, so only the bytes themselves tell."""
    async with opened(tmp_path) as log:
        await log.append([Record(R1, 1, 1, b"batch", b"local")])
    changed = {"batch": b"batcj", "local": b"lobal"}[column]
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute(f"UPDATE log SET {column} = ?", (changed,))
    async with opened(tmp_path) as log:
        with pytest.raises(StoreError, match=r"row 1 of table log is damaged"):
            await log.read_from(1, bytes_max=1 << 20)


async def test_a_log_without_one_of_its_rows_is_not_opened(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await log.append([Record(R1, n, n, b"batch", None) for n in (1, 2, 3)])
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute("DELETE FROM log WHERE seq = 2")
    with pytest.raises(StoreError, match="1 of them are missing"):
        async with opened(tmp_path):
            pass


async def test_a_row_that_only_members_need_is_missed_before_it_matters(tmp_path: Path) -> None:
    """A start does not read what a checkpoint has: there may be a GiB of it."""
    async with opened(tmp_path) as log:
        await log.append([Record(R1, n, n, b"batch", b"local") for n in range(1, 11)])
        checkpoints = await SqliteCheckpoints.open(log)
        generation = await checkpoints.begin()
        await checkpoints.put([Image(1, Kind.KEY, 0, 0, b"head", b"")])
        await checkpoints.commit(CheckpointRow(generation, 8, {R1: 8}, 1, 5), [])
        await checkpoints.verify(generation)
    async with opened(tmp_path) as log:
        assert await log.bytes_from(1) == 100, "the older ones are taken to be like the others"
        await log.count_older()
        assert await log.bytes_from(1) == 100
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute("DELETE FROM log WHERE seq = 3")
    async with opened(tmp_path) as log:
        assert log.last_seq == 10
        assert len(await log.read_from(9, bytes_max=1 << 20)) == 2
        with pytest.raises(StoreError, match="a row of 1 to 8 is missing"):
            await log.read_from(1, bytes_max=70)
        with pytest.raises(StoreError, match="effect 3 of region 1 is missing"):
            await log.seek({R1: 2}, [R1])
        for _ in range(2):
            with pytest.raises(StoreError, match="rows 1 to 8 expected, but 1 of them are missing"):
                await log.count_older()
        with pytest.raises(StoreError, match="rows 1 to 8 expected"):
            await log.forget_upto(8)
        assert log.first_seq == 1
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute("DELETE FROM log WHERE seq = 9")
    with pytest.raises(StoreError, match="rows 9 to 10 expected, but 1 of them are missing"):
        async with opened(tmp_path):
            pass
