"""Columns of a lane against its entries, one by one."""

import struct

import pytest

from crdtstream.core.effects import IdempotentId
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import U64_MAX, Millis, RegionId, make_id
from crdtstream.core.lanes.bulk_reading import Columns, dot_numbers, ends
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.slices import Within

# Dot numbers; in macro nodes of three, so the last node has one entry only.
NS = [2, 3, 5, 8, 9, 10, 20]


@pytest.fixture
def lane() -> Lane:
    lane = Lane(RegionId(1), NodeLimits(entries_max=3))
    for n in NS:
        lane.append(make_id(100 + n, n), n, fields_of(n), Millis(0))
    lane.mark_idempotent(make_id(105, 5), 5, IdempotentId(b"p", b"5"))
    return lane


def fields_of(n: int) -> bytes:
    return encode_fields([b"n", b"%02d" % n])


def columns(lane: Lane, within: Within | None = None) -> Columns:
    return Columns(lane.slices(within or Within(), entries_max=U64_MAX))


def test_columns_have_the_entries(lane: Lane) -> None:
    lane.remove(make_id(103, 3), n_max=U64_MAX)
    left = [n for n in NS if n != 3]
    found = columns(lane)
    count = len(left)
    assert len(found) == count
    assert list(struct.unpack(f"={count}Q", found.ms)) == [100 + n for n in left]
    assert list(struct.unpack(f"={count}Q", found.seq)) == left
    assert list(struct.unpack(f"={count}Q", found.n)) == left
    lengths = list(struct.unpack(f"={count}I", found.lengths))
    assert lengths == [len(fields_of(n)) for n in left]
    assert found.fields == b"".join(map(fields_of, left))


@pytest.mark.parametrize(("upto_n", "last_n"), [(2, 2), (4, 3), (19, 10), (U64_MAX, 20)])
def test_the_last_entry_tells_where_to_go_on(lane: Lane, upto_n: int, last_n: int) -> None:
    found = columns(lane, Within(upto_n=upto_n))
    assert (found.last_n, found.last_id) == (last_n, make_id(100 + last_n, last_n))


def test_names_come_in_stretches(lane: Lane) -> None:
    stretches = list(columns(lane).names())
    assert sum(count for _, count in stretches) == len(NS)
    named = [one for names, _ in stretches if isinstance(names, list) for one in names if one]
    assert named == [IdempotentId(b"p", b"5")]


def test_a_lane_is_cut_where_macro_nodes_end(lane: Lane) -> None:
    assert ends(lane, Within(), nodes_max=10) == [(5, 3), (10, 3), (20, 1)]
    assert ends(lane, Within(), nodes_max=2) == [(5, 3), (10, 3)]
    assert ends(lane, Within(above_n=3, upto_n=9), nodes_max=10) == [(5, 1), (9, 2)]
    assert ends(lane, Within(above_n=20), nodes_max=10) == []


def test_dot_numbers_are_those_within(lane: Lane) -> None:
    assert list(dot_numbers(lane, Within(above_n=2, upto_n=9))) == [3, 5, 8, 9]
    assert list(dot_numbers(lane, Within(start=make_id(110, 0)))) == [10, 20]
