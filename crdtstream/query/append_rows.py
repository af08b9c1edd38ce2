"""Appending the rows of a numbered producer that are missing."""

from array import array
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from crdtstream.commands.lookup import stream_or_none
from crdtstream.commands.streams.xadd import AUTO, ENTRY_BYTES_MAX, choose_id
from crdtstream.core.effects import Numbered
from crdtstream.core.fields import are_fields
from crdtstream.core.ids import (
    SEQ_STRIDE,
    U64_MAX,
    Millis,
    StreamId,
    id_ms,
    id_seq,
)
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size
from crdtstream.core.wire.codec import ROW_MAX, BatchError

# In one call, so that no client waits for long.
ROWS_MAX: Final = Size(4_096, least=1, scope=Scope.CLIENTS)
PRODUCER_BYTES_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Rows to append.

    Attributes:
        lengths: per row how many bytes of ``fields`` are its own.
        fields: the rows as RESP arrays of bulk strings, one after the other.
    """

    lengths: "array[int]"  # 'I'
    fields: bytes

    def __len__(self) -> int:
        return len(self.lengths)


def checked_rows(first: Numbered, lengths: "array[int]", fields: bytes) -> RowColumns:
    """Rows that came from outside.

    Raises:
        BatchError: they are no well-formed rows; the text says what is wrong.
    """
    if not 1 <= len(first.producer) <= PRODUCER_BYTES_MAX:
        raise BatchError(f"producer: 1 to {PRODUCER_BYTES_MAX} bytes, not {len(first.producer)}")
    if not 1 <= len(lengths) <= ROWS_MAX.value:
        raise BatchError(f"lengths: 1 to {ROWS_MAX.value} rows, not {len(lengths)}")
    if first.batch > ROW_MAX or first.row + len(lengths) > ROW_MAX:
        raise BatchError("batch, first_row: too large")
    ends = [0, *accumulate(lengths)]
    if ends[-1] != len(fields):
        raise BatchError("fields: its size is not the sum of the lengths")
    for row, (start, stop) in enumerate(pairwise(ends)):
        if stop - start > ENTRY_BYTES_MAX.value:
            raise BatchError(
                f"fields: row {row} of the call has {stop - start} bytes, and an entry may have "
                f"{ENTRY_BYTES_MAX.value}"
            )
        if not are_fields(fields, start, stop):
            raise BatchError(
                f"fields: row {row} of the call is no array of fields and values in turn"
            )
    return RowColumns(lengths, fields)


def append_numbered(
    replica: Replica, now: Millis, key: bytes, first: Numbered, rows: RowColumns
) -> int:
    """Append the rows that are missing, under IDs as ``*`` makes them.

    Returns:
        How many were appended.

    Raises:
        StaleBatchError: the batch is no longer remembered here.
        CommandError: the stream's IDs are used up.  Rows that were appended before that stay, and
            are recognised when the call is made again.
    """
    appended = 0
    for start, stop in replica.missing_rows(key, first, len(rows)):
        part = slice(start - first.row, stop - first.row)
        begin = sum(rows.lengths[: part.start])
        lengths = rows.lengths[part]
        ms, seq = _ids(replica, now, key, len(lengths))
        entries = EntryRun(ms, seq, lengths, rows.fields[begin : begin + sum(lengths)])
        replica.append_rows(key, entries, first.behind(part.start))
        appended += len(lengths)
    return appended


def _ids(replica: Replica, now: Millis, key: bytes, count: int) -> "tuple[array[int], array[int]]":
    """``count`` IDs above the stream's last one, in columns."""
    stream = stream_or_none(replica, key)
    last = max(replica.floor_of(key), StreamId(0) if stream is None else stream.last_id)
    first = _next_id(replica, now, last)
    ms, seq = id_ms(first), id_seq(first)
    if seq + SEQ_STRIDE * count <= U64_MAX:
        seqs = range(seq, seq + SEQ_STRIDE * count, SEQ_STRIDE)
        return array("Q", [ms]) * count, array("Q", seqs)
    found = [first]
    while len(found) < count:
        found.append(_next_id(replica, now, found[-1]))
    return array("Q", map(id_ms, found)), array("Q", map(id_seq, found))


def _next_id(replica: Replica, now: Millis, last: StreamId) -> StreamId:
    return choose_id(AUTO, replica.region, replica.id_mode, now=now, last=last)
