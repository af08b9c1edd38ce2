"""State of a region in its node's folder: which database it is, and whether the node goes on."""

from collections.abc import Callable
from typing import Final, assert_never

from crdtstream.core.incarnations import (
    Incarnations,
    encode_incarnations,
    incarnations_of,
)
from crdtstream.core.membership.encoding import Kept, decode_kept, encode_kept
from crdtstream.core.uid import NO_UID, DatabaseUid, parse_uid, shown_uid
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.ready import (
    Confirm,
    FolderChange,
    Revoke,
    StoreIdentity,
    StoreIncarnations,
    StoreMembership,
)
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log
from crdtstream.store.meta import INCARNATIONS_KEY, MEMBERSHIP_KEY, UID_KEY

# The names under which a folder has the members, and the incarnations of all regions.
MEMBERSHIP: Final = MEMBERSHIP_KEY
INCARNATIONS: Final = INCARNATIONS_KEY
DECLARED_KEY: Final = "database_declared"


async def read_folder(log: Log, *, is_proven: bool, is_same: bool = False) -> FolderState:
    """State of a folder when its node starts.

    Args:
        is_proven, is_same: as the log found it.

    Raises:
        StoreError: the identity is damaged.
    """
    database, membership = await _stored_identity(log), await _stored_membership(log)
    return FolderState(
        is_proven=is_proven,
        is_same=is_same,
        database=database,
        membership=membership,
        incarnations=await _stored_incarnations(log),
    )


async def begin_database(log: Log, make_uid: Callable[[], DatabaseUid]) -> FolderState:
    """Begin a new database in an empty folder, as its operator declared.

    Raises:
        StoreError: the folder holds a database, or cannot be written.
    """
    stored = await _stored_identity(log)
    if stored.uid or log.last_seq:
        name = shown_uid(stored.uid) or "without identity yet"
        raise StoreError(
            f"the folder holds database {name}, so no new one can begin in it: start without"
            " --new-database, or with an empty folder"
        )
    database = DatabaseIdentity(make_uid(), declared=True)
    await _store_identity(log, database)
    await log.confirm()
    return FolderState(is_proven=True, database=database)


async def begin_joining(log: Log, uid: DatabaseUid, kept: Kept) -> FolderState:
    """Let the folder of a node that joins say what it was told, if it does not yet.

    Raises:
        StoreError: the folder is of another database, or cannot be written.
    """
    stored = await _stored_identity(log)
    if stored.uid not in (NO_UID, uid):
        raise StoreError(
            f"the folder holds database {shown_uid(stored.uid)}, and the node is to join"
            f" {shown_uid(uid)}: name an empty folder"
        )
    if await log.get_meta(MEMBERSHIP_KEY) is None:
        await log.set_meta(MEMBERSHIP_KEY, encode_kept(kept).hex())
        await _store_identity(log, DatabaseIdentity(uid))
    return await read_folder(log, is_proven=False)


def settings_of_new(uid: DatabaseUid) -> dict[str, str]:
    """Settings of a folder for a database that was declared to begin."""
    return {UID_KEY: shown_uid(uid), DECLARED_KEY: "yes"}


async def write_change(log: Log, change: FolderChange) -> None:
    """Let the folder say a change, durably.

    Raises:
        StoreError: it cannot be written.  The same call may be made again.
    """
    match change:
        case Revoke():
            await log.revoke()
        case StoreIdentity(database):
            await _store_identity(log, database)
        case Confirm():
            await log.confirm()
        case StoreMembership(kept):
            await log.set_meta(MEMBERSHIP_KEY, encode_kept(kept).hex())
            await log.sync()
        case StoreIncarnations(incarnations):
            await log.set_meta(INCARNATIONS_KEY, encode_incarnations(incarnations).hex())
            await log.sync()
        case _:
            assert_never(change)


async def _stored_identity(log: Log) -> DatabaseIdentity:
    text = await log.get_meta(UID_KEY)
    if text is None:
        return DatabaseIdentity()
    uid = parse_uid(text)
    if uid is None:
        raise StoreError(
            f"meta {UID_KEY}: {text!r} is no identity of a database; start this region again from "
            "a backup of its folder"
        )
    return DatabaseIdentity(uid, await log.get_meta(DECLARED_KEY) == "yes")


async def _stored_membership(log: Log) -> Kept:
    text = await log.get_meta(MEMBERSHIP_KEY)
    if text is None:
        return Kept()
    try:
        return decode_kept(bytes.fromhex(text))
    except ValueError as error:
        # They must not count as none: forgotten votes may be cast twice.
        raise StoreError(
            f"meta {MEMBERSHIP_KEY}: {error}; start this region again from a backup of its folder"
        ) from error


async def _stored_incarnations(log: Log) -> Incarnations:
    text = await log.get_meta(INCARNATIONS_KEY)
    if text is None:
        return Incarnations()
    try:
        return incarnations_of(text)
    except ValueError as error:
        # They must not count as none: effects would be taken from an earlier folder.
        raise StoreError(
            f"meta {INCARNATIONS_KEY}: {error}; start this region again from a backup of its folder"
        ) from error


async def _store_identity(log: Log, database: DatabaseIdentity) -> None:
    assert database.uid != NO_UID
    await log.set_meta(DECLARED_KEY, "yes" if database.declared else "no")
    await log.set_meta(UID_KEY, shown_uid(database.uid))
    await log.sync()
