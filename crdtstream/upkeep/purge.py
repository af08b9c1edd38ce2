"""Deleting the folder of a region that was removed."""

import shutil
from pathlib import Path

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Status
from crdtstream.store.marker import marker_path
from crdtstream.upkeep.folder_reading import UpkeepError, locked, log_file
from crdtstream.upkeep.membership import own_member


def removed_region(folder: Path) -> RegionId:
    """The region of a folder, which must be removed, and its node down.

    Raises:
        UpkeepError: it is not; a node has it open; or this is no folder of a region.
    """
    log_file(folder)
    with locked(folder):
        return _removed_region(folder)


def purge(folder: Path) -> None:
    """Delete the folder, and the marker beside it.

    Raises:
        UpkeepError: as of ``removed_region``; nothing is deleted.
        OSError: something cannot be deleted.
    """
    log_file(folder)
    with locked(folder):
        # A node may have been started while the operator was asked.
        _removed_region(folder)
        shutil.rmtree(folder)
    marker = marker_path(folder)
    if marker is not None:
        marker.unlink(missing_ok=True)


def _removed_region(folder: Path) -> RegionId:
    """The region of the folder, which must be removed.

    Raises:
        UpkeepError: it is not, or this is no folder of a region.
    """
    identity, member = own_member(folder)
    if member is None or member.status is not Status.REMOVED:
        raise UpkeepError(
            f"{folder}: region {identity.region} was not removed, as far as this folder knows. If"
            " it was, start its node once: the other regions report it"
        )
    return identity.region
