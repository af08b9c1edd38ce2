"""The write-ahead log stays bounded, also where it cannot be moved as fast as it grows."""

import asyncio
import contextlib
from pathlib import Path
from random import randbytes

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.connections import WAL_BYTES_COMMITS_MAX
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.upkeep.folder_cut import cut_of_folder

R1 = RegionId(1)
# It cannot be made smaller.
BATCH = randbytes(4 << 20)
BATCHES = 20


async def test_commits_wait_for_a_slow_disk_and_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.NO)
    connections = log.connections
    move, may_move = connections.move_wal, asyncio.Event()
    highest = 0

    async def move_late() -> bool:
        await may_move.wait()
        return await move()

    async def write() -> None:
        nonlocal highest
        for n in range(1, BATCHES + 1):
            await log.append([Record(R1, n, n, BATCH, None)])
            highest = max(highest, connections.wal_path.stat().st_size)

    monkeypatch.setattr(connections, "move_wal", move_late)
    try:
        writing = asyncio.create_task(write())
        while highest <= WAL_BYTES_COMMITS_MAX.value:
            assert not writing.done()
            await asyncio.sleep(0)
        stood = log.last_seq
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert log.last_seq <= stood + 1
        assert not writing.done()
        may_move.set()
        await writing
        assert log.last_seq == BATCHES
        assert highest <= WAL_BYTES_COMMITS_MAX.value + (16 << 20)
    finally:
        await log.abandon()


async def test_a_backup_that_stands_still_does_not_make_it_grow(tmp_path: Path) -> None:
    """It reads a few rows at a time; one long read would keep everything in the WAL."""
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.NO)
    connections = log.connections
    highest = 0
    try:
        for n in range(1, 5):
            await log.append([Record(R1, n, n, BATCH, None)])
        checkpoints = await SqliteCheckpoints.open(log)
        cut = cut_of_folder(log.path, checkpoints.hold(), version="1", cut_ms=0)
        async with contextlib.aclosing(cut) as pieces:
            await anext(pieces)
            for n in range(5, 5 + 2 * BATCHES):
                await log.append([Record(R1, n, n, BATCH, None)])
                highest = max(highest, connections.wal_path.stat().st_size)
            assert await connections.move_wal()
        assert highest <= WAL_BYTES_COMMITS_MAX.value + (16 << 20)
    finally:
        await log.abandon()
