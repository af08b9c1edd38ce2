"""Reads a folder's own region as a member."""

import contextlib
from pathlib import Path

from crdtstream.core.checkpoint.contents import ContentError
from crdtstream.core.membership.encoding import decode_kept
from crdtstream.core.membership.members import Member
from crdtstream.store.errors import DAMAGED
from crdtstream.store.meta import MEMBERSHIP_KEY
from crdtstream.upkeep.reading import (
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
    path = log_file(folder)
    with contextlib.closing(connect(path, is_locked=True)) as connection:
        try:
            meta = read_meta(connection)
            identity = identity_of(meta)
            text = meta.get(MEMBERSHIP_KEY)
            if text is None:
                return identity, None
            return identity, decode_kept(bytes.fromhex(text)).members.find(identity.region)
        except (*DAMAGED, ContentError, ValueError) as error:
            raise UpkeepError(f"{path}: {error}; `crdtstream fsck` shows what is damaged") from (
                error
            )
