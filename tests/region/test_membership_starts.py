"""One region's part in changing the members when its node starts, and when it hears of a decision
in no letter."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import Activate, Add, Change, JoinToken, Removal
from crdtstream.core.membership.deciding import Ballot, Decided, Promise, Vote, Votes
from crdtstream.core.membership.encoding import (
    Kept,
    Numbered,
    Said,
    Seal,
    decode_said,
    encode_said,
)
from crdtstream.core.membership.members import Members, apply, genesis
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.links.link import Refused
from crdtstream.region.members.membership import ISSUE_AFTER_MS, RECENT_MAX
from crdtstream.region.members.wishes import PATIENCE_MS
from crdtstream.region.opening import FolderState
from crdtstream.region.peer_runs import PeerRun
from crdtstream.region.readiness import Answer
from crdtstream.region.ready import Confirm, News, StoreIncarnations, StoreMembership
from crdtstream.region.region import Region
from crdtstream.region.write_gate import Cause
from tests.harness.driven import PROVEN, SAID, UID, Driven, make_region
from tests.membership.world import contact, founded, instance, removal, renamed
from tests.region.test_membership import (
    Asked,
    Council,
    adding,
    forced,
    renaming,
)

R1, R2, R3 = map(RegionId, (1, 2, 3))
NOW = Millis(1000)
NOTHING: VersionVector = {}


def votes_here(region: Region) -> bool:
    """Asked for anew: the type checker takes an attribute for what it was found to be."""
    return region.membership.part.may_vote


@pytest.fixture
def council() -> Council:
    return Council()


def test_a_decided_change_is_issued_after_a_restart_without_other_activity() -> None:
    """All other regions are gone, and no client writes."""
    council = Council((1, 2))
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
    members = apply(founded(2), Add(RegionId(3), contact(3), token))
    folder = replace(PROVEN, membership=Kept(instance(3), members=members, secret=b"secret"))
    region = make_region(3, (1, 2), folder=folder)
    assert region.ready(NOW).deadline == NOW


def test_a_region_that_joins_and_is_removed_wants_nothing_any_more() -> None:
    """Its log says for good that it joins."""
    council = Council((1, 2))
    council.wish(1, adding(3))
    joining = council.driven[1].region.replica.members
    folder = replace(PROVEN, membership=Kept(instance(3), members=joining, secret=b"secret"))
    driven = Driven(make_region(3, (1, 2), log=council.driven[1].log, folder=folder))
    region = driven.region
    for peer in (R1, R2):
        region.opening.catching_up.note_answer(peer, 1, NOTHING)
    region.opening.note_time(NOW)
    assert region.membership.note_news(apply(joining, removal(3, 1))) is None
    driven.end_tick()
    change = driven.last.folder
    assert isinstance(change, StoreMembership)
    region.folder.note_written(change, NOW)
    driven.end_tick()
    region.pass_time(NOW)
    ready = driven.end_tick()
    assert (ready.notices, ready.deadline) == ([], None)


@pytest.mark.parametrize(("number", "issues"), [(3, True), (9, False)])
def test_of_two_nodes_with_one_token_the_one_that_is_active_is_the_region(
    number: int, issues: bool
) -> None:
    """Rule 18: the other one would go on with its numbers while that one is down, as a region does
    that has lost its folder."""
    token = JoinToken(bytes(32), Millis(10**15))
    joining = apply(founded(2), Add(RegionId(3), contact(3), token))
    active = apply(joining, Activate(RegionId(3), instance(3)))
    kept = Kept(instance(number), members=joining, secret=b"secret")
    for _ in range(2):
        region = make_region(3, (1, 2), folder=replace(PROVEN, membership=kept))
        reason = region.membership.hear(R1, 1, encode_said(Said(instance(1), active)))
        assert ("another node has joined as region 3" in str(reason)) is not issues
        change = region.ready(NOW).folder
        if change is not None:
            assert isinstance(change, StoreMembership)
            region.folder.note_written(change, NOW)
            kept = change.kept
        for peer in (R1, R2):
            region.opening.catching_up.note_answer(peer, 1, NOTHING)
        region.opening.note_time(NOW)
        assert region.replica.may_issue is issues
    assert bool(kept.secret) is not issues


def test_a_region_cannot_remove_itself(council: Council) -> None:
    """V6: the others hear of it by its links, refuse it, and never get its effect."""
    asked = council.wish(3, forced(3))
    assert "run the command in another region" in asked.refused
    assert council.epochs() == {1: 1, 2: 1, 3: 1}


def test_a_link_tells_what_was_decided(council: Council) -> None:
    """The letter that told it was lost, and who decided is removed by it, or is lost."""
    change = renamed(2, "us")
    first, second = (council.driven[n].region.membership for n in (1, 2))
    first.receive(RegionId(3), Decided(2, first.part.members.hash, change), council.clock)
    council.away.add(2)
    council.run()
    assert second.part.votes.decided is None
    assert second.hear(R1, 1, first.said()) is None
    assert second.part.votes.decided == change


def test_a_link_tells_no_decision_that_a_power_cut_takes_back(council: Council) -> None:
    """Region 1 counts its own vote; without it, the others may decide something else, and who was
    told could follow nobody any more.  Who recovers is told: its own vote may be in it."""
    membership = council.driven[1].region.membership
    members = membership.part.members
    council.full.add(1)
    membership.receive(R2, Decided(2, members.hash, renamed(2, "us")), council.clock)
    council.run()
    assert decode_said(membership.said()).decided is None
    assert decode_said(membership.said(to_recovering=PeerRun(R2, 1))).decided == renamed(2, "us")
    council.full.clear()
    council.pass_time()
    assert decode_said(membership.said()).decided == renamed(2, "us")


def test_a_recovering_region_is_told_a_vote_and_no_decision_that_it_may_undo() -> None:
    """Region 1 goes on alone, and its folder does not have its vote yet: a power cut takes that,
    and region 1 may decide something else."""
    council = Council((1, 2, 3))
    council.away |= {2, 3}
    council.full.add(1)
    asked = Asked()
    membership = council.driven[1].region.membership
    change = forced(3, Removal.WITHOUT_MAJORITY)
    membership.wish(change, asked, council.clock, survivors=[R1])
    council.run()
    said = decode_said(membership.said(to_recovering=PeerRun(R2, 1)))
    assert membership.part.votes.decided is not None
    assert said.decided is None
    assert said.accepted is not None
    assert said.accepted.change == membership.part.votes.decided
    council.full.clear()
    council.pass_time()
    assert membership.known.removed == (3,)


def test_a_decision_of_another_history_than_the_one_that_is_known_changes_nothing(
    council: Council,
) -> None:
    """M3: two parts went on without each other, and this region heard of one by a link, whose
    effects have not come yet.  It would issue the other one's, and no start could read both."""
    membership = council.driven[2].region.membership
    ours, theirs = (removal(3, heir, Removal.WITHOUT_MAJORITY) for heir in (1, 2))
    members = membership.part.members
    assert membership.note_news(apply(members, ours)) is None
    membership.receive(R1, Decided(2, members.hash, theirs), council.clock)
    said = Said(instance(1), members, epoch=2, decided=theirs)
    reason = membership.hear(R1, 1, encode_said(said))
    assert "the database has split" in str(reason)
    assert membership.part.votes.decided is None
    council.wait(ISSUE_AFTER_MS.value)
    issued = [effect.change for _, effect in council.issued()]
    assert issued == [ours], "what is known to be decided"


def test_a_region_whose_log_may_have_lost_its_end_keeps_its_votes() -> None:
    """V5: all that are left recover, and wait for the dead one that they are to remove."""
    folder = FolderState(is_same=True, database=PROVEN.database, membership=Kept(instance(2)))
    region = make_region(2, (1, 3), folder=folder)
    assert region.opening.is_recovering
    assert region.membership.part.may_vote


def recovering() -> Council:
    """Regions 1 and 2 of five; all that are left were killed, and the others are gone for good."""
    council = Council((1, 2, 3, 4, 5))
    council.away |= {4, 5}
    for number in (1, 2, 3):
        folder = FolderState(
            is_same=True, database=PROVEN.database, membership=council.kept[number]
        )
        log = council.driven[number].log
        council.driven[number] = Driven(
            make_region(number, (1, 2, 3, 4, 5), log=log, folder=folder)
        )
    return council


def restarted(council: Council, number: int, *, log: Sequence[Record]) -> None:
    """The node begins again with its folder, whose log has lost its end."""
    folder = FolderState(is_same=True, database=PROVEN.database, membership=council.kept[number])
    council.driven[number] = Driven(make_region(number, (1, 2, 3), log=log, folder=folder))


def test_a_change_that_a_later_one_hides_is_told_to_a_region_that_recovers() -> None:
    """V19: region 4 is added and removed while region 3 is away, and region 1 dies.  What the
    members are since does not show the token of the Add; its effect is held back while region 3
    recovers, which waits for the removal of region 1, for which it has to vote."""
    council = Council()
    early = list(council.driven[3].log)
    council.away.add(3)
    for change in (adding(4), forced(4)):
        assert council.wish(1, change).made is not None
        council.spread()
    council.away = {1}
    restarted(council, 2, log=council.driven[2].log)
    restarted(council, 3, log=early)
    second, third = (council.driven[number].region for number in (2, 3))
    assert second.opening.is_recovering
    assert third.opening.is_recovering
    assert (second.membership.known.epoch, third.membership.known.epoch) == (3, 1)
    assert third.membership.hear(RegionId(2), 2, second.membership.said()) is None
    council.run()
    assert council.wish(2, lambda members: removal(1, 2)).made is not None
    council.run()
    assert {third.membership.known.active, second.membership.known.active} == {(2, 3)}


def test_a_region_that_recovers_believes_no_change_that_the_history_does_not_have() -> None:
    members = apply(apply(founded(3), renamed(1, "x")), renamed(1, "y"))
    kept = Kept(instance(3), members=founded(3))
    folder = FolderState(is_same=True, database=PROVEN.database, membership=kept)
    for change, is_believed in ((renamed(1, "x"), True), (renamed(1, "z"), False)):
        region = make_region(3, (1, 2), folder=folder)
        region.membership.part = replace(region.membership.part, members=founded(3), votes=Votes(2))
        said = Said(instance(2), members, epoch=4, recent=(Numbered(2, change),))
        assert region.membership.hear(R2, 2, encode_said(said)) is None
        assert (region.membership.part.votes.decided == change) is is_believed


def test_a_start_remembers_a_change_that_the_folder_did_not_get() -> None:
    """The log has the effect of an Add, and the power is lost before the folder has the change."""
    council = Council((1, 2, 3))
    before = council.kept[2]
    assert council.wish(1, adding(4)).made is not None
    council.spread()
    added = council.kept[2].recent
    council.kept[2] = before
    council.restart(2)
    assert decode_said(council.driven[2].region.membership.said()).recent == added


def test_the_changes_of_the_last_epochs_are_kept_and_no_more() -> None:
    council = Council((1, 2))
    for epoch in range(RECENT_MAX + 3):
        assert council.wish(1, renaming(1, f"name-{epoch}")).made is not None
        council.spread()
    for number in (1, 2):
        recent = council.kept[number].recent
        assert len(recent) == RECENT_MAX
        assert recent[-1].epoch == council.driven[number].region.membership.known.epoch
        assert recent[-1].change == renamed(1, f"name-{RECENT_MAX + 2}")
        council.restart(number)
        assert decode_said(council.driven[number].region.membership.said()).recent == recent


def test_two_dead_regions_are_removed_while_all_that_are_left_recover() -> None:
    """V5: the effect of the first removal waits for the second, and must not be waited for."""
    council = recovering()
    assert council.wish(1, forced(5)).made is not None
    assert council.wish(1, forced(4)).made is not None
    for number in (1, 2, 3):
        region = council.driven[number].region
        assert region.opening.is_recovering
        assert region.membership.known.active == (1, 2, 3)
        for other in {1, 2, 3} - {number}:
            vv = dict(council.driven[other].region.replica.vv)
            region.opening.note_answer(RegionId(other), Answer(vv.get(RegionId(number), 0), vv))
        region.opening.look()
        region.tick.open()
        begins = region.ready(council.clock).folder
        assert isinstance(begins, StoreIncarnations)
        region.folder.note_written(begins, council.clock)
        change = region.ready(council.clock).folder
        assert isinstance(change, Confirm)
        region.folder.note_written(change, council.clock)
        assert not region.opening.is_recovering
    council.wait(ISSUE_AFTER_MS.value)
    council.wait(ISSUE_AFTER_MS.value)
    council.replicate()
    assert {council.driven[one].region.replica.members.active for one in (1, 2, 3)} == {(1, 2, 3)}


def test_a_change_that_only_a_lost_folder_had_is_issued_by_members_that_heard_it(
    council: Council,
) -> None:
    """It was decided there and forgotten, and its effect is in no other log."""
    council.away.add(1)
    change = renamed(2, "us")
    for number in (2, 3):
        membership = council.driven[number].region.membership
        said = Said(instance(1), apply(founded(3), change), epoch=3)
        assert membership.hear(R1, 1, encode_said(said)) is None
        council.run()
        assert membership.part.votes.decided == change
    council.wait(ISSUE_AFTER_MS.value)
    council.replicate()
    assert {council.driven[one].region.replica.members.epoch for one in (2, 3)} == {2}


def test_a_folder_is_confirmed_only_with_what_the_members_answered() -> None:
    """V3: after a crash a confirmed folder proves its votes, so it must have them all."""
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2)))
    region = make_region(2, (1,), folder=restored)
    promised = Ballot(7, R1)
    said = Said(instance(1), founded(2), epoch=2, ballot=promised)
    assert region.membership.hear(R1, 1, encode_said(said)) is None
    region.opening.note_answer(R1, Answer(0, NOTHING))
    region.opening.look()
    region.tick.open()
    begins = region.ready(NOW).folder
    assert isinstance(begins, StoreIncarnations)
    region.folder.note_written(begins, NOW)
    change = region.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    assert change.kept.votes is not None
    assert change.kept.votes.promised == promised
    region.folder.note_written(change, NOW)
    assert isinstance(region.ready(NOW).folder, Confirm)


def test_a_folder_that_turns_out_to_be_an_earlier_one_has_lost_its_votes() -> None:
    """V3: it came back with its disk, as a virtual machine does, so it seemed to prove itself."""
    region = make_region(2, (1,), folder=replace(PROVEN, membership=Kept(instance(2))))
    region.opening.readiness.note_known(R1, 1)
    region.opening.look()
    assert not votes_here(region)
    promised = Ballot(7, R1)
    said = encode_said(Said(instance(1), founded(2), epoch=2, ballot=promised))
    assert region.membership.hear(R1, 1, said) is None
    region.membership.note_recovered(NOW)
    assert votes_here(region)
    assert region.membership.part.votes.promised == promised


def test_a_link_that_a_member_opens_does_not_take_back_what_it_answered() -> None:
    """V3: an Open names no ballot, and the member opens its link as soon as it hears of the
    start."""
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2)))
    membership = make_region(2, (1,), folder=restored).membership
    promised, change = Ballot(7, R1), renamed(1, "us")
    answered = Said(instance(1), founded(2), epoch=2, ballot=promised, decided=change)
    for said in (answered, Said(instance(1), founded(2), epoch=2)):
        assert membership.hear(R1, 1, encode_said(said)) is None
    membership.note_recovered(NOW)
    assert membership.part.votes.promised == promised
    assert membership.part.votes.decided == change


def test_a_restored_region_does_not_vote_for_an_epoch_that_is_over(council: Council) -> None:
    """V3: it has lost its vote of epoch 2, whose effect has come and is not durable yet; region 3
    has heard of nothing, and what it would decide with this vote would be a second epoch 2."""
    council.wish(1, renaming(2, "us"))
    first = council.driven[1]
    assert first.region.membership.part.votes.epoch == 3
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2)))
    driven = Driven(make_region(2, (1, 3), folder=restored))
    region, membership = driven.region, driven.region.membership
    promised = Ballot(7, R1)
    said = Said(instance(1), first.region.membership.told, epoch=3, ballot=promised)
    assert membership.hear(R1, 1, encode_said(said)) is None
    batch = first.log[0].batch
    assert batch is not None
    region.replica.receive(decode_batch(batch), batch, NOW)
    region.opening.note_answer(R1, Answer(0, dict(region.replica.vv)))
    region.opening.note_answer(RegionId(3), Answer(0, NOTHING))
    region.tick.open()
    seq = len(region.ready(NOW).records)
    region.log.note_logged(seq, NOW, durable=False)
    # What R1 knows proves what was decided; the folder is not confirmed by that.
    while (change := region.ready(NOW).folder) is not None:
        assert isinstance(change, StoreMembership | StoreIncarnations)
        region.folder.note_written(change, NOW)
    assert not votes_here(region)

    region.log.note_durable(region.outstanding.mark(), NOW)
    change = region.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    assert votes_here(region)
    assert membership.part.votes == Votes(3, promised)
    region.folder.note_written(change, NOW)
    assert isinstance(region.ready(NOW).folder, Confirm)


def test_a_recovering_member_takes_over_a_vote_and_passes_it_on(council: Council) -> None:
    """V18: its own lost vote may have been one of those that decided."""
    told = council.driven[1].region.membership.told
    vote = Vote(Ballot(1, R1), removal(3, 1))
    votes = Votes(2, vote.ballot, vote)
    folder = replace(PROVEN, membership=Kept(instance(1), votes, told))
    log = council.driven[1].log
    member = make_region(1, (2, 3), folder=folder, log=log)
    assert decode_said(member.membership.said()).accepted is None
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2), members=told))
    membership = make_region(2, (1, 3), folder=restored, log=log).membership
    assert membership.hear(R1, 1, member.membership.said(to_recovering=PeerRun(R2, 1))) is None
    # It opens a link of its own, which takes nothing back.
    assert membership.hear(R1, 1, member.membership.said()) is None
    membership.note_recovered(NOW)
    assert membership.part.votes.accepted == vote
    assert decode_said(membership.said(to_recovering=PeerRun(R3, 1))).accepted == vote


def test_a_sealed_region_that_lost_its_folder_is_sealed_again(council: Council) -> None:
    """Its removal may be decided yet, and takes what it would write."""
    told = council.driven[1].region.membership.told
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2), members=told))
    for how, seal in ((Removal.SEALED, Seal(R1, 2)), (Removal.FORCED, None)):
        region = make_region(2, (1, 3), folder=restored, log=council.driven[1].log)
        vote = Vote(Ballot(1, R1), removal(2, 1, how))
        said = Said(instance(1), told, epoch=2, ballot=vote.ballot, accepted=vote)
        assert region.membership.hear(R1, 1, encode_said(said)) is None
        region.membership.note_recovered(NOW)
        assert region.membership.sealing.wanted == seal


def _always(change: Change, _members: Members) -> Change:
    return change


def test_a_sealed_removal_of_a_region_that_lost_its_folder_is_refused(council: Council) -> None:
    council.away.add(2)
    membership = council.driven[1].region.membership
    for how, told in ((Removal.SEALED, "lost its folder"), (Removal.FORCED, "")):
        asked = Asked()
        change = removal(2, 1, how)
        membership.wish(partial(_always, change), asked, council.clock)
        membership.said(to_recovering=PeerRun(R2, 1))
        assert told in asked.refused
        assert bool(asked.refused) is bool(told)


def test_a_region_that_asks_again_does_not_end_a_ballot_that_began_since(council: Council) -> None:
    """It asks each time that its link opens, as long as it waits for a dead region.  A vote that it
    gave in between is of this run, and only that of an earlier run may be lost."""
    membership = council.driven[1].region.membership

    def has_ballot_that_counts() -> bool:
        proposal = membership.part.proposal
        return proposal is not None and proposal.counts(R2)

    def begins_ballot_that_counts() -> None:
        part = membership.part.propose(renamed(1, "us"), is_stable=True).after
        assert part.proposal is not None
        ballot = part.proposal.ballot
        membership.part = part.receive(R2, Promise(2, ballot, None)).after
        assert has_ballot_that_counts()

    begins_ballot_that_counts()
    membership.said(to_recovering=PeerRun(R2, 7))
    assert not has_ballot_that_counts(), "the promise may be of an earlier run"
    begins_ballot_that_counts()
    membership.said(to_recovering=PeerRun(R2, 7))
    assert has_ballot_that_counts(), "no other run has asked since"
    membership.said(to_recovering=PeerRun(R2, 8))
    assert not has_ballot_that_counts(), "the promise was given by the run before"
    begins_ballot_that_counts()
    membership.said(to_recovering=PeerRun(R2, 8))
    assert has_ballot_that_counts()


def test_a_run_that_asks_again_after_another_run_is_answered_as_if_it_had_not_asked(
    council: Council,
) -> None:
    """A vote since its first answer may be of the other run, whose folder may be lost."""
    membership = council.driven[1].region.membership
    membership.said(to_recovering=PeerRun(R2, 7))
    assert membership.hear(R2, 8, SAID) is None
    part = membership.part.propose(renamed(1, "us"), is_stable=True).after
    assert part.proposal is not None
    membership.part = part.receive(R2, Promise(2, part.proposal.ballot, None)).after
    membership.said(to_recovering=PeerRun(R2, 7))
    proposal = membership.part.proposal
    assert proposal is None or not proposal.counts(R2)


@pytest.mark.parametrize("first", [removal(3, 1, Removal.WITHOUT_MAJORITY), renamed(2, "us")])
def test_two_go_on_without_each_other_while_a_region_recovers_from_both(
    council: Council, first: Change
) -> None:
    """Both have answered, and were ahead of its log.  It goes the way of the first one, and does
    not end over the other."""
    council.wish(1, renaming(1, "eu"))
    council.spread()
    told = council.driven[1].region.membership.told
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2)))
    region = make_region(2, (1, 3), folder=restored)
    membership = region.membership
    changes = {R1: first, R3: removal(1, 3, Removal.WITHOUT_MAJORITY)}
    for peer, change in changes.items():
        said = Said(instance(peer), told, epoch=3, ballot=Ballot(1, peer), decided=change)
        assert membership.hear(peer, 1, encode_said(said)) is None
    batch = council.driven[1].log[0].batch
    assert batch is not None
    region.replica.receive(decode_batch(batch), batch, NOW)
    for peer in changes:
        region.opening.note_answer(peer, Answer(0, dict(region.replica.vv)))
    region.tick.open()
    region.log.note_logged(len(region.ready(NOW).records), NOW, durable=False)
    while (wanted := region.ready(NOW).folder) is not None:
        assert isinstance(wanted, StoreMembership | StoreIncarnations)
        region.folder.note_written(wanted, NOW)
    region.log.note_durable(region.outstanding.mark(), NOW)
    ready = region.ready(NOW)
    assert votes_here(region)
    assert membership.part.votes.decided == first
    assert any("epoch 3 was decided twice" in str(one) for one in ready.notices)


def test_a_node_that_joins_is_told_no_cuts() -> None:
    """H3: it would ask nobody for the effects up to there."""
    removed = apply(founded(2), removal(2, 1)).with_cut(R2, 5)
    folder = replace(PROVEN, membership=Kept(instance(1), members=removed))
    membership = make_region(1, (2,), folder=folder).membership
    assert membership.known == removed
    assert membership.told == removed.with_cut(R2, None)


def test_a_clock_that_is_set_back_holds_no_effect_back(council: Council) -> None:
    """Of a decision whose proposer is gone."""
    council.driven[1].region.gate.refuse(Cause.DISK, "the disk refuses")
    council.wish(1, renaming(1, "eu"))
    assert council.issued() == []
    council.away.add(1)
    council.clock = Millis(council.clock - 500)
    council.pass_time()
    council.wait(ISSUE_AFTER_MS.value)
    assert [effect.epoch for _, effect in council.issued()] == [2, 2]


def test_a_clock_that_is_set_back_makes_no_operator_wait_for_longer(council: Council) -> None:
    council.wish(1, renaming(1, "eu"))
    asked = Asked()
    region = council.driven[1].region
    region.membership.wish(renaming(2, "us"), asked, council.clock)
    back = Millis(council.clock - 500)
    region.pass_time(back)
    region.pass_time(Millis(back + PATIENCE_MS.value))
    assert "is not known to be in region 2 and region 3" in asked.refused


def test_an_earlier_folder_hears_who_is_a_member_from_those_that_it_refuses() -> None:
    """Region 1 is put back to before region 3 was added; region 2, which it asks, is gone and was
    removed meanwhile."""
    token = JoinToken(bytes(32), Millis(10**15))
    joining = apply(founded(2), Add(R3, contact(3), token))
    members = apply(apply(joining, Activate(R3, instance(3))), removal(2, 1))
    kept = Kept(instance(1), members=founded(2))
    earlier = make_region(1, (2,), folder=replace(PROVEN, is_proven=False, membership=kept))
    ahead = make_region(
        3, (1,), folder=replace(PROVEN, membership=Kept(instance(3), members=members))
    )
    assert "waits for region 2." in str(earlier.refuses_writes)
    reason = earlier.membership.told_unknown(R3)
    assert "region 3 is no member" in reason
    pull = ahead.links.pulls[R1]
    for _ in range(2):
        pull.next(NOW, 0.0)
    pull.lost(Refused(reason), NOW)
    (news,) = ahead.tick.take_letters()
    assert isinstance(news, News)
    assert news.to == R1
    assert earlier.membership.note_news(news.members) is None
    change = earlier.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    earlier.folder.note_written(change, NOW)
    assert list(earlier.links.pulls) == [R3]
    assert "waits for region 3." in str(earlier.refuses_writes)


def test_a_refusal_sends_no_letters_to_or_from_a_removed_region() -> None:
    members = apply(founded(3), removal(3, 1))
    for number in (1, 3):
        folder = replace(PROVEN, membership=Kept(instance(number), members=members))
        region = make_region(number, (1, 2, 3), folder=folder)
        region.membership.note_refused(R3 if number == 1 else R1)
        assert region.tick.take_letters() == []


# --- What the file names --------------------------------------------------------------------------

FRESH = FolderState()
# Region 3 is gone for good, and region 4 has joined.
LATER = apply(
    apply(
        apply(founded(3), Add(RegionId(4), contact(4), JoinToken(bytes(32), Millis(10**15)))),
        Activate(RegionId(4), instance(4)),
    ),
    removal(3, 1),
)


def of_file(number: int, *others: int, folder: FolderState = FRESH) -> Region:
    """A region whose file names these others."""
    return make_region(number, others, folder=folder)


def test_the_file_counts_until_all_regions_in_it_have_answered() -> None:
    region = of_file(1, 2, 3)
    assert region.membership.known == founded(3)
    for peer in (R2, R3):
        assert not isinstance(region.folder.next_change, StoreMembership)
        region.opening.note_answer(peer, Answer(0, NOTHING))
        region.opening.look()
    kept = Kept()
    for now in range(1, 9):
        region.tick.open()
        change = region.ready(Millis(NOW + now)).folder
        if isinstance(change, Confirm):
            break
        assert change is not None
        if isinstance(change, StoreMembership):
            kept = change.kept
        region.folder.note_written(change, Millis(NOW + now))
    assert kept.members == founded(3), "the folder has them before it proves anything"
    # From then on the file names addresses.
    again = of_file(1, 2, 4, folder=replace(PROVEN, membership=kept))
    assert again.membership.known == founded(3)
    (told,) = [one for one in again.ready(NOW).notices if "other members" in one.text]
    assert "the folder knows no region 4; it has no address of region 3" in str(told)
    # Before, it could be corrected.
    assert of_file(1, 2, 4).membership.known == genesis((R1, R2, RegionId(4)))


def test_a_file_that_names_the_members_is_not_reported() -> None:
    folder = replace(PROVEN, membership=Kept(instance(1), members=LATER))
    # Region 3 was removed; its name in the file means nothing.
    for others in ((2, 3, 4), (2, 4)):
        notices = of_file(1, *others, folder=folder).ready(NOW).notices
        assert not any("other members" in one.text for one in notices)


def test_a_proven_folder_of_an_earlier_version_keeps_what_its_file_names() -> None:
    """It is ready, and so it has to be kept at once."""
    driven = Driven(make_region(1, (2,), keeps_members=False))
    change = driven.end_tick().folder
    assert isinstance(change, StoreMembership)
    assert change.kept.members == founded(2)


def test_a_region_that_joined_and_lost_its_folder_is_taken_back() -> None:
    """Its file names the members of the day on which it joined, which no history began with."""
    lost = of_file(4, 1, 2)
    member = of_file(1, 2, 3, folder=replace(PROVEN, membership=Kept(instance(1), members=LATER)))
    assert lost.membership.known.hash != LATER.hash_at(1)
    # Whichever link opens first.
    assert member.membership.told_fork(RegionId(4), lost.membership.said()) is None
    assert member.membership.hear(RegionId(4), 1, lost.membership.said()) is None
    assert member.membership.known == LATER
    assert lost.membership.told_fork(R1, member.membership.said()) is None
    assert lost.membership.hear(R1, 1, member.membership.said()) is None
    assert lost.replica.members == lost.membership.part.members == founded(3)
    change = lost.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    assert change.kept.members == LATER
    lost.folder.note_written(change, NOW)
    assert set(lost.links.pulls) == {R1, R2}
    assert lost.opening.is_asking


@pytest.mark.parametrize("is_told", [False, True], ids=["a link", "news"])
def test_a_later_epoch_with_this_region_replaces_a_file_and_no_other_does(is_told: bool) -> None:
    without = apply(founded(3), renamed(1, "us"))
    begins = genesis((R1, R2, R3, RegionId(4)))
    for told, reason in ((without, "began with other regions"), (begins, "began with other")):
        region = of_file(4, 1, 2)
        said = encode_said(Said(instance(1), told, epoch=told.epoch + 1))
        heard = (
            region.membership.note_news(told) if is_told else region.membership.hear(R1, 1, said)
        )
        assert reason in str(heard)
        assert region.membership.known == genesis((R1, R2, RegionId(4)))


def test_no_other_history_replaces_members_that_a_folder_keeps() -> None:
    first = genesis((R1, R2, RegionId(4)))
    kept = replace(PROVEN, is_proven=False, membership=Kept(instance(4), members=first))
    region = of_file(4, 1, 2, folder=kept)
    said = encode_said(Said(instance(1), LATER, epoch=LATER.epoch + 1))
    assert "began with other regions" in str(region.membership.told_fork(R1, said))
    assert "began with other regions" in str(region.membership.hear(R1, 1, said))
    # Nor does another region let it pass.
    member = of_file(1, 2, 3, folder=replace(PROVEN, membership=Kept(instance(1), members=LATER)))
    assert "began with other regions" in str(
        member.membership.told_fork(RegionId(4), region.membership.said())
    )


def test_a_history_that_was_heard_is_not_replaced_by_its_own_continuation() -> None:
    """Else a decision in it is taken for the change of an earlier epoch."""
    region, later = of_file(1, 2, 3), apply(LATER, renamed(2, "us"))
    membership = region.membership
    for members in (LATER, later):
        said = encode_said(Said(instance(2), members, epoch=members.epoch + 1))
        assert membership.hear(R2, 1, said) is None
        assert not membership.members.replaced_by(later)
    change = region.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    region.folder.note_written(change, NOW)
    assert membership.known == later
    assert not membership.members.replaced_by(apply(later, renamed(2, "asia")))
    assert membership.part.decided_members.epoch <= later.epoch


def test_two_new_regions_whose_files_differ_refuse_each_other() -> None:
    first, second = of_file(1, 2), of_file(2, 1, 3)
    for one, other, peer in ((first, second, R2), (second, first, R1)):
        reason = str(one.membership.told_fork(peer, other.membership.said()))
        assert founded(2).listed() in reason
        assert founded(3).listed() in reason
        assert "Have [[peers]] of all nodes' files name the same regions" in reason
        assert one.membership.hear(peer, 1, other.membership.said()) == reason
        assert one.refuses_writes is not None


@pytest.mark.parametrize(
    ("kept", "file", "advice"),
    [
        (founded(2), (1, 3), "in the file of region 2 name region 1 and no other, and restart"),
        (founded(1), (1,), "It has begun without region 2: add that with `crdtstream crdb add"),
        (genesis((R1, R3)), (1,), "It has begun without region 2"),
    ],
)
def test_a_new_region_whose_file_differs_from_a_database_hears_what_to_do(
    kept: Members, file: tuple[int, ...], advice: str
) -> None:
    """Region 1 has begun, perhaps by --new-database, and says the same as region 2 itself."""
    old = of_file(1, *kept.active, 2, folder=replace(PROVEN, membership=Kept(UID, members=kept)))
    new = of_file(2, *file)
    for one, other, peer in ((old, new, R2), (new, old, R1)):
        assert advice in str(one.membership.told_fork(peer, other.membership.said()))
        assert advice in str(one.membership.hear(peer, 1, other.membership.said()))


def test_a_file_that_lacks_the_address_of_a_member_is_named_as_the_reason() -> None:
    """No change of the members has named one for region 2, which all files have."""
    lost = make_region(4, {1: "region-1:7000"}, folder=FRESH)
    assert "has no address" not in str(lost.refuses_writes)
    assert lost.membership.hear(R1, 1, encode_said(Said(UID, LATER, epoch=LATER.epoch + 1))) is None
    change = lost.ready(NOW).folder
    assert isinstance(change, StoreMembership)
    lost.folder.note_written(change, NOW)
    (told,) = [one for one in lost.ready(NOW).notices if "other members" in one.text]
    assert "it has no address of region 2" in str(told)
    reason = "Its file has no address of region 2: add that to [[peers]], and restart the node."
    assert reason in str(lost.refuses_writes)


# --- The last one left ----------------------------------------------------------------------------


def last_one_left(count: int, *, folder: FolderState) -> Council:
    """Region 1, after a power cut took the end of its log; the others are gone for good."""
    numbers = tuple(range(1, count + 1))
    council = Council(numbers)
    council.away |= set(numbers) - {1}
    folder = replace(folder, membership=replace(council.kept[1], members=founded(count)))
    council.driven[1] = Driven(make_region(1, numbers, log=council.driven[1].log, folder=folder))
    assert council.driven[1].region.opening.is_recovering
    return council


SAME = FolderState(is_same=True, database=PROVEN.database)
RESTORED = FolderState(database=PROVEN.database)


@pytest.mark.parametrize("folder", [SAME, RESTORED], ids=["end-lost", "restored"])
@pytest.mark.parametrize("count", [2, 3])
def test_the_last_one_left_goes_on_alone(count: int, folder: FolderState) -> None:
    """It waits for the answers of the dead, and an operator says that they are that."""
    council = last_one_left(count, folder=folder)
    region = council.driven[1].region
    for gone in range(count, 1, -1):
        assert region.refuses_writes is not None
        asked = Asked()
        make = forced(gone, Removal.WITHOUT_MAJORITY)
        region.membership.wish(make, asked, council.clock, survivors=[R1])
        council.run()
        assert asked.made is not None, asked.refused
    assert region.membership.known.active == (1,)
    region.opening.look()
    region.tick.open()
    while (change := region.ready(council.clock).folder) is not None:
        region.folder.note_written(change, council.clock)
    assert not region.opening.is_recovering
    council.wait(ISSUE_AFTER_MS.value * (count + 1))
    assert region.replica.members.active == (1,)
    assert region.refuses_writes is None


def test_one_of_several_that_are_left_does_not_go_on_with_votes_that_are_lost() -> None:
    """Another one may have counted the vote that it lost."""
    council = last_one_left(3, folder=RESTORED)
    asked = Asked()
    make = forced(3, Removal.WITHOUT_MAJORITY)
    membership = council.driven[1].region.membership
    membership.wish(make, asked, council.clock, survivors=[R1, R2])
    council.wait(PATIENCE_MS.value + 1)
    assert "folder was restored" in asked.refused
