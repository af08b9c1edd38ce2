"""The marker: a file beside a folder that names the database that has been in the folder.

    crdtstream-data/
        region-1/             the folder
        region-1.database     its marker: database, identity, region

The marker outlives the folder.  So an empty folder whose settings name the marker's database and
region is not taken for a new one: its data were deleted or moved away, or its disk is not mounted.
A region with peers asks them.  A region without peers is not started, unless its operator says that
a new database is to begin.

The marker is written before the first write is acknowledged.  It is written under another name and
then renamed, so it is whole or does not exist.
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

import structlog

from crdtstream.store.errors import StoreError

MARKER_SUFFIX: Final = ".database"
_BYTES_MAX: Final = 4096

logger = structlog.get_logger(__name__)


class EmptyFolder(Enum):
    """Rule by which a start treats a folder without data."""

    IS_NEW = auto()  # its operator said so, or there are peers to ask
    IS_NEW_IF_UNMARKED = auto()  # there are no peers to ask


@dataclass(frozen=True, slots=True)
class Marker:
    """The database of a folder.

    Attributes:
        database_id: its name in the settings.
        identity: 32 hexadecimal digits.
        region: the region's number.
    """

    database_id: str
    identity: str
    region: int


def marker_path(folder: Path) -> Path | None:
    """Path of the folder's marker; None if nothing can stand beside the folder (``/``)."""
    whole = Path(os.path.abspath(folder))
    return whole.with_name(whole.name + MARKER_SUFFIX) if whole.name else None


def read_marker(folder: Path) -> Marker | None:
    """The folder's marker; None if there is none that can be read."""
    path = marker_path(folder)
    try:
        if path is None:
            return None
        with path.open("rb") as file:
            found = json.loads(file.read(_BYTES_MAX))
        return Marker(
            database_id=str(found["database_id"]),
            identity=str(found["identity"]),
            region=int(found["region"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_marker(folder: Path, marker: Marker) -> None:
    """Have the folder's marker say this, durably; logs a warning if that is not possible."""
    path = marker_path(folder)
    if path is None or read_marker(folder) == marker:
        return
    try:
        _write(path, json.dumps(asdict(marker), indent=2) + "\n")
    except OSError as error:
        logger.warning(
            "no marker can be written beside the folder: if its data are deleted, or its disk is "
            "not mounted, a start without peers takes the empty folder for a new database",
            marker=str(path),
            reason=error.strerror,
        )


def check_not_emptied(folder: Path, *, region: int, database_id: str) -> None:
    """See that an empty folder has never held the database.

    Raises:
        StoreError: its marker names this region of this database.
    """
    marker = read_marker(folder)
    if marker is None or (marker.region, marker.database_id) != (region, database_id):
        return
    raise StoreError(
        f"{folder}: empty or not there, but it has held region {region} of database "
        f"{database_id!r}, identity {marker.identity} (so says {marker_path(folder)}). Were its "
        "data deleted or moved, or is its disk not mounted? Put the folder back, or restore a "
        "backup (crdtstream restore). To begin a new, empty database, start with --new-database"
    )


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".unfinished")
    with unfinished.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
