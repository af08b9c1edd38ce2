"""Decisions on changes of the membership: one small Paxos for each epoch, without any IO.

    proposer                     each voter
    Prepare(ballot)  ──────────> promises no lower ballot; says what it accepted, if anything
    Accept(ballot, change) ────> accepts it, unless it has promised a higher ballot
                                 change: of what the promises say that of the highest ballot;
                                 only if none says anything, the proposer's own
    Decided(change)  ──────────> once more than half of all active members have accepted

Any two majorities have a voter in common, so no two changes are decided for one epoch.  They are
majorities of the members of the epoch before, whose hash each message names.  So {1, 2} of files
with {1, 2, 3} and {4, 5} of files with {3, 4, 5} decide in two histories, and region 3 votes in one
of them only.  There is no leader: any member may prepare, and finishes what another one began.  A
register as in CASPaxos (Rystsov 2018, arXiv:1802.07000); the numbers of epochs are its only log.

A member's part is a value, ``Deciding``; a message or a wish in, a ``Turn`` out: the value after
it, the messages to send, and whether ``votes`` must be durable before they may leave.

Always so:
  * A promise, an acceptance and a decision are durable before they are sent.
  * What was promised or accepted for an epoch is forgotten when its effect is durably applied here,
    not before: after a power cut between the two the same epoch would be voted on again.
  * A change that cannot follow is not accepted: it could not be decided, and would block all
    others.
  * A member votes for the epoch behind the newest one that it durably knows, and for no other: its
    effect is durably applied here, or the change is kept, and then only a removal may follow it
    (``Votes.earlier``).  All that are left may be waiting for two dead regions, and issue nothing
    before both are removed.
  * A folder that lost votes recovers what it needs of them: it votes once all members have answered
    it, and promises the highest ballot that any of them knows.  Each that answers gives up a ballot
    that counted it (``forgotten_by``), but none that began after its first answer to this start of
    the node: a region that waits for a dead one asks again and again.  A folder that proves its
    votes, and nothing else, votes at once; else all could be waiting for the dead region that is to
    be removed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, assert_never

from crdtstream.core.ids import RegionId
from crdtstream.core.member_changes import (
    Change,
    MembersError,
    Removal,
    Remove,
    Update,
)
from crdtstream.core.membership.members import ForkError, Members, Status, apply, change_behind


def waits_for_stability(members: Members, change: Change) -> bool:
    """True if a change has to wait until the newest epoch's effect is causally stable.

    A removal does not: the dead region may be the one that it would wait for.  Nor does another
    address: the region may be reached by nobody at the one before, and lack that change.  The
    voters on both have the newest epoch anyway, and neither change adds a voter.  Another name
    waits, except that of a joining region.
    """
    if isinstance(change, Update):
        member = members.find(change.region)
        if member is None:
            return True
        return member.status is not Status.JOINING and member.contact.name != change.contact.name
    return not isinstance(change, Remove)


class Ballot(NamedTuple):
    """An attempt.  Higher ones win; no two proposers have the same."""

    counter: int
    region: RegionId


NO_BALLOT: Final = Ballot(0, RegionId(0))
# More attempts than there can be in one epoch: what claims more is made up.
COUNTER_MAX: Final = (1 << 63) - 1


class Vote(NamedTuple):
    """A change that was accepted, and in which ballot."""

    ballot: Ballot
    change: Change


@dataclass(frozen=True, slots=True)
class Votes:
    """Votes that a member must not forget while an epoch is being decided.

    Attributes:
        epoch: the one after the epoch that is durably applied here, and after ``earlier``.
        promised: the lowest ballot that it still takes part in.
        accepted: of the highest ballot; None without any.
        decided: the change; a removal counts from here on, its effect follows.
        earlier: the changes of the epochs before, oldest first, whose effects are still to follow.
    """

    epoch: int
    promised: Ballot = NO_BALLOT
    accepted: Vote | None = None
    decided: Change | None = None
    earlier: tuple[Change, ...] = ()

    @property
    def pending(self) -> tuple[Change, ...]:
        """Changes that were decided and are not durably applied here, oldest first."""
        return self.earlier if self.decided is None else (*self.earlier, self.decided)

    @property
    def pending_from(self) -> int:
        """The epoch of the oldest one; that of the next decision, if there is none."""
        return self.epoch - len(self.earlier)


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
    """A decision; sent to all members, and to each that still asks for its epoch."""

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
    """An attempt under way.  It is not kept: after a crash a member tries again.

    Attributes:
        own: the change that is wanted.
        change: the one that is proposed, once enough promised; it may be another member's.
        asked: the regions that the proposal is sent to.
        needed: the number of them that must accept.
        promises: the members that promised, and what each had accepted.
        accepts: the members that accepted.
    """

    ballot: Ballot
    own: Change
    asked: tuple[RegionId, ...]
    needed: int
    promises: tuple[tuple[RegionId, Vote | None], ...] = ()
    change: Change | None = None
    accepts: tuple[RegionId, ...] = ()

    def counts(self, region: RegionId) -> bool:
        """True if a word of the region is a part of this attempt."""
        return region in self.accepts or any(region == one for one, _ in self.promises)


@dataclass(frozen=True, slots=True)
class Deciding:
    """One member's part in deciding the next epoch.

    Attributes:
        here: this region.  It may be a joining one: it proposes, but does not vote.
        members: which the epoch follows: as they are durably applied here, and ``votes.earlier``.
        votes: what must be kept; the caller keeps it when a turn says so, and starts with what was
            kept.
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
                accept.

        Raises:
            MembersError: it cannot be proposed now, and why.  Nothing has changed.
        """
        if self.votes.decided is not None:
            raise MembersError(
                f"epoch {self.votes.epoch} is decided and not yet applied here; try again then"
            )
        survivors = tuple(survivors)
        if not self.may_vote and not self._goes_on_alone(change, survivors):
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
        asked, needed = self._quorum(change, survivors)
        counter = self.counter + 1
        if counter > COUNTER_MAX:
            raise MembersError(
                f"a region has claimed the last ballot of epoch {self.votes.epoch}, which no member"
                " does: see that nothing but the members can reach their gRPC ports"
            )
        ballot = Ballot(counter, self.here)
        # Its own promise is durable before any peer hears of the ballot: none is used twice.
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

    def _goes_on_alone(self, change: Change, survivors: tuple[RegionId, ...]) -> bool:
        """True if an operator says that no other region is left: then no lost vote of this one is
        in a decision of anybody's."""
        is_removal = isinstance(change, Remove) and change.how is Removal.WITHOUT_MAJORITY
        return survivors == (self.here,) and is_removal

    def _quorum(
        self, change: Change, survivors: tuple[RegionId, ...]
    ) -> tuple[tuple[RegionId, ...], int]:
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
        """Take in a message that a peer sent.

        Raises:
            ForkError: it is of another history.
            MembersError: it is of a change that cannot follow.
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
        votes = self.votes
        if votes.pending_from <= epoch < votes.pending_from + len(votes.pending):
            decided = Decided(epoch, previous, votes.pending[epoch - votes.pending_from])
            return Turn(self, letters=(Letter(sender, decided),))
        is_voter = self.here in self.members.voters
        if epoch != self.votes.epoch or not self.may_vote or not is_voter:
            not_here = NotHere(epoch, ballot, self.members.epoch)
            return Turn(self, letters=(Letter(sender, not_here),))
        return None

    def _prepare(self, sender: RegionId, epoch: int, previous: bytes, ballot: Ballot) -> "Turn":
        if self._is_next(epoch, previous):
            return self.gone_on()._prepare(sender, epoch, previous, ballot)
        refusal = self._refusal(sender, epoch, previous, ballot)
        if refusal is not None:
            return refusal
        if ballot < self.votes.promised:
            return self._nack(sender, ballot)
        votes = replace(self.votes, promised=ballot)
        promise = Promise(epoch, ballot, votes.accepted)
        return self._kept(votes, ballot, Letter(sender, promise))

    def _accept(self, sender: RegionId, epoch: int, previous: bytes, vote: Vote) -> "Turn":
        if self._is_next(epoch, previous):
            return self.gone_on()._accept(sender, epoch, previous, vote)
        refusal = self._refusal(sender, epoch, previous, vote.ballot)
        if refusal is not None:
            return refusal
        if vote.ballot < self.votes.promised:
            return self._nack(sender, vote.ballot)
        apply(self.members, vote.change)
        votes = replace(self.votes, promised=vote.ballot, accepted=vote)
        return self._kept(votes, vote.ballot, Letter(sender, Accepted(epoch, vote.ballot)))

    def _nack(self, sender: RegionId, ballot: Ballot) -> "Turn":
        nack = Nack(self.votes.epoch, ballot, self.votes.promised)
        return Turn(self, letters=(Letter(sender, nack),))

    def _kept(self, votes: Votes, ballot: Ballot, letter: Letter) -> "Turn":
        assert votes.promised >= self.votes.promised, "a promise is not taken back"
        after = replace(self, votes=votes, seen=max(self.seen, ballot.counter))
        return Turn(after, must_keep=votes != self.votes, letters=(letter,))

    def _promised(self, sender: RegionId, accepted: Vote | None) -> "Turn":
        proposal = self.proposal
        assert proposal is not None
        if proposal.change is not None or proposal.counts(sender) or sender not in proposal.asked:
            return Turn(self)
        if accepted is not None:
            apply(self.members, accepted.change)
        assert len(proposal.promises) < proposal.needed, "the change was chosen by those before"
        promises = (*proposal.promises, (sender, accepted))
        proposal = replace(proposal, promises=promises)
        if len(promises) < proposal.needed:
            return Turn(replace(self, proposal=proposal))
        # Another member's change may be decided already, or become so: only that one may be
        # proposed.
        known = [vote for _, vote in promises if vote is not None]
        change = max(known, key=lambda vote: vote.ballot).change if known else proposal.own
        proposal = replace(proposal, change=change)
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
        assert proposal.needed <= len(proposal.asked)
        return self._decided(self.votes.epoch, self.members.hash, change, is_news=True)

    def _decided(
        self, epoch: int, previous: bytes, change: Change, *, is_news: bool = False
    ) -> "Turn":
        """A decision is known here; ``is_news``: this member made it, so it is sent to all."""
        if self._is_next(epoch, previous):
            return self.gone_on()._decided(epoch, previous, change)
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
        assert self.votes.epoch == self.members.epoch + 1, "votes are of another epoch"
        apply(self.members, change)
        after = replace(self, votes=replace(self.votes, decided=change), proposal=None)
        decided = Decided(epoch, previous, change)
        told = [one for one in self.members.remaining if one != self.here] if is_news else []
        return Turn(after, must_keep=True, letters=tuple(Letter(to, decided) for to in told))

    # --- The epoch behind one whose effect is still to follow -----------------------------------

    def _is_next(self, epoch: int, previous: bytes) -> bool:
        """True if a peer goes on behind what was decided here, before its effect has come."""
        return (
            self.votes.decided is not None
            and epoch == self.votes.epoch + 1
            and previous == self.decided_members.hash
        )

    def gone_on(self) -> "Deciding":
        """This member's part in the epoch behind the decided one, whose effect is to follow.

        The decided change takes the place of its votes, as it answers each that still asks for that
        epoch.  It is kept with the first vote that is given for the next one.
        """
        assert self.votes.decided is not None
        votes = Votes(self.votes.epoch + 1, earlier=self.votes.pending)
        return replace(self, members=self.decided_members, votes=votes, proposal=None)

    # --- What happens besides -------------------------------------------------------------------

    @property
    def counter(self) -> int:
        """The highest counter of a ballot that is known here; this member's next ones are above."""
        return max(self.seen, self.votes.promised.counter)

    @property
    def decided_members(self) -> Members:
        """The members with the decision that is not applied yet: a removal counts from there."""
        decided = self.votes.decided
        return self.members if decided is None else apply(self.members, decided)

    def durably_applied(self, members: Members) -> "Turn":
        """The effect of an epoch is durable here; only now its votes may be forgotten."""
        if members.epoch > self.members.epoch:
            votes = Votes(members.epoch + 1)
            return Turn(replace(self, members=members, votes=votes, proposal=None), must_keep=True)
        behind = self.members.epoch - members.epoch
        assert behind <= len(self.votes.earlier), "a decision that is not applied was forgotten"
        left = self.votes.earlier[len(self.votes.earlier) - behind :]
        votes = replace(self.votes, earlier=left)
        after = replace(self, members=_with_all(members, left), votes=votes)
        return Turn(after, must_keep=votes != self.votes)

    def proved_by(self, known: Members) -> "Turn":
        """Newer members are known here, and may be all that is left of a decision.

        The member that decided it has forgotten the votes once the effect was durable there, and
        may have lost its folder before any other member had the effect.
        """
        epoch = self.votes.epoch
        change = None if self.votes.decided is not None else change_behind(self.members, known)
        return Turn(self) if change is None else self._decided(epoch, self.members.hash, change)

    def forgotten_by(
        self, region: RegionId, *, answered_at: int = COUNTER_MAX
    ) -> tuple["Deciding", Ballot, Vote | None]:
        """This member answers a region that recovers, and may have lost its votes and its seal.

        Args:
            answered_at: ``counter`` as this start of the region's node was first answered.  What
                it promised in a later ballot, it promised since, and has not lost.  Without it,
                this is the first answer.

        Returns:
            The value after it; the highest ballot that is known here, which the region promises
            before it votes again; and this member's vote, or what it has others vote for, if that
            counts on the region's seal.  The answer has a decision as well (``votes``).
        """
        proposal, vote = self.proposal, self.votes.accepted
        if proposal is None:
            return self, self.votes.promised, vote
        known, sent = max(self.votes.promised, proposal.ballot), proposal.change
        if sent is not None and needs_seal_of(region, sent):
            vote = max(
                [Vote(proposal.ballot, sent)] + ([] if vote is None else [vote]), key=_ballot
            )
        is_older = proposal.ballot.counter <= answered_at
        if (is_older and proposal.counts(region)) or needs_seal_of(region, proposal.own):
            # The region may now vote for another change, and writes; its word of before must not
            # count.
            return replace(self, proposal=None), known, vote
        return self, known, vote

    def answered(
        self,
        ballots: Iterable[Ballot],
        decided: Change | None = None,
        *,
        accepted: Iterable[Vote] = (),
    ) -> "Turn":
        """All members have answered this region, whose folder lost votes: it votes from here on.

        It votes for what the highest ballot of theirs was for.  Its lost vote may have been one of
        a majority; if the folders of the others are lost later, one after the other, the decision
        would be gone with the last of them.

        Args:
            ballots: the highest that each of them knows.
            decided: what one of them says was decided for this epoch.
            accepted: their votes.
        """
        known = list(accepted)
        if self.votes.accepted is not None:
            known.append(self.votes.accepted)
        vote = max(known, key=_ballot, default=None)
        promised = max([self.votes.promised, *ballots, *(one.ballot for one in known)])
        assert promised >= self.votes.promised, "a promise is not taken back"
        votes = replace(self.votes, promised=promised, accepted=vote)
        after = replace(self, votes=votes, may_vote=True, seen=max(self.seen, promised.counter))
        turn = Turn(after, must_keep=True)
        if decided is None:
            return turn
        return turn.then(after._decided(votes.epoch, self.members.hash, decided))


def _ballot(vote: Vote) -> Ballot:
    return vote.ballot


def needs_seal_of(region: RegionId, change: Change) -> bool:
    """True for the removal of a region that was sealed for it: it counts on getting no writes."""
    return isinstance(change, Remove) and change.region == region and change.how is Removal.SEALED


class Turn(NamedTuple):
    """Result of one input.

    Attributes:
        after: the member's part from here on.
        must_keep: ``after.votes`` must be durable before a letter leaves, and before anything that
            depends on it is reported.
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
    votes = Votes(members.epoch + 1)
    if kept is not None and kept.pending_from <= votes.epoch <= kept.epoch:
        votes = replace(kept, earlier=kept.earlier[votes.epoch - kept.pending_from :])
    return Deciding(here, _with_all(members, votes.earlier), votes, may_vote=votes_are_proven)


def _with_all(members: Members, changes: Iterable[Change]) -> Members:
    for change in changes:
        members = apply(members, change)
    return members
