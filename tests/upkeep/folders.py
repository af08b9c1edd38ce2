"""Small folders of a region, as its node leaves them when it stops, or when it is killed."""

import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.core.lanes.packing import pack, unpack
from crdtstream.core.replica import Replica
from crdtstream.store.checkpoints import CheckpointRow
from crdtstream.store.checksums import body_crc
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.layout import IMAGE_COLUMNS, read_image_row
from crdtstream.store.log import Fsync
from crdtstream.store.replay import recover
from crdtstream.store.sqlite import SqliteLog
from crdtstream.store.sqlite_checkpoints import SqliteCheckpoints
from crdtstream.upkeep.check_report import Report
from crdtstream.upkeep.folder_reading import locked
from crdtstream.upkeep.fsck import check_folder
from tests.harness.regions import Node

R1: Final = RegionId(1)
GOLDEN: Final = Path(__file__).parent.parent / "store" / "format_1"
GOLDEN_DIGEST: Final = "3212835b2c527ffe7dabec4c8d64d110ae185eea"


def golden(folder: Path) -> Path:
    """The log that holds every kind of effect and of local change, stopped."""
    folder.mkdir(exist_ok=True)
    shutil.copyfile(GOLDEN / LOG_FILE, folder / LOG_FILE)
    return folder


async def stopped(folder: Path) -> Path:
    """A folder of this format, closed in order."""
    node = Node(1)
    node.run("XADD s 1-1 f v", "XGROUP CREATE s g 0")
    node.run("XREADGROUP GROUP g a STREAMS s >")
    return await stopped_with(folder, node.log)


async def stopped_with(folder: Path, records: Sequence[Record]) -> Path:
    """The same, with these records."""
    log = await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    await log.append(records)
    await log.confirm()
    await log.close()
    return folder


async def checkpoint(node: Node, log: SqliteLog, checkpoints: SqliteCheckpoints) -> int:
    """Commit what the node did, and write a checkpoint of it; returns its generation."""
    await log.append(node.log)
    node.log.clear()
    generation, cut = await checkpoints.begin(), node.replica.cut()
    images = []
    while (taken := cut.take()) is not None:
        images.append(taken[1])
    await checkpoints.put(images)
    made = node.replica.images_made
    row = CheckpointRow(generation, log.last_seq, dict(node.replica.vv), made, 5)
    await checkpoints.commit(row, list(filter(None, cut.replaced())))
    await checkpoints.verify(generation)
    cut.finish()
    return generation


@contextlib.asynccontextmanager
async def checkpointed(
    folder: Path,
) -> AsyncIterator[tuple[Node, SqliteLog, SqliteCheckpoints]]:
    """A node with two checkpoints, a log that was cut behind the first, and more in the log."""
    node = Node(1)
    log = await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    try:
        checkpoints = await SqliteCheckpoints.open(log)
        await log.confirm()
        for number in range(1, 6):
            node.run(f"XADD s {number}-1 f v{number}", f"XADD t {number}-1 f {'w' * 300}")
        node.run("XGROUP CREATE s g 0", "SET k v")
        first = await checkpoint(node, log, checkpoints)
        await checkpoints.forget_before(first)
        await checkpoints.cut_log(5)
        node.run("XREADGROUP GROUP g a COUNT 3 STREAMS s >", "XDEL s 2-1", "XADD s 6-1 f v6")
        await checkpoint(node, log, checkpoints)
        node.run("XADD s 7-1 f v7", "XACK s g 1-1", "EXPIRE t 1000", "XDEL t 3-1")
        await log.append(node.log)
        yield node, log, checkpoints
        await log.close()
    except BaseException:
        with contextlib.suppress(ValueError):
            await log.abandon()
        raise


async def killed(folder: Path) -> Path:
    """A log with some commits in its file, and some in the WAL only."""
    node, running = Node(1), folder.with_name(f"{folder.name}-running")
    log = await SqliteLog.open(running, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    try:
        for lines in (
            ["XADD s 1-1 f v", "XGROUP CREATE s g 0"],
            ["XREADGROUP GROUP g a STREAMS s >"],
        ):
            node.run(*lines)
        await log.append(node.log)
        await log.sync()
        for number in range(2, 5):
            node.log.clear()
            node.run(f"XADD s {number}-1 f v")
            await log.append(node.log)
        shutil.copytree(running, folder)
    finally:
        await log.abandon()
    return folder


def change(folder: Path, statement: str, *values: object) -> None:
    """Change the log behind its node's back."""
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection, connection:
        connection.execute(statement, values)


def checked(folder: Path) -> Report:
    with locked(folder):
        return check_folder(folder)


def found(report: Report) -> dict[str, str]:
    """By check what is damaged."""
    return {one.name: one.found for one in report.checks if one.verdict.value == "DAMAGE"}


@contextlib.asynccontextmanager
async def reopened(folder: Path) -> AsyncIterator[str]:
    """The digest of the state with which a node would start."""
    log = await SqliteLog.open(folder, region=R1, database_id="crdb", fsync=Fsync.ALWAYS)
    try:
        checkpoints = await SqliteCheckpoints.open(log)
        recovered = await recover(log, checkpoints, lambda: Replica(R1))
        with recovered.replica.residency.in_place():
            yield recovered.replica.digest().decode()
    finally:
        await log.abandon()


def give_other_entries(folder: Path) -> None:
    """Have a macro node whose body is another's of the same size, with all checksums right."""
    with contextlib.closing(sqlite3.connect(folder / LOG_FILE)) as connection, connection:
        query = f"SELECT {IMAGE_COLUMNS} FROM image WHERE kind = ? ORDER BY number"
        columns = connection.execute(query, (Kind.NODE.value,)).fetchone()
        row, _ = read_image_row(columns)
        assert row is not None
        (packed,) = connection.execute(
            "SELECT packed FROM body WHERE number = ?", (row.number,)
        ).fetchone()
        body = bytearray(unpack(packed))
        # The last byte of the last entry's fields, before their end.
        body[-3] ^= 1
        packed = pack(bytes(body))
        other = replace(row, body_bytes=len(packed), body_crc=body_crc(row.number, packed))
        connection.execute(
            "UPDATE image SET body_bytes = ?, body_crc = ?, crc = ? WHERE number = ?",
            (other.body_bytes, other.body_crc, other.crc, row.number),
        )
        connection.execute(
            "UPDATE body SET packed = ?, crc = ? WHERE number = ?",
            (packed, other.body_crc, row.number),
        )
