"""Entries as reply bytes: the ID is formatted, the fields are sliced from their macro node."""

from collections.abc import Iterable
from itertools import islice

from crdtstream.commands.reply import Encoded, Null, Reply
from crdtstream.core.id_columns import FEW
from crdtstream.core.ids import SEQ_BITS, U64_MAX, RegionId, StreamId, format_id
from crdtstream.core.lanes.node import MacroNode
from crdtstream.core.lanes.slices import Found, Slice
from crdtstream.core.stream import Stream


def encode_entry(entry_id: StreamId, node: MacroNode, index: int) -> bytes:
    """``[id, [field, value, …]]``."""
    text = b"%d-%d" % (entry_id >> SEQ_BITS, entry_id & U64_MAX)
    # Mostly here: the property is a call more for each entry.
    columns = node.here or node.columns
    start = columns.starts[index]
    fields = columns.fields[start : start + columns.lengths[index]]
    return b"*2\r\n$%d\r\n%b\r\n" % (len(text), text) + fields


def encode_slices(slices: Iterable[Slice]) -> list[bytes]:
    """The entries of some slices of a lane, each as by :func:`encode_entry`."""
    parts: list[bytes] = []
    for node, start, stop in slices:
        if stop - start < FEW:
            parts += [encode_entry(node.id_at(at), node, at) for at in range(start, stop)]
            continue
        columns = node.columns
        starts, lengths = columns.starts[start:stop], columns.lengths[start:stop]
        begin = starts[0]
        with memoryview(columns.fields) as column:
            # One copy, of which the entries' fields are cut: cheaper than as many bytearrays.
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


def claimable(entry: bytes, *, idle_ms: int = 0, delivery_count: int = 0) -> bytes:
    """``[id, [field, value, …], idle ms, deliveries before this one]``, as CLAIM answers."""
    return b"*4%b:%d\r\n:%d\r\n" % (entry[2:], idle_ms, delivery_count)


def encode_entries(found: Iterable[Found], count: int | None = None) -> tuple[Encoded, int]:
    """The first ``count`` entries (None: all) as one array, and how many they are."""
    chosen = found if count is None else islice(found, count)
    parts = [encode_entry(entry_id, node, index) for entry_id, _, node, index in chosen]
    return Encoded(b"*%d\r\n" % len(parts) + b"".join(parts)), len(parts)


def entry_or_null(stream: Stream, region: RegionId, entry_id: StreamId) -> Reply:
    """A pending entry; with a null in place of its fields if it was deleted (XRG)."""
    lane = stream.lanes.get(region)
    found = None if lane is None else lane.find(entry_id)
    if found is None:
        return [format_id(entry_id), Null.ARRAY]
    return Encoded(encode_entry(entry_id, *found))
