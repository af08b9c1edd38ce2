"""``crdtstream restore``: a region's folder out of a backup."""

import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.cli.exit import FAILED, MISUSED, fail
from crdtstream.cli.progress import progress_bar
from crdtstream.core.ids import RegionId
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.settings import DATABASE_ID_PATTERN, NodeSettings, SettingsError, load_settings
from crdtstream.upkeep.manifest import Manifest
from crdtstream.upkeep.reading import DamagedBackupError, UpkeepError
from crdtstream.upkeep.restore import check_backup, check_target, restore_as_new
from crdtstream.upkeep.restore import restore as restore_folder


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder of the backup.")],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The region's folder; not there yet, or empty.")
    ],
    new_database: Annotated[
        str | None,
        typer.Option(
            "--new-database", metavar="NAME", help="Begin a new database of this id with it."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings of the node that is to use DIR; they must fit the backup."),
    ] = None,
) -> None:
    """Make a region's folder of a backup, which is checked byte by byte; start the node after it.

    Into its own region: the node takes no writes before every other region has told it what was
    written since the backup, and takes that back. So no dot stands for two things.

    With --new-database: a database with an identity of its own, which has what the backup has. Give
    its node the database_id NAME, and start the other regions with that and empty folders; they
    pull everything. Nodes of the old database refuse it.

    Example: crdtstream restore backups/monday crdtstream-data/region-1

    Exit status: 0 restored, 1 the backup is damaged or the disk refuses, 2 the folder is in use or
    not empty, or the backup is of another region, database or version. But for 0 there is no log in
    DIR that was not there before.
    """
    if new_database is not None and not re.fullmatch(DATABASE_ID_PATTERN, new_database):
        fail(
            f"--new-database: {new_database!r} cannot be a database_id; it must be 1 to 64 "
            "letters, digits or any of _ . : -",
            status=MISUSED,
        )
    settings = None if config is None else _settings(config, folder)
    wanted_id = None if settings is None else settings.database_id
    if new_database is not None and wanted_id not in (None, new_database):
        fail(
            f"{config}: its database_id is {wanted_id!r}, not {new_database!r}: use one of them",
            status=MISUSED,
        )
    try:
        manifest = check_backup(
            backup,
            region=None if settings is None else RegionId(settings.region),
            database_id=None if new_database is not None else wanted_id,
        )
        check_target(folder)
    except DamagedBackupError as error:
        fail(error, status=FAILED)
    except UpkeepError as error:
        fail(error, status=MISUSED)
    try:
        with progress_bar() as progress:
            if new_database is None:
                restore_folder(backup, folder, manifest, progress)
            else:
                uid = DatabaseUid(secrets.token_bytes(UID_BYTES))
                manifest = restore_as_new(
                    backup, folder, manifest, database_id=new_database, uid=uid, progress=progress
                )
    except UpkeepError as error:
        fail(error, status=FAILED)
    _tell(folder, manifest, is_new=new_database is not None)


def _settings(config: Path, folder: Path) -> NodeSettings:
    try:
        settings = load_settings(config)
    except SettingsError as error:
        fail(error, status=MISUSED)
    if settings.dir.absolute() != folder.absolute():
        fail(f"{config}: its dir is {settings.dir}, not {folder}: use one of them", status=MISUSED)
    return settings


def _tell(folder: Path, manifest: Manifest, *, is_new: bool) -> None:
    typer.echo(
        f"{folder}: region {manifest.region} of database {manifest.database_id!r}, "
        f"identity {manifest.database_uid or 'not agreed on yet'}"
    )
    typer.echo(manifest.cut_text)
    if is_new:
        typer.echo(
            f"a new database: start this region with database_id {manifest.database_id!r}, the "
            "others with that and empty folders",
            err=True,
        )
    else:
        typer.echo("start its node: it takes writes when every other region has answered", err=True)
