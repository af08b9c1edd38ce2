"""The stream and the group that a command names, or what Redis answers without them."""

from typing import Final

from crdtstream.commands.arguments import shown
from crdtstream.commands.reply import CommandError
from crdtstream.core.groups.group import Group
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

NO_SUCH_KEY: Final = "ERR no such key"


def stream_or_error(replica: Replica, key: bytes, *, error: str = NO_SUCH_KEY) -> Stream:
    """The stream, or a CommandError with the given text."""
    stream = replica.stream(key)
    if stream is None:
        raise CommandError(error)
    return stream


def group_of(stream: Stream, key: bytes, name: bytes) -> Group:
    """The stream's group, or NOGROUP as XGROUP and XINFO say it."""
    group = stream.groups.get(name)
    if group is None:
        raise CommandError(
            f"NOGROUP No such consumer group '{shown(name)}' for key name '{shown(key)}'"
        )
    return group


def group_or_none(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group] | None:
    """The stream and its group, None if either is missing."""
    stream = replica.stream(key)
    group = None if stream is None else stream.groups.get(name)
    return None if stream is None or group is None else (stream, group)


def group_or_error(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group]:
    """The stream and its group, or NOGROUP as XPENDING, XCLAIM and XAUTOCLAIM say it."""
    found = group_or_none(replica, key, name)
    if found is None:
        raise CommandError(f"NOGROUP No such key '{shown(key)}' or consumer group '{shown(name)}'")
    return found
