from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MembershipLetter(_message.Message):
    __slots__ = ("database_id", "database_uid", "sender", "to", "message", "members", "incarnation")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    database_uid: bytes
    sender: int
    to: int
    message: bytes
    members: bytes
    incarnation: bytes
    def __init__(self, database_id: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., message: _Optional[bytes] = ..., members: _Optional[bytes] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class Delivered(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SealRequest(_message.Message):
    __slots__ = ("database_id", "database_uid", "sender", "to", "step", "heir", "epoch")
    class Step(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STEP_UNSPECIFIED: _ClassVar[SealRequest.Step]
        LOOK: _ClassVar[SealRequest.Step]
        SEAL: _ClassVar[SealRequest.Step]
        END: _ClassVar[SealRequest.Step]
    STEP_UNSPECIFIED: SealRequest.Step
    LOOK: SealRequest.Step
    SEAL: SealRequest.Step
    END: SealRequest.Step
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    HEIR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    database_uid: bytes
    sender: int
    to: int
    step: SealRequest.Step
    heir: int
    epoch: int
    def __init__(self, database_id: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., sender: _Optional[int] = ..., to: _Optional[int] = ..., step: _Optional[_Union[SealRequest.Step, str]] = ..., heir: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class SealReply(_message.Message):
    __slots__ = ("sealed", "epoch", "groups", "handed_over", "issued", "lacks", "trouble")
    SEALED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    LACKS_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    sealed: bool
    epoch: int
    groups: int
    handed_over: bool
    issued: int
    lacks: _containers.RepeatedCompositeFieldContainer[SealLack]
    trouble: str
    def __init__(self, sealed: _Optional[bool] = ..., epoch: _Optional[int] = ..., groups: _Optional[int] = ..., handed_over: _Optional[bool] = ..., issued: _Optional[int] = ..., lacks: _Optional[_Iterable[_Union[SealLack, _Mapping]]] = ..., trouble: _Optional[str] = ...) -> None: ...

class SealLack(_message.Message):
    __slots__ = ("region", "effects")
    REGION_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    region: int
    effects: int
    def __init__(self, region: _Optional[int] = ..., effects: _Optional[int] = ...) -> None: ...

class IntroduceRequest(_message.Message):
    __slots__ = ("database_id", "region")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    region: int
    def __init__(self, database_id: _Optional[str] = ..., region: _Optional[int] = ...) -> None: ...

class Introduction(_message.Message):
    __slots__ = ("region", "database_uid")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    region: int
    database_uid: bytes
    def __init__(self, region: _Optional[int] = ..., database_uid: _Optional[bytes] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("secret", "instance")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    secret: bytes
    instance: bytes
    def __init__(self, secret: _Optional[bytes] = ..., instance: _Optional[bytes] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("region", "database_id", "database_uid", "members", "peers")
    REGION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_UID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    region: int
    database_id: str
    database_uid: bytes
    members: bytes
    peers: _containers.RepeatedCompositeFieldContainer[NamedPeer]
    def __init__(self, region: _Optional[int] = ..., database_id: _Optional[str] = ..., database_uid: _Optional[bytes] = ..., members: _Optional[bytes] = ..., peers: _Optional[_Iterable[_Union[NamedPeer, _Mapping]]] = ...) -> None: ...

class NamedPeer(_message.Message):
    __slots__ = ("region", "address")
    REGION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    region: int
    address: str
    def __init__(self, region: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...
