"""Digests made in steps: what they sum up to, whatever happens between two steps."""

import random
from collections.abc import Callable
from hashlib import blake2b

import pytest

from crdtstream.core.comparing import (
    INTERVALS_AT_ONCE,
    KEYS_AT_ONCE,
    NODES_AT_ONCE,
    AckedSum,
    KeySums,
    LaneSum,
    PartKind,
    PartSum,
    bucket_of,
    entries_above,
    keys_between,
)
from crdtstream.core.ids import Millis, RegionId, StreamId, make_id
from crdtstream.core.intervals import Intervals
from crdtstream.core.lanes.blocks import DIGEST_MASK, LONG
from crdtstream.core.lanes.bulk_reading import digest_of
from crdtstream.core.lanes.compaction import compact
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.slices import Within
from crdtstream.core.whole.digest import bytes_of_acked
from tests.cold_nodes import freeze, save
from tests.conftest import seeds
from tests.harness.regions import Node, sync

R1 = RegionId(1)


def at_once() -> bool:
    return False


def over_at_once() -> bool:
    return True


def summed(lane: Lane, is_over: Callable[[], bool], between: Callable[[], object]) -> LaneSum:
    total = LaneSum()
    while not total.go_on(lane, is_over):
        between()
    return total


def drawn_lane(chance: random.Random, limits: NodeLimits) -> Lane:
    """Short and long entries, gaps between dots, some removed, some nodes closed early."""
    lane = Lane(R1, limits)
    n = 0
    for _ in range(chance.randrange(2500)):
        n += chance.choice((1, 1, 1, 1, 2, 40, 300))
        length = chance.choice((5, 5, 5, 5, 5, LONG - 1, LONG, 900))
        lane.append(make_id(n, 1), n, bytes([n % 251]) * length, Millis(n))
        if chance.random() < 0.01:
            save(limits)
    for _ in range(chance.randrange(200)):
        lane.remove(make_id(chance.randrange(n + 2), 1), n_max=n)
    return lane


@pytest.mark.parametrize("seed", seeds(25, few=5))
def test_a_sum_made_in_steps_is_that_of_the_lane(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    limits = NodeLimits(entries_max=chance.choice((1, 3, 100)))
    lane = drawn_lane(chance, limits)
    expected = digest_of(lane)
    assert summed(lane, at_once, list).total == expected
    monkeypatch.setattr(NODES_AT_ONCE, "value", 300)
    stepped = summed(lane, over_at_once, list)
    assert (stepped.total, stepped.entries) == (expected, lane.length)

    def join_nodes() -> None:
        if chance.random() < 0.2:
            save(limits)
            compact(limits)

    joined = summed(lane, over_at_once, join_nodes)
    assert (joined.total, joined.entries) == (expected, lane.length)


@pytest.mark.parametrize("seed", range(10))
def test_the_stretches_of_a_lane_sum_up_to_it(seed: int) -> None:
    chance = random.Random(seed)
    lane = drawn_lane(chance, NodeLimits(entries_max=chance.choice((1, 3, 100))))
    bits = chance.choice((8, 9, 12))
    total, entries = 0, 0
    for number in range(1 << 20 >> bits):
        one = LaneSum((number << bits) - 1, ((number + 1) << bits) - 1)
        while not one.go_on(lane, over_at_once):
            pass
        total = (total + one.total) & DIGEST_MASK
        entries += one.entries
    assert (total, entries) == (digest_of(lane), lane.length)


def test_entries_on_disk_are_not_read_while_their_heads_tell() -> None:
    limits = NodeLimits()
    lane = Lane(R1, limits)
    for n in range(1, 4001):
        lane.append(make_id(n, 1), n, b"f" * 26, Millis(n))
    save(limits)
    while compact(limits):
        pass
    expected = digest_of(lane)
    save(limits)
    freeze(limits)
    assert limits.residency.absent_count == lane.macro_node_count > 1
    assert summed(lane, over_at_once, list).total == expected
    assert limits.residency.fetched_count == 0


def test_entries_are_listed_with_all_that_is_replicated_of_them() -> None:
    lanes = [Lane(R1, NodeLimits(entries_max=size)) for size in (2, 100)]
    for lane in lanes:
        for n in range(1, 300):
            lane.append(make_id(n, 1), n, b"f" * (n % 3), Millis(n))
    whole = Within(above_n=0, upto_n=255)
    found: list[list[object]] = []
    for lane in lanes:
        listed: list[object] = []
        above_n = 0
        while some := entries_above(lane, Within(above_n, whole.upto_n), 16):
            listed += some
            above_n = some[-1].n
        found.append(listed)
    assert len(found[0]) == 255
    assert found[0] == found[1]
    changed = Lane(R1, NodeLimits())
    changed.append(make_id(1, 1), 1, b"g", Millis(0))
    (one,) = entries_above(changed, whole, 16)
    assert one.digest != entries_above(lanes[0], whole, 1)[0].digest


def sums_of(node: Node, key: bytes) -> KeySums:
    sums = KeySums(node.replica.keys, key)
    while not sums.go_on(over_at_once):
        pass
    return sums


def parts_of(node: Node, key: bytes) -> dict[object, PartSum]:
    return {part.name: part for part in sums_of(node, key).parts}


# A command more in one region, and the kinds of parts that differ by it.
CHANGES = {
    "XADD x 9000-1 a b": {PartKind.LANE, PartKind.LAST_ID},
    "XDEL x 5000-1": {PartKind.LANE},
    "XSETID x 9000-0": {PartKind.LAST_ID},
    "XGROUP CREATE x other 0": {PartKind.CREATES},
    "XGROUP DESTROY x g": {PartKind.CREATES, PartKind.ACKED},
    "CRDT.XGROUP SETMODE x g HOME 1": {PartKind.MODE},
    "XACK x g 5001-1": {PartKind.ACKED},
    "EXPIRE x 1000": {PartKind.EXPIRY},
    "XCFGSET x IDMP-DURATION 70": {PartKind.CONFIG},
    "SET s w": {PartKind.STRING},
    "PEXPIRE s 9000": {PartKind.STRING},
}


@pytest.mark.parametrize("line", CHANGES)
def test_a_difference_is_named_by_its_part(line: str) -> None:
    one, two = Node(1), Node(2)
    one("XADD x 5000-1 f v")
    one("XADD x 5001-1 f v")
    one("XGROUP CREATE x g 0")
    one("XREADGROUP GROUP g c COUNT 2 STREAMS x >")
    one("XACK x g 5000-1")
    one("SET s v")
    sync(one, two)
    for key in (b"x", b"s"):
        assert sums_of(one, key).digest == sums_of(two, key).digest
    key = b"s" if " s " in line else b"x"
    one.run(line)
    here, there = parts_of(one, key), parts_of(two, key)
    differing = {
        name.kind  # type: ignore[attr-defined]
        for name in here.keys() | there.keys()
        if here.get(name) != there.get(name)
    }
    assert differing == CHANGES[line]
    assert sums_of(one, key).digest != sums_of(two, key).digest


@pytest.mark.parametrize("seed", range(40))
def test_intervals_that_grow_meanwhile_sum_up_to_one_state(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ID is looked at once, and how they touched in between does not matter."""
    chance = random.Random(seed)
    monkeypatch.setattr(INTERVALS_AT_ONCE, "value", chance.randrange(1, 4))
    growing, shown, total = Intervals(), Intervals(), AckedSum(b"", R1)
    for _ in range(chance.randrange(1, 12)):
        low = chance.randrange(40)
        growing.add(StreamId(low), StreamId(low + chance.randrange(1, 4)))
    more = True
    while more:
        before = total.end
        more = total.go_on(growing)
        for low, high in growing:
            if before < high <= total.end or low < total.end < high:
                shown.add(max(StreamId(low), before), min(high, total.end))
        low = chance.randrange(40)
        growing.add(StreamId(low), StreamId(low + 1))
    assert total.count == len(list(shown))
    assert total.digest == digest_of_intervals(shown)


def digest_of_intervals(intervals: Intervals) -> bytes:
    return blake2b(bytes_of_acked(R1, intervals), digest_size=16).digest()


def test_a_group_that_is_made_again_is_another_one() -> None:
    node = Node(1)
    for number in range(5):
        node(f"XADD x {number + 1}-1 f v")
    node("XGROUP CREATE x g 0")
    node.run("XREADGROUP GROUP g c NOACK STREAMS x >")
    sums = KeySums(node.replica.keys, b"x")
    while PartKind.CREATES not in {part.name.kind for part in sums.parts}:
        assert not sums.go_on(over_at_once)
    node("XGROUP DESTROY x g")
    node("XGROUP CREATE x g 0")
    node.run("XREADGROUP GROUP g c NOACK STREAMS x >")
    while not sums.go_on(over_at_once):
        pass
    assert PartKind.ACKED not in {part.name.kind for part in sums.parts}


def test_a_key_without_parts_is_none() -> None:
    assert sums_of(Node(1), b"x").digest == b""


def test_all_keys_are_met_once_by_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KEYS_AT_ONCE, "value", 3)
    node = Node(1)
    expected = {b"k%d" % number for number in range(60)}
    for key in expected:
        node(f"{'SET' if key[-1] % 2 else 'XADD'} {key.decode()} {'v' if key[-1] % 2 else '* f v'}")
    node.run("XADD gone * f v")
    # A deadline that was not observed when the key expired is there alone.
    other = Node(2)
    node.run("EXPIRE gone 1")
    sync(node, other)
    other.run("EXPIRE gone 1000")
    node.now += 5000
    node.expire()
    sync(node, other)
    assert node.replica.keys.registers.get(b"gone") is not None
    assert node.replica.keys.held_stream(b"gone") is None
    expected.add(b"gone")
    found = [key for key in keys_between(node.replica.keys, 0, 255) if key is not None]
    assert len(found) == len(set(found))
    assert set(found) == expected
    by_bucket = [
        key
        for bucket in range(256)
        for key in keys_between(node.replica.keys, bucket, bucket)
        if key is not None
    ]
    assert by_bucket == found
    assert [bucket_of(key) for key in found] == sorted(map(bucket_of, found))
