"""The commands on keys and streams: name, function, arity and flags."""

from typing import Final

from crdtstream.commands.beyond_redis.provenance import crdt_why
from crdtstream.commands.beyond_redis.tokens import crdt_token, crdt_waitfor
from crdtstream.commands.command import Command
from crdtstream.commands.groups import group_modes, groups
from crdtstream.commands.groups.claiming import xautoclaim, xclaim
from crdtstream.commands.groups.pending import xack, xnack, xpending
from crdtstream.commands.groups.read_group import xreadgroup
from crdtstream.commands.keys import expiry, memory, objects
from crdtstream.commands.keys.copying import copy, rename, renamenx
from crdtstream.commands.keys.cursor import crdt_xread
from crdtstream.commands.keys.dumping import dump, restore
from crdtstream.commands.keys.keys import (
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
from crdtstream.commands.reply import Reply
from crdtstream.commands.streams import xinfo as info
from crdtstream.commands.streams.delete_policies import xackdel, xdelex
from crdtstream.commands.streams.idempotent_xadd import xcfgset
from crdtstream.commands.streams.range import xdel, xlen, xrange, xrevrange, xsetid, xtrim
from crdtstream.commands.streams.read import xread
from crdtstream.commands.streams.xadd import xadd
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


_ROWS: Final = (
    Command(b"xadd", xadd, -5, _ADD),
    Command(b"xlen", xlen, 2, _READ_FAST),
    Command(b"xrange", xrange, -4, _READ),
    Command(b"xrevrange", xrevrange, -4, _READ),
    Command(b"xread", xread, -4, frozenset({"readonly", "blocking", "movablekeys"})),
    Command(b"xreadgroup", xreadgroup, -7, frozenset({"write", "blocking", "movablekeys"})),
    Command(b"xgroup", container, -2, _WRITE),
    Command(b"xgroup|create", groups.create, -5, _WRITE),
    Command(b"xgroup|createconsumer", groups.create_consumer, 5, _WRITE),
    Command(b"xgroup|delconsumer", groups.delete_consumer, 5, _WRITE),
    Command(b"xgroup|destroy", groups.destroy, 4, _WRITE),
    Command(b"xgroup|setid", groups.set_id, -5, _WRITE),
    Command(b"xgroup|help", groups.show_help, 2, _READ),
    Command(b"xack", xack, -4, _WRITE_FAST),
    Command(b"xpending", xpending, -3, _READ),
    Command(b"xclaim", xclaim, -6, _WRITE_FAST),
    Command(b"xautoclaim", xautoclaim, -6, _WRITE_FAST),
    Command(b"xinfo", container, -2, _READ),
    Command(b"xinfo|stream", info.show_stream, -3, _READ),
    Command(b"xinfo|groups", info.show_groups, 3, _READ),
    Command(b"xinfo|consumers", info.show_consumers, 4, _READ),
    Command(b"xinfo|help", info.show_help, 2, _READ),
    Command(b"xdel", xdel, -3, _WRITE_FAST),
    Command(b"xtrim", xtrim, -4, _WRITE),
    Command(b"xdelex", xdelex, -5, _WRITE_FAST),
    Command(b"xackdel", xackdel, -6, _WRITE_FAST),
    Command(b"xcfgset", xcfgset, -2, _WRITE_FAST),
    Command(b"xnack", xnack, -7, _WRITE_FAST),
    Command(b"xsetid", xsetid, -3, _ADD),
    Command(b"del", delete, -2, _WRITE),
    Command(b"unlink", delete, -2, _WRITE_FAST),
    Command(b"exists", exists, -2, _READ_FAST),
    Command(b"touch", touch, -2, _READ_FAST),
    Command(b"type", type_of, 2, _READ_FAST),
    Command(b"keys", keys, 2, _READ),
    Command(b"scan", scan, -2, _READ),
    Command(b"rename", rename, 3, _WRITE),
    Command(b"renamenx", renamenx, 3, _WRITE_FAST),
    Command(b"copy", copy, -3, _WRITE_DENYOOM),
    Command(b"dump", dump, 2, _READ),
    Command(b"restore", restore, -4, _WRITE_DENYOOM),
    Command(b"move", move, 3, _WRITE_FAST),
    Command(b"swapdb", swapdb, 3, _WRITE_FAST),
    Command(b"randomkey", randomkey, 1, _READ),
    Command(b"expire", expiry.expire, -3, _WRITE_FAST),
    Command(b"pexpire", expiry.pexpire, -3, _WRITE_FAST),
    Command(b"expireat", expiry.expireat, -3, _WRITE_FAST),
    Command(b"pexpireat", expiry.pexpireat, -3, _WRITE_FAST),
    Command(b"ttl", expiry.ttl, 2, _READ_FAST),
    Command(b"pttl", expiry.pttl, 2, _READ_FAST),
    Command(b"expiretime", expiry.expiretime, 2, _READ_FAST),
    Command(b"pexpiretime", expiry.pexpiretime, 2, _READ_FAST),
    Command(b"persist", expiry.persist, 2, _WRITE_FAST),
    Command(b"object", container, -2),
    Command(b"object|encoding", objects.encoding, 3, _READ),
    Command(b"object|freq", objects.freq, 3, _READ),
    Command(b"object|idletime", objects.idletime, 3, _READ),
    Command(b"object|refcount", objects.refcount, 3, _READ),
    Command(b"object|help", objects.show_help, 2, frozenset({"loading", "stale"})),
    # MEMORY itself and its other subcommands are about the process, and so the server's.
    Command(b"memory|usage", memory.usage, -3, _READ),
    Command(b"dbsize", dbsize, 1, _READ_FAST),
    Command(b"flushall", flushall, -1, _WRITE),
    Command(b"flushdb", flushall, -1, _WRITE),
    Command(b"crdt.xread", crdt_xread, -3, frozenset({"readonly", "blocking", "names_dots"})),
    Command(b"crdt.why", crdt_why, 3, _READ),
    Command(b"crdt.xgroup", container, -2, _READ),
    Command(b"crdt.xgroup|setmode", group_modes.set_mode, -5, _WRITE),
    Command(b"crdt.xgroup|getmode", group_modes.get_mode, 4, _READ),
    Command(b"crdt.xgroup|help", group_modes.show_help, 2, _READ),
    Command(b"crdt.token", crdt_token, 1, frozenset({"readonly", "fast", "names_dots"})),
    Command(b"crdt.waitfor", crdt_waitfor, 3, frozenset({"blocking"})),
    Command(b"crdt.digest", digest, -1, _READ),
)

COMMANDS: Final[dict[bytes, Command]] = {row.name: row for row in _ROWS}
