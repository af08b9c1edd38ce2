"""A little room on the disk that is freed when a node starts on a full one.

To read a write-ahead log, SQLite needs a file of some ten kilobytes beside it: its index.  So the
folder keeps the file ``reserve``, and a start that finds no room removes it.  It is created again
when there is room.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

RESERVE_FILE: Final = "reserve"
# The index of a write-ahead log takes 32 KiB for each 16 MiB.
RESERVE_BYTES: Final = 256 << 10
# With less room than that on the disk none is taken.
ROOM_LEAST_BYTES: Final = 16 << 20


def keep_reserve(folder: Path) -> None:
    """Take the room, if it is not taken yet and there is plenty."""
    path = folder / RESERVE_FILE
    with contextlib.suppress(OSError):
        if path.exists() and path.stat().st_size >= RESERVE_BYTES:
            return
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < ROOM_LEAST_BYTES:
            return
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(file, 0, RESERVE_BYTES)
        finally:
            os.close(file)


def release_reserve(folder: Path) -> bool:
    """Free the room; returns True if there was any."""
    try:
        (folder / RESERVE_FILE).unlink()
    except OSError:
        return False
    return True
