"""Registers, strings, tombstones and floors of two states made one (``rules`` 5, 7, 8, 23)."""

import pytest

from crdtstream.core.clock import Dot
from crdtstream.core.effects import DestroyGroup
from crdtstream.core.ids import RegionId, StreamId
from tests.harness.group_modes import read
from tests.harness.regions import Node, sync

BOTH = [0, 1]


def two(line: str = "XADD x 1 f v") -> list[Node]:
    """Two regions that have heard of the same."""
    nodes = [Node(1), Node(2)]
    nodes[0].run(line)
    sync(*nodes)
    return nodes


def settle(nodes: list[Node], at: int) -> None:
    """The one merges, then the other; both show the same then."""
    nodes[at].merge(nodes[1 - at])
    nodes[1 - at].merge(nodes[at])
    assert nodes[0].replica.vv == nodes[1].replica.vv
    assert nodes[0].digest == nodes[1].digest


# --- Last IDs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", BOTH)
def test_of_an_origins_last_ids_the_one_that_was_set_last_counts(at: int) -> None:
    nodes = two()
    nodes[0].run("XSETID x 9")
    settle(nodes, at)
    stream = nodes[1].replica.stream(b"x")
    assert stream is not None
    assert stream.last_id == 9 << 64


@pytest.mark.parametrize("at", BOTH)
def test_a_last_id_that_a_delete_took_elsewhere_goes(at: int) -> None:
    nodes = two("XADD x 100 f v")
    nodes[0].run("DEL x", "XADD z 1 f v")
    settle(nodes, at)
    assert nodes[1]("EXISTS x") == 0
    assert nodes[1].run("XADD x 5 f v") == "5-0"


@pytest.mark.parametrize("at", BOTH)
def test_a_last_id_that_a_delete_had_not_observed_stays(at: int) -> None:
    nodes = two("XADD x 100 f v")
    nodes[0].run("DEL x")
    nodes[1].run("XADD x 200 f v")
    settle(nodes, at)
    assert nodes[0]("XRANGE x - +") == ["200-0"]
    stream = nodes[0].replica.stream(b"x")
    assert stream is not None
    assert sorted(stream.last_ids) == [2]


# --- Deadlines and XCFGSET (C1) -------------------------------------------------------------------


@pytest.mark.parametrize("at", BOTH)
def test_a_deadline_that_a_delete_had_not_observed_goes(at: int) -> None:
    """C1: DEL here, EXPIRE there; else an orphan deadline later deletes a new stream."""
    nodes = two()
    nodes[0].run("DEL x")
    nodes[1].run("XADD x 2 f v", "PEXPIRE x 5000")
    settle(nodes, at)
    for node in nodes:
        assert node.replica.keys.expiry.of(b"x") is None
        assert node("XRANGE x - +") == ["2-0"]


@pytest.mark.parametrize("at", BOTH)
def test_a_bound_of_xcfgset_that_a_delete_had_not_observed_goes(at: int) -> None:
    nodes = two()
    nodes[0].run("DEL x")
    nodes[1].run("XADD x 2 f v", "XCFGSET x IDMP-DURATION 7 IDMP-MAXSIZE 3")
    settle(nodes, at)
    for node in nodes:
        assert node.replica.keys.idmp_settings_of(b"x") == (None, None)


@pytest.mark.parametrize("at", BOTH)
def test_a_deadline_that_had_observed_the_delete_stays(at: int) -> None:
    nodes = two()
    nodes[0].run("DEL x", "XADD x 2 f v", "PEXPIRE x 5000")
    settle(nodes, at)
    assert nodes[1].replica.keys.expiry.of(b"x") == 6000


@pytest.mark.parametrize("at", BOTH)
def test_of_concurrent_deadlines_the_latest_counts(at: int) -> None:
    nodes = two()
    nodes[0].run("PEXPIRE x 5000")
    nodes[1].run("PEXPIRE x 7000")
    settle(nodes, at)
    for node in nodes:
        assert node.replica.keys.expiry.of(b"x") == 8000


@pytest.mark.parametrize("at", BOTH)
def test_a_deadline_that_was_overwritten_elsewhere_goes(at: int) -> None:
    nodes = two()
    nodes[0].run("PEXPIRE x 9000")
    sync(*nodes)
    nodes[1].run("PEXPIRE x 5000")
    settle(nodes, at)
    for node in nodes:
        assert node.replica.keys.expiry.of(b"x") == 6000


@pytest.mark.parametrize("at", BOTH)
def test_of_concurrent_bounds_of_xcfgset_the_greatest_counts(at: int) -> None:
    nodes = two()
    nodes[0].run("XCFGSET x IDMP-DURATION 7")
    nodes[1].run("XCFGSET x IDMP-DURATION 5 IDMP-MAXSIZE 3")
    settle(nodes, at)
    for node in nodes:
        assert node.replica.keys.idmp_settings_of(b"x") == (7, 3)


def test_a_deadline_that_came_by_a_state_ends_the_stream() -> None:
    nodes = two()
    nodes[1].run("PEXPIRE x 100")
    nodes[0].merge(nodes[1])
    nodes[0].now += 200
    nodes[0].expire()
    assert nodes[0]("EXISTS x") == 0


# --- Strings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", BOTH)
def test_of_concurrent_values_the_one_with_the_lowest_dot_counts(at: int) -> None:
    nodes = two("SET other v")
    nodes[0].run("SET s a PX 5000")
    nodes[1].run("SET s b")
    settle(nodes, at)
    for node in nodes:
        assert node("GET s") == "a"
        string = node.replica.keys.string(b"s")
        assert string is not None
        assert len(string) == 2
        assert node("PTTL s") == 5000


@pytest.mark.parametrize("at", BOTH)
def test_a_value_that_was_overwritten_or_deleted_elsewhere_goes(at: int) -> None:
    nodes = two("SET s a")
    nodes[0].run("SET t a")
    sync(*nodes)
    nodes[0].run("DEL t")
    nodes[1].run("SET s b")
    settle(nodes, at)
    for node in nodes:
        assert node("GET s") == "b"
        assert node("EXISTS t") == 0


@pytest.mark.parametrize("at", BOTH)
def test_a_deadline_of_a_value_that_was_changed_elsewhere_counts(at: int) -> None:
    nodes = two("SET s a PX 5000")
    nodes[0].run("PEXPIRE s 7000")
    settle(nodes, at)
    for node in nodes:
        assert node("PTTL s") == 7000


@pytest.mark.parametrize("at", BOTH)
def test_of_concurrent_deadlines_of_a_value_the_latest_counts(at: int) -> None:
    nodes = two("SET s a PX 5000")
    nodes[0].run("PEXPIRE s 7000")
    nodes[1].run("PEXPIRE s 9000")
    settle(nodes, at)
    for node in nodes:
        assert node("PTTL s") == 9000


@pytest.mark.parametrize("at", BOTH)
def test_a_stream_and_a_string_of_one_name_are_both_kept(at: int) -> None:
    nodes = two("SET other v")
    nodes[0].run("SET x a")
    nodes[1].run("XADD x 1 f v")
    settle(nodes, at)
    for node in nodes:
        assert node("XLEN x") == 1
        assert node.replica.keys.held_string(b"x") is not None


# --- Tombstones -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "group"), [("DEL x", None), ("XGROUP DESTROY x g", b"g")])
def test_a_tombstone_that_came_by_a_state_ends_what_comes_later(
    line: str, group: bytes | None
) -> None:
    """Region 3's create had not observed it, and comes by its effect."""
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 1 f v", "XGROUP CREATE x g 0")
    r3.pull(r1)
    r1.run(line)
    r3.run("XGROUP DESTROY x h", "XGROUP CREATE x g 0", "XGROUP CREATE x h 0")
    r2.merge(r1)
    assert group in r2.replica._state.tombstones.of(b"x")
    r2.pull(r3)
    assert b"g" not in getattr(r2.replica.stream(b"x"), "groups", {})
    r1.pull(r3)
    assert r1.digest == r2.digest


def test_tombstones_of_both_are_united_and_forgotten_when_they_are_stable() -> None:
    nodes = two("XADD x 1 f v")
    nodes[0].replica.issue(DestroyGroup(b"x", b"a"))
    nodes[0].end_tick()
    nodes[1].replica.issue(DestroyGroup(b"x", b"b"))
    nodes[1].end_tick()
    nodes[0].merge(nodes[1])
    assert set(nodes[0].replica._state.tombstones.of(b"x")) == {b"a", b"b"}
    nodes[0].replica.forget_stable(nodes[0].replica.vv)
    assert nodes[0].replica.tombstone_count == 0


def test_a_tombstone_of_one_group_leaves_the_others() -> None:
    nodes = two()
    nodes[0].run("XGROUP CREATE x h 0")
    nodes[1].replica.issue(DestroyGroup(b"x", b"g"))
    nodes[1].end_tick()
    settle(nodes, 0)
    stream = nodes[1].replica.stream(b"x")
    assert stream is not None
    assert list(stream.groups) == [b"h"]


# --- Floors (M14) ---------------------------------------------------------------------------------


def expired_behind_a_reader() -> tuple[Node, Node]:
    """Region 2's g has read and acknowledged region 1's 100; then x expires."""
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 100-1 f v")
    r2.pull(r1)
    r2.run("PEXPIRE x 1")
    r2.run("XGROUP CREATE x g 0")
    assert read(r2) == ["100-1"]
    r2.run("XACK x g 100-1")
    r1.pull(r2)
    r1.now += 10
    return r1, r2


def test_a_region_that_was_wiped_goes_on_above_its_floor() -> None:
    """M14: else what it appends lies inside an acknowledged interval, and nobody delivers it."""
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run("XADD x 100-1 f v")
    r3.pull(r1)
    r2.pull(r1)
    r3.run("PEXPIRE x 1")
    r3.now += 10
    r3.expire()
    r2.run("XGROUP CREATE x g 0")
    assert read(r2) == ["100-1"]
    r2.run("XACK x g 100-1")
    r2.pull(r3)
    wiped = Node(1)
    wiped.merge(r2)
    assert "equal or smaller" in str(wiped.run("XADD x 5-1 f v"))
    new_id = wiped.run("XADD x 101-1 f v")
    r2.pull(wiped)
    assert read(r2) == [new_id]


def test_floors_of_all_origins_are_taken_over() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    for node in (r1, r2):
        node.run(f"XADD x {100 * node.region}-{node.region} f v")
    r3.pull(r1, r2)
    r3.run("PEXPIRE x 1")
    r3.now += 10
    r3.expire()
    r4 = Node(4)
    r4.merge(r3)
    facts = r4.replica._state.floors.facts_of(b"x")
    assert {region: floor.last_id >> 64 for region, floor in facts.items()} == {1: 100, 2: 200}
    # And from there to the regions whose lanes they are.
    for region in (1, 2):
        wiped = Node(region)
        wiped.merge(r4)
        assert wiped.replica.floor_of(b"x") >> 64 == 100 * region


def test_of_two_floors_the_higher_one_counts() -> None:
    r1, r2 = Node(1), Node(2)
    floors = [node.replica._state.floors for node in (r1, r2)]
    r1.run("XADD z 1 f v")
    origin = RegionId(1)
    floors[0].raise_to(b"x", origin, StreamId(5 << 64), Dot(origin, 1))
    floors[1].raise_to(b"x", origin, StreamId(9 << 64), Dot(RegionId(2), 1))
    r1.replica._state.parts.note(b"x")
    r2.replica._state.parts.note(b"x")
    r1.merge(r2)
    assert r1.replica.floor_of(b"x") == 9 << 64
    r2.merge(r1)
    assert floors[1].facts_of(b"x")[origin].last_id == 9 << 64


# --- What is gone ---------------------------------------------------------------------------------


def test_a_loss_of_a_key_that_is_gone_is_remembered_as_the_latest() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v")
    r2.pull(r1)
    r2.run("DEL x", "XADD y 1 f v", "DEL y")
    r1.run("DEL x", "XADD x 3 f v", "DEL x")
    r2.merge(r1)
    assert r2.replica.keys.lost(b"x") == {1: 3}
    order = list(r2.replica._keys._trimmed._by_key)
    r2.restart()
    assert list(r2.replica._keys._trimmed._by_key) == order
    r2.cut()
    r2.checkpoints.finish(r2.replica)
    r2.restart()
    assert list(r2.replica._keys._trimmed._by_key) == order


def test_keys_come_in_the_order_of_the_other_region_behind_the_own_ones() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD b 1 f v", "XADD a 1 f v", "SET s v")
    r2.run("XADD z 1 f v")
    r2.merge(r1)
    assert r2("KEYS *") == ["z", "b", "a", "s"]
