"""A folder as its files tell it, without running a node: for checks, dumps and backups.

Nothing is changed, and nothing raises because it is damaged: each row comes as it stands there, and
with it whether its checksum is right.  What to think of a wrong one is the caller's business.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.effects import Record
from crdtstream.store.checkpoints import Checkpoint
from crdtstream.store.checksums import is_sound_body
from crdtstream.store.claim import FORMATS_WITHOUT_CHECKSUM
from crdtstream.store.errors import DAMAGED, StoreError
from crdtstream.store.folder_lock import LOG_FILE, lock_folder
from crdtstream.store.layout import (
    CHECKPOINT_COLUMNS,
    CHECKSUM_KEY,
    IMAGE_COLUMNS,
    SEEN,
    TABLES,
    meta_checksum,
    named,
    read_checkpoint,
    read_image_row,
    unpack_frame,
)
from crdtstream.store.rows import ROW_COLUMNS, RowReader


@dataclass(frozen=True, slots=True)
class MetaRow:
    """A setting of the folder."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the log.

    Attributes:
        record: None if the columns are of no record.
        is_sound: its checksum is right.
    """

    seq: int
    record: Record | None
    is_sound: bool


@dataclass(frozen=True, slots=True)
class CheckpointFound:
    """A row of the table of checkpoints.

    Attributes:
        checkpoint: None if the columns are of no checkpoint.
        is_sound: its checksum is right.
        numbers, crcs: the sums of its images' numbers and checksums, as the row says.
    """

    generation: int
    checkpoint: Checkpoint | None
    is_sound: bool
    numbers: int
    crcs: int


@dataclass(frozen=True, slots=True)
class ImageFound:
    """An image of a checkpoint.

    Attributes:
        image: with its body, unpacked; None if the columns are of no image.
        packed: the body as it is kept; None if it is not there.
        is_sound: the checksums of both are right.
        crc: of the image, as its row says.
    """

    number: int
    image: Image | None
    packed: bytes | None
    is_sound: bool
    crc: int
    born: int
    died: int | None


class FolderReader:
    """A folder that is open for reading only; made by ``open_readonly``.

    Every method may raise StoreError where SQLite itself can go no further: rows that came before
    are as good as they said.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def meta(self) -> Iterator[MetaRow]:
        """All settings, by key."""
        for key, value in self._rows("SELECT key, value FROM meta ORDER BY key"):
            yield MetaRow(str(key), str(value))

    def is_meta_sound(self) -> bool:
        """Whether the checksum over all settings is right; also if there is none (format 1, 2)."""
        meta = {row.key: row.value for row in self.meta()}
        if meta.get("format_version") in FORMATS_WITHOUT_CHECKSUM:
            return True
        return meta.get(CHECKSUM_KEY) == meta_checksum(meta)

    def are_tables_sound(self) -> bool:
        """Whether the tables are those of this format; False for one of an earlier format, too."""
        return dict(self._rows("SELECT name, sql FROM sqlite_master")) == TABLES

    def rows(self) -> Iterator[LogRow]:
        """The rows of the log, by position; those that were cut off but are still there, too."""
        reader = RowReader()
        for columns in self._rows(f"SELECT {ROW_COLUMNS} FROM log ORDER BY seq"):
            logged, is_sound = reader.read(columns)
            yield LogRow(columns[0], None if logged is None else logged.record, is_sound)

    def checkpoints(self) -> Iterator[CheckpointFound]:
        """All checkpoints, oldest first; of a folder of an earlier format, none."""
        if not self._has_table("checkpoint"):
            return
        query = f"SELECT {CHECKPOINT_COLUMNS} FROM checkpoint ORDER BY generation"
        for columns in self._rows(query):
            stored, is_sound = read_checkpoint(columns)
            yield CheckpointFound(
                generation=columns[0],
                checkpoint=None if stored is None else stored.told(),
                is_sound=is_sound,
                numbers=0 if stored is None else stored.sums.numbers,
                crcs=0 if stored is None else stored.sums.crcs,
            )

    def images(self, generation: int) -> Iterator[ImageFound]:
        """The images which that checkpoint sees, by number."""
        query = (
            f"SELECT {named('image', IMAGE_COLUMNS)}, image.died, body.packed, body.crc "
            f"FROM image LEFT JOIN body USING (number) WHERE {SEEN} ORDER BY image.number"
        )
        for *columns, died, packed, crc in self._rows(query, (generation, generation)):
            yield _image_found(columns, died, packed, crc)

    def sqlite_problems(self) -> Iterator[str]:
        """What SQLite's own check of its structures finds; it reads the whole file."""
        for (text,) in self._rows("PRAGMA integrity_check"):
            if text != "ok":
                yield str(text)

    def _has_table(self, name: str) -> bool:
        return bool([*self._rows("SELECT 1 FROM sqlite_master WHERE name = ?", (name,))])

    def _rows(self, query: str, values: Sequence[object] = ()) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query, values)
        except DAMAGED as error:
            raise StoreError(f"{self.path}: cannot read: {error}") from error


def _image_found(
    columns: Sequence[Any], died: int | None, packed: bytes | None, crc: int | None
) -> ImageFound:
    row, is_sound = read_image_row(columns)
    if row is None:
        return ImageFound(columns[0], None, packed, False, columns[-1], columns[-2], died)
    if row.body is not None:
        packed = row.body
    else:
        is_sound = is_sound and crc == row.body_crc and is_sound_body(row.number, packed, crc)
    image: Image | None = None
    try:
        body = unpack_frame(packed, row.size) if packed else b""
        image = Image(row.number, Kind(row.kind), row.owner, row.lane, row.head, body)
    except (TypeError, ValueError):
        is_sound = False
    return ImageFound(row.number, image, packed, is_sound, columns[-1], row.born, died)


@contextlib.contextmanager
def open_readonly(folder: Path) -> Iterator[FolderReader]:
    """Open a folder that no node has open; it is locked meanwhile.

    What a crash left in the write-ahead log is read too, and stays there.

    Raises:
        StoreError: a node has it open, there is no log in it, or it cannot be read.
    """
    path = folder / LOG_FILE
    if not path.is_file():
        raise StoreError(f"{folder}: there is no {LOG_FILE} in it; name the folder of a region")
    with contextlib.ExitStack() as closing:
        try:
            if os.access(folder, os.W_OK):
                closing.callback(lock_folder(folder).close)
                mode = "mode=ro"
            else:
                # SQLite cannot make its shared memory there, and nobody else can write either.
                mode = "mode=ro&immutable=1"
            uri = f"{path.absolute().as_uri()}?{mode}"
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
            closing.enter_context(contextlib.closing(connection))
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except OSError as error:
            raise StoreError(f"{folder}: {error.strerror}; check path and rights") from error
        except DAMAGED as error:
            raise StoreError(f"{path}: {error}") from error
        yield FolderReader(path, connection)
