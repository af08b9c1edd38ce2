"""Clients that wait for effects of a removed region hear that they are lost, once that is known."""

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.changes import Removal
from tests.harness.driven import Driven, Told
from tests.membership.world import removal
from tests.region.test_membership import Council, adopting

R2, R3 = RegionId(2), RegionId(3)
RUN = 70
LOST = "LOST region 3 was removed; of its effects 1… nothing exists"


@pytest.fixture
def council() -> Council:
    """Region 3 is removed, and region 2 has not said yet what it has of it."""
    council = Council()
    council.wish(1, adopting())
    council.replicate()
    council.away.add(3)
    for n in (1, 2):
        council.driven[n].region.knowledge.learn(R3, {RegionId(1): 9, R2: 9, R3: 9})
    council.wish(1, lambda _: removal(3, 1, Removal.FORCED))
    council.replicate()
    assert council.epochs()[1] == 2
    return council


def waiting(driven: Driven, *argv: str) -> Told:
    told = Told(driven.region)
    driven.call(*argv, client=told)
    driven.end_tick()
    assert told.replies == []
    return told


def hear_of_the_cut(council: Council) -> None:
    """Region 2 says that it has nothing of region 3: its cut is 0."""
    membership = council.driven[1].region.membership
    membership.cuts.note_run(R2, RUN)
    membership.cuts.hear(R2, RUN, 2, {})
    membership.look_at_cuts()


@pytest.mark.parametrize(
    "argv",
    [
        ("CRDT.WAITFOR", "3:1", "0"),
        ("CRDT.XREAD", "x", "3:1", "BLOCK", "0"),
        ("CRDT.XREAD", "x", "3:1", "BLOCK", "100000"),
    ],
)
def test_blocked_clients_are_answered_when_the_cut_is_final(
    council: Council, argv: tuple[str, ...]
) -> None:
    driven = council.driven[1]
    blocked = waiting(driven, *argv)
    others = waiting(driven, "CRDT.WAITFOR", "2:99", "0")
    hear_of_the_cut(council)
    keeps = driven.end_tick().folder
    # Nothing is told before the folder has the cut.
    assert blocked.replies == []
    assert keeps is not None
    driven.region.note_folder(keeps, driven.now)
    driven.end_tick()
    assert [str(one) for one in blocked.replies] == [LOST]
    assert others.replies == []


def test_a_restarted_node_knows_what_is_lost(council: Council) -> None:
    hear_of_the_cut(council)
    council.run()
    council.restart(1)
    driven = council.driven[1]
    driven.call("CRDT.WAITFOR", "3:1", "0")
    driven.end_tick()
    assert [str(one) for one in driven.client.replies] == [LOST]
