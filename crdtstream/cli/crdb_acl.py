"""``crdtstream crdb acl``: the users of all regions."""

import json
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.admin.client import AdminError, Survey
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.reach import Reach
from crdtstream.core.ids import RegionId
from crdtstream.secrets.aclfiles import EPOCH_MAX, FILE_BYTES_MAX, TooLargeError, check_size
from crdtstream.v1 import admin_pb2 as pb

app = typer.Typer(help="Users and their rights, in all regions.", no_args_is_help=True)


@app.callback()
def about() -> None:
    """Users and their rights, in all regions."""


@app.command()
@with_groups
def push(
    reach: Reach,
    file: Annotated[
        Path,
        typer.Argument(help="An aclfile: a line for each user.", exists=True, dir_okay=False),
    ],
    skip_unreachable: Annotated[
        bool,
        typer.Option(
            "--skip-unreachable", help="Push to the regions that answer, though others do not."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Have the regions check the file, and change nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Push also if nobody could administer a region any more, or this user could not.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write an aclfile to all regions, and have them use it.

    Users are not replicated, as two regions could change them at the same time. Each region checks
    the file first; if one refuses it, none is changed. Then each region writes it into the file of
    its setting `aclfile`, and closes the connections of users who are gone. A file that would leave
    no way in is refused: without a user who has a password and all of `@admin` (unless regions take
    certificates of operators), or if the user of this command would not be one any more.

    The file gets an epoch, one above the highest that a region has. `crdtstream status` says if the
    users of the regions differ.

    Example: crdtstream crdb acl push users.acl

    Exit status: 0 all regions have it, 1 a region refused it or did not answer, 2 misuse.
    """
    content = _content(file)
    found = reach.find_regions()
    if found.unreachable and not skip_unreachable:
        fail(
            "; ".join(found.unreachable.values())
            + "; nothing is changed. Push again when they answer, or now with --skip-unreachable"
        )
    epoch = _next_epoch(found)
    replies: dict[RegionId, pb.PushUsersReply] = {}
    for only_check in (True,) if dry_run else (True, False):
        for region in found.replies:
            request = pb.PushUsersRequest(
                aclfile=content, epoch=epoch, only_check=only_check, may_lock_out=force
            )
            replies[region] = _send(found, region, request)
    if as_json:
        regions = [
            {"id": region, "users": reply.users, "users_hash": reply.users_hash}
            for region, reply in replies.items()
        ]
        typer.echo(json.dumps({"epoch": epoch, "regions": regions}, indent=2))
    else:
        for region, reply in replies.items():
            typer.echo(f"region {region}: {reply.users} users, {reply.users_hash}")
        typer.echo("Nothing has changed." if dry_run else f"epoch {epoch}")
    for problem in found.unreachable.values():
        typer.echo(f"skipped: {problem}; push again when it answers", err=True)


def _send(found: Survey, region: RegionId, request: pb.PushUsersRequest) -> pb.PushUsersReply:
    """Ask one region; ends the program if it refuses."""
    try:
        with found.client(region) as client:
            return client.push_users(request)
    except AdminError as error:
        left = "nothing is changed" if request.only_check else "push again when that is put right"
        fail(f"region {region}: {error}; {left}")


def _content(file: Path) -> bytes:
    """Content to push; ends the program if no region would take it."""
    try:
        # Any that can be read will do, as a pipe of a shell.
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX.value + 1)
        check_size(content, str(file))
    except OSError as error:
        refuse(f"{file}: cannot be read: {error.strerror}")
    except TooLargeError as error:
        refuse(error)
    return content


def _next_epoch(found: Survey) -> int:
    """One above the highest that a region has; ends the program if there is none."""
    highest, region = max((reply.users_epoch, region) for region, reply in found.replies.items())
    if highest >= EPOCH_MAX:
        fail(
            f"region {region} has the epoch {highest}, and none is above it: take the line"
            " `# crdtstream acl epoch` out of its aclfile, run ACL LOAD there, and push again"
        )
    return highest + 1
