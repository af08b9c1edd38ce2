"""XREAD and XREADGROUP: from positions on, waiting if there is nothing yet.

A read is parsed once into what it wants of each key, with ``$`` fixed as it was on arrival.
Waiting is then running the same read again: ``Blocked.retry``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    group_or_none,
    integer,
    shown,
    strict_id,
)
from crdtstream.commands.entries import encode_entries, encode_entry, entry_or_null
from crdtstream.commands.reply import Blocked, CommandError, Encoded, Null, PerKey, Reply
from crdtstream.core.effects import CreateConsumer, Deliver, Redeliver
from crdtstream.core.group import Group
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, Region, StreamId
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

Attempt: TypeAlias = Callable[[Replica, Millis], Reply]

_MEANINGLESS: Final = (
    "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of "
    "this consumer by specifying a proper ID, or use the > ID to get new messages. The {0} ID "
    "would just return an empty result set."
)
# A timeout is added to a clock: beyond this it can only be a mistake.
_TIMEOUT_MAX_MS: Final = (1 << 63) - 1


@dataclass(slots=True)
class _Options:
    """What stands before STREAMS, and the keys and IDs behind it."""

    count: int | None = None
    block_ms: int | None = None
    group: bytes | None = None
    consumer: bytes = b""
    noack: bool = False
    keys: list[bytes] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)


def xread(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """XREAD [COUNT n] [BLOCK ms] STREAMS key … id …: entries of all lanes above each ID.

    With several writing regions an entry may come late with a low ID and is then skipped (AA,
    "Iterating a stream with XREAD").
    """
    options = _parse(argv, command="XREAD")
    positions = [
        (key, _position(replica, key, text))
        for key, text in zip(options.keys, options.ids, strict=True)
    ]
    return _answer_or_block(replica, now, options, partial(_read, positions, options.count))


def xreadgroup(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """XREADGROUP GROUP g c [COUNT n] [BLOCK ms] [NOACK] STREAMS key … id …

    ``>`` hands out what no consumer of this region got: each lane beyond its last-delivered ID, so
    an entry that comes late with a low ID is never skipped.  Any other ID reads the consumer's
    pending entries above it, and does not wait.

    Raises:
        CommandError: NOGROUP, if one of the keys or its group is missing; also when it has been
            waiting and the group goes.
    """
    options = _parse(argv, command="XREADGROUP")
    if options.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    wanted = [
        (key, _group_position(replica, key, options.group, text))
        for key, text in zip(options.keys, options.ids, strict=True)
    ]
    attempt = partial(_read_group, wanted, options)
    return _answer_or_block(replica, now, options, attempt)


def _answer_or_block(
    replica: Replica, now: Millis, options: _Options, attempt: Attempt
) -> Reply | Blocked:
    reply = attempt(replica, now)
    if reply is not Null.ARRAY or options.block_ms is None:
        return reply

    def retry(replica: Replica, now: Millis) -> Reply | Blocked:
        reply = attempt(replica, now)
        return blocked if reply is Null.ARRAY else reply

    blocked = Blocked(tuple(dict.fromkeys(options.keys)), options.block_ms, retry)
    return blocked


# --- Parsing ------------------------------------------------------------------------------------


def _parse(argv: list[bytes], *, command: str) -> _Options:
    options = _Options()
    at = 1
    while at < len(argv):
        option = argv[at].lower()
        more = len(argv) - 1 - at
        if option == b"streams" and more:
            _take_streams(options, argv[at + 1 :], command)
            return options
        if option == b"block" and more:
            options.block_ms = _timeout(argv[at + 1])
            at += 2
        elif option == b"count" and more:
            # 0 and less: no limit.
            count = integer(argv[at + 1])
            options.count = count if count > 0 else None
            at += 2
        elif option == b"group" and more >= 2:
            _only_xreadgroup(command, "GROUP")
            options.group, options.consumer = argv[at + 1 : at + 3]
            at += 3
        elif option == b"noack":
            _only_xreadgroup(command, "NOACK")
            options.noack = True
            at += 1
        else:
            raise CommandError(SYNTAX_ERROR)
    raise CommandError(SYNTAX_ERROR)


def _take_streams(options: _Options, arguments: list[bytes], command: str) -> None:
    if len(arguments) & 1:
        special = "'+', or '$'" if command == "XREAD" else "or '>'"
        names = "an ID, " if command == "XREAD" else "an ID "
        raise CommandError(
            f"ERR Unbalanced '{command.lower()}' list of streams: for each stream key "
            f"{names}{special} must be specified."
        )
    half = len(arguments) // 2
    options.keys, options.ids = arguments[:half], arguments[half:]


def _only_xreadgroup(command: str, option: str) -> None:
    if command != "XREADGROUP":
        raise CommandError(
            f"ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
        )


def _timeout(text: bytes) -> int:
    timeout = integer(text, error="ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise CommandError("ERR timeout is negative")
    return min(timeout, _TIMEOUT_MAX_MS)


# --- XREAD --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LastEntry:
    """``+``: the last entry there is, or, on an empty stream, what comes after ``above``."""

    above: StreamId


def _position(replica: Replica, key: bytes, text: bytes) -> StreamId | _LastEntry:
    stream = replica.stream(key)
    last = ID_MIN if stream is None else stream.last_id
    if text == b"$":
        return last
    if text == b"+":
        return _LastEntry(last)
    if text == b">":
        raise CommandError(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> "
            "<consumer> option."
        )
    return strict_id(text)


def _read(
    positions: list[tuple[bytes, StreamId | _LastEntry]],
    count: int | None,
    replica: Replica,
    now: Millis,
) -> Reply:
    answers: list[tuple[bytes, Reply]] = []
    for key, position in positions:
        stream = replica.stream(key)
        if stream is None:
            continue
        entries, found = _read_one(stream, position, count)
        if found:
            answers.append((key, entries))
    return PerKey(answers) if answers else Null.ARRAY


def _read_one(
    stream: Stream, position: StreamId | _LastEntry, count: int | None
) -> tuple[Encoded, int]:
    if isinstance(position, _LastEntry):
        if stream.length:
            return encode_entries(stream.scan_back(), 1)
        position = position.above
    if stream.last_entry_id <= position:
        return Encoded(b""), 0
    return encode_entries(stream.scan(StreamId(position + 1)), count)


# --- XREADGROUP ---------------------------------------------------------------------------------

# What XREADGROUP wants of a key: None for new entries, an ID for the history above it.
_Wanted: TypeAlias = tuple[bytes, StreamId | None]


def _group_position(replica: Replica, key: bytes, group: bytes, text: bytes) -> StreamId | None:
    _require_group(replica, key, group)
    if text == b">":
        return None
    if text in (b"$", b"+"):
        raise CommandError(_MEANINGLESS.format(text.decode()))
    return strict_id(text)


def _require_group(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group]:
    found = group_or_none(replica, key, name)
    if found is None:
        raise CommandError(
            f"NOGROUP No such key '{shown(key)}' or consumer group '{shown(name)}' "
            "in XREADGROUP with GROUP option"
        )
    return found


def _read_group(wanted: list[_Wanted], options: _Options, replica: Replica, now: Millis) -> Reply:
    assert options.group is not None
    # All groups before any delivery: a missing one must not leave entries handed out to nobody.
    groups = [_require_group(replica, key, options.group) for key, _ in wanted]
    answers: list[tuple[bytes, Reply]] = []
    for (key, above), (stream, group) in zip(wanted, groups, strict=True):
        _see_consumer(replica, now, key, options.group, group, options.consumer)
        if above is None:
            entries = _deliver(replica, now, key, stream, group, options)
        else:
            entries = _history(replica, now, key, stream, group, options, above)
        if entries is not None:
            answers.append((key, entries))
    return PerKey(answers) if answers else Null.ARRAY


def _see_consumer(
    replica: Replica, now: Millis, key: bytes, name: bytes, group: Group, consumer_name: bytes
) -> None:
    """The consumer exists from its first attempt on; when it was seen is not worth a record."""
    consumer = group.consumers.get(consumer_name)
    if consumer is None:
        replica.note(CreateConsumer(key, name, consumer_name, now))
    else:
        consumer.seen_ms = now


def _deliver(
    replica: Replica, now: Millis, key: bytes, stream: Stream, group: Group, options: _Options
) -> Reply:
    """New entries, now pending for the consumer; None if there are none."""
    assert options.group is not None
    parts: list[bytes] = []
    ids: dict[Region, list[StreamId]] = {}
    found = group.undelivered(stream.lanes.values())
    for entry_id, region, node, index in islice(found, options.count):
        parts.append(encode_entry(entry_id, node, index))
        ids.setdefault(region, []).append(entry_id)
    if not parts:
        return None
    delivered = {region: tuple(lane_ids) for region, lane_ids in ids.items()}
    replica.note(Deliver(key, options.group, options.consumer, now, delivered, options.noack))
    return Encoded(b"*%d\r\n" % len(parts) + b"".join(parts))


def _history(
    replica: Replica,
    now: Millis,
    key: bytes,
    stream: Stream,
    group: Group,
    options: _Options,
    above: StreamId,
) -> Reply:
    """The consumer's pending entries above an ID; those that were deleted with null fields."""
    assert options.group is not None
    pel = group.consumers[options.consumer].pel
    entries: list[Reply] = []
    ids: dict[Region, list[StreamId]] = {}
    if above < ID_MAX:
        for entry_id, region in islice(pel.irange((StreamId(above + 1), Region(0))), options.count):
            entry = entry_or_null(stream, region, entry_id)
            entries.append(entry)
            if isinstance(entry, Encoded):
                ids.setdefault(region, []).append(entry_id)
    if ids:
        seen_again = {region: tuple(lane_ids) for region, lane_ids in ids.items()}
        replica.note(Redeliver(key, options.group, options.consumer, now, seen_again))
    return entries
