"""The log in SQLite: one table of rows, one of settings, in one file of the region's folder.

    folder/
        lock            held by the process that has the folder open
        opened          which start with this folder was the last one (``opening.py``)
        log.sqlite      tables ``log`` and ``meta``; SQLite keeps -wal and -shm beside it

A record is a row of the table.  A group commit is one INSERT statement with all its rows: one hop
to SQLite's thread and, with ``appendfsync always``, one fsync.  In WAL mode readers are not stopped
by a commit, so links read on a connection of their own; the last records stay in memory besides,
and links that are up to date never touch the disk.

Each row carries a CRC-32 over all its other columns.  A row that does not match is never skipped:
opening, replaying and sending all stop with the file, the row and what to do.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import aiosqlite

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.ids import RegionId
from crdtstream.store.errors import StoreError
from crdtstream.store.log import FORMAT_VERSION, Fsync, Logged, leading_within
from crdtstream.store.opening import read_opening, write_opening

LOG_FILE: Final = "log.sqlite"
LOCK_FILE: Final = "lock"
# Of a folder that an earlier program wrote, this one reads the same rows and writes further kinds
# of effects; nothing is rewritten but the number.
READABLE_FORMATS: Final = ("1", str(FORMAT_VERSION))

# A statement's rows: seven values each, and SQLite allows 32,766 of them.
ROWS_PER_STATEMENT_MAX: Final = 4_000
# Rows that one read looks at; what it returns is bounded in bytes as well.
ROWS_PER_READ_MAX: Final = 1_024
# Kept in memory for links that are up to date.
TAIL_BYTES_MAX: Final = 16 << 20
# Pages (4 KiB) in the WAL before SQLite moves them over, which holds up the commit it happens in.
WAL_PAGES_MAX: Final = 4_096

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    seq INTEGER PRIMARY KEY,
    origin INTEGER NOT NULL,
    first_n INTEGER NOT NULL,
    last_n INTEGER NOT NULL,
    batch BLOB,
    local BLOB,
    crc INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS log_by_dot ON log (origin, last_n) WHERE batch IS NOT NULL;
"""
ROW_COLUMNS: Final = "seq, origin, first_n, last_n, batch, local, crc"

ADVICE: Final = (
    "Keep the folder as it is for inspection, and start this region again from a backup of the "
    "folder, or with an empty folder under a new region id; the other regions have its effects"
)


@dataclass(slots=True)
class Tail:
    """The last committed records, in memory, bounded in bytes."""

    bytes_max: int = TAIL_BYTES_MAX
    records: deque[Logged] = field(default_factory=deque)
    bytes: int = 0

    def push(self, records: Iterable[Logged]) -> None:
        for logged in records:
            self.records.append(logged)
            self.bytes += record_bytes(logged.record)
        while self.bytes > self.bytes_max and len(self.records) > 1:
            self.bytes -= record_bytes(self.records.popleft().record)

    def holds(self, seq: int) -> bool:
        return bool(self.records) and seq >= self.records[0].seq

    def iterate_from(self, seq: int) -> Iterator[Logged]:
        # seq counts without gaps, so the distance is the offset.  Readers stand near the right
        # end, and a deque is quick at both.
        from_end = self.records[-1].seq - seq + 1
        if from_end <= len(self.records) // 2:
            return reversed(list(islice(reversed(self.records), max(0, from_end))))
        return islice(self.records, seq - self.records[0].seq, None)


class SqliteLog:
    """A log in a folder; made by ``open``.

    Attributes:
        fresh: the folder was empty.
        is_proven: it is the one that was last open here, and nothing of the log's end was lost.
    """

    def __init__(
        self,
        path: Path,
        lock: int,
        writer: aiosqlite.Connection,
        reader: aiosqlite.Connection,
        fsync: Fsync,
    ) -> None:
        self.path = path
        self.fresh = False
        self.is_proven = False
        self._fsync = fsync
        self._is_confirmed = False
        self._lock = lock
        self._writer = writer
        self._reader = reader
        self._last_seq = 0
        self._tail = Tail()

    @classmethod
    async def open(
        cls, folder: Path, *, region: RegionId, database_id: str, fsync: Fsync
    ) -> "SqliteLog":
        """Open the region's folder, or make it.

        Raises:
            StoreError: another process has it open, it belongs to another region or database, a
                newer program wrote it, or it cannot be read.
        """
        path = folder / LOG_FILE
        async with contextlib.AsyncExitStack() as opened:
            try:
                lock = _lock_folder(folder)
                opened.callback(os.close, lock)
                writer = await opened.enter_async_context(_connection(path))
                await _prepare(writer, fsync)
                reader = await opened.enter_async_context(_connection(path))
                log = cls(path, lock, writer, reader, fsync)
                await log._claim(region, database_id)
                await log._prove()
            except OSError as error:
                raise StoreError(
                    f"{folder}: {error.strerror or error}; check path and rights"
                ) from error
            except sqlite3.Error as error:
                raise StoreError(f"{path}: {error}. {ADVICE}") from error
            # From here on closing is the log's business.
            opened.pop_all()
            return log

    async def _claim(self, region: RegionId, database_id: str) -> None:
        """See that the folder is this region's; an empty one becomes it."""
        wanted = {
            "format_version": str(FORMAT_VERSION),
            "region": str(region),
            "database_id": database_id,
        }
        found = {key: await self.get_meta(key) for key in wanted}
        self.fresh = found["format_version"] is None
        if self.fresh:
            for key, value in wanted.items():
                await self.set_meta(key, value)
        elif found["format_version"] not in READABLE_FORMATS:
            raise StoreError(
                f"{self.path}: written in format {found['format_version']}, this program reads "
                f"formats {' and '.join(READABLE_FORMATS)}; run the program that wrote it"
            )
        elif found["region"] != wanted["region"]:
            raise StoreError(
                f"{self.path}: belongs to region {found['region']}, not to region {region}; "
                "give each region its own folder"
            )
        elif found["database_id"] != wanted["database_id"]:
            raise StoreError(
                f"{self.path}: belongs to database {found['database_id']!r}, not to "
                f"{database_id!r}; use another folder or the right database id"
            )
        if found["format_version"] != wanted["format_version"]:
            await self.set_meta("format_version", wanted["format_version"])
        async with self._reader.execute("SELECT max(seq), count(*) FROM log") as cursor:
            row = await cursor.fetchone()
        assert row is not None
        last_seq, rows_count = row[0] or 0, row[1]
        if last_seq != rows_count:
            raise StoreError(
                f"{self.path}: rows 1 to {last_seq} expected, but {last_seq - rows_count} of them "
                f"are missing. {ADVICE}"
            )
        self._last_seq = last_seq

    async def _prove(self) -> None:
        """See whether the folder is the one that was last open here, with all that it had then."""
        found = await asyncio.to_thread(read_opening, self.path.parent, LOG_FILE)
        is_same = found is not None and await self.get_meta("opening") == str(found)
        was_clean = await self.get_meta("clean_shutdown") == "yes"
        lost_nothing = was_clean or await self.get_meta("fsync") == Fsync.ALWAYS.value
        self.is_proven = is_same and lost_nothing
        await self.set_meta("clean_shutdown", "no")
        if self.is_proven:
            await self.confirm()

    async def confirm(self) -> None:
        # Whatever stops this half-way leaves a folder that proves nothing at the next start.
        folder = self.path.parent
        try:
            found = await asyncio.to_thread(read_opening, folder, LOG_FILE)
            before = (await self.get_meta("opening") or "0").split()[0]
            count = max(int(before), 0 if found is None else found.count) + 1
            opening = await asyncio.to_thread(write_opening, folder, count, LOG_FILE)
        except OSError as error:
            raise StoreError(
                f"{error.filename or folder}: {error.strerror}; check space and rights"
            ) from error
        await self.set_meta("fsync", self._fsync.value)
        await self.set_meta("opening", str(opening))
        await self.sync()
        self._is_confirmed = True

    async def revoke(self) -> None:
        self._is_confirmed = False
        await self.set_meta("opening", "0 revoked")
        await self.sync()

    @property
    def last_seq(self) -> int:
        return self._last_seq

    async def append(self, records: Sequence[Record]) -> None:
        assert records
        logged = [Logged(seq, record) for seq, record in enumerate(records, self._last_seq + 1)]
        assert len(logged) <= ROWS_PER_STATEMENT_MAX
        values = [value for one in logged for value in _columns(one)]
        # REPLACE, because a commit that failed is repeated with the same records: should some error
        # have come after they were written, they are written once more and not refused.
        statement = f"INSERT OR REPLACE INTO log ({ROW_COLUMNS}) VALUES " + ",".join(
            ["(?,?,?,?,?,?,?)"] * len(logged)
        )
        try:
            await self._writer.execute(statement, values)
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: cannot write row {logged[0].seq}: {error}; check space, rights and "
                "health of the disk. Nothing acknowledged is lost, and writing is tried again"
            ) from error
        self._last_seq = logged[-1].seq
        self._tail.push(logged)

    async def sync(self) -> None:
        try:
            # A checkpoint begins by syncing the WAL, which is all that is asked for here.
            async with self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)"):
                pass
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot sync: {error}; check the disk") from error

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        assert seq >= 1
        if seq > self._last_seq:
            return []
        if self._tail.holds(seq):
            return leading_within(self._tail.iterate_from(seq), bytes_max)
        last = await self._last_within(seq, bytes_max)
        query = f"SELECT {ROW_COLUMNS} FROM log WHERE seq BETWEEN ? AND ? ORDER BY seq"
        found = await self._fetch(query, (seq, last))
        if len(found) != last - seq + 1:
            raise StoreError(f"{self.path}: a row of {seq} to {last} is missing. {ADVICE}")
        return [self._checked(columns) for columns in found]

    async def _last_within(self, seq: int, bytes_max: int) -> int:
        """The last row that a read of ``bytes_max`` from ``seq`` takes; lengths only, no blobs."""
        query = (
            "SELECT seq, coalesce(length(batch), 0) + coalesce(length(local), 0) "
            "FROM log WHERE seq >= ? ORDER BY seq LIMIT ?"
        )
        last, total = seq, 0
        for row_seq, row_bytes in await self._fetch(query, (seq, ROWS_PER_READ_MAX)):
            total += row_bytes
            if total > bytes_max and row_seq > seq:
                break
            last = row_seq
        return last

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        # Batches of one origin stand in the log in the order of their numbers.
        query = (
            "SELECT seq FROM log WHERE origin = ? AND last_n > ? AND batch IS NOT NULL "
            "ORDER BY last_n LIMIT 1"
        )
        first = self._last_seq + 1
        for origin in origins:
            for (seq,) in await self._fetch(query, (origin, vv.get(origin, 0))):
                first = min(first, seq)
        return first

    async def get_meta(self, key: str) -> str | None:
        for (value,) in await self._fetch("SELECT value FROM meta WHERE key = ?", (key,)):
            assert isinstance(value, str)
            return value
        return None

    async def set_meta(self, key: str, value: str) -> None:
        try:
            await self._writer.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot write {key!r}: {error}") from error

    async def close(self) -> None:
        """Close with the mark that nothing was lost; the caller has committed all it had."""
        try:
            if self._is_confirmed:
                # What was copied while the node ran is an earlier state from here on.
                await self.confirm()
            await self.set_meta("clean_shutdown", "yes")
            await self.sync()
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Close without that mark, as a crash would."""
        await self._reader.close()
        await self._writer.close()
        os.close(self._lock)

    def bytes_on_disk(self) -> int:
        """Size of the files."""
        paths = (self.path, self.path.with_name(LOG_FILE + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    async def _fetch(self, query: str, values: Sequence[object]) -> list[sqlite3.Row]:
        try:
            return list(await self._reader.execute_fetchall(query, values))
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot read: {error}. {ADVICE}") from error

    def _checked(self, columns: Sequence[object]) -> Logged:
        match columns:
            case [
                int(seq),
                int(origin),
                int(first_n),
                int(last_n),
                (bytes() | None) as batch,
                (bytes() | None) as local,
                int(crc),
            ]:
                logged = Logged(seq, Record(RegionId(origin), first_n, last_n, batch, local))
                if _crc(logged) == crc:
                    return logged
        raise StoreError(
            f"{self.path}: row {columns[0]} of table log is damaged (checksum). {ADVICE}"
        )


def _crc(logged: Logged) -> int:
    record = logged.record
    batch, local = record.batch, record.local
    # -1 tells "none" from "empty".
    batch_bytes = -1 if batch is None else len(batch)
    local_bytes = -1 if local is None else len(local)
    head = (logged.seq, record.origin, record.first_n, record.last_n, batch_bytes, local_bytes)
    crc = zlib.crc32(b"%d,%d,%d,%d,%d,%d" % head)
    return zlib.crc32(local or b"", zlib.crc32(batch or b"", crc))


def _columns(logged: Logged) -> tuple[object, ...]:
    record = logged.record
    return (
        logged.seq,
        record.origin,
        record.first_n,
        record.last_n,
        record.batch,
        record.local,
        _crc(logged),
    )


def _lock_folder(folder: Path) -> int:
    """Hold the folder's lock for the life of the returned file descriptor.

    A lock of our own, since SQLite's would keep our reading connection out as well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise StoreError(
            f"{folder}: another process has this folder open; stop that node first"
        ) from error
    return lock


def _connection(path: Path) -> aiosqlite.Connection:
    return aiosqlite.connect(path, isolation_level=None)


async def _prepare(writer: aiosqlite.Connection, fsync: Fsync) -> None:
    # FULL syncs the WAL at each commit, NORMAL only at a checkpoint, which ``sync`` runs.
    synchronous = "FULL" if fsync is Fsync.ALWAYS else "NORMAL"
    await writer.execute("PRAGMA journal_mode = WAL")
    await writer.execute(f"PRAGMA synchronous = {synchronous}")
    await writer.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES_MAX}")
    await writer.executescript(SCHEMA)
