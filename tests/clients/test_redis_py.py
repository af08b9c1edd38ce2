"""redis-py and valkey-py, blocking: every stream command, pipelines, transactions, errors."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.clients.conftest import wait_until_blocked
from tests.clients.libraries import Library, by_key, ids_of
from tests.resp.node import Node


@pytest.fixture
def r(node: Node, library: Library) -> Iterator[Any]:
    """A client that takes replies for text."""
    with library.connect(node.port, decode_responses=True) as client:
        yield client


@pytest.fixture
def other(node: Node, library: Library) -> Iterator[Any]:
    """A second client of the same node."""
    with library.connect(node.port, decode_responses=True) as client:
        yield client


# --- One command at a time ----------------------------------------------------------------------


def test_a_client_works_without_being_told_anything(node: Node) -> None:
    with redis.Redis(port=node.port) as client:
        assert client.ping()
        entry_id = client.xadd("s", {"text": "hello"})
        assert client.xrange("s") == [(entry_id, {b"text": b"hello"})]


@pytest.mark.parametrize("decodes", [False, True], ids=["bytes", "text"])
def test_replies_are_bytes_or_text_as_the_client_likes(
    node: Node, library: Library, decodes: bool
) -> None:
    def said(text: str) -> str | bytes:
        return text if decodes else text.encode()

    with library.connect(node.port, decode_responses=decodes) as r:
        entry_id = r.xadd("s", {"größe": "ü"})
        assert isinstance(entry_id, str if decodes else bytes)
        entries = [(entry_id, {said("größe"): said("ü")})]
        assert r.xrange("s") == entries
        assert by_key(r.xread({"s": 0})) == {said("s"): entries}
        assert r.xgroup_create("s", "g", 0)
        assert by_key(r.xreadgroup("g", "alice", {"s": ">"})) == {said("s"): entries}
        assert r.xpending("s", "g") == {
            "pending": 1,
            "min": entry_id,
            "max": entry_id,
            "consumers": [{"name": said("alice"), "pending": 1}],
        }


def test_streams_and_groups(r: Any) -> None:
    ids = [r.xadd("s", {"n": n}) for n in range(5)]
    assert r.xlen("s") == 5
    assert ids_of(r.xrange("s", min=f"({ids[0]}", count=2)) == ids[1:3]
    assert ids_of(r.xrevrange("s", count=2)) == ids[:-3:-1]
    assert ids_of(by_key(r.xread({"s": ids[2]}))["s"]) == ids[3:]

    assert r.xgroup_create("s", "g", id="0")
    assert r.xgroup_createconsumer("s", "g", "idle") == 1
    got = by_key(r.xreadgroup("g", "alice", {"s": ">"}, count=3))["s"]
    assert ids_of(got) == ids[:3]
    assert ids_of(by_key(r.xreadgroup("g", "alice", {"s": "0"}))["s"]) == ids[:3]
    assert r.xack("s", "g", *ids[:2]) == 2
    (pending,) = r.xpending_range("s", "g", "-", "+", 10)
    assert (pending["message_id"], pending["consumer"]) == (ids[2], "alice")
    assert pending["times_delivered"] == 2

    assert ids_of(r.xclaim("s", "g", "bob", 0, [ids[2]])) == [ids[2]]
    assert r.xclaim("s", "g", "bob", 0, [ids[2]], justid=True) == [ids[2]]
    cursor, claimed, deleted = r.xautoclaim("s", "g", "carol", 0)
    assert (cursor, ids_of(claimed), deleted) == ("0-0", [ids[2]], [])
    assert r.xautoclaim("s", "g", "carol", 0, justid=True) == [ids[2]]
    assert {row["name"]: row["pending"] for row in r.xinfo_consumers("s", "g")} == {
        "alice": 0, "bob": 0, "carol": 1, "idle": 0,
    }  # fmt: skip

    assert r.xgroup_delconsumer("s", "g", "carol") == 1
    assert r.xgroup_setid("s", "g", ids[4])
    assert r.xgroup_destroy("s", "g")
    assert r.xdel("s", ids[0]) == 1
    assert r.xtrim("s", maxlen=2, approximate=False) == 2
    assert r.xtrim("s", minid=ids[4], approximate=False) == 1
    assert ids_of(r.xrange("s")) == [ids[4]]


def test_keys(r: Any) -> None:
    for n in range(25):
        r.xadd(f"s{n}", {"n": n})
    assert (r.type("s1"), r.exists("s1", "s2", "none"), r.dbsize()) == ("stream", 2, 25)
    everything = {f"s{n}" for n in range(25)}
    assert set(r.keys("*")) == set(r.scan_iter(count=3)) == everything
    assert set(r.scan_iter(match="s1?", _type="stream")) == {f"s1{n}" for n in range(10)}
    assert r.rename("s1", "moved")
    assert r.delete("moved", "s2", "none") == 2
    assert r.unlink("s3") == 1
    assert r.flushdb()
    assert r.dbsize() == 0


def test_xinfo_shows_streams_groups_and_consumers(r: Any) -> None:
    first, second = (r.xadd("s", {"n": n}) for n in range(2))
    r.xgroup_create("s", "g", id="0")
    r.xreadgroup("g", "alice", {"s": ">"}, count=1)

    stream = r.xinfo_stream("s")
    assert (stream["length"], stream["groups"], stream["entries-added"]) == (2, 1, 2)
    assert stream["first-entry"] == (first, {"n": "0"})
    assert stream["last-entry"] == (second, {"n": "1"})
    assert stream["last-generated-id"] == second

    (group,) = r.xinfo_groups("s")
    assert (group["name"], group["consumers"], group["pending"]) == ("g", 1, 1)
    assert (group["last-delivered-id"], group["entries-read"], group["lag"]) == (first, 1, 1)

    full = r.xinfo_stream("s", full=True)
    assert full["entries"] == {first: {"n": "0"}, second: {"n": "1"}}
    (group,) = full["groups"]
    assert group["pel-count"] == 1
    (consumer,) = group["consumers"]
    assert consumer["name"] == "alice"
    assert [row[0] for row in consumer["pending"]] == [first]


def test_values_of_any_bytes_survive(node: Node, library: Library) -> None:
    value = bytes(range(256)) * 100
    key = value[:300]
    with library.connect(node.port) as r:
        entry_id = r.xadd(key, {value: value, b"": b""})
        entries = [(entry_id, {value: value, b"": b""})]
        assert r.xrange(key) == entries
        assert by_key(r.xread({key: 0})) == {key: entries}
        r.xgroup_create(key, value, 0)
        assert by_key(r.xreadgroup(value, value, {key: ">"})) == {key: entries}
        assert r.xinfo_consumers(key, value)[0]["name"] == value
        assert r.keys() == [key]


# --- Pipelines and transactions -----------------------------------------------------------------


def test_a_pipeline_is_a_transaction(r: Any) -> None:
    with r.pipeline() as pipe:
        pipe.xadd("s", {"a": 1}).xadd("s", {"a": 2}).xlen("s")
        first, second, length = pipe.execute()
    assert ids_of(r.xrange("s")) == [first, second]
    assert length == 2


def test_a_plain_pipeline_is_many_commands_at_once(r: Any) -> None:
    with r.pipeline(transaction=False) as pipe:
        for n in range(5000):
            pipe.xadd("s", {"n": n})
        ids = pipe.execute()
    assert ids_of(r.xrange("s")) == ids
    assert len(set(ids)) == 5000


def test_an_error_in_a_pipeline_stands_in_its_place(r: Any, library: Library) -> None:
    for is_transaction in (True, False):
        r.delete("s")
        with r.pipeline(transaction=is_transaction) as pipe:
            pipe.xadd("s", {"a": 1}).xgroup_create("none", "g").xlen("s")
            replies = pipe.execute(raise_on_error=False)
        assert isinstance(replies[1], library.module.ResponseError)
        assert replies[2] == 1


def test_a_transaction_with_a_command_that_is_none_does_nothing(r: Any, library: Library) -> None:
    with r.pipeline() as pipe:
        pipe.xadd("s", {"a": 1})
        pipe.execute_command("XADD", "s")
        with pytest.raises(library.module.ResponseError, match="wrong number of arguments"):
            pipe.execute()
    assert r.xlen("s") == 0


def test_watch_makes_a_transaction_try_again(r: Any, other: Any) -> None:
    attempts = 0

    def append_its_length(pipe: Any) -> None:
        nonlocal attempts
        attempts += 1
        length = pipe.xlen("s")
        if attempts == 1:
            other.xadd("s", {"from": "elsewhere"})
        pipe.multi()
        pipe.xadd("s", {"length": length})

    r.transaction(append_its_length, "s")
    assert attempts == 2
    assert [fields for _, fields in r.xrange("s")] == [{"from": "elsewhere"}, {"length": "1"}]


def test_a_lost_watch_is_an_error(r: Any, other: Any, library: Library) -> None:
    with r.pipeline() as pipe:
        pipe.watch("s")
        other.xadd("s", {"a": 1})
        pipe.multi()
        pipe.xadd("s", {"a": 2})
        with pytest.raises(library.module.WatchError):
            pipe.execute()
    with r.pipeline() as pipe:
        pipe.watch("s")
        other.xadd("s", {"a": 3})
        pipe.unwatch()
        pipe.multi()
        pipe.xadd("s", {"a": 4})
        assert len(pipe.execute()) == 1


# --- Errors -------------------------------------------------------------------------------------


def test_errors_have_the_library_s_own_types(r: Any, library: Library) -> None:
    error = library.module.ResponseError
    with pytest.raises(error, match=r"^unknown command 'LPUSH'"):
        r.lpush("k", "v")
    with pytest.raises(error, match=r"^NOGROUP"):
        r.xreadgroup("g", "c", {"none": ">"})
    with pytest.raises(error, match="requires the key to exist"):
        r.xgroup_create("none", "g")
    with pytest.raises(error, match=r"^no such key"):
        r.xinfo_stream("none")
    with pytest.raises(error, match="DB index is out of range"):
        r.select(3)

    r.xgroup_create("s", "g", mkstream=True)
    with pytest.raises(error, match=r"^BUSYGROUP"):
        r.xgroup_create("s", "g")
    with pytest.raises(error, match=r"^Invalid stream ID"):
        r.xrange("s", min="nonsense")
    r.xadd("s", {"a": 1}, id="5-*")
    with pytest.raises(error, match="equal or smaller than the target stream top item"):
        r.xadd("s", {"a": 1}, id="4-*")
    with pytest.raises(error, match="not allowed in strict mode"):
        r.xadd("s", {"a": 1}, id="6-6")


# --- Blocking reads -----------------------------------------------------------------------------


def test_a_blocking_read_gives_up_in_time(r: Any) -> None:
    assert not r.xread({"s": "$"}, block=10)
    r.xgroup_create("s", "g", mkstream=True)
    assert not r.xreadgroup("g", "alice", {"s": ">"}, block=10)


def test_another_client_wakes_a_blocking_read(r: Any, other: Any, node: Node) -> None:
    appended: list[str] = []

    def append() -> None:
        wait_until_blocked(node)
        with other.pipeline() as pipe:
            pipe.xadd("s", {"n": 1}).xadd("s", {"n": 2})
            appended.extend(pipe.execute())

    thread = threading.Thread(target=append)
    thread.start()
    reply = r.xread({"none": "$", "s": "$"}, block=10_000)
    thread.join()
    # Two appends of one transaction arrive together.
    assert {key: ids_of(entries) for key, entries in by_key(reply).items()} == {"s": appended}


def test_consumers_that_wait_get_an_entry_each(r: Any, node: Node, library: Library) -> None:
    r.xgroup_create("s", "g", mkstream=True)
    got: dict[str, list[str]] = {}

    def consume(name: str) -> None:
        with library.connect(node.port, decode_responses=True) as consumer:
            reply = consumer.xreadgroup("g", name, {"s": ">"}, count=1, block=10_000)
            got[name] = ids_of(by_key(reply)["s"])
            consumer.xack("s", "g", *got[name])

    threads = [threading.Thread(target=consume, args=(f"c{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    wait_until_blocked(node, 3)
    ids = [r.xadd("s", {"n": n}) for n in range(3)]
    for thread in threads:
        thread.join()
    assert sorted(got.values()) == [[entry_id] for entry_id in ids]
    assert r.xpending("s", "g")["pending"] == 0


def test_the_newest_entry_alone(r: Any) -> None:
    r.xadd("s", {"n": 1})
    newest = r.xadd("s", {"n": 2})
    assert ids_of(by_key(r.xread({"s": "+"}))["s"]) == [newest]


def test_redis_py_s_unified_replies(node: Node) -> None:
    """With ``legacy_responses=False`` both protocols yield the same objects."""
    replies: list[Any] = []
    for protocol in (2, 3):
        with redis.Redis(
            port=node.port, protocol=protocol, legacy_responses=False, decode_responses=True
        ) as r:
            if not replies:
                r.xadd("s", {"a": 1})
            r.xgroup_create("s", f"g{protocol}", 0)
            replies.append(
                (
                    r.xread({"s": 0}),
                    r.xreadgroup(f"g{protocol}", "c", {"s": ">"}),
                    r.xautoclaim("s", f"g{protocol}", "d", 0),
                )
            )
    assert replies[0] == replies[1]
