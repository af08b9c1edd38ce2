"""The inbox of a link: what came too early waits, and says for whom (``rules`` 2)."""

from crdtstream.core.effects import EffectBatch, Record
from crdtstream.core.ids import RegionId
from crdtstream.core.inbox import Inbox
from crdtstream.core.wire.codec import decode_batch
from tests.harness.regions import Node, sync

R1, R2 = RegionId(1), RegionId(2)


def inbox_of(node: Node, *, batches_max: int = 10) -> Inbox:
    return Inbox(node.replica, batches_max=batches_max, bytes_max=1 << 20)


def offer(inbox: Inbox, record: Record) -> None:
    assert record.batch is not None
    inbox.offer(decode_batch(record.batch), record.batch)


def names(found: list[tuple[EffectBatch, bytes]]) -> list[tuple[int, int]]:
    return [(batch.origin, batch.first_n) for batch, _ in found]


def add_and_remove() -> tuple[Node, Node]:
    """R1 appended an entry, R2 heard of it and removed it."""
    r1, r2 = Node(1), Node(2)
    r1.run("XADD x 5-1 f v")
    r2.pull(r1)
    r2.run("XDEL x 5-1")
    return r1, r2


def test_a_remove_waits_for_what_its_issuer_had_observed() -> None:
    """Applied at once it would find nothing; then the entry would come, and stay."""
    r1, r2 = add_and_remove()
    r3 = Node(3)
    inbox = inbox_of(r3)
    offer(inbox, r2.log[-1])
    assert inbox.pop_ready() == []
    assert (len(inbox), inbox.waiting_for()) == (1, {R1})
    offer(inbox, r1.log[0])
    for expected in ((1, 1), (2, 1)):
        found = inbox.pop_ready()
        assert names(found) == [expected]
        r3.take(Record(found[0][0].origin, 1, 1, found[0][1], None))
    assert (len(inbox), inbox.bytes_waiting) == (0, 0)
    assert r3("XRANGE x - +") == []
    sync(r1, r2, r3)


def test_batches_of_an_origin_are_handed_out_in_its_order() -> None:
    r1, r3 = Node(1), Node(3)
    r1.run("XADD x 1-1 f v")
    r1.run("XADD x 2-1 f v")
    inbox = inbox_of(r3)
    offer(inbox, r1.log[1])
    assert inbox.pop_ready() == []
    assert inbox.waiting_for() == {R1}
    offer(inbox, r1.log[0])
    assert names(inbox.pop_ready()) == [(1, 1)]


def test_held_batches_that_another_link_brought_are_dropped() -> None:
    r1, r2 = add_and_remove()
    r3 = Node(3)
    inbox = inbox_of(r3, batches_max=1)
    offer(inbox, r2.log[-1])
    assert inbox.full
    r3.pull(r1, r2)
    assert inbox.pop_ready() == []
    assert (len(inbox), inbox.bytes_waiting, inbox.full) == (0, 0, False)
    offer(inbox, r1.log[0])
    assert len(inbox) == 0
