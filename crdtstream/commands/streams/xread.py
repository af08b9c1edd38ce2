"""XREAD, and waiting for entries, which XREADGROUP does in the same way.

A read is parsed once into what it reads of each key, with ``$`` fixed as it was on arrival.
Waiting is then running the same read again: ``Blocked.retry``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from crdtstream.commands.arguments import strict_id
from crdtstream.commands.lookup import refuse_string, stream_or_none
from crdtstream.commands.reply import Blocked, CommandError, Encoded, Null, PerKey, Reply, Wants
from crdtstream.commands.streams.budget import Budget
from crdtstream.commands.streams.entries import encode_entries, encode_entry, encode_from
from crdtstream.commands.streams.read_options import ReadOptions, parse_read
from crdtstream.core.ids import ID_MIN, Millis, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.slices import Found
from crdtstream.core.replica import Replica

Attempt: TypeAlias = Callable[[Replica, Millis], Reply]
# When an attempt that found nothing may find something although no key changed; None: never.
NextTime: TypeAlias = Callable[[Replica], Millis | None]

NEW_IS_FOR_GROUPS: Final = (
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> "
    "<consumer> option."
)


def xread(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """XREAD [COUNT n] [MAXCOUNT n] [MAXSIZE bytes] [BLOCK ms] STREAMS key … id …: entries of all
    lanes above each ID.

    With several writing regions an entry may come late with a low ID and is then skipped (AA,
    "Iterating a stream with XREAD"); ``never_skip.py`` is the XREAD that does not.
    """
    options = parse_read(argv, now, command="XREAD")
    positions = [
        (key, _position(replica, key, text))
        for key, text in zip(options.keys, options.ids, strict=True)
    ]
    attempt = partial(_read, positions, options)
    return answer_or_block(replica, now, options, attempt, partial(_read_again, attempt, options))


def _read_again(attempt: Attempt, options: ReadOptions, replica: Replica, now: Millis) -> Reply:
    """The attempt of a reader that was woken: its keys are judged again, as in Redis.

    A string among them wakes nobody.  It is an error once another key has something.
    """
    reply = attempt(replica, now)
    if reply is not Null.ARRAY:
        for key in options.keys:
            stream_or_none(replica, key)
    return reply


def answer_or_block(
    replica: Replica,
    now: Millis,
    options: ReadOptions,
    attempt: Attempt,
    later: Attempt | None = None,
) -> Reply | Blocked:
    """Reply of the attempt; with BLOCK, if it is null, it is made again and again.

    Args:
        later: the attempt of a reader that waits, if it differs.
    """
    reply = attempt(replica, now)
    if reply is not Null.ARRAY or options.block_ms is None:
        return reply
    return block(replica, options, attempt if later is None else later)


def block(
    replica: Replica,
    options: ReadOptions,
    attempt: Attempt,
    next_time: NextTime | None = None,
    wants: Wants | None = None,
) -> Blocked:
    """Make an attempt again and again; it has just returned null.

    Args:
        next_time: when it may return something although no key changed; None: never.
        wants: see ``Blocked``.
    """
    assert options.block_ms is not None
    keys = tuple(dict.fromkeys(options.keys))
    blocked = Blocked(keys, options.block_ms, lambda replica, now: retry(replica, now), wants=wants)

    def retry(replica: Replica, now: Millis) -> Reply | Blocked:
        reply = attempt(replica, now)
        return still_blocked(replica) if reply is Null.ARRAY else reply

    def still_blocked(replica: Replica) -> Blocked:
        nonlocal blocked
        retry_at = None if next_time is None else next_time(replica)
        if retry_at != blocked.retry_at:
            blocked = replace(blocked, retry_at=retry_at)
        return blocked

    return still_blocked(replica)


@dataclass(frozen=True, slots=True)
class _LastEntry:
    """``+``: the last entry there is, or, on an empty stream, what comes after ``above``."""

    above: StreamId


def _position(replica: Replica, key: bytes, text: bytes) -> StreamId | _LastEntry:
    stream = replica.stream(key)
    if stream is None:
        refuse_string(replica, key)
    if text in (b"$", b"+"):
        last = ID_MIN if stream is None else stream.last_id
        return last if text == b"$" else _LastEntry(last)
    if text == b">":
        raise CommandError(NEW_IS_FOR_GROUPS)
    return strict_id(text)


def _read(
    positions: list[tuple[bytes, StreamId | _LastEntry]],
    options: ReadOptions,
    replica: Replica,
    now: Millis,
) -> Reply:
    budget = options.budget()
    answers: list[tuple[bytes, Reply]] = []
    for key, position in positions:
        stream = replica.stream(key)
        if stream is None:
            continue
        entries, length = _beyond(stream, position, options.count, budget, key)
        if length:
            answers.append((key, entries))
        if budget is not None and budget.is_spent:
            break
    return PerKey(answers) if answers else Null.ARRAY


def _beyond(
    stream: Stream,
    position: StreamId | _LastEntry,
    count: int | None,
    budget: Budget | None,
    key: bytes,
) -> tuple[Reply, int]:
    """Entries beyond a position as an array, as far as there is room, and how many they are."""
    if isinstance(position, _LastEntry):
        if stream.length:
            last = islice(stream.scan_back(), 1)
            return encode_entries(last) if budget is None else _encode_within(budget, key, last)
        position = position.above
    start = StreamId(position + 1)
    if budget is None or not stream.lanes_from(start):
        return encode_from(stream, start, count=count)
    return _encode_within(budget, key, islice(stream.scan(start), count))


def _encode_within(budget: Budget, key: bytes, found: Iterable[Found]) -> tuple[Encoded, int]:
    """As ``encode_entries``, as far as there is room."""
    budget.begin_stream(key)
    parts: list[bytes] = []
    for _, _, node, index in found:
        part = encode_entry(node, index)
        if not budget.take(part):
            break
        parts.append(part)
    return Encoded(b"*%d\r\n" % len(parts) + b"".join(parts)), len(parts)
