"""Detection of a folder that is a copy, or an earlier state, of the one that was last open here.

Each time a node may go on with a folder, and when it stops, it writes the file ``opened`` again.
The file counts these writes.  The log notes which file that is: its number on the file system, when
it was last changed, and the number of the log's own file.  These cannot be chosen, and nothing
touches the file until the next start.  So

    the folder is a copy            another file number
    files were put back in place    another time of change, or log and file have different counts
    the folder was moved            the same file: it is still the one

A log that was copied while its node ran, and put back over the old file after a crash of that very
run, is not noticed.  Restoring a whole disk below the file system - a snapshot of a volume or a
virtual machine - leaves no trace here.  A clone of a volume is another volume: its ID shows that if
the settings have it (``volume_id``).  Otherwise remove the file ``opened``, and the node asks its
peers first.  If the file was not removed, its effects show it (``core/histories.py``).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OPENED_FILE: Final = "opened"


@dataclass(frozen=True, slots=True)
class Opening:
    """One start with a folder.

    Attributes:
        count: how many starts there were, this one included.
        file: which file says so: its number, its time of change in ns, and the log's number.
    """

    count: int
    file: str

    def __str__(self) -> str:
        return f"{self.count} {self.file}"


def read_opening(folder: Path, log_name: str) -> Opening | None:
    """Read the folder's file; None if it does not exist or cannot be read."""
    try:
        with (folder / OPENED_FILE).open() as opened:
            return Opening(int(opened.read(32)), _file_of(opened.fileno(), folder / log_name))
    except (OSError, ValueError):
        return None


def write_opening(folder: Path, count: int, log_name: str) -> Opening:
    """Say that the folder was opened once more, durably."""
    # Written over in place, which needs no room on a full disk.
    file = os.open(folder / OPENED_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(file, os.pwrite(file, f"{count}\n".encode(), 0))
        os.fsync(file)
        opening = Opening(count, _file_of(file, folder / log_name))
    finally:
        os.close(file)
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return opening


def _file_of(descriptor: int, log: Path) -> str:
    status = os.fstat(descriptor)
    return f"{status.st_ino}:{status.st_ctime_ns}:{log.stat().st_ino}"
