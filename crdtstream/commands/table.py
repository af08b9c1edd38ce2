"""The commands on keys and streams: name, function, arity, flags and where their keys stand."""

from typing import Final

from crdtstream.commands import expiry, group_modes, groups, info, memory, objects
from crdtstream.commands.append import xadd
from crdtstream.commands.claiming import xautoclaim, xclaim
from crdtstream.commands.command import Command, RunCommand
from crdtstream.commands.copying import copy, rename, renamenx
from crdtstream.commands.cursor import crdt_xread
from crdtstream.commands.dumping import dump, restore
from crdtstream.commands.idempotence import xcfgset
from crdtstream.commands.keys import (
    dbsize,
    delete,
    digest,
    exists,
    flushall,
    keys,
    move,
    randomkey,
    scan,
    swapdb,
    touch,
    type_of,
)
from crdtstream.commands.pending import xack, xnack, xpending
from crdtstream.commands.provenance import crdt_why
from crdtstream.commands.range import xdel, xlen, xrange, xrevrange, xsetid, xtrim
from crdtstream.commands.read import xread
from crdtstream.commands.read_group import xreadgroup
from crdtstream.commands.references import xackdel, xdelex
from crdtstream.commands.reply import Reply
from crdtstream.commands.tokens import crdt_token, crdt_waitfor
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

_WRITE: Final = frozenset({"write"})
_WRITE_FAST: Final = frozenset({"write", "fast"})
_ADD: Final = frozenset({"write", "denyoom", "fast"})
_WRITE_DENYOOM: Final = frozenset({"write", "denyoom"})
_READ: Final = frozenset({"readonly"})
_READ_FAST: Final = frozenset({"readonly", "fast"})


def container(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XGROUP, OBJECT … alone: never run, because their subcommands have rows of their own."""
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
    _stream(
        b"xdelex",
        xdelex,
        -5,
        _WRITE_FAST,
        "Removes messages, and says what becomes of references to them.",
        "8.2.0",
    ),
    _stream(b"xackdel", xackdel, -6, _WRITE_FAST, "Acknowledges and removes messages.", "8.2.0"),
    _stream(
        b"xcfgset",
        xcfgset,
        -2,
        _WRITE_FAST,
        "Sets how long a stream recognises idempotent messages.",
        "8.6.0",
    ),
    _stream(b"xnack", xnack, -7, _WRITE_FAST, "Gives pending messages back to the group.", "8.8.0"),
    _stream(b"xsetid", xsetid, -3, _ADD, "Sets the last-generated ID of a stream."),
    _generic(b"del", delete, -2, _WRITE, "Deletes one or more keys.", keys=(1, -1, 1)),
    _generic(
        b"unlink", delete, -2, _WRITE_FAST, "Deletes one or more keys.", "4.0.0", keys=(1, -1, 1)
    ),
    _generic(b"exists", exists, -2, _READ_FAST, "Tells how many keys exist.", keys=(1, -1, 1)),
    _generic(b"touch", touch, -2, _READ_FAST, "Counts keys that exist.", "3.2.1", keys=(1, -1, 1)),
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
    _generic(
        b"copy",
        copy,
        -3,
        _WRITE_DENYOOM,
        "Copies the value of a key to another key.",
        "6.2.0",
        keys=(1, 2, 1),
    ),
    _generic(b"dump", dump, 2, _READ, "Turns a key into bytes.", "2.6.0", keys=(1, 1, 1)),
    _generic(
        b"restore",
        restore,
        -4,
        _WRITE_DENYOOM,
        "Makes a key of the bytes that DUMP gave.",
        "2.6.0",
        keys=(1, 1, 1),
    ),
    _generic(b"move", move, 3, _WRITE_FAST, "Moves a key to another database.", keys=(1, 1, 1)),
    _generic(b"swapdb", swapdb, 3, _WRITE_FAST, "Swaps two databases.", "4.0.0"),
    _generic(b"randomkey", randomkey, 1, _READ, "Returns some key."),
    *(
        _generic(name, run, -3, _WRITE_FAST, "Lets a key end.", since, keys=(1, 1, 1))
        for name, run, since in (
            (b"expire", expiry.expire, "1.0.0"),
            (b"pexpire", expiry.pexpire, "2.6.0"),
            (b"expireat", expiry.expireat, "1.2.0"),
            (b"pexpireat", expiry.pexpireat, "2.6.0"),
        )
    ),
    *(
        _generic(name, run, 2, _READ_FAST, "Tells when a key ends.", since, keys=(1, 1, 1))
        for name, run, since in (
            (b"ttl", expiry.ttl, "1.0.0"),
            (b"pttl", expiry.pttl, "2.6.0"),
            (b"expiretime", expiry.expiretime, "7.0.0"),
            (b"pexpiretime", expiry.pexpiretime, "7.0.0"),
        )
    ),
    _generic(
        b"persist",
        expiry.persist,
        2,
        _WRITE_FAST,
        "Lets a key end no more.",
        "2.2.0",
        keys=(1, 1, 1),
    ),
    _generic(b"object", container, -2, frozenset(), "A container for how a key is kept.", "2.2.3"),
    *(
        _generic(name, run, 3, _READ, "Tells how a key is kept.", since, keys=(2, 2, 1))
        for name, run, since in (
            (b"object|encoding", objects.encoding, "2.2.3"),
            (b"object|freq", objects.freq, "4.0.0"),
            (b"object|idletime", objects.idletime, "2.2.3"),
            (b"object|refcount", objects.refcount, "2.2.3"),
        )
    ),
    _generic(
        b"object|help",
        objects.show_help,
        2,
        frozenset({"loading", "stale"}),
        "Tells of the subcommands.",
        "6.2.0",
    ),
    # MEMORY itself and its other subcommands are about the process, and so the server's.
    _generic(
        b"memory|usage",
        memory.usage,
        -3,
        _READ,
        "Estimates the memory that a key takes.",
        "4.0.0",
        keys=(2, 2, 1),
    ),
    _generic(b"dbsize", dbsize, 1, _READ_FAST, "Returns the number of keys."),
    _generic(b"flushall", flushall, -1, _WRITE, "Removes all keys."),
    _generic(b"flushdb", flushall, -1, _WRITE, "Removes all keys of the database."),
    _stream(
        b"crdt.xread",
        crdt_xread,
        -3,
        frozenset({"readonly", "blocking", "names_dots"}),
        "Returns the entries that a cursor has not had; skips none.",
        "0.1.0",
    ),
    _stream(b"crdt.why", crdt_why, 3, _READ, "Tells where an entry comes from.", "0.1.0"),
    _stream(
        b"crdt.xgroup",
        container,
        -2,
        _READ,
        "A container for commands on how regions share a group.",
        "0.1.0",
        key=2,
    ),
    _stream(
        b"crdt.xgroup|setmode",
        group_modes.set_mode,
        -5,
        _WRITE,
        "Sets who hands out a group's entries.",
        "0.1.0",
        key=2,
    ),
    _stream(
        b"crdt.xgroup|getmode",
        group_modes.get_mode,
        4,
        _READ,
        "Tells who hands out a group's entries.",
        "0.1.0",
        key=2,
    ),
    _stream(
        b"crdt.xgroup|help",
        group_modes.show_help,
        2,
        _READ,
        "Tells of the subcommands.",
        "0.1.0",
        key=0,
    ),
    _generic(
        b"crdt.token",
        crdt_token,
        1,
        frozenset({"readonly", "fast", "names_dots"}),
        "Returns a token for all that this region has.",
        "0.1.0",
    ),
    _generic(
        b"crdt.waitfor",
        crdt_waitfor,
        3,
        frozenset({"blocking"}),
        "Waits until this region has all that a token stands for.",
        "0.1.0",
    ),
    _generic(
        b"crdt.digest", digest, -1, _READ, "A digest of the replicated state, equal in all regions."
    ),
)

COMMANDS: Final[dict[bytes, Command]] = {row.name: row for row in _ROWS}
