from crdtstream.v1 import effects_pb2 as _effects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PushUsersRequest(_message.Message):
    __slots__ = ("aclfile", "epoch", "only_check", "may_lock_out")
    ACLFILE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ONLY_CHECK_FIELD_NUMBER: _ClassVar[int]
    MAY_LOCK_OUT_FIELD_NUMBER: _ClassVar[int]
    aclfile: bytes
    epoch: int
    only_check: bool
    may_lock_out: bool
    def __init__(self, aclfile: _Optional[bytes] = ..., epoch: _Optional[int] = ..., only_check: _Optional[bool] = ..., may_lock_out: _Optional[bool] = ...) -> None: ...

class PushUsersReply(_message.Message):
    __slots__ = ("users_hash", "users")
    USERS_HASH_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    users_hash: str
    users: int
    def __init__(self, users_hash: _Optional[str] = ..., users: _Optional[int] = ...) -> None: ...

class ReloadCertificatesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadCertificatesReply(_message.Message):
    __slots__ = ("region", "version", "valid_until_ms", "serial", "fault")
    REGION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    region: int
    version: int
    valid_until_ms: int
    serial: str
    fault: str
    def __init__(self, region: _Optional[int] = ..., version: _Optional[int] = ..., valid_until_ms: _Optional[int] = ..., serial: _Optional[str] = ..., fault: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("with_streams", "with_digest")
    WITH_STREAMS_FIELD_NUMBER: _ClassVar[int]
    WITH_DIGEST_FIELD_NUMBER: _ClassVar[int]
    with_streams: bool
    with_digest: bool
    def __init__(self, with_streams: _Optional[bool] = ..., with_digest: _Optional[bool] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("region", "database_id", "version", "started_ms", "now_ms", "pid", "resp_address", "grpc_address", "http_address", "vv", "durable_vv", "digest", "links", "tunables", "fault", "keys", "clients", "effects_issued", "ack_effects_issued", "acks_by_clients", "log_bytes", "streams", "inbox_batches", "inbox_bytes", "database_uid", "storage", "password_mark", "bootstrap", "cuts", "member_status", "leaving", "lacks_votes", "incarnations", "histories", "incarnation", "token", "durable_token", "users_hash", "users_epoch", "resp_tls", "http_tls", "certificate_serial", "machine")
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
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_MARK_FIELD_NUMBER: _ClassVar[int]
    BOOTSTRAP_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_STATUS_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    LACKS_VOTES_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    HISTORIES_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DURABLE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    USERS_HASH_FIELD_NUMBER: _ClassVar[int]
    USERS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESP_TLS_FIELD_NUMBER: _ClassVar[int]
    HTTP_TLS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_SERIAL_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
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
    storage: Storage
    password_mark: int
    bootstrap: BootstrapStatus
    cuts: _effects_pb2.VersionVector
    member_status: MemberStatus.Status
    leaving: _containers.RepeatedCompositeFieldContainer[LeavingRegion]
    lacks_votes: bool
    incarnations: bytes
    histories: bytes
    incarnation: int
    token: str
    durable_token: str
    users_hash: str
    users_epoch: int
    resp_tls: bool
    http_tls: bool
    certificate_serial: bytes
    machine: Machine
    def __init__(self, region: _Optional[int] = ..., database_id: _Optional[str] = ..., version: _Optional[str] = ..., started_ms: _Optional[int] = ..., now_ms: _Optional[int] = ..., pid: _Optional[int] = ..., resp_address: _Optional[str] = ..., grpc_address: _Optional[str] = ..., http_address: _Optional[str] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., durable_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., digest: _Optional[str] = ..., links: _Optional[_Iterable[_Union[LinkStatus, _Mapping]]] = ..., tunables: _Optional[_Iterable[_Union[Tunable, _Mapping]]] = ..., fault: _Optional[str] = ..., keys: _Optional[int] = ..., clients: _Optional[int] = ..., effects_issued: _Optional[int] = ..., ack_effects_issued: _Optional[int] = ..., acks_by_clients: _Optional[int] = ..., log_bytes: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[StreamStatus, _Mapping]]] = ..., inbox_batches: _Optional[int] = ..., inbox_bytes: _Optional[int] = ..., database_uid: _Optional[str] = ..., storage: _Optional[_Union[Storage, _Mapping]] = ..., password_mark: _Optional[int] = ..., bootstrap: _Optional[_Union[BootstrapStatus, _Mapping]] = ..., cuts: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., member_status: _Optional[_Union[MemberStatus.Status, str]] = ..., leaving: _Optional[_Iterable[_Union[LeavingRegion, _Mapping]]] = ..., lacks_votes: _Optional[bool] = ..., incarnations: _Optional[bytes] = ..., histories: _Optional[bytes] = ..., incarnation: _Optional[int] = ..., token: _Optional[str] = ..., durable_token: _Optional[str] = ..., users_hash: _Optional[str] = ..., users_epoch: _Optional[int] = ..., resp_tls: _Optional[bool] = ..., http_tls: _Optional[bool] = ..., certificate_serial: _Optional[bytes] = ..., machine: _Optional[_Union[Machine, _Mapping]] = ...) -> None: ...

class Machine(_message.Message):
    __slots__ = ("cores", "memory", "memory_free")
    CORES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_FIELD_NUMBER: _ClassVar[int]
    cores: int
    memory: int
    memory_free: int
    def __init__(self, cores: _Optional[int] = ..., memory: _Optional[int] = ..., memory_free: _Optional[int] = ...) -> None: ...

class LeavingRegion(_message.Message):
    __slots__ = ("region", "silent")
    REGION_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    region: int
    silent: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, region: _Optional[int] = ..., silent: _Optional[_Iterable[int]] = ...) -> None: ...

class BootstrapStatus(_message.Message):
    __slots__ = ("phase", "source", "began_ms", "images_done", "images", "bytes_done", "bytes", "bytes_per_s", "seconds_left", "taken_over", "failures", "failure")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PHASE_UNSPECIFIED: _ClassVar[BootstrapStatus.Phase]
        IDLE: _ClassVar[BootstrapStatus.Phase]
        COPYING: _ClassVar[BootstrapStatus.Phase]
        MERGING: _ClassVar[BootstrapStatus.Phase]
        SAVING: _ClassVar[BootstrapStatus.Phase]
    PHASE_UNSPECIFIED: BootstrapStatus.Phase
    IDLE: BootstrapStatus.Phase
    COPYING: BootstrapStatus.Phase
    MERGING: BootstrapStatus.Phase
    SAVING: BootstrapStatus.Phase
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BEGAN_MS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_DONE_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_OVER_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    phase: BootstrapStatus.Phase
    source: int
    began_ms: int
    images_done: int
    images: int
    bytes_done: int
    bytes: int
    bytes_per_s: int
    seconds_left: int
    taken_over: int
    failures: int
    failure: str
    def __init__(self, phase: _Optional[_Union[BootstrapStatus.Phase, str]] = ..., source: _Optional[int] = ..., began_ms: _Optional[int] = ..., images_done: _Optional[int] = ..., images: _Optional[int] = ..., bytes_done: _Optional[int] = ..., bytes: _Optional[int] = ..., bytes_per_s: _Optional[int] = ..., seconds_left: _Optional[int] = ..., taken_over: _Optional[int] = ..., failures: _Optional[int] = ..., failure: _Optional[str] = ...) -> None: ...

class Storage(_message.Message):
    __slots__ = ("first_seq", "last_seq", "log_begins", "checkpoint_seq", "checkpoint_ms", "checkpoint_in_progress", "checkpoint_bytes", "backlog_bytes", "disk_bytes", "maxdisk", "used_memory", "maxmemory", "kept")
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LOG_BEGINS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_SEQ_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_BYTES_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAXDISK_FIELD_NUMBER: _ClassVar[int]
    USED_MEMORY_FIELD_NUMBER: _ClassVar[int]
    MAXMEMORY_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    first_seq: int
    last_seq: int
    log_begins: _effects_pb2.VersionVector
    checkpoint_seq: int
    checkpoint_ms: int
    checkpoint_in_progress: bool
    checkpoint_bytes: int
    backlog_bytes: int
    disk_bytes: int
    maxdisk: int
    used_memory: int
    maxmemory: int
    kept: _containers.RepeatedCompositeFieldContainer[Kept]
    def __init__(self, first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ..., log_begins: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., checkpoint_seq: _Optional[int] = ..., checkpoint_ms: _Optional[int] = ..., checkpoint_in_progress: _Optional[bool] = ..., checkpoint_bytes: _Optional[int] = ..., backlog_bytes: _Optional[int] = ..., disk_bytes: _Optional[int] = ..., maxdisk: _Optional[int] = ..., used_memory: _Optional[int] = ..., maxmemory: _Optional[int] = ..., kept: _Optional[_Iterable[_Union[Kept, _Mapping]]] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("region", "keeping", "since_ms", "bytes")
    class Keeping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KEEPING_UNSPECIFIED: _ClassVar[Kept.Keeping]
        NOTHING: _ClassVar[Kept.Keeping]
        KEPT: _ClassVar[Kept.Keeping]
        AWAY: _ClassVar[Kept.Keeping]
        GIVEN_UP: _ClassVar[Kept.Keeping]
        BOOTSTRAP: _ClassVar[Kept.Keeping]
        ONLY_COPY: _ClassVar[Kept.Keeping]
        STAGING: _ClassVar[Kept.Keeping]
    KEEPING_UNSPECIFIED: Kept.Keeping
    NOTHING: Kept.Keeping
    KEPT: Kept.Keeping
    AWAY: Kept.Keeping
    GIVEN_UP: Kept.Keeping
    BOOTSTRAP: Kept.Keeping
    ONLY_COPY: Kept.Keeping
    STAGING: Kept.Keeping
    REGION_FIELD_NUMBER: _ClassVar[int]
    KEEPING_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    region: int
    keeping: Kept.Keeping
    since_ms: int
    bytes: int
    def __init__(self, region: _Optional[int] = ..., keeping: _Optional[_Union[Kept.Keeping, str]] = ..., since_ms: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class LinkStatus(_message.Message):
    __slots__ = ("peer", "address", "state", "paused", "error", "lag_ms", "lag_effects", "lag_ms_p50", "lag_ms_p95", "lag_ms_p99", "lag_ms_max", "batches_received", "effects_received", "bytes_received", "bytes_uncompressed", "batches_sent", "effects_sent", "bytes_sent", "peer_vv", "heard_ms", "clock_skew_ms", "reconnects", "relayed_origins", "bytes_again", "behind_ms")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[LinkStatus.State]
        CONNECTING: _ClassVar[LinkStatus.State]
        UP: _ClassVar[LinkStatus.State]
        BACKOFF: _ClassVar[LinkStatus.State]
        PAUSED: _ClassVar[LinkStatus.State]
        REFUSED: _ClassVar[LinkStatus.State]
        NEEDS_BOOTSTRAP: _ClassVar[LinkStatus.State]
    STATE_UNSPECIFIED: LinkStatus.State
    CONNECTING: LinkStatus.State
    UP: LinkStatus.State
    BACKOFF: LinkStatus.State
    PAUSED: LinkStatus.State
    REFUSED: LinkStatus.State
    NEEDS_BOOTSTRAP: LinkStatus.State
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
    BEHIND_MS_FIELD_NUMBER: _ClassVar[int]
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
    behind_ms: int
    def __init__(self, peer: _Optional[int] = ..., address: _Optional[str] = ..., state: _Optional[_Union[LinkStatus.State, str]] = ..., paused: _Optional[bool] = ..., error: _Optional[str] = ..., lag_ms: _Optional[int] = ..., lag_effects: _Optional[int] = ..., lag_ms_p50: _Optional[int] = ..., lag_ms_p95: _Optional[int] = ..., lag_ms_p99: _Optional[int] = ..., lag_ms_max: _Optional[int] = ..., batches_received: _Optional[int] = ..., effects_received: _Optional[int] = ..., bytes_received: _Optional[int] = ..., bytes_uncompressed: _Optional[int] = ..., batches_sent: _Optional[int] = ..., effects_sent: _Optional[int] = ..., bytes_sent: _Optional[int] = ..., peer_vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., heard_ms: _Optional[int] = ..., clock_skew_ms: _Optional[int] = ..., reconnects: _Optional[int] = ..., relayed_origins: _Optional[_Iterable[int]] = ..., bytes_again: _Optional[int] = ..., behind_ms: _Optional[int] = ...) -> None: ...

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

class GroupProgressRequest(_message.Message):
    __slots__ = ("key", "group")
    KEY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    group: bytes
    def __init__(self, key: _Optional[bytes] = ..., group: _Optional[bytes] = ...) -> None: ...

class GroupProgressReply(_message.Message):
    __slots__ = ("region", "database_id", "progress")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    region: int
    database_id: str
    progress: GroupProgress
    def __init__(self, region: _Optional[int] = ..., database_id: _Optional[str] = ..., progress: _Optional[_Union[GroupProgress, _Mapping]] = ...) -> None: ...

class GroupProgress(_message.Message):
    __slots__ = ("consumers", "undelivered", "lanes")
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    UNDELIVERED_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    consumers: int
    undelivered: int
    lanes: _containers.RepeatedCompositeFieldContainer[LaneProgress]
    def __init__(self, consumers: _Optional[int] = ..., undelivered: _Optional[int] = ..., lanes: _Optional[_Iterable[_Union[LaneProgress, _Mapping]]] = ...) -> None: ...

class LaneProgress(_message.Message):
    __slots__ = ("lane", "delivered", "acknowledged", "pending")
    LANE_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    lane: int
    delivered: bytes
    acknowledged: bytes
    pending: int
    def __init__(self, lane: _Optional[int] = ..., delivered: _Optional[bytes] = ..., acknowledged: _Optional[bytes] = ..., pending: _Optional[int] = ...) -> None: ...

class DigestsRequest(_message.Message):
    __slots__ = ("at_least", "wait_ms", "buckets", "keys", "parts", "stretches", "entries")
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    STRETCHES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    at_least: _effects_pb2.VersionVector
    wait_ms: int
    buckets: BucketsOf
    keys: KeysOf
    parts: PartsOf
    stretches: StretchesOf
    entries: EntriesOf
    def __init__(self, at_least: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., wait_ms: _Optional[int] = ..., buckets: _Optional[_Union[BucketsOf, _Mapping]] = ..., keys: _Optional[_Union[KeysOf, _Mapping]] = ..., parts: _Optional[_Union[PartsOf, _Mapping]] = ..., stretches: _Optional[_Union[StretchesOf, _Mapping]] = ..., entries: _Optional[_Union[EntriesOf, _Mapping]] = ...) -> None: ...

class BucketsOf(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeysOf(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class PartsOf(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class StretchesOf(_message.Message):
    __slots__ = ("key", "origin", "first", "count", "bits")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    origin: int
    first: int
    count: int
    bits: int
    def __init__(self, key: _Optional[bytes] = ..., origin: _Optional[int] = ..., first: _Optional[int] = ..., count: _Optional[int] = ..., bits: _Optional[int] = ...) -> None: ...

class EntriesOf(_message.Message):
    __slots__ = ("key", "origin", "block")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    origin: int
    block: int
    def __init__(self, key: _Optional[bytes] = ..., origin: _Optional[int] = ..., block: _Optional[int] = ...) -> None: ...

class DigestsReply(_message.Message):
    __slots__ = ("vv", "is_behind", "is_last", "items")
    VV_FIELD_NUMBER: _ClassVar[int]
    IS_BEHIND_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    vv: _effects_pb2.VersionVector
    is_behind: bool
    is_last: bool
    items: _containers.RepeatedCompositeFieldContainer[DigestItem]
    def __init__(self, vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., is_behind: _Optional[bool] = ..., is_last: _Optional[bool] = ..., items: _Optional[_Iterable[_Union[DigestItem, _Mapping]]] = ...) -> None: ...

class DigestItem(_message.Message):
    __slots__ = ("kind", "number", "name", "origin", "digest", "size", "last_n", "ms", "seq")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[DigestItem.Kind]
        MEMBERS: _ClassVar[DigestItem.Kind]
        LANE: _ClassVar[DigestItem.Kind]
        LAST_ID: _ClassVar[DigestItem.Kind]
        CREATES: _ClassVar[DigestItem.Kind]
        MODE: _ClassVar[DigestItem.Kind]
        ACKED: _ClassVar[DigestItem.Kind]
        EXPIRY: _ClassVar[DigestItem.Kind]
        CONFIG: _ClassVar[DigestItem.Kind]
        STRING: _ClassVar[DigestItem.Kind]
    KIND_UNSPECIFIED: DigestItem.Kind
    MEMBERS: DigestItem.Kind
    LANE: DigestItem.Kind
    LAST_ID: DigestItem.Kind
    CREATES: DigestItem.Kind
    MODE: DigestItem.Kind
    ACKED: DigestItem.Kind
    EXPIRY: DigestItem.Kind
    CONFIG: DigestItem.Kind
    STRING: DigestItem.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LAST_N_FIELD_NUMBER: _ClassVar[int]
    MS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    kind: DigestItem.Kind
    number: int
    name: bytes
    origin: int
    digest: bytes
    size: int
    last_n: int
    ms: int
    seq: int
    def __init__(self, kind: _Optional[_Union[DigestItem.Kind, str]] = ..., number: _Optional[int] = ..., name: _Optional[bytes] = ..., origin: _Optional[int] = ..., digest: _Optional[bytes] = ..., size: _Optional[int] = ..., last_n: _Optional[int] = ..., ms: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class BackupPiece(_message.Message):
    __slots__ = ("offset", "data", "crc")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    offset: int
    data: bytes
    crc: int
    def __init__(self, offset: _Optional[int] = ..., data: _Optional[bytes] = ..., crc: _Optional[int] = ...) -> None: ...

class BackupPart(_message.Message):
    __slots__ = ("begin", "rows", "end", "images")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    begin: BackupBegin
    rows: BackupRows
    end: BackupEnd
    images: BackupImages
    def __init__(self, begin: _Optional[_Union[BackupBegin, _Mapping]] = ..., rows: _Optional[_Union[BackupRows, _Mapping]] = ..., end: _Optional[_Union[BackupEnd, _Mapping]] = ..., images: _Optional[_Union[BackupImages, _Mapping]] = ...) -> None: ...

class BackupBegin(_message.Message):
    __slots__ = ("meta", "version", "cut_ms", "last_seq", "first_seq", "checkpoint")
    class MetaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    META_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CUT_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    meta: _containers.ScalarMap[str, str]
    version: str
    cut_ms: int
    last_seq: int
    first_seq: int
    checkpoint: BackupCheckpoint
    def __init__(self, meta: _Optional[_Mapping[str, str]] = ..., version: _Optional[str] = ..., cut_ms: _Optional[int] = ..., last_seq: _Optional[int] = ..., first_seq: _Optional[int] = ..., checkpoint: _Optional[_Union[BackupCheckpoint, _Mapping]] = ...) -> None: ...

class BackupCheckpoint(_message.Message):
    __slots__ = ("generation", "seq", "vv", "images_made", "made_ms", "first_number", "images", "numbers", "crcs", "bytes", "crc")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    IMAGES_MADE_FIELD_NUMBER: _ClassVar[int]
    MADE_MS_FIELD_NUMBER: _ClassVar[int]
    FIRST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    CRCS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    generation: int
    seq: int
    vv: str
    images_made: int
    made_ms: int
    first_number: int
    images: int
    numbers: int
    crcs: int
    bytes: int
    crc: int
    def __init__(self, generation: _Optional[int] = ..., seq: _Optional[int] = ..., vv: _Optional[str] = ..., images_made: _Optional[int] = ..., made_ms: _Optional[int] = ..., first_number: _Optional[int] = ..., images: _Optional[int] = ..., numbers: _Optional[int] = ..., crcs: _Optional[int] = ..., bytes: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...

class BackupImages(_message.Message):
    __slots__ = ("images",)
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    images: _containers.RepeatedCompositeFieldContainer[BackupImage]
    def __init__(self, images: _Optional[_Iterable[_Union[BackupImage, _Mapping]]] = ...) -> None: ...

class BackupImage(_message.Message):
    __slots__ = ("number", "kind", "owner", "lane", "head", "body", "size", "body_bytes", "body_crc", "born", "crc", "packed")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    BODY_CRC_FIELD_NUMBER: _ClassVar[int]
    BORN_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: int
    owner: int
    lane: int
    head: bytes
    body: bytes
    size: int
    body_bytes: int
    body_crc: int
    born: int
    crc: int
    packed: bytes
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[int] = ..., owner: _Optional[int] = ..., lane: _Optional[int] = ..., head: _Optional[bytes] = ..., body: _Optional[bytes] = ..., size: _Optional[int] = ..., body_bytes: _Optional[int] = ..., body_crc: _Optional[int] = ..., born: _Optional[int] = ..., crc: _Optional[int] = ..., packed: _Optional[bytes] = ...) -> None: ...

class BackupRows(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[BackupRow]
    def __init__(self, rows: _Optional[_Iterable[_Union[BackupRow, _Mapping]]] = ...) -> None: ...

class BackupRow(_message.Message):
    __slots__ = ("seq", "origin", "first_n", "last_n", "batch", "local", "crc")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_N_FIELD_NUMBER: _ClassVar[int]
    LAST_N_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    seq: int
    origin: int
    first_n: int
    last_n: int
    batch: bytes
    local: bytes
    crc: int
    def __init__(self, seq: _Optional[int] = ..., origin: _Optional[int] = ..., first_n: _Optional[int] = ..., last_n: _Optional[int] = ..., batch: _Optional[bytes] = ..., local: _Optional[bytes] = ..., crc: _Optional[int] = ...) -> None: ...

class BackupEnd(_message.Message):
    __slots__ = ("rows", "images")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    rows: int
    images: int
    def __init__(self, rows: _Optional[int] = ..., images: _Optional[int] = ...) -> None: ...

class MembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MembersReply(_message.Message):
    __slots__ = ("database_id", "database_uid", "epoch", "hash", "members", "numbers_left", "region", "pending_epoch", "is_everywhere", "revoked", "http_tls")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_LEFT_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PENDING_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_EVERYWHERE_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    HTTP_TLS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    database_uid: str
    epoch: int
    hash: bytes
    members: _containers.RepeatedCompositeFieldContainer[MemberStatus]
    numbers_left: int
    region: int
    pending_epoch: int
    is_everywhere: bool
    revoked: _containers.RepeatedCompositeFieldContainer[RevokedCertificate]
    http_tls: bool
    def __init__(self, database_id: _Optional[str] = ..., database_uid: _Optional[str] = ..., epoch: _Optional[int] = ..., hash: _Optional[bytes] = ..., members: _Optional[_Iterable[_Union[MemberStatus, _Mapping]]] = ..., numbers_left: _Optional[int] = ..., region: _Optional[int] = ..., pending_epoch: _Optional[int] = ..., is_everywhere: _Optional[bool] = ..., revoked: _Optional[_Iterable[_Union[RevokedCertificate, _Mapping]]] = ..., http_tls: _Optional[bool] = ...) -> None: ...

class RevokedCertificate(_message.Message):
    __slots__ = ("serial", "not_after_s", "revoked_s", "epoch")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    NOT_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    REVOKED_S_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    serial: bytes
    not_after_s: int
    revoked_s: int
    epoch: int
    def __init__(self, serial: _Optional[bytes] = ..., not_after_s: _Optional[int] = ..., revoked_s: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class MemberStatus(_message.Message):
    __slots__ = ("region", "name", "status", "grpc_address", "resp_address", "http_address", "added_epoch", "changed_epoch", "token_expires_ms", "heir", "instance", "cut")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[MemberStatus.Status]
        JOINING: _ClassVar[MemberStatus.Status]
        ACTIVE: _ClassVar[MemberStatus.Status]
        REMOVED: _ClassVar[MemberStatus.Status]
    STATUS_UNSPECIFIED: MemberStatus.Status
    JOINING: MemberStatus.Status
    ACTIVE: MemberStatus.Status
    REMOVED: MemberStatus.Status
    REGION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RESP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ADDED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANGED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    HEIR_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    region: int
    name: str
    status: MemberStatus.Status
    grpc_address: str
    resp_address: str
    http_address: str
    added_epoch: int
    changed_epoch: int
    token_expires_ms: int
    heir: int
    instance: bytes
    cut: int
    def __init__(self, region: _Optional[int] = ..., name: _Optional[str] = ..., status: _Optional[_Union[MemberStatus.Status, str]] = ..., grpc_address: _Optional[str] = ..., resp_address: _Optional[str] = ..., http_address: _Optional[str] = ..., added_epoch: _Optional[int] = ..., changed_epoch: _Optional[int] = ..., token_expires_ms: _Optional[int] = ..., heir: _Optional[int] = ..., instance: _Optional[bytes] = ..., cut: _Optional[int] = ...) -> None: ...

class ChangeMembersRequest(_message.Message):
    __slots__ = ("dry_run", "add", "update", "remove", "revoke")
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    REVOKE_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    add: AddRegion
    update: UpdateRegion
    remove: RemoveRegion
    revoke: RevokeCertificate
    def __init__(self, dry_run: _Optional[bool] = ..., add: _Optional[_Union[AddRegion, _Mapping]] = ..., update: _Optional[_Union[UpdateRegion, _Mapping]] = ..., remove: _Optional[_Union[RemoveRegion, _Mapping]] = ..., revoke: _Optional[_Union[RevokeCertificate, _Mapping]] = ...) -> None: ...

class AddRegion(_message.Message):
    __slots__ = ("name", "grpc_address", "resp_address", "http_address", "token_sha256", "token_expires_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RESP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SHA256_FIELD_NUMBER: _ClassVar[int]
    TOKEN_EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    grpc_address: str
    resp_address: str
    http_address: str
    token_sha256: bytes
    token_expires_ms: int
    def __init__(self, name: _Optional[str] = ..., grpc_address: _Optional[str] = ..., resp_address: _Optional[str] = ..., http_address: _Optional[str] = ..., token_sha256: _Optional[bytes] = ..., token_expires_ms: _Optional[int] = ...) -> None: ...

class UpdateRegion(_message.Message):
    __slots__ = ("region", "name", "grpc_address", "resp_address", "http_address", "force")
    REGION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RESP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    region: int
    name: str
    grpc_address: str
    resp_address: str
    http_address: str
    force: bool
    def __init__(self, region: _Optional[int] = ..., name: _Optional[str] = ..., grpc_address: _Optional[str] = ..., resp_address: _Optional[str] = ..., http_address: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class RemoveRegion(_message.Message):
    __slots__ = ("region", "heir", "force", "survivors")
    REGION_FIELD_NUMBER: _ClassVar[int]
    HEIR_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    SURVIVORS_FIELD_NUMBER: _ClassVar[int]
    region: int
    heir: int
    force: bool
    survivors: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, region: _Optional[int] = ..., heir: _Optional[int] = ..., force: _Optional[bool] = ..., survivors: _Optional[_Iterable[int]] = ...) -> None: ...

class RevokeCertificate(_message.Message):
    __slots__ = ("serial", "not_after_s")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    NOT_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    serial: bytes
    not_after_s: int
    def __init__(self, serial: _Optional[bytes] = ..., not_after_s: _Optional[int] = ...) -> None: ...

class RemoveSealedRequest(_message.Message):
    __slots__ = ("region", "heir", "seconds", "dry_run")
    REGION_FIELD_NUMBER: _ClassVar[int]
    HEIR_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    region: int
    heir: int
    seconds: float
    dry_run: bool
    def __init__(self, region: _Optional[int] = ..., heir: _Optional[int] = ..., seconds: _Optional[float] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class SealedRemoval(_message.Message):
    __slots__ = ("progress", "members")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    progress: str
    members: MembersReply
    def __init__(self, progress: _Optional[str] = ..., members: _Optional[_Union[MembersReply, _Mapping]] = ...) -> None: ...

class ChangeMembersReply(_message.Message):
    __slots__ = ("members", "region")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    members: MembersReply
    region: int
    def __init__(self, members: _Optional[_Union[MembersReply, _Mapping]] = ..., region: _Optional[int] = ...) -> None: ...

class FlushRequest(_message.Message):
    __slots__ = ("dry_run", "seconds")
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    seconds: float
    def __init__(self, dry_run: _Optional[bool] = ..., seconds: _Optional[float] = ...) -> None: ...

class FlushReply(_message.Message):
    __slots__ = ("keys", "entries", "is_deleted", "is_last", "lacks")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    IS_DELETED_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    keys: int
    entries: int
    is_deleted: bool
    is_last: bool
    lacks: _containers.RepeatedCompositeFieldContainer[FlushLack]
    def __init__(self, keys: _Optional[int] = ..., entries: _Optional[int] = ..., is_deleted: _Optional[bool] = ..., is_last: _Optional[bool] = ..., lacks: _Optional[_Iterable[_Union[FlushLack, _Mapping]]] = ...) -> None: ...

class FlushLack(_message.Message):
    __slots__ = ("region", "effects")
    REGION_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    region: int
    effects: int
    def __init__(self, region: _Optional[int] = ..., effects: _Optional[int] = ...) -> None: ...

class RepairKeyRequest(_message.Message):
    __slots__ = ("key", "source", "dry_run", "seconds")
    KEY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    source: int
    dry_run: bool
    seconds: float
    def __init__(self, key: _Optional[bytes] = ..., source: _Optional[int] = ..., dry_run: _Optional[bool] = ..., seconds: _Optional[float] = ...) -> None: ...

class RepairKeyReply(_message.Message):
    __slots__ = ("progress", "outcome")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    progress: RepairProgress
    outcome: RepairOutcome
    def __init__(self, progress: _Optional[_Union[RepairProgress, _Mapping]] = ..., outcome: _Optional[_Union[RepairOutcome, _Mapping]] = ...) -> None: ...

class RepairProgress(_message.Message):
    __slots__ = ("phase", "bytes_done", "bytes", "lacks")
    class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PHASE_UNSPECIFIED: _ClassVar[RepairProgress.Phase]
        COPYING: _ClassVar[RepairProgress.Phase]
        CATCHING_UP: _ClassVar[RepairProgress.Phase]
        COMPARING: _ClassVar[RepairProgress.Phase]
        REPLACING: _ClassVar[RepairProgress.Phase]
    PHASE_UNSPECIFIED: RepairProgress.Phase
    COPYING: RepairProgress.Phase
    CATCHING_UP: RepairProgress.Phase
    COMPARING: RepairProgress.Phase
    REPLACING: RepairProgress.Phase
    PHASE_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    phase: RepairProgress.Phase
    bytes_done: int
    bytes: int
    lacks: int
    def __init__(self, phase: _Optional[_Union[RepairProgress.Phase, str]] = ..., bytes_done: _Optional[int] = ..., bytes: _Optional[int] = ..., lacks: _Optional[int] = ...) -> None: ...

class RepairOutcome(_message.Message):
    __slots__ = ("vv", "parts", "unreadable", "record", "bytes")
    VV_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    vv: _effects_pb2.VersionVector
    parts: _containers.RepeatedCompositeFieldContainer[DigestItem]
    unreadable: str
    record: int
    bytes: int
    def __init__(self, vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[DigestItem, _Mapping]]] = ..., unreadable: _Optional[str] = ..., record: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...
