"""The log in SQLite: a table of rows, one of settings, in one file of the region's folder.

    folder/
        lock            held by the process that has the folder open
        opened          which start with this folder was the last one (``opening.py``)
        acknowledged    how far the log was acknowledged (``acknowledged.py``)
        log.sqlite      tables (``layout.py``); SQLite keeps -wal and -shm beside it

A record is a row of the table.  A group commit is one INSERT statement with all its rows, made on
the event loop if that takes little time, else in a thread (``append_at_once``, ``append``), and,
with ``appendfsync always``, one fsync.  In WAL mode readers are not stopped by a commit, so links
read on a connection of their own; the last records stay in memory besides, and links that are up to
date never touch the disk.

Each row carries a CRC-32 over all its other columns.  A row that does not match is never skipped:
opening, replaying and sending all stop with the file, the row and what to do.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from crdtstream.core.clock import MutableVersionVector, VersionVector, format_vv
from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.ids import RegionId
from crdtstream.store.acknowledged import (
    ACKNOWLEDGED_FILE,
    AcknowledgedFile,
    has_acknowledged,
    read_acknowledged,
)
from crdtstream.store.connections import (
    ADVICE,
    PAGE_BYTES,
    WAL_BYTES_COMMITS_MAX,
    Connections,
    open_connections,
)
from crdtstream.store.errors import DAMAGED, LogCutError, StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints
from crdtstream.store.layout import (
    CHECKSUM_KEY,
    TABLES,
    TABLES_OF_FORMAT_2,
    TABLES_OF_FORMAT_3,
    meta_checksum,
    parse_vv,
)
from crdtstream.store.log import FORMAT_VERSION, Fsync, Logged, check_reaches, leading_within
from crdtstream.store.opening import OPENED_FILE, read_opening, write_opening
from crdtstream.store.pace import Pace
from crdtstream.store.rows import ROW_COLUMNS, RowPacker, RowReader, stored_bytes
from crdtstream.store.tail import TAIL_BYTES_MAX, TAIL_BYTES_SHORT, Tail

LOG_FILE: Final = "log.sqlite"
LOCK_FILE: Final = "lock"
# Of a folder that an earlier program wrote, this one reads the same rows.  To formats 1 and 2 it
# adds tables and the checksum over the settings; to format 3 nothing but the number, since it packs
# the rows that it writes itself.
FORMATS_WITHOUT_CHECKSUM: Final = ("1", "2")
FORMATS_WITH_CHECKSUM: Final = ("3", str(FORMAT_VERSION))
READABLE_FORMATS: Final = FORMATS_WITHOUT_CHECKSUM + FORMATS_WITH_CHECKSUM

# Where the log begins, once its beginning was cut off.
FIRST_KEY: Final = "log_first"
BEGINS_KEY: Final = "log_begins"
# Its last row, when it was closed in order.
LAST_KEY: Final = "log_last"

# A statement's rows: seven values each, and SQLite allows 32,766 of them.
ROWS_PER_STATEMENT_MAX: Final = 4_000
# A commit that is made at once: packing and SQLite take a few milliseconds for either.
AT_ONCE_ROWS_MAX: Final = 1_000
AT_ONCE_BYTES_MAX: Final = 256 << 10
# Rows that one read looks at; what it returns is bounded in bytes as well.
ROWS_PER_READ_MAX: Final = 1_024

# A disk with less room than that is full: files grow by some pages at a time.
FULL_BYTES: Final = 1 << 20

# One slice of what is cut off, and of what is given back to the file system.
CUT_ROWS_MAX: Final = 512
CUT_BYTES_MAX: Final = 1 << 20
COUNT_ROWS_MAX: Final = 16_384
VACUUM_PAGES: Final = 256
# Free pages that are kept, since the next checkpoint writes them again: an eighth of the file, but
# not less than this.
FREE_PAGES_KEPT_MIN: Final = 1_024
# What rows take of the file, as a multiple of their bytes: small ones have an index besides.
SPACE_PER_BYTES: Final = (5, 4)
# A file of an earlier format is written anew, so that it can give space back, if that is quick.
REWRITE_BYTES_MAX: Final = 64 << 20

INCREMENTAL: Final = 2

# Told of work at the start that takes long: what, how many bytes are done, and of how many.
Progress = Callable[[str, int, int], None]


def no_progress(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(slots=True)
class _Cut:
    """Rows to be cut off at once."""

    last: int
    bytes: int


class SqliteLog:
    """A log in a folder; made by ``open``.

    Attributes:
        fresh: the folder was empty.
        is_proven: it is the one that was last open here, and nothing of the log's end was lost.
        connections: to the database, which holds checkpoints as well.
    """

    def __init__(
        self, path: Path, lock: int, connections: Connections, fsync: Fsync, failpoints: Failpoints
    ) -> None:
        self.path = path
        self.connections = connections
        self.fresh = False
        self.is_proven = False
        self._failpoints = failpoints
        self._fsync = fsync
        self._is_confirmed = False
        self._lock = lock
        self._writer = connections.writer
        self._pace = Pace()
        self._packer = RowPacker()
        # Of rows read last: what they took in the table, as a part of what they are.
        self._packed_to = 1.0
        self._acknowledged: AcknowledgedFile | None = None
        self._meta: dict[str, str] = {}
        self._first_seq = 1
        self._begins: VersionVector = {}
        self._last_seq = 0
        # Of all rows but the older ones, which are still to be counted.
        self._bytes = 0
        self._older = range(0)
        self._counting = asyncio.Lock()
        self._tail = Tail()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        region: RegionId,
        database_id: str,
        fsync: Fsync,
        failpoints: Failpoints = NO_FAILPOINTS,
        progress: Progress = no_progress,
    ) -> "SqliteLog":
        """Open the region's folder, or make it.

        Args:
            progress: told while a folder of an earlier format is taken over.

        Raises:
            StoreError: another process has it open, it belongs to another region or database, a
                newer program wrote it, it is damaged, or it cannot be read.
        """
        path = folder / LOG_FILE
        async with contextlib.AsyncExitStack() as opened:
            try:
                lock = lock_folder(folder)
                opened.callback(os.close, lock)
                connections = await open_connections(path, opened, failpoints)
                log = cls(path, lock, connections, fsync, failpoints)
                await log._set_synchronous(fsync)
                await log._claim(region, database_id, progress)
                await log._prove()
            except OSError as error:
                raise StoreError(
                    f"{folder}: {error.strerror or error}; check path and rights"
                ) from error
            except DAMAGED as error:
                raise StoreError(f"{path}: {error}. {ADVICE}") from error
            # From here on closing is the log's business.
            opened.pop_all()
            return log

    # --- Opening ------------------------------------------------------------------------------

    async def _claim(self, region: RegionId, database_id: str, progress: Progress) -> None:
        """See that the folder is this region's; an empty one becomes it."""
        wanted = {
            "format_version": str(FORMAT_VERSION),
            "region": str(region),
            "database_id": database_id,
        }
        tables = await self._tables()
        self.fresh = not tables or await self._is_empty(tables)
        if self.fresh:
            self._check_was_never_used()
            await self._make_tables(TABLES)
            await self._write_meta(wanted)
        else:
            await self._read_meta(tables)
            self._check_is_ours(wanted)
            if self._meta["format_version"] in FORMATS_WITH_CHECKSUM and tables != TABLES:
                raise StoreError(f"{self.path}: the table of tables is damaged. {ADVICE}")
            if self._meta["format_version"] != wanted["format_version"]:
                await self._take_over(progress)
        await self._count_rows()

    async def _tables(self) -> dict[str, str]:
        query = "SELECT name, sql FROM sqlite_master"
        return {str(name): str(sql) for name, sql in await self._fetch(query)}

    async def _is_empty(self, tables: Mapping[str, str]) -> bool:
        """Whether somebody made the tables, and died before he wrote anything."""
        if tables != TABLES:
            return False
        for table in ("meta", "log", "checkpoint", "image"):
            if await self._fetch(f"SELECT 1 FROM {table} LIMIT 1"):
                return False
        return True

    def _check_was_never_used(self) -> None:
        if has_acknowledged(self.path.parent):
            raise StoreError(
                f"{self.path}: empty, but the file {ACKNOWLEDGED_FILE} beside it tells of a log. "
                f"{ADVICE}"
            )

    async def _make_tables(self, tables: Mapping[str, str]) -> None:
        # One transaction: they are there together, or not at all.
        statements = "; ".join(
            sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ").replace(
                "CREATE INDEX ", "CREATE INDEX IF NOT EXISTS "
            )
            for sql in tables.values()
        )
        await self._writer.call(
            sqlite3.Connection.executescript, f"BEGIN IMMEDIATE; {statements}; COMMIT"
        )

    async def _read_meta(self, tables: Mapping[str, str]) -> None:
        if not TABLES_OF_FORMAT_2.keys() <= tables.keys():
            raise StoreError(f"{self.path}: tables are missing. {ADVICE}")
        found = await self._fetch("SELECT key, value FROM meta")
        self._meta = {str(key): str(value) for key, value in found}
        if self._meta.get("format_version") in FORMATS_WITH_CHECKSUM and (
            self._meta.get(CHECKSUM_KEY) != meta_checksum(self._meta)
        ):
            raise StoreError(f"{self.path}: table meta is damaged (checksum). {ADVICE}")

    def _check_is_ours(self, wanted: Mapping[str, str]) -> None:
        found = {key: self._meta.get(key) for key in wanted}
        if found["format_version"] not in READABLE_FORMATS:
            raise StoreError(
                f"{self.path}: written in format {found['format_version']}, this program reads "
                f"formats {', '.join(READABLE_FORMATS[:-1])} and {READABLE_FORMATS[-1]}; run the "
                "program that wrote it"
            )
        if found["region"] != wanted["region"]:
            raise StoreError(
                f"{self.path}: belongs to region {found['region']}, not to region "
                f"{wanted['region']}; give each region its own folder"
            )
        if found["database_id"] != wanted["database_id"]:
            raise StoreError(
                f"{self.path}: belongs to database {found['database_id']!r}, not to "
                f"{wanted['database_id']!r}; use another folder or the right database id"
            )

    async def _take_over(self, progress: Progress) -> None:
        """Make a folder of an earlier format one of this format, once."""
        self._failpoints.reach("log.take-over")
        await self._make_tables(TABLES_OF_FORMAT_3)
        await self._rewrite_if_quick(progress)
        # Last, and in one transaction with the checksum: until then it is a folder as it was.
        await self._write_meta({"format_version": str(FORMAT_VERSION)})

    async def _rewrite_if_quick(self, progress: Progress) -> None:
        """Have the file able to give space back; one that is not uses free pages again."""
        pages, free = await self._pages()
        used_bytes = (pages - free) * PAGE_BYTES
        if await self._pragma("auto_vacuum") == INCREMENTAL or used_bytes > REWRITE_BYTES_MAX:
            return
        what = "making the file able to give space back"
        progress(what, 0, used_bytes)
        rewriting = asyncio.ensure_future(self._writer.execute("VACUUM"))
        wal = self.connections.wal_path
        while not (await asyncio.wait((rewriting,), timeout=0.1))[0]:
            done = wal.stat().st_size if wal.exists() else 0
            progress(what, min(done, used_bytes), used_bytes)
        rewriting.result()
        await self.connections.move_wal()
        progress(what, used_bytes, used_bytes)

    async def _count_rows(self) -> None:
        """Find the last row, and see that no row is missing of those that a start reads.

        Those which a checkpoint has are there for other regions only; there may be a GiB of them.
        ``count_older`` looks at them, later.
        """
        try:
            self._first_seq = int(self._meta.get(FIRST_KEY, "1"))
            self._begins = parse_vv(self._meta.get(BEGINS_KEY, ""))
        except ValueError as error:
            raise StoreError(f"{self.path}: table meta is damaged: {error}. {ADVICE}") from error
        ((last_seq,),) = await self._fetch("SELECT max(seq) FROM log")
        self._last_seq = max(last_seq or 0, self._first_seq - 1)
        # No matter whether the checkpoint can be read: from wherever the log is, rows are counted.
        ((covered_seq,),) = await self._fetch(
            "SELECT max(seq) FROM checkpoint WHERE typeof(seq) = 'integer'"
        )
        covered_seq = min(covered_seq or 0, self._last_seq)
        self._older = range(self._first_seq, max(self._first_seq, covered_seq + 1))
        await self._count(range(self._older.stop, self._last_seq + 1))
        if self._meta.get("clean_shutdown") == "yes":
            self._check_last(int(self._meta.get(LAST_KEY, self._last_seq)), self._last_seq)

    async def count_older(self) -> None:
        """Look for missing rows among those that a checkpoint had at the start, if nobody has yet.

        Raises:
            StoreError: rows are missing, or cannot be read.  Who needs them is told so, too.
        """
        async with self._counting:
            while older := self._older:
                some = older[:COUNT_ROWS_MAX]
                await self._count(some)
                self._older = older[len(some) :]

    async def _count(self, rows: range) -> None:
        """Count rows and their bytes.

        Raises:
            StoreError: some are missing, or they cannot be read.
        """
        query = (
            "SELECT count(*), "
            "coalesce(sum(coalesce(length(batch), 0) + coalesce(length(local), 0)), 0) "
            "FROM log WHERE seq BETWEEN ? AND ?"
        )
        ((count, size),) = await self._scan(query, (rows.start, rows.stop - 1))
        if count != len(rows):
            raise StoreError(
                f"{self.path}: rows {rows.start} to {rows.stop - 1} expected, but "
                f"{len(rows) - count} of them are missing. {ADVICE}"
            )
        self._bytes += size

    def _check_last(self, expected: int, last_seq: int) -> None:
        if last_seq < expected:
            raise StoreError(
                f"{self.path}: rows {last_seq + 1} to {expected} were acknowledged and are lost. "
                f"{ADVICE}.  To go on without them, remove the files {ACKNOWLEDGED_FILE} and "
                f"{OPENED_FILE}: the node asks its peers for them before it takes writes"
            )

    async def _prove(self) -> None:
        """See whether the folder is the one that was last open here, with all that it had then."""
        folder = self.path.parent
        found = await asyncio.to_thread(read_opening, folder, LOG_FILE)
        opening = self._meta.get("opening")
        is_same = found is not None and opening == str(found)
        was_clean = self._meta.get("clean_shutdown") == "yes"
        was_synced = self._meta.get("fsync") == Fsync.ALWAYS.value
        if is_same and opening is not None:
            told = read_acknowledged(folder, opening)
            # A power cut may take rows that were never synced, and nothing else may.
            if told is not None and (was_clean or was_synced or told.is_same_boot):
                self._check_last(told.seq, self._last_seq)
        self.is_proven = is_same and (was_clean or was_synced)
        self._acknowledged = AcknowledgedFile(folder)
        await self.set_meta("clean_shutdown", "no")
        if self.is_proven:
            await self.confirm()
        else:
            self._acknowledged.begin(opening or "", self._last_seq)

    async def confirm(self) -> None:
        # Whatever stops this half-way leaves a folder that proves nothing at the next start.
        folder = self.path.parent
        try:
            found = await asyncio.to_thread(read_opening, folder, LOG_FILE)
            before = (self._meta.get("opening") or "0").split()[0]
            count = max(int(before), 0 if found is None else found.count) + 1
            opening = await asyncio.to_thread(write_opening, folder, count, LOG_FILE)
        except OSError as error:
            raise StoreError(
                f"{error.filename or folder}: {error.strerror}; check space and rights"
            ) from error
        await self._write_meta({"fsync": self._fsync.value, "opening": str(opening)})
        await self.sync()
        assert self._acknowledged is not None
        self._acknowledged.begin(str(opening), self._last_seq)
        self._is_confirmed = True

    async def revoke(self) -> None:
        self._is_confirmed = False
        await self.set_meta("opening", "0 revoked")
        await self.sync()

    # --- The log ------------------------------------------------------------------------------

    @property
    def last_seq(self) -> int:
        return self._last_seq

    @property
    def first_seq(self) -> int:
        return self._first_seq

    @property
    def begins(self) -> VersionVector:
        return self._begins

    def append_at_once(self, records: Sequence[Record]) -> bool:
        assert records
        if not (self.connections.lets_write_at_once and self._is_light(records)):
            return False
        self._failpoints.reach("log.append")
        logged = self._placed(records)
        try:
            size = self._write_at_once(logged)
        except DAMAGED as error:
            raise self._refusal(error) from error
        if size is not None:
            self._note_appended(logged, size)
        return size is not None

    async def append(self, records: Sequence[Record]) -> None:
        assert records
        self._failpoints.reach("log.append")
        logged = self._placed(records)
        await self.connections.wait_for_wal(WAL_BYTES_COMMITS_MAX)
        try:
            async with self.connections.turn:
                # Perhaps it had to wait for its turn only.
                size = self._write_at_once(logged) if self._is_light(records) else None
                if size is None:
                    size = await self._writer.call(self._write_in_thread, logged)
        except DAMAGED as error:
            raise self._refusal(error) from error
        self._note_appended(logged, size)

    def _is_light(self, records: Sequence[Record]) -> bool:
        """Whether a commit of them takes little time, as far as one can know."""
        return (
            len(records) <= AT_ONCE_ROWS_MAX
            and _row_bytes(records) <= AT_ONCE_BYTES_MAX
            and (self._fsync is not Fsync.ALWAYS or self._pace.is_quick(time.perf_counter_ns()))
        )

    def _write_at_once(self, logged: Sequence[Logged]) -> int | None:
        """Commit here and now; returns what the rows count in the log's size.

        Returns:
            None: another process is writing, and nothing was done.
        """
        values, size = self._values(logged)
        began_ns = time.perf_counter_ns()
        is_written = self._writer.execute_at_once(_insert_statement(len(logged)), values)
        if self._fsync is Fsync.ALWAYS:
            ended_ns = time.perf_counter_ns()
            self._pace.note(ended_ns - began_ns, ended_ns)
        return size if is_written else None

    def _write_in_thread(self, connection: sqlite3.Connection, logged: Sequence[Logged]) -> int:
        """The same in the writer's thread, which waits for whoever writes."""
        values, size = self._values(logged)
        connection.execute(_insert_statement(len(logged)), values)
        return size

    def _values(self, logged: Sequence[Logged]) -> tuple[list[object], int]:
        """The values of rows, and what these count in the log's size.

        Whoever calls has the connection to himself, and the packer with it.
        """
        assert len(logged) <= ROWS_PER_STATEMENT_MAX
        rows = [self._packer.columns(one) for one in logged]
        return [value for columns in rows for value in columns], sum(map(stored_bytes, rows))

    def _placed(self, records: Sequence[Record]) -> list[Logged]:
        return [Logged(seq, record) for seq, record in enumerate(records, self._last_seq + 1)]

    def _refusal(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self.path}: cannot write row {self._last_seq + 1}: {error}"
            f"{self._if_full(error)}; check space, rights and "
            "health of the disk. Nothing acknowledged is lost, and writing is tried again"
        )

    def _if_full(self, error: Exception) -> str:
        """What SQLite does not say when it is a file beside the log that cannot grow."""
        with contextlib.suppress(OSError):
            disk = os.statvfs(self.path.parent)
            if disk.f_bavail * disk.f_frsize < FULL_BYTES and "full" not in str(error):
                return ", and the disk is full"
        return ""

    def _note_appended(self, logged: Sequence[Logged], size: int) -> None:
        self._last_seq = logged[-1].seq
        assert self._acknowledged is not None
        self._acknowledged.note(self._last_seq)
        self._bytes += size
        self.connections.note_written(size)
        self._tail.push(logged)

    async def write_ahead(self) -> None:
        """Spare commits the file system's journal, where they sync; it takes a moment."""
        if self._fsync is Fsync.ALWAYS:
            await self.connections.write_ahead()

    async def sync(self) -> None:
        await self.connections.sync()

    async def set_fsync(self, fsync: Fsync) -> None:
        """Have commits be durable at another time from now on, and after a restart.

        With ``ALWAYS``, everything that was committed before is durable when this returns.

        Raises:
            StoreError: it could not be written; commits are at least as durable as before.
        """
        if fsync is self._fsync:
            return
        if fsync is Fsync.ALWAYS:
            await self.connections.write_ahead()
            await self._set_synchronous(fsync)
            await self.sync()
            await self.set_meta("fsync", fsync.value)
            self._pace = Pace()
        else:
            # The folder says first that a power cut may take something from it.
            await self.set_meta("fsync", fsync.value)
            await self._set_synchronous(fsync)
        self._fsync = fsync

    async def _set_synchronous(self, fsync: Fsync) -> None:
        # FULL syncs the write-ahead log at each commit, NORMAL only before it is moved.
        synchronous = "FULL" if fsync is Fsync.ALWAYS else "NORMAL"
        try:
            async with self.connections.turn:
                await self._writer.execute(f"PRAGMA synchronous = {synchronous}")
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot set when commits sync: {error}") from error

    async def read_from(self, seq: int, *, bytes_max: int) -> list[Logged]:
        assert seq >= 1
        if seq < self._first_seq:
            raise LogCutError(
                f"{self.path}: row {seq} is not in the log any more; it begins with row "
                f"{self._first_seq}"
            )
        if seq > self._last_seq:
            return []
        if self._tail.holds(seq):
            return leading_within(self._tail.iterate_from(seq), bytes_max)
        last = await self._last_within(seq, max(1, int(bytes_max * self._packed_to)))
        query = f"SELECT {ROW_COLUMNS} FROM log WHERE seq BETWEEN ? AND ? ORDER BY seq"
        found = await self._fetch(query, (seq, last))
        if len(found) != last - seq + 1:
            if seq < self._first_seq:
                # It was cut meanwhile.
                return await self.read_from(seq, bytes_max=bytes_max)
            raise StoreError(f"{self.path}: a row of {seq} to {last} is missing. {ADVICE}")
        return await asyncio.to_thread(self._unpacked, found, bytes_max)

    def _unpacked(self, found: Sequence[Sequence[object]], bytes_max: int) -> list[Logged]:
        """The leading rows that take ``bytes_max`` when they are unpacked, and at least one.

        Raises:
            StoreError: one is damaged.
        """
        reader, taken = RowReader(), list[Logged]()
        stored = plain = total = 0
        for columns in found:
            logged, is_sound = reader.read(columns)
            if logged is None or not is_sound:
                raise StoreError(
                    f"{self.path}: row {columns[0]} of table log is damaged (checksum). {ADVICE}"
                )
            size = record_bytes(logged.record)
            if taken and total + size > bytes_max:
                break
            taken.append(logged)
            stored, total = stored + stored_bytes(columns), total + size
            plain += _row_bytes([logged.record])
        if plain:
            self._packed_to = min(1.0, stored / plain)
        return taken

    async def _last_within(self, seq: int, bytes_max: int) -> int:
        """The last row that a read of so many bytes from ``seq`` takes, as they stand in the table;
        lengths only, no blobs."""
        query = (
            "SELECT seq, coalesce(length(batch), 0) + coalesce(length(local), 0) "
            "FROM log WHERE seq >= ? ORDER BY seq LIMIT ?"
        )
        last, total = seq, 0
        for row_seq, row_bytes in await self._fetch(query, (seq, ROWS_PER_READ_MAX)):
            total += row_bytes
            if total > bytes_max and row_seq > seq:
                break
            # Of a damaged page they may not ascend.
            last = max(last, row_seq)
        return last

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        # Batches of one origin stand in the log in the order of their numbers.
        origins = sorted(origins)
        query = (
            "SELECT seq, first_n FROM log WHERE origin = ? AND last_n > ? AND batch IS NOT NULL "
            "ORDER BY last_n LIMIT 1"
        )
        check_reaches(self._begins, vv, origins)
        first = self._last_seq + 1
        for origin in origins:
            wanted_n = vv.get(origin, 0) + 1
            for seq, first_n in await self._fetch(query, (origin, wanted_n - 1)):
                # It may have been cut meanwhile.
                check_reaches(self._begins, vv, [origin])
                if first_n > wanted_n:
                    raise StoreError(
                        f"{self.path}: effect {wanted_n} of region {origin} is missing. {ADVICE}"
                    )
                first = min(first, seq)
        return first

    # --- Cutting ------------------------------------------------------------------------------

    async def forget_upto(self, upto_seq: int) -> None:
        """Cut off the rows up to and with this one, which a checkpoint has.

        Raises:
            StoreError: the disk refused, or rows are missing.  Rows may be left that are not in the
                log any more; the next call deletes them.
        """
        assert upto_seq <= self._last_seq
        self._failpoints.reach("log.cut")
        await self.count_older()
        if upto_seq >= self._first_seq:
            begins, size = await self._passed(upto_seq)
            # First the log begins there, then what is before it goes.
            await self._write_meta({FIRST_KEY: str(upto_seq + 1), BEGINS_KEY: format_vv(begins)})
            self._first_seq, self._begins = upto_seq + 1, begins
            self._bytes -= size
        while (cut := await self._next_cut()) is not None:
            self._failpoints.reach("log.cut-slice")
            await self.connections.write(
                "DELETE FROM log WHERE seq <= ?", (cut.last,), what="table log"
            )
            # A page that becomes free is named in others, which are written.
            self.connections.note_written(cut.bytes // 64)

    async def _passed(self, upto_seq: int) -> tuple[MutableVersionVector, int]:
        """The version vector behind this row, and how many bytes the rows before it have."""
        begins, size = dict(self._begins), 0
        query = (
            "SELECT origin, max(last_n), sum(length(batch) + coalesce(length(local), 0)) "
            "FROM log WHERE seq BETWEEN ? AND ? AND batch IS NOT NULL GROUP BY origin"
        )
        locals_query = (
            "SELECT coalesce(sum(length(local)), 0) FROM log "
            "WHERE seq BETWEEN ? AND ? AND batch IS NULL"
        )
        for first in range(self._first_seq, upto_seq + 1, COUNT_ROWS_MAX):
            between = (first, min(upto_seq, first + COUNT_ROWS_MAX - 1))
            for origin, last_n, row_bytes in await self._scan(query, between):
                region = RegionId(origin)
                begins[region] = max(begins.get(region, 0), last_n)
                size += row_bytes
            ((row_bytes,),) = await self._scan(locals_query, between)
            size += row_bytes
        return begins, size

    async def _next_cut(self) -> _Cut | None:
        """A slice of the rows before the first one that can be deleted at once."""
        query = (
            "SELECT seq, coalesce(length(batch), 0) + coalesce(length(local), 0) "
            "FROM log WHERE seq < ? ORDER BY seq LIMIT ?"
        )
        cut: _Cut | None = None
        for seq, row_bytes in await self._scan(query, (self._first_seq, CUT_ROWS_MAX)):
            if cut is not None and cut.bytes + row_bytes > CUT_BYTES_MAX:
                break
            if cut is None:
                cut = _Cut(seq, row_bytes)
            else:
                # Of a damaged page they may not ascend; all of these must go.
                cut = _Cut(max(cut.last, seq), cut.bytes + row_bytes)
        return cut

    async def give_back(self, *, spare_bytes: int = 0) -> None:
        """Give free pages back to the file system, but for some that will be written again soon.

        Args:
            spare_bytes: of rows that the log will take; there are pages for them and their index.

        Raises:
            StoreError: the disk refused.
        """
        self._failpoints.reach("log.vacuum")
        if await self._pragma("auto_vacuum") != INCREMENTAL:
            return
        pages, free = await self._pages()
        spare_pages = spare_bytes * SPACE_PER_BYTES[0] // SPACE_PER_BYTES[1] // PAGE_BYTES
        kept = max(FREE_PAGES_KEPT_MIN, (pages - free) // 8, spare_pages)
        if free <= kept:
            return
        for left in range(free - kept, 0, -VACUUM_PAGES):
            count = min(left, VACUUM_PAGES)
            await self.connections.write(
                f"PRAGMA incremental_vacuum({count})", (), what="free pages"
            )
            self.connections.note_written(count * PAGE_BYTES)
        # The file itself becomes shorter when its end is moved over.
        await self.connections.move_wal()

    async def _pages(self) -> tuple[int, int]:
        """Pages of the file, and how many of them are free."""
        return await self._pragma("page_count"), await self._pragma("freelist_count")

    async def _pragma(self, name: str) -> int:
        ((value,),) = await self._scan(f"PRAGMA {name}")
        return int(value)

    # --- Settings -----------------------------------------------------------------------------

    async def get_meta(self, key: str) -> str | None:
        return self._meta.get(key)

    async def set_meta(self, key: str, value: str) -> None:
        await self._write_meta({key: value})

    async def _write_meta(self, changed: Mapping[str, str]) -> None:
        """Change settings, all or none."""
        # Who is cancelled leaves a statement that is carried out all the same: what this object
        # knows must follow, or the checksum of the next one would not cover what the file says.
        await asyncio.shield(asyncio.ensure_future(self._write_whole_meta(changed)))

    async def _write_whole_meta(self, changed: Mapping[str, str]) -> None:
        async with self.connections.turn:
            meta = {**self._meta, **changed}
            meta[CHECKSUM_KEY] = meta_checksum(meta)
            keys = [*changed, CHECKSUM_KEY]
            statement = "INSERT OR REPLACE INTO meta VALUES " + ",".join(["(?,?)"] * len(keys))
            values = [value for key in keys for value in (key, meta[key])]
            try:
                await self._writer.execute(statement, values)
            except DAMAGED as error:
                named = " and ".join(repr(key) for key in changed)
                raise StoreError(f"{self.path}: cannot write {named}: {error}") from error
            self._meta = meta

    # --- The end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close with the mark that nothing was lost; the caller has committed all it had."""
        try:
            if self._is_confirmed:
                # What was copied while the node ran is an earlier state from here on.
                await self.confirm()
            await self._write_meta({"clean_shutdown": "yes", LAST_KEY: str(self._last_seq)})
            await self.sync()
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Close without that mark, as a crash would."""
        await self.connections.close()
        if self._acknowledged is not None:
            self._acknowledged.close()
        os.close(self._lock)

    def bytes_on_disk(self) -> int:
        """Size of the files."""
        paths = (self.path, self.connections.wal_path)
        return sum(path.stat().st_size for path in paths if path.exists())

    @property
    def tail_bytes(self) -> int:
        """What the last records take that are in memory."""
        return self._tail.bytes

    @property
    def tail_spare_bytes(self) -> int:
        """How much less that would be with a short tail."""
        return max(0, self._tail.bytes - TAIL_BYTES_SHORT)

    def bound_tail(self, *, is_short: bool) -> None:
        """Keep many of the last records in memory, for links that are up to date; or few, where
        memory is wanted for other things: links read the others from disk."""
        self._tail.bound(TAIL_BYTES_SHORT if is_short else TAIL_BYTES_MAX)

    async def bytes_from(self, seq: int) -> int:
        """How many bytes the records from ``seq`` on take, as if all took the same."""
        counted = self._last_seq - self._first_seq + 1 - len(self._older)
        return self._bytes * (self._last_seq - seq + 1) // counted if counted else 0

    async def sizes(self) -> tuple[int, int]:
        """Bytes of the rows of the log, and of free pages."""
        _, free = await self._pages()
        return await self.bytes_from(self._first_seq), free * PAGE_BYTES

    async def _fetch(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        return await self.connections.fetch(self.connections.reader, query, values)

    async def _scan(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """The same for what may take long."""
        return await self.connections.fetch(self.connections.keeper, query, values)


def _row_bytes(records: Iterable[Record]) -> int:
    return sum(len(record.batch or b"") + len(record.local or b"") for record in records)


# SQLite prepares a statement once while its text is the same; nearly all are of a few rows.
@lru_cache(64)
def _insert_statement(rows: int) -> str:
    # REPLACE, because a commit that failed is repeated with the same records: should some error
    # have come after they were written, they are written once more and not refused.
    marks = ",".join(["(?,?,?,?,?,?,?)"] * rows)
    return f"INSERT OR REPLACE INTO log ({ROW_COLUMNS}) VALUES {marks}"


def lock_folder(folder: Path) -> int:
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
