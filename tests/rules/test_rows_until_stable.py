"""Rows of a numbered producer are settled for as long as rivals may come: to the last dot."""

from array import array

from crdtstream.core.effects import Numbered
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import Millis, RegionId
from crdtstream.query.append_rows import append_numbered, checked_rows
from tests.harness.regions import Node, sync

R1 = RegionId(1)


def append(node: Node, count: int) -> int:
    """The first rows of one batch, in one call."""
    fields = [encode_fields([b"row", b"%d" % row]) for row in range(count)]
    first = Numbered(b"q:0", 0, 0)
    rows = checked_rows(first, array("I", map(len, fields)), b"".join(fields))
    appended = append_numbered(node.replica, Millis(node.now), b"x", first, rows)
    node.end_tick()
    return appended


def test_rows_are_remembered_until_the_last_of_a_call_is_stable() -> None:
    node = Node(1)
    append(node, 3)
    node.replica.forget_stable({R1: 2})
    assert node.replica.idempotency_record_count == 1
    node.replica.forget_stable({R1: 3})
    assert node.replica.idempotency_record_count == 0


def test_rows_of_which_some_are_stable_still_settle_their_rivals() -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    append(r1, 3)
    append(r2, 3)
    r1.replica.forget_stable({R1: 2})
    sync(*nodes)
    assert [node("XLEN x") for node in nodes] == [3, 3]
