"""A consistent cut of a folder that its node goes on writing to, as a stream of bytes.

The images of a checkpoint never change, and the log only grows at its end.  So the newest
checkpoint and the rows up to one of them are the state of a moment, whenever they are read.  A
``Hold`` keeps the node from deleting them during the copy.  They are read a few at a time, each
time in a short transaction, in a thread.  So the node's loop is not blocked, nothing is written to
its folder, and a backup takes little memory, whatever the size of the state.

The cut has only rows that no power cut can take back from the node.  Otherwise a region could issue
a dot again, for another effect than the one in the backup.
"""

import asyncio
import contextlib
import os
import sqlite3
import struct
import threading
import zlib
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from crdtstream.core.clock import format_vv
from crdtstream.core.effects import OF_MERGED, record_bytes
from crdtstream.store.checkpoints import Hold
from crdtstream.store.errors import DAMAGED, StoreError
from crdtstream.store.layout import ABSENCES_KEY, CHECKSUM_KEY, ImageRow, StoredCheckpoint, Sums
from crdtstream.store.log import Logged
from crdtstream.store.lost_end import LAST_KEY
from crdtstream.store.meta import VOLUME_KEY
from crdtstream.store.rows import record_crc
from crdtstream.upkeep.folder_reading import (
    Row,
    UpkeepError,
    connect,
    identity_of,
    read_meta,
    rows,
)
from crdtstream.upkeep.image_rows import checkpoints, images
from crdtstream.v1 import admin_pb2 as pb

PIECE_BYTES: Final = 256 << 10
# Settings of this very folder, which no copy has.
OF_THIS_FOLDER: Final = frozenset(
    {"opening", VOLUME_KEY, "clean_shutdown", "fsync", LAST_KEY, ABSENCES_KEY, CHECKSUM_KEY}
)
LENGTH: Final = struct.Struct("<I")
_NO_BACKUP: Final = (
    "no backup can be made of it. Stop the node, and start this region again from an earlier "
    "backup, or with an empty folder; the other regions have its effects"
)


async def cut_of_folder(
    path: Path, holding: AbstractAsyncContextManager[Hold], *, version: str, cut_ms: int
) -> AsyncGenerator[pb.BackupPiece, None]:
    """The settings, the checkpoint and the rows that are held; they are made durable first.

    Raises:
        StoreError: an image or a row is damaged, the disk refuses, or the hold has ended.
    """
    async with holding as hold:
        await asyncio.to_thread(_sync_wal, path)
        parts = _parts(path, hold, version=version, cut_ms=cut_ms)
        async with contextlib.aclosing(_in_thread(_pieces(parts))) as pieces:
            async for piece in pieces:
                hold.go_on()
                yield piece
                # The rows and images that are read from here on must still exist.
                hold.go_on()


async def _in_thread(
    pieces: Generator[pb.BackupPiece, None, None],
) -> AsyncGenerator[pb.BackupPiece, None]:
    # The caller may be cancelled while a thread still reads.
    reading = threading.Lock()

    def next_piece() -> pb.BackupPiece | None:
        with reading:
            return next(pieces, None)

    def end() -> None:
        with reading:
            pieces.close()

    try:
        while (piece := await asyncio.to_thread(next_piece)) is not None:
            yield piece
    finally:
        await asyncio.to_thread(end)


def _sync_wal(path: Path) -> None:
    """Have what is committed on the disk for good.

    Not by a checkpoint of SQLite's: while another connection reads, that may sync nothing.  What is
    no longer in the WAL was synced when it left.  (Only the WAL may be opened here: closing another
    file of SQLite's would release the locks that this process has on it.)
    """
    wal = path.with_name(path.name + "-wal")
    try:
        descriptor = os.open(wal, os.O_RDONLY)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{wal}: {error.strerror}; check the disk") from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise StoreError(f"{wal}: cannot sync: {error.strerror}; check the disk") from error
    finally:
        os.close(descriptor)


def _pieces(parts: Generator[pb.BackupPart, None, None]) -> Generator[pb.BackupPiece, None, None]:
    """Parts as one stream of bytes, in pieces."""
    waiting = bytearray()
    offset = 0
    with contextlib.closing(parts):
        for part in parts:
            data = part.SerializeToString()
            waiting += LENGTH.pack(len(data)) + data
            while len(waiting) >= PIECE_BYTES:
                yield _piece(offset, bytes(waiting[:PIECE_BYTES]))
                del waiting[:PIECE_BYTES]
                offset += PIECE_BYTES
    yield _piece(offset, bytes(waiting))


def _piece(offset: int, data: bytes) -> pb.BackupPiece:
    return pb.BackupPiece(offset=offset, data=data, crc=zlib.crc32(data))


def _parts(
    path: Path, hold: Hold, *, version: str, cut_ms: int
) -> Generator[pb.BackupPart, None, None]:
    first, last = hold.first_seq, hold.last_seq
    try:
        with contextlib.closing(connect(path)) as connection:
            meta = _kept(read_meta(connection))
            if identity_of(meta).first_seq != first:
                raise StoreError(f"{path}: the log does not begin with row {first} any more")
            begin = pb.BackupBegin(
                meta=meta, version=version, cut_ms=cut_ms, first_seq=first, last_seq=last
            )
            end = pb.BackupEnd(rows=last - first + 1)
            if hold.checkpoint is None:
                yield pb.BackupPart(begin=begin)
            else:
                stored = _checkpoint(path, connection, hold.checkpoint.row.generation)
                begin.checkpoint.CopyFrom(_shown_checkpoint(stored))
                yield pb.BackupPart(begin=begin)
                yield from _image_parts(path, connection, stored)
                end.images = stored.sums.images
            seq = 0 if hold.checkpoint is None else hold.checkpoint.row.seq
            yield from _row_parts(path, connection, first, last, covered_seq=seq)
            yield pb.BackupPart(end=end)
    except (*DAMAGED, UpkeepError) as error:
        raise StoreError(f"{path}: cannot be read: {error}; check the disk") from error


def _checkpoint(path: Path, connection: sqlite3.Connection, generation: int) -> StoredCheckpoint:
    for stored, is_sound in checkpoints(connection):
        if stored is not None and is_sound and stored.row.generation == generation:
            return stored
    raise StoreError(f"{path}: checkpoint {generation} is damaged, or not there: {_NO_BACKUP}")


def _image_parts(
    path: Path, connection: sqlite3.Connection, stored: StoredCheckpoint
) -> Iterator[pb.BackupPart]:
    some: list[pb.BackupImage] = []
    some_bytes = 0
    sums = Sums()
    for image in images(connection, stored.row.generation):
        row = image.row
        if row is None or image.damage:
            raise StoreError(f"{path}: {image.damage}: {_NO_BACKUP}")
        sums += Sums(1, row.number, row.crc, row.bytes)
        some.append(_shown_image(row, image.packed))
        some_bytes += row.bytes
        if some_bytes >= PIECE_BYTES:
            yield pb.BackupPart(images=pb.BackupImages(images=some))
            some, some_bytes = [], 0
    if sums != stored.sums:
        raise StoreError(f"{path}: images are missing, or too many: {_NO_BACKUP}")
    yield pb.BackupPart(images=pb.BackupImages(images=some))


def _row_parts(
    path: Path, connection: sqlite3.Connection, first: int, last: int, *, covered_seq: int
) -> Iterator[pb.BackupPart]:
    some: list[pb.BackupRow] = []
    some_bytes = 0
    for row in rows(connection, first=first, last=last):
        logged = _sound(path, row)
        if logged.record.origin == OF_MERGED and logged.seq > covered_seq:
            raise StoreError(
                f"{path}: the state of another region was merged a moment ago, and no checkpoint "
                "has it yet; try again when the next one is written (SAVE)"
            )
        some.append(_shown(logged))
        some_bytes += record_bytes(logged.record)
        if some_bytes >= PIECE_BYTES:
            yield pb.BackupPart(rows=pb.BackupRows(rows=some))
            some, some_bytes = [], 0
    yield pb.BackupPart(rows=pb.BackupRows(rows=some))


def _kept(meta: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in meta.items() if name not in OF_THIS_FOLDER}


def _sound(path: Path, row: Row) -> Logged:
    if row.logged is None:
        raise StoreError(f"{path}: row {row.seq} of table log {row.damage}: {_NO_BACKUP}")
    return row.logged


def _shown(logged: Logged) -> pb.BackupRow:
    record = logged.record
    return pb.BackupRow(
        seq=logged.seq,
        origin=record.origin,
        first_n=record.first_n,
        last_n=record.last_n,
        batch=record.batch,
        local=record.local,
        crc=record_crc(logged),
    )


def _shown_checkpoint(stored: StoredCheckpoint) -> pb.BackupCheckpoint:
    row, sums = stored.row, stored.sums
    return pb.BackupCheckpoint(
        generation=row.generation,
        seq=row.seq,
        vv=format_vv(row.vv),
        images_made=row.images_made,
        made_ms=row.made_ms,
        first_number=stored.first_number,
        images=sums.images,
        numbers=sums.numbers,
        crcs=sums.crcs,
        bytes=sums.bytes,
        crc=stored.crc,
    )


def _shown_image(row: ImageRow, packed: bytes | None) -> pb.BackupImage:
    return pb.BackupImage(
        number=row.number,
        kind=row.kind,
        owner=row.owner,
        lane=row.lane,
        head=row.head,
        body=row.body,
        size=row.size,
        body_bytes=row.body_bytes,
        body_crc=row.body_crc,
        born=row.born,
        crc=row.crc,
        packed=packed,
    )
