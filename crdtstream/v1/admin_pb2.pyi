from crdtstream.v1 import effects_pb2 as _effects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ("with_streams", "with_digest")
    WITH_STREAMS_FIELD_NUMBER: _ClassVar[int]
    WITH_DIGEST_FIELD_NUMBER: _ClassVar[int]
    with_streams: bool
    with_digest: bool
    def __init__(self, with_streams: _Optional[bool] = ..., with_digest: _Optional[bool] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("region", "database_id", "version", "started_ms", "now_ms", "pid", "resp_address", "grpc_address", "http_address", "vv", "durable_vv", "digest", "links", "tunables", "fault", "keys", "clients", "effects_issued", "ack_effects_issued", "acks_by_clients", "log_bytes", "streams", "inbox_batches", "inbox_bytes", "database_uid")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    RESP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    DURABLE_VV_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    TUNABLES_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_ISSUED_FIELD_NUMBER: _ClassVar[int]
    ACK_EFFECTS_ISSUED_FIELD_NUMBER: _ClassVar[int]
    ACKS_BY_CLIENTS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    INBOX_BATCHES_FIELD_NUMBER: _ClassVar[int]
    INBOX_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    region: int
    database_id: str
    version: str
    started_ms: int
    now_ms: int
    pid: int
    resp_address: str
    grpc_address: str
    http_address: str
    vv: _effects_pb2.VersionVector
    durable_vv: _effects_pb2.VersionVector
    digest: str
    links: _containers.RepeatedCompositeFieldContainer[LinkStatus]
    tunables: _containers.RepeatedCompositeFieldContainer[Tunable]
    fault: str
    keys: int
    clients: int
    effects_issued: int
    ack_effects_issued: int
    acks_by_clients: int
    log_bytes: int
    streams: _containers.RepeatedCompositeFieldContainer[StreamStatus]
    inbox_batches: int
    inbox_bytes: int
    database_uid: str
    def __init__(self, region: _Optional[int] = ..., database_id: _Optional[str] = ..., version: _Optional[str] = ..., started_ms: _Optional[int] = ..., now_ms: _Optional[int] = ..., pid: _Optional[int] = ..., resp_address: _Optional[str] = ..., grpc_address: _Optional[str] = ..., http_address: _Optional[str] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., durable_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., digest: _Optional[str] = ..., links: _Optional[_Iterable[_Union[LinkStatus, _Mapping]]] = ..., tunables: _Optional[_Iterable[_Union[Tunable, _Mapping]]] = ..., fault: _Optional[str] = ..., keys: _Optional[int] = ..., clients: _Optional[int] = ..., effects_issued: _Optional[int] = ..., ack_effects_issued: _Optional[int] = ..., acks_by_clients: _Optional[int] = ..., log_bytes: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[StreamStatus, _Mapping]]] = ..., inbox_batches: _Optional[int] = ..., inbox_bytes: _Optional[int] = ..., database_uid: _Optional[str] = ...) -> None: ...

class LinkStatus(_message.Message):
    __slots__ = ("peer", "address", "state", "paused", "error", "lag_ms", "lag_effects", "lag_ms_p50", "lag_ms_p95", "lag_ms_p99", "lag_ms_max", "batches_received", "effects_received", "bytes_received", "bytes_uncompressed", "batches_sent", "effects_sent", "bytes_sent", "peer_vv", "heard_ms", "clock_skew_ms", "reconnects", "relayed_origins", "bytes_again")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[LinkStatus.State]
        CONNECTING: _ClassVar[LinkStatus.State]
        UP: _ClassVar[LinkStatus.State]
        BACKOFF: _ClassVar[LinkStatus.State]
        PAUSED: _ClassVar[LinkStatus.State]
        REFUSED: _ClassVar[LinkStatus.State]
    STATE_UNSPECIFIED: LinkStatus.State
    CONNECTING: LinkStatus.State
    UP: LinkStatus.State
    BACKOFF: LinkStatus.State
    PAUSED: LinkStatus.State
    REFUSED: LinkStatus.State
    PEER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_FIELD_NUMBER: _ClassVar[int]
    LAG_EFFECTS_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_P50_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_P95_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_P99_FIELD_NUMBER: _ClassVar[int]
    LAG_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    BATCHES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    BYTES_UNCOMPRESSED_FIELD_NUMBER: _ClassVar[int]
    BATCHES_SENT_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    PEER_VV_FIELD_NUMBER: _ClassVar[int]
    HEARD_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SKEW_MS_FIELD_NUMBER: _ClassVar[int]
    RECONNECTS_FIELD_NUMBER: _ClassVar[int]
    RELAYED_ORIGINS_FIELD_NUMBER: _ClassVar[int]
    BYTES_AGAIN_FIELD_NUMBER: _ClassVar[int]
    peer: int
    address: str
    state: LinkStatus.State
    paused: bool
    error: str
    lag_ms: int
    lag_effects: int
    lag_ms_p50: int
    lag_ms_p95: int
    lag_ms_p99: int
    lag_ms_max: int
    batches_received: int
    effects_received: int
    bytes_received: int
    bytes_uncompressed: int
    batches_sent: int
    effects_sent: int
    bytes_sent: int
    peer_vv: _effects_pb2.VersionVector
    heard_ms: int
    clock_skew_ms: int
    reconnects: int
    relayed_origins: _containers.RepeatedScalarFieldContainer[int]
    bytes_again: int
    def __init__(self, peer: _Optional[int] = ..., address: _Optional[str] = ..., state: _Optional[_Union[LinkStatus.State, str]] = ..., paused: _Optional[bool] = ..., error: _Optional[str] = ..., lag_ms: _Optional[int] = ..., lag_effects: _Optional[int] = ..., lag_ms_p50: _Optional[int] = ..., lag_ms_p95: _Optional[int] = ..., lag_ms_p99: _Optional[int] = ..., lag_ms_max: _Optional[int] = ..., batches_received: _Optional[int] = ..., effects_received: _Optional[int] = ..., bytes_received: _Optional[int] = ..., bytes_uncompressed: _Optional[int] = ..., batches_sent: _Optional[int] = ..., effects_sent: _Optional[int] = ..., bytes_sent: _Optional[int] = ..., peer_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., heard_ms: _Optional[int] = ..., clock_skew_ms: _Optional[int] = ..., reconnects: _Optional[int] = ..., relayed_origins: _Optional[_Iterable[int]] = ..., bytes_again: _Optional[int] = ...) -> None: ...

class Tunable(_message.Message):
    __slots__ = ("name", "value", "allowed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    allowed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., allowed: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamStatus(_message.Message):
    __slots__ = ("key", "entries", "lanes", "groups")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    entries: int
    lanes: _containers.RepeatedCompositeFieldContainer[LaneStatus]
    groups: _containers.RepeatedCompositeFieldContainer[GroupStatus]
    def __init__(self, key: _Optional[bytes] = ..., entries: _Optional[int] = ..., lanes: _Optional[_Iterable[_Union[LaneStatus, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[GroupStatus, _Mapping]]] = ...) -> None: ...

class LaneStatus(_message.Message):
    __slots__ = ("origin", "entries")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    origin: int
    entries: int
    def __init__(self, origin: _Optional[int] = ..., entries: _Optional[int] = ...) -> None: ...

class GroupStatus(_message.Message):
    __slots__ = ("name", "consumers", "pending", "lag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    consumers: int
    pending: int
    lag: int
    def __init__(self, name: _Optional[bytes] = ..., consumers: _Optional[int] = ..., pending: _Optional[int] = ..., lag: _Optional[int] = ...) -> None: ...

class SetLinksRequest(_message.Message):
    __slots__ = ("peers", "paused")
    PEERS_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    peers: _containers.RepeatedScalarFieldContainer[int]
    paused: bool
    def __init__(self, peers: _Optional[_Iterable[int]] = ..., paused: _Optional[bool] = ...) -> None: ...

class SetLinksReply(_message.Message):
    __slots__ = ("links",)
    LINKS_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[LinkStatus]
    def __init__(self, links: _Optional[_Iterable[_Union[LinkStatus, _Mapping]]] = ...) -> None: ...

class TuneRequest(_message.Message):
    __slots__ = ("parameter", "value")
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    parameter: str
    value: str
    def __init__(self, parameter: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class TuneReply(_message.Message):
    __slots__ = ("before", "value")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    before: str
    value: str
    def __init__(self, before: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class DigestRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class DigestReply(_message.Message):
    __slots__ = ("digest", "vv")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    digest: str
    vv: _effects_pb2.VersionVector
    def __init__(self, digest: _Optional[str] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ...) -> None: ...
