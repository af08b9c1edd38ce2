"""Observed-remove: what names an entry takes it only up to the last dot that its issuer had."""

import pytest

from tests.harness.regions import Node, sync


@pytest.mark.parametrize("remove", ["XDEL x 5-1", "XTRIM x MAXLEN 0"])
def test_an_entry_that_was_added_again_under_the_same_id_was_not_observed(remove: str) -> None:
    """It has the very next dot.  A trim names a prefix by its last ID, in which it lies."""
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r1.run("XADD x 5-1 f old")
    sync(*nodes)
    r3.run("DEL x")
    r1.pull(r3)
    r1.run("XADD x 5-1 f new")
    r2.run(remove)
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [["5-1"]] * 3


def test_xdel_takes_the_last_entry_it_had_observed() -> None:
    r1, r2 = nodes = [Node(1), Node(2)]
    r1.run("XADD x 5-1 f v", "XADD x 6-1 f v")
    sync(*nodes)
    r2.run("XDEL x 6-1")
    sync(*nodes)
    assert [node("XRANGE x - +") for node in nodes] == [["5-1"]] * 2


def test_a_delete_has_not_observed_a_batch_that_arrived_after_it() -> None:
    """One tick: R2 deletes, then R1's entry arrives.  The delete must not name it as observed."""
    r1, r2, r3 = nodes = [Node(1), Node(2), Node(3)]
    r2.run("XADD x 1-1 f v")
    sync(*nodes)
    r1.run("XADD x 5-1 f v")
    r2("DEL x")
    r2.pull(r1)
    r3.pull(r1, r2)
    assert [node("XRANGE x - +") for node in (r2, r3)] == [["5-1"]] * 2
    sync(*nodes)
