"""Entries as Arrow record batches, without a Python object per entry.

A record batch is made of the very columns that a lane has.  The fields stay RESP: Arrow only adds
up their ends, and the reader takes them apart.  An Arrow IPC stream is its schema's message and
then one message per record batch, so each is sent as soon as it is made.

This module is imported at the first request, as importing Arrow takes a while.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from crdtstream.core.groups.pel_chunk import Nack
from crdtstream.core.ids import id_ms, id_seq
from crdtstream.core.lanes.bulk_reading import Columns, Rows
from crdtstream.core.lanes.slices import Slice

ENTRIES: Final = pa.schema(
    [
        pa.field("ms", pa.uint64(), nullable=False),
        pa.field("seq", pa.uint64(), nullable=False),
        pa.field("n", pa.uint64(), nullable=False),
        pa.field("fields", pa.binary(), nullable=False),
        pa.field("producer", pa.binary()),
        pa.field("idempotent_id", pa.binary()),
    ]
)
PENDING: Final = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("group", pa.binary(), nullable=False),
        pa.field("consumer", pa.binary()),
        pa.field("origin", pa.uint32(), nullable=False),
        pa.field("ms", pa.uint64(), nullable=False),
        pa.field("seq", pa.uint64(), nullable=False),
        pa.field("delivered_ms", pa.uint64(), nullable=False),
        pa.field("deliveries", pa.uint64(), nullable=False),
    ]
)


def schema_message(schema: pa.Schema) -> bytes:
    """First message of an IPC stream: its schema."""
    return bytes(schema.serialize())


def entries_message(slices: Sequence[Slice]) -> memoryview:
    """The entries of one lane as one record batch, encoded."""
    columns = Columns(slices)
    count = len(columns)
    ns = _numbers(columns.n, count)
    arrays = [
        _numbers(columns.ms, count),
        _numbers(columns.seq, count),
        ns,
        _fields(columns, count),
        *_idempotent(columns, ns),
    ]
    return memoryview(pa.RecordBatch.from_arrays(arrays, schema=ENTRIES).serialize())


def pending_message(rows: Sequence[tuple[bytes, bytes, Nack]]) -> memoryview:
    """Pending entries, each with its key and group, as one record batch, encoded."""
    nacks = [nack for _, _, nack in rows]
    columns = [
        [key for key, _, _ in rows],
        [group for _, group, _ in rows],
        [None if nack.consumer is None else nack.consumer.name for nack in nacks],
        [nack.lane for nack in nacks],
        [id_ms(nack.id) for nack in nacks],
        [id_seq(nack.id) for nack in nacks],
        [nack.delivered_ms for nack in nacks],
        [nack.delivery_count for nack in nacks],
    ]
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, PENDING, strict=True)]
    return memoryview(pa.RecordBatch.from_arrays(arrays, schema=PENDING).serialize())


def _numbers(column: bytes, count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.uint64(), count, [None, pa.py_buffer(column)])


def _fields(columns: Columns, count: int) -> pa.Array:
    """Arrow's offsets are the lengths added up, beginning with 0."""
    lengths = pa.py_buffer(bytes(4) + columns.lengths)
    ends = pc.cumulative_sum(pa.Array.from_buffers(pa.int32(), count + 1, [None, lengths]))
    data = pa.py_buffer(columns.fields)
    return pa.Array.from_buffers(pa.binary(), count, [None, ends.buffers()[1], data])


def _idempotent(columns: Columns, ns: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Producers and idempotent ids; mostly there are none, or they differ in the row only."""
    producers: list[pa.Array] = []
    ids: list[pa.Array] = []
    at = 0
    for stretch, count in columns.names():
        if isinstance(stretch, Rows):
            rows = pc.add(pc.cast(ns.slice(at, count), pa.int64()), stretch.row_less_n)
            texts = pc.binary_join_element_wise(f"{stretch.batch}", pc.cast(rows, pa.string()), ":")
            producers.append(pa.repeat(pa.scalar(stretch.producer, pa.binary()), count))
            ids.append(pc.cast(texts, pa.binary()))
        elif stretch:
            producers.append(pa.array([name and name.producer for name in stretch], pa.binary()))
            ids.append(pa.array([name and name.id for name in stretch], pa.binary()))
        else:
            producers.append(pa.nulls(count, pa.binary()))
            ids.append(pa.nulls(count, pa.binary()))
        at += count
    return pa.concat_arrays(producers), pa.concat_arrays(ids)
