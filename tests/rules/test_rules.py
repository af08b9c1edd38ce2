"""The replication rules, each with the counterexample that shaped it."""

from itertools import permutations

import pytest

from crdtstream.commands.reply import Null
from crdtstream.core.effects import (
    DeleteKey,
    IdempotentId,
    SetStreamConfig,
)
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import ID_MIN, IdMode, Millis, RegionId, format_id, next_id
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type


def last_generated_id(node: Node, key: str) -> str:
    return of_type(str, of_type(dict, node(f"XINFO STREAM {key}"))["last-generated-id"])


# --- 1: contexts -------------------------------------------------------------------------------


def test_delete_and_create_in_one_transaction_leave_the_group_everywhere() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v")
    sync(r1, r2)
    r1.run("DEL x", "XGROUP CREATE x g 0 MKSTREAM")
    sync(r1, r2)
    assert [row["name"] for row in list_of(dict, r2("XINFO GROUPS x"))] == ["g"]


def test_a_transaction_is_one_batch() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v", "XGROUP CREATE x g 0", "XADD y 1-1 f v", "DEL x")
    assert [batch.count for batch in r1.batches()] == [4]


def test_a_context_speaks_of_other_origins_only() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v")
    r2.pull(r1)
    r2.run("XADD x 2-1 f v")
    (own,) = [batch for batch in r2.batches() if batch.origin == 2]
    assert own.context == {1: 1}


# --- 5: last IDs -------------------------------------------------------------------------------


def test_concurrent_xsetid_and_delete_of_one_of_them_converge() -> None:
    for order in permutations("abc"):
        r1, r2, r3 = Node(1), Node(2), Node(3)
        r1.run("XADD x 1-1 f v")
        sync(r1, r2, r3)
        r1.run("XSETID x 1000-0")
        r2.run("XSETID x 500-0")
        r3.pull(r1)
        r3.run("DEL x")  # has seen 1000 only
        nodes = {"a": r1, "b": r2, "c": r3}
        for name in order:
            nodes[name].pull(*[nodes[other] for other in order])
        sync(r1, r2, r3)
        assert last_generated_id(r1, "x") == "500-0"


def test_last_generated_id_is_the_maximum_over_origins() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 10-1 f v")
    r2.run("XADD x 20-1 f v")
    sync(r1, r2)
    refusal = of_type(str, r1("XADD x 20-1 f v"))
    assert refusal.startswith("ERR The ID specified in XADD is equal or smaller")
    assert r1("XADD x 20-2 f v") == "20-2"


# --- 6: existence ------------------------------------------------------------------------------


def test_a_stream_emptied_by_xdel_or_xtrim_stays() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD y 1-1 f v", "XDEL x 1-1", "XTRIM y MAXLEN 0")
    sync(r1, r2)
    for node in (r1, r2):
        assert node("EXISTS x y") == 2
        assert node("XLEN x") == node("XLEN y") == 0


def test_a_stream_made_by_mkstream_goes_with_its_last_group() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    sync(r1, r2)
    r2.run("XGROUP DESTROY x g")
    sync(r1, r2)
    assert r1("EXISTS x") == 0


# --- Observed-remove and delete-wins -----------------------------------------------------------


def test_a_delete_spares_the_unobserved_entry() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 110 f v")
    sync(r1, r2)
    r1.run("DEL x")
    r2.run("XADD x 120 f v")
    sync(r1, r2)
    assert r1("XRANGE x - +") == r2("XRANGE x - +") == ["120-0"]


def test_xdel_spares_an_entry_that_was_added_again_under_the_same_id() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 5-1 f old")
    sync(r1, r2)
    r2.run("XDEL x 5-1")
    r1.run("DEL x", "XADD x 5-1 f new")
    sync(r1, r2)
    assert r1("XRANGE x - +") == r2("XRANGE x - +") == ["5-1"]


def test_trim_spares_the_unobserved_entry() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 10 f v", "XADD x 20 f v")
    sync(r1, r2)
    r1.run("XADD x 30 f v")
    r2.run("XTRIM x MAXLEN 0")
    sync(r1, r2)
    assert r1("XRANGE x - +") == r2("XRANGE x - +") == ["30-0"]


@pytest.mark.parametrize("destroy", ["DEL x", "XGROUP DESTROY x g"])
def test_destroy_beats_unobserved_create(destroy: str) -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XGROUP CREATE x g 0")
    r2.pull(r1)
    r2.run(destroy)
    r3.run("XGROUP CREATE x g 0")
    sync(r1, r2, r3)
    assert r3("EXISTS x") == 0
    assert {node.replica.tombstone_count for node in (r1, r2, r3)} == {1}


def test_a_create_that_observed_the_destroy_makes_a_fresh_group() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XGROUP CREATE x g 0")
    sync(r1, r2)
    r1.run("XREADGROUP GROUP g a STREAMS x >", "XGROUP DESTROY x g")
    sync(r1, r2)
    r2.run("XGROUP CREATE x g 0")
    sync(r1, r2)
    assert of_type(list, r1("XPENDING x g"))[0] == 0
    assert r1("XREADGROUP GROUP g a STREAMS x >") == {"x": ["1-1"]}


def test_stable_tombstones_are_forgotten() -> None:
    r1 = Node(1)
    r1.run("XGROUP CREATE x g 0", "XGROUP DESTROY x g", "XGROUP CREATE x g 0", "DEL x")
    assert r1.replica.tombstone_count == 2
    r1.replica.forget_stable({RegionId(1): 2})
    assert r1.replica.tombstone_count == 1
    r1.replica.forget_stable({RegionId(1): 4})
    assert r1.replica.tombstone_count == 0


# --- 14: RENAME --------------------------------------------------------------------------------


def test_rename_keeps_ids_drops_duplicates_and_groups() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f one", "XADD a 3-1 f v", "XADD b 9-9 f v", "XGROUP CREATE a g 0")
    r2.run("XADD a 1-1 f two", "XADD a 2-1 f v")
    sync(r1, r2)
    r2.run("RENAME a b")
    sync(r1, r2)
    for node in (r1, r2):
        assert node("XRANGE b - +") == ["1-1", "2-1", "3-1"]
        assert node("EXISTS a") == 0
        assert node("XINFO GROUPS b") == []
        assert last_generated_id(node, "b") == "3-1"


def test_rename_to_itself_does_nothing() -> None:
    r1 = Node(1)
    r1.run("XADD a 1-1 f v", "XGROUP CREATE a g 0")
    before = r1.replica.issued
    assert r1.run("RENAME a a") == "OK"
    assert r1.replica.issued == before


def test_rename_keeps_the_last_generated_id_of_deleted_entries() -> None:
    r1 = Node(1)
    r1.run("XADD a 1-1 f v", "XADD a 5-5 f v", "XDEL a 5-5", "RENAME a b")
    refusal = of_type(str, r1("XADD b 5-5 f v"))
    assert refusal.startswith("ERR The ID specified in XADD is equal or smaller")


def test_concurrent_renames_of_one_source_keep_an_entry_under_both_names() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD a 1-1 f v")
    sync(r1, r2)
    r1.run("RENAME a b")
    r2.run("RENAME a c")
    sync(r1, r2)
    assert r1("XRANGE b - +") == r1("XRANGE c - +") == ["1-1"]


# --- 19 and recovery: the log says everything ---------------------------------------------------


def test_replaying_the_log_restores_replicated_and_local_state() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(
        "XADD x 1 f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g a STREAMS x >", "XADD x 2 f v"
    )
    r2.run("XADD x 3 f v")
    r1.pull(r2)
    r1.run("XREADGROUP GROUP g b STREAMS x >", "XACK x g 1", "XADD x 4 f v", "XCLAIM x g c 0 2")
    r1.run("XGROUP DESTROY x g", "XGROUP CREATE x g 0", "XREADGROUP GROUP g a COUNT 2 STREAMS x >")
    r1.run("XGROUP SETID x g 1", "XGROUP CREATECONSUMER x g d", "XACK x g 1")
    before = [r1.digest, r1("XINFO STREAM x FULL"), r1.replica.vv]
    r1.restart()
    assert [r1.digest, r1("XINFO STREAM x FULL"), r1.replica.vv] == before
    assert r1.run("XADD x 5 f v") == "5-0"
    sync(r1, r2)


def test_a_batch_that_is_known_already_changes_nothing() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v")
    sync(r1, r2)
    before = r2.digest
    for record in r1.log:
        r2.take(record)
    assert r2.digest == before
    assert len(r2.log) == 1


def test_a_region_that_takes_lost_effects_back_goes_on_numbering_behind_them() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    sync(r1, r2)
    lost = Node(1)
    lost.pull(r2)
    lost.run("XADD x 3 f v")
    assert [(batch.first_n, batch.count) for batch in lost.batches()] == [(1, 2), (3, 1)]
    sync(lost, r2)


# --- 22: the digest -----------------------------------------------------------------------------


def test_the_digest_leaves_out_what_is_local() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XGROUP CREATE x g 0")
    sync(r1, r2)
    r1.run("XREADGROUP GROUP g a STREAMS x >", "XGROUP SETID x g 0", "XGROUP CREATECONSUMER x g b")
    assert r1.digest == r2.digest
    r2.replica.forget_stable(r2.replica.vv)
    assert r1.digest == r2.digest


@pytest.mark.parametrize(
    "change",
    ["XADD x 9 f v", "XDEL x 1", "XTRIM x MAXLEN 1", "XSETID x 9", "XGROUP CREATE x h 0", "DEL x"],
)
def test_the_digest_sees_what_is_replicated(change: str) -> None:
    r1 = Node(1)
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    before = r1.digest
    r1.run(change)
    assert r1.digest != before


def test_the_digest_does_not_see_how_entries_are_packed() -> None:
    r1, r2 = Node(1), Node(2)
    r2.replica.node_limits.entries_max = 3
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 50)])
    r1.run("XDEL x 7 8 9 30")
    sync(r1, r2)


# --- ID modes ----------------------------------------------------------------------------------

FULL_IN_STRICT = "ERR XADD with a full ID (ms-seq) is not allowed in strict mode"


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        (IdMode.STRICT, "*", "1000-7"),
        (IdMode.STRICT, "110", "110-7"),
        (IdMode.STRICT, "110-*", "110-7"),
        (IdMode.STRICT, "110-9", FULL_IN_STRICT),
        (IdMode.SEMI_STRICT, "*", "1000-7"),
        (IdMode.SEMI_STRICT, "110", "110-7"),
        (IdMode.SEMI_STRICT, "110-*", "110-7"),
        (IdMode.SEMI_STRICT, "110-9", "110-9"),
        (IdMode.LIBERAL, "*", "1000-7"),
        (IdMode.LIBERAL, "110", "110-0"),
        (IdMode.LIBERAL, "110-*", "110-0"),
        (IdMode.LIBERAL, "110-9", "110-9"),
        (IdMode.LIBERAL, "0-*", "0-1"),
        (IdMode.LIBERAL, "0", "ERR The ID specified in XADD must be greater than 0-0"),
    ],
)
def test_each_mode_takes_and_completes_ids_as_the_design_says(
    mode: IdMode, text: str, expected: str
) -> None:
    assert str(Node(7, mode)(f"XADD x {text} f v")).startswith(expected)


def test_sequences_of_a_region_go_on_in_steps_of_1024() -> None:
    r1, r2 = Node(1, IdMode.STRICT), Node(2, IdMode.STRICT)
    assert [r1("XADD x * f v") for _ in range(3)] == ["1000-1", "1000-1025", "1000-2049"]
    assert [r2("XADD x * f v") for _ in range(2)] == ["1000-2", "1000-1026"]
    sync(r1, r2)
    assert r2("XADD x * f v") == "1000-2050"


def test_a_clock_that_jumps_back_never_breaks_monotonicity() -> None:
    r1 = Node(1, IdMode.STRICT)
    assert r1("XADD x * f v") == "1000-1"
    r1.now = 5
    assert r1("XADD x * f v") == "1000-1025"


# --- 8 and 20: idempotent producers -------------------------------------------------------------


def append_once(node: Node, name: str = "a") -> str:
    """An append of one producer's message, as XADD IDMP issues it when its window knows nothing."""
    stream = node.replica.stream(b"x")
    last = ID_MIN if stream is None else stream.last_id
    entry_id = next_id(RegionId(node.region), now=Millis(node.now), last=last)
    fields = encode_fields([b"f", name.encode()])
    node.replica.append(b"x", entry_id, fields, IdempotentId(b"p", name.encode()))
    node.end_tick()
    return format_id(entry_id).decode()


def test_concurrent_appends_of_one_message_are_the_one_with_the_smaller_dot() -> None:
    nodes = [Node(1), Node(2), Node(3)]
    # Region 2's dot is (2, 2): the region decides before the number.
    nodes[1].run("XADD y 1-1 f v")
    ids = [append_once(node) for node in nodes]
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [[ids[0]]] * 3


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_append_loses_also_to_one_that_lost_or_is_gone(order: tuple[int, ...]) -> None:
    """1 and 2 are concurrent, and so are 2 and 3; 3 had observed 1, and is another message's try.

    2 loses to 1 although 1 is deleted, and 3 loses to 2 although 2 lost.
    """
    r1, r2, r3 = Node(1), Node(2), Node(3)
    append_once(r1)
    r3.pull(r1)
    r3.run("DEL x")
    append_once(r2)
    append_once(r3)
    sources = [r1, r2, r3]
    r4 = Node(4)
    r4.pull(*[sources[at] for at in order])
    sync(r1, r2, r3, r4)
    assert r4("XRANGE x - +") == []


def test_an_append_that_had_observed_the_other_is_no_retry() -> None:
    r1, r2 = Node(1), Node(2)
    first = append_once(r1)
    r2.pull(r1)
    second = append_once(r2)
    sync(r1, r2)
    assert r1("XRANGE x - +") == [first, second]


@pytest.mark.parametrize(
    "forget",
    ["XDEL x {0}", "DEL x", "XTRIM x MAXLEN 0", "FLUSHALL"],
)
def test_records_outlive_whatever_removes_the_entry(forget: str) -> None:
    r1, r2 = Node(1), Node(2)
    first = append_once(r1)
    r1.run(forget.format(first))
    append_once(r2)
    sync(r1, r2)
    assert r1("XRANGE x - +") == []


def test_records_outlive_size_age_and_xcfgset() -> None:
    r1, r2 = Node(1), Node(2)
    r1.replica.keys.idmp_maxsize = 2
    first = append_once(r1)
    others = [append_once(r1, f"b{n}") for n in range(5)]
    r1.now += 10_000_000
    r1.replica.issue(SetStreamConfig(b"x", 1, 1))
    late = append_once(r1, "c")
    r1.end_tick()
    assert r1.replica.find_idempotent(b"x", IdempotentId(b"p", b"a")) is None
    append_once(r2)
    sync(r1, r2)
    assert r2("XRANGE x - +") == [first, *others, late]


def test_records_go_when_they_are_causally_stable() -> None:
    r1, r2 = Node(1), Node(2)
    append_once(r1)
    assert r1.replica.idempotency_record_count == 1
    r1.replica.forget_stable({})
    assert r1.replica.idempotency_record_count == 1
    sync(r1, r2)
    r1.replica.forget_stable(r1.replica.vv)
    assert r1.replica.idempotency_record_count == 0
    r1.restart()
    sync(r1, r2)


def test_the_window_knows_what_other_regions_appended_and_which_entry_stayed() -> None:
    r1, r2 = Node(1), Node(2)
    first, second = append_once(r1), append_once(r2)
    assert first != second
    sync(r1, r2)
    for node in (r1, r2):
        tracked = node.replica.find_idempotent(b"x", IdempotentId(b"p", b"a"))
        assert tracked is not None
        assert format_id(tracked.entry_id).decode() == first
    r2.now += 101_000
    r2("PING")
    assert r2.replica.find_idempotent(b"x", IdempotentId(b"p", b"a")) is None


def test_a_pending_entry_that_gave_way_reads_as_nil() -> None:
    r1, r2 = Node(1), Node(2)
    r2.run("XGROUP CREATE x g 0 MKSTREAM")
    append_once(r1)
    lost = append_once(r2)
    r2.run("XREADGROUP GROUP g c STREAMS x >")
    sync(r1, r2)
    assert r2("XREADGROUP GROUP g c STREAMS x 0") == {"x": [[lost, Null.ARRAY]]}


def test_concurrent_xcfgset_is_the_maximum_and_del_wins() -> None:
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r1.run("XADD x 1-1 f v")
    sync(*nodes)
    r1.replica.issue(SetStreamConfig(b"x", 50, 900))
    r2.replica.issue(SetStreamConfig(b"x", 70, None))
    sync(*nodes)
    assert {
        (n.replica.keys.idmp_duration_of(b"x"), n.replica.keys.idmp_maxsize_of(b"x")) for n in nodes
    } == {(70, 900)}
    # Whoever had observed both overwrites both, also with less.
    r3.replica.issue(SetStreamConfig(b"x", 10, None))
    sync(*nodes)
    assert r1.replica.keys.idmp_duration_of(b"x") == 10

    r1.run("DEL x")
    r2.replica.issue(SetStreamConfig(b"x", 99, 99))
    sync(*nodes)
    r1.run("XADD x 9-1 f v")
    assert r1.replica.keys.idmp_duration_of(b"x") == r1.replica.keys.idmp_duration_s


def test_the_digest_names_producer_and_idempotent_id() -> None:
    r1, r2 = Node(1), Node(1)
    append_once(r1, "a")
    append_once(r2, "a")
    assert r1.digest == r2.digest
    r3 = Node(1)
    fields = encode_fields([b"f", b"a"])
    r3.replica.append(b"x", next_id(RegionId(1), now=Millis(1000), last=ID_MIN), fields)
    assert r3.digest != r1.digest


def test_flushall_travels_as_one_delete_per_observed_key() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD y 1-1 f v")
    sync(r1, r2)
    r2.run("XADD z 1-1 f v")
    r1.run("FLUSHALL")
    effects = [effect for _, effect in r1.batches()[-1].others]
    assert effects == [DeleteKey(b"x"), DeleteKey(b"y")]
    sync(r1, r2)
    assert r1("KEYS *") == ["z"]


# --- Where entries came from --------------------------------------------------------------------


def test_arrival_is_when_the_entry_came_here_and_survives_a_restart() -> None:
    r1, r2 = Node(1, now=1_000), Node(2, now=5_000)
    r1.run("XADD x 1-1 f v")
    r2.pull(r1)
    r2.now += 10
    r2.run("XADD x 2-1 f v")
    for _ in range(2):
        stream = r2.replica.stream(b"x")
        assert stream is not None
        heads = {region: lane.head for region, lane in stream.lanes.items()}
        assert {
            region: head.arrived_at(0) for region, head in heads.items() if head is not None
        } == {
            1: 5_000,
            2: 5_010,
        }
        r2.restart()
