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
  * ``_streams`` holds exactly the keys that exist (``rules`` 6); of these, one whose deadline has
    passed is in ``_due`` and reads as missing until its ExpireKey comes (``expiry.py``).
  * Nothing here looks at a clock, a file or a socket: ``advance`` says what time it is.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final, assert_never

from crdtstream.core.applying.append_runs import Run, checked_runs
from crdtstream.core.applying.settling import collapse, settle_rows
from crdtstream.core.clock import (
    Dot,
    MutableVersionVector,
    VersionVector,
    covers,
    covers_dot,
)
from crdtstream.core.digest import digest_key, digest_keyspace
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
    ExpireKey,
    IdempotentId,
    LocalChange,
    Numbered,
    RareEffect,
    Record,
    Redeliver,
    Release,
    Remove,
    SetExpiry,
    SetGroupMode,
    SetLastId,
    SetPosition,
    SetStreamConfig,
    Trim,
    counted,
)
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import ID_MIN, SEQ_BITS, IdMode, Millis, Region, StreamId
from crdtstream.core.issuing.open_batch import OpenBatch
from crdtstream.core.keyspace.expiry import Expiry
from crdtstream.core.keyspace.floors import Floors
from crdtstream.core.keyspace.key_order import KeyOrder
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.tombstones import Tombstones
from crdtstream.core.keyspace.trimmed import Losses
from crdtstream.core.lanes.lane import (
    NODE_BYTES_MAX_DEFAULT,
    NODE_ENTRIES_MAX_DEFAULT,
    NodeLimits,
)
from crdtstream.core.producers.idempotency import Collapsed, IdempotencyRecords, Tracked, Window
from crdtstream.core.producers.numbered import NumberedRecords, Rows
from crdtstream.core.stream import Stream
from crdtstream.core.uid import NO_UID
from crdtstream.core.wire.codec import (
    BatchError,
    decode_batch,
    encode_batch,
)
from crdtstream.core.wire.local_codec import Local, decode_local, encode_local

IDMP_DURATION_S_DEFAULT: Final = 100
IDMP_MAXSIZE_DEFAULT: Final = 100


class Replica:
    """The state of one region.

    Attributes:
        region: whose effects are issued here.
        vv: what has been applied here, own effects included.
        id_mode: what XADD accepts (``crdt_xadd_id_uniqueness_mode``); not replicated.
        implicit_mkstream: whether XGROUP CREATE makes a missing key; the tunable
            ``crdt_xgroup_create_mkstream``.
        node_limits: how full macro nodes get.
        idmp_duration_s, idmp_maxsize: for streams of which XCFGSET said nothing.
        now: what time it is, by the last ``advance``.
        touched: keys that changed since somebody last cleared the set; it drives blocked and
            watching clients.
        acknowledged_count, frontier_count: pending entries acknowledged here, and AckFrontier
            effects issued for them, since the process started: what coalescing saves.
        record_count: records made since the process started, the open section's not included.
        database_uid: which database this is; whoever runs the replica sets it.
        may_issue: whether effects may be issued (``rules`` 18); whoever runs the replica sets it.
            What applying others' effects gives to tell waits until it may.
        expired_count: keys that existed and were deleted from here because their time was over,
            since the process started.
    """

    def __init__(
        self,
        region: Region,
        *,
        id_mode: IdMode = IdMode.STRICT,
        implicit_mkstream: bool = False,
        node_entries_max: int = NODE_ENTRIES_MAX_DEFAULT,
        node_bytes_max: int = NODE_BYTES_MAX_DEFAULT,
        peers: Iterable[Region] = (),
    ) -> None:
        self.region = region
        self._peers = frozenset(peers)
        self.vv: MutableVersionVector = {}
        self.id_mode = id_mode
        self.implicit_mkstream = implicit_mkstream
        self.node_limits = NodeLimits(entries_max=node_entries_max, bytes_max=node_bytes_max)
        self.idmp_duration_s = IDMP_DURATION_S_DEFAULT
        self.idmp_maxsize = IDMP_MAXSIZE_DEFAULT
        self.now = Millis(0)
        self.touched: set[bytes] = set()
        self.acknowledged_count = 0
        self.frontier_count = 0
        self.record_count = 0
        self.database_uid = NO_UID
        self.may_issue = True
        self.expired_count = 0
        self._streams: dict[bytes, Stream] = {}
        self._key_order = KeyOrder()
        self._losses = Losses()
        self._tombstones = Tombstones()
        self._floors = Floors()
        self._idempotency = IdempotencyRecords()
        self._numbered = NumberedRecords()
        self._registers: dict[bytes, KeyRegisters] = {}
        self._expiry = Expiry(region)
        # Its very set: every command looks at it.
        self._due = self._expiry.due
        self._open = OpenBatch(1)
        self._changes: list[tuple[int, LocalChange]] = []
        # When the idempotent appends of the open batch were made, so that windows live through the
        # same when its record is replayed.
        self._appended: list[Millis] = []
        self._records: list[Record] = []
        # Groups whose acknowledged run may have grown since the last seal, with the lanes to look
        # at: so acknowledging one by one costs one effect per tick, not one per XACK.
        self._unmeasured: dict[tuple[bytes, bytes], set[Region]] = {}

    # --- Reading ------------------------------------------------------------------------------

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist or its time is over."""
        if self._due and key in self._due:
            return None
        return self._streams.get(key)

    def __iter__(self) -> Iterator[bytes]:
        """Every key that ``stream`` finds, in the order in which they came to be here."""
        if self._due:
            return (key for key in self._streams if key not in self._due)
        return iter(self._streams)

    def known_keys(self) -> list[bytes]:
        """Every key of which there is anything, expired ones and lone registers too, in order."""
        return sorted({*self._streams, *self._registers})

    def __len__(self) -> int:
        """How many keys there are, those included whose time is over (as in Redis)."""
        return len(self._streams)

    def scan_keys(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on.

        A key that exists from the first call to the last is met exactly once.  O(count + log n).
        """
        return self._key_order.scan(cursor, count, without=self._due)

    def draw_key(self) -> bytes | None:
        """One of the keys, None if there are none; each as often as any other in the long run."""
        return self._key_order.draw(without=self._due)

    def held_stream(self, key: bytes) -> Stream | None:
        """As ``stream``, and also one whose time is over and that was not deleted yet.

        Who reads by dots must have its entries until the delete tells that they are lost: it may
        yet be made to last.
        """
        return self._streams.get(key)

    def scan_held_keys(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """As ``scan_keys``, with the keys that ``held_stream`` finds."""
        return self._key_order.scan(cursor, count, without=frozenset())

    def lost(self, key: bytes) -> Mapping[Region, int]:
        """By origin the highest dot number of the key that a trim or a DEL removed.

        Local: another region may know of less, or of more.  It is forgotten of keys that are long
        gone (``losses.py``).
        """
        stream = self._streams.get(key)
        return self._losses.of(key) if stream is None else stream.lost

    def gone_keys(self) -> list[bytes]:
        """Keys that do not exist any more and of which ``lost`` tells something, in order."""
        return self._losses.keys()

    def floor_of(self, key: bytes) -> StreamId:
        """What this region appends to the key must be above this ID, and the last-generated one.

        0-0 but for a key that has expired, or is about to before the next write (``floors.py``).
        """
        if not self._floors and not self._due:
            return ID_MIN
        floor = self._floors.of(key)
        if key in self._due and not self.is_alone:
            own = self._streams[key].last_ids.get(self.region) if key in self._streams else None
            floor = max(floor, ID_MIN if own is None else own.id)
        return floor

    @property
    def kept_until_stable(self) -> bool:
        """Whether ``forget_stable`` may find something to drop."""
        return bool(self._tombstones or self._floors or self.idempotency_record_count)

    @property
    def tombstone_count(self) -> int:
        return len(self._tombstones)

    @property
    def idempotency_record_count(self) -> int:
        """Idempotent appends that are remembered because they are not causally stable yet, and
        runs of rows of numbered producers."""
        return len(self._idempotency) + len(self._numbered)

    @property
    def is_alone(self) -> bool:
        """Whether this database has no other region, as far as is known here."""
        return not self._peers and self.vv.keys() <= {self.region}

    @property
    def issued(self) -> int:
        """How many effects this region has issued."""
        return self.vv.get(self.region, 0)

    def digest(self, key: bytes | None = None) -> bytes:
        """A canonical digest of one key's replicated state, or of all, as hexadecimal text."""
        if key is None:
            return digest_keyspace(self._streams, self._registers)
        return digest_key(self._streams.get(key), self._registers.get(key))

    def find_idempotent(self, key: bytes, idempotent: IdempotentId) -> Tracked | None:
        """The entry that an idempotent id made before, if the window still knows it."""
        stream = self.stream(key)
        if stream is None or stream.window is None:
            return None
        return stream.window.find(idempotent, now=self.now, duration_s=self.idmp_duration_of(key))

    def collapsed(self, key: bytes, entry_id: StreamId) -> list[Collapsed]:
        """Which concurrent idempotent appends stayed where entries with this ID went."""
        return self._idempotency.collapsed(key, entry_id)

    def idmp_duration_of(self, key: bytes) -> int:
        """For how many seconds a stream recognises idempotent ids."""
        registers = self._registers.get(key)
        values = () if registers is None else registers.idmp_duration_s.values.values()
        return max(values, default=self.idmp_duration_s)

    def idmp_maxsize_of(self, key: bytes) -> int:
        """How many idempotent ids of a producer a stream recognises."""
        registers = self._registers.get(key)
        values = () if registers is None else registers.idmp_maxsize.values.values()
        return max(values, default=self.idmp_maxsize)

    def idmp_settings_of(self, key: bytes) -> tuple[int | None, int | None]:
        """Duration and maxsize as XCFGSET said them of this key, None where it did not."""
        registers = self._registers.get(key)
        if registers is None:
            return None, None
        return (
            max(registers.idmp_duration_s.values.values(), default=None),
            max(registers.idmp_maxsize.values.values(), default=None),
        )

    # --- Time ---------------------------------------------------------------------------------

    def advance(self, now: Millis) -> None:
        """Say what time it is; keys whose deadline has passed read as missing while it has."""
        self.now = now
        self.touched.update(self._expiry.advance(now))

    def deadline_of(self, key: bytes) -> Millis | None:
        """When the key expires; None: it does not."""
        return self._expiry.of(key)

    @property
    def expiring_count(self) -> int:
        """How many keys have a deadline."""
        return len(self._expiry)

    def mean_deadline(self) -> Millis | None:
        """The mean of the deadlines that have not passed, None if there are none."""
        return self._expiry.mean()

    def next_deadline(self) -> Millis | None:
        """When ``advance`` will find the next key to expire; may be of a deadline long changed."""
        return self._expiry.next()

    @property
    def has_due(self) -> bool:
        """Whether ``expire_due`` has something to do: any ``advance`` may have found it."""
        return self._expiry.has_due_here

    def expire_due(self) -> None:
        """Issue the ExpireKeys that fall to this region, or as many as one tick may take."""
        for key in self._expiry.next_due_here():
            self._expire(key)

    # --- Issuing ------------------------------------------------------------------------------

    def append(
        self,
        key: bytes,
        entry_id: StreamId,
        fields: bytes,
        idempotent: IdempotentId | None = None,
    ) -> None:
        """Issue an Append.  The ID must be above the stream's last-generated ID."""
        region = self.region
        if self._registers:
            self._bury(key)
        stream = self._streams.get(key) or self._stream_or_new(key)
        assert self.may_issue
        assert entry_id > stream.last_id
        n = self.vv.get(region, 0) + 1
        self.vv[region] = n
        lane = stream.lanes.get(region) or stream.lane(region)
        lane.append(entry_id, n, fields, self.now)
        stream.set_last_id(region, entry_id, n)
        self._open.append(key, entry_id, fields, idempotent)
        self.touched.add(key)
        if idempotent is not None:
            self._appended.append(self.now)
            dot = Dot(region, n)
            self._remember(stream, key, idempotent, entry_id, dot, self.vv, arrived=self.now)

    def missing_rows(self, key: bytes, rows: Numbered, count: int) -> list[Rows]:
        """Which of ``count`` rows of a numbered producer were not appended yet, ascending.

        Raises:
            StaleBatchError: nobody can tell any more.
        """
        if key in self._due:
            # Its time is over: before anything is appended it goes, and what it recognised too.
            return [(rows.row, rows.row + count)]
        return self._numbered.missing(key, rows, count)

    def append_rows(
        self,
        key: bytes,
        *,
        ms: "array[int]",
        seq: "array[int]",
        lengths: "array[int]",
        fields: bytes,
        first: Numbered,
    ) -> None:
        """Issue Appends of rows of a numbered producer, column by column.

        The rows must be missing, and the IDs ascend above the stream's last-generated ID.
        """
        if self._registers:
            self._bury(key)
        stream = self._stream_or_new(key)
        assert self.may_issue
        assert (ms[0] << SEQ_BITS | seq[0]) > stream.last_id
        dot = Dot(self.region, self.issued + 1)
        lane = stream.lane(self.region)
        lane.extend(
            ms=ms,
            seq=seq,
            lengths=lengths,
            first_n=dot.n,
            fields=memoryview(fields),
            now=self.now,
        )
        last_n = dot.n + len(ms) - 1
        stream.set_last_id(self.region, StreamId(ms[-1] << SEQ_BITS | seq[-1]), last_n)
        self.vv[self.region] = last_n
        self._open.append_rows(key, ms=ms, seq=seq, lengths=lengths, fields=fields, first=first)
        self.touched.add(key)
        anything_went = settle_rows(self._numbered, stream, key, first, len(ms), dot, self.vv)
        assert not anything_went, "a region has observed what it has"

    def issue(self, effect: Effect) -> None:
        """Apply an effect here and put it in the open batch."""
        if isinstance(effect, Append):
            self.append(effect.key, effect.id, effect.fields, effect.idempotent)
            return
        if isinstance(effect, DeleteKey | ExpireKey):
            self._measure_groups_of(effect.key)
        elif self._registers:
            self._bury(effect.key)
        if isinstance(effect, CreateGroup | DestroyGroup | SetGroupMode):
            # What was acknowledged belongs to the group as it was (``rules`` 12).
            self._measure_groups_of(effect.key)
        self._issue(effect)

    def _bury(self, key: bytes) -> None:
        """Before a write: a key whose time is over, or of which only registers are left, goes."""
        if key in self._registers and (key in self._due or key not in self._streams):
            self._expire(key)

    def _expire(self, key: bytes) -> None:
        """End a key whose time is over, or what a key that is gone has left."""
        self.expired_count += key in self._streams
        self.issue(ExpireKey(key))

    def measure(self) -> None:
        """Issue now what acknowledgements have to tell; else it happens when the tick ends."""
        if self._unmeasured and self.may_issue:
            self._measure(list(self._unmeasured))

    def _issue(self, effect: RareEffect) -> None:
        assert self.may_issue, "rule 18: its dot may be in use"
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
    def open_bytes(self) -> int:
        """What the entries appended since the last seal take in the batch to come, or a little
        less."""
        return self._open.append_bytes

    @property
    def has_open_changes(self) -> bool:
        """Whether the open section has local changes, or acknowledgements yet to be measured."""
        return bool(self._changes or self._unmeasured)

    @property
    def has_open_section(self) -> bool:
        """Whether the next seal makes a record."""
        return bool(self._open.count or self._changes)

    @property
    def has_open_record(self) -> bool:
        """Whether something waits to be sealed or taken."""
        return bool(self._open.count or self._changes or self._records or self._unmeasured)

    def seal(self, now: Millis) -> None:
        """Close the open section: measure what was acknowledged, encode the batch, queue a record.

        Must not be called between the commands of a transaction: it is one batch everywhere.
        """
        self.measure()
        if not self._open.count and not self._changes:
            return
        first_n, count = self._open.first_n, self._open.count
        batch = None
        if count:
            batch = encode_batch(self._open.close(self.region, self.vv, now))
            self._open = OpenBatch(first_n + count)
        local = None
        if self._changes or self._appended:
            local = encode_local(Local(self._changes, appended=self._appended))
        self._changes = []
        self._appended = []
        self._records.append(Record(self.region, first_n, first_n + count - 1, batch, local))
        self.record_count += 1

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
        runs = checked_runs(batch, self._lane_end)
        self.seal(now)
        self.advance(now)
        self._apply_batch(batch, runs, arrived=now)
        if batch.origin == self.region:
            # Effects of this region that it had lost: numbering goes on behind them.
            self._open = OpenBatch(self.issued + 1)
        local = encode_local(Local(arrived=now))
        self._records.append(Record(batch.origin, batch.first_n, batch.last_n, encoded, local))
        self.record_count += 1

    def replay(self, record: Record) -> None:
        """Live through a record again, when the log is read at start.

        Raises:
            BatchError: the record does not follow what was replayed before.
        """
        local = Local() if record.local is None else decode_local(record.local)
        changes = list(local.changes)
        if record.batch is None:
            self._replay_changes(changes, after_n=self.issued)
        else:
            batch = decode_batch(record.batch)
            if not self.ready(batch):
                raise BatchError(
                    f"batch {batch.origin}:{batch.first_n} does not follow {dict(self.vv)}"
                )
            runs = checked_runs(batch, self._lane_end)
            self._apply_batch(
                batch, runs, changes, local.appended, arrived=local.arrived or batch.issued_ms
            )
        self._unmeasured.clear()
        self._open = OpenBatch(self.issued + 1)

    def _replay_changes(self, changes: list[tuple[int, LocalChange]], *, after_n: int) -> None:
        """Apply, and take from the list, the changes made when ``after_n`` effects were issued."""
        while changes and changes[0][0] <= after_n:
            self._apply_local(changes.pop(0)[1])

    # --- Garbage ------------------------------------------------------------------------------

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop what is kept only for effects that can no longer arrive."""
        self._tombstones.forget_stable(stable)
        self._idempotency.forget_stable(stable)
        self._numbered.forget_stable(stable)
        for key in self._floors.stable_keys(stable):
            stream = self._streams.get(key)
            if stream is None or not stream.groups:
                self._floors.forget(key)

    # --- Applying a batch ---------------------------------------------------------------------

    def _lane_end(self, key: bytes, origin: Region) -> StreamId:
        stream = self._streams.get(key)
        lane = None if stream is None else stream.lanes.get(origin)
        return ID_MIN if lane is None else lane.last_id

    def _apply_batch(
        self,
        batch: EffectBatch,
        runs: list[Run],
        changes: list[tuple[int, LocalChange]] | None = None,
        appended: Sequence[Millis] = (),
        *,
        arrived: Millis,
    ) -> None:
        """Apply effects in order; in replay, the local changes in their places between them.

        Args:
            appended: when the idempotent appends came, where that is not ``arrived``.
        """
        origin = batch.origin
        came = dict(zip(sorted(batch.appends.idempotent), appended, strict=False))
        context: MutableVersionVector = dict(batch.context)
        n = batch.first_n
        if changes and runs:
            # Replayed section by section: a local change may stand between any two appends.
            runs = [(key, at, at + 1) for key, start, stop in runs for at in range(start, stop)]
        fields = memoryview(batch.appends.fields)
        fields_at = 0
        pending_runs = iter(runs)
        appends_applied = 0
        for offset, effect in [*batch.others, (batch.count, None)]:
            while n < batch.first_n + offset:
                key, start, stop = next(pending_runs)
                if changes:
                    self._replay_changes(changes, after_n=n - 1)
                size = sum(batch.appends.lengths[start:stop])
                first = Dot(origin, n)
                self._apply_appends(
                    batch.appends, key, start, stop, first, fields[fields_at:][:size], arrived
                )
                if batch.appends.idempotent:
                    self._apply_idempotent(
                        batch.appends, key, start, stop, first, batch.context, came, arrived
                    )
                if batch.appends.numbered:
                    self._apply_numbered(batch.appends, key, start, stop, first, batch.context)
                fields_at += size
                n += stop - start
                appends_applied += stop - start
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
        assert appends_applied == len(batch.appends.ms)
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
        arrived: Millis,
    ) -> None:
        stream = self._stream_or_new(key)
        stream.lane(first.region).extend(
            ms=columns.ms[start:stop],
            seq=columns.seq[start:stop],
            lengths=columns.lengths[start:stop],
            first_n=first.n,
            fields=fields,
            now=arrived,
        )
        last = StreamId(columns.ms[stop - 1] << SEQ_BITS | columns.seq[stop - 1])
        stream.set_last_id(first.region, last, first.n + stop - start - 1)
        self.touched.add(key)

    # --- Idempotent appends -------------------------------------------------------------------

    def _apply_idempotent(
        self,
        columns: AppendColumns,
        key: bytes,
        start: int,
        stop: int,
        first: Dot,
        context: VersionVector,
        came: Mapping[int, Millis],
        arrived: Millis,
    ) -> None:
        """What idempotent ids mean for a run that was just appended: ``rules`` 20."""
        # Effects of one origin have all observed those before them.
        context = {**context, first.region: first.n + stop - start - 1}
        stream = self._streams[key]
        for at in range(start, stop):
            if (idempotent := columns.idempotent.get(at)) is not None:
                entry_id = StreamId(columns.ms[at] << SEQ_BITS | columns.seq[at])
                dot = Dot(first.region, first.n + at - start)
                when = came.get(at, arrived)
                self._remember(stream, key, idempotent, entry_id, dot, context, arrived=when)

    def _apply_numbered(
        self,
        columns: AppendColumns,
        key: bytes,
        start: int,
        stop: int,
        first: Dot,
        context: VersionVector,
    ) -> None:
        """What numbered rows mean for a run of appends that was just applied: ``rules`` 20."""
        context = {**context, first.region: first.n + stop - start - 1}
        first_at = bisect_right(columns.numbered, start, key=attrgetter("at")) - 1
        for run in islice(columns.numbered, max(first_at, 0), None):
            if run.at >= stop:
                break
            begin, end = max(run.at, start), min(run.at + run.count, stop)
            if begin < end:
                dot = Dot(first.region, first.n + begin - start)
                part = run.first.behind(begin - run.at)
                settle_rows(
                    self._numbered, self._streams[key], key, part, end - begin, dot, context
                )

    def _remember(
        self,
        stream: Stream,
        key: bytes,
        idempotent: IdempotentId,
        entry_id: StreamId,
        dot: Dot,
        context: VersionVector,
        *,
        arrived: Millis,
    ) -> None:
        """An idempotent append came; what stays of it is recognised from now on."""
        stays, stays_id = collapse(
            self._idempotency, stream, key, idempotent, entry_id, dot, context
        )
        if stream.window is None:
            stream.window = Window()
        window = stream.window
        maxsize = self.idmp_maxsize_of(key)
        window.add(idempotent, stays_id, stays, arrived=arrived, maxsize=maxsize)
        window.forget_old(now=arrived, duration_s=self.idmp_duration_of(key))

    # --- Applying one effect ------------------------------------------------------------------

    def _apply(self, effect: RareEffect, dot: Dot, context: VersionVector) -> None:
        """What each effect means; the rules are in ``effects.py``."""
        match effect:
            case Remove(key, ids, with_references, trims):
                if (stream := self._streams.get(key)) is not None:
                    stream.remove(ids, context, trims=trims)
                    if with_references:
                        self._forget_references(key, stream, ids)
                    self._drop_if_gone(key, stream)
            case Trim(key, up_to):
                if (stream := self._streams.get(key)) is not None:
                    stream.trim(up_to, context)
                    self._drop_if_gone(key, stream)
            case DeleteKey(key):
                self._tombstones.add(dot, key, None)
                self._floors.forget(key)
                self._numbered.forget_covered_by(key, context)
                if self._registers.pop(key, None) is not None:
                    self._expiry.forget(key)
                if (stream := self._streams.get(key)) is not None:
                    stream.clear_covered_by(context)
                    stream.groups.clear()
                    self._drop_if_gone(key, stream)
            case ExpireKey(key):
                self._apply_expiry(key, dot, context)
            case CreateGroup(key, group, start, entries_read):
                if self._tombstones.observed_by(context, key, group):
                    stream = self._stream_or_new(key)
                    stream.groups.setdefault(group, Group(self.region)).add_create(
                        dot, start, _counted(entries_read), stream.lanes
                    )
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
                    lane.entries_added = max(0, counted(entries_added) - others)
                if max_deleted_id:
                    # 0-0 changes nothing, as in Redis.
                    lane.max_deleted_id = max_deleted_id
            case SetExpiry(key, deadline):
                if self._tombstones.observed_by(context, key):
                    registers = self._registers_of(key)
                    registers.expiry.set(dot, deadline, context)
                    self._note_deadline(key, registers)
            case SetStreamConfig():
                self._apply_config(effect, dot, context)
            case SetGroupMode():
                self._apply_mode(effect, dot, context)
            case _:
                assert_never(effect)
        self.touched.add(effect.key)

    def _apply_expiry(self, key: bytes, dot: Dot, context: VersionVector) -> None:
        """ExpireKey: observed-remove of everything, so no tombstone is left."""
        self._numbered.forget_covered_by(key, context)
        registers = self._registers.get(key)
        if registers is not None:
            registers.forget_covered_by(context)
            self._note_deadline(key, registers)
            if registers.is_empty:
                del self._registers[key]
        stream = self._streams.get(key)
        if stream is not None:
            own = stream.last_ids.get(self.region)
            has_ended = own is not None and covers_dot(context, Dot(self.region, own.n))
            if own is not None and has_ended and not self.is_alone:
                self._floors.raise_to(key, own.id, dot)
            stream.clear_covered_by(context)
            stream.drop_creates(context)
            self._drop_if_gone(key, stream)

    def _note_deadline(self, key: bytes, registers: KeyRegisters) -> None:
        """Of the deadlines in the register another one may count now."""
        self._expiry.set(key, registers.deadline(), exists=key in self._streams)
        self.touched.update(self._expiry.look())

    def _apply_mode(self, effect: SetGroupMode, dot: Dot, context: VersionVector) -> None:
        stream = self._streams.get(effect.key)
        group = None if stream is None else stream.groups.get(effect.group)
        if group is not None and group.creates.covers_any(context):
            group.set_mode(effect, dot.region, context)

    def _registers_of(self, key: bytes) -> KeyRegisters:
        registers = self._registers.get(key)
        if registers is None:
            self._registers[key] = registers = KeyRegisters()
        return registers

    def _apply_config(self, effect: SetStreamConfig, dot: Dot, context: VersionVector) -> None:
        """XCFGSET: a bound that changes makes the stream forget its window, never the records."""
        key = effect.key
        if not self._tombstones.observed_by(context, key):
            return
        before = self.idmp_duration_of(key), self.idmp_maxsize_of(key)
        registers = self._registers_of(key)
        if effect.idmp_duration_s is not None:
            registers.idmp_duration_s.set(dot, effect.idmp_duration_s, context)
        if effect.idmp_maxsize is not None:
            registers.idmp_maxsize.set(dot, effect.idmp_maxsize, context)
        after = self.idmp_duration_of(key), self.idmp_maxsize_of(key)
        stream = self._streams.get(key)
        if before != after and stream is not None and stream.window is not None:
            stream.window.clear()

    def _forget_references(
        self, key: bytes, stream: Stream, ids: Mapping[Region, tuple[StreamId, ...]]
    ) -> None:
        """What was removed is not pending any more, in any group; the runs may go on behind it."""
        for region, lane_ids in ids.items():
            lane = stream.lanes.get(region)
            for entry_id in lane_ids:
                # Still there: appended again, and not observed by who removed it.
                if lane is not None and lane.find(entry_id) is not None:
                    continue
                for name, group in stream.groups.items():
                    if group.forget_pending(region, entry_id):
                        self._unmeasured.setdefault((key, name), set()).add(region)

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
        if stream is None or group is None or not group.creates.covers_any(context):
            return
        for region, (start, end) in intervals.items():
            lane = stream.lanes.get(region)
            group.unite(region, start, end, context, lane, stream.last_ids)

    def _stream_or_new(self, key: bytes) -> Stream:
        stream = self._streams.get(key)
        if stream is None:
            self._streams[key] = stream = Stream(self.node_limits)
            stream.lost = self._losses.take(key)
            self._key_order.add(key)
            self._expiry.note_begun(key)
        return stream

    def _drop_if_gone(self, key: bytes, stream: Stream) -> None:
        if not stream.exists:
            del self._streams[key]
            self._losses.keep(key, stream.lost)
            self._key_order.remove(key)
            self._expiry.note_gone(key)

    # --- Applying a local change --------------------------------------------------------------

    def _apply_local(self, change: LocalChange) -> None:
        stream = self._streams[change.key]
        group = stream.groups[change.group]
        match change:
            case Deliver(_, _, _, _, ids, noack):
                if group.claims_idle and not noack:
                    # Who waits for idle entries may have known of none that is still there.
                    self.touched.add(change.key)
                group.deliver(change, stream.lanes, stream.last_ids)
                if noack:
                    self._look_at(change, ids)
            case Redeliver(_, _, consumer, now, ids):
                group.redeliver(ids, consumer, now)
            case Ack(_, _, ids):
                group.acknowledge(ids)
                self.acknowledged_count += sum(map(len, ids.values()))
                self._look_at(change, ids)
            case Claim(_, _, _, _, _, dropped, _):
                if group.claims_idle:
                    # One may be idle for longer than it was (XCLAIM IDLE), or newly pending.
                    self.touched.add(change.key)
                group.claim(change, stream.lanes)
                self._look_at(change, dropped)
            case Release():
                group.release(change)
                self.touched.add(change.key)
            case CreateConsumer(_, _, consumer, now):
                group.consumer(consumer, now)
            case DeleteConsumer(_, _, consumer):
                group.delete_consumer(consumer)
            case SetPosition(_, _, position, entries_read):
                group.set_position(position, stream.lanes, _counted(entries_read))
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
            stream = self._streams.get(key)
            group = None if stream is None else stream.groups.get(name)
            if stream is None or group is None:
                # A batch that removed references ended the group, too.
                continue
            intervals = {
                region: interval
                for region in sorted(regions)
                if group.may_vouch_for(region)
                and (interval := group.measure(stream.lanes.get(region), region)) is not None
            }
            if intervals:
                self.frontier_count += 1
                self._issue(AckFrontier(key, name, intervals))


def _counted(value: int | None) -> int | None:
    """As ``counted``, of a count that may not be given."""
    return None if value is None else counted(value)


def _begins_new_run(change: LocalChange) -> bool:
    """Whether the change makes a hole in a group's run, so that the run must be measured before."""
    match change:
        case DeleteConsumer() | SetPosition():
            return True
        case Claim():
            return change.last_id is not None
        case _:
            return False
