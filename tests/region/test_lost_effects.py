"""Clients that wait for effects of a removed region hear that they are lost, once that is known."""

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import Removal
from crdtstream.core.membership.members import Members
from crdtstream.region.ready import News
from tests.harness.driven import Driven, Told
from tests.membership.world import removal
from tests.region.test_membership import Council

R2, R3 = RegionId(2), RegionId(3)
RUN = 70
LOST = "LOST region 3 was removed; of its effects 1… nothing exists"


@pytest.fixture
def council() -> Council:
    """Region 3 is removed, and region 2 has not said yet what it has of it."""
    council = Council()
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
    driven.region.folder.note_written(keeps, driven.now)
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


def news_for_region_3(council: Council) -> Members:
    """The answer of region 1 to the removed one, which wants a link."""
    region = council.driven[1].region
    region.membership.told_unknown(R3)
    (news,) = region.tick.take_letters()
    assert isinstance(news, News)
    return news.members


def test_the_removed_region_is_told_what_counts_of_it(council: Council) -> None:
    """Once a member knows; kept before it is answered, and over a restart."""
    council.away.remove(3)
    removed = council.driven[3]
    # Only it has that, and acknowledged it.
    removed.write("lost")
    council.run()
    assert removed.region.membership.note_news(news_for_region_3(council)) is None
    council.run()
    blocked = waiting(removed, "CRDT.WAITFOR", "3:2", "0")
    hear_of_the_cut(council)
    council.run()
    assert removed.region.membership.note_news(news_for_region_3(council)) is None
    assert blocked.replies == []
    council.run()
    assert [str(one) for one in blocked.replies] == [LOST]
    assert "of its effects 0 count" in str(removed.region.refuses_writes)
    council.restart(3)
    assert "of its effects 0 count" in str(council.driven[3].region.refuses_writes)
    restarted = council.driven[3]
    restarted.call("CRDT.WAITFOR", "3:1", "0")
    restarted.end_tick()
    assert [str(one) for one in restarted.client.replies] == [LOST]


def test_a_member_takes_no_cut_of_itself_from_others(council: Council) -> None:
    """A member's count for a region is used only once that region was removed."""
    hear_of_the_cut(council)
    council.run()
    membership = council.driven[2].region.membership
    assert membership.note_news(news_for_region_3(council)) is None
    assert membership.cuts.final == {}
    assert membership.note_news(council.driven[1].region.membership.told) is None
    assert membership.cuts.final == {}
