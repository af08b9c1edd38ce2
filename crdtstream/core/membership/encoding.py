"""Votes, members and messages as bytes: what a folder keeps, and what members say to each other.

Nothing of this is hashed; ``encode_change`` alone is.  So attributes may be added.

Members that come from a peer are as good as the peer's word: each field is checked, and the hashes
are compared with the history here (``members.newest``), but a hash does not say which regions it is
of.  Links are between nodes whose certificates were checked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, assert_never

from crdtstream.core.checkpoint.contents import ContentError, packed, unpacked
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.member_changes import (
    HASH_BYTES,
    INSTANCE_BYTES,
    Change,
    MembersError,
    decode_change,
    encode_change,
)
from crdtstream.core.membership.contents import (
    KeptContent,
    MemberContent,
    MembersContent,
    MessageContent,
    SaidContent,
    VoteContent,
    VotesContent,
)
from crdtstream.core.membership.deciding import (
    COUNTER_MAX,
    NO_BALLOT,
    Accept,
    Accepted,
    Ballot,
    Decided,
    Message,
    Nack,
    NotHere,
    Prepare,
    Promise,
    Vote,
    Votes,
)
from crdtstream.core.membership.members import (
    EPOCHS_MAX,
    Member,
    Members,
    Status,
    Step,
    beginning_of,
)
from crdtstream.core.membership.revoked import REVOKED_MAX, Revoked


class Numbered(NamedTuple):
    """The change of an epoch."""

    epoch: int
    change: Change


# --- What a folder keeps --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seal:
    """A region is to be removed, and takes no writes.

    Attributes:
        heir: the region that it hands over to.
        epoch: its removal may be proposed for this one, and for no other; 0: not yet.
    """

    heir: RegionId
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Kept:
    """Membership as the folder of a region keeps it.

    Attributes:
        instance: the uid of the folder; empty until it is needed.
        votes: None: it never had any.
        members: the newest that were heard of; their effects may not have come yet.
        secret: of the token with which this region joins; it shows it until it is active.
        seal: None: the region is not sealed.
        recent: the last changes whose effects are durable here.
    """

    instance: bytes = b""
    votes: Votes | None = None
    members: Members = field(default_factory=Members)
    secret: bytes = b""
    seal: Seal | None = None
    recent: tuple[Numbered, ...] = ()


def encode_kept(kept: Kept) -> bytes:
    """Encode what the folder must have durably before anything of it is reported."""
    votes = b"" if kept.votes is None else encode_votes(kept.votes)
    members = encode_members(kept.members)
    seal = None if kept.seal is None else (kept.seal.heir, kept.seal.epoch)
    recent = _recent_content(kept.recent)
    return packed(KeptContent(kept.instance, votes, members, kept.secret, seal, recent))


def decode_kept(data: bytes) -> Kept:
    """The inverse.

    Raises:
        ContentError: it is something else.
    """
    content = unpacked(data, KeptContent)
    if len(content.instance) != INSTANCE_BYTES:
        raise ContentError(f"instance: it has {len(content.instance)} bytes")
    votes = decode_votes(content.votes) if content.votes else None
    members = decode_members(content.members)
    seal = None if content.seal is None else Seal(*content.seal)
    if seal is not None and (members.find(seal.heir) is None or seal.epoch < 0):
        raise ContentError(f"seal: {seal} is for no heir, or no epoch")
    return Kept(content.instance, votes, members, content.secret, seal, _recent(content))


def encode_votes(votes: Votes) -> bytes:
    """Encode what a folder must keep of the epoch that is being decided."""
    accepted = votes.accepted
    return packed(
        VotesContent(
            epoch=votes.epoch,
            promised=(votes.promised.counter, votes.promised.region),
            accepted=None if accepted is None else _vote_content(accepted),
            decided=None if votes.decided is None else encode_change(votes.decided),
            earlier=tuple(map(encode_change, votes.earlier)),
        )
    )


def decode_votes(data: bytes) -> Votes:
    """The inverse.

    Raises:
        ContentError: these are no votes.  They must not be taken for none: the folder has lost its
            votes then (``deciding.starting``).
    """
    content = unpacked(data, VotesContent)
    counter, region = content.promised
    promised, vote = _ballot(counter, region, least=0), content.accepted
    accepted = None
    if vote is not None:
        accepted = _vote(vote)
        if accepted.ballot > promised:
            raise ContentError("votes: a ballot was accepted that is above the promised one")
    if not 1 <= content.epoch <= EPOCHS_MAX + 1:
        raise ContentError(f"votes: epoch {content.epoch} is out of range")
    decided = None if content.decided is None else _change(content.decided)
    return Votes(content.epoch, promised, accepted, decided, _earlier(content))


def _earlier(content: VotesContent | SaidContent) -> tuple[Change, ...]:
    """The changes of the epochs before, whose effects are still to follow."""
    if len(content.earlier) >= content.epoch:
        raise ContentError(f"votes: {len(content.earlier)} changes before epoch {content.epoch}")
    return tuple(map(_change, content.earlier))


def _recent(content: KeptContent | SaidContent) -> tuple[Numbered, ...]:
    if not all(1 <= epoch <= EPOCHS_MAX for epoch, _ in content.recent):
        raise ContentError("recent: an epoch is out of range")
    return tuple(Numbered(epoch, _change(data)) for epoch, data in content.recent)


def _recent_content(recent: Iterable[Numbered]) -> tuple[tuple[int, bytes], ...]:
    return tuple((one.epoch, encode_change(one.change)) for one in recent)


def _vote(content: VoteContent) -> Vote:
    return Vote(_ballot(content.counter, content.region, least=1), _change(content.change))


def _vote_content(vote: Vote) -> VoteContent:
    return VoteContent(*vote.ballot, encode_change(vote.change))


def _ballot(counter: int, region: RegionId, *, least: int) -> Ballot:
    if not least <= counter <= COUNTER_MAX or not least <= region <= REGION_MAX:
        raise ContentError(f"votes: there is no ballot {counter} of region {region}")
    return Ballot(counter, region)


def _change(data: bytes) -> Change:
    try:
        return decode_change(data)
    except MembersError as error:
        raise ContentError(str(error)) from error


# --- Messages -------------------------------------------------------------------------------------


def encode_message(message: Message) -> bytes:
    """One message between members that decide."""
    match message:
        case Prepare(epoch, previous, ballot):
            content = MessageContent("prepare", epoch, previous, ballot)
        case Promise(epoch, ballot, accepted):
            vote = None if accepted is None else _vote_content(accepted)
            content = MessageContent("promise", epoch, ballot=ballot, accepted=vote)
        case Accept(epoch, previous, ballot, change):
            data = encode_change(change)
            content = MessageContent("accept", epoch, previous, ballot, change=data)
        case Accepted(epoch, ballot):
            content = MessageContent("accepted", epoch, ballot=ballot)
        case Nack(epoch, ballot, promised):
            content = MessageContent("nack", epoch, ballot=ballot, promised=promised)
        case Decided(epoch, previous, change):
            content = MessageContent("decided", epoch, previous, change=encode_change(change))
        case NotHere(epoch, ballot, applied):
            content = MessageContent("not-here", epoch, ballot=ballot, applied=applied)
        case _:
            assert_never(message)
    return packed(content)


def decode_message(data: bytes) -> Message:
    """The inverse.

    Raises:
        ContentError: it is no message, or none that this version knows.
    """
    content = unpacked(data, MessageContent)
    kind, epoch = content.kind, content.epoch
    if not 1 <= epoch <= EPOCHS_MAX:
        raise ContentError(f"message: epoch {epoch} is out of range")
    if kind == "decided":
        return Decided(epoch, _hash(content.previous), _sent_change(content))
    ballot = _ballot(*content.ballot, least=1)
    match kind:
        case "prepare":
            return Prepare(epoch, _hash(content.previous), ballot)
        case "promise":
            accepted = content.accepted
            return Promise(epoch, ballot, None if accepted is None else _vote(accepted))
        case "accept":
            return Accept(epoch, _hash(content.previous), ballot, _sent_change(content))
        case "accepted":
            return Accepted(epoch, ballot)
        case "nack":
            return Nack(epoch, ballot, _ballot(*content.promised, least=1))
        case "not-here":
            return NotHere(epoch, ballot, content.applied)
        case _:
            raise ContentError(f"message: this version does not know {kind!r}; upgrade this node")


def _hash(data: bytes) -> bytes:
    if len(data) != HASH_BYTES:
        raise ContentError(f"message: a hash has {HASH_BYTES} bytes")
    return data


def _sent_change(content: MessageContent) -> Change:
    if content.change is None:
        raise ContentError(f"message: {content.kind} without a change")
    return _change(content.change)


@dataclass(frozen=True, slots=True)
class Said:
    """A region's statement on the membership when a link opens.

    Attributes:
        instance: the uid of its folder; empty while it has none.
        members: the newest that it knows.
        epoch: the one that it votes for.
        ballot: the highest that it knows of that epoch; for a region that recovers.
        decided: what was decided for it, if it knows.
        secret: of its token, while it joins.
        earlier: the changes of the epochs before, whose effects are not durable there yet.
        accepted: its vote; for a region that recovers.
        recent: the last changes whose effects are durable there.
    """

    instance: bytes = b""
    members: Members = field(default_factory=Members)
    epoch: int = 1
    ballot: Ballot = NO_BALLOT
    decided: Change | None = None
    secret: bytes = b""
    earlier: tuple[Change, ...] = ()
    accepted: Vote | None = None
    recent: tuple[Numbered, ...] = ()


def encode_said(said: Said) -> bytes:
    """Encode what is sent with an Open, and with a Welcome."""
    decided = None if said.decided is None else encode_change(said.decided)
    members = encode_members(said.members)
    return packed(
        SaidContent(
            instance=said.instance,
            members=members,
            epoch=said.epoch,
            ballot=said.ballot,
            decided=decided,
            secret=said.secret,
            earlier=tuple(map(encode_change, said.earlier)),
            accepted=None if said.accepted is None else _vote_content(said.accepted),
            recent=_recent_content(said.recent),
        )
    )


def decode_said(data: bytes) -> Said:
    """The inverse.

    Raises:
        ContentError: it is something else.
    """
    content = unpacked(data, SaidContent)
    if len(content.instance) not in (0, INSTANCE_BYTES):
        raise ContentError(f"instance: it has {len(content.instance)} bytes")
    decided = None if content.decided is None else _change(content.decided)
    ballot = _ballot(*content.ballot, least=0)
    members = decode_members(content.members)
    return Said(
        instance=content.instance,
        members=members,
        epoch=content.epoch,
        ballot=ballot,
        decided=decided,
        secret=content.secret,
        earlier=_earlier(content),
        accepted=None if content.accepted is None else _vote(content.accepted),
        recent=_recent(content),
    )


# --- Members --------------------------------------------------------------------------------------


def encode_members(members: Members) -> bytes:
    """All regions there ever were, and the history."""
    return packed(
        MembersContent(
            regions=[
                MemberContent(
                    region=one.region,
                    status=one.status,
                    instance=one.instance,
                    contact=one.contact,
                    added=one.added,
                    changed=one.changed,
                    token=one.token,
                    heir=one.heir,
                    cut=one.cut,
                )
                for one in members.regions
            ],
            history=[(step.hash, step.dot) for step in members.history],
            drawn_above=members.drawn_above,
            revoked=members.revoked,
        )
    )


def decode_members(data: bytes) -> Members:
    """The inverse.

    Raises:
        ContentError: no members can be so; the text says why.
    """
    content = unpacked(data, MembersContent)
    epoch = len(content.history)
    if epoch > EPOCHS_MAX or any(len(hashed) != HASH_BYTES for hashed, _ in content.history):
        raise ContentError(f"members: {epoch} epochs, or a hash of another length")
    for _, dot in content.history:
        if dot is not None and (dot.n < 1 or not 1 <= dot.region <= REGION_MAX):
            raise ContentError(f"members: there is no dot {dot.region}:{dot.n}")
    regions = tuple(_member(one, epoch) for one in content.regions)
    if not all(a.region < b.region for a, b in pairwise(regions)):
        raise ContentError("members: the regions do not ascend")
    if not 0 <= content.drawn_above <= REGION_MAX:
        raise ContentError(f"members: numbers cannot be drawn above {content.drawn_above}")
    history = tuple(Step(hashed, dot) for hashed, dot in content.history)
    _check_revoked(content.revoked, epoch)
    members = Members(regions, history, content.drawn_above, content.revoked)
    if bool(epoch) is not bool(members.active):
        raise ContentError("members: no region is active, or some are before the first epoch")
    if beginning_of(members).history != history[:1]:
        raise ContentError("members: epoch 1 is of other regions; another version made this")
    for one in regions:
        if one.heir is not None and not _is_heir(members.find(one.heir), one.changed):
            raise ContentError(f"members: region {one.region} has the heir {one.heir}, who is none")
    return members


def _check_revoked(revoked: tuple[Revoked, ...], epoch: int) -> None:
    """
    Raises:
        ContentError: no list of revoked certificates can be so.
    """
    if len(revoked) > REVOKED_MAX:
        raise ContentError(
            f"members: {len(revoked)} revoked certificates, of {REVOKED_MAX} at most"
        )
    if not all(a.serial < b.serial for a, b in pairwise(revoked)):
        raise ContentError("members: the revoked certificates do not ascend")
    if len({one.epoch for one in revoked}) != len(revoked):
        raise ContentError("members: one epoch revoked two certificates")
    for one in revoked:
        # The first epoch is the regions that the files name.
        if not 2 <= one.epoch <= epoch:
            raise ContentError(f"members: a certificate was revoked at epoch {one.epoch}")
        try:
            _ = one.change
        except MembersError as error:
            raise ContentError(f"members: {error}") from error


def _is_heir(member: Member | None, epoch: int) -> bool:
    """True if a region may have been active at an epoch, by what it is now.  So no region inherits
    from itself, through any number of heirs."""
    if member is None:
        return False
    is_later = member.status is Status.REMOVED and member.changed > epoch
    return member.added < epoch and (member.status is Status.ACTIVE or is_later)


def _member(content: MemberContent, epoch: int) -> Member:
    region, status = content.region, content.status
    wrong = (
        not 1 <= region <= REGION_MAX
        or not 1 <= content.added <= content.changed <= epoch
        or len(content.instance) not in (0, INSTANCE_BYTES)
        or (status is Status.ACTIVE and not content.instance and content.added > 1)
        or (status is Status.JOINING and bool(content.instance))
        or (status is Status.JOINING) is not (content.token is not None)
        or (status is Status.REMOVED) is not (content.heir is not None)
        or (content.cut is not None and (content.cut < 0 or status is not Status.REMOVED))
        or content.heir == region
    )
    if wrong:
        raise ContentError(f"members: region {region} cannot be so: {content}")
    return Member(
        region=region,
        status=status,
        instance=content.instance,
        contact=content.contact,
        added=content.added,
        changed=content.changed,
        token=content.token,
        heir=content.heir,
        cut=content.cut,
    )
