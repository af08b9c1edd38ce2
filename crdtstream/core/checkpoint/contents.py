"""What the images of parts say, as MessagePack: arrays in the order of the attributes here.

Further attributes are added at the end, with a default: images that lack them are read, too.  IDs
are 16 big-endian bytes, since MessagePack's integers end at 64 bits.  PENDING and NODE images are
columns and no MessagePack.
"""

from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from crdtstream.core.clock import Dot
from crdtstream.core.effects import Mode
from crdtstream.core.ids import Millis, RegionId, StreamId

Id: TypeAlias = Annotated[bytes, "ID"]
# Ranges of IDs, each from an ID, not included, up to another.
IntervalsContent: TypeAlias = list[tuple[Id, Id]]
# A group's start or position: one for all lanes, or by lane.
StartContent: TypeAlias = Id | dict[RegionId, Id]

T = TypeVar("T")
ID_BYTES: Final = 16


class ContentError(ValueError):
    """An image says what no state can be; the text says which and what."""


class LaneContent(msgspec.Struct, array_like=True, frozen=True):
    region: RegionId
    entries_added: int
    max_deleted_id: Id


class StreamContent(msgspec.Struct, array_like=True, frozen=True):
    """``order``: streams are listed in the order in which they came to be."""

    order: int
    lanes: list[LaneContent]
    last_ids: list[tuple[RegionId, Id, int]]
    lost: dict[RegionId, int]


class RegistersContent(msgspec.Struct, array_like=True, frozen=True):
    expiry: list[tuple[Dot, Millis | None]]
    idmp_duration_s: list[tuple[Dot, int]]
    idmp_maxsize: list[tuple[Dot, int]]


class StringValueContent(msgspec.Struct, array_like=True, frozen=True):
    dot: Dot
    data: bytes
    expiry: list[tuple[Dot, Millis | None]]


class StringContent(msgspec.Struct, array_like=True, frozen=True):
    order: int
    values: list[StringValueContent]


class FloorContent(msgspec.Struct, array_like=True, frozen=True):
    last_id: Id
    expiries: dict[RegionId, int]


class GoneContent(msgspec.Struct, array_like=True, frozen=True):
    """What a stream that is gone had lost; ``order``: the oldest is forgotten first."""

    order: int
    lost: dict[RegionId, int]


class KeyContent(msgspec.Struct, array_like=True, frozen=True):
    number: int
    key: bytes
    stream: StreamContent | None
    registers: RegistersContent | None
    string: StringContent | None
    # By origin; of the region's own lane alone as earlier versions wrote it.
    floors: dict[RegionId, FloorContent] | FloorContent | None
    tombstones: list[tuple[bytes | None, dict[RegionId, int]]]
    gone: GoneContent | None


class TrackedContent(msgspec.Struct, array_like=True, frozen=True):
    id: bytes
    entry_id: Id
    dot: Dot
    arrived: Millis
    hits: int


class WindowContent(msgspec.Struct, array_like=True, frozen=True):
    added: int
    duplicates: int
    producers: list[tuple[bytes, list[TrackedContent]]]


class IdempotentContent(msgspec.Struct, array_like=True, frozen=True):
    """An idempotent append that is not causally stable."""

    dot: Dot
    producer: bytes
    id: bytes
    entry_id: Id


class CollapsedContent(msgspec.Struct, array_like=True, frozen=True):
    entry_id: Id
    dot: Dot
    producer: bytes
    id: bytes
    stays: Dot
    stays_id: Id


class RunContent(msgspec.Struct, array_like=True, frozen=True):
    """Rows of a numbered producer that are known, or not causally stable."""

    start: int
    stop: int
    first: Dot
    known: bool
    is_stable: bool = False


class BatchContent(msgspec.Struct, array_like=True, frozen=True):
    number: int
    known: list[tuple[int, int]]
    runs: list[RunContent]


class NumberedContent(msgspec.Struct, array_like=True, frozen=True):
    producer: bytes
    newest: int
    batches: list[BatchContent]


class ProducersContent(msgspec.Struct, array_like=True, frozen=True):
    """``deleted``: the records that it covers are of entries that went with the key."""

    window: WindowContent | None
    records: list[IdempotentContent]
    collapsed: list[CollapsedContent]
    numbered: list[NumberedContent]
    deleted: dict[RegionId, int] = {}


class ModeContent(msgspec.Struct, array_like=True, frozen=True):
    epoch: int
    issuer: RegionId
    mode: Mode
    home: RegionId | None


class CreateContent(msgspec.Struct, array_like=True, frozen=True):
    dot: Dot
    start: StartContent
    intervals: dict[RegionId, IntervalsContent]
    mode: ModeContent | None


class ProgressContent(msgspec.Struct, array_like=True, frozen=True):
    region: RegionId
    last_delivered: Id
    run_from: Id
    ignore_until: Id
    handed_out: IntervalsContent
    has_left_out: bool
    skip_pending_until: Id
    entries_read: int | None


class HandoverContent(msgspec.Struct, array_like=True, frozen=True):
    region: RegionId
    run_from: Id
    last_delivered: Id
    handed_out: IntervalsContent
    ignore_until: Id
    pending: list[tuple[Id, int]]
    entries_read: int | None


class SettingContent(msgspec.Struct, array_like=True, frozen=True):
    """A SetGroupMode that is not causally stable."""

    dot: Dot
    context: dict[RegionId, int]
    epoch: int
    mode: Mode
    home: RegionId | None
    forced: bool
    handover: list[HandoverContent]


class ConsumerContent(msgspec.Struct, array_like=True, frozen=True):
    number: int
    name: bytes
    seen_ms: Millis
    active_ms: Millis | None


class GroupContent(msgspec.Struct, array_like=True, frozen=True):
    """``position``: where XGROUP SETID said that lanes to come are read from, and the creates that
    were there then."""

    number: int
    name: bytes
    creates: list[CreateContent]
    lanes: list[ProgressContent]
    position: StartContent | None
    position_known: list[Dot]
    position_is_left: bool
    read_hint: tuple[int, RegionId | None] | None
    consumers: list[ConsumerContent]
    consumers_made: int
    turns_taken: int
    settings: list[SettingContent] = []


class RootContent(msgspec.Struct, array_like=True, frozen=True):
    """What is the region's as a whole, in the row of the checkpoint itself."""

    region: RegionId
    vv: dict[RegionId, int]
    arrival: Millis
    # The numbers that were given last.
    key_number: int
    group_number: int
    order: int
    # As ``membership/encoding.py`` writes them; empty where configuration files say who is one.
    members: bytes = b""


_encoder = msgspec.msgpack.Encoder()


def packed(content: msgspec.Struct) -> bytes:
    return _encoder.encode(content)


def unpacked(data: bytes, content: type[T]) -> T:
    """
    Raises:
        ContentError: it is something else.
    """
    try:
        return msgspec.msgpack.decode(data, type=content)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ContentError(f"{content.__name__}: {error}") from error


def id_content(entry_id: StreamId) -> Id:
    return entry_id.to_bytes(ID_BYTES, "big")


def id_of(content: Id) -> StreamId:
    """
    Raises:
        ContentError: it has another length.
    """
    if len(content) != ID_BYTES:
        raise ContentError(f"an ID of {len(content)} bytes")
    return StreamId(int.from_bytes(content, "big"))
