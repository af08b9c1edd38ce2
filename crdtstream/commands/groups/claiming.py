"""XCLAIM, XAUTOCLAIM: pending entries get a new owner in this region.

One ID may be pending in several lanes; XCLAIM acts on all of them.  With a home (``rules`` 13)
entries are passed on there only.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Final

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    integer,
    interval_start,
    parse_i64,
    shown,
    strict_id,
)
from crdtstream.commands.groups.delivery import require_home
from crdtstream.commands.groups.pending import is_idle, lanes_with
from crdtstream.commands.lookup import group_or_error
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.streams.entries import entry_or_null
from crdtstream.core.effects import Claim
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.progress import once_more
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId, format_id, parse_id
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream

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
    """What a claim is going to change.

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
    ids, options = _claim_arguments(argv, now)
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
    """Claim one entry, if it is there and idle for long enough."""
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


def _claim_arguments(argv: list[bytes], now: Millis) -> tuple[list[StreamId], _ClaimOptions]:
    ids: list[StreamId] = []
    at = 5
    while at < len(argv) and (entry_id := parse_id(argv[at], missing_seq=0)) is not None:
        ids.append(entry_id)
        at += 1
    options = _ClaimOptions()
    while at < len(argv):
        at += _claim_option(options, argv, at, now)
    return ids, options


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
