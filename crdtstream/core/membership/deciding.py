"""How a change of the membership is decided: one small Paxos for each epoch, without any IO.

    proposer                     each voter
    Prepare(ballot)  ──────────> promises no lower ballot; says what it accepted, if anything
    Accept(ballot, change) ────> accepts it, unless it has promised a higher ballot
                                 change: of what the promises say that of the highest ballot;
                                 only if none says anything, the proposer's own
    Decided(change)  ──────────> once more than half of all active members have accepted

Any two majorities have a voter in common, so no two changes are decided for one epoch.  Before the
first epoch there are no voters: all regions that an ``Adopt`` names must accept it, but for one
that an operator says is dead, so that two
that name different regions have a voter in common as well, or nothing at all.  There is no leader:
anyone may prepare, and finishes what somebody began.  A register as in CASPaxos (Rystsov
2018, arXiv:1802.07000); the numbers of epochs are its only log.

A member's part is a value, ``Deciding``; a message or a wish in, a ``Turn`` out: the value after
it, the messages to send, and whether ``votes`` must be durable before they may leave.

Always so:
  * A promise, an acceptance and a decision are durable before they are told.
  * What was promised or accepted for an epoch is forgotten when its effect is durably applied here,
    not before: after a power cut between the two the same epoch would be voted on again.
  * A member votes for the epoch behind the one that it has durably applied, and for no other.
  * A folder that lost votes gets them back as far as it takes: it votes once all members have
    answered it, promises the highest ballot that any of them knows, and each that answers gives up
    a ballot that counted it (``forgotten_by``).  A folder that proves its votes, and nothing else,
    votes at once; else all could be waiting for the dead region that is to be removed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, assert_never

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.changes import (
    Adopt,
    Change,
    MembersError,
    Removal,
    Remove,
    Update,
)
from crdtstream.core.membership.members import ForkError, Members, Status, apply


def waits_for_stability(members: Members, change: Change) -> bool:
    """Whether a change has to wait until the newest epoch's effect is causally stable.

    A removal does not, as the dead region may be what it would wait for; nor does another address
    of a joining region, which may be what keeps that region from hearing anything.  The voters of
    both have the newest epoch all the same, and neither makes anybody a voter.
    """
    if isinstance(change, Update):
        member = members.find(change.region)
        return member is None or member.status is not Status.JOINING
    return not isinstance(change, Remove)


class Ballot(NamedTuple):
    """An attempt.  Higher ones win; no two proposers have the same."""

    counter: int
    region: RegionId


NO_BALLOT: Final = Ballot(0, RegionId(0))


class Vote(NamedTuple):
    """A change that was accepted, and in which ballot."""

    ballot: Ballot
    change: Change


@dataclass(frozen=True, slots=True)
class Votes:
    """What a member must not forget of the epoch that is being decided.

    Attributes:
        epoch: the one behind that which is durably applied here.
        promised: the lowest ballot that it still takes part in.
        accepted: of the highest ballot; None without any.
        decided: the change; a removal counts from here on, its effect follows.
    """

    epoch: int
    promised: Ballot = NO_BALLOT
    accepted: Vote | None = None
    decided: Change | None = None


# --- Messages -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare:
    """Attributes:
    previous: the hash of the history that the change is to follow.
    """

    epoch: int
    previous: bytes
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Promise:
    epoch: int
    ballot: Ballot
    accepted: Vote | None


@dataclass(frozen=True, slots=True)
class Accept:
    epoch: int
    previous: bytes
    ballot: Ballot
    change: Change


@dataclass(frozen=True, slots=True)
class Accepted:
    epoch: int
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Nack:
    """The ballot has lost: its proposer may try again with a higher one.

    Attributes:
        promised: the one that it lost to.
    """

    epoch: int
    ballot: Ballot
    promised: Ballot


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision; told to everyone, and to whoever still asks for its epoch."""

    epoch: int
    previous: bytes
    change: Change


@dataclass(frozen=True, slots=True)
class NotHere:
    """No vote: the member has durably applied another epoch than the one before, or lost votes.

    Attributes:
        applied: the epoch that it has.  The proposer waits, or catches up.
    """

    epoch: int
    ballot: Ballot
    applied: int


Message: TypeAlias = Prepare | Promise | Accept | Accepted | Nack | Decided | NotHere


class Letter(NamedTuple):
    to: RegionId
    message: Message


# --- A member's part ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """An attempt under way.  It is not kept: after a crash somebody tries again.

    Attributes:
        own: the change that is wanted.
        change: the one that is proposed, once enough promised; it may be somebody else's.
        asked: whom the proposal is sent to.
        needed: how many of them must accept.
        promises: who promised, and what each had accepted.
        accepts: who accepted.
    """

    ballot: Ballot
    own: Change
    asked: tuple[RegionId, ...]
    needed: int
    promises: tuple[tuple[RegionId, Vote | None], ...] = ()
    change: Change | None = None
    accepts: tuple[RegionId, ...] = ()

    def counts(self, region: RegionId) -> bool:
        """Whether a word of the region is a part of this attempt."""
        return region in self.accepts or any(region == one for one, _ in self.promises)


@dataclass(frozen=True, slots=True)
class Deciding:
    """One member's part in deciding the next epoch.

    Attributes:
        here: this region.  It may be a joining one: it proposes, but does not vote.
        members: as they are durably applied here.
        votes: what must be kept; whoever runs this keeps it when a turn says so, and starts with
            what was kept.
        may_vote: False while a folder that lost votes waits for its answers.
        proposal: what this member tries to have decided.
        seen: the highest counter of a ballot that was heard of.
    """

    here: RegionId
    members: Members
    votes: Votes
    may_vote: bool = True
    proposal: Proposal | None = None
    seen: int = 0

    # --- Proposing ------------------------------------------------------------------------------

    def propose(
        self, change: Change, *, is_stable: bool, survivors: Iterable[RegionId] = ()
    ) -> "Turn":
        """Begin an attempt; or begin again after one that got nowhere.

        Args:
            is_stable: the newest epoch's effect is causally stable here; see
                ``waits_for_stability``.
            survivors: for a removal without a majority, the members that are left: all of them must
                accept.  For an adoption, those of its regions that are not known to be dead.

        Raises:
            MembersError: it cannot be proposed now, and why.  Nothing has changed.
        """
        if self.votes.decided is not None:
            raise MembersError(
                f"epoch {self.votes.epoch} is decided and not yet applied here; try again then"
            )
        if not self.may_vote:
            raise MembersError(
                "this region's folder was restored: it can change nothing before all members have"
                " answered it; run the command in another region"
            )
        if not is_stable and waits_for_stability(self.members, change):
            raise MembersError(
                f"epoch {self.members.epoch} is not known to be applied in all regions; try again"
                " when `crdtstream crdb list` shows that it is"
            )
        apply(self.members, change)
        asked, needed = self._quorum(change, tuple(survivors))
        counter = 1 + max(self.votes.promised.counter, self.seen)
        ballot = Ballot(counter, self.here)
        # Its own promise is durable before anybody hears of the ballot: none is used twice.
        promised = replace(
            self, votes=replace(self.votes, promised=ballot), seen=counter, proposal=None
        )
        begun = replace(promised, proposal=Proposal(ballot, change, asked, needed))
        prepare = Prepare(self.votes.epoch, self.members.hash, ballot)
        letters = tuple(Letter(to, prepare) for to in asked if to != self.here)
        turn = Turn(begun, must_keep=True, letters=letters)
        if self.here not in asked:
            return turn
        return turn.then(begun._promised(self.here, self.votes.accepted))

    def _quorum(
        self, change: Change, survivors: tuple[RegionId, ...]
    ) -> tuple[tuple[RegionId, ...], int]:
        if isinstance(change, Adopt):
            named = survivors or tuple(one.region for one in change.regions)
            return named, len(named)
        voters = self.members.voters
        needed = len(voters) // 2 + 1
        if not isinstance(change, Remove) or change.how is Removal.SEALED:
            return voters, needed
        # The removed is not asked, and more than half of all are needed all the same.
        asked = tuple(one for one in voters if one != change.region)
        if change.how is Removal.WITHOUT_MAJORITY:
            if not survivors or not set(survivors) <= set(asked):
                raise MembersError("without a majority: name the active regions that are left")
            return tuple(sorted(set(survivors))), len(set(survivors))
        if len(asked) < needed:
            raise MembersError(
                f"of {len(voters)} active regions {needed} must agree, and {len(asked)} are left"
                f" without region {change.region}. If it is gone for good: --without-majority"
            )
        return asked, needed

    def resend(self) -> tuple[Letter, ...]:
        """The messages of the attempt under way, for those that have not answered."""
        proposal = self.proposal
        if proposal is None:
            return ()
        epoch, previous = self.votes.epoch, self.members.hash
        message: Message = Prepare(epoch, previous, proposal.ballot)
        if proposal.change is not None:
            message = Accept(epoch, previous, proposal.ballot, proposal.change)
        return tuple(
            Letter(to, message)
            for to in proposal.asked
            if to != self.here and to not in proposal.accepts
        )

    # --- Messages -------------------------------------------------------------------------------

    def receive(self, sender: RegionId, message: Message) -> "Turn":
        """What a peer sent.

        Raises:
            ForkError: it is of another history.
        """
        match message:
            case Prepare(epoch, previous, ballot):
                return self._prepare(sender, epoch, previous, ballot)
            case Accept(epoch, previous, ballot, change):
                return self._accept(sender, epoch, previous, Vote(ballot, change))
            case Decided(epoch, previous, change):
                return self._decided(epoch, previous, change)
            case Promise(epoch, ballot, accepted):
                if self._is_under_way(epoch, ballot):
                    return self._promised(sender, accepted)
            case Accepted(epoch, ballot):
                if self._is_under_way(epoch, ballot):
                    return self._accepted(sender)
            case Nack(epoch, ballot, promised):
                if self._is_under_way(epoch, ballot):
                    seen = max(self.seen, promised.counter)
                    return Turn(replace(self, proposal=None, seen=seen))
            case NotHere():
                pass
            case _:
                assert_never(message)
        return Turn(self)

    def _is_under_way(self, epoch: int, ballot: Ballot) -> bool:
        proposal = self.proposal
        return proposal is not None and epoch == self.votes.epoch and ballot == proposal.ballot

    def _refusal(
        self, sender: RegionId, epoch: int, previous: bytes, ballot: Ballot
    ) -> "Turn | None":
        """The answer to a ballot of an epoch that is not voted on here; None: it is."""
        if 1 <= epoch <= self.members.epoch + 1 and self.members.hash_at(epoch - 1) != previous:
            raise ForkError(
                f"region {sender} wants to decide epoch {epoch} of another history than"
                f" {self.members.listed()}"
            )
        if epoch == self.votes.epoch and self.votes.decided is not None:
            decided = Decided(epoch, previous, self.votes.decided)
            return Turn(self, letters=(Letter(sender, decided),))
        is_voter = self.members.epoch == 0 or self.here in self.members.voters
        if epoch != self.votes.epoch or not self.may_vote or not is_voter:
            not_here = NotHere(epoch, ballot, self.members.epoch)
            return Turn(self, letters=(Letter(sender, not_here),))
        return None

    def _prepare(self, sender: RegionId, epoch: int, previous: bytes, ballot: Ballot) -> "Turn":
        refusal = self._refusal(sender, epoch, previous, ballot)
        if refusal is not None:
            return refusal
        if ballot < self.votes.promised:
            return self._nack(sender, ballot)
        votes = replace(self.votes, promised=ballot)
        promise = Promise(epoch, ballot, votes.accepted)
        return self._kept(votes, ballot, Letter(sender, promise))

    def _accept(self, sender: RegionId, epoch: int, previous: bytes, vote: Vote) -> "Turn":
        refusal = self._refusal(sender, epoch, previous, vote.ballot)
        if refusal is not None:
            return refusal
        if vote.ballot < self.votes.promised:
            return self._nack(sender, vote.ballot)
        votes = replace(self.votes, promised=vote.ballot, accepted=vote)
        return self._kept(votes, vote.ballot, Letter(sender, Accepted(epoch, vote.ballot)))

    def _nack(self, sender: RegionId, ballot: Ballot) -> "Turn":
        nack = Nack(self.votes.epoch, ballot, self.votes.promised)
        return Turn(self, letters=(Letter(sender, nack),))

    def _kept(self, votes: Votes, ballot: Ballot, letter: Letter) -> "Turn":
        after = replace(self, votes=votes, seen=max(self.seen, ballot.counter))
        return Turn(after, must_keep=votes != self.votes, letters=(letter,))

    def _promised(self, sender: RegionId, accepted: Vote | None) -> "Turn":
        proposal = self.proposal
        assert proposal is not None
        if proposal.change is not None or proposal.counts(sender) or sender not in proposal.asked:
            return Turn(self)
        promises = (*proposal.promises, (sender, accepted))
        proposal = replace(proposal, promises=promises)
        if len(promises) < proposal.needed:
            return Turn(replace(self, proposal=proposal))
        # Somebody's change may be decided already, or become so: only that one may be proposed.
        known = [vote for _, vote in promises if vote is not None]
        change = max(known, key=lambda vote: vote.ballot).change if known else proposal.own
        proposal = replace(proposal, change=change)
        if isinstance(change, Adopt) and change != proposal.own:
            # It may name other regions.
            asked, needed = self._quorum(change, ())
            proposal = replace(proposal, asked=asked, needed=needed)
        begun = replace(self, proposal=proposal)
        turn = Turn(begun, letters=begun.resend())
        if self.here not in proposal.asked or self.votes.promised != proposal.ballot:
            return turn
        vote = Vote(proposal.ballot, change)
        voted = replace(begun, votes=replace(self.votes, accepted=vote))
        turn = Turn(voted, must_keep=True, letters=turn.letters)
        return turn.then(voted._accepted(self.here))

    def _accepted(self, sender: RegionId) -> "Turn":
        proposal = self.proposal
        assert proposal is not None
        if proposal.change is None or sender in proposal.accepts or sender not in proposal.asked:
            return Turn(self)
        proposal = replace(proposal, accepts=(*proposal.accepts, sender))
        if len(proposal.accepts) < proposal.needed:
            return Turn(replace(self, proposal=proposal))
        change = proposal.change
        assert change is not None
        return self._decided(self.votes.epoch, self.members.hash, change, is_news=True)

    def _decided(
        self, epoch: int, previous: bytes, change: Change, *, is_news: bool = False
    ) -> "Turn":
        """A decision is known here; ``is_news``: as this member made it, so all are told."""
        if epoch != self.votes.epoch:
            return Turn(self)
        if previous != self.members.hash:
            raise ForkError(
                f"epoch {epoch} was decided in another history than {self.members.listed()}"
            )
        if self.votes.decided is not None:
            if self.votes.decided != change:
                raise ForkError(
                    f"epoch {epoch} was decided twice: here as {self.votes.decided}, there as"
                    f" {change}"
                )
            return Turn(self)
        members = apply(self.members, change)
        after = replace(self, votes=replace(self.votes, decided=change), proposal=None)
        decided = Decided(epoch, previous, change)
        everyone = self.members.remaining if self.members.epoch else members.remaining
        told = [one for one in everyone if one != self.here] if is_news else []
        return Turn(after, must_keep=True, letters=tuple(Letter(to, decided) for to in told))

    # --- What happens besides -------------------------------------------------------------------

    @property
    def decided_members(self) -> Members:
        """The members with the decision that is not applied yet: a removal counts from there."""
        decided = self.votes.decided
        return self.members if decided is None else apply(self.members, decided)

    def durably_applied(self, members: Members) -> "Turn":
        """The effect of an epoch is durable here; only now its votes may be forgotten."""
        if members.epoch <= self.members.epoch:
            return Turn(replace(self, members=members))
        votes = Votes(members.epoch + 1)
        return Turn(replace(self, members=members, votes=votes, proposal=None), must_keep=True)

    def forgotten_by(self, region: RegionId) -> tuple["Deciding", Ballot]:
        """This member answers a region that recovers, and may have lost its votes.

        Returns:
            The value after it, and the highest ballot that is known here: the region promises it
            before it votes again.  A decision travels in the answer as well (``votes.decided``).
        """
        proposal = self.proposal
        known = max(self.votes.promised, NO_BALLOT if proposal is None else proposal.ballot)
        if proposal is not None and proposal.counts(region):
            # The region may now vote for another change; its word of before must not count.
            return replace(self, proposal=None), known
        return self, known

    def answered(self, ballots: Iterable[Ballot], decided: Change | None = None) -> "Turn":
        """All members have answered this region, whose folder lost votes: it votes from here on.

        Args:
            ballots: the highest that each of them knows.
            decided: what one of them says was decided for this epoch.
        """
        promised = max([self.votes.promised, *ballots])
        votes = replace(self.votes, promised=promised)
        after = replace(self, votes=votes, may_vote=True, seen=max(self.seen, promised.counter))
        turn = Turn(after, must_keep=True)
        if decided is None:
            return turn
        return turn.then(after._decided(votes.epoch, self.members.hash, decided))


class Turn(NamedTuple):
    """What follows from one input.

    Attributes:
        after: the member's part from here on.
        must_keep: ``after.votes`` must be durable before a letter leaves, and before anything that
            depends on it is told.
        letters: messages to send, each at most once; a lost one is sent again by ``resend``.
    """

    after: Deciding
    must_keep: bool = False
    letters: tuple[Letter, ...] = ()

    def then(self, turn: "Turn") -> "Turn":
        """Both, the other one behind this."""
        return Turn(turn.after, self.must_keep or turn.must_keep, self.letters + turn.letters)


def starting(
    here: RegionId, members: Members, kept: Votes | None, *, votes_are_proven: bool
) -> Deciding:
    """A member's part when its node starts.

    Args:
        members: as they are durably applied.
        kept: the votes that the folder has; of an earlier epoch they are of no use.
        votes_are_proven: the folder cannot have lost votes: it is the one that was last open here.
            That the end of its log may be lost does not matter, since votes are always synced.
    """
    epoch = members.epoch + 1
    votes = kept if kept is not None and kept.epoch == epoch else Votes(epoch)
    return Deciding(here, members, votes, may_vote=votes_are_proven)
