"""A backup: the cut of a running node, as a folder with a manifest.

    BACKUP/
        manifest.json     region and database, the cut, a checksum of each file
        log.sqlite        the checkpoint and the rows of the cut, and the settings; as in a node's
                          folder

It is written under a name of its own, ``BACKUP.unfinished-…``, read back, and renamed at the end.
So a folder with the final name is whole, and a crash leaves none with that name.
"""

import contextlib
import os
import shutil
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.store.checksums import body_crc
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.layout import (
    CHECKPOINT_COLUMNS,
    CHECKSUM_KEY,
    IMAGE_COLUMNS,
    TABLES,
    meta_checksum,
    read_checkpoint,
    read_image_row,
)
from crdtstream.store.log import Logged
from crdtstream.store.rows import RowPacker, record_crc
from crdtstream.upkeep.check_report import Progress, Report, Verdict, no_progress
from crdtstream.upkeep.folder_cut import LENGTH
from crdtstream.upkeep.folder_reading import UpkeepError, connect, identity_of
from crdtstream.upkeep.fsck import check_images, check_log, check_sqlite
from crdtstream.upkeep.manifest import MANIFEST, Manifest, manifest_text, sum_of
from crdtstream.v1 import admin_pb2 as pb

# No row is larger than a batch, and no batch than this.
PART_BYTES_MAX: Final = 1 << 30
# In the name of a folder that is no backup yet.
UNFINISHED: Final = ".unfinished-"
_AGAIN: Final = "nothing was kept; take the backup again"


def write_backup(
    pieces: Iterable[pb.BackupPiece], backup: Path, progress: Progress = no_progress
) -> Manifest:
    """Write what a node sends, read it back, and give it its name.

    Raises:
        UpkeepError: the folder is there already, what came is damaged or not whole, or the disk
            refuses.  Nothing is kept then.
        Exception: whatever ``pieces`` raises; the same.
    """
    check_free(backup)
    try:
        unfinished = Path(
            tempfile.mkdtemp(prefix=f"{backup.name}{UNFINISHED}", dir=backup.absolute().parent)
        )
    except OSError as error:
        raise UpkeepError(f"{backup}: {error.strerror}; check path and rights") from error
    try:
        return _write(pieces, unfinished, backup, progress)
    except sqlite3.Error as error:
        raise UpkeepError(f"{unfinished}: {error}; check space and rights; {_AGAIN}") from error
    except OSError as error:
        raise UpkeepError(
            f"{error.filename or unfinished}: {error.strerror}; check space and rights; {_AGAIN}"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def check_free(folder: Path) -> None:
    """See that nothing is there yet, or an empty folder.

    Raises:
        UpkeepError: something is.
    """
    if folder.exists() and not folder.is_dir():
        raise UpkeepError(f"{folder}: is no folder; name a new one")
    if folder.is_dir() and any(folder.iterdir()):
        raise UpkeepError(f"{folder}: is not empty; name a new or an empty folder")
    if not folder.absolute().parent.is_dir():
        raise UpkeepError(f"{folder.absolute().parent}: no such folder; make it first")


def _write(
    pieces: Iterable[pb.BackupPiece], unfinished: Path, backup: Path, progress: Progress
) -> Manifest:
    log = unfinished / LOG_FILE
    with contextlib.closing(sqlite3.connect(log, isolation_level=None)) as connection:
        # If anything fails, the whole file is deleted.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        begin = _receive(_parts(pieces), connection, progress)
        connection.execute("COMMIT")
    sync_file(log)
    manifest = _verified(log, begin, progress)
    text = unfinished / MANIFEST
    text.write_text(manifest_text(manifest))
    sync_file(text)
    sync_file(unfinished)
    unfinished.rename(backup)
    sync_file(backup.absolute().parent)
    return manifest


def _verified(log: Path, begin: pb.BackupBegin, progress: Progress) -> Manifest:
    """Read back what was written; say of it what a manifest says."""
    written = sum_of(log, progress)
    report = Report()
    identity = identity_of(dict(begin.meta))
    with contextlib.closing(connect(log, is_locked=True)) as connection:
        check_sqlite(connection, report, progress)
        effects = check_log(connection, identity, report, progress)
        check_images(connection, report, progress)
    if effects is None or not report.is_sound or effects.rows != _rows_of(begin):
        damage = [check.found for check in report.checks if check.verdict is Verdict.DAMAGE]
        raise UpkeepError(f"the backup is not sound: {'; '.join(damage)}; {_AGAIN}")
    return Manifest(
        region=identity.region,
        database_id=identity.database_id,
        database_uid=identity.database_uid,
        version=begin.version,
        cut_ms=begin.cut_ms,
        first_seq=begin.first_seq,
        last_seq=begin.last_seq,
        checkpoint_seq=begin.checkpoint.seq,
        vv=dict(effects.vv),
        files={LOG_FILE: written},
    )


def sync_file(path: Path) -> None:
    """Have a file, or a folder's names, on the disk for good.

    Raises:
        OSError: the disk refuses.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_meta(connection: sqlite3.Connection, meta: Mapping[str, str]) -> None:
    """Write settings, and none but these, with their checksum.

    Raises:
        sqlite3.Error: they cannot be written.
    """
    kept = {name: value for name, value in meta.items() if name != CHECKSUM_KEY}
    kept[CHECKSUM_KEY] = meta_checksum(kept)
    connection.execute("DELETE FROM meta")
    connection.executemany("INSERT INTO meta VALUES (?, ?)", sorted(kept.items()))


# --- What the node sends --------------------------------------------------------------------


def _receive(
    parts: Iterator[pb.BackupPart], connection: sqlite3.Connection, progress: Progress
) -> pb.BackupBegin:
    """Put what comes into the tables."""
    first = next(parts, None)
    if first is None or not first.HasField("begin"):
        raise UpkeepError(f"the node sent no backup; {_AGAIN}")
    begin = first.begin
    meta = dict(begin.meta)
    for statement in TABLES.values():
        connection.execute(statement)
    write_meta(connection, meta)
    if begin.HasField("checkpoint"):
        _put_checkpoint(connection, begin.checkpoint)
    packer = RowPacker()
    rows, rows_wanted = 0, _rows_of(begin)
    images, images_wanted = 0, begin.checkpoint.images
    for part in parts:
        if part.HasField("end"):
            if not (rows == part.end.rows == rows_wanted and images == images_wanted):
                raise UpkeepError(
                    f"{rows} rows arrived of {rows_wanted}, {images} images of {images_wanted}; "
                    f"{_AGAIN}"
                )
            if next(parts, None) is not None:
                raise UpkeepError(f"something came behind the end; {_AGAIN}")
            return begin
        if part.HasField("images"):
            _put_images(connection, part.images.images)
            images += len(part.images.images)
            progress("images received", images, images_wanted)
        else:
            connection.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)",
                _columns(part.rows.rows, begin.first_seq + rows - 1, packer),
            )
            rows += len(part.rows.rows)
            progress("rows received", rows, rows_wanted)
    raise UpkeepError(
        f"the backup ended too early, after {images} images of {images_wanted} and {rows} rows of "
        f"{rows_wanted}; {_AGAIN}"
    )


def _rows_of(begin: pb.BackupBegin) -> int:
    return begin.last_seq - begin.first_seq + 1


def _put_checkpoint(connection: sqlite3.Connection, sent: pb.BackupCheckpoint) -> None:
    columns = (
        *(sent.generation, sent.seq, sent.vv, sent.images_made, sent.made_ms, sent.first_number),
        *(sent.images, sent.numbers, sent.crcs, sent.bytes, sent.crc),
    )
    # The node had verified it, and no other one can be used instead.
    stored, is_sound = read_checkpoint((*columns, 1))
    if stored is None or not is_sound:
        raise UpkeepError(f"checkpoint {sent.generation} arrived damaged; {_AGAIN}")
    connection.execute(
        f"INSERT INTO checkpoint ({CHECKPOINT_COLUMNS}) VALUES ({_marks(len(columns) + 1)})",
        (*columns, 1),
    )


def _put_images(connection: sqlite3.Connection, images: Sequence[pb.BackupImage]) -> None:
    for sent in images:
        body = sent.body if sent.HasField("body") else None
        columns = (
            *(sent.number, sent.kind, sent.owner, sent.lane, sent.head, body),
            *(sent.size, sent.body_bytes, sent.body_crc, sent.born, sent.crc),
        )
        row, is_sound = read_image_row(columns)
        if row is not None and row.body is None:
            is_sound = is_sound and body_crc(sent.number, sent.packed) == sent.body_crc
        if row is None or not is_sound:
            raise UpkeepError(f"image {sent.number} arrived damaged; {_AGAIN}")
        connection.execute(
            f"INSERT INTO image ({IMAGE_COLUMNS}) VALUES ({_marks(len(columns))})", columns
        )
        if body is None:
            values = (sent.number, sent.packed, sent.body_crc)
            connection.execute("INSERT INTO body VALUES (?, ?, ?)", values)


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _columns(
    rows: Iterable[pb.BackupRow], before: int, packer: RowPacker
) -> Iterator[tuple[object, ...]]:
    for seq, row in enumerate(rows, before + 1):
        batch = row.batch if row.HasField("batch") else None
        local = row.local if row.HasField("local") else None
        record = Record(RegionId(row.origin), row.first_n, row.last_n, batch, local)
        logged = Logged(seq, record)
        if row.seq != seq or record_crc(logged) != row.crc:
            raise UpkeepError(f"row {seq} arrived damaged; {_AGAIN}")
        yield packer.columns(logged)


def _parts(pieces: Iterable[pb.BackupPiece]) -> Iterator[pb.BackupPart]:
    """The parts of a stream that was cut anywhere."""
    waiting = bytearray()
    offset = 0
    for piece in pieces:
        if piece.offset != offset or zlib.crc32(piece.data) != piece.crc:
            raise UpkeepError(f"byte {offset} of the backup arrived damaged; {_AGAIN}")
        waiting += piece.data
        offset += len(piece.data)
        at = 0
        while len(waiting) - at >= LENGTH.size:
            (length,) = struct.unpack_from(LENGTH.format, waiting, at)
            if length > PART_BYTES_MAX:
                raise UpkeepError(f"a part of {length} bytes is none; {_AGAIN}")
            start = at + LENGTH.size
            if len(waiting) < start + length:
                break
            yield pb.BackupPart.FromString(bytes(waiting[start : start + length]))
            at = start + length
        del waiting[:at]
    if waiting:
        raise UpkeepError(f"the backup ended in the middle, after {offset} bytes; {_AGAIN}")
