"""``crdtstream crdb purge-instance``: delete the folder of a region that was removed."""

from pathlib import Path
from typing import Annotated

import typer

from crdtstream.cli.exit import MISUSED, fail
from crdtstream.upkeep.purge import purge, removed_region
from crdtstream.upkeep.reading import UpkeepError


def purge_instance(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the removed region; its node is down.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete the folder of a region that was removed, and the marker beside it.

    The folder itself must say that its region was removed, as it does once its node has heard of
    it. What only it has is lost then: salvage it before.

    Example: crdtstream crdb purge-instance crdtstream-data/region-3

    Exit status: 0 it is gone, 1 it cannot be deleted, 2 it is not of a region that was removed, or
    a node has it open.
    """
    try:
        region = removed_region(folder)
    except UpkeepError as error:
        fail(error, status=MISUSED)
    if not yes:
        typer.echo(
            f"{folder}: region {region} was removed. What only this folder has is lost with it;"
            f" `crdtstream crdb salvage {folder} --into HOST:PORT` appends it again elsewhere.",
            err=True,
        )
        typer.confirm(f"Delete {folder} for good?", abort=True, err=True)
    try:
        purge(folder)
    except UpkeepError as error:
        fail(error, status=MISUSED)
    except OSError as error:
        fail(f"{folder} cannot be deleted: {error.strerror}")
    typer.echo(f"{folder} is deleted")
