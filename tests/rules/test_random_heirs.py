"""Removals by chance: whatever order regions hear of them in, nothing is skipped (``rules`` 4)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.conftest import examples
from tests.harness.group_modes import mode_of, pending, positions, read, set_mode
from tests.harness.members import RESTARTS, members, remove
from tests.harness.regions import Node, sync
from tests.harness.replies import list_of

AT = st.integers(0, 3)
MODES = st.sampled_from(["at-least-once", "home 1", "home 2", "home 3", "home 4", "partitioned"])


class Removals(RuleBasedStateMachine):
    """Up to three of four regions are removed; what only they had is lost, and nothing else.

    Attributes:
        nodes: the regions that remain.
        heirs: by removed region the one that was named.
        handed_out, acknowledged: by region.
        has_jumped: some region jumped what others were to hand out.
    """

    @initialize(mode=MODES)
    def start(self, mode: str) -> None:
        self.nodes = members(4)
        self.heirs: dict[int, int] = {}
        self.handed_out: dict[int, set[str]] = {node.region: set() for node in self.nodes}
        self.acknowledged: dict[int, set[str]] = {node.region: set() for node in self.nodes}
        self.has_jumped = False
        self.nodes[0].run("XGROUP CREATE x g 0 MKSTREAM")
        set_mode(self.nodes[0], mode)
        for at in range(4):
            self.xadd(at, at, 2)
        sync(*self.nodes)

    def node(self, at: int) -> Node:
        return self.nodes[at % len(self.nodes)]

    def acting(self, region: int) -> int:
        while region in self.heirs:
            region = self.heirs[region]
        return region

    @rule(at=AT, ms=st.integers(1, 20), count=st.integers(1, 3))
    def xadd(self, at: int, ms: int, count: int) -> None:
        self.node(at).now += ms
        self.node(at).run(*["XADD x * f v"] * count)

    @rule(at=AT, count=st.integers(1, 4))
    def read(self, at: int, count: int) -> None:
        node = self.node(at)
        ids = set(read(node, count))
        assert not ids & self.handed_out[node.region], "the same region, a second time"
        self.handed_out[node.region] |= ids

    @rule(at=AT, data=st.data())
    def acknowledge(self, at: int, data: st.DataObject) -> None:
        node = self.node(at)
        ids = pending(node)
        if ids:
            chosen = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3))
            node.run(f"XACK x g {' '.join(chosen)}")
            self.acknowledged[node.region].update(chosen)

    @rule(at=AT)
    def jump(self, at: int) -> None:
        """Pass over what is for others to hand out, as far as is known here."""
        node = self.node(at)
        if mode_of(node)[:2] not in (("home", node.region), ("partitioned", None)):
            self.has_jumped = True
            node.run("XGROUP SETID x g $")

    @rule(at=AT, mode=MODES, force=st.sampled_from(["", " FORCE"]))
    def set_mode(self, at: int, mode: str, force: str) -> None:
        set_mode(self.node(at), mode + force)

    @rule(to=AT, source=AT)
    def pull(self, to: int, source: int) -> None:
        if self.node(to) is not self.node(source):
            self.node(to).pull(self.node(source))

    @rule(by=AT, victim=AT, heir=AT)
    def remove(self, by: int, victim: int, heir: int) -> None:
        issuer, lost, to = self.node(by), self.node(victim), self.node(heir)
        epoch = max(node.replica.members.epoch for node in self.nodes)
        if lost in (issuer, to) or issuer.replica.members.epoch < epoch:
            return
        remove(issuer, lost.region, heir=to.region)
        self.nodes.remove(lost)
        self.heirs[lost.region] = to.region
        del self.acknowledged[lost.region]

    @rule(at=AT, how=st.sampled_from([*RESTARTS]))
    def restart(self, at: int, how: str) -> None:
        node = self.node(at)
        node.end_tick()
        before = positions(node)
        RESTARTS[how](node)
        assert positions(node) == before

    def teardown(self) -> None:
        if not getattr(self, "nodes", []):
            return
        sync(*self.nodes)
        if self.has_jumped and mode_of(self.nodes[0])[0] == "at-least-once":
            # Where every region hands out for itself, what it jumped stays so.
            set_mode(self.nodes[0], f"home {self.nodes[-1].region}")
            sync(*self.nodes)
        for at in range(len(self.nodes)):
            self.read(at, 10_000)
        sync(*self.nodes)
        live = list_of(str, self.nodes[0]("XRANGE x - +"))
        acknowledged = set().union(*self.acknowledged.values()) | self.covered(live)
        for node in self.nodes:
            owed = {entry_id for entry_id in live if self.owes(node, entry_id)}
            assert owed <= {*pending(node), *acknowledged}, "never processed"

    def owes(self, node: Node, entry_id: str) -> bool:
        """True if the region delivers the entry."""
        mode, home, _, _ = mode_of(node)
        if mode == "home":
            assert home in {one.region for one in self.nodes}, "a home that was removed"
            return home == node.region
        lane = int(entry_id.partition("-")[2]) % 1024
        return mode == "at-least-once" or self.acting(lane) == node.region

    def covered(self, live: list[str]) -> set[str]:
        """Entries that all regions know to be acknowledged."""
        covered = set()
        for entry_id in live:
            why = list_of(dict, self.nodes[0](f"CRDT.WHY x {entry_id}"))[0]["groups"]["g"]
            if why["state"] == "covered-by-frontier":
                covered.add(entry_id)
        return covered


TestRemovals = pytest.mark.timeout(900)(Removals.TestCase)
TestRemovals.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
