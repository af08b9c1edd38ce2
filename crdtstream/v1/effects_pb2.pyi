from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GroupMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AT_LEAST_ONCE: _ClassVar[GroupMode]
    HOME: _ClassVar[GroupMode]
    PARTITIONED: _ClassVar[GroupMode]
AT_LEAST_ONCE: GroupMode
HOME: GroupMode
PARTITIONED: GroupMode

class Id(_message.Message):
    __slots__ = ("ms", "seq")
    MS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ms: int
    seq: int
    def __init__(self, ms: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class VersionVector(_message.Message):
    __slots__ = ("regions", "counts")
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, regions: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class EffectBatch(_message.Message):
    __slots__ = ("origin", "first_n", "count", "context", "issued_ms", "issued_after_ms", "columns", "keys", "fields", "others", "producers", "idempotent_ids", "numbered", "follows")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_N_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ISSUED_MS_FIELD_NUMBER: _ClassVar[int]
    ISSUED_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENT_IDS_FIELD_NUMBER: _ClassVar[int]
    NUMBERED_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    origin: int
    first_n: int
    count: int
    context: VersionVector
    issued_ms: int
    issued_after_ms: int
    columns: bytes
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    fields: bytes
    others: _containers.RepeatedCompositeFieldContainer[Effect]
    producers: _containers.RepeatedScalarFieldContainer[bytes]
    idempotent_ids: _containers.RepeatedScalarFieldContainer[bytes]
    numbered: _containers.RepeatedCompositeFieldContainer[NumberedRun]
    follows: int
    def __init__(self, origin: _Optional[int] = ..., first_n: _Optional[int] = ..., count: _Optional[int] = ..., context: _Optional[_Union[VersionVector, _Mapping]] = ..., issued_ms: _Optional[int] = ..., issued_after_ms: _Optional[int] = ..., columns: _Optional[bytes] = ..., keys: _Optional[_Iterable[bytes]] = ..., fields: _Optional[bytes] = ..., others: _Optional[_Iterable[_Union[Effect, _Mapping]]] = ..., producers: _Optional[_Iterable[bytes]] = ..., idempotent_ids: _Optional[_Iterable[bytes]] = ..., numbered: _Optional[_Iterable[_Union[NumberedRun, _Mapping]]] = ..., follows: _Optional[int] = ...) -> None: ...

class NumberedRun(_message.Message):
    __slots__ = ("index", "count", "producer", "batch", "first_row")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    index: int
    count: int
    producer: bytes
    batch: int
    first_row: int
    def __init__(self, index: _Optional[int] = ..., count: _Optional[int] = ..., producer: _Optional[bytes] = ..., batch: _Optional[int] = ..., first_row: _Optional[int] = ...) -> None: ...

class Effect(_message.Message):
    __slots__ = ("offset", "remove", "trim", "delete_key", "create_group", "destroy_group", "ack_frontier", "set_last_id", "set_expiry", "set_stream_config", "set_group_mode", "expire_key", "set_string", "set_string_expiry", "delete_string", "add_to_string", "change_members")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    TRIM_FIELD_NUMBER: _ClassVar[int]
    DELETE_KEY_FIELD_NUMBER: _ClassVar[int]
    CREATE_GROUP_FIELD_NUMBER: _ClassVar[int]
    DESTROY_GROUP_FIELD_NUMBER: _ClassVar[int]
    ACK_FRONTIER_FIELD_NUMBER: _ClassVar[int]
    SET_LAST_ID_FIELD_NUMBER: _ClassVar[int]
    SET_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    SET_STREAM_CONFIG_FIELD_NUMBER: _ClassVar[int]
    SET_GROUP_MODE_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_KEY_FIELD_NUMBER: _ClassVar[int]
    SET_STRING_FIELD_NUMBER: _ClassVar[int]
    SET_STRING_EXPIRY_FIELD_NUMBER: _ClassVar[int]
    DELETE_STRING_FIELD_NUMBER: _ClassVar[int]
    ADD_TO_STRING_FIELD_NUMBER: _ClassVar[int]
    CHANGE_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    remove: Remove
    trim: Trim
    delete_key: DeleteKey
    create_group: CreateGroup
    destroy_group: DestroyGroup
    ack_frontier: AckFrontier
    set_last_id: SetLastId
    set_expiry: SetExpiry
    set_stream_config: SetStreamConfig
    set_group_mode: SetGroupMode
    expire_key: ExpireKey
    set_string: SetString
    set_string_expiry: SetStringExpiry
    delete_string: DeleteString
    add_to_string: AddToString
    change_members: ChangeMembers
    def __init__(self, offset: _Optional[int] = ..., remove: _Optional[_Union[Remove, _Mapping]] = ..., trim: _Optional[_Union[Trim, _Mapping]] = ..., delete_key: _Optional[_Union[DeleteKey, _Mapping]] = ..., create_group: _Optional[_Union[CreateGroup, _Mapping]] = ..., destroy_group: _Optional[_Union[DestroyGroup, _Mapping]] = ..., ack_frontier: _Optional[_Union[AckFrontier, _Mapping]] = ..., set_last_id: _Optional[_Union[SetLastId, _Mapping]] = ..., set_expiry: _Optional[_Union[SetExpiry, _Mapping]] = ..., set_stream_config: _Optional[_Union[SetStreamConfig, _Mapping]] = ..., set_group_mode: _Optional[_Union[SetGroupMode, _Mapping]] = ..., expire_key: _Optional[_Union[ExpireKey, _Mapping]] = ..., set_string: _Optional[_Union[SetString, _Mapping]] = ..., set_string_expiry: _Optional[_Union[SetStringExpiry, _Mapping]] = ..., delete_string: _Optional[_Union[DeleteString, _Mapping]] = ..., add_to_string: _Optional[_Union[AddToString, _Mapping]] = ..., change_members: _Optional[_Union[ChangeMembers, _Mapping]] = ...) -> None: ...

class LaneIds(_message.Message):
    __slots__ = ("lane", "ms", "seq")
    LANE_FIELD_NUMBER: _ClassVar[int]
    MS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    lane: int
    ms: bytes
    seq: bytes
    def __init__(self, lane: _Optional[int] = ..., ms: _Optional[bytes] = ..., seq: _Optional[bytes] = ...) -> None: ...

class LanePosition(_message.Message):
    __slots__ = ("lane", "id")
    LANE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    lane: int
    id: Id
    def __init__(self, lane: _Optional[int] = ..., id: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class LaneInterval(_message.Message):
    __slots__ = ("lane", "from_ms", "from_seq", "ms_on", "to_seq")
    LANE_FIELD_NUMBER: _ClassVar[int]
    FROM_MS_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    MS_ON_FIELD_NUMBER: _ClassVar[int]
    TO_SEQ_FIELD_NUMBER: _ClassVar[int]
    lane: int
    from_ms: int
    from_seq: int
    ms_on: int
    to_seq: int
    def __init__(self, lane: _Optional[int] = ..., from_ms: _Optional[int] = ..., from_seq: _Optional[int] = ..., ms_on: _Optional[int] = ..., to_seq: _Optional[int] = ...) -> None: ...

class Remove(_message.Message):
    __slots__ = ("key", "lanes", "with_references", "trims")
    KEY_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    WITH_REFERENCES_FIELD_NUMBER: _ClassVar[int]
    TRIMS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    lanes: _containers.RepeatedCompositeFieldContainer[LaneIds]
    with_references: bool
    trims: bool
    def __init__(self, key: _Optional[bytes] = ..., lanes: _Optional[_Iterable[_Union[LaneIds, _Mapping]]] = ..., with_references: _Optional[bool] = ..., trims: _Optional[bool] = ...) -> None: ...

class Trim(_message.Message):
    __slots__ = ("key", "up_to")
    KEY_FIELD_NUMBER: _ClassVar[int]
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    up_to: _containers.RepeatedCompositeFieldContainer[LanePosition]
    def __init__(self, key: _Optional[bytes] = ..., up_to: _Optional[_Iterable[_Union[LanePosition, _Mapping]]] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ("region", "n", "total")
    REGION_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    region: int
    n: int
    total: bytes
    def __init__(self, region: _Optional[int] = ..., n: _Optional[int] = ..., total: _Optional[bytes] = ...) -> None: ...

class DeleteKey(_message.Message):
    __slots__ = ("key", "takes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TAKES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    takes: _containers.RepeatedCompositeFieldContainer[Taken]
    def __init__(self, key: _Optional[bytes] = ..., takes: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ...) -> None: ...

class ExpireKey(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class CreateGroup(_message.Message):
    __slots__ = ("key", "group", "start", "lane_starts", "entries_read")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    LANE_STARTS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_READ_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    group: bytes
    start: Id
    lane_starts: _containers.RepeatedCompositeFieldContainer[LanePosition]
    entries_read: int
    def __init__(self, key: _Optional[bytes] = ..., group: _Optional[bytes] = ..., start: _Optional[_Union[Id, _Mapping]] = ..., lane_starts: _Optional[_Iterable[_Union[LanePosition, _Mapping]]] = ..., entries_read: _Optional[int] = ...) -> None: ...

class DestroyGroup(_message.Message):
    __slots__ = ("key", "group")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    group: bytes
    def __init__(self, key: _Optional[bytes] = ..., group: _Optional[bytes] = ...) -> None: ...

class AckFrontier(_message.Message):
    __slots__ = ("key", "group", "intervals")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    group: bytes
    intervals: _containers.RepeatedCompositeFieldContainer[LaneInterval]
    def __init__(self, key: _Optional[bytes] = ..., group: _Optional[bytes] = ..., intervals: _Optional[_Iterable[_Union[LaneInterval, _Mapping]]] = ...) -> None: ...

class SetLastId(_message.Message):
    __slots__ = ("key", "id", "entries_added", "max_deleted_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_ADDED_FIELD_NUMBER: _ClassVar[int]
    MAX_DELETED_ID_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    id: Id
    entries_added: int
    max_deleted_id: Id
    def __init__(self, key: _Optional[bytes] = ..., id: _Optional[_Union[Id, _Mapping]] = ..., entries_added: _Optional[int] = ..., max_deleted_id: _Optional[_Union[Id, _Mapping]] = ...) -> None: ...

class SetExpiry(_message.Message):
    __slots__ = ("key", "deadline_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    deadline_ms: int
    def __init__(self, key: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class SetStreamConfig(_message.Message):
    __slots__ = ("key", "idmp_duration_s", "idmp_maxsize")
    KEY_FIELD_NUMBER: _ClassVar[int]
    IDMP_DURATION_S_FIELD_NUMBER: _ClassVar[int]
    IDMP_MAXSIZE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    idmp_duration_s: int
    idmp_maxsize: int
    def __init__(self, key: _Optional[bytes] = ..., idmp_duration_s: _Optional[int] = ..., idmp_maxsize: _Optional[int] = ...) -> None: ...

class SetGroupMode(_message.Message):
    __slots__ = ("key", "group", "epoch", "mode", "home", "forced", "handover")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    HANDOVER_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    group: bytes
    epoch: int
    mode: GroupMode
    home: int
    forced: bool
    handover: _containers.RepeatedCompositeFieldContainer[LaneHandover]
    def __init__(self, key: _Optional[bytes] = ..., group: _Optional[bytes] = ..., epoch: _Optional[int] = ..., mode: _Optional[_Union[GroupMode, str]] = ..., home: _Optional[int] = ..., forced: _Optional[bool] = ..., handover: _Optional[_Iterable[_Union[LaneHandover, _Mapping]]] = ...) -> None: ...

class LaneHandover(_message.Message):
    __slots__ = ("lane", "run_from", "last_delivered", "handed_out", "ignore_until", "pending", "delivery_counts", "entries_read")
    LANE_FIELD_NUMBER: _ClassVar[int]
    RUN_FROM_FIELD_NUMBER: _ClassVar[int]
    LAST_DELIVERED_FIELD_NUMBER: _ClassVar[int]
    HANDED_OUT_FIELD_NUMBER: _ClassVar[int]
    IGNORE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_COUNTS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_READ_FIELD_NUMBER: _ClassVar[int]
    lane: int
    run_from: Id
    last_delivered: Id
    handed_out: _containers.RepeatedCompositeFieldContainer[LaneInterval]
    ignore_until: Id
    pending: LaneIds
    delivery_counts: bytes
    entries_read: int
    def __init__(self, lane: _Optional[int] = ..., run_from: _Optional[_Union[Id, _Mapping]] = ..., last_delivered: _Optional[_Union[Id, _Mapping]] = ..., handed_out: _Optional[_Iterable[_Union[LaneInterval, _Mapping]]] = ..., ignore_until: _Optional[_Union[Id, _Mapping]] = ..., pending: _Optional[_Union[LaneIds, _Mapping]] = ..., delivery_counts: _Optional[bytes] = ..., entries_read: _Optional[int] = ...) -> None: ...

class SetString(_message.Message):
    __slots__ = ("key", "value", "deadline_ms", "takes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    TAKES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    deadline_ms: int
    takes: _containers.RepeatedCompositeFieldContainer[Taken]
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ..., takes: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ...) -> None: ...

class SetStringExpiry(_message.Message):
    __slots__ = ("key", "deadline_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    deadline_ms: int
    def __init__(self, key: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class DeleteString(_message.Message):
    __slots__ = ("key", "takes")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TAKES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    takes: _containers.RepeatedCompositeFieldContainer[Taken]
    def __init__(self, key: _Optional[bytes] = ..., takes: _Optional[_Iterable[_Union[Taken, _Mapping]]] = ...) -> None: ...

class AddToString(_message.Message):
    __slots__ = ("key", "by", "base_region", "base_n", "after_n", "before", "deadline_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    BASE_REGION_FIELD_NUMBER: _ClassVar[int]
    BASE_N_FIELD_NUMBER: _ClassVar[int]
    AFTER_N_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    by: int
    base_region: int
    base_n: int
    after_n: int
    before: bytes
    deadline_ms: int
    def __init__(self, key: _Optional[bytes] = ..., by: _Optional[int] = ..., base_region: _Optional[int] = ..., base_n: _Optional[int] = ..., after_n: _Optional[int] = ..., before: _Optional[bytes] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class ChangeMembers(_message.Message):
    __slots__ = ("epoch", "previous", "change")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    previous: bytes
    change: bytes
    def __init__(self, epoch: _Optional[int] = ..., previous: _Optional[bytes] = ..., change: _Optional[bytes] = ...) -> None: ...
