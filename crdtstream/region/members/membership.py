"""Membership: this region's part in deciding on the members, in step with its folder and its log.

``core/membership`` decides; here its values meet what must be durable before it leaves:

    letters     leave once the folder has the votes that they tell of (``StoreMembership``)
    known       the newest members that the folder has: decided, reported by a peer, or applied.
                They are often ahead of ``replica.members``, whose effect comes by the log
    the effect  of a decision is issued by the region that wanted it; if that does not happen, a
                moment later by any other that may issue
    votes       of an epoch are forgotten when its effect is durable here

It has no IO and no clock: a node's loop and a test drive it by the same calls.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import (
    Activate,
    Change,
    MembersError,
    Removal,
    Remove,
)
from crdtstream.core.membership.deciding import (
    Ballot,
    Decided,
    Letter,
    Message,
    Turn,
    Vote,
    Votes,
    needs_seal_of,
    starting,
)
from crdtstream.core.membership.encoding import (
    Kept,
    Numbered,
    Said,
    Seal,
    decode_said,
    encode_said,
)
from crdtstream.core.membership.members import (
    ForkError,
    Member,
    Members,
    Status,
    apply,
    change_at,
    is_change_at,
)
from crdtstream.core.size import Size
from crdtstream.region.client_side import ClientSide
from crdtstream.region.folder_share import FolderShare
from crdtstream.region.ground import Ground
from crdtstream.region.members.cuts import Cuts
from crdtstream.region.members.known_members import KnownMembers, without_cuts
from crdtstream.region.members.sealing import Sealing
from crdtstream.region.members.spread import KnownSpread
from crdtstream.region.members.wishes import RESEND_MS, Asker, Make, Wishes, check_is_not_own
from crdtstream.region.outstanding import Durable
from crdtstream.region.peer_runs import PeerRun
from crdtstream.region.readiness import Recovery
from crdtstream.region.ready import News, StoreMembership

# A region that did not want a change issues its effect after this time, if no other has.
ISSUE_AFTER_MS: Final = Size(3_000, least=1)
# Number of changes that are reported to recovering regions.  A region that lacks more has to be
# removed.
RECENT_MAX: Final = 8


class _FirstAnswer(NamedTuple):
    """The first answer to a region that recovers, in one run of its node.

    Attributes:
        counter: the highest counter of a ballot that was known here.
    """

    run_id: int
    counter: int


class Levels(Protocol):
    """A region that is level at times."""

    @property
    def is_level(self) -> bool:
        """True if it has what the others have, and may issue except for its status."""


class Membership:
    """The members, as this region knows them, and its part in changing them.

    Attributes:
        members: as this region knows them.
        part: this region's part in deciding the next epoch.
        instance: the uid of the folder.
        share: what the folder keeps of all this.
        sealing: whether this region is to be removed, and how far that has come.

    Args:
        kept: what the folder has.
        votes_are_proven: as of ``deciding.starting``.
        configured: the other regions that the node's file names, and where they are.
        region: whether it is level.
        outstanding: what a power cut cannot take back.
        recovery: whether this region may get back what it had lost.
    """

    def __init__(
        self,
        ground: Ground,
        *,
        kept: Kept,
        instance: bytes,
        votes_are_proven: bool,
        configured: Mapping[RegionId, str],
        region: Levels,
        front: ClientSide,
        outstanding: Durable,
        recovery: Recovery,
    ) -> None:
        replica, tick, deadlines = ground.replica, ground.tick, ground.deadlines
        self.instance = kept.instance or instance
        self.share = FolderShare(tick)
        self.members = KnownMembers(
            replica,
            kept=kept,
            configured=configured,
            durable=outstanding,
            recovery=recovery,
            tick=tick,
            share=self.share,
        )
        self.part = starting(
            replica.region, replica.members, kept.votes, votes_are_proven=votes_are_proven
        )
        self.sealing = Sealing(
            replica,
            tick,
            front.clients,
            ground.knowledge,
            outstanding,
            front.gate,
            deadlines,
            kept=kept.seal,
            share=self.share,
        )
        # As they are applied, and as the last tick that changed them left them.
        self.seen = replica.members
        self._region = region
        self._clients, self._gate = front.clients, front.gate
        self._recovery = recovery
        self._replica = replica
        self._tick = tick
        self._spread = spread = KnownSpread(ground, self.members, outstanding, recovery)
        self._wishes = Wishes(
            self, deadlines, uniform=ground.runtime.uniform, spread=spread, recovery=recovery
        )
        self._activates = False
        # A region that joins looks at intervals if it is level.  And after a restart where nothing
        # else happens, only this leads to a look at what was decided, or at a cut that was not
        # found.
        self._look_again = deadlines.new()
        here = self.known.find(replica.region)
        is_joining = here is not None and here.status is Status.JOINING
        if self.part.votes.pending or is_joining or self.cuts.leaving:
            self._look_again.set(ground.now)
        self._issue_at = deadlines.new()
        # The record that has the last epoch that was applied, once a tick left it.
        self._applied_seq: int | None = None
        self._secret = kept.secret
        self._recent = kept.recent
        # All of the log is durable at a start, and the folder may lack its newest changes.
        self._remember(self.seen, kept.votes or self.part.votes)
        self._said_by: dict[RegionId, Said] = {}
        self._first_answers: dict[RegionId, _FirstAnswer] = {}
        if not recovery.is_recovering:
            self.members.keep()

    @property
    def known(self) -> Members:
        """The newest members that the folder has."""
        return self.members.known

    @property
    def is_everywhere(self) -> bool:
        """True if all regions that count are known to have the last epoch's effect durably."""
        applied = self.part.members
        return applied.epoch == self.known.epoch and self._spread.has_stable_members(applied)

    @property
    def obstacle(self) -> str | None:
        """Reason why this region may issue nothing as a member; None: it may."""
        sealing = self.sealing
        final = sealing.obstacle if sealing.is_final else None
        return self.members.obstacle or self.other_node or final

    @property
    def cuts(self) -> Cuts:
        """Cuts: how many effects of removed regions count."""
        return self.members.cuts

    # --- The folder -----------------------------------------------------------------------------

    @property
    def folder_change(self) -> StoreMembership | None:
        """The next thing that the folder is to have; None: it has all that it should."""
        if self.share.is_whole:
            return None
        here = self.members.newest.find(self._replica.region)
        is_active = here is not None and here.status is Status.ACTIVE
        secret = b"" if is_active and self.other_node is None else self._secret
        kept = Kept(
            self.instance,
            self.part.votes,
            self.members.newest,
            secret,
            self.sealing.wanted,
            self._recent,
        )
        return StoreMembership(kept, self.share.wanted)

    def note_folder(self, change: StoreMembership, now: Millis) -> None:
        """Note that the folder has it, durably."""
        self.share.note_kept(change.version)
        self.members.note_kept(change.kept.members)
        self.sealing.note_kept(change.kept.seal, now)
        self.look(now)
        self._tick.open()

    @property
    def told(self) -> Members:
        """The members as they are sent to others."""
        return without_cuts(self.known)

    # --- What peers say -------------------------------------------------------------------------

    def receive(self, sender: RegionId, message: Message, now: Millis) -> None:
        """Take in a message of another region's part."""
        try:
            self.take(self.part.receive(sender, message))
        except MembersError as error:
            self._note_refused_message(sender, error)
            return
        self.look(now)

    def said(self, *, to_recovering: PeerRun | None = None) -> bytes:
        """Bytes that go with an Open or a Welcome.

        Args:
            to_recovering: a region that recovers and is answered: it may have lost its votes.
        """
        ballot, vote = Ballot(0, RegionId(0)), None
        if to_recovering is not None:
            ballot, vote = self._answered(to_recovering)
        instance = self.instance if self.members.is_kept else b""
        here = self.members.here
        is_joining = here is not None and here.status is Status.JOINING
        votes = self.part.votes
        counts_own = votes.accepted is not None and votes.accepted.change == votes.decided
        # The lost vote of the region that recovers may be in the decision.  If this region's is in
        # it, and may be lost as well, that vote is told and not the decision.
        tells_decision = self.share.is_whole or (to_recovering is not None and not counts_own)
        return encode_said(
            Said(
                instance=instance,
                members=self.told,
                epoch=self.part.votes.epoch,
                ballot=ballot,
                decided=self.part.votes.decided if tells_decision else None,
                secret=self._secret if is_joining else b"",
                earlier=self.part.votes.earlier,
                accepted=vote,
                recent=self._recent,
            )
        )

    def _answered(self, asker: PeerRun) -> tuple[Ballot, Vote | None]:
        """Give up what counts on lost words of a region; returns as of ``forgotten_by``."""
        first = self._first_answers.get(asker.region)
        if first is None or first.run_id != asker.run_id:
            first = _FirstAnswer(asker.run_id, self.part.counter)
            self.part, ballot, vote = self.part.forgotten_by(asker.region)
        else:
            self.part, ballot, vote = self.part.forgotten_by(
                asker.region, answered_at=first.counter
            )
        self._first_answers[asker.region] = first
        self._wishes.end_seal_of(asker.region)
        return ballot, vote

    def told_fork(self, peer: RegionId, data: bytes) -> str | None:
        """Reason why what a peer says as a link opens is of no history of this database; None: it
        is of the same.  Nothing is noted."""
        said = None
        try:
            said = _said(data)
            self.members.check_same_line(self._members_in(said))
        except (ContentError, MembersError) as error:
            return self._explained(error, peer, said)
        return None

    def _explained(self, error: Exception, peer: RegionId, said: Said | None) -> str:
        """The text of an error, with what to do if the database began with other regions for a
        peer."""
        if (
            not isinstance(error, ForkError)
            or said is None
            or said.members.hash_at(1) == self.known.hash_at(1)
        ):
            return str(error)
        is_kept = bool(said.instance)
        return f"{error}. {self.members.way_to_one_beginning(peer, said.members, is_kept=is_kept)}"

    def _members_in(self, said: Said) -> Members:
        """Members that a peer reports; none if they are those of its file, and it keeps none yet.

        If this region knows a later epoch, the peer takes that over, or refuses it.

        Raises:
            MembersError: it names none.
        """
        if not said.members.epoch:
            raise MembersError("it names no members; run the same version everywhere")
        is_kept = bool(said.instance) or said.members.epoch > 1
        return said.members if is_kept or self.known.epoch == 1 else Members()

    def hear(self, peer: RegionId, run_id: int, data: bytes) -> str | None:
        """Take in what a peer said as a link opened, in this run of its node.

        Returns:
            Reason why there can be no link; None if there can.
        """
        first = self._first_answers.get(peer)
        if first is not None and first.run_id != run_id:
            # Should the run that was answered ask again, it gave its words before this one.
            del self._first_answers[peer]
        member = self.known.find(peer)
        said = None
        try:
            said = _said(data)
            told = self._members_in(said)
            self._note_members(told)
            said = replace(said, members=told)
            self._hear_decision(peer, said)
        except (ContentError, MembersError) as error:
            return self._explained(error, peer, said)
        if self.other_node is not None:
            return self.other_node
        self._note_said(peer, said)
        self.cuts.note_run(peer, run_id)
        if member is None:
            return None
        match member.status:
            case Status.ACTIVE:
                return None
            case Status.JOINING:
                return self._wrong_token(member, said)
            case Status.REMOVED:
                return self.told_unknown(peer)

    def _note_said(self, peer: RegionId, said: Said) -> None:
        """Take in what a peer said.  Only an answer to a region that recovers names a ballot and a
        vote: what the peer says besides, when it opens a link itself, takes nothing back."""
        before = self._said_by.get(peer)
        if before is not None and before.epoch == said.epoch:
            said = replace(
                said,
                ballot=max(before.ballot, said.ballot),
                decided=said.decided or before.decided,
                accepted=said.accepted or before.accepted,
            )
        self._said_by[peer] = said

    def _hear_decision(self, peer: RegionId, said: Said) -> None:
        """Take in a peer's decisions of epochs that it knows; no other may send their effects.

        Raises:
            ForkError: another change was decided for it here.
        """
        there = Votes(said.epoch, decided=said.decided, earlier=said.earlier)
        decided = list(enumerate(there.pending, there.pending_from))
        if self._recovery.is_recovering:
            # It may apply nothing yet, and can vote for the removal of a dead region only when it
            # knows the change that the removal follows (V19).
            decided[:0] = [
                one
                for one in said.recent
                if one.epoch <= said.members.epoch and is_change_at(said.members, *one)
            ]
        for epoch, change in decided:
            part = self.part
            if part.votes.decided is not None and epoch == part.votes.epoch + 1:
                part = part.gone_on()
            if epoch == part.votes.epoch:
                self.take(part.receive(peer, Decided(epoch, part.members.hash, change)))
        votes = self.part.votes
        if there.earlier and votes.decided is not None and there.epoch == votes.epoch + 1:
            # The peer has gone on, and knows ballots of the next epoch.
            self.part = self.part.gone_on()

    def told_unknown(self, region: RegionId) -> str:
        """Reason why there can be no link with an unknown region; a removed one is informed."""
        if region in self.known.removed:
            # It hears of the members, and takes no writes from then on.
            self._tick.send([News(region, self.members.told_to(region))])
        return self.members.told_unknown(region)

    def note_refused(self, peer: RegionId) -> None:
        """Note that a peer wants no link: it may not know yet that this region is a member.

        The peer's earlier folder, which was put back, asks only the regions that were members then.
        If all of these are gone, no other would inform it.
        """
        if not self.members.is_removed and self.members.takes_from(peer):
            self._tick.send([News(peer, self.told)])

    def note_news(self, members: Members) -> str | None:
        """Note the members, as another region reports them.

        Returns:
            Reason why that cannot be; None if it can.
        """
        try:
            self._note_members(members)
        except MembersError as error:
            return str(error)
        self.members.note_own_cut(members)
        return None

    def _note_members(self, members: Members) -> None:
        """
        Raises:
            ForkError: they are of another history, which does not replace what the file names.
        """
        if self.members.replaced_by(members):
            self.members.begin_again(members)
            self.seen = self._replica.members
            self.part = replace(self.part, members=self.seen)
        self.members.note_newest(members)

    def _wrong_token(self, member: Member, said: Said) -> str | None:
        """Reason why there can be no link with a region that joins; None if it shows its token.

        It may be active by now, and know that before this region.
        """
        there = said.members.find(member.region)
        if there is not None and there.status is Status.ACTIVE:
            return None
        return self.members.wrong_token(member, said.secret, said.instance)

    # --- Deciding -------------------------------------------------------------------------------

    def wish(
        self, make: Make, asker: Asker, now: Millis, *, survivors: Iterable[RegionId] = ()
    ) -> None:
        """Let a change be decided; the asker hears the outcome.

        Args:
            survivors: of a removal without a majority, all regions that are left.
        """
        try:
            self.check_is_member()
            self.members.check_is_kept()
            if self.part.votes.decided is None:
                # A change that cannot be made does not have to wait for its turn.
                change = make(self.part.members)
                check_is_not_own(self.part.here, change)
                apply(self.part.members, change)
        except MembersError as error:
            asker.note_not_made(error)
            return
        self._wishes.add(make, asker, now, survivors=survivors)
        self.look(now)
        self._tick.open()

    def look(self, now: Millis) -> None:
        """Continue with what is wanted and decided, after a change or after time has passed."""
        if self.known.epoch >= self.part.votes.epoch:
            turn = self.part.proved_by(self.known)
            if turn.must_keep:
                self.take(turn)
        if not self.members.is_removed:
            # A region that goes back by this may issue the effect that is decided.
            self.sealing.note_epoch(self._undecided_epoch, now)
            self._look_at_effect(now)
        else:
            self._issue_at.set(None)
            self.sealing.note_removed()
        # This may be the only region that is left: no peer says anything then.
        self.look_at_cuts()
        self._activate_if_level(now)
        self._wishes.look(now)
        if not self.members.is_removed:
            self.sealing.look(now)

    @property
    def _undecided_epoch(self) -> int:
        """The first epoch for which any change may still be decided, as the folder knows."""
        votes = self.part.votes
        return votes.pending_from + (len(votes.pending) if self.share.is_whole else 0)

    @property
    def other_node(self) -> str | None:
        """Reason why this node is not its region: it came with a token, and another node has become
        active with that token.  None: it is, or came without one."""
        here = self.members.newest.find(self._replica.region)
        if not self._secret or here is None or here.status is not Status.ACTIVE:
            return None
        if here.instance == self.instance:
            return None
        return (
            f"another node has joined as region {here.region} with the token of this one: stop this"
            " node, add a region for it with `crdtstream crdb add-instance`, and start it with an"
            " empty folder"
        )

    def check_is_member(self) -> None:
        """
        Raises:
            MembersError: this region was removed, and has no say.
        """
        self.members.check_is_member()

    def take(self, turn: Turn) -> None:
        """Go on with what follows from an input of this region's part.

        Raises:
            ForkError: it is a decision of another history than a member reported.  Nothing has
                changed.
        """
        if turn.must_keep:
            self.members.note_newest(turn.after.decided_members)
            self.share.note_changed()
        self.part = turn.after
        self.send(turn.letters)
        self._tick.open()

    def send(self, letters: tuple[Letter, ...]) -> None:
        """Send letters, once the folder has what they tell of."""
        self.share.send(letters)

    def seal(self, heir: RegionId, epoch: int, now: Millis) -> None:
        """Seal this region, which is to be removed: see ``sealing.py``.

        Args:
            epoch: let the removal be proposed for it, if that can be by now; 0: not yet.

        Raises:
            MembersError: it cannot be removed.
        """
        apply(self.part.members, Remove(self._replica.region, heir, Removal.SEALED))
        self.sealing.seal(heir, now)
        if epoch and self.part.votes.decided is None:
            self.sealing.finish(epoch, now, votes_for=self.part.votes.epoch)
        self._tick.open()

    # --- The effect -----------------------------------------------------------------------------

    def _look_at_effect(self, now: Millis) -> None:
        """Issue the effect of the oldest decision that is not applied here, if it is time."""
        votes, epoch = self.part.votes, self._replica.members.epoch + 1
        pending = votes.pending[epoch - votes.pending_from :]
        if not pending:
            self._issue_at.set(None)
            return
        if not self.share.is_whole:
            return
        latest, issue_at = Millis(now + ISSUE_AFTER_MS.value), self._issue_at.at
        if issue_at is None:
            issue_at = now if self._wishes.has_tried(epoch, pending[0]) else latest
        # If the clock was set back, no wait gets longer by that.
        issue_at = min(issue_at, latest)
        if now < issue_at:
            self._issue_at.set(issue_at)
            return
        self._issue_at.set(Millis(now + RESEND_MS.value))
        # Though clients' writes are refused, perhaps because of a dead region that this removes.
        # While the disk refuses it is tried again later.
        if self._may_issue(pending[0]) and self._gate.fault is None:
            effect = ChangeMembers(epoch, self._replica.members.hash, pending[0])
            self._clients.change_anyway(
                lambda replica, _: replica.issue(effect), self._replica.keys.now
            )

    def _may_issue(self, decided: Change) -> bool:
        if isinstance(decided, Activate) and decided.region == self._replica.region:
            return decided.instance == self.instance and self._replica.may_issue
        return self._replica.may_issue

    def note_left(self, seq: int, durable_seq: int, now: Millis) -> None:
        """Note that a tick ended and the replica has other members, in records up to ``seq``."""
        is_news = self._replica.members.epoch > self.seen.epoch
        self.seen = self._replica.members
        self.members.note_newest(self.seen)
        if is_news:
            self._applied_seq = seq
            if seq <= durable_seq:
                self.note_durable(durable_seq, now)

    def note_durable(self, seq: int, now: Millis) -> None:
        """Records up to ``seq`` are durable here."""
        if self.members.cuts.searches:
            self.look_at_cuts()
        if self._applied_seq is None or seq < self._applied_seq:
            return
        self._applied_seq = None
        self._remember(self.seen, self.part.votes)
        self.take(self.part.durably_applied(self.seen))
        self.look(now)

    def _remember(self, applied: Members, votes: Votes) -> None:
        """Remember the changes whose effects are durable here, for regions that lost one.

        A change is missed if it comes with a later one that hides it; other members have it.
        """
        recent = list(self._recent)
        newest = recent[-1].epoch if recent else 1
        for epoch in range(max(newest, applied.epoch - RECENT_MAX) + 1, applied.epoch + 1):
            at = epoch - votes.pending_from
            change = votes.pending[at] if 0 <= at < len(votes.pending) else None
            if change is None or not is_change_at(applied, epoch, change):
                change = change_at(applied, epoch)
            if change is not None:
                recent.append(Numbered(epoch, change))
        self._recent = tuple(recent[-RECENT_MAX:])

    # --- Recovering and joining -----------------------------------------------------------------

    def _activate_if_level(self, now: Millis) -> None:
        """Activate this region, which joins, by its own wish when it has what the others have."""
        here = self._replica.members.find(self._replica.region)
        is_joining = here is not None and here.status is Status.JOINING
        # A removed region never learns of its removal by an effect.
        is_joining &= not self.members.is_removed
        self._look_again.set(Millis(now + RESEND_MS.value) if is_joining else None)
        if is_joining and not self._activates and self._region.is_level:
            self._activates = True
            self._wishes.add(
                lambda members: Activate(self._replica.region, self.instance),
                _Activation(self),
                now,
                is_again=True,
            )

    def _note_activation(self, error: MembersError | None) -> None:
        if error is not None:
            self._activates = False
            self._tick.notice("warning", "this region is not active yet", reason=str(error))

    def look_at_cuts(self) -> None:
        """Look for cuts that are reached: more is durable here, or a peer has said what it has."""
        for region, cut in sorted(self.members.look_at_cuts().items()):
            self._tick.notice("info", "removed region: all is here", region=region, cut=cut)

    def note_lost(self) -> None:
        """Note that the folder is an earlier one than it seemed to be: votes may be lost, too."""
        self.part = replace(self.part, may_vote=False, proposal=None)
        self._said_by.clear()

    @property
    def _said(self) -> list[Said]:
        """Last sayings of the peers that still are members."""
        takes_from = self.members.takes_from
        return [said for peer, said in self._said_by.items() if takes_from(peer)]

    @property
    def lacks_votes(self) -> bool:
        """True if the folder lost votes and lacks an epoch that must be durable before it votes.

        The ballots that it was told are of a later epoch than it would vote for now.

        Its folder proves its votes once it is confirmed, so until then it is not.
        """
        epoch = self.part.votes.epoch
        return not self.part.may_vote and any(one.epoch > epoch for one in self._said)

    def note_recovered(self, now: Millis) -> None:
        """Keep what the file names, and vote from here on: all members have answered."""
        self.members.keep()
        if self.part.may_vote or self.lacks_votes:
            return
        self._hear_again()
        epoch = self.part.votes.epoch
        said = [one for one in self._said if one.epoch == epoch]
        decided = next((one.decided for one in said if one.decided is not None), None)
        try:
            votes = [one.accepted for one in said if one.accepted is not None]
            turn = self.part.answered([one.ballot for one in said], decided, accepted=votes)
            self._seal_again([one.change for one in votes])
            if turn.after.votes == self.part.votes:
                # Nothing has to be kept: most databases never vote.
                turn = turn._replace(must_keep=False)
            self.take(turn)
        except ForkError as error:
            self._tick.notice("error", "members were decided twice", reason=str(error))
        self.look(now)

    def _seal_again(self, voted_for: Iterable[Change]) -> None:
        """Seal again after the folder was lost with a seal: its removal may still be decided."""
        here, votes = self._replica.region, self.part.votes
        for change in voted_for:
            if isinstance(change, Remove) and needs_seal_of(here, change):
                self.sealing.go_on(Seal(change.heir, votes.epoch))

    def _hear_again(self) -> None:
        """Look again at decisions that were ahead of this log when a member reported them.

        Two members may have gone on without each other: what the one with the lower number decided
        stands, and the other one has no say here.
        """
        for peer, one in sorted(self._said_by.items()):
            try:
                self._hear_decision(peer, one)
            except ForkError as error:
                self._note_refused_message(peer, error)
                del self._said_by[peer]

    def _note_refused_message(self, peer: RegionId, error: MembersError) -> None:
        self._tick.notice("error", "a message on members is refused", peer=peer, reason=str(error))


def _said(data: bytes) -> Said:
    return decode_said(data) if data else Said()


@dataclass(slots=True, eq=False)
class _Activation:
    """Wish of this region to be active; it is made again if it could not be decided."""

    membership: Membership

    def note_made(self, members: Members) -> None:
        self.membership._note_activation(None)

    def note_not_made(self, error: MembersError) -> None:
        self.membership._note_activation(error)
