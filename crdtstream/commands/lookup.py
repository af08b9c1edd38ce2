"""Look-up of what a command names - a stream and its group, a string - with Redis's errors.

A key may hold both a stream and a string, if two regions made them at the same time (``rules`` 23).
Then clients see the stream: so a command asks for a string only if it finds no stream.
"""

from typing import Final

from crdtstream.commands.arguments import as_sent
from crdtstream.commands.reply import CommandError
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.replica import Replica

NO_SUCH_KEY: Final = "ERR no such key"
WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"


# --- Whole keys ---------------------------------------------------------------------------------


def exists(replica: Replica, key: bytes) -> bool:
    """True if the key holds anything."""
    return replica.stream(key) is not None or replica.keys.string(key) is not None


def deadline_of(replica: Replica, key: bytes) -> Millis | None:
    """Time at which what clients see of the key ends; None: it does not, or there is nothing."""
    if replica.stream(key) is not None:
        return replica.keys.expiry.of(key)
    return None if replica.keys.string(key) is None else replica.keys.string_expiry.of(key)


# --- Strings ------------------------------------------------------------------------------------


def string_or_none(replica: Replica, key: bytes) -> StringRegister | None:
    """The string, None without a key; or WRONGTYPE if the key holds a stream."""
    if replica.stream(key) is not None:
        raise CommandError(WRONG_TYPE)
    return replica.keys.string(key)


# --- Streams and groups -------------------------------------------------------------------------


def refuse_string(replica: Replica, key: bytes) -> None:
    """WRONGTYPE for a key that has no stream, and is a string."""
    if replica.keys.string(key) is not None:
        raise CommandError(WRONG_TYPE)


def stream_or_none(replica: Replica, key: bytes) -> Stream | None:
    """The stream, None without a key; or WRONGTYPE if the key is a string."""
    stream = replica.stream(key)
    if stream is None:
        refuse_string(replica, key)
    return stream


def stream_or_error(replica: Replica, key: bytes, *, error: str = NO_SUCH_KEY) -> Stream:
    """The stream, or a CommandError with the given text; WRONGTYPE if the key is a string."""
    stream = stream_or_none(replica, key)
    if stream is None:
        raise CommandError(error)
    return stream


def group_of(stream: Stream, key: bytes, name: bytes) -> Group:
    """The stream's group, or NOGROUP as XGROUP and XINFO say it."""
    group = stream.groups.get(name)
    if group is None:
        raise CommandError(
            f"NOGROUP No such consumer group '{as_sent(name)}' for key name '{as_sent(key)}'"
        )
    return group


def group_or_none(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group] | None:
    """The stream and its group, None if either is missing; WRONGTYPE if the key is a string."""
    stream = replica.stream(key)
    if stream is None:
        refuse_string(replica, key)
    group = None if stream is None else stream.groups.get(name)
    return None if stream is None or group is None else (stream, group)


def group_or_error(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group]:
    """The stream and its group, or NOGROUP as XPENDING, XCLAIM and XAUTOCLAIM say it."""
    found = group_or_none(replica, key, name)
    if found is None:
        raise CommandError(
            f"NOGROUP No such key '{as_sent(key)}' or consumer group '{as_sent(name)}'"
        )
    return found
