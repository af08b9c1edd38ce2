"""Detection of a log whose end is lost.

SQLite treats a write-ahead log (WAL) that is damaged in its middle as one that ends there.  So a
log may end earlier than it did, without any error.  Two things show it:

    rows      the file ``acknowledged`` beside the log, and a setting that is written when the log
              is closed, say which row was the last one
    frames    the WAL's own checksums: whole commits stand behind a frame that is not whole

A missing row counts only if nothing harmless explains it.  Without fsync a power cut may take any
part of what was written since the last sync, as nothing orders blocks between two syncs.  So frames
count only where nothing says how many rows there were: in a copy without that file.  The same rules
hold in every folder, the original and any copy of it.

The check uses a connection that cannot write, before any other one is opened: the last connection
to close the database moves its WAL and deletes it, and with it what stands behind the damage.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from crdtstream.store.acknowledged import read_acknowledged
from crdtstream.store.connections import is_full, wal_of
from crdtstream.store.errors import DAMAGED, StoreError
from crdtstream.store.format_number import renumbered
from crdtstream.store.log import Fsync
from crdtstream.store.presence import FIRST_KEY
from crdtstream.store.wal import check_wal_of

# The last row of a log that was closed in order.
LAST_KEY: Final = "log_last"

ADVICE: Final = (
    "Keep the folder as it is for inspection, and start with one that is restored from a backup. "
    "To go on with what can be read instead, start once with crdtstream node --accept-loss: the "
    "damaged file is kept, and the database gets a new identity, as programs may know positions "
    "that are lost"
)
ADVICE_IF_ALL: Final = (
    "Keep the folder as it is for inspection, and start with one that is restored from a backup, "
    "or, if other regions have its effects, with an empty one"
)


@dataclass(frozen=True, slots=True)
class Expected:
    """The least that a log must have.

    Attributes:
        seq: its last row; 0 if nothing says so.
        is_all: nothing behind it was acknowledged, or only rows that a power cut may take without
            damage; False: nothing says so, and the frames of the WAL decide.
    """

    seq: int
    is_all: bool


def expected_of(folder: Path, meta: Mapping[str, str]) -> Expected:
    """The least that a folder's log must have, by its settings and the file beside it."""
    was_clean = meta.get("clean_shutdown") == "yes"
    was_synced = meta.get("fsync") == Fsync.ALWAYS.value
    last = meta.get(LAST_KEY, "")
    seq = int(last) if was_clean and last.isdecimal() else 0
    told = read_acknowledged(folder, meta.get("opening", ""))
    if told is None:
        return Expected(seq, is_all=False)
    if was_clean or was_synced or told.is_same_boot:
        return Expected(max(seq, told.seq), is_all=True)
    # A power cut may have taken what was written since the last sync: all of it, or the middle.
    return Expected(max(seq, told.synced_seq), is_all=True)


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss of a log, described in a text.

    Attributes:
        is_all: nothing of it can be read.
    """

    text: str
    is_all: bool = False


def find_loss(path: Path) -> Loss | None:
    """Say what the log in this file has lost; None: nothing that can be noticed here.

    Nothing is changed.

    Raises:
        sqlite3.Error: the disk has no room for the index of the WAL.
        OSError: a file cannot be read.
        StoreError: it is of another format.  Its settings may mean something else there, and its
            WAL stays as it is.
    """
    found = _read_end(path)
    if found is None:
        damage = check_wal_of(path).damage
        if not damage:
            return None
        return Loss(f"no table can be read; {wal_of(path).name}: {damage}", is_all=True)
    meta, last_seq = found
    if meta:
        try:
            renumbered(meta)
        except ValueError as error:
            raise StoreError(f"{path}: {error}") from error
    expected = expected_of(path.parent, meta)
    if last_seq < expected.seq:
        return Loss(f"rows {last_seq + 1} to {expected.seq} were acknowledged and are lost")
    damage = "" if expected.is_all else check_wal_of(path).damage
    if damage:
        return Loss(
            f"{wal_of(path).name}: {damage}; what was written behind row {last_seq} is lost"
        )
    return None


def _read_end(path: Path) -> tuple[dict[str, str], int] | None:
    """The settings and the last row; None: there are no tables that can be read."""
    try:
        # SQLite takes the WAL of an empty file for an old one, and deletes it.
        if not path.stat().st_size:
            return None
        address = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            found = connection.execute("SELECT key, value FROM meta").fetchall()
            meta = {str(key): str(value) for key, value in found}
            (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM log").fetchone()
            first = meta.get(FIRST_KEY, "1")
            return meta, max(int(last), int(first) - 1 if first.isdecimal() else 0)
    except DAMAGED as error:
        if is_full(path, error):
            raise
        # Opening it for use says what is wrong.
        return None


def refusal(path: Path, loss: Loss) -> str:
    """Why a log is not opened, and what to do."""
    return f"{path}: {loss.text}. {ADVICE_IF_ALL if loss.is_all else ADVICE}"


def keep_damaged_wal(path: Path) -> Path | None:
    """Copy a WAL before it is written over; None: there is none.

    Raises:
        OSError: it cannot be copied.
    """
    wal = wal_of(path)
    if not wal.exists():
        return None
    copies = (wal.with_name(f"{wal.name}.damaged-{number}") for number in count(1))
    kept = next(copy for copy in copies if not copy.exists())
    shutil.copyfile(wal, kept)
    for written in (kept, kept.parent):
        file = os.open(written, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    return kept
