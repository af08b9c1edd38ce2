"""Issuing: what a command changes is applied here at once, and put into the open section.

    append, append_run,   entries: straight into this region's lane
    append_mixed,
    append_rows
    issue                 any other effect: ``apply_effect``, as in every region; a Remove may
                          become part of the one before it
    note                  a local change: ``apply_change``
    see_consumer          no record, but for a consumer that is new

Always so:
  * An effect's context is what this region has applied, its own effects included (``rules`` 1).
  * A key whose time is over ends before it is written to, in the same batch (``rules`` 7).
  * What was acknowledged is told before an effect that changes or ends the group (``rules`` 12).
  * What a change will read of entries is read before it is made (I10).
"""

from array import array
from collections.abc import Sequence
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
    SetStringExpiry,
)
from crdtstream.core.ids import SEQ_BITS, U64_MAX, Millis, RegionId, StreamId
from crdtstream.core.issuing.grown_runs import GroupName
from crdtstream.core.issuing.section import OpenSection
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.state import State
from crdtstream.core.stream import Stream

# Before these the other regions are told what was acknowledged in the groups of the key.
ENDS_RUNS: Final = (DeleteKey, ExpireKey, CreateGroup, DestroyGroup, SetGroupMode)


class TrialEndedError(Exception):
    """A command on trial would change something now."""


class Issuer:
    """See the module's text.

    Attributes:
        may_issue: whether effects may be issued (``rules`` 18); whoever runs the replica decides.
            What applying others' effects gives to tell waits until it may.
        section: what was issued and noted since the last seal.
        frontier_count: AckFrontier effects issued since the process started.
        expired_count: keys that existed and were deleted from here because their time was over,
            since the process started.
        changes, changes_settled: how many changes were made, appends not counted, and how many of
            them by what has ended.  While they differ, something has changed that cannot be taken
            back, and what is read must not fail.
        cold: images that are needed to tell what was acknowledged; whoever runs the replica fetches
            them.
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
        "_touched",
        "_vv",
        "changes",
        "changes_settled",
        "cold",
        "expired_count",
        "frontier_count",
        "may_issue",
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
        self._state = state
        # Every XADD or XACK looks at these; they are the same objects for good.
        self._region: RegionId = state.region
        self._changes = state.changes
        self._residency = state.residency
        self._vv = state.vv
        self._keys = state.keys
        self._streams = state.keys.streams
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
        if part.epoch != self._changes.epoch:
            self._changes.note(part)
        n = self._vv.get(region, 0) + 1
        # Before the lane: whoever finds that it broke half-way sees by these that it had begun.
        self._touched.add(key)
        self._vv[region] = n
        lane = stream.lanes.get(region) or stream.lane(region)
        lane.append(entry_id, n, fields, self._keys.arrival)
        stream.set_last_id(region, entry_id, n)
        if idempotent is None:
            self.section.batch.append(key, entry_id, fields, None)
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

    def append_run(
        self,
        key: bytes,
        *,
        ms: "array[int]",
        seq: "array[int]",
        lengths: "array[int]",
        fields: bytes,
    ) -> None:
        """Issue Appends to one key, column by column.

        The IDs must ascend above the stream's last-generated ID.
        """
        self._extend(key, ms=ms, seq=seq, lengths=lengths, fields=fields)
        self.section.batch.append_run(key, ms=ms, seq=seq, lengths=lengths, fields=fields)

    def append_mixed(
        self,
        keys: Sequence[bytes],
        streams: Sequence[Stream],
        *,
        ids: Sequence[StreamId],
        starts: Sequence[int],
        lengths: "array[int]",
        fields: bytes,
    ) -> None:
        """Issue Appends to the streams of these keys, which must be there, in this order.

        Args:
            keys: none has a time that is over.
            streams: those of the keys.
            ids: each above the last-generated ID of its stream, by then.
            starts: where each entry begins in ``fields``, and the end of the last one.
        """
        assert self.may_issue  # I3
        assert self._keys.due.isdisjoint(keys), "a key whose time is over ends first"
        region, changes = self._region, self._changes
        arrival = self._keys.arrival
        self._touched.update(keys)
        n = self._vv.get(region, 0)
        for at, stream in enumerate(streams):
            entry_id = ids[at]
            assert entry_id > stream.last_id  # I5
            part = stream.part
            if part.epoch != changes.epoch:
                changes.note(part)
            n += 1
            # Before the entry: what breaks here by a bug is seen to be half done.
            self._vv[region] = n
            lane = stream.lanes.get(region) or stream.lane(region)
            lane.append(entry_id, n, fields[starts[at] : starts[at + 1]], arrival)
            stream.set_last_id(region, entry_id, n)
        self.section.batch.append_mixed(
            keys,
            ms=array("Q", [entry_id >> SEQ_BITS for entry_id in ids]),
            seq=array("Q", [entry_id & U64_MAX for entry_id in ids]),
            lengths=lengths,
            fields=fields,
        )

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
        """As ``append_run``, of rows of a numbered producer, which must be missing."""
        stream, dot = self._extend(key, ms=ms, seq=seq, lengths=lengths, fields=fields)
        self.section.batch.append_rows(
            key, ms=ms, seq=seq, lengths=lengths, fields=fields, first=first
        )
        anything_went = settle_rows(self._state, stream, key, first, len(ms), dot, self._vv)
        # I13: only missing rows were appended.
        assert not anything_went, "a region has observed what it has"

    def _extend(
        self,
        key: bytes,
        *,
        ms: "array[int]",
        seq: "array[int]",
        lengths: "array[int]",
        fields: bytes,
    ) -> tuple[Stream, Dot]:
        """Apply Appends that are issued now; the stream, and the dot of the first."""
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
        lane.extend(
            ms=ms,
            seq=seq,
            lengths=lengths,
            first_n=dot.n,
            fields=memoryview(fields),
            now=self._keys.arrival,
        )
        stream.set_last_id(self._region, StreamId(ms[-1] << SEQ_BITS | seq[-1]), last_n)
        return stream, dot

    def issue(self, effect: Effect) -> None:
        """Apply an effect here and put it in the open batch."""
        if isinstance(effect, Append):
            self.append(effect.key, effect.id, effect.fields, effect.idempotent)
            return
        if isinstance(effect, ChangeMembers):
            # Groups may fall to an heir by it.  Elsewhere, too, what was acknowledged goes before.
            self.issue_warm_frontiers()
            self._issue(effect)
            return
        if isinstance(effect, DeleteKey | ExpireKey):
            self._issue_frontiers_of(effect.key)
        elif self._registers and not isinstance(effect, SetStringExpiry | DeleteString):
            self._expire_left_over(effect.key)
        if isinstance(effect, CreateGroup | DestroyGroup | SetGroupMode):
            # What was acknowledged belongs to the group as it was (``rules`` 12).
            self._issue_frontiers_of(effect.key)
        self._issue(effect)

    def _expire_left_over(self, key: bytes) -> None:
        """Before a write: a key whose time is over goes, and so does a key that has only registers
        left."""
        if key in self._registers and (key in self._keys.due or key not in self._streams):
            self.expire(key)

    def expire(self, key: bytes) -> None:
        """End a key whose time is over, or what a key that is gone has left."""
        exists = key in self._streams
        self.issue(ExpireKey(key))
        self.expired_count += exists

    def expire_string(self, key: bytes) -> None:
        """End a string whose time is over."""
        self.expired_count += 1
        self._issue(DeleteString(key))

    def _issue(self, effect: RareEffect) -> None:
        # I3: who has not recovered may have used this dot.
        assert self.may_issue, "rule 18: its dot may be in use"
        read_for_effect(self._state, effect, self._vv)
        self.changes += 1
        issued = self._state.issued
        if isinstance(effect, Remove) and self.section.takes_in(effect):
            # Clients who delete one by one make one effect of a tick, and not one each: it is
            # applied now all the same, and it is told with the dot that is there.
            apply_effect(self._state, effect, Dot(self._region, issued), self._vv)
            self.section.batch.take_in(effect)
            return
        apply_effect(self._state, effect, Dot(self._region, issued + 1), self._vv)
        self._vv[self._region] = issued + 1
        self.section.batch.add(effect)

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
        """A consumer of a group that is there made an attempt: it exists from the first one on.

        When it was last seen is not worth a record.
        """
        known = self._streams[key].groups[group].consumers.get(consumer)
        if known is None:
            self.note(CreateConsumer(key, group, consumer, now))
        else:
            known.seen_ms = now

    # --- Having changed something -------------------------------------------------------------

    @property
    def has_unsettled_changes(self) -> bool:
        """Whether what runs has changed something, so that it must run to its end.

        Appends do not count, as XADD is called too often for that: nothing that appends reads
        entries afterwards.
        """
        return self.changes != self.changes_settled

    def note_settled(self) -> bool:
        """What has run is at its end.

        Returns:
            Whether the open section has local changes, or acknowledgements yet to be told.
        """
        self.changes_settled = self.changes
        return bool(self.section.changes or self._grown_runs.lanes)

    # --- On trial: what a command calls in place of the others, see ``Replica.on_trial`` --------

    def append_on_trial(self, *_args: object, **_keywords: object) -> NoReturn:
        raise TrialEndedError

    def issue_on_trial(self, effect: Effect) -> NoReturn:
        if not isinstance(effect, Append):
            if isinstance(
                effect, DeleteKey | ExpireKey | CreateGroup | DestroyGroup | SetGroupMode
            ):
                self._grown_runs.frontiers(self._grown_runs.of_key(effect.key), self._streams)
            read_for_effect(self._state, effect, self._vv)
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
        """Issue now what acknowledgements have to tell; else it happens when the tick ends.

        Raises:
            ColdError: entries are needed to tell.
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
