"""Files for their owner alone: a region's folder and its backups have all entries of the database.

A folder is made with mode 0700, as PostgreSQL makes its own, so what is in it is closed whatever
the modes of its files are.  The files are closed as well: they may be moved, copied or packed.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
# Rights that no file gets from the beginning.
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def keep_files_private() -> None:
    """From now on nobody else can open what this process makes, whatever its umask was."""
    os.umask(_OTHERS)


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """The same within a block; for the whole process, so nothing else may make files meanwhile."""
    former = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(former)


def others_may_enter(folder: Path) -> bool:
    """True if every user of this machine may list a folder, or open files in it."""
    try:
        return bool(os.stat(folder).st_mode & (stat.S_IROTH | stat.S_IXOTH))
    except OSError:
        return False
