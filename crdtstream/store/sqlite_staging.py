"""A staging in SQLite: the file ``staging.sqlite`` in the region's folder, while it is needed.

    cut         id, source, vv, images, numbers, bytes, key, crc     one row
    image       number, kind, owner, lane, head, body_bytes, body_crc, crc
    body        number, packed, crc              of images of NODE, so that heads lie side by side

A database of its own, so no commit of the log is ever in its way.  All except ``load`` runs in a
thread of its own.

The header of the file says if the cut is complete (``user_version``).  It is not in a row, so it
can be read even from a file that SQLite can no longer read.  A damaged file that was never complete
is worth nothing and is discarded.  A damaged one that was complete is kept and reported, as the log
may build on it.
"""

import asyncio
import contextlib
import os
import sqlite3
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import structlog

from crdtstream.core.checkpoint.parts import Image, Kind
from crdtstream.core.clock import format_vv
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.store.checksums import body_crc, is_sound_body
from crdtstream.store.connections import ADVICE, is_full, wal_of
from crdtstream.store.errors import DAMAGED, ImageError, NoRoomError, StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints
from crdtstream.store.layout import KINDS, parse_vv
from crdtstream.store.staging import (
    CUT_ID_BYTES,
    Staged,
    StagedCut,
    StagedImage,
    check_put,
    image_crc,
)
from crdtstream.store.writer import Writer

T = TypeVar("T")

STAGING_FILE: Final = "staging.sqlite"
# Value of ``user_version`` for a complete cut; 0: it is under way.
COMPLETE: Final = 0x5354_4744
# Its place in the file.
VERSION_OFFSET: Final = 60
VERSION_BYTES: Final = 4
# Images that one read takes: heads, and with bodies.
HEADS_PER_READ: Final = Size(4_096, least=1)
BODIES_PER_READ: Final = Size(256, least=1)
# Images that are named in one statement.
NUMBERS_PER_STATEMENT: Final = Size(512, least=1)
# A body whose number is at most this far above that of the one before is read with those behind it:
# this many at most, and until they have this many bytes.  The checkpoint of a merged state asks for
# one after the other.
AHEAD_NUMBERS: Final = Size(64, least=0)
AHEAD_BYTES: Final = Size(64 << 10, least=0)

logger = structlog.get_logger(__name__)

_TABLES: Final = """
CREATE TABLE cut (
    id BLOB NOT NULL,
    source INTEGER NOT NULL,
    vv TEXT NOT NULL,
    images INTEGER NOT NULL,
    numbers INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    key BLOB,
    crc INTEGER NOT NULL
);
CREATE TABLE image (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    head BLOB NOT NULL,
    body_bytes INTEGER NOT NULL,
    body_crc INTEGER NOT NULL,
    crc INTEGER NOT NULL
);
CREATE TABLE body (
    number INTEGER PRIMARY KEY,
    packed BLOB NOT NULL,
    crc INTEGER NOT NULL
);
"""
_COLUMNS: Final = "number, kind, owner, lane, head, body_bytes, body_crc, crc"
_SUMS: Final = (
    "SELECT count(*), coalesce(sum(number), 0), coalesce(sum(length(head) + body_bytes), 0), "
    "coalesce(max(number), 0) FROM image"
)


class SqliteStaging:
    """The staging of a folder; made by ``open``."""

    def __init__(self, path: Path, failpoints: Failpoints) -> None:
        self.path = path
        self._reach = failpoints.reach
        self._connection: Writer | None = None
        # Opened when a body must be read without waiting.
        self._bodies: _Bodies | None = None
        self._cut: StagedCut | None = None
        self._sums = Staged()
        self._last = 0
        self._is_complete = False

    @classmethod
    async def open(cls, folder: Path, *, failpoints: Failpoints = NO_FAILPOINTS) -> "SqliteStaging":
        """Find what is staged in a folder; nothing is made where there is nothing.

        A damaged one that is not complete is discarded.

        Raises:
            StoreError: the staged cut is complete and damaged, or the disk refused.
        """
        staging = cls(folder / STAGING_FILE, failpoints)
        if not staging.path.exists():
            return staging
        try:
            await staging._find()
        except (*DAMAGED, ValueError) as error:
            await staging._close()
            if _may_be_complete(staging.path):
                raise StoreError(f"{staging.path}: {error}. {ADVICE}") from error
            logger.warning(
                "a bootstrap begins again: what was staged is damaged",
                file=str(staging.path),
                reason=str(error),
            )
            await staging.discard()
        except BaseException:
            await staging._close()
            raise
        return staging

    async def _find(self) -> None:
        """Read which cut there is, and what of it.

        Raises:
            DAMAGED, ValueError: it cannot be read, or is not what was written.
        """
        self._connection = Writer(self.path)
        found = await self._connection.call(_read_cut)
        if found is None:
            raise ValueError("no cut was begun in it")
        self._cut, self._sums, self._last, version = found
        if version not in (0, COMPLETE):
            raise ValueError(f"the header says {version} in place of 0 or {COMPLETE}")
        self._is_complete = version == COMPLETE
        if self._is_complete and self._sums != self._cut.sums:
            raise ValueError("images are missing, or too many")

    # --- What there is ------------------------------------------------------------------------

    def staged(self) -> tuple[StagedCut, int] | None:
        return None if self._cut is None else (self._cut, self._last)

    @property
    def sums(self) -> Staged:
        return self._sums

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    @property
    def complete(self) -> StagedCut | None:
        return self._cut if self._is_complete else None

    def bytes_on_disk(self) -> int:
        """Size of the files.

        Raises:
            StoreError: the disk does not say.
        """
        try:
            return sum(
                path.stat().st_size for path in (self.path, wal_of(self.path)) if path.exists()
            )
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be looked at: {error.strerror}; check the disk"
            ) from error

    # --- Writing ------------------------------------------------------------------------------

    async def begin(self, cut: StagedCut) -> None:
        await self.discard()
        self._reach("staging.begin")
        try:
            self._connection = Writer(self.path)
            await self._call(_begin, cut, what="what is staged")
            await asyncio.to_thread(_sync_folder, self.path.parent)
        except BaseException as error:
            # Nothing of it counts: it is made again, or found without a cut and discarded.
            with contextlib.suppress(StoreError):
                await self.discard()
            if isinstance(error, (*DAMAGED, OSError)):
                self._refuse("what is staged", error)
            raise
        self._cut = cut

    async def put(self, images: Sequence[StagedImage]) -> None:
        assert self._cut is not None
        assert not self._is_complete
        check_put(images, after=self._last)
        if not images:
            return
        self._reach("staging.put")
        sums = await self._call(_put, images, what="images")
        self._reach("staging.put-done")
        self._sums = self._sums.plus(sums)
        self._last = images[-1].number

    async def finish(self) -> None:
        assert self._cut is not None
        self._reach("staging.finish")
        await self._call(_move_wal, what="what is staged")
        try:
            await self._read_back(self._cut)
        except ValueError as error:
            await self.discard()
            raise StoreError(
                f"{self.path}: {error}: what was read back is not what was written. Nothing is "
                "staged any more; check the disk"
            ) from error
        self._reach("staging.complete")
        await self._call(_complete, what="what is staged")
        self._is_complete = True
        self._reach("staging.completed")

    async def _read_back(self, cut: StagedCut) -> None:
        """See that all images are as they were put, bodies too.

        Raises:
            ValueError: they are not.
        """
        sums, last = Staged(), 0
        while found := await self._call(_read_some, last, what="what is staged"):
            some, last = found
            sums = sums.plus(some)
        if sums != cut.sums:
            raise ValueError("images are missing, or too many")

    async def discard(self) -> None:
        self._reach("staging.discard")
        await self._close()
        self._cut, self._sums, self._last, self._is_complete = None, Staged(), 0, False
        try:
            await asyncio.to_thread(_remove, self.path)
        except OSError as error:
            raise StoreError(
                f"{self.path}: cannot be removed: {error.strerror}; check rights and health of "
                "the disk"
            ) from error

    async def close(self) -> None:
        """Close the files; the staged images stay."""
        await self._close()

    # --- Reading ------------------------------------------------------------------------------

    async def heads(self) -> AsyncIterator[list[Image]]:
        assert self._cut is not None
        sums, last = Staged(), 0
        try:
            while found := await self._call(_read_heads, last, what="what is staged"):
                images, some = found
                last = images[-1].number
                sums = sums.plus(some)
                yield images
            if sums != (self._cut.sums if self._is_complete else self._sums):
                raise ValueError("images are missing, or too many")
        except ValueError as error:
            raise StoreError(f"{self.path}: {error}. {ADVICE}") from error

    def root(self) -> Image:
        return read_root(self.path)

    def by_key(self) -> Iterator[list[Image]]:
        assert self._is_complete
        return heads_by_key(self.path)

    def of_key(self, owner: int) -> list[Image]:
        return heads_of_key(self.path, owner)

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        assert numbers
        packed: dict[int, bytes] = {}
        for start in range(0, len(numbers), NUMBERS_PER_STATEMENT.value):
            some = numbers[start : start + NUMBERS_PER_STATEMENT.value]
            packed |= await self._call(_fetch, some, what="what is staged")
        if numbers[0] not in packed:
            raise StoreError(_not_sound(self.path, numbers[0]))
        return packed

    def load(self, number: int) -> bytes:
        if self._bodies is None:
            self._bodies = _Bodies(self.path)
        return self._bodies.load(number)

    # --- Plain work ---------------------------------------------------------------------------

    async def _call(self, function: Callable[..., T], *args: object, what: str) -> T:
        """Run a function of the connection in its thread.

        Raises:
            StoreError: the disk refused; nothing of it was done.
        """
        if self._connection is None:
            raise StoreError(f"{self.path}: nothing is staged")
        try:
            return await self._connection.call(function, *args)
        except DAMAGED as error:
            self._refuse(what, error)

    def _refuse(self, what: str, error: Exception) -> NoReturn:
        kind = NoRoomError if is_full(self.path, error) else StoreError
        raise kind(
            f"{self.path}: cannot read or write {what}: {error}; check space, rights and health "
            "of the disk. Nothing acknowledged is lost"
        ) from error

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        bodies, self._bodies = self._bodies, None
        if bodies is not None:
            bodies.close()
        if connection is not None:
            await connection.close()


# --- Read at once ---------------------------------------------------------------------------------


class StagedFolder:
    """The complete cut that a folder has staged, read without changing anything.

    For checks of the folder of a node that does not run.
    """

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            StoreError: a complete cut cannot be read.
        """
        self.path = folder / STAGING_FILE
        self._cut: StagedCut | None = None
        if not self.path.exists() or not _may_be_complete(self.path):
            return
        try:
            with contextlib.closing(_reading(self.path)) as connection:
                found = _read_cut(connection)
        except (*DAMAGED, ValueError) as error:
            raise StoreError(f"{self.path}: {error}. {ADVICE}") from error
        if found is None or found[1] != found[0].sums:
            raise StoreError(f"{self.path}: images are missing, or too many. {ADVICE}")
        self._cut = found[0]

    @property
    def complete(self) -> StagedCut | None:
        return self._cut

    def check(self) -> None:
        """Read all images of the cut that is complete, if one is, with their bodies.

        Raises:
            StoreError: one is damaged.
        """
        if self._cut is None:
            return
        try:
            with contextlib.closing(_reading(self.path)) as connection:
                found: tuple[Staged, int] | None = (Staged(), 0)
                while found is not None:
                    found = _read_some(connection, found[1])
        except (*DAMAGED, ValueError) as error:
            raise StoreError(f"{self.path}: {error}. {ADVICE}") from error

    def root(self) -> Image:
        return read_root(self.path)

    def by_key(self) -> Iterator[list[Image]]:
        return heads_by_key(self.path)

    def of_key(self, owner: int) -> list[Image]:
        return heads_of_key(self.path, owner)

    def load(self, number: int) -> bytes:
        with contextlib.closing(_Bodies(self.path)) as bodies:
            return bodies.load(number)


class _Bodies:
    """Bodies of a complete cut, for readers that cannot wait."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ImageError: the file cannot be opened.
        """
        self._path = path
        # Bodies that were read and not asked for yet, with their checksums.
        self._ahead: dict[int, tuple[bytes, int]] = {}
        self._last = -1
        try:
            self._connection = _reading(path)
        except DAMAGED as error:
            raise ImageError(f"cannot read {path}: {error}. {ADVICE}") from error

    def load(self, number: int) -> bytes:
        """
        Raises:
            ImageError: the body cannot be read, is damaged, or is not there.
        """
        if number not in self._ahead:
            self._read(number)
        self._last = number
        packed, crc = self._ahead.pop(number, (b"", None))
        if not is_sound_body(number, packed, crc):
            raise ImageError(_not_sound(self._path, number))
        return packed

    def _read(self, number: int) -> None:
        """Read a body, and if it follows the last one, those behind it."""
        try:
            if self._last < number <= self._last + AHEAD_NUMBERS.value:
                # Those behind it may be damaged, and were not asked for.
                with contextlib.suppress(*DAMAGED):
                    self._read_from(number, AHEAD_NUMBERS.value)
            if number not in self._ahead:
                self._read_from(number, 1)
        except DAMAGED as error:
            raise ImageError(f"cannot read {self._path}: {error}. {ADVICE}") from error

    def _read_from(self, number: int, count: int) -> None:
        self._ahead = {}
        size = 0
        # Of a large one that is not asked for, SQLite reads the length only.
        query = (
            "SELECT number, packed, crc FROM body "
            "WHERE number >= ? AND (number = ? OR length(packed) <= ?) ORDER BY number LIMIT ?"
        )
        values = (number, number, AHEAD_BYTES.value, count)
        with contextlib.closing(self._connection.execute(query, values)) as rows:
            for found, packed, crc in rows:
                self._ahead[found] = packed, crc
                size += len(packed) if isinstance(packed, bytes) else 0
                if size > AHEAD_BYTES.value:
                    break

    def close(self) -> None:
        self._connection.close()


def read_root(path: Path) -> Image:
    """The ROOT image of a complete cut.

    Raises:
        StoreError: it is damaged, or not there.
    """
    try:
        with contextlib.closing(_reading(path)) as connection:
            query = f"SELECT {_COLUMNS} FROM image WHERE owner = 0 AND kind = ?"
            (row,) = connection.execute(query, (Kind.ROOT,)).fetchall()
            return _head_of(row)
    except (*DAMAGED, ValueError) as error:
        raise StoreError(f"{path}: ROOT image: {error}. {ADVICE}") from error


def heads_by_key(path: Path) -> Iterator[list[Image]]:
    """The heads of a complete cut, key by key; the root's is left out.

    Raises:
        StoreError: one is damaged.
    """
    # A connection of its own, as the reader may stop in between.
    with contextlib.closing(_reading(path)) as connection:
        try:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM image WHERE kind != ? ORDER BY owner, number",
                (Kind.ROOT,),
            )
            for _, found in groupby(rows, itemgetter(2)):
                yield [_head_of(row) for row in found]
        except (*DAMAGED, ValueError) as error:
            raise StoreError(f"{path}: {error}. {ADVICE}") from error


def heads_of_key(path: Path, owner: int) -> list[Image]:
    """The heads of a complete cut that belong to a key.

    Raises:
        StoreError: one is damaged.
    """
    with contextlib.closing(_reading(path)) as connection:
        try:
            query = f"SELECT {_COLUMNS} FROM image WHERE owner = ? AND kind != ? ORDER BY number"
            return [_head_of(row) for row in connection.execute(query, (owner, Kind.ROOT))]
        except (*DAMAGED, ValueError) as error:
            raise StoreError(f"{path}: {error}. {ADVICE}") from error


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def _not_sound(path: Path, number: int) -> str:
    return f"{path}: image {number} is damaged (checksum), or not there. {ADVICE}"


# --- In the thread --------------------------------------------------------------------------------


def _begin(connection: sqlite3.Connection, cut: StagedCut) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = OFF")
    # One transaction: a file with tables and without a cut would be none.
    with _transaction(connection):
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        columns = _cut_columns(cut)
        connection.execute("INSERT INTO cut VALUES (?,?,?,?,?,?,?,?)", (*columns, _crc_of(columns)))
    # From here on a power cut may take the last transactions back: they are sent again then.
    connection.execute("PRAGMA synchronous = NORMAL")


def _put(connection: sqlite3.Connection, images: Sequence[StagedImage]) -> Staged:
    rows: list[tuple[object, ...]] = []
    bodies: list[tuple[object, ...]] = []
    numbers = size = 0
    for number, kind, owner, lane, head, body, crc in images:
        of_body = body_crc(number, body)
        rows.append((number, kind.value, owner, lane, head, len(body), of_body, crc))
        if kind is Kind.NODE:
            bodies.append((number, body, of_body))
        numbers += number
        size += len(head) + len(body)
    with _transaction(connection):
        connection.executemany(f"INSERT INTO image ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?)", rows)
        connection.executemany("INSERT INTO body VALUES (?,?,?)", bodies)
    return Staged(len(images), numbers, size)


def _move_wal(connection: sqlite3.Connection) -> None:
    """Have all that was put in the database, on the disk for good."""
    connection.execute("PRAGMA synchronous = FULL")
    ((is_busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if is_busy:
        raise sqlite3.OperationalError("another program reads the file; stop it")


def _complete(connection: sqlite3.Connection) -> None:
    # The images are read key by key, and the first one is not to wait until all are sorted.
    connection.execute("CREATE INDEX IF NOT EXISTS image_of_key ON image (owner)")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA user_version = {COMPLETE}")
    # So that the header says it, too: the only part to go by if SQLite cannot read the file.
    _move_wal(connection)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has ended it by itself after some errors.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _read_cut(connection: sqlite3.Connection) -> tuple[StagedCut, Staged, int, int] | None:
    """The cut, what was put of it, the last number, and what the header says; None: no cut.

    Raises:
        DAMAGED, ValueError: it is not what was written.
    """
    # The process that closed the file last may not have set that.
    connection.execute("PRAGMA synchronous = NORMAL")
    query = "SELECT 1 FROM sqlite_master WHERE name = 'cut'"
    if connection.execute(query).fetchone() is None:
        return None
    rows = connection.execute("SELECT * FROM cut").fetchall()
    match rows:
        case [
            (
                bytes(cut_id),
                int(source),
                str(vv),
                int(images),
                int(numbers),
                int(size),
                (bytes() | None) as key,
                int(crc),
            ) as columns
        ] if len(cut_id) == CUT_ID_BYTES and _crc_of(columns[:-1]) == crc:
            cut = StagedCut(cut_id, RegionId(source), parse_vv(vv), images, numbers, size, key)
        case _:
            raise ValueError("table cut is damaged")
    found = connection.execute(_SUMS).fetchone()
    if not all(isinstance(one, int) for one in found):
        raise ValueError("table image is damaged")
    *sums, last = found
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return cut, Staged(*sums), last, version


def _read_heads(connection: sqlite3.Connection, after: int) -> tuple[list[Image], Staged] | None:
    """The next images, without bodies; None: no more.

    Raises:
        ValueError: one is damaged; the text names it.
    """
    query = f"SELECT {_COLUMNS} FROM image WHERE number > ? ORDER BY number LIMIT ?"
    rows = connection.execute(query, (after, HEADS_PER_READ.value)).fetchall()
    images: list[Image] = []
    numbers = size = 0
    for row in rows:
        image = _head_of(row)
        if image.number <= after:
            raise ValueError(f"image {image.number} is out of order")
        images.append(image)
        numbers += image.number
        size += len(image.head) + row[5]
        after = image.number
    return (images, Staged(len(images), numbers, size)) if rows else None


def _head_of(row: Sequence[Any]) -> Image:
    """An image without its body, of a row with the columns ``_COLUMNS``.

    Raises:
        ValueError: it is damaged; the text names it.
    """
    number, kind, owner, lane, head, _, _, _ = row
    if not _is_sound_row(row):
        raise ValueError(f"image {number} is damaged (checksum)")
    return Image(number, KINDS[kind], owner, lane, head, b"")


def _read_some(connection: sqlite3.Connection, after: int) -> tuple[Staged, int] | None:
    """Sums of the next images and the last number, all read with their bodies; None: no more.

    Raises:
        ValueError: one is damaged; the text names it.
    """
    columns = ", ".join(f"image.{name.strip()}" for name in _COLUMNS.split(","))
    query = (
        f"SELECT {columns}, body.packed, body.crc FROM image LEFT JOIN body USING (number) "
        "WHERE image.number > ? ORDER BY image.number LIMIT ?"
    )
    images = numbers = size = 0
    # Row by row: strings and macro nodes are large.
    with contextlib.closing(connection.execute(query, (after, BODIES_PER_READ.value))) as rows:
        for *row, packed, crc in rows:
            number, kind, _, _, head, body_bytes, of_body, _ = row
            is_sound = _is_sound_row(row) and number > after
            if kind == Kind.NODE:
                is_sound = is_sound and crc == of_body and is_sound_body(number, packed, crc)
            if not is_sound:
                raise ValueError(f"image {number} is damaged (checksum)")
            images += 1
            numbers += number
            size += len(head) + body_bytes
            after = number
    return (Staged(images, numbers, size), after) if images else None


def _is_sound_row(row: Sequence[Any]) -> bool:
    number, kind, owner, lane, head, body_bytes, of_body, crc = row
    try:
        found = image_crc(number, kind, owner, lane, head, body_bytes=body_bytes, of_body=of_body)
    except TypeError:
        return False
    return bool(found == crc and kind in KINDS)


def _fetch(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    marks = ",".join("?" * len(numbers))
    query = f"SELECT number, packed, crc FROM body WHERE number IN ({marks})"
    return {
        number: packed
        for number, packed, crc in connection.execute(query, numbers)
        if is_sound_body(number, packed, crc)
    }


# --- Files ----------------------------------------------------------------------------------------


def _cut_columns(cut: StagedCut) -> tuple[object, ...]:
    return (cut.id, cut.source, format_vv(cut.vv), cut.images, cut.numbers, cut.bytes, cut.key)


def _crc_of(columns: Sequence[object]) -> int:
    return zlib.crc32(repr(tuple(columns)).encode())


def _remove(path: Path) -> None:
    """Remove a database that no connection has open."""
    is_there = path.exists()
    # The database last: while it is there, the others are its own.
    for one in (path.with_name(path.name + "-shm"), wal_of(path), path):
        one.unlink(missing_ok=True)
    if is_there:
        _sync_folder(path.parent)


def _may_be_complete(path: Path) -> bool:
    """True if the header of the file says so; SQLite need not be able to read the file.

    No process has it open.
    """
    try:
        with path.open("rb") as file:
            header = file.read(VERSION_OFFSET + VERSION_BYTES)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; check the disk") from error
    return any(header[VERSION_OFFSET:])


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
