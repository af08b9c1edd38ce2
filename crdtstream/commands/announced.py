"""Notifications of commands that put something in the place of what a key held.

Their effects are others than a client expects: a stream that is renamed is deleted and appended
again.  So these commands announce Redis's notifications (``Replica.announcing``).  While none are
wanted, nothing is looked up for them.
"""

from crdtstream.commands.lookup import exists
from crdtstream.core.notifications import (
    COPY_TO,
    NEW,
    OVERWRITTEN,
    RENAME_FROM,
    RENAME_TO,
    RESTORE,
    SET,
    TYPE_CHANGED,
    Notification,
)
from crdtstream.core.replica import Replica


def of_rename(replica: Replica, source: bytes, target: bytes) -> list[Notification]:
    """Notifications of a key that gets the name ``target``."""
    if not replica.is_noting:
        return []
    return [
        Notification(NEW, target),
        Notification(RENAME_FROM, source),
        Notification(RENAME_TO, target),
        *_of_replaced(replica, target, becomes_stream=replica.stream(source) is not None),
    ]


def of_copy(replica: Replica, source: bytes, target: bytes) -> list[Notification]:
    """Notifications of a key that is copied to ``target``."""
    if not replica.is_noting:
        return []
    return [
        Notification(NEW, target),
        Notification(COPY_TO, target),
        *_of_replaced(replica, target, becomes_stream=replica.stream(source) is not None),
    ]


def of_restore(replica: Replica, key: bytes, *, becomes_stream: bool) -> list[Notification]:
    """Notifications of a key that is made of a dump."""
    if not replica.is_noting:
        return []
    return [
        Notification(NEW, key),
        Notification(RESTORE, key),
        *_of_replaced(replica, key, becomes_stream=becomes_stream),
    ]


def of_set(replica: Replica, key: bytes, *further: bytes) -> list[Notification]:
    """Notifications of a string that is set, and ``further`` ones."""
    if not replica.is_noting:
        return []
    replaced = _of_replaced(replica, key, becomes_stream=False)
    first = replaced or [Notification(NEW, key)]
    return [*first, *(Notification(name, key) for name in (SET, *further))]


def _of_replaced(replica: Replica, key: bytes, *, becomes_stream: bool) -> list[Notification]:
    """Notifications that a key, if there is one, is replaced."""
    if not exists(replica, key):
        return []
    replaced = [Notification(OVERWRITTEN, key)]
    if becomes_stream is not (replica.stream(key) is not None):
        replaced.append(Notification(TYPE_CHANGED, key))
    return replaced
