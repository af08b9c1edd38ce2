"""Whether a folder is the one that was last open here, or a copy, or an earlier state of it.

Each time a node may go on with a folder it writes the file ``opened`` anew, which holds how often
that has happened, and notes in the log which file that is: its number on the file system and when
it was last changed.  Nobody can choose either of them, and nothing touches the file until the next
start.  So

    the folder is a copy            another file number
    files were put back in place    another time of change, or log and file tell of other starts
    the folder was moved            the same file: it is still the one

What restores whole disks below the file system - a snapshot of a volume or a virtual machine -
leaves no trace here: remove the file ``opened`` then, and the node asks its peers first.
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
        file: which file says so: its number, and its time of change in ns.
    """

    count: int
    file: str

    def __str__(self) -> str:
        return f"{self.count} {self.file}"


def read_opening(folder: Path) -> Opening | None:
    """What the folder's file says; None if there is none that can be read."""
    try:
        with (folder / OPENED_FILE).open() as opened:
            return Opening(int(opened.read(32)), _file_of(opened.fileno()))
    except (OSError, ValueError):
        return None


def write_opening(folder: Path, count: int) -> Opening:
    """Say that the folder was opened once more, durably."""
    with (folder / OPENED_FILE).open("w") as opened:
        opened.write(f"{count}\n")
        opened.flush()
        os.fsync(opened.fileno())
        opening = Opening(count, _file_of(opened.fileno()))
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return opening


def _file_of(descriptor: int) -> str:
    status = os.fstat(descriptor)
    return f"{status.st_ino}:{status.st_ctime_ns}"
