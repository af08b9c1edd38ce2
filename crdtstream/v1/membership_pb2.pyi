from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MembershipLetter(_message.Message):
    __slots__ = ("database_id", "database_uid", "sender", "to", "message", "members")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    database_uid: bytes
    sender: int
    to: int
    message: bytes
    members: bytes
    def __init__(self, database_id: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., message: _Optional[bytes] = ..., members: _Optional[bytes] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IntroduceRequest(_message.Message):
    __slots__ = ("database_id", "region")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    region: int
    def __init__(self, database_id: _Optional[str] = ..., region: _Optional[int] = ...) -> None: ...

class Introduction(_message.Message):
    __slots__ = ("region", "instance", "database_uid", "grpc_address", "resp_address", "http_address", "peers", "votes")
    REGION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RESP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    region: int
    instance: bytes
    database_uid: bytes
    grpc_address: str
    resp_address: str
    http_address: str
    peers: _containers.RepeatedCompositeFieldContainer[ConfiguredPeer]
    votes: bool
    def __init__(self, region: _Optional[int] = ..., instance: _Optional[bytes] = ..., database_uid: _Optional[bytes] = ..., grpc_address: _Optional[str] = ..., resp_address: _Optional[str] = ..., http_address: _Optional[str] = ..., peers: _Optional[_Iterable[_Union[ConfiguredPeer, _Mapping]]] = ..., votes: _Optional[bool] = ...) -> None: ...

class ConfiguredPeer(_message.Message):
    __slots__ = ("region", "address")
    REGION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    region: int
    address: str
    def __init__(self, region: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("secret", "instance")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    secret: bytes
    instance: bytes
    def __init__(self, secret: _Optional[bytes] = ..., instance: _Optional[bytes] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("region", "database_id", "database_uid", "members")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    region: int
    database_id: str
    database_uid: bytes
    members: bytes
    def __init__(self, region: _Optional[int] = ..., database_id: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., members: _Optional[bytes] = ...) -> None: ...
