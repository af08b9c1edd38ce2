"""The KEY part of a key: everything small that is kept of it."""

from crdtstream.core.checkpoint.contents import (
    EndedContent,
    FloorContent,
    GoneContent,
    KeyContent,
    LaneContent,
    RegistersContent,
    ShareContent,
    StreamContent,
    StringContent,
    StringValueContent,
    id_content,
    packed,
    sum_content,
)
from crdtstream.core.checkpoint.key_parts import KeyPart
from crdtstream.core.clock import Dot
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.counters import EndedShares
from crdtstream.core.keyspace.floors import Floors
from crdtstream.core.keyspace.keyspace import Keyspace
from crdtstream.core.keyspace.registers import KeyRegisters, MultiValue
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.keyspace.tombstones import Tombstones


def encode_key(
    part: KeyPart,
    *,
    keys: Keyspace,
    tombstones: Tombstones,
    floors: Floors,
    ended_shares: EndedShares,
) -> bytes:
    """All that is small of a key."""
    key = part.key
    stream, registers, string = (
        keys.streams.get(key),
        keys.registers.get(key),
        keys.strings.get(key),
    )
    lost = None if stream is not None else keys.lost(key)
    return packed(
        KeyContent(
            number=part.number,
            key=key,
            stream=None if stream is None else _stream(part, stream),
            registers=None if registers is None else _registers(registers),
            string=None if string is None else _string(part, string),
            floors={
                origin: FloorContent(id_content(floor.last_id), dict(floor.expiries))
                for origin, floor in floors.facts_of(key).items()
            }
            if key in floors
            else None,
            tombstones=[(group, dict(dots)) for group, dots in tombstones.of(key).items()]
            if key in tombstones
            else [],
            gone=GoneContent(part.gone_order, dict(lost)) if lost else None,
            ended_shares={
                region: EndedContent(ended.n, sum_content(ended.total), dict(ended.takers))
                for region, ended in ended_shares.of(key).items()
            }
            if key in ended_shares
            else {},
        )
    )


def _stream(part: KeyPart, stream: Stream) -> StreamContent:
    return StreamContent(
        order=part.stream_order,
        lanes=[
            LaneContent(region, lane.entries_added, id_content(lane.max_deleted_id))
            for region, lane in stream.lanes.items()
        ],
        last_ids=[
            (region, id_content(register.id), register.n)
            for region, register in stream.last_ids.items()
        ],
        lost=dict(stream.lost),
    )


def _registers(registers: KeyRegisters) -> RegistersContent:
    return RegistersContent(
        expiry=_values(registers.expiry),
        idmp_duration_s=list(registers.idmp_duration_s.values.items()),
        idmp_maxsize=list(registers.idmp_maxsize.values.items()),
    )


def _values(register: MultiValue[Millis | None]) -> list[tuple[Dot, Millis | None]]:
    return list(register.values.items())


def _string(key: KeyPart, string: StringRegister) -> StringContent:
    return StringContent(
        order=key.string_order,
        values=[
            StringValueContent(dot, value.data, _values(value.expiry))
            for dot, value in string.values()
        ],
        shares=[
            ShareContent(
                region,
                share.base,
                share.n,
                sum_content(share.total),
                share.taken_n,
                sum_content(share.taken),
                _values(share.expiry),
            )
            for region, share in string.shares()
        ],
    )
