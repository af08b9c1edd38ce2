"""``crdtstream backup``: a copy of a region while its node runs."""

from pathlib import Path
from typing import Annotated

import typer

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.cli.progress import progress_bar
from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.reach import ReachOne
from crdtstream.secrets.private_files import private_files
from crdtstream.upkeep.backup import check_free, write_backup
from crdtstream.upkeep.folder_reading import UpkeepError


@with_groups
def backup(
    reach: ReachOne,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the backup; a new or an empty one.")
    ],
) -> None:
    """Back up a region while its node runs: the state of one moment, with its version vector.

    The backup has everything that is durable on the node when it begins. It is written under
    another name, read back, and renamed when it is whole. A backup that was cut off leaves nothing,
    or a folder DIR.unfinished-… that can be deleted. The node goes on serving clients; nothing is
    written to its folder.

    fsck and dump read a backup as they read a node's folder.

    Example: crdtstream backup backups/monday --address 127.0.0.1:7381

    Exit status: 0 written and verified, 1 the node does not answer or the backup failed, 2 the
    folder exists already.
    """
    try:
        check_free(folder)
    except UpkeepError as error:
        refuse(error)
    address, login = reach.checked(), reach.presented.login()
    try:
        with (
            AdminClient(address, login=login) as client,
            progress_bar() as progress,
            private_files(),
        ):
            manifest = write_backup(client.backup(), folder, progress)
    except (AdminError, UpkeepError) as error:
        fail(error)
    typer.echo(
        f"{folder}: region {manifest.region} of database {manifest.database_id!r}, "
        f"identity {manifest.database_uid or 'not agreed on yet'}"
    )
    typer.echo(manifest.cut_text)
    for name, one in manifest.files.items():
        typer.echo(f"{name}: {one.bytes} bytes, sha256 {one.sha256}")
