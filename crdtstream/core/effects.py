"""Effects: what happened, in a form that every region can apply without deciding anything.

A region turns each command that changes replicated state into effects, numbers them 1, 2, 3 …
(a dot each) and sends them in batches.  Applying an effect uses its *causal context* - what its
issuer had observed - to decide what a remove may take (observed-remove) and which creates a destroy
beats (delete-wins).

Local changes are the other thing a replica does: consumers, pending entries, positions.  They are
durable but never leave their region.  They are handled the same way - a value that is applied and
logged - so that recovery replays exactly what happened.

Both are closed unions, and a kind is known in these places:

    applying/apply_effect.py, apply_change.py     what it does; a ``match`` that must name each kind
    wire/codec.py, local_codec.py                 its bytes, both ways
    docs/architecture.md                          its row in a table
    tests/core/every_kind.py                      an example, and what becomes of it

A kind that is forgotten in one of them fails type checking or ``tests/core/test_every_kind.py``.

Always so: an effect says what it promises in ``__post_init__``.  What comes from outside is
validated first (``codec.py``), so a failed assertion there is a bug of this region.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.member_changes import HASH_BYTES, Change

# No setting of a mode follows this one.
EPOCH_MAX: Final = 1 << 62
# Counters continue from what an effect says; added up over all lanes they must stay within 64 bits.
COUNTER_MAX: Final = 1 << 53


def counted(value: int) -> int:
    """A count as it is applied, here and in replay: limited to what a counter can reach."""
    return min(value, COUNTER_MAX)


class IdempotentId(NamedTuple):
    """Name by which an append is recognised when it is tried again (XADD IDMP).

    Attributes:
        producer: the producer's name for itself.
        id: the producer's name for the message.
    """

    producer: bytes
    id: bytes


class Numbered(NamedTuple):
    """First of some rows of a numbered producer (``numbered.py``).

    Attributes:
        producer: the producer's name for itself.
        batch: number of the producer's batch; ascending.
        row: the number of the first row; those behind it follow without gaps.
    """

    producer: bytes
    batch: int
    row: int

    def name(self, offset: int) -> IdempotentId:
        """Name of the row ``offset`` behind the first, where idempotent ids are shown."""
        return IdempotentId(self.producer, b"%d:%d" % (self.batch, self.row + offset))

    def behind(self, offset: int) -> "Numbered":
        """The rows from ``offset`` rows further on."""
        return Numbered(self.producer, self.batch, self.row + offset)


@dataclass(frozen=True, slots=True)
class NumberedRun:
    """Appends of a batch, ``count`` from the index ``at`` on, that are rows of a producer."""

    at: int
    count: int
    first: Numbered


@dataclass(frozen=True, slots=True)
class Append:
    """One entry, added to the lane of the region that issues it; the entry's dot is the effect's.

    Attributes:
        fields: the entry's fields and values as one RESP array of bulk strings.  These bytes are
            what log, link, macro node and reply carry; they are not encoded a second time.
        idempotent: two concurrent appends that have the same are one entry (``rules`` 20).
    """

    key: bytes
    id: StreamId
    fields: bytes
    idempotent: IdempotentId | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Entries that were removed by ID: observed-remove.

    Attributes:
        ids: per lane (origin region) the IDs to remove; no lane empty, ascending, no repeats.
        with_references: where these entries are pending they stop being so, in any group and every
            region (DELREF).  Without it a pending entry stays and reads as nil.
        trims: removed by a trim, which unlike XDEL leaves max-deleted-entry-id where it is.

    Applying it takes, of the named entries, those whose dot the context covers.  The ID alone
    would not do: after a delete a region may append the same ID again.
    Source: AA, "Conflict resolution"; Bieniusa et al. 2012, arXiv:1210.3368 (no tombstones).
    """

    key: bytes
    ids: Mapping[RegionId, Ids]
    with_references: bool = False
    trims: bool = False

    def __post_init__(self) -> None:
        assert self.ids, "an effect that changes nothing must not be issued"
        for lane_ids in self.ids.values():
            assert lane_ids
            assert ascend(lane_ids)


@dataclass(frozen=True, slots=True)
class Trim:
    """Per lane: every entry up to and including the ID, if the context covers its dot."""

    key: bytes
    up_to: Mapping[RegionId, StreamId]

    def __post_init__(self) -> None:
        assert self.up_to, "an effect that changes nothing must not be issued"


class Taken(NamedTuple):
    """A region's share of a counter, as a SET or a delete had observed it (``counters.py``).

    Attributes:
        n: number of the last effect that it had observed of those that added.
        total: all that the share's run had added by then.
    """

    region: RegionId
    n: int
    total: int


@dataclass(slots=True, init=False)
class DeleteKey:
    """The whole key: entries, last-IDs and strings that the context covers, and, delete-wins, all
    groups.

    Attributes:
        takes: of a counter.  The issuer adds them.
    """

    key: Final[bytes]
    takes: Final[tuple[Taken, ...]]

    def __init__(self, key: bytes, takes: tuple[Taken, ...] = ()) -> None:
        self.key = key
        self.takes = takes


@dataclass(frozen=True, slots=True)
class ExpireKey:
    """The stream expired: everything of it that the context covers is removed, and nothing else.

    Observed-remove throughout: entries, last-IDs, deadlines, XCFGSET's values and group creates.
    It leaves no tombstone, so a group that another region makes again after the deadline stays.
    A user's delete is a DeleteKey.  A string has its own deadline, and a DeleteString ends it.
    Source: ``rules`` 7.
    """

    key: bytes


# Where a group begins: one position for every lane, future ones too; or positions by lane, and 0
# for lanes not named (that is ``$``: each lane's last ID as observed).
Start: TypeAlias = StreamId | Mapping[RegionId, StreamId]


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """A group.  It exists if no destroy of it lies outside this effect's context.

    Attributes:
        start: see the type.
        entries_read: the issuer's ENTRIESREAD, None without; a hint, not in the digest.
    """

    key: bytes
    group: bytes
    start: Start
    entries_read: int | None = None

    def __post_init__(self) -> None:
        assert self.entries_read is None or self.entries_read >= 0


@dataclass(frozen=True, slots=True)
class DestroyGroup:
    """The end of a group; wins over creates that had not observed it."""

    key: bytes
    group: bytes


@dataclass(slots=True, init=False)
class AckFrontier:
    """Per lane an interval (from, to] whose entries were all acknowledged at the issuer."""

    key: Final[bytes]
    group: Final[bytes]
    intervals: Final[Mapping[RegionId, tuple[StreamId, StreamId]]]

    def __init__(
        self, key: bytes, group: bytes, intervals: Mapping[RegionId, tuple[StreamId, StreamId]]
    ) -> None:
        self.key = key
        self.group = group
        self.intervals = intervals
        assert self.intervals, "an effect that changes nothing must not be issued"
        assert are_stretches(self.intervals.values())


@dataclass(frozen=True, slots=True)
class SetLastId:
    """XSETID: overwrites the issuer's last-ID register; the counters are not in the digest."""

    key: bytes
    id: StreamId
    entries_added: int | None = None
    max_deleted_id: StreamId | None = None

    def __post_init__(self) -> None:
        assert self.entries_added is None or self.entries_added >= 0


@dataclass(frozen=True, slots=True)
class SetExpiry:
    """EXPIRE, PERSIST: a value of the key's expiry register, which may hold several (``rules`` 7).

    Attributes:
        deadline: milliseconds since the epoch; None is PERSIST and beats every deadline.
    """

    key: bytes
    deadline: Millis | None

    def __post_init__(self) -> None:
        assert self.deadline is None or self.deadline >= 0


@dataclass(frozen=True, slots=True)
class SetStreamConfig:
    """XCFGSET: how long, and how many, idempotent ids a stream recognises (``rules`` 8).

    Attributes:
        idmp_duration_s, idmp_maxsize: None where the command did not say.
    """

    key: bytes
    idmp_duration_s: int | None
    idmp_maxsize: int | None

    def __post_init__(self) -> None:
        assert self.idmp_duration_s is None or self.idmp_duration_s >= 1
        assert self.idmp_maxsize is None or self.idmp_maxsize >= 1


@dataclass(frozen=True, slots=True)
class SetString:
    """SET: a value of the key's string register, which may hold several (``rules`` 23).

    Attributes:
        value: any bytes.
        deadline: when this value ends, in milliseconds since the epoch; None: it does not.  A value
            has its own deadline, so that no DEL or SET elsewhere can part the two.
        takes: of a counter.  The issuer adds them.

    Applying it overwrites the values that the context covers.
    """

    key: bytes
    value: bytes
    deadline: Millis | None
    takes: tuple[Taken, ...] = ()

    def __post_init__(self) -> None:
        assert self.deadline is None or self.deadline >= 0


@dataclass(frozen=True, slots=True)
class SetStringExpiry:
    """EXPIRE, PERSIST of a string: a deadline for each of its values that the context covers.

    Attributes:
        deadline: milliseconds since the epoch; None is PERSIST and beats every deadline that is set
            at the same time.

    A value that another region sets concurrently keeps the deadline that it was set with.
    """

    key: bytes
    deadline: Millis | None

    def __post_init__(self) -> None:
        assert self.deadline is None or self.deadline >= 0


@dataclass(frozen=True, slots=True)
class DeleteString:
    """The string of a key is gone: observed-remove, and a stream of that name stays as it is.

    DEL issues it where the key is a string only, so that it leaves no tombstone; and so does
    expiry.  A DeleteKey takes a string besides the stream.

    Attributes:
        takes: of a counter.  The issuer adds them.
    """

    key: bytes
    takes: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class AddToString:
    """INCR and its like: more in the issuing region's share of a counter (``rules`` 24).

    Attributes:
        by: what is added, which may be below 0.
        base: the value of the string that counted, and to which it is added; None: there was none.
        after_n: number of this region's effect before that added in the same run; 0: the first.
        before: all that the run had added until then.
        deadline: the one that the issuer saw; it stays with what is added.

    Applying it adds exactly this much, whatever is concurrent.  GET shows it while the base counts,
    or once no value is left.
    """

    key: bytes
    by: int
    base: Dot | None
    after_n: int
    before: int
    deadline: Millis | None

    def __post_init__(self) -> None:
        assert self.after_n or not self.before
        assert self.deadline is None or self.deadline >= 0


class Mode(Enum):
    """Rule that decides which region delivers a group's new entries (``rules`` 13)."""

    AT_LEAST_ONCE = "at-least-once"
    HOME = "home"
    PARTITIONED = "partitioned"


@dataclass(frozen=True, slots=True)
class LaneHandover:
    """The old home's progress in one lane: the new home goes on from there.

    Attributes:
        run_from, last_delivered: in (run_from, last_delivered] every entry was delivered at the old
            home or was known to be acknowledged.
        handed_out: stretches beyond that were delivered there too.
        ignore_until: set back by XGROUP SETID: intervals are ignored up to here.
        pending: those of all these that were not acknowledged: (id, delivery count), ascending.
        entries_read: Redis's counter, None when unknown.
    """

    run_from: StreamId
    last_delivered: StreamId
    handed_out: tuple[tuple[StreamId, StreamId], ...]
    ignore_until: StreamId
    pending: tuple[tuple[StreamId, int], ...]
    entries_read: int | None

    def __post_init__(self) -> None:
        assert self.run_from <= self.last_delivered
        assert are_stretches(self.handed_out)
        assert ascend([entry_id for entry_id, _ in self.pending])


@dataclass(frozen=True, slots=True)
class SetGroupMode:
    """CRDT.XGROUP SETMODE: a value of the group's mode register.

    Attributes:
        epoch: one more than the epoch that the issuer had observed.  The highest epoch wins, then
            the lowest issuing region.
        home: with Mode.HOME the region that delivers; else None.
        forced: taken, not handed over: a region that takes a lane over starts at its frontier.
        handover: issued by the home: per lane how far it had come.  What it had acknowledged was
            issued before, as AckFrontier.

    It applies only if the context covers a live create of the group.
    """

    key: bytes
    group: bytes
    epoch: int
    mode: Mode
    home: RegionId | None
    forced: bool
    handover: Mapping[RegionId, LaneHandover]

    def __post_init__(self) -> None:
        assert 1 <= self.epoch <= EPOCH_MAX
        assert (self.home is not None) is (self.mode is Mode.HOME)


@dataclass(frozen=True, slots=True)
class ChangeMembers:
    """A change of the members that was decided: of the database, and of no key.

    Attributes:
        epoch: the one that it begins.
        previous: the hash of the history that it follows.
        change: as it was decided.

    Any region that knows the decision may issue it; effects of equal epoch and hash are one.
    Applying it takes the members to the epoch.  A change that was decided otherwise here is an
    error, since the database has split then.
    Source: ``rules`` 4.
    """

    epoch: int
    previous: bytes
    change: Change

    def __post_init__(self) -> None:
        assert self.epoch >= 2, "no effect reports what the files name"
        assert len(self.previous) == HASH_BYTES


KeyEffect: TypeAlias = (
    Remove
    | Trim
    | DeleteKey
    | ExpireKey
    | CreateGroup
    | DestroyGroup
    | AckFrontier
    | SetLastId
    | SetExpiry
    | SetStreamConfig
    | SetGroupMode
    | SetString
    | SetStringExpiry
    | DeleteString
    | AddToString
)
RareEffect: TypeAlias = KeyEffect | ChangeMembers
Effect: TypeAlias = Append | RareEffect


def ascend(ids: Ids) -> bool:
    """True if the IDs ascend without repeats."""
    if isinstance(ids, IdColumns):
        return ids.ascend()
    return all(a < b for a, b in pairwise(ids))


def are_stretches(stretches: Iterable[tuple[StreamId, StreamId]]) -> bool:
    """True if each of the half-open stretches starts below its end."""
    return all(start < end for start, end in stretches)


@dataclass(slots=True, init=False)
class AppendColumns:
    """The appends of a batch, column by column, in the order they were issued.

    Attributes:
        keys: distinct stream keys.
        key_index: per append its key, as index into ``keys``.
        ms, seq: per append the two halves of its ID.
        lengths: per append how many bytes of ``fields`` are its own.
        fields: the RESP arrays of all appends, one after the other.
        idempotent: by index the producer and id of those appends that have one.
        numbered: those that are rows of numbered producers, ascending; none is idempotent, too.
    """

    keys: list[bytes]
    key_index: "array[int]"  # 'I'
    ms: "array[int]"  # 'Q'
    seq: "array[int]"  # 'Q'
    lengths: "array[int]"  # 'I'
    fields: bytes
    idempotent: dict[int, IdempotentId]
    numbered: list[NumberedRun]

    def __init__(
        self,
        keys: list[bytes],
        key_index: "array[int]",
        ms: "array[int]",
        seq: "array[int]",
        lengths: "array[int]",
        fields: bytes,
        idempotent: dict[int, IdempotentId] | None = None,
        numbered: list[NumberedRun] | None = None,
    ) -> None:
        self.keys = keys
        self.key_index = key_index
        self.ms = ms
        self.seq = seq
        self.lengths = lengths
        self.fields = fields
        self.idempotent = {} if idempotent is None else idempotent
        self.numbered = [] if numbered is None else numbered


@dataclass(slots=True, init=False)
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
        follows: the hash of the origin's batch before this one (``histories.py``); 0: unknown.
    """

    origin: RegionId
    first_n: int
    count: int
    context: VersionVector
    issued_ms: Millis
    appends: AppendColumns
    others: list[tuple[int, RareEffect]]
    follows: int

    def __init__(
        self,
        origin: RegionId,
        first_n: int,
        count: int,
        context: VersionVector,
        issued_ms: Millis,
        appends: AppendColumns,
        others: list[tuple[int, RareEffect]],
        follows: int = 0,
    ) -> None:
        self.origin = origin
        self.first_n = first_n
        self.count = count
        self.context = context
        self.issued_ms = issued_ms
        self.appends = appends
        self.others = others
        self.follows = follows
        assert self.count == len(self.appends.ms) + len(self.others) >= 1
        assert self.origin not in self.context

    @property
    def last_n(self) -> int:
        return self.first_n + self.count - 1


# --- Local changes: durable here, never replicated ----------------------------------------


@dataclass(slots=True, init=False)
class Deliver:
    """XREADGROUP with ``>``: entries delivered.

    Attributes:
        ids: per lane the delivered IDs, ascending; the last one is the lane's new last-delivered.
        noack: delivered as if acknowledged at once: nothing becomes pending.
    """

    key: Final[bytes]
    group: Final[bytes]
    consumer: Final[bytes]
    now: Final[Millis]
    ids: Final[Mapping[RegionId, Ids]]
    noack: Final[bool]

    def __init__(
        self,
        key: bytes,
        group: bytes,
        consumer: bytes,
        now: Millis,
        ids: Mapping[RegionId, Ids],
        noack: bool,
    ) -> None:
        self.key = key
        self.group = group
        self.consumer = consumer
        self.now = now
        self.ids = ids
        self.noack = noack
        assert all(self.ids.values()), "no lane is empty"


@dataclass(frozen=True, slots=True)
class Redeliver:
    """A consumer read its history again: delivery time and count of these pending entries."""

    key: bytes
    group: bytes
    consumer: bytes
    now: Millis
    ids: Mapping[RegionId, Ids]

    def __post_init__(self) -> None:
        assert all(self.ids.values()), "no lane is empty"


@dataclass(slots=True, init=False)
class Ack:
    """Pending entries that were acknowledged."""

    key: Final[bytes]
    group: Final[bytes]
    ids: Final[Mapping[RegionId, Ids]]

    def __init__(self, key: bytes, group: bytes, ids: Mapping[RegionId, Ids]) -> None:
        self.key = key
        self.group = group
        self.ids = ids
        assert all(self.ids.values()), "no lane is empty"


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
    nacks: Mapping[RegionId, tuple[tuple[StreamId, Millis, int], ...]]
    dropped: Mapping[RegionId, Ids]
    last_id: StreamId | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """XNACK: pending entries lose their owner and may be claimed at once.

    Attributes:
        nacks: (lane, id, new delivery count) in the order in which they are to be delivered.
    """

    key: bytes
    group: bytes
    nacks: tuple[tuple[RegionId, StreamId, int], ...]

    def __post_init__(self) -> None:
        assert self.nacks


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
    position: StreamId | Mapping[RegionId, StreamId]
    entries_read: int | None = None


LocalChange: TypeAlias = (
    Deliver | Redeliver | Ack | Claim | Release | CreateConsumer | DeleteConsumer | SetPosition
)


# What a record costs beside its blobs, roughly; so that those without effects count as well.
RECORD_OVERHEAD_BYTES: Final = 64
# What replaying a record costs, and each of its effects 1 us more: 20 to 40 us where each has one
# XADD, 0.6 to 1.2 us an XADD where it has many.
REPLAY_RECORD_US: Final = 20
# Local changes name entries in columns of a few bytes each.
REPLAY_LOCAL_BYTES_PER_US: Final = 8


# No region has this number: so such a record is found without reading what is local about it.
OF_MERGED: Final = RegionId(0)


@dataclass(frozen=True, slots=True)
class Merged:
    """Another region's state was merged into this one's; it has a record of its own.

    Attributes:
        cut_id: names the images, which are in the folder's staging.
        source: the region whose state it is.
        vv: its version vector at the cut.
        key: only this key is in the cut, and it replaces this region's, which was damaged; None:
            all keys are, and are merged.
    """

    cut_id: bytes
    source: RegionId
    vv: VersionVector
    key: bytes | None = None


@dataclass(slots=True, init=False)
class Record:
    """Unit of the log: durable before anything that depends on it may leave the process.

    One sealed section of a tick: a batch (this region's own, or one received), and the local
    changes made in the same section.  Written as one row of the log, replayed as a whole.

    Attributes:
        origin, first_n, last_n: of the batch; last_n is first_n - 1 in a record without one.  The
            origin of a record that stands for a merged state is OF_MERGED.
        batch: the encoded EffectBatch, the very bytes that links send; None without effects.
        local: the encoded local changes, each with the own-dot count after which it came; of a
            batch received, when that was.
        merged_vv: version vector of the merged state that a new record stands for; None in a record
            read from the log, where ``local`` has it.
    """

    origin: RegionId
    first_n: int
    last_n: int
    batch: bytes | None
    local: bytes | None
    merged_vv: VersionVector | None = field(compare=False)

    def __init__(
        self,
        origin: RegionId,
        first_n: int,
        last_n: int,
        batch: bytes | None,
        local: bytes | None,
        merged_vv: VersionVector | None = None,
    ) -> None:
        self.origin = origin
        self.first_n = first_n
        self.last_n = last_n
        self.batch = batch
        self.local = local
        self.merged_vv = merged_vv


def record_bytes(record: Record) -> int:
    """Bytes that a record counts for in queues and caches."""
    return RECORD_OVERHEAD_BYTES + len(record.batch or b"") + len(record.local or b"")


def replay_us(record: Record) -> int:
    """About how long a restart takes to replay a record, in microseconds, compiled."""
    effects = record.last_n - record.first_n + 1
    return REPLAY_RECORD_US + effects + len(record.local or b"") // REPLAY_LOCAL_BYTES_PER_US
