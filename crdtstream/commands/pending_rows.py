"""Rows of replies on pending entries: what XPENDING and XINFO STREAM FULL say of each.

Neighbours that were delivered together differ in their IDs only, so their rows are made together:
of 300,000 entries each costs a few steps in C, and nothing is called for each.

    *4  $15 1700000000000-1  | $5 alice  :250  :1       what stands behind the bar is
    *4  $18 1700000000000-1025 | $5 alice  :250  :1     made once for all of them

Entries of several lanes have to be merged by ID, and are listed one by one.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import chain, repeat
from typing import TypeAlias

from crdtstream.commands.reply import Encoded
from crdtstream.core.groups.pel_chunk import Alike, Nack, PelChunk, Span
from crdtstream.core.ids import ID_MAX, StreamId, format_id

# What a row says behind the ID, as RESP, and how many things that are; None: there is no row.
Row: TypeAlias = tuple[int, bytes]
Facts: TypeAlias = Callable[[Alike], Row | None]
# The IDs of the first of some entries as clients see them, how many entries they are, and their
# row.
Found: TypeAlias = tuple[Callable[[int], list[bytes]], int, Row]


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def rows(
    spans: Iterator[Span] | None,
    merged: Callable[[], Iterable[Nack]],
    facts: Facts,
    *,
    end: StreamId = ID_MAX,
    count: int | None = None,
) -> Encoded:
    """An array of a row for each pending entry.

    Args:
        spans: where they are; None: they are of several lanes.
        merged: the same entries one by one, by ID; asked for if they are of several lanes.
        end: the highest ID that is listed.
        count: how many are listed at most; None: all.
    """
    told = 0
    parts: list[bytes] = []
    found = _one_by_one(merged(), facts, end) if spans is None else _together(spans, facts, end)
    for texts_of, size, row in found:
        taken = size if count is None else min(size, count - told)
        parts.append(_joined(texts_of(taken), row))
        told += taken
        if told == count:
            break
    return Encoded(b"*%d\r\n" % told + b"".join(parts))


def _joined(texts: list[bytes], row: Row) -> bytes:
    items, facts = row
    heads = map(_head, repeat(items + 1), map(len, texts))
    return b"".join(chain.from_iterable(zip(heads, texts, repeat(b"\r\n" + facts))))


@cache
def _head(items: int, id_bytes: int) -> bytes:
    """Beginning of a row; an ID has 3 to 41 bytes."""
    return b"*%d\r\n$%d\r\n" % (items, id_bytes)


def _together(spans: Iterator[Span], facts: Facts, end: StreamId) -> Iterator[Found]:
    for chunk, start, stop in spans:
        if chunk.last_id > end:
            stop = min(stop, chunk.index_from(StreamId(end + 1)))
            if stop <= start:
                return
        for alike in chunk.alike(start, stop):
            row = facts(alike)
            if row is not None:
                yield partial(_texts, chunk, alike.start), alike.stop - alike.start, row


def _texts(chunk: PelChunk, start: int, count: int) -> list[bytes]:
    return chunk.texts(start, start + count)


def _one_by_one(nacks: Iterable[Nack], facts: Facts, end: StreamId) -> Iterator[Found]:
    for nack in nacks:
        if nack.id > end:
            return
        row = facts(Alike(nack.consumer, nack.delivered_ms, nack.delivery_count, 0, 1))
        if row is not None:
            yield partial(_same, [format_id(nack.id)]), 1, row


def _same(texts: list[bytes], count: int) -> list[bytes]:
    return texts
