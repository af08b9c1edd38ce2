"""Clients that wait with BLOCK are answered when their time expires: not before, and not after."""

from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from tests.harness.waiting_clients import Clients


def test_a_blocked_client_is_answered_in_its_last_millisecond() -> None:
    clients = Clients(Replica(RegionId(1)))
    clients("XREAD BLOCK 100 STREAMS x 0", "A")
    assert clients.next_time() == 1100
    assert clients.wait(99) == {}
    assert clients.wait(1) == {"A": None}
    assert clients.next_time() is None
