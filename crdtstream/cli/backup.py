"""``crdtstream backup``: a copy of a region while its node runs."""

from pathlib import Path
from typing import Annotated

import typer

from crdtstream.admin.client import AdminClient, AdminError
from crdtstream.cli.exit import MISUSED, fail
from crdtstream.cli.progress import progress_bar
from crdtstream.upkeep.backup import check_free, write_backup
from crdtstream.upkeep.reading import UpkeepError


def backup(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the backup; not there yet, or empty.")
    ],
    address: Annotated[
        str,
        typer.Option("--from", metavar="HOST:PORT", help="The gRPC service of the region's node."),
    ],
) -> None:
    """Back up a region while its node runs: the state of one moment, with its version vector.

    Everything that a power cut cannot take from the node when the backup begins is in it. It is
    written under another name, read back, and renamed when it is whole; a backup that was cut off
    leaves nothing, or a folder DIR.unfinished-… that can be deleted. The node goes on serving; its
    folder is not written to.

    fsck and dump read a backup as they read a node's folder.

    Example: crdtstream backup backups/monday --from 127.0.0.1:7381

    Exit status: 0 written and verified, 1 the node does not answer or the backup failed, 2 the
    folder is there already.
    """
    try:
        check_free(folder)
    except UpkeepError as error:
        fail(error, status=MISUSED)
    try:
        with AdminClient(address) as client, progress_bar() as progress:
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
