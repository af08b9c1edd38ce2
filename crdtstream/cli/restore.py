"""``crdtstream restore``: makes a region's folder from a backup."""

import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from crdtstream.cli.progress import progress_bar
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.core.ids import RegionId
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.secrets.private_files import private_files
from crdtstream.settings.node_settings import (
    DATABASE_ID_PATTERN,
    NodeSettings,
    SettingsError,
    load_settings,
)
from crdtstream.upkeep.folder_reading import DamagedBackupError, UpkeepError
from crdtstream.upkeep.manifest import Manifest
from crdtstream.upkeep.restore import check_backup, check_target, restore_as_new
from crdtstream.upkeep.restore import restore as restore_folder


def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder of the backup.")],
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The region's folder; a new or an empty one.")
    ],
    new_database: Annotated[
        str | None,
        typer.Option("--new-database", metavar="NAME", help="Begin a new database with this ID."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings of the node that is to use DIR; they must fit the backup."),
    ] = None,
) -> None:
    """Make a region's folder from a backup, which is checked byte by byte; then start the node.

    For its own region: the node first gets back from the others what it wrote since the backup, and
    takes no writes before every other region has answered. So no dot names two effects.

    With --new-database: a database with an identity of its own, which has the data of the backup.
    Set the database_id of its node to NAME, and start the other regions with the same one and empty
    folders; they pull everything. Nodes of the old database refuse it.

    Example: crdtstream restore backups/monday crdtstream-data/region-1

    Exit status: 0 restored, 1 the backup is damaged or the disk refuses, 2 the folder is in use or
    not empty, or the backup is of another region, database or version. Except with 0, DIR has no
    log that it did not have before.
    """
    if new_database is not None and not re.fullmatch(DATABASE_ID_PATTERN, new_database):
        refuse(
            f"--new-database: {new_database!r} cannot be a database_id; it must be 1 to 64 "
            "letters, digits or any of _ . : -"
        )
    settings = None if config is None else _settings(config, folder)
    wanted_id = None if settings is None else settings.database_id
    if new_database is not None and wanted_id not in (None, new_database):
        refuse(f"{config}: its database_id is {wanted_id!r}, not {new_database!r}: use one of them")
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
        refuse(error)
    try:
        with progress_bar() as progress, private_files():
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
        refuse(error)
    if settings.dir.absolute() != folder.absolute():
        refuse(f"{config}: its dir is {settings.dir}, not {folder}: use one of them")
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
            "others with that and empty folders. If the members of the old one were changed "
            "(`crdtstream crdb list`: epoch 2 or more), this one has the same: docs/backup.md says "
            "how to replace them",
            err=True,
        )
    else:
        typer.echo("start its node: it takes writes when every other region has answered", err=True)
