from crdtstream.v1 import effects_pb2 as _effects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SyncRequest(_message.Message):
    __slots__ = ("open", "ack")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    open: Open
    ack: Progress
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., ack: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class SyncResponse(_message.Message):
    __slots__ = ("heartbeat", "batches", "welcome", "publications")
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PUBLICATIONS_FIELD_NUMBER: _ClassVar[int]
    heartbeat: Progress
    batches: Batches
    welcome: Welcome
    publications: Publications
    def __init__(self, heartbeat: _Optional[_Union[Progress, _Mapping]] = ..., batches: _Optional[_Union[Batches, _Mapping]] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., publications: _Optional[_Union[Publications, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("protocol", "region", "database_id", "origins", "vv", "run_id", "standing", "membership", "incarnations", "histories")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    HISTORIES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    region: int
    database_id: str
    origins: _containers.RepeatedScalarFieldContainer[int]
    vv: _effects_pb2.VersionVector
    run_id: int
    standing: Standing
    membership: bytes
    incarnations: bytes
    histories: bytes
    def __init__(self, protocol: _Optional[int] = ..., region: _Optional[int] = ..., database_id: _Optional[str] = ..., origins: _Optional[_Iterable[int]] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., run_id: _Optional[int] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., membership: _Optional[bytes] = ..., incarnations: _Optional[bytes] = ..., histories: _Optional[bytes] = ...) -> None: ...

class Standing(_message.Message):
    __slots__ = ("database_uid", "declared", "recovering", "regains")
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    DECLARED_FIELD_NUMBER: _ClassVar[int]
    RECOVERING_FIELD_NUMBER: _ClassVar[int]
    REGAINS_FIELD_NUMBER: _ClassVar[int]
    database_uid: bytes
    declared: bool
    recovering: bool
    regains: bool
    def __init__(self, database_uid: _Optional[bytes] = ..., declared: _Optional[bool] = ..., recovering: _Optional[bool] = ..., regains: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "region", "vv", "run_id", "standing", "own_n", "log_begins", "membership", "incarnations", "histories")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    OWN_N_FIELD_NUMBER: _ClassVar[int]
    LOG_BEGINS_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIP_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    HISTORIES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    region: int
    vv: _effects_pb2.VersionVector
    run_id: int
    standing: Standing
    own_n: int
    log_begins: _effects_pb2.VersionVector
    membership: bytes
    incarnations: bytes
    histories: bytes
    def __init__(self, protocol: _Optional[int] = ..., region: _Optional[int] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., run_id: _Optional[int] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., own_n: _Optional[int] = ..., log_begins: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., membership: _Optional[bytes] = ..., incarnations: _Optional[bytes] = ..., histories: _Optional[bytes] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("durable_vv", "now_ms", "others", "taken_bytes", "taken_publication_bytes", "standing", "stamp_ms", "echo_ms", "acks_awaited", "next_ms", "staging_vv", "epoch", "histories")
    DURABLE_VV_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    TAKEN_PUBLICATION_BYTES_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    STAMP_MS_FIELD_NUMBER: _ClassVar[int]
    ECHO_MS_FIELD_NUMBER: _ClassVar[int]
    ACKS_AWAITED_FIELD_NUMBER: _ClassVar[int]
    NEXT_MS_FIELD_NUMBER: _ClassVar[int]
    STAGING_VV_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HISTORIES_FIELD_NUMBER: _ClassVar[int]
    durable_vv: _effects_pb2.VersionVector
    now_ms: int
    others: _containers.RepeatedCompositeFieldContainer[RegionProgress]
    taken_bytes: int
    taken_publication_bytes: int
    standing: Standing
    stamp_ms: int
    echo_ms: int
    acks_awaited: bool
    next_ms: int
    staging_vv: _effects_pb2.VersionVector
    epoch: int
    histories: bytes
    def __init__(self, durable_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., now_ms: _Optional[int] = ..., others: _Optional[_Iterable[_Union[RegionProgress, _Mapping]]] = ..., taken_bytes: _Optional[int] = ..., taken_publication_bytes: _Optional[int] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., stamp_ms: _Optional[int] = ..., echo_ms: _Optional[int] = ..., acks_awaited: _Optional[bool] = ..., next_ms: _Optional[int] = ..., staging_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., epoch: _Optional[int] = ..., histories: _Optional[bytes] = ...) -> None: ...

class RegionProgress(_message.Message):
    __slots__ = ("region", "durable_vv")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DURABLE_VV_FIELD_NUMBER: _ClassVar[int]
    region: int
    durable_vv: _effects_pb2.VersionVector
    def __init__(self, region: _Optional[int] = ..., durable_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ...) -> None: ...

class Batches(_message.Message):
    __slots__ = ("zstd",)
    ZSTD_FIELD_NUMBER: _ClassVar[int]
    zstd: bytes
    def __init__(self, zstd: _Optional[bytes] = ...) -> None: ...

class Publications(_message.Message):
    __slots__ = ("origin", "publications", "listeners")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    PUBLICATIONS_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    origin: int
    publications: _containers.RepeatedCompositeFieldContainer[Publication]
    listeners: _containers.RepeatedCompositeFieldContainer[ListenerCount]
    def __init__(self, origin: _Optional[int] = ..., publications: _Optional[_Iterable[_Union[Publication, _Mapping]]] = ..., listeners: _Optional[_Iterable[_Union[ListenerCount, _Mapping]]] = ...) -> None: ...

class ListenerCount(_message.Message):
    __slots__ = ("kind", "name", "count")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CHANNEL: _ClassVar[ListenerCount.Kind]
        PATTERN: _ClassVar[ListenerCount.Kind]
        SHARD: _ClassVar[ListenerCount.Kind]
    CHANNEL: ListenerCount.Kind
    PATTERN: ListenerCount.Kind
    SHARD: ListenerCount.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    kind: ListenerCount.Kind
    name: bytes
    count: int
    def __init__(self, kind: _Optional[_Union[ListenerCount.Kind, str]] = ..., name: _Optional[bytes] = ..., count: _Optional[int] = ...) -> None: ...

class Publication(_message.Message):
    __slots__ = ("channel", "payload", "sharded", "after_n")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SHARDED_FIELD_NUMBER: _ClassVar[int]
    AFTER_N_FIELD_NUMBER: _ClassVar[int]
    channel: bytes
    payload: bytes
    sharded: bool
    after_n: int
    def __init__(self, channel: _Optional[bytes] = ..., payload: _Optional[bytes] = ..., sharded: _Optional[bool] = ..., after_n: _Optional[int] = ...) -> None: ...

class BatchList(_message.Message):
    __slots__ = ("batches",)
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, batches: _Optional[_Iterable[bytes]] = ...) -> None: ...
