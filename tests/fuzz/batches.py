"""Effects as peers send them and the log holds them: what is taken is encoded and taken again."""

from array import array
from functools import cache
from random import Random
from typing import Final

from crdtstream.core.ids import U64_MAX
from crdtstream.core.wire.codec import BatchError, decode_batch, encode_batch
from crdtstream.core.wire.local_codec import decode_local, encode_local
from crdtstream.region.links.errors import PeerError
from crdtstream.replication.wire import checked_batch
from crdtstream.v1 import effects_pb2, local_pb2
from tests.core.every_kind import CHANGES, EFFECTS, batch_of, batch_of_appends, local_of
from tests.fuzz.damage import NUMBERS, SMALL, damaged_bytes, damaged_msgpack, damaging, one_of
from tests.fuzz.histories import PEER, peer_with_everything
from tests.fuzz.surface import Surface

_BATCH: Final = effects_pb2.EffectBatch.DESCRIPTOR.full_name
_CHANGE: Final = "crdtstream.v1.ChangeMembers.change"


def target(data: bytes) -> object:
    """The first byte: is it a batch, or local changes."""
    if data[:1] == b"L":
        try:
            local = decode_local(data[1:])
        except BatchError as error:
            return str(error)
        assert decode_local(encode_local(local)) == local
        return local
    try:
        batch = checked_batch(PEER, data[1:])
    except PeerError as error:
        return str(error)
    again = decode_batch(encode_batch(batch))
    assert again == batch
    assert len(batch.appends.ms) + len(batch.others) == batch.count
    return batch.appends.fields, batch.others


@cache
def seeds() -> list[bytes]:
    batches = [*map(batch_of, EFFECTS), batch_of_appends()]
    found = [b"B" + encode_batch(batch) for batch in batches]
    found += [b"L" + encode_local(local_of(change)) for change in CHANGES]
    return found + [
        b"B" + record.batch for record in peer_with_everything().log if record.batch is not None
    ]


def damaged_columns(data: bytes, draw: Random) -> bytes:
    """A batch with other numbers in one of its columns."""
    try:
        batch = decode_batch(data)
    except BatchError:
        return damaged_bytes(data, draw)
    appends = batch.appends
    column: array[int] = draw.choice((appends.ms, appends.seq, appends.lengths, appends.key_index))
    if not column:
        return damaged_bytes(data, draw)
    most = U64_MAX if column.typecode == "Q" else (1 << 32) - 1
    at = draw.randrange(len(column))
    number = draw.choice((draw.choice(SMALL), draw.choice(NUMBERS), column[at] + 1, column[0]))
    column[at] = min(max(number, 0), most)
    return encode_batch(batch)


# Damage to an encoded batch; other surfaces have batches in their inputs, too.
DAMAGE_TO_BATCH: Final = one_of(
    damaging(effects_pb2.EffectBatch, {_CHANGE: damaged_msgpack}),
    damaging(effects_pb2.EffectBatch, {_CHANGE: damaged_msgpack}),
    damaged_columns,
)
DAMAGE_TO_LOCAL: Final = damaging(local_pb2.LocalChanges)


def damage(data: bytes, draw: Random) -> bytes:
    within = DAMAGE_TO_LOCAL if data[:1] == b"L" else DAMAGE_TO_BATCH
    return data[:1] + within(data[1:], draw)


BATCHES: Final = Surface(
    "batches",
    target,
    seeds,
    damage,
    "batches of effects and local changes: decoded, checked, encoded again",
)
