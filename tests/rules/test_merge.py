"""A region that takes over another's state is as if it had applied its effects (``rules`` 16)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from crdtstream.core.clock import VersionVector, covers, meet
from crdtstream.core.effects import Record
from crdtstream.core.ids import IdMode
from crdtstream.core.wire.codec import decode_batch
from tests.conftest import examples
from tests.harness.merging import local_facts, twin_of
from tests.harness.regions import Node, sync
from tests.harness.sizes import SIZES
from tests.rules.test_convergence import AT, LINES, Endings, Readers, Regions
from tests.rules.test_random_modes import Handovers, Modes


def sync_by_states(*nodes: Node) -> None:
    """Everybody hears everything, by a state where no log has it any more."""
    for _ in nodes:
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.pull(other)
                    if not covers(node.replica.vv, other.replica.vv):
                        node.merge(other)
    sync(*nodes)


def took_over(node: Node, source: Node) -> bool:
    """Take over the state of a region that has more."""
    if covers(node.replica.vv, source.replica.vv):
        return False
    node.merge(source)
    return True


class Merges(Regions):
    """As ``Regions``, where regions also take over each other's states.

    Whatever came by effects and whatever by a state: equal version vectors, equal digests, and
    what the model says of the effects.
    """

    @rule(at=AT, source=AT)
    def merge(self, at: int, source: int) -> None:
        if at != source:
            self.nodes[at].merge(self.nodes[source])
            self.note_issued(self.nodes[source])
            self.check(self.nodes[at])

    def take_next(self, node: Node, source: Node) -> bool:
        """A recovering region takes over a state if no log has the effects that it lacks."""
        return super().take_next(node, source) or took_over(node, source)

    def teardown(self) -> None:
        """Effects that no log has any more arrive with a state."""
        if getattr(self, "nodes", []):
            sync_by_states(*self.nodes)
            for node in self.nodes:
                self.note_issued(node)
        super().teardown()


# What ``LINES`` has not, and what makes a merge look at more than the entries.
MORE_LINES = st.sampled_from(
    [
        "xnack FAIL",
        "xnack SILENT",
        "claim",
        "read other",
        "XAUTOCLAIM x g d 0 0 COUNT 2",
        "XGROUP DELCONSUMER x g d",
        "XDELEX x DELREF IDS 2 1 3",
        "XDELEX x ACKED IDS 2 2 4",
        "xackdel DELREF",
        "xackdel ACKED",
        "XTRIM x MAXLEN 1 ACKED",
        "XTRIM x MAXLEN 0 DELREF",
        "XTRIM x MAXLEN = 2",
        "XCFGSET x IDMP-MAXSIZE 1",
        "XCFGSET x IDMP-DURATION 1",
        "XADD x IDMP p a * f v",
        "XADD x IDMP p b * f v",
        "XADD x IDMP q a * f v",
        "XSETID x 12 ENTRIESADDED 20 MAXDELETEDID 7",
        "XREADGROUP GROUP h c COUNT 3 STREAMS x >",
        "XGROUP CREATE x h 0",
        "XGROUP CREATE x h $",
        "XGROUP DESTROY x h",
        "FLUSHALL",
        "COPY x y",
        "COPY y x REPLACE",
    ]
)


class MoreMerges(Merges):
    """As ``Merges``, with commands that leave more behind; no folder is lost."""

    @rule(at=AT, lines=st.lists(LINES | MORE_LINES, min_size=1, max_size=6), data=st.data())
    def transaction(self, at: int, lines: list[str], data: st.DataObject) -> None:
        super().transaction(at, lines, data)

    def _run(self, node: Node, line: str, data: st.DataObject) -> None:
        words = line.split()
        if words[0] not in ("xnack", "xackdel"):
            if line == "read other":
                line = "XREADGROUP GROUP g d COUNT 2 STREAMS x >"
            super()._run(node, line, data)
            return
        node.now += 1
        rows = node("XPENDING x g - + 10") if node.replica.stream(b"x") is not None else None
        if isinstance(rows, list) and rows:
            entry_id = data.draw(st.sampled_from([row[0] for row in rows]))
            if words[0] == "xnack":
                node(f"XNACK x g {words[1]} IDS 1 {entry_id}")
            else:
                node(f"XACKDEL x g {words[1]} IDS 1 {entry_id}")

    def restore(self) -> None:
        """Never."""

    def check(self, node: Node) -> None:
        """A run may grow where a trim with DELREF is applied, and is replicated."""
        self.note_issued(node)
        super().check(node)


class Folders(MoreMerges):
    """As ``MoreMerges``: folders have checkpoints, entries are on disk, and logs are cut.

    A cut may be under way while a state is merged; a region may begin again with a checkpoint made
    after a merge; and what another region no longer has in its log comes with its state alone.
    """

    @initialize(mode=st.sampled_from([IdMode.STRICT, IdMode.LIBERAL]), sizes=SIZES)
    def start(self, mode: IdMode, sizes: int | None) -> None:
        super().start(mode, sizes)

    @rule(at=AT)
    def cut(self, at: int) -> None:
        """Begin a checkpoint, which is left under way."""
        node = self.nodes[at]
        if not node.checkpoints.is_running:
            node.replica.compaction().go_on(bool)
            node.cut()

    @rule(at=AT, parts=st.integers(1, 4))
    def write(self, at: int, parts: int) -> None:
        if self.nodes[at].checkpoints.is_running:
            self.nodes[at].checkpoints.write(parts)

    @rule(at=AT)
    def finish(self, at: int) -> None:
        """Commit a checkpoint, and have every entry leave memory."""
        node = self.nodes[at]
        if not node.checkpoints.is_running:
            node.cut()
        node.checkpoints.finish(node.replica)
        node.replica.residency.drop_all()

    @rule(at=AT)
    def abandon(self, at: int) -> None:
        self.nodes[at].checkpoints.abandon()

    @rule(at=AT, source=AT)
    def merge_during_a_cut(self, at: int, source: int) -> None:
        """The checkpoint has what there was before, and a restart merges again."""
        self.cut(at)
        self.merge(at, source)
        self.finish(at)
        self.crash(at)

    @rule(at=AT, source=AT)
    def merge_and_begin_again(self, at: int, source: int) -> None:
        """The checkpoint has what was taken over."""
        self.merge(at, source)
        self.finish(at)
        self.crash(at)

    @rule(at=AT, others=st.permutations([1, 2]))
    def rebuild(self, at: int, others: list[int]) -> None:
        """An empty folder, and the states of the others in some order."""
        node = self.nodes[at]
        sources = [self.nodes[(at + step) % 3] for step in others]
        for source in sources:
            source.end_tick()
        node.end_tick()
        self.note_issued(node)
        if node.replica.issued > max(
            source.replica.vv.get(node.replica.region, 0) for source in sources
        ):
            return
        node.checkpoints.abandon()
        node.log.clear()
        node.restart()
        node.limit_nodes(*self.node_limits())
        for source in sources:
            node.merge(source)
            self.check(node)


class Twins(MoreMerges):
    """Beside each region that merges a twin stands, which applies the same effects one by one.

    Both must know the same of their reading: positions, what is pending, who owns it, who claims
    what next.  References that a removal took along are left out: after a merge those of entries
    that are gone stay pending, and read as nil.
    """

    transaction = None  # type: ignore[assignment]

    @initialize(mode=st.sampled_from(list(IdMode)), sizes=SIZES)
    def start(self, mode: IdMode, sizes: int | None) -> None:
        super().start(mode, sizes)
        self.records: dict[tuple[int, int], Record] = {}

    @rule(at=AT, lines=st.lists(LINES | MORE_LINES, min_size=1, max_size=6), data=st.data())
    def change(self, at: int, lines: list[str], data: st.DataObject) -> None:
        MoreMerges.transaction(self, at, [line for line in lines if "DELREF" not in line], data)

    @rule(at=AT, source=AT)
    def merge(self, at: int, source: int) -> None:
        if at == source:
            return
        node, other = self.nodes[at], self.nodes[source]
        other.end_tick()
        twin = twin_of(node)
        self.apply_all(twin, dict(other.replica.vv))
        super().merge(at, source)
        assert twin.replica.vv == node.replica.vv
        assert local_facts(twin) == local_facts(node)

    def apply_all(self, twin: Node, upto: VersionVector) -> None:
        """Every effect that the version vector covers, whosever log has it."""
        for node in self.nodes:
            for record in node.log:
                if record.batch is not None:
                    self.records[record.origin, record.first_n] = record
        left = [
            record
            for _, record in sorted(self.records.items())
            if twin.replica.vv.get(record.origin, 0) < record.last_n <= upto.get(record.origin, 0)
        ]
        while left:
            record = next(one for one in left if twin.replica.ready(decode_batch(_batch(one))))
            twin.take(record)
            left.remove(record)


def _batch(record: Record) -> bytes:
    assert record.batch is not None
    return record.batch


class MergedEndings(Endings):
    """As ``Endings``, by states and by effects."""

    @rule(to=AT, source=AT)
    def merge(self, to: int, source: int) -> None:
        if to != source:
            self.nodes[to].merge(self.nodes[source])
            self.done(self.nodes[to])

    def take_next(self, node: Node, source: Node) -> bool:
        return super().take_next(node, source) or took_over(node, source)

    def teardown(self) -> None:
        if getattr(self, "nodes", []):
            sync_by_states(*self.nodes)
        super().teardown()


class MergedReaders(Readers):
    """Never-skip, where regions hear of each other by states (I9)."""

    @rule(to=st.integers(0, 1))
    def merge(self, to: int) -> None:
        self.nodes[to].merge(self.nodes[1 - to])

    @rule(at=st.integers(0, 1))
    def restart(self, at: int) -> None:
        self.nodes[at].end_tick()
        self.nodes[at].restart()

    def look_at_end(self) -> None:
        sync_by_states(*self.nodes)
        super().look_at_end()


class _Merged:
    """For the machines of group modes: regions hear of each other by states, too."""

    nodes: list[Node]

    @rule(to=AT, source=AT)
    def merge(self, to: int, source: int) -> None:
        if to != source:
            self.nodes[to].merge(self.nodes[source])

    def teardown(self) -> None:
        if getattr(self, "nodes", []):
            sync_by_states(*self.nodes)
        super().teardown()  # type: ignore[misc]

    @rule(at=AT)
    def forget_stable(self, at: int) -> None:
        """Forget what all regions have, once nothing from before is on its way (``rules`` 3)."""
        vv = self.nodes[at].replica.vv
        for other in self.nodes:
            other.end_tick()
            if vv.get(other.replica.region, 0) < other.replica.issued:
                return
        self.nodes[at].replica.forget_stable(meet(other.replica.vv for other in self.nodes))


class MergedModes(_Merged, Modes):
    """Rule 13, where regions hear of each other by states."""


class MergedHandovers(_Merged, Handovers):
    """Without FORCE each entry is handed out once, though regions hear of each other by states."""


TestMerges = pytest.mark.timeout(900)(Merges.TestCase)
TestMerges.settings = settings(max_examples=examples(250), stateful_step_count=30, deadline=None)
TestFolders = pytest.mark.timeout(900)(Folders.TestCase)
TestFolders.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
TestTwins = pytest.mark.timeout(900)(Twins.TestCase)
TestTwins.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
TestMergedEndings = pytest.mark.timeout(900)(MergedEndings.TestCase)
TestMergedEndings.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestMergedReaders = pytest.mark.timeout(900)(MergedReaders.TestCase)
TestMergedReaders.settings = settings(
    max_examples=examples(150), stateful_step_count=30, deadline=None
)
TestMergedModes = pytest.mark.timeout(900)(MergedModes.TestCase)
TestMergedModes.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestMergedHandovers = pytest.mark.timeout(900)(MergedHandovers.TestCase)
TestMergedHandovers.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)
