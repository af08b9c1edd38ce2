"""Deleting a whole key, whatever it holds."""

from crdtstream.core.effects import DeleteKey, DeleteString
from crdtstream.core.replica import Replica


def delete_key(replica: Replica, key: bytes) -> bool:
    """Delete a key if it exists here: nothing is deleted that is not observed.

    A key that is a string only goes without a tombstone: a group that another region makes at the
    same time under this name is not deleted with it.

    Returns:
        Whether there was one.
    """
    if replica.stream(key) is not None:
        replica.issue(DeleteKey(key))
        return True
    if replica.string(key) is not None:
        replica.issue(DeleteString(key))
        return True
    return False
