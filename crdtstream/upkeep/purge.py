"""Deleting the folder of a region that was removed."""

import contextlib
import shutil
from pathlib import Path

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.encoding import decode_kept
from crdtstream.core.membership.members import Status
from crdtstream.store.errors import DAMAGED
from crdtstream.store.marker import marker_path
from crdtstream.store.meta import MEMBERSHIP_KEY
from crdtstream.upkeep.reading import (
    UpkeepError,
    connect,
    identity_of,
    locked,
    log_file,
    read_meta,
)


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
        # A node may have been started while somebody was asked.
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
    path = log_file(folder)
    with contextlib.closing(connect(path, is_locked=True)) as connection:
        try:
            meta = read_meta(connection)
            identity = identity_of(meta)
            text = meta.get(MEMBERSHIP_KEY)
            member = None
            if text is not None:
                member = decode_kept(bytes.fromhex(text)).members.find(identity.region)
        except (*DAMAGED, ContentError, ValueError) as error:
            raise UpkeepError(f"{path}: {error}; `crdtstream fsck` tells what is damaged") from (
                error
            )
    if member is None or member.status is not Status.REMOVED:
        raise UpkeepError(
            f"{folder}: region {identity.region} was not removed, as far as this folder knows. If"
            " it was, start its node once: the others tell it"
        )
    return identity.region
