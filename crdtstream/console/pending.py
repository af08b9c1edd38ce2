"""A group in this region: its consumers, and its pending entries, a page at a time, by ID."""

import heapq
from dataclasses import dataclass
from itertools import islice
from typing import Final

from crdtstream.access.rights import Rights
from crdtstream.commands.groups.pending import idle_ms
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Consumer
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.size import Size

PENDING_SHOWN: Final = Size(25, least=1)
CONSUMERS_SHOWN: Final = Size(50, least=1)
# Of a group with more, the shown ones are among these.
CONSUMERS_LOOKED_AT: Final = Size(5_000, least=1)


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """One pending entry.

    Attributes:
        consumer: None: it has none.
        idle_ms: since it was delivered, if it has a consumer.
    """

    id: StreamId
    lane: RegionId
    consumer: bytes | None
    idle_ms: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class PendingPage:
    """A page of them; ``next_id``: the first one of the next page.

    Attributes:
        count: of all pending entries of the group here.
        consumer_count: of all its consumers here.
        home: the region that delivers alone; None: there is none.
    """

    entries: list[PendingEntry]
    next_id: StreamId | None
    count: int
    consumer_count: int
    home: RegionId | None


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A consumer, as XINFO CONSUMERS has it.

    Attributes:
        pending: entries that are pending with it.
        idle_ms: since it last asked for entries.
        inactive_ms: since it last got one; None: it never did.
    """

    name: bytes
    pending: int
    idle_ms: int
    inactive_ms: int | None


def may_see_consumers(rights: Rights, key: bytes, group: bytes) -> bool:
    """True if the viewer may see the consumers of a group."""
    return rights.may_call([b"xinfo", b"consumers", key, group])


def read_consumers(group: Group, now: Millis) -> list[ConsumerFacts]:
    """Consumers of this region: those with the most pending entries, the longest idle, and the
    lowest name first."""

    def order(one: Consumer) -> tuple[int, int, bytes]:
        return -one.pending_count, one.seen_ms, one.name

    looked_at = islice(group.consumers.values(), CONSUMERS_LOOKED_AT.value)
    return [
        ConsumerFacts(
            one.name,
            one.pending_count,
            max(0, now - one.seen_ms),
            None if one.active_ms is None else max(0, now - one.active_ms),
        )
        for one in heapq.nsmallest(CONSUMERS_SHOWN.value, looked_at, key=order)
    ]


def may_see_pending(rights: Rights, key: bytes, group: bytes) -> bool:
    """True if the viewer may see what is pending, and for whom."""
    return rights.may_call([b"xpending", key, group])


def read_pending(group: Group, *, start: StreamId, now: Millis) -> PendingPage:
    """Pending entries from an ID on.

    Entries with one ID, in several lanes, are never divided between two pages.
    """
    found: list[PendingEntry] = []
    next_id = None
    for nack in group.pending_from(start):
        if len(found) >= PENDING_SHOWN.value and found[-1].id != nack.id:
            next_id = nack.id
            break
        consumer = None if nack.consumer is None else nack.consumer.name
        found.append(
            PendingEntry(nack.id, nack.lane, consumer, idle_ms(nack, now), nack.delivery_count)
        )
    return PendingPage(found, next_id, group.pending_count, len(group.consumers), group.home)
