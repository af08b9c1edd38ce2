"""Changes that somebody wants, one after the other: which waits for which backoff."""

from dataclasses import dataclass

import pytest

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import (
    Activate,
    Add,
    JoinToken,
    MembersError,
    Removal,
    Update,
)
from crdtstream.core.membership.deciding import (
    Ballot,
    Decided,
    Deciding,
    Letter,
    Nack,
    Turn,
    Votes,
)
from crdtstream.core.membership.members import Members, apply
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.members.wishes import (
    PATIENCE_MS,
    RESEND_MS,
    RETRY_MS_MAX,
    Make,
    UndecidedError,
    Wishes,
)
from tests.harness.parts import Start
from tests.membership.world import contact, founded, instance, removal, renamed

HERE, OTHER = RegionId(3), RegionId(2)
JOINING = apply(founded(2), Add(HERE, contact(3), JoinToken(bytes(32), Millis(10**15))))


@dataclass
class Council:
    """A joining region's part, and nobody who answers it.

    Attributes:
        removed: why the region has no say; empty: it has.
    """

    part: Deciding
    removed: str = ""

    def take(self, turn: Turn) -> None:
        self.part = turn.after

    def send(self, letters: tuple[Letter, ...]) -> None:
        pass

    def check_is_member(self) -> None:
        if self.removed:
            raise MembersError(self.removed)


@dataclass
class Asked:
    """A caller that wants a change."""

    error: MembersError | None = None

    @property
    def refused(self) -> str:
        return str(self.error or "")

    def note_made(self, members: Members) -> None:
        raise AssertionError("nobody votes here")

    def note_not_made(self, error: MembersError) -> None:
        self.error = error


def activating(_members: Members) -> Activate:
    return Activate(HERE, instance(3))


def moving(_members: Members) -> Update:
    return Update(HERE, contact(3, "elsewhere"))


def moving_if_first(members: Members) -> Update:
    if members.epoch > JOINING.epoch:
        raise MembersError("somebody else was faster")
    return moving(members)


class Everywhere:
    """All regions have the effect of each change."""

    def has_stable_members(self, members: Members) -> bool:
        return True

    def lacking_members(self, members: Members) -> list[RegionId]:
        return []


class World:
    """Wishes of a joining region, each backoff as long as it may be."""

    def __init__(self) -> None:
        self.clock = Millis(1000)
        self.council = Council(Deciding(HERE, JOINING, Votes(JOINING.epoch + 1)))
        self.deadlines = Deadlines()
        self.wishes = Wishes(
            self.council,
            self.deadlines,
            uniform=lambda low, high: high,
            spread=Everywhere(),
            recovery=Start(),
        )

    def add(self, make: Make, *, is_again: bool) -> Asked:
        asked = Asked()
        self.wishes.add(make, asked, self.clock, is_again=is_again)
        self.wishes.look(self.clock)
        return asked

    def outbid(self) -> None:
        """The attempt loses to one of the other region."""
        part = self.council.part
        assert part.proposal is not None
        ballot = Ballot(part.proposal.ballot.counter + 1, OTHER)
        nack = Nack(part.votes.epoch, part.proposal.ballot, ballot)
        self.council.take(part.receive(RegionId(1), nack))
        self.wishes.look(self.clock)

    def pass_time(self, until: int) -> None:
        """Look whenever it is wanted."""
        while (deadline := self.deadlines.earliest) is not None and deadline <= until:
            self.clock = Millis(max(deadline, self.clock + 1))
            self.wishes.look(self.clock)
        self.clock = Millis(until)

    @property
    def tries(self) -> bool:
        return self.council.part.proposal is not None


def given_up_in_a_backoff() -> tuple[World, int]:
    """A wish lost so often that its time is over before its backoff is; and the end of that."""
    world = World()
    asked = world.add(activating, is_again=True)
    ends = world.clock + PATIENCE_MS.value
    longest = RETRY_MS_MAX.value
    while world.clock + longest < ends:
        world.outbid()
        world.pass_time(world.clock + longest)
        assert world.tries
        longest *= 2
    world.outbid()
    backoff_ends = world.clock + min(longest, PATIENCE_MS.value)
    world.pass_time(ends)
    assert asked.refused
    assert ends < backoff_ends
    return world, backoff_ends


def test_the_same_change_is_wanted_again_only_behind_the_backoff() -> None:
    """Nobody waits for it, and two regions that do so at once would outbid each other for ever."""
    world, backoff_ends = given_up_in_a_backoff()
    world.add(activating, is_again=True)
    world.pass_time(backoff_ends - 1)
    assert not world.tries
    world.pass_time(backoff_ends)
    assert world.tries


@pytest.mark.parametrize("back_ms", [1000, 600_000])
@pytest.mark.parametrize("is_again", [False, True])
def test_a_clock_that_is_set_back_makes_no_backoff_longer(*, is_again: bool, back_ms: int) -> None:
    world = World()
    world.clock = Millis(1_000_000)
    asked = world.add(activating, is_again=is_again)
    for _ in range(3):
        world.outbid()
        while not world.tries:
            world.pass_time(world.clock + 1)
    world.outbid()
    world.clock = Millis(world.clock - back_ms)
    world.wishes.look(world.clock)
    world.pass_time(world.clock + max(RESEND_MS.value, RETRY_MS_MAX.value))
    assert world.tries
    assert not asked.refused


def test_a_change_behind_another_one_does_not_wait_for_the_backoff_before_it() -> None:
    """The region that outbid this one has its change, and is in nobody's way any more."""
    world = World()
    world.add(moving, is_again=False)
    for _ in range(4):
        world.outbid()
        while not world.tries:
            world.pass_time(world.clock + 1)
    world.outbid()
    part = world.council.part
    decided = Decided(part.votes.epoch, JOINING.hash, renamed(1, "x"))
    world.council.take(part.receive(RegionId(1), decided))
    part = world.council.part
    world.council.take(part.durably_applied(part.decided_members))
    world.wishes.look(world.clock)
    world.pass_time(world.clock + max(RESEND_MS.value, RETRY_MS_MAX.value))
    assert world.tries


def test_a_wish_is_looked_at_again_after_a_while() -> None:
    world = World()
    asked = world.add(moving, is_again=False)
    assert (world.deadlines.earliest or 0) > world.clock
    world.pass_time(world.clock + PATIENCE_MS.value)
    assert asked.refused
    assert world.deadlines.earliest is None, "nothing is wanted any more"


def test_an_operator_waits_for_no_backoff_of_an_earlier_wish() -> None:
    world, _ = given_up_in_a_backoff()
    world.add(moving, is_again=False)
    assert world.tries


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_removed_region_does_not_know_what_became_of_what_it_had_begun(has_begun: bool) -> None:
    """A part of the database that it was not removed from may have finished the attempt."""
    world = World()
    first = world.add(activating, is_again=False) if has_begun else None
    world.council.removed = "region 3 was removed"
    asked = first or world.add(activating, is_again=False)
    world.pass_time(world.clock + RESEND_MS.value)
    assert isinstance(asked.error, UndecidedError) is has_begun
    assert asked.refused.startswith("region 3 was removed")
    assert ("in each region that is left" in asked.refused) is has_begun


@pytest.mark.parametrize("how", [Removal.FORCED, Removal.WITHOUT_MAJORITY])
def test_a_change_that_lost_to_one_without_a_majority_may_have_been_made_elsewhere(
    how: Removal,
) -> None:
    world = World()
    asked = world.add(moving_if_first, is_again=False)
    part = world.council.part
    removed = Decided(part.votes.epoch, JOINING.hash, removal(2, 1, how))
    world.council.take(part.receive(RegionId(1), removed))
    part = world.council.part
    world.council.take(part.durably_applied(part.decided_members))
    world.wishes.look(world.clock)
    world.pass_time(world.clock + RESEND_MS.value)
    assert asked.refused.startswith("somebody else was faster")
    assert isinstance(asked.error, UndecidedError) is (how is Removal.WITHOUT_MAJORITY)
