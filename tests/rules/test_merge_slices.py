"""A state that is merged in slices: clients go on between them, and the result is the same."""

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from crdtstream.core.checkpoint.parts import NO_IMAGE
from crdtstream.core.lanes.macro_node import State
from crdtstream.core.merge.merging import SLICE_KEYS, Merging
from tests.conftest import examples
from tests.harness.merging import local_facts, merge_as_by_links, twin_of
from tests.harness.regions import Node, sync
from tests.rules.test_convergence import AT, LINES
from tests.rules.test_merge import MORE_LINES, Folders

KEYS = 7


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SLICE_KEYS, "value", 2)


def sender(count: int = KEYS) -> Node:
    node = Node(1)
    for number in range(count):
        node.run(f"XADD k{number} 1 f v")
    return node


def go_through(merging: Merging) -> int:
    """Do all that can be done before the end; how many slices it was."""
    slices = 1
    while merging.go_on():
        slices += 1
    return slices


def keys_of(node: Node) -> list[str]:
    return [key.decode() for key in node.replica.keys.known()]


def is_as_merged_at_once(node: Node) -> None:
    """A restart merges all in one step; what is known and what is counted must be the same."""
    twin = twin_of(node)
    assert local_facts(node) == local_facts(twin)
    assert node.replica.vv == twin.replica.vv
    for one in (node, twin):
        is_counted(one)


def is_counted(node: Node) -> None:
    """Accounts, orders and parts are those of the keys that there are."""
    replica, residency = node.replica, node.replica.residency
    nodes = [
        macro_node
        for stream in replica._streams.values()
        for lane in stream.lanes.values()
        for macro_node in lane.macro_nodes()
    ]
    absent = [one for one in nodes if one.counted_as is State.ABSENT]
    assert residency.absent_count == len(absent)
    assert residency.absent_bytes == sum(one.bytes_counted for one in absent)
    assert residency.total_bytes == sum(one.bytes_counted for one in nodes)
    assert len(replica) == len({*replica._streams, *replica._strings})
    assert sorted(replica.keys.scan_held(0, 1000)[1]) == sorted(
        {*replica._streams, *replica._strings}
    )
    state = replica._state
    assert {part.key for part in state.parts} == set(filter(state.keeps, state.parts.keys()))
    orders = [part.stream_order for part in state.parts if part.key in replica._streams]
    assert len(set(orders)) == len(orders)
    assert max([0, *orders]) <= state.parts.order
    assert set(replica._registers) >= set(state.keys.expiry.deadlines)


# --- Slices -------------------------------------------------------------------------------------


def test_a_slice_looks_at_no_more_keys_than_its_size() -> None:
    r1, r2 = sender(), Node(2)
    merging = r2.begin_merge(r1)
    looked_at = []
    while merging.go_on():
        looked_at.append(len(merging._built))
    assert looked_at[:3] == [2, 4, 6]
    r2.end_merge(merging)
    assert r2.digest == r1.digest


def test_the_last_step_merges_no_key_that_was_built_or_alike() -> None:
    """Of three new keys, three that both have and one that differs, one is left."""
    r1, r2 = sender(4), Node(2)
    r2.pull(r1)
    r1.run("XADD k0 2 f v")
    for number in range(4, KEYS):
        r1.run(f"XADD k{number} 1 f v")
    merging = r2.begin_merge(r1)
    go_through(merging)
    assert list(merging._left) == [b"k0"]
    r2.end_merge(merging)
    assert r2.digest == r1.digest
    is_as_merged_at_once(r2)


def with_strings_and_deadlines() -> tuple[Node, Node]:
    """Two regions with the same of both."""
    r1, r2 = Node(1), Node(2)
    r1.run("SET s v", "SET t v PX 100000", "XADD x 1 f v", "EXPIRE x 1000", "XADD y 1 f v")
    r1.run("XCFGSET y IDMP-MAXSIZE 7")
    r2.pull(r1)
    r2.run("SET mine v", "XADD z 1 f v", "EXPIRE z 1000", "SET s w")
    return r1, r2


def test_strings_and_deadlines_that_both_have_are_not_merged_again() -> None:
    r1, r2 = with_strings_and_deadlines()
    r1.pull(r2)
    r2.run("SET s mine", "EXPIRE z 2000", "SET new v")
    r1.run("XADD more 1 f v")
    merging = r2.begin_merge(r1)
    go_through(merging)
    assert set(merging._left) == {b"s", b"z"}
    assert not merging._left_alone
    r2.end_merge(merging)
    is_as_merged_at_once(r2)
    sync(r1, r2)


@pytest.mark.parametrize(
    "line",
    [
        "SET s again",
        "DEL s",
        "DEL t",
        "PEXPIRE s 5000",
        "PERSIST t",
        "SET t again KEEPTTL",
        "EXPIRE x 50",
        "PERSIST x",
        "XCFGSET y IDMP-MAXSIZE 8",
        "XCFGSET y IDMP-DURATION 8",
        "DEL x",
        "SET x string",
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_a_string_or_a_deadline_that_differs_is_merged(at: int, line: str) -> None:
    both = with_strings_and_deadlines()
    both[at].run(line)
    merge_as_by_links(both[1], both[0])
    sync(*both)


def test_no_entry_is_read_in_the_last_step() -> None:
    """Both have a macro node, of which one side removed entries and appended others."""
    r1, r2 = sender(2), Node(2)
    r1.run("XADD k0 2 f v", "XADD k0 3 f v")
    r2.pull(r1)
    r1.run("XADD k0 4 f v")
    r1.run("XDEL k0 2")
    merging = r2.begin_merge(r1)
    go_through(merging)
    read = r2.replica.residency.loaded_inline
    assert read > 0
    r2.run("XDEL k0 1 3", "XADD k0 9 f mine")
    r2.end_merge(merging)
    assert r2.replica.residency.loaded_inline == read
    assert r2("XRANGE k0 - +") == ["4-0", "9-0"]
    is_as_merged_at_once(r2)
    sync(r1, r2)


def on_disk(node: Node) -> Node:
    """All entries of the region are in a checkpoint and not in memory."""
    node.cut()
    node.checkpoints.finish(node.replica)
    node.replica.residency.drop_all()
    return node


def a_stream_of_many_nodes(*, here: int = 1) -> tuple[Node, Node]:
    """Two regions with one stream of 12 entries, three to a macro node there."""
    r1, r2 = Node(1), Node(2)
    r1.limit_nodes(3, 0)
    r2.limit_nodes(here, 0)
    for ms in range(1, 13):
        r1.run(f"XADD k0 {ms} f v")
    r2.pull(r1)
    return r1, r2


def test_a_slice_reads_one_macro_node_of_the_other_side() -> None:
    """And what this side has in its place, however large the key is."""
    r1, r2 = a_stream_of_many_nodes()
    r1.run("XDEL k0 2 4 7 11")
    residency = on_disk(r2).replica.residency
    merging, read = r2.begin_merge(r1), [residency.loaded_inline]
    while merging.go_on():
        read.append(residency.loaded_inline)
    read_by_slice = [later - before for before, later in pairwise(read)]
    assert max(read_by_slice) == 4
    r2.end_merge(merging)
    assert residency.loaded_inline == read[-1]
    assert r2.digest == r1.digest
    is_as_merged_at_once(r2)


def test_nodes_trimmed_elsewhere_are_removed_without_being_read() -> None:
    r1, r2 = a_stream_of_many_nodes(here=3)
    r1.run("XTRIM k0 MINID 8")
    residency = on_disk(r2).replica.residency
    r2.merge(r1)
    # The macro node in which the trim ended, there and here.
    assert residency.loaded_inline == 2
    assert r2("XRANGE k0 - +") == [f"{ms}-0" for ms in range(8, 13)]
    is_as_merged_at_once(r2)


@pytest.mark.parametrize(
    "lines",
    [
        ["DEL k0"],
        ["DEL k0", "XADD k0 1 f mine"],
        ["XTRIM k0 MAXLEN 2"],
        ["XDEL k0 5 6 7 8", "XADD k0 20 f mine"],
        ["XTRIM k0 MAXLEN 0", "XADD k0 20 f mine"],
    ],
)
@pytest.mark.parametrize("at", range(1, 6))
def test_clients_may_change_a_stream_of_which_some_was_read(at: int, lines: list[str]) -> None:
    r1, r2 = a_stream_of_many_nodes()
    r1.run("XDEL k0 2 4 7 11")
    r2.run("XADD k0 13 f mine")
    merging = r2.begin_merge(r1)
    for _ in range(at):
        merging.go_on()
    r2.run(*lines)
    r2.replica.compaction().go_on(bool)
    on_disk(r2)
    r2.end_merge(merging)
    is_as_merged_at_once(r2)
    sync(r1, r2)


def test_nothing_is_seen_before_the_last_step() -> None:
    r1, r2 = sender(), Node(2)
    r1.run("SET s v", "XADD t 1 f v", "EXPIRE t 1000")
    before = r2.digest
    merging = r2.begin_merge(r1)
    go_through(merging)
    assert r2.digest == before
    assert r2("DBSIZE") == 0
    assert keys_of(r2) == []
    assert not r2.replica.vv
    r2.end_merge(merging)
    assert r2("DBSIZE") == KEYS + 2
    assert r2("TTL t") == 1000
    is_as_merged_at_once(r2)


def test_every_kind_of_key_is_as_by_links() -> None:
    r1, r2 = sender(), Node(2, now=5000)
    r1.run("SET s v PX 100000", "XGROUP CREATE k0 g 0")
    r1.run("EXPIRE k1 100", "XADD k2 IDMP p a * f v", "DEL k3")
    r1.run("XREADGROUP GROUP g c STREAMS k0 >")
    r1.run("XACK k0 g 1")
    merge_as_by_links(r2, r1)
    is_counted(r2)


# --- Between slices -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "XADD k0 9 f mine",
        "DEL k0",
        "XDEL k0 1",
        "XTRIM k0 MAXLEN 0",
        "EXPIRE k0 100",
        "XGROUP CREATE k0 g 0",
        "SET k0 v",
        "XSETID k0 100",
    ],
)
def test_a_key_that_is_alike_may_be_changed_between_slices(line: str) -> None:
    r1, r2 = sender(), Node(2)
    r2.pull(r1)
    r1.run("XADD more 1 f v")
    merging = r2.begin_merge(r1)
    go_through(merging)
    assert b"k0" in merging._alike
    r2.run(line)
    r2.end_merge(merging)
    is_as_merged_at_once(r2)
    sync(r1, r2)


@pytest.mark.parametrize("line", ["XADD k0 9 f mine", "SET k0 v", "EXPIRE k0 100"])
def test_a_key_that_is_created_between_slices_has_what_both_have(line: str) -> None:
    r1, r2 = sender(), Node(2)
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.run(line)
    r2.end_merge(merging)
    if line.startswith("XADD"):
        assert r2("XRANGE k0 - +") == ["1-0", "9-0"]
    is_as_merged_at_once(r2)
    sync(r1, r2)


def test_a_key_that_is_created_and_deleted_between_slices_has_what_was_sent() -> None:
    r1, r2 = sender(), Node(2)
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.run("XADD k0 9 f mine")
    r2.run("DEL k0")
    r2.end_merge(merging)
    assert r2("XRANGE k0 - +") == ["1-0"]
    is_as_merged_at_once(r2)


def test_a_key_that_is_deleted_between_slices_stays_deleted() -> None:
    r1, r2 = sender(), Node(2)
    r2.pull(r1)
    r1.run("XADD more 1 f v")
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.run("DEL k0")
    r2.end_merge(merging)
    assert r2("EXISTS k0") == 0
    is_as_merged_at_once(r2)


def test_an_acknowledgement_between_slices_stays() -> None:
    r1, r2 = sender(), Node(2)
    r1.run("XGROUP CREATE k0 g 0")
    r2.pull(r1)
    r1.run("XADD more 1 f v")
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.run("XREADGROUP GROUP g c STREAMS k0 >")
    r2.run("XACK k0 g 1")
    r2.end_merge(merging)
    is_as_merged_at_once(r2)
    assert r2("XPENDING k0 g - + 10") == []
    sync(r1, r2)


def test_effects_of_others_between_slices_begin_the_merge_again() -> None:
    """Of the entries that were read for the last step one has come by itself."""
    r1, r2 = Node(1), Node(2)
    for ms in (1, 2, 3):
        r1.run(f"XADD k0 {ms} f v")
    first, second, _ = r1.log
    r2.take(first)
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.take(second)
    r2.end_merge(merging)
    assert r2("XRANGE k0 - +") == ["1-0", "2-0", "3-0"]
    is_as_merged_at_once(r2)
    sync(r1, r2)


def test_entries_arrive_when_they_can_be_seen() -> None:
    r1, r2 = sender(), Node(2, now=5000)
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.now = 7000
    r2.end_merge(merging)
    for stream in r2.replica._streams.values():
        for lane in stream.lanes.values():
            assert [node.arrived_at(0) for node in lane.macro_nodes()] == [7000]


def test_keys_come_behind_those_that_were_created_between_slices() -> None:
    r1, r2 = sender(), Node(2)
    merging = r2.begin_merge(r1)
    go_through(merging)
    r2.run("XADD mine 1 f v")
    r2.end_merge(merging)
    names = list(r2.replica)
    assert names[0] == b"mine"
    r2.cut()
    r2.checkpoints.finish(r2.replica)
    r2.restart()
    assert list(r2.replica) == names


# --- Crashes, and what is given up --------------------------------------------------------------


def test_a_checkpoint_between_slices_has_nothing_of_it() -> None:
    r1, r2 = sender(), Node(2)
    r1.run("XGROUP CREATE k0 g 0")
    r2.run("XADD mine 1 f v")
    before = r2.digest
    merging = r2.begin_merge(r1)
    merging.go_on()
    r2.cut()
    go_through(merging)
    r2.checkpoints.finish(r2.replica)
    assert len(r2.checkpoints.images) == len({*r2.checkpoints.images} - {NO_IMAGE})
    r2.restart()
    assert r2.digest == before
    r2.merge(r1)
    assert keys_of(r2) == [f"k{number}" for number in range(KEYS)] + ["mine"]


def test_a_checkpoint_after_the_last_step_has_all() -> None:
    r1, r2 = sender(), Node(2)
    merging = r2.begin_merge(r1)
    merging.go_on()
    r2.cut()
    r2.checkpoints.finish(r2.replica)
    go_through(merging)
    r2.end_merge(merging)
    r2.cut()
    r2.checkpoints.finish(r2.replica)
    r2.restart()
    assert r2.digest == r1.digest
    is_counted(r2)


def test_a_merge_that_is_given_up_leaves_nothing() -> None:
    r1, r2 = sender(), Node(2)
    merging = r2.begin_merge(r1)
    go_through(merging)
    merging.give_up()
    is_counted(r2)
    assert r2.replica.residency.total_bytes == 0
    r2.merge(r1)
    assert r2.digest == r1.digest
    is_as_merged_at_once(r2)


# --- Random histories ---------------------------------------------------------------------------


class Slices(Folders):
    """As ``Folders``, where regions take over states in slices, and clients go on between them."""

    @rule(
        at=AT,
        source=AT,
        size=st.integers(1, 3),
        slices=st.integers(0, 4),
        lines=st.lists(LINES | MORE_LINES, min_size=1, max_size=6),
        later=st.lists(LINES | MORE_LINES, max_size=3),
        cuts=st.booleans(),
        data=st.data(),
    )
    def merge_in_slices(
        self,
        at: int,
        source: int,
        size: int,
        slices: int,
        lines: list[str],
        later: list[str],
        cuts: bool,
        data: st.DataObject,
    ) -> None:
        if at == source:
            return
        node = self.nodes[at]
        before, SLICE_KEYS.value = SLICE_KEYS.value, size
        try:
            merging = node.begin_merge(self.nodes[source])
            for _ in range(slices):
                merging.go_on()
            self.transaction(at, lines, data)
            if cuts:
                self.finish(at)
            merging.go_on()
            self.transaction(at, later, data)
            node.end_merge(merging)
        finally:
            SLICE_KEYS.value = before
        self.note_issued(self.nodes[source])
        self.check(node)
        if not node.checkpoints.is_running:
            is_counted(node)
            twin = twin_of(node)
            assert local_facts(node) == local_facts(twin)


TestSlices = pytest.mark.timeout(900)(Slices.TestCase)
TestSlices.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
