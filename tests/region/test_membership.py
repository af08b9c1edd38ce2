"""One region's part in changing the members: what is durable before it is told, and who goes on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import (
    Activate,
    Add,
    Change,
    JoinToken,
    MembersError,
    Removal,
    Update,
)
from crdtstream.core.membership.deciding import Ballot, Letter, Nack, Prepare
from crdtstream.core.membership.encoding import Kept, decode_said
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.members.membership import ISSUE_AFTER_MS
from crdtstream.region.members.wishes import PATIENCE_MS, RESEND_MS, RETRY_MS_MAX
from crdtstream.region.opening import FolderState
from crdtstream.region.ready import StoreMembership
from crdtstream.region.staleness import LagAction
from crdtstream.region.write_gate import Cause
from tests.harness.driven import PROVEN, Driven, make_region
from tests.membership.world import contact, founded, instance, moved, removal


@dataclass
class Asked:
    """An operator's wish."""

    made: Members | None = None
    refused: str = ""

    def note_made(self, members: Members) -> None:
        self.made = members

    def note_not_made(self, error: MembersError) -> None:
        self.refused = str(error)


NEVER = Millis(1 << 62)


@dataclass
class Council:
    """Regions whose letters arrive, but for those of who is away; batches, when ``replicate``."""

    numbers: Iterable[int] = (1, 2, 3)
    away: set[int] = field(default_factory=set)
    # Regions whose folder cannot be written.
    full: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.clock = Millis(1000)
        self.driven = {n: self._started(n, Kept(instance(n))) for n in self.numbers}
        self.kept = {n: Kept(instance(n)) for n in self.numbers}
        self.sent: list[tuple[int, Letter]] = []
        # What the last Ready of each asked for.
        self.deadlines: dict[int, Millis] = {}

    def _started(self, number: int, kept: Kept, *, log: Iterable[object] = ()) -> Driven:
        folder = replace(PROVEN, membership=kept)
        return Driven(make_region(number, self.numbers, folder=folder, log=list(log)))  # type: ignore[arg-type]

    def restart(self, number: int) -> None:
        """The node dies, and begins again with what its folder has."""
        log = self.driven[number].log
        self.deadlines.pop(number, None)
        self.driven[number] = self._started(number, self.kept[number], log=log)

    def wish(self, number: int, make: Callable[[Members], Change]) -> Asked:
        asked = Asked()
        self.driven[number].region.membership.wish(make, asked, self.clock)
        self.run()
        return asked

    def run(self) -> None:
        """Until nobody has anything to say."""
        is_over = False
        while not is_over:
            steps = [self._step(number) for number in self.driven if number not in self.away]
            is_over = not any(steps)

    def _step(self, number: int) -> bool:
        driven = self.driven[number]
        region = driven.region
        if not region.tick.is_open:
            return False
        ready = region.ready(self.clock)
        self.deadlines[number] = NEVER if ready.deadline is None else ready.deadline
        ready.tell()
        if ready.records:
            driven.log += ready.records
            region.log.note_logged(len(driven.log), self.clock, durable=True)
        if isinstance(ready.folder, StoreMembership) and number not in self.full:
            self.kept[number] = ready.folder.kept
            region.folder.note_written(ready.folder, self.clock)
        for letter in ready.letters:
            assert isinstance(letter, Letter)
            self.sent.append((number, letter))
            if letter.to in self.driven and letter.to not in self.away:
                other = self.driven[letter.to].region
                other.membership.receive(RegionId(number), letter.message, self.clock)
        return True

    def wait(self, ms: int) -> None:
        """Time goes on, and is passed to a region when its last Ready asked for that."""
        self.run()
        end, at = Millis(self.clock + ms), self.clock
        while (due := max(at, self._earliest())) <= end:
            self.clock = due
            for number, driven in self.driven.items():
                if number not in self.away and self.deadlines.get(number, NEVER) <= due:
                    driven.region.pass_time(due)
            self.run()
            at = Millis(due + 1)
        self.clock = end

    def pass_time(self) -> None:
        """Time is passed to all, as it is when anything happens."""
        for number, driven in self.driven.items():
            if number not in self.away:
                driven.region.pass_time(self.clock)
        self.run()

    def _earliest(self) -> Millis:
        deadlines = [at for number, at in self.deadlines.items() if number not in self.away]
        return min(deadlines, default=NEVER)

    def spread(self) -> None:
        """All get what was logged, and hear from each other that they have it."""
        self.replicate()
        for driven in self.driven.values():
            for number, other in self.driven.items():
                driven.region.stability.learn(RegionId(number), other.region.outstanding.durable_vv)

    def replicate(self) -> None:
        """Each gets what the others have logged."""
        for driven in self.driven.values():
            for other in self.driven.values():
                for record in driven.log:
                    if record.batch is None:
                        continue
                    batch = decode_batch(record.batch)
                    if other.region.replica.ready(batch):
                        other.region.replica.receive(batch, record.batch, self.clock)
                        other.region.tick.open()
        self.run()

    def epochs(self) -> dict[int, int]:
        return {n: driven.region.membership.known.epoch for n, driven in self.driven.items()}

    def issued(self) -> list[tuple[int, ChangeMembers]]:
        return [
            (n, effect)
            for n, driven in self.driven.items()
            for record in driven.log
            if record.batch is not None and record.origin == n
            for _, effect in decode_batch(record.batch).others
            if isinstance(effect, ChangeMembers)
        ]


def renaming(number: int, name: str) -> Callable[[Members], Change]:
    return lambda members: Update(RegionId(number), contact(number, name))


def moving(number: int, host: str) -> Callable[[Members], Change]:
    return lambda members: moved(number, host)


@pytest.fixture
def council() -> Council:
    return Council()


def test_the_members_that_the_files_name_decide_the_first_change(council: Council) -> None:
    assert council.epochs() == {1: 1, 2: 1, 3: 1}
    asked = council.wish(1, renaming(1, "eu"))
    assert asked.made is not None
    assert council.epochs() == {1: 2, 2: 2, 3: 2}
    # The effect is the proposer's, and comes to the others by the log.
    assert [number for number, _ in council.issued()] == [1]
    council.replicate()
    assert {d.region.replica.members.epoch for d in council.driven.values()} == {2}


def test_no_vote_is_given_for_the_change_of_unequal_files() -> None:
    """{1, 2} and {4, 5} of files that share region 3, whose own file is the others'."""
    one, other = Council((1, 2, 3)), Council((3, 4, 5))
    assert one.wish(1, renaming(1, "eu")).made is not None
    asked = [letter.message for _, letter in one.sent if isinstance(letter.message, Prepare)]
    third = other.driven[3].region
    third.membership.receive(RegionId(1), asked[0], other.clock)
    other.run()
    assert other.sent == []
    assert third.membership.part.votes.promised.counter == 0
    # Nor does a region whose file does not name the sender take its letters for its members'.
    assert not third.membership.members.takes_from(RegionId(1))


def test_no_letter_leaves_before_the_folder_has_what_it_tells(council: Council) -> None:
    council.full |= {2, 3}
    council.wish(1, renaming(1, "eu"))
    assert not [letter for number, letter in council.sent if number != 1]
    assert council.driven[1].region.membership.part.votes.decided is None


def test_a_restarted_member_has_the_votes_of_its_folder(council: Council) -> None:
    council.wish(1, renaming(1, "eu"))
    before = council.driven[2].region.membership.part.votes
    council.restart(2)
    assert council.driven[2].region.membership.part.votes == before


def test_another_region_issues_the_effect_if_the_proposer_is_gone(council: Council) -> None:
    council.driven[1].region.gate.refuse(Cause.DISK, "the disk refuses")
    council.wish(1, renaming(1, "eu"))
    assert council.issued() == []
    council.wait(ISSUE_AFTER_MS.value - 1)
    assert council.issued() == []
    council.wait(1)
    assert {number for number, _ in council.issued()} == {2, 3}
    council.replicate()
    assert {d.region.replica.members.epoch for d in council.driven.values()} == {2}


def test_an_effect_is_issued_though_what_lags_is_bounded() -> None:
    """The region that does not have it is dead, and this is on the way to take it out."""
    council = Council((1, 2))
    driven = council.driven[1]
    driven.region.staleness.tune(lag_effects_max=1, action=LagAction.REFUSE)
    for name in ("a", "b", "c"):
        driven.write(name)
        council.run()
    assert "LAGGED" in str(driven.client.replies[-1])
    assert council.wish(1, renaming(1, "eu")).made is not None


def test_a_lost_message_is_sent_again(council: Council) -> None:
    council.away |= {2, 3}
    asked = council.wish(1, renaming(1, "eu"))
    council.away.clear()
    council.wait(RESEND_MS.value)
    assert asked.made is not None


def test_a_change_waits_until_the_one_before_is_everywhere(council: Council) -> None:
    council.wish(1, renaming(1, "eu"))
    asked = council.wish(1, renaming(2, "us"))
    council.wait(PATIENCE_MS.value + 1)
    assert "epoch 2 is not known to be in region 2 and region 3" in asked.refused


def test_an_address_is_corrected_though_the_region_hears_nothing_at_the_wrong_one(
    council: Council,
) -> None:
    council.away.add(2)
    for host in ("wrong", "right"):
        asked = council.wish(1, moving(2, host))
        assert asked.made is not None
        council.replicate()
    epochs = council.epochs()
    assert (epochs[1], epochs[3]) == (3, 3)


def adding(number: int) -> Callable[[Members], Change]:
    token = JoinToken(bytes(32), Millis(1 << 40))
    return lambda members: Add(RegionId(number), contact(number), token)


@pytest.fixture
def nobody_came(council: Council) -> Council:
    """Region 4 was added, and its node never came."""
    assert council.wish(1, adding(4)).made is not None
    council.spread()
    return council


def test_the_address_of_a_region_that_never_came_is_corrected(nobody_came: Council) -> None:
    made = nobody_came.wish(2, renaming(4, "asia")).made
    assert made is not None
    assert [one.contact.name for one in made.regions] == [
        "region-1",
        "region-2",
        "region-3",
        "asia",
    ]
    # What the active regions are to follow waits for it.
    nobody_came.spread()
    asked = nobody_came.wish(1, renaming(2, "us"))
    nobody_came.wait(PATIENCE_MS.value + 1)
    assert "region 4, which joins" in asked.refused


@pytest.mark.parametrize("how", [Removal.SEALED, Removal.FORCED])
def test_a_region_that_never_came_is_taken_out_at_once(nobody_came: Council, how: Removal) -> None:
    made = nobody_came.wish(1, forced(4, how)).made
    assert made is not None
    assert made.removed == (4,)
    # Once the others have said that nobody has anything of it, nothing waits for it.
    nobody_came.spread()
    for driven in nobody_came.driven.values():
        for number, other in nobody_came.driven.items():
            if other is driven:
                continue
            cuts, epoch = driven.region.membership.cuts, other.region.membership.cuts.epoch_of_words
            cuts.note_run(RegionId(number), 1)
            cuts.hear(RegionId(number), 1, epoch, other.region.outstanding.durable_vv)
        driven.region.membership.look_at_cuts()
        driven.region.tick.open()
    nobody_came.run()
    nobody_came.spread()
    asked = nobody_came.wish(1, renaming(2, "us"))
    nobody_came.wait(RESEND_MS.value)
    assert asked.made is not None


def test_two_that_change_at_once_are_both_made_one_behind_the_other(council: Council) -> None:
    first = Asked()
    council.driven[1].region.membership.wish(renaming(1, "eu"), first, council.clock)
    second = council.wish(2, renaming(2, "us"))
    for _ in range(4):
        council.wait(RESEND_MS.value)
        council.spread()
    assert first.made is not None
    assert second.made is not None
    names = [member.contact.name for member in council.driven[3].region.replica.members.regions]
    assert names == ["eu", "us", "region-3"]


def test_a_change_that_cannot_follow_is_refused_at_once(council: Council) -> None:
    assert "there is no region 9" in council.wish(1, renaming(9, "x")).refused


def test_a_link_tells_newer_members_and_refuses_another_history(council: Council) -> None:
    council.wish(1, renaming(1, "eu"))
    ahead = council.driven[1].region.membership
    late = Council((1, 2, 3))
    behind = late.driven[2].region.membership
    assert behind.hear(RegionId(1), 1, ahead.said()) is None
    assert behind.known.epoch == 1
    late.run()
    assert behind.known.epoch == 2
    split, other = Council((1, 2, 3)), Council((1, 2, 4))
    split.wish(1, renaming(1, "us"))
    for fork, reason in ((split, "the database has split"), (other, "began with other regions")):
        refusal = behind.hear(RegionId(1), 1, fork.driven[1].region.membership.said())
        assert reason in str(refusal)


def test_a_restored_region_votes_once_all_have_answered() -> None:
    council = Council((1, 2))
    restored = FolderState(database=PROVEN.database, membership=Kept(instance(2)))
    council.driven[2] = Driven(make_region(2, (1, 2), folder=restored))
    assert not council.driven[2].region.membership.part.may_vote
    membership = council.driven[2].region.membership
    membership.hear(RegionId(1), 1, council.driven[1].region.membership.said())
    membership.note_recovered(council.clock)
    assert membership.part.may_vote


def test_a_cut_is_not_told_to_others() -> None:
    removed = apply(founded(2), removal(2, 1)).with_cut(RegionId(2), 0)
    folder = replace(PROVEN, membership=Kept(instance(1), members=removed))
    region = make_region(1, (2,), folder=folder)
    assert region.membership.known == removed
    assert decode_said(region.membership.said()).members == removed.with_cut(RegionId(2), None)


def test_a_region_that_was_removed_hears_it_and_issues_nothing() -> None:
    members = apply(founded(2), removal(2, 1))
    region = make_region(2, (1,))
    assert region.refuses_writes is None
    assert region.membership.note_news(members) is None
    # Not before the folder has it.
    assert region.refuses_writes is None
    change = region.ready(Millis(1000)).folder
    assert isinstance(change, StoreMembership)
    region.folder.note_written(change, Millis(1000))
    assert "was removed at epoch 2" in str(region.refuses_writes)
    again = replace(PROVEN, membership=change.kept)
    assert "was removed at epoch 2" in str(make_region(2, (1,), folder=again).refuses_writes)


def test_a_link_to_a_member_that_a_new_folder_hears_of_is_as_old_as_that() -> None:
    """It has executed nothing, so that its own clock still stands at the beginning of time."""
    members = apply(founded(2), adding(3)(founded(2)))
    region = make_region(2, (1,))
    assert region.replica.keys.now == 0
    region.membership.note_news(members)
    change = region.ready(Millis(5_000)).folder
    assert isinstance(change, StoreMembership)
    region.folder.note_written(change, Millis(5_000))
    assert region.links.pulls[RegionId(3)].silent_ms(Millis(5_010)) == 10


def forced(region: int, how: Removal = Removal.FORCED) -> Callable[[Members], Change]:
    return lambda members: removal(region, 1, how)


def test_a_region_counts_from_its_add_on_though_the_folder_does_not_have_it(
    council: Council,
) -> None:
    """``rules`` 4: region 2 has applied the add of region 4, and what it destroyed before is with
    all that it knows of - but region 4, which may create it without having seen that."""
    council.away.add(2)
    assert council.wish(1, adding(4)).made is not None
    council.away.clear()
    council.full.add(2)
    driven = council.driven[2]
    for words in ("CREATE s g 0 MKSTREAM", "DESTROY s g"):
        driven.call("XGROUP", *words.split())
    council.run()
    council.spread()
    assert driven.region.replica.members.epoch == 2
    assert driven.region.membership.known.epoch == 1
    assert driven.region.replica.kept_until_stable

    council.full.clear()
    council.run()
    council.spread()
    assert driven.region.membership.known.epoch == 2
    assert driven.region.replica.kept_until_stable
    driven.region.stability.learn(RegionId(4), driven.region.outstanding.durable_vv)
    assert not driven.region.replica.kept_until_stable


def test_an_attempt_that_came_to_nothing_is_in_nobodys_way(council: Council) -> None:
    """Two of three are dead: a majority cannot remove them, and who is left can."""
    council.away |= {2, 3}
    asked = council.wish(1, forced(3))
    council.wait(PATIENCE_MS.value + 1)
    assert "2 did not answer" in asked.refused
    assert council.driven[1].region.membership.part.proposal is None
    alone = Asked()
    council.driven[1].region.membership.wish(
        forced(3, Removal.WITHOUT_MAJORITY), alone, council.clock, survivors=[RegionId(1)]
    )
    council.run()
    assert alone.made is not None
    assert alone.made.removed == (3,)


def outbid(council: Council) -> None:
    """Region 1's attempt has lost to one of region 2."""
    driven = council.driven[1].region.membership
    proposal = driven.part.proposal
    assert proposal is not None
    ballot = Ballot(proposal.ballot.counter + 1, RegionId(2))
    nack = Nack(driven.part.votes.epoch, proposal.ballot, ballot)
    driven.receive(RegionId(3), nack, council.clock)
    assert driven.part.proposal is None


def until_the_next_attempt(council: Council) -> int:
    """Wait until region 1 begins its next attempt; returns the milliseconds that it took."""
    membership = council.driven[1].region.membership
    begins = council.clock
    while membership.part.proposal is None:
        deadline = council.driven[1].region.deadlines.earliest
        assert deadline is not None
        council.wait(max(deadline, council.clock + 1) - council.clock)
    return council.clock - begins


def test_an_attempt_that_is_outbid_again_and_again_waits_for_longer_each_time(
    council: Council,
) -> None:
    """Else two regions whose attempts take longer than the pause between them outbid each other for
    ever."""
    council.away |= {2, 3}
    council.wish(1, renaming(2, "x"))
    pauses = []
    for _ in range(4):
        outbid(council)
        pauses.append(until_the_next_attempt(council))
    shortest = RETRY_MS_MAX.value
    assert pauses == [shortest, 2 * shortest, 4 * shortest, 8 * shortest]


def test_an_attempt_that_nobody_outbid_makes_no_later_one_wait(council: Council) -> None:
    council.away |= {2, 3}
    for _ in range(3):
        asked = council.wish(1, renaming(2, "x"))
        council.wait(PATIENCE_MS.value)
        assert "did not answer" in asked.refused
    council.wish(1, renaming(2, "x"))
    outbid(council)
    assert until_the_next_attempt(council) == RETRY_MS_MAX.value


def test_silent_members_are_asked_again(council: Council) -> None:
    council.away |= {2, 3}
    council.wish(1, renaming(2, "x"))
    for _ in range(3):
        outbid(council)
        until_the_next_attempt(council)
    council.sent.clear()
    council.wait(RESEND_MS.value)
    asked = [letter.to for _, letter in council.sent if isinstance(letter.message, Prepare)]
    assert asked == [2, 3]


def test_the_refusal_of_a_begun_change_says_that_it_may_still_be_decided(council: Council) -> None:
    """Else the token of a region that is added after all would be deleted."""
    council.away |= {2, 3}
    asked = council.wish(1, renaming(1, "x"))
    opening = council.driven[1].region.opening
    opening.readiness.note_known(RegionId(2), 99)
    opening.look()
    council.wait(RESEND_MS.value)
    council.wait(PATIENCE_MS.value)
    assert "folder was restored" in asked.refused
    assert "may still be decided" in asked.refused


def test_an_impossible_change_is_refused_for_its_own_reason(council: Council) -> None:
    council.away |= {2, 3}
    council.wish(1, forced(3))
    asked = council.wish(1, renaming(9, "x"))
    council.wait(PATIENCE_MS.value + 1)
    assert "there is no region 9" in asked.refused


def test_a_removed_region_is_told_so_when_it_wants_a_change() -> None:
    members = apply(founded(2), removal(2, 1))
    folder = replace(PROVEN, membership=Kept(instance(2), members=members))
    region = make_region(2, (1,), folder=folder)
    asked = Asked()
    region.membership.wish(renaming(2, "x"), asked, Millis(1000))
    assert "was removed at epoch 2" in asked.refused


JOINING = apply(founded(2), Add(RegionId(3), contact(3), JoinToken(bytes(32), Millis(1 << 40))))


@pytest.mark.parametrize(
    ("members", "counts"),
    [
        (Members(), True),
        (founded(3), True),
        (JOINING, False),
        (apply(JOINING, Activate(RegionId(3), instance(3))), True),
        (apply(founded(3), removal(3, 1)), False),
        # It was never added.
        (founded(2), False),
    ],
)
def test_a_region_counts_itself_only_while_it_is_active(members: Members, counts: bool) -> None:
    folder = replace(PROVEN, membership=Kept(instance(3), members=members))
    region = make_region(3, (1, 2), folder=folder)
    assert region.peers.is_active_here is counts
    assert region.freshness(1.0).counts_itself is counts
