"""Contents of the parts' images, as MessagePack: arrays in the order of the attributes here.

Further attributes are added at the end, with a default: images that lack them are read, too.  IDs
are 16 big-endian bytes, since MessagePack's integers end at 64 bits.  PENDING and NODE images are
columns and no MessagePack.
"""

from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from crdtstream.core.clock import Dot
from crdtstream.core.effects import Mode
from crdtstream.core.ids import REGION_MAX, Millis, RegionId, StreamId

ID_BYTES: Final = 16
Id: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Region: TypeAlias = Annotated[RegionId, msgspec.Meta(ge=1, le=REGION_MAX)]
# None of the numbers here is below 0.
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
DotNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Time: TypeAlias = Annotated[Millis, msgspec.Meta(ge=0)]
# A sum of a counter's share may need more than 64 bits.  One of more bytes than this cannot be, as
# each effect adds 64 bits at most.
SUM_BYTES_MAX: Final = 15
Sum: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=SUM_BYTES_MAX)]
# Ranges of IDs, each from an ID, not included, up to another.
IntervalsContent: TypeAlias = list[tuple[Id, Id]]
# A group's start or position: one for all lanes, or by lane.
StartContent: TypeAlias = Id | dict[Region, Id]
# By origin ends of batches, ascending, with their hashes (``histories.py``).
HistoriesContent: TypeAlias = dict[Region, list[tuple[Number, Number]]]

T = TypeVar("T")


class ContentError(ValueError):
    """An image says what no state can be; the text says which and what."""


class LaneContent(msgspec.Struct, array_like=True, frozen=True):
    region: Region
    entries_added: Number
    max_deleted_id: Id


class StreamContent(msgspec.Struct, array_like=True, frozen=True):
    """``order``: streams are listed in the order in which they came to be."""

    order: Number
    lanes: list[LaneContent]
    last_ids: list[tuple[Region, Id, DotNumber]]
    lost: dict[Region, Number]


class RegistersContent(msgspec.Struct, array_like=True, frozen=True):
    expiry: list[tuple[Dot, Time | None]]
    idmp_duration_s: list[tuple[Dot, Number]]
    idmp_maxsize: list[tuple[Dot, Number]]


class StringValueContent(msgspec.Struct, array_like=True, frozen=True):
    dot: Dot
    data: bytes
    expiry: list[tuple[Dot, Time | None]]


class ShareContent(msgspec.Struct, array_like=True, frozen=True):
    """A region's share of a counter; ``total``, ``taken``: as ``sum_content`` writes them."""

    region: Region
    base: Dot | None
    n: DotNumber
    total: Sum
    taken_n: Number
    taken: Sum
    expiry: list[tuple[Dot, Time | None]]


class StringContent(msgspec.Struct, array_like=True, frozen=True):
    order: Number
    values: list[StringValueContent]
    shares: list[ShareContent] = []


class EndedContent(msgspec.Struct, array_like=True, frozen=True):
    """A share that is gone: how far it was taken, and by which effects."""

    n: DotNumber
    total: Sum
    takers: dict[Region, DotNumber]


class FloorContent(msgspec.Struct, array_like=True, frozen=True):
    last_id: Id
    expiries: dict[Region, Number]


class GoneContent(msgspec.Struct, array_like=True, frozen=True):
    """Losses of a stream that is gone; that of the lowest ``order`` is forgotten first."""

    order: Number
    lost: dict[Region, Number]


class KeyContent(msgspec.Struct, array_like=True, frozen=True):
    number: Number
    key: bytes
    stream: StreamContent | None
    registers: RegistersContent | None
    string: StringContent | None
    # By origin; a folder of format 5 may have that of the region's own lane alone.
    floors: dict[Region, FloorContent] | FloorContent | None
    tombstones: list[tuple[bytes | None, dict[Region, DotNumber]]]
    gone: GoneContent | None
    ended_shares: dict[Region, EndedContent] = {}


class TrackedContent(msgspec.Struct, array_like=True, frozen=True):
    id: bytes
    entry_id: Id
    dot: Dot
    arrived: Time
    hits: Number


class WindowContent(msgspec.Struct, array_like=True, frozen=True):
    added: Number
    duplicates: Number
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

    start: Number
    stop: Number
    first: Dot
    known: bool
    is_stable: bool = False


class BatchContent(msgspec.Struct, array_like=True, frozen=True):
    number: Number
    known: list[tuple[Number, Number]]
    runs: list[RunContent]


class NumberedContent(msgspec.Struct, array_like=True, frozen=True):
    """``newest``: -1 if no batch has a known row."""

    producer: bytes
    newest: Annotated[int, msgspec.Meta(ge=-1)]
    batches: list[BatchContent]


class ProducersContent(msgspec.Struct, array_like=True, frozen=True):
    """``deleted``: the records that it covers are of entries that were deleted with the key."""

    window: WindowContent | None
    records: list[IdempotentContent]
    collapsed: list[CollapsedContent]
    numbered: list[NumberedContent]
    deleted: dict[Region, Number] = {}


class ModeContent(msgspec.Struct, array_like=True, frozen=True):
    epoch: Number
    issuer: Region
    mode: Mode
    home: Region | None


class CreateContent(msgspec.Struct, array_like=True, frozen=True):
    dot: Dot
    start: StartContent
    intervals: dict[Region, IntervalsContent]
    mode: ModeContent | None


class ProgressContent(msgspec.Struct, array_like=True, frozen=True):
    region: Region
    last_delivered: Id
    run_from: Id
    ignore_until: Id
    handed_out: IntervalsContent
    has_left_out: bool
    skip_pending_until: Id
    entries_read: Number | None


class HandoverContent(msgspec.Struct, array_like=True, frozen=True):
    region: Region
    run_from: Id
    last_delivered: Id
    handed_out: IntervalsContent
    ignore_until: Id
    pending: list[tuple[Id, Number]]
    entries_read: Number | None


class SettingContent(msgspec.Struct, array_like=True, frozen=True):
    """A SetGroupMode that is not causally stable."""

    dot: Dot
    context: dict[Region, Number]
    epoch: Number
    mode: Mode
    home: Region | None
    forced: bool
    handover: list[HandoverContent]


class ConsumerContent(msgspec.Struct, array_like=True, frozen=True):
    number: Number
    name: bytes
    seen_ms: Time
    active_ms: Time | None


class GroupContent(msgspec.Struct, array_like=True, frozen=True):
    """``position``: where XGROUP SETID said that lanes to come are read from, and the creates that
    were there then."""

    number: Number
    name: bytes
    creates: list[CreateContent]
    lanes: list[ProgressContent]
    position: StartContent | None
    position_known: list[Dot]
    position_is_left: bool
    read_hint: tuple[Number, Region | None] | None
    consumers: list[ConsumerContent]
    consumers_made: Number
    turns_taken: Number
    settings: list[SettingContent] = []


class RootContent(msgspec.Struct, array_like=True, frozen=True):
    """State of the region as a whole, in the row of the checkpoint itself."""

    region: Region
    vv: dict[Region, Number]
    arrival: Time
    # The numbers that were given last.
    key_number: Number
    group_number: Number
    order: Number
    # As ``membership/encoding.py`` writes them; empty: none are known.
    members: bytes = b""
    histories: HistoriesContent = {}


_encoder = msgspec.msgpack.Encoder()


def packed(content: msgspec.Struct | HistoriesContent) -> bytes:
    return _encoder.encode(content)


def unpacked(data: bytes, content: type[T]) -> T:
    """
    Raises:
        ContentError: it is something else.
    """
    try:
        return msgspec.msgpack.decode(data, type=content)
    except (ValueError, RecursionError) as error:
        # All that msgspec finds is a ValueError, and so are bytes that are no text.
        raise ContentError(f"{content.__name__}: {error}") from error


def sum_content(number: int) -> Sum:
    """In as few bytes as it takes; 0 in none."""
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "little", signed=True) if number else b""


def sum_of(content: Sum) -> int:
    return int.from_bytes(content, "little", signed=True)


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
