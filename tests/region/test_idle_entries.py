"""Entries that a checkpoint has are evicted if not read for a while, also without a bound."""

from collections.abc import Callable

import pytest

from crdtstream.core.ids import Millis
from crdtstream.core.lanes.residency import IDLE_MS, Residency
from crdtstream.region.cold_reads import REST_MS
from tests.cold_nodes import save
from tests.region.test_cold_entries import ColdDriven

ENTRIES, NODE_ENTRIES = 400, 50
NODES = ENTRIES // NODE_ENTRIES


class IdleDriven(ColdDriven):
    """A region with a stream of some macro nodes, each worth packing, and a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.region.replica.node_limits.entries_max = NODE_ENTRIES
        for at in range(ENTRIES):
            self.ask("XADD", "s", "*", "text", f"{at:x}" * 20)

    @property
    def residency(self) -> Residency:
        return self.region.replica.residency

    def save(self) -> None:
        self.images |= save(self.region.replica.node_limits)

    def rounds(self, count: int = 1, *, is_over: Callable[[], bool] = bool) -> None:
        for _ in range(count):
            self.clock += IDLE_MS.value
            while self.residency.leave_idle(Millis(self.clock), is_over):
                pass

    def read_all(self) -> None:
        client = self.client_of()
        client.send("XRANGE s - +")
        self.end_tick()
        for _ in range(NODES):
            self.fetch()
            self.clock += REST_MS.value
        (reply,) = client.replies
        assert isinstance(reply, list)
        assert len(reply) == ENTRIES

    @property
    def states(self) -> tuple[int, int]:
        """Number of packed macro nodes, and of those on disk only."""
        absent = self.residency.absent_count
        return self.residency.cold_count - absent, absent


@pytest.fixture
def driven() -> IdleDriven:
    return IdleDriven()


def test_nodes_that_are_not_read_are_packed_and_then_evicted(driven: IdleDriven) -> None:
    driven.save()
    driven.rounds()
    assert driven.states == (0, 0), "it was appended a moment ago"
    driven.rounds()
    assert driven.states == (NODES, 0)
    driven.rounds()
    # What was packed was not read since; it is as it was made.
    driven.rounds()
    assert driven.states == (0, NODES)
    driven.read_all()


def test_nodes_that_no_checkpoint_has_stay_in_memory(driven: IdleDriven) -> None:
    """I19: it could not be read back."""
    driven.rounds(9)
    assert driven.states == (0, 0)
    driven.save()
    driven.ask("XDEL", "s", driven.first_id("s"))
    driven.rounds(9)
    assert driven.states == (0, NODES - 1), "the node that has changed since stays"


def test_nodes_read_between_two_rounds_stay_in_memory(driven: IdleDriven) -> None:
    driven.save()
    for _ in range(9):
        driven.read_all()
        driven.rounds()
    assert driven.states == (0, 0)


def test_one_read_of_everything_does_not_keep_everything(driven: IdleDriven) -> None:
    driven.save()
    driven.rounds(9)
    assert driven.states == (0, NODES)
    driven.read_all()
    assert driven.states == (0, 0)
    driven.rounds(4)
    assert driven.states == (0, NODES)


def test_nothing_leaves_between_two_rounds(driven: IdleDriven) -> None:
    driven.save()
    driven.rounds()
    for _ in range(9):
        driven.residency.leave_idle(Millis(driven.clock + IDLE_MS.value - 1))
    assert driven.states == (0, 0)
    # A clock that was set back does not put the next round off.
    driven.residency.leave_idle(Millis(driven.clock - 1))
    assert driven.states == (NODES, 0)


def test_a_turn_ends_when_it_is_over(driven: IdleDriven) -> None:
    """Packing takes 0.3 ms a node, and commands wait meanwhile."""
    driven.save()
    driven.rounds(1, is_over=lambda: True)
    driven.clock += IDLE_MS.value
    for packed in range(1, NODES):
        assert driven.residency.leave_idle(Millis(driven.clock), lambda: True)
        assert driven.states == (packed, 0)


def test_small_streams_stay_as_they_are() -> None:
    """A head in memory takes as much as a node of a few entries."""
    driven = ColdDriven()
    for at in range(20):
        driven.ask("XADD", f"s{at}", "*", "f", "v")
    save(driven.region.replica.node_limits)
    for at in range(9):
        driven.region.replica.residency.leave_idle(Millis(at * IDLE_MS.value))
    assert driven.region.replica.residency.cold_count == 0
