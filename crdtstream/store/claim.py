"""Claiming a folder: check its tables and format, and make an empty folder a region's.

Format 1 had the number 5 before; such a folder gets the new number at its first start.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

from crdtstream.core.size import Size
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.store.acknowledged import ACKNOWLEDGED_FILE, has_acknowledged
from crdtstream.store.connections import ADVICE, Connections
from crdtstream.store.errors import StoreError
from crdtstream.store.format_number import FORMAT, FORMAT_KEY, KEY_BEFORE, renumbered
from crdtstream.store.layout import CHECKSUM_KEY, TABLES, meta_checksum
from crdtstream.store.marker import EmptyFolder, check_not_emptied
from crdtstream.store.meta import MetaTable
from crdtstream.store.rows import ROW_COLUMNS, RowReader

# Rows of one read; a batch is seldom of more than some hundred KiB.
CHECK_ROWS_MAX: Final = Size(100, least=1)


class Claim:
    """A folder that a region is to have."""

    def __init__(
        self,
        connections: Connections,
        meta: MetaTable,
        *,
        empty: EmptyFolder = EmptyFolder.IS_NEW,
    ) -> None:
        self._connections = connections
        self._meta = meta
        self._empty = empty

    async def make(self, wanted: Mapping[str, str]) -> bool:
        """See that the folder is the region's; an empty one becomes it.

        Args:
            wanted: the settings that say so, the format among them.

        Returns:
            True if it was empty.

        Raises:
            StoreError: it belongs to another region or database, a newer program wrote it, it is
                damaged, or it is empty and has held the database.
        """
        tables = await self._tables()
        is_fresh = not tables or await self._is_empty(tables)
        if is_fresh:
            self._check_was_never_used(wanted)
            await self._make_tables()
            await self._meta.write(wanted)
            return True
        if "meta" not in tables:
            raise StoreError(f"{self._connections.path}: tables are missing. {ADVICE}")
        await self._meta.read()
        # In another format neither the checksum nor the tables need be as they are here.
        settings = self._renumbered()
        self._meta.check()
        self._check_is_ours(settings, wanted)
        if tables != TABLES:
            raise StoreError(f"{self._connections.path}: the table of tables is damaged. {ADVICE}")
        if self._meta.get(FORMAT_KEY) is None:
            await self._take_over(settings)
        return False

    async def _tables(self) -> dict[str, str]:
        query = "SELECT name, sql FROM sqlite_master"
        return {str(name): str(sql) for name, sql in await self._fetch(query)}

    async def _is_empty(self, tables: Mapping[str, str]) -> bool:
        """True if the tables exist and are empty: a process made them and then died."""
        if tables != TABLES:
            return False
        for table in ("meta", "log", "checkpoint", "image"):
            if await self._fetch(f"SELECT 1 FROM {table} LIMIT 1"):
                return False
        return True

    def _check_was_never_used(self, wanted: Mapping[str, str]) -> None:
        folder = self._connections.path.parent
        if self._empty is EmptyFolder.IS_NEW_IF_UNMARKED:
            check_not_emptied(
                folder, region=int(wanted["region"]), database_id=wanted["database_id"]
            )
        if has_acknowledged(folder):
            raise StoreError(
                f"{self._connections.path}: empty, but the file {ACKNOWLEDGED_FILE} beside it "
                f"shows that there was a log. {ADVICE}"
            )

    async def _make_tables(self) -> None:
        # One transaction: they are there together, or not at all.
        statements = "; ".join(
            sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ").replace(
                "CREATE INDEX ", "CREATE INDEX IF NOT EXISTS "
            )
            for sql in TABLES.values()
        )
        await self._connections.writer.call(
            sqlite3.Connection.executescript, f"BEGIN IMMEDIATE; {statements}; COMMIT"
        )

    def _renumbered(self) -> dict[str, str]:
        try:
            return renumbered(dict(self._meta.items()))
        except ValueError as error:
            raise StoreError(f"{self._connections.path}: {error}") from error

    def _check_is_ours(self, settings: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        found = {key: settings.get(key) for key in wanted}
        if found["region"] != wanted["region"]:
            raise StoreError(
                f"{self._connections.path}: belongs to region {found['region']}, not to region "
                f"{wanted['region']}; give each region its own folder"
            )
        if found["database_id"] != wanted["database_id"]:
            raise StoreError(
                f"{self._connections.path}: belongs to database {found['database_id']!r}, not to "
                f"{wanted['database_id']!r}; use another folder or the right database id"
            )

    async def _take_over(self, settings: Mapping[str, str]) -> None:
        """Give a folder of format 5 the number 1, once: nothing else in it changes."""
        await self._check_batches()
        self._connections.failpoints.reach("log.take-over")
        # One statement: the folder has either number, with the checksum that fits it.
        await self._connections.writer.execute(
            "UPDATE meta SET key = iif(key = ?1, ?2, key), value = iif(key = ?1, ?3, ?4) "
            "WHERE key IN (?1, ?5)",
            (KEY_BEFORE, FORMAT_KEY, FORMAT, meta_checksum(settings), CHECKSUM_KEY),
        )
        await self._meta.read()

    async def _check_batches(self) -> None:
        """See that every batch is in the present form.

        A folder that format 5 took over from an earlier one may still have others in its log.

        Raises:
            StoreError: one is not.
        """
        reader, seq = RowReader(), 0
        query = (
            f"SELECT {ROW_COLUMNS} FROM log WHERE seq > ? ORDER BY seq LIMIT {CHECK_ROWS_MAX.value}"
        )
        while rows := await self._fetch(query, (seq,)):
            for columns in rows:
                logged, is_sound = reader.read(columns)
                if logged is None or logged.record.batch is None or not is_sound:
                    continue
                try:
                    decode_batch(logged.record.batch)
                except BatchError as error:
                    raise StoreError(
                        f"{self._connections.path}: row {logged.seq} cannot be read: {error}. "
                        "Nothing has changed. Run the program that wrote the folder until a "
                        "checkpoint has this row and the log begins behind it"
                    ) from error
            seq = rows[-1][0]

    async def _fetch(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        return await self._connections.fetch(self._connections.reader, query, values)
