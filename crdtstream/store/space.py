"""Pages of the database's file: counting them, and returning free ones to the file system."""

from typing import Final

from crdtstream.core.size import Size
from crdtstream.store.connections import INCREMENTAL, PAGE_BYTES, Connections

# One slice of what is given back to the file system.
VACUUM_PAGES: Final = Size(256, least=1)
# Free pages that are kept, since the next checkpoint writes them again: an eighth of the file, but
# not less than this.
FREE_PAGES_KEPT_MIN: Final = Size(1_024, least=0)
# Room of rows in the file, as a multiple of their bytes: small ones also have an index.
SPACE_PER_BYTES: Final = (5, 4)


async def give_back(connections: Connections, *, spare_bytes: int = 0) -> None:
    """Return free pages to the file system, except some that will be written again soon.

    Args:
        spare_bytes: of rows that the log will take; there are pages for them and their index.  0:
            the folder is bounded, and free pages count.

    Raises:
        StoreError: the disk refused.
    """
    connections.failpoints.reach("log.vacuum")
    if await pragma(connections, "auto_vacuum") != INCREMENTAL:
        return
    pages, free = await pages_and_free(connections)
    spare_pages = spare_bytes * SPACE_PER_BYTES[0] // SPACE_PER_BYTES[1] // PAGE_BYTES
    kept = FREE_PAGES_KEPT_MIN.value
    if spare_bytes:
        kept = max(kept, (pages - free) // 8, spare_pages)
    if free <= kept:
        return
    for left in range(free - kept, 0, -VACUUM_PAGES.value):
        count = min(left, VACUUM_PAGES.value)
        await connections.write(
            f"PRAGMA incremental_vacuum({count})", (), size=0, what="free pages"
        )
        connections.note_written(count * PAGE_BYTES)
    # The file itself becomes shorter when its end is moved over.
    await connections.move_wal()


async def pages_and_free(connections: Connections) -> tuple[int, int]:
    """Pages of the file, and how many of them are free."""
    return await pragma(connections, "page_count"), await pragma(connections, "freelist_count")


async def pragma(connections: Connections, name: str) -> int:
    """A number that SQLite reports about the file."""
    ((value,),) = await connections.fetch(connections.keeper, f"PRAGMA {name}")
    return int(value)
