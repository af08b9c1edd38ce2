"""Entries as reply bytes: the ID is formatted, the fields are sliced from their macro node."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from crdtstream.commands.reply import Encoded, EncodedParts, Null, Reply
from crdtstream.core.id_columns import FEW, IdColumns
from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.slices import Found, Slice
from crdtstream.core.size import Size

# A larger reply would be in memory twice while it is joined.
JOINED_BYTES_MAX: Final = Size(1 << 20, least=0)
# Entries of several lanes, or in descending order, are joined this many at a time.
ENTRIES_PER_PART: Final = Size(512, least=1)
_NO_ENTRIES: Final = Encoded(b"*0\r\n")


def encode_entry(node: MacroNode, index: int) -> bytes:
    """``[id, [field, value, …]]``."""
    # Mostly here: the property is a call more for each entry.
    columns = node.here or node.columns
    text = b"%d-%d" % (columns.ms[index], columns.seq[index])
    start = columns.starts[index]
    fields = columns.fields[start : start + columns.lengths[index]]
    return b"*2\r\n$%d\r\n%b\r\n" % (len(text), text) + fields


def encode_slices(slices: Iterable[Slice]) -> list[bytes]:
    """The entries of some slices of a lane, each as by :func:`encode_entry`."""
    parts: list[bytes] = []
    for node, start, stop in slices:
        if stop - start < FEW.value:
            parts += [encode_entry(node, at) for at in range(start, stop)]
            continue
        columns = node.columns
        starts, lengths = columns.starts[start:stop], columns.lengths[start:stop]
        begin = starts[0]
        with memoryview(columns.fields) as column:
            # One copy, from which the entries' fields are cut: cheaper than as many bytearrays.
            fields = bytes(column[begin : starts[-1] + lengths[-1]])
        texts = [
            b"%d-%d" % id_
            for id_ in zip(columns.ms[start:stop], columns.seq[start:stop], strict=True)
        ]
        parts += [
            b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, fields[at - begin : at - begin + length])
            for text, at, length in zip(texts, starts, lengths, strict=True)
        ]
    return parts


def encode_ids(lane: Lane, ids: IdColumns) -> list[bytes]:
    """The entries with these IDs, which ascend and are all there, each as by
    :func:`encode_entry`."""
    parts: list[bytes] = []
    for node, rows in lane.rows_of(ids):
        if isinstance(rows, range):
            parts += encode_slices(((node, rows[0], rows[-1] + 1),))
        else:
            parts += [encode_entry(node, row) for row in rows]
    return parts


def encoded(parts: list[bytes]) -> Encoded | EncodedParts:
    """A reply in parts, which are joined if it is small."""
    if sum(map(len, parts)) > JOINED_BYTES_MAX.value:
        return EncodedParts(parts)
    return Encoded(b"".join(parts))


def claimable(entry: bytes, *, idle_ms: int = 0, delivery_count: int = 0) -> bytes:
    """``[id, [field, value, …], idle ms, deliveries before this one]``, as CLAIM answers."""
    return b"*4%b:%d\r\n:%d\r\n" % (entry[2:], idle_ms, delivery_count)


def encode_entries(
    found: Iterable[Found], count: int | None = None
) -> tuple[Encoded | EncodedParts, int]:
    """The first ``count`` entries (None: all) as one array, and how many they are."""
    chosen = iter(found if count is None else islice(found, count))
    parts = [b""]
    told = 0
    while some := [
        encode_entry(node, index) for _, _, node, index in islice(chosen, ENTRIES_PER_PART.value)
    ]:
        parts.append(b"".join(some))
        told += len(some)
    parts[0] = b"*%d\r\n" % told
    return encoded(parts), told


def encode_from(
    stream: Stream, start: StreamId = ID_MIN, end: StreamId = ID_MAX, count: int | None = None
) -> tuple[Encoded | EncodedParts, int]:
    """The first ``count`` entries (None: all; at least one) from ``start`` to ``end``, both
    included, as one array, and how many they are.

    If only one lane has any, they are taken macro node by macro node.
    """
    lanes = stream.lanes_from(start)
    if not lanes:
        return _NO_ENTRIES, 0
    if len(lanes) > 1:
        return encode_entries(stream.scan(start, end), count)
    parts = [b""]
    told = 0
    for node, first, stop in lanes[0].scan_nodes(start, end):
        if count is not None:
            stop = min(stop, first + count - told)
        parts.append(b"".join(encode_slices(((node, first, stop),))))
        told += stop - first
        if told == count:
            break
    parts[0] = b"*%d\r\n" % told
    return encoded(parts), told


def entry_or_null(stream: Stream, region: RegionId, entry_id: StreamId) -> Reply:
    """A pending entry; with a null in place of its fields if it was deleted (XRG)."""
    lane = stream.lanes.get(region)
    found = None if lane is None else lane.find(entry_id)
    if found is None:
        return [format_id(entry_id), Null.ARRAY]
    return Encoded(encode_entry(*found))
