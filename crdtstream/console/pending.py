"""Pending entries of a group in this region, a page at a time, by ID as XPENDING."""

from dataclasses import dataclass
from typing import Final

from crdtstream.access.rights import Rights
from crdtstream.commands.groups.pending import idle_ms
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.size import Size

PENDING_SHOWN: Final = Size(25, least=1)


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
        home: the region that delivers alone; None: there is none.
    """

    entries: list[PendingEntry]
    next_id: StreamId | None
    count: int
    home: RegionId | None


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
    return PendingPage(found, next_id, group.pending_count, group.home)
