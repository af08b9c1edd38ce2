"""Messages of a link are checked before the core sees them."""

import asyncio
import tracemalloc
from array import array

import pytest
from backports.zstd import CompressionParameter, compress
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import AppendColumns, EffectBatch
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.wire.codec import encode_batch
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.messages import Batches, Received
from crdtstream.replication.appends import FEED_BYTES
from crdtstream.replication.puller import ASIDE_BYTES, decoded
from crdtstream.replication.wire import (
    BATCHES_MAX,
    COUNTED_BYTES,
    SAID_BYTES_MAX,
    BatchPacker,
    BatchUnpacker,
    checked_batch,
    decode_open,
    encode_response,
)
from crdtstream.v1 import effects_pb2, replication_pb2
from tests.harness.messages import BatchFields

R1, R2 = RegionId(1), RegionId(2)
GOOD = encode_fields([b"field", b"value"])
# Enough that whatever stands beside it is looked at, however short.
LONG = encode_fields([b"field", b"value" * 8])


def batch_of(*fields: bytes, lengths: list[int] | None = None) -> bytes:
    count = len(lengths or fields)
    return encode_batch(
        EffectBatch(
            origin=R2,
            first_n=1,
            count=count,
            context={},
            issued_ms=Millis(1),
            appends=AppendColumns(
                [b"key"],
                array("I", [0] * count),
                array("Q", range(1, count + 1)),
                array("Q", [2] * count),
                array("I", lengths or map(len, fields)),
                b"".join(fields),
            ),
            others=[],
        )
    )


def test_a_good_batch_passes() -> None:
    batch = checked_batch(R2, batch_of(GOOD, GOOD))
    assert (batch.origin, batch.count) == (R2, 2)


@given(st.lists(st.lists(st.binary(), min_size=2, max_size=8), min_size=1, max_size=5))
def test_every_batch_of_xadds_passes(entries: list[list[bytes]]) -> None:
    fields = [encode_fields(entry[: len(entry) // 2 * 2]) for entry in entries]
    assert checked_batch(R2, batch_of(*fields)).count == len(fields)


@pytest.mark.parametrize(
    "fields",
    [
        b"",
        b"*0\r\n",
        b"*1\r\n$1\r\na\r\n",
        b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
        b"*2\r\n$1\r\na\r\n",
        b"*2\r\n+a\r\n+b\r\n",
        b"*2\r\n:1\r\n:2\r\n",
        b"*2\r\n$-1\r\n$-1\r\n",
        b"*2\r\n$01\r\na\r\n$1\r\nb\r\n",
        b"*2\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n",
        b"%1\r\n$1\r\na\r\n$1\r\nb\r\n",
        b"-ERR no\r\n",
        b"$1\r\na\r\n",
        b"nonsense",
        GOOD + b"\r\n",
        GOOD + GOOD,
        GOOD[:-1],
        b"*-1\r\n",
        b"*2\r\n$99999999999\r\na\r\n$1\r\nb\r\n",
        b"*2\r\n$1\r\na\r\n#t\r\n",
    ],
)
@pytest.mark.parametrize("place", ["between", "first", "last"])
def test_fields_that_are_no_even_array_of_bulk_strings_are_refused(
    fields: bytes, place: str
) -> None:
    appends = [GOOD, LONG]
    wrong = ["first", "between", "last"].index(place)
    appends.insert(wrong, fields)
    with pytest.raises(PeerError, match=f"region 2: batch 2:1: fields: append {wrong} is not"):
        checked_batch(R2, batch_of(*appends))


def test_lengths_that_cut_between_appends_are_refused() -> None:
    size = len(GOOD)
    data = batch_of(GOOD, GOOD, lengths=[size - 1, size + 1])
    with pytest.raises(PeerError, match="append 0"):
        checked_batch(R2, data)


def test_a_wrong_append_is_found_in_whichever_slice_it_stands() -> None:
    large = b"*2\r\n$1\r\na\r\n$%d\r\n%b\r\n" % (FEED_BYTES.value, b"x" * FEED_BYTES.value)
    appends = [large, *[GOOD] * 2000, large, GOOD, large]
    checked_batch(R2, batch_of(*appends))
    for wrong in (0, 1, 700, 1999, 2000, 2001, 2002, 2003):
        spoilt = [*appends]
        spoilt[wrong] = spoilt[wrong][:-2] + b"\n\n"
        with pytest.raises(PeerError, match=f"append {wrong} is not"):
            checked_batch(R2, batch_of(*spoilt))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"origin": 0}, "origin: region 0"),
        ({"origin": 1024}, "origin: region 1024"),
        ({"first_n": 0}, "first_n: 0 is out of range"),
        ({"first_n": (1 << 64) - 1}, "first_n"),
        ({"count": 0}, "count: 0"),
        ({"count": 2}, "fields: too few bytes for 2 appends"),
        ({"fields": b""}, "fields: too few bytes for 1 append"),
        ({"columns": b""}, "columns: none"),
        ({"keys": []}, "keys: appends without a key"),
        ({"fields": LONG}, "fields: its size"),
        ({"context": effects_pb2.VersionVector(regions=[1], counts=[])}, "version vector"),
        ({"context": effects_pb2.VersionVector(regions=[2], counts=[5])}, "context: names"),
    ],
)
def test_numbers_that_cannot_be_are_refused(change: BatchFields, reason: str) -> None:
    message = effects_pb2.EffectBatch.FromString(batch_of(GOOD))
    for name in change:
        message.ClearField(name)
    message.MergeFrom(effects_pb2.EffectBatch(**change))
    with pytest.raises(PeerError, match=reason):
        checked_batch(R2, message.SerializeToString())


def test_bytes_that_are_no_batch_are_refused() -> None:
    with pytest.raises(PeerError, match="region 2: batch of 7 bytes: batch: no protobuf"):
        checked_batch(R2, b"\xff" * 7)


def test_batches_survive_packing() -> None:
    batches = [b"one", b"", b"three" * 1000]
    assert BatchUnpacker(R1, bytes_max=1 << 20).unpack(BatchPacker().pack(batches)) == batches


def test_a_frame_that_unpacks_to_too_much_is_refused_before_it_is_unpacked() -> None:
    packed = BatchPacker().pack([bytes(10_000_000)])
    assert len(packed) < 10_000
    with pytest.raises(PeerError, match=r"a frame of 100000.. bytes is not within 1048576"):
        BatchUnpacker(R1, bytes_max=1 << 20).unpack(packed)


def test_a_list_of_very_many_batches_is_refused_before_each_takes_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Empty ones take two bytes there, and forty here."""
    monkeypatch.setattr(BATCHES_MAX, "value", 1 << 17)
    monkeypatch.setattr(COUNTED_BYTES, "value", 0)
    unpacker = BatchUnpacker(R1, bytes_max=1 << 30)
    packed = compress(b"\x0a\0" * (BATCHES_MAX.value + 1))
    tracemalloc.start()
    try:
        with pytest.raises(PeerError, match=r"batches\.zstd: more than 131072 batches"):
            unpacker.unpack(packed)
        # Two bytes of content each, and the pieces of it that the library joins.
        assert tracemalloc.get_traced_memory()[1] < 5 * BATCHES_MAX.value
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("counted", [0, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 1 << 14, 1 << 21])
def test_lists_that_are_counted_are_read_as_others(
    monkeypatch: pytest.MonkeyPatch, size: int, counted: int
) -> None:
    monkeypatch.setattr(COUNTED_BYTES, "value", counted)
    batches = [bytes(size), b"x", bytes(size)]
    assert BatchUnpacker(R1, bytes_max=1 << 30).unpack(BatchPacker().pack(batches)) == batches


@pytest.mark.parametrize("content", [b"\x12\1x", b"\x0a" + b"\xff" * 11, b"\x0a", b"\x0a\5x"])
def test_counted_bytes_that_are_no_list_are_refused(
    monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(COUNTED_BYTES, "value", 0)
    with pytest.raises(PeerError, match=r"batches\.zstd: "):
        BatchUnpacker(R1, bytes_max=1 << 20).unpack(compress(content))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"no frame",
        BatchPacker().pack([b"x" * 100])[:-3],
        compress(b"size unknown", options={CompressionParameter.content_size_flag: 0}),
        compress(b"\xff\xff no list"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(packed: bytes) -> None:
    with pytest.raises(PeerError, match=r"region 1: batches\.zstd"):
        BatchUnpacker(R1, bytes_max=1 << 20).unpack(packed)


@pytest.mark.parametrize("field", ["membership", "incarnations", "histories"])
def test_words_of_an_open_are_bounded(field: str) -> None:
    """Everybody who reaches the port may send one."""
    opening = replication_pb2.Open(region=R2, protocol=0)
    setattr(opening, field, b"x" * SAID_BYTES_MAX)
    assert decode_open(opening).region == R2
    setattr(opening, field, b"x" * (SAID_BYTES_MAX + 1))
    with pytest.raises(PeerError, match=f"{field}: 1048577 bytes are not within 1048576"):
        decode_open(opening)


@pytest.mark.parametrize(("size", "is_beside"), [(100, False), (ASIDE_BYTES.value, True)])
async def test_a_large_message_is_decoded_beside_the_event_loop(size: int, is_beside: bool) -> None:
    encoded = batch_of(encode_fields([b"field", b"v" * size]))
    message = encode_response(Batches([encoded]), BatchPacker())
    unpacker = BatchUnpacker(R1, bytes_max=1 << 30)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await asyncio.sleep(0)
    before = turns
    received = await decoded(R2, message, unpacker)
    assert (turns > before) is is_beside
    counting.cancel()
    assert isinstance(received, Received)
    assert [one for _, one in received.batches] == [encoded]


async def test_a_message_that_is_no_frame_is_refused_whatever_it_claims() -> None:
    message = replication_pb2.SyncResponse(batches=replication_pb2.Batches(zstd=b"no frame"))
    with pytest.raises(PeerError, match="zstd"):
        await decoded(R2, message, BatchUnpacker(R1, bytes_max=1 << 30))
