"""XCLAIM, XAUTOCLAIM: pending entries get a new owner in this region.

One ID may be pending in several lanes; XCLAIM acts on all of them.  With a home (``rules`` 13)
entries are passed on there only.
"""

from dataclasses import dataclass
from itertools import islice, repeat
from typing import Final, TypeAlias

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    as_sent,
    integer,
    interval_start,
    parse_i64,
    plain_ids,
    strict_id,
)
from crdtstream.commands.groups.delivery import require_home
from crdtstream.commands.groups.pending import is_idle, lanes_with
from crdtstream.commands.lookup import group_or_error
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.streams.entries import encode_ids, encoded, entry_or_null
from crdtstream.core.effects import Claim
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.progress import once_more
from crdtstream.core.id_columns import FEW, IdColumns, columns_of
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId, format_id, parse_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

# XAUTOCLAIM looks at no more than this many pending entries per entry asked for.
ATTEMPTS_PER_COUNT: Final = 10
AUTOCLAIM_COUNT_DEFAULT: Final = 100
# What COUNT may be: Redis makes room for all these IDs, of 16 bytes each, at once.
COUNT_MAX: Final = ((1 << 63) - 1) // 16

# --- XCLAIM -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ClaimOptions:
    """XCLAIM's options; ``delivered_ms`` and ``count`` are None where they were not given."""

    delivered_ms: Millis | None = None
    count: int | None = None
    force: bool = False
    just_id: bool = False
    last_id: StreamId | None = None


class _Claimed:
    """Changes that a claim is going to make.

    Attributes:
        nacks: per lane and ID delivery time and count.
        dropped: per lane IDs that are gone.
    """

    def __init__(self) -> None:
        self.nacks: dict[RegionId, dict[StreamId, tuple[Millis, int]]] = {}
        self.dropped: dict[RegionId, set[StreamId]] = {}

    def change(
        self, key: bytes, group: bytes, consumer: bytes, now: Millis, last_id: StreamId | None
    ) -> Claim:
        nacks = {
            lane: tuple((entry_id, *nacks[entry_id]) for entry_id in sorted(nacks))
            for lane, nacks in sorted(self.nacks.items())
        }
        dropped = {lane: tuple(sorted(ids)) for lane, ids in sorted(self.dropped.items())}
        return Claim(key, group, consumer, now, nacks, dropped, last_id)


def xclaim(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XCLAIM key group consumer min-idle id … [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID]
    [LASTID id]: pending entries get a new owner in this region.

    Returns:
        The claimed entries (with JUSTID their IDs); an ID that is named twice is claimed twice.
        A deleted entry is not among them, and stops being pending.

    Raises:
        CommandError: NOGROUP, NOTHOME, or an argument is wrong.
    """
    key, name, consumer = argv[1:4]
    stream, group = group_or_error(replica, key, name)
    require_home(replica.region, key, name, group)
    min_idle = max(0, integer(argv[4], error="ERR Invalid min-idle-time argument for XCLAIM"))
    columns, ids, options = _claim_arguments(argv, now)
    if columns is not None and not options.force:
        found = _claim_together(replica, stream, group, columns, options, now, min_idle)
        if found is not None:
            nacks, dropped, reply = found
            change = Claim(key, name, consumer, now, nacks, dropped, options.last_id)
            _note_claim(replica, group, change)
            return reply
    ids = ids if columns is None else list(columns)
    replica.read_entries(stream, ids)
    claimed = _Claimed()
    replies: list[Reply] = []
    for entry_id in ids:
        for lane in lanes_with(stream, group, entry_id, force=options.force):
            if _claim(claimed, stream, group, lane, entry_id, options, now, min_idle):
                reply = entry_or_null(stream, lane, entry_id)
                replies.append(format_id(entry_id) if options.just_id else reply)
    _note_claim(replica, group, claimed.change(key, name, consumer, now, options.last_id))
    return replies


def _claim(
    claimed: _Claimed,
    stream: Stream,
    group: Group,
    lane: RegionId,
    entry_id: StreamId,
    options: _ClaimOptions,
    now: Millis,
    min_idle: int,
) -> bool:
    """Claim one entry, if it exists and is idle for long enough."""
    nack = group.progress(lane).pel.get(entry_id)
    entries = stream.lanes.get(lane)
    if entries is None or entries.find(entry_id) is None:
        if nack is not None:
            claimed.dropped.setdefault(lane, set()).add(entry_id)
        return False
    before = claimed.nacks.get(lane, {}).get(entry_id)
    if before is not None:
        # Named before in this command, and already as that made it.
        delivered_ms, count = before
        if now - delivered_ms < min_idle:
            return False
    elif nack is None:
        count = 1
    elif is_idle(nack, now, min_idle):
        count = nack.delivery_count
    else:
        return False
    if options.count is not None:
        count = options.count
    elif not options.just_id:
        count = once_more(count)
    delivered_ms = now if options.delivered_ms is None else options.delivered_ms
    claimed.nacks.setdefault(lane, {})[entry_id] = delivered_ms, count
    return True


_Together: TypeAlias = tuple[
    dict[RegionId, tuple[tuple[StreamId, Millis, int], ...]],
    dict[RegionId, tuple[StreamId, ...]],
    Reply,
]


def _claim_together(
    replica: Replica,
    stream: Stream,
    group: Group,
    ids: IdColumns,
    options: _ClaimOptions,
    now: Millis,
    min_idle: int,
) -> _Together | None:
    """Changes and reply of a claim of many IDs, in a few steps for all; None if an ID is named
    twice, or the pending entries are in several lanes."""
    lanes = [region for region, progress in group.lanes.items() if progress.pel]
    ascending = ids if ids.ascend() else ids.ascending()
    if len(lanes) != 1 or len(ascending) != len(ids):
        return None
    (lane,) = lanes
    pel = group.lanes[lane].pel
    replica.read_entries(stream, ascending)
    pending = columns_of(pel.among(ascending))
    entries = stream.lanes.get(lane)
    here = IdColumns.of(()) if entries is None else columns_of(entries.among(pending))
    nacks: list[tuple[StreamId, Millis, int]] = []
    claimed = IdColumns.of(())
    delivered_ms = now if options.delivered_ms is None else options.delivered_ms
    for alike, some in pel.alike_of(here):
        if alike.consumer is not None and max(0, now - alike.delivered_ms) < min_idle:
            continue
        count = alike.delivery_count
        if options.count is not None:
            count = options.count
        elif not options.just_id:
            count = once_more(count)
        nacks += zip(some, repeat(delivered_ms), repeat(count))
        claimed.ms.extend(some.ms)
        claimed.seq.extend(some.seq)
    dropped = tuple(sorted({*pending} - {*here})) if len(here) < len(pending) else ()
    if options.just_id:
        texts = map(b"%d-%d".__mod__, zip(claimed.ms, claimed.seq, strict=True))
        rows = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
    else:
        rows = [] if entries is None else encode_ids(entries, claimed)
    if ascending is not ids:
        # As they were named.
        by_id = dict(zip(zip(claimed.ms, claimed.seq, strict=True), rows, strict=True))
        rows = [by_id[pair] for pair in zip(ids.ms, ids.seq, strict=True) if pair in by_id]
    reply = encoded([b"*%d\r\n" % len(rows), *rows])
    return ({lane: tuple(nacks)} if nacks else {}), ({lane: dropped} if dropped else {}), reply


def _claim_arguments(
    argv: list[bytes], now: Millis
) -> tuple[IdColumns | None, list[StreamId], _ClaimOptions]:
    """The IDs, as columns if they are many and plain, else one by one; and the options."""
    columns: IdColumns | None = None
    ids: list[StreamId] = []
    at = 5
    if len(argv) >= at + FEW.value:
        # No ID begins with anything but a digit.
        end = next((n for n in range(at, len(argv)) if not argv[n][:1].isdigit()), len(argv))
        columns = plain_ids(argv[at:end]) if end - at >= FEW.value else None
        if columns is not None:
            at = end
    while at < len(argv) and (entry_id := parse_id(argv[at], missing_seq=0)) is not None:
        ids.append(entry_id)
        at += 1
    options = _ClaimOptions()
    while at < len(argv):
        at += _claim_option(options, argv, at, now)
    return columns, ids, options


def _claim_option(options: _ClaimOptions, argv: list[bytes], at: int, now: Millis) -> int:
    """Read the option at ``at``; return how many arguments it took."""
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
    raise CommandError(f"ERR Unrecognized XCLAIM option '{as_sent(argv[at])}'")


def _note_claim(replica: Replica, group: Group, change: Claim) -> None:
    """A claim of nothing by a known consumer is only seen, not recorded."""
    consumer = group.consumers.get(change.consumer)
    if consumer is None or change.nacks or change.dropped or change.last_id is not None:
        replica.note(change)
    else:
        replica.see_consumer(change.key, change.group, change.consumer, change.now)


# --- XAUTOCLAIM ---------------------------------------------------------------------------------


def xautoclaim(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID].

    Returns:
        The next pending ID to look at (0-0 at the end), the claimed entries or IDs, and the IDs
        that were pending but deleted: they stop being pending, and count towards COUNT.
    """
    key, name, consumer = argv[1:4]
    min_idle = max(0, integer(argv[4], error="ERR Invalid min-idle-time argument for XAUTOCLAIM"))
    start = interval_start(argv[5])
    count, just_id = _autoclaim_options(argv)
    stream, group = group_or_error(replica, key, name)
    require_home(replica.region, key, name, group)

    if replica.residency.absent_count:
        replica.read_entries(stream, [nack.id for nack in islice(group.pending_from(start), count)])
    claimed = _Claimed()
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
            claimed.dropped.setdefault(nack.lane, set()).add(nack.id)
            deleted.append(format_id(nack.id))
            count -= 1
            continue
        if not is_idle(nack, now, min_idle):
            continue
        delivery_count = nack.delivery_count if just_id else once_more(nack.delivery_count)
        claimed.nacks.setdefault(nack.lane, {})[nack.id] = now, delivery_count
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
            if value is None or not 0 < value <= COUNT_MAX:
                raise CommandError("ERR COUNT must be > 0")
            count = value
            at += 2
        elif option == b"justid":
            just_id = True
            at += 1
        else:
            raise CommandError(SYNTAX_ERROR)
    return count, just_id
