"""XGROUP: groups, which are replicated, and consumers and positions, which are not."""

from typing import Final

from crdtstream.commands.arguments import any_id, integer, strict_id
from crdtstream.commands.lookup import group_of, stream_or_error, stream_or_none
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.effects import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DestroyGroup,
    SetPosition,
    Start,
)
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

_NO_KEY: Final = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to "
    "use the MKSTREAM option to create an empty stream automatically."
)

# With each option once; options that stand twice are one argument too many.
CREATE_ARGC_MAX: Final = 8

HELP: Final = (
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Print this help.",
)


def create(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD n].

    ``$`` starts at each lane's last ID as this region has observed it.  So an entry that another
    region adds at the same time is not missed.
    """
    if len(argv) > CREATE_ARGC_MAX:
        raise bad_subcommand(argv)
    key, name, position = argv[2:5]
    make_stream, entries_read = _create_options(argv)
    stream = stream_or_none(replica, key)
    if stream is None and not (make_stream or replica.implicit_mkstream):
        raise CommandError(_NO_KEY)
    start = _start(stream, position, last=b"$")
    if stream is not None and name in stream.groups:
        raise CommandError("BUSYGROUP Consumer Group name already exists")
    replica.issue(CreateGroup(key, name, start, _capped(stream, entries_read)))
    return OK


def _create_options(argv: list[bytes]) -> tuple[bool, int | None]:
    """MKSTREAM (CREATE only) and ENTRIESREAD."""
    make_stream = False
    entries_read: int | None = None
    at = 5
    while at < len(argv):
        option = argv[at].lower()
        if option == b"mkstream" and argv[1].lower() == b"create":
            make_stream = True
            at += 1
        elif option == b"entriesread" and at + 1 < len(argv):
            value = integer(argv[at + 1])
            if value < -1:
                raise CommandError("ERR value for ENTRIESREAD must be positive or -1")
            entries_read = None if value == -1 else value
            at += 2
        else:
            raise bad_subcommand(argv)
    return make_stream, entries_read


def _capped(stream: Stream | None, entries_read: int | None) -> int | None:
    """ENTRIESREAD is never more than was ever added."""
    if entries_read is None:
        return None
    added = 0 if stream is None else sum(lane.entries_added for lane in stream.lanes.values())
    return min(entries_read, added)


def _start(stream: Stream | None, text: bytes, *, last: bytes) -> Start:
    if text == last:
        return {} if stream is None else stream.lane_positions()
    return strict_id(text)


def set_id(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP SETID key group id|$ [ENTRIESREAD n]: where this region reads on; not replicated."""
    _, entries_read = _create_options(argv)
    stream, _ = _existing(replica, argv)
    position: Start
    if argv[4] == b"$":
        position = stream.lane_positions()
    else:
        position = any_id(argv[4])
    replica.note(SetPosition(argv[2], argv[3], position, _capped(stream, entries_read)))
    return OK


def destroy(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP DESTROY key group: 1 if the group was there; wins over concurrent creates of it."""
    stream = stream_or_error(replica, argv[2], error=_NO_KEY)
    if argv[3] not in stream.groups:
        return 0
    replica.issue(DestroyGroup(argv[2], argv[3]))
    return 1


def create_consumer(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP CREATECONSUMER key group consumer: 1 if it is new."""
    _, group = _existing(replica, argv)
    if argv[4] in group.consumers:
        return 0
    replica.note(CreateConsumer(argv[2], argv[3], argv[4], now))
    return 1


def delete_consumer(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP DELCONSUMER key group consumer: how many entries it had pending."""
    _, group = _existing(replica, argv)
    consumer = group.consumers.get(argv[4])
    if consumer is None:
        return 0
    pending = consumer.pending_count
    replica.note(DeleteConsumer(argv[2], argv[3], argv[4]))
    return pending


def _existing(replica: Replica, argv: list[bytes]) -> tuple[Stream, Group]:
    key, name = argv[2:4]
    stream = stream_or_error(replica, key, error=_NO_KEY)
    return stream, group_of(stream, key, name)


def show_help(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    return help_reply(HELP)
