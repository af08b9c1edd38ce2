"""A batch is applied: runs of appends and the effects between them, in the order of their dots.

    offset     0  1  2   3        4  5     6
    batch      append*3  Remove   append*2 DeleteKey
    applied as run of 3  effect   run of 2 effect

Appends of one key that stand together are a run and are added to their lane column by column.  In
replay a local change may stand between any two effects; then the runs are cut where it stands.

Always so: a batch is applied whole or not at all (I2).  What can be wrong with it is found before
anything changes (``append_runs.py``).
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from crdtstream.core.applying.append_runs import Run
from crdtstream.core.applying.apply_change import apply_change
from crdtstream.core.applying.apply_effect import apply_effect
from crdtstream.core.applying.noting import Noting
from crdtstream.core.applying.settling import settle_message, settle_rows
from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers
from crdtstream.core.effects import AppendColumns, ChangeMembers, EffectBatch, LocalChange
from crdtstream.core.ids import SEQ_BITS, Millis, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.entry_run import EntryRun
from crdtstream.core.whole.state import State
from crdtstream.core.wire.local_codec import Local


class _Appended(NamedTuple):
    """Appends with names, just put in their lane.

    Attributes:
        stream, key: where they are.
        start, stop: which of the batch's columns.
        first: the dot of the one at ``start``; the others follow.
        context: what the last of them had observed: effects of one origin have all observed those
            before them.
    """

    stream: Stream
    key: bytes
    start: int
    stop: int
    first: Dot
    context: VersionVector

    def dot(self, at: int) -> Dot:
        return Dot(self.first.region, self.first.n + at - self.start)


def apply_batch(
    state: State,
    batch: EffectBatch,
    runs: Sequence[Run],
    local: Local,
    *,
    arrived: Millis,
    noting: Noting | None = None,
) -> None:
    """Apply a batch, which is the next of its origin.

    Args:
        runs: its appends, checked.
        local: in replay what was local about the record; else nothing.
        arrived: when the batch came to this region.
        noting: notes what it does to keys; None: nobody asks.
    """
    assert batch.first_n == state.vv.get(batch.origin, 0) + 1  # I2
    assert covers(state.vv, batch.context)  # I2
    origin, columns = batch.origin, batch.appends
    state.keys.arrival = max(state.keys.arrival, arrived)
    changes = ReplayedChanges(state, local.changes) if local.changes else None
    if changes is not None:
        # A local change may stand between any two appends.
        runs = [(key, at, at + 1) for key, start, stop in runs for at in range(start, stop)]
    has_names = bool(columns.idempotent or columns.numbered)
    came = dict(zip(sorted(columns.idempotent), local.appended, strict=False))
    fields, fields_at = memoryview(columns.fields), 0
    context: MutableVersionVector = dict(batch.context)
    n = batch.first_n
    waiting = iter(runs)
    appends_applied = 0
    # Nothing has to be looked at between two appends.
    are_plain = not has_names and noting is None and changes is None
    for offset, effect in [*batch.others, (batch.count, None)]:
        if are_plain:
            end_n = batch.first_n + offset
            size = _append_plain(state, columns, waiting, Dot(origin, n), end_n, fields_at)
            appends_applied += end_n - n
            n, fields_at = end_n, fields_at + size
        while n < batch.first_n + offset:
            run = next(waiting)
            if changes is not None:
                changes.apply_upto(n - 1)
            first = Dot(origin, n)
            before = None if noting is None else noting.look(run[0], origin)
            size = sum(columns.lengths[run[1] : run[2]])
            stream = _append(state, columns, run, first, fields[fields_at:][:size])
            fields_at += size
            count = run[2] - run[1]
            n += count
            if has_names:
                named = _Appended(stream, *run, first, {**batch.context, origin: n - 1})
                _settle_messages(state, columns, named, came, arrived)
                _settle_rows(state, columns, named)
            if noting is not None and before is not None:
                noting.note_stayed(before, run[0], origin)
            appends_applied += count
            state.vv[origin] = n - 1
        if effect is not None:
            if changes is not None:
                changes.apply_upto(n - 1)
            # Rule 1: in the context of effect n the own component is n - 1.
            if n > 1:
                context[origin] = n - 1
            if noting is None or isinstance(effect, ChangeMembers):
                apply_effect(state, effect, Dot(origin, n), context)
            else:
                before = noting.look(effect.key)
                apply_effect(state, effect, Dot(origin, n), context)
                noting.note_effect(before, effect)
            state.vv[origin] = n
            n += 1
    # I2: the whole batch was applied.
    assert state.vv[origin] == batch.last_n
    assert appends_applied == len(columns.ms)
    assert fields_at == len(columns.fields)
    assert next(waiting, None) is None
    if changes is not None:
        changes.apply_upto(batch.last_n)


class ReplayedChanges:
    """The local changes of a record that is replayed, each to be applied in its place."""

    __slots__ = ("_changes", "_next", "_state")

    def __init__(self, state: State, changes: Sequence[tuple[int, LocalChange]]) -> None:
        self._state = state
        self._changes = changes
        self._next = 0

    def apply_upto(self, n: int) -> None:
        """Apply those that were made when at most ``n`` effects had been issued."""
        while self._next < len(self._changes) and self._changes[self._next][0] <= n:
            apply_change(self._state, self._changes[self._next][1])
            self._next += 1


def _append_plain(
    state: State,
    columns: AppendColumns,
    waiting: Iterator[Run],
    first: Dot,
    end_n: int,
    fields_at: int,
) -> int:
    """Append the runs up to a dot number; the bytes of their fields.

    Of many streams most runs are one entry, and everything that is called for it counts: so this
    does in place what ``_append`` has done for a run.

    Args:
        waiting: the runs that are left; those that are appended are taken.
        end_n: behind the last one.
        fields_at: where the fields of the first one begin.
    """
    origin, n = first
    keys, changes, vv = state.keys, state.changes, state.vv
    streams, touched = keys.streams, keys.touched
    cut, arrival = changes.cut_number, keys.arrival
    fields, begins_at = columns.fields, fields_at
    while n < end_n:
        key, start, stop = next(waiting)
        if stop - start > 1:
            size = sum(columns.lengths[start:stop])
            run_fields = memoryview(fields)[fields_at : fields_at + size]
            _append(state, columns, (key, start, stop), Dot(origin, n), run_fields)
            n += stop - start
            fields_at += size
            vv[origin] = n - 1
            continue
        stream = streams.get(key) or keys.stream_or_new(key)
        part = stream.part
        if part.changed_after != cut:
            changes.note(part)
        lane = stream.lanes.get(origin) or stream.lane(origin)
        ms, seq, ends_at = columns.ms[start], columns.seq[start], fields_at + columns.lengths[start]
        lane.append_halves(ms, seq, n, fields[fields_at:ends_at], arrival)
        fields_at = ends_at
        register, entry_id = stream.last_ids.get(origin), StreamId(ms << SEQ_BITS | seq)
        if register is None or entry_id <= stream.last_id:
            stream.set_last_id(origin, entry_id, n)
        else:
            # As ``set_last_id`` does it, whose call takes as long.
            register.id = stream.last_id = entry_id
            register.n = n
        touched.add(key)
        vv[origin] = n
        n += 1
    return fields_at - begins_at


def _append(
    state: State,
    columns: AppendColumns,
    run: Run,
    first: Dot,
    fields: memoryview,
) -> Stream:
    key, start, stop = run
    assert start < stop, "a run without appends"
    stream = state.keys.stream_or_new(key)
    state.changes.note(stream.part)
    stream.lane(first.region).extend(
        EntryRun(
            columns.ms[start:stop], columns.seq[start:stop], columns.lengths[start:stop], fields
        ),
        first_n=first.n,
        now=state.keys.arrival,
    )
    last_id = StreamId(columns.ms[stop - 1] << SEQ_BITS | columns.seq[stop - 1])
    stream.set_last_id(first.region, last_id, first.n + stop - start - 1)
    state.keys.touched.add(key)
    return stream


# --- Names of appends ---------------------------------------------------------------------------


def _settle_messages(
    state: State,
    columns: AppendColumns,
    run: _Appended,
    came: Mapping[int, Millis],
    arrived: Millis,
) -> None:
    """Settle the idempotent ids of a run: ``rules`` 20."""
    if not columns.idempotent:
        return
    for at in range(run.start, run.stop):
        if (idempotent := columns.idempotent.get(at)) is not None:
            settle_message(
                state,
                run.stream,
                run.key,
                idempotent,
                StreamId(columns.ms[at] << SEQ_BITS | columns.seq[at]),
                run.dot(at),
                run.context,
                arrived=came.get(at, arrived),
            )


def _settle_rows(state: State, columns: AppendColumns, run: _Appended) -> None:
    """Settle the numbered rows of a run: ``rules`` 20."""
    first_at = bisect_right(columns.numbered, run.start, key=attrgetter("at")) - 1
    for numbered in islice(columns.numbered, max(first_at, 0), None):
        if numbered.at >= run.stop:
            break
        begin = max(numbered.at, run.start)
        end = min(numbered.at + numbered.count, run.stop)
        if begin < end:
            rows = numbered.first.behind(begin - numbered.at)
            settle_rows(state, run.stream, run.key, rows, end - begin, run.dot(begin), run.context)
