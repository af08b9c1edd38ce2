"""Commits that are made at once: where the tick ends, without a thread, and never behind a lock.

What is counted here is counted, not timed: statements by SQLite's own trace, hand-offs by the calls
of the writer's thread.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import randbytes
from typing import Any

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.engine.engine import Engine
from crdtstream.store.connections import WAL_FILE_BYTES
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Armed, Failpoints, refuse
from crdtstream.store.log import Fsync
from crdtstream.store.pace import SPENT_NS_MAX
from crdtstream.store.sqlite import AT_ONCE_BYTES_MAX, AT_ONCE_ROWS_MAX, SqliteLog
from crdtstream.store.wal import check_wal
from crdtstream.store.writer import Writer
from tests.harness.driven import Told, make_region

R1 = RegionId(1)


def batch(n: int, data: bytes = b"batch") -> Record:
    return Record(R1, n, n, data, None)


async def open_log(
    folder: Path, fsync: Fsync = Fsync.EVERYSEC, failpoints: Failpoints = NO_FAILPOINTS
) -> SqliteLog:
    return await SqliteLog.open(
        folder, region=R1, database_id="crdb", fsync=fsync, failpoints=failpoints
    )


@pytest.fixture(params=[Fsync.EVERYSEC, Fsync.ALWAYS], ids=["everysec", "always"])
async def log(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqliteLog]:
    log = await open_log(tmp_path, request.param)
    # Else a slow disk would have commits go to the thread, which is not what is tested here.
    monkeypatch.setattr(log._pace, "is_quick", lambda _now_ns: True)
    yield log
    await log.abandon()


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Calls that the writer's thread was given."""
    calls: list[str] = []
    right = Writer.call

    async def call(self: Writer, function: Callable[..., Any], *args: Any) -> Any:
        calls.append(str(args[0]) if args else function.__name__)
        return await right(self, function, *args)

    monkeypatch.setattr(Writer, "call", call)
    return calls


async def rows(log: SqliteLog) -> list[bytes | None]:
    ((count,),) = await log._fetch("SELECT count(*) FROM log")
    found = await log.read_from(1, bytes_max=1 << 30)
    assert len(found) == count == log.last_seq
    return [logged.record.batch for logged in found]


# --- The log --------------------------------------------------------------------------------------


async def test_a_commit_at_once_is_one_statement_and_no_hand_off(
    log: SqliteLog, handed_over: list[str]
) -> None:
    statements: list[str] = []
    # The first one has the connection stop waiting for locks, as the thread does.
    assert log.append_at_once([batch(1)])
    log._writer._connection.set_trace_callback(statements.append)
    assert log.append_at_once([batch(2), batch(3)])
    assert log.append_at_once([batch(4)])
    assert [text.split(" (")[0] for text in statements] == ["INSERT OR REPLACE INTO log"] * 2
    assert handed_over == []
    assert await rows(log) == [b"batch"] * 4


async def test_large_commits_go_to_the_writer_thread(
    log: SqliteLog, handed_over: list[str]
) -> None:
    many = [batch(n) for n in range(1, AT_ONCE_ROWS_MAX.value + 2)]
    large = [batch(len(many) + 1, bytes(AT_ONCE_BYTES_MAX.value + 1))]
    for records in (many, large):
        assert not log.append_at_once(records)
        await log.append(records)
    assert len(handed_over) == 2
    assert len(await rows(log)) == len(many) + 1


async def test_nothing_is_committed_past_who_has_the_turn(
    log: SqliteLog, handed_over: list[str]
) -> None:
    async with log.connections.turn:
        assert not log.append_at_once([batch(1)])
        waiting = asyncio.create_task(log.append([batch(1)]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
    await waiting
    # It had to wait for its turn, and not for a thread.
    assert handed_over == []
    assert await rows(log) == [b"batch"]


async def test_a_database_that_another_process_locks_is_waited_for_in_the_thread(
    log: SqliteLog, handed_over: list[str]
) -> None:
    other = sqlite3.connect(log.path, isolation_level=None)
    with contextlib.closing(other):
        other.execute("BEGIN IMMEDIATE")
        assert not log.append_at_once([batch(1)])
        waiting = asyncio.create_task(log.append([batch(1)]))
        while not handed_over:
            await asyncio.sleep(0)
        assert log.last_seq == 0
        other.execute("ROLLBACK")
    await waiting
    assert await rows(log) == [b"batch"]
    # And the next one waits for nothing again.
    assert log.append_at_once([batch(2)])
    assert len(handed_over) == 1


async def test_a_commit_at_once_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    log = await open_log(tmp_path)
    assert log.append_at_once([batch(1)])
    ((pages,),) = await log._writer.execute("PRAGMA page_count")
    await log._writer.execute(f"PRAGMA max_page_count = {pages}")
    records = [batch(2, randbytes(100_000)), batch(3)]
    with pytest.raises(StoreError, match=r"cannot write row 2: .*full.*Nothing acknowledged"):
        log.append_at_once(records)
    assert await rows(log) == [b"batch"]
    await log._writer.execute("PRAGMA max_page_count = 1000000")
    assert log.append_at_once(records)
    assert len(await rows(log)) == 3
    await log.close()


async def test_a_commit_at_once_comes_by_the_failpoint(tmp_path: Path) -> None:
    log = await open_log(tmp_path, failpoints=Armed("log.append", refuse, at=2))
    assert log.append_at_once([batch(1)])
    with pytest.raises(StoreError):
        log.append_at_once([batch(2)])
    assert log.append_at_once([batch(2)])
    await log.close()


async def test_slow_syncs_send_commits_to_the_thread_with_always_only(tmp_path: Path) -> None:
    log = await open_log(tmp_path, Fsync.ALWAYS)
    log._pace.note(SPENT_NS_MAX.value + 1, 1 << 62)
    assert not log.append_at_once([batch(1)])
    await log.append([batch(1)])
    await log.set_fsync(Fsync.EVERYSEC)
    assert log.append_at_once([batch(2)])
    await log.close()


async def test_a_cancelled_hand_off_keeps_the_turn_until_it_is_done(tmp_path: Path) -> None:
    log = await open_log(tmp_path)
    other = sqlite3.connect(log.path, isolation_level=None)
    with contextlib.closing(other):
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(log.append([batch(1)]))
        while not log.connections.turn.locked():
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        waiting.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert log.connections.turn.locked()
        other.execute("ROLLBACK")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not log.connections.turn.locked()
    await log.abandon()


# --- The write-ahead log's file -------------------------------------------------------------------


async def test_the_write_ahead_log_is_written_once_and_then_written_over(tmp_path: Path) -> None:
    log = await open_log(tmp_path, Fsync.ALWAYS)
    wal = log.connections.wal_path
    assert log.append_at_once([batch(1)])
    before = check_wal(wal)
    await log.write_ahead()
    assert wal.stat().st_size == WAL_FILE_BYTES.value
    # Zeros are no frames, and no damage.
    assert check_wal(wal) == before
    await log.append([batch(2)])
    assert check_wal(wal).committed > before.committed
    await log.connections.move_wal()
    await log.append([batch(3)])
    assert wal.stat().st_size == WAL_FILE_BYTES.value
    assert check_wal(wal).committed < before.committed
    await log.abandon()

    log = await open_log(tmp_path, Fsync.ALWAYS)
    assert await rows(log) == [b"batch"] * 3
    await log.close()
    assert not wal.exists()


async def test_commits_while_the_file_is_lengthened_are_kept(tmp_path: Path) -> None:
    log = await open_log(tmp_path, Fsync.ALWAYS)
    lengthening = asyncio.create_task(log.write_ahead())
    while not lengthening.done():
        await log.append([batch(log.last_seq + 1)])
        await asyncio.sleep(0)
    written = log.last_seq
    await log.abandon()
    log = await open_log(tmp_path, Fsync.ALWAYS)
    assert len(await rows(log)) == written
    await log.close()


# --- The engine -----------------------------------------------------------------------------------


async def test_a_tick_is_one_statement_and_one_commit_and_no_hand_off(
    tmp_path: Path, handed_over: list[str]
) -> None:
    log = await open_log(tmp_path)
    region = make_region()
    engine = Engine(region, log, fsync=Fsync.EVERYSEC)
    client = Told(region)
    statements: list[str] = []
    await engine.begin()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # The first one has the connection stop waiting for locks, as the thread does.
        for tick in range(21):
            if tick == 1:
                log._writer._connection.set_trace_callback(statements.append)
                handed_over.clear()
            for _ in range(5):
                argv = [b"XADD", b"s", b"*", b"field", b"value"]
                client.client.run(iter([argv]), engine.now(), bytes_max=1 << 20)
            # The commit and its replies are of the same turn of the event loop.
            await asyncio.sleep(0)
            assert len(client.told) == 5 * (tick + 1)
        assert engine.stats.commits_at_once == engine.stats.commits == 21
        assert len(statements) == 20
        assert handed_over == []
        engine.stop()
    assert len(await rows(log)) == engine.stats.records_committed
    await log.close()
