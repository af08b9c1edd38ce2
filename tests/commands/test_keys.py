"""OBJECT, MEMORY USAGE, RANDOMKEY, TOUCH and the commands of databases that are not there."""

import gc
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from crdtstream.commands.keys.objects import HELP
from crdtstream.core.effects import IdempotentId, SetExpiry, SetStreamConfig
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, make_id
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type

# --- RANDOMKEY ---------------------------------------------------------------------------------


def test_randomkey_comes_to_every_key_alike() -> None:
    node = Node(1)
    node.run(*[f"XADD k{number} 1 f v" for number in range(50)])
    drawn = Counter(node("RANDOMKEY") for _ in range(5000))
    assert set(drawn) == {f"k{number}" for number in range(50)}
    assert max(drawn.values()) - min(drawn.values()) <= 4
    assert not node.replica.has_open_record


def test_randomkey_does_not_name_one_key_twice_in_a_row() -> None:
    node = Node(1)
    node.run(*[f"XADD k{number} 1 f v" for number in range(5)])
    drawn = [node("RANDOMKEY") for _ in range(100)]
    assert all(one != other for one, other in pairwise(drawn))


def test_randomkey_of_nothing_is_null() -> None:
    node = Node(1)
    assert node("RANDOMKEY") is None
    node.run("XADD x 1 f v")
    assert [node("RANDOMKEY") for _ in range(3)] == ["x"] * 3
    node.run("DEL x")
    assert node("RANDOMKEY") is None


def test_randomkey_never_names_a_key_whose_time_is_over() -> None:
    """Nor does it miss one that lives: here most do not, and their region is away."""
    r1, r2 = Node(1), Node(2)
    for number in range(100):
        r1.run(f"XADD k{number} 1 f v")
        if number % 10:
            r1.run(f"PEXPIRE k{number} 50")
    sync(r1, r2)
    r2.now += 50
    keys = [f"k{number}" for number in range(0, 100, 10)]
    assert {r2("RANDOMKEY") for _ in range(300)} == set(keys)
    assert sorted(list_of(str, r2("KEYS *"))) == keys
    _, scanned = of_type(list, r2("SCAN 0 COUNT 1000"))
    assert sorted(list_of(str, scanned)) == keys
    # As in Redis, what is still kept counts.
    assert r2("DBSIZE") == 100
    r1.run(*[f"PEXPIREAT k{number} 2000" for number in range(0, 100, 10)])
    r2.pull(r1)
    r2.now = 2000
    assert r2("RANDOMKEY") is None


# --- OBJECT, TOUCH -----------------------------------------------------------------------------


def test_object_tells_what_there_is_to_tell() -> None:
    node = Node(1)
    node.run("XADD x 1 f v")
    assert node("OBJECT ENCODING x") == "stream"
    assert node("OBJECT REFCOUNT x") == 1
    assert str(node("OBJECT FREQ x")).startswith("ERR An LFU maxmemory policy is not selected")
    for what in ("ENCODING", "REFCOUNT", "FREQ", "IDLETIME"):
        assert node(f"OBJECT {what} none") is None
    assert node("OBJECT HELP") == list(HELP)
    assert node("OBJECT FOO x") == "ERR unknown subcommand 'FOO'. Try OBJECT HELP."
    assert node("OBJECT ENCODING") == (
        "ERR wrong number of arguments for 'object|encoding' command"
    )


def test_idle_since_an_entry_came_or_a_consumer_asked() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v")
    r1.now += 9_999
    assert r1("OBJECT IDLETIME x") == 9
    # A read without a group leaves no trace.
    r1("XRANGE x - +")
    assert r1("OBJECT IDLETIME x") == 9
    r2.run("XADD x 3-1 f v")
    r1.pull(r2)
    assert r1("OBJECT IDLETIME x") == 0
    r1.now += 5_000
    r1.run("XDEL x 3-1", "XGROUP CREATE x g 0")
    assert r1("OBJECT IDLETIME x") == 14
    r1.run("XREADGROUP GROUP g c STREAMS x >")
    r1.now += 3_000
    assert r1("OBJECT IDLETIME x") == 3
    # A clock that was set back.
    r1.now -= 60_000
    assert r1("OBJECT IDLETIME x") == 0


def test_idle_time_of_a_stream_that_is_empty_is_not_known() -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "XDEL x 1-1", "XGROUP CREATE y g 0 MKSTREAM")
    node.now += 9_999
    assert node("OBJECT IDLETIME x") == node("OBJECT IDLETIME y") == 0


def test_touch_counts() -> None:
    node = Node(1)
    node.run("XADD x 1 f v", "XADD y 1 f v")
    assert node("TOUCH x y none x") == 3


# --- Databases ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("MOVE x 0", "ERR source and destination objects are the same"),
        ("MOVE none 0", "ERR source and destination objects are the same"),
        ("MOVE x 1", "ERR DB index is out of range"),
        ("MOVE x -1", "ERR DB index is out of range"),
        ("MOVE x bad", "ERR value is not an integer or out of range"),
        ("SWAPDB 0 0", "OK"),
        ("SWAPDB 0 1", "ERR DB index is out of range"),
        ("SWAPDB 1 1", "ERR DB index is out of range"),
        ("SWAPDB bad 0", "ERR invalid first DB index"),
        ("SWAPDB 0 bad", "ERR invalid second DB index"),
        ("SWAPDB 0 99999999999", "ERR invalid second DB index"),
    ],
)
def test_there_is_one_database(line: str, reply: str) -> None:
    """The answers of a Redis that was started with one database."""
    node = Node(1)
    node.run("XADD x 1 f v")
    assert node(line) == reply
    assert not node.replica.has_open_record


# --- MEMORY USAGE ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("MEMORY USAGE none", None),
        ("MEMORY USAGE x SAMPLES", "ERR syntax error"),
        ("MEMORY USAGE x SAMPLES -1", "ERR syntax error"),
        ("MEMORY USAGE x SAMPLES bad", "ERR value is not an integer or out of range"),
        ("MEMORY USAGE none FOO", "ERR syntax error"),
        ("MEMORY USAGE", "ERR wrong number of arguments for 'memory|usage' command"),
    ],
)
def test_wrong_arguments_of_memory_usage(line: str, reply: object) -> None:
    node = Node(1)
    node.run("XADD x 1 f v")
    assert node(line) == reply


def small_entries(node: Node) -> None:
    for ms in range(1, 3001):
        node.replica.append(b"x", make_id(ms, 1), encode_fields([b"f", b"v"]))


def large_entries(node: Node) -> None:
    for ms in range(1, 301):
        node.replica.append(b"x", make_id(ms, 1), encode_fields([b"f", bytes(3000)]))


def pending_entries(node: Node) -> None:
    small_entries(node)
    node.run("XGROUP CREATE x g 0", "XGROUP CREATE x h 0")
    node.run("XREADGROUP GROUP g c STREAMS x >", "XREADGROUP GROUP h c COUNT 1000 STREAMS x >")


def many_consumers(node: Node) -> None:
    node.run("XADD x 1-1 f v", "XGROUP CREATE x g 0")
    node.run(*[f"XGROUP CREATECONSUMER x g c{number}" for number in range(500)])


def many_groups(node: Node) -> None:
    node.run("XADD x 1-1 f v")
    node.run(*[f"XGROUP CREATE x g{number} 0" for number in range(300)])
    node.run(*[f"XREADGROUP GROUP g{number} c STREAMS x >" for number in range(300)])


def named_by_producers(node: Node) -> None:
    node.run("XADD x 1-1 f v")
    node.replica.issue(SetStreamConfig(b"x", None, 10_000))
    for ms in range(2, 2000):
        name = IdempotentId(b"producer-%d" % (ms % 50), b"message-%d" % ms)
        node.replica.append(b"x", make_id(ms, 1), encode_fields([b"f", b"v"]), name)
    node.end_tick()
    node.replica.forget_stable(node.replica.vv)


def mostly_removed(node: Node) -> None:
    small_entries(node)
    for ms in range(1, 3001):
        if ms % 100:
            node.run(f"XDEL x {ms}-1")


@pytest.mark.long
@pytest.mark.parametrize(
    "fill",
    [
        small_entries,
        large_entries,
        pending_entries,
        many_consumers,
        many_groups,
        named_by_producers,
        mostly_removed,
    ],
)
@pytest.mark.parametrize("samples", ["", "SAMPLES 0"])
def test_memory_usage_is_near_what_is_held(fill: Callable[[Node], None], samples: str) -> None:
    """Python itself tells how much memory there is after all less than before."""
    fill(Node(2))  # what is made only once
    node = Node(1)
    # Objects that are there already are neither collected nor examined meanwhile.
    gc.freeze()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        fill(node)
        node.end_tick()
        node.log.clear()
        node.replica.touched.clear()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    told = node(f"MEMORY USAGE x {samples}")
    assert isinstance(told, int)
    assert 0.75 * held < told < 1.25 * held


def test_memory_usage_counts_a_deadline_and_many_small_keys() -> None:
    node = Node(1)
    node.run("XADD y 1 f v")
    gc.freeze()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(500):
            key = b"key%03d" % number
            node.replica.append(key, make_id(1, 1), encode_fields([b"f", b"v"]))
            node.replica.issue(SetExpiry(key, Millis(5000 + number)))
        node.end_tick()
        node.log.clear()
        node.replica.touched.clear()
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    told = node("MEMORY USAGE key007")
    assert isinstance(told, int)
    assert 0.75 * held < 500 * told < 1.25 * held


def test_object_idletime_of_a_key_that_was_just_written_is_no_second() -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v")
    assert node("OBJECT IDLETIME x") == 0
