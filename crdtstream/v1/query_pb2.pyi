from crdtstream.v1 import effects_pb2 as _effects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PositionRequest(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("region", "database_id", "durable_vv", "now_ms", "fault", "database_uid", "ends", "token", "lost", "unheard")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DURABLE_VV_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    UNHEARD_FIELD_NUMBER: _ClassVar[int]
    region: int
    database_id: str
    durable_vv: _effects_pb2.VersionVector
    now_ms: int
    fault: str
    database_uid: bytes
    ends: _containers.RepeatedCompositeFieldContainer[EndOfRegion]
    token: str
    lost: _containers.RepeatedCompositeFieldContainer[EndOfRegion]
    unheard: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, region: _Optional[int] = ..., database_id: _Optional[str] = ..., durable_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., now_ms: _Optional[int] = ..., fault: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., ends: _Optional[_Iterable[_Union[EndOfRegion, _Mapping]]] = ..., token: _Optional[str] = ..., lost: _Optional[_Iterable[_Union[EndOfRegion, _Mapping]]] = ..., unheard: _Optional[_Iterable[int]] = ...) -> None: ...

class EndOfRegion(_message.Message):
    __slots__ = ("region", "last_n", "why")
    REGION_FIELD_NUMBER: _ClassVar[int]
    LAST_N_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    region: int
    last_n: int
    why: str
    def __init__(self, region: _Optional[int] = ..., last_n: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class ListStreamsRequest(_message.Message):
    __slots__ = ("patterns", "with_groups", "with_undelivered")
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    WITH_GROUPS_FIELD_NUMBER: _ClassVar[int]
    WITH_UNDELIVERED_FIELD_NUMBER: _ClassVar[int]
    patterns: _containers.RepeatedScalarFieldContainer[bytes]
    with_groups: bool
    with_undelivered: bool
    def __init__(self, patterns: _Optional[_Iterable[bytes]] = ..., with_groups: _Optional[bool] = ..., with_undelivered: _Optional[bool] = ...) -> None: ...

class StreamDescription(_message.Message):
    __slots__ = ("key", "entries", "lanes", "groups", "position")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    entries: int
    lanes: _containers.RepeatedCompositeFieldContainer[LaneDescription]
    groups: _containers.RepeatedCompositeFieldContainer[GroupDescription]
    position: Position
    def __init__(self, key: _Optional[bytes] = ..., entries: _Optional[int] = ..., lanes: _Optional[_Iterable[_Union[LaneDescription, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[GroupDescription, _Mapping]]] = ..., position: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class LaneDescription(_message.Message):
    __slots__ = ("origin", "entries", "first", "last", "first_n", "last_n", "lost_n")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FIRST_N_FIELD_NUMBER: _ClassVar[int]
    LAST_N_FIELD_NUMBER: _ClassVar[int]
    LOST_N_FIELD_NUMBER: _ClassVar[int]
    origin: int
    entries: int
    first: _effects_pb2.Id
    last: _effects_pb2.Id
    first_n: int
    last_n: int
    lost_n: int
    def __init__(self, origin: _Optional[int] = ..., entries: _Optional[int] = ..., first: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., last: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., first_n: _Optional[int] = ..., last_n: _Optional[int] = ..., lost_n: _Optional[int] = ...) -> None: ...

class GroupDescription(_message.Message):
    __slots__ = ("name", "consumers", "pending", "undelivered", "frontier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    UNDELIVERED_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    consumers: int
    pending: int
    undelivered: int
    frontier: _containers.RepeatedCompositeFieldContainer[_effects_pb2.LanePosition]
    def __init__(self, name: _Optional[bytes] = ..., consumers: _Optional[int] = ..., pending: _Optional[int] = ..., undelivered: _Optional[int] = ..., frontier: _Optional[_Iterable[_Union[_effects_pb2.LanePosition, _Mapping]]] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("patterns", "above", "upto", "entries_max", "origins", "start", "end", "range_entries", "only_end", "above_token", "upto_token")
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    UPTO_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RANGE_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ONLY_END_FIELD_NUMBER: _ClassVar[int]
    ABOVE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UPTO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    patterns: _containers.RepeatedScalarFieldContainer[bytes]
    above: _effects_pb2.VersionVector
    upto: _effects_pb2.VersionVector
    entries_max: int
    origins: _containers.RepeatedScalarFieldContainer[int]
    start: _effects_pb2.Id
    end: _effects_pb2.Id
    range_entries: int
    only_end: bool
    above_token: str
    upto_token: str
    def __init__(self, patterns: _Optional[_Iterable[bytes]] = ..., above: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., upto: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., entries_max: _Optional[int] = ..., origins: _Optional[_Iterable[int]] = ..., start: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., end: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., range_entries: _Optional[int] = ..., only_end: _Optional[bool] = ..., above_token: _Optional[str] = ..., upto_token: _Optional[str] = ...) -> None: ...

class PlanReply(_message.Message):
    __slots__ = ("end", "ranges", "losses", "end_token")
    END_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    END_TOKEN_FIELD_NUMBER: _ClassVar[int]
    end: _effects_pb2.VersionVector
    ranges: _containers.RepeatedCompositeFieldContainer[Range]
    losses: _containers.RepeatedCompositeFieldContainer[Loss]
    end_token: str
    def __init__(self, end: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., ranges: _Optional[_Iterable[_Union[Range, _Mapping]]] = ..., losses: _Optional[_Iterable[_Union[Loss, _Mapping]]] = ..., end_token: _Optional[str] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("key", "origin", "above_n", "upto_n", "entries")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ABOVE_N_FIELD_NUMBER: _ClassVar[int]
    UPTO_N_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    origin: int
    above_n: int
    upto_n: int
    entries: int
    def __init__(self, key: _Optional[bytes] = ..., origin: _Optional[int] = ..., above_n: _Optional[int] = ..., upto_n: _Optional[int] = ..., entries: _Optional[int] = ...) -> None: ...

class Loss(_message.Message):
    __slots__ = ("key", "origin", "lost_n")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    LOST_N_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    origin: int
    lost_n: int
    def __init__(self, key: _Optional[bytes] = ..., origin: _Optional[int] = ..., lost_n: _Optional[int] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("key", "origin", "above_n", "upto_n", "start", "end", "upto_token")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ABOVE_N_FIELD_NUMBER: _ClassVar[int]
    UPTO_N_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    UPTO_TOKEN_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    origin: int
    above_n: int
    upto_n: int
    start: _effects_pb2.Id
    end: _effects_pb2.Id
    upto_token: str
    def __init__(self, key: _Optional[bytes] = ..., origin: _Optional[int] = ..., above_n: _Optional[int] = ..., upto_n: _Optional[int] = ..., start: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., end: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., upto_token: _Optional[str] = ...) -> None: ...

class ScanPiece(_message.Message):
    __slots__ = ("data", "lost_n")
    DATA_FIELD_NUMBER: _ClassVar[int]
    LOST_N_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    lost_n: int
    def __init__(self, data: _Optional[bytes] = ..., lost_n: _Optional[int] = ...) -> None: ...

class ScanPendingRequest(_message.Message):
    __slots__ = ("patterns", "deliveries_min")
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_MIN_FIELD_NUMBER: _ClassVar[int]
    patterns: _containers.RepeatedScalarFieldContainer[bytes]
    deliveries_min: int
    def __init__(self, patterns: _Optional[_Iterable[bytes]] = ..., deliveries_min: _Optional[int] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("key", "producer", "batch", "first_row", "lengths", "fields")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    producer: bytes
    batch: int
    first_row: int
    lengths: bytes
    fields: bytes
    def __init__(self, key: _Optional[bytes] = ..., producer: _Optional[bytes] = ..., batch: _Optional[int] = ..., first_row: _Optional[int] = ..., lengths: _Optional[bytes] = ..., fields: _Optional[bytes] = ...) -> None: ...

class AppendReply(_message.Message):
    __slots__ = ("appended", "known")
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    appended: int
    known: int
    def __init__(self, appended: _Optional[int] = ..., known: _Optional[int] = ...) -> None: ...

class TrimReadRequest(_message.Message):
    __slots__ = ("key", "read", "before_ms", "read_token")
    KEY_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    BEFORE_MS_FIELD_NUMBER: _ClassVar[int]
    READ_TOKEN_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    read: _effects_pb2.VersionVector
    before_ms: int
    read_token: str
    def __init__(self, key: _Optional[bytes] = ..., read: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., before_ms: _Optional[int] = ..., read_token: _Optional[str] = ...) -> None: ...

class TrimReadReply(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: int
    def __init__(self, removed: _Optional[int] = ...) -> None: ...

class TrimPlan(_message.Message):
    __slots__ = ("origins", "first_ms", "last_ms")
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    FIRST_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_MS_FIELD_NUMBER: _ClassVar[int]
    origins: _containers.RepeatedScalarFieldContainer[int]
    first_ms: int
    last_ms: int
    def __init__(self, origins: _Optional[_Iterable[int]] = ..., first_ms: _Optional[int] = ..., last_ms: _Optional[int] = ...) -> None: ...
