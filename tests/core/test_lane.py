"""A lane equals a list of (ID, dot number, fields), whatever its macro nodes look like."""

import random
from array import array
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from crdtstream.core.id_columns import IdColumns
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId, StreamId, make_id
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.lanes.lane import Lane, ascends
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.slices import Within

IDS = st.builds(make_id, st.integers(0, 40), st.integers(0, 3))


class LaneMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.lane = Lane(RegionId(1), NodeLimits(entries_max=4, bytes_max=60))
        self.model: list[tuple[StreamId, int, bytes]] = []
        self.last = ID_MIN
        self.n = 0
        self.now = Millis(1_000)
        self.arrived: dict[int, Millis] = {}

    @initialize(entries_max=st.sampled_from([4, 4, 40]))
    def begin(self, entries_max: int) -> None:
        self.entries_max = entries_max
        limits = NodeLimits(entries_max=entries_max, bytes_max=15 * entries_max)
        self.lane = Lane(RegionId(1), limits)

    @rule(step=st.integers(0, 500))
    def let_time_pass(self, step: int) -> None:
        self.now = Millis(self.now + step)

    def _next(self, step: int, size: int) -> tuple[StreamId, int, bytes]:
        self.last = StreamId(self.last + step)
        self.n += 1
        self.arrived[self.n] = self.now
        return self.last, self.n, b"x" * size

    @rule(step=st.integers(1, 1 << 65), size=st.integers(1, 40))
    def append(self, step: int, size: int) -> None:
        entry = self._next(step, size)
        self.lane.append(*entry, self.now)
        self.model.append(entry)

    @rule(steps=st.lists(st.tuples(st.integers(1, 1 << 65), st.integers(1, 70)), min_size=1))
    def extend(self, steps: list[tuple[int, int]]) -> None:
        first_n = self.n + 1
        entries = [self._next(step, size) for step, size in steps]
        fields = [one for _, _, one in entries]
        run = EntryRun(
            array("Q", [entry_id >> 64 for entry_id, _, _ in entries]),
            array("Q", [entry_id & ((1 << 64) - 1) for entry_id, _, _ in entries]),
            array("I", map(len, fields)),
            b"".join(fields),
        )
        self.lane.extend(run, first_n=first_n, now=self.now)
        self.model += entries

    @rule(entry_id=IDS, data=st.data())
    def remove(self, entry_id: StreamId, data: st.DataObject) -> None:
        if len(self.model) > 0 and data.draw(st.booleans()):
            entry_id = data.draw(st.sampled_from([known for known, _, _ in self.model]))
        n_max = data.draw(st.integers(0, self.n))
        hit = [one for one in self.model if one[0] == entry_id and one[1] <= n_max]
        assert self.lane.remove(entry_id, n_max=n_max) == (hit[0][1] if hit else 0)
        self.model = [one for one in self.model if one not in hit]

    @rule(others=st.lists(IDS, max_size=3), in_columns=st.booleans(), data=st.data())
    def remove_several(self, others: list[StreamId], in_columns: bool, data: st.DataObject) -> None:
        known = [entry_id for entry_id, _, _ in self.model]
        start = data.draw(st.integers(0, len(known)))
        step = data.draw(st.integers(1, 3))
        count = data.draw(st.sampled_from([9, 60]))
        some = sorted({*known[start : start + count : step], *others})
        ids = IdColumns.of(some) if in_columns else some
        assert list(self.lane.among(ids)) == [one for one in some if one in known]
        n_max = data.draw(st.integers(0, self.n))
        hit = [one for one in self.model if one[0] in some and one[1] <= n_max]
        removed = self.lane.remove_all(ids, n_max=n_max)
        assert removed == (hit[-1][:2] if hit else (ID_MIN, 0))
        self.model = [one for one in self.model if one not in hit]

    @rule(entry_id=IDS, data=st.data())
    def remove_prefix(self, entry_id: StreamId, data: st.DataObject) -> None:
        n_max = data.draw(st.integers(0, self.n))
        keep = [one for one in self.model if one[0] > entry_id or one[1] > n_max]
        gone = self.model[: len(self.model) - len(keep)]
        highest_n = self.lane.remove_prefix(up_to=entry_id, n_max=n_max)
        assert highest_n == (gone[-1][1] if gone else 0)
        self.model = keep

    @rule(start=IDS, end=IDS, entries_max=st.integers(1, 12), data=st.data())
    def slices(self, start: StreamId, end: StreamId, entries_max: int, data: st.DataObject) -> None:
        above_n = data.draw(st.integers(0, self.n))
        upto_n = data.draw(st.integers(0, self.n))
        within = Within(above_n, upto_n, start, end)
        inside = [
            one for one in self.model if start <= one[0] <= end and above_n < one[1] <= upto_n
        ]
        slices = self.lane.slices(within, entries_max=entries_max)
        assert all(first < stop for _, first, stop in slices)
        found = [
            (node.id_at(index), node.n[index], bytes(node.fields_at(index)))
            for node, first, stop in slices
            for index in range(first, stop)
        ]
        assert found == inside[:entries_max]

    @rule(above_n=st.integers(0, 60), bytes_max=st.integers(0, 200))
    def slices_of_so_many_bytes(self, above_n: int, bytes_max: int) -> None:
        inside = [one for one in self.model if one[1] > above_n]
        slices = self.lane.slices(Within(above_n), entries_max=100, bytes_max=bytes_max)
        count = sum(stop - first for _, first, stop in slices)
        fits = [size for size in accumulate(len(one[2]) for one in inside) if size <= bytes_max]
        assert count == min(100, max(len(fits), 1), len(inside))

    @rule(start=IDS, end=IDS)
    def scan(self, start: StreamId, end: StreamId) -> None:
        inside = [one for one in self.model if start <= one[0] <= end]
        found = [
            (entry_id, node.n[index], bytes(node.fields_at(index)))
            for entry_id, node, index in self.lane.scan(start, end)
        ]
        assert found == inside
        back = [entry_id for entry_id, _, _ in self.lane.scan_back(start, end)]
        assert back == [entry_id for entry_id, _, _ in reversed(inside)]
        assert self.lane.predecessor(StreamId(end + 1)) == max(
            (one[0] for one in self.model if one[0] <= end), default=ID_MIN
        )

    @rule(above_n=st.integers(0, 200))
    def scan_dots(self, above_n: int) -> None:
        found = [entry_id for entry_id, _, _ in self.lane.scan_dots(above_n)]
        assert found == [one[0] for one in self.model if one[1] > above_n]

    @invariant()
    def knows_when_entries_came(self) -> None:
        for _, node, index in self.lane.scan(ID_MIN, ID_MAX):
            assert node.arrived_at(index) == self.arrived[node.n[index]]

    @invariant()
    def holds_the_model(self) -> None:
        assert [found[0] for found in self.lane.scan(ID_MIN, ID_MAX)] == [
            one[0] for one in self.model
        ]
        assert self.lane.length == len(self.model)
        nodes = list(self.lane.macro_nodes())
        assert all(nodes), "no macro node is empty"
        assert self.lane.macro_node_count == len(nodes)
        assert all(node.added <= self.entries_max for node in nodes)
        assert b"".join(node.live_fields() for node in nodes) == b"".join(
            fields for _, _, fields in self.model
        )


TestLane = LaneMachine.TestCase


@given(st.lists(IDS, max_size=6), IDS)
def test_ascends_is_strict_and_above(ids: list[StreamId], above: StreamId) -> None:
    ms = array("Q", [one >> 64 for one in ids])
    seq = array("Q", [one & ((1 << 64) - 1) for one in ids])
    chain = [above, *ids]
    assert ascends(ms, seq, above=above) == (sorted(set(chain)) == chain)


@given(seed=st.integers(0, 1 << 32), entries_max=st.integers(1, 4), n_max=st.integers(0, 60))
def test_ids_in_many_nodes_are_removed_as_one_by_one(
    seed: int, entries_max: int, n_max: int
) -> None:
    """Of most nodes one entry is named, of some several, and some IDs are of none."""
    chance = random.Random(seed)
    every = [make_id(ms, seq) for ms in range(30) for seq in range(4)]
    ids, named = (sorted(chance.sample(every, chance.randint(16, 60))) for _ in range(2))
    lane, other = (Lane(RegionId(1), NodeLimits(entries_max=entries_max)) for _ in range(2))
    for n, entry_id in enumerate(ids, 1):
        for one in (lane, other):
            one.append(entry_id, n, b"%d" % n, Millis(1))
    some = IdColumns.of(named)
    assert list(lane.among(some)) == [one for one in some if other.find(one) is not None]
    removed = [(entry_id, n) for entry_id in some if (n := other.remove(entry_id, n_max=n_max))]
    assert lane.remove_all(some, n_max=n_max) == (removed[-1] if removed else (ID_MIN, 0))
    left, expected = (
        [(entry_id, bytes(node.fields_at(at))) for entry_id, node, at in one.scan(ID_MIN, ID_MAX)]
        for one in (lane, other)
    )
    assert left == expected
    assert lane.length == other.length


def test_a_look_up_does_not_end_in_a_node_that_went() -> None:
    lane = Lane(RegionId(1), NodeLimits(entries_max=1))
    ids = [make_id(ms, 1) for ms in range(1, 7)]
    for n, entry_id in enumerate(ids, start=1):
        lane.append(entry_id, n, b"", Millis(1))
    assert lane.find(ids[1]) is not None
    assert lane.remove(ids[1], n_max=9)
    assert lane.find(ids[1]) is None
    assert lane.find(ids[2]) is not None
    assert lane.remove_prefix(up_to=ids[2], n_max=9) == 3
    assert [lane.find(entry_id) is not None for entry_id in ids] == [False] * 3 + [True] * 3
