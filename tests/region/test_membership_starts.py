"""One region's part in changing the members when its node starts, and when it hears of a decision
in no letter."""

from dataclasses import replace

import pytest

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.changes import Add, JoinToken
from crdtstream.core.membership.deciding import Ballot, Decided, Votes
from crdtstream.core.membership.encoding import Kept, Said, encode_said
from crdtstream.core.membership.members import apply
from crdtstream.region.links.readiness import Answer
from crdtstream.region.membership import ISSUE_AFTER_MS
from crdtstream.region.opening import FolderState
from crdtstream.region.ready import Confirm, StoreMembership
from crdtstream.region.wishes import PATIENCE_MS
from tests.harness.driven import PROVEN, Driven, make_region
from tests.membership.world import adopted, contact, instance, removal, renamed
from tests.region.test_membership import Asked, Council, adopting, forced, renaming

R1, R2 = RegionId(1), RegionId(2)
NOW = Millis(1000)
NOTHING: VersionVector = {}


@pytest.fixture
def council() -> Council:
    return Council()


def test_what_was_decided_is_issued_after_a_restart_though_nothing_else_happens() -> None:
    """All other regions are gone, and no client writes."""
    council = Council((1, 2))
    council.wish(1, adopting((1, 2)))
    members = council.driven[1].region.replica.members
    votes = Votes(2, Ballot(1, R1), decided=removal(2, 1))
    kept = Kept(instance(1), votes, apply(members, removal(2, 1)))
    folder = replace(PROVEN, membership=kept)
    again = Driven(make_region(1, (), log=council.driven[1].log, folder=folder))
    # At its start it looks, and then once more when it may issue what another one wanted.
    deadline = again.region.ready(NOW).deadline
    assert deadline == NOW
    again.region.pass_time(NOW)
    assert again.region.ready(NOW).deadline == NOW + ISSUE_AFTER_MS.value


def test_a_region_that_joins_looks_after_a_restart_whether_it_is_level() -> None:
    token = JoinToken(bytes(32), Millis(10**15))
    members = apply(adopted(2), Add(RegionId(3), contact(3), token))
    folder = replace(PROVEN, membership=Kept(instance(3), members=members, secret=b"secret"))
    region = make_region(3, (1, 2), folder=folder)
    assert region.ready(NOW).deadline == NOW


def test_a_region_cannot_remove_itself(council: Council) -> None:
    """V6: the others hear of it by its links, refuse it, and never get its effect."""
    council.wish(1, adopting())
    council.replicate()
    asked = council.wish(3, forced(3))
    assert "run the command in another region" in asked.refused
    assert council.epochs() == {1: 1, 2: 1, 3: 1}


def test_a_link_tells_what_was_decided(council: Council) -> None:
    """The letter that told it was lost, and who decided is removed by it, or is lost."""
    council.wish(1, adopting())
    council.replicate()
    change = renamed(2, "us")
    first, second = (council.driven[n].region.membership for n in (1, 2))
    first.receive(RegionId(3), Decided(2, first.part.members.hash, change), council.clock)
    council.away.add(2)
    council.run()
    assert second.part.votes.decided is None
    assert second.hear(R1, 1, first.said()) is None
    assert second.part.votes.decided == change


def test_a_region_whose_log_may_have_lost_its_end_keeps_its_votes() -> None:
    """V5: all that are left recover, and wait for the dead one that they are to remove."""
    folder = FolderState(is_same=True, database=PROVEN.database, membership=Kept(instance(2)))
    region = make_region(2, (1, 3), folder=folder)
    assert region.opening.is_recovering
    assert region.membership.part.may_vote


def test_a_folder_is_confirmed_only_with_what_the_members_answered() -> None:
    """V3: after a crash a confirmed folder proves its votes, so it must have them all."""
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2)))
    region = make_region(2, (1,), folder=restored)
    promised = Ballot(7, R1)
    said = Said(instance(1), epoch=1, ballot=promised)
    assert region.membership.hear(R1, 1, encode_said(said)) is None
    region.opening.note_answer(R1, Answer(0, NOTHING))
    region.opening.look()
    region.tick.open()
    change = region.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    assert change.kept.votes is not None
    assert change.kept.votes.promised == promised
    region.note_folder(change, NOW)
    assert isinstance(region.ready(NOW).folder, Confirm)


def test_a_node_that_joins_is_told_no_cuts() -> None:
    """H3: it would ask nobody for the effects up to there."""
    removed = apply(adopted(2), removal(2, 1)).with_cut(R2, 5)
    folder = replace(PROVEN, membership=Kept(instance(1), members=removed))
    membership = make_region(1, (2,), folder=folder).membership
    assert membership.known == removed
    assert membership.told == removed.with_cut(R2, None)


def test_a_clock_that_is_set_back_makes_no_operator_wait_for_longer(council: Council) -> None:
    council.wish(1, adopting())
    asked = Asked()
    region = council.driven[1].region
    region.membership.wish(renaming(2, "us"), asked, council.clock)
    back = Millis(council.clock - 500)
    region.pass_time(back)
    region.pass_time(Millis(back + PATIENCE_MS.value))
    assert "is not known to be in region 2 and region 3" in asked.refused
