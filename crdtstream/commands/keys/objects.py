"""OBJECT: how a key is kept.  A stream or a string, held once, and no policy evicts any."""

from typing import Final

from crdtstream.commands.arguments import parse_i64
from crdtstream.commands.lookup import exists
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

HELP: Final = (
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Print this help.",
)

# Longer strings are not kept in one piece with what describes them, in Redis.
EMBEDDED_BYTES_MAX: Final = 44

NO_LFU: Final = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
    "when switching between policies at runtime LRU and LFU data will take some time to adjust."
)


def encoding(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """OBJECT ENCODING key: null without a key; of a string what Redis would keep it as."""
    if replica.stream(argv[2]) is not None:
        return b"stream"
    string = replica.keys.string(argv[2])
    return None if string is None else _string_encoding(string.data)


def _string_encoding(data: bytes) -> bytes:
    if parse_i64(data) is not None and data != b"-0":
        return b"int"
    return b"embstr" if len(data) <= EMBEDDED_BYTES_MAX else b"raw"


def refcount(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """OBJECT REFCOUNT key: 1, null without a key."""
    return 1 if exists(replica, argv[2]) else None


def freq(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """OBJECT FREQ key: refused, as in Redis without an LFU policy."""
    if not exists(replica, argv[2]):
        return None
    raise CommandError(NO_LFU)


def idletime(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """OBJECT IDLETIME key: seconds since an entry came or a consumer asked, as far as known.

    Reads without a group leave no trace, so this is the longest that the key can have been idle.
    Of a string nothing is known: 0.
    """
    stream = replica.stream(argv[2])
    if stream is None:
        return None if replica.keys.string(argv[2]) is None else 0
    used_ms = _last_use(stream)
    return 0 if used_ms is None else max(0, now - used_ms) // 1000


def _last_use(stream: Stream) -> Millis | None:
    """When the latest entry that is still there came, or a consumer was last seen."""
    arrivals = [lane.tail.last_arrival for lane in stream.lanes.values() if lane.tail is not None]
    seen = [
        consumer.seen_ms
        for group in stream.groups.values()
        for consumer in group.consumers.values()
    ]
    return max((*arrivals, *seen), default=None)


def show_help(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    return help_reply(HELP)
