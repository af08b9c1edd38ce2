"""GET, MGET, STRLEN, GETDEL, GETEX: what a string is."""

from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR
from crdtstream.commands.keys.deleting import delete_key
from crdtstream.commands.lookup import string_or_none
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.strings.deadlines import DEADLINES, DeadlineOption
from crdtstream.core.effects import SetStringExpiry
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

_PERSIST: Final = b"persist"


def get(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """GET key: the value; null without a key."""
    string = string_or_none(replica, argv[1])
    return None if string is None else string.data


def mget(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """MGET key [key …]: their values; null for a key that is missing or holds a stream."""
    return [_data_if_string(replica, key) for key in argv[1:]]


def _data_if_string(replica: Replica, key: bytes) -> bytes | None:
    string = None if replica.stream(key) is not None else replica.keys.string(key)
    return None if string is None else string.data


def strlen(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """STRLEN key: how many bytes the value has; 0 without a key."""
    string = string_or_none(replica, argv[1])
    return 0 if string is None else len(string.data)


def getdel(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """GETDEL key: the value, which is deleted."""
    string = string_or_none(replica, argv[1])
    if string is None:
        return None
    data = string.data
    delete_key(replica, argv[1])
    return data


def getex(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]: the value, with another deadline.

    A deadline that has passed deletes the key.
    """
    key = argv[1]
    option, persists = _option(argv)
    string = string_or_none(replica, key)
    if string is None:
        return None
    data = string.data
    if option is not None:
        deadline = option.deadline(argv[0], now)
        if deadline <= now:
            delete_key(replica, key)
        else:
            replica.issue(SetStringExpiry(key, deadline))
    elif persists and replica.keys.string_expiry.of(key) is not None:
        replica.issue(SetStringExpiry(key, None))
    return data


def _option(argv: list[bytes]) -> tuple[DeadlineOption | None, bool]:
    """The deadline that is asked for; and whether PERSIST is."""
    option: DeadlineOption | None = None
    persists = False
    at = 2
    while at < len(argv):
        word = argv[at].lower()
        if word == _PERSIST and option is None:
            persists = True
        elif (
            word in DEADLINES
            and at + 1 < len(argv)
            and not persists
            and (option is None or option.word == word)
        ):
            option = DeadlineOption(word, argv[at + 1])
            at += 1
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 1
    return option, persists
