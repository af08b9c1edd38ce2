"""RENAME, RENAMENX, COPY: a key under another name (``rules`` 14).

A string's value is copied with its deadline; of concurrent values, the one that counts.  Of a
stream all entries are appended again, in this region's lane, with the IDs they had; of equal IDs in
several lanes one remains.  Their idempotent ids, the counters, the last-generated ID, the XCFGSET
settings and the deadline come along.  Groups do not (AA): their positions are per lane, and the new
stream has other lanes.  A key that has both a stream and a string keeps both.

It is one batch, so that every region sees all of it or nothing.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple

from crdtstream.commands import announced
from crdtstream.commands.arguments import SYNTAX_ERROR, only_database
from crdtstream.commands.keys.deleting import delete_key, delete_keys
from crdtstream.commands.lookup import NO_SUCH_KEY, exists
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.commands.string_room import check_room_for_strings
from crdtstream.core.effects import (
    DeleteKey,
    IdempotentId,
    SetExpiry,
    SetLastId,
    SetStreamConfig,
    SetString,
)
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.bulk_reading import Columns
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.slices import Slice
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size

# One batch is one record of the log and one message: what no peer can take must not be issued.
COPY_BYTES_MAX: Final = Size(256 << 20, least=1, scope=Scope.CLIENTS)
# Macro nodes whose entries are copied as one run.  Several runs are joined once more for the batch.
RUN_NODES: Final = Size(1024, least=1)
# An entry's numbers in a batch: two halves of its ID, a length, which key.
ENTRY_BYTES: Final = 24

SAME_OBJECT: Final = "ERR source and destination objects are the same"


class Entry(NamedTuple):
    """An entry that is to be appended.

    Attributes:
        fields: RESP, as ``Append`` has it.
    """

    id: StreamId
    fields: bytes
    idempotent: IdempotentId | None


def size_of(entry: Entry | EntryRun) -> int:
    """Bytes that an entry, or all of a run, take in a batch, or a little more."""
    if isinstance(entry, EntryRun):
        return ENTRY_BYTES * len(entry.ms) + len(entry.fields)
    names = 0 if entry.idempotent is None else sum(map(len, entry.idempotent)) + ENTRY_BYTES
    return ENTRY_BYTES + len(entry.fields) + names


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a stream that can be copied: all except its groups and its deadline.

    Attributes:
        entries: some one by one, and runs of them; IDs ascend.
        last_id: the last-generated ID, not below the last entry's.
        entries_added: not below the number of entries.
        max_deleted_id: 0-0 if nothing was removed, else not above ``last_id``.
        idmp_duration_s, idmp_maxsize: what XCFGSET said, None where it did not.
    """

    entries: Sequence[Entry | EntryRun]
    last_id: StreamId
    entries_added: int
    max_deleted_id: StreamId
    idmp_duration_s: int | None
    idmp_maxsize: int | None

    @property
    def size(self) -> int:
        """Bytes that the entries take in a batch, or a little more."""
        return sum(map(size_of, self.entries))

    @property
    def count(self) -> int:
        """Number of entries."""
        return sum(len(one.ms) if isinstance(one, EntryRun) else 1 for one in self.entries)


def contents_of(replica: Replica, key: bytes, *, bytes_max: int, verb: str) -> Contents:
    """Contents of an existing key's stream.

    Raises:
        CommandError: its entries take more than ``bytes_max``; the text says what to do instead of
            ``verb``.

    Cost: O(entries).
    """
    stream = replica.stream(key)
    assert stream is not None, "the caller has looked"
    entries = _entries_within(stream, bytes_max)
    if entries is None:
        raise CommandError(
            f"ERR the stream holds more than {bytes_max >> 20} MiB, too much to {verb} at once: "
            "read it in parts and add its entries to the new one"
        )
    contents = Contents(entries, stream.last_id, 0, ID_MIN, None, None)
    count = contents.count
    dropped = stream.length - count
    lanes = stream.lanes.values()
    duration_s, maxsize = replica.keys.idmp_settings_of(key)
    return replace(
        contents,
        entries_added=max(count, sum(lane.entries_added for lane in lanes) - dropped),
        max_deleted_id=min(
            stream.last_id, max((lane.max_deleted_id for lane in lanes), default=ID_MIN)
        ),
        idmp_duration_s=duration_s,
        idmp_maxsize=maxsize,
    )


def _entries_within(stream: Stream, bytes_max: int) -> list[Entry | EntryRun] | None:
    """One entry of each ID, in ascending order; None if they take more than ``bytes_max``."""
    lanes = stream.filled_lanes()
    found = _entries_of(lanes[0]) if len(lanes) == 1 else _merged(stream)
    entries: list[Entry | EntryRun] = []
    size = 0
    for entry in found:
        size += size_of(entry)
        if size > bytes_max:
            return None
        entries.append(entry)
    return entries


def _merged(stream: Stream) -> Iterator[Entry]:
    for entry_id, same_id in groupby(stream.scan(), key=lambda found: found[0]):
        _, _, node, index = next(same_id)
        yield Entry(entry_id, bytes(node.fields_at(index)), node.idempotent_at(index))


def _entries_of(lane: Lane) -> Iterator[Entry | EntryRun]:
    """The entries of a lane: runs of neighbouring macro nodes in which none has a name."""
    slices: list[Slice] = []
    for node, start, stop in lane.scan_nodes(ID_MIN, ID_MAX):
        columns = node.columns
        has_names = columns.idempotent or columns.numbered
        if slices and (has_names or len(slices) >= RUN_NODES.value):
            yield _run_of(slices)
            slices.clear()
        if has_names:
            for at in range(start, stop):
                yield Entry(
                    columns.id_at(at), bytes(columns.fields_at(at)), columns.idempotent_at(at)
                )
            continue
        slices.append((node, start, stop))
    if slices:
        yield _run_of(slices)


def _run_of(slices: list[Slice]) -> EntryRun:
    some = Columns(slices)
    return EntryRun(
        array("Q", some.ms), array("Q", some.seq), array("I", some.lengths), some.fields
    )


def check_room(replica: Replica, contents: Contents) -> None:
    """Refuse what would be too much for one batch, with what this tick has issued already.

    Raises:
        CommandError: it is.  To be called before anything is changed.
    """
    if contents.size + replica.open_bytes > COPY_BYTES_MAX.value:
        raise CommandError(
            f"ERR more than {COPY_BYTES_MAX.value >> 20} MiB in one transaction or pipeline, too "
            "much to replicate at once: send this command by itself"
        )


def put(replica: Replica, key: bytes, contents: Contents, deadline: Millis | None) -> None:
    """Make a key, which must not exist here, with these contents."""
    if replica.floor_of(key):
        # Their IDs may be lower than what groups elsewhere have read under this name.
        replica.issue(DeleteKey(key))
    settings = contents.idmp_duration_s, contents.idmp_maxsize
    if settings != (None, None):
        # Before the ids that they bound; and they need an existing key.
        replica.issue(SetLastId(key, ID_MIN))
        replica.issue(SetStreamConfig(key, *settings))
    for entry in contents.entries:
        if isinstance(entry, EntryRun):
            replica.append_run(key, entry)
        else:
            replica.append(key, entry.id, entry.fields, entry.idempotent)
    replica.issue(
        SetLastId(key, contents.last_id, contents.entries_added, contents.max_deleted_id or None)
    )
    if deadline is not None:
        replica.issue(SetExpiry(key, deadline))


# --- Commands -----------------------------------------------------------------------------------


def rename(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """RENAME key newkey: a key with the new name that exists here is deleted."""
    source, target = argv[1:3]
    _require(replica, source)
    if source != target:
        _move(replica, source, target)
    return OK


def renamenx(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """RENAMENX key newkey: 0, and nothing changes, if the new key exists."""
    source, target = argv[1:3]
    _require(replica, source)
    if exists(replica, target):
        return 0
    _move(replica, source, target)
    return 1


def _require(replica: Replica, key: bytes) -> None:
    if not exists(replica, key):
        raise CommandError(NO_SUCH_KEY)


def _move(replica: Replica, source: bytes, target: bytes) -> None:
    parts = _parts_of(replica, source, verb="rename")
    with replica.announcing(*announced.of_rename(replica, source, target)):
        delete_keys(replica, (source, target))
        _put_parts(replica, target, parts)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Contents of a key: a stream, a string, or both, each with its deadline."""

    contents: Contents | None
    deadline: Millis | None
    string: bytes | None
    string_deadline: Millis | None


def _parts_of(replica: Replica, key: bytes, *, verb: str) -> _Parts:
    """Contents of an existing key.

    Raises:
        CommandError: more than one batch may have.
    """
    contents = None
    if replica.stream(key) is not None:
        contents = contents_of(replica, key, bytes_max=COPY_BYTES_MAX.value, verb=verb)
        check_room(replica, contents)
    string = replica.keys.string(key)
    if string is not None:
        check_room_for_strings(replica, len(string.data) + (contents.size if contents else 0))
    return _Parts(
        contents,
        replica.keys.expiry.of(key),
        None if string is None else string.data,
        replica.keys.string_expiry.of(key),
    )


def _put_parts(replica: Replica, key: bytes, parts: _Parts) -> None:
    """Make a key, which must not exist here, of what another one held."""
    if parts.contents is not None:
        put(replica, key, parts.contents, parts.deadline)
    if parts.string is not None:
        replica.issue(SetString(key, parts.string, parts.string_deadline))


def copy(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """COPY source destination [DB n] [REPLACE]: 1 if it was copied.

    0, and nothing changes, without a source, or with a destination and no REPLACE.
    """
    replaces = _copy_options(argv)
    source, target = argv[1:3]
    if source == target:
        raise CommandError(SAME_OBJECT)
    if not exists(replica, source) or (not replaces and exists(replica, target)):
        return 0
    parts = _parts_of(replica, source, verb="copy")
    with replica.announcing(*announced.of_copy(replica, source, target)):
        delete_key(replica, target)
        _put_parts(replica, target, parts)
    return 1


def _copy_options(argv: list[bytes]) -> bool:
    """True if REPLACE is among the options; the database that DB names must be this one."""
    replaces = False
    at = 3
    while at < len(argv):
        option = argv[at].lower()
        if option == b"replace":
            replaces = True
            at += 1
        elif option == b"db" and at + 1 < len(argv):
            only_database(argv[at + 1])
            at += 2
        else:
            raise CommandError(SYNTAX_ERROR)
    return replaces
