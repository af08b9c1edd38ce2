"""The log in SQLite: a table of rows, one of settings, in one file of the region's folder.

    folder/
        lock            held by the process that has the folder open, as is log.sqlite itself
                        (``folder_lock.py``)
        opened          which start with this folder was the last one (``opening.py``)
        acknowledged    how far the log was acknowledged (``acknowledged.py``)
        reserve         room for a start on a full disk (``reserve.py``)
        log.sqlite      tables (``layout.py``); SQLite keeps -wal and -shm beside it

A record is a row of the table.  A group commit is one INSERT statement with all its rows and, with
``appendfsync always``, one fsync.  It runs on the event loop if that takes little time, else in a
thread (``append_at_once``, ``append``).  In WAL mode a commit does not stop readers, so links read
on a connection of their own.  The last records are also kept in memory, so links that are up to
date never touch the disk.

Each row carries a CRC-32 over all its other columns.  A row that does not match is never skipped:
opening, replaying and sending all stop with the file, the row and what to do.
"""

import asyncio
import contextlib
import errno
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from crdtstream.core.clock import VersionVector, format_vv, join
from crdtstream.core.effects import Record
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.store.acknowledged import AcknowledgedFile
from crdtstream.store.claim import Claim
from crdtstream.store.connections import (
    ADVICE,
    PAGE_BYTES,
    WAL_BYTES_COMMITS_MAX,
    Connections,
    is_full,
    not_begun,
    open_connections,
    unusable,
)
from crdtstream.store.errors import DAMAGED, LogCutError, NoRoomError, StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, Failpoints
from crdtstream.store.folder_lock import LOG_FILE, FolderLock, lock_folder
from crdtstream.store.format_number import FORMAT, FORMAT_KEY
from crdtstream.store.layout import parse_vv
from crdtstream.store.log import Fsync, Logged, check_reaches, leading_within
from crdtstream.store.lost_end import LAST_KEY, Loss, find_loss, keep_damaged_wal, refusal
from crdtstream.store.marker import EmptyFolder, Marker, check_not_emptied, keep_marker
from crdtstream.store.meta import UID_KEY, VOLUME_KEY, MetaTable
from crdtstream.store.opening import read_opening, write_opening
from crdtstream.store.pace import Pace
from crdtstream.store.presence import FIRST_KEY, Presence, gone
from crdtstream.store.reserve import keep_reserve, release_reserve
from crdtstream.store.row_queries import (
    COUNT_ROWS_MAX,
    last_within,
    next_cut,
    passed,
    unpack_rows,
)
from crdtstream.store.rows import ROW_COLUMNS, RowPacker, stored_bytes
from crdtstream.store.space import pages_and_free
from crdtstream.store.tail import TAIL_BYTES_MAX, TAIL_BYTES_SHORT, Tail

Result = TypeVar("Result")

# The opening of a folder that proves nothing.
REVOKED: Final = "0 revoked"
# With FIRST_KEY: where the log begins, once its beginning was cut off.
BEGINS_KEY: Final = "log_begins"
# Up to where effects came by a state that was merged, and by no record.
LACKS_KEY: Final = "log_lacks"

# A statement's rows: seven values each, and SQLite allows 32,766 of them.
ROWS_PER_STATEMENT_MAX: Final = 4_000
# A commit that is made at once: packing and SQLite take a few milliseconds for either.
AT_ONCE_ROWS_MAX: Final = Size(1_000, least=0)
AT_ONCE_BYTES_MAX: Final = Size(256 << 10, least=0)


logger = structlog.get_logger(__name__)


class SqliteLog:
    """A log in a folder; made by ``open``.

    Attributes:
        fresh: the folder was empty.
        is_same: it is the one that was last open here.
        is_proven: the same, and nothing of the log's end was lost.
        connections: to the database, which holds checkpoints as well.
    """

    def __init__(
        self,
        path: Path,
        lock: FolderLock,
        connections: Connections,
        fsync: Fsync,
        failpoints: Failpoints,
        volume_id: str = "",
    ) -> None:
        self.path = path
        self.connections = connections
        self.fresh = False
        self.is_same = False
        self.is_proven = False
        self._has_begun = False
        self._presence: Presence | None = None
        self._failpoints = failpoints
        self._fsync = fsync
        self._volume_id = volume_id
        self._is_confirmed = False
        # Its marker was looked at; where none can be written, one warning is enough.
        self._is_marked = False
        self._lock = lock
        self._writer = connections.writer
        self._pace = Pace()
        self._packer = RowPacker()
        # Of rows read last: what they took in the table, as a part of what they are.
        self._packed_to = 1.0
        self._acknowledged: AcknowledgedFile | None = None
        self.meta = MetaTable(connections)
        self._first_seq = 1
        # Up to where effects were cut off, and up to where some came by a merged state.
        self._begins: VersionVector = {}
        self._lacks: VersionVector = {}
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
        empty: EmptyFolder = EmptyFolder.IS_NEW,
        on_loss: Mapping[str, str] | None = None,
        volume_id: str = "",
    ) -> "SqliteLog":
        """Open the region's folder, or make it.

        Args:
            empty: the rule for a folder without data.
            on_loss: if the end of the log is lost, go on with what is left, unproven, and change
                these settings; None: do not open it.
            volume_id: of the volume that the folder is on; empty: unknown.

        Raises:
            StoreError: another process has it open, it belongs to another region or database, it
                is of another format, it is damaged, it cannot be read, or it is empty and has
                held the database.
        """
        path = folder / LOG_FILE
        if empty is EmptyFolder.IS_NEW_IF_UNMARKED and not path.exists():
            # Before anything is made: a backup can be restored into it as it is.
            check_not_emptied(folder, region=region, database_id=database_id)
        async with contextlib.AsyncExitStack() as opened:
            try:
                lock = lock_folder(folder, makes_log=True)
                opened.callback(lock.close)
                loss = await _with_room(path, partial(asyncio.to_thread, find_loss, path))
                if loss is not None and (on_loss is None or loss.is_all):
                    raise StoreError(refusal(path, loss))
                kept = None if loss is None else await asyncio.to_thread(keep_damaged_wal, path)
                connections = await _with_room(path, partial(_connect, path, opened, failpoints))
                log = cls(path, lock, connections, fsync, failpoints, volume_id)
                await log._set_synchronous(fsync)
                wanted = {
                    FORMAT_KEY: FORMAT,
                    "region": str(region),
                    "database_id": database_id,
                }
                claim = Claim(connections, log.meta, empty=empty)
                log.fresh = await claim.make(wanted)
                await log._count_rows()
                if loss is not None and on_loss is not None:
                    await log._accept(loss, kept, on_loss)
                await log._prove()
                assert lock.log is not None
                log._presence = Presence(path, os.fstat(lock.log))
            except OSError as error:
                raise StoreError(
                    f"{folder}: {error.strerror or error}; check path and rights"
                ) from error
            except DAMAGED as error:
                raise StoreError(unusable(path, error)) from error
            # From here on closing is the log's business.
            opened.pop_all()
            return log

    # --- Opening ------------------------------------------------------------------------------

    async def _count_rows(self) -> None:
        """Find the last row, and see that no row is missing of those that a start reads.

        Those which a checkpoint has are there for other regions only; there may be a GiB of them.
        ``count_older`` looks at them, later.
        """
        try:
            self._first_seq = int(self.meta.get(FIRST_KEY) or "1")
            self._begins = parse_vv(self.meta.get(BEGINS_KEY) or "")
            self._lacks = parse_vv(self.meta.get(LACKS_KEY) or "")
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

    async def count_older(self) -> None:
        """Look for missing rows among those that a checkpoint had at the start, if not yet done.

        Raises:
            StoreError: rows are missing, or cannot be read.  A read that needs them raises it, too.
        """
        async with self._counting:
            while older := self._older:
                some = older[: COUNT_ROWS_MAX.value]
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

    async def _prove(self) -> None:
        """See whether the folder is the one that was last open here, with all that it had then."""
        folder = self.path.parent
        found = await asyncio.to_thread(read_opening, folder, LOG_FILE)
        opening = self.meta.get("opening")
        # One that was noted before there was an ID of its volume is the same on any.
        is_same_volume = (self.meta.get(VOLUME_KEY) or "") in ("", self._volume_id)
        self.is_same = found is not None and opening == str(found) and is_same_volume
        was_clean = self.meta.get("clean_shutdown") == "yes"
        was_synced = self.meta.get("fsync") == Fsync.ALWAYS.value
        self.is_proven = self.is_same and (was_clean or was_synced)
        self._acknowledged = AcknowledgedFile(folder)
        # On a full disk the folder stays as it was found, and is read.
        with contextlib.suppress(NoRoomError):
            await self._begin()

    async def _accept(self, loss: Loss, kept: Path | None, settings: Mapping[str, str]) -> None:
        """Go on without the lost end, in a folder that proves nothing."""
        logger.error(
            "the end of the log is lost: the node goes on with what is left",
            log=str(self.path),
            lost=loss.text,
            damaged_file_kept=str(kept),
        )
        # Bytes in the file behind the damage must not be taken for damage again.
        await self.connections.begin_wal_anew()
        await self.meta.write({**settings, "opening": REVOKED})

    async def _begin(self) -> None:
        """Have the folder say that a node has it open; before that nothing is written to it.

        Raises:
            NoRoomError: the disk is full.  The same call may be made again.
            StoreError: the disk refuses.
        """
        if self._has_begun:
            return
        assert self._acknowledged is not None
        try:
            await self.set_meta("clean_shutdown", "no")
            if self.is_proven:
                await self._confirm()
            else:
                opening = self.meta.get("opening") or ""
                self._acknowledged.begin(opening, self._last_seq)
        except NoRoomError as error:
            raise not_begun(self.path, str(error)) from error
        self._has_begun = True

    async def confirm(self) -> None:
        await self._begin()
        try:
            await self._confirm()
        except NoRoomError as error:
            raise not_begun(self.path, str(error)) from error

    async def _confirm(self) -> None:
        await asyncio.to_thread(self._check_there, self._last_seq)
        await asyncio.to_thread(self._keep_marker)
        # Whatever stops this half-way leaves a folder that proves nothing at the next start.
        folder = self.path.parent
        try:
            found = await asyncio.to_thread(read_opening, folder, LOG_FILE)
            before = (self.meta.get("opening") or "0").split()[0]
            count = max(int(before), 0 if found is None else found.count) + 1
            opening = await asyncio.to_thread(write_opening, folder, count, LOG_FILE)
        except OSError as error:
            kind = NoRoomError if error.errno == errno.ENOSPC else StoreError
            raise kind(
                f"{error.filename or folder}: {error.strerror}; check space and rights"
            ) from error
        proof = {"opening": str(opening), VOLUME_KEY: self._volume_id}
        await self.meta.write({"fsync": self._fsync.value, **proof})
        await self.sync()
        assert self._acknowledged is not None
        self._acknowledged.begin(str(opening), self._last_seq)
        self._is_confirmed = True

    def _keep_marker(self) -> None:
        identity = self.meta.get(UID_KEY)
        if identity is not None and not self._is_marked:
            self._is_marked = True
            database_id, region = self.meta["database_id"], int(self.meta["region"])
            keep_marker(self.path.parent, Marker(database_id, identity, region))

    async def look(self) -> None:
        await asyncio.to_thread(self._look, self._last_seq)
        await self._begin()

    def _look(self, seq: int) -> None:
        self._check_there(seq)
        keep_reserve(self.path.parent)

    def _check_there(self, seq: int) -> None:
        """See whether the files are those that are open, and have this row; from here on writes
        go by it.

        Raises:
            StoreError: they are not.
        """
        problem = ""
        if self._presence is not None:
            problem = self._presence.problem() or self._presence.problem_of_commit(seq)
        # Said once both are known: in between a write would be taken.
        self.connections.gone = gone(problem) if problem else ""
        self.connections.check_there()

    async def revoke(self) -> None:
        await self._begin()
        self._is_confirmed = False
        await self.set_meta("opening", REVOKED)
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
        begins = dict(self._begins)
        join(begins, self._lacks)
        return begins

    def append_at_once(self, records: Sequence[Record]) -> bool:
        assert records
        if not self._has_begun:
            return False
        if self.connections.gone:
            self.connections.check_there()
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
        self.connections.check_there()
        await self._begin()
        self._failpoints.reach("log.append")
        logged = self._placed(records)
        await self.connections.wait_for_wal(WAL_BYTES_COMMITS_MAX.value)
        try:
            async with self.connections.turn:
                # Perhaps it had to wait for its turn only.
                size = self._write_at_once(logged) if self._is_light(records) else None
                if size is None:
                    size = await self._writer.call(self._write_in_thread, logged)
        except DAMAGED as error:
            raise self._refusal(error) from error
        # The folder may have gone during the commit: then the same rows are written again.
        self.connections.check_there()
        self._note_appended(logged, size)

    def _is_light(self, records: Sequence[Record]) -> bool:
        """True if a commit of them probably takes little time."""
        return (
            len(records) <= AT_ONCE_ROWS_MAX.value
            and _row_bytes(records) <= AT_ONCE_BYTES_MAX.value
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
        """The same in the writer's thread, which waits while another connection writes."""
        values, size = self._values(logged)
        connection.execute(_insert_statement(len(logged)), values)
        return size

    def _values(self, logged: Sequence[Logged]) -> tuple[list[object], int]:
        """The values of rows, and what these count in the log's size.

        The caller has the connection to itself, and the packer with it.
        """
        assert len(logged) <= ROWS_PER_STATEMENT_MAX
        values: list[object] = []
        size = 0
        for one in logged:
            columns = self._packer.columns(one)
            values += columns
            size += stored_bytes(columns)
        return values, size

    def _placed(self, records: Sequence[Record]) -> list[Logged]:
        return [Logged(seq, record) for seq, record in enumerate(records, self._last_seq + 1)]

    def _refusal(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self.path}: cannot write row {self._last_seq + 1}: {error}"
            f"{self._if_full(error)}; check space, rights and "
            "health of the disk. Nothing acknowledged is lost, and writing is tried again"
        )

    def _if_full(self, error: Exception) -> str:
        """Text to add to an error of SQLite that does not say that the disk is full.

        SQLite does not say it if a file beside the log cannot grow.
        """
        if is_full(self.path, error) and "full" not in str(error):
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
        seq = self._last_seq
        await self.connections.sync()
        if self._acknowledged is not None:
            self._acknowledged.note_synced(seq)

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
        stored_max = max(1, int(bytes_max * self._packed_to))
        last = await last_within(self.connections, seq, stored_max)
        query = f"SELECT {ROW_COLUMNS} FROM log WHERE seq BETWEEN ? AND ? ORDER BY seq"
        found = await self._fetch(query, (seq, last))
        if len(found) != last - seq + 1:
            if seq < self._first_seq:
                # The log was cut during the read.
                return await self.read_from(seq, bytes_max=bytes_max)
            raise StoreError(f"{self.path}: a row of {seq} to {last} is missing. {ADVICE}")
        try:
            logged, self._packed_to = await asyncio.to_thread(unpack_rows, found, bytes_max)
        except ValueError as error:
            raise StoreError(f"{self.path}: {error}. {ADVICE}") from error
        return logged

    async def seek(self, vv: VersionVector, origins: Iterable[RegionId]) -> int:
        # Batches of one origin stand in the log in the order of their numbers.
        origins = sorted(origins)
        query = (
            "SELECT seq, first_n FROM log WHERE origin = ? AND last_n > ? AND batch IS NOT NULL "
            "ORDER BY last_n LIMIT 1"
        )
        check_reaches(self.begins, vv, origins)
        first = self._last_seq + 1
        for origin in origins:
            wanted_n = vv.get(origin, 0) + 1
            for seq, first_n in await self._fetch(query, (origin, wanted_n - 1)):
                # The log may have been cut since.
                check_reaches(self.begins, vv, [origin])
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
            rows = range(self._first_seq, upto_seq + 1)
            begins, size = await passed(self.connections, self._begins, rows)
            # First the log begins there, then the rows before it are deleted.
            await self.meta.write({FIRST_KEY: str(upto_seq + 1), BEGINS_KEY: format_vv(begins)})
            self._first_seq, self._begins = upto_seq + 1, begins
            self._bytes -= size
        while (cut := await next_cut(self.connections, self._first_seq)) is not None:
            self._failpoints.reach("log.cut-slice")
            await self.connections.write(
                "DELETE FROM log WHERE seq <= ?",
                (cut.last,),
                # A page that becomes free is named in others, which are written.
                size=cut.bytes // 64,
                what="table log",
            )

    async def note_lacks(self, vv: VersionVector) -> None:
        lacks = dict(self._lacks)
        join(lacks, vv)
        await self.meta.write({LACKS_KEY: format_vv(lacks)})
        await self.sync()
        self._lacks = lacks

    # --- Settings -----------------------------------------------------------------------------

    async def get_meta(self, key: str) -> str | None:
        return self.meta.get(key)

    async def set_meta(self, key: str, value: str) -> None:
        await self.meta.write({key: value})

    # --- The end ------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close with the mark that nothing was lost; the caller has committed all it had."""
        try:
            if self._is_confirmed:
                # A copy that was made while the node ran is an earlier state from here on.
                await self.confirm()
            await self.meta.write({"clean_shutdown": "yes", LAST_KEY: str(self._last_seq)})
            await self.sync()
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Close without that mark, as a crash would."""
        await self.connections.close()
        if self._acknowledged is not None:
            self._acknowledged.close()
        self._lock.close()

    def bytes_on_disk(self) -> int:
        """Size of the files.

        Raises:
            StoreError: the disk does not say.
        """
        return _size_of(self.path) + self.wal_bytes()

    def wal_bytes(self) -> int:
        """Size of the write-ahead log's file.

        Raises:
            StoreError: the disk does not say.
        """
        return _size_of(self.connections.wal_path)

    @property
    def tail_bytes(self) -> int:
        """Bytes of the last records, which are in memory."""
        return self._tail.bytes

    @property
    def tail_spare_bytes(self) -> int:
        """Bytes that a short tail would save of ``tail_bytes``."""
        return max(0, self._tail.bytes - TAIL_BYTES_SHORT.value)

    def bound_tail(self, *, is_short: bool) -> None:
        """Keep many of the last records in memory, for links that are up to date; or few, where
        memory is wanted for other things: links read the others from disk."""
        self._tail.bound(TAIL_BYTES_SHORT.value if is_short else TAIL_BYTES_MAX.value)

    async def bytes_from(self, seq: int) -> int:
        """Size in bytes of the records from ``seq`` on, as if all had the same size.

        Raises:
            StoreError: rows are missing, or cannot be read.
        """
        # The bounds on a kept log use this: before all were counted it would be a guess, or 0.
        await self.count_older()
        return self._bytes_from(seq)

    def _bytes_from(self, seq: int) -> int:
        counted = self._last_seq - self._first_seq + 1 - len(self._older)
        return self._bytes * (self._last_seq - seq + 1) // counted if counted else 0

    def record_bytes(self) -> int:
        """Bytes of all records; the rest of the file are checkpoints and free space."""
        return self._bytes_from(self._first_seq)

    async def sizes(self) -> tuple[int, int]:
        """Bytes of the rows of the log, and of free pages."""
        _, free = await pages_and_free(self.connections)
        return self.record_bytes(), free * PAGE_BYTES

    async def _fetch(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        return await self.connections.fetch(self.connections.reader, query, values)

    async def _scan(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """The same for what may take long."""
        return await self.connections.fetch(self.connections.keeper, query, values)


async def _connect(
    path: Path, closing: contextlib.AsyncExitStack, failpoints: Failpoints
) -> Connections:
    """Connect to the database; connections are closed again if that fails."""
    async with contextlib.AsyncExitStack() as trying:
        connections = await open_connections(path, trying, failpoints)
        await closing.enter_async_context(trying.pop_all())
        return connections


async def _with_room(path: Path, call: Callable[[], Awaitable[Result]]) -> Result:
    """The result of a call that opens the database.

    On a full disk it is made again with the room that the folder has kept back.
    """
    try:
        return await call()
    except sqlite3.Error as error:
        if not (is_full(path, error) and release_reserve(path.parent)):
            raise
    return await call()


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be looked at: {error.strerror}; check the disk"
        ) from error


def _row_bytes(records: Iterable[Record]) -> int:
    size = 0
    for record in records:
        size += len(record.batch or b"") + len(record.local or b"")
    return size


# SQLite prepares a statement once while its text is the same; nearly all are of a few rows.
@lru_cache(64)
def _insert_statement(rows: int) -> str:
    # REPLACE, because a commit that failed is repeated with the same records: should some error
    # have come after they were written, they are written once more and not refused.
    marks = ",".join(["(?,?,?,?,?,?,?)"] * rows)
    return f"INSERT OR REPLACE INTO log ({ROW_COLUMNS}) VALUES {marks}"
