"""Whose folder it is: its tables, its format; an empty folder becomes a region's.

A folder of an earlier format is taken over at its first start, once.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from typing import Final

from crdtstream.core.size import Size
from crdtstream.store.acknowledged import ACKNOWLEDGED_FILE, has_acknowledged
from crdtstream.store.connections import ADVICE, INCREMENTAL, PAGE_BYTES, Connections
from crdtstream.store.errors import StoreError
from crdtstream.store.layout import TABLES, TABLES_OF_FORMAT_2, TABLES_OF_FORMAT_3
from crdtstream.store.log import FORMAT_VERSION
from crdtstream.store.marker import EmptyFolder, check_not_emptied
from crdtstream.store.meta import MetaTable
from crdtstream.store.space import pages_and_free, pragma

# Of a folder that an earlier program wrote, this one reads the same rows.  To formats 1 and 2 it
# adds tables and the checksum over the settings; to formats 3 and 4 nothing but the number, since
# it packs the rows, and writes the columns, of what it logs itself.
FORMATS_WITHOUT_CHECKSUM: Final = ("1", "2")
FORMATS_WITH_CHECKSUM: Final = ("3", "4", str(FORMAT_VERSION))
FORMATS_UNPACKED: Final = ("1", "2", "3")
READABLE_FORMATS: Final = FORMATS_WITHOUT_CHECKSUM + FORMATS_WITH_CHECKSUM

# A file of an earlier format is written anew, so that it can give space back, if that is quick.
REWRITE_BYTES_MAX: Final = Size(64 << 20, least=0)

# Told of work at the start that takes long: what, how many bytes are done, and of how many.
Progress = Callable[[str, int, int], None]


def no_progress(what: str, done: int, total: int) -> None:
    """Tell nobody."""


class Claim:
    """A folder that a region is to have."""

    def __init__(
        self,
        connections: Connections,
        meta: MetaTable,
        progress: Progress = no_progress,
        *,
        empty: EmptyFolder = EmptyFolder.IS_NEW,
    ) -> None:
        self._connections = connections
        self._meta = meta
        self._empty = empty
        self._progress = progress

    async def make(self, wanted: Mapping[str, str]) -> bool:
        """See that the folder is the region's; an empty one becomes it.

        Args:
            wanted: the settings that say so, the format among them.

        Returns:
            Whether it was empty.

        Raises:
            StoreError: it belongs to another region or database, a newer program wrote it, it is
                damaged, or it is empty and has held the database.
        """
        tables = await self._tables()
        is_fresh = not tables or await self._is_empty(tables)
        if is_fresh:
            self._check_was_never_used(wanted)
            await self._make_tables(TABLES)
            await self._meta.write(wanted)
            return True
        if not TABLES_OF_FORMAT_2.keys() <= tables.keys():
            raise StoreError(f"{self._connections.path}: tables are missing. {ADVICE}")
        await self._meta.read()
        has_checksum = self._meta.get("format_version") in FORMATS_WITH_CHECKSUM
        if has_checksum:
            self._meta.check()
        self._check_is_ours(wanted)
        if has_checksum and tables != TABLES:
            raise StoreError(f"{self._connections.path}: the table of tables is damaged. {ADVICE}")
        if self._meta["format_version"] != wanted["format_version"]:
            await self._take_over()
        return False

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

    def _check_was_never_used(self, wanted: Mapping[str, str]) -> None:
        folder = self._connections.path.parent
        if self._empty is EmptyFolder.IS_NEW_IF_UNMARKED:
            check_not_emptied(
                folder, region=int(wanted["region"]), database_id=wanted["database_id"]
            )
        if has_acknowledged(folder):
            raise StoreError(
                f"{self._connections.path}: empty, but the file {ACKNOWLEDGED_FILE} beside it "
                f"tells of a log. {ADVICE}"
            )

    async def _make_tables(self, tables: Mapping[str, str]) -> None:
        # One transaction: they are there together, or not at all.
        statements = "; ".join(
            sql.replace("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ").replace(
                "CREATE INDEX ", "CREATE INDEX IF NOT EXISTS "
            )
            for sql in tables.values()
        )
        await self._connections.writer.call(
            sqlite3.Connection.executescript, f"BEGIN IMMEDIATE; {statements}; COMMIT"
        )

    def _check_is_ours(self, wanted: Mapping[str, str]) -> None:
        found = {key: self._meta.get(key) for key in wanted}
        if found["format_version"] not in READABLE_FORMATS:
            raise StoreError(
                f"{self._connections.path}: written in format {found['format_version']}, this "
                f"program reads formats {', '.join(READABLE_FORMATS[:-1])} and "
                f"{READABLE_FORMATS[-1]}; run the program that wrote it"
            )
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

    async def _take_over(self) -> None:
        """Make a folder of an earlier format one of this format, once."""
        self._connections.failpoints.reach("log.take-over")
        await self._make_tables(TABLES_OF_FORMAT_3)
        await self._rewrite_if_quick()
        # Last, and in one transaction with the checksum: until then it is a folder as it was.
        await self._meta.write({"format_version": str(FORMAT_VERSION)})

    async def _rewrite_if_quick(self) -> None:
        """Have the file able to give space back; one that is not uses free pages again."""
        pages, free = await pages_and_free(self._connections)
        used_bytes = (pages - free) * PAGE_BYTES
        if (
            await pragma(self._connections, "auto_vacuum") == INCREMENTAL
            or used_bytes > REWRITE_BYTES_MAX.value
        ):
            return
        what = "making the file able to give space back"
        self._progress(what, 0, used_bytes)
        rewriting = asyncio.ensure_future(self._connections.writer.execute("VACUUM"))
        wal = self._connections.wal_path
        while not (await asyncio.wait((rewriting,), timeout=0.1))[0]:
            done = wal.stat().st_size if wal.exists() else 0
            self._progress(what, min(done, used_bytes), used_bytes)
        rewriting.result()
        await self._connections.move_wal()
        self._progress(what, used_bytes, used_bytes)

    async def _fetch(self, query: str) -> list[sqlite3.Row]:
        return await self._connections.fetch(self._connections.reader, query)
