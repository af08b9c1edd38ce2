"""``crdtstream crdb flush``: deletes all keys, in all regions."""

import json
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.cli.crdb import GuidOption, asked, check_guid
from crdtstream.command_line.exit import FAILED, fail
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption, YesOption
from crdtstream.command_line.reach import Reach
from crdtstream.v1 import admin_pb2 as pb

SECONDS_DEFAULT: Final = 60.0


@with_groups
def flush(
    reach: Reach,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Do not wait until the other regions have deleted the keys, too."
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, help="How long the other regions may take to delete them."
        ),
    ] = SECONDS_DEFAULT,
    yes: YesOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be deleted, and delete nothing.")
    ] = False,
    guid: GuidOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete all keys of the database, in all regions.

    The region that is asked deletes each key that it has, as DEL does. So entries that another
    region adds at the same time stay, and groups are deleted everywhere. A key that clients write
    in this region during the flush is deleted or stays. Clients are served all the time. If the
    command is stopped or killed, run it again: it deletes what is left.

    It first shows the number of keys, and asks for the name of the database.

    Example: crdtstream crdb flush --dry-run

    Exit status: 0 all regions have deleted them (with --no-wait: this one has), 1 some are left, or
    a region does not have the deletes yet, 2 it is another database.
    """
    with asked(reach) as client:
        members = client.members()
        check_guid(members, guid)
        there = _last(client, pb.FlushRequest(dry_run=True))
        typer.echo(
            f"Region {members.region} of database {members.database_id}"
            f" ({members.database_uid or 'no GUID yet'}) has {_counted(there)}.",
            err=as_json,
        )
        if dry_run:
            _end(members, there, as_json=as_json, status="dry-run")
            return
        if not yes:
            _ask(members)
        request = pb.FlushRequest(seconds=0.0 if no_wait else timeout)
        done = _last(client, request)
    _end(members, done, as_json=as_json, status="failed" if done.lacks else "finished")
    if done.lacks:
        typer.echo(
            f"error: after {timeout:g} s {_lacking(done.lacks)}. They get the deletes when their"
            " links are up; see `crdtstream status`, and run this again to wait for them",
            err=True,
        )
        raise typer.Exit(code=FAILED)


def _ask(members: pb.MembersReply) -> None:
    """Have the name of the database typed; ends the program if another one comes."""
    typed = typer.prompt(
        f"All regions lose all keys. Type the name of the database ({members.database_id})",
        err=True,
    )
    if typed != members.database_id:
        fail(f"this is database {members.database_id}, not {typed}; nothing is deleted")


def _last(client: AdminClient, request: pb.FlushRequest) -> pb.FlushReply:
    """Run a flush, print its progress, and return its last message.

    Raises:
        AdminError: not all keys are deleted; the text says why.
    """
    told = ""
    for reply in client.flush(request):
        if reply.is_last:
            return reply
        progress = (
            f"waiting: {_lacking(reply.lacks)}" if reply.lacks else f"{reply.keys} keys are deleted"
        )
        if progress != told:
            told = progress
            typer.echo(progress, err=True)
    raise AdminError(f"{client.address} did not say how it ended; run this again")


def _end(members: pb.MembersReply, done: pb.FlushReply, *, as_json: bool, status: str) -> None:
    if as_json:
        shown = {
            "guid": members.database_uid,
            "name": members.database_id,
            "id": members.region,
            "status": status,
            "keys": done.keys,
            "entries": done.entries,
            "lacks": [{"id": one.region, "effects": one.effects} for one in done.lacks],
        }
        typer.echo(json.dumps(shown, indent=2))
    elif status == "dry-run":
        typer.echo("Nothing has changed.")
    else:
        where = f"in region {members.region}" if done.lacks else ""
        typer.echo(f"{_counted(done)} {'is' if done.keys == 1 else 'are'} deleted {where}".rstrip())


def _counted(reply: pb.FlushReply) -> str:
    keys = f"{reply.keys} key{'s' * (reply.keys != 1)}"
    return f"{keys} with {reply.entries} stream entr{'y' if reply.entries == 1 else 'ies'}"


def _lacking(lacks: Sequence[pb.FlushLack]) -> str:
    return ", ".join(f"region {one.region} lacks {one.effects} effects" for one in lacks)
