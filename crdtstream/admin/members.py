"""Members, for operators: the members that a node knows as a message, and changes of them."""

import asyncio
from collections.abc import Iterable
from typing import Final

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import (
    Add,
    Change,
    Contact,
    JoinToken,
    MembersError,
    Removal,
    Remove,
    Revoke,
    Update,
)
from crdtstream.core.membership.members import Member, Members, Status, apply
from crdtstream.core.membership.revoked import serial_bytes
from crdtstream.core.uid import shown_uid
from crdtstream.engine.engine import Engine
from crdtstream.region.members.wishes import Make
from crdtstream.replication.membership_client import check_is_there
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.v1 import admin_pb2 as pb

# Far below the day for which an expired certificate stays in the list (``revoked.py``).
SKEW_MS_MAX: Final = 3_600_000
STATUSES: Final = {
    Status.JOINING: pb.MemberStatus.Status.JOINING,
    Status.ACTIVE: pb.MemberStatus.Status.ACTIVE,
    Status.REMOVED: pb.MemberStatus.Status.REMOVED,
}


def members_reply(engine: Engine, settings: NodeSettings) -> pb.MembersReply:
    """The members as this node knows them."""
    region = engine.region
    known = region.membership.known
    here = known.find(region.replica.region)
    is_behind = region.membership.part.votes.pending_from <= known.epoch
    # A removed region gets no effects any more.
    pending = known.epoch if is_behind and here and here.status is not Status.REMOVED else 0
    return pb.MembersReply(
        database_id=settings.database_id,
        database_uid=shown_uid(region.replica.database_uid),
        epoch=known.epoch,
        hash=known.hash,
        members=[_status(one, engine, settings) for one in known.regions],
        numbers_left=known.numbers_left,
        region=settings.region,
        pending_epoch=pending,
        is_everywhere=region.membership.is_everywhere,
        http_tls=settings.tls_http,
        revoked=_revoked(known),
    )


def _revoked(members: Members) -> list[pb.RevokedCertificate]:
    return [
        pb.RevokedCertificate(
            serial=one.serial, not_after_s=one.not_after, revoked_s=one.at, epoch=one.epoch
        )
        for one in members.revoked
    ]


def _status(member: Member, engine: Engine, settings: NodeSettings) -> pb.MemberStatus:
    """A member; addresses that no change has named are those of this node's file."""
    contact = member.contact
    own = settings if member.region == settings.region else None
    grpc = contact.grpc or engine.region.membership.members.address_of(member.region)
    return pb.MemberStatus(
        region=member.region,
        name=contact.name,
        status=STATUSES[member.status],
        grpc_address=grpc or (own.grpc_address if own else ""),
        resp_address=contact.resp or (own.resp_address if own else ""),
        http_address=contact.http or (own.http_address if own else ""),
        added_epoch=member.added,
        changed_epoch=member.changed,
        token_expires_ms=member.token.expires_ms if member.token is not None else 0,
        heir=member.heir or 0,
        instance=member.instance,
        cut=member.cut,
    )


class _Asker:
    """A caller that waits for the outcome of a change."""

    def __init__(self) -> None:
        self.told: asyncio.Future[Members] = asyncio.get_running_loop().create_future()

    def note_made(self, members: Members) -> None:
        if not self.told.done():
            self.told.set_result(members)

    def note_not_made(self, error: MembersError) -> None:
        if not self.told.done():
            self.told.set_exception(error)


async def change(engine: Engine, make: Make, survivors: Iterable[RegionId] = ()) -> Members:
    """Have a change decided.

    Args:
        survivors: of a removal without a majority, all regions that are left.

    Returns:
        The members behind it, as they are durable here.

    Raises:
        MembersError: it was not decided, or that is unknown; the text says which, and what to do.
    """
    asker = _Asker()
    engine.region.membership.wish(make, asker, engine.now(), survivors=survivors)
    return await asker.told


async def change_members(
    engine: Engine,
    settings: NodeSettings,
    calls: PeerCalls,
    request: pb.ChangeMembersRequest,
    *,
    draw: int,
) -> pb.ChangeMembersReply:
    """Have a change decided.

    Args:
        draw: a random number, for the number of a region that is added.

    Raises:
        MembersError: it was not decided, or that is unknown; the text says which, and what to do.
    """
    membership = engine.region.membership
    if request.WhichOneof("change") is None:
        raise MembersError("a change of a kind that this version does not know; upgrade this node")
    if request.HasField("revoke"):
        _check_is_not_used_here(request.revoke, calls)
        check_clock(pull.stats.clock_skew_ms for pull in engine.region.links.pulls.values())
    if request.HasField("update") and request.update.grpc_address and not request.update.force:
        await _check_address(engine, settings, calls, request.update)
    _check_is_free(request, members_reply(engine, settings))
    # A repeated attempt is for the same change.
    now = engine.now()
    if request.dry_run:
        membership.members.check_is_kept()
        members = apply(membership.known, _change(request, membership.known, draw, now))
    else:
        survivors = map(RegionId, request.remove.survivors)
        members = await change(
            engine, lambda before: _change(request, before, draw, now), survivors
        )
    return pb.ChangeMembersReply(
        members=shown(members, engine, settings), region=_added(request, members)
    )


def _check_is_free(request: pb.ChangeMembersRequest, reply: pb.MembersReply) -> None:
    """Check also addresses that only this node's file names.

    Raises:
        MembersError: another region that remains has one of the addresses.
    """
    change = request.update if request.HasField("update") else request.add
    given = {change.grpc_address, change.resp_address, change.http_address} - {""}
    region = request.update.region
    for one in reply.members:
        if one.region == region or one.status == pb.MemberStatus.Status.REMOVED:
            continue
        for address in (one.grpc_address, one.resp_address, one.http_address):
            if address in given:
                raise MembersError(f"region {one.region} has the address {address}; take another")


def shown(members: Members, engine: Engine, settings: NodeSettings) -> pb.MembersReply:
    """These members as this node would report them."""
    reply = members_reply(engine, settings)
    del reply.members[:]
    reply.members.extend(_status(one, engine, settings) for one in members.regions)
    del reply.revoked[:]
    reply.revoked.extend(_revoked(members))
    reply.epoch, reply.hash = members.epoch, members.hash
    return reply


def _added(request: pb.ChangeMembersRequest, members: Members) -> int:
    """The region that has the token of the request; 0 if none was added."""
    if not request.HasField("add"):
        return 0
    return next(
        one.region
        for one in members.regions
        if one.token is not None and one.token.sha256 == request.add.token_sha256
    )


def _change(request: pb.ChangeMembersRequest, members: Members, draw: int, now: Millis) -> Change:
    """The change that is asked for, behind these members.

    Raises:
        MembersError: it cannot follow them.
    """
    match request.WhichOneof("change"):
        case "add":
            add = request.add
            contact = Contact(add.name, add.grpc_address, add.resp_address, add.http_address)
            token = JoinToken(add.token_sha256, Millis(add.token_expires_ms))
            return Add(members.next_number(draw), contact, token)
        case "update":
            update = request.update
            member = _member(members, update.region)
            before = member.contact
            contact = Contact(
                name=update.name or before.name,
                grpc=update.grpc_address or before.grpc,
                resp=update.resp_address or before.resp,
                http=update.http_address or before.http,
                certificates=before.certificates,
            )
            return Update(member.region, contact)
        case "remove":
            return _removal(request.remove, members)
        case "revoke":
            return Revoke(request.revoke.serial, request.revoke.not_after_s, now // 1000)
        case kind:
            raise MembersError(f"this version does not know the change {kind!r}; upgrade this node")


async def _check_address(
    engine: Engine, settings: NodeSettings, calls: PeerCalls, update: pb.UpdateRegion
) -> None:
    """Try another gRPC address of a region before it is decided: all others would call it.

    That of a joining region is not tried: its node may not be of the database yet.

    Raises:
        MembersError: that region of this database does not answer there; the text says what does.
    """
    region, address = RegionId(update.region), update.grpc_address
    member = engine.region.membership.known.find(region)
    if member is not None and (
        member.status is not Status.ACTIVE or member.contact.grpc == address
    ):
        return
    try:
        await check_is_there(
            settings.database_id,
            engine.region.replica.database_uid,
            RegionId(settings.region),
            region,
            address,
            calls,
        )
    except MembersError as error:
        raise MembersError(
            f"{error}. Nothing has changed. Correct the address; or, if the node is to start there"
            " later, use --force: the address before counts until then"
        ) from error


def _check_is_not_used_here(revoke: pb.RevokeCertificate, calls: PeerCalls) -> None:
    """
    Raises:
        MembersError: this node uses the certificate, and all others would refuse its calls.
    """
    used = calls.certificates
    if used is not None and serial_bytes(used.current.serial) == revoke.serial:
        raise MembersError(
            f"this node uses certificate {used.current.serial:x}: issue a new one for it, replace"
            " its files, and then revoke the former one; or ask another region, with --force"
        )


def check_clock(skews_ms: Iterable[int]) -> None:
    """Refuse to revoke by a clock that is wrong: what has expired by it would leave the list.

    Args:
        skews_ms: of the peers' clocks to this one's.

    Raises:
        MembersError: a clock is further from this one than ``SKEW_MS_MAX``.
    """
    skew_ms = max(skews_ms, key=abs, default=0)
    if abs(skew_ms) > SKEW_MS_MAX:
        raise MembersError(
            f"the clocks of this node and of a peer are {abs(skew_ms) // 1000} s apart, and by a"
            " wrong one certificates would count as expired: set the clock (NTP), or ask a node"
            " whose clock is right"
        )


def _removal(remove: pb.RemoveRegion, members: Members) -> Remove:
    """
    Raises:
        MembersError: it cannot follow.
    """
    member = _member(members, remove.region)
    if member.status is Status.ACTIVE and not remove.force:
        raise MembersError(
            f"region {member.region} is active: it seals itself before it is removed, or is removed"
            " with --force; run the `crdtstream crdb remove-instance` of this version"
        )
    left = [one for one in members.active if one != member.region]
    heir = RegionId(remove.heir or min(left, default=member.region))
    how = Removal.WITHOUT_MAJORITY if remove.survivors else Removal.FORCED
    return Remove(member.region, heir, how)


def _member(members: Members, number: int) -> Member:
    member = members.find(RegionId(number))
    if member is None:
        raise MembersError(f"there is no region {number}; {members.listed()}")
    return member
