"""The decision of one change: promises, votes and messages of each member."""

from dataclasses import replace

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import (
    Activate,
    Add,
    Change,
    JoinToken,
    MembersError,
    Removal,
    Remove,
    Revoke,
    Update,
)
from crdtstream.core.membership.deciding import (
    COUNTER_MAX,
    NO_BALLOT,
    Accept,
    Accepted,
    Ballot,
    Decided,
    Deciding,
    Letter,
    Nack,
    NotHere,
    Prepare,
    Promise,
    Turn,
    Vote,
    Votes,
    starting,
)
from crdtstream.core.membership.members import ForkError, Members, apply, genesis
from tests.membership.world import (
    NOW,
    contact,
    founded,
    instance,
    moved,
    removal,
    renamed,
    run,
)

R1, R2, R3, R4 = map(RegionId, (1, 2, 3, 4))
Parts = dict[RegionId, Deciding]


def parts_of(members: Members) -> Parts:
    regions = members.remaining
    return {one: starting(one, members, None, votes_are_proven=True) for one in regions}


def decided(parts: Parts) -> set[Change | None]:
    return {part.votes.decided for part in parts.values()}


def propose(parts: Parts, region: RegionId, change: Change) -> None:
    """Twice, if the first attempt loses to a higher ballot."""
    for _ in range(2):
        if parts[region].votes.decided is None:
            run(parts, region, parts[region].propose(change, is_stable=True))


def restarted(part: Deciding, kept: Votes) -> Deciding:
    return starting(part.here, part.members, kept, votes_are_proven=True)


def joining(count: int) -> Members:
    """Active regions 1 to ``count``, and one more that joins."""
    number = RegionId(count + 1)
    return apply(founded(count), Add(number, contact(number), JoinToken(bytes(32), NOW)))


# --- The plain way ------------------------------------------------------------------------------


def test_a_change_is_decided_by_more_than_half_and_all_hear_of_it() -> None:
    parts = parts_of(founded(3))
    propose(parts, R1, renamed(3, "x"))
    assert decided(parts) == {renamed(3, "x")}
    assert parts[R2].decided_members == apply(founded(3), renamed(3, "x"))


def test_one_member_away_does_not_block_a_change() -> None:
    parts = parts_of(founded(3))
    del parts[R3]
    propose(parts, R1, renamed(3, "x"))
    assert decided(parts) == {renamed(3, "x")}


def test_less_than_half_decide_nothing() -> None:
    parts = parts_of(founded(4))
    del parts[R3], parts[R4]
    propose(parts, R1, removal(3, heir=1))
    assert decided(parts) == {None}


def test_a_forced_removal_needs_more_than_half_of_all() -> None:
    """M3: of two regions none can remove the other; half of four can remove nobody."""
    part = parts_of(founded(2))[R1]
    with pytest.raises(MembersError, match="of 2 active regions 2 must agree, and 1 are left"):
        part.propose(removal(2, heir=1), is_stable=True)


def test_a_forced_removal_does_not_ask_the_removed() -> None:
    turn = parts_of(founded(3))[R1].propose(removal(3, heir=1), is_stable=True)
    assert [letter.to for letter in turn.letters] == [R2]
    turn = parts_of(founded(3))[R1].propose(removal(3, 1, Removal.SEALED), is_stable=True)
    assert [letter.to for letter in turn.letters] == [R2, R3]


def test_without_a_majority_all_that_are_left_agree() -> None:
    change = removal(3, 1, Removal.WITHOUT_MAJORITY)
    parts = parts_of(founded(4))
    with pytest.raises(MembersError, match="name the active regions that are left"):
        parts[R1].propose(change, is_stable=True)
    with pytest.raises(MembersError, match="name the active regions that are left"):
        parts[R1].propose(change, is_stable=True, survivors=[R1, R3])
    del parts[R3], parts[R4]
    turn = parts[R1].propose(change, is_stable=True, survivors=[R1, R2])
    assert [letter.to for letter in turn.letters] == [R2]
    run(parts, R1, turn)
    assert decided(parts) == {change}
    # One that is alone asks nobody, and has decided at once.
    alone = starting(R1, founded(2), None, votes_are_proven=True).propose(
        removal(2, 1, Removal.WITHOUT_MAJORITY), is_stable=True, survivors=[R1]
    )
    assert alone.must_keep
    assert alone.after.votes.decided is not None


def test_a_joining_region_proposes_and_does_not_vote() -> None:
    parts = parts_of(joining(2))
    propose(parts, R1, renamed(1, "x"))
    assert decided(parts) == {renamed(1, "x")}
    parts = parts_of(joining(2))
    propose(parts, R3, Activate(R3, instance(3)))
    assert decided(parts) == {Activate(R3, instance(3))}
    # Region 2 away: one of two is no majority, whatever the joining one says.
    parts = parts_of(joining(2))
    del parts[R2]
    propose(parts, R1, renamed(1, "x"))
    assert decided(parts) == {None}
    assert parts[R3].receive(R1, Prepare(3, parts[R3].members.hash, Ballot(9, R1))).letters == (
        Letter(R1, NotHere(3, Ballot(9, R1), 2)),
    )


def test_the_last_of_those_who_are_left_decides_by_itself() -> None:
    turn = starting(R1, founded(1), None, votes_are_proven=True).propose(
        renamed(1, "x"), is_stable=True
    )
    assert (turn.after.votes.decided, turn.must_keep) == (renamed(1, "x"), True)


# --- Two at once --------------------------------------------------------------------------------


def test_two_that_add_a_region_at_once_give_one_number_to_one_machine() -> None:
    """M1."""
    first, second = (
        Add(R4, contact(number), JoinToken(bytes([number]) * 32, NOW)) for number in (40, 41)
    )
    parts = parts_of(founded(3))
    begun = parts[R2].propose(second, is_stable=True)
    propose(parts, R1, first)
    # Region 2 comes with a ballot that is as old, and then with a new one.
    run(parts, R2, begun)
    assert decided(parts) == {first}
    with pytest.raises(MembersError, match="is decided and not yet applied here"):
        parts[R2].propose(second, is_stable=True)


def test_two_that_remove_each_other_are_one_removal() -> None:
    """M2."""
    parts = parts_of(founded(3))
    turns = {
        R1: parts[R1].propose(removal(2, heir=1), is_stable=True),
        R2: parts[R2].propose(removal(1, heir=2), is_stable=True),
    }
    # Both prepared; the higher ballot wins at region 3.
    parts |= {region: turn.after for region, turn in turns.items()}
    for region in (R2, R1):
        run(parts, region, Turn(parts[region], letters=turns[region].letters))
    assert len(decided(parts)) == 1
    assert None not in decided(parts)


def test_a_member_that_said_yes_to_one_who_died_may_agree_to_remove_it() -> None:
    """V1: region 1 prepares to remove 2, region 3 agrees, region 1 dies."""
    parts = parts_of(founded(3))
    turn = parts[R1].propose(removal(2, heir=1), is_stable=True)
    run(parts, R1, turn, lost=lambda sender, to, _: (sender, to) == (R3, R1))
    del parts[R1]
    assert parts[R3].votes.promised.region == 1
    propose(parts, R2, removal(1, heir=2))
    assert decided(parts) == {removal(1, heir=2)}


def test_a_later_proposer_finishes_an_accepted_change() -> None:
    """V1: it may have been decided, by a member that is dead now."""
    parts = parts_of(founded(3))
    turn = parts[R1].propose(removal(2, heir=1), is_stable=True)
    run(parts, R1, turn, lost=lambda sender, _to, message: isinstance(message, Decided))
    assert parts[R1].votes.decided == removal(2, heir=1)
    del parts[R1]
    propose(parts, R2, removal(1, heir=2))
    assert decided(parts) == {removal(2, heir=1)}


def test_of_what_was_accepted_the_highest_ballot_is_finished() -> None:
    low, high = (Vote(Ballot(n, RegionId(n)), renamed(2, str(n))) for n in (1, 2))
    part = starting(R3, founded(5), None, votes_are_proven=True)
    part = part.propose(renamed(2, "own"), is_stable=True).after
    assert part.proposal is not None
    ballot = part.proposal.ballot
    part = part.receive(R1, Promise(2, ballot, high)).after
    turn = part.receive(R2, Promise(2, ballot, low))
    accept = Accept(2, part.members.hash, ballot, high.change)
    assert {letter.message for letter in turn.letters} == {accept}


def test_a_late_message_of_an_earlier_attempt_frees_no_vote() -> None:
    """V2: an abort that came late freed a vote that was given again, and two were decided."""
    hash_ = founded(3).hash
    low, high = Ballot(1, R1), Ballot(2, R2)
    part = starting(R3, founded(3), None, votes_are_proven=True)
    part = part.receive(R2, Prepare(2, hash_, high)).after
    part = part.receive(R2, Accept(2, hash_, high, removal(1, 2))).after
    for late in (Prepare(2, hash_, low), Accept(2, hash_, low, removal(2, 1))):
        turn = part.receive(R1, late)
        assert turn == (part, False, (Letter(R1, Nack(2, low, high)),))
    # Nor does what was said to an attempt that its proposer has given up.
    begun = starting(R1, founded(3), None, votes_are_proven=True)
    first = begun.propose(renamed(1, "x"), is_stable=True).after
    assert first.proposal is not None
    second = first.propose(renamed(1, "x"), is_stable=True).after
    old = first.proposal.ballot
    for late_word in (Promise(2, old, None), Accepted(2, old), Nack(2, old, Ballot(9, R2))):
        assert second.receive(R2, late_word) == Turn(second)


def test_one_word_counts_once() -> None:
    part = starting(R1, founded(5), None, votes_are_proven=True)
    part = part.propose(renamed(1, "x"), is_stable=True).after
    assert part.proposal is not None
    ballot = part.proposal.ballot
    for _ in range(5):
        part = part.receive(R2, Promise(2, ballot, None)).after
    assert part.proposal is not None
    assert part.proposal.change is None
    part = part.receive(R3, Promise(2, ballot, None)).after
    for _ in range(5):
        part = part.receive(R2, Accepted(2, ballot)).after
    assert part.votes.decided is None
    # Nor does the word of one who was not asked.
    assert part.receive(RegionId(9), Accepted(2, ballot)).after.votes.decided is None


# --- What is kept -------------------------------------------------------------------------------


def test_a_promise_a_vote_and_a_decision_are_kept_before_they_are_told() -> None:
    members = founded(3)
    part = starting(R3, members, None, votes_are_proven=True)
    ballot = Ballot(3, R1)
    for message in (
        Prepare(2, members.hash, ballot),
        Accept(2, members.hash, ballot, renamed(1, "x")),
        Decided(2, members.hash, renamed(1, "x")),
    ):
        turn = part.receive(R1, message)
        assert turn.must_keep
        assert turn.after.votes != part.votes
        # The same again finds it kept.
        assert not turn.after.receive(R1, message).must_keep
        part = turn.after


def test_a_ballot_is_kept_before_it_is_told_and_is_not_used_again() -> None:
    part = starting(R1, founded(3), None, votes_are_proven=True)
    ballots = []
    for _ in range(3):
        turn = part.propose(renamed(1, "x"), is_stable=True)
        assert turn.must_keep
        assert turn.after.proposal is not None
        ballots.append(turn.after.proposal.ballot)
        part = restarted(turn.after, turn.after.votes)
    assert ballots == sorted(set(ballots))
    # And it is above every one that was heard of.
    part = part.propose(renamed(1, "x"), is_stable=True).after
    assert part.proposal is not None
    part = part.receive(R2, Nack(2, part.proposal.ballot, Ballot(70, R2))).after
    assert part.proposal is None
    part = part.propose(renamed(1, "x"), is_stable=True).after
    assert part.proposal is not None
    assert part.proposal.ballot == Ballot(71, R1)


def test_votes_are_forgotten_when_the_effect_is_durable_and_not_before() -> None:
    """V4: a power cut may take the effect back, and its epoch would be voted on again."""
    members = founded(3)
    parts = parts_of(members)
    propose(parts, R1, renamed(1, "x"))
    for part in parts.values():
        # The effect may be applied by now, but its record is not synced: this is what is kept.
        assert part.votes.accepted is not None or part.here == 3
        again = restarted(part, part.votes)
        turn = again.receive(R2, Prepare(2, members.hash, Ballot(90, R2)))
        assert turn.letters == (Letter(R2, Decided(2, members.hash, renamed(1, "x"))),)
    after = apply(members, renamed(1, "x"))
    turn = parts[R1].durably_applied(after)
    assert turn.must_keep
    assert turn.after.votes == Votes(3)
    # Of the epoch that is over nothing is voted on.
    answer = turn.after.receive(R2, Prepare(2, members.hash, Ballot(90, R2)))
    assert answer.letters == (Letter(R2, NotHere(2, Ballot(90, R2), 2)),)


def test_votes_of_an_epoch_that_is_over_are_of_no_use() -> None:
    old = Votes(2, Ballot(9, R2), Vote(Ballot(9, R2), renamed(1, "x")))
    part = starting(R1, apply(founded(3), renamed(1, "y")), old, votes_are_proven=True)
    assert part.votes == Votes(3)


def test_a_removal_counts_from_its_decision() -> None:
    parts = parts_of(founded(3))
    propose(parts, R1, removal(3, heir=1))
    assert parts[R2].members.active == (1, 2, 3)
    assert parts[R2].decided_members.active == (1, 2)
    again = restarted(parts[R2], parts[R2].votes)
    assert again.decided_members.active == (1, 2)


# --- Epochs -------------------------------------------------------------------------------------


def test_a_member_votes_only_behind_the_epoch_that_it_has() -> None:
    """V12: a removal needs the epoch before it applied by its voters."""
    members = founded(3)
    later = apply(members, renamed(1, "x"))
    behind = starting(R3, members, None, votes_are_proven=True)
    ahead = starting(R2, later, None, votes_are_proven=True)
    ballot = Ballot(1, R1)
    assert behind.receive(R1, Prepare(3, later.hash, ballot)) == (
        *(behind, False),
        (Letter(R1, NotHere(3, ballot, 1)),),
    )
    assert ahead.receive(R1, Accept(2, members.hash, ballot, renamed(1, "y"))) == (
        *(ahead, False),
        (Letter(R1, NotHere(2, ballot, 2)),),
    )
    # A proposer waits for them.
    assert behind.receive(R1, NotHere(3, ballot, 1)) == Turn(behind)


def test_other_changes_wait_until_the_last_one_is_stable() -> None:
    """V12; a removal does not, as the dead region may be what stability waits for."""
    part = starting(R1, founded(3), None, votes_are_proven=True)
    for change in (renamed(1, "x"), Add(R4, contact(4), JoinToken(bytes(32), NOW))):
        with pytest.raises(MembersError, match="epoch 1 is not known to be applied in all regions"):
            part.propose(change, is_stable=False)
    assert part.propose(removal(3, heir=1), is_stable=False).letters


def test_another_address_waits_for_nobody() -> None:
    """The region may be reached by nobody at the one before, and lack the change that named it."""
    part = starting(R1, founded(3), None, votes_are_proven=True)
    assert part.propose(moved(3, "right"), is_stable=False).letters
    named = Update(R3, replace(moved(3, "right").contact, name="us"))
    with pytest.raises(MembersError, match="epoch 1 is not known to be applied in all regions"):
        part.propose(named, is_stable=False)


def test_an_impossible_change_is_not_proposed() -> None:
    part = starting(R1, founded(3), None, votes_are_proven=True)
    with pytest.raises(MembersError, match="there is no region 9"):
        part.propose(removal(9, heir=1), is_stable=True)


# --- A removal behind a change whose effect is still to follow ----------------------------------


def both_dead() -> tuple[Members, Parts]:
    """Regions 4 and 5 are gone, and the removal of 5 is decided by the others."""
    members = founded(5)
    parts = {one: starting(one, members, None, votes_are_proven=True) for one in (R1, R2, R3)}
    propose(parts, R1, removal(5, heir=1))
    return apply(members, removal(5, heir=1)), parts


def test_a_second_removal_does_not_wait_for_the_effect_of_the_first() -> None:
    """V5: all that are left recover, and issue nothing while one of the dead is a member."""
    after, parts = both_dead()
    parts[R1] = parts[R1].gone_on()
    run(parts, R1, parts[R1].propose(removal(4, heir=1), is_stable=False))
    assert decided(parts) == {removal(4, heir=1)}
    for part in parts.values():
        assert part.members == after
        assert part.votes.pending == (removal(5, heir=1), removal(4, heir=1))
        assert part.decided_members.active == (1, 2, 3)


def test_only_a_removal_goes_before_the_effect_of_the_last_change() -> None:
    _, parts = both_dead()
    part = parts[R1].gone_on()
    with pytest.raises(MembersError, match="epoch 2 is not known to be applied"):
        part.propose(renamed(1, "x"), is_stable=False)


def test_a_member_that_goes_on_answers_for_the_epoch_before() -> None:
    """V4: nobody decides it again, as its change is kept in place of the votes."""
    _, parts = both_dead()
    turn = parts[R1].gone_on().propose(removal(4, heir=1), is_stable=False)
    assert turn.must_keep
    again = starting(R1, founded(5), turn.after.votes, votes_are_proven=True)
    assert again == Deciding(R1, turn.after.members, turn.after.votes)
    late = Prepare(2, founded(5).hash, Ballot(90, R2))
    told = Decided(2, founded(5).hash, removal(5, heir=1))
    assert again.receive(R2, late).letters == (Letter(R2, told),)


def test_effects_that_come_later_leave_the_votes_behind_them() -> None:
    """One epoch after the other becomes durable here, while the third is voted on."""
    after, parts = both_dead()
    part = parts[R1].gone_on().propose(removal(4, heir=1), is_stable=False).after
    turn = part.durably_applied(after)
    assert turn.must_keep
    assert turn.after.votes == Votes(3, promised=part.votes.promised)
    assert turn.after.members == after
    # A power cut between the two leaves what was kept before.
    kept = starting(R1, after, part.votes, votes_are_proven=True)
    assert kept.votes == turn.after.votes


def test_a_member_that_lacks_a_decision_does_not_vote_for_the_next_one() -> None:
    """V12: it would count by the members of before."""
    after, _ = both_dead()
    part = starting(R3, founded(5), None, votes_are_proven=True)
    ballot = Ballot(1, R1)
    accept = Accept(3, after.hash, ballot, removal(4, heir=1))
    assert part.receive(R1, accept) == (part, False, (Letter(R1, NotHere(3, ballot, 1)),))
    assert part.receive(R1, Decided(3, after.hash, removal(4, heir=1))) == Turn(part)


@pytest.mark.parametrize(
    "change",
    [
        Add(R4, contact(4), JoinToken(bytes(32), NOW)),
        renamed(1, "x"),
        removal(3, heir=1),
        removal(3, heir=1, how=Removal.WITHOUT_MAJORITY),
        Revoke(b"\x7c", 2_000, 1_000),
    ],
)
def test_newer_members_prove_the_change_that_leads_to_them(change: Change) -> None:
    """The folder of the only region that had its effect is lost, and the others know its hash."""
    part = starting(R2, founded(3), None, votes_are_proven=True)
    turn = part.proved_by(apply(founded(3), change))
    assert turn.must_keep
    assert turn.after.votes.decided == change


def test_members_that_are_not_newer_or_of_another_history_prove_nothing() -> None:
    part = starting(R2, apply(founded(3), renamed(1, "x")), None, votes_are_proven=True)
    other = apply(apply(founded(3), renamed(1, "y")), renamed(2, "z"))
    twice = apply(apply(part.members, renamed(2, "y")), renamed(2, "z"))
    for known in (part.members, founded(3), other, twice):
        assert part.proved_by(known) == Turn(part)


def test_an_impossible_change_is_neither_accepted_nor_finished() -> None:
    """One member that accepted it would have all others propose it for ever."""
    parts = parts_of(founded(3))
    hash_, made_up = founded(3).hash, removal(9, heir=1)
    with pytest.raises(MembersError, match="there is no region 9"):
        parts[R2].receive(R3, Accept(2, hash_, Ballot(1, R3), made_up))
    begun = parts[R1].propose(renamed(1, "x"), is_stable=True).after
    assert begun.proposal is not None
    ballot = begun.proposal.ballot
    with pytest.raises(MembersError, match="there is no region 9"):
        begun.receive(R3, Promise(2, ballot, Vote(Ballot(1, R3), made_up)))
    propose(parts, R1, renamed(1, "x"))
    assert decided(parts) == {renamed(1, "x")}


def test_behind_the_last_ballot_none_is_begun() -> None:
    """It could not be kept; who claims that ballot is no member."""
    part = starting(R1, founded(3), None, votes_are_proven=True)
    part = part.receive(R2, Prepare(2, part.members.hash, Ballot(COUNTER_MAX, R2))).after
    with pytest.raises(MembersError, match="the last ballot of epoch 2"):
        part.propose(renamed(1, "x"), is_stable=True)


def test_a_message_of_another_history_is_a_fork() -> None:
    members = founded(3)
    other = apply(members, renamed(1, "y"))
    part = starting(R3, apply(members, renamed(1, "x")), None, votes_are_proven=True)
    for message in (
        Prepare(3, other.hash, Ballot(1, R1)),
        Accept(3, other.hash, Ballot(1, R1), renamed(2, "z")),
        Decided(3, other.hash, renamed(2, "z")),
    ):
        with pytest.raises(ForkError, match="another history"):
            part.receive(R1, message)
    part = part.receive(R1, Decided(3, part.members.hash, renamed(2, "z"))).after
    with pytest.raises(ForkError, match="epoch 3 was decided twice"):
        part.receive(R1, Decided(3, part.members.hash, renamed(2, "y")))


# --- Folders that lost votes --------------------------------------------------------------------


def recovered(parts: Parts, region: RegionId) -> None:
    """The folder of a region is put back to before its first vote; all others answer."""
    part = starting(region, parts[region].members, None, votes_are_proven=False)
    ballots, decisions, votes = [], [], []
    for other in sorted(parts.keys() - {region}):
        parts[other], ballot, vote = parts[other].forgotten_by(region)
        ballots.append(ballot)
        decisions.append(parts[other].votes.decided)
        votes += [] if vote is None else [vote]
    known = next((one for one in decisions if one is not None), None)
    parts[region] = part.answered(ballots, known, accepted=votes).after


def test_a_restored_folder_votes_when_all_have_answered() -> None:
    """V5, and V3: before that it neither votes nor proposes."""
    part = starting(R3, founded(3), None, votes_are_proven=False)
    ballot = Ballot(1, R1)
    assert part.receive(R1, Prepare(2, part.members.hash, ballot)) == (
        *(part, False),
        (Letter(R1, NotHere(2, ballot, 1)),),
    )
    with pytest.raises(MembersError, match="this region's folder was restored"):
        part.propose(removal(2, heir=3), is_stable=True)
    assert part.answered([NO_BALLOT]).after.may_vote


def test_those_who_kept_their_votes_remove_a_dead_region_while_they_recover() -> None:
    """V5: both lost the end of their logs, and wait for the dead one to answer."""
    parts = {
        region: starting(region, founded(3), Votes(2), votes_are_proven=True) for region in (R1, R2)
    }
    propose(parts, R1, removal(3, heir=1))
    assert decided(parts) == {removal(3, heir=1)}


def test_a_member_that_answers_gives_up_a_ballot_that_counted_the_lost_vote() -> None:
    """V3: region 4 has the vote of 2, which is restored and votes again, with 1; then 4 gets the
    vote of 3, and would have two of three."""
    change = Activate(R4, instance(4))
    parts = parts_of(joining(3))
    turn = parts[R4].propose(change, is_stable=True)
    ballot = turn.after.proposal
    assert ballot is not None

    def lost(_sender: RegionId, to: RegionId, message: object) -> bool:
        return to == 1 or (to == 3 and isinstance(message, Accept))

    run(parts, R4, turn, lost)
    assert parts[R2].votes.accepted == Vote(ballot.ballot, change)
    recovered(parts, R2)
    assert parts[R2].votes.accepted is None

    others = {region: parts[region] for region in (R1, R2)}
    propose(others, R1, renamed(1, "x"))
    assert decided(others) == {renamed(1, "x")}
    accept = Accept(3, parts[R4].members.hash, ballot.ballot, change)
    run(parts, R3, parts[R3].receive(R4, accept))
    assert decided(parts) == {None}, "the ballot of region 4 was given up"


def test_a_restored_member_promises_what_it_may_have_promised() -> None:
    """V3: a proposer has its promise, and is about to rely on it."""
    parts = parts_of(founded(3))
    turn = parts[R2].propose(renamed(2, "x"), is_stable=True)
    run(parts, R2, turn, lost=lambda sender, *_: sender != 2)
    promised = parts[R3].votes.promised
    assert promised == Ballot(1, R2)
    recovered(parts, R3)
    assert parts[R3].votes.promised == promised
    late = Accept(2, founded(3).hash, Ballot(1, R1), renamed(1, "y"))
    assert parts[R3].receive(R1, late).letters == (Letter(R1, Nack(2, Ballot(1, R1), promised)),)


def test_a_restored_member_hears_what_was_decided() -> None:
    """V3: with its vote, which it has lost."""
    parts = parts_of(founded(3))
    turn = parts[R1].propose(removal(2, heir=1), is_stable=True)
    run(parts, R1, turn, lost=lambda sender, to, message: isinstance(message, Decided))
    assert decided(parts) == {removal(2, heir=1), None}
    recovered(parts, R3)
    assert parts[R3].votes.decided == removal(2, heir=1)
    propose(parts, R2, removal(1, heir=2))
    assert decided(parts) == {removal(2, heir=1)}


def test_a_member_that_answers_again_keeps_a_ballot_that_began_after_its_first_answer() -> None:
    """Two that wait for a dead region ask each other until they have decided its removal."""
    part = parts_of(founded(3))[R1]
    first = part.propose(removal(3, heir=1), is_stable=True).after
    assert first.proposal is not None
    first = first.receive(R3, Nack(2, first.proposal.ballot, Ballot(5, R3))).after
    answered, known, _ = first.forgotten_by(R2)
    assert known == Ballot(1, R1)

    again = answered.propose(removal(3, heir=1), is_stable=True).after
    assert again.proposal is not None
    ballot = again.proposal.ballot
    assert ballot == Ballot(6, R1)
    again = again.receive(R2, Promise(2, ballot, None)).after
    kept, known, _ = again.forgotten_by(R2, answered_at=answered.counter)
    assert (kept.proposal, known) == (again.proposal, ballot)
    for answered_at in (again.counter, COUNTER_MAX):
        assert again.forgotten_by(R2, answered_at=answered_at)[0].proposal is None


def test_a_member_that_answers_gives_up_a_removal_that_counts_on_a_seal() -> None:
    """The region may have lost its seal, and writes."""
    for how, stays in ((Removal.SEALED, False), (Removal.FORCED, True)):
        part = parts_of(founded(3))[R1].propose(removal(2, 1, how), is_stable=True).after
        after, _, vote = part.forgotten_by(R2)
        assert (after.proposal is not None, vote) == (stays, None)
        other, _, _ = part.forgotten_by(R3)
        assert other.proposal is not None
        again, _, _ = part.forgotten_by(R2, answered_at=0)
        assert (again.proposal is not None) == stays, "a seal is asked for before its ballot"


def test_a_sealed_region_hears_of_its_removal_from_who_proposed_it() -> None:
    """A member that has promised another ballot did not vote itself, but others may have."""
    part, change = parts_of(founded(3))[R1], removal(2, 1, Removal.SEALED)
    part = part.propose(change, is_stable=True).after
    assert part.proposal is not None
    ballot, asked = part.proposal.ballot, part.proposal.asked
    part = part.receive(R3, Prepare(2, part.members.hash, Ballot(9, R3))).after
    for one in asked:
        if one != R1:
            part = part.receive(one, Promise(2, ballot, None)).after
    assert part.votes.accepted is None
    assert part.proposal is not None
    assert part.proposal.change == change
    after, known, vote = part.forgotten_by(R2)
    assert (after.proposal, known, vote) == (None, Ballot(9, R3), Vote(ballot, change))


def test_a_recovering_member_takes_over_the_vote_of_the_highest_ballot() -> None:
    """V18: 1 and 2 have voted and 1 knows the decision; both lose their folders, one after the
    other, and nobody else has heard of it."""
    parts = parts_of(founded(3))
    first, second = renamed(1, "a"), renamed(2, "b")
    turn = parts[R1].propose(first, is_stable=True)
    run(parts, R1, turn, lost=lambda sender, to, message: to == R3 or isinstance(message, Decided))
    assert parts[R1].votes.decided == first
    recovered(parts, R1)
    recovered(parts, R2)
    propose(parts, R3, second)
    assert decided(parts) == {first}


def test_a_recovering_member_keeps_the_highest_of_several_votes() -> None:
    part = starting(R3, founded(3), None, votes_are_proven=False)
    low, high = (Vote(Ballot(n, R1), removal(n, heir=3)) for n in (1, 2))
    for votes in ([low, high], [high, low]):
        after = part.answered([NO_BALLOT], accepted=votes).after
        assert (after.votes.accepted, after.votes.promised) == (high, high.ballot)


# --- Unequal files --------------------------------------------------------------------------------


def test_majorities_of_unequal_files_have_no_vote_in_common() -> None:
    """{1, 2} of {1, 2, 3} and {4, 5} of {3, 4, 5} decide, each for itself: region 3 is in one."""
    one, other = (genesis(map(RegionId, numbers)) for numbers in ((1, 2, 3), (3, 4, 5)))
    change = Remove(R3, R1, Removal.FORCED)
    part = starting(R3, other, None, votes_are_proven=True)
    ballot = Ballot(1, R1)
    for message in (
        Prepare(2, one.hash, ballot),
        Accept(2, one.hash, ballot, change),
        Decided(2, one.hash, change),
    ):
        with pytest.raises(ForkError, match="another history"):
            part.receive(R1, message)
    # Nor does a made-up vote for the own history count what the other one holds.
    assert isinstance(part.receive(R4, Prepare(2, other.hash, ballot)).letters[0].message, Promise)


def test_regions_that_the_files_name_need_no_decision_to_vote() -> None:
    """Region 3 is dead from the beginning; the others remove it as the first change."""
    parts = parts_of(founded(3))
    del parts[R3]
    propose(parts, R1, removal(3, heir=1))
    assert decided(parts) == {removal(3, heir=1)}
