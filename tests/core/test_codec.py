"""Batches and local changes survive their encoding; other bytes are refused with the field."""

from array import array
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import (
    Ack,
    AckFrontier,
    AppendColumns,
    Claim,
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DeleteKey,
    Deliver,
    DestroyGroup,
    EffectBatch,
    ExpireKey,
    IdempotentId,
    LaneHandover,
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
    Trim,
)
from crdtstream.core.ids import Millis, Region, StreamId, make_id
from crdtstream.core.wire.codec import (
    BatchError,
    decode_batch,
    encode_batch,
)
from crdtstream.core.wire.local_codec import Local, decode_local, encode_local
from crdtstream.v1 import effects_pb2

IDS = st.integers(0, (1 << 128) - 1).map(StreamId)
REGIONS = st.integers(1, 1023).map(Region)
NAMES = st.binary(max_size=5)
LANES = st.dictionaries(REGIONS, IDS, max_size=3)
LANE_IDS = st.dictionaries(REGIONS, st.lists(IDS, min_size=1, max_size=3).map(tuple), max_size=3)
COUNTS = st.none() | st.integers(0, 1 << 62)
INTERVALS = st.dictionaries(
    REGIONS, st.tuples(IDS, IDS).filter(lambda span: span[0] < span[1]), max_size=2
)
MS = st.integers(0, 1 << 40).map(Millis)


@st.composite
def handovers(draw: st.DrawFn) -> LaneHandover:
    run_from, last_delivered = sorted(draw(st.tuples(IDS, IDS)))
    pending = draw(st.lists(IDS, max_size=3, unique=True).map(sorted))
    return LaneHandover(
        run_from,
        last_delivered,
        handed_out=tuple(draw(INTERVALS).values()),
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


BY_KIND = {
    Remove: st.builds(Remove, NAMES, LANE_IDS, st.booleans(), st.booleans()),
    Trim: st.builds(Trim, NAMES, LANES),
    DeleteKey: st.builds(DeleteKey, NAMES),
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
}
OTHERS = st.one_of(*BY_KIND.values())
NACKS = st.lists(st.tuples(IDS, MS, st.integers(0, 9)), min_size=1, max_size=2).map(tuple)
CHANGES = st.one_of(
    st.builds(Deliver, NAMES, NAMES, NAMES, MS, LANE_IDS, st.booleans()),
    st.builds(Redeliver, NAMES, NAMES, NAMES, MS, LANE_IDS),
    st.builds(Ack, NAMES, NAMES, LANE_IDS),
    st.builds(
        Claim,
        NAMES,
        NAMES,
        NAMES,
        MS,
        st.dictionaries(REGIONS, NACKS, max_size=2),
        LANE_IDS,
        st.none() | IDS,
    ),
    st.builds(CreateConsumer, NAMES, NAMES, NAMES, MS),
    st.builds(DeleteConsumer, NAMES, NAMES, NAMES),
    st.builds(
        Release,
        NAMES,
        NAMES,
        st.lists(st.tuples(REGIONS, IDS, st.integers(0, 9)), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(SetPosition, NAMES, NAMES, IDS | LANES, COUNTS),
)


def columns(keys: list[bytes], appends: list[tuple[int, StreamId, bytes]]) -> AppendColumns:
    return AppendColumns(
        keys,
        array("I", [index for index, _, _ in appends]),
        array("Q", [entry_id >> 64 for _, entry_id, _ in appends]),
        array("Q", [entry_id & ((1 << 64) - 1) for _, entry_id, _ in appends]),
        array("I", [len(fields) for _, _, fields in appends]),
        b"".join(fields for _, _, fields in appends),
    )


def test_every_kind_of_effect_is_tried() -> None:
    assert set(BY_KIND) == set(get_args(RareEffect))


@given(
    others=st.dictionaries(st.integers(0, 9), OTHERS, max_size=4),
    appends=st.lists(st.tuples(st.integers(0, 1), IDS, st.binary(max_size=6)), max_size=4),
    context=st.dictionaries(st.integers(2, 9).map(Region), st.integers(1, 99), max_size=3),
)
def test_batches_survive(
    others: dict[int, DeleteKey],
    appends: list[tuple[int, StreamId, bytes]],
    context: dict[Region, int],
) -> None:
    # Offsets that fit: as many effects as the highest offset needs.
    count = len(appends) + len(others)
    placed = [(offset, others[offset]) for offset in sorted(others) if offset < count]
    count = len(appends) + len(placed)
    placed = [(min(offset, count - 1), effect) for offset, effect in placed]
    if not count or len({offset for offset, _ in placed}) != len(placed):
        return
    batch = EffectBatch(
        Region(1), 7, count, context, Millis(5), columns([b"a", b"b"], appends), placed
    )
    assert decode_batch(encode_batch(batch)) == batch


@given(
    st.builds(Local, st.lists(st.tuples(st.integers(0, 99), CHANGES), max_size=4), MS, st.lists(MS))
)
def test_local_changes_survive(local: Local) -> None:
    assert decode_local(encode_local(local)) == local


def message(**changes: object) -> effects_pb2.EffectBatch:
    """One good batch of one append, with some fields replaced."""
    good: dict[str, object] = {
        "origin": 1,
        "first_n": 1,
        "count": 1,
        "keys": [b"x"],
        "ms": bytes(8),
        "seq": b"\1" + bytes(7),
        "lengths": b"\2" + bytes(3),
        "fields": b"ab",
    }
    return effects_pb2.EffectBatch(**{**good, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"origin": 0}, "origin"),
        ({"origin": 1024}, "origin"),
        ({"count": 0}, "count"),
        ({"count": 2}, "count"),
        ({"count": 1 << 31}, "count"),
        ({"first_n": 0}, "first_n"),
        ({"first_n": (1 << 64) - 1}, "first_n"),
        ({"ms": bytes(7)}, "ms"),
        ({"ms": bytes(16)}, "columns differ"),
        ({"keys": []}, "keys"),
        ({"keys": [b"x", b"y"], "key_index": b"\7" + bytes(3)}, "key_index"),
        ({"lengths": b"\3" + bytes(3)}, "fields"),
        ({"context": effects_pb2.VersionVector(regions=[1], counts=[1])}, "context"),
        ({"context": effects_pb2.VersionVector(regions=[2, 3], counts=[1])}, "version vector"),
        ({"context": effects_pb2.VersionVector(regions=[2, 2], counts=[1, 1])}, "version vector"),
        ({"count": 2, "others": [effects_pb2.Effect(offset=5)]}, "others.offset"),
        ({"count": 2, "others": [effects_pb2.Effect(offset=1)]}, "others.kind"),
    ],
)
def test_a_bad_batch_is_refused_with_the_field(changes: dict[str, object], field: str) -> None:
    assert decode_batch(message().SerializeToString()).count == 1
    with pytest.raises(BatchError, match=field):
        decode_batch(message(**changes).SerializeToString())


@given(st.binary(max_size=40))
def test_garbage_is_refused_and_never_crashes(data: bytes) -> None:
    for decode in (decode_batch, decode_local):
        try:
            decode(data)
        except BatchError:
            continue


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (NumberedRun(1, 2, Numbered(b"q", 0, 0)), "idempotent id, too"),
        (NumberedRun(3, 2, Numbered(b"q", 0, 0)), "beyond the appends"),
        (NumberedRun(0, 0, Numbered(b"q", 0, 0)), "empty"),
        (NumberedRun(0, 1, Numbered(b"", 0, 0)), "producer: empty"),
        (NumberedRun(0, 1, Numbered(b"q", 0, (1 << 64) - 2)), "out of range"),
    ],
)
def test_a_run_of_rows_that_cannot_be_is_refused(run: NumberedRun, says: str) -> None:
    appends = columns([b"x"], [(0, make_id(n, 0), b"") for n in range(4)])
    appends.idempotent = {2: IdempotentId(b"p", b"1")}
    appends.numbered = [run]
    batch = EffectBatch(Region(1), 1, 4, {}, Millis(0), appends, [])
    with pytest.raises(BatchError, match=says):
        decode_batch(encode_batch(batch))
