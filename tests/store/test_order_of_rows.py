"""A changed byte may put the rows of a page out of order: whoever reads on behind the last one that
he read must come to an end all the same."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from crdtstream.store.connections import PAGE_BYTES
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.upkeep.folder_reading import connect, rows
from crdtstream.upkeep.image_rows import images as images_found
from tests.store.test_checkpoints import append, images, opened, seen, write

# Of a page of SQLite's: a leaf of a table, and where its header has the places of its cells.
LEAF = 13
COUNT_AT, CELLS_AT = 3, 8
SMALL = 128


def put_out_of_order(path: Path, table: str) -> None:
    """Give the last row of a table the key of the first one of its page."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT max(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
        ((page,),) = connection.execute(query, (table,)).fetchall()
    data = bytearray(path.read_bytes())
    begin = (page - 1) * PAGE_BYTES
    assert data[begin] == LEAF
    count = int.from_bytes(data[begin + COUNT_AT :][:2], "big")
    cells = [
        begin + int.from_bytes(data[begin + CELLS_AT + 2 * at :][:2], "big") for at in range(count)
    ]
    first, last = (_key_at(data, cell) for cell in (cells[0], cells[-1]))
    assert data[first] < data[last] < SMALL
    data[last] = data[first]
    path.write_bytes(data)


def _key_at(data: bytearray, cell: int) -> int:
    """Place of the key in a cell: behind its size, whose last byte has no high bit."""
    while data[cell] >= SMALL:
        cell += 1
    return cell + 1


async def make(folder: Path, table: str, *, leaves: int = 0) -> None:
    """A folder with a checkpoint and a table out of order.

    Args:
        leaves: how many images of another one a crash left.
    """
    async with opened(folder) as (log, checkpoints):
        await append(log, 30)
        await write(checkpoints, images(1, 40), [], 20, verify=False)
        if leaves:
            await checkpoints.begin()
            await checkpoints.put(images(41, 40 + leaves))
        await log.connections.move_wal()
    put_out_of_order(folder / LOG_FILE, table)


async def test_images_out_of_order_are_a_damaged_checkpoint(tmp_path: Path) -> None:
    await make(tmp_path, "image")
    async with opened(tmp_path) as (_, checkpoints):
        with pytest.raises(StoreError, match=r"checkpoint 1: .* (damaged|out of order)"):
            await seen(checkpoints, 1)
    async with opened(tmp_path) as (_, checkpoints):
        with pytest.raises(StoreError, match=r"checkpoint 1: .* (damaged|out of order)"):
            await checkpoints.verify(1)


async def test_images_out_of_order_end_what_reads_a_folder(tmp_path: Path) -> None:
    await make(tmp_path, "image")
    with (
        contextlib.closing(connect(tmp_path / LOG_FILE)) as connection,
        pytest.raises(sqlite3.DatabaseError, match="out of order"),
    ):
        list(images_found(connection))


async def test_rows_out_of_order_are_told(tmp_path: Path) -> None:
    await make(tmp_path, "log")
    with contextlib.closing(connect(tmp_path / LOG_FILE)) as connection:
        damages = [row.damage for row in rows(connection) if row.damage]
    assert any("out of order" in damage for damage in damages)


async def test_of_what_a_crash_left_out_of_order_nothing_is_deleted(tmp_path: Path) -> None:
    await make(tmp_path, "image", leaves=3)
    with pytest.raises(StoreError, match="table image are out of order"):
        async with opened(tmp_path):
            pass


async def test_a_schema_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """SQLite quotes it in its error, which Python then cannot read."""
    await make(tmp_path, "log")
    path = tmp_path / LOG_FILE
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE log", b"CREATE TABL\xc5 log", 1))
    with pytest.raises(StoreError, match=r"log\.sqlite: .* Keep the folder"):
        async with opened(tmp_path):
            pass
