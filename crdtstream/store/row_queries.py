"""Reading and measuring many rows of the log at a time, in slices that take little time each.

Long queries run on the connection ``keeper``, so that no link waits for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.core.clock import MutableVersionVector, VersionVector
from crdtstream.core.effects import OF_MERGED, record_bytes
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.store.connections import ADVICE, Connections
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Logged, note_passed
from crdtstream.store.rows import ROW_COLUMNS, RowReader, stored_bytes

# Rows that one read looks at; what it returns is bounded in bytes as well.
ROWS_PER_READ_MAX: Final = Size(1_024, least=1)
# One slice of what is counted, and of what is cut off.
COUNT_ROWS_MAX: Final = Size(16_384, least=1)
CUT_ROWS_MAX: Final = Size(512, least=1)
CUT_BYTES_MAX: Final = Size(1 << 20, least=1)


@dataclass(slots=True)
class Cut:
    """Rows to be cut off at once: up to ``last``, and what they count in the log's size."""

    last: int
    bytes: int


async def last_within(connections: Connections, seq: int, bytes_max: int) -> int:
    """The last row that a read of ``bytes_max`` from ``seq`` takes, by the bytes in the table.

    Lengths are read only, no batches.

    Raises:
        StoreError: they cannot be read.
    """
    query = (
        "SELECT seq, coalesce(length(batch), 0) + coalesce(length(local), 0) "
        "FROM log WHERE seq >= ? ORDER BY seq LIMIT ?"
    )
    last, total = seq, 0
    for row_seq, row_bytes in await connections.fetch(
        connections.reader, query, (seq, ROWS_PER_READ_MAX.value)
    ):
        total += row_bytes
        if total > bytes_max and row_seq > seq:
            break
        # Of a damaged page they may not ascend.
        last = max(last, row_seq)
    return last


def unpack_rows(found: Sequence[Sequence[object]], bytes_max: int) -> tuple[list[Logged], float]:
    """The leading rows that take ``bytes_max`` when they are unpacked, and at least one.

    Returns:
        The rows, and to what part of their bytes they were packed; for any thread.

    Raises:
        ValueError: one is damaged; the text names it.
    """
    reader, taken = RowReader(), list[Logged]()
    stored = plain = total = 0
    for columns in found:
        logged, is_sound = reader.read(columns)
        if logged is None or not is_sound:
            raise ValueError(f"row {columns[0]} of table log is damaged (checksum)")
        size = record_bytes(logged.record)
        if taken and total + size > bytes_max:
            break
        taken.append(logged)
        stored, total = stored + stored_bytes(columns), total + size
        plain += len(logged.record.batch or b"") + len(logged.record.local or b"")
    return taken, min(1.0, stored / plain) if plain else 1.0


async def passed(
    connections: Connections, begins: VersionVector, rows: range
) -> tuple[MutableVersionVector, int]:
    """Sum up some rows.

    Args:
        begins: the version vector before them.

    Returns:
        The version vector behind them, and their part of the log's size in bytes.

    Raises:
        StoreError: they cannot be read.
    """
    behind, size = dict(begins), 0
    query = (
        "SELECT origin, max(last_n), sum(length(batch) + coalesce(length(local), 0)) "
        "FROM log WHERE seq BETWEEN ? AND ? AND batch IS NOT NULL GROUP BY origin"
    )
    locals_query = (
        "SELECT coalesce(sum(length(local)), 0) FROM log "
        "WHERE seq BETWEEN ? AND ? AND batch IS NULL"
    )
    merged_query = (
        f"SELECT {ROW_COLUMNS} FROM log WHERE seq BETWEEN ? AND ? AND origin = {OF_MERGED}"
    )
    reader = RowReader()
    for first in rows[:: COUNT_ROWS_MAX.value]:
        between = (first, min(rows[-1], first + COUNT_ROWS_MAX.value - 1))
        for origin, last_n, row_bytes in await connections.fetch(
            connections.keeper, query, between
        ):
            region = RegionId(origin)
            behind[region] = max(behind.get(region, 0), last_n)
            size += row_bytes
        ((row_bytes,),) = await connections.fetch(connections.keeper, locals_query, between)
        size += row_bytes
        for columns in await connections.fetch(connections.keeper, merged_query, between):
            logged, is_sound = reader.read(columns)
            if logged is None or not is_sound:
                raise StoreError(f"row {columns[0]} of table log is damaged (checksum). {ADVICE}")
            note_passed(behind, logged.record)
    return behind, size


async def next_cut(connections: Connections, before_seq: int) -> Cut | None:
    """A slice of the rows before one that can be deleted at once; None: there are none.

    Raises:
        StoreError: they cannot be read.
    """
    query = (
        "SELECT seq, coalesce(length(batch), 0) + coalesce(length(local), 0) "
        "FROM log WHERE seq < ? ORDER BY seq LIMIT ?"
    )
    cut: Cut | None = None
    for seq, row_bytes in await connections.fetch(
        connections.keeper, query, (before_seq, CUT_ROWS_MAX.value)
    ):
        if cut is not None and cut.bytes + row_bytes > CUT_BYTES_MAX.value:
            break
        if cut is None:
            cut = Cut(seq, row_bytes)
        else:
            # Of a damaged page they may not ascend; all of these must go.
            cut = Cut(max(cut.last, seq), cut.bytes + row_bytes)
    return cut
