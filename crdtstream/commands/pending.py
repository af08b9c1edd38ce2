"""XACK, XPENDING, XCLAIM, XAUTOCLAIM: entries that were delivered and not yet acknowledged.

Pending entries are local to a region.  One ID may be pending in several lanes; a command that
names the ID acts on all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    group_or_error,
    group_or_none,
    integer,
    interval_end,
    interval_start,
    parse_i64,
    shown,
    strict_id,
    strict_ids,
)
from crdtstream.commands.entries import entry_or_null
from crdtstream.commands.reply import CommandError, Null, Reply
from crdtstream.core.effects import Ack, Claim
from crdtstream.core.group import Group, Nack
from crdtstream.core.ids import ID_MIN, Millis, Region, StreamId, format_id, parse_id
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

# XAUTOCLAIM looks at no more than this many pending entries per entry asked for.
ATTEMPTS_PER_COUNT: Final = 10
AUTOCLAIM_COUNT_DEFAULT: Final = 100


def xack(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XACK key group id [id …]: how many entries were pending and are not any more.

    What becomes known in other regions is the acknowledged run, one effect per tick at most (AA,
    "Replication performance optimizations").
    """
    key, name = argv[1:3]
    found = group_or_none(replica, key, name)
    if found is None:
        return 0
    _, group = found
    ids: dict[Region, list[StreamId]] = {}
    for entry_id in sorted(set(strict_ids(argv[3:]))):
        for region, progress in group.lanes.items():
            if entry_id in progress.pel:
                ids.setdefault(region, []).append(entry_id)
    if ids:
        replica.note(Ack(key, name, {region: tuple(lane_ids) for region, lane_ids in ids.items()}))
    return sum(len(lane_ids) for lane_ids in ids.values())


# --- XPENDING -----------------------------------------------------------------------------------


def xpending(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XPENDING key group [[IDLE ms] start end count [consumer]]: a summary, or entry by entry."""
    if len(argv) == 3:
        return _summary(group_or_error(replica, argv[1], argv[2])[1])
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

    nacks: Iterator[Nack]
    if at + 3 < len(argv):
        consumer = group.consumers.get(argv[at + 3])
        if consumer is None:
            return []
        pel = consumer.pel
        nacks = (pel[place] for place in pel.irange((start, Region(0))))
    else:
        nacks = group.pending_from(start)
    replies: list[Reply] = []
    for nack in nacks:
        if nack.id > end or len(replies) >= count:
            break
        idle = _idle(nack, now)
        if idle >= min_idle:
            replies.append(_pending_row(nack, idle))
    return replies


def _summary(group: Group) -> Reply:
    total = group.pending_count
    if not total:
        return [0, None, None, Null.ARRAY]
    pels = [progress.pel for progress in group.lanes.values() if progress.pel]
    consumers: list[Reply] = [
        [name, b"%d" % len(consumer.pel)]
        for name, consumer in group.consumers.items()
        if consumer.pel
    ]
    lowest = min(pel.keys()[0] for pel in pels)
    highest = max(pel.keys()[-1] for pel in pels)
    return [total, format_id(lowest), format_id(highest), consumers]


def _pending_row(nack: Nack, idle: int) -> Reply:
    """An entry that nobody owns has no name and is -1 ms idle."""
    if nack.consumer is None:
        return [format_id(nack.id), b"", -1, nack.delivery_count]
    return [format_id(nack.id), nack.consumer.name, idle, nack.delivery_count]


def _idle(nack: Nack, now: Millis) -> int:
    return max(0, now - nack.delivered_ms)


# --- XCLAIM -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ClaimOptions:
    """XCLAIM's options; ``delivered_ms`` and ``count`` are None where they were not given."""

    delivered_ms: Millis | None = None
    count: int | None = None
    force: bool = False
    just_id: bool = False
    last_id: StreamId | None = None


@dataclass(slots=True)
class _Claimed:
    """What a claim is going to change."""

    nacks: dict[Region, list[tuple[StreamId, Millis, int]]]
    dropped: dict[Region, list[StreamId]]

    def change(
        self, key: bytes, group: bytes, consumer: bytes, now: Millis, last_id: StreamId | None
    ) -> Claim:
        return Claim(
            key,
            group,
            consumer,
            now,
            {region: tuple(nacks) for region, nacks in self.nacks.items()},
            {region: tuple(ids) for region, ids in self.dropped.items()},
            last_id,
        )


def xclaim(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XCLAIM key group consumer min-idle id … [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID]
    [LASTID id]: pending entries get a new owner in this region.

    Returns:
        The claimed entries (with JUSTID their IDs).  An entry that was deleted meanwhile is not
        among them and stops being pending.
    """
    key, name, consumer = argv[1:4]
    stream, group = group_or_error(replica, key, name)
    min_idle = max(0, integer(argv[4], error="ERR Invalid min-idle-time argument for XCLAIM"))
    ids, options = _claim_arguments(argv, now)
    claimed = _Claimed({}, {})
    replies: list[Reply] = []
    for entry_id in ids:
        for region in _lanes_with(stream, group, entry_id, force=options.force):
            pel = group.progress(region).pel
            nack = pel.get(entry_id)
            lane = stream.lanes.get(region)
            if lane is None or lane.find(entry_id) is None:
                if nack is not None:
                    claimed.dropped.setdefault(region, []).append(entry_id)
                continue
            if nack is not None and _idle(nack, now) < min_idle:
                continue
            count = 1 if nack is None else nack.delivery_count
            if options.count is not None:
                count = options.count
            elif not options.just_id:
                count += 1
            delivered_ms = now if options.delivered_ms is None else options.delivered_ms
            claimed.nacks.setdefault(region, []).append((entry_id, delivered_ms, count))
            if options.just_id:
                replies.append(format_id(entry_id))
            else:
                replies.append(entry_or_null(stream, region, entry_id))
    _note_claim(replica, group, claimed.change(key, name, consumer, now, options.last_id))
    return replies


def _claim_arguments(argv: list[bytes], now: Millis) -> tuple[list[StreamId], _ClaimOptions]:
    ids: list[StreamId] = []
    at = 5
    while at < len(argv) and (entry_id := parse_id(argv[at], missing_seq=0)) is not None:
        ids.append(entry_id)
        at += 1
    options = _ClaimOptions()
    while at < len(argv):
        at += _claim_option(options, argv, at, now)
    # A repeated ID is claimed once.
    return list(dict.fromkeys(ids)), options


def _claim_option(options: _ClaimOptions, argv: list[bytes], at: int, now: Millis) -> int:
    """Read the option at ``at``; tell how many arguments it took."""
    option = argv[at].lower()
    if option == b"force":
        options.force = True
        return 1
    if option == b"justid":
        options.just_id = True
        return 1
    if at + 1 < len(argv):
        value = argv[at + 1]
        if option == b"idle":
            idle = integer(value, error="ERR Invalid IDLE option argument for XCLAIM")
            options.delivered_ms = Millis(max(0, min(now, now - idle)))
            return 2
        if option == b"time":
            at_ms = integer(value, error="ERR Invalid TIME option argument for XCLAIM")
            options.delivered_ms = Millis(at_ms if 0 <= at_ms <= now else now)
            return 2
        if option == b"retrycount":
            count = integer(value, error="ERR Invalid RETRYCOUNT option argument for XCLAIM")
            options.count = count if count >= 0 else None
            return 2
        if option == b"lastid":
            options.last_id = strict_id(value)
            return 2
    raise CommandError(f"ERR Unrecognized XCLAIM option '{shown(argv[at])}'")


def _lanes_with(
    stream: Stream, group: Group, entry_id: StreamId, *, force: bool
) -> Iterator[Region]:
    """Lanes in which the ID is pending; with FORCE also those in which it merely stands."""
    pending = [region for region, progress in group.lanes.items() if entry_id in progress.pel]
    if force:
        pending += [region for _, region, _, _ in stream.find(entry_id) if region not in pending]
    return iter(sorted(pending))


def _note_claim(replica: Replica, group: Group, change: Claim) -> None:
    """A claim of nothing by a known consumer is only seen, not recorded."""
    consumer = group.consumers.get(change.consumer)
    if consumer is None or change.nacks or change.dropped or change.last_id is not None:
        replica.note(change)
    else:
        consumer.seen_ms = change.now


# --- XAUTOCLAIM ---------------------------------------------------------------------------------


def xautoclaim(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID].

    Returns:
        The next pending ID to look at (0-0 at the end), the claimed entries or IDs, and the IDs
        that were pending but deleted: they are not pending any more and count towards COUNT.
    """
    key, name, consumer = argv[1:4]
    min_idle = max(0, integer(argv[4], error="ERR Invalid min-idle-time argument for XAUTOCLAIM"))
    start = interval_start(argv[5])
    count, just_id = _autoclaim_options(argv)
    stream, group = group_or_error(replica, key, name)

    claimed = _Claimed({}, {})
    replies: list[Reply] = []
    deleted: list[Reply] = []
    cursor = ID_MIN
    attempts = count * ATTEMPTS_PER_COUNT
    for nack in islice(group.pending_from(start), attempts + 1):
        if not attempts or not count:
            cursor = nack.id
            break
        attempts -= 1
        lane = stream.lanes.get(nack.lane)
        if lane is None or lane.find(nack.id) is None:
            claimed.dropped.setdefault(nack.lane, []).append(nack.id)
            deleted.append(format_id(nack.id))
            count -= 1
            continue
        if _idle(nack, now) < min_idle:
            continue
        delivery_count = nack.delivery_count + (not just_id)
        claimed.nacks.setdefault(nack.lane, []).append((nack.id, now, delivery_count))
        entry = format_id(nack.id) if just_id else entry_or_null(stream, nack.lane, nack.id)
        replies.append(entry)
        count -= 1
    _note_claim(replica, group, claimed.change(key, name, consumer, now, None))
    return [format_id(cursor), replies, deleted]


def _autoclaim_options(argv: list[bytes]) -> tuple[int, bool]:
    count = AUTOCLAIM_COUNT_DEFAULT
    just_id = False
    at = 6
    while at < len(argv):
        option = argv[at].lower()
        if option == b"count" and at + 1 < len(argv):
            value = parse_i64(argv[at + 1])
            if value is None or not 0 < value <= _COUNT_MAX:
                raise CommandError("ERR COUNT must be > 0")
            count = value
            at += 2
        elif option == b"justid":
            just_id = True
            at += 1
        else:
            raise CommandError(SYNTAX_ERROR)
    return count, just_id


_COUNT_MAX: Final = ((1 << 63) - 1) // ATTEMPTS_PER_COUNT
