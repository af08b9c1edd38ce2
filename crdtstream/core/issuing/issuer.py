"""Issuing: what a command changes is applied here at once, and put into the open section.

    append, append_run,   entries: straight into this region's lane
    append_mixed,
    append_rows
    issue                 any other effect: ``apply_effect``, as in every region; a Remove may
                          become part of the one before it
    note                  a local change: ``apply_change``
    see_consumer          no record, except for a new consumer

Always so:
  * An effect's context is what this region has applied, its own effects included (``rules`` 1).
  * An expired key ends before it is written to, in the same batch (``rules`` 7).
  * What was acknowledged is issued before an effect that changes or ends the group (``rules`` 12).
  * What a change will read of entries is read before it is made (I10).
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn

from crdtstream.core.applying.apply_change import apply_change, begins_new_run
from crdtstream.core.applying.apply_effect import apply_effect
from crdtstream.core.applying.looking_ahead import read_for_change, read_for_effect
from crdtstream.core.applying.settling import settle_message, settle_rows
from crdtstream.core.clock import Dot
from crdtstream.core.effects import (
    Append,
    ChangeMembers,
    CreateConsumer,
    CreateGroup,
    DeleteKey,
    DeleteString,
    DestroyGroup,
    Effect,
    ExpireKey,
    IdempotentId,
    LocalChange,
    Numbered,
    RareEffect,
    Remove,
    SetGroupMode,
    SetString,
    SetStringExpiry,
)
from crdtstream.core.ids import SEQ_BITS, U64_MAX, Millis, RegionId, StreamId, next_id
from crdtstream.core.issuing.section import OpenSection
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.whole.grown_runs import GroupName
from crdtstream.core.whole.state import State

# Before these, what was acknowledged in the groups of the key is issued.
ENDS_RUNS: Final = (DeleteKey, ExpireKey, CreateGroup, DestroyGroup, SetGroupMode)
# These take what regions have added to a string.
TAKE_COUNTERS: Final = (SetString, DeleteKey, DeleteString)
# Before these an expired key need not end: they end it, or are of its string.
WITHOUT_LEFT_OVER: Final = (DeleteKey, ExpireKey, SetStringExpiry, DeleteString)


class TrialEndedError(Exception):
    """A command on trial would change something now."""


class Issuer:
    """See the module's text.

    Attributes:
        may_issue: whether effects may be issued (``rules`` 18); set from outside.  Until then,
            effects that follow from applying others' effects wait.
        section: what was issued and noted since the last seal.
        frontier_count: AckFrontier effects issued since the process started.
        expired_count: keys that existed, expired and were deleted from here, since the process
            started.
        changes, changes_settled: how many changes were made, appends not counted, and how many of
            them by what has ended.  While they differ, something has changed that cannot be taken
            back, and what is read must not fail.
        cold: images that are needed to find what was acknowledged; fetched from outside.  One and
            the same list for good.
        on_expired: called with each expired key that was deleted from here; None: nobody asks.
    """

    __slots__ = (
        "_changes",
        "_grown_runs",
        "_keys",
        "_region",
        "_registers",
        "_residency",
        "_state",
        "_streams",
        "_strings",
        "_touched",
        "_vv",
        "changes",
        "changes_settled",
        "cold",
        "expired_count",
        "frontier_count",
        "may_issue",
        "on_expired",
        "section",
    )

    def __init__(self, state: State) -> None:
        self.may_issue = True
        self.section = OpenSection(1)
        self.frontier_count = 0
        self.expired_count = 0
        self.changes = 0
        self.changes_settled = 0
        self.cold: list[int] = []
        self.on_expired: Callable[[bytes], None] | None = None
        self._state = state
        # Every XADD or XACK looks at these; they are the same objects for good.
        self._region: RegionId = state.region
        self._changes = state.changes
        self._residency = state.residency
        self._vv = state.vv
        self._keys = state.keys
        self._streams = state.keys.streams
        self._strings = state.keys.strings
        self._registers = state.keys.registers
        self._touched = state.keys.touched
        self._grown_runs = state.grown_runs

    def append(
        self,
        key: bytes,
        entry_id: StreamId,
        fields: bytes,
        idempotent: IdempotentId | None = None,
    ) -> None:
        """Issue an Append.  The ID must be above the stream's last-generated ID."""
        region = self._region
        if self._registers:
            self._expire_left_over(key)
        stream = self._streams.get(key) or self._keys.stream_or_new(key)
        assert self.may_issue  # I3
        assert entry_id > stream.last_id  # I5
        part = stream.part
        if part.changed_after != self._changes.cut_number:
            self._changes.note(part)
        n = self._vv.get(region, 0) + 1
        # Before the lane: if it breaks half-way, these show that it had begun.
        self._touched.add(key)
        self._vv[region] = n
        lane = stream.lanes.get(region) or stream.lane(region)
        ms, seq = entry_id >> SEQ_BITS, entry_id & U64_MAX
        lane.append_halves(ms, seq, n, fields, self._keys.arrival)
        register = stream.last_ids.get(region)
        if register is None:
            stream.set_last_id(region, entry_id, n)
        else:
            # As ``set_last_id`` does it.
            register.id = stream.last_id = entry_id
            register.n = n
        if idempotent is None:
            self.section.batch.append_halves(key, ms, seq, fields)
            return
        self.section.append(key, entry_id, fields, idempotent, self._keys.now)
        settle_message(
            self._state,
            stream,
            key,
            idempotent,
            entry_id,
            Dot(region, n),
            self._vv,
            arrived=self._keys.now,
        )

    def append_run(self, key: bytes, run: EntryRun) -> None:
        """Issue Appends to one key, whose IDs lie above the stream's last-generated ID."""
        self._extend(key, run)
        self.section.batch.append_run(key, run)
        self._check_section()

    def append_mixed(
        self,
        keys: Sequence[bytes],
        streams: Sequence[Stream],
        *,
        now: Millis,
        starts: Sequence[int],
        lengths: "array[int]",
        fields: bytes,
    ) -> tuple["array[int]", "array[int]"]:
        """Issue Appends to the streams of these keys, which must be there, in this order, each
        under the next ID of its stream.

        Args:
            keys: none has expired.
            streams: those of the keys; all have a next ID.
            now: the time that the IDs contain.
            starts: where each entry begins in ``fields``, and the end of the last one.

        Returns:
            The halves of the IDs.
        """
        assert self.may_issue  # I3
        assert len(keys) == len(streams) == len(lengths) == len(starts) - 1
        assert starts[-1] == len(fields)
        keyspace = self._keys
        assert not keyspace.due or keyspace.due.isdisjoint(keys), "a key that is over ends first"
        region, changes, vv = self._region, self._changes, self._vv
        cut, arrival = changes.cut_number, keyspace.arrival
        floors = self._state.floors
        has_floors = len(floors) > 0
        self._touched.update(keys)
        n = vv.get(region, 0)
        # Nearly all are the first of their stream in this millisecond: such an ID is made once.
        this_ms = StreamId(now << SEQ_BITS)
        first_id = StreamId(this_ms | region)
        all_ms: list[int] = []
        all_seq: list[int] = []
        ms: int
        seq: int
        for at, stream in enumerate(streams):
            last = max(floors.of(keys[at]), stream.last_id) if has_floors else stream.last_id
            if last < this_ms:
                entry_id, ms, seq = first_id, now, region
            else:
                entry_id = next_id(region, now=now, last=last)
                assert entry_id > last  # I5
                ms, seq = entry_id >> SEQ_BITS, entry_id & U64_MAX
            all_ms.append(ms)
            all_seq.append(seq)
            part = stream.part
            if part.changed_after != cut:
                changes.note(part)
            n += 1
            # Before the entry: what breaks here by a bug is seen to be half done.
            vv[region] = n
            lane = stream.lanes.get(region) or stream.lane(region)
            lane.append_halves(ms, seq, n, fields[starts[at] : starts[at + 1]], arrival)
            register = stream.last_ids.get(region)
            if register is None:
                stream.set_last_id(region, entry_id, n)
            else:
                # As ``set_last_id`` does it, whose call takes as long.
                register.id = stream.last_id = entry_id
                register.n = n
        run = EntryRun(array("Q", all_ms), array("Q", all_seq), lengths, fields)
        self.section.batch.append_mixed(keys, run)
        self._check_section()
        return run.ms, run.seq

    def append_rows(self, key: bytes, run: EntryRun, first: Numbered) -> None:
        """As ``append_run``, of rows of a numbered producer, which must be missing."""
        stream, dot = self._extend(key, run)
        self.section.batch.append_rows(key, run, first)
        self._check_section()
        anything_went = settle_rows(self._state, stream, key, first, len(run.ms), dot, self._vv)
        # I13: only missing rows were appended.
        assert not anything_went, "a region has observed what it has"

    def _extend(self, key: bytes, run: EntryRun) -> tuple[Stream, Dot]:
        """Apply Appends that are issued now; the stream, and the dot of the first."""
        ms, seq = run.ms, run.seq
        if self._registers:
            self._expire_left_over(key)
        stream = self._keys.stream_or_new(key)
        assert self.may_issue  # I3
        # I5: and the IDs of a run ascend.
        assert (ms[0] << SEQ_BITS | seq[0]) > stream.last_id
        dot = Dot(self._region, self._state.issued + 1)
        self._changes.note(stream.part)
        last_n = dot.n + len(ms) - 1
        # Before the lane, as in ``append``.
        self._touched.add(key)
        self._vv[self._region] = last_n
        lane = stream.lane(self._region)
        lane.extend(run, first_n=dot.n, now=self._keys.arrival)
        stream.set_last_id(self._region, StreamId(ms[-1] << SEQ_BITS | seq[-1]), last_n)
        return stream, dot

    def issue(self, effect: Effect) -> None:
        """Apply an effect here and put it in the open batch."""
        if isinstance(effect, Append):
            self.append(effect.key, effect.id, effect.fields, effect.idempotent)
            return
        if isinstance(effect, ChangeMembers):
            # Groups may fall to an heir by it.  In other regions, too, what was acknowledged is
            # applied before.
            self.issue_warm_frontiers()
            self._issue(effect)
            return
        if self._registers and not isinstance(effect, WITHOUT_LEFT_OVER):
            self._expire_left_over(effect.key)
        if self._grown_runs.lanes and isinstance(effect, ENDS_RUNS):
            # What was acknowledged belongs to the group as it was (``rules`` 12).
            self._issue_frontiers_of(effect.key)
        self._issue(effect)

    def _expire_left_over(self, key: bytes) -> None:
        """Before a write: delete a key that has expired, or that has only registers left."""
        if key in self._registers and (key in self._keys.due or key not in self._streams):
            self.expire(key)

    def expire(self, key: bytes) -> None:
        """End an expired key, or what a key that is gone has left."""
        exists = key in self._streams
        self.issue(ExpireKey(key))
        self.expired_count += exists
        if exists and self.on_expired is not None:
            self.on_expired(key)

    def expire_string(self, key: bytes) -> None:
        """End an expired string."""
        self.expired_count += 1
        self._issue(DeleteString(key))
        if self.on_expired is not None:
            self.on_expired(key)

    def _issue(self, effect: RareEffect) -> None:
        # I3: a region that has not recovered may have used this dot.
        assert self.may_issue, "rule 18: its dot may be in use"
        if self._residency.absent_count:
            read_for_effect(self._state, effect, self._vv)
        self.changes += 1
        if self._strings and isinstance(effect, TAKE_COUNTERS):
            effect = self._with_takes(effect)
        issued = self._vv.get(self._region, 0)
        if isinstance(effect, Remove) and self.section.takes_in(effect):
            # Clients that delete one by one make one effect of a tick, and not one each: it is
            # applied now all the same, and it is issued under the dot of the one before.
            apply_effect(self._state, effect, Dot(self._region, issued), self._vv)
            self.section.batch.take_in(effect)
            return
        apply_effect(self._state, effect, Dot(self._region, issued + 1), self._vv)
        self._vv[self._region] = issued + 1
        self.section.batch.add(effect)
        self._check_section()

    def _with_takes(
        self, effect: SetString | DeleteKey | DeleteString
    ) -> SetString | DeleteKey | DeleteString:
        """The effect, and what it takes of a counter: all that is observed here."""
        string = self._strings.get(effect.key)
        takes = () if string is None else string.takes()
        if not takes:
            return effect
        if isinstance(effect, SetString):
            return SetString(effect.key, effect.value, effect.deadline, takes)
        if isinstance(effect, DeleteKey):
            return DeleteKey(effect.key, takes)
        return DeleteString(effect.key, takes)

    def _check_section(self) -> None:
        """Check that the open batch has every effect that was issued since the last seal."""
        batch = self.section.batch
        assert batch.first_n + batch.count - 1 == self._vv[self._region]  # I3

    def note(self, change: LocalChange) -> None:
        """Apply a local change and remember it for the record."""
        if begins_new_run(change):
            self._issue_frontiers_of(change.key)
        if self._residency.absent_count:
            read_for_change(self._state, change)
        self.changes += 1
        apply_change(self._state, change)
        self.section.note(change, after_n=self._state.issued)

    def see_consumer(self, key: bytes, group: bytes, consumer: bytes, now: Millis) -> None:
        """A consumer of an existing group made an attempt: it exists from the first one on.

        When it was last seen is not worth a record.
        """
        known = self._streams[key].groups[group].consumers.get(consumer)
        if known is None:
            self.note(CreateConsumer(key, group, consumer, now))
        else:
            known.seen_ms = now

    # --- Looking ahead ------------------------------------------------------------------------

    def look_ahead(self, effects: Iterable[RareEffect]) -> None:
        """Read what issuing these effects will read, before the first of them is issued (I10).

        Raises:
            ColdError: some is not in memory; it names what all of them need, for one request.
            UnreadableError: it was to be read in place, and cannot be.
        """
        if not self._residency.absent_count:
            return
        images: dict[int, None] = {}
        for effect in effects:
            try:
                if isinstance(effect, ENDS_RUNS):
                    self._grown_runs.frontiers(self._grown_runs.of_key(effect.key), self._streams)
                read_for_effect(self._state, effect, self._vv)
            except ColdError as error:
                images.update(dict.fromkeys(error.images))
        if images:
            raise ColdError(list(images))

    # --- Having changed something -------------------------------------------------------------

    @property
    def has_unsettled_changes(self) -> bool:
        """True if the running command or transaction has changed something, and must run to its
        end.

        Appends do not count, as XADD is called too often for that: nothing that appends reads
        entries afterwards.
        """
        return self.changes != self.changes_settled

    def note_settled(self) -> bool:
        """Note that what has run is at its end.

        Returns:
            True if the open section has local changes, or acknowledgements that are not issued yet.
        """
        assert self.changes_settled <= self.changes
        self.changes_settled = self.changes
        return bool(self.section.changes or self._grown_runs.lanes)

    # --- On trial: what a command calls in place of the others, see ``Replica.on_trial`` --------

    def append_on_trial(self, *_args: object, **_keywords: object) -> NoReturn:
        raise TrialEndedError

    def issue_on_trial(self, effect: Effect) -> NoReturn:
        if not isinstance(effect, Append):
            self.look_ahead([effect])
        raise TrialEndedError

    def note_on_trial(self, change: LocalChange) -> NoReturn:
        if begins_new_run(change):
            self._grown_runs.frontiers(self._grown_runs.of_key(change.key), self._streams)
        read_for_change(self._state, change)
        raise TrialEndedError

    def see_consumer_on_trial(self, key: bytes, group: bytes, consumer: bytes, now: Millis) -> None:
        """Nothing: it is noted before entries are read for it."""

    # --- Frontiers ----------------------------------------------------------------------------

    def issue_frontiers(self) -> None:
        """Issue acknowledgements now; else it happens when the tick ends.

        Raises:
            ColdError: entries are needed for that.
        """
        if self._grown_runs.lanes and self.may_issue:
            self._issue_frontiers(self._grown_runs.all())

    def issue_warm_frontiers(self) -> None:
        """As ``issue_frontiers``; what needs entries from disk waits, and says so in ``cold``."""
        if self._grown_runs.lanes and self.may_issue:
            for name in self._grown_runs.all():
                try:
                    self._issue_frontiers([name])
                except ColdError as error:
                    self.cold += error.images
                # The next group may have to be read for, and can wait.
                self.note_settled()

    def _issue_frontiers_of(self, key: bytes) -> None:
        if self._grown_runs.lanes:
            self._issue_frontiers(self._grown_runs.of_key(key))

    def _issue_frontiers(self, names: list[GroupName]) -> None:
        # All of them are made before the first is issued (I10).
        for frontier in self._grown_runs.take(names, self._streams):
            self.frontier_count += 1
            self._issue(frontier)
