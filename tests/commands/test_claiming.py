"""XREADGROUP CLAIM and XNACK: entries that were handed out once and are handed out again."""

from typing import Any

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.database.database import WAITING
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of
from tests.harness.waiting_clients import Clients

MAX = 9223372036854775807


def filled(count: int) -> Clients:
    clients = Clients(Node(1).replica)
    for ms in range(1, count + 1):
        clients(f"XADD s {ms} f v{ms}")
    clients("XGROUP CREATE s g 0")
    clients.settle()
    return clients


def claimed(clients: Clients, options: str, client: str = "A") -> Any:
    """The entries of s that c gets."""
    reply = clients(f"XREADGROUP GROUP g c {options} STREAMS s >", client)
    return reply[0][1] if isinstance(reply, list) else reply


def owners(clients: Clients) -> dict[str, list[Any]]:
    return {row[0]: row[1:] for row in clients("XPENDING s g - + 100")}


# --- CLAIM --------------------------------------------------------------------------------------


def test_claimed_entries_come_first_and_tell_of_their_deliveries() -> None:
    clients = filled(2)
    clients("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    clients.now += 100
    assert claimed(clients, "CLAIM 100") == [
        ["1-0", ["f", "v1"], 100, 1],
        ["2-0", ["f", "v2"], 0, 0],
    ]
    assert owners(clients) == {"1-0": ["c", 0, 2], "2-0": ["c", 0, 1]}
    clients.now += 50
    assert claimed(clients, "CLAIM 100") is None
    assert [entry[3] for entry in claimed(clients, "CLAIM 0")] == [2, 1]


def test_the_longest_idle_come_first_and_count_is_for_both() -> None:
    clients = filled(5)
    for ms in (3, 1, 2):
        clients(f"XCLAIM s g a 0 {ms} FORCE")
        clients.now += 10
    clients("XGROUP SETID s g 3")
    assert [entry[0] for entry in claimed(clients, "COUNT 2 CLAIM 15")] == ["3-0", "1-0"]
    assert [entry[0] for entry in claimed(clients, "COUNT 2 CLAIM 10")] == ["2-0", "4-0"]


def test_equally_old_ones_come_by_id_whatever_their_lane() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s 1 f v", "XADD s 3 f v")
    r2.run("XADD s 2 f v", "XADD s 4 f v")
    sync(r1, r2)
    clients = Clients(r1.replica)
    clients("XGROUP CREATE s g 0")
    clients("XREADGROUP GROUP g a STREAMS s >")
    ids = [entry[0] for entry in claimed(clients, "CLAIM 0")]
    assert ids == ["1-0", "2-0", "3-0", "4-0"]


def test_noack_is_for_new_entries_only() -> None:
    clients = filled(2)
    clients("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    assert len(claimed(clients, "NOACK CLAIM 0")) == 2
    assert list(owners(clients)) == ["1-0"]


def test_history_ignores_claim() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g c STREAMS s >")
    assert clients("XREADGROUP GROUP g c CLAIM 0 STREAMS s 0") == [
        ["s", [["1-0", ["f", "v1"]]]],
    ]


def test_of_several_claims_the_last_counts_and_one_may_stand_before_group() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients.now += 50
    assert clients("XREADGROUP CLAIM 0 GROUP g c CLAIM 60 STREAMS s >") is None
    assert clients("XREADGROUP CLAIM 60 GROUP g c CLAIM 50 STREAMS s >") is not None
    assert claimed(clients, f"CLAIM {MAX}") is None


def test_deleted_entries_are_skipped_by_a_claim_and_stay_pending() -> None:
    clients = filled(3)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XDEL s 1")
    assert [entry[0] for entry in claimed(clients, "COUNT 1 CLAIM 0")] == ["2-0"]
    clients("XTRIM s MAXLEN 0")
    assert claimed(clients, "CLAIM 0") is None
    assert owners(clients)["1-0"] == ["a", 0, 1]


def test_set_back_a_group_gives_entries_as_claimed_and_as_new() -> None:
    clients = filled(2)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XGROUP SETID s g 0")
    got = claimed(clients, "CLAIM 0")
    assert [(entry[0], entry[3]) for entry in got] == [
        ("1-0", 1),
        ("2-0", 1),
        ("1-0", 0),
        ("2-0", 0),
    ]
    assert owners(clients) == {"1-0": ["c", 0, 1], "2-0": ["c", 0, 1]}


def test_a_deleted_consumer_leaves_nothing_to_claim() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XGROUP DELCONSUMER s g a")
    assert claimed(clients, "CLAIM 0") is None


def test_a_replayed_log_hands_out_the_same_next() -> None:
    node = Node(1)
    node.run(*(f"XADD s {ms} f v" for ms in range(1, 7)), "XGROUP CREATE s g 0")
    node.run("XREADGROUP GROUP g a COUNT 4 STREAMS s >")
    node.now += 50
    node.run("XCLAIM s g b 0 2 3", "XNACK s g SILENT IDS 2 4 1", "XNACK s g FATAL IDS 1 5 FORCE")
    node.run("XREADGROUP GROUP g c COUNT 1 CLAIM 0 STREAMS s >")
    before = node("XINFO STREAM s FULL")
    lived = [entry[:1] for entry in claimed(Clients(node.replica, 2000), "CLAIM 0")]
    node.restart()
    assert node("XINFO STREAM s FULL") == before
    replayed = claimed(Clients(node.replica, 2000), "CLAIM 0")
    assert [entry[:1] for entry in replayed] == lived
    assert lived[:2] == [["1-0"], ["5-0"]]


# --- Waiting for old ones -----------------------------------------------------------------------


def test_a_reader_waits_just_until_an_entry_is_old_enough() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients.now += 10
    assert claimed(clients, "BLOCK 0 CLAIM 1000") is WAITING
    assert clients.next_time() == 2000
    assert clients.wait(989) == {}
    assert clients.wait(1) == {"A": [["s", [["1-0", ["f", "v1"], 1000, 1]]]]}


def test_its_time_runs_out_before() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    assert claimed(clients, "BLOCK 100 CLAIM 1000") is WAITING
    assert clients.wait(99) == {}
    assert clients.wait(1) == {"A": None}
    assert clients.next_time() is None


def test_acknowledged_meanwhile_the_next_one_is_waited_for() -> None:
    clients = filled(2)
    clients("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    clients.now += 500
    clients("XREADGROUP GROUP g b COUNT 1 STREAMS s >")
    assert claimed(clients, "BLOCK 0 CLAIM 1000") is WAITING
    assert clients("XACK s g 1", "B") == 1
    assert clients.wait(999) == {}
    assert clients.wait(1) == {"A": [["s", [["2-0", ["f", "v2"], 1000, 1]]]]}


def test_a_deleted_entry_wakes_nobody() -> None:
    clients = filled(2)
    clients("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    clients.now += 500
    clients("XREADGROUP GROUP g a COUNT 1 STREAMS s >")
    clients("XDEL s 1")
    assert claimed(clients, "BLOCK 0 CLAIM 1000") is WAITING
    assert clients.next_time() == 2500
    clients("XDEL s 2", "B")
    assert clients.settle() == {}
    assert clients.next_time() is None


def test_a_new_entry_wakes_it_before() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    assert claimed(clients, "BLOCK 0 CLAIM 1000") is WAITING
    clients("XADD s 2 f v2", "B")
    assert clients.settle() == {"A": [["s", [["2-0", ["f", "v2"], 0, 0]]]]}


def test_two_readers_get_an_entry_one_after_the_other() -> None:
    clients = Clients(Node(1).replica)
    clients("XGROUP CREATE s g 0 MKSTREAM")
    for name in ("A", "B"):
        line = f"XREADGROUP GROUP g {name} BLOCK 0 CLAIM 100 STREAMS s >"
        assert clients(line, name) is WAITING
    clients("XADD s 1 f v1", "C")
    assert clients.settle() == {"A": [["s", [["1-0", ["f", "v1"], 0, 0]]]]}
    assert clients.wait(99) == {}
    assert clients.wait(1) == {"B": [["s", [["1-0", ["f", "v1"], 100, 1]]]]}


def test_one_of_several_streams_wakes_it() -> None:
    clients = filled(1)
    clients("XADD t 1 f w1")
    clients("XGROUP CREATE t g 0")
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients.now += 300
    clients("XREADGROUP GROUP g a STREAMS t >")
    line = "XREADGROUP GROUP g c BLOCK 0 CLAIM 1000 STREAMS t s > >"
    assert clients(line) is WAITING
    assert clients.wait(700) == {"A": [["s", [["1-0", ["f", "v1"], 1000, 1]]]]}


@pytest.mark.parametrize(
    "line",
    ["XNACK s g FAIL IDS 1 1", "XCLAIM s g b 0 1 IDLE 1000", "XCLAIM s g b 0 1 TIME 0"],
)
def test_an_entry_made_old_at_once_wakes_it(line: str) -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    assert claimed(clients, "BLOCK 0 CLAIM 1000") is WAITING
    clients(line, "B")
    answers = clients.settle()
    assert answers["A"][0][1][0][0] == "1-0"


def test_an_entry_newly_pending_is_waited_for() -> None:
    clients = filled(1)
    clients("XGROUP SETID s g 1")
    assert claimed(clients, "BLOCK 0 CLAIM 1000") is WAITING
    assert clients.next_time() is None
    clients("XCLAIM s g a 0 1 FORCE", "B")
    assert clients.settle() == {}
    assert clients.next_time() == 2000
    clients("XACK s g 1", "B")
    assert clients.wait(1000) == {}
    # Set back, somebody else is handed it out: that, too, is a new chance.
    clients("XGROUP SETID s g 0", "B")
    clients("XREADGROUP GROUP g b STREAMS s >", "B")
    assert clients.settle() == {}
    assert clients.next_time() == 3000


def test_in_a_transaction_nobody_waits() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("MULTI")
    clients("XREADGROUP GROUP g c BLOCK 0 CLAIM 1000 STREAMS s >")
    clients("XREADGROUP GROUP g c BLOCK 0 CLAIM 0 STREAMS s >")
    assert clients("EXEC") == [None, [["s", [["1-0", ["f", "v1"], 0, 1]]]]]


# --- XNACK --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "counts"), [("SILENT", [0, 0, 1]), ("FAIL", [1, 0, 2]), ("FATAL", [MAX] * 3)]
)
def test_the_mode_says_what_becomes_of_the_count(mode: str, counts: list[int]) -> None:
    clients = filled(3)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XCLAIM s g a 0 2 RETRYCOUNT 0")
    clients("XCLAIM s g a 0 3")
    assert clients(f"XNACK s g {mode} IDS 3 1 2 3") == 3
    rows = owners(clients)
    assert [rows[f"{ms}-0"] for ms in (1, 2, 3)] == [["", -1, count] for count in counts]


def test_retrycount_overrides_the_mode() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    for count in (42, 0, 99):
        assert clients(f"XNACK s g FATAL RETRYCOUNT {count} IDS 1 1") == 1
        assert owners(clients) == {"1-0": ["", -1, count]}


def test_a_count_at_its_end_stays_there() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XNACK s g FATAL IDS 1 1")
    assert claimed(clients, "CLAIM 0") == [["1-0", ["f", "v1"], 1000, MAX]]
    clients("XREADGROUP GROUP g c STREAMS s 0")
    clients("XCLAIM s g c 0 1")
    clients("XAUTOCLAIM s g c 0 0")
    assert owners(clients) == {"1-0": ["c", 0, MAX]}


def test_entries_returned_by_xnack_are_claimed_first_in_that_order() -> None:
    clients = filled(5)
    clients("XREADGROUP GROUP g a COUNT 4 STREAMS s >")
    clients.now += 100
    assert clients("XNACK s g FAIL IDS 2 3 1") == 2
    assert clients("XNACK s g FAIL IDS 3 4 9 3") == 2
    assert clients("XINFO CONSUMERS s g")[0][3] == 1
    # Any min-idle-time is met; the one that a still has is not old enough for this one.
    got = claimed(clients, "CLAIM 5000")
    assert [entry[0] for entry in got] == ["1-0", "4-0", "3-0", "5-0"]


def test_named_twice_it_counts_twice() -> None:
    clients = filled(1)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XCLAIM s g a 0 1")
    assert clients("XNACK s g SILENT IDS 2 1 1") == 2
    assert owners(clients) == {"1-0": ["", -1, 0]}


def test_nobody_reads_it_as_history_and_deleting_its_consumer_leaves_it() -> None:
    clients = filled(2)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XNACK s g FAIL IDS 1 1")
    assert clients("XREADGROUP GROUP g a STREAMS s 0") == [["s", [["2-0", ["f", "v2"]]]]]
    assert clients("XGROUP DELCONSUMER s g a") == 1
    assert owners(clients) == {"1-0": ["", -1, 1]}
    assert clients("XPENDING s g") == [1, "1-0", "1-0", []]
    assert clients("XAUTOCLAIM s g b 999999 0") == ["0-0", [["1-0", ["f", "v1"]]], []]


def test_claiming_one_that_was_deleted_drops_it() -> None:
    clients = filled(3)
    clients("XREADGROUP GROUP g a STREAMS s >")
    clients("XNACK s g FAIL IDS 2 1 3")
    clients("XDEL s 1 3")
    assert clients("XCLAIM s g b 0 1") == []
    assert clients("XAUTOCLAIM s g b 0 0") == ["0-0", [["2-0", ["f", "v2"]]], ["3-0"]]
    assert list(owners(clients)) == ["2-0"]


def test_acknowledging_what_was_given_back_moves_the_frontier() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s 1 f v", "XADD s 2 f v", "XGROUP CREATE s g 0")
    r1.run("XREADGROUP GROUP g a STREAMS s >")
    r1.run("XNACK s g FAIL IDS 2 1 2")
    sync(r1, r2)
    assert list_of(dict, r2("CRDT.XINFO GROUPS s"))[0]["undelivered"] == 2
    r1.run("XACK s g 1 2")
    sync(r1, r2)
    assert list_of(dict, r2("CRDT.XINFO GROUPS s"))[0]["undelivered"] == 0


def test_force_makes_entries_pending() -> None:
    clients = filled(3)
    assert clients("XNACK s g FAIL IDS 1 1") == 0
    assert clients("XNACK s g FAIL FORCE IDS 2 1 9") == 1
    assert clients("XNACK s g SILENT IDS 1 2 FORCE") == 1
    assert clients("XNACK s g FATAL IDS 1 3 RETRYCOUNT 7 FORCE") == 1
    assert owners(clients) == {"1-0": ["", -1, 0], "2-0": ["", -1, 0], "3-0": ["", -1, 7]}
    clients("XACK s g 1 2 3")
    assert clients("XNACK s g FATAL IDS 1 1 FORCE") == 1
    assert owners(clients) == {"1-0": ["", -1, MAX]}
    empty = Clients(Replica(RegionId(1)))
    empty("XGROUP CREATE t g 0 MKSTREAM")
    assert empty("XNACK t g FAIL IDS 1 1-1 FORCE") == 0


def test_giving_back_is_for_this_region() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s 1 f v", "XGROUP CREATE s g 0")
    sync(r1, r2)
    for node in (r1, r2):
        node.run("XREADGROUP GROUP g a STREAMS s >")
    assert r1.run("XNACK s g FAIL IDS 1 1") == 1
    sync(r1, r2)
    assert r2("XPENDING s g - + 10") == [["1-0", "a", 0, 1]]
