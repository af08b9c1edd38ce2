"""The head of a macro node: what is known of it without its entries.

It is of one size, so that a restart reads those of a large database in no time:

    version                     1 byte
    flags                       1    1: has_idempotent, 2: came_at_once
    count, added                4 each
    fields_bytes, body_bytes    4 each
    key, first_id, last_id      16 each: ms, seq
    highest_removed_id          16
    first_n, last_n             8 each
    first_arrival, last_arrival 8 each
    first_short_n, last_short_n 8 each
    digest                      16

All numbers are little-endian.
"""

from struct import Struct
from typing import Final, NamedTuple

from crdtstream.core.ids import SEQ_BITS, U64_MAX, Millis, StreamId
from crdtstream.core.lanes.rax import KEY_BYTES

VERSION: Final = 1
_HEAD: Final = Struct("<BBIIII8QQQQQQQ16s")
HEAD_BYTES: Final = _HEAD.size


class Header(NamedTuple):
    """The facts of a macro node that are known without its entries.

    Attributes:
        first_id, last_id, first_n, last_n: of its first and its last entry.
        entries: how many.
        fields_bytes: bytes of fields, without holes.
        first_arrival, last_arrival: when its first and its last entry ever put in came here.
        has_idempotent: whether an entry may have an idempotent id.
        first_short_n, last_short_n: of the first and last entry with short fields, 0 if there is
            none; see ``blocks.py``.
        digest: the sum of its blocks' digests, as if no other node had a part in them.
        body_bytes: size of its body.
        came_at_once: taken over with another region's state: the times of arrival in the body are
            that region's, and all entries came here at ``first_arrival``.
    """

    first_id: StreamId
    last_id: StreamId
    first_n: int
    last_n: int
    entries: int
    fields_bytes: int
    first_arrival: Millis
    last_arrival: Millis
    has_idempotent: bool
    first_short_n: int
    last_short_n: int
    digest: int
    body_bytes: int
    came_at_once: bool = False


class Head(NamedTuple):
    """A header, and what a macro node has of it in whatever state it is; see ``MacroNode``."""

    key: bytes
    added: int
    highest_removed_id: StreamId
    header: Header


def encode_head(head: Head) -> bytes:
    key = int.from_bytes(head.key, "big")
    header = head.header
    return _HEAD.pack(
        VERSION,
        header.has_idempotent | header.came_at_once << 1,
        header.entries,
        head.added,
        header.fields_bytes,
        header.body_bytes,
        key >> SEQ_BITS,
        key & U64_MAX,
        header.first_id >> SEQ_BITS,
        header.first_id & U64_MAX,
        header.last_id >> SEQ_BITS,
        header.last_id & U64_MAX,
        head.highest_removed_id >> SEQ_BITS,
        head.highest_removed_id & U64_MAX,
        header.first_n,
        header.last_n,
        header.first_arrival,
        header.last_arrival,
        header.first_short_n,
        header.last_short_n,
        header.digest.to_bytes(16, "little"),
    )


def decode_head(data: bytes) -> Head:
    """Decode what ``encode_head`` made.

    Raises:
        ValueError: it is no such thing.
    """
    if len(data) != HEAD_BYTES:
        raise ValueError(f"a macro node's head has {len(data)} bytes, not {HEAD_BYTES}")
    (
        version,
        flags,
        count,
        added,
        fields_bytes,
        body_bytes,
        key_ms,
        key_seq,
        first_ms,
        first_seq,
        last_ms,
        last_seq,
        removed_ms,
        removed_seq,
        first_n,
        last_n,
        first_arrival,
        last_arrival,
        first_short_n,
        last_short_n,
        digest,
    ) = _HEAD.unpack(data)
    if version != VERSION or flags > 3:
        raise ValueError(f"a macro node's head of version {version}, not {VERSION}")
    key = key_ms << SEQ_BITS | key_seq
    first_id = first_ms << SEQ_BITS | first_seq
    last_id = last_ms << SEQ_BITS | last_seq
    if not 0 < count <= min(added, last_n - first_n + 1):
        raise ValueError(
            f"a macro node's head tells of {count} entries, {added} ever added, "
            f"with dot numbers {first_n} to {last_n}"
        )
    if not 0 < key <= first_id <= last_id - count + 1 or first_arrival > last_arrival:
        raise ValueError(
            f"a macro node's head tells of {count} entries with IDs {key}, {first_id} to {last_id} "
            f"that came at {first_arrival} to {last_arrival}"
        )
    header = Header(
        StreamId(first_id),
        StreamId(last_id),
        first_n,
        last_n,
        count,
        fields_bytes,
        Millis(first_arrival),
        Millis(last_arrival),
        bool(flags & 1),
        first_short_n,
        last_short_n,
        int.from_bytes(digest, "little"),
        body_bytes,
        bool(flags & 2),
    )
    removed_id = StreamId(removed_ms << SEQ_BITS | removed_seq)
    return Head(key.to_bytes(KEY_BYTES, "big"), added, removed_id, header)
