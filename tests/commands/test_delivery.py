"""Group modes as readers meet them, and how many entries a group has still to hand out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.commands.reply import Null
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId, make_id
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.database.database import WAITING
from tests.conftest import examples
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type
from tests.harness.waiting_clients import Clients

READ = "XREADGROUP GROUP g c STREAMS s >"


def three(mode: str) -> tuple[Node, Node, Node]:
    """Regions with one entry each, and a group of this mode."""
    nodes = Node(1), Node(2), Node(3)
    for node in nodes:
        node.run(f"XADD s {node.region} f v")
    nodes[0].run("XGROUP CREATE s g 0")
    nodes[0].pull(*nodes)
    nodes[0].run(f"CRDT.XGROUP SETMODE s g {mode}")
    sync(*nodes)
    return nodes


def undelivered(node: Node, group: str = "g") -> int:
    rows = list_of(dict, node("CRDT.XINFO GROUPS s"))
    (count,) = (row["undelivered"] for row in rows if row["name"] == group)
    return of_type(int, count)


# --- home ---------------------------------------------------------------------------------------

REFUSED = (
    "NOTHOME Group 'g' of key 's' is handed out by region 2 only: read it there, or move it with "
    "CRDT.XGROUP SETMODE s g home 1 (there, or here with FORCE if region 2 is lost)"
)


@pytest.mark.parametrize(
    "line",
    [
        READ,
        "XREADGROUP GROUP g c BLOCK 0 CLAIM 5 STREAMS s >",
        "XREADGROUP GROUP g new STREAMS t s 0 >",
        "XCLAIM s g c 0 1",
        "XAUTOCLAIM s g c 0 0",
    ],
)
def test_elsewhere_what_hands_out_is_refused_and_says_where_to_go(line: str) -> None:
    r1, r2, _ = three("home 2")
    r1.run("XGROUP CREATE t g 0 MKSTREAM")
    assert r1(line) == REFUSED
    assert not r1.replica.has_open_record
    assert r2(READ) == {"s": ["1-0", "2-0", "3-0"]}


def test_elsewhere_what_is_pending_is_still_read_acknowledged_and_given_back() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*(f"XADD s {ms} f v" for ms in (1, 2, 3)), "XGROUP CREATE s g 0")
    r1.run("XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    r1.run("CRDT.XGROUP SETMODE s g home 2")
    sync(r1, r2)
    assert r1("XREADGROUP GROUP g c STREAMS s 0") == {"s": ["1-0", "2-0"]}
    assert r1("XNACK s g FAIL IDS 1 2") == 1
    assert r1("XPENDING s g - + 9") == [["1-0", "c", 0, 2], ["2-0", "", -1, 2]]
    assert r1("XACK s g 1 2") == 2
    assert r1(READ) == REFUSED


def test_a_waiting_reader_is_told_when_the_home_moves_away() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE s g 0 MKSTREAM", "CRDT.XGROUP SETMODE s g home 1")
    sync(r1, r2)
    here, there = Clients(r1.replica), Clients(r2.replica)
    assert here("XREADGROUP GROUP g c BLOCK 0 STREAMS s >") is WAITING
    assert there("XREADGROUP GROUP g c BLOCK 0 STREAMS s >").startswith("NOTHOME Group 'g'")
    r1.run("CRDT.XGROUP SETMODE s g home 2")
    assert here.settle() == {"A": REFUSED}
    sync(r1, r2)
    assert there("XREADGROUP GROUP g c BLOCK 0 STREAMS s >") is WAITING
    r1.run("XADD s 1 f v")
    sync(r1, r2)
    assert there.settle() == {"A": [["s", [["1-0", ["f", "v"]]]]]}


def test_the_new_home_hands_out_what_the_old_one_had_pending() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*(f"XADD s {ms} f v" for ms in (1, 2, 3)), "XGROUP CREATE s g 0")
    r1.run("CRDT.XGROUP SETMODE s g home 1", "XREADGROUP GROUP g c COUNT 2 STREAMS s >")
    r1.run("XACK s g 1", "CRDT.XGROUP SETMODE s g home 2")
    sync(r1, r2)
    assert (undelivered(r1), undelivered(r2)) == (0, 1)
    clients = Clients(r2.replica)
    assert clients("XREADGROUP GROUP g d CLAIM 60000 STREAMS s >")[0][1] == [
        ["2-0", ["f", "v"], 1000, 1],
        ["3-0", ["f", "v"], 0, 0],
    ]


# --- partitioned --------------------------------------------------------------------------------


def test_partitioned_each_region_hands_out_its_own_lane() -> None:
    nodes = three("partitioned")
    for node in nodes:
        assert undelivered(node) == 1
        assert node.run(READ) == {"s": [f"{node.region}-0"]}
        assert node.run(READ) is Null.ARRAY
        assert undelivered(node) == 0
    r1, r2, _ = nodes
    r1.run("XADD s 9 f v")
    sync(*nodes)
    assert (undelivered(r1), undelivered(r2)) == (1, 0)
    assert r2.run(READ) is Null.ARRAY


def test_partitioned_what_is_pending_is_claimed_whatever_its_lane() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s 1 f v")
    r2.run("XADD s 2 f v")
    sync(r1, r2)
    r1.run("XGROUP CREATE s g 0", READ, "CRDT.XGROUP SETMODE s g partitioned")
    sync(r1, r2)
    assert r1("XCLAIM s g d 0 1 2") == ["1-0", "2-0"]
    assert r1("XAUTOCLAIM s g e 0 0") == ["0-0", ["1-0", "2-0"], []]
    assert r1("XREADGROUP GROUP g f CLAIM 0 STREAMS s >") == {"s": ["1-0", "2-0"]}


# --- undelivered --------------------------------------------------------------------------------


def test_undelivered_is_known_where_redis_does_not_know_the_lag() -> None:
    node = Node(1)
    node.run(*(f"XADD s {ms} f v" for ms in range(1, 10)), "XGROUP CREATE s g 3", "XDEL s 5 6")
    (row,) = list_of(dict, node("CRDT.XINFO GROUPS s"))
    assert (row["lag"], row["undelivered"]) == (None, 4)


def test_undelivered_leaves_out_what_other_regions_acknowledged() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run(*(f"XADD s {ms} f v" for ms in range(1, 10)), "XGROUP CREATE s g 0")
    sync(r1, r2)
    r1.run("XREADGROUP GROUP g c COUNT 5 STREAMS s >", "XACK s g 1 2 3")
    sync(r1, r2)
    assert (undelivered(r1), undelivered(r2)) == (4, 6)


def test_stretches_that_overlap_are_left_out_once() -> None:
    nodes = r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run(*(f"XADD s {ms} f v" for ms in range(1, 17)))
    sync(*nodes)
    r1.run("XGROUP CREATE s g 8", "XREADGROUP GROUP g c COUNT 6 STREAMS s >")
    r1.run("XACK s g " + " ".join(map(str, range(9, 15))))
    r2.run("XGROUP CREATE s g 5", "XREADGROUP GROUP g c COUNT 5 STREAMS s >")
    r3.run("XGROUP CREATE s g 0")
    r2.pull(r3)
    sync(*nodes)
    # Handed out here, before it was taken back: (5, 10]; acknowledged there: (8, 14].
    assert undelivered(r2) == 7
    assert r2(READ) == {"s": [f"{ms}-0" for ms in (1, 2, 3, 4, 5, 15, 16)]}


# Of the entries that the two regions add at first, "@5" stands for the fifth.
PLACE = st.integers(0, 15).map("@{}".format)


def test_a_group_delivers_the_first_entries_of_all_lanes() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE s g 0 MKSTREAM", *(f"XADD s {ms}-1 f v" for ms in (110, 130, 140, 170)))
    r2.run(*(f"XADD s {ms}-2 f v" for ms in (100, 120, 130, 150)))
    sync(r1, r2)
    read = "XREADGROUP GROUP g c COUNT 3 STREAMS s >"
    assert r1(read) == {"s": ["100-2", "110-1", "120-2"]}
    assert r1(read) == {"s": ["130-1", "130-2", "140-1"]}
    assert r1("XACK s g 120-2 110-1 130-2") == 3
    assert r1("XPENDING s g - + 9") == [[one, "c", 0, 1] for one in ("100-2", "130-1", "140-1")]
    assert r1(read) == {"s": ["150-2", "170-1"]}


STARTS = st.sampled_from(["0", "$", "@3", "@9"])
READS = st.sampled_from(["COUNT 1", "COUNT 4", "COUNT 9", "COUNT 3 NOACK", "COUNT 3 CLAIM 0"])
LINES = st.one_of(
    READS.map("XREADGROUP GROUP g c {} STREAMS s >".format),
    st.lists(PLACE, min_size=1, max_size=6).map(" ".join).map("XACK s g {}".format),
    PLACE.map("XDEL s {}".format),
    PLACE.map("XDELEX s DELREF IDS 1 {}".format),
    PLACE.map("XNACK s g FAIL FORCE IDS 1 {}".format),
    st.one_of(PLACE, st.just("$")).map("XGROUP SETID s g {}".format),
    st.sampled_from(["XADD s * f v", "XGROUP DELCONSUMER s g c", "XTRIM s MAXLEN 10"]),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    starts=st.tuples(STARTS, STARTS),
    apart=st.lists(st.tuples(st.sampled_from([0, 1]), LINES), max_size=12),
    together=st.lists(st.tuples(st.sampled_from([0, 1]), LINES), max_size=12),
    node_entries_max=st.integers(1, 5),
)
def test_undelivered_is_what_would_be_handed_out(
    starts: tuple[str, str],
    apart: list[tuple[int, str]],
    together: list[tuple[int, str]],
    node_entries_max: int,
) -> None:
    """Two regions create the group at once and work on it apart; then they hear of each other."""
    nodes = Node(1), Node(2)
    for node in nodes:
        node.replica.node_limits.entries_max = node_entries_max
        node.run(*["XADD s * f v"] * 8)
    sync(*nodes)
    ids = list_of(str, nodes[0]("XRANGE s - +"))

    def step(node: Node, line: str) -> None:
        words = [ids[int(word[1:])] if word[0] == "@" else word for word in line.split()]
        node.now += 1
        node.run(" ".join(words))
        check(node)

    def check(node: Node) -> None:
        stream = node.replica.stream(b"s")
        assert stream is not None
        group, lanes = stream.groups[b"g"], stream.lanes.values()
        one_by_one = list(group.undelivered(lanes))
        assert group.undelivered_count(lanes) == len(one_by_one)
        for count in (1, 2, 5, len(one_by_one) + 1):
            slices = group.undelivered_slices(lanes, count)
            assert all(first < stop for of_lane in slices.values() for _, first, stop in of_lane)
            assert (
                sorted(
                    (node.id_at(at), region, node, at)
                    for region, of_lane in slices.items()
                    for node, first, stop in of_lane
                    for at in range(first, stop)
                )
                == one_by_one[:count]
            )

    for node, start in zip(nodes, starts, strict=True):
        step(node, f"XGROUP CREATE s g {start}")
    for steps in (apart, together):
        for at, line in steps:
            step(nodes[at], line)
        sync(*nodes)
        for node in nodes:
            check(node)


@given(
    ids=st.sets(st.integers(1, 60)),
    removed=st.sets(st.integers(1, 60)),
    entries_max=st.integers(1, 7),
    position=st.integers(0, 61),
)
def test_a_lane_counts_what_lies_above_an_id(
    ids: set[int], removed: set[int], entries_max: int, position: int
) -> None:
    lane = Lane(RegionId(1), NodeLimits(entries_max=entries_max))
    for n, ms in enumerate(sorted(ids), start=1):
        lane.append(make_id(ms, 0), n, b"*0\r\n", Millis(0))
    for ms in removed & ids:
        lane.remove(make_id(ms, 0), n_max=len(ids))
    left = ids - removed
    assert lane.count_above(make_id(position, 0)) == sum(ms > position for ms in left)
    assert lane.count_above(ID_MIN) == len(left)
    assert lane.count_above(ID_MAX) == 0


def test_lag_counts_what_other_regions_acknowledged_as_read() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", *[f"XADD x {ms} f v" for ms in (110, 120, 130)])
    sync(r1, r2)
    r1.run("XREADGROUP GROUP g a COUNT 1 STREAMS x >", "XACK x g 110")
    sync(r1, r2)
    assert r2.run("XREADGROUP GROUP g b STREAMS x >") == {"x": ["120-0", "130-0"]}
    r2.run("XACK x g 120 130")
    sync(r1, r2)
    for node in (r1, r2):
        (row,) = list_of(dict, node("CRDT.XINFO GROUPS x"))
        assert (row["lag"], row["undelivered"]) == (0, 0)
    r1.run("XADD x 140 f v")
    (row,) = list_of(dict, r1("CRDT.XINFO GROUPS x"))
    assert (row["entries-read"], row["lag"], row["undelivered"]) == (3, 1, 1)
    r1.run("XREADGROUP GROUP g a STREAMS x >")
    (row,) = list_of(dict, r1("CRDT.XINFO GROUPS x"))
    assert (row["entries-read"], row["lag"], row["undelivered"]) == (4, 0, 0)


def test_lag_is_null_where_deletions_hide_what_others_read() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XGROUP CREATE x g 0 MKSTREAM", *[f"XADD x {ms} f v" for ms in range(1, 7)])
    r1.run("XREADGROUP GROUP g a COUNT 1 STREAMS x >", "XACK x g 1")
    sync(r1, r2)
    r2.run("XREADGROUP GROUP g b COUNT 2 STREAMS x >", "XACK x g 2 3")
    r1.run("XDEL x 3")
    sync(r1, r2)
    (row,) = list_of(dict, r1("CRDT.XINFO GROUPS x"))
    assert (row["entries-read"], row["lag"], row["undelivered"]) == (None, None, 3)
    # At the end of the lane it is known again.
    r1.run("XREADGROUP GROUP g a STREAMS x >")
    (row,) = list_of(dict, r1("CRDT.XINFO GROUPS x"))
    assert (row["entries-read"], row["lag"], row["undelivered"]) == (6, 0, 0)
