"""Methods that redis-py has since Redis 8.2: deleting by reference, idempotence, claiming."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tests.clients.libraries import by_key, ids_of
from tests.patience import wait_until
from tests.resp.node import Node


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def r(node: Node, request: pytest.FixtureRequest) -> Iterator[Any]:
    with redis.Redis(port=node.port, protocol=request.param, decode_responses=True) as client:
        yield client


def filled(r: Any, count: int, **options: Any) -> list[str]:
    """IDs of new entries in s."""
    return [r.xadd("s", {"n": n}, **options) for n in range(count)]


def pending_ids(r: Any, group: str = "g") -> list[str]:
    return [row["message_id"] for row in r.xpending_range("s", group, "-", "+", 100)]


# --- 8.2: what deleting does to references --------------------------------------------------------


def test_xdelex_keeps_references_by_default(r: Any) -> None:
    first, second = filled(r, 2)
    r.xgroup_create("s", "g", 0)
    r.xreadgroup("g", "alice", {"s": ">"})
    assert r.xdelex("s", first, "1-1") == [1, -1]
    assert ids_of(r.xrange("s")) == [second]
    assert pending_ids(r) == [first, second]
    assert r.xdelex("none", "1-1") == [-1]


def test_xdelex_delref_takes_references_too(r: Any) -> None:
    first, second = filled(r, 2)
    for group in ("g", "h"):
        r.xgroup_create("s", group, 0)
        r.xreadgroup(group, "alice", {"s": ">"})
    assert r.xdelex("s", first, ref_policy="DELREF") == [1]
    assert ids_of(r.xrange("s")) == [second]
    assert pending_ids(r, "g") == pending_ids(r, "h") == [second]


def test_xdelex_acked_deletes_what_every_group_is_done_with(r: Any) -> None:
    acked, pending, unread = filled(r, 3)
    r.xgroup_create("s", "g", 0)
    r.xreadgroup("g", "alice", {"s": ">"}, count=2)
    r.xack("s", "g", acked)
    assert r.xdelex("s", acked, pending, unread, "1-1", ref_policy="ACKED") == [1, 2, 2, -1]
    assert ids_of(r.xrange("s")) == [pending, unread]


@pytest.mark.parametrize(
    ("policy", "deleted", "elsewhere"), [("KEEPREF", 1, 1), ("DELREF", 1, 0), ("ACKED", 2, 1)]
)
def test_xackdel_acknowledges_and_deletes(
    r: Any, policy: Any, deleted: int, elsewhere: int
) -> None:
    (entry_id,) = filled(r, 1)
    for group in ("g", "h"):
        r.xgroup_create("s", group, 0)
        r.xreadgroup(group, "alice", {"s": ">"})
    assert r.xackdel("s", "g", entry_id, "1-1", ref_policy=policy) == [deleted, -1]
    assert pending_ids(r, "g") == []
    assert len(pending_ids(r, "h")) == elsewhere
    assert r.xlen("s") == (policy == "ACKED")
    if policy == "ACKED":
        # The last group that is done with it takes the entry along.
        assert r.xackdel("s", "h", entry_id, ref_policy=policy) == [1]
        assert r.xlen("s") == 0


def test_trimming_by_reference(r: Any) -> None:
    ids = filled(r, 4)
    r.xgroup_create("s", "g", 0)
    r.xreadgroup("g", "alice", {"s": ">"}, count=3)
    r.xack("s", "g", ids[0])
    # Wants to take three, may take one: the others are pending.
    assert r.xtrim("s", maxlen=1, approximate=False, ref_policy="ACKED") == 1
    assert ids_of(r.xrange("s")) == ids[1:]
    assert r.xtrim("s", maxlen=2, approximate=False, ref_policy="KEEPREF") == 1
    assert pending_ids(r) == ids[1:3]
    newest = r.xadd("s", {"n": 4}, maxlen=2, approximate=False, ref_policy="DELREF")
    assert ids_of(r.xrange("s")) == [ids[3], newest]
    # DELREF freed what it trimmed itself; what was trimmed before stays referenced.
    assert pending_ids(r) == [ids[1]]


# --- 8.4: claiming while reading ------------------------------------------------------------------


def test_xreadgroup_claims_what_was_idle_for_long(r: Any, node: Node) -> None:
    first, second = filled(r, 2)
    r.xgroup_create("s", "g", 0)
    r.xreadgroup("g", "crashed", {"s": ">"}, count=1)
    wait_until(
        lambda: r.xpending_range("s", "g", "-", "+", 1)[0]["time_since_delivered"] >= 5, "idle"
    )
    got = by_key(r.xreadgroup("g", "alice", {"s": ">"}, claim_min_idle_time=5))["s"]
    # Claimed ones come first; each entry tells how long it was idle and how often delivered.
    assert [(entry[0], int(entry[3])) for entry in got] == [(first, 1), (second, 0)]
    assert int(got[0][2]) >= 5
    assert {row["consumer"] for row in r.xpending_range("s", "g", "-", "+", 10)} == {"alice"}
    assert not r.xreadgroup("g", "bob", {"s": ">"}, claim_min_idle_time=600_000)


def test_an_entry_may_become_idle_enough_during_a_blocking_read(r: Any) -> None:
    (entry_id,) = filled(r, 1)
    r.xgroup_create("s", "g", 0)
    r.xreadgroup("g", "crashed", {"s": ">"})
    reply = r.xreadgroup("g", "alice", {"s": ">"}, claim_min_idle_time=100, block=20_000)
    assert [entry[0] for entry in by_key(reply)["s"]] == [entry_id]


# --- 8.6: idempotent producers --------------------------------------------------------------------


def test_xadd_with_the_producer_s_own_id_adds_once(r: Any) -> None:
    first = r.xadd("s", {"n": 1}, idmp=("producer", b"id-1"))
    assert r.xadd("s", {"n": 1}, idmp=("producer", b"id-1")) == first
    assert r.xadd("s", {"n": 1}, idmp=("producer", b"id-2")) != first
    assert r.xadd("s", {"n": 1}, idmp=("another", b"id-1")) != first
    assert r.xlen("s") == 3


def test_xadd_with_an_id_of_the_fields_adds_once(r: Any) -> None:
    first = r.xadd("s", {"n": 1}, idmpauto="producer")
    assert r.xadd("s", {"n": 1}, idmpauto="producer") == first
    assert r.xadd("s", {"n": 2}, idmpauto="producer") != first
    assert r.xadd("s", {"n": 1}, idmpauto="another") != first
    assert r.xlen("s") == 3


def test_a_pipeline_sent_twice_adds_once(r: Any) -> None:
    replies = []
    for _ in range(2):
        with r.pipeline() as pipe:
            for n in range(10):
                pipe.xadd("s", {"n": n}, idmp=("producer", str(n).encode()))
            replies.append(pipe.execute())
    assert replies[0] == replies[1]
    assert r.xlen("s") == 10


@pytest.fixture
def newer(r: Any) -> Iterator[None]:
    """The node says that it is a Redis whose XINFO tells of producers."""
    r.config_set("redis-version", "8.6.0")
    yield
    r.config_set("redis-version", "8.2.3")


@pytest.mark.usefixtures("newer")
def test_xcfgset_bounds_what_is_remembered(r: Any) -> None:
    r.xadd("s", {"n": 0}, idmp=("producer", b"0"))
    assert r.xcfgset("s", idmp_duration=200, idmp_maxsize=2)
    stream = r.xinfo_stream("s")
    assert (stream["idmp-duration"], stream["idmp-maxsize"]) == (200, 2)
    ids = [r.xadd("s", {"n": n}, idmp=("producer", str(n).encode())) for n in range(1, 4)]
    assert r.xadd("s", {"n": 3}, idmp=("producer", b"3")) == ids[2]
    assert r.xadd("s", {"n": 1}, idmp=("producer", b"1")) not in ids
    with pytest.raises(redis.ResponseError):
        r.xcfgset("none", idmp_duration=1)


@pytest.mark.usefixtures("newer")
def test_xinfo_tells_of_producers(r: Any) -> None:
    r.xadd("s", {"n": 1}, idmp=("a", b"1"))
    r.xadd("s", {"n": 2}, idmp=("b", b"1"))
    r.xadd("s", {"n": 2}, idmp=("b", b"1"))
    stream = r.xinfo_stream("s")
    assert (stream["pids-tracked"], stream["iids-tracked"]) == (2, 2)
    assert (stream["iids-added"], stream["iids-duplicates"]) == (2, 1)


# --- 8.8: giving back -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "times_delivered"), [("SILENT", 0), ("FAIL", 1), ("FATAL", 2**63 - 1)]
)
def test_xnack_gives_back_at_once(r: Any, mode: Any, times_delivered: int) -> None:
    (entry_id,) = filled(r, 1)
    r.xgroup_create("s", "g", 0)
    r.xreadgroup("g", "alice", {"s": ">"})
    assert r.xnack("s", "g", mode, entry_id, "1-1") == 1
    (row,) = r.xpending_range("s", "g", "-", "+", 10)
    assert (row["message_id"], row["consumer"]) == (entry_id, "")
    assert row["times_delivered"] == times_delivered
    claimed = r.xautoclaim("s", "g", "bob", 60_000)[1]
    assert ids_of(claimed) == [entry_id]


# --- 8.10: bounds over all streams of a reply -----------------------------------------------------


def test_reads_bounded_over_all_streams(r: Any) -> None:
    for key in ("a", "b"):
        for n in range(5):
            r.xadd(key, {"n": n})
        r.xgroup_create(key, "g", 0)

    def count(reply: Any) -> int:
        return sum(len(entries) for entries in by_key(reply).values())

    assert count(r.xread({"a": 0, "b": 0}, count=5, max_count=7)) == 7
    assert count(r.xread({"a": 0, "b": 0}, max_size=1)) == 1
    assert count(r.xreadgroup("g", "c", {"a": ">", "b": ">"}, count=4, max_count=6)) == 6
    # What was left out was not delivered: nothing is lost.
    assert r.xpending("a", "g")["pending"] + r.xpending("b", "g")["pending"] == 6
    assert count(r.xreadgroup("g", "c", {"a": ">", "b": ">"})) == 4
