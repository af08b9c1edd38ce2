"""This region's part in deciding who is a member, in step with its folder and its log.

``core/membership`` decides; here its values meet what must be durable before it is told:

    letters     leave once the folder has the votes that they tell of (``StoreMembership``)
    known       the newest members that the folder has: decided, told by a peer, or applied.  It is
                often ahead of ``replica.members``, whose effect comes by the log
    the effect  of a decision is issued by whoever wanted it; if that does not happen, a moment
                later by whoever else may issue
    votes       of an epoch are forgotten when its effect is durable here

No IO and no clock: a node's loop and a test drive it by the same calls.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import ChangeMembers
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.changes import (
    Activate,
    Adopt,
    Change,
    MembersError,
    Removal,
    Remove,
)
from crdtstream.core.membership.deciding import (
    Accept,
    Ballot,
    Decided,
    Letter,
    Message,
    Turn,
    starting,
)
from crdtstream.core.membership.encoding import Kept, Said, decode_said, encode_said
from crdtstream.core.membership.members import ForkError, Member, Members, Status, apply, joined
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.cuts import Cuts
from crdtstream.region.known_members import KnownMembers, without_cuts
from crdtstream.region.ready import News, StoreMembership
from crdtstream.region.sealing import Sealing, Surroundings
from crdtstream.region.tick import Tick
from crdtstream.region.wishes import RESEND_MS, Asker, Make, Wishes, check_is_not_own

# Who did not want a change issues its effect after so long, if nobody else has.
ISSUE_AFTER_MS: Final = Size(3_000, least=1)


class Membership:
    """Who is a member, as this region knows it, and its part in changing that.

    Attributes:
        members: as this region knows them.
        part: this region's part in deciding the next epoch.
        instance: the uid of the folder.
        sealing: whether this region is to be removed, and how far that has come.

    Args:
        kept: what the folder has.
        votes_are_proven: as of ``deciding.starting``.
        configured: the other regions that the node's file names, and where they are.
        uniform: a random number between two; for the pauses between attempts.
        is_level: whether this region has what the others have, and may issue but for its status.
        issue: issues an effect; it raises CommandError while none is taken.
        is_stable: whether the last effect of these members is causally stable here.
        lacking: who is not known to have it.
        durable_vv: what a power cut cannot take back.
        recovers: whether this region may get back what it had lost.
        surroundings: the region, as a seal sees it.
        now: when the node starts.
    """

    def __init__(
        self,
        replica: Replica,
        tick: Tick,
        *,
        kept: Kept,
        instance: bytes,
        votes_are_proven: bool,
        configured: Mapping[RegionId, str],
        uniform: Callable[[float, float], float],
        issue: Callable[[ChangeMembers], None],
        is_stable: Callable[[Members], bool],
        lacking: Callable[[Members], list[RegionId]],
        is_level: Callable[[], bool],
        durable_vv: Callable[[], VersionVector],
        recovers: Callable[[], bool],
        surroundings: Surroundings,
        now: Millis,
    ) -> None:
        self.instance = kept.instance or instance
        self.members = KnownMembers(
            replica,
            kept=kept,
            configured=configured,
            durable_vv=durable_vv,
            recovers=recovers,
            keep=self.keep,
        )
        self.part = starting(
            replica.region, replica.members, kept.votes, votes_are_proven=votes_are_proven
        )
        self.sealing = Sealing(replica, tick, surroundings, kept=kept.seal)
        self._replica = replica
        self._tick = tick
        self._wishes = Wishes(self, uniform=uniform, is_stable=is_stable, lacking=lacking)
        self._issue = issue
        self._is_level = is_level
        self._activates = False
        # A region that joins looks now and then whether it is level; and what was decided, in a
        # database where nothing else happens nobody would look at after a restart.
        self._look_again: Millis | None = None
        here = self.known.find(replica.region)
        if self.part.votes.decided is not None or (here and here.status is Status.JOINING):
            self._look_again = now
        self._issue_at: Millis | None = None
        # Of the last epoch that was applied, the record that has it, once a tick left it.
        self._applied_seq: int | None = None
        self._seen = replica.members
        # What the folder is to have, and has, counted; a letter waits for what it tells of.
        self._wanted_version = self._kept_version = 0
        self._is_kept = bool(kept.instance)
        self._waiting: list[tuple[int, Letter]] = []
        self._outbox: list[Letter | News] = []
        self._secret = kept.secret
        self._said_by: dict[RegionId, Said] = {}

    @property
    def known(self) -> Members:
        """The newest members that the folder has."""
        return self.members.known

    @property
    def cuts(self) -> Cuts:
        """How many effects of removed regions count."""
        return self.members.cuts

    # --- The folder -----------------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """Whether the folder has the uid, so that it may be told."""
        return self._is_kept

    def want_kept(self) -> None:
        """Have the folder keep its uid."""
        if not self._is_kept:
            self.keep()

    def keep(self) -> None:
        """Have the folder keep what has changed."""
        self._wanted_version += 1
        self._tick.open()

    @property
    def folder_change(self) -> StoreMembership | None:
        """What the folder is to have next; None: it has all that it should."""
        if self._kept_version == self._wanted_version:
            return None
        here = self.members.newest.find(self._replica.region)
        is_active = here is not None and here.status is Status.ACTIVE
        secret = b"" if is_active else self._secret
        kept = Kept(
            self.instance, self.part.votes, self.members.newest, secret, self.sealing.wanted
        )
        return StoreMembership(kept, self._wanted_version)

    def note_folder(self, change: StoreMembership, now: Millis) -> None:
        """The folder has it, durably."""
        self._is_kept = True
        self._kept_version = change.version
        self._outbox += [letter for version, letter in self._waiting if version <= change.version]
        self._waiting = [one for one in self._waiting if one[0] > change.version]
        self.members.note_kept(change.kept.members)
        self.sealing.note_kept(change.kept.seal, now)
        self.look(now)
        self._tick.open()

    def take_letters(self) -> list[Letter | News]:
        """Messages that may leave now; each may be lost."""
        letters, self._outbox = self._outbox, []
        return letters

    @property
    def told(self) -> Members:
        """The members as others are told of them."""
        return without_cuts(self.known)

    # --- What peers say -------------------------------------------------------------------------

    def receive(self, sender: RegionId, message: Message, now: Millis) -> None:
        """A message of another region's part."""
        if isinstance(message, Accept | Decided) and isinstance(message.change, Adopt):
            reason = self.members.wrong_adoption(message.change, self.instance)
            if reason is not None:
                self._tick.notice("warning", "members are not adopted", peer=sender, reason=reason)
                return
        try:
            self.take(self.part.receive(sender, message))
        except MembersError as error:
            self._tick.notice(
                "error", "a message on members is refused", peer=sender, reason=str(error)
            )
            return
        self.look(now)

    def said(self, *, to_recovering: RegionId | None = None) -> bytes:
        """What goes with an Open or a Welcome; empty while there is nothing to say.

        Args:
            to_recovering: a region that recovers is answered: it may have lost its votes.
        """
        ballot = Ballot(0, RegionId(0))
        if to_recovering is not None:
            self.part, ballot = self.part.forgotten_by(to_recovering)
        if not self._is_kept and not self.known.epoch and ballot.counter == 0:
            return b""
        instance = self.instance if self._is_kept else b""
        here = self.members.here
        is_joining = here is not None and here.status is Status.JOINING
        return encode_said(
            Said(
                instance=instance,
                members=self.told,
                epoch=self.part.votes.epoch,
                ballot=ballot,
                decided=self.part.votes.decided,
                secret=self._secret if is_joining else b"",
            )
        )

    def hear(self, peer: RegionId, run_id: int, data: bytes) -> str | None:
        """What a peer said as a link opened, in this run of its node.

        Returns:
            Why there can be no link; None if there can.
        """
        member = self.known.find(peer)
        if not data and (member is None or member.status is not Status.JOINING):
            return None
        try:
            said = decode_said(data) if data else Said()
            self.members.note_newest(said.members)
            self._hear_decision(peer, said)
        except (ContentError, MembersError) as error:
            return str(error)
        self._said_by[peer] = said
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

    def _hear_decision(self, peer: RegionId, said: Said) -> None:
        """Whoever knows of an epoch knows what was decided: its effect may come from nobody else.

        Raises:
            ForkError: another change was decided for it here.
        """
        votes = self.part.votes
        if said.decided is not None and votes.decided is None and said.epoch == votes.epoch:
            decided = Decided(said.epoch, self.part.members.hash, said.decided)
            self.take(self.part.receive(peer, decided))

    def told_unknown(self, region: RegionId) -> str:
        """Why there can be no link with a region that has none here; a removed one is told."""
        if region in self.known.removed:
            # It hears who is a member, and takes no writes from then on.
            self._outbox.append(News(region, self.told))
            self._tick.open()
        return self.members.told_unknown(region)

    def note_news(self, members: Members) -> str | None:
        """Another region says who is a member.

        Returns:
            Why that cannot be; None if it can.
        """
        try:
            self.members.note_newest(members)
        except MembersError as error:
            return str(error)
        return None

    def _wrong_token(self, member: Member, said: Said) -> str | None:
        """Why there can be no link with a region that joins; None if it shows its token.

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
        """Have a change decided; the asker hears what became of it.

        Args:
            survivors: of a removal without a majority, all regions that are left.
        """
        try:
            self.check_is_member()
            if self.part.votes.decided is None:
                # What cannot be need not wait for its turn.
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
        """Something has changed, or time has passed: go on with what is wanted and decided."""
        decided = self.part.votes.decided
        if decided is not None:
            self._look_at_effect(decided, now)
        else:
            self._issue_at = None
        self._activate_if_level(now)
        self._wishes.look(now)
        if not self.members.is_removed:
            self.sealing.note_epoch(self.part.votes.epoch, now)
            self.sealing.look(now)

    def check_is_member(self) -> None:
        """
        Raises:
            MembersError: this region was removed, and has no say.
        """
        self.members.check_is_member()

    def take(self, turn: Turn) -> None:
        """Go on with what follows from an input of this region's part."""
        self.part = turn.after
        if turn.must_keep:
            self.members.note_newest(joined(self.members.newest, self.part.decided_members))
            self.keep()
        self.send(turn.letters)
        self._tick.open()

    def send(self, letters: tuple[Letter, ...]) -> None:
        """Send letters, once the folder has what they tell of."""
        if self._kept_version == self._wanted_version:
            self._outbox += letters
        else:
            self._waiting += [(self._wanted_version, letter) for letter in letters]
        self._tick.open()

    def seal(self, heir: RegionId, epoch: int, now: Millis) -> None:
        """This region is to be removed: see ``sealing.py``.

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

    def _look_at_effect(self, decided: Change, now: Millis) -> None:
        epoch = self.part.votes.epoch
        if self._replica.members.epoch >= epoch or self._kept_version < self._wanted_version:
            return
        if self._issue_at is None:
            is_own = self._wishes.has_tried(epoch, decided)
            self._issue_at = Millis(now + (0 if is_own else ISSUE_AFTER_MS.value))
        if now < self._issue_at:
            return
        self._issue_at = Millis(now + RESEND_MS.value)
        if self._may_issue(decided):
            # Refused writes end some time, or another region issues it.
            with contextlib.suppress(CommandError):
                self._issue(ChangeMembers(epoch, self._replica.members.hash, decided))

    def _may_issue(self, decided: Change) -> bool:
        if self._replica.members.epoch != self.part.votes.epoch - 1:
            return False
        if isinstance(decided, Activate) and decided.region == self._replica.region:
            return decided.instance == self.instance and self._replica.may_issue
        return self._replica.may_issue

    def note_left(self, seq: int, durable_seq: int, now: Millis) -> None:
        """A tick ended: what was applied is in records up to ``seq``."""
        if self._replica.members is self._seen:
            return
        is_news = self._replica.members.epoch > self._seen.epoch
        self._seen = self._replica.members
        self.members.note_newest(self._seen)
        if is_news:
            self._applied_seq = seq
            if seq <= durable_seq:
                self.note_durable(durable_seq, now)

    def note_durable(self, seq: int, now: Millis) -> None:
        """Records up to ``seq`` are durable here."""
        self.look_at_cuts()
        if self._applied_seq is None or seq < self._applied_seq:
            return
        self._applied_seq = None
        self.take(self.part.durably_applied(self._seen))
        self.look(now)

    # --- Recovering and joining -----------------------------------------------------------------

    def _activate_if_level(self, now: Millis) -> None:
        """A region that joins becomes active by its own wish, when it has what the others have."""
        here = self._replica.members.find(self._replica.region)
        is_joining = here is not None and here.status is Status.JOINING
        self._look_again = Millis(now + RESEND_MS.value) if is_joining else None
        if is_joining and not self._activates and self._is_level():
            self._activates = True
            self._wishes.add(
                lambda members: Activate(self._replica.region, self.instance),
                _Activation(self),
                now,
            )

    def _note_activation(self, error: MembersError | None) -> None:
        if error is not None:
            self._activates = False
            self._tick.notice("warning", "this region is not active yet", reason=str(error))

    def look_at_cuts(self) -> None:
        """More is durable here, or a peer has said what it has: a cut may be reached."""
        for region, cut in sorted(self.members.look_at_cuts().items()):
            self._tick.notice("info", "removed region: all is here", region=region, cut=cut)

    def note_recovered(self, now: Millis) -> None:
        """All members have answered this region: it votes from here on."""
        if self.part.may_vote:
            return
        epoch = self.part.votes.epoch
        said = [one for one in self._said_by.values() if one.epoch == epoch]
        decided = next((one.decided for one in said if one.decided is not None), None)
        try:
            turn = self.part.answered([one.ballot for one in said], decided)
            if turn.after.votes == self.part.votes:
                # Nothing that has to be kept: most databases never vote.
                turn = turn._replace(must_keep=False)
            self.take(turn)
        except ForkError as error:
            self._tick.notice("error", "members were decided twice", reason=str(error))
        self.look(now)

    @property
    def deadline(self) -> Millis | None:
        """When ``look`` is to be called next."""
        times = (
            self._issue_at,
            self._look_again,
            self._wishes.deadline,
            self.sealing.deadline,
        )
        return min((time for time in times if time is not None), default=None)


@dataclass(slots=True, eq=False)
class _Activation:
    """This region wants to be active, and wants it again if that could not be decided."""

    membership: Membership

    def note_made(self, members: Members) -> None:
        self.membership._note_activation(None)

    def note_not_made(self, error: MembersError) -> None:
        self.membership._note_activation(error)
