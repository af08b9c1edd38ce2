"""The replica: the streams and strings of one region, a pure function of effects and local changes.

    command ──> issue(effect) ──┐                      ┌──> seal ──> Record (log, links)
    command ──> note(change) ───┴── apply, remember ───┘
    link ─────> receive(batch) ──── apply ──────────────────> Record
    log ──────> replay(record) ──── apply

Issuing an effect applies it here at once and puts it into the open section (``issuing``).  The
section is sealed when a tick ends, and before a remote batch is applied, because all its effects
share one causal context.  What each effect does is in ``applying``: the same code in every region,
but for an Append, which goes into its lane alone where it is issued and in a run elsewhere.  What
they change is in ``state.py``.

Always so:
  * The own component of ``vv`` counts every effect issued, sealed or not; the others count what
    was received.  Batches are applied whole and in the order of their origin (I2).
  * Equal version vectors, equal digests (I1, ``digest.py``).
  * Nothing here looks at a clock, a file or a socket: ``advance`` says what time it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from crdtstream.core.applying.append_runs import checked_runs
from crdtstream.core.applying.apply_batch import ReplayedChanges, apply_batch
from crdtstream.core.applying.checking_members import check_members
from crdtstream.core.applying.looking_ahead import needs_of, read_entries, read_for_effect
from crdtstream.core.checkpoint.parts import Cut, Image
from crdtstream.core.checkpoint.restoring import Restoring
from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.digest import digest_key, digest_keyspace
from crdtstream.core.effect_counts import EffectCounts
from crdtstream.core.effects import (
    OF_MERGED,
    EffectBatch,
    IdempotentId,
    Merged,
    Numbered,
    RareEffect,
    Record,
)
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import ID_MIN, IdMode, Millis, RegionId, StreamId
from crdtstream.core.issuing.issuer import Issuer
from crdtstream.core.keyspace.registers import KeyRegisters
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.compaction import Compaction
from crdtstream.core.lanes.limits import (
    NODE_BYTES_MAX_DEFAULT,
    NODE_ENTRIES_MAX_DEFAULT,
    NodeLimits,
)
from crdtstream.core.membership.lost import Ends, Lost, lost_of
from crdtstream.core.membership.members import Members
from crdtstream.core.merge.merging import Merging
from crdtstream.core.merge.sent import SentState
from crdtstream.core.producers.idempotency import Collapsed, Tracked
from crdtstream.core.producers.numbered import Rows
from crdtstream.core.redis_version import DEFAULT, RedisVersion
from crdtstream.core.state import State
from crdtstream.core.stream import Stream
from crdtstream.core.uid import NO_UID
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.core.wire.local_codec import Local, decode_local, encode_local
from crdtstream.core.xread_mode import XreadMode


class Replica:
    """The state of one region.

    Attributes:
        region: whose effects are issued here.
        vv: what has been applied here, own effects included.
        id_mode: what XADD accepts (``crdt_xadd_id_uniqueness_mode``); not replicated.
        implicit_mkstream: whether XGROUP CREATE makes a missing key; the tunable
            ``crdt_xgroup_create_mkstream``.
        xread_mode: what an ID means to XREAD; the tunable ``crdt_xread_mode``.
        redis_version: the Redis that clients are told they speak to; the tunable ``redis-version``.
        node_limits: how full macro nodes get.
        residency: which macro nodes are in memory.
        idmp_duration_s, idmp_maxsize: for streams without values of XCFGSET.
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
        expiry_is_held: keys whose time is over wait for entries that are on disk.
        ends: regions whose effects are known to end, and where; whoever runs the replica sets it.
        staged: reads the state that a ``Merged`` names; None: none is staged here.
        merged_count: how many states were merged since the process started, replayed ones included.
        issued_counts, applied_counts: by kind the effects issued here, and those applied that
            others issued, since the process started.
    """

    def __init__(
        self,
        region: RegionId,
        *,
        id_mode: IdMode = IdMode.STRICT,
        implicit_mkstream: bool = False,
        node_entries_max: int = NODE_ENTRIES_MAX_DEFAULT,
        node_bytes_max: int = NODE_BYTES_MAX_DEFAULT,
        peers: Iterable[RegionId] = (),
    ) -> None:
        self.region = region
        self.node_limits = NodeLimits(entries_max=node_entries_max, bytes_max=node_bytes_max)
        self._state = State(region, peers, self.node_limits)
        self.vv = self._state.vv
        self.residency = self._state.residency
        self.residency.must_go_on = self._must_go_on
        self.id_mode = id_mode
        self.implicit_mkstream = implicit_mkstream
        self.redis_version: RedisVersion = DEFAULT
        self.xread_mode = XreadMode.BY_ID
        self.touched = self._state.keys.touched
        self.record_count = 0
        self.database_uid = NO_UID
        self.issued_counts = EffectCounts()
        self.applied_counts = EffectCounts()
        self._records: list[Record] = []
        self._issuer = Issuer(self._state)
        self._section = self._issuer.section
        self.expiry_is_held = False
        self.staged: Callable[[Merged], SentState] | None = None
        self.merged_count = 0
        self._is_on_trial = False
        self.ends: Ends = {}
        self._call_issuer()
        self.issue_frontiers = self._issuer.issue_frontiers
        self.note_settled = self._issuer.note_settled
        # Every command looks at these; they are the same objects for good.
        self._keys = self._state.keys
        self._streams = self._keys.streams
        self._registers = self._keys.registers
        self._strings = self._keys.strings
        self._expiry = self._keys.expiry
        self._due = self._keys.due
        self._floors = self._state.floors
        self._grown_lanes = self._state.grown_runs.lanes

    # --- Reading ------------------------------------------------------------------------------

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist or its time is over."""
        if self._due and key in self._due:
            return None
        return self._streams.get(key)

    def held_stream(self, key: bytes) -> Stream | None:
        """As ``stream``, and also one whose time is over and that was not deleted yet.

        Who reads by dots must have its entries until the delete tells that they are lost: it may
        yet be made to last.
        """
        return self._streams.get(key)

    def string(self, key: bytes) -> StringRegister | None:
        """The string of that key, None if there is none or its time is over.

        A key may have a stream, too; then clients see that.
        """
        return self._keys.string(key)

    def held_string(self, key: bytes) -> StringRegister | None:
        """As ``string``, and also one whose time is over and that was not deleted yet."""
        return self._keys.strings.get(key)

    def held_registers(self, key: bytes) -> KeyRegisters | None:
        """The registers of the key; they may be there without anything else."""
        return self._registers.get(key)

    def register_keys(self) -> list[bytes]:
        """The keys that have registers, in no order."""
        return list(self._registers)

    def is_string_only(self, key: bytes) -> bool:
        """Whether the key has a string, its time over or not, and nothing of a stream: none that
        is there, no register, no floor."""
        others = self._streams, self._registers, self._floors.keys()
        return key in self._strings and not any(key in keys for keys in others)

    def __iter__(self) -> Iterator[bytes]:
        """Every key that ``stream`` or ``string`` finds: streams, then the others, each in the
        order in which they came to be here."""
        return iter(self._keys)

    def __len__(self) -> int:
        """How many keys there are, those included whose time is over (as in Redis)."""
        return len(self._keys)

    def known_keys(self) -> list[bytes]:
        """Every key with a stream, a string or a register, expired ones too, in order."""
        return self._keys.known()

    def remembered_keys(self) -> list[bytes]:
        """The known keys, and those that expired and left a floor (``floors.py``), in order."""
        return sorted({*self._keys.known(), *self._floors.keys()})

    def scan_keys(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end), and ``count`` keys or a few more from this one on.

        A key that exists from the first call to the last is met exactly once.  O(count + log n).
        """
        return self._keys.scan(cursor, count)

    def scan_held_keys(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """As ``scan_keys``, with the keys that ``held_stream`` or ``held_string`` finds."""
        return self._keys.scan_held(cursor, count)

    def draw_key(self) -> bytes | None:
        """One of the keys, None if there are none; each as often as any other in the long run."""
        return self._keys.draw()

    def lost(self, key: bytes) -> Mapping[RegionId, int]:
        """By origin the highest dot number of the key that a trim or a DEL removed.

        Local: another region may know of less, or of more.  Of keys that are gone only the latest
        are remembered (``trimmed.py``).
        """
        return self._keys.lost(key)

    def gone_keys(self) -> list[bytes]:
        """Keys that are gone and lost entries as far as is remembered (``lost``), in order."""
        return self._keys.gone()

    def floor_of(self, key: bytes) -> StreamId:
        """What this region appends to the key must be above this ID, and the last-generated one.

        0-0 but for a key that has expired, or is about to before the next write (``floors.py``).
        """
        if not self._floors and not self._due:
            return ID_MIN
        return self._state.floor_of(key)

    @property
    def kept_until_stable(self) -> bool:
        """Whether ``forget_stable`` may find something to drop."""
        return self._state.kept_until_stable

    def forget_stable(self, stable: VersionVector) -> None:
        """Drop what is kept only for effects that can no longer arrive."""
        self._state.forget_stable(stable)

    @property
    def tombstone_count(self) -> int:
        return len(self._state.tombstones)

    @property
    def idempotency_record_count(self) -> int:
        """Idempotent appends that are remembered because they are not causally stable yet, and
        runs of rows of numbered producers."""
        return self._state.idempotency_record_count

    @property
    def acknowledged_count(self) -> int:
        return self._state.acknowledged_count

    @property
    def is_alone(self) -> bool:
        """Whether this database has no other region, as far as is known here."""
        return self._state.is_alone

    def note_peers(self, peers: Iterable[RegionId]) -> None:
        """The other regions are these from now on."""
        self._state.note_peers(peers)

    def lost_of(self, vv: VersionVector) -> tuple[Lost, ...]:
        """What of a version vector exists nowhere, as far as is known here."""
        return lost_of(vv, self.ends) if self.ends else ()

    @property
    def issued(self) -> int:
        """How many effects this region has issued."""
        return self.vv.get(self.region, 0)

    def digest(self, key: bytes | None = None) -> bytes:
        """A canonical digest of one key's replicated state, or of all, as hexadecimal text."""
        if key is None:
            return digest_keyspace(
                self._streams, self._registers, self._strings, self._state.members
            )
        return digest_key(self._streams.get(key), self._registers.get(key), self._strings.get(key))

    @property
    def members(self) -> Members:
        """Who belongs to the database, as far as effects have told; epoch 0: nothing has."""
        return self._state.members

    def acting_for(self, region: RegionId) -> RegionId:
        """The region that does what only this region would do: itself, or its heir if it was
        removed."""
        return self._state.heirs.acting_for(region)

    # --- Idempotent producers -----------------------------------------------------------------

    def recognise(self, key: bytes, idempotent: IdempotentId) -> StreamId | None:
        """The entry that this append made before; None if it is new, or was forgotten.

        A retry that is recognised is counted.
        """
        tracked = self.find_idempotent(key, idempotent)
        if tracked is None:
            return None
        window = self._streams[key].window
        assert window is not None
        if not self._is_on_trial:
            self._state.parts.note_producers(key)
            window.note_retry(tracked)
        return tracked.entry_id

    def find_idempotent(self, key: bytes, idempotent: IdempotentId) -> Tracked | None:
        """The entry that an idempotent id made before, if the window still knows it."""
        stream = self.stream(key)
        if stream is None or stream.window is None:
            return None
        return stream.window.find(
            idempotent, now=self._keys.now, duration_s=self.idmp_duration_of(key)
        )

    def collapsed(self, key: bytes, entry_id: StreamId) -> list[Collapsed]:
        """Which concurrent idempotent appends stayed where entries with this ID went."""
        return self._state.idempotency.collapsed(key, entry_id)

    def missing_rows(self, key: bytes, rows: Numbered, count: int) -> list[Rows]:
        """Which of ``count`` rows of a numbered producer were not appended yet, ascending.

        Raises:
            StaleBatchError: the batch is too old to tell.
        """
        return self._state.missing_rows(key, rows, count)

    @property
    def idmp_duration_s(self) -> int:
        return self._keys.idmp_duration_s

    @idmp_duration_s.setter
    def idmp_duration_s(self, seconds: int) -> None:
        self._keys.idmp_duration_s = seconds

    @property
    def idmp_maxsize(self) -> int:
        return self._keys.idmp_maxsize

    @idmp_maxsize.setter
    def idmp_maxsize(self, size: int) -> None:
        self._keys.idmp_maxsize = size

    def idmp_duration_of(self, key: bytes) -> int:
        """For how many seconds a stream recognises idempotent ids."""
        return self._keys.idmp_duration_of(key)

    def idmp_maxsize_of(self, key: bytes) -> int:
        """How many idempotent ids of a producer a stream recognises."""
        return self._keys.idmp_maxsize_of(key)

    def idmp_settings_of(self, key: bytes) -> tuple[int | None, int | None]:
        """Duration and maxsize as XCFGSET said them of this key, None where it did not."""
        return self._keys.idmp_settings_of(key)

    # --- Time ---------------------------------------------------------------------------------

    @property
    def now(self) -> Millis:
        return self._keys.now

    def advance(self, now: Millis) -> None:
        """Say what time it is; keys whose deadline has passed read as missing while it has."""
        self._keys.advance(now)

    def deadline_of(self, key: bytes) -> Millis | None:
        """When the key's stream expires; None: it does not."""
        return self._expiry.of(key)

    def string_deadline_of(self, key: bytes) -> Millis | None:
        """When the key's string expires; None: it does not."""
        return self._keys.string_expiry.of(key)

    @property
    def expiring_count(self) -> int:
        """How many streams and strings have a deadline."""
        return self._keys.expiring_count

    def mean_deadline(self) -> Millis | None:
        """The mean of the deadlines that have not passed, None if there are none."""
        return self._keys.mean_deadline()

    def next_deadline(self) -> Millis | None:
        """When ``advance`` will find the next key to expire; may be of a deadline long changed."""
        return self._keys.next_deadline()

    @property
    def has_due(self) -> bool:
        """Whether ``expire_due`` has something to do: any ``advance`` may have found it."""
        if self.expiry_is_held:
            return False
        return self._expiry.has_due_here or self._keys.string_expiry.has_due_here

    def expire_due(self) -> None:
        """Issue the ExpireKeys and DeleteStrings that fall to this region, or as many as one tick
        may take.

        A key whose groups have something to tell for which entries on disk are needed waits for
        them: ``expiry_is_held`` until whoever runs the replica says otherwise.
        """
        for key in self._expiry.next_due_here():
            try:
                self._issuer.expire(key)
            except ColdError as error:
                self._issuer.cold += error.images
                self.expiry_is_held = True
            # The next key may have to be read for, and can wait.
            self._issuer.note_settled()
        for key in self._keys.string_expiry.next_due_here():
            self._issuer.expire_string(key)

    # --- Issuing ------------------------------------------------------------------------------

    @property
    def may_issue(self) -> bool:
        return self._issuer.may_issue

    @may_issue.setter
    def may_issue(self, may: bool) -> None:
        self._issuer.may_issue = may

    @property
    def has_unsettled_changes(self) -> bool:
        """Whether what runs has changed something, so that it must run to its end."""
        return self._issuer.has_unsettled_changes

    def _must_go_on(self) -> bool:
        return self._issuer.has_unsettled_changes

    def take_cold(self) -> list[int]:
        """Images that are needed to tell what was acknowledged, since the last call."""
        cold, self._issuer.cold = self._issuer.cold, []
        return cold

    def needs_of(self, batch: EffectBatch) -> list[int]:
        """The images of what applying a batch will read and is not in memory; it must be ready."""
        return needs_of(self._state, batch)

    def look_ahead(self, effect: RareEffect) -> None:
        """Read what issuing the effect will read.

        Raises:
            ColdError: it is not in memory.
        """
        read_for_effect(self._state, effect, self.vv)

    def read_entries(self, stream: Stream, ids: Ids) -> None:
        """Read the entries with these IDs, in whichever lanes they stand.

        Raises:
            ColdError: not all are in memory.
        """
        read_entries(self._state, stream, ids)

    def _call_issuer(self) -> None:
        """What a command calls to change something; not through a method here, as XADD is too often
        called for that."""
        issuer = self._issuer
        self.append = issuer.append
        self.append_run = issuer.append_run
        self.append_mixed = issuer.append_mixed
        self.append_rows = issuer.append_rows
        self.issue = issuer.issue
        self.note = issuer.note
        self.see_consumer = issuer.see_consumer

    def on_trial(self) -> "_OnTrial":
        """Run a command up to where it would change something; then it ends by TrialEndedError.

        So what it reads is found out, and nothing else happens.
        """
        return _OnTrial(self)

    def _begin_trial(self) -> None:
        issuer = self._issuer
        self.append = issuer.append_on_trial
        self.append_run = issuer.append_on_trial
        self.append_mixed = issuer.append_on_trial
        self.append_rows = issuer.append_on_trial
        self.issue = issuer.issue_on_trial
        self.note = issuer.note_on_trial
        self.see_consumer = issuer.see_consumer_on_trial
        self._is_on_trial = True

    def _end_trial(self) -> None:
        self._call_issuer()
        self._is_on_trial = False

    @property
    def frontier_count(self) -> int:
        return self._issuer.frontier_count

    @property
    def expired_count(self) -> int:
        return self._issuer.expired_count

    # --- Records ------------------------------------------------------------------------------

    @property
    def open_bytes(self) -> int:
        """What the entries appended, and the strings set, since the last seal take in the batch to
        come, or a little less."""
        return self._section.batch.value_bytes

    @property
    def has_open_changes(self) -> bool:
        """Whether the open section has local changes, or acknowledgements yet to be told."""
        return bool(self._section.changes or self._grown_lanes)

    @property
    def has_open_section(self) -> bool:
        """Whether the next seal makes a record."""
        return bool(self._section.batch.count or self._section.changes)

    @property
    def has_open_record(self) -> bool:
        """Whether something waits to be sealed or taken."""
        return self.has_untaken_records or bool(self._grown_lanes)

    @property
    def has_untaken_records(self) -> bool:
        """True if the next tick to end has records."""
        return self.has_open_section or bool(self._records)

    def seal(self, now: Millis) -> None:
        """Close the open section: tell what was acknowledged, encode the batch, queue a record.

        Must not be called between the commands of a transaction: it is one batch everywhere.
        """
        self._issuer.issue_warm_frontiers()
        self._issuer.note_settled()
        if self.has_open_section:
            batch = self._section.batch
            self.issued_counts.note(batch.count, batch.others)
            self._queue(self._section.seal(self.region, self.vv, now))

    def _queue(self, record: Record) -> None:
        self._records.append(record)
        self.record_count += 1

    def take_records(self, now: Millis) -> list[Record]:
        """Everything to be made durable since the last call, in order.  Ends a tick."""
        self.seal(now)
        records, self._records = self._records, []
        return records

    # --- Receiving and replaying --------------------------------------------------------------

    def ready(self, batch: EffectBatch) -> bool:
        """Whether the batch is the next of its origin and its context has been applied."""
        return batch.first_n == self.vv.get(batch.origin, 0) + 1 and covers(self.vv, batch.context)

    def is_known(self, batch: EffectBatch) -> bool:
        """Whether the batch has been applied already."""
        return batch.last_n <= self.vv.get(batch.origin, 0)

    def receive(self, batch: EffectBatch, encoded: bytes, now: Millis) -> None:
        """Apply another region's batch; one that is known already changes nothing (I4).

        Raises:
            BatchError: its IDs do not ascend in a lane, or it tells of members of another history.
                Nothing has changed then.
        """
        if self.is_known(batch):
            return
        assert self.ready(batch), "the inbox holds a batch back until it is next"
        runs = checked_runs(batch, self._state.lane_end)
        check_members(batch, self._state.members)
        self.seal(now)
        self.advance(now)
        with self.residency.in_place():
            apply_batch(self._state, batch, runs, Local(), arrived=now)
        self.applied_counts.note(batch.count, batch.others)
        if batch.origin == self.region:
            # Effects of this region that it had lost: numbering goes on behind them.
            self._section.begin(self.issued + 1)
        local = encode_local(Local(arrived=now))
        self._queue(Record(batch.origin, batch.first_n, batch.last_n, encoded, local))

    def merging(self, merged: Merged) -> Merging:
        """Begin to merge the state of another region, which is staged; nothing is changed yet.

        To be ended by ``merge``, or by its ``give_up``.

        Raises:
            ContentError, StoreError: it cannot be read.
        """
        assert self.staged is not None, "whoever runs the replica says where staged states are"
        return Merging(self._state, self.staged, merged)

    def merge(self, merging: Merging, now: Millis) -> None:
        """End a merge; no batch may be half applied.

        Raises:
            ContentError: an image says what cannot be.  The state is of no use from then on.
            ForkError: its members are of another history.  Nothing has changed then.
            UnreadableError: an image cannot be read.  Likewise.
        """
        self.seal(now)
        self.advance(now)
        with self.residency.in_place():
            self._merge(merging, now)
        merged = merging.merged
        local = encode_local(Local(arrived=now, merged=merged))
        self._queue(Record(OF_MERGED, 1, 0, None, local, merged.vv))

    def _merge(self, merging: Merging, now: Millis) -> None:
        merging.finish(now)
        self.merged_count += 1
        # Effects of this region that it had lost: numbering goes on behind them.
        self._section.begin(self.issued + 1)

    def cut(self) -> Cut:
        """Begin a checkpoint of the state as it is now: everything that was taken as a record.

        To be called when a tick has ended.
        """
        assert not self.has_untaken_records
        return self._state.cut()

    def compaction(self) -> Compaction:
        """A round of putting small macro nodes together, which nobody has begun yet."""
        return Compaction(self.node_limits)

    def restore(self, images: Iterable[Image]) -> None:
        """Make the state that a checkpoint has, before anything else happens.

        Raises:
            ContentError: the images do not fit together.
        """
        restoring = Restoring(self._state)
        restoring.take(images)
        restoring.finish()
        self._section.begin(self.issued + 1)

    @property
    def images_made(self) -> int:
        """The number of the last image that was made of a part."""
        return self._state.changes.images_made

    @property
    def changed_parts(self) -> int:
        """How many parts of the state changed since the last cut."""
        return self._state.changes.count

    def replay(self, record: Record) -> None:
        """Live through a record again, when the log is read at start (I8).

        Raises:
            BatchError: the record does not follow what was replayed before.
        """
        with self.residency.in_place():
            self._replay(record)
        self._state.grown_runs.clear()
        self._section.begin(self.issued + 1)

    def _replay(self, record: Record) -> None:
        local = Local() if record.local is None else decode_local(record.local)
        if local.merged is not None:
            self._merge(self.merging(local.merged), local.arrived)
        elif record.batch is None:
            ReplayedChanges(self._state, local.changes).apply_upto(self.issued)
        else:
            batch = decode_batch(record.batch)
            if not self.ready(batch):
                raise BatchError(
                    f"batch {batch.origin}:{batch.first_n} does not follow {dict(self.vv)}"
                )
            runs = checked_runs(batch, self._state.lane_end)
            check_members(batch, self._state.members)
            arrived = local.arrived or batch.issued_ms
            apply_batch(self._state, batch, runs, local, arrived=arrived)


class _OnTrial:
    """:meth:`Replica.on_trial`, for a ``with``; no generator, as those in ``Residency``."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def __enter__(self) -> None:
        self._replica._begin_trial()

    def __exit__(self, *_exc: object) -> None:
        self._replica._end_trial()
