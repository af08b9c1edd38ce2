"""Batches as bytes: protobuf messages, the appends as columns.

A batch is encoded once, by its issuer; log, links and relays carry these bytes.  Columns are
``bytes`` fields, so that encoding and decoding them are a few copies instead of a call per effect.
Batches from before log format 1 have columns and intervals in other fields, and are refused.

Decoding validates what comes from outside: whatever passes has columns of equal length, offsets
that fit and no empty lists.  What needs the replica's state (is it next, do the IDs ascend) is
checked where it is applied.
"""

import itertools
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

from google.protobuf.message import DecodeError

from crdtstream.core.checkpoint.contents import SUM_BYTES_MAX, sum_content, sum_of
from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector
from crdtstream.core.effects import (
    EPOCH_MAX,
    AckFrontier,
    AddToString,
    AppendColumns,
    ChangeMembers,
    CreateGroup,
    DeleteKey,
    DeleteString,
    DestroyGroup,
    EffectBatch,
    ExpireKey,
    IdempotentId,
    LaneHandover,
    Mode,
    Numbered,
    NumberedRun,
    RareEffect,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetStreamConfig,
    SetString,
    SetStringExpiry,
    Start,
    Taken,
    Trim,
    are_stretches,
    ascend,
)
from crdtstream.core.fields import FIELDS_BYTES_MIN
from crdtstream.core.id_columns import IdColumns, Ids, from_columns
from crdtstream.core.ids import (
    REGION_MAX,
    U64_MAX,
    Millis,
    RegionId,
    StreamId,
    id_ms,
    id_seq,
    make_id,
)
from crdtstream.core.member_changes import (
    HASH_BYTES,
    MembersError,
    decode_change,
    encode_change,
)
from crdtstream.core.membership.members import EPOCHS_MAX
from crdtstream.core.producers.idempotency import DURATION_S_MAX, MAXSIZE_MAX
from crdtstream.core.wire.by_hand import batch_by_hand
from crdtstream.core.wire.columns import ColumnsError, ColumnsReader, little_endian, write_columns
from crdtstream.v1 import effects_pb2

N_MAX: Final = (1 << 63) - 1
# Batches and rows of numbered producers.
ROW_MAX: Final = (1 << 63) - 1
EFFECTS_PER_BATCH_MAX: Final = 1 << 24
# Further from an ID than this, the issuer's clock is encoded by itself; IDs may be any numbers.
ISSUED_AFTER_MS_MAX: Final = 1 << 31


class BatchError(Exception):
    """Bytes that are no valid batch (or record); the text names the field."""


# --- Columns ------------------------------------------------------------------------------------


def pack(column: "array[int]") -> bytes:
    """A column's numbers, little-endian."""
    return little_endian(column).tobytes()


def unpack(typecode: str, data: bytes, *, field: str) -> "array[int]":
    """A column from outside.

    Raises:
        BatchError: it is no whole number of values.
    """
    column = array(typecode)
    if len(data) % column.itemsize:
        raise BatchError(f"{field}: {len(data)} bytes are no whole number of values")
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column


# --- Version vectors and IDs --------------------------------------------------------------------


def encode_vv(vv: VersionVector) -> effects_pb2.VersionVector:
    """A version vector as message, regions ascending."""
    regions = sorted(vv)
    return effects_pb2.VersionVector(regions=regions, counts=[vv[region] for region in regions])


def decode_vv(message: effects_pb2.VersionVector) -> MutableVersionVector:
    """The inverse of :func:`encode_vv`.

    Raises:
        BatchError: lists of different length, a region or count out of range, or a repeated region.
    """
    if len(message.regions) != len(message.counts):
        raise BatchError("version vector: regions and counts differ in number")
    vv = {
        checked_region(region, field="version vector"): n
        for region, n in zip(message.regions, message.counts, strict=True)
    }
    if len(vv) != len(message.regions) or not all(0 < n <= N_MAX for n in vv.values()):
        raise BatchError("version vector: a repeated region or a count out of range")
    return vv


def checked_region(number: int, *, field: str) -> RegionId:
    if not 1 <= number <= REGION_MAX:
        raise BatchError(f"{field}: region {number} is not in 1 to {REGION_MAX}")
    return RegionId(number)


def encode_id(entry_id: StreamId) -> effects_pb2.Id:
    return effects_pb2.Id(ms=id_ms(entry_id), seq=id_seq(entry_id))


def decode_id(message: effects_pb2.Id) -> StreamId:
    return make_id(message.ms, message.seq)


def encode_lane_ids(ids: Mapping[RegionId, Ids]) -> list[effects_pb2.LaneIds]:
    return [_encode_ids(lane, ids[lane]) for lane in sorted(ids)]


def _encode_ids(lane: RegionId, ids: Ids) -> effects_pb2.LaneIds:
    if len(ids) == 1:
        # Most clients name one; columns of one number take longer to make than the message.
        entry_id = ids[0]
        return effects_pb2.LaneIds(
            lane=lane,
            ms=id_ms(entry_id).to_bytes(8, "little"),
            seq=id_seq(entry_id).to_bytes(8, "little"),
        )
    columns = ids if isinstance(ids, IdColumns) else IdColumns.of(ids)
    return effects_pb2.LaneIds(lane=lane, ms=pack(columns.ms), seq=pack(columns.seq))


def decode_lane_ids(messages: Sequence[effects_pb2.LaneIds], *, field: str) -> dict[RegionId, Ids]:
    lanes: dict[RegionId, Ids] = {}
    for message in messages:
        ms = unpack("Q", message.ms, field=f"{field}.ms")
        seq = unpack("Q", message.seq, field=f"{field}.seq")
        if not ms or len(ms) != len(seq):
            raise BatchError(f"{field}: empty, or ms and seq differ in number")
        lanes[checked_region(message.lane, field=field)] = from_columns(ms, seq)
    if len(lanes) != len(messages):
        raise BatchError(f"{field}: a lane stands twice")
    return lanes


def _encode_interval(
    stretch: tuple[StreamId, StreamId], lane: RegionId | None = None
) -> effects_pb2.LaneInterval:
    start, end = stretch
    return effects_pb2.LaneInterval(
        lane=lane,
        from_ms=id_ms(start),
        from_seq=id_seq(start),
        ms_on=id_ms(end) - id_ms(start),
        to_seq=id_seq(end),
    )


def _decode_interval(message: effects_pb2.LaneInterval, *, field: str) -> tuple[StreamId, StreamId]:
    to_ms = message.from_ms + message.ms_on
    if to_ms > U64_MAX:
        raise BatchError(f"{field}: an interval that ends behind the last ID")
    return make_id(message.from_ms, message.from_seq), make_id(to_ms, message.to_seq)


def encode_positions(positions: Mapping[RegionId, StreamId]) -> list[effects_pb2.LanePosition]:
    return [
        effects_pb2.LanePosition(lane=lane, id=encode_id(entry_id))
        for lane, entry_id in sorted(positions.items())
    ]


def decode_positions(
    messages: Iterable[effects_pb2.LanePosition], *, field: str
) -> dict[RegionId, StreamId]:
    return {
        checked_region(message.lane, field=field): decode_id(message.id) for message in messages
    }


# --- Effects ------------------------------------------------------------------------------------


def _encode_effect(offset: int, effect: RareEffect) -> bytes:
    message = effects_pb2.Effect(offset=offset)
    match effect:
        case Remove(key, ids, with_references, trims):
            message.remove.key = key
            message.remove.lanes.extend(encode_lane_ids(ids))
            message.remove.with_references = with_references
            message.remove.trims = trims
        case Trim(key, up_to):
            message.trim.key = key
            message.trim.up_to.extend(encode_positions(up_to))
        case DeleteKey(key, takes):
            message.delete_key.key = key
            message.delete_key.takes.extend(map(_encode_taken, takes))
        case ExpireKey(key):
            message.expire_key.key = key
        case CreateGroup(key, group, start, entries_read):
            create = message.create_group
            create.key, create.group = key, group
            if isinstance(start, Mapping):
                create.lane_starts.extend(encode_positions(start))
            else:
                create.start.CopyFrom(encode_id(start))
            if entries_read is not None:
                create.entries_read = entries_read
        case DestroyGroup(key, group):
            message.destroy_group.key, message.destroy_group.group = key, group
        case AckFrontier(key, group, intervals):
            message.ack_frontier.key, message.ack_frontier.group = key, group
            for lane, stretch in sorted(intervals.items()):
                message.ack_frontier.intervals.append(_encode_interval(stretch, lane=lane))
        case SetLastId(key, entry_id, entries_added, max_deleted_id):
            message.set_last_id.key = key
            message.set_last_id.id.CopyFrom(encode_id(entry_id))
            if entries_added is not None:
                message.set_last_id.entries_added = entries_added
            if max_deleted_id is not None:
                message.set_last_id.max_deleted_id.CopyFrom(encode_id(max_deleted_id))
        case SetExpiry(key, deadline):
            message.set_expiry.key = key
            if deadline is not None:
                message.set_expiry.deadline_ms = deadline
        case SetStreamConfig(key, duration_s, maxsize):
            message.set_stream_config.key = key
            if duration_s is not None:
                message.set_stream_config.idmp_duration_s = duration_s
            if maxsize is not None:
                message.set_stream_config.idmp_maxsize = maxsize
        case SetGroupMode():
            _encode_mode(message.set_group_mode, effect)
        case SetString(key, value, deadline, takes):
            message.set_string.key, message.set_string.value = key, value
            message.set_string.takes.extend(map(_encode_taken, takes))
            if deadline is not None:
                message.set_string.deadline_ms = deadline
        case SetStringExpiry(key, deadline):
            message.set_string_expiry.key = key
            if deadline is not None:
                message.set_string_expiry.deadline_ms = deadline
        case DeleteString(key, takes):
            message.delete_string.key = key
            message.delete_string.takes.extend(map(_encode_taken, takes))
        case AddToString():
            _encode_addition(message.add_to_string, effect)
        case ChangeMembers(epoch, previous, change):
            members = message.change_members
            members.epoch, members.previous = epoch, previous
            members.change = encode_change(change)
        case _:
            assert_never(effect)
    return message.SerializeToString(deterministic=True)


def _encode_taken(taken: Taken) -> effects_pb2.Taken:
    return effects_pb2.Taken(region=taken.region, n=taken.n, total=sum_content(taken.total))


def _encode_addition(message: effects_pb2.AddToString, effect: AddToString) -> None:
    message.key, message.by = effect.key, effect.by
    if effect.base is not None:
        message.base_region, message.base_n = effect.base
    message.after_n, message.before = effect.after_n, sum_content(effect.before)
    if effect.deadline is not None:
        message.deadline_ms = effect.deadline


_MODES: Final = {
    Mode.AT_LEAST_ONCE: effects_pb2.AT_LEAST_ONCE,
    Mode.HOME: effects_pb2.HOME,
    Mode.PARTITIONED: effects_pb2.PARTITIONED,
}


def _encode_mode(message: effects_pb2.SetGroupMode, effect: SetGroupMode) -> None:
    message.key, message.group, message.epoch = effect.key, effect.group, effect.epoch
    message.mode = _MODES[effect.mode]
    if effect.home is not None:
        message.home = effect.home
    message.forced = effect.forced
    for lane, handover in sorted(effect.handover.items()):
        body = message.handover.add(lane=lane)
        body.run_from.CopyFrom(encode_id(handover.run_from))
        body.last_delivered.CopyFrom(encode_id(handover.last_delivered))
        body.handed_out.extend(map(_encode_interval, handover.handed_out))
        body.ignore_until.CopyFrom(encode_id(handover.ignore_until))
        if handover.pending:
            ids, counts = zip(*handover.pending, strict=True)
            body.pending.ms = pack(array("Q", map(id_ms, ids)))
            body.pending.seq = pack(array("Q", map(id_seq, ids)))
            body.delivery_counts = pack(array("Q", counts))
        if handover.entries_read is not None:
            body.entries_read = handover.entries_read


def _decode_effect(message: effects_pb2.Effect) -> RareEffect:
    match message.WhichOneof("kind"):
        case "remove":
            remove = message.remove
            ids = decode_lane_ids(remove.lanes, field="remove.lanes")
            if not ids or not all(map(ascend, ids.values())):
                raise BatchError("remove.lanes: none, or IDs that do not ascend")
            return Remove(remove.key, ids, remove.with_references, remove.trims)
        case "trim":
            if not message.trim.up_to:
                raise BatchError("trim.up_to: empty")
            return Trim(message.trim.key, decode_positions(message.trim.up_to, field="trim.up_to"))
        case "delete_key":
            return DeleteKey(message.delete_key.key, _decode_takes(message.delete_key.takes))
        case "expire_key":
            return ExpireKey(message.expire_key.key)
        case "create_group":
            return _decode_create(message.create_group)
        case "destroy_group":
            return DestroyGroup(message.destroy_group.key, message.destroy_group.group)
        case "ack_frontier":
            return _decode_frontier(message.ack_frontier)
        case "set_last_id":
            body = message.set_last_id
            return SetLastId(
                body.key,
                decode_id(body.id),
                body.entries_added if body.HasField("entries_added") else None,
                decode_id(body.max_deleted_id) if body.HasField("max_deleted_id") else None,
            )
        case "set_expiry":
            expiry = message.set_expiry
            return SetExpiry(expiry.key, _decode_deadline(expiry))
        case "set_stream_config":
            return _decode_config(message.set_stream_config)
        case "set_group_mode":
            return _decode_mode(message.set_group_mode)
        case "set_string":
            string = message.set_string
            takes = _decode_takes(string.takes)
            return SetString(string.key, string.value, _decode_deadline(string), takes)
        case "set_string_expiry":
            string_expiry = message.set_string_expiry
            return SetStringExpiry(string_expiry.key, _decode_deadline(string_expiry))
        case "delete_string":
            return DeleteString(
                message.delete_string.key, _decode_takes(message.delete_string.takes)
            )
        case "add_to_string":
            return _decode_addition(message.add_to_string)
        case "change_members":
            return _decode_members(message.change_members)
        case _:
            raise BatchError("others.kind: an effect this version does not know; upgrade this node")


def _decode_takes(messages: Iterable[effects_pb2.Taken]) -> tuple[Taken, ...]:
    takes = tuple(
        Taken(
            checked_region(one.region, field="takes.region"),
            _decode_n(one.n, field="takes.n"),
            _decode_sum(one.total, field="takes.total"),
        )
        for one in messages
    )
    if any(a.region >= b.region for a, b in itertools.pairwise(takes)):
        raise BatchError("takes.region: the regions do not ascend")
    return takes


def _decode_addition(message: effects_pb2.AddToString) -> AddToString:
    base = None
    if message.base_region or message.base_n:
        region = checked_region(message.base_region, field="add_to_string.base_region")
        base = Dot(region, _decode_n(message.base_n, field="add_to_string.base_n"))
    before = _decode_sum(message.before, field="add_to_string.before")
    if message.after_n > N_MAX:
        raise BatchError(f"add_to_string.after_n: {message.after_n} is out of range")
    if before and not message.after_n:
        raise BatchError("add_to_string.before: something before the first")
    return AddToString(
        message.key, message.by, base, message.after_n, before, _decode_deadline(message)
    )


def _decode_n(n: int, *, field: str) -> int:
    if not 1 <= n <= N_MAX:
        raise BatchError(f"{field}: {n} is out of range")
    return n


def _decode_sum(data: bytes, *, field: str) -> int:
    if len(data) > SUM_BYTES_MAX or sum_content(sum_of(data)) != data:
        raise BatchError(f"{field}: no sum")
    return sum_of(data)


def _decode_deadline(
    message: effects_pb2.SetExpiry
    | effects_pb2.SetString
    | effects_pb2.SetStringExpiry
    | effects_pb2.AddToString,
) -> Millis | None:
    return Millis(message.deadline_ms) if message.HasField("deadline_ms") else None


def _decode_config(message: effects_pb2.SetStreamConfig) -> SetStreamConfig:
    duration_s = message.idmp_duration_s if message.HasField("idmp_duration_s") else None
    maxsize = message.idmp_maxsize if message.HasField("idmp_maxsize") else None
    if duration_s is not None and not 1 <= duration_s <= DURATION_S_MAX:
        raise BatchError(f"set_stream_config.idmp_duration_s: {duration_s} is out of range")
    if maxsize is not None and not 1 <= maxsize <= MAXSIZE_MAX:
        raise BatchError(f"set_stream_config.idmp_maxsize: {maxsize} is out of range")
    return SetStreamConfig(message.key, duration_s, maxsize)


def _decode_mode(message: effects_pb2.SetGroupMode) -> SetGroupMode:
    modes = {number: mode for mode, number in _MODES.items()}
    mode = modes.get(message.mode)
    if mode is None:
        raise BatchError("set_group_mode.mode: this version does not know it; upgrade this node")
    home = (
        checked_region(message.home, field="set_group_mode.home")
        if message.HasField("home")
        else None
    )
    if (home is None) is (mode is Mode.HOME):
        raise BatchError("set_group_mode.home: there with mode home, and only then")
    if not 1 <= message.epoch <= EPOCH_MAX:
        raise BatchError(f"set_group_mode.epoch: {message.epoch} is out of range")
    handover = {
        checked_region(body.lane, field="set_group_mode.handover"): _decode_handover(body)
        for body in message.handover
    }
    return SetGroupMode(
        message.key, message.group, message.epoch, mode, home, message.forced, handover
    )


def _decode_members(message: effects_pb2.ChangeMembers) -> ChangeMembers:
    if not 2 <= message.epoch <= EPOCHS_MAX or len(message.previous) != HASH_BYTES:
        raise BatchError("change_members: an epoch out of range, or a hash of another length")
    try:
        change = decode_change(message.change)
    except MembersError as error:
        raise BatchError(f"change_members.change: {error}") from error
    return ChangeMembers(message.epoch, message.previous, change)


def _decode_handover(message: effects_pb2.LaneHandover) -> LaneHandover:
    field = "set_group_mode.handover"
    ms = unpack("Q", message.pending.ms, field=f"{field}.pending.ms")
    seq = unpack("Q", message.pending.seq, field=f"{field}.pending.seq")
    counts = unpack("Q", message.delivery_counts, field=f"{field}.delivery_counts")
    if not len(ms) == len(seq) == len(counts):
        raise BatchError(f"{field}.pending: IDs and delivery counts differ in number")
    if any(count > N_MAX for count in counts):
        raise BatchError(f"{field}.delivery_counts: out of range")
    ids = list(map(make_id, ms, seq))
    if not ascend(ids):
        raise BatchError(f"{field}.pending: not ascending")
    handed_out = tuple(
        _decode_interval(interval, field=f"{field}.handed_out") for interval in message.handed_out
    )
    if not are_stretches(handed_out):
        raise BatchError(f"{field}.handed_out: a stretch that is empty or ends too early")
    run_from, last_delivered = decode_id(message.run_from), decode_id(message.last_delivered)
    if run_from > last_delivered:
        raise BatchError(f"{field}.run_from: beyond last_delivered")
    return LaneHandover(
        run_from=run_from,
        last_delivered=last_delivered,
        handed_out=handed_out,
        ignore_until=decode_id(message.ignore_until),
        pending=tuple(zip(ids, counts, strict=True)),
        entries_read=message.entries_read if message.HasField("entries_read") else None,
    )


def _decode_create(message: effects_pb2.CreateGroup) -> CreateGroup:
    start: Start
    if message.HasField("start"):
        start = decode_id(message.start)
    else:
        start = decode_positions(message.lane_starts, field="create_group.lane_starts")
    entries_read = None
    if message.HasField("entries_read"):
        entries_read = message.entries_read
    return CreateGroup(message.key, message.group, start, entries_read)


def _decode_frontier(message: effects_pb2.AckFrontier) -> AckFrontier:
    intervals = {}
    for interval in message.intervals:
        lane = checked_region(interval.lane, field="ack_frontier.intervals")
        start, end = _decode_interval(interval, field="ack_frontier.intervals")
        if start >= end:
            raise BatchError("ack_frontier.intervals: an interval that is empty or ends too early")
        intervals[lane] = (start, end)
    if not intervals:
        raise BatchError("ack_frontier.intervals: empty")
    return AckFrontier(message.key, message.group, intervals)


# --- Batches ------------------------------------------------------------------------------------


def encode_batch(batch: EffectBatch) -> bytes:
    """The batch's bytes: what the log keeps and the links send."""
    appends = batch.appends
    producers: dict[bytes, None] = {}
    columns = [appends.ms, appends.seq, appends.lengths]
    if len(appends.keys) > 1:
        columns.append(appends.key_index)
    if appends.idempotent:
        producers = {item.producer: None for item in appends.idempotent.values()}
        producer_index = {producer: index for index, producer in enumerate(producers)}
        named = [producer_index[item.producer] for item in appends.idempotent.values()]
        columns += [array("I", appends.idempotent), array("I", named)]
    written = write_columns(columns) if columns[0] else b""
    after_ms = batch.issued_ms - appends.ms[0] if appends.ms else ISSUED_AFTER_MS_MAX
    is_near = abs(after_ms) < ISSUED_AFTER_MS_MAX
    return batch_by_hand(
        batch,
        written,
        producers=producers,
        after_ms=after_ms if is_near else None,
        encode_rare=_encode_effect,
    )


def decode_batch(data: bytes) -> EffectBatch:
    """The inverse of :func:`encode_batch`.

    Raises:
        BatchError: the bytes are no valid batch; the text says which field.
    """
    try:
        message = effects_pb2.EffectBatch.FromString(data)
    except DecodeError as error:
        raise BatchError(f"batch: no protobuf message of this kind ({error})") from error
    if not 1 <= message.count <= EFFECTS_PER_BATCH_MAX:
        raise BatchError(f"count: {message.count} is not in 1 to {EFFECTS_PER_BATCH_MAX}")
    if not 1 <= message.first_n <= N_MAX - message.count:
        raise BatchError(f"first_n: {message.first_n} is out of range")
    origin = checked_region(message.origin, field="origin")
    context = decode_vv(message.context)
    if origin in context:
        raise BatchError("context: names the batch's own origin")
    appends = _decode_appends(message)
    if len(appends.ms) + len(message.others) != message.count:
        raise BatchError("count: differs from the number of effects")
    offsets = [effect.offset for effect in message.others]
    if any(a >= b for a, b in itertools.pairwise(offsets)):
        raise BatchError("others.offset: not ascending")
    if offsets and offsets[-1] >= message.count:
        raise BatchError("others.offset: beyond the batch")
    others = [(effect.offset, _decode_effect(effect)) for effect in message.others]
    return EffectBatch(
        origin=origin,
        first_n=message.first_n,
        count=message.count,
        context=context,
        issued_ms=Millis(_issued_ms(message, appends)),
        appends=appends,
        others=others,
        follows=message.follows,
    )


def _issued_ms(message: effects_pb2.EffectBatch, appends: AppendColumns) -> int:
    if not message.HasField("issued_after_ms"):
        return message.issued_ms
    after_ms = message.issued_after_ms
    if not appends.ms or abs(after_ms) >= ISSUED_AFTER_MS_MAX:
        raise BatchError(f"issued_after_ms: {after_ms} is out of range, or there is no append")
    issued_ms = appends.ms[0] + after_ms
    if not 0 <= issued_ms <= U64_MAX:
        raise BatchError(f"issued_after_ms: {issued_ms} is no time")
    return issued_ms


class _Columns:
    """The columns of a batch's appends, as they were on the wire."""

    def __init__(self, message: effects_pb2.EffectBatch) -> None:
        """Raises:
        BatchError: they are no columns, or not of one length.
        """
        self.idempotent_index = self.idempotent_producer_index = array("I")
        count = max(message.count - len(message.others), 0)
        # A column takes memory for this number of values, however few bytes it has here.
        if count * FIELDS_BYTES_MIN > len(message.fields):
            raise BatchError(f"fields: too few bytes for {count} appends")
        self.key_index = array("I", bytes(4 * count))
        self.ms = self.seq = array("Q")
        self.lengths = array("I")
        if count and not message.columns:
            raise BatchError("columns: none, as in batches from before log format 1")
        reader = ColumnsReader(message.columns)
        try:
            if count:
                self._read(reader, message, count)
            reader.check_end()
        except ColumnsError as error:
            raise BatchError(f"columns: {error}") from error

    def _read(self, reader: ColumnsReader, message: effects_pb2.EffectBatch, count: int) -> None:
        self.ms, self.seq = reader.take("Q", count), reader.take("Q", count)
        self.lengths = reader.take("I", count)
        if len(message.keys) > 1:
            self.key_index = reader.take("I", count)
        if message.idempotent_ids:
            named = len(message.idempotent_ids)
            self.idempotent_index = reader.take("I", named)
            self.idempotent_producer_index = reader.take("I", named)


def _decode_appends(message: effects_pb2.EffectBatch) -> AppendColumns:
    columns = _Columns(message)
    if len(message.keys) > 1 and columns.key_index and max(columns.key_index) >= len(message.keys):
        raise BatchError("key_index: beyond the keys")
    if columns.ms and not message.keys:
        raise BatchError("keys: appends without a key")
    if sum(columns.lengths) != len(message.fields):
        raise BatchError("fields: its size is not the sum of the lengths")
    idempotent = _decode_idempotent(message, columns)
    return AppendColumns(
        list(message.keys),
        columns.key_index,
        columns.ms,
        columns.seq,
        columns.lengths,
        message.fields,
        idempotent,
        _decode_numbered(message, idempotent, append_count=len(columns.ms)),
    )


def _decode_idempotent(
    message: effects_pb2.EffectBatch, columns: _Columns
) -> dict[int, IdempotentId]:
    ids = message.idempotent_ids
    if not ids:
        return {}
    index, producer_index = columns.idempotent_index, columns.idempotent_producer_index
    if not len(index) == len(producer_index) == len(ids):
        raise BatchError(
            "idempotent_index, idempotent_producer_index, idempotent_ids: differ in length"
        )
    if index[-1] >= len(columns.ms) or any(a >= b for a, b in itertools.pairwise(index)):
        raise BatchError("idempotent_index: not ascending, or beyond the appends")
    if max(producer_index) >= len(message.producers):
        raise BatchError("idempotent_producer_index: beyond the producers")
    return {
        at: IdempotentId(message.producers[producer], idempotent_id)
        for at, producer, idempotent_id in zip(index, producer_index, ids, strict=True)
    }


def _decode_numbered(
    message: effects_pb2.EffectBatch, idempotent: Mapping[int, IdempotentId], *, append_count: int
) -> list[NumberedRun]:
    runs = []
    free_from = 0
    marked = sorted(idempotent)
    for run in message.numbered:
        stop = run.index + run.count
        if run.index < free_from or not run.count or stop > append_count:
            raise BatchError("numbered.index: not ascending, empty, or beyond the appends")
        if bisect_left(marked, run.index) != bisect_left(marked, stop):
            raise BatchError("numbered.index: an append that has an idempotent id, too")
        if not run.producer:
            raise BatchError("numbered.producer: empty")
        if run.batch > ROW_MAX or run.first_row + run.count > ROW_MAX:
            raise BatchError("numbered: a batch or row number that is out of range")
        free_from = stop
        first = Numbered(run.producer, run.batch, run.first_row)
        runs.append(NumberedRun(run.index, run.count, first))
    return runs
