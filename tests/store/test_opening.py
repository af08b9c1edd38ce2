"""A folder proves that it is the one last open here, or it proves nothing."""

import asyncio
import contextlib
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.errors import StoreError
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Fsync
from crdtstream.store.opening import OPENED_FILE
from crdtstream.store.sqlite import SqliteLog
from tests.patience import wait_until

R1 = RegionId(1)


async def open_log(folder: Path, fsync: Fsync = Fsync.ALWAYS, *, volume_id: str = "") -> SqliteLog:
    return await SqliteLog.open(
        folder, region=R1, database_id="crdb", fsync=fsync, volume_id=volume_id
    )


async def used_folder(folder: Path, fsync: Fsync = Fsync.ALWAYS) -> Path:
    """A folder that a node has gone on with, and stopped."""
    log = await open_log(folder, fsync)
    await log.confirm()
    await log.append([Record(R1, 1, 1, b"batch", None)])
    await log.close()
    return folder


async def is_proven(folder: Path, fsync: Fsync = Fsync.ALWAYS) -> bool:
    log = await open_log(folder, fsync)
    await log.abandon()
    return log.is_proven


async def kill(folder: Path, fsync: Fsync = Fsync.ALWAYS) -> None:
    """A run that ends as a crash does."""
    log = await open_log(folder, fsync)
    await log.append([Record(R1, log.last_seq + 1, log.last_seq + 1, b"batch", None)])
    await log.abandon()


async def test_a_fresh_folder_proves_nothing_until_a_node_goes_on_with_it(tmp_path: Path) -> None:
    assert not await is_proven(tmp_path)
    # It was open, and nobody was told to go on.
    assert not await is_proven(tmp_path)
    log = await open_log(tmp_path)
    await log.confirm()
    await log.abandon()
    assert await is_proven(tmp_path)


async def test_the_same_folder_is_proven_after_a_stop_and_after_a_crash(tmp_path: Path) -> None:
    await used_folder(tmp_path)
    for _ in range(3):
        assert await is_proven(tmp_path)
        await kill(tmp_path)


@pytest.mark.parametrize("turns", range(4))
async def test_a_folder_is_whole_after_a_stop_that_cuts_a_change_of_it_short(
    tmp_path: Path, turns: int
) -> None:
    """The task that writes it is cancelled; its statement is on its way to the disk by then."""
    await used_folder(tmp_path)
    log = await open_log(tmp_path)
    writing = asyncio.create_task(log.set_meta("database_declared", "yes"))
    for _ in range(turns):
        await asyncio.sleep(0)
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    await log.close()
    assert await is_proven(tmp_path)


async def test_a_moved_folder_is_still_the_one(tmp_path: Path) -> None:
    await used_folder(tmp_path / "before")
    (tmp_path / "before").rename(tmp_path / "after")
    assert await is_proven(tmp_path / "after")


async def test_a_copy_is_not(tmp_path: Path) -> None:
    await used_folder(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert not await is_proven(tmp_path / "two")
    # Nor does looking at it make it the one.
    assert not await is_proven(tmp_path / "two")
    assert await is_proven(tmp_path / "one")


@pytest.mark.parametrize("keeps_file", [True, False], ids=["in place", "as new files"])
@pytest.mark.parametrize("crashed", [True, False])
async def test_a_backup_that_was_put_back_is_not(
    tmp_path: Path, *, keeps_file: bool, crashed: bool
) -> None:
    folder, backup = tmp_path / "folder", tmp_path / "backup"
    await used_folder(folder)
    if crashed:
        await kill(folder)
    shutil.copytree(folder, backup)
    await kill(folder)
    wait_for_another_time_of_change(tmp_path)
    for name in os.listdir(folder):
        if not keeps_file or not (backup / name).exists():
            (folder / name).unlink()
    for path in backup.iterdir():
        # Over an existing file this keeps its number.
        shutil.copyfile(path, folder / path.name)
        shutil.copystat(path, folder / path.name)
    assert not await is_proven(folder)


def wait_for_another_time_of_change(folder: Path) -> None:
    """File systems count the time of change in ticks of some ms; a backup is put back later."""
    probe = folder / "probe"
    probe.write_text("")
    first = probe.stat().st_ctime_ns

    def is_later() -> bool:
        probe.write_text("")
        return probe.stat().st_ctime_ns != first

    wait_until(is_later, "another time of change")


async def test_a_log_put_back_alone_is_not(tmp_path: Path) -> None:
    folder, backup = tmp_path / "folder", tmp_path / "backup"
    await used_folder(folder)
    shutil.copytree(folder, backup)
    await used_folder(folder)
    for path in folder.glob(f"{LOG_FILE}*"):
        path.unlink()
    shutil.copyfile(backup / LOG_FILE, folder / LOG_FILE)
    assert not await is_proven(folder)


@pytest.mark.parametrize(
    ("before", "now", "proven"),
    [
        ("claim-1", "claim-1", True),
        ("claim-1", "claim-2", False),
        ("claim-1", "", False),
        # An ID that is given from now on says nothing about the time before.
        ("", "claim-1", True),
    ],
)
async def test_a_clone_of_a_volume_is_not_the_folder(
    tmp_path: Path, *, before: str, now: str, proven: bool
) -> None:
    """The clone has the same files, with the same numbers and times."""
    log = await open_log(tmp_path, volume_id=before)
    await log.confirm()
    await log.close()
    log = await open_log(tmp_path, volume_id=now)
    assert log.is_proven is log.is_same is proven
    # After its peers have answered it is the folder of this volume.
    await log.confirm()
    await log.close()
    log = await open_log(tmp_path, volume_id=now)
    await log.abandon()
    assert log.is_proven


async def test_without_the_file_a_folder_is_not_proven(tmp_path: Path) -> None:
    """An operator deletes it after putting a snapshot of the disk back."""
    await used_folder(tmp_path)
    (tmp_path / OPENED_FILE).unlink()
    assert not await is_proven(tmp_path)


@pytest.mark.parametrize("fsync", [Fsync.EVERYSEC, Fsync.NO])
async def test_without_fsync_only_a_clean_stop_proves(tmp_path: Path, fsync: Fsync) -> None:
    await used_folder(tmp_path, fsync)
    log = await open_log(tmp_path, fsync)
    assert log.is_proven
    await log.abandon()
    assert not await is_proven(tmp_path, fsync)
    # The mode of the run that crashed counts, not that of the next one.
    assert not await is_proven(tmp_path, Fsync.ALWAYS)


async def test_a_folder_that_cannot_be_confirmed_says_why(tmp_path: Path) -> None:
    log = await open_log(tmp_path)
    (tmp_path / OPENED_FILE).mkdir()
    with pytest.raises(StoreError, match=r"opened: Is a directory; check space and rights"):
        await log.confirm()
    await log.abandon()


@contextlib.contextmanager
def files_bounded(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size: SQLite finds that as it finds a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("free_bytes", "text"), [(4096, "Nothing is damaged.*make room"), (1 << 30, "for inspection")]
)
async def test_a_disk_without_room_is_told_from_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, text: str
) -> None:
    disk = os.statvfs(tmp_path)
    blocks = free_bytes // disk.f_frsize
    shown = os.statvfs_result((*disk[:3], blocks, blocks, *disk[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: shown)
    with files_bounded(8 << 10), pytest.raises(StoreError, match=text):
        await open_log(tmp_path)
    log = await open_log(tmp_path)
    assert log.fresh
    await log.close()
