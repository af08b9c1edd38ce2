"""Reading a folder without its node: its lock, its settings, the rows of its log.

Nothing here trusts what it reads.  A damaged row is reported as damaged, and reading goes on behind
it.  Each read is a short transaction of its own, so that a node that has the folder open is not
held up: a long one would keep SQLite from moving its WAL into the database, and from syncing it.
"""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import record_bytes
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.incarnations import NO_INCARNATIONS, Incarnations, incarnations_of
from crdtstream.store.errors import DAMAGED
from crdtstream.store.folder_lock import LOG_FILE, FolderLockError, lock_folder
from crdtstream.store.format_number import FORMAT_KEY, KEY_BEFORE, renumbered
from crdtstream.store.layout import parse_vv
from crdtstream.store.log import Logged
from crdtstream.store.meta import INCARNATIONS_KEY
from crdtstream.store.presence import FIRST_KEY
from crdtstream.store.rows import ROW_COLUMNS, RowReader
from crdtstream.store.sqlite import BEGINS_KEY

# The most that one read takes, except a single larger row.
READ_BYTES_MAX: Final = 4 << 20
READ_ROWS_MAX: Final = 4_096
# No log has more rows.
SEQ_MAX: Final = (1 << 63) - 1


class UpkeepError(Exception):
    """Something cannot be used as it was asked; the text says why, and what to do.

    Nothing has changed.
    """


class DamagedBackupError(UpkeepError):
    """A backup is not what was written."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the log as it was found.

    Attributes:
        seq: its position; of rows that cannot be read, the first of them.
        logged: its content; None if that is damaged.
        damage: text of its damage; empty if there is none.
        missing: how many rows from ``seq`` on are not there, or cannot be read.
    """

    seq: int
    logged: Logged | None
    damage: str = ""
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a folder, as the folder states it.

    Attributes:
        database_uid: 32 hexadecimal digits; empty where the regions have not agreed on it yet.
        first_seq: the first row that the log still has.
        begins: the effects before it.
        incarnations: of all regions, as far as the folder knows them.
    """

    region: RegionId
    database_id: str
    database_uid: str
    first_seq: int
    begins: VersionVector
    incarnations: Incarnations = NO_INCARNATIONS

    @property
    def incarnation(self) -> int:
        """The one in which its region last numbered effects here; 0: in none."""
        return 0 if self.incarnations.own is None else self.incarnations.own.number


# --- The folder -----------------------------------------------------------------------------


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every node out of a folder during the block.

    Where nothing can be written, no node can be either.

    Raises:
        UpkeepError: a node, or another program, has it open.
    """
    try:
        lock = lock_folder(folder)
    except FolderLockError as error:
        raise UpkeepError(str(error)) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            yield
            return
        raise UpkeepError(
            f"{error.filename or folder}: {error.strerror}; check path and rights"
        ) from error
    try:
        yield
    finally:
        lock.close()


def log_file(folder: Path) -> Path:
    """The log of a folder.

    Raises:
        UpkeepError: there is none, or it cannot be read.
    """
    path = folder / LOG_FILE
    if not folder.is_dir():
        raise UpkeepError(f"{folder}: no such folder; name the `dir` of a node's settings")
    if not path.is_file():
        raise UpkeepError(
            f"{folder}: no folder of a region and no backup, as it has no {LOG_FILE}; "
            "name the `dir` of a node's settings, or a folder that `crdtstream backup` wrote"
        )
    if not os.access(path, os.R_OK):
        raise UpkeepError(f"{path}: cannot be read; run this as the user that runs the node")
    return path


def connect(path: Path, *, is_locked: bool = False) -> sqlite3.Connection:
    """A connection that cannot write; text is bytes, as what is damaged may be no text.

    Args:
        is_locked: no process writes.  Where no WAL is left, no file is made beside it then.

    Raises:
        UpkeepError: the file cannot be opened.
    """
    wal = path.with_name(path.name + "-wal")
    is_still = is_locked and not (wal.exists() and wal.stat().st_size)
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if is_still else ''}",
            uri=True,
            isolation_level=None,
            # One thread at a time uses it, but not always the same.
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise UpkeepError(f"{path}: {error}; check path and rights") from error
    connection.text_factory = bytes
    return connection


# --- Settings -------------------------------------------------------------------------------


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    """The settings that the folder keeps.

    Raises:
        DAMAGED: they cannot be read, or one of them is no text.
    """
    found = connection.execute("SELECT key, value FROM meta").fetchall()
    return {_text(key): _text(value) for key, value in found}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def identity_of(meta: Mapping[str, str]) -> Identity:
    """Identity of the folder with these settings.

    Raises:
        UpkeepError: the settings do not say it, or are damaged, or the format is one that this
            program does not read.
    """
    region = meta.get("region", "")
    if not meta.keys() & {FORMAT_KEY, KEY_BEFORE} or not region:
        raise UpkeepError("the log does not say whose it is: an empty folder, or a damaged one")
    try:
        renumbered(meta)
    except ValueError as error:
        raise UpkeepError(str(error)) from error
    if not region.isdecimal() or not 1 <= int(region) <= REGION_MAX:
        raise UpkeepError(f"region {region!r} is no region's number: the folder is damaged")
    try:
        first_seq, begins = int(meta.get(FIRST_KEY, "1")), parse_vv(meta.get(BEGINS_KEY, ""))
    except ValueError as error:
        raise UpkeepError(f"where the log begins is damaged: {error}") from error
    try:
        text = meta.get(INCARNATIONS_KEY)
        incarnations = NO_INCARNATIONS if text is None else incarnations_of(text)
    except ValueError as error:
        raise UpkeepError(f"what it says of incarnations is damaged: {error}") from error
    return Identity(
        RegionId(int(region)),
        meta.get("database_id", ""),
        meta.get("database_uid", ""),
        first_seq,
        begins,
        incarnations,
    )


# --- Rows -----------------------------------------------------------------------------------


def last_seq(connection: sqlite3.Connection) -> int:
    """The position of the last row; 0 in an empty log.

    Raises:
        DAMAGED: it cannot be read.
    """
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM log").fetchone()
    assert isinstance(seq, int)
    return seq


def rows(connection: sqlite3.Connection, *, first: int = 1, last: int = SEQ_MAX) -> Iterator[Row]:
    """The rows of the log from ``first`` to ``last``, and what is missing between them.

    Rows that are added behind ``last`` are not read.  Without ``last``, all rows are read that
    exist when the reading gets to the end.
    """
    seq = first
    while seq <= last:
        taken, error = _read(connection, seq, last)
        for row in taken:
            if row.seq < seq:
                # Else the same rows would be read for ever.
                error = sqlite3.DatabaseError("rows are out of order")
                break
            if row.seq > seq:
                yield Row(seq, None, "is missing", missing=row.seq - seq)
            yield row
            seq = row.seq + 1
        if error is not None:
            behind = _readable_from(connection, seq, last)
            yield Row(seq, None, f"cannot be read: {error}", missing=(behind or seq + 1) - seq)
            if behind is None:
                return
            seq = behind
        elif not taken:
            break
    if seq <= last < SEQ_MAX:
        yield Row(seq, None, "is missing", missing=last - seq + 1)


def _read(
    connection: sqlite3.Connection, seq: int, last: int
) -> tuple[list[Row], Exception | None]:
    """The next rows of one read, and the error that ended it too early."""
    reader, taken = RowReader(), list[Row]()
    total = 0
    try:
        found = connection.execute(
            f"SELECT {ROW_COLUMNS} FROM log WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT ?",
            (seq, last, READ_ROWS_MAX),
        )
        with contextlib.closing(found):
            for columns in found:
                row = checked(reader, columns)
                taken.append(row)
                if row.logged is not None:
                    total += record_bytes(row.logged.record)
                if total >= READ_BYTES_MAX:
                    break
    except DAMAGED as error:
        return taken, error
    return taken, None


def checked(reader: RowReader, columns: tuple[object, ...]) -> Row:
    """A row, and whether it is what was written."""
    logged, is_sound = reader.read(columns)
    if logged is not None and is_sound:
        return Row(logged.seq, logged)
    seq = columns[0] if isinstance(columns[0], int) else 0
    return Row(seq, None, "is damaged (checksum)")


def _readable_from(connection: sqlite3.Connection, seq: int, last: int) -> int | None:
    """First row that can be read again, behind one that cannot; None if there is none."""
    bad, step = seq, 1
    # The last row is looked at in any case: what can be read may begin behind the last step.
    while (good := _probe(connection, min(bad + step, last), last)) is None:
        if bad + step >= last or step > SEQ_MAX // 4:
            return None
        bad, step = bad + step, step * 2
    # Somewhere in (bad, good].
    high = min(bad + step, last)
    while high - bad > 1:
        middle = (bad + high) // 2
        found = _probe(connection, middle, last)
        if found is None:
            bad = middle
        else:
            high, good = middle, found
    return good


def _probe(connection: sqlite3.Connection, seq: int, last: int) -> int | None:
    """The first row at ``seq`` or behind, if it can be read."""
    query = f"SELECT {ROW_COLUMNS} FROM log WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT 1"
    try:
        found = connection.execute(query, (seq, min(last, SEQ_MAX))).fetchone()
    except (*DAMAGED, OverflowError):
        return None
    return None if found is None or found[0] < seq else int(found[0])
