"""One contract for every log; and what only the log on disk can do wrong."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import randbytes

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync, Log, Logged, MemoryLog
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.tail import TAIL_BYTES_SHORT, Tail

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


async def open_log(folder: Path, region: int = 1, database_id: str = "crdb") -> SqliteLog:
    return await SqliteLog.open(
        folder, region=RegionId(region), database_id=database_id, fsync=Fsync.ALWAYS
    )


@pytest.fixture(params=["memory", "sqlite", "sqlite without tail"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Log]:
    if request.param == "memory":
        yield MemoryLog()
        return
    log = await open_log(tmp_path)
    if request.param == "sqlite without tail":
        # Every read goes to the disk but the one of the newest row.
        log._tail.bytes_max = 0
    yield log
    await log.close()


def batch(origin: RegionId, first_n: int, count: int = 1, data: bytes = b"batch") -> Record:
    return Record(origin, first_n, first_n + count - 1, data, None)


def local(origin: RegionId, issued: int) -> Record:
    return Record(origin, issued + 1, issued, None, b"local")


# --- The contract ---------------------------------------------------------------------------------


async def test_rows_come_back_in_order_and_whole(log: Log) -> None:
    records = [batch(R1, 1, 3), local(R1, 3), batch(R2, 1), Record(R1, 4, 4, b"", b"")]
    await log.append(records[:1])
    await log.append(records[1:])
    assert log.last_seq == 4
    rows = await log.read_from(1, bytes_max=1 << 20)
    assert rows == [Logged(seq, record) for seq, record in enumerate(records, start=1)]
    assert await log.read_from(3, bytes_max=1 << 20) == rows[2:]
    assert await log.read_from(5, bytes_max=1 << 20) == []


async def test_a_read_is_bounded_but_never_empty(log: Log) -> None:
    await log.append([batch(R1, n, data=bytes(1000)) for n in range(1, 11)])
    assert len(await log.read_from(1, bytes_max=1)) == 1
    assert 2 <= len(await log.read_from(1, bytes_max=3_500)) <= 3
    assert len(await log.read_from(9, bytes_max=1 << 20)) == 2


async def test_seek_finds_the_first_batch_beyond_a_version_vector(log: Log) -> None:
    await log.append(
        [batch(R1, 1, 5), batch(R2, 1), local(R1, 5), batch(R1, 6, 2), batch(R2, 2), batch(R3, 1)]
    )
    every = (R1, R2, R3)
    assert await log.seek({}, every) == 1
    assert await log.seek({R1: 5}, every) == 2
    assert await log.seek({R1: 5, R2: 1}, every) == 4
    assert await log.seek({R1: 7, R2: 2}, every) == 6
    assert await log.seek({R1: 7, R2: 2, R3: 1}, every) == 7
    assert await log.seek({}, [R3]) == 6
    assert await log.seek({}, []) == 7


async def test_settings_are_kept(log: Log) -> None:
    assert await log.get_meta("tune:x") is None
    await log.set_meta("tune:x", "strict")
    await log.set_meta("tune:x", "liberal")
    assert await log.get_meta("tune:x") == "liberal"


# --- On disk --------------------------------------------------------------------------------------


async def test_the_log_outlives_its_process(tmp_path: Path) -> None:
    log = await open_log(tmp_path)
    assert log.fresh
    await log.append([batch(R1, 1), local(R1, 1)])
    await log.abandon()

    log = await open_log(tmp_path)
    assert not log.fresh
    assert [row.record for row in await log.read_from(1, bytes_max=1 << 20)] == [
        batch(R1, 1),
        local(R1, 1),
    ]
    await log.append([batch(R1, 2)])
    assert log.last_seq == 3
    await log.close()

    log = await open_log(tmp_path)
    assert log.last_seq == 3
    await log.close()


async def test_a_failed_commit_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    log = await open_log(tmp_path)
    await log.append([batch(R1, 1)])
    ((pages,),) = await log._writer.execute("PRAGMA page_count")
    await log._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"cannot write row 2: .*full.*Nothing acknowledged"):
        await log.append([batch(R1, 2, data=randbytes(100_000)), batch(R1, 3)])
    assert log.last_seq == 1
    assert len(await log.read_from(1, bytes_max=1 << 20)) == 1

    await log._writer.execute("PRAGMA max_page_count = 1000000")
    await log.append([batch(R1, 2, data=randbytes(100_000)), batch(R1, 3)])
    assert log.last_seq == 3
    await log.close()


async def test_two_processes_never_have_one_folder(tmp_path: Path) -> None:
    log = await open_log(tmp_path)
    with pytest.raises(StoreError, match="another process has this folder open"):
        await open_log(tmp_path)
    await log.close()
    await (await open_log(tmp_path)).close()


@pytest.mark.parametrize(
    ("region", "database_id", "reason"),
    [
        (2, "crdb", "belongs to region 1, not to region 2; give each region its own folder"),
        (1, "other", "belongs to database 'crdb', not to 'other'; use another folder"),
    ],
)
async def test_a_folder_of_another_region_or_database_is_refused(
    tmp_path: Path, region: int, database_id: str, reason: str
) -> None:
    await (await open_log(tmp_path)).close()
    with pytest.raises(StoreError, match=reason):
        await open_log(tmp_path, region, database_id)


async def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / LOG_FILE).write_bytes(b"certainly no database" * 1000)
    with pytest.raises(StoreError, match=r"log\.sqlite: file is not a database"):
        await open_log(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE log SET batch = x'00' WHERE seq = 2",
        "UPDATE log SET local = x'00' WHERE seq = 2",
        "UPDATE log SET origin = 2 WHERE seq = 2",
        "UPDATE log SET first_n = 1 WHERE seq = 2",
        "UPDATE log SET last_n = 3 WHERE seq = 2",
        "UPDATE log SET crc = 0 WHERE seq = 2",
        "UPDATE log SET batch = NULL WHERE seq = 2",
        "UPDATE log SET batch = 'text' WHERE seq = 2",
    ],
)
async def test_a_damaged_row_is_named_and_never_skipped(tmp_path: Path, damage: str) -> None:
    await write_three_rows(tmp_path)
    with sqlite3.connect(tmp_path / LOG_FILE) as connection:
        connection.execute(damage)
    log = await open_log(tmp_path)
    assert len(await log.read_from(1, bytes_max=1)) == 1
    with pytest.raises(StoreError, match=r"log\.sqlite: row 2 of table log is damaged.*backup"):
        await log.read_from(1, bytes_max=1 << 20)
    await log.abandon()


async def test_a_missing_row_is_noticed_at_the_start(tmp_path: Path) -> None:
    await write_three_rows(tmp_path)
    with sqlite3.connect(tmp_path / LOG_FILE) as connection:
        connection.execute("DELETE FROM log WHERE seq = 2")
    with pytest.raises(StoreError, match="rows 1 to 3 expected, but 1 of them are missing"):
        await open_log(tmp_path)


async def write_three_rows(folder: Path) -> None:
    log = await open_log(folder)
    await log.append([batch(R1, n) for n in range(1, 4)])
    await log.close()


WRITER = """
    import asyncio, sys
    from pathlib import Path
    from crdtstream.core.effects import Record
    from crdtstream.store.log import Fsync
    from crdtstream.store.sqlite import SqliteLog

    async def main():
        log = await SqliteLog.open(
            Path(sys.argv[1]), region=1, database_id="crdb", fsync=Fsync.ALWAYS
        )
        n = log.last_seq
        while True:
            await log.append([Record(1, n + i, n + i, b"%d" % (n + i), None) for i in (1, 2, 3)])
            n += 3
            print(n, flush=True)

    asyncio.run(main())
"""


def test_a_killed_writer_keeps_every_acknowledged_record(tmp_path: Path) -> None:
    acknowledged = 0
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        for _ in range(50):
            acknowledged = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        writer.wait()
        writer.stdout.close()

        kept = asyncio.run(read_all(tmp_path))
        # All or none of each commit, and nothing that was acknowledged is missing.
        assert len(kept) >= acknowledged
        assert len(kept) % 3 == 0
        assert [record.batch for record in kept] == [b"%d" % n for n in range(1, len(kept) + 1)]


async def read_all(folder: Path) -> list[Record]:
    log = await open_log(folder)
    records: list[Record] = []
    while rows := await log.read_from(len(records) + 1, bytes_max=1 << 20):
        records += [row.record for row in rows]
    await log.abandon()
    return records


@pytest.mark.parametrize("bytes_max", [0, 200, 1000, 1 << 20])
def test_the_tail_is_the_end_of_the_log(bytes_max: int) -> None:
    tail = Tail(bytes_max=bytes_max)
    rows = [Logged(seq, batch(R1, seq)) for seq in range(1, 41)]
    for start in range(0, 40, 4):
        tail.push(rows[start : start + 4])
    held = [seq for seq in range(1, 41) if tail.holds(seq)]
    assert held
    assert held == list(range(held[0], 41))
    for seq in held:
        assert list(tail.iterate_from(seq)) == rows[seq - 1 :]
    assert tail.bytes <= max(bytes_max, 100)


async def test_a_short_tail_gives_memory_back_and_loses_no_record(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path, region=R1, database_id="crdb", fsync=Fsync.NO)
    try:
        await log.append([batch(R1, seq) for seq in range(1, 401)])
        before = log.tail_bytes
        log.bound_tail(is_short=True)
        assert log.tail_bytes == before, "it is less than a short one may be"
        large = [replace(batch(R1, seq), batch=bytes(64 << 10)) for seq in range(401, 441)]
        await log.append(large)
        assert log.tail_bytes <= TAIL_BYTES_SHORT.value
        assert [one.seq for one in await log.read_from(1, bytes_max=1 << 30)][:400] == [
            *range(1, 401)
        ]
        log.bound_tail(is_short=False)
        await log.append(large)
        assert log.tail_bytes > 2 * TAIL_BYTES_SHORT.value
    finally:
        await log.close()
