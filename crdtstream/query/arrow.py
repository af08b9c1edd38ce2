"""Macro nodes as Arrow record batches, without a Python object per entry.

A record batch is made of the very columns of the macro nodes, joined; of the fields, which are RESP
already, only the ends are added up (by Arrow).  Who reads takes them apart.  An Arrow IPC stream is
its schema's message and then one message per batch, so each is sent as it is made.

This module is imported when the first program asks, as importing Arrow takes a while.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from crdtstream.core.effects import IdempotentId
from crdtstream.core.groups.progress import Nack
from crdtstream.core.ids import id_ms, id_seq
from crdtstream.core.lanes.lane import MacroNode, Slice

# Of fewer neighbouring rows the names are made one by one.
SHORT: Final = 32
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
    """How an IPC stream begins."""
    return bytes(schema.serialize())


def entries_message(slices: Sequence[Slice]) -> memoryview:
    """The entries of one lane as one record batch, encoded."""
    count = sum(stop - start for _, start, stop in slices)
    ns = _numbers(b"".join([node.n[start:stop] for node, start, stop in slices]), count)
    columns = [
        _numbers(b"".join([node.ms[start:stop] for node, start, stop in slices]), count),
        _numbers(b"".join([node.seq[start:stop] for node, start, stop in slices]), count),
        ns,
        _fields(slices, count),
        *_idempotent(slices, ns),
    ]
    return memoryview(pa.RecordBatch.from_arrays(columns, schema=ENTRIES).serialize())


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


def _fields(slices: Sequence[Slice], count: int) -> pa.Array:
    """Arrow's offsets are the lengths added up, beginning with 0."""
    lengths = b"".join([bytes(4), *(node.lengths[start:stop] for node, start, stop in slices)])
    column = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(lengths)])
    offsets = pc.cumulative_sum(column).buffers()[1]
    data = b"".join(starmap(_live_fields, slices))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(data)])


def _live_fields(node: MacroNode, start: int, stop: int) -> bytes | bytearray:
    """The fields of some entries without the holes between them."""
    begin, end = node.starts[start], node.starts[stop - 1] + node.lengths[stop - 1]
    if sum(node.lengths[start:stop]) == end - begin:
        return node.fields if end - begin == len(node.fields) else node.fields[begin:end]
    return b"".join(map(node.fields_at, range(start, stop)))


class _Rows(NamedTuple):
    """Neighbouring rows of a numbered producer: the row's number less the dot's is the same."""

    producer: bytes
    batch: int
    row_less_n: int


_Names: TypeAlias = list[IdempotentId | None]


def _idempotent(slices: Sequence[Slice], ns: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Producers and idempotent ids; mostly none, or such as differ in the row only."""
    producers: list[pa.Array] = []
    ids: list[pa.Array] = []
    at = 0
    for stretch, count in _stretches(slices):
        if isinstance(stretch, _Rows):
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


def _stretches(slices: Sequence[Slice]) -> Iterator[tuple[_Rows | _Names, int]]:
    """What neighbouring entries are called, and how many they are; an empty list: nothing."""
    current: _Rows | _Names = []
    count = 0
    for node, start, stop in slices:
        for stretch, entries in _stretches_in(node, start, stop):
            if not count:
                current = stretch
            elif isinstance(stretch, list) and stretch and isinstance(current, list) and current:
                current += stretch
            elif stretch != current:
                yield current, count
                current, count = stretch, 0
            count += entries
    if count:
        yield current, count


def _stretches_in(node: MacroNode, start: int, stop: int) -> Iterator[tuple[_Rows | _Names, int]]:
    at = start
    for first_n, length, first in node.numbered or ():
        begin = bisect_left(node.n, first_n, at, stop)
        end = bisect_left(node.n, first_n + length, begin, stop)
        if at < begin < end:
            yield _names(node, at, begin), begin - at
        if begin < end < begin + SHORT:
            names: _Names = [first.name(n - first_n) for n in node.n[begin:end]]
            yield names, end - begin
            at = end
        elif begin < end:
            yield _Rows(first.producer, first.batch, first.row - first_n), end - begin
            at = end
    if at < stop:
        yield _names(node, at, stop), stop - at


def _names(node: MacroNode, start: int, stop: int) -> _Names:
    return [node.idempotent.get(n) for n in node.n[start:stop]] if node.idempotent else []
