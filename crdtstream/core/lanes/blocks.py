"""The digest of a lane's entries: a sum over blocks, whatever its macro nodes look like.

A *block* is the entries with short fields, below LONG bytes, among 256 dot numbers (n // 256).  An
entry with long fields is a block of its own.  The digest of a lane is the sum of its blocks'
digests, modulo 2**128.  So it depends neither on the order in which they are added nor on where
macro nodes begin.  A macro node that shares no block with its neighbours keeps its part of the sum,
also while its entries are on disk.  Compaction cuts lanes between blocks.

Why short and long: blocks of few entries cost more to hash, and blocks of many with long fields
could not be kept in one macro node.

Hashed of a block: its kind, the number of entries, the columns ms, seq, n (8 bytes each), lengths
(4) and fields.  Then, for each entry that has an idempotent id: its dot number, producer and id.
Numbers are little-endian, texts have their length in front.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.wire.codec import pack

BLOCK_BITS: Final = 8
LONG: Final = 256
DIGEST_BYTES: Final = 16
# Of a name: what it begins with, the dot number and the length of the producer's name.
_NAME: Final = Struct("<2sQQ")
# How many entries, then the columns of a block with one: ms, seq, n, length.
LONE: Final = Struct("<QQQQI")
DIGEST_MASK: Final = (1 << 8 * DIGEST_BYTES) - 1


class Piece(NamedTuple):
    """A macro node's piece of a block, column by column."""

    entries: int
    columns: tuple[bytes, bytes, bytes, bytes, bytes | bytearray, bytes]


def block_of(n: int) -> int:
    return n >> BLOCK_BITS


def short_ends(node: NodeColumns) -> tuple[int, int]:
    """The dot numbers of a warm node's first and last entry with short fields; 0 without any."""
    lengths = node.lengths
    first = next((at for at, length in enumerate(lengths) if length < LONG), None)
    if first is None:
        return 0, 0
    last = next(at for at in range(len(lengths) - 1, -1, -1) if lengths[at] < LONG)
    return node.n[first], node.n[last]


def sum_of(node: NodeColumns) -> int:
    """The sum of a warm node's blocks, as if no other node had a part in them."""
    if node.idempotent is None and node.numbered is None and max(node.lengths) < LONG:
        n = node.n
        if len({one >> BLOCK_BITS for one in n}) == len(n):
            return _sum_of_lone(node)
    total = sum(digest_of_block([piece]) for _, piece in short_pieces(node))
    return (total + sum(digest_of_long(piece) for _, piece in long_pieces(node))) & DIGEST_MASK


def _sum_of_lone(node: NodeColumns) -> int:
    """``sum_of`` for short entries without names, each alone in its block.

    Where many streams are written to in turn most entries are; what is said of columns in general
    costs more than hashing one.
    """
    fields, total = node.fields, 0
    for ms, seq, n, start, length in zip(
        node.ms, node.seq, node.n, node.starts, node.lengths, strict=True
    ):
        data = b"block" + LONE.pack(1, ms, seq, n, length) + fields[start : start + length]
        total += int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest(), "little")
    return total & DIGEST_MASK


def sum_of_joined(nodes: Sequence[NodeColumns]) -> int:
    """The sum of the blocks of neighbouring nodes that each share a block with the next one."""
    total = 0
    open_block = -1
    pieces: list[Piece] = []
    for node in nodes:
        total += sum(digest_of_long(piece) for _, piece in long_pieces(node))
        for block, piece in short_pieces(node):
            if block != open_block and pieces:
                total += digest_of_block(pieces)
                pieces = []
            open_block = block
            pieces.append(piece)
    if pieces:
        total += digest_of_block(pieces)
    return total & DIGEST_MASK


def short_pieces(node: NodeColumns) -> Iterator[tuple[int, Piece]]:
    """The node's part in each block of short entries, ascending."""
    n, lengths = node.n, node.lengths
    if max(lengths) < LONG:
        # Dot numbers may lie so far apart that each entry is a block: columns are made bytes once.
        ms, seq, ns = [pack(array("Q", column)) for column in (node.ms, node.seq, n)]
        sizes = pack(array("I", lengths))
        fields = node.live_fields()
        ends = list(accumulate(lengths, initial=0))
        has_names = node.idempotent is not None or node.numbered is not None
        at = 0
        while at < len(n):
            block = block_of(n[at])
            stop = bisect_right(n, ((block + 1) << BLOCK_BITS) - 1, at)
            columns = (
                ms[8 * at : 8 * stop],
                seq[8 * at : 8 * stop],
                ns[8 * at : 8 * stop],
                sizes[4 * at : 4 * stop],
                fields[ends[at] : ends[stop]],
                b"".join(_names(node, range(at, stop))) if has_names else b"",
            )
            yield block, Piece(stop - at, columns)
            at = stop
        return
    by_block: dict[int, list[int]] = {}
    for at, length in enumerate(lengths):
        if length < LONG:
            by_block.setdefault(block_of(n[at]), []).append(at)
    for block, indexes in by_block.items():
        yield block, _piece(node, indexes)


def long_pieces(node: NodeColumns) -> Iterator[tuple[int, Piece]]:
    """The node's entries with long fields, each with its dot number, ascending."""
    if max(node.lengths) < LONG:
        return
    for at, length in enumerate(node.lengths):
        if length >= LONG:
            yield node.n[at], _piece(node, range(at, at + 1))


def digest_of_block(pieces: Sequence[Piece]) -> int:
    """Digest of a block of short entries, whatever its pieces."""
    return _digest(b"block", pieces)


def digest_of_long(piece: Piece) -> int:
    """Digest of an entry with long fields."""
    return _digest(b"entry", [piece])


def digest_of_entry(node: NodeColumns, at: int) -> int:
    """Digest of one entry, as if it were alone in its block."""
    piece = _piece(node, range(at, at + 1))
    return digest_of_block([piece]) if node.lengths[at] < LONG else digest_of_long(piece)


def _piece(node: NodeColumns, at: Sequence[int]) -> Piece:
    """The entries at these indexes."""
    has_names = node.idempotent is not None or node.numbered is not None
    if isinstance(at, range):
        start, stop = at.start, at.stop
        ms, seq = node.ms[start:stop], node.seq[start:stop]
        n, lengths = node.n[start:stop], node.lengths[start:stop]
        begin, end = node.starts[start], node.starts[stop - 1] + lengths[-1]
        fields: bytes | bytearray = node.fields[begin:end]
    else:
        ms, seq = (
            array("Q", map(node.ms.__getitem__, at)),
            array("Q", map(node.seq.__getitem__, at)),
        )
        n, lengths = (
            list(map(node.n.__getitem__, at)),
            array("I", map(node.lengths.__getitem__, at)),
        )
        fields = b""
    if sum(lengths) != len(fields):
        fields = b"".join(map(node.fields_at, at))
    return Piece(
        len(at),
        (
            pack(array("Q", ms)),
            pack(array("Q", seq)),
            pack(array("Q", n)),
            pack(array("I", lengths)),
            fields,
            b"".join(_names(node, at)) if has_names else b"",
        ),
    )


def _names(node: NodeColumns, at: Sequence[int]) -> Iterator[bytes]:
    ns, names = node.n, node.idempotent or {}
    for index in at:
        n = ns[index]
        name = names.get(n) if node.numbered is None else node.idempotent_at(index)
        if name is not None:
            producer, text = name.producer, name.id
            yield _NAME.pack(b"id", n, len(producer)) + producer + _number(len(text)) + text


def _digest(kind: bytes, pieces: Sequence[Piece]) -> int:
    if len(pieces) == 1:
        (piece,) = pieces
        data = b"".join((kind, _number(piece.entries), *piece.columns))
        return int.from_bytes(blake2b(data, digest_size=DIGEST_BYTES).digest(), "little")
    hasher = blake2b(
        kind + _number(sum(piece.entries for piece in pieces)), digest_size=DIGEST_BYTES
    )
    # Column after column, so that where a node ends leaves no trace in it.
    for columns in zip(*(piece.columns for piece in pieces), strict=True):
        for column in columns:
            hasher.update(column)
    return int.from_bytes(hasher.digest(), "little")


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little")
