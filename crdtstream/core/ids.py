"""Entry IDs: 128-bit numbers, milliseconds above sequence.

An ID is kept as one Python integer, ``ms << 64 | seq``: comparing, sorting and hashing are then
single operations of the interpreter, and "the next ID" is ``+ 1``, over to the next millisecond
included.  As a radix-tree key it is 16 big-endian bytes, whose byte order is the numeric order.

Region-unique sequences (architecture, "IDs"): the sequences of region r are those with
``seq mod 1024 == r``, so two regions never generate the same ID.
"""

from enum import Enum
from typing import Final, NewType

RegionId = NewType("RegionId", int)
Millis = NewType("Millis", int)
StreamId = NewType("StreamId", int)

REGION_MAX: Final = 1023
SEQ_BITS: Final = 64
U64_MAX: Final = (1 << 64) - 1
SEQ_STRIDE: Final = 1024

ID_MIN: Final = StreamId(0)
ID_MAX: Final = StreamId((1 << 128) - 1)


class IdMode(Enum):
    """Kinds of IDs that XADD accepts (AA, "ID generation modes"); values as in rladmin."""

    STRICT = "strict"
    SEMI_STRICT = "semi-strict"
    LIBERAL = "liberal"


class IdExhaustedError(Exception):
    """No greater ID exists."""


def make_id(ms: int, seq: int) -> StreamId:
    """The ID ``ms-seq``; both must be unsigned 64-bit numbers."""
    return StreamId(ms << SEQ_BITS | seq)


def id_ms(entry_id: StreamId) -> int:
    return entry_id >> SEQ_BITS


def id_seq(entry_id: StreamId) -> int:
    return entry_id & U64_MAX


def format_id(entry_id: StreamId) -> bytes:
    """The ID as Redis prints it, ``ms-seq``."""
    return b"%d-%d" % (entry_id >> SEQ_BITS, entry_id & U64_MAX)


def parse_u64(text: bytes) -> int | None:
    """An unsigned 64-bit decimal without sign or blanks, or None."""
    if not text.isdigit() or len(text) > 20:
        return None
    value = int(text)
    return value if value <= U64_MAX else None


def parse_id(text: bytes, *, missing_seq: int) -> StreamId | None:
    """``ms-seq`` or ``ms`` (then with ``missing_seq``), or None if it is neither."""
    ms_text, dash, seq_text = text.partition(b"-")
    ms = parse_u64(ms_text)
    seq = parse_u64(seq_text) if dash else missing_seq
    if ms is None or seq is None:
        return None
    return make_id(ms, seq)


def region_seq(region: RegionId, *, above: int) -> int:
    """The smallest sequence of ``region`` that is at least ``above``.  It may exceed U64_MAX."""
    return above + (region - above) % SEQ_STRIDE


def next_id(region: RegionId, *, now: Millis, last: StreamId) -> StreamId:
    """The ID that ``*`` generates: ms = max(now, last.ms), with a region-unique sequence.

    Raises:
        IdExhaustedError: ``last`` leaves no greater ID for this region.
    """
    last_ms = last >> SEQ_BITS
    if now > last_ms:
        return StreamId(now << SEQ_BITS | region)
    seq = region_seq(region, above=(last & U64_MAX) + 1)
    if seq <= U64_MAX:
        return StreamId(last_ms << SEQ_BITS | seq)
    if last_ms >= U64_MAX:
        raise IdExhaustedError
    return StreamId((last_ms + 1) << SEQ_BITS | region)
