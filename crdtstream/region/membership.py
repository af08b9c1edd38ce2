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
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, NoReturn, Protocol

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
    Remove,
)
from crdtstream.core.membership.deciding import (
    NO_BALLOT,
    Accept,
    Ballot,
    Decided,
    Letter,
    Message,
    Turn,
    starting,
)
from crdtstream.core.membership.encoding import Kept, Said, decode_said, encode_said
from crdtstream.core.membership.members import (
    ForkError,
    Member,
    Members,
    Status,
    apply,
    chain,
    joined,
)
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.cuts import Cuts
from crdtstream.region.peers import Peer
from crdtstream.region.ready import News, StoreMembership
from crdtstream.region.tick import Tick

# Messages of an attempt are sent again after so long without a decision.
RESEND_MS: Final = Size(500, least=1)
# An attempt that lost to another one begins again after a while, drawn anew for each.
RETRY_MS_MIN: Final = Size(50, least=1)
RETRY_MS_MAX: Final = Size(400, least=2)
# Who did not want a change issues its effect after so long, if nobody else has.
ISSUE_AFTER_MS: Final = Size(3_000, least=1)
# How long an operator's command waits for a decision.
# In less than some ways there and back nothing is ever decided.
PATIENCE_MS: Final = Size(10_000, least=2_000)


def without_cuts(members: Members) -> Members:
    """As they are told to others: a cut is known to who has reached it, and is not passed on."""
    for one in members.regions:
        if one.cut is not None:
            members = members.with_cut(one.region, None)
    return members


def _with_cuts_of(members: Members, kept: Members) -> Members:
    """The members with the cuts that the folder has."""
    for one in kept.regions:
        if one.cut is not None:
            members = members.with_cut(one.region, one.cut)
    return members


def peers_of(
    here: RegionId, members: Members, configured: Mapping[RegionId, str]
) -> dict[RegionId, Peer]:
    """The other regions of a database.

    Args:
        members: at epoch 0 the node's file says who they are.
        configured: what that file says, and where they are.
    """
    if not members.epoch:
        return {region: Peer(address) for region, address in configured.items()}
    others = [one for one in members.regions if one.region != here]
    return {
        one.region: Peer(_address_of(one, configured), is_joining=one.status is Status.JOINING)
        for one in others
        if one.status is not Status.REMOVED
    }


def _address_of(member: Member, configured: Mapping[RegionId, str]) -> str:
    if member.changed == 1:
        return configured.get(member.region, member.contact.grpc)
    return member.contact.grpc


class UndecidedError(MembersError):
    """Time is over, and what was begun may still be decided; the text says what is missing."""


class Asker(Protocol):
    """Who wants a change, and waits to hear what became of it."""

    def note_made(self, members: Members) -> None:
        """It was decided, and its effect is durable here."""

    def note_not_made(self, error: MembersError) -> None:
        """It was not, or nobody knows; the text says which."""


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


class Membership:
    """Who is a member, as this region knows it, and its part in changing that.

    Attributes:
        known: the newest members that the folder has.
        part: this region's part in deciding the next epoch.
        instance: the uid of the folder.
        cuts: how many effects of removed regions count.
        on_known: called when ``known`` has changed.
        on_removal: called when a removal becomes known: what is held unapplied goes.

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
        now: Millis,
    ) -> None:
        self.instance = kept.instance or instance
        known = joined(replica.members, kept.members)
        self.cuts = Cuts(
            replica, _with_cuts_of(known, kept.members), durable_vv=durable_vv, recovers=recovers
        )
        self.known = self.cuts.with_final(known)
        self.part = starting(
            replica.region, replica.members, kept.votes, votes_are_proven=votes_are_proven
        )
        self.on_known: list[Callable[[], None]] = []
        self.on_removal: Callable[[], None] = _nobody_discards
        self._replica = replica
        self._tick = tick
        self._addresses = dict(configured)
        self._configured = frozenset({*configured, replica.region})
        # Of each token that a node showed, the uid of its folder.
        self._bound: dict[bytes, bytes] = {}
        self._uniform = uniform
        self._issue = issue
        self._is_stable = is_stable
        self._lacking = lacking
        self._is_level = is_level
        self._activates = False
        # A region that joins looks now and then whether it is level; and what was decided, in a
        # database where nothing else happens nobody would look at after a restart.
        self._look_again: Millis | None = None
        here = self.known.find(replica.region)
        if self.part.votes.decided is not None or (here and here.status is Status.JOINING):
            self._look_again = now
        self._newest = self.known
        self._wishes: list[_Wish] = []
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

    # --- The folder -----------------------------------------------------------------------------

    @property
    def is_kept(self) -> bool:
        """Whether the folder has the uid, so that it may be told."""
        return self._is_kept

    def want_kept(self) -> None:
        """Have the folder keep its uid."""
        if not self._is_kept:
            self._keep()

    def _keep(self) -> None:
        self._wanted_version += 1
        self._tick.open()

    @property
    def folder_change(self) -> StoreMembership | None:
        """What the folder is to have next; None: it has all that it should."""
        if self._kept_version == self._wanted_version:
            return None
        here = self._newest.find(self._replica.region)
        is_active = here is not None and here.status is Status.ACTIVE
        secret = b"" if is_active else self._secret
        kept = Kept(self.instance, self.part.votes, self._newest, secret)
        return StoreMembership(kept, self._wanted_version)

    def note_folder(self, change: StoreMembership, now: Millis) -> None:
        """The folder has it, durably."""
        self._is_kept = True
        self._kept_version = change.version
        self._outbox += [letter for version, letter in self._waiting if version <= change.version]
        self._waiting = [one for one in self._waiting if one[0] > change.version]
        self._note_known(change.kept.members)
        self.look(now)
        self._tick.open()

    def _note_known(self, members: Members) -> None:
        if members == self.known:
            return
        self.known = members
        if self.cuts.adopt(members):
            self.on_removal()
        for tell in self.on_known:
            tell()

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
            reason = self._wrong_adoption(message.change)
            if reason is not None:
                self._tick.notice("warning", "members are not adopted", peer=sender, reason=reason)
                return
        try:
            self._turn(self.part.receive(sender, message))
        except MembersError as error:
            self._tick.notice(
                "error", "a message on members is refused", peer=sender, reason=str(error)
            )
            return
        self.look(now)

    def _wrong_adoption(self, adopt: Adopt) -> str | None:
        """Why this region does not adopt these members; None: its own file names the same."""
        named = {one.region: one for one in adopt.regions}
        if named.keys() != self._configured:
            return (
                f"they are {_listed(named)}, and the file of region {self._replica.region} names"
                f" {_listed(self._configured)}; make the files of all regions name the same"
            )
        if named[self._replica.region].instance != self.instance:
            return f"region {self._replica.region} has another folder by now; try again"
        return None

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
        here = self.known.find(self._replica.region)
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
            self._note_newest(said.members)
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
            self._turn(self.part.receive(peer, decided))

    def told_unknown(self, region: RegionId) -> str:
        """Why there can be no link with a region that has none here; a removed one is told."""
        member = self.known.find(region)
        if member is not None and member.status is Status.REMOVED:
            # It hears who is a member, and takes no writes from then on.
            self._outbox.append(News(region, self.told))
            self._tick.open()
            return self._told_removed(member)
        here = self._replica.region
        if not self.known.epoch:
            return f"region {region} is no peer of region {here}; add it to its peers"
        return (
            f"region {region} is no member, as far as region {here} knows: {self.known.listed()};"
            " add it with `crdtstream crdb add-instance`"
        )

    def _told_removed(self, member: Member) -> str:
        cut = self.cuts.final.get(member.region)
        counted = "" if cut is None else f"; of its effects {cut} count, and no others"
        return (
            f"region {member.region} was removed at epoch {member.changed}{counted}. Its node"
            " cannot come back under this number: keep its folder, add a region with `crdtstream"
            " crdb add-instance`, and start a node for it with an empty folder"
        )

    def note_news(self, members: Members) -> str | None:
        """Another region says who is a member.

        Returns:
            Why that cannot be; None if it can.
        """
        try:
            self._note_newest(members)
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
        try:
            joins = self._bind(said.secret, said.instance)
        except MembersError as error:
            return str(error)
        if joins.region != member.region:
            return f"the token is of region {joins.region}, not of region {member.region}"
        return None

    def _note_newest(self, members: Members) -> None:
        """Members that somebody knows: the folder must have them before they count here."""
        newest = self.cuts.with_final(joined(self._newest, members))
        if newest != self._newest:
            self._newest = newest
            self._keep()

    def takes_from(self, sender: RegionId) -> bool:
        """Whether a region may have a say."""
        members = self.known
        return sender in (members.remaining if members.epoch else self._configured)

    def address_of(self, region: RegionId) -> str | None:
        """Where a region's links are; None of one that is not known.

        What a change said beats the node's file, and the file what all files said once.
        """
        member = self.known.find(region)
        if member is None:
            return self._addresses.get(region)
        return _address_of(member, self._addresses)

    @property
    def peers(self) -> dict[RegionId, Peer]:
        """The other regions, as the newest members that are known say."""
        return peers_of(self._replica.region, self.known, self._addresses)

    def joining(self, secret: bytes, instance: bytes, now: Millis) -> RegionId:
        """The region that a node may join as.

        Raises:
            MembersError: its token is none, or its time is over, or another folder showed it.
        """
        member = self._bind(secret, instance)
        if member.token is not None and now > member.token.expires_ms:
            raise MembersError(
                f"the token of region {member.region} is out of date: take the region back with"
                " `crdtstream crdb remove-instance`, and add it again"
            )
        return member.region

    def _bind(self, secret: bytes, instance: bytes) -> Member:
        """The region of a token, which is this folder's from now on.

        Raises:
            MembersError: it is none, or another folder showed it.
        """
        hashed = sha256(secret).digest()
        joining = [one for one in self.known.regions if one.status is Status.JOINING]
        for member in joining:
            if member.token is None or member.token.sha256 != hashed:
                continue
            if self._bound.setdefault(hashed, instance) != instance:
                raise MembersError(
                    f"another node joins as region {member.region} with this token; each node"
                    " needs its own, from `crdtstream crdb add-instance`"
                )
            return member
        raise MembersError(
            "this is no token of a region that may join: it was used, or is of another database;"
            " make a new one with `crdtstream crdb add-instance`"
        )

    # --- Deciding -------------------------------------------------------------------------------

    def wish(
        self, make: Make, asker: Asker, now: Millis, *, survivors: Iterable[RegionId] = ()
    ) -> None:
        """Have a change decided; the asker hears what became of it.

        Args:
            survivors: of a removal without a majority, all regions that are left.
        """
        try:
            self._check_is_member()
            if self.part.votes.decided is None:
                # What cannot be need not wait for its turn.
                change = make(self.part.members)
                self._check_is_not_own(change)
                apply(self.part.members, change)
        except MembersError as error:
            asker.note_not_made(error)
            return
        until = Millis(now + PATIENCE_MS.value)
        wish = _Wish(make, asker, until=until, next_ms=now, survivors=tuple(survivors))
        self._wishes.append(wish)
        self.look(now)
        self._tick.open()

    def look(self, now: Millis) -> None:
        """Something has changed, or time has passed: go on with what is wanted and decided."""
        self._wait_no_longer(now)
        decided = self.part.votes.decided
        if decided is not None:
            self._look_at_effect(decided, now)
        else:
            self._issue_at = None
        self._activate_if_level(now)
        while self._wishes and self._go_on(self._wishes[0], now):
            self._wishes.pop(0)
            if self._wishes:
                # Its turn begins now.
                self._wishes[0].until = Millis(now + PATIENCE_MS.value)

    def _wait_no_longer(self, now: Millis) -> None:
        """A clock that was set back makes nobody wait for longer."""
        if self._issue_at is not None:
            self._issue_at = min(
                self._issue_at, Millis(now + max(ISSUE_AFTER_MS.value, RESEND_MS.value))
            )
        for wish in self._wishes:
            wish.until = min(wish.until, Millis(now + PATIENCE_MS.value))
            pause_ms = max(RESEND_MS.value, RETRY_MS_MAX.value)
            wish.next_ms = min(wish.next_ms, Millis(now + pause_ms))

    def _go_on(self, wish: _Wish, now: Millis) -> bool:
        """Try what the first asker wants; whether that one is done with."""
        part = self.part
        try:
            if wish.tried is not None and part.members.epoch >= wish.tried[0]:
                epoch, change = wish.tried
                previous = part.members.hash_at(epoch - 1)
                if part.members.hash_at(epoch) == chain(previous, change):
                    wish.asker.note_made(part.members)
                    return True
                # Another change was decided: this one is to follow it.
                wish.tried = None
            self._check_is_member()
            is_under_way = part.proposal is not None and part.proposal.ballot == wish.ballot
            if now >= wish.until:
                self._give_up(wish, is_under_way=is_under_way)
            if now < wish.next_ms:
                return False
            wish.next_ms = Millis(now + RESEND_MS.value)
            if part.votes.decided is not None:
                return False
            if is_under_way:
                self._send(part.resend())
                return False
            change = wish.make(part.members)
            self._check_is_not_own(change)
            apply(part.members, change)
            wish.next_ms = Millis(
                now + round(self._uniform(RETRY_MS_MIN.value, RETRY_MS_MAX.value))
            )
            is_stable = self._is_stable(part.members)
            try:
                turn = part.propose(change, is_stable=is_stable, survivors=wish.survivors)
            except MembersError as error:
                # It may be possible in a moment.
                waits = not is_stable and not isinstance(change, Remove)
                wish.waits = self._waits_for(part.members) if waits else str(error)
                return False
            wish.tried, wish.waits = (part.votes.epoch, change), ""
            wish.ballot = turn.after.votes.promised
            self._turn(turn)
        except MembersError as error:
            wish.asker.note_not_made(error)
            return True
        return False

    def _check_is_member(self) -> None:
        """
        Raises:
            MembersError: this region was removed, and has no say.
        """
        here = self.known.find(self._replica.region)
        if here is not None and here.status is Status.REMOVED:
            raise MembersError(self._told_removed(here))

    def _check_is_not_own(self, change: Change) -> None:
        """
        Raises:
            MembersError: it removes this region: the others would refuse it before they have its
                last effects, and that one would be among these.
        """
        if isinstance(change, Remove) and change.region == self._replica.region:
            raise MembersError(
                f"region {change.region} cannot remove itself: run the command in another region"
            )

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
            self.part = replace(self.part, proposal=None)
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
        part = self.part
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

    def _turn(self, turn: Turn) -> None:
        self.part = turn.after
        if turn.must_keep:
            self._note_newest(joined(self._newest, self.part.decided_members))
            self._keep()
        self._send(turn.letters)
        self._tick.open()

    def _send(self, letters: tuple[Letter, ...]) -> None:
        if self._kept_version == self._wanted_version:
            self._outbox += letters
        else:
            self._waiting += [(self._wanted_version, letter) for letter in letters]
        self._tick.open()

    # --- The effect -----------------------------------------------------------------------------

    def _look_at_effect(self, decided: Change, now: Millis) -> None:
        epoch = self.part.votes.epoch
        if self._replica.members.epoch >= epoch or self._kept_version < self._wanted_version:
            return
        if self._issue_at is None:
            is_own = any(wish.tried == (epoch, decided) for wish in self._wishes)
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
        self._note_newest(self._seen)
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
        self._turn(self.part.durably_applied(self._seen))
        self.look(now)

    # --- Recovering and joining -----------------------------------------------------------------

    def _activate_if_level(self, now: Millis) -> None:
        """A region that joins becomes active by its own wish, when it has what the others have."""
        here = self._replica.members.find(self._replica.region)
        is_joining = here is not None and here.status is Status.JOINING
        self._look_again = Millis(now + RESEND_MS.value) if is_joining else None
        if is_joining and not self._activates and self._is_level():
            self._activates = True
            self._wishes.append(
                _Wish(
                    lambda members: Activate(self._replica.region, self.instance),
                    _Activation(self),
                    until=Millis(now + PATIENCE_MS.value),
                    next_ms=now,
                )
            )

    def _note_activation(self, error: MembersError | None) -> None:
        if error is not None:
            self._activates = False
            self._tick.notice("warning", "this region is not active yet", reason=str(error))

    def look_at_cuts(self) -> None:
        """More is durable here, or a peer has said what it has: a cut may be reached."""
        if self.cuts.look():
            for region, cut in sorted(self.cuts.final.items()):
                if self.known.find(region) is not None:
                    self._tick.notice("info", "removed region: all is here", region=region, cut=cut)
            self._newest = self.cuts.with_final(self._newest)
            self._keep()

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
            self._turn(turn)
        except ForkError as error:
            self._tick.notice("error", "members were decided twice", reason=str(error))
        self.look(now)

    @property
    def obstacle(self) -> str | None:
        """Why this region may issue nothing as a member; None if it may."""
        region = self._replica.region
        here = self.known.find(region)
        if here is None:
            if not self.known.epoch:
                return None
            return (
                f"region {region} is no member: {self.known.listed()}; add it with"
                " `crdtstream crdb add-instance`, and start its node with --join"
            )
        match here.status:
            case Status.ACTIVE:
                return None
            case Status.JOINING:
                return f"region {region} joins: it takes writes when it has what the others have"
            case Status.REMOVED:
                return self._told_removed(here)

    @property
    def deadline(self) -> Millis | None:
        """When ``look`` is to be called next."""
        times = [time for time in (self._issue_at, self._look_again) if time is not None]
        if self._wishes:
            wish = self._wishes[0]
            times.append(min(wish.until, wish.next_ms))
        return min(times, default=None)


@dataclass(slots=True, eq=False)
class _Activation:
    """This region wants to be active, and wants it again if that could not be decided."""

    membership: Membership

    def note_made(self, members: Members) -> None:
        self.membership._note_activation(None)

    def note_not_made(self, error: MembersError) -> None:
        self.membership._note_activation(error)


def _nobody_discards() -> None:
    pass


def _listed(regions: Iterable[RegionId]) -> str:
    return ", ".join(map(str, sorted(regions)))
