"""Restores a region's folder from a backup.

The log is copied under another name, read back, and renamed last: until then the folder holds no
log, and a node that is started with it finds an empty one.  The folder's lock is held all the time.

A folder restored into its region proves nothing (``store/opening.py``): its node asks every other
region for what the backup does not have, and takes no write before it has that.  A new database has
no other region yet, so its folder is marked as the one; see ``docs/backup.md``.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import INSTANCE_BYTES
from crdtstream.core.membership.encoding import Kept, encode_kept
from crdtstream.core.membership.members import Members, beginning_of
from crdtstream.core.uid import DatabaseUid, shown_uid
from crdtstream.secrets.private_files import FOLDER_MODE
from crdtstream.store.folder_lock import LOCK_FILE, LOG_FILE, lock_file
from crdtstream.store.log import Fsync
from crdtstream.store.meta import VOLUME_KEY
from crdtstream.store.opening import OPENED_FILE, write_opening
from crdtstream.upkeep.backup import sync_file, write_meta
from crdtstream.upkeep.check_report import Progress, no_progress
from crdtstream.upkeep.folder_reading import UpkeepError, locked
from crdtstream.upkeep.manifest import (
    HASHED_BYTES,
    FileSum,
    Manifest,
    check_files,
    check_sum,
    read_manifest,
    sum_of,
)
from crdtstream.upkeep.membership import members_in

# The log, before it is whole.
RESTORING_FILE: Final = f"{LOG_FILE}.restoring"
# Files that a restore that was cut off leaves.
_LEFTOVERS: Final = frozenset(
    {LOCK_FILE, OPENED_FILE, RESTORING_FILE, f"{RESTORING_FILE}-wal", f"{RESTORING_FILE}-shm"}
)


def check_backup(
    backup: Path, *, region: RegionId | None = None, database_id: str | None = None
) -> Manifest:
    """Read the manifest of a backup, and check that it is the backup that is wanted.

    Raises:
        UpkeepError: it is no backup, of another region, database or format.
    """
    manifest = read_manifest(backup)
    if region is not None and manifest.region != region:
        raise UpkeepError(
            f"{backup}: of region {manifest.region}, and the settings are of region {region}; "
            "restore a backup of that region, or start it with an empty folder: it takes its "
            "effects from the others"
        )
    if database_id is not None and manifest.database_id != database_id:
        raise UpkeepError(
            f"{backup}: of database {manifest.database_id!r}, and the settings are of "
            f"{database_id!r}; use the right settings, or --new-database {database_id}"
        )
    return manifest


def restore(
    backup: Path, folder: Path, manifest: Manifest, progress: Progress = no_progress
) -> None:
    """Restore a region's folder.

    Raises:
        UpkeepError: the folder is in use or not empty, the backup was cut short or altered, or the
            disk refuses.  The folder holds no log then.
    """
    _restore(backup, folder, manifest, progress, _forget_opening)


def restore_as_new(
    backup: Path,
    folder: Path,
    manifest: Manifest,
    *,
    database_id: str,
    uid: DatabaseUid,
    progress: Progress = no_progress,
) -> Manifest:
    """Begin a new database with what a backup holds.

    Returns:
        The region and database of the folder now.

    Raises:
        UpkeepError: as ``restore``.
    """

    def rename(connection: sqlite3.Connection) -> None:
        # Epoch 1 is what the file names, unless effects have changed what it was.
        members = members_in(_meta_of(connection))
        first = beginning_of(members) if members.epoch > 1 else Members()
        opening = write_opening(folder, 1, RESTORING_FILE)
        _put_meta(
            connection,
            database_id=database_id,
            database_uid=shown_uid(uid),
            database_declared="yes",
            opening=str(opening),
            # It may be started on any volume.
            volume="",
            fsync=Fsync.ALWAYS.value,
            clean_shutdown="yes",
            # It is another folder, and has voted for nothing.
            membership=encode_kept(Kept(os.urandom(INSTANCE_BYTES), members=first)).hex(),
        )

    _restore(backup, folder, manifest, progress, rename)
    return replace(manifest, database_id=database_id, database_uid=shown_uid(uid))


def _restore(
    backup: Path,
    folder: Path,
    manifest: Manifest,
    progress: Progress,
    finish: Callable[[sqlite3.Connection], None],
) -> None:
    check_target(folder)
    # Before anything is written: what is damaged leaves no trace.
    check_files(backup, manifest, progress)
    is_made = not folder.exists()
    try:
        if is_made:
            folder.mkdir(FOLDER_MODE)
        with locked(folder):
            # Between the look and the lock another process may have been quicker.
            check_target(folder)
            try:
                _fill(backup, folder, manifest, progress, finish)
            except BaseException:
                _clear(folder, is_made=is_made)
                raise
    except sqlite3.Error as error:
        raise UpkeepError(f"{folder}: {error}; check space and rights") from error
    except OSError as error:
        raise UpkeepError(
            f"{error.filename or folder}: {error.strerror}; check path, space and rights"
        ) from error
    finally:
        if is_made:
            with contextlib.suppress(OSError):
                # Only if it is empty.
                folder.rmdir()


def check_target(folder: Path) -> None:
    """See that a folder is empty, or holds what a restore that was cut off left.

    Raises:
        UpkeepError: it is not, or a node has it open.
    """
    if not folder.exists():
        if not folder.absolute().parent.is_dir():
            raise UpkeepError(f"{folder.absolute().parent}: no such folder; make it first")
        return
    if not folder.is_dir():
        raise UpkeepError(f"{folder}: is no folder; name the `dir` of the node's settings")
    found = {path.name for path in folder.iterdir()}
    if found <= _LEFTOVERS and (RESTORING_FILE in found or OPENED_FILE not in found):
        return
    if LOG_FILE in found:
        with locked(folder):
            pass
    raise UpkeepError(
        f"{folder}: is not empty; move its files away, or name a new or an empty folder"
    )


def _clear(folder: Path, *, is_made: bool) -> None:
    """Take away what was written, unless the log has got its name."""
    if not (folder / LOG_FILE).exists():
        # The lock stays in a folder that was there: another process may be about to take it.
        for name in sorted(_LEFTOVERS if is_made else _LEFTOVERS - {LOCK_FILE}):
            with contextlib.suppress(OSError):
                (folder / name).unlink(missing_ok=True)


def _fill(
    backup: Path,
    folder: Path,
    manifest: Manifest,
    progress: Progress,
    finish: Callable[[sqlite3.Connection], None],
) -> None:
    for name in sorted(_LEFTOVERS - {LOCK_FILE}):
        (folder / name).unlink(missing_ok=True)
    source, target = backup / LOG_FILE, folder / RESTORING_FILE
    wanted = manifest.files[LOG_FILE]
    check_sum(source, _copy(source, target, wanted.bytes, progress), wanted)
    # The written bytes are read back.
    check_sum(target, sum_of(target, progress), wanted)
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        finish(connection)
        connection.execute("COMMIT")
    sync_file(target)
    # From its first moment under this name the log is as locked as the folder.
    locked_log = lock_file(target)
    try:
        target.rename(folder / LOG_FILE)
        sync_file(folder)
    finally:
        os.close(locked_log)


def _copy(source: Path, target: Path, bytes_count: int, progress: Progress) -> FileSum:
    """Copy a file durably; returns the sum of what was read."""
    digest = hashlib.sha256()
    done = 0
    with source.open("rb") as reading, target.open("xb") as writing:
        while data := reading.read(HASHED_BYTES):
            writing.write(data)
            digest.update(data)
            done += len(data)
            progress(f"copying {source.name}", done, bytes_count)
        writing.flush()
        os.fsync(writing.fileno())
    return FileSum(done, digest.hexdigest())


def _forget_opening(connection: sqlite3.Connection) -> None:
    # A backup has none; one that was made by copying a folder has.
    meta = _meta_of(connection)
    meta.pop("opening", None)
    meta.pop(VOLUME_KEY, None)
    write_meta(connection, meta)


def _meta_of(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM meta").fetchall())


def _put_meta(connection: sqlite3.Connection, **values: str) -> None:
    write_meta(connection, _meta_of(connection) | values)
