"""DUMP and RESTORE: streams as bytes; what is not such bytes changes nothing."""

import zlib
from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.keys import copying, dumping
from crdtstream.commands.keys.copying import Contents, Entry
from crdtstream.commands.keys.dumping import HASH_BYTES, MAGIC, decode_dump, encode_dump, frame
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.core.effects import IdempotentId, SetStreamConfig
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import ID_MAX, Millis, RegionId, StreamId, make_id
from crdtstream.core.wire.codec import decode_batch
from crdtstream.core.wire.columns import ColumnsReader, write_columns
from crdtstream.database.database import Database, Waiting
from crdtstream.replication.wire import checked_batch
from crdtstream.v1 import effects_pb2 as pb
from tests.harness.regions import Node, sync
from tests.harness.replies import dict_of

FIELDS = encode_fields([b"f", b"v"])
# Enough that whatever stands beside it is looked at, however short.
LONG = encode_fields([b"f", b"v" * 20])
ONCE = IdempotentId(b"p", b"1")


def call(node: Node, *argv: bytes) -> Reply:
    """A command whose arguments are any bytes."""
    database = Database(node.replica)
    reply = database.call(database.open_session(), Millis(node.now), list(argv))
    assert not isinstance(reply, Waiting)
    return reply


def facts(node: Node, key: str) -> dict[str, object]:
    return dict_of(object, node(f"XINFO STREAM {key}"))


def payload_of(node: Node, key: bytes = b"x") -> bytes:
    payload = call(node, b"DUMP", key)
    assert isinstance(payload, bytes)
    return payload


def refusal(node: Node, payload: bytes, *options: bytes) -> str:
    """RESTORE's error; that nothing has changed is certain then."""
    before = node.digest
    reply = call(node, b"RESTORE", b"new", b"0", payload, *options)
    assert isinstance(reply, CommandError), reply
    assert not node.replica.has_open_record
    assert node.digest == before
    return reply.text


def filled() -> Node:
    node = Node(1)
    node.run("XADD x 1-1 f one", "XADD x 5-2 f two g three", "XADD x 9-3 f four", "XDEL x 5-2")
    node.run("XSETID x 20-0 ENTRIESADDED 7 MAXDELETEDID 6-0", "XGROUP CREATE x g 0", "EXPIRE x 100")
    node.replica.append(b"x", make_id(30, 1), FIELDS, ONCE)
    node.replica.issue(SetStreamConfig(b"x", 300, None))
    node.end_tick()
    return node


# --- Round trips -------------------------------------------------------------------------------


def test_a_stream_comes_back_as_it_was_without_groups_and_deadline() -> None:
    there, here = filled(), Node(2)
    assert call(here, b"RESTORE", b"y", b"0", payload_of(there)) is OK
    here.end_tick()
    for fact in ("length", "last-generated-id", "max-deleted-entry-id", "entries-added"):
        assert facts(here, "y")[fact] == facts(there, "x")[fact]
    assert call(here, b"XRANGE", b"y", b"-", b"+") == call(there, b"XRANGE", b"x", b"-", b"+")
    assert here("XINFO GROUPS y") == []
    assert here("TTL y") == -1
    assert here.replica.keys.idmp_settings_of(b"y") == (300, None)
    assert here.replica.find_idempotent(b"y", ONCE) is not None
    # In this region's lane.
    stream = here.replica.stream(b"y")
    assert stream is not None
    assert list(stream.lanes) == [2]


def test_equal_contents_make_equal_payloads_in_every_region() -> None:
    r1, r2 = filled(), Node(2)
    sync(r1, r2)
    before = payload_of(r1)
    assert before == payload_of(r2)
    r2.run("XADD x 40-1 f v")
    sync(r1, r2)
    assert before != payload_of(r1) == payload_of(r2)


def test_entries_of_all_lanes_are_in_it_one_of_each_id() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 1-1 f one", "XADD x 3-1 f one")
    r2.run("XADD x 2-1 f two", "XADD x 3-1 f two")
    sync(r1, r2)
    call(r3, b"RESTORE", b"x", b"0", payload_of(r2))
    assert r3("XRANGE x - +") == ["1-1", "2-1", "3-1"]


def test_restore_reaches_the_other_regions_as_one_batch() -> None:
    r1, r2 = Node(1), Node(2)
    call(r1, b"RESTORE", b"x", b"5000", payload_of(filled()))
    r1.end_tick()
    (record,) = r1.log
    assert record.batch is not None
    sync(r1, r2)
    assert r2("XRANGE x - +") == ["1-1", "9-3", "30-1"]
    assert r2("PTTL x") == 5000


def test_restore_in_two_regions_doubles_entries_but_not_those_with_an_idempotent_id() -> None:
    payload = payload_of(filled())
    r1, r2 = Node(1), Node(2)
    for node in (r1, r2):
        call(node, b"RESTORE", b"x", b"0", payload)
    sync(r1, r2)
    assert r1("XRANGE x - +") == r2("XRANGE x - +") == ["1-1", "1-1", "9-3", "9-3", "30-1"]


@pytest.mark.parametrize("key", ["empty", "grouped"])
def test_a_stream_without_entries_comes_back(key: str) -> None:
    there, here = Node(1), Node(1)
    there.run("XADD empty 7-1 f v", "XDEL empty 7-1", "XGROUP CREATE grouped g $ MKSTREAM")
    assert call(here, b"RESTORE", b"x", b"0", payload_of(there, key.encode())) is OK
    assert here("EXISTS x") == 1
    last_id = "7-1" if key == "empty" else "0-0"
    assert facts(here, "x")["last-generated-id"] == last_id


def test_numbers_of_neighbours_take_little_room() -> None:
    node = Node(1)
    for ms in range(1000):
        node.run(f"XADD x {1_700_000_000_000 + ms}-1 temperature 20")
    assert len(payload_of(node)) < 10_000


IDS = st.integers(1, ID_MAX).map(StreamId)
NAMES = st.binary(min_size=1, max_size=5)


@st.composite
def contents(draw: st.DrawFn) -> Contents:
    ids = sorted(draw(st.sets(st.one_of(IDS, st.integers(1, 300).map(StreamId)), max_size=20)))
    arguments = st.lists(st.binary(max_size=20), min_size=2, max_size=6).map(
        lambda drawn: drawn[: len(drawn) // 2 * 2]
    )
    entries = [
        Entry(
            entry_id,
            encode_fields(draw(arguments)),
            draw(st.none() | st.builds(IdempotentId, NAMES, NAMES)),
        )
        for entry_id in ids
    ]
    low = ids[-1] if ids else StreamId(0)
    last_id = draw(st.integers(low, min(ID_MAX, low + (1 << 70))))
    return Contents(
        entries=entries,
        last_id=StreamId(last_id),
        entries_added=len(ids) + draw(st.integers(0, 1 << 40)),
        max_deleted_id=StreamId(draw(st.integers(0, last_id))),
        idmp_duration_s=draw(st.none() | st.integers(1, 86_400)),
        idmp_maxsize=draw(st.none() | st.integers(1, 10_000)),
    )


@given(contents())
def test_any_contents_come_back_through_a_region(given_contents: Contents) -> None:
    payload = encode_dump(given_contents)
    assert decode_dump(payload) == given_contents
    r1, r2 = Node(1), Node(2)
    assert call(r1, b"RESTORE", b"x", b"0", payload) is OK
    assert payload_of(r1) == payload
    sync(r1, r2)
    assert payload_of(r2) == payload


# --- What is no payload ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "tells"),
    [
        (b"", "not made by the DUMP of crdtstream"),
        (b"abc", "not made by the DUMP of crdtstream"),
        # A string's payload from a real server.
        (b"\x00\x03bar\x0b\x00\x9d\xaf\x8d\x8c\xd4\x05\xdf\x8a", "not made by the DUMP"),
        (MAGIC, "a version that this node does not read"),
        (MAGIC + b"\x03" + bytes(40), "a version that this node does not read"),
        (MAGIC + b"\x01", "a version that this node does not read"),
        (MAGIC + b"\x01" + bytes(40), "a version that this node does not read"),
        (MAGIC + b"\x02", "was cut or changed"),
        (MAGIC + b"\x02" + bytes(40), "was cut or changed"),
    ],
)
def test_a_foreign_payload_is_refused_in_words_that_help(payload: bytes, tells: str) -> None:
    text = refusal(filled(), payload)
    assert text.startswith("ERR DUMP payload version or checksum are wrong: ")
    assert tells in text


def test_a_whole_payload_of_version_1_is_refused_for_its_version() -> None:
    node = filled()
    head = MAGIC + b"\x01" + payload_of(node)[len(MAGIC) + 1 : -HASH_BYTES]
    text = refusal(node, head + dumping._hash(head))
    assert text.startswith("ERR DUMP payload version or checksum are wrong: a version")


@given(data=st.data())
def test_a_changed_payload_is_refused(data: st.DataObject) -> None:
    node = filled()
    payload = bytearray(payload_of(node))
    how = data.draw(st.sampled_from(["flip", "cut", "insert"]))
    at = data.draw(st.integers(0, len(payload) - 1))
    if how == "flip":
        payload[at] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del payload[at : at + data.draw(st.integers(1, 20))]
    else:
        payload[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    text = refusal(node, bytes(payload))
    assert text.startswith("ERR DUMP payload version or checksum are wrong: ")


def unframed(payload: bytes) -> pb.EffectBatch:
    return pb.EffectBatch.FromString(zlib.decompress(payload[len(MAGIC) + 1 : -HASH_BYTES]))


def columns_of(batch: pb.EffectBatch) -> "list[array[int]]":
    """Of ``filled``: ms, seq, lengths; and of the one idempotent id its entry and its producer."""
    reader = ColumnsReader(batch.columns)
    columns = [reader.take(typecode, 3) for typecode in "QQI"]
    columns += [reader.take("I", 1), reader.take("I", 1)]
    reader.check_end()
    return columns


def put_columns(batch: pb.EffectBatch, columns: "list[array[int]]") -> None:
    batch.columns = write_columns(columns)
    # Not by its distance from an ID, which may be another one now.
    batch.issued_ms = 0


def swap_ids(batch: pb.EffectBatch) -> None:
    ms, *others = columns_of(batch)
    ms[0], ms[1] = ms[1], ms[0]
    put_columns(batch, [ms, *others])


def repeat_an_id(batch: pb.EffectBatch) -> None:
    ms, seq, *others = columns_of(batch)
    ms[1], seq[1] = ms[0], seq[0]
    put_columns(batch, [ms, seq, *others])


def begin_at_zero(batch: pb.EffectBatch) -> None:
    ms, seq, *others = columns_of(batch)
    ms[0] = seq[0] = 0
    put_columns(batch, [ms, seq, *others])


def generate_less(batch: pb.EffectBatch) -> None:
    batch.others[-1].set_last_id.id.ms = 29


def delete_more(batch: pb.EffectBatch) -> None:
    batch.others[-1].set_last_id.max_deleted_id.ms = 31


def add_fewer(batch: pb.EffectBatch) -> None:
    batch.others[-1].set_last_id.entries_added = 2


def add_too_many(batch: pb.EffectBatch) -> None:
    batch.others[-1].set_last_id.entries_added = 1 << 63


def forget_the_last_id(batch: pb.EffectBatch) -> None:
    del batch.others[-1]
    batch.count -= 1


def configure_nothing(batch: pb.EffectBatch) -> None:
    batch.others[0].set_stream_config.idmp_duration_s = 0


def smuggle_a_delete(batch: pb.EffectBatch) -> None:
    batch.others[0].delete_key.key = b"other"


def configure_another_key(batch: pb.EffectBatch) -> None:
    batch.others[0].set_stream_config.key = b"other"


def end_another_key(batch: pb.EffectBatch) -> None:
    batch.others[-1].set_last_id.key = b"other"


def name_the_key(batch: pb.EffectBatch) -> None:
    batch.keys[0] = b"x"


def two_keys(batch: pb.EffectBatch) -> None:
    batch.keys.append(b"")
    columns = columns_of(batch)
    columns.insert(3, array("I", [0, 0, 0]))
    put_columns(batch, columns)


def nameless_producer(batch: pb.EffectBatch) -> None:
    batch.producers[0] = b""


def shorter_column(batch: pb.EffectBatch) -> None:
    ms, seq, *others = columns_of(batch)
    put_columns(batch, [ms, seq[1:], *others])


def unknown_effect(batch: pb.EffectBatch) -> None:
    batch.others[0].ClearField("kind")


def fields_of(*entries: bytes) -> Callable[[pb.EffectBatch], None]:
    def change(batch: pb.EffectBatch) -> None:
        batch.fields = b"".join(entries)
        ms, seq, _, *others = columns_of(batch)
        put_columns(batch, [ms, seq, array("I", map(len, entries)), *others])

    return change


CHANGES: dict[Callable[[pb.EffectBatch], None], str] = {
    swap_ids: "IDs do not ascend",
    repeat_an_id: "IDs do not ascend",
    begin_at_zero: "IDs do not ascend",
    generate_less: "the last-generated ID is below",
    delete_more: "the last-generated ID is below",
    add_fewer: "fewer entries added",
    add_too_many: "fewer entries added",
    forget_the_last_id: "no last-generated ID",
    configure_nothing: "set_stream_config",
    smuggle_a_delete: "effects that no stream",
    configure_another_key: "effects that no stream",
    end_another_key: "no last-generated ID",
    name_the_key: "entries of a named key",
    two_keys: "entries of a named key",
    nameless_producer: "an empty producer",
    shorter_column: "columns: ",
    unknown_effect: "others.kind",
}
BAD_FIELDS_TEXT = (
    "ERR Bad data format: the fields of an entry are no array of field and value strings"
)
BAD_FIELDS = [
    b"",
    b"*0\r\n",
    b"*1\r\n$1\r\nf\r\n",
    b"*3\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n",
    b"*2\r\n$1\r\nf\r\n",
    b"*2\r\n$1\r\nf\r\n:1\r\n",
    b"*2\r\n$1\r\nf\r\n$-1\r\n",
    b"*2\r\n$01\r\nf\r\n$1\r\nv\r\n",
    b"*+2\r\n$1\r\nf\r\n$1\r\nv\r\n",
    b"*2\r\n$1\r\nf\r\n$1\r\nvv\r\n",
    b"*2\r\n$1\r\nf\r\n$2\r\nv\r\n",
    b"*2\r\n$1\r\nf\r\n$1\r\nv\r",
    b"*2\r\n$1\r\nf\r\n$1\r\nv\r\nx",
    b"*2\n$1\nf\n$1\nv\n",
    b"*9999999998\r\n$1\r\nf\r\n$1\r\nv\r\n",
    b"+OK\r\n",
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_forged_payload_is_refused(change: Callable[[pb.EffectBatch], None]) -> None:
    node = filled()
    batch = unframed(payload_of(node))
    change(batch)
    text = refusal(node, frame(batch.SerializeToString()))
    assert text.startswith(f"ERR Bad data format: {CHANGES[change]}")


@pytest.mark.parametrize("bad", BAD_FIELDS, ids=repr)
@pytest.mark.parametrize("place", range(3))
def test_forged_fields_are_refused_wherever_they_stand(bad: bytes, place: int) -> None:
    node = filled()
    entries = [LONG] * 3
    batch = unframed(payload_of(node))
    fields_of(*entries)(batch)
    assert decode_dump(frame(batch.SerializeToString()))
    entries[place] = bad
    fields_of(*entries)(batch)
    assert refusal(node, frame(batch.SerializeToString())) == BAD_FIELDS_TEXT


def test_fields_that_run_over_into_the_next_entry_are_refused() -> None:
    node = filled()
    batch = unframed(payload_of(node))
    fields_of(FIELDS + FIELDS[:4], FIELDS[4:], FIELDS)(batch)
    assert refusal(node, frame(batch.SerializeToString())) == BAD_FIELDS_TEXT


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no zlib",
        zlib.compress(b"no batch"),
        zlib.compress(b"")[:-1],
        zlib.compress(pb.EffectBatch(origin=1, first_n=1, count=1).SerializeToString()) + b"more",
        zlib.compress(b""),
    ],
    ids=range(6),
)
def test_a_frame_around_something_else_is_refused(body: bytes) -> None:
    head = MAGIC + b"\x02" + body
    text = refusal(filled(), head + dumping._hash(head))
    assert text.startswith("ERR Bad data format: ")


@pytest.mark.pure
def test_a_payload_does_not_unfold_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumping.DUMP_BYTES_MAX, "value", 1 << 20)
    contents = Contents(
        [Entry(make_id(1, 1), encode_fields([b"f", bytes(2 << 20)]), None)],
        make_id(1, 1), 1, StreamId(0), None, None,
    )  # fmt: skip
    payload = encode_dump(contents)
    assert len(payload) < 20_000
    assert refusal(filled(), payload) == "ERR Bad data format: not one stream of at most 1 MiB"


@given(data=st.data())
def test_a_changed_frame_is_restored_whole_or_refused(data: st.DataObject) -> None:
    """A payload that passes is applied in other regions, too, whose checks are others."""
    node, other = filled(), Node(2)
    batch = bytearray(unframed(payload_of(node)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(batch) - 1))
        batch[at] = data.draw(st.sampled_from([0, 1, batch[at] ^ 1, batch[at] ^ 128, 255]))
    before = node.digest
    reply = call(node, b"RESTORE", b"new", b"0", frame(bytes(batch)))
    if isinstance(reply, CommandError):
        assert reply.text.startswith("ERR Bad data format: ")
        assert not node.replica.has_open_record
        assert node.digest == before
        return
    node.end_tick()
    encoded = node.log[-1].batch
    assert encoded is not None
    checked_batch(RegionId(1), encoded)
    assert decode_batch(encoded).count >= 1
    sync(node, other)
    assert payload_of(other, b"new") == payload_of(node, b"new")


# --- The command -------------------------------------------------------------------------------


def restore(node: Node, *argv: object) -> Reply:
    words = (one if isinstance(one, bytes) else str(one).encode() for one in argv)
    return call(node, b"RESTORE", *words)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("x", "bad", b"abc"), "BUSYKEY Target key name already exists."),
        (("x", 0, b"abc", "REPLACE", "FOO"), "ERR syntax error"),
        (("n", "bad", b"abc"), "ERR value is not an integer or out of range"),
        (("n", -1, b"abc"), "ERR Invalid TTL value, must be >= 0"),
        (("n", 0, b"abc", "IDLETIME"), "ERR syntax error"),
        (("n", 0, b"abc", "IDLETIME", -1), "ERR Invalid IDLETIME value, must be >= 0"),
        (("n", 0, b"abc", "IDLETIME", 1, "FREQ", 1), "ERR syntax error"),
        (("n", 0, b"abc", "FREQ", 1, "IDLETIME", 1), "ERR syntax error"),
        (("n", 0, b"abc", "FREQ", 256), "ERR Invalid FREQ value, must be >= 0 and <= 255"),
        (("n", 0, b"abc", "FREQ", "x"), "ERR value is not an integer or out of range"),
    ],
)
def test_wrong_arguments_of_restore(argv: tuple[object, ...], error: str) -> None:
    node = filled()
    reply = restore(node, *argv)
    assert isinstance(reply, CommandError)
    assert reply.text == error
    assert not node.replica.has_open_record


def test_restore_replaces_only_when_told() -> None:
    node = filled()
    payload = payload_of(node)
    node.run("XADD y 100-1 f v", "XGROUP CREATE y g 0", "EXPIRE y 100")
    reply = restore(node, "y", 0, payload)
    assert isinstance(reply, CommandError)
    assert reply.text == "BUSYKEY Target key name already exists."
    assert restore(node, "y", 0, payload, "replace", "IDLETIME", 5) is OK
    node.end_tick()
    assert node("XRANGE y - +") == ["1-1", "9-3", "30-1"]
    assert node("XINFO GROUPS y") == []
    assert node("TTL y") == -1


@pytest.mark.parametrize(
    ("ttl", "options", "deadline"),
    [(0, (), -1), (5000, (), 6000), (5000, ("ABSTTL",), 5000), (0, ("absttl",), -1)],
)
def test_restore_is_told_the_deadline(ttl: int, options: tuple[str, ...], deadline: int) -> None:
    node = filled()
    assert restore(node, "y", ttl, payload_of(node), *options) is OK
    assert node("PEXPIRETIME y") == deadline


def test_restore_with_a_deadline_in_the_past_leaves_no_key() -> None:
    node = filled()
    payload = payload_of(node)
    assert restore(node, "y", 1000, payload, "ABSTTL") is OK
    assert not node.replica.has_open_record
    assert restore(node, "x", 1000, payload, "ABSTTL", "REPLACE") is OK
    node.end_tick()
    assert node.replica.keys.known() == []


def test_a_deadline_beyond_64_bits_is_refused() -> None:
    node = filled()
    reply = restore(node, "y", (1 << 63) - 1, payload_of(node))
    assert isinstance(reply, CommandError)
    assert reply.text == "ERR invalid expire time in 'restore' command"
    assert not node.replica.has_open_record
    assert restore(node, "y", (1 << 63) - 1, payload_of(node), "ABSTTL") is OK


def test_restore_takes_the_place_of_an_expired_key() -> None:
    node = filled()
    payload = payload_of(node)
    node.now += 100_000
    assert node("EXISTS x") == 0
    assert restore(node, "x", 0, payload) is OK
    node.end_tick()
    assert node("TTL x") == -1
    assert node("XLEN x") == 3


def test_dump_of_a_missing_key_is_null() -> None:
    assert call(Node(1), b"DUMP", b"x") is None


@pytest.mark.pure
def test_too_large_a_stream_is_not_dumped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumping.DUMP_BYTES_MAX, "value", 1 << 20)
    node = Node(1)
    for ms in (b"1", b"2"):
        call(node, b"XADD", b"x", ms, b"f", bytes(600_000))
    reply = call(node, b"DUMP", b"x")
    assert isinstance(reply, CommandError)
    assert reply.text.startswith("ERR the stream holds more than 1 MiB, too much to dump at once")


@pytest.mark.pure
def test_restores_of_one_transaction_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying.COPY_BYTES_MAX, "value", 1 << 20)
    there, here = Node(1), Node(2)
    call(there, b"XADD", b"x", b"1", b"f", bytes(600_000))
    payload = payload_of(there)
    assert restore(here, "a", 0, payload) is OK
    reply = restore(here, "b", 0, payload)
    assert isinstance(reply, CommandError)
    assert reply.text.startswith("ERR more than 1 MiB in one transaction or pipeline")
    here.end_tick()
    assert restore(here, "b", 0, payload) is OK


def test_restore_ignores_the_origin_in_the_payload() -> None:
    batch = unframed(payload_of(filled()))
    batch.origin, batch.first_n = 7, 1_000_000
    node = Node(1)
    assert restore(node, "x", 0, frame(batch.SerializeToString())) is OK
    stream = node.replica.stream(b"x")
    assert stream is not None
    assert list(stream.lanes) == [1]
