"""Checks that the files that a node has open are still those of its folder.

A file that is removed or moved away lives on for a process that has it open: commits succeed, syncs
succeed, and when the process ends, all of it is gone.  So two things are checked from time to time:

    folder, log.sqlite, log.sqlite-wal    each path leads to the very file (device and number) that
                                          was found when the log was opened
    the last commit                       a second handle, opened by path, finds it
"""

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Final

from crdtstream.store.folder_lock import is_file_at

FIRST_KEY: Final = "log_first"
_LAST_SEQ: Final = (
    "SELECT max(coalesce((SELECT max(seq) FROM log), 0), "
    f"coalesce((SELECT value FROM meta WHERE key = '{FIRST_KEY}') - 1, 0))"
)


class Presence:
    """The files of one open log; made when they are all there."""

    def __init__(self, log: Path, log_found: os.stat_result) -> None:
        """Note which files they are.

        Args:
            log_found: the database that is locked.

        Raises:
            OSError: one of them is gone already.
        """
        folder, wal = log.parent, log.with_name(f"{log.name}-wal")
        self._log = log
        self._files = {folder: folder.stat(), log: log_found, wal: wal.stat()}
        self._seen_seq = 0

    def problem(self) -> str:
        """Text that says which file is no longer the folder's; empty: all are."""
        for path, found in self._files.items():
            try:
                if is_file_at(path, found):
                    continue
                what = "is another file" if path.exists() else "was removed or moved away"
            except OSError as error:
                # A dying disk, a server that is gone, rights that were taken away.
                what = f"cannot be looked at ({error.strerror})"
            return f"{path}: {what} while the node has it open"
        return ""

    def problem_of_commit(self, seq: int) -> str:
        """Text that says that a second handle does not find this row's commit; empty: it does."""
        if seq <= self._seen_seq:
            return ""
        found = _last_seq_by_path(self._log)
        if found is None or found >= seq:
            self._seen_seq = seq
            return ""
        return f"{self._log}: opened again, it ends at row {found}, and row {seq} was written"


def _last_seq_by_path(log: Path) -> int | None:
    """The last row as a second handle finds it; None: it cannot look."""
    with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
        connection = sqlite3.connect(f"{log.absolute().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(connection):
            (seq,) = connection.execute(_LAST_SEQ).fetchone()
            return int(seq)
    return None


def gone(problem: str) -> str:
    """Why nothing is written any more, and what to do."""
    return (
        f"{problem}. What is written now would be gone with this process, so nothing is "
        "acknowledged any more; reads go on. Put the folder back where it was, and the node goes "
        "on by itself. If it was deleted, do not stop the node before its files are saved: "
        "docs/storage.md, 'A folder that is gone'"
    )
