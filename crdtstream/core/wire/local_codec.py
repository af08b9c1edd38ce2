"""Local changes as bytes: the part of a record that stays in its region.

The messages are those of ``local.proto``; only the log ever holds them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from google.protobuf.message import DecodeError

from crdtstream.core.effects import (
    OF_MERGED,
    Ack,
    Claim,
    CreateConsumer,
    DeleteConsumer,
    Deliver,
    LocalChange,
    Merged,
    Record,
    Redeliver,
    Release,
    SetPosition,
    Start,
)
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.wire.by_hand import changes_by_hand
from crdtstream.core.wire.codec import (
    BatchError,
    checked_region,
    decode_id,
    decode_lane_ids,
    decode_positions,
    decode_vv,
    encode_id,
    encode_lane_ids,
    encode_positions,
    encode_vv,
)
from crdtstream.v1 import local_pb2

UNKNOWN: Final = Millis(0)


@dataclass(slots=True, init=False)
class Local:
    """The local part of a record.

    Attributes:
        changes: each with the number of own effects issued before it.
        arrived: when a batch of another region came here; 0 in a record of this region's own.
        appended: when each idempotent append of a batch of this region was made.
        merged: the state that was merged, if the record stands for that instead of a batch and
            changes.
    """

    changes: Final[Sequence[tuple[int, LocalChange]]]
    arrived: Final[Millis]
    appended: Final[Sequence[Millis]]
    merged: Final[Merged | None]

    def __init__(
        self,
        changes: Sequence[tuple[int, LocalChange]] = (),
        arrived: Millis = UNKNOWN,
        appended: Sequence[Millis] = (),
        merged: Merged | None = None,
    ) -> None:
        self.changes = changes
        self.arrived = arrived
        self.appended = appended
        self.merged = merged


def encode_local(local: Local) -> bytes:
    """Encode the local part of a record."""
    if local.merged is None and not local.appended:
        short = changes_by_hand(local.changes, local.arrived)
        if short is not None:
            return short
    message = local_pb2.LocalChanges(
        changes=[_encode_change(after_n, change) for after_n, change in local.changes],
        arrived_ms=local.arrived,
        appended_ms=local.appended,
    )
    if local.merged is not None:
        message.merged.cut_id = local.merged.cut_id
        message.merged.source = local.merged.source
        message.merged.vv.CopyFrom(encode_vv(local.merged.vv))
        if local.merged.key is not None:
            message.merged.key = local.merged.key
    return message.SerializeToString(deterministic=True)


def _encode_change(after_n: int, change: LocalChange) -> local_pb2.LocalChange:
    message = local_pb2.LocalChange(after_n=after_n, key=change.key, group=change.group)
    match change:
        case Deliver(_, _, consumer, now, ids, noack):
            message.consumer, message.now_ms = consumer, now
            message.deliver.lanes.extend(encode_lane_ids(ids))
            message.deliver.noack = noack
        case Redeliver(_, _, consumer, now, ids):
            message.consumer, message.now_ms = consumer, now
            message.redeliver.lanes.extend(encode_lane_ids(ids))
        case Ack(_, _, ids):
            message.ack.lanes.extend(encode_lane_ids(ids))
        case Claim(_, _, consumer, now, nacks, dropped, last_id):
            message.consumer, message.now_ms = consumer, now
            for lane, lane_nacks in sorted(nacks.items()):
                for entry_id, delivered_ms, count in lane_nacks:
                    nack = message.claim.nacks.add(
                        lane=lane, delivered_ms=delivered_ms, delivery_count=count
                    )
                    nack.id.CopyFrom(encode_id(entry_id))
            message.claim.dropped.extend(encode_lane_ids(dropped))
            if last_id is not None:
                message.claim.last_id.CopyFrom(encode_id(last_id))
            message.claim.SetInParent()
        case Release(_, _, released):
            for lane, entry_id, count in released:
                body = message.release.nacks.add(lane=lane, delivery_count=count)
                body.id.CopyFrom(encode_id(entry_id))
        case CreateConsumer(_, _, consumer, now):
            message.consumer, message.now_ms = consumer, now
            message.create_consumer.SetInParent()
        case DeleteConsumer(_, _, consumer):
            message.consumer = consumer
            message.delete_consumer.SetInParent()
        case SetPosition(_, _, position, entries_read):
            message.set_position.SetInParent()
            if isinstance(position, Mapping):
                message.set_position.lane_positions.extend(encode_positions(position))
            else:
                message.set_position.position.CopyFrom(encode_id(position))
            if entries_read is not None:
                message.set_position.entries_read = entries_read
        case _:
            assert_never(change)
    return message


def decode_local(data: bytes) -> Local:
    """The inverse of :func:`encode_local`.

    Raises:
        BatchError: the bytes are no valid message.
    """
    try:
        message = local_pb2.LocalChanges.FromString(data)
    except DecodeError as error:
        raise BatchError(f"local: no protobuf message of this kind ({error})") from error
    return Local(
        [(change.after_n, _decode_change(change)) for change in message.changes],
        Millis(message.arrived_ms),
        [Millis(ms) for ms in message.appended_ms],
        _decode_merged(message.merged) if message.HasField("merged") else None,
    )


def merged_in(record: Record) -> Merged | None:
    """The state that a record stands for, None if it is another record.

    Raises:
        BatchError: what is local about it is no valid message.
    """
    if record.origin != OF_MERGED or record.local is None:
        return None
    return decode_local(record.local).merged


def _decode_merged(message: local_pb2.Merged) -> Merged:
    source = checked_region(message.source, field="merged.source")
    key = message.key if message.HasField("key") else None
    return Merged(message.cut_id, source, decode_vv(message.vv), key)


def _decode_change(message: local_pb2.LocalChange) -> LocalChange:
    key, group, consumer = message.key, message.group, message.consumer
    now = Millis(message.now_ms)
    match message.WhichOneof("kind"):
        case "deliver":
            ids = decode_lane_ids(message.deliver.lanes, field="deliver.lanes")
            return Deliver(key, group, consumer, now, ids, message.deliver.noack)
        case "redeliver":
            ids = decode_lane_ids(message.redeliver.lanes, field="redeliver.lanes")
            return Redeliver(key, group, consumer, now, ids)
        case "ack":
            return Ack(key, group, decode_lane_ids(message.ack.lanes, field="ack.lanes"))
        case "claim":
            return _decode_claim(key, group, consumer, now, message.claim)
        case "release":
            if not message.release.nacks:
                raise BatchError("release.nacks: empty")
            return Release(
                key,
                group,
                tuple(
                    (
                        checked_region(nack.lane, field="release.nacks"),
                        decode_id(nack.id),
                        nack.delivery_count,
                    )
                    for nack in message.release.nacks
                ),
            )
        case "create_consumer":
            return CreateConsumer(key, group, consumer, now)
        case "delete_consumer":
            return DeleteConsumer(key, group, consumer)
        case "set_position":
            body = message.set_position
            position: Start
            if body.HasField("position"):
                position = decode_id(body.position)
            else:
                position = decode_positions(body.lane_positions, field="set_position")
            entries_read = body.entries_read if body.HasField("entries_read") else None
            return SetPosition(key, group, position, entries_read)
        case _:
            raise BatchError("local.kind: a change this version does not know; upgrade this node")


def _decode_claim(
    key: bytes, group: bytes, consumer: bytes, now: Millis, message: local_pb2.Claim
) -> Claim:
    nacks: dict[RegionId, list[tuple[StreamId, Millis, int]]] = {}
    for nack in message.nacks:
        lane = checked_region(nack.lane, field="claim.nacks")
        entry = (decode_id(nack.id), Millis(nack.delivered_ms), nack.delivery_count)
        nacks.setdefault(lane, []).append(entry)
    return Claim(
        key,
        group,
        consumer,
        now,
        {lane: tuple(lane_nacks) for lane, lane_nacks in nacks.items()},
        decode_lane_ids(message.dropped, field="claim.dropped"),
        decode_id(message.last_id) if message.HasField("last_id") else None,
    )
