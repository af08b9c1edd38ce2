"""Rule 13 by chance: whatever order regions hear of each other in, nothing is skipped."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from crdtstream.core.ids import ID_MIN, IdMode, make_id
from tests.conftest import examples
from tests.harness.group_modes import mode_of, owners, pending, positions, read, set_mode
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of

AT = st.integers(0, 2)
MODES = st.sampled_from(["at-least-once", "home 1", "home 2", "home 3", "partitioned"])


class Modes(RuleBasedStateMachine):
    """Three regions change who hands out, read, acknowledge, leave out and hear of each other.

    Attributes:
        has_left_out: some region jumped or gave up what others hand out, too.
        given_up: of that, what had been handed out.
        handed_out: by region what ``>`` gave, in order.
        acknowledged: by anybody anywhere.
        lowest: where the group begins in lane 1; in the others it begins at 0.
    """

    @initialize(starts=st.tuples(*[st.sampled_from(["0", "$", "none"])] * 2))
    def start(self, starts: tuple[str, str]) -> None:
        self.begin()
        self.xadd(0, 0, 2)
        sync(*self.nodes)
        for node, start in zip(self.nodes, ("$", *starts), strict=True):
            if start != "none":
                node.run(f"XGROUP CREATE x g {start}")
        self.nodes[1].pull(self.nodes[0])
        self.lowest = ID_MIN if "0" in starts else make_id(1000, 1025)

    def begin(self) -> None:
        self.nodes = [Node(region, IdMode.STRICT) for region in (1, 2, 3)]
        self.handed_out: list[list[str]] = [[], [], []]
        self.acknowledged: set[str] = set()
        self.has_left_out = False
        self.given_up: set[str] = set()

    @rule(at=AT, ms=st.integers(1, 20), count=st.integers(1, 3))
    def xadd(self, at: int, ms: int, count: int) -> None:
        self.nodes[at].now += ms
        self.nodes[at].run(*["XADD x * f v"] * count)

    @rule(at=AT, count=st.integers(1, 4))
    def read(self, at: int, count: int) -> None:
        if has_group(self.nodes[at]):
            ids = read(self.nodes[at], count)
            assert not set(ids) & set(self.handed_out[at]), "the same region, a second time"
            self.handed_out[at] += ids

    @rule(at=AT, data=st.data())
    def acknowledge(self, at: int, data: st.DataObject) -> None:
        ids = pending(self.nodes[at]) if has_group(self.nodes[at]) else []
        if ids:
            chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3))
            self.nodes[at].run(f"XACK x g {' '.join(chosen)}")
            self.acknowledged.update(chosen)

    @rule(at=AT, jumps=st.booleans(), count=st.integers(1, 3))
    def leave_out(self, at: int, count: int, *, jumps: bool) -> None:
        """Jump or give up while, as far as is known here, others hand out too."""
        node = self.nodes[at]
        if not has_group(node) or mode_of(node)[:2] in (home_at(node), ("partitioned", None)):
            return
        self.has_left_out = True
        if jumps:
            entries = list_of(str, node("XRANGE x - + COUNT 6"))
            stream = node.replica.stream(b"x")
            assert stream is not None
            reached = stream.groups[b"g"].last_delivered_id(stream.lanes)
            for entry_id in entries[-count:]:
                ms, _, seq = entry_id.partition("-")
                if make_id(int(ms), int(seq)) > reached:
                    node.run(f"XGROUP SETID x g {entry_id}")
            return
        given_up = set(owners(node))
        node.run("XGROUP DELCONSUMER x g c", "XGROUP DELCONSUMER x g d")
        given_up -= set(owners(node))
        self.given_up |= given_up
        # Handed out once more should this region become the one that hands out.
        self.handed_out[at] = [one for one in self.handed_out[at] if one not in given_up]

    @rule(at=AT, data=st.data())
    def xdel(self, at: int, data: st.DataObject) -> None:
        ids = list_of(str, self.nodes[at]("XRANGE x - +"))
        if ids:
            self.nodes[at].run(f"XDEL x {data.draw(st.sampled_from(ids))}")

    @rule(at=AT, mode=MODES)
    def force(self, at: int, mode: str) -> None:
        set_mode(self.nodes[at], f"{mode} FORCE")

    @rule(at=AT, to=AT, count=st.integers(0, 4))
    def hand_over(self, at: int, to: int, count: int) -> None:
        """A region that hands out reads a little more and gives the group to another."""
        for node in (*self.nodes[at:], *self.nodes[:at]):
            if has_group(node) and mode_of(node)[:2] in (("at-least-once", None), home_at(node)):
                if count:
                    self.read(node.region - 1, count)
                set_mode(node, f"home {to + 1}")
                return

    @rule(at=AT)
    def hand_over_to_all(self, at: int) -> None:
        if has_group(self.nodes[at]):
            set_mode(self.nodes[at], "partitioned")

    @rule(to=AT, source=AT)
    def pull(self, to: int, source: int) -> None:
        if to != source:
            self.nodes[to].pull(self.nodes[source])

    @rule(at=AT)
    def claim(self, at: int) -> None:
        self.nodes[at].run("XAUTOCLAIM x g d 0 0 COUNT 3")

    @rule(at=AT)
    def restart(self, at: int) -> None:
        node = self.nodes[at]
        node.end_tick()
        before = positions(node)
        node.restart()
        assert positions(node) == before

    def teardown(self) -> None:
        if not getattr(self, "nodes", []):
            return
        sync(*self.nodes)
        if self.has_left_out and has_group(self.nodes[0]):
            # Where every region hands out for itself, what it left out stays so.
            set_mode(self.nodes[1], "home 1")
            sync(*self.nodes)
        for at in range(3):
            self.read(at, 10_000)
        sync(*self.nodes)
        left = list_of(str, self.nodes[0]("XRANGE x - +"))
        live = [entry_id for entry_id in left if self.is_behind(entry_id)]
        handed_out = {entry_id for ids in self.handed_out for entry_id in ids}
        assert set(live) <= handed_out | self.given_up, "handed out nowhere"
        mode, home, _, _ = mode_of(self.nodes[0])
        for node in self.nodes:
            owed = [
                entry_id
                for entry_id in live
                if mode == "at-least-once"
                or (mode == "home" and home == node.region)
                or (mode == "partitioned" and lane_of(entry_id) == node.region)
            ]
            assert set(owed) <= {*pending(node), *self.acknowledged}, "never processed"

    def is_behind(self, entry_id: str) -> bool:
        """True if it is behind the group's start."""
        ms, _, seq = entry_id.partition("-")
        return lane_of(entry_id) != 1 or make_id(int(ms), int(seq)) > self.lowest


def has_group(node: Node) -> bool:
    return isinstance(node("CRDT.XGROUP GETMODE x g"), dict)


def home_at(node: Node) -> tuple[object, ...]:
    return "home", node.region


def lane_of(entry_id: str) -> int:
    return int(entry_id.partition("-")[2]) % 1024


class Handovers(Modes):
    """Without FORCE, from the beginning: each entry is handed out once, by one region."""

    @initialize(home=st.integers(1, 3))
    def start(self, home: int) -> None:
        self.begin()
        self.lowest = ID_MIN
        self.nodes[0].run("XGROUP CREATE x g 0 MKSTREAM", f"CRDT.XGROUP SETMODE x g home {home}")
        sync(*self.nodes)

    def force(self) -> None:
        """Never."""

    def leave_out(self) -> None:
        """Never."""

    def teardown(self) -> None:
        super().teardown()
        handed_out = [entry_id for ids in getattr(self, "handed_out", []) for entry_id in ids]
        assert len(handed_out) == len(set(handed_out)), "handed out twice"


TestModes = pytest.mark.timeout(900)(Modes.TestCase)
TestModes.settings = settings(max_examples=examples(250), stateful_step_count=40, deadline=None)
TestHandovers = pytest.mark.timeout(900)(Handovers.TestCase)
TestHandovers.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
