"""BLPOP, with which walrus waits until a lock is free.

walrus's Lock pushes to the list ``lock.event:NAME`` when it gives back the lock ``lock:NAME``, and
a waiting client pops from it.  There are no lists here.  A client that waits for such an event
waits until the lock itself is gone: given back in any region, deleted, or expired.  So no event can
be missed, and none is left behind.
"""

from functools import partial
from math import ceil, isfinite
from typing import Final

from crdtstream.commands.arguments import I64_MAX
from crdtstream.commands.lookup import exists
from crdtstream.commands.reply import Blocked, CommandError, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

EVENT_PREFIX: Final = b"lock.event:"
LOCK_PREFIX: Final = b"lock:"
# What the script of walrus pushes.
EVENT: Final = b"1"


def blpop(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """BLPOP lock.event:NAME [lock.event:NAME …] timeout: wait until a lock of walrus is free.

    Returns:
        The key whose lock is free, and what walrus's script would have pushed; null when time is
        over.

    Raises:
        CommandError: the timeout is wrong, or a key is no event of walrus's.
    """
    keys, timeout_ms = argv[1:-1], _timeout_ms(argv[-1], now)
    if not all(key.startswith(EVENT_PREFIX) for key in keys):
        raise CommandError(
            "ERR there are no lists here: BLPOP only waits for the locks of walrus, by keys that "
            "begin with lock.event:"
        )
    locks = {LOCK_PREFIX + key.removeprefix(EVENT_PREFIX): key for key in keys}
    return _answer_or_block(locks, timeout_ms, replica, now)


def _answer_or_block(
    locks: dict[bytes, bytes], timeout_ms: int, replica: Replica, now: Millis
) -> Reply | Blocked:
    """The event of the first lock that is free."""
    for lock, event in locks.items():
        if not exists(replica, lock):
            return [event, EVENT]
    return Blocked(tuple(locks), timeout_ms, partial(_answer_or_block, locks, timeout_ms))


def _timeout_ms(text: bytes, now: Millis) -> int:
    """A timeout in seconds, which may have a fraction; 0: without end."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not isfinite(seconds):
        raise CommandError("ERR timeout is not a float or out of range")
    if seconds < 0:
        raise CommandError("ERR timeout is negative")
    milliseconds = ceil(seconds * 1000)
    if milliseconds > I64_MAX - now:
        raise CommandError("ERR timeout is out of range")
    return milliseconds
