"""Record batches against the entries of the lane, one by one."""

from array import array

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import ID_MIN, Millis, RegionId, next_id
from crdtstream.core.lanes.slices import Within
from crdtstream.query import arrow
from crdtstream.query.append_rows import append_numbered, checked_rows
from tests.harness.regions import Node

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 4)),
        st.tuples(st.just("once"), st.integers(1, 3)),
        st.tuples(st.just("rows"), st.integers(1, 6)),
        st.tuples(st.just("next batch"), st.just(0)),
        st.tuples(st.just("remove"), st.integers(0, 30)),
    ),
    max_size=20,
)


def lane_of(steps: list[tuple[str, int]]) -> Node:
    node = Node(1)
    replica = node.replica
    replica.node_limits.entries_max = 4
    replica.advance(Millis(node.now))
    row = batch = count = 0
    for what, number in steps:
        if what == "next batch":
            row, batch = 0, batch + 1
        elif what == "remove":
            found = node("XRANGE x - +")
            assert isinstance(found, list)
            if number < len(found):
                node(f"XDEL x {found[number]}")
        elif what == "rows":
            fields = [encode_fields([b"f", b"v" * n]) for n in range(number)]
            first = Numbered(b"q:0", batch, row)
            columns = checked_rows(first, array("I", map(len, fields)), b"".join(fields))
            append_numbered(replica, Millis(node.now), b"x", first, columns)
            row += number
        else:
            for _ in range(number):
                count += 1
                stream = replica.stream(b"x")
                last = ID_MIN if stream is None else stream.last_id
                entry_id = next_id(RegionId(1), now=Millis(node.now), last=last)
                name = IdempotentId(b"p", b"%d" % count) if what == "once" else None
                replica.append(b"x", entry_id, encode_fields([b"n", b"%d" % count]), name)
    return node


@given(steps=STEPS, above_n=st.integers(0, 20), entries_max=st.integers(1, 40))
def test_a_record_batch_has_the_entries(
    steps: list[tuple[str, int]], above_n: int, entries_max: int
) -> None:
    stream = lane_of(steps).replica.stream(b"x")
    if stream is None:
        return
    lane = stream.lanes[RegionId(1)]
    slices = lane.slices(Within(above_n), entries_max=entries_max)
    if not slices:
        return
    data = arrow.schema_message(arrow.ENTRIES) + bytes(arrow.entries_message(slices))
    rows = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    rows.validate(full=True)
    expected = []
    for entry_id, node, index in lane.scan_dots(above_n):
        name = node.idempotent_at(index)
        expected.append(
            {
                "ms": entry_id >> 64,
                "seq": entry_id & ((1 << 64) - 1),
                "n": node.n[index],
                "fields": bytes(node.fields_at(index)),
                "producer": name and name.producer,
                "idempotent_id": name and name.id,
            }
        )
    assert rows.to_pylist() == expected[:entries_max]
