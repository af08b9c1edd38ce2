"""XADD IDMP and IDMPAUTO, XCFGSET: one entry, however often and wherever it is appended."""

from collections.abc import Sized

import pytest

from crdtstream.commands.streams.idempotent_xadd import fields_id
from tests.harness.regions import Node, sync
from tests.harness.replies import dict_of, of_type


def facts(node: Node, key: str = "s") -> dict[str, object]:
    reply = dict_of(object, node(f"CRDT.XINFO STREAM {key}"))
    return {name: value for name, value in reply.items() if "id" in name and "-id" not in name}


def producers(node: Node) -> Sized:
    """Those that the stream's window remembers."""
    stream = node.replica.stream(b"s")
    assert stream is not None
    assert stream.window is not None
    return stream.window._by_producer


# --- In one region ------------------------------------------------------------------------------


def test_a_repeated_append_answers_the_first_id_and_adds_nothing() -> None:
    node = Node(1)
    first = node("XADD s IDMP p pay * amount 100")
    node.now += 10
    assert node("XADD s IDMP p pay * amount 200 currency EUR") == first
    assert node("XADD s IDMP q pay * amount 100") != first
    assert node("XADD s IDMP p other * amount 100") != first
    assert node("XLEN s") == 3
    assert facts(node)["iids-duplicates"] == 1


@pytest.mark.parametrize("name", ["*", "$", "-", "+", "IDMP", "123-456", "x" * 70_000])
def test_any_name_will_do(name: str) -> None:
    node = Node(1)
    first = node(f"XADD s IDMP p {name} * f v")
    assert node(f"XADD s IDMP p {name} * f v") == first
    assert node("XLEN s") == 1


def test_idmpauto_compares_fields_and_values_in_any_order() -> None:
    node = Node(1)
    first = node("XADD s IDMPAUTO p * a 1 b 2 a 3")
    assert node("XADD s IDMPAUTO p * a 3 a 1 b 2") == first
    lines = ["a 1 b 2", "a 1 b 3 a 2", "a 1 b 2 a 3 a 3", "a 1b 2 3", "a1 b 2 3"]
    assert len({first, *(node(f"XADD s IDMPAUTO p * {fields}") for fields in lines)}) == 6
    assert node("XADD s IDMPAUTO q * a 1 b 2 a 3") != first


def test_the_id_of_fields_is_the_same_everywhere_and_for_ever() -> None:
    # Regions of different versions compare it, and logs keep it: b2sum -l 128 of 6:amount3:100.
    assert fields_id([b"a", b"1", b"b", b""]).hex() == fields_id([b"b", b"", b"a", b"1"]).hex()
    assert fields_id([b"amount", b"100"]).hex() == "2bfea82da13f466c30474aa966741971"


def test_options_stand_in_any_order_and_a_duplicate_trims_nothing() -> None:
    node = Node(1)
    first = node("XADD s MAXLEN ~ 100 IDMP p a KEEPREF * f v")
    node("XADD s 5000 f v")
    assert node("XADD s NOMKSTREAM IDMP p a MAXLEN 1 LIMIT 0 * f v") != first
    node("XADD s 6000 f v")
    length = node("XLEN s")
    assert node("XADD s NOMKSTREAM IDMP p a MAXLEN 1 * f v") == first
    assert node("XLEN s") == length


def test_nomkstream_makes_none() -> None:
    node = Node(1)
    assert node("XADD s NOMKSTREAM IDMP p a * f v") is None
    assert node("EXISTS s") == 0


def test_in_a_transaction_as_well() -> None:
    node = Node(1)
    for line in ("MULTI", *(f"XADD s IDMP p {name} * f v" for name in "abac")):
        node(line)
    replies = of_type(list, node("EXEC"))
    assert replies[0] == replies[2]
    assert len(set(replies)) == 3


def test_a_name_is_forgotten_after_a_time() -> None:
    node = Node(1)
    first = node("XADD s IDMP p a * f v")
    node.now += 99_999
    assert node("XADD s IDMP p a * f v") == first
    node.now += 1
    assert facts(node)["iids-tracked"] == 0
    assert node("XADD s IDMP p a * f v") != first
    assert facts(node) == {
        "idmp-duration": 100,
        "idmp-maxsize": 100,
        "pids-tracked": 1,
        "iids-tracked": 1,
        "iids-added": 2,
        "iids-duplicates": 1,
    }


def test_the_oldest_name_of_a_producer_goes_first() -> None:
    node = Node(1)
    node("XADD s * f v")
    assert node("XCFGSET s IDMP-MAXSIZE 3 IDMP-DURATION 60") == "OK"
    ids = {name: node(f"XADD s IDMP p {name} * f v") for name in "abcd"}
    node("XADD s IDMP q a * f v")
    for name in "bcd":
        assert node(f"XADD s IDMP p {name} * f v") == ids[name]
    assert node("XADD s IDMP p a * f v") != ids["a"]
    assert facts(node)["iids-tracked"] == 4


def test_a_bound_that_changes_forgets_all_and_the_same_value_nothing() -> None:
    node = Node(1)
    first = node("XADD s IDMP p a * f v")
    assert node("XCFGSET s IDMP-DURATION 100") == "OK"
    assert node("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 100") == "OK"
    assert node("XADD s IDMP p a * f v") == first
    assert node("XCFGSET s IDMP-DURATION 100 IDMP-MAXSIZE 99") == "OK"
    assert node("XADD s IDMP p a * f v") != first
    assert (facts(node)["idmp-duration"], facts(node)["idmp-maxsize"]) == (100, 99)


def test_a_value_that_is_the_default_is_told_all_the_same() -> None:
    """Of concurrent values the greatest counts, so one that changes nothing here may count."""
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s * f v")
    sync(r1, r2)
    r1.run("XCFGSET s IDMP-MAXSIZE 5")
    r2.run("XCFGSET s IDMP-MAXSIZE 100")
    sync(r1, r2)
    assert facts(r1)["idmp-maxsize"] == facts(r2)["idmp-maxsize"] == 100


def test_deleting_the_stream_forgets_too() -> None:
    node = Node(1)
    first = node.run("XADD s IDMP p a * f v")
    node.run("XCFGSET s IDMP-MAXSIZE 5")
    node.run("DEL s")
    node.now += 1
    assert node.run("XADD s IDMP p a * f v") != first
    assert facts(node)["idmp-maxsize"] == 100


def test_deleting_the_entry_does_not() -> None:
    node = Node(1)
    first = node("XADD s IDMP p a * f v")
    node("XADD s MAXLEN 0 * f v")
    assert node("XADD s IDMP p a * f v") == first
    assert node("XLEN s") == 0


def test_a_replayed_log_recognises_the_same() -> None:
    node = Node(1)
    node.run("XADD s * f v", "XCFGSET s IDMP-MAXSIZE 2")
    ids = [node.run(f"XADD s IDMP p {name} * f v") for name in "abc"]
    node.run("XADD s IDMPAUTO p * g 1")
    digest = node.digest
    node.restart()
    assert node.digest == digest
    assert node("XADD s IDMP p c * f v") == ids[2]
    assert node("XADD s IDMPAUTO p * g 1") not in ids
    assert node("XLEN s") == 5


# --- In several ---------------------------------------------------------------------------------


def test_a_retry_is_recognised_in_another_region() -> None:
    r1, r2 = Node(1), Node(2)
    first = r1.run("XADD s IDMP p a * f v")
    auto = r1.run("XADD s IDMPAUTO p * a 1 b 2")
    sync(r1, r2)
    r2.now += 1000
    assert r2.run("XADD s IDMP p a * f v") == first
    assert r2.run("XADD s IDMPAUTO p * b 2 a 1") == auto
    sync(r1, r2)
    assert r1("XLEN s") == 2
    # What was recognised where is told there.
    assert (facts(r1)["iids-duplicates"], facts(r2)["iids-duplicates"]) == (0, 2)


def test_two_regions_that_took_it_at_once_keep_one() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    ids = [node.run("XADD s IDMPAUTO p * f v") for node in (r1, r2)]
    r3.pull(r2)
    r3.pull(r1)
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        assert node("XRANGE s - +") == [ids[0]]
        assert node("XADD s IDMPAUTO p * f v") == ids[0]


def test_concurrent_bounds_become_the_greatest() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD s IDMP p a * f v")
    sync(r1, r2, r3)
    r1.run("XCFGSET s IDMP-DURATION 200 IDMP-MAXSIZE 7")
    r2.run("XCFGSET s IDMP-DURATION 50 IDMP-MAXSIZE 30")
    sync(r1, r2, r3)
    for node in (r1, r2, r3):
        assert (facts(node)["idmp-duration"], facts(node)["idmp-maxsize"]) == (200, 30)
        assert facts(node)["iids-tracked"] == 0
    # One that had observed both overwrites both.
    r3.run("XCFGSET s IDMP-DURATION 60 IDMP-MAXSIZE 6")
    sync(r1, r2, r3)
    assert (facts(r1)["idmp-duration"], facts(r1)["idmp-maxsize"]) == (60, 6)


def test_windows_forget_in_passing_and_in_replay_too() -> None:
    node = Node(1)
    for n in range(500):
        node.now += 1000
        node.run(f"XADD s IDMP p{n} x * f v")
    assert facts(node)["pids-tracked"] == facts(node)["iids-tracked"] == 100
    assert len(producers(node)) == 100
    node.restart()
    assert len(producers(node)) == 100


def test_a_producer_s_old_ids_go_when_it_appends_again() -> None:
    node = Node(1)
    node.run("XADD s IDMP p a * f v", "XADD s IDMP p b * f v")
    node.run("XADD s IDMP q a * f v")
    node.now += 60_000
    node.run("XADD s IDMP p c * f v")
    node.now += 50_000
    node.run("XADD s IDMP p d * f v")
    # q is over; of p the latest two are left.
    assert (facts(node)["pids-tracked"], facts(node)["iids-tracked"]) == (1, 2)


def test_a_late_idempotent_id_is_recognised_once_it_has_arrived() -> None:
    r1, r2 = Node(1), Node(2)
    late = r2.run("XADD s IDMP q 1 * f v")
    r1.now += 101_000
    recent = r1.run("XADD s IDMP p 1 * f v")
    sync(r1, r2)
    assert r1("XRANGE s - +") == [late, recent]
    assert facts(r1)["pids-tracked"] == 2
    assert r1.run("XADD s IDMP q 1 * f v") == late
    r1.run("XADD s IDMP q 2 * f v")
    sync(r1, r2)
    for node in (r1, r2):
        node.restart()
    sync(r1, r2)
