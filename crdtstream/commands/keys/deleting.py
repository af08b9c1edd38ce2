"""Deleting whole keys, whatever they hold.

A delete first issues what was acknowledged in the key's groups, and may need entries to measure
that.  A command that deletes several keys reads for all of them before it changes the first (I10).
"""

from collections.abc import Iterable, Sequence

from crdtstream.core.effects import DeleteKey, DeleteString
from crdtstream.core.replica import Replica


def delete_key(replica: Replica, key: bytes) -> bool:
    """Delete a key if it exists here: nothing is deleted that is not observed.

    A key that is a string only is deleted without a tombstone: a group that another region makes at
    the same time under this name is not deleted with it.

    Returns:
        True if there was one.
    """
    if replica.stream(key) is not None:
        replica.issue(DeleteKey(key))
        return True
    if replica.keys.string(key) is not None:
        replica.issue(DeleteString(key))
        return True
    return False


def delete_keys(replica: Replica, keys: Sequence[bytes]) -> int:
    """As ``delete_key``, of several keys.

    Returns:
        How many there were.
    """
    read_for_deletes(replica, keys)
    count = 0
    for key in keys:
        if delete_key(replica, key):
            count += 1
    return count


def read_for_deletes(replica: Replica, keys: Iterable[bytes]) -> None:
    """Read what deleting these keys will read.

    Raises:
        ColdError: some is on disk only.
    """
    if replica.residency.absent_count:
        replica.look_ahead(map(DeleteKey, keys))


def flush_key(replica: Replica, key: bytes) -> None:
    """Delete a key that something is kept of, also one that has expired (``rules`` 8).

    An expired key counts while its region goes on above its old IDs: afterwards its stream begins
    as a new one.  For a key that is a string only, DeleteString is enough; see ``delete_key``.
    As in Redis, no notification is sent.
    """
    with replica.announcing():
        if replica.is_string_only(key):
            replica.issue(DeleteString(key))
        else:
            replica.issue(DeleteKey(key))
