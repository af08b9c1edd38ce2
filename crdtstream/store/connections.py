"""The connections to a folder's database, and its write-ahead log.

    writer      commits of the log: at once or in a thread (``writer.py``), and never behind
                anything that takes long
    background  checkpoints, cutting, giving space back: small transactions
    reader      what links read
    fetcher     bodies of images that a command waits for
    keeper      long reads (checking, counting), and moving the write-ahead log
    copier      images that are sent to another region; opened when the first one asks

All except the writer have a thread of their own.  SQLite lets one connection write at a time, and
the others poll.  So a writing connection first takes ``turn``, which is served in order: a commit
waits for one small transaction at most, and a commit at once is made only while the turn is free.
Only the writer syncs.  As there is one write-ahead log, this makes durable what the others wrote
before.

SQLite would move that log into the database within some commit.  Here the keeper does it, beside
the commits.  It takes the turn only for the last few pages, which were written during the move.
Then the next commit writes the write-ahead log from its beginning again, so it does not grow
without bound.

The file is overwritten from its beginning then, and is shortened only when it was twice as long as
it should be.  Syncing overwritten bytes is one write to the disk.  Syncing a file that has grown
also writes the file system's journal, which takes several times as long.  So where commits sync,
the file is written once in its full length when the node starts (``write_ahead``): with zeros, at
which SQLite stops reading.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import aiosqlite

from crdtstream.core.size import Size
from crdtstream.store.checksums import is_sound_body
from crdtstream.store.errors import DAMAGED, FolderGoneError, NoRoomError, StoreError
from crdtstream.store.failpoints import Failpoints
from crdtstream.store.writer import Writer

T = TypeVar("T")

PAGE_BYTES: Final = 4096
# Value of ``PRAGMA auto_vacuum`` for a file that can return free space.
INCREMENTAL: Final = 2
# About how many bytes the write-ahead log may hold before it is moved; less than its file, so that
# commits during the move have room there.
WAL_BYTES: Final = Size(12 << 20, least=4096)
WAL_FILE_BYTES: Final = Size(16 << 20, least=4096)
WAL_HEADER_BYTES: Final = 32
# One slice of what is written ahead; a commit waits for one at most.
WAL_SLICE_BYTES: Final = Size(1 << 20, least=4096)
# Above this, background writes wait until it was moved; above the next one, commits do.
WAL_BYTES_BACKGROUND_MAX: Final = Size(24 << 20, least=4096)
WAL_BYTES_COMMITS_MAX: Final = Size(36 << 20, least=4096)
# The file is made shorter, to this, when it was much longer.
WAL_FILE_BYTES_MAX: Final = Size(32 << 20, least=4096)
# Bytes that a commit adds to it besides its own, about.
WAL_BYTES_PER_COMMIT: Final = 3 * PAGE_BYTES
# Moved while nothing is written; pages beyond that are moved beside the commits first.
WAL_PAGES_LEFT_MAX: Final = Size(256, least=1)
WAL_ROUNDS_MAX: Final = Size(4, least=1)
# SQLite moves it itself, within a transaction in the background, when the keeper does not come to
# it.
WAL_PAGES_MAX: Final = Size(65_536, least=1)

ADVICE: Final = (
    "Keep the folder as it is for inspection, and start this region again from a backup of the "
    "folder, or with an empty folder under a new region id; the other regions have its effects"
)
# Prepared statements that a connection keeps.  Those with many rows or numbers take up to some
# 300 KiB each, and there is another one for each count of rows: of 128, which Python would keep,
# megabytes.
STATEMENTS_KEPT: Final = Size(8, least=0)
# A disk with less room than that is full: files grow by some pages at a time.
FULL_BYTES: Final = 1 << 20


# SQLite's errors if a file beside the database cannot be made, or cannot grow.
_CANNOT_GROW: Final = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_IOERR_FSYNC,
        sqlite3.SQLITE_IOERR_TRUNCATE,
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
    }
)


def wal_of(path: Path) -> Path:
    """The write-ahead log of a database's file."""
    return path.with_name(path.name + "-wal")


def is_full(path: Path, error: Exception) -> bool:
    """True if an error is caused by a full disk."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    if code == sqlite3.SQLITE_FULL:
        return True
    if code not in _CANNOT_GROW:
        return False
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_BYTES


def unusable(path: Path, error: Exception) -> str:
    """Text of an error: the file that cannot be used, why, and what to do."""
    if not is_full(path, error):
        return f"{path}: {error}. {ADVICE}"
    return (
        f"{path}: {error}, as the disk has no room. Nothing is damaged or lost by that: make room "
        f"- {room_wanted(path)} bytes are enough - and start again"
    )


def room_wanted(path: Path) -> int:
    """Bytes of free disk that are enough to open the database."""
    wal = wal_of(path)
    return (wal.stat().st_size if wal.exists() else 0) + FULL_BYTES


def not_begun(path: Path, reason: str) -> NoRoomError:
    """Why a node reads only, and what it wants."""
    return NoRoomError(
        f"{reason}, as the disk has no room. Nothing is damaged or lost by that, and reads go on: "
        f"make room - {room_wanted(path)} bytes are enough - and the node takes writes by itself"
    )


class Connections:
    """Made by ``open_connections``."""

    def __init__(
        self,
        path: Path,
        writer: Writer,
        others: Sequence[aiosqlite.Connection],
        failpoints: Failpoints,
    ) -> None:
        self.path = path
        self.failpoints = failpoints
        self.turn = asyncio.Lock()
        self.writer = writer
        self.background, self.reader, self.fetcher, self.keeper = others
        # Opened when something must be read without waiting; closed with the others.
        self._at_once: sqlite3.Connection | None = None
        # Opened when a region asks for the state, and closed with the others.
        self._copier: Writer | None = None
        self._wal_bytes = 0
        self._moving: asyncio.Task[None] | None = None
        # Why nothing may be written any more; empty: it may.
        self.gone = ""
        # A sync failed: the system may have forgotten what it could not write, and says so once.
        self._must_move_all = False

    async def fetch(
        self, connection: aiosqlite.Connection, query: str, values: Sequence[object] = ()
    ) -> list[Any]:
        """The rows of a query.

        Raises:
            StoreError: they cannot be read.
        """
        try:
            return list(await connection.execute_fetchall(query, values))
        except DAMAGED as error:
            raise StoreError(f"cannot read {unusable(self.path, error)}") from error

    def read_at_once(self, query: str, values: Sequence[object]) -> Any | None:
        """The first row of a query, read by the thread that asks; None if there is none.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            if self._at_once is None:
                self._at_once = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
            return self._at_once.execute(query, values).fetchone()
        except DAMAGED as error:
            raise StoreError(f"cannot read {unusable(self.path, error)}") from error

    async def copy(self, function: Callable[..., T], *args: object) -> T:
        """Run a function that reads, in the thread of a connection that nothing else waits for.

        It ends the transaction that it reads in before it returns: a long one would keep the
        write-ahead log from being moved.

        Raises:
            StoreError: it cannot read.
        """
        try:
            if self._copier is None:
                self._copier = Writer(self.path)
            return await self._copier.call(function, *args)
        except DAMAGED as error:
            raise StoreError(f"cannot read {unusable(self.path, error)}") from error

    def check_there(self) -> None:
        """See that the files are still the folder's, as far as is known.

        Raises:
            FolderGoneError: they are not; written data would be lost with this process.
        """
        if self.gone:
            raise FolderGoneError(self.gone)

    async def write(
        self, statement: str, values: Sequence[object], *, what: str, size: int
    ) -> None:
        """A small transaction in the background.

        Args:
            what: name of the data, for the text of an error.
            size: bytes of the values, about.

        Raises:
            NoRoomError: it was not written, as the disk is full.
            StoreError: it was not written.
        """
        self.check_there()
        try:
            async with self.turn:
                if values:
                    await self.background.execute_fetchall(statement, values)
                else:
                    # If a statement without values takes several steps, as the PRAGMA that
                    # frees pages does, ``execute`` does the first one only.
                    await self.background.executescript(statement)
        except DAMAGED as error:
            kind = NoRoomError if is_full(self.path, error) else StoreError
            raise kind(
                f"{self.path}: cannot write {what}: {error}; check space, rights and health of "
                "the disk. Nothing acknowledged is lost"
            ) from error
        self.note_written(size)
        await self.wait_for_wal(WAL_BYTES_BACKGROUND_MAX.value)

    @property
    def lets_write_at_once(self) -> bool:
        """True if a commit need not wait for another connection."""
        if self._wal_bytes > WAL_BYTES_COMMITS_MAX.value and self._moving is not None:
            return False
        return not self.turn.locked()

    async def wait_for_wal(self, bytes_max: int) -> None:
        """Wait while the write-ahead log is being moved, if it holds more than that by now."""
        if self._must_wait_for_wal(bytes_max):
            assert self._moving is not None
            await asyncio.shield(self._moving)

    def _must_wait_for_wal(self, bytes_max: int) -> bool:
        return self._wal_bytes > bytes_max and self._moving is not None

    def note_written(self, size: int) -> None:
        """Note that a commit of about ``size`` bytes is in the write-ahead log."""
        self._wal_bytes += size + WAL_BYTES_PER_COMMIT
        if self._wal_bytes > WAL_BYTES.value and self._moving is None:
            self._moving = asyncio.create_task(self._move_in_background())

    async def _move_in_background(self) -> None:
        # If it fails, commits go on; when they fail too, they report what is wrong with the disk.
        with contextlib.suppress(StoreError):
            await self.move_wal()
        self._wal_bytes = 0
        self._moving = None

    async def move_wal(self) -> bool:
        """Move the write-ahead log into the database, so that the next commit overwrites it.

        Returns:
            True if all of it was moved; a reader that uses it may prevent that.

        Raises:
            StoreError: the disk refused.
        """
        self.failpoints.reach("log.move-wal")
        self.check_there()
        for _ in range(WAL_ROUNDS_MAX.value):
            if await self._move() <= WAL_PAGES_LEFT_MAX.value:
                break
        async with self.turn:
            return await self._move() == 0

    async def _move(self) -> int:
        """Move what can be moved; returns how many pages could not."""
        try:
            rows = await self.keeper.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except DAMAGED as error:
            raise StoreError(f"{self.path}: cannot sync: {error}; check the disk") from error
        ((is_busy, pages, moved),) = rows
        return 1 if is_busy else int(pages - moved)

    async def begin_wal_anew(self) -> None:
        """Move all of the write-ahead log, and make its file empty.

        Raises:
            StoreError: the disk refused.
        """
        async with self.turn:
            try:
                rows = await self.keeper.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
            except DAMAGED as error:
                raise StoreError(f"{self.path}: cannot sync: {error}; check the disk") from error
        ((is_busy, _, _),) = rows
        if is_busy:
            raise StoreError(f"{self.path}: another program reads the file; stop it, start again")

    async def write_ahead(self) -> None:
        """Write the write-ahead log's file in its full length, if it is shorter.

        An error of the disk is ignored here; the next commit reports it.
        """
        with contextlib.suppress(OSError, sqlite3.Error):
            is_whole = False
            while not is_whole:
                async with self.turn:
                    is_whole = await self.writer.call(_lengthen, self.wal_path)
            await asyncio.to_thread(_sync_file, self.wal_path)

    async def sync(self) -> None:
        """Return when a power cut cannot take back anything committed before the call.

        Raises:
            StoreError: the disk refused.
        """
        self.failpoints.reach("log.sync")
        self.check_there()
        if self._must_move_all:
            # Every page is read and written once more: what is lost would be found missing.
            if not await self.move_wal():
                raise StoreError(f"{self.path}: cannot sync: a sync has failed; it is tried again")
            self._must_move_all = False
            return
        try:
            await asyncio.to_thread(_sync_file, self.wal_path)
        except OSError as error:
            self._must_move_all = True
            raise StoreError(
                f"{self.path}: cannot sync: {error.strerror}; check the disk"
            ) from error
        # The folder may have gone during the sync.
        self.check_there()

    @property
    def wal_path(self) -> Path:
        return wal_of(self.path)

    async def close(self) -> None:
        if self._moving is not None:
            await self._moving
        for connection in (self.keeper, self.fetcher, self.reader, self.background):
            await connection.close()
        if self._copier is not None:
            await self._copier.close()
        await self.writer.close()
        if self._at_once is not None:
            self._at_once.close()


def _sync_file(path: Path) -> None:
    # All that is not in the write-ahead log was synced before that was overwritten.  Closing a file
    # releases a process's locks on it; SQLite has none on this one, but has on the database.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(file)
    finally:
        os.close(file)


def _lengthen(connection: sqlite3.Connection, path: Path) -> bool:
    """Write one more slice of the file; True if it then has its full length."""
    # The lock keeps all others, also other processes, from writing behind its end.
    connection.execute("BEGIN IMMEDIATE")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            # Before the first commit to it, its header would be zeros, too.
            if WAL_HEADER_BYTES < size < WAL_FILE_BYTES.value:
                size += os.pwrite(
                    file, bytes(min(WAL_SLICE_BYTES.value, WAL_FILE_BYTES.value - size)), size
                )
                return size >= WAL_FILE_BYTES.value
            return True
        finally:
            os.close(file)
    finally:
        connection.execute("ROLLBACK")


async def open_connections(
    path: Path, closing: contextlib.AsyncExitStack, failpoints: Failpoints
) -> Connections:
    """Connect to the database, which is created if it does not exist.

    Args:
        closing: closes them.

    Raises:
        sqlite3.Error: it cannot be opened, or is none.
    """
    # The first connection creates it, in the mode that it keeps; the order of these two matters.
    writer = Writer(path)
    closing.push_async_callback(writer.close)
    ((auto_vacuum,),) = await writer.execute("PRAGMA auto_vacuum")
    if auto_vacuum != INCREMENTAL:
        # The PRAGMA writes even if it changes nothing, but a full disk must be readable.
        await writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
    await writer.execute("PRAGMA journal_mode = WAL")
    await writer.execute("PRAGMA wal_autocheckpoint = 0")
    others = [await closing.enter_async_context(_connection(path)) for _ in range(4)]
    connections = Connections(path, writer, others, failpoints)
    # Some builds of SQLite overwrite deleted data with zeros.  All that is cut off the log would be
    # written once more, to the write-ahead log and to the database.
    await writer.execute("PRAGMA secure_delete = OFF")
    await connections.background.execute_fetchall("PRAGMA secure_delete = OFF")
    await connections.background.execute_fetchall(
        f"PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX.value}"
    )
    await connections.background.execute_fetchall("PRAGMA synchronous = NORMAL")
    await writer.execute(f"PRAGMA journal_size_limit = {WAL_FILE_BYTES_MAX.value}")
    await connections.background.execute_fetchall(
        f"PRAGMA journal_size_limit = {WAL_FILE_BYTES_MAX.value}"
    )
    for connection in (connections.fetcher, connections.keeper):
        await connection.create_function("is_sound_body", 3, is_sound_body, deterministic=True)
    return connections


def _connection(path: Path) -> aiosqlite.Connection:
    return aiosqlite.connect(path, isolation_level=None, cached_statements=STATEMENTS_KEPT.value)
