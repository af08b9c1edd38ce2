"""Progress of a group in one region, lane by lane."""

from crdtstream.admin.group_progress import group_progress
from tests.harness.regions import nodes_of, sync


def test_each_region_has_its_own_progress_in_each_lane() -> None:
    first, second = nodes_of(1, 2)
    first.run("XADD s 1-1 f v", "XADD s 3-1 f v", "XGROUP CREATE s g 0")
    second.run("XADD s 2-1 f v")
    sync(first, second)
    first.run("XREADGROUP GROUP g alice COUNT 2 STREAMS s >", "XACK s g 1-1")
    sync(first, second)

    here = group_progress(first.replica, b"s", b"g")
    there = group_progress(second.replica, b"s", b"g")
    assert here is not None
    assert there is not None
    assert (here.consumers, here.undelivered) == (1, 1)
    assert [(one.lane, one.delivered, one.acknowledged, one.pending) for one in here.lanes] == [
        (1, b"1-1", b"1-1", 0),
        (2, b"2-1", b"0-0", 1),
    ]
    # Entries that are pending with a consumer elsewhere are not known here.
    assert (there.consumers, there.undelivered) == (0, 2)
    assert [(one.lane, one.acknowledged, one.pending) for one in there.lanes] == [
        (1, b"1-1", 0),
        (2, b"0-0", 0),
    ]


def test_a_group_that_is_not_there_has_none() -> None:
    (node,) = nodes_of(1)
    assert group_progress(node.replica, b"s", b"g") is None
    node.run("XADD s 1-1 f v")
    assert group_progress(node.replica, b"s", b"g") is None
