"""Keyspace notifications: what happened to which key, under Redis's names, and their classes.

A class is one character of ``notify-keyspace-events``:

    K E                 where to publish: by key, by name
    g $ l s h z x e t d classes of names; ``A`` stands for all of them
    o c n m             further classes, which ``A`` does not contain

Source: redis.io/docs/latest/develop/pubsub/keyspace-notifications; the texts of CONFIG GET are
those of redis-server 8.2.3.
"""

from typing import Final, NamedTuple

# In the order in which CONFIG GET shows them.
ALL: Final = "g$lshzxetd"
_BEHIND_ALL: Final = "ocn"
_PLACES: Final = "KE"
_MISSES: Final = "m"
_KNOWN: Final = frozenset(ALL + _BEHIND_ALL + _PLACES + _MISSES)


class Notification(NamedTuple):
    """Something that happened to a key.

    Attributes:
        name: Redis's name for it, which ``CLASS_OF`` knows.
    """

    name: bytes
    key: bytes


COPY_TO: Final = b"copy_to"
DEL: Final = b"del"
EXPIRE: Final = b"expire"
EXPIRED: Final = b"expired"
INCRBY: Final = b"incrby"
KEYMISS: Final = b"keymiss"
NEW: Final = b"new"
OVERWRITTEN: Final = b"overwritten"
PERSIST: Final = b"persist"
RENAME_FROM: Final = b"rename_from"
RENAME_TO: Final = b"rename_to"
RESTORE: Final = b"restore"
SET: Final = b"set"
TYPE_CHANGED: Final = b"type_changed"
XADD: Final = b"xadd"
XDEL: Final = b"xdel"
XGROUP_CREATE: Final = b"xgroup-create"
XGROUP_CREATECONSUMER: Final = b"xgroup-createconsumer"
XGROUP_DELCONSUMER: Final = b"xgroup-delconsumer"
XGROUP_DESTROY: Final = b"xgroup-destroy"
XGROUP_SETID: Final = b"xgroup-setid"
XSETID: Final = b"xsetid"
XTRIM: Final = b"xtrim"

CLASS_OF: Final = {
    **dict.fromkeys((COPY_TO, DEL, EXPIRE, PERSIST, RENAME_FROM, RENAME_TO, RESTORE), "g"),
    **dict.fromkeys((INCRBY, SET), "$"),
    EXPIRED: "x",
    KEYMISS: "m",
    NEW: "n",
    OVERWRITTEN: "o",
    TYPE_CHANGED: "c",
    **dict.fromkeys((XADD, XDEL, XSETID, XTRIM), "t"),
    **dict.fromkeys((XGROUP_CREATE, XGROUP_CREATECONSUMER, XGROUP_DELCONSUMER), "t"),
    **dict.fromkeys((XGROUP_DESTROY, XGROUP_SETID), "t"),
}


def parse_classes(text: str) -> frozenset[str] | None:
    """The classes that a text names, ``A`` replaced by what it stands for; None: it is wrong."""
    classes = frozenset(text.replace("A", ALL))
    return classes if classes <= _KNOWN else None


def shown_classes(classes: frozenset[str]) -> str:
    """The text of CONFIG GET.  As in Redis, it leaves out ``o``, ``c`` and ``n`` beside ``A``."""
    if classes.issuperset(ALL):
        first = "A"
    else:
        first = "".join(one for one in ALL + _BEHIND_ALL if one in classes)
    return first + "".join(one for one in _PLACES + _MISSES if one in classes)


def whole_text(classes: frozenset[str]) -> str:
    """A text of which ``parse_classes`` makes the same classes, for the configuration file."""
    missing = "".join(one for one in _BEHIND_ALL if one in classes)
    shown = shown_classes(classes)
    return shown + missing if shown.startswith("A") else shown
