"""Acknowledged runs at their edges: where one begins, where it ends, and what tears a hole into it.

An entry counts as taken care of if a consumer acknowledged it.  Everything else must be handed out
by some region (I9).
"""

from crdtstream.core.ids import StreamId
from crdtstream.core.intervals import Intervals
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of


def pending(node: Node) -> list[str]:
    """Pending entries of group g in this region."""
    return [row[0] for row in list_of(list, node("XPENDING x g - + 100"))]


def read(node: Node, consumer: str = "c", count: int = 100) -> list[str]:
    """Read new entries of group g."""
    reply = node.run(f"XREADGROUP GROUP g {consumer} COUNT {count} STREAMS x >")
    return reply["x"] if isinstance(reply, dict) else []


def with_entries(*nodes: Node, upto: int, start: int = 0) -> None:
    """Entries 1 to ``upto`` of region 1, and a group, known everywhere."""
    nodes[0].run(*[f"XADD x {ms} f v" for ms in range(1, upto + 1)], f"XGROUP CREATE x g {start}")
    sync(*nodes)


def test_an_interval_does_not_take_the_entry_at_its_from() -> None:
    """R1 jumped to 2 and acknowledged 3: it says (2, 3].  What is pending of 2 elsewhere stays."""
    r1, r2 = Node(1), Node(2)
    with_entries(r1, r2, upto=4)
    read(r2)
    r1.run("XGROUP SETID x g 2")
    assert read(r1, count=1) == ["3-0"]
    r1.run("XACK x g 3")
    sync(r1, r2)
    assert pending(r2) == ["1-0", "2-0", "4-0"]


def test_entries_that_xgroup_setid_skipped_are_acknowledged_by_no_region() -> None:
    r1, r2 = Node(1), Node(2)
    with_entries(r1, r2, upto=4)
    r1.run("XGROUP SETID x g 3")
    assert read(r1) == ["4-0"]
    r1.run("XACK x g 4")
    sync(r1, r2)
    assert read(r2) == ["1-0", "2-0", "3-0"]


def test_given_up_entries_of_a_run_read_before_a_lower_create_are_handed_out_again() -> None:
    """R1 had read 3 to 5 when R2's create with a lower start took it back to 0.  Then the consumer
    of 3 to 5 goes: what it held is acknowledged by nobody, so R1 must not vouch for it."""
    r1, r2 = Node(1), Node(2)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 6)])
    sync(r1, r2)
    r1.run("XGROUP CREATE x g 2")
    r2.run("XGROUP CREATE x g 0")
    assert read(r1, "gone") == ["3-0", "4-0", "5-0"]
    sync(r1, r2)
    r1.run("XGROUP DELCONSUMER x g gone")
    handed_out = read(r1)
    r1.run("XACK x g 1 2")
    sync(r1, r2)
    assert {"3-0", "4-0", "5-0"} <= {*handed_out, *read(r2)}


def test_xacks_before_a_delconsumer_of_the_tick_are_replicated() -> None:
    """XACK and DELCONSUMER in one tick: the run up to the hole is measured before there is one."""
    r1, r2 = Node(1), Node(2)
    with_entries(r1, r2, upto=3)
    read(r1, "stays", count=1)
    read(r1, "gone", count=2)
    r1.run("XACK x g 1", "XGROUP DELCONSUMER x g gone")
    sync(r1, r2)
    assert read(r2) == ["2-0", "3-0"]


def test_a_region_vouches_for_nothing_from_its_first_pending_entry_on() -> None:
    r1, r2 = Node(1), Node(2)
    with_entries(r1, r2, upto=4)
    read(r1)
    r1.run("XACK x g 1 3 4")
    sync(r1, r2)
    assert read(r2) == ["2-0", "3-0", "4-0"]


def test_the_frontier_reaches_back_to_the_lowest_start_of_all_creates() -> None:
    r1, r2, r3 = Node(1), Node(2), Node(3)
    r1.run(*[f"XADD x {ms} f v" for ms in range(1, 6)])
    sync(r1, r2, r3)
    r1.run("XGROUP CREATE x g 4")
    r2.run("XGROUP CREATE x g 1")
    sync(r1, r2, r3)
    assert read(r3) == ["2-0", "3-0", "4-0", "5-0"]


def test_intervals_are_joined_where_they_touch_and_only_there() -> None:
    known = Intervals()
    assert add(known, 10, 20) == [(10, 20)]
    assert add(known, 21, 30) == [(21, 30)]
    assert list(known) == [(10, 20), (21, 30)]
    assert add(known, 5, 9) == [(5, 9)]
    assert list(known) == [(5, 9), (10, 20), (21, 30)]
    assert add(known, 20, 21) == [(20, 21)]
    assert list(known) == [(5, 9), (10, 30)]
    assert add(known, 8, 12) == [(9, 10)]
    assert list(known) == [(5, 30)]


def add(known: Intervals, start: int, end: int) -> list[tuple[StreamId, StreamId]]:
    return known.add(StreamId(start), StreamId(end))


def test_a_region_that_recovers_issues_nothing_for_what_it_applies() -> None:
    """Rule 18: an effect of another region ends what is pending here, and so the run grows."""
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 1 f v", "XADD x 2 f v", "XGROUP CREATE x g 0")
    sync(r1, r2)
    r2.run("XREADGROUP GROUP g c STREAMS x >", "XACK x g 2")
    before = r2.replica.issued
    r2.replica.may_issue = False
    r1.run("XDELEX x DELREF IDS 1 1")
    r2.pull(r1)
    assert r2.replica.issued == before
    r2.replica.may_issue = True
    r2.end_tick()
    assert r2.replica.issued == before + 1
    sync(r1, r2)
