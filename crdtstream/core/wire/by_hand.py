"""Protobuf messages that are written by hand, as the bytes that protobuf makes of them.

A message object takes longer to make than the few fields of an entry, a delivery or an
acknowledgement take to write, and every tick has one of each.  It also copies the entries' fields
twice.  Rare effects are messages of protobuf, and so are all others; so is all reading.

A field is its tag, its length unless it is a number, and its value.  Fields come in the order of
their numbers, and those that are 0 or empty are left out, unless they are ``repeated`` or of a
``oneof``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import (
    Ack,
    AckFrontier,
    CreateConsumer,
    DeleteKey,
    DeleteString,
    Deliver,
    EffectBatch,
    LocalChange,
    NumberedRun,
    RareEffect,
)
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import SEQ_BITS, U64_MAX, RegionId
from crdtstream.core.wire.columns import little_endian

_BYTES: Final = [bytes([number]) for number in range(256)]


def varint(number: int) -> bytes:
    """A number, seven bits to the byte, the lowest first."""
    if number < 0x80:
        return _BYTES[number]
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _number(tag: bytes, number: int) -> bytes:
    return tag + varint(number) if number else b""


def _text(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data if data else b""


def _message(tag: bytes, data: bytes) -> bytes:
    return tag + varint(len(data)) + data


# --- Batches ------------------------------------------------------------------------------------


def batch_by_hand(
    batch: EffectBatch,
    columns: bytes,
    *,
    producers: Iterable[bytes],
    after_ms: int | None,
    encode_rare: Callable[[int, RareEffect], bytes],
) -> bytes:
    """A batch.

    Args:
        columns: those of the appends.
        producers: of the idempotent ids, each once.
        after_ms: time of issue, counted from the first append; None: it is written by itself.
        encode_rare: encodes an effect with its offset, if it is none of the usual ones.
    """
    appends = batch.appends
    parts = [
        b"\x08" + varint(batch.origin) + b"\x10" + varint(batch.first_n),
        b"\x18" + varint(batch.count),
        _message(b"\x22", _vector(batch.context)),
    ]
    if after_ms is None:
        parts.append(b"\x28" + varint(batch.issued_ms))
    parts += [_message(b"\x32", key) for key in appends.keys]
    if appends.fields:
        parts += (b"\x5a", varint(len(appends.fields)), appends.fields)
    # Most batches have none of these, and a comprehension would be a call for each kind.
    for offset, effect in batch.others:
        parts.append(_other(offset, effect, encode_rare))
    for producer in producers:
        parts.append(_message(b"\x72", producer))
    for name in appends.idempotent.values():
        parts.append(_message(b"\x82\x01", name.id))
    for run in appends.numbered:
        parts.append(_message(b"\x8a\x01", _run(run)))
    if columns:
        parts += (b"\x92\x01", varint(len(columns)), columns)
    if after_ms is not None:
        # Numbers below 0 between those above: 0, -1, 1, -2, …
        parts.append(b"\x98\x01" + varint(2 * after_ms if after_ms >= 0 else -2 * after_ms - 1))
    if batch.follows:
        parts.append(b"\xa1\x01" + batch.follows.to_bytes(8, "little"))
    return b"".join(parts)


def _vector(vv: VersionVector) -> bytes:
    if not vv:
        return b""
    regions = counts = b""
    for region in sorted(vv):
        regions += varint(region)
        counts += varint(vv[region])
    return _message(b"\x0a", regions) + _message(b"\x12", counts)


def _other(
    offset: int, effect: RareEffect, encode_rare: Callable[[int, RareEffect], bytes]
) -> bytes:
    """An effect that is no append, as a field."""
    if isinstance(effect, AckFrontier):
        kind = _message(b"\x3a", _frontier(effect))
    elif isinstance(effect, DeleteKey) and not effect.takes:
        kind = _message(b"\x22", _text(b"\x0a", effect.key))
    elif isinstance(effect, DeleteString) and not effect.takes:
        kind = _message(b"\xba\x01", _text(b"\x0a", effect.key))
    else:
        return _message(b"\x62", encode_rare(offset, effect))
    return _message(b"\x62", _number(b"\x08", offset) + kind)


def _run(run: NumberedRun) -> bytes:
    first = run.first
    data = _number(b"\x08", run.at) + _number(b"\x10", run.count)
    data += _text(b"\x1a", first.producer) + _number(b"\x20", first.batch)
    return data + _number(b"\x28", first.row)


def _frontier(effect: AckFrontier) -> bytes:
    data = _text(b"\x0a", effect.key) + _text(b"\x12", effect.group)
    for lane, (start, end) in sorted(effect.intervals.items()):
        ms = start >> SEQ_BITS
        interval = _number(b"\x08", lane) + _number(b"\x20", ms)
        interval += _number(b"\x28", start & U64_MAX)
        interval += _number(b"\x30", (end >> SEQ_BITS) - ms) + _number(b"\x38", end & U64_MAX)
        data += _message(b"\x1a", interval)
    return data


# --- Local changes ------------------------------------------------------------------------------


def changes_by_hand(changes: Iterable[tuple[int, LocalChange]], arrived_ms: int) -> bytes | None:
    """Deliveries, acknowledgements, new consumers of a record; None if a change is another."""
    parts: list[bytes] = []
    for after_n, change in changes:
        head = _number(b"\x08", after_n)
        if isinstance(change, Deliver):
            head += _text(b"\x12", change.key) + _text(b"\x1a", change.group)
            head += _text(b"\x22", change.consumer) + _number(b"\x28", change.now)
            kind = _lanes(change.ids) + (b"\x10\x01" if change.noack else b"")
            parts.append(_message(b"\x0a", head + _message(b"\x32", kind)))
        elif isinstance(change, Ack):
            head += _text(b"\x12", change.key) + _text(b"\x1a", change.group)
            parts.append(_message(b"\x0a", head + _message(b"\x42", _lanes(change.ids))))
        elif isinstance(change, CreateConsumer):
            head += _text(b"\x12", change.key) + _text(b"\x1a", change.group)
            head += _text(b"\x22", change.consumer) + _number(b"\x28", change.now)
            parts.append(_message(b"\x0a", head + b"\x52\x00"))
        else:
            return None
    parts.append(_number(b"\x10", arrived_ms))
    return b"".join(parts)


def _lanes(ids: Mapping[RegionId, Ids]) -> bytes:
    data = b""
    for lane in sorted(ids):
        of_lane = ids[lane]
        if len(of_lane) == 1:
            entry_id = of_lane[0]
            ms = (entry_id >> SEQ_BITS).to_bytes(8, "little")
            seq = (entry_id & U64_MAX).to_bytes(8, "little")
        else:
            columns = of_lane if isinstance(of_lane, IdColumns) else IdColumns.of(of_lane)
            ms = little_endian(columns.ms).tobytes()
            seq = little_endian(columns.seq).tobytes()
        lane_ids = _number(b"\x08", lane) + _text(b"\x12", ms) + _text(b"\x1a", seq)
        data += _message(b"\x0a", lane_ids)
    return data
