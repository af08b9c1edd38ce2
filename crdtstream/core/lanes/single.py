"""The image of a macro node with one entry, made at once.

Of a hundred thousand streams that were written to a little, each has such a node in the next
checkpoint.  What ``body.py``, ``blocks.py`` and ``header.py`` say of columns in general costs more
than the entry does, so this makes the same bytes of it directly.  The formats are theirs.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

from crdtstream.core.ids import SEQ_BITS, Millis, StreamId
from crdtstream.core.lanes.blocks import DIGEST_BYTES, LONE, LONG
from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.lanes.header import Header

# Behind the columns of lengths: one pair of an arrival, with no distances behind either, and
# neither producers nor names nor numbered rows.
_ARRIVAL: Final = Struct("<IQBQBIII")


def is_single(columns: NodeColumns) -> bool:
    """True for one entry, without a name, that came when the node's first one did."""
    return (
        len(columns.ms) == 1
        and len(columns.arrivals) == 2
        and columns.idempotent is None
        and columns.numbered is None
    )


def encode_single(columns: NodeColumns, digest: int | None) -> tuple[Header, bytes]:
    """The node's header, and its body.

    Args:
        digest: of its blocks, if it is known.
    """
    n, seq, length = columns.n[0], columns.seq[0], columns.lengths[0]
    ms = columns.ms[0]
    arrived_n, arrived_ms = columns.arrivals
    fields = columns.live_fields()
    assert len(fields) == length, "an entry without its fields"
    body = b"".join(
        (
            # No distances from an ID to the next one.
            b"\1",
            _column(seq),
            _column(length),
            _ARRIVAL.pack(1, arrived_n, 1, arrived_ms, 1, 0, 0, 0),
            fields,
        )
    )
    is_short = length < LONG
    if digest is None:
        kind = b"block" if is_short else b"entry"
        data = b"".join((kind, LONE.pack(1, ms, seq, n, length), fields))
        digest = int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest(), "little")
    entry_id = StreamId(ms << SEQ_BITS | seq)
    short_n = n if is_short else 0
    arrived = Millis(arrived_ms)
    header = Header(
        entry_id,
        entry_id,
        n,
        n,
        1,
        length,
        arrived,
        arrived,
        False,
        short_n,
        short_n,
        digest,
        len(body),
    )
    return header, body


def _column(value: int) -> bytes:
    """A column of one number: of how many bytes, and the number."""
    if value < 1 << 8:
        return b"\1" + value.to_bytes(1, "little")
    if value < 1 << 16:
        return b"\2" + value.to_bytes(2, "little")
    if value < 1 << 32:
        return b"\4" + value.to_bytes(4, "little")
    return b"\10" + value.to_bytes(8, "little")
