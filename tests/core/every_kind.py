"""One value of every kind of effect and of local change, and the bytes of a batch around it.

The examples are the same for good: ``tests/store/format_1`` holds their bytes.  A kind that is
added gets one here, and its bytes there.
"""

from array import array
from collections.abc import Sequence
from typing import Final

from crdtstream.core.clock import Dot
from crdtstream.core.effects import (
    Ack,
    AckFrontier,
    AddToString,
    AppendColumns,
    ChangeMembers,
    Claim,
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DeleteKey,
    DeleteString,
    Deliver,
    DestroyGroup,
    EffectBatch,
    ExpireKey,
    IdempotentId,
    LaneHandover,
    LocalChange,
    Mode,
    Numbered,
    NumberedRun,
    RareEffect,
    Redeliver,
    Release,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetPosition,
    SetStreamConfig,
    SetString,
    SetStringExpiry,
    Taken,
    Trim,
)
from crdtstream.core.ids import ID_MAX, SEQ_BITS, U64_MAX, Millis, RegionId, StreamId, make_id
from crdtstream.core.member_changes import (
    Activate,
    Add,
    Contact,
    JoinToken,
    Removal,
    Revoke,
    Update,
)
from crdtstream.core.member_changes import Remove as RemoveRegion
from crdtstream.core.wire.local_codec import Local

R1: Final = RegionId(1)
R2: Final = RegionId(2)
FAR: Final = RegionId(1023)
NOW: Final = Millis(1_700_000_000_123)


def entry(ms: int, seq: int = 0) -> StreamId:
    return make_id(ms, seq)


HANDOVER: Final = LaneHandover(
    run_from=entry(5),
    last_delivered=entry(9, 1),
    handed_out=((entry(12), entry(14)), (entry(20), ID_MAX)),
    ignore_until=entry(3),
    pending=((entry(6), 1), (entry(9, 1), (1 << 63) - 1)),
    entries_read=4,
)
EMPTY_HANDOVER: Final = LaneHandover(entry(0), entry(0), (), entry(0), (), None)

EFFECTS: Final[tuple[RareEffect, ...]] = (
    Remove(b"x", {R1: (entry(1), entry(1, 1)), FAR: (ID_MAX,)}),
    Remove(b"x", {R2: (entry(7),)}, with_references=True, trims=True),
    Trim(b"x", {R1: entry(4), R2: ID_MAX}),
    DeleteKey(b"\x00key\xff"),
    ExpireKey(b"x"),
    CreateGroup(b"x", b"g", entry(0)),
    CreateGroup(b"x", b"g", {R1: entry(5), R2: entry(7, 2)}, 12),
    CreateGroup(b"x", b"g", {}, 0),
    DestroyGroup(b"x", b"g"),
    AckFrontier(b"x", b"g", {R1: (entry(0), entry(9)), FAR: (entry(2), entry(2, 1))}),
    SetLastId(b"x", entry(9, 9)),
    SetLastId(b"x", entry(9, 9), 40, entry(8)),
    SetExpiry(b"x", NOW),
    SetExpiry(b"x", None),
    SetStreamConfig(b"x", 30, None),
    SetStreamConfig(b"x", None, 500),
    SetGroupMode(b"x", b"g", 1, Mode.AT_LEAST_ONCE, None, False, {}),
    SetGroupMode(b"x", b"g", 2, Mode.HOME, R2, False, {R1: HANDOVER, R2: EMPTY_HANDOVER}),
    SetGroupMode(b"x", b"g", 1 << 40, Mode.PARTITIONED, None, True, {}),
    SetString(b"x", b"\x00value\xff", NOW),
    SetString(b"x", b"", None),
    SetStringExpiry(b"x", NOW),
    SetStringExpiry(b"x", None),
    DeleteString(b"\x00key\xff"),
    SetString(b"x", b"v", None, (Taken(R1, 4, -(1 << 100)), Taken(FAR, 1, 128))),
    DeleteKey(b"x", (Taken(R2, (1 << 63) - 1, 0),)),
    DeleteString(b"x", (Taken(R1, 1, -128),)),
    AddToString(b"x", 1, None, 0, 0, None),
    AddToString(b"x", -(1 << 63), Dot(FAR, 9), 4, 1 << 100, NOW),
    ChangeMembers(
        2,
        bytes(range(32)),
        Add(R2, Contact("eu", "[::1]:7000"), JoinToken(bytes(range(32)), NOW)),
    ),
    ChangeMembers(3, bytes(range(32)), Activate(R2, bytes(range(16)))),
    ChangeMembers(4, bytes(range(32)), Update(R2, Contact("eu", "eu:7000"))),
    ChangeMembers(5, bytes(range(32)), RemoveRegion(R2, R1, Removal.FORCED)),
    ChangeMembers(6, bytes(range(32)), Revoke(b"\x7c\x00", 1_800_000_000, 1_700_000_000)),
)

LANE_IDS: Final = {R1: (entry(1), entry(2)), R2: (entry(1, 7),)}
CHANGES: Final[tuple[LocalChange, ...]] = (
    Deliver(b"x", b"g", b"c", NOW, LANE_IDS, False),
    Deliver(b"x", b"g", b"", NOW, {R1: (ID_MAX,)}, True),
    Redeliver(b"x", b"g", b"c", NOW, LANE_IDS),
    Ack(b"x", b"g", LANE_IDS),
    Claim(
        b"x",
        b"g",
        b"c",
        NOW,
        {R1: ((entry(1), NOW, 3), (entry(4), Millis(0), 0)), R2: ((entry(2), NOW, 1),)},
        {R2: (entry(3),)},
        entry(8),
    ),
    Claim(b"x", b"g", b"c", NOW, {}, {}),
    Release(b"x", b"g", ((R2, entry(5), 2), (R1, entry(4), 0))),
    CreateConsumer(b"x", b"g", b"c", NOW),
    DeleteConsumer(b"x", b"g", b"c"),
    SetPosition(b"x", b"g", entry(3)),
    SetPosition(b"x", b"g", {R1: entry(3), R2: entry(0)}, 7),
)


def batch_of(effect: RareEffect) -> EffectBatch:
    """A batch of one effect, issued by region 3."""
    return EffectBatch(RegionId(3), 7, 1, {R1: 5, FAR: 1}, NOW, columns([], []), [(0, effect)])


def local_of(change: LocalChange) -> Local:
    return Local([(41, change)], arrived=Millis(0), appended=[])


def columns(keys: list[bytes], appends: Sequence[tuple[int, StreamId, bytes]]) -> AppendColumns:
    """Appends, each as the index of its key, its ID and its fields."""
    return AppendColumns(
        keys,
        array("I", [index for index, _, _ in appends]),
        array("Q", [entry_id >> SEQ_BITS for _, entry_id, _ in appends]),
        array("Q", [entry_id & U64_MAX for _, entry_id, _ in appends]),
        array("I", [len(fields) for _, _, fields in appends]),
        b"".join(fields for _, _, fields in appends),
    )


def batch_of_appends() -> EffectBatch:
    """Appends of two keys between other effects: plain, idempotent and numbered ones."""
    fields = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    appends = columns([b"x", b"y"], [(at % 2, entry(10 + at, at), fields) for at in range(6)])
    appends.idempotent = {1: IdempotentId(b"p", b"a"), 2: IdempotentId(b"q", b"")}
    appends.numbered = [NumberedRun(3, 2, Numbered(b"w", 6, 100))]
    others: list[tuple[int, RareEffect]] = [(0, EFFECTS[0]), (4, DeleteKey(b"z"))]
    return EffectBatch(R1, 100, 8, {R2: 17}, NOW, appends, others)


LOCAL_OF_A_RECEIVED: Final = Local((), arrived=NOW)
LOCAL_OF_APPENDS: Final = Local((), appended=[NOW, Millis(NOW + 1)])
