"""XINFO GROUPS shows of each group what its progress in every lane says, also if none was made."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from crdtstream.core.clock import Dot
from crdtstream.core.groups.creates import Creates
from crdtstream.core.groups.entries_read import lane_lag
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.reading import Reading
from crdtstream.core.ids import ID_MIN, RegionId, format_id, make_id
from crdtstream.core.intervals import Intervals
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.membership.heirs import Heirs
from tests.conftest import examples
from tests.harness.regions import Node, sync
from tests.harness.replies import dict_of, list_of

GROUPS = st.sampled_from(["g", "h", "i", "j"])
STARTS = st.sampled_from(["0", "5", "1001", "$"])
HINTS = st.sampled_from(["", " ENTRIESREAD 3"])
LINES = st.one_of(
    st.just("XADD s * f v"),
    st.builds("XGROUP CREATE s {} {}{} MKSTREAM".format, GROUPS, STARTS, HINTS),
    st.builds("XGROUP SETID s {} {}{}".format, GROUPS, STARTS, HINTS),
    st.builds("XGROUP DESTROY s {}".format, GROUPS),
    st.builds("XREADGROUP GROUP {} c COUNT 2 STREAMS s >".format, GROUPS),
    st.builds("XREADGROUP GROUP {} c COUNT 2 NOACK STREAMS s >".format, GROUPS),
    st.just("XTRIM s MAXLEN 2"),
    st.just("sync"),
)
BOTH = [(0, f"XGROUP CREATE s {name} 0 MKSTREAM") for name in "gh"]


def by_progress(stream: Stream, group: Group) -> dict[str, object]:
    """Facts of a group that follow from its progress."""
    lags = [
        lane_lag(progress.last_delivered, progress.entries_read, lane, stream.last_ids[region].id)
        for region, lane in stream.lanes.items()
        if lane.length
        for progress in [group.progress(region)]
    ]
    known = [lag for lag in lags if lag is not None]
    return {
        "name": group.name.decode(),
        "consumers": len(group.consumers),
        "pending": len(group.pel),
        "last-delivered-id": format_id(group.last_delivered_id(stream.lanes)).decode(),
        "entries-read": group.entries_read(stream.lanes),
        "lag": sum(known) if len(known) == len(lags) else None,
    }


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), LINES), max_size=25))
# Groups that begin alike, until one of them is moved or said to have read.
@example([*BOTH, (0, "XGROUP SETID s h 5"), (0, "XADD t * f v")])
@example([(0, "XADD s * f v"), *BOTH, (0, "XGROUP CREATE s i 0 ENTRIESREAD 1")])
def test_facts_of_groups_are_those_of_their_progress(lines: list[tuple[int, str]]) -> None:
    nodes = Node(1), Node(2)
    for at, line in lines:
        node = nodes[at]
        node.now += 1
        if line == "sync":
            sync(*nodes)
        else:
            node.run(line)
        for node in nodes:
            stream = node.replica.stream(b"s")
            if stream is not None:
                slow = [by_progress(stream, stream.groups[name]) for name in sorted(stream.groups)]
                assert list_of(dict, node("XINFO GROUPS s")) == slow


def test_consumers_are_shown_by_name_in_whichever_order_they_came() -> None:
    """As Redis does, whose consumers are in a radix tree."""
    node = Node(1)
    node.run("XGROUP CREATE s g 0 MKSTREAM", *["XADD s * f v"] * 3)
    for name in ("carol", "alice", "bob"):
        node.run(f"XREADGROUP GROUP g {name} COUNT 1 STREAMS s >")
    node.run("XGROUP DELCONSUMER s g alice", "XGROUP CREATECONSUMER s g aaron")
    names = ["aaron", "bob", "carol"]
    assert [one["name"] for one in list_of(dict, node("XINFO CONSUMERS s g"))] == names
    (group,) = list_of(dict, dict_of(object, node("XINFO STREAM s FULL"))["groups"])
    assert [one["name"] for one in list_of(dict, group["consumers"])] == names
    *_, owners = list_of(object, node("XPENDING s g"))
    assert owners == [["bob", "1"], ["carol", "1"]]


def test_a_lane_begins_behind_what_was_acknowledged_also_if_it_was_not_read() -> None:
    """Commands keep a lane that has intervals; a state from elsewhere may not."""
    here = RegionId(1)
    creates = Creates()
    creates.add(Dot(here, 1), ID_MIN)
    creates.intervals[here] = Intervals()
    creates.intervals[here].add(ID_MIN, make_id(7, 0))
    reading = Reading(here, creates, Heirs())
    assert reading.read_upto(here) == (make_id(7, 0), None)
    assert reading.only_start is None
