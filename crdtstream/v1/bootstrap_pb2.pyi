from crdtstream.v1 import effects_pb2 as _effects_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CopyRequest(_message.Message):
    __slots__ = ("protocol", "region", "database_id", "database_uid", "run_id", "vv", "resume", "bytes_per_s", "key")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    region: int
    database_id: str
    database_uid: bytes
    run_id: int
    vv: _effects_pb2.VersionVector
    resume: CopyResume
    bytes_per_s: int
    key: bytes
    def __init__(self, protocol: _Optional[int] = ..., region: _Optional[int] = ..., database_id: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., run_id: _Optional[int] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., resume: _Optional[_Union[CopyResume, _Mapping]] = ..., bytes_per_s: _Optional[int] = ..., key: _Optional[bytes] = ...) -> None: ...

class CopyResume(_message.Message):
    __slots__ = ("cut_id", "after_number")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    cut_id: bytes
    after_number: int
    def __init__(self, cut_id: _Optional[bytes] = ..., after_number: _Optional[int] = ...) -> None: ...

class CopyPiece(_message.Message):
    __slots__ = ("begin", "images", "end")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    begin: CopyBegin
    images: CopyImages
    end: CopyEnd
    def __init__(self, begin: _Optional[_Union[CopyBegin, _Mapping]] = ..., images: _Optional[_Union[CopyImages, _Mapping]] = ..., end: _Optional[_Union[CopyEnd, _Mapping]] = ...) -> None: ...

class CopyBegin(_message.Message):
    __slots__ = ("cut_id", "source", "vv", "images", "numbers", "bytes", "resumed", "key", "incarnations")
    CUT_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VV_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    cut_id: bytes
    source: int
    vv: _effects_pb2.VersionVector
    images: int
    numbers: int
    bytes: int
    resumed: bool
    key: bytes
    incarnations: bytes
    def __init__(self, cut_id: _Optional[bytes] = ..., source: _Optional[int] = ..., vv: _Optional[_Union[_effects_pb2.VersionVector, _Mapping]] = ..., images: _Optional[int] = ..., numbers: _Optional[int] = ..., bytes: _Optional[int] = ..., resumed: _Optional[bool] = ..., key: _Optional[bytes] = ..., incarnations: _Optional[bytes] = ...) -> None: ...

class CopyImages(_message.Message):
    __slots__ = ("images",)
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    images: _containers.RepeatedCompositeFieldContainer[CopyImage]
    def __init__(self, images: _Optional[_Iterable[_Union[CopyImage, _Mapping]]] = ...) -> None: ...

class CopyImage(_message.Message):
    __slots__ = ("number", "kind", "owner", "lane", "head", "body", "crc")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: int
    owner: int
    lane: int
    head: bytes
    body: bytes
    crc: int
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[int] = ..., owner: _Optional[int] = ..., lane: _Optional[int] = ..., head: _Optional[bytes] = ..., body: _Optional[bytes] = ..., crc: _Optional[int] = ...) -> None: ...

class CopyEnd(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
