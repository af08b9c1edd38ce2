from crdtstream.v1 import effects_pb2 as _effects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LocalChanges(_message.Message):
    __slots__ = ("changes", "arrived_ms", "appended_ms", "merged")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_MS_FIELD_NUMBER: _ClassVar[int]
    APPENDED_MS_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[LocalChange]
    arrived_ms: int
    appended_ms: _containers.RepeatedScalarFieldContainer[int]
    merged: Merged
    def __init__(self, changes: _Optional[_Iterable[_Union[LocalChange, _Mapping]]] = ..., arrived_ms: _Optional[int] = ..., appended_ms: _Optional[_Iterable[int]] = ..., merged: _Optional[_Union[Merged, _Mapping]] = ...) -> None: ...

class Merged(_message.Message):
    __slots__ = ("cut_id", "source", "vv", "key")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    cut_id: bytes
    source: int
    vv: _effects_pb2.VersionVector
    key: bytes
    def __init__(self, cut_id: _Optional[bytes] = ..., source: _Optional[int] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., key: _Optional[bytes] = ...) -> None: ...

class LocalChange(_message.Message):
    __slots__ = ("after_n", "key", "group", "consumer", "now_ms", "deliver", "redeliver", "ack", "claim", "create_consumer", "delete_consumer", "set_position", "release")
    AFTER_N_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    DELIVER_FIELD_NUMBER: _ClassVar[int]
    REDELIVER_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    CREATE_CONSUMER_FIELD_NUMBER: _ClassVar[int]
    DELETE_CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SET_POSITION_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    after_n: int
    key: bytes
    group: bytes
    consumer: bytes
    now_ms: int
    deliver: Deliver
    redeliver: Redeliver
    ack: Ack
    claim: Claim
    create_consumer: CreateConsumer
    delete_consumer: DeleteConsumer
    set_position: SetPosition
    release: Release
    def __init__(self, after_n: _Optional[int] = ..., key: _Optional[bytes] = ..., group: _Optional[bytes] = ..., consumer: _Optional[bytes] = ..., now_ms: _Optional[int] = ..., deliver: _Optional[_Union[Deliver, _Mapping]] = ..., redeliver: _Optional[_Union[Redeliver, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ..., create_consumer: _Optional[_Union[CreateConsumer, _Mapping]] = ..., delete_consumer: _Optional[_Union[DeleteConsumer, _Mapping]] = ..., set_position: _Optional[_Union[SetPosition, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ...) -> None: ...

class Deliver(_message.Message):
    __slots__ = ("lanes", "noack")
    LANES_FIELD_NUMBER: _ClassVar[int]
    NOACK_FIELD_NUMBER: _ClassVar[int]
    lanes: _containers.RepeatedCompositeFieldContainer[_effects_pb2.LaneIds]
    noack: bool
    def __init__(self, lanes: _Optional[_Iterable[_Union[_effects_pb2.LaneIds, _Mapping]]] = ..., noack: _Optional[bool] = ...) -> None: ...

class Redeliver(_message.Message):
    __slots__ = ("lanes",)
    LANES_FIELD_NUMBER: _ClassVar[int]
    lanes: _containers.RepeatedCompositeFieldContainer[_effects_pb2.LaneIds]
    def __init__(self, lanes: _Optional[_Iterable[_Union[_effects_pb2.LaneIds, _Mapping]]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("lanes",)
    LANES_FIELD_NUMBER: _ClassVar[int]
    lanes: _containers.RepeatedCompositeFieldContainer[_effects_pb2.LaneIds]
    def __init__(self, lanes: _Optional[_Iterable[_Union[_effects_pb2.LaneIds, _Mapping]]] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("nacks", "dropped", "last_id")
    class Nack(_message.Message):
        __slots__ = ("lane", "id", "delivered_ms", "delivery_count")
        LANE_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        DELIVERED_MS_FIELD_NUMBER: _ClassVar[int]
        DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
        lane: int
        id: _effects_pb2.Id
        delivered_ms: int
        delivery_count: int
        def __init__(self, lane: _Optional[int] = ..., id: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., delivered_ms: _Optional[int] = ..., delivery_count: _Optional[int] = ...) -> None: ...
    NACKS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    LAST_ID_FIELD_NUMBER: _ClassVar[int]
    nacks: _containers.RepeatedCompositeFieldContainer[Claim.Nack]
    dropped: _containers.RepeatedCompositeFieldContainer[_effects_pb2.LaneIds]
    last_id: _effects_pb2.Id
    def __init__(self, nacks: _Optional[_Iterable[_Union[Claim.Nack, _Mapping]]] = ..., dropped: _Optional[_Iterable[_Union[_effects_pb2.LaneIds, _Mapping]]] = ..., last_id: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("nacks",)
    class Nack(_message.Message):
        __slots__ = ("lane", "id", "delivery_count")
        LANE_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        DELIVERY_COUNT_FIELD_NUMBER: _ClassVar[int]
        lane: int
        id: _effects_pb2.Id
        delivery_count: int
        def __init__(self, lane: _Optional[int] = ..., id: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., delivery_count: _Optional[int] = ...) -> None: ...
    NACKS_FIELD_NUMBER: _ClassVar[int]
    nacks: _containers.RepeatedCompositeFieldContainer[Release.Nack]
    def __init__(self, nacks: _Optional[_Iterable[_Union[Release.Nack, _Mapping]]] = ...) -> None: ...

class CreateConsumer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteConsumer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetPosition(_message.Message):
    __slots__ = ("position", "lane_positions", "entries_read")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LANE_POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_READ_FIELD_NUMBER: _ClassVar[int]
    position: _effects_pb2.Id
    lane_positions: _containers.RepeatedCompositeFieldContainer[_effects_pb2.LanePosition]
    entries_read: int
    def __init__(self, position: _Optional[_Union[_effects_pb2.Id, _Mapping]] = ..., lane_positions: _Optional[_Iterable[_Union[_effects_pb2.LanePosition, _Mapping]]] = ..., entries_read: _Optional[int] = ...) -> None: ...
