"""Changes of the members that somebody here wants, one after the other, until each is decided.

An attempt may lose to another region's, or wait for regions that are away; it begins again until
it is decided, or until its asker has waited for long enough.  What was begun by then may still be
decided: whoever comes upon it finishes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NoReturn, Protocol

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.changes import Change, MembersError, Remove
from crdtstream.core.membership.deciding import NO_BALLOT, Ballot, Deciding, Letter, Turn
from crdtstream.core.membership.members import Members, Status, apply, chain
from crdtstream.core.size import Size

# Messages of an attempt are sent again after so long without a decision.
RESEND_MS: Final = Size(500, least=1)
# An attempt that lost to another one begins again after a while, drawn anew for each.
RETRY_MS_MIN: Final = Size(50, least=1)
RETRY_MS_MAX: Final = Size(400, least=2)
# How long an operator's command waits for a decision.  In less than some ways there and back
# nothing is ever decided.
PATIENCE_MS: Final = Size(10_000, least=2_000)


class UndecidedError(MembersError):
    """Time is over, and what was begun may still be decided; the text says what is missing."""


class Asker(Protocol):
    """Who wants a change, and waits to hear what became of it."""

    def note_made(self, members: Members) -> None:
        """It was decided, and its effect is durable here."""

    def note_not_made(self, error: MembersError) -> None:
        """It was not, or nobody knows; the text says which."""


class Council(Protocol):
    """This region's part in deciding, as attempts change it.

    Attributes:
        part: as it is now.
    """

    part: Deciding

    def take(self, turn: Turn) -> None:
        """Go on with what follows from an input."""

    def send(self, letters: tuple[Letter, ...]) -> None:
        """Send letters, once the folder has what they tell of."""

    def check_is_member(self) -> None:
        """Raises MembersError: this region was removed, and has no say."""


Make = Callable[[Members], Change]


@dataclass(slots=True, eq=False)
class _Wish:
    """A change that somebody here wants.

    Attributes:
        make: the change that is to follow these members.  It raises MembersError if none can.
        until: when the asker is told that it was not decided.
        tried: the epoch that was proposed for, and the change; None before the first attempt.
        next_ms: when the attempt begins again, or its messages are sent again.
        ballot: of its last attempt.  An attempt of somebody else is none of its own: it may ask
            others, and want something else.
        waits: why no attempt could begin; empty: one could.
        survivors: of a removal without a majority, who must agree.
    """

    make: Make
    asker: Asker
    until: Millis
    next_ms: Millis
    survivors: tuple[RegionId, ...] = ()
    tried: tuple[int, Change] | None = None
    ballot: Ballot = NO_BALLOT
    waits: str = ""


class Wishes:
    """See the module's text.

    Args:
        uniform: a random number between two; for the pauses between attempts.
        is_stable: whether the last effect of these members is causally stable here.
        lacking: who is not known to have it.
    """

    def __init__(
        self,
        council: Council,
        *,
        uniform: Callable[[float, float], float],
        is_stable: Callable[[Members], bool],
        lacking: Callable[[Members], list[RegionId]],
    ) -> None:
        self._council = council
        self._uniform = uniform
        self._is_stable = is_stable
        self._lacking = lacking
        self._wishes: list[_Wish] = []

    def add(
        self, make: Make, asker: Asker, now: Millis, *, survivors: Iterable[RegionId] = ()
    ) -> None:
        """Have a change decided, after those that were wanted before; see ``Membership.wish``."""
        until = Millis(now + PATIENCE_MS.value)
        self._wishes.append(_Wish(make, asker, until, next_ms=now, survivors=tuple(survivors)))

    def look(self, now: Millis) -> None:
        """Something has changed, or time has passed: go on with the first of them."""
        self._wait_no_longer(now)
        while self._wishes and self._go_on(self._wishes[0], now):
            self._wishes.pop(0)
            if self._wishes:
                # Its turn begins now.
                self._wishes[0].until = Millis(now + PATIENCE_MS.value)

    def _wait_no_longer(self, now: Millis) -> None:
        """A clock that was set back makes nobody wait for longer."""
        pause_ms = max(RESEND_MS.value, RETRY_MS_MAX.value)
        for wish in self._wishes:
            wish.until = min(wish.until, Millis(now + PATIENCE_MS.value))
            wish.next_ms = min(wish.next_ms, Millis(now + pause_ms))

    def has_tried(self, epoch: int, change: Change) -> bool:
        """Whether a change that was decided is what somebody here wants."""
        return any(wish.tried == (epoch, change) for wish in self._wishes)

    @property
    def deadline(self) -> Millis | None:
        """When ``look`` is to be called next; None: nobody wants anything."""
        if not self._wishes:
            return None
        return min(self._wishes[0].until, self._wishes[0].next_ms)

    def _go_on(self, wish: _Wish, now: Millis) -> bool:
        """Try what the first asker wants; whether that one is done with."""
        part = self._council.part
        try:
            if wish.tried is not None and part.members.epoch >= wish.tried[0]:
                epoch, change = wish.tried
                previous = part.members.hash_at(epoch - 1)
                if part.members.hash_at(epoch) == chain(previous, change):
                    wish.asker.note_made(part.members)
                    return True
                # Another change was decided: this one is to follow it.
                wish.tried = None
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
            self._begin(wish, part, now)
        except MembersError as error:
            wish.asker.note_not_made(error)
            return True
        return False

    def _begin(self, wish: _Wish, part: Deciding, now: Millis) -> None:
        """Begin an attempt, if one can begin now.

        Raises:
            MembersError: it never can.
        """
        change = wish.make(part.members)
        check_is_not_own(part.here, change)
        apply(part.members, change)
        wish.next_ms = Millis(now + round(self._uniform(RETRY_MS_MIN.value, RETRY_MS_MAX.value)))
        is_stable = self._is_stable(part.members)
        try:
            turn = part.propose(change, is_stable=is_stable, survivors=wish.survivors)
        except MembersError as error:
            # It may be possible in a moment.
            waits = not is_stable and not isinstance(change, Remove)
            wish.waits = self._waits_for(part.members) if waits else str(error)
            return
        wish.tried, wish.waits = (part.votes.epoch, change), ""
        wish.ballot = turn.after.votes.promised
        self._council.take(turn)

    def _give_up(self, wish: _Wish, *, is_under_way: bool) -> NoReturn:
        """Time is up: end the attempt, as a crash would.

        Raises:
            UndecidedError: what was begun may still be decided, by whoever comes upon it.
            MembersError: nothing was begun.
        """
        if wish.waits:
            raise MembersError(wish.waits)
        told = self._not_decided(wish)
        if is_under_way:
            self._council.part = replace(self._council.part, proposal=None)
        raise UndecidedError(told)

    def _waits_for(self, members: Members) -> str:
        """Who is not known to have the last change, for which others wait."""
        named = []
        for region in self._lacking(members):
            member = members.find(region)
            is_joining = member is not None and member.status is Status.JOINING
            named.append(f"region {region}, which joins" if is_joining else f"region {region}")
        return (
            f"epoch {members.epoch} is not known to be in {' and '.join(named) or 'all regions'}"
            " yet: start it, or take it out with `crdtstream crdb remove-instance`; then try again"
        )

    def _not_decided(self, wish: _Wish) -> str:
        """Why nothing was decided in time."""
        part = self._council.part
        if part.votes.decided is not None:
            return (
                f"epoch {part.votes.epoch} is decided, and its effect is not durable here yet;"
                " `crdtstream crdb list` shows when it is"
            )
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
            f" {_listed(silent)} did not answer. What was begun may still be decided:"
            f" `crdtstream crdb list` shows it{way_out}"
        )


def check_is_not_own(here: RegionId, change: Change) -> None:
    """
    Raises:
        MembersError: it removes this region: the others would refuse it before they have its last
            effects, and the one that tells of the removal would be among these.
    """
    if isinstance(change, Remove) and change.region == here:
        raise MembersError(f"region {here} cannot remove itself: run the command in another region")


def _listed(regions: Iterable[RegionId]) -> str:
    return ", ".join(map(str, sorted(regions)))
