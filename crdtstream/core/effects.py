"""Effects: what happened, told so that every region can apply it without deciding anything.

A region turns each command that changes replicated state into effects, numbers them 1, 2, 3 …
(a dot each) and sends them in batches.  Applying an effect uses its *causal context* - what its
issuer had observed - to tell what a remove may take (observed-remove) and which creates a destroy
beats (delete-wins).  The table in the architecture page lists them; the code that applies them is
in ``replica.py``, the bytes are in ``codec.py``.

Local changes are the other thing a replica does: consumers, pending entries, positions.  They are
durable but never leave their region.  They go the same way - a value that is applied and logged -
so that recovery replays exactly what was lived.
"""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, Region, StreamId


@dataclass(frozen=True, slots=True)
class Append:
    """One entry, added to the lane of the region that issues it; the entry's dot is the effect's.

    Attributes:
        fields: the entry's fields and values as one RESP array of bulk strings.  These bytes are
            what log, link, macro node and reply carry; nobody encodes them a second time.
    """

    key: bytes
    id: StreamId
    fields: bytes


@dataclass(frozen=True, slots=True)
class Remove:
    """Entries that were removed by ID: observed-remove.

    Attributes:
        ids: per lane (origin region) the IDs to remove; no lane empty, ascending, no repeats.

    Applying it takes, of the named entries, those whose dot the context covers.  The ID alone
    would not do: after a delete a region may append the same ID again.
    Source: AA, "Conflict resolution"; Bieniusa et al. 2012, arXiv:1210.3368 (no tombstones).
    """

    key: bytes
    ids: Mapping[Region, tuple[StreamId, ...]]


@dataclass(frozen=True, slots=True)
class Trim:
    """Per lane: every entry up to and including the ID, if the context covers its dot."""

    key: bytes
    up_to: Mapping[Region, StreamId]


@dataclass(frozen=True, slots=True)
class DeleteKey:
    """The whole key: entries and last-IDs that the context covers, and, delete-wins, all groups."""

    key: bytes


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """A group.  It exists if no destroy of it lies outside this effect's context.

    Attributes:
        start: one position for every lane, future ones too; or positions by lane, and 0 for lanes
            not named (that is ``$``: each lane's last ID as observed).
        entries_read: the issuer's ENTRIESREAD, None without; a hint, not in the digest.
    """

    key: bytes
    group: bytes
    start: StreamId | Mapping[Region, StreamId]
    entries_read: int | None = None


@dataclass(frozen=True, slots=True)
class DestroyGroup:
    """The end of a group; wins over creates that had not observed it."""

    key: bytes
    group: bytes


@dataclass(frozen=True, slots=True)
class AckFrontier:
    """Per lane an interval (from, to] whose entries were all acknowledged at the issuer."""

    key: bytes
    group: bytes
    intervals: Mapping[Region, tuple[StreamId, StreamId]]


@dataclass(frozen=True, slots=True)
class SetLastId:
    """XSETID: overwrites the issuer's last-ID register; the counters are not in the digest."""

    key: bytes
    id: StreamId
    entries_added: int | None = None
    max_deleted_id: StreamId | None = None


Effect: TypeAlias = (
    Append | Remove | Trim | DeleteKey | CreateGroup | DestroyGroup | AckFrontier | SetLastId
)
RareEffect: TypeAlias = (
    Remove | Trim | DeleteKey | CreateGroup | DestroyGroup | AckFrontier | SetLastId
)


@dataclass(slots=True)
class AppendColumns:
    """The appends of a batch, column by column, in the order they were issued.

    Attributes:
        keys: distinct stream keys.
        key_index: per append its key, as index into ``keys``.
        ms, seq: per append the two halves of its ID.
        lengths: per append how many bytes of ``fields`` are its own.
        fields: the RESP arrays of all appends, one after the other.
    """

    keys: list[bytes]
    key_index: "array[int]"  # 'I'
    ms: "array[int]"  # 'Q'
    seq: "array[int]"  # 'Q'
    lengths: "array[int]"  # 'I'
    fields: bytes


@dataclass(slots=True)
class EffectBatch:
    """Consecutive effects of one region under one context: the unit of log, link and apply.

    Attributes:
        origin: the region that issued the effects.
        first_n: dot number of the first one; the others follow without gaps.
        count: how many effects, at least one.
        context: what the issuer had observed of *other* origins.  In the context of the effect
            with number n the component of its own origin is n - 1 (``rules`` 1).
        issued_ms: the issuer's clock when the batch was sealed, for measuring lag; never state.
        appends: the appends, as columns.
        others: every other effect with its offset (n - first_n), ascending.  The appends fill the
            offsets that ``others`` leaves free.
    """

    origin: Region
    first_n: int
    count: int
    context: VersionVector
    issued_ms: Millis
    appends: AppendColumns
    others: list[tuple[int, RareEffect]]

    @property
    def last_n(self) -> int:
        return self.first_n + self.count - 1


# --- Local changes: durable here, never replicated ----------------------------------------


@dataclass(frozen=True, slots=True)
class Deliver:
    """XREADGROUP with ``>``: entries handed out.

    Attributes:
        ids: per lane the delivered IDs, ascending; the last one is the lane's new last-delivered.
        noack: delivered as if acknowledged at once: nothing becomes pending.
    """

    key: bytes
    group: bytes
    consumer: bytes
    now: Millis
    ids: Mapping[Region, tuple[StreamId, ...]]
    noack: bool


@dataclass(frozen=True, slots=True)
class Redeliver:
    """A consumer read its history again: delivery time and count of these pending entries."""

    key: bytes
    group: bytes
    consumer: bytes
    now: Millis
    ids: Mapping[Region, tuple[StreamId, ...]]


@dataclass(frozen=True, slots=True)
class Ack:
    """Pending entries that were acknowledged."""

    key: bytes
    group: bytes
    ids: Mapping[Region, tuple[StreamId, ...]]


@dataclass(frozen=True, slots=True)
class Claim:
    """XCLAIM, XAUTOCLAIM: pending entries with their new owner, time and count.

    Attributes:
        nacks: per lane (id, delivery time, delivery count), ascending by id.
        dropped: per lane pending IDs whose entry is gone: they stop being pending.
        last_id: the group reads on from here, if that is further (LASTID).
    """

    key: bytes
    group: bytes
    consumer: bytes
    now: Millis
    nacks: Mapping[Region, tuple[tuple[StreamId, Millis, int], ...]]
    dropped: Mapping[Region, tuple[StreamId, ...]]
    last_id: StreamId | None = None


@dataclass(frozen=True, slots=True)
class CreateConsumer:
    key: bytes
    group: bytes
    consumer: bytes
    now: Millis


@dataclass(frozen=True, slots=True)
class DeleteConsumer:
    key: bytes
    group: bytes
    consumer: bytes


@dataclass(frozen=True, slots=True)
class SetPosition:
    """XGROUP SETID: one position for every lane, or one per lane (``$``; 0 where not named)."""

    key: bytes
    group: bytes
    position: StreamId | Mapping[Region, StreamId]
    entries_read: int | None = None


LocalChange: TypeAlias = (
    Deliver | Redeliver | Ack | Claim | CreateConsumer | DeleteConsumer | SetPosition
)


@dataclass(slots=True)
class Record:
    """What must be durable before anything that depends on it may leave the process.

    One sealed section of a tick: a batch (this region's own, or one received), and the local
    changes made in the same section.  Written as one row of the log, replayed as a whole.

    Attributes:
        origin, first_n, last_n: of the batch; last_n is first_n - 1 in a record without one.
        batch: the encoded EffectBatch, the very bytes that links send; None without effects.
        local: the encoded local changes, each with the own-dot count after which it came.
    """

    origin: Region
    first_n: int
    last_n: int
    batch: bytes | None
    local: bytes | None
