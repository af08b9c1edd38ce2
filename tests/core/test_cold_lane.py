"""A lane whose macro nodes come and go between memory and disk answers as one that is always warm.

Its twin is never cut, compacted or evicted, and every step is done to both.
"""

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crdtstream.core.checkpoint.key_parts import KeyPart
from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import ID_MAX, ID_MIN, U64_MAX, Millis, RegionId, StreamId, make_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.blocks import LONG
from crdtstream.core.lanes.bulk_reading import Columns, Rows, digest_of, dot_numbers, dot_range
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.compaction import compact
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.slices import Slice, Within
from tests.cold_nodes import freeze, save
from tests.conftest import examples

R = TypeVar("R")
SIZES: Final = st.sampled_from([1, 7, 30, LONG - 1, LONG, 3 * LONG])
STEPS: Final = st.sampled_from([1, 2, 1 << 10, 1 << 64, 5 << 64, 1 << 90])
# Dot numbers are seldom consecutive, and lie in several blocks.
SKIPS: Final = st.sampled_from([1, 1, 1, 2, 60, 300])


class ColdLaneMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.limits = NodeLimits(entries_max=4, bytes_max=600)
        self.lane = Lane(RegionId(1), self.limits)
        self.twin = Lane(RegionId(1), NodeLimits(entries_max=7, bytes_max=0))
        self.disk: dict[int, bytes] = {}
        self.last = ID_MIN
        self.n = 0
        self.now = Millis(1_000)

    # --- Doing it to both -----------------------------------------------------------------------

    def both(self, do: Callable[[Lane], R]) -> R:
        expected = do(self.twin)
        while True:
            before = fingerprint(self.lane)
            try:
                result = do(self.lane)
            except ColdError as cold:
                images = cold.images
            else:
                assert result == expected
                return result
            assert fingerprint(self.lane) == before, "I10: refused, so nothing changed"
            assert images
            for image in images:
                self.limits.residency.arrive(image, self.disk[image])

    def _id(self, data: st.DataObject) -> StreamId:
        """The ID of an entry, or one next to it, or the end of all."""
        known = [found[0] for found in self.twin.scan(ID_MIN, ID_MAX)]
        entry_id = data.draw(st.sampled_from([ID_MIN, *known]))
        return StreamId(entry_id + data.draw(st.sampled_from([0, 0, 0, 1])))

    # --- Writing --------------------------------------------------------------------------------

    @rule(step=STEPS, skip=SKIPS, size=SIZES, wait=st.integers(0, 2))
    def append(self, step: int, skip: int, size: int, wait: int) -> None:
        self.last, self.n = StreamId(self.last + step), self.n + skip
        self.now = Millis(self.now + wait)
        fields = self.n.to_bytes(8, "little") * size
        self.both(lambda lane: lane.append(self.last, self.n, fields[:size], self.now))

    @rule(steps=st.lists(st.tuples(STEPS, SIZES), min_size=1), skip=SKIPS)
    def extend(self, steps: list[tuple[int, int]], skip: int) -> None:
        first_n = self.n + skip
        ids = []
        for step, _ in steps:
            self.last = StreamId(self.last + step)
            ids.append(self.last)
        self.n = first_n + len(steps) - 1
        fields = [bytes([len(ids) + at]) * size for at, (_, size) in enumerate(steps)]

        def do(lane: Lane) -> None:
            run = EntryRun(
                array("Q", [one >> 64 for one in ids]),
                array("Q", [one & U64_MAX for one in ids]),
                array("I", map(len, fields)),
                b"".join(fields),
            )
            lane.extend(run, first_n=first_n, now=self.now)

        self.both(do)

    @rule(step=STEPS, producer=st.sampled_from([b"p", b"", b"pq"]))
    def append_named(self, step: int, producer: bytes) -> None:
        self.append(step, 1, 7, 0)
        name = IdempotentId(producer, b"%d" % self.n)
        self.both(lambda lane: lane.mark_idempotent(self.last, self.n, name))

    @rule(steps=st.lists(st.tuples(STEPS, SIZES), min_size=1))
    def extend_numbered(self, steps: list[tuple[int, int]]) -> None:
        self.extend(steps, 1)
        first_n, count = self.n - len(steps) + 1, len(steps)
        self.both(lambda lane: lane.mark_numbered(first_n, count, Numbered(b"q", 3, 40)))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        entry_id = self._id(data)
        n_max = data.draw(st.sampled_from([self.n, self.n // 2]))
        self.both(lambda lane: lane.remove(entry_id, n_max=n_max))

    @rule(data=st.data())
    def remove_prefix(self, data: st.DataObject) -> None:
        entry_id = self._id(data)
        n_max = data.draw(st.sampled_from([self.n, self.n // 2]))
        needs = self.lane.needs_for_prefix(up_to=entry_id, n_max=n_max)
        for image in needs:
            self.limits.residency.arrive(image, self.disk[image])
        expected = self.twin.remove_prefix(up_to=entry_id, n_max=n_max)
        # What it said it needs is enough.
        assert self.lane.remove_prefix(up_to=entry_id, n_max=n_max) == expected

    @rule(data=st.data(), count=st.integers(1, 400))
    def remove_dots(self, data: st.DataObject, count: int) -> None:
        first_n = data.draw(st.integers(1, self.n + 1))
        self.both(lambda lane: lane.remove_dots(first_n, count))

    # --- To disk and back -----------------------------------------------------------------------

    @rule()
    def cut(self) -> None:
        self.disk |= save(self.limits)

    @rule()
    def leave(self) -> None:
        self.disk |= freeze(self.limits)

    @rule()
    def compact(self) -> None:
        while compact(self.limits):
            pass

    @rule()
    def leave_without_a_cut(self) -> None:
        self.limits.residency.drop_all()

    @rule(size=st.integers(1, 100_000))
    def evict(self, size: int) -> None:
        residency = self.limits.residency
        before = residency.warm_bytes + residency.packed_bytes + residency.absent_bytes
        freed = residency.evict(size)
        after = residency.warm_bytes + residency.packed_bytes + residency.absent_bytes
        assert before - after == freed

    @precondition(lambda self: not self.limits.changes.count)
    @rule()
    def restart(self) -> None:
        heads = [
            (node.image, encoded_head(node, self.limits, self.disk))
            for node in self.lane.macro_nodes()
        ]
        limits = NodeLimits(entries_max=4, bytes_max=600)
        limits.changes.images_made = self.limits.changes.images_made
        lane = Lane(RegionId(1), limits)
        lane.restore(heads[::-1])
        lane.entries_added = self.lane.entries_added
        self.lane, self.limits = lane, limits

    # --- Reading --------------------------------------------------------------------------------

    @rule(data=st.data())
    def scan(self, data: st.DataObject) -> None:
        start, end = self._id(data), self._id(data)
        self.both(lambda lane: list(map(entry, lane.scan(start, end))))
        self.both(lambda lane: list(map(entry, lane.scan_back(start, end))))
        self.both(lambda lane: lane.predecessor(StreamId(start + 1)))
        self.both(lambda lane: lane.last_n_below(StreamId(start + 1)))
        self.both(lambda lane: lane.count_above(start))

    @rule(data=st.data(), span=st.integers(0, 400), entries_max=st.integers(1, 12))
    def read(self, data: st.DataObject, span: int, entries_max: int) -> None:
        above_n = data.draw(st.integers(0, self.n))
        within = Within(above_n, above_n + span, self._id(data), ID_MAX)
        self.both(lambda lane: list(map(entry, lane.scan_dots(above_n))))
        self.both(lambda lane: list(dot_numbers(lane, within)))
        self.both(lambda lane: columns_of(lane, within, entries_max))

    @rule(back=st.integers(-1, 20))
    def ask_when_entries_came(self, back: int) -> None:
        arrived = Millis(self.now - back)
        upto = self.both(lambda lane: before_and_after(lane, arrived))
        assert upto is not None

    @rule()
    def digest(self) -> None:
        self.both(digest_of)

    @invariant()
    def ends_are_known(self) -> None:
        assert self.lane.length == self.twin.length
        assert self.lane.first_id == self.twin.first_id
        assert self.lane.last_id == self.twin.last_id
        assert dot_range(self.lane) == dot_range(self.twin)
        assert self.lane.entries_added == self.twin.entries_added
        nodes = list(self.lane.macro_nodes())
        assert all(nodes), "no macro node is empty"
        assert self.lane.macro_node_count == len(nodes)
        assert sum(map(len, nodes)) == self.lane.length
        residency = self.limits.residency
        assert residency.absent_count == sum(node.is_absent for node in nodes)
        counted = residency.warm_bytes + residency.packed_bytes + residency.absent_bytes
        assert counted == sum(node.bytes_counted for node in nodes)


def entry(found: tuple[StreamId, MacroNode, int]) -> tuple[object, ...]:
    entry_id, node, index = found
    return (
        entry_id,
        node.n[index],
        bytes(node.fields_at(index)),
        node.idempotent_at(index),
        node.arrived_at(index),
    )


def columns_of(lane: Lane, within: Within, entries_max: int) -> tuple[object, ...]:
    slices: list[Slice] = []
    left = entries_max
    while more := lane.slices(within, entries_max=left, bytes_max=2000):
        slices += more
        left -= len(Columns(more))
        within = replace(within, above_n=Columns(more).last_n)
    columns = Columns(slices)
    names: list[object] = []
    for stretch, count in columns.names():
        if isinstance(stretch, Rows):
            names.append(stretch)
        else:
            names += stretch or [None] * count
    return columns.ms, columns.seq, columns.n, columns.lengths, columns.fields, names


def before_and_after(lane: Lane, arrived: Millis) -> tuple[bool, bool]:
    """True if ``last_n_before`` keeps its word, for each side."""
    upto = lane.last_n_before(arrived)
    came = [(node.n[at], node.arrived_at(at)) for _, node, at in lane.scan(ID_MIN, ID_MAX)]
    return (
        all(time < arrived for n, time in came if n <= upto),
        all(time >= arrived for n, time in came if n > upto),
    )


def fingerprint(lane: Lane) -> tuple[object, ...]:
    nodes = [(node.key, len(node), node.first_n, node.changed_after) for node in lane.macro_nodes()]
    return lane.length, lane.entries_added, nodes, lane.limits.changes.count


def encoded_head(node: MacroNode, limits: NodeLimits, disk: dict[int, bytes]) -> bytes:
    if node.is_absent:
        limits.residency.arrive(limits.residency.want(node), disk[node.image])
    node.warm()
    return node.encode().head


ColdLaneMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestColdLane = ColdLaneMachine.TestCase


def test_a_delete_that_needs_the_disk_changes_no_lane() -> None:
    """The first lane goes as a whole, unread; of the second one a node is cut."""
    limits = NodeLimits()
    stream = Stream(limits, KeyPart(1, b"s", lambda _part: b""))
    for region in (RegionId(1), RegionId(2)):
        for n in range(1, 5):
            stream.lane(region).append(make_id(n, region), n, b"fields", Millis(1_000))
    freeze(limits)
    with pytest.raises(ColdError):
        stream.clear_covered_by({RegionId(1): 4, RegionId(2): 2})
    assert [lane.length for lane in stream.lanes.values()] == [4, 4]
