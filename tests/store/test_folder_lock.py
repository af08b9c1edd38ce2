"""A folder is one process's: by a lock on the data, not beside them."""

import contextlib
import errno
import fcntl
import os
from pathlib import Path

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.store.folder_lock import (
    LOCK_FILE,
    LOG_FILE,
    FolderInUseError,
    NoLocksError,
    lock_file,
    lock_folder,
)
from crdtstream.store.log import Fsync
from crdtstream.store.sqlite import SqliteLog
from crdtstream.upkeep.folder_reading import UpkeepError, locked

R1 = RegionId(1)


async def test_a_removed_lock_file_lets_nobody_in(tmp_path: Path) -> None:
    log = await SqliteLog.open(tmp_path, region=R1, database_id="db", fsync=Fsync.ALWAYS)
    (tmp_path / LOCK_FILE).unlink()
    with pytest.raises(FolderInUseError, match="stop that node first"):
        lock_folder(tmp_path)
    with pytest.raises(FolderInUseError, match="stop that node first"):
        await SqliteLog.open(tmp_path, region=R1, database_id="db", fsync=Fsync.ALWAYS)
    await log.close()
    lock_folder(tmp_path).close()


def test_a_lock_is_of_the_file_that_the_path_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening a file and locking it somebody replaces it."""
    path = tmp_path / LOG_FILE
    path.touch()
    flock = fcntl.flock
    replaced: list[int] = []

    def replacing(file: int, how: int) -> None:
        if not replaced and os.fstat(file).st_ino == path.stat().st_ino:
            replaced.append(file)
            path.rename(tmp_path / "old")
            path.touch()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", replacing)
    lock = lock_folder(tmp_path)
    assert replaced
    assert lock.log is not None
    assert os.fstat(lock.log).st_ino == path.stat().st_ino
    lock.close()


def test_a_file_that_becomes_a_database_is_locked_from_then_on(tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.touch()
    held = lock_file(new)
    new.rename(tmp_path / LOG_FILE)
    with pytest.raises(FolderInUseError):
        lock_folder(tmp_path)
    os.close(held)
    lock_folder(tmp_path).close()


@pytest.mark.parametrize("code", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As some mounts of NFS and CIFS answer."""

    def none(file: int, how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", none)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(NoLocksError, match=r"does not lock files .*disk of this machine"):
        lock_folder(tmp_path, makes_log=True)
    (tmp_path / LOG_FILE).touch()
    with pytest.raises(UpkeepError, match="does not lock files"), locked(tmp_path):
        pass
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_log_is_locked_by_a_descriptor_for_writing_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS makes of flock a lock that wants one."""
    (tmp_path / LOG_FILE).touch()

    def mode_of_log() -> int:
        lock = lock_folder(tmp_path)
        assert lock.log is not None
        with contextlib.closing(lock):
            return fcntl.fcntl(lock.log, fcntl.F_GETFL) & os.O_ACCMODE

    assert mode_of_log() == os.O_RDWR
    opened = os.open

    def denied(path: Path, flags: int, mode: int = 0o777) -> int:
        if path.name == LOG_FILE and flags & os.O_ACCMODE != os.O_RDONLY:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", denied)
    assert mode_of_log() == os.O_RDONLY
