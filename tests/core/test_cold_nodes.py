"""Macro nodes that are on disk only, one by one; ``test_cold_lane.py`` has the law."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.checkpoint.parts import STAGED
from crdtstream.core.effects import IdempotentId
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId, make_id
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.header import decode_head
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.residency import SCANS_REMEMBERED
from crdtstream.core.lanes.slices import Within
from tests.cold_nodes import freeze, save

COUNT = 20


@pytest.fixture
def limits() -> NodeLimits:
    return NodeLimits(entries_max=4)


@pytest.fixture
def lane(limits: NodeLimits) -> Lane:
    lane = Lane(RegionId(1), limits)
    for n in range(1, COUNT + 1):
        lane.append(make_id(n, 1), n, b"%02d" % n, Millis(1000 + n))
    return lane


def test_counts_and_bounds_of_a_cold_lane_need_no_entries(lane: Lane, limits: NodeLimits) -> None:
    freeze(limits)
    assert (lane.first_id, lane.last_id) == (make_id(1, 1), make_id(COUNT, 1))
    assert lane.length == COUNT
    assert lane.count_above(make_id(8, 1)) == COUNT - 8
    assert lane.last_n_before(Millis(1009)) == 8
    assert lane.find(make_id(8, 2)) is None
    assert len(lane.slices(Within(), entries_max=COUNT)) == 5
    assert limits.residency.absent_count == 5


def test_entries_removed_from_the_front_of_a_node_are_known_without_a_read(
    lane: Lane, limits: NodeLimits
) -> None:
    """Two regions delete the same entries: the second Remove needs nothing, and reads nothing."""
    for n in (5, 6):
        lane.remove(make_id(n, 1), n_max=COUNT)
    freeze(limits)
    gone = (make_id(5, 1), make_id(6, 1))
    assert lane.needs_for_remove(gone) == []
    assert lane.find(make_id(5, 1)) is None
    assert not lane.among(gone)
    lane.remove_all(gone, n_max=COUNT)
    assert limits.residency.absent_count == 5


def test_a_read_of_a_cold_node_names_the_images_that_it_needs(
    lane: Lane, limits: NodeLimits
) -> None:
    images = freeze(limits)
    with pytest.raises(ColdError) as raised:
        lane.find(make_id(6, 1))
    assert set(raised.value.images) < set(images)
    for image in raised.value.images:
        limits.residency.arrive(image, images[image])
    found = lane.find(make_id(6, 1))
    assert found is not None
    node, index = found
    assert (node.n[index], bytes(node.fields_at(index))) == (6, b"06")


def test_reading_goes_on_where_it_was_refused(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    fetches = 0
    while True:
        try:
            ids = [found[0] for found in lane.scan_back(ID_MIN, ID_MAX)]
            break
        except ColdError as cold:
            fetches += 1
            for image in cold.images:
                limits.residency.arrive(image, images[image])
    assert ids == [make_id(n, 1) for n in range(COUNT, 0, -1)]
    assert fetches == 1


def test_a_scan_that_goes_on_reads_more_and_more_ahead() -> None:
    """A first read fetches little ahead: most readers read no more there."""
    limits = NodeLimits(entries_max=1)
    lane = Lane(RegionId(1), limits)
    for n in range(1, 401):
        lane.append(make_id(n, 1), n, b"x" * 4096, Millis(n))
    images = freeze(limits)
    asked: list[int] = []
    read = 0
    while read < 400:
        try:
            for _ in lane.scan(make_id(read + 1, 1), ID_MAX):
                read += 1
        except ColdError as cold:
            asked.append(len(cold.images))
            for image in cold.images:
                limits.residency.arrive(image, images[image])
    assert asked == [16, 32, 64, 128, 160]


@pytest.mark.parametrize(("length", "images_asked"), [(2, [16, 2, 32]), (100, [16, 16, 16])])
def test_only_who_may_read_on_takes_the_place_of_others(
    length: int, images_asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few places that are remembered; the other lane is read to its end, or is not."""
    monkeypatch.setattr(SCANS_REMEMBERED, "value", 1)
    limits = NodeLimits(entries_max=1)
    long, other = lanes = Lane(RegionId(1), limits), Lane(RegionId(2), limits)
    for n in range(1, 101):
        for lane in lanes if n <= length else (long,):
            lane.append(make_id(n, 1), n, b"x" * 4096, Millis(n))
    images = freeze(limits)
    asked: list[int] = []
    for lane, first in ((long, 1), (other, 1), (long, 17)):
        with pytest.raises(ColdError) as raised:
            list(lane.scan(make_id(first, 1), ID_MAX))
        asked.append(len(raised.value.images))
        for image in raised.value.images:
            limits.residency.arrive(image, images[image])
    assert asked == images_asked


def test_whole_nodes_are_trimmed_without_being_read(lane: Lane, limits: NodeLimits) -> None:
    freeze(limits)
    assert lane.needs_for_prefix(up_to=make_id(8, 1), n_max=COUNT) == []
    assert lane.remove_prefix(up_to=make_id(8, 1), n_max=COUNT) == 8
    assert (lane.length, limits.residency.absent_count) == (COUNT - 8, 3)


def test_a_trim_that_cuts_a_node_asks_first(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    (needed,) = lane.needs_for_prefix(up_to=make_id(10, 1), n_max=COUNT)
    with pytest.raises(ColdError) as raised:
        lane.remove_prefix(up_to=make_id(10, 1), n_max=COUNT)
    assert raised.value.images[0] == needed
    assert lane.length == COUNT
    limits.residency.arrive(needed, images[needed])
    assert lane.remove_prefix(up_to=make_id(10, 1), n_max=COUNT) == 10


def test_operations_that_must_not_fail_read_in_place(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    limits.residency.loader = images.__getitem__
    with limits.residency.in_place():
        assert lane.remove(make_id(6, 1), n_max=COUNT) == 6
    assert limits.residency.loaded_inline == 1
    with pytest.raises(ColdError):
        lane.remove(make_id(12, 1), n_max=COUNT)


def test_a_node_that_changed_stays_until_it_is_written_again(
    lane: Lane, limits: NodeLimits
) -> None:
    save(limits)
    lane.remove(make_id(6, 1), n_max=COUNT)
    limits.residency.drop_all()
    assert [node.is_absent for node in lane.macro_nodes()] == [True, False, True, True, True]
    freeze(limits)
    assert limits.residency.absent_count == 5


def test_a_node_that_was_taken_over_stays_from_its_encoding_to_its_image(
    lane: Lane, limits: NodeLimits
) -> None:
    """Its image is in the staging, which goes: the one of its own cannot be read yet."""
    images = freeze(limits)
    node = next(iter(lane.macro_nodes()))
    body = images[node.image]
    node.image += STAGED
    with pytest.raises(ColdError):
        lane.find(node.first_id)
    limits.residency.arrive(node.image, body)
    assert lane.find(node.first_id) is not None
    node.encode()
    node.image = 99
    limits.residency.drop_all()
    assert not node.is_absent
    limits.residency.note_saved(node, 99)
    limits.residency.drop_all()
    assert node.is_absent


def test_an_image_that_nobody_has_any_more_is_left_alone(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    with pytest.raises(ColdError) as raised:
        lane.find(make_id(2, 1))
    lane.remove_prefix(up_to=make_id(4, 1), n_max=COUNT)
    for image in raised.value.images:
        limits.residency.arrive(image, images[image])
    assert limits.residency.fetched_count == len(raised.value.images) - 1


def test_fetched_nodes_stay_until_they_were_read(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    needed = lane.needs_for_remove([make_id(6, 1)])
    for image in needed:
        limits.residency.arrive(image, images[image])
    limits.residency.evict(1 << 30)
    assert limits.residency.absent_count == 4
    limits.residency.unpin(needed)
    limits.residency.evict(1 << 30)
    assert limits.residency.absent_count == 5


def test_nodes_leave_one_by_one_where_each_turn_is_over_at_once(
    lane: Lane, limits: NodeLimits
) -> None:
    save(limits)
    residency = limits.residency
    absent = [0]
    while residency.may_leave:
        residency.evict(1 << 30, lambda: True)
        absent.append(residency.absent_count)
    assert absent[-1] == 5
    assert max(after - before for before, after in pairwise(absent)) == 1


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_damaged_image_is_noticed(lane: Lane, limits: NodeLimits, at: int) -> None:
    """A byte that differs, or all from there on missing."""
    images = freeze(limits)
    for damaged in (flipped(images, at), {n: packed[:at] for n, packed in images.items()}):
        head = lane.head
        assert head is not None
        limits.residency.want(head)
        limits.residency.arrive(head.image, damaged[head.image])
        if damaged[head.image] != images[head.image]:
            with pytest.raises(ValueError, match=r"frame"):
                head.warm()
        assert head.cold is not None
        head.packed = None


def flipped(images: dict[int, bytes], at: int) -> dict[int, bytes]:
    return {
        number: packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]
        if at < len(packed)
        else packed
        for number, packed in images.items()
    }


@given(st.data())
def test_nonsense_is_no_macro_node(data: st.DataObject) -> None:
    """A head or a body with other bytes is refused with a ValueError, or is a node all the same."""
    limits = NodeLimits()
    lane = Lane(RegionId(1), limits)
    for n in (1, 2, 5, 9):
        lane.append(make_id(n, n), n, b"x" * n, Millis(n))
    lane.mark_idempotent(make_id(9, 9), 9, IdempotentId(b"p", b"i"))
    assert lane.tail is not None
    _, _, head, body, _ = lane.tail.encode()
    assert decode_body(body, decode_head(head).header).fields == b"".join(
        b"x" * n for n in (1, 2, 5, 9)
    )
    part = data.draw(st.sampled_from([head, body]))
    at = data.draw(st.integers(0, len(part) - 1))
    other = data.draw(st.binary(max_size=9))
    part_now = part[:at] + other + part[at + data.draw(st.integers(0, 9)) :]
    with suppress(ValueError):
        if part is head:
            decode_body(body, decode_head(part_now).header)
        else:
            decode_body(part_now, decode_head(head).header)


def test_a_node_that_does_not_fit_is_not_read(lane: Lane, limits: NodeLimits) -> None:
    images = freeze(limits)
    first = lane.head
    assert first is not None
    limits.residency.arrive(first.image, images[first.image])
    # Eight bytes are in the first node, and not all of the next one fits besides.
    slices = lane.slices(Within(), entries_max=100, bytes_max=11)
    assert [(node, start, stop) for node, start, stop in slices] == [(first, 0, 4)]


def test_evict_frees_nothing_if_no_node_may_leave(lane: Lane, limits: NodeLimits) -> None:
    assert limits.residency.evict(1 << 30) == 0
    freeze(limits)
    assert limits.residency.evict(1 << 30) == 0
    assert limits.residency.absent_count == lane.macro_node_count
