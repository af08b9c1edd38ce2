"""Keys that are built aside, in slices, are byte for byte what merging them one by one leaves."""

from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace

from crdtstream.core.checkpoint.contents import (
    GroupContent,
    KeyContent,
    RootContent,
    packed,
    unpacked,
)
from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.clock import join
from crdtstream.core.effects import Merged
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.merge.lanes import LanePlan, plan_lane
from crdtstream.core.merge.merge import merge_key
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import SentKey, nothing_of
from crdtstream.core.whole.state import State
from tests.conftest import examples
from tests.harness.checkpoints import Checkpoints, encoded, parts_of
from tests.harness.merging import local_facts, twin_of
from tests.harness.regions import Node, sync
from tests.rules.test_convergence import AT
from tests.rules.test_merge import MoreMerges
from tests.rules.test_merge_slices import is_counted

# Commands that need no draw, so that two regions can run them alike.
PLAIN = st.sampled_from(
    [
        *["XADD x * f v", "XADD y 2 f w", "XADD x IDMP p a * f v", "XSETID x 9"],
        *["XDEL x 1 2", "XTRIM x MAXLEN 0", "DEL x", "RENAME x y", "FLUSHALL"],
        *["XGROUP CREATE x g 0", "XGROUP DESTROY x g", "XACK x g 1 2"],
        *["XREADGROUP GROUP g c COUNT 2 STREAMS x >", "PEXPIRE x 300", "PERSIST x"],
        *["SET x a PX 300", "INCR x", "INCRBY y 5", "GETDEL x"],
    ]
)


def merge_one_by_one(node: Node, merged: Merged) -> None:
    """Merge each key of a staged state where it is, with a plan for each lane."""
    node.end_tick()
    replica, state, now = node.replica, node.replica._state, Millis(node.now)
    replica.advance(now)
    sent = node.checkpoints.staged_state(merged)
    both = Both(dict(state.vv), merged.vv)
    state.keys.arrival = max(state.keys.arrival, now)
    keys = {one.key: one for one in sent.keys}
    for key in [*keys, *sorted(set(state.parts.keys()) - keys.keys())]:
        one = keys.get(key) or nothing_of(key, merged.source)
        merge_key(state, one, both, {lane: plan_of(state, one, lane, both) for lane in one.lanes})
    for kept in (state.tombstones, state.ended_shares, state.idempotency, state.numbered):
        kept.restore_order()
    state.settings.restore_order()
    state.histories.take_over(sent.histories, state.vv, merged.vv)
    join(state.vv, merged.vv)
    replica._section.begin(replica.issued + 1)


def plan_of(state: State, sent: SentKey, region: RegionId, both: Both) -> LanePlan:
    stream = state.keys.streams.get(sent.key)
    reading = plan_lane(
        None if stream is None else stream.lanes.get(region),
        sent.lanes[region],
        here_n=both.here.get(region, 0),
        there_n=both.there.get(region, 0),
        residency=state.residency,
    )
    while True:
        try:
            next(reading)
        except StopIteration as stopped:
            plan: LanePlan = stopped.value
            return plan


def images_of(node: Node) -> list[tuple[object, ...]]:
    """The images of a checkpoint, with keys in place of the numbers that were given to them."""
    keys = {part.number: part.key for part in node.replica._state.parts}
    return sorted(
        (part.kind, keys.get(owner, b""), lane, _numberless(part.kind, head), body, is_packed)
        for part in parts_of(node.replica)
        # ``local_facts`` has what is pending.
        if part.kind is not Kind.PENDING
        for owner, lane, head, body, is_packed in [encoded(part)]
    )


def _numberless(kind: Kind, head: bytes) -> bytes:
    """A head without numbers and places among others, which follow the order of merging."""
    match kind:
        case Kind.ROOT:
            root = unpacked(head, RootContent)
            return packed(replace(root, key_number=0, group_number=0, order=0))
        case Kind.GROUP:
            group = unpacked(head, GroupContent)
            consumers = [replace(one, seen_ms=Millis(0)) for one in group.consumers]
            return packed(replace(group, number=0, consumers=consumers))
        case Kind.KEY:
            key = unpacked(head, KeyContent)
            parts = {
                name: replace(part, order=0)
                for name in ("stream", "string", "gone")
                if (part := getattr(key, name)) is not None
            }
            return packed(replace(key, number=0, **parts))
        case _:
            return head


def are_same(built: Node, merged: Node) -> None:
    assert built.digest == merged.digest
    assert images_of(built) == images_of(merged)
    assert local_facts(built) == local_facts(merged)
    batches = [[one.batch for one in node.log if one.batch is not None] for node in (built, merged)]
    assert batches[0] == batches[1]
    is_counted(built)
    is_counted(merged)


def two_empty_ones(like: Node) -> tuple[Node, Node]:
    shared = Checkpoints()
    built, merged = (
        Node(4, like.mode, now=like.now, others=[1, 2, 3], checkpoints=shared) for _ in range(2)
    )
    return built, merged


def take_over(
    built: Node, plain: Node, source: Node, *, slices: int = 0, meanwhile: Sequence[str] = ()
) -> None:
    """Two regions that are alike take over the state of a third one, each in its way."""
    source.end_tick()
    merged = built.checkpoints.stage(source.replica)
    merging = built.replica.merging(merged)
    for _ in range(slices):
        merging.go_on()
    for node in (built, plain):
        for line in meanwhile:
            node.run(line)
    built.end_merge(merging)
    merge_one_by_one(plain, merged)
    are_same(built, plain)


@pytest.mark.parametrize(
    "lines",
    [
        ["XADD x 1 f v", "XADD x 2 f v", "XDEL x 2", "XGROUP CREATE x g 0", "EXPIRE x 100"],
        ["XADD x 1 f v", "XTRIM x MAXLEN 0"],
        ["XADD x 1 f v", "XGROUP CREATE x g 0", "XGROUP DESTROY x g"],
        ["XADD x 1 f v", "XGROUP CREATE x g 0", "CRDT.XGROUP SETMODE x g HOME 1"],
        ["XADD x 1 f v", "DEL x"],
        ["XADD x IDMP p a * f v"],
        ["XADD x 1 f v", "PEXPIRE x 10", "later", "XADD x * f v"],
        ["SET x v PX 100", "SET y w"],
        ["INCRBY x 5", "INCRBY y 5", "DEL y"],
    ],
)
def test_a_region_that_begins_empty_has_all_that_was_sent(lines: list[str]) -> None:
    r1 = Node(1, others=[4])
    for line in lines:
        if line == "later":
            r1.now += 100
            r1.expire()
        else:
            r1.run(line)
    built, plain = two_empty_ones(r1)
    take_over(built, plain, r1)
    for node in (built, plain):
        node.replica.forget_stable(dict(node.replica.vv))
    are_same(built, plain)
    sync(r1, built)


def test_of_a_stream_that_is_gone_here_only_what_is_new_comes_back() -> None:
    r1, r2 = Node(1), Node(2)
    r1.limit_nodes(2, 0)
    r1.run("XADD x 1 f v", "XADD x 2 f v")
    r2.pull(r1)
    r2.run("DEL x")
    r1.run("XADD x 3 f v")
    take_over(twin := twin_of(r2), twin_of(r2), r1)
    assert twin("XRANGE x - +") == ["3-0"]


class Built(MoreMerges):
    """As ``MoreMerges``, where now and then a region takes over a state both ways."""

    @rule(
        at=AT,
        source=AT,
        begins_empty=st.booleans(),
        slices=st.integers(0, 2),
        meanwhile=st.lists(PLAIN, max_size=2),
        later=st.lists(PLAIN, max_size=4),
    )
    def take_over_both_ways(
        self,
        at: int,
        source: int,
        begins_empty: bool,
        slices: int,
        meanwhile: list[str],
        later: list[str],
    ) -> None:
        if at == source:
            return
        node, other = self.nodes[at], self.nodes[source]
        both = two_empty_ones(node) if begins_empty else (twin_of(node), twin_of(node))
        for one in both:
            one.limit_nodes(*self.node_limits())
        take_over(*both, other, slices=slices, meanwhile=meanwhile)
        for line in later:
            replies = [one.run(line) for one in both]
            assert replies[0] == replies[1], line
        are_same(*both)


TestBuilt = pytest.mark.timeout(900)(Built.TestCase)
TestBuilt.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
