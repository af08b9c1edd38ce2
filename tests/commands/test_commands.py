"""Commands: what fails changes nothing, and trimming takes what Redis's own tests say."""

import pytest

from crdtstream.commands.reply import Null
from crdtstream.core.ids import IdMode
from crdtstream.core.lanes.compaction import compact
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of, of_type

FAILING = [
    "XADD x 1-1",
    "XADD x bad f v",
    "XADD x 1-1 f v",
    "XADD x MAXLEN 1 bad f v",
    "XADD x MAXLEN -1 * f v",
    "XADD new 0-0 f v",
    "XADD new MAXLEN 1 LIMIT 3 * f v",
    "XDEL x 1-1 bad",
    "XACK x g 1-1 bad",
    "XTRIM x MAXLEN bad",
    "XTRIM x MAXLEN 0 LIMIT 1",
    "XSETID x 0-1",
    "XSETID x 99-1 ENTRIESADDED 0",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x h bad",
    "XGROUP CREATE x h 0 FOO",
    "XGROUP SETID x g bad",
    "XGROUP SETID x nogroup 0",
    "XGROUP DELCONSUMER x nogroup c",
    "XREADGROUP GROUP g new STREAMS x bad",
    "XREADGROUP GROUP g new STREAMS x nokey > >",
    "XREADGROUP GROUP nogroup c STREAMS x >",
    "XCLAIM x g d 0 1-1 FOO",
    "XCLAIM x g d 0 1-1 RETRYCOUNT bad",
    "XCLAIM x nogroup d 0 1-1",
    "XAUTOCLAIM x g d 0 bad",
    "XAUTOCLAIM x g d 0 0 COUNT 0",
    "RENAME nokey y",
    "FLUSHALL FOO",
]


@pytest.mark.parametrize("line", FAILING)
def test_a_command_that_fails_has_changed_nothing(line: str) -> None:
    node = Node(1)
    node.run("XADD x 1-1 f v", "XADD x 2-1 f v", "XGROUP CREATE x g 0")
    node.run("XREADGROUP GROUP g c COUNT 1 STREAMS x >")
    before = (node.digest, node("XINFO STREAM x FULL"), dict(node.replica.vv))
    assert str(node(line)).split(" ")[0] in ("ERR", "NOGROUP", "BUSYGROUP")
    assert not node.replica.has_open_record
    assert (node.digest, node("XINFO STREAM x FULL"), dict(node.replica.vv)) == before


def filled(entries: int, *, node_entries_max: int = 100) -> Node:
    node = Node(1)
    node.replica.node_limits.entries_max = node_entries_max
    node.run(*[f"XADD x {ms} f v" for ms in range(1, entries + 1)])
    return node


@pytest.mark.parametrize(
    ("entries", "node_entries_max", "steps"),
    [
        (1000, 100, [("MAXLEN 555", 555), ("MAXLEN ~ 444", 500), ("MAXLEN ~ 400", 400)]),
        (3, 2, [("MAXLEN ~ 0 LIMIT 1", 3), ("MAXLEN ~ 0 LIMIT 2", 1)]),
        (102, 1, [("MAXLEN ~ 1", 2)]),
        (30, 10, [("MINID ~ 20", 20), ("MINID 20", 11)]),
        (30, 10, [("MAXLEN ~ 0 LIMIT 0", 0)]),
    ],
)
def test_approximate_trimming_takes_whole_macro_nodes(
    entries: int, node_entries_max: int, steps: list[tuple[str, int]]
) -> None:
    node = filled(entries, node_entries_max=node_entries_max)
    for trimming, left in steps:
        node.run(f"XTRIM x {trimming}")
        assert node("XLEN x") == left


def test_approximate_trimming_on_each_add_keeps_whole_nodes() -> None:
    node = Node(1)
    node.run(*[f"XADD x MAXLEN ~ 555 {ms} f v" for ms in range(1, 1001)])
    assert node("XLEN x") == 600


def test_approximate_trimming_takes_what_it_took_before_nodes_were_put_together() -> None:
    node = filled(1000)
    limits = node.replica.node_limits
    while compact(limits):
        pass
    stream = node.replica.stream(b"x")
    assert stream is not None
    assert stream.lanes[node.replica.region].macro_node_count == 2
    for trimming, left in [
        ("MAXLEN ~ 555", 600),
        ("MINID ~ 620", 400),
        ("MAXLEN ~ 0 LIMIT 150", 300),
    ]:
        node.run(f"XTRIM x {trimming}")
        assert node("XLEN x") == left


def test_the_limit_of_approximate_trimming_bounds_one_command() -> None:
    node = filled(100, node_entries_max=10)
    node.run("XADD x MAXLEN ~ 55 LIMIT 30 101 f v")
    assert node("XLEN x") == 71
    node.run("XADD x MAXLEN ~ 55 LIMIT 30 102 f v")
    assert node("XLEN x") == 62


def test_trimming_takes_the_lowest_ids_over_all_lanes() -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 3 f v", "XADD x 5 f v")
    r2.run("XADD x 2 f v", "XADD x 4 f v")
    r1.pull(r2)
    assert r1.run("XTRIM x MAXLEN 2") == 3
    assert r1("XRANGE x - +") == ["4-0", "5-0"]


def test_a_scan_meets_every_key_once_while_others_come_and_go() -> None:
    node = Node(1)
    node.run(*[f"XADD k{number} 1 f v" for number in range(200)])
    met: list[str] = []
    cursor = "0"
    for round_number in range(1000):
        cursor, keys = of_type(list, node(f"SCAN {cursor} COUNT 7"))
        met += list_of(str, keys)
        if cursor == "0":
            break
        node.run(f"XADD extra{round_number} 1 f v", f"DEL extra{round_number - 1}")
    assert cursor == "0"
    assert sorted(key for key in met if key.startswith("k")) == sorted(
        f"k{number}" for number in range(200)
    )


def test_reading_history_counts_and_new_entries_do_not() -> None:
    node = Node(1, IdMode.STRICT)
    node.run("XADD x * f v", "XGROUP CREATE x g 0", "XREADGROUP GROUP g c STREAMS x >")
    node.now += 500
    assert node("XPENDING x g - + 10") == [["1000-1", "c", 500, 1]]
    node.run("XREADGROUP GROUP g c STREAMS x 0")
    assert node("XPENDING x g - + 10") == [["1000-1", "c", 0, 2]]


def test_reads_begin_at_any_entry_of_any_lane() -> None:
    nodes = r1, r2 = Node(1), Node(2)
    ids = [f"{ms}-5" for ms in range(1, 10)]
    for node, some in ((r1, ids[:4]), (r2, ids[4:6]), (r1, ids[6:7]), (r2, ids[7:])):
        sync(*nodes)
        for entry_id in some:
            node.run(f"XADD x {entry_id} f v")
    sync(*nodes)
    for at, entry_id in enumerate(ids):
        below = entry_id.replace("-5", "-4")
        assert r1(f"XRANGE x {entry_id} +") == r1(f"XRANGE x {below} +") == ids[at:]
        assert r1(f"XREAD STREAMS x {below}") == {"x": ids[at:]}
        beyond = ids[at + 1 :]
        assert r1(f"XREAD STREAMS x {entry_id}") == ({"x": beyond} if beyond else Null.ARRAY)


@pytest.mark.parametrize("count", ["9223372036854775807", "0", "-1"])
def test_absurd_counts_are_taken_calmly(count: str) -> None:
    node = filled(3)
    node.run("XGROUP CREATE x g 0", f"XREADGROUP GROUP g c COUNT {count} STREAMS x >")
    assert node(f"XREAD COUNT {count} STREAMS x 0") == {"x": ["1-0", "2-0", "3-0"]}
    assert len(of_type(list, node("XPENDING x g - + 9223372036854775807"))) == 3
    claimed = of_type(list, node("XAUTOCLAIM x g c 0 0 COUNT 576460752303423487"))
    assert claimed[0] == "0-0"
    assert node("XTRIM x MAXLEN 9223372036854775807") == 0


@pytest.mark.parametrize("count", [(1 << 63) - 1, 1 << 62, (1 << 56) + 1])
def test_absurd_counters_stop_neither_peers_nor_a_restart(count: int) -> None:
    r1, r2 = Node(1), Node(2)
    r1.run("XADD s 1-1 f v", f"XSETID s 5-0 ENTRIESADDED {count}", "XADD s 6 f v")
    r1.run(f"XGROUP CREATE s g 0 ENTRIESREAD {count}", "XGROUP CREATE s h 0")
    r1.run("CRDT.XGROUP SETMODE s g home 1", "CRDT.XGROUP SETMODE s g home 2")
    r1.run(f"XGROUP SETID s h 0 ENTRIESREAD {count}", "COPY s t", "RENAME s u", "COPY u s")
    facts = [r1(f"XINFO STREAM {key} FULL") for key in "stu"]
    sync(r1, r2)
    r1.restart()
    assert [r1(f"XINFO STREAM {key} FULL") for key in "stu"] == facts
    sync(r1, r2)
