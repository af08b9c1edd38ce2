"""Macro nodes that may leave memory, those that stay, and their counted bytes."""

from array import array
from sys import getsizeof

import pytest

from crdtstream.core.checkpoint.parts import Image, Part
from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId, make_id
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import CLOSED, MacroNode
from crdtstream.core.lanes.rax import KEY_BYTES
from crdtstream.core.lanes.residency import IDLE_MS, RUN_BYTES, Residency, memory_of
from tests.cold_nodes import freeze, save

COUNT = 20
ALL = 1 << 30


@pytest.fixture
def limits() -> NodeLimits:
    return NodeLimits(entries_max=4)


@pytest.fixture
def residency(limits: NodeLimits) -> Residency:
    return limits.residency


@pytest.fixture
def lane(limits: NodeLimits) -> Lane:
    """Five nodes of four entries."""
    lane = Lane(RegionId(1), limits)
    for n in range(1, COUNT + 1):
        lane.append(make_id(n, 1), n, b"%02d" % n * 100, Millis(1000 + n))
    return lane


def read_all(lane: Lane) -> list[bytes]:
    return [bytes(node.fields_at(at)) for _, node, at in lane.scan(ID_MIN, ID_MAX)]


def note_saved(residency: Residency, taken: list[tuple[Part, Image]]) -> None:
    """Note that the images of a cut were verified."""
    for part, image in taken:
        if isinstance(part, MacroNode):
            residency.note_saved(part, image.number)


def images_for(lane: Lane, n: int) -> list[int]:
    """Those that are needed to read one entry, the node's own first."""
    with pytest.raises(ColdError) as raised:
        lane.find(make_id(n, 1))
    return list(raised.value.images)


def absent(lane: Lane) -> list[bool]:
    return [node.is_absent for node in lane.macro_nodes()]


# --- What a checkpoint has may leave ------------------------------------------------------------


def test_a_node_that_changed_while_its_image_was_written_stays(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    cut = limits.changes.cut()
    taken = list(iter(cut.take, None))
    lane.remove(make_id(6, 1), n_max=COUNT)
    cut.finish()
    note_saved(residency, taken)
    residency.evict(ALL)
    residency.evict(ALL)
    assert absent(lane) == [True, False, True, True, True]


def test_an_image_that_is_not_verified_yet_is_none_to_leave_for(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    """The first image of a node is verified when the node has a second one."""
    first = limits.changes.cut()
    taken = list(iter(first.take, None))
    first.finish()
    lane.remove(make_id(6, 1), n_max=COUNT)
    second = limits.changes.cut()
    while second.take() is not None:
        pass
    note_saved(residency, taken)
    residency.evict(ALL)
    residency.evict(ALL)
    assert absent(lane) == [True, False, True, True, True]


def test_a_node_that_no_lane_has_is_not_looked_at(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    cut = limits.changes.cut()
    taken = list(iter(cut.take, None))
    cut.finish()
    lane.remove_prefix(up_to=make_id(COUNT, 1), n_max=COUNT)
    note_saved(residency, taken)
    assert not residency.may_leave
    assert residency.total_bytes == 0


def test_nodes_that_no_lane_has_are_not_counted_and_not_kept(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    save(limits)
    assert (residency.may_leave, residency.total_bytes > 0) == (True, True)
    lane.remove_prefix(up_to=make_id(COUNT, 1), n_max=COUNT)
    assert (residency.may_leave, residency.total_bytes) == (False, 0)


def test_no_more_leave_than_are_wanted(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    save(limits)
    for node in lane.macro_nodes():
        node.used = False
    before = residency.total_bytes
    freed = residency.evict(1)
    assert 0 < freed == before - residency.total_bytes
    assert sum(node.here is None for node in lane.macro_nodes()) == 1


# --- What was read from disk --------------------------------------------------------------------


def test_a_fetched_node_is_evicted_in_the_second_round(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    needed = images_for(lane, 18)[:1]
    for node in lane.macro_nodes():
        node.used = False
    residency.arrive(needed[0], images[needed[0]])
    residency.unpin(needed)
    residency.evict(ALL, lambda: True)
    assert residency.absent_count == 4
    residency.evict(ALL, lambda: True)
    assert residency.absent_count == 5


def test_an_image_that_was_read_in_place_meanwhile_changes_nothing(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    needed = images_for(lane, 18)[:1]
    residency.loader = images.__getitem__
    with residency.in_place():
        assert lane.find(make_id(18, 1)) is not None
    before = residency.total_bytes
    residency.arrive(needed[0], images[needed[0]])
    assert residency.fetched_count == 0
    assert residency.total_bytes == before


def test_an_image_of_before_a_change_does_not_come_back(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    """It was asked for, and the node was read in place, changed and saved before it came."""
    images = freeze(limits)
    needed = images_for(lane, 18)[0]
    residency.loader = images.__getitem__
    with residency.in_place():
        lane.remove(make_id(18, 1), n_max=COUNT)
    images |= freeze(limits)
    residency.arrive(needed, images[needed])
    assert residency.fetched_count == 0
    with residency.in_place():
        assert lane.find(make_id(18, 1)) is None
        assert len(read_all(lane)) == COUNT - 1


@pytest.mark.parametrize("must_go_on", [False, True])
def test_nodes_looked_up_ahead_are_read_in_place_if_the_caller_cannot_wait(
    lane: Lane,
    limits: NodeLimits,
    residency: Residency,
    must_go_on: bool,
) -> None:
    images = freeze(limits)
    needed = lane.needs_for_remove([make_id(6, 1), make_id(18, 1)])
    assert len(needed) == 2
    with pytest.raises(ColdError):
        residency.read(needed)
    residency.must_go_on = lambda: must_go_on
    with pytest.raises(ColdError):
        # Nothing reads in place here.
        residency.read(needed)
    residency.loader = images.__getitem__
    if must_go_on:
        residency.read(needed)
    else:
        with pytest.raises(ColdError):
            residency.demand(needed)
        with residency.in_place():
            residency.demand(needed)
    assert absent(lane) == [True, False, True, True, False]
    assert residency.loaded_inline == 2
    with residency.in_place():
        # They are here: nothing is read twice.
        residency.read(needed)
    assert residency.loaded_inline == 2


def test_nodes_in_memory_are_not_read_again(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    needed = lane.needs_for_remove([make_id(6, 1)])
    residency.loader = images.__getitem__
    with residency.in_place():
        assert lane.find(make_id(6, 1)) is not None
        before = residency.total_bytes
        residency.read(needed)
    assert residency.loaded_inline == 1
    assert residency.total_bytes == before


def test_without_a_loader_nothing_is_demanded_in_place(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    freeze(limits)
    needed = lane.needs_for_remove([make_id(6, 1)])
    with residency.in_place():
        assert not residency.reads_in_place
    with residency.in_place(), pytest.raises(ColdError):
        residency.demand(needed)
    with residency.in_place(), pytest.raises(ColdError):
        lane.find(make_id(6, 1))
    residency.demand([])


def test_nodes_that_a_scan_passes_are_not_marked_as_used(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    residency.loader = images.__getitem__
    passed: dict[MacroNode, None] = {}
    with residency.in_place():
        with residency.passing(passed):
            for n in range(1, 17):
                assert lane.find(make_id(n, 1)) is not None
        assert lane.find(make_id(18, 1)) is not None
    nodes = list(lane.macro_nodes())
    assert list(passed) == nodes[:4]
    assert [node.used for node in nodes] == [False] * 4 + [True]


# --- Idle rounds --------------------------------------------------------------------------------


def test_a_round_ends_though_what_it_was_to_look_at_is_gone(
    lane: Lane, limits: NodeLimits, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.core.lanes.residency.IDLE_BYTES_MIN.value", 0)
    save(limits)
    for node in lane.macro_nodes():
        node.used = False
    now = Millis(0)
    assert residency.leave_idle(now, lambda: True)
    # One is packed; the others, which were to be looked at in this round, change.
    for n in (6, 10, 14, 18):
        lane.remove(make_id(n, 1), n_max=COUNT)
    assert not residency.leave_idle(now)
    assert not residency.leave_idle(Millis(now + IDLE_MS.value - 1))
    assert absent(lane) == [False] * 5
    # The packed one leaves in the next round, which begins in time.
    assert not residency.leave_idle(Millis(now + IDLE_MS.value))
    assert absent(lane) == [True, False, False, False, False]


def test_a_round_ends_though_what_was_packed_is_read_meanwhile(
    lane: Lane, limits: NodeLimits, residency: Residency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtstream.core.lanes.residency.IDLE_BYTES_MIN.value", 0)
    save(limits)
    nodes = list(lane.macro_nodes())
    for node in nodes:
        node.used = False
    assert not residency.leave_idle(Millis(0))
    due = IDLE_MS.value
    # The round is to look at five packed ones, and its first turn ends with the first.
    assert residency.leave_idle(Millis(due), lambda: True)
    left = absent(lane)
    assert left.count(True) == 1
    for node in nodes:
        if not node.is_absent:
            node.warm()
    assert not residency.leave_idle(Millis(due))
    residency.evict(1)
    assert [node.packed is not None for node in nodes].count(True) == 1
    assert not residency.leave_idle(Millis(due + 1)), "the next round is not due"
    assert absent(lane) == left


def test_pinned_nodes_stay_through_idle_rounds(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    needed = images_for(lane, 18)[0]
    residency.arrive(needed, images[needed])
    for turn in range(4):
        residency.leave_idle(Millis(turn * IDLE_MS.value))
        assert residency.absent_count == 4
    residency.unpin([needed])
    residency.leave_idle(Millis(4 * IDLE_MS.value))
    assert residency.absent_count == 5


# --- What they count for ------------------------------------------------------------------------


def columns(*, names: int = 0, runs: int = 0) -> NodeColumns:
    ones = array("Q", range(1, 5))
    return NodeColumns(
        ms=ones,
        seq=array("B", [1] * 4),
        n=ones,
        starts=array("B", range(4)),
        lengths=array("B", [1] * 4),
        fields=bytearray(b"abcd"),
        arrivals=array("Q", [1, 1]),
        idempotent={n: IdempotentId(b"p" * 40, b"i" * n) for n in range(1, names + 1)} or None,
        numbered=[(n, 1, Numbered(b"p", 1, n)) for n in range(1, runs + 1)] or None,
    )


def bytes_of(lane: Lane, **has: int) -> int:
    node = MacroNode(make_id(1, 1).to_bytes(KEY_BYTES, "big"), lane, CLOSED)
    node.put_columns(columns(**has))
    return memory_of(node)


def test_names_count_with_their_producers_and_texts(lane: Lane) -> None:
    plain = bytes_of(lane)
    one, two = bytes_of(lane, names=1), bytes_of(lane, names=2)
    # A dict, of some 200 bytes, and for each a name with two texts.
    assert one - plain > 200 + 40
    assert two - one > 40
    assert bytes_of(lane, runs=3) - plain == 3 * RUN_BYTES


def test_counted_bytes_equal_the_memory_of_the_nodes(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    save(limits)
    assert residency.total_bytes == sum(map(memory_of, lane.macro_nodes()))
    residency.evict(residency.total_bytes // 2)
    assert residency.total_bytes == sum(map(memory_of, lane.macro_nodes()))
    freeze(limits)
    assert residency.total_bytes == sum(map(memory_of, lane.macro_nodes()))
    assert residency.total_bytes == residency.absent_bytes


@pytest.mark.parametrize("names", ["none", "idempotent ids", "numbers"])
def test_a_node_that_is_closed_counts_about_what_it_takes(names: str) -> None:
    """Each entry came at a time of its own, which takes as much as a third of the rest."""
    limits = NodeLimits(entries_max=500)
    lane = Lane(RegionId(1), limits)
    for n in range(1, 502):
        lane.append(make_id(n, 1), n, b"x", Millis(n))
        if names == "idempotent ids":
            lane.mark_idempotent(make_id(n, 1), n, IdempotentId(b"p", b"%d" % n))
        elif names == "numbers":
            lane.mark_numbered(n, 1, Numbered(b"p", 1, n))
    closed = lane.head
    assert closed is not None
    assert closed.bytes_counted == pytest.approx(memory_of(closed), rel=0.1)


def test_a_round_looks_at_each_packed_node_though_none_is_warm(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    for image in images_for(lane, 1):
        residency.arrive(image, images[image])
    residency.unpin(images)
    assert not any(absent(lane))
    turns = [residency.leave_idle(Millis(IDLE_MS.value), lambda: True) for _ in range(6)]
    assert turns == [True] * 5 + [False]


def test_packed_nodes_are_not_read_ahead(
    lane: Lane, limits: NodeLimits, residency: Residency
) -> None:
    images = freeze(limits)
    first, second, *others = images_for(lane, 1)
    residency.arrive(second, images[second])
    assert images_for(lane, 1) == [first, *others]


def test_a_packed_node_takes_what_is_packed(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    first, *_ = images_for(lane, 1)
    node = lane.head
    assert node is not None
    before = memory_of(node)
    limits.residency.arrive(first, images[first])
    assert memory_of(node) == before + getsizeof(images[first])
