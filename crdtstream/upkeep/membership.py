"""Reads the members as a folder knows them, and its own region among them."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.membership.encoding import decode_kept
from crdtstream.core.membership.members import Member, Members
from crdtstream.store.errors import DAMAGED
from crdtstream.store.meta import MEMBERSHIP_KEY
from crdtstream.upkeep.folder_reading import (
    Identity,
    UpkeepError,
    connect,
    identity_of,
    log_file,
    read_meta,
)


def own_member(folder: Path) -> tuple[Identity, Member | None]:
    """Identity of the folder, and its region as a member; None: the folder knows no members.

    The caller holds the folder's lock.

    Raises:
        UpkeepError: this is no folder of a region, or it is damaged.
    """
    identity, members = kept_members(folder)
    return identity, members.find(identity.region)


def kept_members(folder: Path) -> tuple[Identity, Members]:
    """Identity of the folder, and the members that it knows; none before its region was ready.

    The caller holds the folder's lock.

    Raises:
        UpkeepError: this is no folder of a region, or it is damaged.
    """
    path = log_file(folder)
    with contextlib.closing(connect(path, is_locked=True)) as connection:
        try:
            meta = read_meta(connection)
            return identity_of(meta), members_in(meta)
        except (*DAMAGED, ContentError, ValueError) as error:
            raise UpkeepError(f"{path}: {error}; `crdtstream fsck` shows what is damaged") from (
                error
            )


def members_in(meta: Mapping[str, str]) -> Members:
    """Members in the meta table of a folder.

    Raises:
        ContentError, ValueError: it is damaged.
    """
    text = meta.get(MEMBERSHIP_KEY)
    return Members() if text is None else decode_kept(bytes.fromhex(text)).members
