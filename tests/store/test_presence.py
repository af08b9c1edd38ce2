"""A commit is where a restart will look for it, or it is not acknowledged."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.errors import FolderGoneError, NoRoomError, StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.meta import MetaTable
from crdtstream.store.presence import Presence
from crdtstream.store.reserve import RESERVE_FILE
from crdtstream.store.sqlite import SqliteLog

R1 = RegionId(1)
RECORD = Record(R1, 0, 0, None, b"local")


async def opened(folder: Path) -> SqliteLog:
    log = await SqliteLog.open(folder, region=R1, database_id="db", fsync=Fsync.ALWAYS)
    await log.confirm()
    await log.append([RECORD])
    await log.look()
    return log


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def unlink_log(folder: Path) -> None:
    (folder / LOG_FILE).unlink()


def unlink_wal(folder: Path) -> None:
    (folder / f"{LOG_FILE}-wal").unlink()


def replace(folder: Path) -> None:
    move(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def make_unreadable(folder: Path) -> None:
    """Looking at the log ends with an error of the system, as on a disk that dies."""
    (folder / LOG_FILE).rename(folder / "elsewhere")
    (folder / LOG_FILE).symlink_to(folder / LOG_FILE)


HARMS = (delete, move, unlink_log, unlink_wal, replace, make_unreadable)


@pytest.mark.parametrize("harm", HARMS)
async def test_a_log_that_is_not_the_opened_file_is_noticed(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = tmp_path / "region"
    log = await opened(folder)
    harm(folder)
    with pytest.raises(FolderGoneError, match="while the node has it open"):
        await log.look()
    await log.abandon()


async def test_nothing_is_committed_to_files_that_are_gone(tmp_path: Path) -> None:
    folder = tmp_path / "region"
    log = await opened(folder)
    move(folder)
    with pytest.raises(FolderGoneError):
        await log.look()
    with pytest.raises(FolderGoneError):
        log.append_at_once([RECORD])
    with pytest.raises(FolderGoneError):
        await log.append([RECORD])
    with pytest.raises(FolderGoneError):
        await log.sync()
    with pytest.raises(FolderGoneError):
        await log.set_meta("key", "value")
    with pytest.raises(FolderGoneError):
        await log.connections.write("DELETE FROM log", (), size=0, what="log")
    assert log.last_seq == 1

    folder.with_name("elsewhere").rename(folder)
    await log.look()
    await log.append([RECORD])
    await log.close()


async def test_another_folder_in_its_place_is_not_confirmed(tmp_path: Path) -> None:
    folder = tmp_path / "region"
    log = await opened(folder)
    replace(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(FolderGoneError):
        await log.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


async def test_a_commit_that_a_second_handle_does_not_find_is_told(tmp_path: Path) -> None:
    log = await opened(tmp_path / "region")
    assert log._presence is not None
    assert log._presence.problem_of_commit(log.last_seq) == ""
    told = log._presence.problem_of_commit(log.last_seq + 1)
    assert "ends at row 1, and row 2 was written" in told
    await log.close()


async def test_a_noticed_loss_holds_during_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One check passes, the other does not: in between no write is taken."""
    log = await opened(tmp_path / "region")
    seen: list[str] = []

    def problem_of_commit(self: Presence, seq: int) -> str:
        seen.append(log.connections.gone)
        return "its end is elsewhere"

    monkeypatch.setattr(Presence, "problem_of_commit", problem_of_commit)
    for attempt in (log.look, log.look, log.confirm, log.look):
        with pytest.raises(FolderGoneError, match="its end is elsewhere"):
            await attempt()
    assert not seen[0]
    assert all("its end is elsewhere" in one for one in seen[1:])
    assert len(seen) == 4
    await log.abandon()


async def test_a_size_that_the_disk_does_not_tell_is_an_error_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of any other failure of the disk, the node lives on."""
    log = await opened(tmp_path / "region")
    assert log.bytes_on_disk() > log.wal_bytes() > 0
    wal, stat = log.connections.wal_path, Path.stat

    def failing(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if self == wal:
            raise OSError(errno.EIO, "Input/output error")
        return stat(self, follow_symlinks=follow_symlinks)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", failing)
        for measure in (log.bytes_on_disk, log.wal_bytes):
            with pytest.raises(StoreError, match=r"wal: cannot be looked at: Input/output error"):
                measure()
    wal.rename(tmp_path / "elsewhere")
    assert log.wal_bytes() == 0
    (tmp_path / "elsewhere").rename(wal)
    await log.close()


async def test_nothing_is_written_before_the_folder_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start on a full disk leaves the folder as it was, and goes on when there is room."""
    log = await opened(tmp_path)
    await log.close()
    write = MetaTable.write

    async def refuse(self: MetaTable, changed: object) -> None:
        raise NoRoomError("full")

    monkeypatch.setattr(MetaTable, "write", refuse)
    log = await SqliteLog.open(tmp_path, region=R1, database_id="db", fsync=Fsync.ALWAYS)
    assert log.is_proven
    assert await log.get_meta("clean_shutdown") == "yes"
    assert not log.append_at_once([RECORD])
    for attempt in (log.append([RECORD]), log.look(), log.confirm()):
        with pytest.raises(NoRoomError, match=r"reads go on: make room - .* bytes are enough"):
            await attempt
    assert [one.seq for one in await log.read_from(1, bytes_max=100)] == [1]

    monkeypatch.setattr(MetaTable, "write", write)
    await log.look()
    assert await log.get_meta("clean_shutdown") == "no"
    await log.append([RECORD])
    assert log.last_seq == 2
    await log.close()


async def test_room_for_a_start_on_a_full_disk_is_kept_back(tmp_path: Path) -> None:
    log = await opened(tmp_path)
    assert (tmp_path / RESERVE_FILE).stat().st_blocks > 0
    await log.close()
