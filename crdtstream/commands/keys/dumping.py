"""DUMP and RESTORE: a key as bytes that a client can keep, and bring back in any region.

A payload is a frame around the batch that would make the stream, under an empty key, compressed:

    "crdtstream dump"  02   zlib( EffectBatch: appends, SetStreamConfig, SetLastId )  blake2b
       15 bytes      version                                                          16 bytes

The hash covers everything before it.  The payload has the entries of all lanes, one of each ID,
with their idempotent ids, the counters, the last-generated ID and the XCFGSET settings.  It has no
groups, as in RENAME, and no deadline, as in Redis, where RESTORE takes a new one.  Equal contents
make equal payloads, in every region.  Of a string the batch is one SetString.

RESTORE trusts nothing: a hash only detects accidents.  It checks everything before it changes
anything.
"""

import zlib
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from crdtstream.commands import announced
from crdtstream.commands.arguments import I64_MAX, SYNTAX_ERROR, integer
from crdtstream.commands.keys.copying import (
    Contents,
    Entry,
    check_room,
    contents_of,
    put,
)
from crdtstream.commands.keys.deleting import delete_key
from crdtstream.commands.lookup import exists
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.commands.string_room import check_room_for_strings
from crdtstream.core.effects import (
    AppendColumns,
    EffectBatch,
    SetLastId,
    SetStreamConfig,
    SetString,
)
from crdtstream.core.fields import are_fields
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId, make_id
from crdtstream.core.issuing.open_batch import OpenBatch
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.lanes.lane import ascends
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size
from crdtstream.core.wire.codec import BatchError, decode_batch, encode_batch

MAGIC: Final = b"crdtstream dump"
VERSION: Final = 2
HASH_BYTES: Final = 16
# Compressed or not: less than a client may leave unread (256 MiB), or send (512 MiB).
DUMP_BYTES_MAX: Final = Size(128 << 20, least=1, scope=Scope.CLIENTS)
# What stands in a batch around the entries.
_FRAMING_BYTES_MAX: Final = 4096
# The fastest level; the numbers of neighbouring entries are much alike.
ZLIB_LEVEL: Final = 1

BAD_PAYLOAD: Final = "ERR DUMP payload version or checksum are wrong"
BAD_DATA: Final = "ERR Bad data format"
BUSY_KEY: Final = "BUSYKEY Target key name already exists."

_KEY: Final = b""
_ORIGIN: Final = RegionId(1)
_NEVER: Final = Millis(0)


# --- Payloads -----------------------------------------------------------------------------------


def encode_dump(contents: Contents) -> bytes:
    """The payload of a stream's contents."""
    batch = OpenBatch(1)
    for entry in contents.entries:
        if isinstance(entry, EntryRun):
            batch.append_run(_KEY, entry)
        else:
            batch.append(_KEY, entry.id, entry.fields, entry.idempotent)
    settings = contents.idmp_duration_s, contents.idmp_maxsize
    if settings != (None, None):
        batch.add(SetStreamConfig(_KEY, *settings))
    batch.add(
        SetLastId(_KEY, contents.last_id, contents.entries_added, contents.max_deleted_id or None)
    )
    return frame(encode_batch(batch.close(_ORIGIN, {}, _NEVER)))


def encode_string_dump(value: bytes) -> bytes:
    """The payload of a string."""
    batch = OpenBatch(1)
    batch.add(SetString(_KEY, value, None))
    return frame(encode_batch(batch.close(_ORIGIN, {}, _NEVER)))


def frame(batch: bytes) -> bytes:
    """An encoded batch as payload."""
    payload = MAGIC + bytes([VERSION]) + zlib.compress(batch, ZLIB_LEVEL)
    return payload + _hash(payload)


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=HASH_BYTES).digest()


def decode_dump(payload: bytes) -> Contents | bytes:
    """The contents that a payload holds, or the value of a string.

    Raises:
        CommandError: it is not a payload of ours, is damaged, or holds what no key can hold.
    """
    batch = _decode(_unframe(payload))
    match batch.others:
        case [(_, SetString(key, value, None))] if key == _KEY and batch.count == 1:
            return value
    _check_columns(batch.appends)
    last = _last_effect(batch)
    config = _config(batch)
    entries = _entries(batch.appends)
    contents = Contents(
        entries=entries,
        last_id=last.id,
        entries_added=last.entries_added or 0,
        max_deleted_id=last.max_deleted_id or ID_MIN,
        idmp_duration_s=config.idmp_duration_s,
        idmp_maxsize=config.idmp_maxsize,
    )
    _check_contents(contents, entries[-1].id if entries else ID_MIN)
    return contents


def _unframe(payload: bytes) -> bytes:
    if payload[: len(MAGIC)] != MAGIC:
        raise CommandError(
            f"{BAD_PAYLOAD}: not made by the DUMP of crdtstream; to bring a stream of another "
            "server, read its entries with XRANGE and add them with XADD"
        )
    if payload[len(MAGIC) : len(MAGIC) + 1] != bytes([VERSION]):
        raise CommandError(
            f"{BAD_PAYLOAD}: a version that this node does not read; DUMP the key again, on a "
            "node of the same version as this one"
        )
    if payload[-HASH_BYTES:] != _hash(payload[:-HASH_BYTES]):
        raise CommandError(f"{BAD_PAYLOAD}: the payload was cut or changed; DUMP it again")
    unzip = zlib.decompressobj()
    try:
        batch = unzip.decompress(
            payload[len(MAGIC) + 1 : -HASH_BYTES], DUMP_BYTES_MAX.value + _FRAMING_BYTES_MAX
        )
    except zlib.error as error:
        raise _bad_data("not compressed as it should be") from error
    if not unzip.eof or unzip.unused_data:
        raise _bad_data(f"not one stream of at most {DUMP_BYTES_MAX.value >> 20} MiB")
    return batch


def _bad_data(what: str) -> CommandError:
    return CommandError(f"{BAD_DATA}: {what}")


def _decode(data: bytes) -> EffectBatch:
    try:
        return decode_batch(data)
    except BatchError as error:
        raise _bad_data(str(error)) from error


def _check_columns(columns: AppendColumns) -> None:
    if columns.keys and columns.keys != [_KEY]:
        raise _bad_data("entries of a named key")
    if not ascends(columns.ms, columns.seq, above=ID_MIN):
        raise _bad_data("IDs do not ascend")
    ends = list(accumulate(columns.lengths, initial=0))
    if not all(map(are_fields, [columns.fields] * len(columns.lengths), ends, ends[1:])):
        raise _bad_data("the fields of an entry are no array of field and value strings")
    if not all(all(names) for names in columns.idempotent.values()):
        raise _bad_data("an empty producer or idempotent id")


def _last_effect(batch: EffectBatch) -> SetLastId:
    """It must be there, and behind all others."""
    last = batch.others[-1][1] if batch.others else None
    if not isinstance(last, SetLastId) or last.key != _KEY:
        raise _bad_data("no last-generated ID")
    return last


def _config(batch: EffectBatch) -> SetStreamConfig:
    match batch.others:
        case [_]:
            return SetStreamConfig(_KEY, None, None)
        case [(_, SetStreamConfig(key) as config), _] if key == _KEY:
            if config.idmp_duration_s == 0 or config.idmp_maxsize == 0:
                raise _bad_data("a duration or size of 0")
            return config
    raise _bad_data("effects that no stream is made by")


def _entries(columns: AppendColumns) -> list[Entry]:
    ends = list(accumulate(columns.lengths, initial=0))
    return [
        Entry(make_id(ms, seq), columns.fields[start:end], columns.idempotent.get(at))
        for at, (ms, seq, start, end) in enumerate(
            zip(columns.ms, columns.seq, ends, ends[1:], strict=False)
        )
    ]


def _check_contents(contents: Contents, last_entry_id: StreamId) -> None:
    if contents.last_id < max(last_entry_id, contents.max_deleted_id):
        raise _bad_data("the last-generated ID is below one that was generated")
    if not contents.count <= contents.entries_added <= I64_MAX:
        raise _bad_data("fewer entries added than there are")


# --- Commands -----------------------------------------------------------------------------------


def dump(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """DUMP key: the payload of what clients see of the key, null without a key.

    Cost: O(entries).
    """
    key = argv[1]
    if replica.stream(key) is not None:
        return encode_dump(contents_of(replica, key, bytes_max=DUMP_BYTES_MAX.value, verb="dump"))
    string = replica.keys.string(key)
    if string is None:
        return None
    if len(string.data) > DUMP_BYTES_MAX.value:
        raise CommandError(
            f"ERR the string has more than {DUMP_BYTES_MAX.value >> 20} MiB, too much to dump at "
            "once: read it with GET and write it with SET"
        )
    return encode_string_dump(string.data)


@dataclass(slots=True)
class _Options:
    """Options behind the payload; idle time and frequency are checked, and not kept."""

    replaces: bool = False
    is_absolute: bool = False
    idle_s: int | None = None
    frequency: int | None = None


def restore(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency].

    The entries land in this region's lane with the IDs they had, whatever the ID mode.  A
    deadline that has passed leaves no key.

    Raises:
        CommandError: an argument or the payload is wrong, or the key exists.  Nothing has changed
            then.

    Source: the order of the checks is Redis's.
    """
    options = _restore_options(argv)
    key = argv[1]
    if not options.replaces and exists(replica, key):
        raise CommandError(BUSY_KEY)
    ttl_ms = integer(argv[2])
    if ttl_ms < 0:
        raise CommandError("ERR Invalid TTL value, must be >= 0")
    contents = decode_dump(argv[3])
    if isinstance(contents, Contents):
        check_room(replica, contents)
    else:
        check_room_for_strings(replica, len(contents))
    deadline = _deadline(ttl_ms, options, now)
    if deadline is not None and deadline <= now:
        delete_key(replica, key)
        return OK
    is_stream = isinstance(contents, Contents)
    with replica.announcing(*announced.of_restore(replica, key, becomes_stream=is_stream)):
        delete_key(replica, key)
        if isinstance(contents, Contents):
            put(replica, key, contents, deadline)
        else:
            replica.issue(SetString(key, contents, deadline))
    return OK


def _restore_options(argv: list[bytes]) -> _Options:
    options = _Options()
    at = 4
    while at < len(argv):
        word = argv[at].lower()
        has_value = at + 1 < len(argv)
        at += 1
        if word == b"replace":
            options.replaces = True
        elif word == b"absttl":
            options.is_absolute = True
        elif word == b"idletime" and has_value and options.frequency is None:
            options.idle_s = integer(argv[at])
            if options.idle_s < 0:
                raise CommandError("ERR Invalid IDLETIME value, must be >= 0")
            at += 1
        elif word == b"freq" and has_value and options.idle_s is None:
            options.frequency = integer(argv[at])
            if not 0 <= options.frequency <= 255:
                raise CommandError("ERR Invalid FREQ value, must be >= 0 and <= 255")
            at += 1
        else:
            raise CommandError(SYNTAX_ERROR)
    return options


def _deadline(ttl_ms: int, options: _Options, now: Millis) -> Millis | None:
    if ttl_ms == 0:
        return None
    deadline = Millis(ttl_ms if options.is_absolute else now + ttl_ms)
    if deadline > I64_MAX:
        raise CommandError("ERR invalid expire time in 'restore' command")
    return deadline
