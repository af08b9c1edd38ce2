"""Keeps a folder to one process, by locks that cannot be removed apart from the data.

    lock          keeps others out while there is no database yet, as during a restore
    log.sqlite    keeps others out even if ``lock`` was removed: removing this file removes the
                  data with it

Both are locks of flock(2), held for the life of the process.  They belong to an open file.  So they
do not meet SQLite's own locks, which are POSIX's, and are kept when another descriptor of the file
is closed.  SQLite's locks are released then, so the descriptor here is closed after SQLite's
connections, never before.

On a network file system both kinds may be the same, or there are no locks: a folder that cannot be
locked is refused.

A lock on a file that was removed or replaced before keeps no process out.  So after each lock the
path is checked: it must still lead to the locked file.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from crdtstream.core.size import Size
from crdtstream.secrets.private_files import FOLDER_MODE
from crdtstream.store.errors import StoreError

LOG_FILE: Final = "log.sqlite"
LOCK_FILE: Final = "lock"
# Errors of flock(2) if there are no locks, or if they need another kind of descriptor.
_NO_LOCKS: Final = frozenset({errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
_READ_ONLY: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# Each try except the last finds that the file was replaced within microseconds.
TRIES_MAX: Final = Size(10, least=1)


class FolderLockError(StoreError):
    """The folder cannot be kept to this process."""


class NoLocksError(FolderLockError):
    """The file system has no locks."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: this file system does not lock files ({reason}), so a second node could open "
            "the folder and data would be lost; keep it on a disk of this machine (ext4, XFS, "
            "Btrfs), not on NFS or CIFS"
        )


class FolderInUseError(FolderLockError):
    """Another process has the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: another process has this folder open; stop that node first")


class FolderLock:
    """The locks of one folder; made by ``lock_folder``.

    Attributes:
        log: the descriptor of the database that is locked; None: there is none yet.
    """

    def __init__(self, files: list[int], log: int | None) -> None:
        self._files = files
        self.log = log

    def close(self) -> None:
        """Let others in; all connections to the database are closed by now."""
        files, self._files = self._files, []
        for file in files:
            os.close(file)


def lock_folder(folder: Path, *, makes_log: bool = False) -> FolderLock:
    """Keep all other processes out of a folder until the lock is closed.

    Args:
        makes_log: folder and database are made where there are none; an empty file is one.

    Raises:
        FolderLockError: another process has the folder, or it cannot be locked.
        OSError: a file cannot be made or opened.
    """
    if makes_log:
        folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    files: list[int] = []
    try:
        files.append(_locked(folder, LOCK_FILE, os.O_RDWR | os.O_CREAT))
        flags = os.O_RDWR | os.O_CREAT if makes_log else os.O_RDWR
        try:
            log = _locked(folder, LOG_FILE, flags)
        except FileNotFoundError:
            return FolderLock(files, None)
        files.append(log)
    except BaseException:
        for file in files:
            os.close(file)
        raise
    return FolderLock(files, log)


def lock_file(path: Path) -> int:
    """Lock a file that is to become a folder's database, for the life of the descriptor.

    Raises:
        FolderLockError: another process has it, or it cannot be locked.
        OSError: it cannot be opened.
    """
    return _locked(path.parent, path.name, os.O_RDWR)


def _locked(folder: Path, name: str, flags: int) -> int:
    path = folder / name
    for _ in range(TRIES_MAX.value):
        file = _opened(path, flags)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_file_at(path, os.fstat(file)):
                return file
        except BlockingIOError as error:
            os.close(file)
            raise FolderInUseError(folder) from error
        except OSError as error:
            os.close(file)
            if error.errno in _NO_LOCKS:
                raise NoLocksError(path, os.strerror(error.errno)) from error
            raise
        except BaseException:
            os.close(file)
            raise
        os.close(file)
    raise FolderInUseError(folder)


def _opened(path: Path, flags: int) -> int:
    """A descriptor to lock; for writing where that is allowed, as some file systems want it."""
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if flags != os.O_RDWR or error.errno not in _READ_ONLY:
            raise
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def is_file_at(path: Path, found: os.stat_result) -> bool:
    """True if the path leads to this very file."""
    try:
        now = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino)
