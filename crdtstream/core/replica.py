"""The replica: the streams and strings of one region, a pure function of effects and local changes.

    command ──> issue(effect) ──┐                      ┌──> seal ──> Record (log, links)
    command ──> note(change) ───┴── apply, remember ───┘
    link ─────> receive(batch) ──── apply ──────────────────> Record
    log ──────> replay(record) ──── apply

Issuing an effect applies it here at once and puts it into the open section (``issuing``).  The
section is sealed when a tick ends, and before a remote batch is applied, because all its effects
share one causal context.  What each effect does is in ``applying``: the same code in every region,
except for an Append, which is added to its lane alone where it is issued and in a run elsewhere.
What they change is in ``state.py``.

Always so:
  * The own component of ``vv`` counts every effect issued, sealed or not; the others count what
    was received.  Batches are applied whole and in the order of their origin (I2).
  * Equal version vectors, equal digests (I1, ``digest.py``).
  * Nothing here looks at a clock, a file or a socket: ``advance`` says what time it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from crdtstream.core.applying.append_runs import checked_runs
from crdtstream.core.applying.apply_batch import ReplayedChanges, apply_batch
from crdtstream.core.applying.checking_members import check_members
from crdtstream.core.applying.looking_ahead import needs_of, read_entries, read_for_change
from crdtstream.core.applying.noting import Noting
from crdtstream.core.checkpoint.parts import Cut, Image
from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.effect_counts import EffectCounts
from crdtstream.core.effects import (
    OF_MERGED,
    AddToString,
    EffectBatch,
    IdempotentId,
    LocalChange,
    Merged,
    Numbered,
    RareEffect,
    Record,
)
from crdtstream.core.histories import Point, check_follows, hash_of, other_ends, shortened
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import ID_MIN, IdMode, Millis, RegionId, StreamId
from crdtstream.core.incarnations import Lineages, Marked, marked_by, unheard
from crdtstream.core.issuing.issuer import Issuer
from crdtstream.core.issuing.noting_issuer import NotingIssuer
from crdtstream.core.keyspace.keys import Keys
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.keyspace.strings import StringRegister
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.compaction import Compaction
from crdtstream.core.lanes.limits import (
    NODE_BYTES_MAX_DEFAULT,
    NODE_ENTRIES_MAX_DEFAULT,
    NodeLimits,
)
from crdtstream.core.membership.lost import Ends, Lost, ends_for, lost_of, sooner
from crdtstream.core.membership.members import Members
from crdtstream.core.merge.merging import Merging
from crdtstream.core.merge.repairing import Repairing
from crdtstream.core.merge.sent import SentState
from crdtstream.core.notifications import KEYMISS, Notification
from crdtstream.core.producers.idempotency import Collapsed, Tracked
from crdtstream.core.producers.numbered import Rows
from crdtstream.core.redis_version import DEFAULT, RedisVersion
from crdtstream.core.uid import NO_UID
from crdtstream.core.whole.digest import digest_key, digest_keyspace
from crdtstream.core.whole.restoring import Restoring
from crdtstream.core.whole.state import State
from crdtstream.core.wire.codec import BatchError, decode_batch
from crdtstream.core.wire.local_codec import Local, decode_local, encode_local
from crdtstream.core.xread_mode import XreadMode


class Replica:
    """The state of one region.

    Attributes:
        region: the region whose effects are issued here.
        vv: what has been applied here, own effects included.
        histories: which effects those are, as far as it is known.
        id_mode: what XADD accepts (``crdt_xadd_id_uniqueness_mode``); not replicated.
        implicit_mkstream: whether XGROUP CREATE makes a missing key; the tunable
            ``crdt_xgroup_create_mkstream``.
        xread_mode: what an ID means to XREAD; the tunable ``crdt_xread_mode``.
        redis_version: the Redis that clients are told they speak to; the tunable ``redis-version``.
        node_limits: how full macro nodes get.
        residency: which macro nodes are in memory.
        keys: what there is, to be read.
        touched: keys that changed since the set was last cleared; it drives blocked and watching
            clients.
        acknowledged_count, frontier_count: pending entries acknowledged here, and AckFrontier
            effects issued for them, since the process started: what coalescing saves.
        record_count: records made since the process started, the open section's not included.
        database_uid: names this database; set from outside.
        lineages: the incarnations of all regions; set from outside.
        may_issue: whether effects may be issued (``rules`` 18); set from outside.  Until then,
            effects that follow from applying others' effects wait.
        expired_count: keys that existed, expired and were deleted from here, since the process
            started.
        cold: images that ``take_cold`` has to return.
        stream_deadlines, string_deadlines: deadlines of keys, whether they count here or not; while
            both are empty, ``Keys.next_deadline`` is None.
        expiry_is_held: expired keys wait for entries that are on disk.
        ends: regions whose effects are known to end, and where; set from outside.
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
        self.histories = self._state.histories
        self.residency = self._state.residency
        self.residency.must_go_on = self._must_go_on
        self.id_mode = id_mode
        self.implicit_mkstream = implicit_mkstream
        self.redis_version: RedisVersion = DEFAULT
        self.xread_mode = XreadMode.BY_ID
        self.touched = self._state.keys.touched
        self.record_count = 0
        self.database_uid = NO_UID
        self.lineages: Lineages = {}
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
        self._noting: Noting | None = None
        self._call_issuer()
        self.issue_frontiers = self._issuer.issue_frontiers
        self.note_settled = self._issuer.note_settled
        # Every command looks at these; they are the same objects for good.
        self._keys = self._state.keys
        self.keys: Keys = self._keys
        self._streams = self._keys.streams
        self._registers = self._keys.registers
        self._strings = self._keys.strings
        self._expiry = self._keys.expiry
        self._due = self._keys.due
        self.stream_deadlines = self._keys.expiry.deadlines
        self.string_deadlines = self._keys.string_expiry.deadlines
        self.cold = self._issuer.cold
        self._floors = self._state.floors
        self._grown_lanes = self._state.grown_runs.lanes

    # --- Reading ------------------------------------------------------------------------------

    def stream(self, key: bytes) -> Stream | None:
        """The stream of that key, None if the key does not exist or has expired."""
        if self._due and key in self._due:
            return None
        return self._streams.get(key)

    def addition(self, key: bytes, by: int) -> AddToString:
        """The effect by which this region adds to a string; one that has expired must be gone."""
        string = self._keys.strings.get(key) or StringRegister()
        return string.addition(key, self.region, by)

    def is_string_only(self, key: bytes) -> bool:
        """True if the key has a string, expired or not, and nothing of a stream: no stream, no
        register, no floor."""
        others = self._streams, self._registers, self._floors.keys()
        return key in self._strings and not any(key in keys for keys in others)

    def __iter__(self) -> Iterator[bytes]:
        """Every key that ``stream`` or ``string`` finds: streams, then the others, each in the
        order in which they came to be here."""
        return iter(self._keys)

    def __len__(self) -> int:
        """Number of keys, expired ones included (as in Redis)."""
        return len(self._keys)

    def remembered_keys(self) -> list[bytes]:
        """The known keys, and those that expired and left a floor (``floors.py``), in order."""
        return sorted({*self._keys.known(), *self._floors.keys()})

    def floor_keys(self) -> list[bytes]:
        """The keys that expired and left a floor of this region, in no order."""
        return list(self._floors.keys())

    def floor_of(self, key: bytes) -> StreamId:
        """ID that this region's appends to the key must exceed, besides the last-generated one.

        0-0 except for a key that has expired, or will before the next write (``floors.py``).
        """
        return self._state.floor_of(key) if self._due or self._floors.by_key else ID_MIN

    @property
    def has_floors(self) -> bool:
        """True if ``floor_of`` may return more than 0-0."""
        return bool(self._due or self._floors.by_key)

    @property
    def kept_until_stable(self) -> bool:
        """True if ``forget_stable`` may find something to drop."""
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
        """True if this database has no other region, as far as is known here."""
        return self._state.is_alone

    def note_peers(self, peers: Iterable[RegionId]) -> None:
        """The other regions are these from now on."""
        self._state.note_peers(peers)

    def lost_of(
        self,
        vv: VersionVector,
        numbers: Mapping[RegionId, int] | None = None,
        points: Mapping[RegionId, Point] | None = None,
    ) -> tuple[Lost, ...]:
        """Parts of a version vector that exist nowhere, as far as is known here.

        Args:
            numbers: by region the incarnation in which its effects are named, else it is 0; None:
                the caller knows of no incarnations.
            points: by region the point that says which effects they are, if given (``points_of``).
        """
        ends = self.ends
        if points:
            ends = sooner(ends, other_ends(self.histories, points))
        if self.lineages and numbers is not None:
            ends = ends_for(ends, self.lineages, vv, numbers)
        return lost_of(vv, ends) if ends else ()

    def are_unheard(self, vv: VersionVector, numbers: Mapping[RegionId, int]) -> bool:
        """True if a version vector names effects of an incarnation that is not known here yet."""
        return bool(self.unheard_of(vv, numbers))

    def unheard_of(self, vv: VersionVector, numbers: Mapping[RegionId, int]) -> set[RegionId]:
        """Regions of a version vector whose named incarnation is not known here yet."""
        marked = {region: Marked(n, numbers.get(region, 0)) for region, n in vv.items()}
        return unheard(self.lineages, marked)

    def numbers_of(self, vv: VersionVector) -> Mapping[RegionId, int]:
        """The incarnations by which effects are named here; those of a first one name none."""
        marked = marked_by(self.lineages, vv)
        return {region: one.number for region, one in marked.items() if one.number}

    def points_of(self, vv: VersionVector) -> Mapping[RegionId, Point]:
        """Points that distinguish a version vector's effects from others with the same numbers.

        By region: the newest point that is not beyond its number, with half of the hash, as tokens
        have it.  A region without a known incarnation has none.
        """
        found = {}
        for region, n in vv.items():
            point = self.histories.point_before(region, n) if region in self.lineages else None
            if point is not None:
                found[region] = point
        return shortened(found)

    @property
    def issued(self) -> int:
        """Number of effects that this region has issued."""
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
        """Members of the database, as far as effects have reported them."""
        return self._state.members

    def begin(self, members: Members) -> None:
        """Begin with epoch 1 of a database, which no effect reports."""
        assert self._state.members.epoch <= 1, "effects have reported later members"
        self._state.restore_members(members)

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
            idempotent, now=self._keys.now, duration_s=self._keys.idmp_duration_of(key)
        )

    def collapsed(self, key: bytes, entry_id: StreamId) -> list[Collapsed]:
        """Concurrent idempotent appends that stayed while entries with this ID were removed."""
        return self._state.idempotency.collapsed(key, entry_id)

    def missing_rows(self, key: bytes, rows: Numbered, count: int) -> list[Rows]:
        """Rows, of ``count`` of a numbered producer, that were not appended yet, ascending.

        Raises:
            StaleBatchError: the batch is too old to tell.
        """
        return self._state.missing_rows(key, rows, count)

    # --- Time ---------------------------------------------------------------------------------

    def advance(self, now: Millis) -> None:
        """Say what time it is; keys whose deadline has passed read as missing while it has."""
        self._keys.advance(now)

    def expire_due(self) -> None:
        """Issue the ExpireKeys and DeleteStrings that fall to this region, or as many as one tick
        may take.

        A key whose groups have acknowledgements to issue that need entries on disk waits for them:
        ``expiry_is_held`` until it is set back from outside.
        """
        for key in self._expiry.next_due_here():
            try:
                self._issuer.expire(key)
            except ColdError as error:
                self.cold += error.images
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
        """True if the running command or transaction has changed something, and must finish."""
        return self._issuer.has_unsettled_changes

    def _must_go_on(self) -> bool:
        return self._issuer.has_unsettled_changes

    def take_cold(self) -> list[int]:
        """Images that are needed to find what was acknowledged, since the last call."""
        cold = list(self.cold)
        self.cold.clear()
        return cold

    def needs_of(self, batch: EffectBatch) -> list[int]:
        """The images of what applying a batch will read and is not in memory; it must be ready."""
        return needs_of(self._state, batch)

    def look_ahead(self, effects: Iterable[RareEffect]) -> None:
        """Read what issuing these effects will read, before the first of them is issued.

        Raises:
            ColdError: some is not in memory.
        """
        self._issuer.look_ahead(effects)

    def look_ahead_of_change(self, change: LocalChange) -> None:
        """As ``look_ahead``, of a local change that begins no new run."""
        read_for_change(self._state, change)

    def read_entries(self, stream: Stream, ids: Ids) -> None:
        """Read the entries with these IDs, in whichever lanes they stand.

        Raises:
            ColdError: not all are in memory.
        """
        read_entries(self._state, stream, ids)

    def _call_issuer(self) -> None:
        """Bind what commands call to change something; methods that forward would slow XADD."""
        noting = self._noting
        issuer = self._issuer if noting is None else NotingIssuer(self._issuer, noting)
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
        assert not self._is_on_trial, "a trial within a trial"
        self._is_on_trial = True

    def _end_trial(self) -> None:
        assert self._is_on_trial
        self._call_issuer()
        self._is_on_trial = False

    # --- Notifications ------------------------------------------------------------------------

    def begin_noting(self) -> None:
        """Note what happens to keys from now on; see ``take_noted``."""
        if self._noting is None:
            self._noting = Noting(self._state)
            self._issuer.on_expired = self._noting.note_expired
            self._call_issuer()

    def end_noting(self) -> None:
        """Note nothing more, and forget what was noted."""
        self._noting = None
        self._issuer.on_expired = None
        self._call_issuer()

    @property
    def is_noting(self) -> bool:
        """True between ``begin_noting`` and ``end_noting``."""
        return self._noting is not None

    def take_noted(self) -> list[Notification]:
        """The notifications since the last call, in order; nothing without ``begin_noting``.

        A state that was merged, and a log that was replayed, are not noted.
        """
        return [] if self._noting is None else self._noting.take()

    @property
    def noted_count(self) -> int:
        """Number of notifications since they were last taken."""
        return 0 if self._noting is None else len(self._noting.noted)

    def note_misses(self, keys: Iterable[bytes], *, at: int) -> None:
        """Note that a command has read missing keys, behind the first ``at`` notifications."""
        if self._noting is not None and not self._is_on_trial:
            self._noting.noted[at:at] = [Notification(KEYMISS, key) for key in keys]

    def announcing(self, *notifications: Notification) -> "_Announcing":
        """Note these, and nothing else, of what is issued in a ``with``, unless it raises."""
        return _Announcing(None if self._is_on_trial else self._noting, notifications)

    @property
    def frontier_count(self) -> int:
        return self._issuer.frontier_count

    @property
    def expired_count(self) -> int:
        return self._issuer.expired_count

    # --- Records ------------------------------------------------------------------------------

    @property
    def open_bytes(self) -> int:
        """Bytes that the entries appended, and the strings set, since the last seal take in the
        next batch, or a little less."""
        return self._section.batch.value_bytes

    @property
    def has_open_changes(self) -> bool:
        """True if the open section has local changes, or acknowledgements not issued yet."""
        return bool(self._section.changes or self._grown_lanes)

    @property
    def has_open_section(self) -> bool:
        """True if the next seal makes a record."""
        return bool(self._section.batch.count or self._section.changes)

    @property
    def has_open_record(self) -> bool:
        """True if something waits to be sealed or taken."""
        return self.has_untaken_records or bool(self._grown_lanes)

    @property
    def has_untaken_records(self) -> bool:
        """True if the next tick to end has records."""
        return self.has_open_section or bool(self._records)

    def seal(self, now: Millis) -> None:
        """Close the open section: issue what was acknowledged, encode the batch, queue a record.

        Must not be called between the commands of a transaction: it is one batch everywhere.
        """
        issuer, section = self._issuer, self._section
        if self._grown_lanes:
            issuer.issue_warm_frontiers()
        issuer.changes_settled = issuer.changes
        batch = section.batch
        if batch.count or section.changes:
            self.issued_counts.note(batch.count, batch.others)
            self._queue(section.seal(self.region, self.vv, now, self.histories))
        assert not section.batch.count, "the section was sealed"
        assert not section.changes

    def _queue(self, record: Record) -> None:
        assert (record.batch is None) == (record.last_n < record.first_n)
        assert record.batch is None or record.last_n <= self.vv.get(record.origin, 0)
        self._records.append(record)
        self.record_count += 1

    def take_records(self, now: Millis) -> list[Record]:
        """Everything to be made durable since the last call, in order.  Ends a tick."""
        section = self._section
        if section.batch.count or section.changes or self._grown_lanes:
            self.seal(now)
        if not self._records:
            return []
        records, self._records = self._records, []
        return records

    # --- Receiving and replaying --------------------------------------------------------------

    def ready(self, batch: EffectBatch) -> bool:
        """True if the batch is the next of its origin and its context has been applied."""
        return batch.first_n == self.vv.get(batch.origin, 0) + 1 and covers(self.vv, batch.context)

    def is_known(self, batch: EffectBatch) -> bool:
        """True if the batch has been applied already."""
        return batch.last_n <= self.vv.get(batch.origin, 0)

    def receive(self, batch: EffectBatch, encoded: bytes, now: Millis) -> None:
        """Apply another region's batch; one that is known already changes nothing (I4).

        Raises:
            BatchError: its IDs do not ascend in a lane, or it is of members of another history.
                Nothing has changed then.
            HistoryError: it does not follow what was applied here.  Likewise.
        """
        if self.is_known(batch):
            return
        assert self.ready(batch), "the inbox holds a batch back until it is next"
        check_follows(batch, self.histories)
        runs = checked_runs(batch, self._state.lane_end)
        check_members(batch, self._state.members)
        self.seal(now)
        self.advance(now)
        assert not self.has_open_section, "all effects of a batch share one context"
        with self.residency.in_place():
            apply_batch(self._state, batch, runs, Local(), arrived=now, noting=self._noting)
        self.histories.note(batch.origin, batch.last_n, hash_of(encoded))
        self.applied_counts.note(batch.count, batch.others)
        if batch.origin == self.region:
            # Effects of this region that it had lost: numbering continues behind them.
            self._section.begin(self.issued + 1)
        local = encode_local(Local(arrived=now))
        self._queue(Record(batch.origin, batch.first_n, batch.last_n, encoded, local))

    def repairing(self, merged: Merged) -> Repairing:
        """Begin to replace a key by what another region has, which is staged; nothing is changed
        yet.

        To be ended by ``merge``, or by its ``give_up``.

        Raises:
            ContentError, StoreError: it cannot be read.
        """
        assert self.staged is not None
        return Repairing(self._state, self.staged, merged)

    def merging(self, merged: Merged) -> Merging:
        """Begin to merge the state of another region, which is staged; nothing is changed yet.

        To be ended by ``merge``, or by its ``give_up``.

        Raises:
            ContentError, StoreError: it cannot be read.
        """
        assert self.staged is not None, "the owner of the replica says where staged states are"
        return Merging(self._state, self.staged, merged)

    def merge(self, merging: Merging | Repairing, now: Millis) -> None:
        """End a merge, or replace a key; no batch may be half applied.

        Raises:
            ContentError: an image says what cannot be.  The state is of no use from then on.
            ForkError, HistoryError: its members or its effects are of another history.  Nothing has
                changed then.
            UnreadableError: an image cannot be read.  Likewise.
        """
        self.seal(now)
        self.advance(now)
        with self.residency.in_place():
            self._merge(merging, now)
        merged = merging.merged
        local = encode_local(Local(arrived=now, merged=merged))
        self._queue(Record(OF_MERGED, 1, 0, None, local, merged.vv))

    def _merge(self, merging: Merging | Repairing, now: Millis) -> None:
        assert not self.has_open_section, "what was issued before has not observed the merge"
        before = dict(self.vv)
        merging.finish(now)
        assert covers(self.vv, before), "a merge loses nothing"
        assert covers(self.vv, merging.merged.vv)
        self.merged_count += 1
        # Effects of this region that it had lost: numbering continues behind them.
        self._section.begin(self.issued + 1)

    def cut(self) -> Cut:
        """Begin a checkpoint of the state as it is now: everything that was taken as a record.

        To be called when a tick has ended.
        """
        assert not self.has_untaken_records
        return self._state.cut()

    def compaction(self) -> Compaction:
        """A round of putting small macro nodes together, not begun yet."""
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
            is_repair = local.merged.key is not None
            begin = self.repairing if is_repair else self.merging
            self._merge(begin(local.merged), local.arrived)
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
            self.histories.note(batch.origin, batch.last_n, hash_of(record.batch))


class _OnTrial:
    """:meth:`Replica.on_trial`, for a ``with``; no generator, as those in ``Residency``."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def __enter__(self) -> None:
        self._replica._begin_trial()

    def __exit__(self, *_exc: object) -> None:
        self._replica._end_trial()


class _Announcing:
    """:meth:`Replica.announcing`; without ``noting`` it does nothing."""

    def __init__(self, noting: Noting | None, notifications: Sequence[Notification]) -> None:
        self._noting = noting
        self._notifications = notifications
        self._was_silent = False

    def __enter__(self) -> None:
        if self._noting is not None:
            self._was_silent = self._noting.is_silent
            self._noting.is_silent = True

    def __exit__(self, failed: object, *_exc: object) -> None:
        noting = self._noting
        if noting is not None:
            noting.is_silent = self._was_silent
            if failed is None and not noting.is_silent:
                noting.noted += self._notifications
