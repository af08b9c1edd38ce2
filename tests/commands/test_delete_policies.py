"""XDELEX, XACKDEL and trimming under a policy, in one region and in several.

One region is compared with Redis 8.2 in ``tests/like_redis/scripts/references.txt``; approximate
trimming is not, because there 8.2 and 8.4 trim nothing at all (redis#14623, mended in 8.6).
"""

import pytest

from crdtstream.commands.streams import trimming
from crdtstream.core.effects import Effect, Remove, Trim
from crdtstream.core.ids import RegionId, make_id
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of
from tests.harness.waiting_clients import Clients


def filled(entries: int, *, node_entries_max: int = 100) -> Node:
    """Entries 1, 2 … in s, all handed out to a in group g."""
    node = Node(1)
    node.replica.node_limits.entries_max = node_entries_max
    node.run(*(f"XADD s {ms} f v" for ms in range(1, entries + 1)), "XGROUP CREATE s g 0")
    node.run("XREADGROUP GROUP g a STREAMS s >")
    return node


def ids(node: Node) -> list[int]:
    """Entries of s, by their milliseconds."""
    found = list_of(str, node("XRANGE s - +"))
    return [int(entry_id.partition("-")[0]) for entry_id in found]


def pending(node: Node, group: str = "g") -> list[str]:
    return [row[0] for row in list_of(list, node(f"XPENDING s {group} - + 100"))]


# --- Approximate trimming -----------------------------------------------------------------------


def test_acked_takes_from_whole_nodes_what_it_may_and_goes_on() -> None:
    node = filled(13, node_entries_max=4)
    node("XACK s g 2 5 6 7 8 9")
    # Nodes 1…4, 5…8 and 9…12 could go whole; of them these may.
    assert node("XTRIM s MAXLEN ~ 0 ACKED") == 6
    assert ids(node) == [1, 3, 4, 10, 11, 12, 13]
    assert node("XTRIM s MAXLEN ~ 0 ACKED") == 0


def test_acked_looks_into_a_node_only_if_all_of_it_could_go() -> None:
    node = filled(9, node_entries_max=4)
    node("XACK s g 1 2 3 5 6")
    assert node("XTRIM s MAXLEN ~ 6 ACKED") == 0
    assert node("XTRIM s MAXLEN ~ 5 ACKED") == 3
    assert ids(node) == [4, 5, 6, 7, 8, 9]
    assert node("XTRIM s MINID ~ 8 ACKED") == 0
    assert node("XTRIM s MINID ~ 9 ACKED") == 2
    assert ids(node) == [4, 7, 8, 9]


def test_the_limit_counts_what_goes() -> None:
    node = filled(9, node_entries_max=4)
    node("XACK s g 1 2 5 6")
    assert node("XTRIM s MAXLEN ~ 0 ACKED LIMIT 3") == 0
    assert node("XTRIM s MAXLEN ~ 0 ACKED LIMIT 5") == 2
    assert node("XTRIM s MAXLEN ~ 0 ACKED LIMIT 6") == 2
    assert ids(node) == [3, 4, 7, 8, 9]


def test_acked_without_any_group_takes_all() -> None:
    node = Node(1)
    node.replica.node_limits.entries_max = 2
    node.run(*(f"XADD s {ms} f v" for ms in range(1, 6)))
    assert node("XTRIM s MINID ~ 5 ACKED") == 4
    assert node("XTRIM s MAXLEN 0 ACKED") == 1


def test_acked_stops_where_no_group_has_come() -> None:
    node = Node(1)
    node.replica.node_limits.entries_max = 2
    node.run(*(f"XADD s {ms} f v" for ms in range(1, 9)), "XGROUP CREATE s g 0")
    node.run("XREADGROUP GROUP g a COUNT 3 NOACK STREAMS s >", "XGROUP CREATE s h 2")
    assert node("XTRIM s MAXLEN ~ 0 ACKED") == 2
    node.run("XREADGROUP GROUP h a COUNT 4 NOACK STREAMS s >")
    assert node("XTRIM s MAXLEN ~ 0 ACKED") == 1
    assert ids(node) == [4, 5, 6, 7, 8]


def test_delref_takes_whole_nodes_with_what_is_pending() -> None:
    node = filled(9, node_entries_max=4)
    assert node("XTRIM s MAXLEN ~ 6 DELREF") == 0
    assert node("XADD s MAXLEN ~ 5 DELREF 10 f v") == "10-0"
    assert ids(node) == [5, 6, 7, 8, 9, 10]
    assert pending(node) == ["5-0", "6-0", "7-0", "8-0", "9-0"]
    assert node("XTRIM s MINID ~ 9 DELREF LIMIT 3") == 0
    assert node("XTRIM s MINID ~ 9 DELREF LIMIT 4") == 4
    assert pending(node) == ["9-0"]


@pytest.mark.pure
@pytest.mark.parametrize("strategy", ["MAXLEN 0", "MAXLEN ~ 0", "MINID 99"])
def test_one_command_removes_no_more_ids_than_a_batch_may_hold(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming.REMOVED_IDS_MAX, "value", 3)
    node = filled(8, node_entries_max=2)
    assert [node(f"XTRIM s {strategy} DELREF") for _ in range(4)] == [3, 3, 2, 0]
    assert pending(node) == []


# --- How it travels -----------------------------------------------------------------------------


@pytest.mark.pure
def test_a_policy_travels_by_id_and_a_plain_trim_as_a_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = filled(4)
    issued: list[Effect] = []
    issue = node.replica.issue

    def noted(effect: Effect) -> None:
        issued.append(effect)
        issue(effect)

    monkeypatch.setattr(node.replica, "issue", noted)
    node("XACK s g 2")
    for line in ("MAXLEN 0 ACKED", "MAXLEN 2 DELREF", "MAXLEN 1 KEEPREF"):
        node(f"XTRIM s {line}")
    node("XDELEX s IDS 1 4")
    lane = RegionId(1)
    first, second, third, fourth = (make_id(ms, 0) for ms in (1, 2, 3, 4))
    assert issued == [
        Remove(b"s", {lane: (second,)}, trims=True),
        Remove(b"s", {lane: (first,)}, with_references=True, trims=True),
        Trim(b"s", {lane: third}),
        Remove(b"s", {lane: (fourth,)}),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "XDELEX s DELREF IDS 1 1",
        "XACKDEL s g DELREF IDS 1 1",
        "XTRIM s MAXLEN 1 DELREF",
        "XADD s MAXLEN 2 DELREF 3 f v",
    ],
)
def test_delref_reaches_what_is_pending_in_other_regions(line: str) -> None:
    r1, r2, r3 = filled(2), Node(2), Node(3)
    r1.run("XGROUP CREATE s h 0")
    sync(r1, r2, r3)
    for group in ("g", "h"):
        r2.run(f"XREADGROUP GROUP {group} b STREAMS s >")
    r3.run("XREADGROUP GROUP h b STREAMS s >", "XNACK s h FAIL IDS 1 1")
    r1.run(line)
    sync(r1, r2, r3)
    assert pending(r2, "g") == pending(r2, "h") == pending(r3, "h") == ["2-0"]


def test_delref_reaches_what_dangles_in_other_regions() -> None:
    r1, r2 = filled(1), Node(2)
    r1.run("XACK s g 1")
    sync(r1, r2)
    r2.run("XADD s 2 f v", "XREADGROUP GROUP g b STREAMS s >", "XDEL s 2")
    sync(r1, r2)
    assert pending(r1) == []
    assert pending(r2) == ["2-0"]
    # r1 knows of no such entry, nor of one pending; r2 hears of it all the same.
    assert r1.run("XDELEX s DELREF IDS 1 2") == [-1]
    sync(r1, r2)
    assert pending(r2) == []


def test_delref_spares_an_entry_that_it_had_not_observed() -> None:
    r1, r2 = filled(1), Node(2)
    sync(r1, r2)
    r2.run("XADD s 5 f v", "XREADGROUP GROUP g b STREAMS s >")
    assert r1.run("XDELEX s DELREF IDS 1 5") == [-1]
    sync(r1, r2)
    assert pending(r2) == ["1-0", "5-0"]
    assert r1("XLEN s") == 2


def test_keepref_leaves_what_is_pending_in_other_regions() -> None:
    r1, r2 = filled(1), Node(2)
    sync(r1, r2)
    r2.run("XREADGROUP GROUP g b STREAMS s >")
    assert r1.run("XACKDEL s g IDS 1 1") == [1]
    r2.pull(r1)
    # Acknowledged in a row there, it is done with here too.
    assert pending(r2) == []
    r1.run("XADD s 2 f v", "XREADGROUP GROUP g a STREAMS s >")
    sync(r1, r2)
    r2.run("XREADGROUP GROUP g b STREAMS s >")
    r1.run("XDELEX s IDS 1 2")
    sync(r1, r2)
    assert pending(r2) == ["2-0"]
    assert Clients(r2.replica)("XREADGROUP GROUP g b STREAMS s 0") == [["s", [["2-0", None]]]]


def test_acked_asks_what_this_region_knows() -> None:
    r1, r2 = filled(2), Node(2)
    sync(r1, r2)
    # r2 handed out nothing itself, and has not heard of any acknowledgement.
    assert r2.run("XDELEX s ACKED IDS 1 1") == [2]
    r1.run("XACK s g 1")
    sync(r1, r2)
    assert r2.run("XTRIM s MAXLEN 0 ACKED") == 1
    sync(r1, r2)
    assert ids(r1) == [2]


def test_acked_here_an_entry_may_still_be_pending_elsewhere() -> None:
    r1, r2 = filled(1), Node(2)
    sync(r1, r2)
    r2.run("XREADGROUP GROUP g b STREAMS s >")
    assert r1.run("XACKDEL s g ACKED IDS 1 1") == [1]
    sync(r1, r2)
    assert ids(r2) == []


def test_an_id_in_two_lanes_goes_from_both_or_with_acked_from_none() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s 1 f one")
    r2.run("XADD s 1 f two")
    sync(r1, r2)
    r1.run("XGROUP CREATE s g 0", "XREADGROUP GROUP g a COUNT 1 STREAMS s >", "XACK s g 1")
    assert r1("XDELEX s ACKED IDS 1 1") == [2]
    assert r1("XLEN s") == 2
    # What was not pending is not acknowledged, and not deleted either.
    r1("XREADGROUP GROUP g a STREAMS s >")
    assert r1.run("XACKDEL s g IDS 1 1") == [1]
    assert r1("XLEN s") == 1
    assert r1.run("XDELEX s IDS 1 1") == [1]
    sync(r1, r2)
    assert r2("XLEN s") == 0


def test_policies_replay() -> None:
    node = filled(6, node_entries_max=2)
    node.run("XACK s g 1 4", "XTRIM s MAXLEN ~ 2 ACKED")
    node.run("XDELEX s DELREF IDS 1 2", "XACKDEL s g KEEPREF IDS 2 3 5", "XDEL s 6")
    node.run("XDELEX s DELREF IDS 1 6")
    before = node.digest, node("XINFO STREAM s FULL")
    node.restart()
    assert (node.digest, node("XINFO STREAM s FULL")) == before
