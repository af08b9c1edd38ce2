"""Plans against a plain list of entries: what lies between two version vectors, cut and limited."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.ids import ID_MAX, ID_MIN, RegionId, StreamId, make_id
from crdtstream.query import planning
from crdtstream.query.planning import Bounds, LaneCount, Range
from tests.harness.regions import Node, sync

KEYS = [b"a", b"b", b"c"]


@st.composite
def regions(draw: st.DrawFn) -> Node:
    """One region that has what three appended to three streams, some of it removed again."""
    nodes = [Node(1), Node(2), Node(3)]
    for node in nodes:
        node.replica.node_limits.entries_max = 3
        for key in draw(st.lists(st.sampled_from("abc"), max_size=25)):
            node(f"XADD {key} * f v")
            node.now += draw(st.integers(0, 3))
    sync(*nodes)
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from("abc"))
        found = nodes[0](f"XRANGE {key} - +")
        assert isinstance(found, list)
        if found:
            nodes[0].run(f"XDEL {key} {draw(st.sampled_from(found))}")
    return nodes[0]


def entries(node: Node, bounds: Bounds) -> Iterator[tuple[bytes, RegionId, int]]:
    """(key, origin, dot number) of every entry within the bounds."""
    for key in bounds.keys:
        stream = node.replica.stream(key)
        for entry_id, origin, macro, index in () if stream is None else stream.scan():
            n = macro.n[index]
            if (
                (not bounds.origins or origin in bounds.origins)
                and bounds.above.get(origin, 0) < n <= bounds.upto.get(origin, 0)
                and bounds.start <= entry_id <= bounds.end
            ):
                yield key, origin, n


@st.composite
def bounds_of(draw: st.DrawFn, node: Node) -> Bounds:
    vv = node.replica.vv
    above = {region: draw(st.integers(0, n)) for region, n in vv.items()}
    upto = {region: draw(st.integers(above[region], n)) for region, n in vv.items()}
    low, high = draw(st.integers(998, 1080)), draw(st.integers(998, 1080))
    some_ids = draw(st.booleans())
    return Bounds(
        draw(st.sampled_from([KEYS, [b"b"], [b"a", b"none"]])),
        {region: n for region, n in above.items() if n},
        {region: n for region, n in upto.items() if n},
        frozenset(map(RegionId, draw(st.sampled_from([[], [1], [2, 3]])))),
        make_id(low, 0) if some_ids else ID_MIN,
        make_id(high, 0) if some_ids else ID_MAX,
    )


def counted(node: Node, bounds: Bounds) -> list[LaneCount]:
    counts: list[LaneCount] = []
    for _ in planning.count(node.replica, bounds, counts):
        pass
    return counts


def cut(counts: list[LaneCount], bounds: Bounds, range_entries: int) -> list[Range]:
    found: list[Range] = []
    for _ in planning.cut(counts, bounds, range_entries=range_entries, into=found):
        pass
    return found


def end_after(
    node: Node, bounds: Bounds, counts: list[LaneCount], entries_max: int
) -> dict[RegionId, int]:
    end: dict[RegionId, int] = {}
    for _ in planning.end_after(node.replica, bounds, counts, entries_max=entries_max, into=end):
        pass
    return end


@given(node=regions(), data=st.data(), range_entries=st.integers(0, 9))
def test_ranges_hold_every_entry_once(node: Node, data: st.DataObject, range_entries: int) -> None:
    bounds = data.draw(bounds_of(node))
    expected = sorted(entries(node, bounds))
    found = cut(counted(node, bounds), bounds, range_entries)

    assert found == sorted(found)
    held = [
        [
            (key, origin, n)
            for key, origin, n in expected
            if (key, origin) == (one.key, one.origin) and one.above_n < n <= one.upto_n
        ]
        for one in found
    ]
    assert sorted(entry for some in held for entry in some) == expected
    assert [len(some) for some in held] == [one.entries for one in found]
    assert all(held)
    if range_entries:
        # About: to the next whole macro node.
        assert all(one.entries < range_entries + 6 for one in found)


@given(node=regions(), data=st.data(), entries_max=st.integers(1, 30))
def test_an_end_has_so_many_entries_and_goes_on_to_the_last(
    node: Node, data: st.DataObject, entries_max: int
) -> None:
    bounds = data.draw(bounds_of(node))
    left = set(entries(node, bounds))
    above = bounds.above
    while True:
        part = Bounds(bounds.keys, above, bounds.upto, bounds.origins, bounds.start, bounds.end)
        counts = counted(node, part)
        end = end_after(node, part, counts, entries_max)
        assert all(end.get(origin, 0) >= n for origin, n in above.items())
        step = Bounds(bounds.keys, above, end, bounds.origins, bounds.start, bounds.end)
        found = set(entries(node, step))
        assert len(found) == min(entries_max, len(left))
        left -= found
        if not found:
            break
        above = end
    assert not left


def test_every_origin_gets_its_share() -> None:
    nodes = [Node(1), Node(2)]
    for node, count in zip(nodes, (60, 20), strict=True):
        for _ in range(count):
            node("XADD a * f v")
    sync(*nodes)
    vv = nodes[0].replica.vv
    bounds = Bounds([b"a"], {}, vv, frozenset())
    end = end_after(nodes[0], bounds, counted(nodes[0], bounds), 40)
    assert end == {1: 30, 2: 10}


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ([], [b"a*", b"b", b"orders:1", b"orders:2"]),
        ([b"orders:*"], [b"orders:1", b"orders:2"]),
        ([b"orders:1", b"b", b"none"], [b"b", b"orders:1"]),
        ([b"b", b"o*1"], [b"b", b"orders:1"]),
        ([rb"a\*"], [b"a*"]),
    ],
)
def test_keys_match_patterns_or_are_named(patterns: list[bytes], found: list[bytes]) -> None:
    node = Node(1)
    for key in ("orders:2", "b", "orders:1", "a*"):
        node(f"XADD {key} * f v")
    # A string is not among them.
    node("MSET orders:3 v none v")
    keys: list[bytes] = []
    for _ in planning.matching_keys(node.replica, patterns, keys):
        pass
    assert keys == found


def test_many_keys_are_found_in_steps_and_in_order() -> None:
    node = Node(1)
    names = [f"k{n}" for n in range(1000)]
    for name in names:
        node(f"XADD {name} * f v")
    keys: list[bytes] = []
    steps = sum(1 for _ in planning.matching_keys(node.replica, [b"k*"], keys))
    assert keys == sorted(name.encode() for name in names)
    assert steps >= 5


def losses(
    node: Node, above: dict[RegionId, int], *patterns: bytes
) -> list[tuple[bytes, int, int]]:
    keys: list[bytes] = []
    for _ in planning.matching_keys(node.replica, patterns, keys):
        pass
    found: list[planning.Loss] = []
    bounds = Bounds(keys, above, node.replica.vv, frozenset())
    for _ in planning.collect_losses(node.replica, bounds, patterns, into=found):
        pass
    return [(loss.key, loss.origin, loss.lost_n) for loss in found]


@pytest.mark.parametrize("command", ["XTRIM a MAXLEN 2", "DEL a", "XTRIM a MAXLEN 2 ACKED"])
def test_entries_trimmed_or_deleted_unread_are_losses(command: str) -> None:
    node = Node(1)
    for _ in range(5):
        node("XADD a * f v")
    node.end_tick()
    node.run(command)
    lost = 5 if command == "DEL a" else 3
    assert losses(node, {}) == [(b"a", 1, lost)]
    assert losses(node, {}, b"a") == [(b"a", 1, lost)]
    assert losses(node, {RegionId(1): lost}) == []
    assert losses(node, {}, b"b*") == []
    node.restart()
    assert losses(node, {}) == [(b"a", 1, lost)]
    node("XADD a * f v")
    assert losses(node, {}) == [(b"a", 1, lost)]


def test_xdel_causes_no_loss() -> None:
    node = Node(1)
    entry_id = node("XADD a * f v")
    node("XADD a * f v")
    node.run(f"XDEL a {entry_id}")
    assert losses(node, {}) == []


def test_ranges_are_named_tuples_in_order() -> None:
    node = Node(1)
    for _ in range(3):
        node("XADD a * f v")
    bounds = Bounds([b"a"], {}, node.replica.vv, frozenset(), StreamId(0), ID_MAX)
    (one,) = cut(counted(node, bounds), bounds, 0)
    assert one == Range(b"a", RegionId(1), 0, 3, 3)


def test_a_stream_whose_time_is_over_is_read_until_its_delete_tells_the_loss() -> None:
    """Another region deletes it; until that comes, it may yet be made to last."""
    r1, r2 = Node(1), Node(2)
    for _ in range(5):
        r2("XADD a * f v")
    r2.run("PEXPIRE a 50")
    r1.pull(r2)
    r1.now += 1000
    r1("PING")
    assert r1.replica.stream(b"a") is None
    keys: list[bytes] = []
    for _ in planning.matching_keys(r1.replica, [b"*"], keys):
        pass
    bounds = Bounds(keys, {}, r1.replica.vv, frozenset())
    (one,) = cut(counted(r1, bounds), bounds, 0)
    assert one.entries == 5
    r2.now += 1000
    r2.expire()
    r1.pull(r2)
    assert losses(r1, {RegionId(2): 3}) == [(b"a", 2, 5)]


def test_an_origin_that_has_little_is_not_left_behind() -> None:
    nodes = [Node(1), Node(2)]
    for node, count in zip(nodes, (2000, 1), strict=True):
        for _ in range(count):
            node("XADD a * f v")
    sync(*nodes)
    bounds = Bounds([b"a"], {}, nodes[0].replica.vv, frozenset())
    assert end_after(nodes[0], bounds, counted(nodes[0], bounds), 10) == {1: 9, 2: 1}
