"""The compared parts of replies: all but the time at which the comparison happens to run.

Only times are normalised, and only where a command is known to put one.  "Just now" and "long ago"
stay apart, as do -1 (never) and a time.
"""

import re
import time
from collections.abc import Sequence

from tests.like_redis.sides import Answer, Blocked
from tests.like_redis.wire import Failure, Read, Typed

# Between "just now" and what scripts call long ago; nothing compared takes that long.
LONG_MS = 5_000_000
# What scripts set from now on ends sooner than this; a point in time that they name is later.
FROM_NOW_ON_S_MAX = 10_000_000

_IDLE_NAMES = (b"idle", b"inactive")
_CLOCK_NAMES = (b"seen-time", b"active-time")
# Not of INFO, which shows them, nor of PING, with which comparisons wait; nor of CLIENT UNBLOCK,
# which Redis calls failed when it makes another client's command fail.
_CALLS = re.compile(
    rb"cmdstat_(?!info:|ping:|client\|unblock:)(\S+?):calls=(\d+).*"
    rb",rejected_calls=(\d+),failed_calls=(\d+)"
)
_ERRORS = re.compile(rb"errorstat_(\S+?):count=(\d+)")


def comparable(argv: Sequence[bytes], reply: Answer) -> Answer:
    """The reply to a command, with its times as words."""
    if isinstance(reply, Failure | Blocked):
        return reply
    match argv[0].upper():
        case b"XPENDING" if isinstance(reply, list):
            return [_idle_at(2, row) if _is_row(row, 4) else row for row in reply]
        case b"INFO" if argv[-1] == b"commandstats":
            return sorted(_found(_CALLS, reply), key=repr)
        case b"INFO" if argv[-1] == b"errorstats":
            return _found(_ERRORS, reply)
        case b"XINFO":
            return _without_times(reply)
        case b"PTTL" if isinstance(reply, int) and reply > 0:
            return b"ms"
        case b"EXPIRETIME" | b"PEXPIRETIME" if isinstance(reply, int) and reply > 0:
            return _deadline(reply if argv[0].upper() == b"EXPIRETIME" else reply // 1000, reply)
        case b"KEYS" if isinstance(reply, list):
            return sorted(reply, key=repr)
        case b"SCAN" if isinstance(reply, list) and isinstance(reply[1], list):
            return [reply[0], sorted(reply[1], key=repr)]
    return reply


def _found(line: re.Pattern[bytes], reply: Answer) -> list[Read]:
    """Names and numbers in a section of INFO."""
    text = reply.text if isinstance(reply, Typed) else reply
    assert isinstance(text, bytes)
    return [b" ".join(words) for words in line.findall(text)]


def _deadline(at_s: int, reply: int) -> Read:
    """When something ends: one that was set as "from now on" by how far it is, about."""
    left_s = at_s - time.time()
    return b"in %d s" % round(left_s, -2) if left_s < FROM_NOW_ON_S_MAX else reply


def _is_row(value: Read, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _idle_at(index: int, row: Read) -> Read:
    assert isinstance(row, list)
    return [*row[:index], _idle(row[index]), *row[index + 1 :]]


def _clock_at(index: int, row: Read) -> Read:
    assert isinstance(row, list)
    return [*row[:index], _clock(row[index]), *row[index + 1 :]]


def _idle(value: Read) -> Read:
    if not isinstance(value, int) or value < 0:
        return value
    return b"just now" if value < LONG_MS else b"long ago"


def _clock(value: Read) -> Read:
    """A point in time, by the clock of this machine."""
    if not isinstance(value, int) or value < 0:
        return value
    return _idle(max(0, time.time_ns() // 1_000_000 - value))


def _without_times(value: Read) -> Read:
    """XINFO's replies: times follow their names; pending entries are rows that hold one."""
    if not isinstance(value, list):
        return value
    items: list[Read] = []
    for name, item in zip([b"", *value], value, strict=False):
        if name in _IDLE_NAMES:
            items.append(_idle(item))
        elif name in _CLOCK_NAMES:
            items.append(_clock(item))
        elif name == b"pending" and isinstance(item, list):
            items.append([_clock_at(len(row) - 2, row) for row in item if isinstance(row, list)])
        else:
            items.append(_without_times(item))
    return type(value)(items)
