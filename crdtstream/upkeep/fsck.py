"""Checks a folder while no node has it open, from its bytes up to the state that it holds.

    manifest     of a backup
    files        the WAL, the file's size, SQLite's own check, the tables
    settings     region and database of the folder
    rows         every checksum, no position missing, every batch and change decodes
    effects      each origin's dots without gaps, every context covered
    images       every checksum and sum, each macro node against its head
    staging      every image of another region's state that was copied, if one was
    state        the newest checkpoint, and the log behind it replayed: lanes ascend, pending
                 entries lie inside them
    digest       the same from every checkpoint, and from the whole log where that exists

Each layer is checked as far as the layers below it allow.  Nothing is changed.
"""

import contextlib
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from crdtstream.core.clock import format_vv
from crdtstream.core.incarnations import incarnations_of
from crdtstream.core.membership.encoding import decode_kept
from crdtstream.core.tuning import TUNABLES
from crdtstream.core.uid import parse_uid
from crdtstream.store.errors import DAMAGED, StoreError
from crdtstream.store.format_number import FORMAT_KEY, KEY_BEFORE
from crdtstream.store.layout import ABSENCES_KEY, CHECKSUM_KEY, meta_checksum, parse_vv
from crdtstream.store.layout import TABLES as TABLES_MADE
from crdtstream.store.log import Fsync
from crdtstream.store.lost_end import LAST_KEY, expected_of, find_loss
from crdtstream.store.meta import INCARNATIONS_KEY, MEMBERSHIP_KEY, VOLUME_KEY
from crdtstream.store.presence import FIRST_KEY
from crdtstream.store.sqlite import BEGINS_KEY, LACKS_KEY
from crdtstream.store.sqlite_staging import StagedFolder
from crdtstream.store.wal import check_wal_of
from crdtstream.upkeep.check_report import (
    Progress,
    Report,
    Verdict,
    no_progress,
    several,
    verdict_on,
)
from crdtstream.upkeep.effects import Effects
from crdtstream.upkeep.folder_reading import (
    Identity,
    UpkeepError,
    connect,
    identity_of,
    last_seq,
    log_file,
    read_meta,
    rows,
)
from crdtstream.upkeep.image_check import ImagesFound, find_images
from crdtstream.upkeep.manifest import MANIFEST, check_files, read_manifest
from crdtstream.upkeep.state import CHECKPOINTS, Base, check_state

SQLITE_ERRORS_MAX: Final = 20
PROGRESS_ROWS: Final = 1_000
INDEX: Final = "log_by_dot"
SQLITE: Final = "SQLite"
TABLES: Final = "tables"
IMAGES: Final = "images"
NODES: Final = "macro nodes"
STAGING: Final = "staging"
_PAGE_BYTES: Final = slice(16, 18)

_OPENING: Final = re.compile(r"0 revoked|\d+ \d+:\d+:\d+")
_SETTINGS: Final = {
    FORMAT_KEY: re.compile(r"\d+"),
    KEY_BEFORE: re.compile(r"\d+"),
    "region": re.compile(r"\d+"),
    "database_id": re.compile(r".+"),
    "database_declared": re.compile(r"yes|no"),
    "opening": _OPENING,
    VOLUME_KEY: re.compile(r"[\x21-\x7e]{0,200}"),
    "fsync": re.compile("|".join(fsync.value for fsync in Fsync)),
    "clean_shutdown": re.compile(r"yes|no"),
    FIRST_KEY: re.compile(r"\d+"),
    LAST_KEY: re.compile(r"\d+"),
    CHECKSUM_KEY: re.compile(r"\d+"),
}


def check_folder(folder: Path, progress: Progress = no_progress, *, expect: str = "") -> Report:
    """Check a folder; the caller holds its lock.

    Args:
        expect: the digest that it should have, as of CRDT.DIGEST; empty: any.

    Raises:
        UpkeepError: it is no folder of a region, or of a version that this program does not read.
    """
    path = log_file(folder)
    report = Report()
    if (folder / MANIFEST).exists():
        _check_manifest(folder, report, progress)
    _check_files(path, report)
    _check_content(path, report, progress)
    damaged = {check.name for check in report.checks if check.verdict is Verdict.DAMAGE}
    # Made from the rows, it is worth no more than they are.
    report.is_index_lost = report.is_index_lost and damaged <= {SQLITE, TABLES}
    if expect and report.digest:
        is_same = expect == report.digest
        report.note(
            "digest",
            Verdict.SOUND if is_same else Verdict.DIFFERS,
            "as expected" if is_same else f"{report.digest}, expected {expect}",
        )
    return report


def _check_content(path: Path, report: Report, progress: Progress) -> None:
    with contextlib.closing(connect(path, is_locked=True)) as connection:
        identity = _check_settings(path, connection, report)
        check_sqlite(connection, report, progress)
        effects = check_log(connection, identity, report, progress)
        images = check_images(connection, report, progress)
        if identity is None or effects is None:
            report.note("state", Verdict.SKIPPED, "needs what is damaged above")
            return
        staged = _check_staged(path.parent, report)
        if staged is None:
            return
        base = check_state(connection, identity, effects, images, report, progress, staged=staged)
        if base is not None:
            report.goes_back_to = _back_to(base, images, report)


def _check_staged(folder: Path, report: Report) -> StagedFolder | None:
    """Check the copy of another region's state in the folder; None: it is damaged."""
    try:
        staged = StagedFolder(folder)
        staged.check()
    except StoreError as error:
        report.note(STAGING, Verdict.DAMAGE, str(error))
        return None
    if staged.complete is not None:
        cut = staged.complete
        report.note(STAGING, Verdict.SOUND, f"{cut.images} images of region {cut.source}")
    return staged


def _back_to(base: Base, images: ImagesFound | None, report: Report) -> int | None:
    """The checkpoint that stays when what is damaged behind it is deleted; None: nothing is.

    Whatever else is damaged, nothing is deleted.
    """
    damaged = {check.name for check in report.checks if check.verdict is Verdict.DAMAGE}
    if images is None or not damaged <= {IMAGES, NODES, CHECKPOINTS}:
        return None
    if not damaged and not images.leftovers:
        return None
    # All that stays must be sound: also the checkpoints before it.
    generation = base.generation
    older = [one for number, one in images.by_generation.items() if number <= generation]
    return generation if all(one.is_sound for one in older) else None


# --- Files ----------------------------------------------------------------------------------


def _check_manifest(backup: Path, report: Report, progress: Progress) -> None:
    """A backup's own checksums, and that it says what is in it."""
    try:
        manifest = read_manifest(backup)
        check_files(backup, manifest, progress)
    except UpkeepError as error:
        report.note("manifest", Verdict.DAMAGE, str(error))
        return
    report.note(
        "manifest",
        Verdict.SOUND,
        f"cut at row {manifest.last_seq}, version vector {format_vv(manifest.vv) or '-'}",
    )


def _check_files(path: Path, report: Report) -> None:
    wal = path.with_name(path.name + "-wal")
    state = check_wal_of(path)
    with path.open("rb") as log:
        head = log.read(100)
    if state.damage and _is_left_by_power_cut(path):
        report.note(
            "WAL",
            Verdict.NOTE,
            f"{wal.name}: {state.damage}; no row that must exist is missing, and a power cut may "
            "leave such remains of what was not synced",
        )
    elif state.damage:
        report.note("WAL", Verdict.DAMAGE, f"{wal.name}: {state.damage}")
    elif state.unfinished:
        report.note(
            "WAL",
            Verdict.NOTE,
            f"{state.committed} frames; the last transaction is not whole: a crash cut it off "
            "before it was acknowledged, or its end is damaged",
        )
    else:
        report.note("WAL", Verdict.SOUND, f"{state.committed} frames")
    page_bytes = int.from_bytes(head[_PAGE_BYTES], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    bytes_count = path.stat().st_size
    if bytes_count and (page_bytes < 512 or bytes_count % page_bytes):
        report.note("file", Verdict.DAMAGE, f"{bytes_count} bytes are no whole number of pages")
    else:
        report.note("file", Verdict.SOUND, f"{bytes_count} bytes")


def _is_left_by_power_cut(path: Path) -> bool:
    """True if a start, too, would find that nothing behind the damage is lost."""
    try:
        return find_loss(path) is None
    except (OSError, StoreError, sqlite3.Error):
        return False


def check_sqlite(connection: sqlite3.Connection, report: Report, progress: Progress) -> None:
    """Note what SQLite finds in the file, and whether its tables are those of this program."""
    progress("SQLite's check", 0, 1)
    try:
        found = connection.execute(f"PRAGMA integrity_check({SQLITE_ERRORS_MAX})").fetchall()
        errors = [_shown(text) for (text,) in found]
    except DAMAGED as error:
        errors = [str(error)]
    is_fine = errors == ["ok"]
    report.note(SQLITE, Verdict.SOUND if is_fine else Verdict.DAMAGE, several(errors))
    try:
        differs = _wrong_tables(connection)
    except DAMAGED as error:
        differs = [str(error)]
    report.note(TABLES, *verdict_on(differs, "as this program makes them"))
    of_index = [text for text in errors if INDEX in text]
    report.is_index_lost = (is_fine or len(of_index) == len(errors)) and (
        differs == [_missing(INDEX)] or (not differs and bool(of_index))
    )
    progress("SQLite's check", 1, 1)


def _wrong_tables(connection: sqlite3.Connection) -> list[str]:
    """Tables and indexes that are not as this program makes them."""
    schema = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name")
    found = {_shown(name): _shown(sql) for name, sql in schema}
    common = TABLES_MADE.keys() & found.keys()
    return [
        *(_missing(name) for name in TABLES_MADE if name not in found),
        *(
            f"{name} is not as it was made"
            for name in sorted(common)
            if found[name] != TABLES_MADE[name]
        ),
        *(f"{name} is none of this program's" for name in found if name not in TABLES_MADE),
    ]


def _missing(name: str) -> str:
    return f"{name} is missing"


# --- Settings -------------------------------------------------------------------------------


def _check_settings(path: Path, connection: sqlite3.Connection, report: Report) -> Identity | None:
    try:
        meta = read_meta(connection)
    except DAMAGED as error:
        report.note("settings", Verdict.DAMAGE, f"cannot be read: {error}")
        return None
    try:
        identity = identity_of(meta)
    except UpkeepError as error:
        raise UpkeepError(f"{path}: {error}") from error
    wrong = [f"{name}: {value!r}" for name, value in sorted(meta.items()) if not _fits(name, value)]
    if meta.get(CHECKSUM_KEY) != meta_checksum(meta):
        wrong.append("their checksum is wrong")
    wrong += _lost_end(path, meta, connection)
    shown = f"region {identity.region} of database {identity.database_id!r}, " + (
        f"identity {identity.database_uid}" if identity.database_uid else "without identity yet"
    )
    report.note("settings", *verdict_on(wrong, shown))
    return identity


def _lost_end(path: Path, meta: Mapping[str, str], connection: sqlite3.Connection) -> list[str]:
    """Rows that were acknowledged, and that the log does not have."""
    expected = expected_of(path.parent, meta).seq
    try:
        last = max(last_seq(connection), identity_of(meta).first_seq - 1)
    except DAMAGED as error:
        return [str(error)]
    if last >= expected:
        return []
    return [f"rows {last + 1} to {expected} were acknowledged and are lost"]


def _fits(name: str, value: str) -> bool:
    """True if a setting may have this value."""
    if name in (BEGINS_KEY, LACKS_KEY, ABSENCES_KEY):
        return _is_vv(value)
    if name == MEMBERSHIP_KEY:
        return _is_kept(value)
    if name == INCARNATIONS_KEY:
        return _are_incarnations(value)
    if name == "database_uid":
        return parse_uid(value) is not None
    if name.startswith("tune:"):
        tunable = TUNABLES.get(name.removeprefix("tune:"))
        return tunable is None or tunable.takes(value)
    pattern = _SETTINGS.get(name)
    return pattern is not None and pattern.fullmatch(value) is not None


def _is_kept(value: str) -> bool:
    """True if it is a folder's record of the members."""
    try:
        decode_kept(bytes.fromhex(value))
    except ValueError:
        return False
    return True


def _are_incarnations(value: str) -> bool:
    """True if it is a folder's record of the incarnations."""
    try:
        incarnations_of(value)
    except ValueError:
        return False
    return True


def _is_vv(value: str) -> bool:
    try:
        parse_vv(value)
    except ValueError:
        return False
    return True


# --- The log --------------------------------------------------------------------------------


def check_log(
    connection: sqlite3.Connection,
    identity: Identity | None,
    report: Report,
    progress: Progress,
) -> Effects | None:
    """Look at every row; None if the state cannot be rebuilt from them."""
    first = 1 if identity is None else identity.first_seq
    effects = Effects(vv={} if identity is None else dict(identity.begins))
    try:
        last = max(last_seq(connection), first - 1)
    except DAMAGED as error:
        report.note("rows", Verdict.DAMAGE, f"cannot be read: {error}")
        return None
    progress("rows", 0, last)
    for row in rows(connection, first=first, last=last):
        where = f"row {row.seq}"
        if row.missing > 1:
            where = f"rows {row.seq} to {row.seq + row.missing - 1}"
        if row.logged is not None:
            effects.take(row.logged)
        elif row.missing:
            effects.gaps.append(f"{where} {row.damage}")
        else:
            effects.damaged.append(f"{where} {row.damage}")
        if row.seq % PROGRESS_ROWS == 0:
            progress("rows", row.seq, last)
    progress("rows", last, last)
    report.note(
        "rows without gaps",
        *verdict_on(effects.gaps, f"{first} to {last}" if first <= last else "none left"),
    )
    report.note("checksums of rows", *verdict_on(effects.damaged, f"{effects.rows} rows"))
    report.note(
        "batches and changes",
        *verdict_on(
            effects.undecoded, f"{effects.batches} batches, {effects.changes} local changes"
        ),
    )
    report.note(
        "dots and contexts",
        *verdict_on(
            effects.out_of_order, f"effects {format_vv(effects.vv) or 'none'}, without gaps"
        ),
    )
    return effects if effects.is_whole else None


def check_images(
    connection: sqlite3.Connection, report: Report, progress: Progress
) -> ImagesFound | None:
    """Look at every checkpoint, and at the images that they see; None if there can be none."""
    found = find_images(connection, progress)
    if found is None:
        return None
    shown = f"{len(found.by_generation)} checkpoints, {found.count} images"
    report.note(IMAGES, *verdict_on(found.wrong, shown))
    if found.wrong and not (found.nodes or found.wrong_nodes):
        report.note(NODES, Verdict.SKIPPED, "needs images that can be read")
    else:
        report.note(NODES, *verdict_on(found.wrong_nodes, f"{found.nodes}, as their heads say"))
    if found.leftovers:
        report.note(
            "unfinished checkpoint",
            Verdict.NOTE,
            f"{found.leftovers} images and bodies; the node deletes them, or --repair",
        )
    return found


# --- Words ----------------------------------------------------------------------------------


def _shown(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
