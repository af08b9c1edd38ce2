"""Mending a folder where nothing can be lost by it."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

from crdtstream.store.errors import DAMAGED
from crdtstream.store.layout import TABLES
from crdtstream.upkeep.check_report import no_progress
from crdtstream.upkeep.folder_reading import UpkeepError, log_file
from crdtstream.upkeep.fsck import INDEX
from crdtstream.upkeep.image_check import find_images

_NOT_REPAIRED: Final = "nothing was changed; start this region from a backup of the folder"


def repair_index(folder: Path) -> None:
    """Make the index of the log again, from its rows.

    One transaction: it is committed once SQLite's own check finds the file whole; a crash
    leaves the file as it was before.

    Raises:
        UpkeepError: it cannot be made.  Nothing has changed.
    """
    path = log_file(folder)
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(f"DROP INDEX IF EXISTS {INDEX}")
                connection.execute(TABLES[INDEX])
                found = connection.execute("PRAGMA integrity_check").fetchall()
            except sqlite3.Error:
                connection.execute("ROLLBACK")
                raise
            if found != [("ok",)]:
                connection.execute("ROLLBACK")
                raise UpkeepError(f"{path}: more than the index is damaged; {_NOT_REPAIRED}")
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise UpkeepError(f"{path}: {error}; {_NOT_REPAIRED}") from error


def repair_checkpoints(folder: Path, goes_back_to: int) -> None:
    """Delete what belongs to no checkpoint up to this generation (0: to none at all).

    One transaction, as ``repair_index``: it is committed once what stays was read back.

    Raises:
        UpkeepError: it cannot be done, or what stays is not sound.  Nothing has changed.
    """
    path = log_file(folder)
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _delete_behind(connection, goes_back_to)
                # As ``connect`` has it for what may be damaged.
                connection.text_factory = bytes
                is_sound = _is_sound(connection, goes_back_to)
            except DAMAGED:
                connection.execute("ROLLBACK")
                raise
            if not is_sound:
                connection.execute("ROLLBACK")
                raise UpkeepError(f"{path}: what would stay is damaged, too; {_NOT_REPAIRED}")
            connection.execute("COMMIT")
    except DAMAGED as error:
        raise UpkeepError(f"{path}: {error}; {_NOT_REPAIRED}") from error


def _delete_behind(connection: sqlite3.Connection, generation: int) -> None:
    query = "SELECT coalesce(max(images_made), 0) FROM checkpoint WHERE generation <= ?"
    (images_made,) = connection.execute(query, (generation,)).fetchone()
    connection.execute("DELETE FROM checkpoint WHERE generation > ?", (generation,))
    connection.execute("DELETE FROM image WHERE number > ?", (images_made,))
    connection.execute("DELETE FROM body WHERE number > ?", (images_made,))
    connection.execute("UPDATE image SET died = NULL WHERE died > ?", (generation,))


def _is_sound(connection: sqlite3.Connection, generation: int) -> bool:
    found = find_images(connection, no_progress)
    assert found is not None
    newest = max(found.by_generation, default=0)
    if newest != generation or found.wrong or found.wrong_nodes or found.leftovers:
        return False
    return connection.execute("PRAGMA integrity_check").fetchall() == [(b"ok",)]
