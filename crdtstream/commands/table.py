"""The commands on keys and streams: name, function, arity, flags and where their keys stand."""

from typing import Final

from crdtstream.commands import groups, info
from crdtstream.commands.append import xadd
from crdtstream.commands.command import Command, RunCommand
from crdtstream.commands.keys import (
    dbsize,
    delete,
    digest,
    exists,
    flushall,
    keys,
    rename,
    renamenx,
    scan,
    type_of,
)
from crdtstream.commands.pending import xack, xautoclaim, xclaim, xpending
from crdtstream.commands.range import xdel, xlen, xrange, xrevrange, xsetid, xtrim
from crdtstream.commands.read import xread, xreadgroup
from crdtstream.commands.reply import Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

_WRITE: Final = frozenset({"write"})
_WRITE_FAST: Final = frozenset({"write", "fast"})
_ADD: Final = frozenset({"write", "denyoom", "fast"})
_READ: Final = frozenset({"readonly"})
_READ_FAST: Final = frozenset({"readonly", "fast"})


def container(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP or XINFO alone: never run, because their subcommands have rows of their own."""
    raise AssertionError("a container is dispatched to its subcommand")


def _stream(
    name: bytes,
    run: RunCommand,
    arity: int,
    flags: frozenset[str],
    summary: str,
    since: str = "5.0.0",
    *,
    key: int = 1,
) -> Command:
    """A command on one stream, whose key is argument ``key`` (0: its syntax says where)."""
    return Command(
        name,
        run,
        arity,
        flags,
        first_key=key,
        last_key=key,
        key_step=1 if key else 0,
        group="stream",
        summary=summary,
        since=since,
    )


def _generic(
    name: bytes,
    run: RunCommand,
    arity: int,
    flags: frozenset[str],
    summary: str,
    since: str = "1.0.0",
    *,
    keys: tuple[int, int, int] = (0, 0, 0),
) -> Command:
    """A command on keys of any kind."""
    first_key, last_key, key_step = keys
    return Command(
        name, run, arity, flags, first_key, last_key, key_step, "generic", summary, since
    )


_ROWS: Final = (
    _stream(b"xadd", xadd, -5, _ADD, "Appends a new message to a stream."),
    _stream(b"xlen", xlen, 2, _READ_FAST, "Return the number of messages in a stream."),
    _stream(b"xrange", xrange, -4, _READ, "Returns the messages from a stream within a range."),
    _stream(
        b"xrevrange", xrevrange, -4, _READ, "Returns the messages of a range in reverse order."
    ),
    _stream(
        b"xread",
        xread,
        -4,
        frozenset({"readonly", "blocking", "movablekeys"}),
        "Returns messages from streams with IDs greater than the ones requested.",
        key=0,
    ),
    _stream(
        b"xreadgroup",
        xreadgroup,
        -7,
        frozenset({"write", "blocking", "movablekeys"}),
        "Returns new or historical messages from streams for a consumer in a group.",
        key=0,
    ),
    _stream(b"xgroup", container, -2, _WRITE, "A container for consumer groups commands.", key=2),
    _stream(b"xgroup|create", groups.create, -5, _WRITE, "Creates a consumer group.", key=2),
    _stream(
        b"xgroup|createconsumer",
        groups.create_consumer,
        5,
        _WRITE,
        "Creates a consumer in a consumer group.",
        "6.2.0",
        key=2,
    ),
    _stream(b"xgroup|delconsumer", groups.delete_consumer, 5, _WRITE, "Deletes a consumer.", key=2),
    _stream(b"xgroup|destroy", groups.destroy, 4, _WRITE, "Destroys a consumer group.", key=2),
    _stream(
        b"xgroup|setid",
        groups.set_id,
        -5,
        _WRITE,
        "Sets the last-delivered ID of a consumer group.",
        key=2,
    ),
    _stream(b"xgroup|help", groups.show_help, 2, _READ, "Tells of the subcommands.", key=0),
    _stream(b"xack", xack, -4, _WRITE_FAST, "Acknowledges messages of a consumer group."),
    _stream(b"xpending", xpending, -3, _READ, "Returns what is pending in a consumer group."),
    _stream(b"xclaim", xclaim, -6, _WRITE_FAST, "Changes the ownership of pending messages."),
    _stream(
        b"xautoclaim",
        xautoclaim,
        -6,
        _WRITE_FAST,
        "Changes the ownership of messages that were pending for long.",
        "6.2.0",
    ),
    _stream(b"xinfo", container, -2, _READ, "A container for introspection commands.", key=2),
    _stream(b"xinfo|stream", info.show_stream, -3, _READ, "Tells of a stream.", key=2),
    _stream(b"xinfo|groups", info.show_groups, 3, _READ, "Tells of a stream's groups.", key=2),
    _stream(
        b"xinfo|consumers", info.show_consumers, 4, _READ, "Tells of a group's consumers.", key=2
    ),
    _stream(b"xinfo|help", info.show_help, 2, _READ, "Tells of the subcommands.", key=0),
    _stream(b"xdel", xdel, -3, _WRITE_FAST, "Removes messages from a stream."),
    _stream(b"xtrim", xtrim, -4, _WRITE, "Deletes messages from the beginning of a stream."),
    _stream(b"xsetid", xsetid, -3, _ADD, "Sets the last-generated ID of a stream."),
    _generic(b"del", delete, -2, _WRITE, "Deletes one or more keys.", keys=(1, -1, 1)),
    _generic(
        b"unlink", delete, -2, _WRITE_FAST, "Deletes one or more keys.", "4.0.0", keys=(1, -1, 1)
    ),
    _generic(b"exists", exists, -2, _READ_FAST, "Tells how many keys exist.", keys=(1, -1, 1)),
    _generic(b"type", type_of, 2, _READ_FAST, "Tells the type of a key.", keys=(1, 1, 1)),
    _generic(b"keys", keys, 2, _READ, "Returns all key names that match a pattern."),
    _generic(b"scan", scan, -2, _READ, "Iterates over the key names.", "2.8.0"),
    _generic(b"rename", rename, 3, _WRITE, "Renames a key, overwriting.", keys=(1, 2, 1)),
    _generic(
        b"renamenx",
        renamenx,
        3,
        _WRITE_FAST,
        "Renames a key if the target does not exist.",
        keys=(1, 2, 1),
    ),
    _generic(b"dbsize", dbsize, 1, _READ_FAST, "Returns the number of keys."),
    _generic(b"flushall", flushall, -1, _WRITE, "Removes all keys."),
    _generic(b"flushdb", flushall, -1, _WRITE, "Removes all keys of the database."),
    _generic(
        b"crdt.digest", digest, -1, _READ, "A digest of the replicated state, equal in all regions."
    ),
)

COMMANDS: Final[dict[bytes, Command]] = {row.name: row for row in _ROWS}
