"""Wishes: changes of the members that are wanted here, one after the other, until each is decided.

An attempt may lose to another region's, or wait for regions that are away.  It begins again until
it is decided, or until its asker has waited for long enough.  What was begun by then may still be
decided: a region that finds it finishes it.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NoReturn, Protocol

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import Change, MembersError, Remove
from crdtstream.core.membership.deciding import (
    NO_BALLOT,
    Ballot,
    Deciding,
    Letter,
    Turn,
    needs_seal_of,
    waits_for_stability,
)
from crdtstream.core.membership.members import Members, Status, apply, chain
from crdtstream.core.size import Size
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.members.spread import Spread
from crdtstream.region.readiness import Recovery

# Messages of an attempt are sent again after this time without a decision.
RESEND_MS: Final = Size(500, least=1)
# An attempt that lost to another one begins again after a random backoff, drawn for each attempt.
RETRY_MS_MIN: Final = Size(50, least=1)
RETRY_MS_MAX: Final = Size(400, least=2)
# Time that an operator's command waits for a decision.  Nothing is ever decided in less than some
# round trips.
PATIENCE_MS: Final = Size(10_000, least=2_000)
BEGUN: Final = "What was begun may still be decided: `crdtstream crdb list` shows it"

BEGUN_ELSEWHERE: Final = (
    "What was begun may have been decided by others: `crdtstream crdb list` in each region that is"
    " left shows it"
)


class UndecidedError(MembersError):
    """The wait timed out; what was begun may still be decided; the text says what is missing."""


class Asker(Protocol):
    """Asker: it wants a change, and waits for the outcome."""

    def note_made(self, members: Members) -> None:
        """Note that it was decided; its effect is durable here, or follows if this region
        recovers."""

    def note_not_made(self, error: MembersError) -> None:
        """Note that it was not decided, or that this is unknown; the text says which."""


class Council(Protocol):
    """This region's part in deciding, as attempts change it.

    Attributes:
        part: its present state.
    """

    part: Deciding

    def take(self, turn: Turn) -> None:
        """Continue with what follows from an input."""

    def send(self, letters: tuple[Letter, ...]) -> None:
        """Send letters, once the folder has what they tell of."""

    def check_is_member(self) -> None:
        """Raise MembersError if this region was removed, and has no say."""


Make = Callable[[Members], Change]


class _Backoff:
    """The time before the next attempt, whose longest doubles with each that is outbid.

    Two regions that begin again sooner than an attempt takes would outbid each other for ever.
    """

    def __init__(self, uniform: Callable[[float, float], float]) -> None:
        self._uniform = uniform
        self._epoch = 0
        self._began_ms = self._ends_ms = Millis(0)
        self._longest_ms = RETRY_MS_MAX.value

    def end(self, epoch: int, now: Millis) -> Millis:
        """Time at which the next attempt at an epoch may begin.

        An attempt at an earlier epoch delays nothing, nor does a clock that was set back.
        """
        if epoch != self._epoch or now < self._began_ms:
            return now
        return max(now, self._ends_ms)

    def note_attempt(self, epoch: int, now: Millis) -> Millis:
        """Note an attempt: it counts as outbid, unless ``note_given_up`` follows.

        Returns:
            The end of the backoff.
        """
        if epoch != self._epoch:
            self._epoch, self._longest_ms = epoch, RETRY_MS_MAX.value
        self._began_ms, self._ends_ms = now, self.drawn(now, self._longest_ms)
        self._longest_ms = min(2 * self._longest_ms, PATIENCE_MS.value)
        return self._ends_ms

    def note_given_up(self) -> None:
        """Note that the last attempt was not outbid: the next one need not wait because of it."""
        self._ends_ms = Millis(0)
        self._longest_ms = max(self._longest_ms // 2, RETRY_MS_MAX.value)

    def drawn(self, now: Millis, longest_ms: int = 0) -> Millis:
        """Draw the end of a backoff that begins now; 0: of the first one."""
        longest_ms = longest_ms or RETRY_MS_MAX.value
        return Millis(now + round(self._uniform(RETRY_MS_MIN.value, longest_ms)))


@dataclass(slots=True, eq=False)
class Wish:
    """A change that is wanted here.

    Attributes:
        make: makes the change that is to follow these members.  It raises MembersError if none can.
        until: time at which the asker is told that it was not decided.
        tried: the epoch that was proposed for, and the change; None before the first attempt.
        next_ms: time to look at it again: its messages are sent again, or an attempt may begin.
        ballot: of its last attempt.  An attempt of another region is none of its own: that one may
            ask others, and want something else.
        has_begun: an attempt began, of this epoch or of an earlier one.
        is_again: the same was wanted before, and given up: it waits for the backoff behind that.
        waits: reason why no attempt could begin; empty: one could.
        survivors: of a removal without a majority, the regions that must agree.
    """

    make: Make
    asker: Asker
    until: Millis
    next_ms: Millis
    survivors: tuple[RegionId, ...] = ()
    is_again: bool = False
    tried: tuple[int, Change] | None = None
    ballot: Ballot = NO_BALLOT
    has_begun: bool = False
    waits: str = ""


class Wishes:
    """See the module's text.

    Attributes:
        pending: wishes that are not decided; the first one is tried.

    Args:
        uniform: a random number between two; for the backoff between attempts.
        spread: of the effect of the last epoch.
        recovery: whether this region issues nothing, as it may get back what it had lost.
    """

    def __init__(
        self,
        council: Council,
        deadlines: Deadlines,
        *,
        uniform: Callable[[float, float], float],
        spread: Spread,
        recovery: Recovery,
    ) -> None:
        self._council = council
        self._backoff = _Backoff(uniform)
        self._spread = spread
        self._recovery = recovery
        self.pending: list[Wish] = []
        self._deadline = deadlines.new()

    def add(
        self,
        make: Make,
        asker: Asker,
        now: Millis,
        *,
        survivors: Iterable[RegionId] = (),
        is_again: bool = False,
    ) -> None:
        """Let a change be decided, after those that were wanted before; see ``Membership.wish``.

        Args:
            is_again: no command waits for it, and it was perhaps given up a moment ago: it begins
                after the backoff behind the last attempt.
        """
        until = Millis(now + PATIENCE_MS.value)
        self.pending.append(Wish(make, asker, until, now, tuple(survivors), is_again))
        self._set_deadline()

    def look(self, now: Millis) -> None:
        """Continue with the first wish, after a change or after time has passed."""
        self._wait_no_longer(now)
        while self.pending and self._go_on(self.pending[0], now):
            self.pending.pop(0)
            if self.pending:
                # Its turn begins now.
                self.pending[0].until = Millis(now + PATIENCE_MS.value)
        self._set_deadline()

    def end_seal_of(self, region: RegionId) -> None:
        """End the seal of a region that lost its folder, on which its removal counts.

        If others have voted for the removal already, the region hears it, and is sealed again.
        """
        for wish in list(self.pending):
            with suppress(MembersError):
                if needs_seal_of(region, wish.make(self._council.part.members)):
                    self.pending.remove(wish)
                    kind = MembersError if wish.tried is None else UndecidedError
                    error = kind(f"region {region} has lost its folder meanwhile; run it again")
                    wish.asker.note_not_made(self._told(wish, error))
        self._set_deadline()

    def _wait_no_longer(self, now: Millis) -> None:
        """Limit the waits: a clock that was set back makes none of them longer."""
        latest = Millis(now + PATIENCE_MS.value)
        soon = Millis(now + max(RESEND_MS.value, RETRY_MS_MAX.value))
        for wish in self.pending:
            wish.until = min(wish.until, latest)
            wish.next_ms = min(wish.next_ms, soon)

    def has_tried(self, epoch: int, change: Change) -> bool:
        """True if a change that was decided is what is wanted here."""
        return any(wish.tried == (epoch, change) for wish in self.pending)

    def _set_deadline(self) -> None:
        """Have ``look`` called when the first wish is to be looked at."""
        first = self.pending[0] if self.pending else None
        self._deadline.set(None if first is None else min(first.until, first.next_ms))

    def _go_on(self, wish: Wish, now: Millis) -> bool:
        """Try the first wish; return True if it is done with."""
        if self._council.part.votes.decided is not None and self._recovery.is_recovering:
            # All regions that are left may be recovering, and wait for a second dead region: its
            # removal cannot wait for the effect of this change.
            self._council.part = self._council.part.gone_on()
        part = self._council.part
        try:
            if wish.tried is not None and part.members.epoch >= wish.tried[0]:
                epoch, change = wish.tried
                previous = part.members.hash_at(epoch - 1)
                if part.members.hash_at(epoch) == chain(previous, change):
                    wish.asker.note_made(part.members)
                    return True
                # Another change was decided: this one is to follow it.
                wish.tried, wish.next_ms = None, min(wish.next_ms, self._backoff.drawn(now))
            self._council.check_is_member()
            is_under_way = part.proposal is not None and part.proposal.ballot == wish.ballot
            if now >= wish.until:
                self._give_up(wish, is_under_way=is_under_way)
            if now < wish.next_ms:
                return False
            wish.next_ms = Millis(now + RESEND_MS.value)
            if part.votes.decided is not None:
                return False
            if is_under_way:
                self._council.send(part.resend())
                return False
            if wish.has_begun or wish.is_again:
                may_begin_ms = self._backoff.end(part.votes.epoch, now)
                if now < may_begin_ms:
                    wish.next_ms = may_begin_ms
                    return False
            self._begin(wish, part, now)
        except MembersError as error:
            wish.asker.note_not_made(self._told(wish, error))
            return True
        return False

    def _told(self, wish: Wish, error: MembersError) -> MembersError:
        """The error as its asker is to see it.

        What was decided here in place of the wish says nothing of a part of the database that went
        on alone, or from which this region was removed: that part may have finished the attempt.
        """
        try:
            self._council.check_is_member()
            is_whole = not self._council.part.members.drawn_above
        except MembersError:
            is_whole = False
        if is_whole or not wish.has_begun or isinstance(error, UndecidedError):
            return error
        return UndecidedError(f"{str(error).removesuffix('.')}. {BEGUN_ELSEWHERE}")

    def _begin(self, wish: Wish, part: Deciding, now: Millis) -> None:
        """Begin an attempt, if one can begin now.

        Raises:
            MembersError: it never can.
        """
        change = wish.make(part.members)
        check_is_not_own(part.here, change)
        apply(part.members, change)
        is_stable = self._spread.has_stable_members(part.members)
        try:
            turn = part.propose(change, is_stable=is_stable, survivors=wish.survivors)
        except MembersError as error:
            # It may be possible in a moment.
            waits = part.may_vote and not is_stable and waits_for_stability(part.members, change)
            wish.waits = self._waits_for(part.members) if waits else str(error)
            wish.next_ms = self._backoff.drawn(now)
            return
        wish.next_ms = min(wish.next_ms, self._backoff.note_attempt(part.votes.epoch, now))
        wish.tried, wish.has_begun, wish.waits = (part.votes.epoch, change), True, ""
        wish.ballot = turn.after.votes.promised
        self._council.take(turn)

    def _give_up(self, wish: Wish, *, is_under_way: bool) -> NoReturn:
        """Give up after the time: end the attempt, as a crash would.

        Raises:
            UndecidedError: what was begun may still be decided, by a region that finds it.
            MembersError: nothing was begun.
        """
        if wish.waits and wish.tried is None:
            raise MembersError(wish.waits)
        told = self._not_decided(wish)
        if is_under_way:
            self._backoff.note_given_up()
            self._council.part = replace(self._council.part, proposal=None)
        raise UndecidedError(told)

    def _waits_for(self, members: Members) -> str:
        """Text on the regions not known to have the last change, for which others wait."""
        named = []
        for region in self._spread.lacking_members(members):
            member = members.find(region)
            is_joining = member is not None and member.status is Status.JOINING
            named.append(f"region {region}, which joins" if is_joining else f"region {region}")
        return (
            f"epoch {members.epoch} is not known to be in {' and '.join(named) or 'all regions'}"
            " yet: start it, or take it out with `crdtstream crdb remove-instance`; then try again"
        )

    def _not_decided(self, wish: Wish) -> str:
        """Reason why nothing was decided in time."""
        part = self._council.part
        if part.votes.decided is not None:
            return (
                f"epoch {part.votes.epoch} is decided, and its effect is not durable here yet;"
                " `crdtstream crdb list` shows when it is"
            )
        if wish.waits:
            return f"{wish.waits}. {BEGUN}"
        proposal = part.proposal
        if proposal is None or proposal.ballot != wish.ballot:
            return "other regions propose changes all the time; try again"
        way_out = (
            ". If they are gone as well, or wait for this removal: --without-majority"
            if isinstance(proposal.own, Remove)
            else ""
        )
        promised = [region for region, _ in proposal.promises]
        agreed = promised if proposal.change is None else proposal.accepts
        silent = set(proposal.asked).difference(agreed)
        return (
            f"{proposal.needed} of the regions {_listed(proposal.asked)} must agree, and"
            f" {_listed(silent)} did not answer. {BEGUN}{way_out}"
        )


def check_is_not_own(here: RegionId, change: Change) -> None:
    """
    Raises:
        MembersError: it removes this region: the others would refuse it before they have its last
            effects, and the one that reports the removal would be among these.
    """
    if isinstance(change, Remove) and change.region == here:
        raise MembersError(f"region {here} cannot remove itself: run the command in another region")


def _listed(regions: Iterable[RegionId]) -> str:
    return ", ".join(map(str, sorted(regions)))
