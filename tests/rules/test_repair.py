"""A damaged key is replaced by what another region has (``rules`` 16): nothing else changes."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from crdtstream.core.comparing import PartKind
from crdtstream.core.ids import RegionId, make_id
from crdtstream.core.keyspace.strings import StringValue
from crdtstream.core.merge.repairing import Damage
from tests.conftest import examples
from tests.harness import damage
from tests.harness.group_modes import owners, pending, read
from tests.harness.merging import local_facts
from tests.harness.regions import Node, sync
from tests.rules.test_convergence import AT
from tests.rules.test_merge import Folders


def filled() -> tuple[Node, Node]:
    """Two regions with the same of ``x``: lanes, groups, a deadline, producers, a string."""
    one, two = Node(1, others=[2]), Node(2, others=[1])
    one.run("XGROUP CREATE x g 0 MKSTREAM")
    # At the same time: the key has both.
    two.run("SET x s")
    sync(one, two)
    for node in (one, two):
        node.run(*[f"XADD x {ms}-{node.region} f v{ms}" for ms in range(110, 180, 10)])
    one.run("XADD x IDMP p a * f v", "XCFGSET x IDMP-DURATION 90", "EXPIRE x 1000")
    sync(one, two)
    assert len(read(one)) == len(read(two)) == 15
    for node in (one, two):
        node.run("XACK x g 110-1 110-2 120-1")
    sync(one, two)
    return one, two


def saved(node: Node) -> None:
    """Have a checkpoint of all, and no entry in memory."""
    node.cut()
    node.checkpoints.finish(node.replica)
    node.replica.residency.drop_all()


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("kind", damage.KINDS)
def test_a_damaged_key_becomes_that_of_the_other_region(kind: str, is_saved: bool) -> None:
    one, two = filled()
    before = local_facts(one)
    assert damage.KINDS[kind](one, random.Random(1))
    assert one.digest != two.digest
    if is_saved:
        saved(one)
    found = one.repair(two, "x")
    assert found.parts
    assert not found.unreadable
    assert one.digest == two.digest
    if kind in ("flip_field", "move_last_id", "lose_registers", "lose_string"):
        assert owners(one) == dict.fromkeys(pending(two), "c")
    saved(one)
    one.restart()
    assert one.digest == two.digest
    assert before.keys() == local_facts(one).keys()
    for node in (one, two):
        node.run("XADD x * f more", "SET x t", "XGROUP CREATE x h $")
    sync(one, two)


@pytest.mark.parametrize("kind", damage.KINDS)
def test_a_restart_replaces_it_again(kind: str) -> None:
    one, two = filled()
    saved(one)
    damage.KINDS[kind](one, random.Random(2))
    one.cut()
    one.checkpoints.finish(one.replica)
    one.repair(two, "x")
    facts = local_facts(one)
    one.restart()
    assert one.digest == two.digest
    assert local_facts(one) == facts


def test_a_sound_key_is_told_to_be_sound() -> None:
    one, two = filled()
    saved(one)
    facts = local_facts(one)
    found = one.repair(two, "x")
    assert not found
    # To do it nevertheless changes nothing that a client sees.
    assert one.digest == two.digest
    assert local_facts(one) == facts


@pytest.mark.parametrize("line", ["XADD y 1 f v", "SET y v", "XGROUP CREATE y g 0 MKSTREAM"])
@pytest.mark.parametrize("has_it", [0, 1])
def test_a_key_that_only_one_side_has(line: str, has_it: int) -> None:
    nodes = filled()
    saved(nodes[0])
    # An effect that the other one has applied, and of which it has nothing.
    nodes[has_it].run(line)
    nodes[1 - has_it].replica.vv.update(nodes[has_it].replica.vv)
    assert nodes[0].repair(nodes[1], "y").parts
    assert nodes[0].digest == nodes[1].digest
    assert nodes[0]("EXISTS y") == has_it


def test_other_keys_stay_as_they_are() -> None:
    one, two = filled()
    one.run("XADD y 5-1 f v", "SET z v")
    sync(one, two)
    damage.lose_entry(one, random.Random(3))
    records = len(one.log)
    one.repair(two, "x")
    assert one("XRANGE y - +") == ["5-1"]
    # One record, and nothing for other regions.
    (record,) = one.log[records:]
    assert record.batch is None


def test_a_value_of_the_same_dot_is_the_other_regions() -> None:
    one, two = Node(1, others=[2]), Node(2, others=[1])
    one.run("SET x sound")
    sync(one, two)
    state = one.replica._state
    string = state.keys.strings[b"x"]
    ((dot, _),) = string.values()
    state.parts.note(b"x")
    string.replace_values({dot: StringValue(b"wrong")})
    assert found_parts(one.repair(two, "x")) == {PartKind.STRING}
    assert one.digest == two.digest
    assert one("GET x") == two("GET x")
    saved(one)
    one.restart()
    assert one.digest == two.digest


def test_entries_that_are_not_what_was_written_are_damage() -> None:
    """The sums in the heads are right, so digests do not tell of it."""
    one, two = filled()
    saved(one)
    stream = one.replica.stream(b"x")
    assert stream is not None
    head = stream.lanes[RegionId(1)].head
    assert head is not None
    with one.replica.residency.in_place():
        columns = head.columns
    columns.fields[columns.starts[0] + columns.lengths[0] - 3] ^= 1
    assert one.digest == two.digest
    found = one.repair(two, "x")
    assert not found.parts
    assert "are not what was written" in found.unreadable
    (entry,) = one.replica.stream(b"x").lanes[RegionId(1)].scan(make_id(110, 1), make_id(110, 1))  # type: ignore[union-attr]
    _, node, at = entry
    with one.replica.residency.in_place():
        assert b"v110" in node.fields_at(at)


# --- What is local --------------------------------------------------------------------------------


def test_an_entry_that_was_not_here_is_handed_out() -> None:
    one, two = filled()
    stream = one.replica.stream(b"x")
    assert stream is not None
    # Behind one that is pending: the other region is not told.
    one.run("XACK x g 150-1")
    for entry_id in (make_id(140, 1), make_id(150, 1), make_id(160, 1)):
        assert stream.lanes[RegionId(1)].remove(entry_id, n_max=1 << 40)
    assert found_parts(one.repair(two, "x")) == {PartKind.LANE}
    # 140-1 and 160-1 are pending still, and 170-1 was handed out: it is here as it was.
    assert {"140-1", "160-1"} < set(pending(one))
    assert read(one) == ["150-1"]


def test_entries_wrongly_taken_for_acknowledged_are_delivered_after_a_repair() -> None:
    one, two = Node(1, others=[2]), Node(2, others=[1])
    one.run("XGROUP CREATE x g 0 MKSTREAM", *[f"XADD x {ms}-1 f v" for ms in (1, 2, 3)])
    sync(one, two)
    assert damage.acknowledge_too_much(one, random.Random(1))
    assert read(one) == []
    assert found_parts(one.repair(two, "x")) == {PartKind.ACKED}
    assert read(one) == ["1-1", "2-1", "3-1"]


def test_entries_acknowledged_in_the_other_region_are_pending_no_more() -> None:
    one, two = Node(1, others=[2]), Node(2, others=[1])
    one.run("XGROUP CREATE x g 0 MKSTREAM", *[f"XADD x {ms}-1 f v" for ms in (1, 2, 3)])
    sync(one, two)
    read(one)
    read(two)
    two.run("XACK x g 1-1 2-1")
    # The effect was applied here, and left no trace.
    one.replica.vv.update(two.replica.vv)
    assert found_parts(one.repair(two, "x")) == {PartKind.ACKED}
    assert pending(one) == ["3-1"]
    assert read(one) == []


def test_a_group_of_the_same_name_is_another_one() -> None:
    one, two = filled()
    assert damage.lose_group(one, random.Random(1))
    one.repair(two, "x")
    assert pending(one) == []
    # All but what both regions know to be acknowledged.
    assert len(read(one)) == 12


def found_parts(found: Damage) -> set[PartKind]:
    return {name.kind for name in found.parts}


# --- At random ------------------------------------------------------------------------------------


class Repairs(Folders):
    """As ``Folders``, with damage now and then, which is repaired from a region that is level."""

    @rule(at=AT, source=AT, seed=st.integers(0, 1 << 30), is_saved=st.booleans())
    def repair(self, at: int, source: int, seed: int, is_saved: bool) -> None:
        node, other = self.nodes[at], self.nodes[source]
        if at == source:
            return
        node.pull(other)
        other.pull(node)
        node.end_tick()
        for one in (node, other):
            self.note_issued(one)
        if node.replica.vv != other.replica.vv:
            return
        is_damaged = damage.damage(node, seed)
        if is_damaged:
            # A restart has it, too.
            self.finish(at)
        is_different = node.digest != other.digest
        found = node.repair(other, "x")
        assert bool(found) == is_different
        assert node.digest == other.digest
        if is_saved:
            self.finish(at)
        self.check(node)
        self.check(other)


TestRepairs = pytest.mark.timeout(900)(Repairs.TestCase)
TestRepairs.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
