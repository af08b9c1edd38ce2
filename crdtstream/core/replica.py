"""The replica: the streams of one region, a pure function of effects and local changes.

    command ──> issue(effect) ──┐                      ┌──> seal ──> Record (log, links)
    command ──> note(change) ───┴── apply, remember ───┘
    link ─────> receive(batch) ──── apply ──────────────────> Record
    log ──────> replay(record) ──── apply

Issuing an effect applies it here at once, by the very code that applies it in other regions, and
puts it into the open batch.  The open batch is sealed when a tick ends, and before a remote batch
is applied, because all its effects share one causal context.

Always so:
  * The own component of ``vv`` counts every effect issued, sealed or not; the others count what
    was received.  Batches are applied whole and in the order of their origin.
  * Equal version vectors, equal digests (``digest.py``).
  * ``streams`` holds exactly the keys that exist (``rules`` 6).
  * Nothing here looks at a clock, a file or a socket.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from typing import TypeAlias, assert_never
from zlib import crc32

from sortedcontainers import SortedList

from crdtstream.core.clock import (
    Dot,
    MutableVersionVector,
    VersionVector,
    covers,
)
from crdtstream.core.codec import BatchError, decode_batch, decode_local, encode_batch, encode_local
from crdtstream.core.digest import digest_keyspace, digest_stream
from crdtstream.core.effects import (
    Ack,
    AckFrontier,
    Append,
    AppendColumns,
    Claim,
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DeleteKey,
    Deliver,
    DestroyGroup,
    Effect,
    EffectBatch,
    LocalChange,
    RareEffect,
    Record,
    Redeliver,
    Remove,
    SetLastId,
    SetPosition,
    Trim,
)
from crdtstream.core.group import Group
from crdtstream.core.ids import ID_MIN, SEQ_BITS, IdMode, Millis, Region, StreamId
from crdtstream.core.lane import (
    NODE_BYTES_MAX_DEFAULT,
    NODE_ENTRIES_MAX_DEFAULT,
    NodeLimits,
    ascends,
)
from crdtstream.core.open_batch import OpenBatch
from crdtstream.core.stream import Stream
from crdtstream.core.tombstones import Tombstones

Run: TypeAlias = tuple[bytes, int, int]


class Replica:
    """The state of one region.

    Attributes:
        region: whose effects are issued here.
        vv: what has been applied here, own effects included.
        id_mode: what XADD accepts (``crdt_xadd_id_uniqueness_mode``); not replicated.
        implicit_mkstream: whether XGROUP CREATE makes a missing key; the tunable
            ``crdt_xgroup_create_mkstream``.
        node_limits: how full macro nodes get.
        touched: keys that changed since somebody last cleared the set; it drives blocked and
            watching clients.
        acknowledged_count, frontier_count: pending entries acknowledged here, and AckFrontier
            effects issued for them, since the process started: what coalescing saves.
    """

    def __init__(
        self,
        region: Region,
        *,
        id_mode: IdMode = IdMode.STRICT,
        implicit_mkstream: bool = False,
        node_entries_max: int = NODE_ENTRIES_MAX_DEFAULT,
        node_bytes_max: int = NODE_BYTES_MAX_DEFAULT,
    ) -> None:
        self.region = region
        self.vv: MutableVersionVector = {}
        self.id_mode = id_mode
        self.implicit_mkstream = implicit_mkstream
        self.node_limits = NodeLimits(entries_max=node_entries_max, bytes_max=node_bytes_max)
        self.touched: set[bytes] = set()
        self.acknowledged_count = 0
        self.frontier_count = 0
        self._streams: dict[bytes, Stream] = {}
        # The same keys by checksum: an order that insertions do not shift, for SCAN.
        self._scan_order: SortedList[tuple[int, bytes]] = SortedList()
        self._tombstones = Tombstones()
        self._open = OpenBatch(1)
        self._changes: list[tuple[int, LocalChange]] = []
        self._records: list[Record] = []
        # Groups whose acknowledged run may have grown since the last seal, with the lanes to look
        # at: so acknowledging one by one costs one effect per tick, not one per XACK.
        self._unmeasured: dict[tuple[bytes, bytes], set[Region]] = {}

    # --- Reading ------------------------------------------------------------------------------

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist."""
        return self._streams.get(key)

    def keys(self) -> Iterable[bytes]:
        """Every existing key, in the order in which they came to be here."""
        return self._streams.keys()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def scan_keys(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on.

        A key that exists from the first call to the last is met exactly once.  O(count + log n).
        """
        keys: list[bytes] = []
        checksum = -1
        for found, key in self._scan_order.irange((cursor, b"")):
            # Keys of one checksum stay together: the cursor cannot stand between them.
            if len(keys) >= count and found != checksum:
                return found, keys
            checksum = found
            keys.append(key)
        return 0, keys

    @property
    def tombstone_count(self) -> int:
        return len(self._tombstones)

    @property
    def issued(self) -> int:
        """How many effects this region has issued."""
        return self.vv.get(self.region, 0)

    def digest(self, key: bytes | None = None) -> bytes:
        """A canonical digest of one key's replicated state, or of all, as hexadecimal text."""
        if key is None:
            return digest_keyspace(self._streams)
        stream = self._streams.get(key)
        return digest_stream(stream) if stream is not None else digest_keyspace({})

    # --- Issuing ------------------------------------------------------------------------------

    def append(self, key: bytes, entry_id: StreamId, fields: bytes) -> None:
        """Issue an Append.  The ID must be above the stream's last-generated ID."""
        region = self.region
        stream = self._streams.get(key) or self._stream_or_new(key)
        assert entry_id > stream.last_id
        n = self.vv.get(region, 0) + 1
        self.vv[region] = n
        lane = stream.lanes.get(region) or stream.lane(region)
        lane.append(entry_id, n, fields)
        stream.set_last_id(region, entry_id, n)
        self._open.append(key, entry_id, fields)
        self.touched.add(key)

    def issue(self, effect: Effect) -> None:
        """Apply an effect here and put it in the open batch."""
        if isinstance(effect, Append):
            self.append(effect.key, effect.id, effect.fields)
            return
        if isinstance(effect, CreateGroup | DestroyGroup | DeleteKey):
            # What was acknowledged belongs to the group as it was (``rules`` 12).
            self._measure_groups_of(effect.key)
        self._issue(effect)

    def _issue(self, effect: RareEffect) -> None:
        n = self.issued + 1
        self._apply(effect, Dot(self.region, n), self.vv)
        self.vv[self.region] = n
        self._open.add(effect)

    def note(self, change: LocalChange) -> None:
        """Apply a local change and remember it for the record."""
        if _begins_new_run(change):
            self._measure_groups_of(change.key)
        self._apply_local(change)
        self._changes.append((self.issued, change))

    # --- Records ------------------------------------------------------------------------------

    @property
    def has_open_record(self) -> bool:
        """Whether something waits to be sealed or taken."""
        return bool(self._open.count or self._changes or self._records or self._unmeasured)

    def seal(self, now: Millis) -> None:
        """Close the open section: measure what was acknowledged, encode the batch, queue a record.

        Must not be called between the commands of a transaction: it is one batch everywhere.
        """
        if self._unmeasured:
            self._measure(list(self._unmeasured))
        if not self._open.count and not self._changes:
            return
        first_n, count = self._open.first_n, self._open.count
        batch = None
        if count:
            batch = encode_batch(self._open.close(self.region, self.vv, now))
            self._open = OpenBatch(first_n + count)
        local = encode_local(self._changes) if self._changes else None
        self._changes = []
        self._records.append(Record(self.region, first_n, first_n + count - 1, batch, local))

    def take_records(self, now: Millis) -> list[Record]:
        """Everything to be made durable since the last call, in order.  Ends a tick."""
        self.seal(now)
        records, self._records = self._records, []
        return records

    def ready(self, batch: EffectBatch) -> bool:
        """Whether the batch is the next of its origin and its context has been applied."""
        return batch.first_n == self.vv.get(batch.origin, 0) + 1 and covers(self.vv, batch.context)

    def is_known(self, batch: EffectBatch) -> bool:
        """Whether the batch has been applied already."""
        return batch.last_n <= self.vv.get(batch.origin, 0)

    def receive(self, batch: EffectBatch, encoded: bytes, now: Millis) -> None:
        """Apply another region's batch; one that is known already changes nothing.

        Raises:
            BatchError: its IDs do not ascend in a lane.  Nothing has changed then.
        """
        if self.is_known(batch):
            return
        assert self.ready(batch), "the inbox holds a batch back until it is next"
        runs = self._checked_runs(batch)
        self.seal(now)
        self._apply_batch(batch, runs)
        if batch.origin == self.region:
            # Effects of this region that it had lost: numbering goes on behind them.
            self._open = OpenBatch(self.issued + 1)
        self._records.append(Record(batch.origin, batch.first_n, batch.last_n, encoded, None))

    def replay(self, record: Record) -> None:
        """Live through a record again, when the log is read at start.

        Raises:
            BatchError: the record does not follow what was replayed before.
        """
        changes = decode_local(record.local) if record.local is not None else []
        if record.batch is None:
            self._replay_changes(changes, after_n=self.issued)
        else:
            batch = decode_batch(record.batch)
            if not self.ready(batch):
                raise BatchError(
                    f"batch {batch.origin}:{batch.first_n} does not follow {dict(self.vv)}"
                )
            self._apply_batch(batch, self._checked_runs(batch), changes)
        self._unmeasured.clear()
        self._open = OpenBatch(self.issued + 1)

    def _replay_changes(self, changes: list[tuple[int, LocalChange]], *, after_n: int) -> None:
        """Apply, and take from the list, the changes made when ``after_n`` effects were issued."""
        while changes and changes[0][0] <= after_n:
            self._apply_local(changes.pop(0)[1])

    # --- Garbage ------------------------------------------------------------------------------

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop the tombstones that are causally stable."""
        self._tombstones.forget_stable(stable)

    # --- Applying a batch ---------------------------------------------------------------------

    def _checked_runs(self, batch: EffectBatch) -> list[Run]:
        """The appends as runs of one key each, after checking that their IDs ascend.

        A run ends where another effect stands between, so that runs and other effects can be
        applied in turn.
        """
        columns = batch.appends
        if not columns.ms:
            return []
        runs = list(_runs(columns, [offset for offset, _ in batch.others]))
        # A DeleteKey takes all that its own origin appended before: IDs may begin again behind it.
        deletes = deque(
            (offset - rank, effect.key)
            for rank, (offset, effect) in enumerate(batch.others)
            if isinstance(effect, DeleteKey)
        )
        last_ids: dict[bytes, StreamId] = {}
        for key, start, stop in runs:
            while deletes and deletes[0][0] <= start:
                last_ids[deletes.popleft()[1]] = ID_MIN
            ms, seq = columns.ms[start:stop], columns.seq[start:stop]
            above = last_ids.get(key)
            if above is None:
                above = self._lane_end(key, batch.origin)
            if not ascends(ms, seq, above=above):
                raise BatchError(
                    f"appends: IDs of {key!r} do not ascend in lane {batch.origin}, "
                    f"batch {batch.origin}:{batch.first_n}"
                )
            last_ids[key] = StreamId(ms[-1] << SEQ_BITS | seq[-1])
        return runs

    def _lane_end(self, key: bytes, origin: Region) -> StreamId:
        stream = self._streams.get(key)
        lane = None if stream is None else stream.lanes.get(origin)
        return ID_MIN if lane is None else lane.last_id

    def _apply_batch(
        self,
        batch: EffectBatch,
        runs: list[Run],
        changes: list[tuple[int, LocalChange]] | None = None,
    ) -> None:
        """Apply effects in order; in replay, the local changes in their places between them."""
        origin = batch.origin
        context: MutableVersionVector = dict(batch.context)
        n = batch.first_n
        if changes and runs:
            # Replayed section by section: a local change may stand between any two appends.
            runs = [(key, at, at + 1) for key, start, stop in runs for at in range(start, stop)]
        fields = memoryview(batch.appends.fields)
        fields_at = 0
        pending_runs = iter(runs)
        appended = 0
        for offset, effect in [*batch.others, (batch.count, None)]:
            while n < batch.first_n + offset:
                key, start, stop = next(pending_runs)
                if changes:
                    self._replay_changes(changes, after_n=n - 1)
                size = sum(batch.appends.lengths[start:stop])
                self._apply_appends(
                    batch.appends, key, start, stop, Dot(origin, n), fields[fields_at:][:size]
                )
                fields_at += size
                n += stop - start
                appended += stop - start
                self.vv[origin] = n - 1
            if effect is not None:
                if changes:
                    self._replay_changes(changes, after_n=n - 1)
                # Rule 1: in the context of effect n the own component is n - 1.
                if n > 1:
                    context[origin] = n - 1
                self._apply(effect, Dot(origin, n), context)
                self.vv[origin] = n
                n += 1
        assert self.vv[origin] == batch.last_n
        assert appended == len(batch.appends.ms)
        if changes:
            self._replay_changes(changes, after_n=batch.last_n)

    def _apply_appends(
        self,
        columns: AppendColumns,
        key: bytes,
        start: int,
        stop: int,
        first: Dot,
        fields: memoryview,
    ) -> None:
        stream = self._stream_or_new(key)
        stream.lane(first.region).extend(
            ms=columns.ms[start:stop],
            seq=columns.seq[start:stop],
            lengths=columns.lengths[start:stop],
            first_n=first.n,
            fields=fields,
        )
        last = StreamId(columns.ms[stop - 1] << SEQ_BITS | columns.seq[stop - 1])
        stream.set_last_id(first.region, last, first.n + stop - start - 1)
        self.touched.add(key)

    # --- Applying one effect ------------------------------------------------------------------

    def _apply(self, effect: RareEffect, dot: Dot, context: VersionVector) -> None:
        """What each effect means; the rules are in ``effects.py``."""
        match effect:
            case Remove(key, ids):
                if (stream := self._streams.get(key)) is not None:
                    stream.remove(ids, context)
                    self._drop_if_gone(key, stream)
            case Trim(key, up_to):
                if (stream := self._streams.get(key)) is not None:
                    stream.trim(up_to, context)
                    self._drop_if_gone(key, stream)
            case DeleteKey(key):
                self._tombstones.add(dot, key, None)
                if (stream := self._streams.get(key)) is not None:
                    stream.clear_covered_by(context)
                    self._drop_if_gone(key, stream)
            case CreateGroup(key, group, start, entries_read):
                if self._tombstones.observed_by(context, key, group):
                    groups = self._stream_or_new(key).groups
                    groups.setdefault(group, Group()).add_create(dot, start, entries_read)
            case DestroyGroup(key, group):
                self._tombstones.add(dot, key, group)
                if (stream := self._streams.get(key)) is not None:
                    stream.groups.pop(group, None)
                    self._drop_if_gone(key, stream)
            case AckFrontier(key, name, intervals):
                self._apply_frontier(key, name, intervals, context)
            case SetLastId(key, entry_id, entries_added, max_deleted_id):
                stream = self._stream_or_new(key)
                stream.set_last_id(dot.region, entry_id, dot.n)
                lane = stream.lane(dot.region)
                if entries_added is not None:
                    others = sum(one.entries_added for one in stream.lanes.values()) - (
                        lane.entries_added
                    )
                    lane.entries_added = max(0, entries_added - others)
                if max_deleted_id is not None:
                    lane.max_deleted_id = max_deleted_id
            case _:
                assert_never(effect)
        self.touched.add(effect.key)

    def _apply_frontier(
        self,
        key: bytes,
        name: bytes,
        intervals: Mapping[Region, tuple[StreamId, StreamId]],
        context: VersionVector,
    ) -> None:
        stream = self._streams.get(key)
        group = None if stream is None else stream.groups.get(name)
        # The group that was measured may be gone, and another one have its name.
        if group is None or not group.has_create_covered_by(context):
            return
        for region, (start, end) in intervals.items():
            group.unite(region, start, end)

    def _stream_or_new(self, key: bytes) -> Stream:
        stream = self._streams.get(key)
        if stream is None:
            self._streams[key] = stream = Stream(self.node_limits)
            self._scan_order.add((crc32(key), key))
        return stream

    def _drop_if_gone(self, key: bytes, stream: Stream) -> None:
        if not stream.exists:
            del self._streams[key]
            self._scan_order.remove((crc32(key), key))

    # --- Applying a local change --------------------------------------------------------------

    def _apply_local(self, change: LocalChange) -> None:
        stream = self._streams[change.key]
        group = stream.groups[change.group]
        match change:
            case Deliver(_, _, _, _, ids, noack):
                group.deliver(change, stream.lanes)
                if noack:
                    self._look_at(change, ids)
            case Redeliver(_, _, consumer, now, ids):
                group.redeliver(ids, consumer, now)
            case Ack(_, _, ids):
                group.acknowledge(ids)
                self.acknowledged_count += sum(map(len, ids.values()))
                self._look_at(change, ids)
            case Claim(_, _, _, _, _, dropped, _):
                group.claim(change, stream.lanes)
                self._look_at(change, dropped)
            case CreateConsumer(_, _, consumer, now):
                group.consumer(consumer, now)
            case DeleteConsumer(_, _, consumer):
                group.delete_consumer(consumer)
            case SetPosition(_, _, position, entries_read):
                group.set_position(position, stream.lanes, entries_read)
            case _:
                assert_never(change)

    # --- Frontiers ----------------------------------------------------------------------------

    def _look_at(self, change: LocalChange, lanes: Iterable[Region]) -> None:
        self._unmeasured.setdefault((change.key, change.group), set()).update(lanes)

    def _measure_groups_of(self, key: bytes) -> None:
        if self._unmeasured:
            self._measure([name for name in self._unmeasured if name[0] == key])

    def _measure(self, names: list[tuple[bytes, bytes]]) -> None:
        """Issue one AckFrontier per group for what its lanes can vouch for now."""
        for key, name in names:
            regions = self._unmeasured.pop((key, name))
            stream = self._streams[key]
            group = stream.groups[name]
            intervals = {
                region: interval
                for region in sorted(regions)
                if (interval := group.measure(stream.lanes.get(region), region)) is not None
            }
            if intervals:
                self.frontier_count += 1
                self._issue(AckFrontier(key, name, intervals))


def _begins_new_run(change: LocalChange) -> bool:
    """Whether the change makes a hole in a group's run, so that the run must be measured before."""
    match change:
        case DeleteConsumer() | SetPosition():
            return True
        case Claim():
            return change.last_id is not None
        case _:
            return False


def _runs(columns: AppendColumns, other_offsets: list[int]) -> Iterable[Run]:
    """Stretches of the append columns that share a key and have no other effect between them."""
    # Where another effect stands, counted in appends: its offset less the effects before it.
    cuts = [offset - rank for rank, offset in enumerate(other_offsets)]
    bounds = sorted({0, *cuts, len(columns.ms)})
    if len(columns.keys) == 1:
        (key,) = columns.keys
        for start, stop in pairwise(bounds):
            yield key, start, stop
        return
    for start, stop in pairwise(bounds):
        at = start
        for index, group in groupby(columns.key_index[start:stop]):
            length = sum(1 for _ in group)
            yield columns.keys[index], at, at + length
            at += length
