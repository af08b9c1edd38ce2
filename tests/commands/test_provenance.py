"""CRDT.WHY: where an entry comes from, and what became of it in this region."""

import pytest

from crdtstream.core.ids import RegionId, make_id
from tests.harness.regions import Node, sync
from tests.harness.replies import dict_of, of_type


def why(node: Node, entry_id: str) -> list[dict[str, object]]:
    return [dict_of(object, row) for row in of_type(list, node(f"CRDT.WHY x {entry_id}"))]


def state(node: Node, entry_id: str, group: str = "g") -> dict[str, object]:
    (row,) = why(node, entry_id)
    return dict_of(object, dict_of(dict, row["groups"])[group])


# --- Where it comes from ------------------------------------------------------------------------


def test_an_entry_tells_its_origin_and_when_it_arrived_here() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD y 1-1 f v")
    r1.run("XADD x 1-1 f v")
    r2.now = 5000
    sync(r1, r2)
    facts = {"origin": 1, "dot": "1:2", "bytes": 18, "groups": {}}
    unnamed = {"producer": None, "idempotent-id": None, "duplicates": None}
    assert why(r1, "1-1") == [{**facts, **unnamed, "arrived": 1000}]
    assert why(r2, "1-1") == [{**facts, **unnamed, "arrived": 5000}]
    r2.restart()
    assert why(r2, "1-1") == [{**facts, **unnamed, "arrived": 5000}]


def test_each_lane_s_entry_of_an_id_has_its_own_map() -> None:
    nodes = [Node(3), Node(1)]
    for node in nodes:
        node.run("XADD x 5-0 f v")
    sync(*nodes)
    for node in nodes:
        assert [row["dot"] for row in why(node, "5")] == ["1:1", "3:1"]


def test_a_missing_entry_has_no_map() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v", "XDEL x 1-1")
    assert why(r1, "1-1") == why(r1, "2-1") == []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("CRDT.WHY y 1-1", "ERR no such key"),
        ("CRDT.WHY x one", "ERR Invalid stream ID specified as stream command argument"),
        ("CRDT.WHY y -", "ERR Invalid stream ID specified as stream command argument"),
        ("CRDT.WHY x", "ERR the key holds a stream: name the ID of an entry"),
        ("CRDT.WHY y", "ERR no such key"),
        ("CRDT.WHY x 1 2", "ERR wrong number of arguments for 'crdt.why' command"),
        ("CRDT.WHY", "ERR wrong number of arguments for 'crdt.why' command"),
    ],
)
def test_wrong_arguments_are_refused(line: str, error: str) -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v")
    assert r1(line) == error


# --- Strings ------------------------------------------------------------------------------------


def test_without_an_id_it_tells_of_every_value_of_a_string() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("SET x a")
    r2.run("SET x b PX 500")
    sync(r1, r2)
    told = of_type(list, r1("CRDT.WHY x"))
    assert told == [
        {"origin": 1, "dot": "1:1", "value": "a", "deadline": None, "shown": 1},
        {"origin": 2, "dot": "2:1", "value": "b", "deadline": 1500, "shown": 0},
    ]
    r1.replica.append(b"x", make_id(1, 1), b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
    assert [row["shown"] for row in of_type(list, r1("CRDT.WHY x"))] == [0, 0]


def test_of_a_counter_it_tells_what_each_region_added_and_to_which_value() -> None:
    r1, r2 = Node(1), Node(2)
    r2.run("INCR begun")
    r1.run("SET x 100", "INCRBY x 5")
    sync(r1, r2)
    r2.run("INCR x", "DECRBY x 3")
    assert of_type(list, r2("CRDT.WHY x")) == [
        {"origin": 1, "dot": "1:1", "value": "100", "deadline": None, "shown": 1},
        *(
            {"origin": origin, "dot": dot, "added": added, "added-to": "1:1"}
            | {"deadline": None, "shown": 1}
            for origin, dot, added in ((1, "1:2", 5), (2, "2:3", -2))
        ),
    ]
    (begun,) = of_type(list, r1("CRDT.WHY begun"))
    assert (begun["added"], begun["added-to"]) == (1, None)


# --- Producers ----------------------------------------------------------------------------------


def test_a_producer_s_entry_tells_its_name_and_the_retries_recognised_here() -> None:
    r1, r2 = Node(1), Node(2)
    assert r1.run("XADD x IDMP p m1 * f v") == "1000-1"
    sync(r1, r2)
    for _ in range(2):
        assert r2.run("XADD x IDMP p m1 * f v") == "1000-1"
    named = {"producer": "p", "idempotent-id": "m1"}
    for node, duplicates in ((r1, 0), (r2, 2)):
        (row,) = why(node, "1000-1")
        assert row.items() >= {**named, "duplicates": duplicates}.items()


def test_an_id_that_the_window_has_forgotten_tells_of_no_retries() -> None:
    r1 = Node(1)
    r1.run("XADD x IDMP p m1 * f v")
    r1.now += 101_000
    (row,) = why(r1, "1000-1")
    assert (row["producer"], row["idempotent-id"], row["duplicates"]) == ("p", "m1", None)


def test_of_two_concurrent_appends_the_one_that_went_tells_which_stayed() -> None:
    nodes = [Node(1), Node(2), Node(3)]
    for node in nodes:
        node.now += node.region
        node.run("XADD x IDMP p m1 * f v")
    nodes[2].pull(nodes[1])
    collapsed = {"producer": "p", "idempotent-id": "m1"}
    into_second = {"collapsed-into": "1002-2", "collapsed-into-dot": "2:1"}
    assert why(nodes[2], "1003-3") == [{"origin": 3, "dot": "3:1", **collapsed, **into_second}]
    sync(*nodes)
    into_first = {"collapsed-into": "1001-1", "collapsed-into-dot": "1:1"}
    for node in nodes:
        assert why(node, "1003-3") == [{"origin": 3, "dot": "3:1", **collapsed, **into_first}]
        assert why(node, "1002-2") == [{"origin": 2, "dot": "2:1", **collapsed, **into_first}]
        assert [row["origin"] for row in why(node, "1001-1")] == [1]
        node.replica.forget_stable({RegionId(1): 1, RegionId(2): 0, RegionId(3): 1})
        assert why(node, "1003-3") == []
        assert len(why(node, "1002-2")) == 1


# --- Groups -------------------------------------------------------------------------------------


def test_crdt_why_shows_an_entry_from_its_delivery_to_the_frontier() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    assert state(r1, "2-1") == {"state": "undelivered", "handed-out-by": None}
    r1.run("XREADGROUP GROUP g alice STREAMS x >")
    r1.now += 30
    pending = {"state": "pending", "consumer": "alice", "delivery-count": 1, "idle": 30}
    assert state(r1, "2-1") == pending
    r1.run("XACK x g 2-1")
    assert state(r1, "2-1") == {"state": "acknowledged"}
    r1.run("XACK x g 1-1")
    sync(r1, r2)
    for node in (r1, r2):
        assert state(node, "2-1") == {"state": "covered-by-frontier"}
    assert state(r1, "3-1")["state"] == "pending"
    assert state(r2, "3-1")["state"] == "undelivered"


def test_crdt_why_shows_entries_before_the_start_and_passed_over() -> None:
    r1 = Node(1)
    r1.run("XADD x 1-1 f v", "XGROUP CREATE x g $", "XADD x 2-1 f v", "XADD x 3-1 f v")
    assert state(r1, "1-1") == {"state": "before-start"}
    r1.run("XREADGROUP GROUP g alice COUNT 1 STREAMS x >", "XGROUP DELCONSUMER x g alice")
    assert state(r1, "2-1") == {"state": "passed-over"}
    r1.run("XGROUP SETID x g 3-1")
    assert state(r1, "3-1") == {"state": "passed-over"}


def test_set_back_an_acknowledged_entry_is_to_be_delivered_again() -> None:
    r1 = Node(1)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XADD x 1-1 f v")
    r1.run("XREADGROUP GROUP g alice STREAMS x >", "XACK x g 1-1")
    r1.run("XGROUP SETID x g 0")
    assert state(r1, "1-1")["state"] == "undelivered"


def test_handed_out_before_a_lower_create_is_acknowledged_not_undelivered() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1-1 f v", "XADD x 2-1 f v", "XADD x 3-1 f v")
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 1-1")
    r2.run("XGROUP CREATE x g 0")
    r1.run("XREADGROUP GROUP g alice STREAMS x >", "XACK x g 3-1")
    r1.pull(r2)
    assert [state(r1, entry_id)["state"] for entry_id in ("1-1", "2-1", "3-1")] == [
        "undelivered",
        "pending",
        "acknowledged",
    ]


def test_an_undelivered_entry_tells_who_hands_it_out() -> None:
    r1 = Node(1)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "XGROUP CREATE x h 0", "XADD x 1-1 f v")
    r1.run("CRDT.XGROUP SETMODE x g home 7", "CRDT.XGROUP SETMODE x h partitioned")
    assert state(r1, "1-1", "g") == {"state": "undelivered", "handed-out-by": 7}
    assert state(r1, "1-1", "h") == {"state": "undelivered", "handed-out-by": 1}


def test_a_handed_over_entry_is_pending_without_a_consumer() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", "CRDT.XGROUP SETMODE x g home 1", "XADD x 1-1 f v")
    r1.run("XREADGROUP GROUP g alice STREAMS x >", "CRDT.XGROUP SETMODE x g home 2")
    sync(r1, r2)
    nobody = {"state": "pending", "consumer": None, "delivery-count": 1, "idle": -1}
    assert state(r2, "1-1") == nobody
    assert state(r1, "1-1")["consumer"] == "alice"
