"""INCR, INCRBY, DECR, DECRBY: a string that is a number, to which every region adds.

Each region adds to its own share, and all shares count: what regions add at the same time is added
up (``rules`` 24).
"""

from typing import Final

from crdtstream.commands.arguments import I64_MAX, I64_MIN, integer
from crdtstream.commands.lookup import string_or_none
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.core.effects import DeleteString
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

OVERFLOW: Final = "ERR increment or decrement would overflow"


def incr(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """INCR key: one more; what the string is then."""
    return _add(replica, argv[1], 1)


def incrby(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """INCRBY key increment."""
    return _add(replica, argv[1], integer(argv[2]))


def decr(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DECR key: one less."""
    return _add(replica, argv[1], -1)


def decrby(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DECRBY key decrement."""
    decrement = integer(argv[2])
    if decrement == I64_MIN:
        raise CommandError("ERR decrement would overflow")
    return _add(replica, argv[1], -decrement)


def _add(replica: Replica, key: bytes, by: int) -> int:
    """
    Raises:
        CommandError: the key holds a stream, or no number; or the number would exceed 64 bits.
    """
    string = string_or_none(replica, key)
    before = 0 if string is None else integer(string.data)
    if not I64_MIN <= before + by <= I64_MAX:
        raise CommandError(OVERFLOW)
    if string is None and replica.keys.held_string(key) is not None:
        # It has expired: what it was does not count.
        replica.issue(DeleteString(key))
    replica.issue(replica.addition(key, by))
    after = replica.keys.string(key)
    assert after is not None
    return int(after.data)
