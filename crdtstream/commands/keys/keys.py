"""DEL, EXISTS, TYPE, TOUCH, KEYS, SCAN, RANDOMKEY, FLUSHALL: whole keys, streams and strings.

An expired key is not among them, though the effect that deletes it may not have arrived yet.
"""

from typing import Final

from crdtstream.commands.arguments import (
    NO_SUCH_DATABASE,
    SYNTAX_ERROR,
    int32,
    integer,
    only_database,
)
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.keys.copying import SAME_OBJECT
from crdtstream.commands.keys.deleting import delete_keys, flush_key, read_for_deletes
from crdtstream.commands.lookup import exists
from crdtstream.commands.reply import OK, CommandError, Reply, Status
from crdtstream.core.ids import U64_MAX, Millis, parse_u64
from crdtstream.core.replica import Replica

SCAN_COUNT_DEFAULT: Final = 10


def delete(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DEL / UNLINK key [key …]: how many keys existed.

    Each removes the entries and strings that this region has observed; what is added elsewhere at
    the same time stays.  Groups are deleted, whatever happened elsewhere (AA, "Conflict
    resolution").
    """
    return delete_keys(replica, argv[1:])


def count_existing(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EXISTS key [key …]: how many of them exist; one named twice counts twice."""
    return sum(exists(replica, key) for key in argv[1:])


def touch(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """TOUCH key [key …]: how many of them exist.  When a key was last read is not kept."""
    return count_existing(replica, now, argv)


def type_of(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """TYPE key: ``stream``, ``string`` or ``none``."""
    return Status(_type_of(replica, argv[1]))


def _type_of(replica: Replica, key: bytes) -> bytes:
    if replica.stream(key) is not None:
        return b"stream"
    return b"none" if replica.keys.string(key) is None else b"string"


def keys(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """KEYS pattern.  Cost: O(all keys)."""
    matches = compile_glob(argv[1])
    return [key for key in replica if matches(key)]


def scan(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SCAN cursor [MATCH pattern] [COUNT n] [TYPE t]: next cursor and keys.

    A key that exists during the whole iteration is returned exactly once.
    """
    cursor = parse_u64(argv[1])
    if cursor is None:
        raise CommandError("ERR invalid cursor")
    count = SCAN_COUNT_DEFAULT
    matches = None
    wanted_type = None
    at = 2
    while at < len(argv):
        option = argv[at].lower()
        if at + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        value = argv[at + 1]
        if option == b"count":
            count = integer(value)
            if count < 1:
                raise CommandError(SYNTAX_ERROR)
        elif option == b"match":
            matches = compile_glob(value)
        elif option == b"type":
            wanted_type = value.lower()
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 2
    next_cursor, found = replica.keys.scan(min(cursor, U64_MAX), count)
    if wanted_type is not None:
        found = [key for key in found if _type_of(replica, key) == wanted_type]
    if matches is not None:
        found = [key for key in found if matches(key)]
    reply_keys: list[Reply] = [*found]
    return [b"%d" % next_cursor, reply_keys]


def randomkey(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """RANDOMKEY: another key each time, spread over all of them; null without any."""
    return replica.keys.draw()


def dbsize(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DBSIZE: how many keys exist."""
    return len(replica)


def move(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """MOVE key db: refused, as there is one database."""
    only_database(argv[2])
    raise CommandError(SAME_OBJECT)


def swapdb(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SWAPDB index1 index2: the one database with itself."""
    first = int32(argv[1], error="ERR invalid first DB index")
    second = int32(argv[2], error="ERR invalid second DB index")
    if first != 0 or second != 0:
        raise CommandError(NO_SUCH_DATABASE)
    return OK


def flushall(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """FLUSHALL / FLUSHDB [ASYNC | SYNC]: one DEL per observed key; see ``flush_key``."""
    if len(argv) > 2 or (len(argv) == 2 and argv[1].lower() not in (b"async", b"sync")):
        raise CommandError(SYNTAX_ERROR)
    keys = replica.remembered_keys()
    read_for_deletes(replica, keys)
    for key in keys:
        flush_key(replica, key)
    return OK
