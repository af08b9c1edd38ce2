"""The canonical digest: equal version vectors, equal digests (``rules`` 22).

It covers, for every key: entries (lane, dot number, ID, fields, producer and idempotent id),
last-ID registers, live creates with their starts, modes, acknowledged intervals, the values of
expiry and XCFGSET registers, and those of strings with their deadlines.  It covers the members,
too, once a change of them was decided.  Not in it: tombstones, idempotency records, counters and
windows, consumers and positions, how entries are spread over macro nodes, and anything a clock
decides.

Numbers are hashed as eight or sixteen little-endian bytes and strings with their length in front,
so that no two states run together to the same bytes.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Final

from crdtstream.core.groups.group import Group
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.intervals import Intervals
from crdtstream.core.keyspace.registers import KeyRegisters, MultiValue
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.blocks import DIGEST_BYTES as BLOCK_DIGEST_BYTES
from crdtstream.core.lanes.bulk_reading import digest_of
from crdtstream.core.lanes.lane import Lane, LastId
from crdtstream.core.membership.members import Members

DIGEST_BYTES: Final = 20


def digest_keyspace(
    streams: Mapping[bytes, Stream],
    registers: Mapping[bytes, KeyRegisters],
    strings: Mapping[bytes, StringRegister],
    members: Members,
) -> bytes:
    """Digest of all keys and of the members, as hexadecimal text."""
    hasher = blake2b(digest_size=DIGEST_BYTES)
    for key in sorted({*streams, *registers, *strings}):
        digest = digest_key(streams.get(key), registers.get(key), strings.get(key))
        hasher.update(_text(key) + digest)
    if members.epoch:
        hasher.update(bytes_of_members(members))
    return hasher.hexdigest().encode()


def digest_key(
    stream: Stream | None, registers: KeyRegisters | None, string: StringRegister | None
) -> bytes:
    """Digest of one key, as hexadecimal text; a register may be there without the stream."""
    hasher = blake2b(digest_size=DIGEST_BYTES)
    if stream is not None:
        _add_stream(hasher, stream)
    if registers is not None:
        hasher.update(b"".join(_registers(registers)))
    if string is not None:
        hasher.update(bytes_of_string(string))
    return hasher.hexdigest().encode()


def bytes_of_members(members: Members) -> bytes:
    """The hash is of all changes; of each epoch the dot is a fact of its own."""
    parts = [b"members", _number(members.epoch), members.hash]
    for step in members.history:
        region, n = step.dot or (0, 0)
        parts += (_number(region), _number(n))
    return b"".join(parts)


def _add_stream(hasher: blake2b, stream: Stream) -> None:
    for region, lane in stream.lanes.items():
        if lane.length:
            hasher.update(b"lane" + _number(region) + _lane(lane))
    for region, register in sorted(stream.last_ids.items()):
        hasher.update(b"last" + _number(region) + bytes_of_last_id(register))
    for name in sorted(stream.groups):
        hasher.update(b"group" + _text(name) + _group(stream.groups[name]))


def bytes_of_last_id(register: LastId) -> bytes:
    """Bytes of a last-ID register that are hashed."""
    return _id(register.id) + _number(register.n)


def _registers(registers: KeyRegisters) -> list[bytes]:
    return [bytes_of_expiry(registers), bytes_of_config(registers)]


def bytes_of_expiry(registers: KeyRegisters) -> bytes:
    """Bytes of the deadlines that are hashed; empty without any."""
    return b"".join([b"expiry" + value for value in _values(registers.expiry)])


def bytes_of_config(registers: KeyRegisters) -> bytes:
    """Bytes of the values of XCFGSET that are hashed; empty without any."""
    parts = [b"idmp-duration" + value for value in _values(registers.idmp_duration_s)]
    parts += [b"idmp-maxsize" + value for value in _values(registers.idmp_maxsize)]
    return b"".join(parts)


def bytes_of_string(string: StringRegister) -> bytes:
    """Bytes of a string, its values, shares and their deadlines, that are hashed."""
    parts = []
    for dot, value in string.values():
        parts.append(b"string" + _number(dot.region) + _number(dot.n) + _text(value.data))
        parts += [b"until" + deadline for deadline in _values(value.expiry)]
    for region, added in string.shares():
        base = added.base or (0, 0)
        numbers = (region, *base, added.n, added.taken_n)
        parts.append(b"share" + b"".join(map(_number, numbers)))
        parts += [_sum(added.total), _sum(added.taken)]
        parts += [b"until" + deadline for deadline in _values(added.expiry)]
    return b"".join(parts)


def _values(register: "MultiValue[Millis | None] | MultiValue[int]") -> list[bytes]:
    return [
        _number(dot.region) + _number(dot.n) + (b"none" if value is None else _number(value))
        for dot, value in sorted(register.values.items(), key=lambda item: item[0])
    ]


def _lane(lane: Lane) -> bytes:
    """Number of entries, and the sum over their blocks (``lanes/blocks.py``)."""
    return _number(lane.length) + digest_of(lane).to_bytes(BLOCK_DIGEST_BYTES, "little")


def _group(group: Group) -> bytes:
    acked = [bytes_of_acked(region, acked) for region, acked in sorted(group.intervals.items())]
    return _text(b"".join([bytes_of_creates(group), bytes_of_mode(group), *acked]))


def bytes_of_creates(group: Group) -> bytes:
    """Bytes of a group's live creates, and of their starts, that are hashed."""
    parts = []
    for dot, start in sorted(group.creates.items()):
        parts.append(b"create" + _number(dot.region) + _number(dot.n))
        if isinstance(start, Mapping):
            parts.append(b"lanes" + _ids_by_region(start.items()))
        else:
            parts.append(b"all" + _id(start))
    return b"".join(parts)


def bytes_of_mode(group: Group) -> bytes:
    """Bytes of a group's mode that are hashed; empty while no mode was set."""
    mode = group.mode
    if not mode.epoch:
        return b""
    numbers = _number(mode.epoch) + _number(mode.issuer)
    return b"mode" + numbers + _text(mode.mode.value.encode()) + _number(mode.home or 0)


def bytes_of_acked(region: RegionId, intervals: Intervals) -> bytes:
    """Bytes of a lane's acknowledged intervals that are hashed."""
    return bytes_of_acked_lane(region) + b"".join(bytes_of_interval(*one) for one in intervals)


def bytes_of_acked_lane(region: RegionId) -> bytes:
    """Bytes that stand before the intervals of a lane."""
    return b"acked" + _number(region)


def bytes_of_interval(low: StreamId, high: StreamId) -> bytes:
    """Bytes of one acknowledged interval that are hashed."""
    return _id(low) + _id(high)


def _ids_by_region(items: Iterable[tuple[RegionId, StreamId]]) -> bytes:
    return b"".join(_number(region) + _id(entry_id) for region, entry_id in sorted(items))


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _sum(value: int) -> bytes:
    return value.to_bytes(16, "little", signed=True)


def _id(entry_id: StreamId) -> bytes:
    return entry_id.to_bytes(16, "little")


def _text(data: bytes) -> bytes:
    return _number(len(data)) + data
