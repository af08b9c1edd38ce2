"""XINFO: what a stream, its groups and their consumers look like from this region.

The keys of a reply are those of the version of Redis that is announced (``newer_fields.py``).
CRDT.XINFO reports what only this program knows.
"""

from typing import Final, TypeAlias

from crdtstream.commands.arguments import integer
from crdtstream.commands.lookup import group_of, stream_or_error
from crdtstream.commands.pending_rows import bulk, rows
from crdtstream.commands.reply import Encoded, Reply, RespMap, RespMaps
from crdtstream.commands.streams.entries import encode_entry, encode_from
from crdtstream.commands.streams.idempotent_xadd import window_facts
from crdtstream.commands.streams.newer_fields import known_to
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.core.groups.entries_read import lane_lag
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Alike, Consumer, Nack
from crdtstream.core.ids import ID_MIN, Millis, StreamId, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.redis_version import RedisVersion
from crdtstream.core.replica import Replica

HELP: Final = (
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Print this help.",
)

FULL_COUNT_DEFAULT: Final = 10
_NO_ROWS: Final = Encoded(b"*0\r\n")
# The last-delivered ID as clients see it, entries-read, and the lag.
_Facts: TypeAlias = tuple[bytes, int | None, int | None]


# --- STREAM -------------------------------------------------------------------------------------


def show_stream(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XINFO STREAM key [FULL [COUNT n]]: radix-tree numbers are the sum over the lanes."""
    key = argv[2]
    stream = stream_or_error(replica, key)
    full_count = _full_count(argv)
    pairs: list[tuple[Reply, Reply]] = [
        *_stream_facts(stream),
        *known_to(replica.redis_version, window_facts(replica, now, key, stream)),
    ]
    if full_count is not None:
        pairs += _full_parts(stream, replica.redis_version, full_count or None)
        return RespMap(pairs)
    pairs += [
        (b"groups", len(stream.groups)),
        (b"first-entry", _end_entry(stream, reverse=False)),
        (b"last-entry", _end_entry(stream, reverse=True)),
    ]
    return RespMap(pairs)


def _full_count(argv: list[bytes]) -> int | None:
    """FULL's COUNT: 0 is all; None without FULL."""
    if len(argv) == 3:
        return None
    if argv[3].lower() != b"full" or len(argv) not in (4, 6):
        raise bad_subcommand(argv)
    if len(argv) == 4:
        return FULL_COUNT_DEFAULT
    if argv[4].lower() != b"count":
        raise bad_subcommand(argv)
    count = integer(argv[5])
    return count if count >= 0 else FULL_COUNT_DEFAULT


def _stream_facts(stream: Stream) -> list[tuple[Reply, Reply]]:
    lanes = stream.lanes.values()
    nodes = sum(lane.rax_node_count for lane in lanes)
    max_deleted_id = max((lane.max_deleted_id for lane in lanes), default=0)
    return [
        (b"length", stream.length),
        (b"radix-tree-keys", sum(lane.macro_node_count for lane in lanes)),
        # Without any lane there is still the root of the one that will come.
        (b"radix-tree-nodes", nodes or 1),
        (b"last-generated-id", format_id(stream.last_id)),
        (b"max-deleted-entry-id", b"%d-%d" % divmod(max_deleted_id, 1 << 64)),
        (b"entries-added", sum(lane.entries_added for lane in lanes)),
        (b"recorded-first-entry-id", format_id(stream.first_entry_id)),
    ]


def _end_entry(stream: Stream, *, reverse: bool) -> Reply:
    found = stream.scan_back() if reverse else stream.scan()
    for _, _, node, index in found:
        return Encoded(encode_entry(node, index))
    return None


def _full_parts(
    stream: Stream, announced: RedisVersion, limit: int | None
) -> list[tuple[Reply, Reply]]:
    groups: list[Reply] = [
        RespMap(known_to(announced, _group_full(stream, name, limit)))
        for name in sorted(stream.groups)
    ]
    return [(b"entries", encode_from(stream, count=limit)[0]), (b"groups", groups)]


def _group_full(stream: Stream, name: bytes, limit: int | None) -> list[tuple[bytes, Reply]]:
    group = stream.groups[name]
    pending = rows(group.pending_spans(), group.pending, _pending_facts, count=limit)
    position, read, behind = _read_facts(stream, group)
    return [
        (b"name", name),
        (b"last-delivered-id", format_id(position)),
        (b"entries-read", read),
        (b"lag", behind),
        (b"pel-count", group.pending_count),
        (b"pending", pending),
        (b"consumers", _consumers_full(group, limit)),
        (b"nacked-count", group.unowned_count),
    ]


def _pending_facts(alike: Alike) -> tuple[int, bytes]:
    more, facts = _own_facts(alike)
    return more + 1, bulk(owner_name(alike)) + facts


def _own_facts(alike: Alike) -> tuple[int, bytes]:
    return 2, b":%d\r\n:%d\r\n" % (alike.delivered_ms, alike.delivery_count)


def owner_name(nack: Nack | Alike) -> bytes:
    """Empty for entries without an owner."""
    return b"" if nack.consumer is None else nack.consumer.name


def _consumers_full(group: Group, limit: int | None) -> Reply:
    consumers = group.pel.consumers_by_name()
    return RespMaps(
        [
            (b"name", [one.name for one in consumers]),
            (b"seen-time", [one.seen_ms for one in consumers]),
            (b"active-time", [-1 if one.active_ms is None else one.active_ms for one in consumers]),
            (b"pel-count", [one.pending_count for one in consumers]),
            (
                b"pending",
                [_own_pending(one, limit) if one.pending_count else _NO_ROWS for one in consumers],
            ),
        ]
    )


def _own_pending(consumer: Consumer, limit: int | None) -> Encoded:
    return rows(consumer.spans(), consumer.nacks, _own_facts, count=limit)


# --- GROUPS and CONSUMERS -----------------------------------------------------------------------


def lag(stream: Stream, group: Group) -> int | None:
    """Redis's lag, summed over the lanes; None if one lane's is unknown."""
    return _read_facts(stream, group)[2]


def _read_facts(stream: Stream, group: Group) -> tuple[StreamId, int | None, int | None]:
    """The last-delivered ID, entries-read, and the lag."""
    lanes = stream.lanes
    if not lanes:
        return group.last_delivered_id(lanes), group.entries_read(lanes), 0
    position = ID_MIN
    read: int | None = 0
    behind: int | None = 0
    for region, lane in lanes.items():
        last_delivered, counted = group.reading.read_upto(region)
        position = max(position, last_delivered)
        if read is not None:
            read = None if counted is None else read + counted
        if behind is not None and lane.length:
            more = lane_lag(last_delivered, counted, lane, stream.last_ids[region].id)
            behind = None if more is None else behind + more
    return position, read, behind


def _facts_of_all(stream: Stream, groups: list[Group]) -> list[_Facts]:
    """Of each group ``_read_facts``, the ID formatted: one answer for all that begin alike.

    There may be thousands of groups that have read nothing yet.
    """
    known: dict[StreamId, _Facts] = {}
    all_facts: list[_Facts] = []
    for group in groups:
        start = group.reading.only_start
        facts = None if start is None else known.get(start)
        if facts is None:
            position, read, behind = _read_facts(stream, group)
            facts = format_id(position), read, behind
            if start is not None:
                known[start] = facts
        all_facts.append(facts)
    return all_facts


def show_groups(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XINFO GROUPS key: by name; pending and positions are this region's."""
    stream = stream_or_error(replica, argv[2])
    names = sorted(stream.groups)
    groups = [stream.groups[name] for name in names]
    facts = _facts_of_all(stream, groups)
    return RespMaps(
        [
            (b"name", [*names]),
            (b"consumers", [len(group.consumers) for group in groups]),
            (b"pending", [group.pending_count for group in groups]),
            (b"last-delivered-id", [position for position, _, _ in facts]),
            (b"entries-read", [read for _, read, _ in facts]),
            (b"lag", [behind for _, _, behind in facts]),
        ]
    )


def show_consumers(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XINFO CONSUMERS key group: the consumers of this region, by name."""
    key, name = argv[2:4]
    group = group_of(stream_or_error(replica, key), key, name)
    consumers = group.pel.consumers_by_name()
    active = [one.active_ms for one in consumers]
    return RespMaps(
        [
            (b"name", [one.name for one in consumers]),
            (b"pending", [one.pending_count for one in consumers]),
            (b"idle", [max(0, now - one.seen_ms) for one in consumers]),
            (b"inactive", [-1 if at is None else max(0, now - at) for at in active]),
        ]
    )


def show_help(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    return help_reply(HELP)
