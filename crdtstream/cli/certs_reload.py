"""``crdtstream certs reload``: nodes read the files of their certificates now."""

import datetime

import typer

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.certificates.chain import time_text
from crdtstream.command_line.exit import FAILED
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.reach import Reach


@with_groups
def reload(
    reach: Reach,
) -> None:
    """Have nodes read their certificates now, not only within ten seconds.

    Only the nodes at the given addresses are asked, or those of --dir. A node that finds something
    wrong with the files goes on with the former certificate, and says what is wrong.

    Example: crdtstream certs reload --dir crdtstream-data

    Exit status: 0 all use the files as they are, 1 a node does not, or does not answer.
    """
    is_good = True
    login = reach.login()
    for one in reach.addresses():
        try:
            with AdminClient(one, login=login) as client:
                reply = client.reload_certificates()
        except AdminError as error:
            typer.echo(f"error: {error}", err=True)
            is_good = False
            continue
        until = datetime.datetime.fromtimestamp(reply.valid_until_ms / 1000, datetime.UTC)
        if reply.fault:
            typer.echo(
                f"error: region {reply.region} goes on with its former certificate, valid until"
                f" {time_text(until)}: {reply.fault}",
                err=True,
            )
            is_good = False
        else:
            typer.echo(
                f"region {reply.region}: certificate {reply.version} since its start, serial"
                f" {reply.serial}, valid until {time_text(until)}"
            )
    raise typer.Exit(code=0 if is_good else FAILED)
