"""XREADGROUP: new entries, entries that others left pending for too long, and one's own pending."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice, repeat
from operator import attrgetter, itemgetter
from typing import Final, TypeAlias

from crdtstream.commands.arguments import as_sent, strict_id
from crdtstream.commands.groups.delivery import lanes_handed_out, require_home
from crdtstream.commands.lookup import group_or_none
from crdtstream.commands.reply import Blocked, CommandError, Encoded, Null, PerKey, Reply
from crdtstream.commands.streams.budget import Budget
from crdtstream.commands.streams.entries import (
    claimable,
    encode_entry,
    encode_slices,
    entry_or_null,
)
from crdtstream.commands.streams.read_options import ReadOptions, parse_read
from crdtstream.commands.streams.xread import block
from crdtstream.core.effects import Claim, Deliver, Redeliver
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Nack
from crdtstream.core.groups.progress import once_more
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import ID_MAX, U64_MAX, Millis, RegionId, StreamId, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.bulk_reading import ids_of
from crdtstream.core.lanes.slices import Found, Slice
from crdtstream.core.replica import Replica

_MEANINGLESS: Final = (
    "ERR The {0} ID is meaningless in the context of XREADGROUP: you want to read the history of "
    "this consumer by specifying a proper ID, or use the > ID to get new messages. The {0} ID "
    "would just return an empty result set."
)

# The part of a key that XREADGROUP reads: None for new entries, an ID for the history above it.
_Wanted: TypeAlias = tuple[bytes, StreamId | None]

# With `map`, as a generator expression is a whole list once it is compiled.
_ID_OF: Final = attrgetter("id")
_PLACE_OF: Final = itemgetter(1)


def xreadgroup(replica: Replica, now: Millis, argv: list[bytes]) -> Reply | Blocked:
    """XREADGROUP GROUP g c [COUNT n] [MAXCOUNT n] [MAXSIZE bytes] [BLOCK ms] [CLAIM min-idle-ms]
    [NOACK] STREAMS key … id …

    ``>`` delivers what no consumer of this region got: each lane beyond its last-delivered ID, so
    an entry that comes late with a low ID is never skipped.  Any other ID reads the consumer's
    pending entries above it, and does not wait.

    With CLAIM, ``>`` first takes over what any consumer has pending in this region.  First come
    entries without an owner, in the order in which they were given back; then those that were idle
    for long enough, the longest first.  A pending entry that was deleted is passed over and stays
    pending; XCLAIM and XAUTOCLAIM drop it.  A waiting reader wakes when an entry becomes old
    enough.

    Raises:
        CommandError: NOGROUP, if one of the keys or its group is missing; NOTHOME, if another
            region delivers (``>`` only); both also when it has been waiting.
    """
    options = parse_read(argv, now, command="XREADGROUP")
    if options.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    wanted = [
        (key, _group_position(replica, key, options.group, text))
        for key, text in zip(options.keys, options.ids, strict=True)
    ]
    reply = _read_group(wanted, options, replica, now)
    if reply is not Null.ARRAY or options.block_ms is None:
        return reply
    next_time = None if options.claim_ms is None else partial(_next_claim, wanted, options)
    wants = frozenset(
        (key, options.group, options.claim_ms) for key, above in wanted if above is None
    )
    attempt = partial(_read_group, wanted, options)
    return block(replica, options, attempt, next_time, wants or None)


def _group_position(replica: Replica, key: bytes, group: bytes, text: bytes) -> StreamId | None:
    _require_group(replica, key, group)
    if text == b">":
        return None
    if text in (b"$", b"+"):
        raise CommandError(_MEANINGLESS.format(text.decode()))
    position = strict_id(text)
    # Nothing can be above the highest ID; in Redis it is how ``>`` is kept, and means the same.
    return None if position == ID_MAX else position


def _require_group(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group]:
    found = group_or_none(replica, key, name)
    if found is None:
        raise CommandError(
            f"NOGROUP No such key '{as_sent(key)}' or consumer group '{as_sent(name)}' "
            "in XREADGROUP with GROUP option"
        )
    return found


def _read_group(
    wanted: list[_Wanted], options: ReadOptions, replica: Replica, now: Millis
) -> Reply:
    assert options.group is not None
    # All groups before any delivery: a missing one must not leave delivered entries without a
    # reader.
    groups = []
    for key, above in wanted:
        stream, group = _require_group(replica, key, options.group)
        if above is None:
            require_home(replica.region, key, options.group, group)
        groups.append((stream, group))
    changes_before_it_reads = len(wanted) > 1 or options.claim_ms is not None
    if replica.residency.absent_count and changes_before_it_reads:
        _look_ahead(replica, now, wanted, groups, options)
    budget = options.budget()
    answers: list[tuple[bytes, Reply]] = []
    for (key, above), (stream, group) in zip(wanted, groups, strict=True):
        entries = None
        if budget is None or not budget.is_spent:
            if budget is not None:
                budget.begin_stream(key)
            if above is None:
                entries = _hand_out(replica, now, key, stream, group, options, budget)
            else:
                entries = _history(replica, now, key, stream, group, options, above, budget)
        # A delivery makes its consumer: one record for both.
        replica.see_consumer(key, options.group, options.consumer, now)
        if entries is not None:
            answers.append((key, entries))
    return PerKey(answers) if answers else Null.ARRAY


def _look_ahead(
    replica: Replica,
    now: Millis,
    wanted: list[_Wanted],
    groups: list[tuple[Stream, Group]],
    options: ReadOptions,
) -> None:
    """Read what will be delivered or skipped, of all keys, before anything changes.

    Raises:
        ColdError: some is on disk only.
    """
    budget = options.budget()
    begun: dict[bytes, Iterator[Found]] = {}
    for (key, above), (stream, group) in zip(wanted, groups, strict=True):
        if budget is not None:
            budget.begin_stream(key)
        found: Iterator[Found] = iter(())
        if above is not None:
            consumer = group.consumers.get(options.consumer)
            if consumer is not None:
                nacks = consumer.nacks(StreamId(above + 1))
                found = chain.from_iterable(map(stream.find, map(_ID_OF, nacks)))
        elif key in begun:
            # A second mention gets what follows.
            found = begun[key]
        else:
            found = group.undelivered(lanes_handed_out(replica.region, stream, group))
            if options.claim_ms is not None:
                # The first one also says when a reader that finds none is to try again.
                next(_present(stream, iter(group.longest_idle())), None)
                idle = map(_PLACE_OF, _idle(stream, group, now, options.claim_ms))
                found = chain(idle, found)
            begun[key] = found
        last: dict[RegionId, Ids] = {}
        for entry_id, region, node, index in islice(found, options.count):
            if budget is not None and not budget.take(encode_entry(node, index)):
                break
            last[region] = (entry_id,)
        if above is None and last:
            # Acknowledged entries that follow the last ones are skipped, and are counted then.
            assert options.group is not None
            delivery = Deliver(key, options.group, options.consumer, now, last, options.noack)
            replica.look_ahead_of_change(delivery)


# --- New entries --------------------------------------------------------------------------------


def _hand_out(
    replica: Replica,
    now: Millis,
    key: bytes,
    stream: Stream,
    group: Group,
    options: ReadOptions,
    budget: Budget | None,
) -> Reply:
    """Claimed entries and new ones, now pending for the consumer; None if there are none."""
    parts: list[bytes] = []
    if options.claim_ms is not None:
        parts = _claim(replica, now, key, stream, group, options, budget)
    left = None if options.count is None else options.count - len(parts)
    if left != 0 and (budget is None or not budget.is_spent):
        parts += _deliver(replica, now, key, stream, group, options, left, budget)
    return Encoded(b"*%d\r\n" % len(parts) + b"".join(parts)) if parts else None


def _deliver(
    replica: Replica,
    now: Millis,
    key: bytes,
    stream: Stream,
    group: Group,
    options: ReadOptions,
    count: int | None,
    budget: Budget | None,
) -> list[bytes]:
    assert options.group is not None
    lanes = lanes_handed_out(replica.region, stream, group)
    ids: Mapping[RegionId, Ids]
    if budget is None:
        slices = group.undelivered_slices(lanes, U64_MAX if count is None else count)
        ids = {region: ids_of(lane_slices) for region, lane_slices in slices.items()}
        parts = _merged(slices, ids)
        if options.claim_ms is not None:
            parts = list(map(claimable, parts))
    else:
        parts, ids = _within_budget(
            budget, islice(group.undelivered(lanes), count), claims=options.claim_ms is not None
        )
    if parts:
        replica.note(Deliver(key, options.group, options.consumer, now, ids, options.noack))
    return parts


def _merged(slices: Mapping[RegionId, list[Slice]], ids: Mapping[RegionId, Ids]) -> list[bytes]:
    """The entries of all lanes by ID, equal IDs by lane."""
    by_lane = {region: encode_slices(lane_slices) for region, lane_slices in slices.items()}
    if len(by_lane) == 1:
        return by_lane.popitem()[1]
    placed = [zip(ids[region], repeat(region), parts) for region, parts in by_lane.items()]
    return [part for _, _, part in sorted(chain.from_iterable(placed))]


def _within_budget(
    budget: Budget, found: Iterable[Found], *, claims: bool
) -> tuple[list[bytes], dict[RegionId, Ids]]:
    """The entries for which there is room, and their IDs."""
    parts: list[bytes] = []
    ids: dict[RegionId, list[StreamId]] = {}
    for entry_id, region, node, index in found:
        part = encode_entry(node, index)
        if claims:
            part = claimable(part)
        if not budget.take(part):
            break
        parts.append(part)
        ids.setdefault(region, []).append(entry_id)
    return parts, {region: IdColumns.of(lane_ids) for region, lane_ids in ids.items()}


# --- CLAIM --------------------------------------------------------------------------------------


def _claim(
    replica: Replica,
    now: Millis,
    key: bytes,
    stream: Stream,
    group: Group,
    options: ReadOptions,
    budget: Budget | None,
) -> list[bytes]:
    """Take over what has been idle for long enough."""
    assert options.group is not None
    assert options.claim_ms is not None
    chosen: list[tuple[Nack, bytes]] = []
    for nack, found in islice(_idle(stream, group, now, options.claim_ms), options.count):
        _, _, node, index = found
        part = claimable(
            encode_entry(node, index),
            idle_ms=max(0, now - nack.delivered_ms),
            delivery_count=nack.delivery_count,
        )
        if budget is not None and not budget.take(part):
            break
        chosen.append((nack, part))
    if not chosen:
        return []
    # Equally old ones stand in the order in which they came to be so; readers expect that of IDs.
    chosen.sort(key=lambda one: () if one[0].consumer is None else (one[0].delivered_ms, one[0].id))
    nacks: dict[RegionId, list[tuple[StreamId, Millis, int]]] = {}
    for nack, _ in sorted(chosen, key=lambda one: one[0].id):
        nacks.setdefault(nack.lane, []).append((nack.id, now, once_more(nack.delivery_count)))
    by_lane = {lane: tuple(lane_nacks) for lane, lane_nacks in sorted(nacks.items())}
    replica.note(Claim(key, options.group, options.consumer, now, by_lane, {}))
    return [part for _, part in chosen]


def _idle(
    stream: Stream, group: Group, now: Millis, min_idle_ms: int
) -> Iterator[tuple[Nack, Found]]:
    """Pending entries that are still there and to be claimed, in this order."""
    group.note_idle_claims()
    # A delivery time may lie in the future, where a clock was set back; that is 0 ms idle.
    latest = now - min_idle_ms if min_idle_ms else None
    return _present(stream, chain(group.unowned(), group.longest_idle(latest)))


def _present(stream: Stream, nacks: Iterator[Nack]) -> Iterator[tuple[Nack, Found]]:
    for nack in nacks:
        lane = stream.lanes.get(nack.lane)
        found = None if lane is None else lane.find(nack.id)
        if found is not None:
            yield nack, (nack.id, nack.lane, *found)


def _next_claim(wanted: list[_Wanted], options: ReadOptions, replica: Replica) -> Millis | None:
    """When the first pending entry becomes old enough, after an attempt that found none."""
    assert options.group is not None
    assert options.claim_ms is not None
    times = []
    for key, above in wanted:
        found = group_or_none(replica, key, options.group)
        if above is not None or found is None:
            continue
        stream, group = found
        group.note_idle_claims()
        for nack, _ in _present(stream, group.longest_idle()):
            times.append(Millis(nack.delivered_ms + options.claim_ms))
            break
    return min(times, default=None)


# --- History ------------------------------------------------------------------------------------


def _history(
    replica: Replica,
    now: Millis,
    key: bytes,
    stream: Stream,
    group: Group,
    options: ReadOptions,
    above: StreamId,
    budget: Budget | None,
) -> Reply:
    """The consumer's pending entries above an ID; those that were deleted with null fields.

    None if there are some, but no room in the reply.
    """
    assert options.group is not None
    # A new one has nothing pending.
    consumer = group.consumers.get(options.consumer)
    if consumer is None:
        return []
    nacks = consumer.nacks(StreamId(above + 1))
    entries: list[Reply] = []
    ids: dict[RegionId, list[StreamId]] = {}
    for entry_id, region, *_ in islice(nacks, options.count):
        entry = entry_or_null(stream, region, entry_id)
        is_there = isinstance(entry, Encoded)
        if budget is not None:
            data = entry.data if isinstance(entry, Encoded) else _null_entry(entry_id)
            if not budget.take(data):
                break
        entries.append(entry)
        if is_there:
            ids.setdefault(region, []).append(entry_id)
    if ids:
        seen_again = {region: tuple(lane_ids) for region, lane_ids in ids.items()}
        replica.note(Redeliver(key, options.group, options.consumer, now, seen_again))
    return entries if entries or budget is None or not budget.is_spent else None


def _null_entry(entry_id: StreamId) -> bytes:
    """``[id, null]`` as RESP2 has it."""
    text = format_id(entry_id)
    return b"*2\r\n$%d\r\n%b\r\n*-1\r\n" % (len(text), text)
