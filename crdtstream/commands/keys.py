"""DEL, EXISTS, TYPE, KEYS, SCAN, RENAME, DBSIZE, FLUSHALL: whole keys.  All of them are streams."""

from itertools import groupby
from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, integer
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import OK, CommandError, Reply, Status
from crdtstream.core.effects import DeleteKey, SetLastId
from crdtstream.core.ids import U64_MAX, Millis, parse_u64
from crdtstream.core.replica import Replica

SCAN_COUNT_DEFAULT: Final = 10
RENAME_BYTES_MAX: Final = 256 << 20


def delete(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DEL / UNLINK key [key …]: how many keys were there.

    Each takes what this region has observed; an entry added elsewhere meanwhile stays, groups go
    whatever happened elsewhere (AA, "Conflict resolution").
    """
    deleted = 0
    for key in argv[1:]:
        if replica.stream(key) is not None:
            replica.issue(DeleteKey(key))
            deleted += 1
    return deleted


def exists(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EXISTS key [key …]: how many of them exist; one named twice counts twice."""
    return sum(replica.stream(key) is not None for key in argv[1:])


def type_of(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """TYPE key: ``stream`` or ``none``."""
    return Status(b"none" if replica.stream(argv[1]) is None else b"stream")


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
    wants_streams = True
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
            wants_streams = value.lower() == b"stream"
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 2
    next_cursor, found = replica.scan_keys(min(cursor, U64_MAX), count)
    if not wants_streams:
        found = []
    elif matches is not None:
        found = [key for key in found if matches(key)]
    reply_keys: list[Reply] = [*found]
    return [b"%d" % next_cursor, reply_keys]


def rename(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """RENAME key newkey: the observed entries move under the new name, groups do not (AA)."""
    _require(replica, argv[1])
    if argv[1] != argv[2]:
        _move(replica, argv[1], argv[2])
    return OK


def renamenx(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """RENAMENX key newkey: 0, and nothing changes, if the new key exists."""
    _require(replica, argv[1])
    if replica.stream(argv[2]) is not None:
        return 0
    _move(replica, argv[1], argv[2])
    return 1


def _require(replica: Replica, key: bytes) -> None:
    if replica.stream(key) is None:
        raise CommandError("ERR no such key")


def _move(replica: Replica, source: bytes, target: bytes) -> None:
    """``rules`` 14: delete both, append again in ascending order, restore the last-generated ID.

    All entries land in this region's lane with the IDs they had; of equal IDs one remains.
    """
    stream = replica.stream(source)
    assert stream is not None
    entries = [
        (entry_id, bytes(node.fields_at(index)))
        for entry_id, same_id in groupby(stream.scan(), key=lambda found: found[0])
        for _, _, node, index in [next(same_id)]
    ]
    # One batch is one row of the log and one message: what no peer could take must not be issued.
    if sum(len(fields) for _, fields in entries) > RENAME_BYTES_MAX:
        raise CommandError(
            f"ERR the stream holds more than {RENAME_BYTES_MAX >> 20} MiB, too much to rename at "
            "once: read it and add its entries under the new name"
        )
    last_id = stream.last_id
    replica.issue(DeleteKey(source))
    if replica.stream(target) is not None:
        replica.issue(DeleteKey(target))
    for entry_id, fields in entries:
        replica.append(target, entry_id, fields)
    replica.issue(SetLastId(target, last_id))


def dbsize(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DBSIZE: how many keys exist."""
    return len(replica)


def flushall(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """FLUSHALL / FLUSHDB [ASYNC | SYNC]: one DEL per observed key (``rules`` 8)."""
    if len(argv) > 2 or (len(argv) == 2 and argv[1].lower() not in (b"async", b"sync")):
        raise CommandError(SYNTAX_ERROR)
    for key in replica.known_keys():
        replica.issue(DeleteKey(key))
    return OK


def digest(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.DIGEST [key]: equal version vectors give equal digests in every region."""
    return replica.digest(argv[1] if len(argv) > 1 else None)
