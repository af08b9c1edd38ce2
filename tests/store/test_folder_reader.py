"""A folder read without a node: everything comes, with whether it is sound."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

from crdtstream.core.checkpoint.parts import Image
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.folder_reader import open_readonly
from tests.store.test_checkpoints import R1, append, image, images, opened, write

FORMAT_2 = Path(__file__).parent / "format_2"


async def make_folder(folder: Path) -> list[Image]:
    """Two checkpoints and a log; returns what the newer one sees."""
    async with opened(folder) as (log, checkpoints):
        await append(log, 20)
        await write(checkpoints, images(1, 30), [], 8)
        await write(checkpoints, images(31, 40), [1, 2], 15)
        await log.set_meta("tune:x", "y")
    return images(3, 40)


async def test_everything_is_read_and_nothing_is_changed(tmp_path: Path) -> None:
    wanted = await make_folder(tmp_path)
    before = (tmp_path / LOG_FILE).read_bytes()
    with open_readonly(tmp_path) as reader:
        assert reader.is_meta_sound()
        assert reader.are_tables_sound()
        assert ("tune:x", "y") in [(row.key, row.value) for row in reader.meta()]
        rows = list(reader.rows())
        assert [row.seq for row in rows] == [*range(1, 21)]
        assert all(row.is_sound and row.record is not None for row in rows)
        first, second = reader.checkpoints()
        assert first.is_sound
        assert second.is_sound
        assert second.checkpoint is not None
        assert second.checkpoint.row.vv == {R1: 15}
        found = list(reader.images(second.generation))
        assert [one.image for one in found] == wanted
        assert all(one.is_sound for one in found)
        assert sum(one.number for one in found) == second.numbers
        assert sum(one.crc for one in found) == second.crcs
        assert not list(reader.sqlite_problems())
        with pytest.raises(StoreError, match="another process has this folder open"):
            async with opened(tmp_path):
                pass
    assert (tmp_path / LOG_FILE).read_bytes() == before


async def test_what_a_crash_left_in_the_write_ahead_log_is_read(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    async with opened(source) as (log, _):
        await append(log, 20)
        shutil.copytree(source, copy)
    assert (copy / (LOG_FILE + "-wal")).stat().st_size
    for _ in range(2):
        with open_readonly(copy) as reader:
            assert len(list(reader.rows())) == 20


async def test_what_is_damaged_comes_and_says_so(tmp_path: Path) -> None:
    await make_folder(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / LOG_FILE)) as connection, connection:
        connection.execute("UPDATE log SET batch = x'00' WHERE seq = 2")
        connection.execute("UPDATE image SET head = x'00' WHERE number = 31")
        connection.execute("UPDATE image SET kind = 'text' WHERE number = 33")
        connection.execute("UPDATE body SET packed = x'00' WHERE number = 35")
        connection.execute("DELETE FROM body WHERE number = 5")
        connection.execute("UPDATE checkpoint SET seq = 1 WHERE generation = 1")
        connection.execute("UPDATE meta SET value = 'z' WHERE key = 'tune:x'")
    with open_readonly(tmp_path) as reader:
        assert [row.seq for row in reader.rows() if not row.is_sound] == [2]
        assert [one.number for one in reader.images(2) if not one.is_sound] == [5, 31, 33, 35]
        assert [one.is_sound for one in reader.checkpoints()] == [False, True]
        assert not reader.is_meta_sound()
        assert image(7).head in [one.image.head for one in reader.images(2) if one.image]


def test_a_folder_of_an_earlier_format_has_no_checkpoints(tmp_path: Path) -> None:
    shutil.copyfile(FORMAT_2 / LOG_FILE, tmp_path / LOG_FILE)
    with open_readonly(tmp_path) as reader:
        assert reader.is_meta_sound()
        assert not list(reader.checkpoints())
        assert all(row.is_sound for row in reader.rows())


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"there is no log\.sqlite in it"),
        open_readonly(tmp_path),
    ):
        pass
