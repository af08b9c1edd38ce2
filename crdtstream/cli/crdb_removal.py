"""How ``crdtstream crdb remove-instance`` removes a region that runs, and one that is dead."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import typer

from crdtstream.admin.client import AdminClient, AdminError, Survey, survey, vv_of
from crdtstream.cli.exit import fail
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb

SEALED_SECONDS_DEFAULT: Final = 60.0


@dataclass(frozen=True, slots=True)
class Removal:
    """What an operator wants.

    Attributes:
        heir: 0: the lowest active region that remains.
        yes: do not ask.
        dry_run: change nothing.
    """

    region: int
    heir: int
    yes: bool
    dry_run: bool


def remove_sealed(client: AdminClient, removal: Removal, *, seconds: float) -> pb.MembersReply:
    """Remove a region whose node runs; the members without it.

    Raises:
        AdminError: it was not removed; the text says why.
    """
    region = removal.region
    found = survey([client.address])
    if region not in found.replies:
        fail(
            f"region {region} does not answer: start its node, so that it can hand over; if it is"
            " gone for good, remove it with --force"
        )
    others = [address for one, address in found.addresses.items() if one != region]
    if not others:
        fail(f"region {region} is the only one that answers; a region that remains removes it")
    asked = client.address if client.address in others else others[0]
    request = pb.RemoveSealedRequest(region=region, heir=removal.heir, seconds=seconds)
    if not removal.dry_run:
        # What cannot be is refused before anybody is asked.
        _followed(asked, pb.RemoveSealedRequest(region=region, heir=removal.heir, dry_run=True))
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
    return _followed(asked, request, tells=True)


def _followed(
    address: str, request: pb.RemoveSealedRequest, *, tells: bool = False
) -> pb.MembersReply:
    """What a region says while it removes another one, until the end."""
    with AdminClient(address) as client:
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
        AdminError: it was not removed, or nobody knows; the text says which.
    """
    region = removal.region
    found = survey([client.address])
    if region in found.replies:
        fail(
            f"region {region} answers: without --force it hands over before it is removed, and"
            " nothing is lost. If it is to be forced, stop its node for good first"
        )
    # One that takes no writes may wait for the dead one, and cannot vote before.
    voters = [one for one, reply in found.replies.items() if not reply.fault]
    left = [one for one in voters if one != region] if without_majority else []
    remove = pb.RemoveRegion(region=region, heir=removal.heir, force=True, survivors=left)
    # What cannot be is refused before anything is said and asked.
    client.change_members(pb.ChangeMembersRequest(dry_run=True, remove=remove))
    _tell_losses(RegionId(region), found)
    if not (removal.yes or removal.dry_run):
        _ask_to_force(region, left)
    request = pb.ChangeMembersRequest(dry_run=removal.dry_run, remove=remove)
    return client.change_members(request).members


def _tell_losses(region: RegionId, found: Survey) -> None:
    """What is known of the effects of a region that is to be removed."""
    has = {one: vv_of(reply.vv).get(region, 0) for one, reply in found.replies.items()}
    most = max(has.values(), default=0)
    shown = ", ".join(f"region {one} has {count}" for one, count in sorted(has.items()))
    links = [link for reply in found.replies.values() for link in reply.links]
    its = [link for link in links if link.peer == region]
    said = max((vv_of(link.peer_vv).get(region, 0) for link in its), default=0)
    typer.echo(f"Effects that region {region} issued: {shown}.")
    if said > most:
        typer.echo(f"It said to have issued {said}: at least {said - most} effects are lost.")
    heard_ms = max((link.heard_ms for link in its), default=0)
    if heard_ms:
        heard = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(heard_ms / 1000))
        typer.echo(f"It was last heard at {heard} UTC; what it acknowledged after that is lost.")
    typer.echo(
        f"Clients that still reach region {region} write into the void. Its number is not given"
        " again."
    )


def _ask_to_force(region: int, left: Sequence[RegionId]) -> None:
    """Ask, twice where a majority is missing; ends the program unless the answers are yes."""
    typer.confirm(f"Remove region {region} for good?", abort=True)
    if left:
        alone = ", ".join(map(str, left))
        typer.confirm(
            f"Go on with {alone} alone? If other regions are alive, the database splits.",
            abort=True,
        )
