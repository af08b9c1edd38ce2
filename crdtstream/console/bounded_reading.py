"""Keys and entries as a viewer sees them: in bounded pieces, and only what the viewer may read.

    keys      SCAN's order, a page at a time; a request looks at KEYS_LOOKED_AT keys at most, in
              turns of a millisecond
    entries   all lanes merged, the newest first; a page has ENTRIES_SHOWN
    fields    the first ones of an entry, each cut (``IN_A_LIST``, ``ALONE``)

A right is named by the command that shows the same: XINFO STREAM, XRANGE, CRDT.WHY.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crdtstream.access.rights import Rights
from crdtstream.admin.group_progress import LaneOfGroup, lanes_of
from crdtstream.commands.beyond_redis.provenance import crdt_why
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.groups.delivery import undelivered_count
from crdtstream.commands.reply import RespMap
from crdtstream.core.ids import ID_MIN, Millis, RegionId, StreamId, format_id, id_ms
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size

KEYS_SHOWN: Final = Size(50, least=1)
KEYS_LOOKED_AT: Final = Size(20_000, least=1)
KEYS_AT_ONCE: Final = 32
TURN_NS: Final = 1_000_000
# One search: then its page says where it goes on.
SEARCH_NS_MAX: Final = Size(2_000_000_000, least=1)
ENTRIES_SHOWN: Final = Size(25, least=1)
# Of each entry: fields, bytes of a value, and the bytes in which they are looked for.
IN_A_LIST: Final = (8, 200, 64 << 10)
ALONE: Final = (256, 16 << 10, 1 << 20)
GROUPS_SHOWN: Final = 100
# Macro nodes at a lane's end by which its rate is measured.
RATE_NODES: Final = 8
# Without these a pattern is a key.
_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_BULK: Final = re.compile(rb"\$(\d{1,10})\r\n")


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """A lane of a stream.

    Attributes:
        rate: entries per second at its end, by their IDs; None: their IDs are no times.
    """

    region: RegionId
    length: int
    first_id: StreamId
    last_id: StreamId
    added: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream in a list."""

    key: bytes
    length: int
    lanes: tuple[LaneFacts, ...]
    group_count: int
    last_id: StreamId

    @property
    def rate(self) -> float | None:
        """Entries per second of all lanes; None: the rate of no lane is known."""
        known = [lane.rate for lane in self.lanes if lane.rate is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class KeyPage:
    """A page of keys.

    Attributes:
        cursor: where the next page begins; 0: there is none.
        looked_at: keys that were looked at, shown or not.
        hidden: of these, streams that the viewer may not read; 0 if there is a pattern.
    """

    streams: list[StreamFacts]
    cursor: int
    looked_at: int
    hidden: int


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group, as CRDT.XINFO GROUPS has it.

    Attributes:
        undelivered: entries that ``>`` would still deliver in this region.
        home: the region that delivers alone; None: there is none.
    """

    name: bytes
    consumers: int
    pending: int
    undelivered: int
    mode: str
    home: RegionId | None
    lanes: tuple[LaneOfGroup, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry in a timeline.

    Attributes:
        arrived: when it came to this region; 0: not known.
        fields: pairs of field and value, each cut.
        fields_left_out: further pairs.
        size: bytes of all fields.
    """

    id: StreamId
    origin: RegionId
    arrived: Millis
    fields: list[tuple[bytes, bytes]]
    fields_left_out: int
    size: int


@dataclass(frozen=True, slots=True)
class EntryPage:
    """A page of entries, the newest first; ``next_id``: the first one of the next page."""

    entries: list[Entry]
    next_id: StreamId | None


def may_read(rights: Rights, key: bytes) -> bool:
    """True if the viewer may see that the stream exists, and its figures."""
    return rights.may_call([b"xinfo", b"stream", key])


def may_read_entries(rights: Rights, key: bytes) -> bool:
    """True if the viewer may see its entries."""
    return may_read(rights, key) and rights.may_call([b"xrange", key, b"-", b"+"])


def may_ask_why(rights: Rights, key: bytes, entry_id: StreamId) -> bool:
    """True if the viewer may see the history of an entry."""
    return rights.may_call([b"crdt.why", key, format_id(entry_id)])


# --- Keys -----------------------------------------------------------------------------------------


async def read_keys(
    replica: Replica, rights: Rights, *, cursor: int, pattern: bytes, now: Millis
) -> KeyPage:
    """The next streams whose keys match, a page of them; others have their turn meanwhile.

    After ``SEARCH_NS_MAX`` the page has what was found, and where the search goes on.

    Args:
        pattern: as of KEYS; empty: all.
    """
    if pattern and not _SPECIAL.search(pattern):
        return _single(replica, rights, pattern, now)
    matches: Callable[[bytes], bool] = compile_glob(pattern) if pattern else lambda _key: True
    found: list[StreamFacts] = []
    looked_at = hidden = 0
    began = time.perf_counter_ns()
    ends, last = began + TURN_NS, began + SEARCH_NS_MAX.value
    while len(found) < KEYS_SHOWN.value and looked_at < KEYS_LOOKED_AT.value:
        cursor, keys = replica.keys.scan(cursor, KEYS_AT_ONCE)
        looked_at += len(keys)
        for key in keys:
            stream = replica.stream(key) if matches(key) else None
            if stream is not None and may_read(rights, key):
                found.append(stream_facts(key, stream, now))
            elif stream is not None and not pattern:
                # Counted by pattern, they would tell their names, letter by letter.
                hidden += 1
            # A pattern may take as long for one key as for a thousand others.
            if time.perf_counter_ns() >= ends:
                await asyncio.sleep(0)
                ends = time.perf_counter_ns() + TURN_NS
        if not cursor or time.perf_counter_ns() >= last:
            break
    return KeyPage(sorted(found, key=lambda one: one.key), cursor, looked_at, hidden)


def _single(replica: Replica, rights: Rights, key: bytes, now: Millis) -> KeyPage:
    """The page for a key itself: found at once, among however many others."""
    # A search for a name must not tell a stranger that it exists.
    stream = replica.stream(key) if may_read(rights, key) else None
    if stream is None:
        return KeyPage([], 0, 1, 0)
    return KeyPage([stream_facts(key, stream, now)], 0, 1, 0)


def stream_facts(key: bytes, stream: Stream, now: Millis) -> StreamFacts:
    """Facts of a stream; O(lanes)."""
    lanes = tuple(_lane(lane, now) for lane in stream.lanes.values())
    return StreamFacts(key, stream.length, lanes, len(stream.groups), stream.last_entry_id)


def _lane(lane: Lane, now: Millis) -> LaneFacts:
    return LaneFacts(
        lane.region, lane.length, lane.first_id, lane.last_id, lane.entries_added, _rate(lane, now)
    )


def _rate(lane: Lane, now: Millis) -> float | None:
    """Entries per second since the first of the last macro nodes, by the time in its ID.

    It falls by itself while nothing is appended.
    """
    node = lane.tail
    if node is None:
        return None
    entries, first = 0, node
    for _ in range(RATE_NODES):
        entries += len(node)
        first = node
        if node.prev is None:
            break
        node = node.prev
    span_ms = now - id_ms(first.first_id)
    return entries * 1_000 / span_ms if span_ms > 0 else None


# --- One stream -----------------------------------------------------------------------------------


def group_facts(region: RegionId, stream: Stream) -> list[GroupFacts]:
    """Groups by name, a bounded number of them, as a region has them.

    Cost: O(lanes) of each.
    """
    return [
        GroupFacts(
            name,
            len(group.consumers),
            group.pending_count,
            undelivered_count(region, stream, group),
            group.mode.mode.value,
            group.home,
            tuple(lanes_of(group, stream)),
        )
        for name, group in sorted(stream.groups.items())[:GROUPS_SHOWN]
    ]


def read_entries(stream: Stream, *, up_to: StreamId) -> EntryPage:
    """Entries of all lanes up to an ID, the newest first.

    Entries with one ID, which several lanes may have, are never divided between two pages: a page
    has more entries rather than that.

    Raises:
        demand of entries that are on disk only; call it by ``Engine.read``.
    """
    found: list[Entry] = []
    for entry_id, origin, node, index in stream.scan_back(ID_MIN, up_to):
        if len(found) >= ENTRIES_SHOWN.value and found[-1].id != entry_id:
            return EntryPage(found, entry_id)
        found.append(_entry(entry_id, origin, node, index, IN_A_LIST))
    return EntryPage(found, None)


def read_entry(stream: Stream, entry_id: StreamId) -> list[Entry]:
    """The entries with an ID, of all lanes that have one, with many more of their fields.

    Raises:
        demand of entries that are on disk only; call it by ``Engine.read``.
    """
    return [_entry(*found, ALONE) for found in stream.scan_back(entry_id, entry_id)]


def _entry(
    entry_id: StreamId,
    origin: RegionId,
    node: MacroNode,
    index: int,
    bounds: tuple[int, int, int],
) -> Entry:
    columns = node.columns
    start, size = columns.starts[index], columns.lengths[index]
    with memoryview(columns.fields) as fields:
        head = bytes(fields[start : start + min(size, bounds[2])])
    pairs, left_out = _cut_fields(head, *bounds[:2])
    return Entry(entry_id, origin, node.arrived_at(index), pairs, left_out, size)


def _cut_fields(
    head: bytes, fields_max: int, value_bytes_max: int
) -> tuple[list[tuple[bytes, bytes]], int]:
    """The first fields of an entry, from the first bytes of them, and how many are left out.

    A value that is longer than those bytes ends what can be shown.
    """
    begin = head.index(b"\r\n") + 2
    count = int(head[1 : begin - 2]) // 2
    arguments: list[bytes] = []
    at = begin
    while len(arguments) < 2 * min(count, fields_max):
        bulk = _BULK.match(head, at)
        if bulk is None:
            break
        length = int(bulk[1])
        value = head[bulk.end() : bulk.end() + min(length, value_bytes_max)]
        arguments.append(value + "…".encode() if len(value) < length else value)
        at = bulk.end() + length + 2
    if len(arguments) % 2:
        arguments.append(b"")
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    return pairs, count - len(pairs)


def read_history(
    replica: Replica, key: bytes, entry_id: StreamId, now: Millis
) -> list[dict[str, object]]:
    """The answer of CRDT.WHY on an entry: by lane, and of entries that were collapsed into others.

    Raises:
        CommandError: the key does not exist.
    """
    reply = crdt_why(replica, now, [b"crdt.why", key, format_id(entry_id)])
    found = plain(reply)
    assert isinstance(found, list)
    return found


def plain(reply: object) -> object:
    """A reply as plain Python: maps as dictionaries with text as keys."""
    match reply:
        case RespMap():
            return {_key(name): plain(value) for name, value in reply.pairs}
        case list():
            return [plain(one) for one in reply]
        case _:
            return reply


def _key(name: object) -> object:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
