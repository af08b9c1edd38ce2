"""RENAME and COPY: the same entries under another name, in several regions (``rules`` 14)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.keys import copying
from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import (
    DeleteKey,
    EffectBatch,
    IdempotentId,
    SetExpiry,
    SetLastId,
    SetStreamConfig,
)
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import IdMode, Millis, StreamId, make_id
from crdtstream.core.wire.codec import decode_batch
from tests.conftest import examples
from tests.harness.regions import Node, sync
from tests.harness.replies import of_type

FIELDS = encode_fields([b"f", b"v"])


def last_batch(node: Node) -> EffectBatch:
    node.end_tick()
    encoded = node.log[-1].batch
    assert encoded is not None
    return decode_batch(encoded)


def facts(node: Node, key: str) -> dict[str, object]:
    """Facts that XINFO shows of a stream, without its layout."""
    told = node(f"XINFO STREAM {key}")
    assert isinstance(told, dict), told
    return {
        name: told[name]
        for name in (
            "length",
            "last-generated-id",
            "max-deleted-entry-id",
            "entries-added",
            "recorded-first-entry-id",
        )
    }


def append_once(node: Node, key: bytes, ms: int, idempotent: IdempotentId) -> None:
    node.replica.append(key, make_id(ms, 1), FIELDS, idempotent)


def known(node: Node, key: bytes, idempotent: IdempotentId) -> bool:
    return node.replica.find_idempotent(key, idempotent) is not None


def idempotent_ids(node: Node, key: bytes) -> list[IdempotentId | None]:
    stream = node.replica.stream(key)
    assert stream is not None
    return [macro.idempotent_at(index) for _, _, macro, index in stream.scan()]


def entries(node: Node, key: bytes) -> list[tuple[StreamId, bytes, IdempotentId | None]]:
    stream = node.replica.stream(key)
    if stream is None:
        return []
    return [
        (entry_id, bytes(macro.fields_at(index)), macro.idempotent_at(index))
        for entry_id, _, macro, index in stream.scan()
    ]


# --- One region --------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["RENAME a b", "RENAMENX a b", "COPY a b", "COPY a b REPLACE"])
def test_entries_counters_and_deadline_go_along_and_groups_do_not(line: str) -> None:
    node = Node(1)
    node.run("XADD a 1-1 f one", "XADD a 5-2 f two", "XADD a 9-3 f three", "XDEL a 5-2")
    node.run("XSETID a 20-0 ENTRIESADDED 7 MAXDELETEDID 6-0", "XGROUP CREATE a g 0")
    node.run("PEXPIREAT a 5000")
    before = facts(node, "a")
    node.run(line)
    assert node("XRANGE b - +") == ["1-1", "9-3"]
    assert facts(node, "b") == before
    assert node("PEXPIRETIME b") == 5000
    assert node("XINFO GROUPS b") == []
    assert node("EXISTS a") == line.startswith("COPY")
    refusal = of_type(str, node("XADD b 20-0 f v"))
    assert refusal.startswith("ERR The ID specified in XADD is equal or smaller")


def test_rename_is_one_batch_in_the_order_of_the_rule() -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v", "XADD a 2-1 f v", "PEXPIREAT a 5000", "XADD b 9-1 f v")
    node.run("RENAME a b")
    batch = last_batch(node)
    assert batch.others == [
        (0, DeleteKey(b"a")),
        (1, DeleteKey(b"b")),
        (4, SetLastId(b"b", make_id(2, 1), 2, None)),
        (5, SetExpiry(b"b", Millis(5000))),
    ]
    assert list(batch.appends.ms) == [1, 2]


@pytest.mark.parametrize("line", ["RENAME a b", "COPY a b", "COPY a b REPLACE"])
def test_a_target_that_is_not_here_is_not_deleted(line: str) -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v")
    node.run(line)
    assert DeleteKey(b"b") not in [effect for _, effect in last_batch(node).others]


def test_rename_onto_itself_changes_nothing() -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v", "XGROUP CREATE a g 0", "PEXPIREAT a 5000")
    assert node("RENAME a a") == "OK"
    assert node("RENAMENX a a") == 0
    assert node("RENAME none none") == "ERR no such key"
    assert not node.replica.has_open_record
    assert node("PEXPIRETIME a") == 5000


def test_rename_onto_a_key_takes_its_place() -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v", "XADD b 100-1 f v", "XGROUP CREATE b g 0", "EXPIRE b 100")
    assert node("RENAMENX a b") == 0
    assert node("COPY a b") == 0
    assert not node.replica.has_open_record
    node.run("RENAME a b")
    assert node("XRANGE b - +") == ["1-1"]
    assert node("XINFO GROUPS b") == []
    assert node("TTL b") == -1
    assert facts(node, "b")["last-generated-id"] == "1-1"


def test_copy_with_replace_takes_the_place_of_the_target() -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v", "XADD b 100-1 f v", "XGROUP CREATE b g 0", "EXPIRE b 100")
    assert node.run("COPY a b REPLACE") == 1
    assert node("XRANGE b - +") == node("XRANGE a - +") == ["1-1"]
    assert node("XINFO GROUPS b") == []
    assert node("TTL b") == -1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("COPY a a", "ERR source and destination objects are the same"),
        ("COPY none none REPLACE", "ERR source and destination objects are the same"),
        ("COPY a b DB 1", "ERR DB index is out of range"),
        ("COPY a b DB -1", "ERR DB index is out of range"),
        ("COPY a b DB x", "ERR value is not an integer or out of range"),
        (
            "COPY a b DB 2147483648",
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ),
        ("COPY a b DB", "ERR syntax error"),
        ("COPY a b FOO", "ERR syntax error"),
        ("RENAME none b", "ERR no such key"),
        ("RENAMENX none b", "ERR no such key"),
    ],
)
def test_an_impossible_copy_changes_nothing(line: str, error: str) -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v")
    assert node(line) == error
    assert not node.replica.has_open_record


@pytest.mark.parametrize("line", ["RENAME a b", "COPY a b"])
def test_an_empty_stream_keeps_its_last_id(line: str) -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 7-1 f v", "XDEL a 7-1")
    r1.run(line)
    sync(r1, r2)
    assert r2("EXISTS b") == 1
    assert facts(r2, "b")["last-generated-id"] == "7-1"
    assert facts(r1, "b")["max-deleted-entry-id"] == "7-1"


@pytest.mark.parametrize("line", ["RENAME a b", "COPY a b"])
def test_a_stream_that_only_groups_made_becomes_an_empty_one(line: str) -> None:
    node = Node(1)
    node.run("XGROUP CREATE a g 0 MKSTREAM")
    node.run(line)
    assert of_type(dict, node("XINFO STREAM b"))["groups"] == 0
    assert node("XADD b 0-1 f v") == "0-1"


def test_of_equal_ids_one_is_copied_and_the_counter_knows() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f one", "XADD a 2-1 f one")
    r2.run("XADD a 1-1 f two")
    sync(r1, r2)
    r2.run("COPY a b")
    assert r2("XRANGE b - +") == ["1-1", "2-1"]
    assert facts(r2, "b")["entries-added"] == 2
    stream = r2.replica.stream(b"b")
    assert stream is not None
    assert list(stream.lanes) == [2]


@pytest.mark.pure
@pytest.mark.parametrize("line", ["RENAME a b", "COPY a b"])
def test_too_large_a_stream_is_refused_before_anything_changes(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying.COPY_BYTES_MAX, "value", 1 << 20)
    node = Node(1)
    for ms in range(1, 12):
        node.replica.append(b"a", make_id(ms, 1), encode_fields([b"f", bytes(100_000)]))
    node.run("XADD b 1-1 f v")
    assert str(node(line.replace("COPY a b", "COPY a b REPLACE"))).startswith(
        "ERR the stream holds more than 1 MiB"
    )
    assert not node.replica.has_open_record
    assert node("EXISTS a b") == 2
    node.run("XTRIM a MAXLEN 10")
    assert node.run(line.replace("COPY a b", "COPY a b REPLACE")) in ("OK", 1)


@pytest.mark.pure
def test_copies_of_one_transaction_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch is one message: what no peer could take must not be issued."""
    monkeypatch.setattr(copying.COPY_BYTES_MAX, "value", 1 << 20)
    node = Node(1)
    node.replica.append(b"a", make_id(1, 1), encode_fields([b"f", bytes(400_000)]))
    node.end_tick()
    for line in ("MULTI", "COPY a b", "COPY a c", "COPY a d"):
        node(line)
    first, second, third = of_type(list, node("EXEC"))
    assert (first, second) == (1, 1)
    refusal = of_type(CommandError, third).text
    assert refusal.startswith("ERR more than 1 MiB in one transaction or pipeline")
    node.end_tick()
    assert node("EXISTS b c d") == 2
    assert node.run("COPY a d") == 1


# --- Idempotent producers ----------------------------------------------------------------------


@pytest.mark.parametrize("line", ["RENAME a b", "COPY a b"])
def test_rename_and_copy_keep_idempotent_ids(line: str) -> None:
    first, second = IdempotentId(b"p", b"1"), IdempotentId(b"p", b"2")
    r1, r2 = Node(1), Node(2)
    append_once(r1, b"a", 1, first)
    r1.run("XADD a 2-1 f v")
    append_once(r1, b"a", 3, second)
    r1.replica.issue(SetStreamConfig(b"a", 300, 1))
    sync(r1, r2)
    r2.run(line)
    sync(r1, r2)
    for node in (r1, r2):
        assert idempotent_ids(node, b"b") == [first, None, second]
        assert node.replica.keys.idmp_settings_of(b"b") == (300, 1)
        # Of the two only the last is recognised, as XCFGSET said: also by the new stream.
        assert (known(node, b"b", first), known(node, b"b", second)) == (False, True)


@pytest.mark.pure
@settings(max_examples=examples(100), deadline=None)
@given(
    added=st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.integers(0, 20)), min_size=1),
    removed=st.sets(st.integers(0, 20)),
    entries_max=st.integers(1, 4),
    run_nodes=st.integers(1, 3),
)
def test_a_copy_has_all_entries_in_order_whichever_of_them_have_names(
    added: list[tuple[bool, int, int]], removed: set[int], entries_max: int, run_nodes: int
) -> None:
    """Runs of macro nodes and entries with names take turns, here and in a peer."""
    r1, r2 = Node(1), Node(2)
    for node in (r1, r2):
        node.limit_nodes(entries_max, 0)
    ms = 0
    for at, (has_name, step, size) in enumerate(added):
        ms += step
        fields = encode_fields([b"%d" % at, b"v" * size])
        name = IdempotentId(b"p", b"%d" % at) if has_name else None
        r1.replica.append(b"a", make_id(ms, at), fields, name)
        if at in removed:
            r1(f"XDEL a {ms}-{at}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(copying.RUN_NODES, "value", run_nodes)
        r1.run("COPY a b")
    sync(r1, r2)
    source = entries(r1, b"a")
    assert [entries(node, b"b") for node in (r1, r2)] == [source, source]


def test_a_setting_of_which_one_half_is_said_is_copied_as_such() -> None:
    node = Node(1)
    node.run("XADD a 1-1 f v")
    node.replica.issue(SetStreamConfig(b"a", None, 7))
    node.run("COPY a b")
    assert node.replica.keys.idmp_settings_of(b"b") == (None, 7)


def test_concurrent_renames_do_not_double_what_producers_named() -> None:
    """Two concurrent appends of one idempotent id are one entry (``rules`` 20)."""
    r1, r2 = Node(1), Node(2)
    append_once(r1, b"a", 1, IdempotentId(b"p", b"1"))
    r1.run("XADD a 2-1 f v")
    sync(r1, r2)
    r1.run("RENAME a b")
    r2.run("RENAME a b")
    sync(r1, r2)
    assert r1("XRANGE b - +") == r2("XRANGE b - +") == ["1-1", "2-1", "2-1"]


# --- Several regions ---------------------------------------------------------------------------


def test_concurrent_renames_duplicate_entries_and_converge() -> None:
    r1, r2, r3 = Node(1, IdMode.STRICT), Node(2, IdMode.STRICT), Node(3, IdMode.STRICT)
    r1.run("XADD a 110 f v", "XADD a 120 f v", "PEXPIREAT a 9000")
    sync(r1, r2, r3)
    r1.run("RENAME a b")
    r2.run("RENAME a b")
    r3.run("RENAME a c")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        assert node("EXISTS a") == 0
        assert node("XRANGE b - +") == ["110-1", "110-1", "120-1", "120-1"]
        assert node("XRANGE c - +") == ["110-1", "120-1"]
        assert node("PEXPIRETIME b") == node("PEXPIRETIME c") == 9000


def test_rename_spares_what_it_had_not_observed_on_both_sides() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f v", "XADD b 2-1 f v")
    sync(r1, r2)
    r1.run("RENAME a b")
    r2.run("XADD a 3-1 f v", "XADD b 4-1 f v")
    sync(r1, r2)
    assert r1("XRANGE a - +") == r2("XRANGE a - +") == ["3-1"]
    assert r1("XRANGE b - +") == r2("XRANGE b - +") == ["1-1", "4-1"]


@pytest.mark.parametrize("line", ["COPY a b", "COPY a b REPLACE"])
def test_copy_meets_entries_that_are_added_to_the_target_meanwhile(line: str) -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f v", "XADD a 5-1 f v")
    sync(r1, r2)
    r1.run(line)
    r2.run("XADD b 3-1 f v")
    sync(r1, r2)
    for node in (r1, r2):
        assert node("XRANGE b - +") == ["1-1", "3-1", "5-1"]
        assert node("XRANGE a - +") == ["1-1", "5-1"]


def test_a_deadline_that_is_set_on_the_source_meanwhile_stays_behind() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f v", "PEXPIREAT a 5000")
    sync(r1, r2)
    r1.run("RENAME a b")
    r2.run("PEXPIREAT a 9000")
    sync(r1, r2)
    for node in (r1, r2):
        assert node.replica.keys.known() == [b"b"]
        assert node("PEXPIRETIME b") == 5000


def test_a_renamed_key_ends_where_it_was_renamed() -> None:
    """The region that renamed set the deadline anew, so it deletes."""
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f v", "PEXPIREAT a 5000")
    sync(r1, r2)
    r2.run("RENAME a b")
    sync(r1, r2)
    for node in (r1, r2):
        node.now = 5000
        assert node("EXISTS b") == 0
    r1.expire()
    assert r1.replica.keys.known() == [b"b"]
    r2.expire()
    sync(r1, r2)
    assert r1.replica.keys.known() == []


def test_renaming_to_and_fro_ascends_in_the_lane_again_and_again() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f v", "XADD a 2-1 f v")
    for _ in range(3):
        r1.run("RENAME a b", "RENAME b a")
        r2.pull(r1)
        r2.run("RENAME a b")
        r1.pull(r2)
        r1.run("RENAME b a")
    sync(r1, r2)
    assert r1("XRANGE a - +") == r2("XRANGE a - +") == ["1-1", "2-1"]
    r1.restart()
    assert r1("XRANGE a - +") == ["1-1", "2-1"]
