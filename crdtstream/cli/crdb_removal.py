"""``crdtstream crdb remove-instance``: removes a region that runs, or one that is dead."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import typer

from crdtstream.access.basic import Login
from crdtstream.admin.client import AdminClient, AdminError, Survey, survey, vv_of
from crdtstream.command_line.exit import fail
from crdtstream.core.clock import MutableVersionVector, join
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb

SEALED_SECONDS_DEFAULT: Final = 60.0


@dataclass(frozen=True, slots=True)
class Removal:
    """Removal that an operator asks for.

    Attributes:
        heir: 0: the lowest active region that remains.
        yes: do not ask.
        dry_run: change nothing.
        as_json: all texts except the result are written to stderr.
    """

    region: int
    heir: int
    yes: bool
    dry_run: bool
    as_json: bool


def remove_sealed(client: AdminClient, removal: Removal, *, seconds: float) -> pb.MembersReply:
    """Remove a region whose node runs; the members without it.

    Raises:
        AdminError: it was not removed; the text says why.
    """
    region = removal.region
    found = _found(client)
    if region not in found.replies:
        fail(
            f"region {region} does not answer: start its node, so that it can hand over; if it is"
            " gone for good, remove it with --force"
        )
    others = [address for one, address in found.addresses.items() if one != region]
    if not others:
        fail(
            f"region {region} is the only one that answers, and a region that remains has to remove"
            " it: if there is one, start its node; the last region of a database cannot be removed"
        )
    login = client.login
    asked = client.address if client.address in others else others[0]
    request = pb.RemoveSealedRequest(region=region, heir=removal.heir, seconds=seconds)
    if not removal.dry_run:
        # An impossible removal is refused before the operator is asked.
        _followed(
            asked, login, pb.RemoveSealedRequest(region=region, heir=removal.heir, dry_run=True)
        )
        if not removal.yes:
            typer.echo(
                f"Region {region} takes no writes from then on, hands over its groups, and is"
                " removed when the others have all of it. Its number is not given again.",
                err=True,
            )
            typer.confirm(f"Remove region {region} for good?", abort=True, err=True)
        typer.echo(
            f"Region {region} is sealed: it takes no writes, and hands its groups over.", err=True
        )
    else:
        request.dry_run = True
    return _followed(asked, login, request, tells=True)


def _followed(
    address: str, login: Login, request: pb.RemoveSealedRequest, *, tells: bool = False
) -> pb.MembersReply:
    """Have a region remove another one, print its progress, and return the members at the end."""
    with AdminClient(address, login=login) as client:
        for step in client.remove_sealed(request):
            if step.HasField("members"):
                return step.members
            if tells:
                typer.echo(step.progress, err=True)
    raise AdminError(f"{address} did not say how it ended; run this again")


def remove_forced(
    client: AdminClient, removal: Removal, *, without_majority: bool
) -> pb.MembersReply:
    """Remove a region that is dead; the members without it.

    Raises:
        AdminError: it was not removed, or that is unknown; the text says which.
    """
    region = removal.region
    found = _found(client)
    if region in found.replies:
        fail(
            f"region {region} answers: without --force it hands over before it is removed, and"
            " nothing is lost. If it is to be forced, stop its node for good first"
        )
    left = voters_of(found) if without_majority else []
    remove = pb.RemoveRegion(region=region, heir=removal.heir, force=True, survivors=left)
    # An impossible removal is refused before anything is printed and asked.
    client.change_members(pb.ChangeMembersRequest(dry_run=True, remove=remove))
    for line in (*losses(RegionId(region), found), *own_losses(left, found)):
        typer.echo(line, err=removal.as_json)
    if not (removal.yes or removal.dry_run):
        _ask_to_force(region, left)
    request = pb.ChangeMembersRequest(dry_run=removal.dry_run, remove=remove)
    return client.change_members(request).members


def _found(client: AdminClient) -> Survey:
    """All regions of the database that answer.

    A database that was restored from a backup of another one has that one's members, and their
    nodes may run at these addresses.
    """
    found = survey([client.address], login=client.login)
    uid = client.members().database_uid
    for region, reply in list(found.replies.items()):
        if reply.database_uid not in ("", uid):
            address = found.addresses.pop(region)
            del found.replies[region]
            found.unreachable[address] = f"database {reply.database_uid} answers at {address}"
    return found


def voters_of(found: Survey) -> list[RegionId]:
    """The active regions that answer and can agree to something.  One whose folder was restored may
    wait for the dead one, and cannot before, except it is alone; one that refuses writes for
    another reason can."""
    active = pb.MemberStatus.Status.ACTIVE
    left = [one for one, reply in found.replies.items() if reply.member_status == active]
    voters = [one for one in left if not found.replies[one].lacks_votes]
    if not voters and len(left) != 1:
        fail(
            "no region answers that could agree: their folders were restored, and wait for members"
            " to answer; start those, or start again from a backup"
        )
    return voters or left


def losses(region: RegionId, found: Survey) -> Iterator[str]:
    """Lines about the effects that are lost with a region that is to be removed."""
    has = {one: vv_of(reply.vv).get(region, 0) for one, reply in found.replies.items()}
    most = max(has.values(), default=0)
    shown = ", ".join(f"region {one} has {count}" for one, count in sorted(has.items()))
    links = [link for reply in found.replies.values() for link in reply.links]
    its = [link for link in links if link.peer == region]
    said = max((vv_of(link.peer_vv).get(region, 0) for link in its), default=0)
    yield f"Effects that region {region} issued: {shown}."
    if said > most:
        yield f"It said to have issued {said}: at least {said - most} effects are lost."
    yield from _losses_of_others(region, found, its)
    heard_ms = max((link.heard_ms for link in its), default=0)
    if heard_ms:
        heard = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(heard_ms / 1000))
        yield f"It was last heard at {heard} UTC; what it acknowledged after that is lost."
    yield (
        f"Writes of clients that still reach region {region} are lost. Its number is not given"
        " again."
    )


def _losses_of_others(
    region: RegionId, found: Survey, its: Sequence[pb.LinkStatus]
) -> Iterator[str]:
    """Lines about effects of other origins that only the region has, as far as it said."""
    said: MutableVersionVector = {}
    for link in its:
        join(said, vv_of(link.peer_vv))
    there: MutableVersionVector = {}
    for reply in found.replies.values():
        join(there, vv_of(reply.vv))
    lacking = {one: n for one, n in said.items() if one != region and n > there.get(one, 0)}
    for origin, n in sorted(lacking.items()):
        has = there.get(origin, 0)
        unless = "" if origin in found.replies else f", unless region {origin} still has them"
        yield (
            f"It said to have {n} effects of region {origin}; the regions that answer have {has}:"
            f" at least {n - has} are lost with it{unless}."
        )
    if lacking:
        yield (
            f"If the folder of region {region} can be read, keep it: `crdtstream crdb salvage`"
            " appends them again."
        )


def own_losses(left: Sequence[RegionId], found: Survey) -> Iterator[str]:
    """Lines about regions that go on alone and may have lost the end of their own log."""
    for one in left:
        reply = found.replies[one]
        if reply.fault:
            own = vv_of(reply.vv).get(one, 0)
            yield (
                f"Region {one} takes no writes now, and has {own} effects of its own: if it had"
                " issued more, what only the others have of them is lost."
            )


def _ask_to_force(region: int, left: Sequence[RegionId]) -> None:
    """Ask, twice where a majority is missing; ends the program unless the answers are yes."""
    typer.confirm(f"Remove region {region} for good?", abort=True, err=True)
    if left:
        alone = ", ".join(map(str, left))
        typer.confirm(
            f"Go on with {alone} alone? If other regions are alive, the database splits.",
            abort=True,
            err=True,
        )
