"""``crdtstream crdb purge-instance``: delete the folder of a region that was removed."""

import json
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.options import JsonOption, YesOption
from crdtstream.upkeep.folder_reading import UpkeepError
from crdtstream.upkeep.purge import purge, removed_region


def purge_instance(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the removed region; its node is down.")
    ],
    yes: YesOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the folder of a region that was removed, and the marker beside it.

    The folder itself must say that its region was removed; it does so once its node has heard of
    it. Entries that only this folder has are lost: salvage them first.

    Example: crdtstream crdb purge-instance crdtstream-data/region-3

    Exit status: 0 it is deleted (with --dry-run: it may be), 1 it cannot be deleted, 2 it is not of
    a region that was removed, or a node has it open.
    """
    try:
        region = removed_region(folder)
    except UpkeepError as error:
        refuse(error)
    if dry_run or not yes:
        typer.echo(
            f"{folder}: region {region} was removed. What only this folder has is lost with it;"
            f" `crdtstream crdb salvage {folder} --address HOST:PORT` appends it again elsewhere.",
            err=True,
        )
    if dry_run:
        _end(folder, region, "dry-run", "Nothing has changed.", as_json=as_json)
        return
    if not yes:
        typer.confirm(f"Delete {folder} for good?", abort=True, err=True)
    try:
        purge(folder)
    except UpkeepError as error:
        refuse(error)
    except OSError as error:
        fail(f"{folder} cannot be deleted: {error.strerror}")
    _end(folder, region, "finished", f"{folder} is deleted", as_json=as_json)


def _end(folder: Path, region: int, status: str, told: str, *, as_json: bool) -> None:
    shown = {"id": region, "folder": str(folder), "status": status}
    typer.echo(json.dumps(shown, indent=2) if as_json else told)
