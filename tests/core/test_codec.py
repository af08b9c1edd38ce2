"""Batches and local changes survive their encoding; other bytes are refused with the field."""

import random
import tracemalloc
from array import array
from typing import Any, Final, Unpack

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crdtstream.core.effects import (
    Ack,
    AckFrontier,
    CreateConsumer,
    DeleteKey,
    DeleteString,
    Deliver,
    EffectBatch,
    IdempotentId,
    LocalChange,
    Numbered,
    NumberedRun,
    RareEffect,
)
from crdtstream.core.fields import FIELDS_BYTES_MIN
from crdtstream.core.ids import U64_MAX, Millis, RegionId, make_id
from crdtstream.core.wire.codec import (
    BatchError,
    decode_batch,
    encode_batch,
    pack,
)
from crdtstream.core.wire.local_codec import Local, decode_local, encode_local
from crdtstream.v1 import effects_pb2 as pb
from crdtstream.v1 import local_pb2
from tests.core.earlier_batches import EARLIER_BATCHES
from tests.core.every_kind import columns
from tests.core.strategies import CHANGES, EFFECTS, IDEMPOTENT, IDS, MS, NAMES
from tests.harness.messages import BatchFields

OTHERS = st.one_of(*EFFECTS.values())
LOCAL = st.one_of(*CHANGES.values())
BY_HAND = st.one_of(CHANGES[Deliver], CHANGES[Ack], CHANGES[CreateConsumer], LOCAL)


@st.composite
def batches(draw: st.DrawFn) -> EffectBatch:
    """A batch of region 1: appends with names and without, and other effects between them."""
    others = draw(st.lists(OTHERS, max_size=4))
    appends = draw(
        st.lists(
            st.tuples(st.integers(0, 1), IDS, st.binary(min_size=FIELDS_BYTES_MIN, max_size=20)),
            min_size=0 if others else 1,
            max_size=6,
        )
    )
    count = len(appends) + len(others)
    offsets = draw(st.permutations(range(count)).map(lambda order: sorted(order[: len(others)])))
    filled = columns([b"a", b"b"], appends)
    named = (
        st.dictionaries(st.integers(0, len(appends) - 1), IDEMPOTENT) if appends else st.just({})
    )
    filled.idempotent = dict(sorted(draw(named).items()))
    filled.numbered = [
        NumberedRun(at, 1, Numbered(b"q" + draw(NAMES), draw(st.integers(0, 9)), 7 * at))
        for at in range(len(appends))
        if at not in filled.idempotent and draw(st.booleans())
    ]
    context = draw(st.dictionaries(st.integers(2, 9).map(RegionId), st.integers(1, 99), max_size=3))
    placed = list(zip(offsets, others, strict=True))
    return EffectBatch(RegionId(1), 7, count, context, Millis(5), filled, placed)


@given(batches())
def test_batches_survive(batch: EffectBatch) -> None:
    assert decode_batch(encode_batch(batch)) == batch


@given(
    st.builds(Local, st.lists(st.tuples(st.integers(0, 99), LOCAL), max_size=4), MS, st.lists(MS))
)
def test_local_changes_survive(local: Local) -> None:
    assert decode_local(encode_local(local)) == local


FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def message(**changes: Unpack[BatchFields]) -> pb.EffectBatch:
    """One good batch of one append, with some fields replaced."""
    good: BatchFields = {
        "origin": 1,
        "first_n": 1,
        "count": 1,
        "columns": column(0) + column(1) + column(len(FIELDS)),
        "keys": [b"x"],
        "fields": FIELDS,
    }
    return pb.EffectBatch(**(good | changes))


def delete_x() -> pb.Effect:
    return pb.Effect(delete_key=pb.DeleteKey(key=b"x"))


def column(number: int) -> bytes:
    """One column of one small number."""
    return b"\1" + number.to_bytes(1, "little")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"origin": 0}, "origin"),
        ({"origin": 1024}, "origin"),
        ({"count": 0}, "count"),
        ({"count": 2}, "fields: too few"),
        ({"count": 1 << 31}, "count"),
        ({"first_n": 0}, "first_n"),
        ({"first_n": (1 << 64) - 1}, "first_n"),
        ({"columns": b""}, "columns: none"),
        ({"columns": column(0) + column(1)}, "columns: they end too early"),
        ({"columns": column(0) + column(1) + b"\5" + bytes(5)}, "columns: no head"),
        ({"columns": column(0) + column(1) + b"\x20"}, "columns: no head"),
        ({"columns": column(0) + column(1) + column(21) + b"\0"}, "columns: 1 bytes too many"),
        ({"columns": column(0) + column(1) + column(20)}, "fields: its size"),
        ({"keys": []}, "keys"),
        ({"keys": [b"x", b"y"]}, "columns: they end too early"),
        (
            {"keys": [b"x", b"y"], "columns": b"".join(map(column, (0, 1, 21, 7)))},
            "key_index",
        ),
        ({"fields": b""}, "fields: too few"),
        ({"fields": FIELDS + b"."}, "fields: its size"),
        ({"context": pb.VersionVector(regions=[1], counts=[1])}, "context"),
        ({"context": pb.VersionVector(regions=[2, 3], counts=[1])}, "version vector"),
        ({"context": pb.VersionVector(regions=[2, 2], counts=[1, 1])}, "version vector"),
        ({"count": 2, "others": [pb.Effect(offset=5)]}, "others.offset"),
        ({"count": 2, "others": [pb.Effect(offset=1)]}, "others.kind"),
        ({"count": 1, "others": [pb.Effect(offset=1)]}, "columns: 6 bytes too many"),
        ({"count": 1, "others": [pb.Effect(), pb.Effect(offset=1)]}, "columns: 6 bytes too many"),
    ],
)
def test_a_bad_batch_is_refused_with_the_field(changes: BatchFields, field: str) -> None:
    assert decode_batch(message().SerializeToString()).count == 1
    with pytest.raises(BatchError, match=field):
        decode_batch(message(**changes).SerializeToString())


EARLIER_FIELDS: Final = {
    "columns": "columns: none, as in batches from before log format 1",
    "intervals of a frontier": "ack_frontier.intervals: an interval that is empty",
    "intervals of a handover": "set_group_mode.handover.handed_out: a stretch that is empty",
}


@pytest.mark.parametrize("name", EARLIER_BATCHES)
def test_a_batch_in_an_earlier_form_is_refused_and_not_misread(name: str) -> None:
    with pytest.raises(BatchError, match=EARLIER_FIELDS[name]):
        decode_batch(bytes.fromhex(EARLIER_BATCHES[name]))


@pytest.mark.parametrize(
    "changes",
    [
        {"issued_after_ms": -1},
        {"issued_after_ms": 1 << 31},
        {"issued_after_ms": 1, "columns": b"\x08" + 8 * b"\xff" + column(1) + column(len(FIELDS))},
        {"issued_after_ms": -(1 << 40)},
        {"issued_after_ms": 1, "columns": b"", "fields": b"", "others": [delete_x()]},
    ],
)
def test_a_time_of_issue_that_cannot_be_is_refused(changes: BatchFields) -> None:
    with pytest.raises(BatchError, match="issued_after_ms"):
        decode_batch(message(**changes).SerializeToString())


def test_when_a_batch_was_issued_is_told_by_its_first_id_if_that_is_near() -> None:
    appends = columns([b"x"], [(0, make_id(1_790_000_000_000, 1), FIELDS)])
    batch = EffectBatch(RegionId(1), 1, 1, {}, Millis(1_790_000_000_003), appends, [])
    written = pb.EffectBatch.FromString(encode_batch(batch))
    assert (written.issued_after_ms, written.issued_ms) == (3, 0)


def test_a_producer_that_is_not_named_is_refused() -> None:
    appends = columns([b"x"], [(0, make_id(1, 1), FIELDS)])
    appends.idempotent = {0: IdempotentId(b"p", b"1")}
    batch = EffectBatch(RegionId(1), 1, 1, {}, Millis(0), appends, [])
    written = pb.EffectBatch.FromString(encode_batch(batch))
    del written.producers[:]
    with pytest.raises(BatchError, match="idempotent_producer_index: beyond the producers"):
        decode_batch(written.SerializeToString())


@pytest.mark.parametrize("issued_ms", [0, 1, 1000, (1 << 31) - 1, 1 << 31, U64_MAX])
@pytest.mark.parametrize("ms", [0, 999, 1 << 31, U64_MAX])
def test_when_a_batch_was_issued_survives_however_far_from_its_ids(issued_ms: int, ms: int) -> None:
    appends = columns([b"x"], [(0, make_id(ms, 1), FIELDS)])
    batch = EffectBatch(RegionId(1), 1, 1, {}, Millis(issued_ms), appends, [])
    assert decode_batch(encode_batch(batch)) == batch


def test_few_bytes_do_not_claim_much_memory() -> None:
    """Columns of equal numbers are a few bytes, however many numbers they are said to have."""
    data = message(count=1 << 24).SerializeToString()
    tracemalloc.start()
    try:
        with pytest.raises(BatchError, match="fields: too few bytes for 16777216 appends"):
            decode_batch(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def one(effect: pb.Effect) -> bytes:
    """A batch of one effect and no append."""
    batch = pb.EffectBatch(origin=1, first_n=1, count=1, others=[effect])
    return batch.SerializeToString()


def acknowledged(interval: pb.LaneInterval) -> pb.Effect:
    return pb.Effect(ack_frontier=pb.AckFrontier(key=b"x", group=b"g", intervals=[interval]))


def taking(*takes: pb.Taken) -> pb.Effect:
    return pb.Effect(delete_string=pb.DeleteString(key=b"x", takes=takes))


def adding(**fields: Any) -> pb.Effect:
    return pb.Effect(add_to_string=pb.AddToString(key=b"x", by=1, **fields))


def lane_ids(*ms: int) -> pb.LaneIds:
    return pb.LaneIds(lane=1, ms=pack(array("Q", ms)), seq=pack(array("Q", [0] * len(ms))))


@pytest.mark.parametrize(
    ("effect", "field"),
    [
        (pb.Effect(remove=pb.Remove(key=b"x")), "remove.lanes"),
        (pb.Effect(remove=pb.Remove(key=b"x", lanes=[lane_ids()])), "remove.lanes"),
        (pb.Effect(remove=pb.Remove(key=b"x", lanes=[lane_ids(2, 1)])), "remove.lanes"),
        (pb.Effect(remove=pb.Remove(key=b"x", lanes=[lane_ids(1, 1)])), "remove.lanes"),
        (pb.Effect(trim=pb.Trim(key=b"x")), "trim.up_to"),
        (pb.Effect(ack_frontier=pb.AckFrontier(key=b"x", group=b"g")), "ack_frontier"),
        (acknowledged(pb.LaneInterval(lane=1, from_ms=7)), "empty or ends too early"),
        (acknowledged(pb.LaneInterval(lane=1, from_ms=7, from_seq=2, to_seq=1)), "ends too early"),
        (acknowledged(pb.LaneInterval(lane=1, from_ms=U64_MAX, ms_on=1)), "behind the last ID"),
        (acknowledged(pb.LaneInterval(lane=0, ms_on=1)), "region 0"),
        (pb.Effect(set_stream_config=pb.SetStreamConfig(idmp_duration_s=0)), "idmp_duration_s"),
        (pb.Effect(set_stream_config=pb.SetStreamConfig(idmp_maxsize=0)), "idmp_maxsize"),
        (pb.Effect(set_group_mode=pb.SetGroupMode(epoch=0)), "epoch"),
        (pb.Effect(set_group_mode=pb.SetGroupMode(epoch=1, mode="HOME")), "home"),
        (taking(pb.Taken(region=0, n=1)), "takes.region"),
        (taking(pb.Taken(region=1, n=0)), "takes.n"),
        (taking(pb.Taken(region=1, n=1, total=bytes(16))), "takes.total"),
        (taking(pb.Taken(region=1, n=1, total=b"\1\0")), "takes.total"),
        (taking(pb.Taken(region=2, n=1), pb.Taken(region=1, n=1)), "do not ascend"),
        (adding(base_region=1), "add_to_string.base_n"),
        (adding(base_n=1), "add_to_string.base_region"),
        (adding(after_n=1 << 63), "add_to_string.after_n"),
        (adding(before=b"\1"), "something before the first"),
        (adding(after_n=1, before=b"\0"), "add_to_string.before"),
    ],
)
def test_an_effect_that_breaks_its_promises_is_refused_with_its_field(
    effect: pb.Effect, field: str
) -> None:
    with pytest.raises(BatchError, match=field):
        decode_batch(one(effect))


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
    appends = columns([b"x"], [(0, make_id(n, 0), FIELDS) for n in range(4)])
    appends.idempotent = {2: IdempotentId(b"p", b"1")}
    appends.numbered = [run]
    batch = EffectBatch(RegionId(1), 1, 4, {}, Millis(0), appends, [])
    with pytest.raises(BatchError, match=says):
        decode_batch(encode_batch(batch))


@given(batches())
def test_a_batch_is_written_as_protobuf_writes_it(batch: EffectBatch) -> None:
    data = encode_batch(batch)
    assert pb.EffectBatch.FromString(data).SerializeToString(deterministic=True) == data


@given(
    batches().filter(lambda batch: not batch.appends.numbered),
    st.lists(EFFECTS[AckFrontier], max_size=2),
    st.integers(0, U64_MAX >> 1),
)
def test_appends_and_acknowledgements_are_written_as_protobuf_writes_them(
    batch: EffectBatch, acknowledged: list[RareEffect], issued_ms: int
) -> None:
    batch.appends.idempotent = {}
    batch.others = [(len(batch.appends.ms) + at, one) for at, one in enumerate(acknowledged)]
    batch.count = len(batch.appends.ms) + len(batch.others)
    batch.issued_ms = Millis(issued_ms)
    assume(batch.count)
    data = encode_batch(batch)
    assert pb.EffectBatch.FromString(data).SerializeToString(deterministic=True) == data
    assert decode_batch(data) == batch


@given(st.lists(st.tuples(st.integers(0, 300), BY_HAND), max_size=3), st.integers(0, 1 << 48))
def test_local_changes_are_written_as_protobuf_writes_them(
    changes: list[tuple[int, LocalChange]], arrived: int
) -> None:
    local = Local(changes, Millis(arrived), [])
    data = encode_local(local)
    assert decode_local(data) == local
    again = local_pb2.LocalChanges.FromString(data).SerializeToString(deterministic=True)
    assert again == data


@pytest.mark.parametrize("noack", [False, True])
def test_a_delivery_survives(noack: bool) -> None:
    ids = {RegionId(1): (make_id(5, 1),), RegionId(2): (make_id(5, 2), make_id(6, 0))}
    delivered = Deliver(b"s", b"g", b"c", Millis(7), ids, noack)
    assert decode_local(encode_local(Local([(3, delivered)]))).changes == [(3, delivered)]


@pytest.mark.parametrize("count", [1, 63, 300])
def test_deletes_are_written_as_protobuf_writes_them(count: int) -> None:
    draw = random.Random(count)
    kinds = (DeleteKey, DeleteString)
    others: list[tuple[int, RareEffect]] = [
        (at, draw.choice(kinds)(bytes(draw.choice((0, 3, 126, 127, 200, 20_000)))))
        for at in range(count)
    ]
    batch = EffectBatch(
        origin=RegionId(7),
        first_n=9,
        count=count,
        context={RegionId(1): 300},
        issued_ms=Millis(1_700_000_000_000),
        appends=columns([], []),
        others=others,
    )
    data = encode_batch(batch)
    again = pb.EffectBatch.FromString(data).SerializeToString(deterministic=True)
    assert again == data
    assert decode_batch(data).others == others
