"""XACK, XPENDING, XNACK: entries that were delivered and not yet acknowledged.

Pending entries are local to a region.  One ID may be pending in several lanes; a command that
names the ID acts on all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, assert_never

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    as_sent,
    ascending_ids,
    integer,
    interval_end,
    interval_start,
    parse_i64,
    strict_ids,
)
from crdtstream.commands.lookup import group_or_error, group_or_none
from crdtstream.commands.pending_rows import Row, bulk, rows
from crdtstream.commands.reply import CommandError, Encoded, Null, Reply
from crdtstream.core.effects import Ack, Release
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Alike, Nack
from crdtstream.core.groups.progress import DELIVERY_COUNT_MAX
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import Millis, RegionId, StreamId, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

EMPTY: Final = Encoded(b"*0\r\n")


def xack(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XACK key group id [id …]: how many entries were pending, and no longer are.

    Other regions hear only of the acknowledged run, in one effect per tick at most (AA,
    "Replication performance optimizations").
    """
    key, name = argv[1:3]
    found = group_or_none(replica, key, name)
    if found is None:
        return 0
    _, group = found
    named = ascending_ids(argv[3:])
    ids: dict[RegionId, Ids] = {}
    for region, progress in group.lanes.items():
        pending = progress.pel.among(named)
        if pending:
            ids[region] = pending
    if ids:
        replica.note(Ack(key, name, ids))
    return sum(map(len, ids.values()))


# --- XPENDING -----------------------------------------------------------------------------------


def xpending(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XPENDING key group [[IDLE ms] start end count [consumer]]: a summary, or entry by entry."""
    if len(argv) == 3:
        return _summary(group_or_error(replica, argv[1], argv[2])[1])
    return _listed(replica, now, argv, _pending_facts)


def pending_ids(replica: Replica, now: Millis, argv: list[bytes]) -> list[bytes]:
    """The IDs that XPENDING lists with a start, an end and a count."""
    listed = _listed(replica, now, argv, _only_the_id)
    # *2  *1 $3 1-1  *1 $3 1-2
    return listed.data.split(b"\r\n")[3::3]


def _listed(
    replica: Replica,
    now: Millis,
    argv: list[bytes],
    facts: Callable[[Millis, int, Alike], Row | None],
) -> Encoded:
    if not 6 <= len(argv) <= 9:
        raise CommandError(SYNTAX_ERROR)
    at = 3
    min_idle = 0
    if argv[3].lower() == b"idle":
        min_idle = integer(argv[4])
        if len(argv) < 8:
            raise CommandError(SYNTAX_ERROR)
        at = 5
    count = max(0, integer(argv[at + 2]))
    start = interval_start(argv[at])
    end = interval_end(argv[at + 1])
    _, group = group_or_error(replica, argv[1], argv[2])

    if not count:
        return EMPTY
    if at + 3 < len(argv):
        consumer = group.consumers.get(argv[at + 3])
        if consumer is None:
            return EMPTY
        spans, merged = consumer.spans(start), partial(consumer.nacks, start)
    else:
        spans, merged = group.pending_spans(start), partial(group.pending_from, start)
    return rows(spans, merged, partial(facts, now, min_idle), end=end, count=count)


def _summary(group: Group) -> Reply:
    total = group.pending_count
    if not total:
        return [0, None, None, Null.ARRAY]
    pels = [progress.pel for progress in group.lanes.values() if progress.pel]
    owners: list[Reply] = [
        [one.name, b"%d" % one.pending_count]
        for one in group.pel.consumers_by_name()
        if one.pending_count
    ]
    lowest = min(pel.first_id for pel in pels)
    highest = max(pel.last_id for pel in pels)
    return [total, format_id(lowest), format_id(highest), owners]


def _pending_facts(now: Millis, min_idle: int, alike: Alike) -> Row | None:
    """An entry without an owner has no name and is -1 ms idle."""
    name, idle = b"", -1
    if alike.consumer is not None:
        name, idle = alike.consumer.name, max(0, now - alike.delivered_ms)
        if idle < min_idle:
            return None
    return 3, bulk(name) + b":%d\r\n:%d\r\n" % (idle, alike.delivery_count)


def _only_the_id(now: Millis, min_idle: int, alike: Alike) -> Row | None:
    return None if _pending_facts(now, min_idle, alike) is None else (0, b"")


def is_idle(nack: Nack, now: Millis, min_idle_ms: int) -> bool:
    """True if an entry has been pending for ``min_idle_ms``; one without an owner always has."""
    return nack.consumer is None or idle_ms(nack, now) >= min_idle_ms


def idle_ms(nack: Nack, now: Millis) -> int:
    return max(0, now - nack.delivered_ms)


# --- XNACK --------------------------------------------------------------------------------------


class FailureMode(Enum):
    """Why an entry is given back: what becomes of its delivery count."""

    SILENT = b"silent"  # as if it had not been delivered
    FAIL = b"fail"  # it counts
    FATAL = b"fatal"  # not to be tried again

    def count_after(self, count: int) -> int:
        match self:
            case FailureMode.SILENT:
                return max(0, count - 1)
            case FailureMode.FAIL:
                return count
            case FailureMode.FATAL:
                return DELIVERY_COUNT_MAX
            case _:
                assert_never(self)


@dataclass(slots=True)
class _NackOptions:
    """XNACK's arguments; ``count`` is RETRYCOUNT, None where it was not given."""

    mode: FailureMode
    ids: list[bytes]
    count: int | None = None
    force: bool = False


def xnack(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XNACK key group SILENT|FAIL|FATAL IDS n id … [RETRYCOUNT n] [FORCE]: give entries back.

    They stay pending in this region, without an owner, and are the first that XREADGROUP CLAIM
    takes, in this order; any min-idle-time is met.  Other regions do not hear of it.

    FORCE makes entries pending that are not.

    Returns:
        How many pending entries were given back.  One that is named twice counts twice; an ID
        that is pending in several lanes, once for each.

    Raises:
        CommandError: NOGROUP; an argument is wrong.  Nothing has changed then.

    Source: redis.io/commands/xnack.
    """
    key, name = argv[1:3]
    stream, group = group_or_error(replica, key, name)
    options = _nack_options(argv)
    counts: dict[tuple[RegionId, StreamId], int] = {}
    nacks: list[tuple[RegionId, StreamId, int]] = []
    for entry_id in strict_ids(options.ids):
        for lane in lanes_with(stream, group, entry_id, force=options.force):
            place = lane, entry_id
            if place not in counts:
                nack = group.progress(lane).pel.get(entry_id)
                counts[place] = 0 if nack is None else nack.delivery_count
            if options.count is None:
                counts[place] = options.mode.count_after(counts[place])
            else:
                counts[place] = options.count
            nacks.append((lane, entry_id, counts[place]))
    if nacks:
        replica.note(Release(key, name, tuple(nacks)))
    return len(nacks)


def _nack_options(argv: list[bytes]) -> _NackOptions:
    try:
        options = _NackOptions(FailureMode(argv[3].lower()), [])
    except ValueError as error:
        raise CommandError("ERR mode must be SILENT, FAIL, or FATAL") from error
    at = 4
    while at < len(argv):
        at += _nack_option(options, argv, at)
    if not options.ids:
        raise CommandError("ERR syntax error, expected IDS keyword")
    return options


def _nack_option(options: _NackOptions, argv: list[bytes], at: int) -> int:
    """Read the option at ``at``; return how many arguments it took."""
    more = len(argv) - 1 - at
    match argv[at].lower():
        case b"force":
            options.force = True
            return 1
        case b"retrycount" if more:
            options.count = integer(argv[at + 1])
            if options.count < 0:
                raise CommandError("ERR Invalid RETRYCOUNT value, must be >= 0")
            return 2
        case b"ids" if more:
            count = parse_i64(argv[at + 1])
            if count is None or count < 1:
                raise CommandError("ERR numids must be a positive integer")
            options.ids = argv[at + 2 : at + 2 + count]
            if len(options.ids) < count:
                raise CommandError("ERR number of IDs doesn't match numids")
            return 2 + count
    raise CommandError(f"ERR Unrecognized XNACK option '{as_sent(argv[at])}'")


def lanes_with(stream: Stream, group: Group, entry_id: StreamId, *, force: bool) -> list[RegionId]:
    """Lanes in which the ID is pending; with FORCE also those in which it merely stands."""
    lanes = {region for region, progress in group.lanes.items() if entry_id in progress.pel}
    if force:
        lanes.update(region for _, region, _, _ in stream.find(entry_id))
    return sorted(lanes)
