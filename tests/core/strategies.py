"""Hypothesis strategies: any effect and any local change, by its kind."""

from typing import Final

from hypothesis import strategies as st

from crdtstream.core.clock import Dot
from crdtstream.core.effects import (
    Ack,
    AckFrontier,
    AddToString,
    ChangeMembers,
    Claim,
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DeleteKey,
    DeleteString,
    Deliver,
    DestroyGroup,
    ExpireKey,
    IdempotentId,
    LaneHandover,
    LocalChange,
    Mode,
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
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.member_changes import (
    SECONDS_MAX,
    Activate,
    Add,
    Contact,
    JoinToken,
    Removal,
    Revoke,
    Update,
)
from crdtstream.core.member_changes import Remove as RemoveRegion
from crdtstream.core.membership.revoked import serial_bytes

IDS = st.integers(0, (1 << 128) - 1).map(StreamId)
REGIONS = st.integers(1, 1023).map(RegionId)
NAMES = st.binary(max_size=5)
LANES = st.dictionaries(REGIONS, IDS, max_size=3)
ASCENDING = st.lists(IDS, min_size=1, max_size=3, unique=True).map(lambda ids: tuple(sorted(ids)))
LANE_IDS = st.dictionaries(REGIONS, ASCENDING, max_size=3)
SOME_LANE_IDS = LANE_IDS.filter(bool)
COUNTS = st.none() | st.integers(0, 1 << 62)
STRETCHES = st.tuples(IDS, IDS).filter(lambda span: span[0] < span[1])
INTERVALS = st.dictionaries(REGIONS, STRETCHES, min_size=1, max_size=2)
MS = st.integers(0, 1 << 40).map(Millis)
SUMS = st.integers(-(1 << 100), 1 << 100) | st.integers(-300, 300)
NUMBERS = st.integers(1, 1 << 40)
TAKES = st.lists(
    st.builds(Taken, REGIONS, NUMBERS, SUMS), max_size=2, unique_by=lambda one: one.region
).map(lambda takes: tuple(sorted(takes)))
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
BASES = st.none() | st.builds(Dot, REGIONS, NUMBERS)
IDEMPOTENT = st.builds(IdempotentId, NAMES, NAMES)


@st.composite
def handovers(draw: st.DrawFn) -> LaneHandover:
    run_from, last_delivered = sorted(draw(st.tuples(IDS, IDS)))
    pending = draw(st.lists(IDS, max_size=3, unique=True).map(sorted))
    return LaneHandover(
        run_from,
        last_delivered,
        handed_out=tuple(draw(st.lists(STRETCHES, max_size=2))),
        ignore_until=draw(IDS),
        pending=tuple((entry_id, draw(st.integers(1, 9))) for entry_id in pending),
        entries_read=draw(COUNTS),
    )


@st.composite
def modes(draw: st.DrawFn) -> SetGroupMode:
    mode = draw(st.sampled_from(Mode))
    home = draw(REGIONS) if mode is Mode.HOME else None
    handed_over = draw(st.dictionaries(REGIONS, handovers(), max_size=2))
    return SetGroupMode(
        draw(NAMES),
        draw(NAMES),
        draw(st.integers(1, 1 << 40)),
        mode,
        home,
        draw(st.booleans()),
        handed_over,
    )


HASHES = st.binary(min_size=32, max_size=32)
INSTANCES = st.binary(min_size=16, max_size=16)
CONTACTS = st.builds(
    Contact,
    st.sampled_from(["us", "eu west", "\u00e9"]),
    st.sampled_from(["a:1", "[::1]:65535"]),
    certificates=st.lists(st.just("a.example"), max_size=2).map(tuple),
)
MEMBER_CHANGES = st.one_of(
    st.builds(Add, REGIONS, CONTACTS, st.builds(JoinToken, HASHES, MS)),
    st.builds(Activate, REGIONS, INSTANCES),
    st.builds(Update, REGIONS, CONTACTS),
    st.builds(RemoveRegion, st.just(RegionId(7)), st.just(RegionId(9)), st.sampled_from(Removal)),
    st.builds(
        Revoke,
        st.integers(1, (1 << 160) - 1).map(serial_bytes),
        st.integers(0, SECONDS_MAX),
        st.integers(0, SECONDS_MAX),
    ),
)

EFFECTS: Final[dict[type[RareEffect], st.SearchStrategy[RareEffect]]] = {
    Remove: st.builds(Remove, NAMES, SOME_LANE_IDS, st.booleans(), st.booleans()),
    Trim: st.builds(Trim, NAMES, LANES.filter(bool)),
    DeleteKey: st.builds(DeleteKey, NAMES, TAKES),
    ExpireKey: st.builds(ExpireKey, NAMES),
    CreateGroup: st.builds(CreateGroup, NAMES, NAMES, IDS | LANES, COUNTS),
    DestroyGroup: st.builds(DestroyGroup, NAMES, NAMES),
    AckFrontier: st.builds(AckFrontier, NAMES, NAMES, INTERVALS),
    SetLastId: st.builds(SetLastId, NAMES, IDS, COUNTS, st.none() | IDS),
    SetExpiry: st.builds(SetExpiry, NAMES, st.none() | MS),
    SetStreamConfig: st.builds(
        SetStreamConfig,
        NAMES,
        st.none() | st.integers(1, 86_400),
        st.none() | st.integers(1, 10_000),
    ),
    SetGroupMode: modes(),
    SetString: st.builds(SetString, NAMES, NAMES, st.none() | MS, TAKES),
    SetStringExpiry: st.builds(SetStringExpiry, NAMES, st.none() | MS),
    DeleteString: st.builds(DeleteString, NAMES, TAKES),
    AddToString: st.one_of(
        st.builds(AddToString, NAMES, I64, BASES, NUMBERS, SUMS, st.none() | MS),
        st.builds(AddToString, NAMES, I64, BASES, st.just(0), st.just(0), st.none() | MS),
    ),
    ChangeMembers: st.builds(ChangeMembers, st.integers(2, 1 << 16), HASHES, MEMBER_CHANGES),
}

NACKS = st.lists(st.tuples(IDS, MS, st.integers(0, 9)), min_size=1, max_size=2).map(tuple)
CHANGES: Final[dict[type[LocalChange], st.SearchStrategy[LocalChange]]] = {
    Deliver: st.builds(Deliver, NAMES, NAMES, NAMES, MS, LANE_IDS, st.booleans()),
    Redeliver: st.builds(Redeliver, NAMES, NAMES, NAMES, MS, LANE_IDS),
    Ack: st.builds(Ack, NAMES, NAMES, LANE_IDS),
    Claim: st.builds(
        Claim,
        NAMES,
        NAMES,
        NAMES,
        MS,
        st.dictionaries(REGIONS, NACKS, max_size=2),
        LANE_IDS,
        st.none() | IDS,
    ),
    Release: st.builds(
        Release,
        NAMES,
        NAMES,
        st.lists(st.tuples(REGIONS, IDS, st.integers(0, 9)), min_size=1, max_size=3).map(tuple),
    ),
    CreateConsumer: st.builds(CreateConsumer, NAMES, NAMES, NAMES, MS),
    DeleteConsumer: st.builds(DeleteConsumer, NAMES, NAMES, NAMES),
    SetPosition: st.builds(SetPosition, NAMES, NAMES, IDS | LANES, COUNTS),
}
