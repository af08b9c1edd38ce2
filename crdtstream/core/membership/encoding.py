"""Votes and members as bytes: what a folder keeps, and what a member says of the membership.

Nothing of this is hashed; ``encode_change`` alone is.  So attributes may be added.

Members that come from a peer are as good as the peer's word: each field is checked, and the hashes
are compared with the history here (``members.newest``), but nobody can say from a hash which
regions it is of.  Links are between nodes whose certificates were checked.
"""

from itertools import pairwise

from crdtstream.core.checkpoint.contents import ContentError, packed, unpacked
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.membership.changes import (
    HASH_BYTES,
    INSTANCE_BYTES,
    Change,
    MembersError,
    decode_change,
    encode_change,
)
from crdtstream.core.membership.contents import (
    MemberContent,
    MembersContent,
    VoteContent,
    VotesContent,
)
from crdtstream.core.membership.deciding import Ballot, Vote, Votes
from crdtstream.core.membership.members import EPOCHS_MAX, Member, Members, Status, Step


def encode_votes(votes: Votes) -> bytes:
    """What a folder must keep of the epoch that is being decided."""
    accepted = votes.accepted
    return packed(
        VotesContent(
            epoch=votes.epoch,
            promised=(votes.promised.counter, votes.promised.region),
            accepted=None
            if accepted is None
            else VoteContent(*accepted.ballot, encode_change(accepted.change)),
            decided=None if votes.decided is None else encode_change(votes.decided),
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
        accepted = Vote(_ballot(vote.counter, vote.region, least=1), _change(vote.change))
        if accepted.ballot > promised:
            raise ContentError("votes: a ballot was accepted that is above the promised one")
    if not 1 <= content.epoch <= EPOCHS_MAX + 1:
        raise ContentError(f"votes: epoch {content.epoch} is out of range")
    decided = None if content.decided is None else _change(content.decided)
    return Votes(content.epoch, promised, accepted, decided)


def _ballot(counter: int, region: RegionId, *, least: int) -> Ballot:
    if counter < least or not least <= region <= REGION_MAX:
        raise ContentError(f"votes: there is no ballot {counter} of region {region}")
    return Ballot(counter, region)


def _change(data: bytes) -> Change:
    try:
        return decode_change(data)
    except MembersError as error:
        raise ContentError(str(error)) from error


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
    members = Members(regions, history, content.drawn_above)
    if bool(epoch) is not bool(members.active):
        raise ContentError("members: no region is active, or some are before the first epoch")
    for one in regions:
        if one.heir is not None and members.find(one.heir) is None:
            raise ContentError(f"members: region {one.region} has the heir {one.heir}, who is none")
    return members


def _member(content: MemberContent, epoch: int) -> Member:
    region, status = content.region, content.status
    wrong = (
        not 1 <= region <= REGION_MAX
        or not 1 <= content.added <= content.changed <= epoch
        or len(content.instance) not in (0, INSTANCE_BYTES)
        or (status is Status.ACTIVE and not content.instance)
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
