"""Groups of a stream: position, consumers and pending entries.

Groups are written when nothing follows any more: their positions and pending entries refer to
entries, which have to be there, and consumers go on at the source until the cut-over.

    XGROUP CREATE s g 3-0 ENTRIESREAD 3      where ``>`` goes on
    XGROUP CREATECONSUMER s g alice          also those without pending entries
    XCLAIM s g alice 0 2-0 TIME 17… RETRYCOUNT 4 FORCE JUSTID

A group that differs at the target is destroyed and made again, so a move that was killed in the
middle leaves no half of a group behind the next run.

Always so: pending entries are compared by when they were delivered, and not by how long ago.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crdtstream.core.ids import StreamId, format_id
from crdtstream.move.connection import Connection, ReplyError, Word, millis
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError
from crdtstream.move.pages import Pages, id_of, shown
from crdtstream.move.streams import NO_SUCH_KEY, pairs_of

# A reason not to bring a group is looked for again so often: consumers may just have read.
LOOKS_MAX: Final = 5
PENDING_AT_A_TIME: Final = 1_000
CLAIMED_AT_A_TIME: Final = 500
CLAIMS_AT_A_TIME: Final = 100
# Times are read at one moment of the server's clock, but rounded to milliseconds twice.
DELIVERED_MS_APART_MAX: Final = 1_000
# The consumer that gets entries which XNACK returned to their group: Redis has none without one.
WITHOUT_OWNER: Final = b"without-owner"


class Pending(NamedTuple):
    """One pending entry.

    Attributes:
        delivered_ms: time of the last delivery, by the clock of its server.
        deliveries: how often it was delivered.
    """

    id: bytes
    consumer: bytes
    delivered_ms: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group without its pending entries.

    Attributes:
        position: the last-delivered ID.
        entries_read: None: unknown, or the server does not count.
        consumers: names, ascending.
    """

    name: bytes
    position: StreamId
    entries_read: int | None
    consumers: tuple[bytes, ...]


@dataclass(slots=True)
class GroupDifferences:
    """Differences of one group between the ends.

    Attributes:
        texts: the first of them, for people.
        pending: entries that are pending at both ends.
        dangling: pending at the source without being in the stream any more; they stay behind.
    """

    texts: list[str] = field(default_factory=list)
    pending: int = 0
    dangling: int = 0


async def groups_of(connection: Connection, key: bytes) -> dict[bytes, Group]:
    """The groups of a stream by name; none if the key does not exist."""
    words = ("XINFO", "GROUPS", key)
    rows = (await connection.run([words]))[0]
    if isinstance(rows, ReplyError) and NO_SUCH_KEY in str(rows):
        return {}
    found = {}
    for reply in connection.checked(rows, words):
        facts = pairs_of(reply)
        name: bytes = facts[b"name"]
        consumers = await connection.call("XINFO", "CONSUMERS", key, name)
        found[name] = Group(
            name,
            id_of(facts[b"last-delivered-id"]),
            facts.get(b"entries-read"),
            tuple(sorted(pairs_of(one)[b"name"] for one in consumers)),
        )
    return found


async def source_groups(ends: Ends, pair: Pair, key: bytes) -> dict[bytes, Group]:
    """The groups of the source, with positions that a single stream can have.

    A region's group has a position in every lane, and shows the highest.  That one serves if all
    entries above it, and no others, are still to be delivered.

    Raises:
        MoveError: it would skip entries.
    """
    for _ in range(LOOKS_MAX):
        groups = await groups_of(pair.source, key)
        if not ends.of_source.is_region or not groups:
            return groups
        owing = await _owing(pair.source, key, groups)
        if owing is None:
            return groups
    raise MoveError(owing)


async def _owing(source: Connection, key: bytes, groups: Mapping[bytes, Group]) -> str | None:
    """The reason why the position of a group cannot be one ID; None: all of them can.

    Producers and consumers go on: only entries up to the last ID at one moment count, and a reason
    may be one of that moment only.
    """
    transaction = [("MULTI",), ("XINFO", "STREAM", key), ("CRDT.XINFO", "GROUPS", key), ("EXEC",)]
    *_, executed = await source.call_all(transaction)
    stream, rows = (source.checked(reply, ("XINFO",)) for reply in executed)
    last_id: bytes = pairs_of(stream)[b"last-generated-id"]
    undelivered = {(row := pairs_of(reply))[b"name"]: row[b"undelivered"] for reply in rows}
    for name, group in groups.items():
        above = 0
        async for page in Pages(source, key, after=group.position, end=last_id):
            above += len(page)
        if undelivered.get(name) != above:
            return (
                f"group {shown(name)} of {shown(key)} has {undelivered.get(name)} entries to"
                f" deliver, and {above} of the stream are above its last-delivered ID: entries of"
                " other regions are below. One position cannot say that; let its consumers read"
                " what is there, then run the same command again"
            )
    return None


async def pending_of(connection: Connection, key: bytes, group: bytes) -> AsyncIterator[Pending]:
    """The pending entries of a group, by ID."""
    start = b"-"
    while True:
        # One transaction: the time is that of the idle times.
        transaction = [
            ("MULTI",),
            ("TIME",),
            ("XPENDING", key, group, start, "+", PENDING_AT_A_TIME),
            ("EXEC",),
        ]
        # A command that may not run is refused when it is queued.
        *_, executed = await connection.call_all(transaction)
        time_reply, rows = executed
        now_ms = millis(time_reply)
        for entry_id, consumer, idle_ms, deliveries in connection.checked(rows, ("XPENDING",)):
            # A region says -1 of an entry without an owner, which may be claimed at once.
            delivered_ms = now_ms - idle_ms if consumer else 0
            yield Pending(entry_id, consumer or WITHOUT_OWNER, delivered_ms, deliveries)
        if len(rows) < PENDING_AT_A_TIME:
            return
        start = format_id(StreamId(id_of(rows[-1][0]) + 1))


async def bring_groups(ends: Ends, pair: Pair, key: bytes) -> list[bytes]:
    """Make the target's groups what the source's are.

    Returns:
        Groups that the target had with a higher position: consumers read there already.

    Raises:
        LostError, MoveError: see ``Connection.call``.
    """
    source = await source_groups(ends, pair, key)
    target = await groups_of(pair.target, key)
    for name in target.keys() - source.keys():
        await pair.target.call("XGROUP", "DESTROY", key, name)
    for name, group in source.items():
        found = await compare_group(pair, key, group, target.get(name))
        if found.texts:
            await _make(ends, pair, key, group)
    return sorted(
        name
        for name, group in source.items()
        if name in target and target[name].position > group.position
    )


async def _make(ends: Ends, pair: Pair, key: bytes, group: Group) -> None:
    target, name = pair.target, group.name
    await target.call_or_none("XGROUP", "DESTROY", key, name)
    create: list[Word] = ["XGROUP", "CREATE", key, name, format_id(group.position), "MKSTREAM"]
    if group.entries_read is not None and ends.of_target.has_counters:
        create += ["ENTRIESREAD", group.entries_read]
    await target.call(*create)
    for consumer in group.consumers:
        await target.call("XGROUP", "CREATECONSUMER", key, name, consumer)
    alike: list[Pending] = []
    claims: list[list[Word]] = []
    async for one in pending_of(pair.source, key, name):
        if alike and (len(alike) == CLAIMED_AT_A_TIME or one[1:] != alike[0][1:]):
            claims.append(_claim(key, name, alike))
            alike = []
        alike.append(one)
        if len(claims) == CLAIMS_AT_A_TIME:
            await target.call_all(claims)
            ends.progressed()
            claims = []
    if alike:
        claims.append(_claim(key, name, alike))
    await target.call_all(claims)
    ends.progressed()


def _claim(key: bytes, group: bytes, alike: Sequence[Pending]) -> list[Word]:
    """The command that makes entries pending which have consumer, time and count in common."""
    _, consumer, delivered_ms, deliveries = alike[0]
    words: list[Word] = ["XCLAIM", key, group, consumer, 0, *(one.id for one in alike)]
    return [*words, "TIME", delivered_ms, "RETRYCOUNT", deliveries, "FORCE", "JUSTID"]


async def compare_group(
    pair: Pair, key: bytes, source: Group, target: Group | None
) -> GroupDifferences:
    """The differences of a group; of pending entries the first one only."""
    found = GroupDifferences()
    of = f"group {shown(source.name)}"
    if target is None:
        found.texts.append(f"{of} is missing at the target")
        return found
    if source.position != target.position:
        found.texts.append(
            f"{of}: last-delivered {format_id(source.position).decode()} at the source,"
            f" {format_id(target.position).decode()} at the target"
        )
    if differ(source.entries_read, target.entries_read):
        found.texts.append(f"{of}: entries-read {source.entries_read} and {target.entries_read}")
    missing = set(source.consumers) - set(target.consumers)
    if missing:
        found.texts.append(f"{of}: {len(missing)} consumers are missing at the target")
    await _compare_pending(pair, key, source.name, found)
    return found


def differ(source: int | None, target: int | None) -> bool:
    """True if both ends count, and not alike."""
    return source is not None and target is not None and source != target


async def _compare_pending(pair: Pair, key: bytes, group: bytes, found: GroupDifferences) -> None:
    of = f"group {shown(group)}"
    rows = pending_of(pair.target, key, group)
    theirs = await anext(rows, None)
    async for one in pending_of(pair.source, key, group):
        if theirs is None or theirs.id != one.id:
            if not await pair.source.call("XRANGE", key, one.id, one.id):
                found.dangling += 1
                continue
            found.texts.append(f"{of}: {one.id.decode()} is pending at one end only")
            return
        if (one.consumer, one.deliveries) != (theirs.consumer, theirs.deliveries):
            found.texts.append(f"{of}: {one.id.decode()} has another consumer or delivery count")
            return
        if abs(one.delivered_ms - theirs.delivered_ms) > DELIVERED_MS_APART_MAX:
            found.texts.append(f"{of}: {one.id.decode()} was delivered at another time")
            return
        found.pending += 1
        theirs = await anext(rows, None)
    if theirs is not None:
        found.texts.append(f"{of}: {theirs.id.decode()} is pending at the target only")
