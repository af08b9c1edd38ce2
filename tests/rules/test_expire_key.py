"""The delete that expiry issues: observed-remove throughout, by the clock of the moment."""

from itertools import permutations

import pytest

from crdtstream.core.effects import ExpireKey
from tests.harness.regions import Node, sync
from tests.harness.replies import of_type


def three_with_x(deadline_ms: int) -> list[Node]:
    """Three regions, and a key that ends after so many milliseconds by region 1's deadline."""
    nodes = [Node(1), Node(2), Node(3)]
    nodes[0].run("XADD x 1 f v", "XGROUP CREATE x g 0", f"PEXPIRE x {deadline_ms}")
    sync(*nodes)
    return nodes


def let_pass(nodes: list[Node], ms: int) -> None:
    for node in nodes:
        node.now += ms


def groups(node: Node) -> list[str]:
    facts = node("XINFO GROUPS x")
    assert isinstance(facts, list), facts
    return [str(one["name"]) for one in facts]


def test_a_group_made_again_after_the_deadline_survives_the_delete() -> None:
    r1, r2, _ = nodes = three_with_x(1000)
    let_pass(nodes, 2000)
    r1.expire()
    assert r2.run("XGROUP CREATE x h $ MKSTREAM") == "OK"
    sync(*nodes)
    assert [groups(node) for node in nodes] == [["h"]] * 3


def test_both_regions_may_make_it_again_before_the_delete_is_issued() -> None:
    r1, r2, _ = nodes = three_with_x(1000)
    let_pass(nodes, 2000)
    assert r1.run("XGROUP CREATE x g $ MKSTREAM") == "OK"
    assert r2.run("XGROUP CREATE x g 0 MKSTREAM") == "OK"
    sync(*nodes)
    assert [groups(node) for node in nodes] == [["g"]] * 3


def test_a_write_that_clears_a_left_over_deadline_kills_no_concurrent_group() -> None:
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    sync(*nodes)
    r1.run("PEXPIRE x 100000")
    r2.run("XGROUP DESTROY x g")
    sync(*nodes)
    r1.run("XGROUP CREATE x work 0 MKSTREAM")
    r3.run("XADD x 1 f v")
    sync(*nodes)
    assert [groups(node) for node in nodes] == [["work"]] * 3


# --- Clocks ---------------------------------------------------------------------------------------


def test_a_key_comes_back_with_a_clock_that_is_set_back() -> None:
    r1, r2, _ = nodes = three_with_x(600_000)
    r2.now += 3_600_000
    assert r2("EXISTS x") == 0
    r2.now -= 3_600_000
    assert r2("EXISTS x") == r1("EXISTS x") == 1
    r2.run("XADD x 2 f v")
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [["1-0", "2-0"]] * 3
    assert [groups(node) for node in nodes] == [["g"]] * 3


def test_the_region_of_the_deadline_spares_it_when_its_clock_was_set_back_in_time() -> None:
    r1, _, _ = nodes = three_with_x(600_000)
    r1.now += 3_600_000
    assert r1("EXISTS x") == 0
    r1.now -= 3_600_000
    r1.expire()
    assert r1("EXISTS x") == 1
    let_pass(nodes, 600_000)
    r1.expire()
    sync(*nodes)
    assert [node.replica.keys.known() for node in nodes] == [[]] * 3


def test_a_clock_that_goes_back_and_forth_finds_the_key_over_each_time() -> None:
    _, r2, _ = three_with_x(1000)
    for _ in range(100):
        r2.now += 5000
        assert r2("EXISTS x") == 0
        r2.now -= 5000
        assert r2("EXISTS x") == 1
    expiry = r2.replica._expiry
    assert len(expiry.coming) + len(expiry.passed) < 100


def test_replay_repeats_decisions_and_not_clocks() -> None:
    r1, r2, _ = nodes = three_with_x(1000)
    r2.now += 5000
    assert r2("EXISTS x") == 0
    r2.run("XADD y 1 f v")
    r2.restart()
    r2.now -= 5000
    assert r2("EXISTS x") == 1
    let_pass(nodes, 2000)
    r1.expire()
    before = r1.digest
    r1.restart()
    r1.now -= 2000
    assert r1.digest == before
    assert r1("EXISTS x") == 0


# --- Where lanes begin again ----------------------------------------------------------------------


def read(node: Node) -> list[str]:
    reply = node.run("XREADGROUP GROUP g c STREAMS x >")
    return reply["x"] if isinstance(reply, dict) else []


def expired_while_a_group_reads() -> tuple[Node, Node]:
    """Region 1 makes a group past the deadline, and reads region 2's 100; region 2 is not told."""
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XADD x 1 f v", "PEXPIRE x 1000")
    sync(*nodes)
    r2.run("XADD x 100 f v")
    let_pass(nodes, 2000)
    r1.run("XGROUP CREATE x g 0 MKSTREAM")
    r1.pull(r2)
    assert read(r1) == ["100-0"]
    r1.run("XACK x g 100")
    return r1, r2


def test_entries_added_after_expiry_are_delivered_by_groups_that_outlive_it() -> None:
    r1, r2 = expired_while_a_group_reads()
    assert str(r2.run("XADD x 5 f v")).startswith(
        "ERR The ID specified in XADD is equal or smaller"
    )
    assert r2.run("XADD x 101 f v") == "101-0"
    r2.now = 50  # ms before the old last ID
    added = str(r2.run("XADD x * f v"))
    sync(r1, r2)
    r1.now = r2.now
    assert read(r1) == ["101-0", added]


def test_a_key_begins_again_at_any_id_once_no_group_can_have_read_further() -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    r2.run("XADD y 1 f v")
    sync(*nodes)
    r1.run("XADD x 100 f v", "PEXPIRE x 1000")
    sync(*nodes)
    let_pass(nodes, 2000)
    r1.expire()
    assert str(r1.run("XADD x 5 f v")).startswith("ERR The ID")
    sync(*nodes)
    r1.replica.forget_stable(r1.replica.vv)
    assert r1.run("XADD x 5 f v") == "5-0"
    r1.run("PEXPIRE x 10")
    let_pass(nodes, 20)
    assert str(r1.run("XADD x 4 f v")).startswith("ERR The ID")
    r1.run("XADD x 6 f v", "DEL x")
    assert r1.run("XADD x 1 f v") == "1-0"


def test_a_key_of_one_region_begins_again_at_any_id() -> None:
    node = Node(1)
    node.run("XADD x 100 f v", "PEXPIRE x 10")
    node.now += 20
    assert node.run("XADD x 5 f v") == "5-0"


def test_a_copy_onto_an_expired_key_deletes_it() -> None:
    """Its IDs may be lower than what a group elsewhere has read."""
    r1, r2 = expired_while_a_group_reads()
    r2.run("XADD y 7 f v", "COPY y x")
    sync(r1, r2)
    assert [node("XRANGE x - +") for node in (r1, r2)] == [["7-0"]] * 2
    assert groups(r1) == []


def test_the_floor_survives_a_restart() -> None:
    _, r2 = expired_while_a_group_reads()
    r2.run("XADD x 101 f v")
    before = r2.replica.floor_of(b"x")
    r2.restart()
    assert r2.replica.floor_of(b"x") == before > 0


# --- Some of a group's creates end ----------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_xacks_and_modes_of_a_group_are_removed_with_its_create(order: tuple[int, ...]) -> None:
    """R1's group is deleted by expiry while R2 makes one of the same name, unaware of R1's.

    R3's XACK and its home belong to R1's group only.  R4 hears of the three in every order.
    """
    r1, r2, r3, r4 = nodes = [Node(1), Node(2), Node(3), Node(4)]
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XADD y 1 f v")
    sync(*nodes)
    r1.run("XGROUP CREATE x g 0", "PEXPIRE x 1000")
    r2.run("XADD x 3 f v", "XGROUP CREATE x g 0")
    r3.pull(r1)
    r3.run("XREADGROUP GROUP g c STREAMS x >", "XACK x g 1 2", "CRDT.XGROUP SETMODE x g home 3")
    r4.pull(r1)
    r1.now += 2000
    r1.expire()
    for at in order:
        r4.pull(nodes[at])
    sync(*nodes)
    for node in nodes:
        node.now = r1.now
        assert node("XRANGE x - +") == ["3-0"]
        mode = of_type(dict, node("CRDT.XGROUP GETMODE x g"))
        assert list(mode.values()) == ["at-least-once", None, 0, None]
        stream = node.replica.stream(b"x")
        assert stream is not None
        assert stream.groups[b"g"].intervals == {}


def test_a_tombstone_is_left_by_del_and_not_by_expiry() -> None:
    node = Node(1)
    node.run("XADD x 1 f v", "PEXPIRE x 10")
    node.now += 20
    node.expire()
    assert node.replica.tombstone_count == 0
    node.replica.issue(ExpireKey(b"y"))
    assert node.replica.tombstone_count == 0
    node.run("XADD x 1 f v", "DEL x")
    assert node.replica.tombstone_count == 1
