"""One region's part in changing the members: what is durable before it is told, and who goes on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest

from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.changes import (
    Activate,
    Add,
    Adopt,
    Adopted,
    Change,
    JoinToken,
    MembersError,
    Removal,
    Update,
)
from crdtstream.core.membership.deciding import Letter
from crdtstream.core.membership.encoding import Kept, decode_said
from crdtstream.core.membership.members import Members, apply
from crdtstream.core.wire.codec import decode_batch
from crdtstream.region.membership import ISSUE_AFTER_MS
from crdtstream.region.opening import FolderState
from crdtstream.region.ready import StoreMembership
from crdtstream.region.wishes import PATIENCE_MS, RESEND_MS
from tests.harness.driven import PROVEN, Driven, make_region
from tests.membership.world import adopted, contact, instance, removal


@dataclass
class Asked:
    """An operator's wish."""

    made: Members | None = None
    refused: str = ""

    def note_made(self, members: Members) -> None:
        self.made = members

    def note_not_made(self, error: MembersError) -> None:
        self.refused = str(error)


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

    def _started(self, number: int, kept: Kept, *, log: Iterable[object] = ()) -> Driven:
        folder = replace(PROVEN, membership=kept)
        return Driven(make_region(number, self.numbers, folder=folder, log=list(log)))  # type: ignore[arg-type]

    def restart(self, number: int) -> None:
        """The node dies, and begins again with what its folder has."""
        log = self.driven[number].log
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
        ready.tell()
        if ready.records:
            driven.log += ready.records
            region.note_logged(len(driven.log), self.clock, durable=True)
        if isinstance(ready.folder, StoreMembership) and number not in self.full:
            self.kept[number] = ready.folder.kept
            region.note_folder(ready.folder, self.clock)
        for letter in ready.letters:
            assert isinstance(letter, Letter)
            self.sent.append((number, letter))
            if letter.to not in self.away:
                other = self.driven[letter.to].region
                other.membership.receive(RegionId(number), letter.message, self.clock)
        return True

    def wait(self, ms: int) -> None:
        self.clock = Millis(self.clock + ms)
        for number, driven in self.driven.items():
            if number not in self.away:
                driven.region.pass_time(self.clock)
        self.run()

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


def adopt(numbers: Iterable[int] = (1, 2, 3)) -> Adopt:
    return Adopt(tuple(Adopted(RegionId(n), instance(n), contact(n)) for n in numbers))


def adopting(numbers: Iterable[int] = (1, 2, 3)) -> Callable[[Members], Change]:
    return lambda members: adopt(numbers)


def renaming(number: int, name: str) -> Callable[[Members], Change]:
    return lambda members: Update(RegionId(number), contact(number, name))


@pytest.fixture
def council() -> Council:
    return Council()


def test_all_adopt_what_their_files_name(council: Council) -> None:
    asked = council.wish(1, adopting())
    assert asked.made is not None
    assert council.epochs() == {1: 1, 2: 1, 3: 1}
    # The effect is the proposer's, and comes to the others by the log.
    assert [number for number, _ in council.issued()] == [1]
    council.replicate()
    assert {d.region.replica.members.epoch for d in council.driven.values()} == {1}


def test_nothing_is_adopted_without_one_of_them_and_the_operator_hears_whom(
    council: Council,
) -> None:
    council.away.add(3)
    asked = council.wish(1, adopting())
    council.wait(PATIENCE_MS.value + 1)
    assert "3 did not answer" in asked.refused
    assert council.issued() == []


def test_a_region_whose_file_names_others_adopts_nothing() -> None:
    council = Council((1, 2, 3))
    asked = council.wish(1, adopting((1, 2)))
    council.wait(PATIENCE_MS.value + 1)
    assert asked.made is None
    assert council.epochs() == {1: 0, 2: 0, 3: 0}


def test_no_letter_leaves_before_the_folder_has_what_it_tells(council: Council) -> None:
    council.full.add(2)
    council.wish(1, adopting())
    assert not [letter for number, letter in council.sent if number == 2]
    assert council.driven[1].region.membership.part.votes.decided is None


def test_who_crashes_votes_as_its_folder_says(council: Council) -> None:
    council.wish(1, adopting())
    before = council.driven[2].region.membership.part.votes
    council.restart(2)
    assert council.driven[2].region.membership.part.votes == before


def test_another_region_issues_the_effect_if_the_proposer_is_gone(council: Council) -> None:
    council.driven[1].region.fault = "the disk refuses"
    council.driven[1].region.database.fault = "the disk refuses"
    council.wish(1, adopting())
    assert council.issued() == []
    council.wait(ISSUE_AFTER_MS.value - 1)
    assert council.issued() == []
    council.wait(1)
    assert {number for number, _ in council.issued()} == {2, 3}
    council.replicate()
    assert {d.region.replica.members.epoch for d in council.driven.values()} == {1}


def test_a_lost_message_is_sent_again(council: Council) -> None:
    council.away.add(3)
    asked = council.wish(1, adopting())
    council.away.clear()
    council.wait(RESEND_MS.value)
    assert asked.made is not None


def test_a_change_waits_until_the_one_before_is_everywhere(council: Council) -> None:
    council.wish(1, adopting())
    asked = council.wish(1, renaming(2, "us"))
    council.wait(PATIENCE_MS.value + 1)
    assert "epoch 1 is not known to be in region 2 and region 3" in asked.refused


def test_two_that_change_at_once_are_both_made_one_behind_the_other(council: Council) -> None:
    council.wish(1, adopting())
    council.replicate()
    for driven in council.driven.values():
        for number, other in council.driven.items():
            driven.region.learn(RegionId(number), other.region.outstanding.durable_vv)
    first = Asked()
    council.driven[1].region.membership.wish(renaming(1, "eu"), first, council.clock)
    second = council.wish(2, renaming(2, "us"))
    for _ in range(4):
        council.wait(RESEND_MS.value)
        council.replicate()
        for driven in council.driven.values():
            for number, other in council.driven.items():
                driven.region.learn(RegionId(number), other.region.outstanding.durable_vv)
    assert first.made is not None
    assert second.made is not None
    names = [member.contact.name for member in council.driven[3].region.replica.members.regions]
    assert names == ["eu", "us", "r3"]


def test_what_cannot_follow_is_refused_at_once(council: Council) -> None:
    council.wish(1, adopting())
    assert "adopted before" in council.wish(1, adopting()).refused


def test_a_link_tells_newer_members_and_refuses_another_history(council: Council) -> None:
    council.wish(1, adopting())
    ahead = council.driven[1].region.membership
    late = Council((1, 2, 3))
    behind = late.driven[2].region.membership
    assert behind.hear(RegionId(1), 1, ahead.said()) is None
    assert behind.known.epoch == 0
    late.run()
    assert behind.known.epoch == 1
    fork = Council((1, 2, 4))
    fork.wish(1, adopting((1, 2, 4)))
    refusal = behind.hear(RegionId(1), 1, fork.driven[1].region.membership.said())
    assert refusal is not None
    assert "the database has split" in refusal


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
    removed = apply(adopted(2), removal(2, 1)).with_cut(RegionId(2), 0)
    folder = replace(PROVEN, membership=Kept(instance(1), members=removed))
    region = make_region(1, (2,), folder=folder)
    assert region.membership.known == removed
    assert decode_said(region.membership.said()).members == removed.with_cut(RegionId(2), None)


def test_a_region_that_was_removed_hears_it_and_issues_nothing() -> None:
    members = apply(adopted(2), removal(2, 1))
    region = make_region(2, (1,))
    assert region.refuses_writes is None
    assert region.membership.note_news(members) is None
    # Not before the folder has it.
    assert region.refuses_writes is None
    change = region.ready(Millis(1000)).folder
    assert isinstance(change, StoreMembership)
    region.note_folder(change, Millis(1000))
    assert "was removed at epoch 2" in str(region.refuses_writes)
    again = replace(PROVEN, membership=change.kept)
    assert "was removed at epoch 2" in str(make_region(2, (1,), folder=again).refuses_writes)


def forced(region: int, how: Removal = Removal.FORCED) -> Callable[[Members], Change]:
    return lambda members: removal(region, 1, how)


def test_an_attempt_that_came_to_nothing_is_in_nobodys_way(council: Council) -> None:
    """Two of three are dead: a majority cannot remove them, and who is left can."""
    council.wish(1, adopting())
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


def test_what_cannot_be_is_refused_for_its_own_reason(council: Council) -> None:
    council.wish(1, adopting())
    council.away |= {2, 3}
    council.wish(1, forced(3))
    asked = council.wish(1, renaming(9, "x"))
    council.wait(PATIENCE_MS.value + 1)
    assert "there is no region 9" in asked.refused


def test_a_removed_region_is_told_so_when_it_wants_a_change() -> None:
    members = apply(adopted(2), removal(2, 1))
    folder = replace(PROVEN, membership=Kept(instance(2), members=members))
    region = make_region(2, (1,), folder=folder)
    asked = Asked()
    region.membership.wish(renaming(2, "x"), asked, Millis(1000))
    assert "was removed at epoch 2" in asked.refused


JOINING = apply(adopted(2), Add(RegionId(3), contact(3), JoinToken(bytes(32), Millis(1 << 40))))


@pytest.mark.parametrize(
    ("members", "counts"),
    [
        (Members(), True),
        (adopted(3), True),
        (JOINING, False),
        (apply(JOINING, Activate(RegionId(3), instance(3))), True),
        (apply(adopted(3), removal(3, 1)), False),
        # It was never added.
        (adopted(2), False),
    ],
)
def test_a_region_counts_itself_only_while_it_is_active(members: Members, counts: bool) -> None:
    folder = replace(PROVEN, membership=Kept(instance(3), members=members))
    region = make_region(3, (1, 2), folder=folder)
    assert region.peers.is_active_here is counts
    assert region.freshness(1.0).counts_itself is counts
