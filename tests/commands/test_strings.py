"""Strings, beside what ``like_redis`` compares: limits, DUMP, scripts that write, BLPOP."""

import zlib

import pytest

from crdtstream.commands import string_room
from crdtstream.commands.keys import dumping
from crdtstream.commands.keys.dumping import HASH_BYTES, MAGIC, decode_dump, encode_string_dump
from crdtstream.commands.reply import OK, CommandError
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.admission import Pause, PostponedError
from crdtstream.database.database import WAITING, Database
from tests.commands.test_dumping import call, payload_of, refusal
from tests.harness.regions import Node, sync
from tests.harness.waiting_clients import Clients

RELEASE = "c3f8721cbb97f72bc19e972846bd7aaf91901658"
NO_ROOM = "ERR more than"

# --- Limits -------------------------------------------------------------------------------------


@pytest.mark.pure
@pytest.mark.parametrize("line", ["MSET a 12345 b 12345", "MSETNX a 12345 b 12345"])
def test_more_than_a_batch_takes_is_refused(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(string_room.STRINGS_BYTES_MAX, "value", 15)
    node = Node(1)
    assert str(node(line)).startswith(NO_ROOM)
    assert not node.replica.has_open_record


@pytest.mark.pure
@pytest.mark.parametrize("line", ["COPY a b", "RENAME a b"])
def test_copies_in_one_transaction_do_not_grow_without_end(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    node = Node(1)
    node.run("SET a 1234567890")
    monkeypatch.setattr(string_room.STRINGS_BYTES_MAX, "value", 20)
    assert node(line) in (1, "OK")
    assert str(node("COPY b c")).startswith(NO_ROOM)
    assert node("EXISTS c") == 0
    node.end_tick()
    assert node("COPY b c") == 1


def test_bytes_of_strings_count_for_the_size_of_a_batch() -> None:
    """As entries do: a pipeline of them must not become one record."""
    node = Node(1)
    node("SET key 1234567890")
    assert node.replica.open_bytes == 13


def test_a_large_value_is_any_bytes() -> None:
    one, two = Node(1), Node(2)
    value = bytes(range(256)) * 4096
    assert call(one, b"SET", b"k", value) == OK
    one.end_tick()
    sync(one, two)
    assert call(two, b"GET", b"k") == value
    assert call(two, b"STRLEN", b"k") == len(value)


@pytest.mark.parametrize("line", ["SET {} v", "SET {} v PX 100000"])
def test_memory_usage_grows_with_the_value(line: str) -> None:
    node = Node(1)
    node(line.format("k"))
    small = node("MEMORY USAGE k")
    call(node, b"SET", b"k", bytes(5000), b"KEEPTTL")
    large = node("MEMORY USAGE k")
    assert isinstance(small, int)
    assert isinstance(large, int)
    assert large - small == 4999


# --- DUMP and RESTORE ---------------------------------------------------------------------------


def test_a_string_is_dumped_and_restored_elsewhere() -> None:
    one, two = Node(1), Node(2)
    one.run("SET x text PX 5000")
    payload = payload_of(one)
    assert payload == encode_string_dump(b"text")
    assert decode_dump(payload) == b"text"
    assert call(two, b"RESTORE", b"y", b"0", payload) == OK
    assert two("GET y") == "text"
    assert two("PTTL y") == -1
    two.run("XADD z 1-1 f v")
    assert isinstance(call(two, b"RESTORE", b"z", b"700", payload), CommandError)
    assert call(two, b"RESTORE", b"z", b"700", payload, b"REPLACE") == OK
    assert (two("TYPE z"), two("PTTL z")) == ("string", 700)
    assert call(two, b"RESTORE", b"z", b"1", payload, b"REPLACE", b"ABSTTL") == OK
    assert two("EXISTS z") == 0


def test_a_damaged_payload_of_a_string_is_refused() -> None:
    node = Node(1)
    payload = encode_string_dump(b"text")
    assert "cut or changed" in refusal(node, payload[:-1])
    # Two strings, or a string and its deadline, are no string.
    batch = zlib.decompress(payload[len(MAGIC) + 1 : -HASH_BYTES])
    assert "Bad data format" in refusal(node, dumping.frame(batch + batch[-12:]))


@pytest.mark.pure
def test_a_string_that_is_too_long_to_dump_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumping.DUMP_BYTES_MAX, "value", 9)
    node = Node(1)
    node.run("SET x 1234567890")
    assert str(node("DUMP x")).startswith("ERR the string has more than")


# --- Scripts are writes -------------------------------------------------------------------------


def database() -> Database:
    return Database(Replica(RegionId(1)))


@pytest.mark.parametrize("name", [b"EVALSHA", b"EVAL"])
def test_a_script_is_refused_while_the_disk_refuses(name: bytes) -> None:
    data = database()
    data.fault = "no space left"
    reply = data.call(data.open_session(), Millis(1), [name, RELEASE.encode(), b"1", b"k", b"t"])
    assert isinstance(reply, CommandError)
    assert reply.text == "MISCONF no space left"


def test_a_script_waits_while_writes_are_paused() -> None:
    data = database()
    data.pause = Pause.WRITE
    with pytest.raises(PostponedError):
        data.call(data.open_session(), Millis(1), [b"EVALSHA", RELEASE.encode(), b"0"])


def test_a_release_is_one_effect_and_a_refused_one_none() -> None:
    node = Node(1)
    node.run("SET k token")
    issued = node.replica.issued
    assert node.run(f"EVALSHA {RELEASE} 1 k other") == 0
    assert node.replica.issued == issued
    assert node.run(f"EVALSHA {RELEASE} 1 k token") == 1
    assert node.replica.issued == issued + 1


# --- BLPOP: waiting for a lock of walrus --------------------------------------------------------


def test_blpop_waits_until_the_lock_is_gone() -> None:
    clients = Clients(Replica(RegionId(1)))
    assert clients("BLPOP lock.event:a 0") == ["lock.event:a", "1"]
    clients("SET lock:a token PX 500")
    assert clients("BLPOP lock.event:a 0", "B") is WAITING
    clients("SET lock:a other PX 500")
    assert clients.settle() == {}
    clients("DEL lock:a")
    assert clients.settle() == {"B": ["lock.event:a", "1"]}


def test_blpop_ends_with_the_lock_s_deadline_or_its_own() -> None:
    clients = Clients(Replica(RegionId(1)))
    clients("SET lock:a token PX 500")
    assert clients("BLPOP lock.event:a 2", "B") is WAITING
    assert clients("BLPOP lock.event:a 0.25", "C") is WAITING
    assert clients.wait(251) == {"C": None}
    assert clients.wait(250) == {"B": ["lock.event:a", "1"]}


def test_blpop_hears_of_another_region_s_release() -> None:
    one, two = Node(1), Node(2)
    one.run("SET lock:a token")
    sync(one, two)
    clients = Clients(two.replica)
    assert clients("BLPOP lock.event:a 0", "B") is WAITING
    one.run("DEL lock:a")
    two.pull(one)
    assert clients.settle() == {"B": ["lock.event:a", "1"]}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("BLPOP queue 1", "ERR there are no lists here"),
        ("BLPOP lock.event:a queue 1", "ERR there are no lists here"),
        ("BLPOP lock.event:a x", "ERR timeout is not a float or out of range"),
        ("BLPOP lock.event:a nan", "ERR timeout is not a float or out of range"),
        ("BLPOP lock.event:a inf", "ERR timeout is not a float or out of range"),
        ("BLPOP lock.event:a -1", "ERR timeout is negative"),
        ("BLPOP lock.event:a 1e300", "ERR timeout is out of range"),
        ("BLPOP 1", "ERR wrong number of arguments for 'blpop' command"),
    ],
)
def test_blpop_refuses_wrong_arguments(line: str, error: str) -> None:
    assert Clients(Replica(RegionId(1)))(line).startswith(error)


def test_blpop_in_a_transaction_does_not_wait() -> None:
    clients = Clients(Replica(RegionId(1)))
    clients("SET lock:a token")
    clients("MULTI")
    clients("BLPOP lock.event:a 0")
    assert clients("EXEC") == [None]


# --- Streams beside them ------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["CRDT.XREAD k -", "CRDT.XREAD k - BLOCK 10", "CRDT.WHY k 1-1"])
def test_our_own_commands_on_streams_refuse_a_string(line: str) -> None:
    node = Node(1)
    node.run("SET k v")
    assert str(node(line)).startswith("WRONGTYPE")


def test_info_counts_strings() -> None:
    node = Node(1)
    node.run("SET k v PX 500", "SET j v", "XADD x 1-1 f v", "PEXPIRE x 700")
    assert len(node.replica) == 3
    assert node.replica.keys.expiring_count == 2
    assert node.replica.keys.mean_deadline() == 1600
    assert node.replica.keys.next_deadline() == 1500
