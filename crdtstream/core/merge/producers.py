"""Producers of a key, as both sides know them: records of messages, numbered rows, the window.

Appends that are new to one side each, with the same name, are concurrent: of them the one with the
smallest dot stays (``rules`` 20), as if they had met by their effects.
"""

from collections.abc import Iterator, Mapping

from crdtstream.core.checkpoint.contents import ProducersContent, id_of
from crdtstream.core.clock import Dot
from crdtstream.core.effects import IdempotentId
from crdtstream.core.ids import Millis, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import SentKey
from crdtstream.core.producers.idempotency import Collapsed, Tracked, Window
from crdtstream.core.producers.numbered import Losing, Producer, Run
from crdtstream.core.whole.restoring import producer_of
from crdtstream.core.whole.state import State

# By name the appends that have it.
Named = dict[IdempotentId, dict[Dot, StreamId]]


def merge_producers(
    state: State, stream: Stream, sent: SentKey, both: Both, *, arrived: Millis
) -> None:
    """Merge what is known of a key's producers; its lanes are merged."""
    state.parts.note_producers(sent.key)
    _merge_messages(state, stream, sent, both)
    _merge_rows(state, stream, sent, both)
    _merge_window(state, stream, sent, arrived=arrived)


# --- Messages -----------------------------------------------------------------------------------


def _merge_messages(state: State, stream: Stream, sent: SentKey, both: Both) -> None:
    """Records by their dots; one that the other side has forgotten is causally stable.

    Nothing concurrent to such a one can come any more.  Deletes of it that came after it was
    forgotten are in no image, so it must not be asked whether its entry was deleted.
    """
    records, key, theirs = state.idempotency, sent.key, sent.producers
    kept = {record.dot for record in theirs.records}
    mine: Named = {}
    for dot, name, entry_id in list(records.of(key)):
        if both.is_new_there(dot):
            mine.setdefault(name, {})[dot] = entry_id
        elif dot not in kept:
            records.forget(key, name, dot)
    new: Named = {}
    for record in theirs.records:
        if both.is_new_here(record.dot):
            name = IdempotentId(record.producer, record.id)
            new.setdefault(name, {})[record.dot] = id_of(record.entry_id)
            records.add(record.dot, key, name, id_of(record.entry_id))
    records.note_deleted(key, theirs.deleted)
    _take_collapsed(state, sent)
    for name, entries in new.items():
        if name in mine:
            _settle(state, stream, key, name, mine[name], entries)


def _take_collapsed(state: State, sent: SentKey) -> None:
    """Appends that gave way elsewhere, also of those that both sides have."""
    for row in sent.producers.collapsed:
        name = IdempotentId(row.producer, row.id)
        if state.idempotency.has(sent.key, name, row.dot):
            collapsed = Collapsed(row.dot, name, row.stays, id_of(row.stays_id))
            state.idempotency.note_collapsed(sent.key, id_of(row.entry_id), collapsed)


def _settle(
    state: State,
    stream: Stream,
    key: bytes,
    name: IdempotentId,
    here: Mapping[Dot, StreamId],
    there: Mapping[Dot, StreamId],
) -> None:
    """Appends of one name; those of one side are concurrent to those of the other."""
    for losers, rivals in ((here, there), (there, here)):
        stays = min(rivals)
        for dot, entry_id in losers.items():
            if stays < dot:
                stream.remove_entry(entry_id, dot)
                collapsed = Collapsed(dot, name, stays, rivals[stays])
                state.idempotency.note_collapsed(key, entry_id, collapsed)


# --- Numbered rows ------------------------------------------------------------------------------


def _merge_rows(state: State, stream: Stream, sent: SentKey, both: Both) -> None:
    """Runs by their dots; which rows are known follows from them."""
    numbered, key = state.numbered, sent.key
    theirs = {one.producer: producer_of(one) for one in sent.producers.numbered}
    names = sorted({*theirs, *(name for name, _ in numbered.of(key))})
    for name in names:
        producer, new = numbered.producer_or_new(key, name), theirs.get(name, Producer())
        lost = list(_losing(producer, new, both))
        for number in {*producer.batches, *new.batches}:
            producer.set_runs(number, _merged_runs(producer, new, number, both))
        for one in lost:
            stream.remove_dots(one.first, one.count)
    if names:
        numbered.follow_runs(key)


def _merged_runs(mine: Producer, theirs: Producer, number: int, both: Both) -> list[Run]:
    here = {run.first: run for run in mine.runs_of(number)}
    there = {run.first: run for run in theirs.runs_of(number)}
    united = both.united(here, there)
    for dot, run in united.items():
        if dot not in here:
            # Known to be everywhere there, and not here yet.
            run.is_stable = False
        elif dot in there:
            run.known = run.known and there[dot].known
    return [united[dot] for dot in sorted(united)]


def _losing(mine: Producer, theirs: Producer, both: Both) -> Iterator[Losing]:
    """Rows to be removed, of those that both sides appended concurrently."""
    for number in mine.batches.keys() & theirs.batches.keys():
        here = [run for run in mine.runs_of(number) if both.is_new_there(run.first)]
        there = [run for run in theirs.runs_of(number) if both.is_new_here(run.first)]
        for run in here:
            for rival in there:
                lost = run.loser(rival)
                if lost is not None:
                    yield lost


# --- The window ---------------------------------------------------------------------------------


def _tracked(window: Window) -> Iterator[tuple[IdempotentId, Tracked]]:
    for producer, ids in window.items():
        for name, tracked in ids:
            yield IdempotentId(producer, name), tracked


def _merge_window(state: State, stream: Stream, sent: SentKey, *, arrived: Millis) -> None:
    """Ids by the dots that they name; those of the other side are as old as they are here."""
    mine = {} if stream.window is None else dict(_tracked(stream.window))
    theirs = dict(_sent_window(sent.producers, arrived))
    if not mine and not theirs:
        return
    window = stream.window = stream.window or Window()
    maxsize = state.keys.idmp_maxsize_of(sent.key)
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        named = _named(state, stream, sent.key, name, mine.get(name), theirs.get(name))
        if named is None:
            window.forget(name)
        elif name not in mine or mine[name].dot != named[0]:
            window.add(name, named[1], named[0], arrived=arrived, maxsize=maxsize)


def _sent_window(
    content: ProducersContent, arrived: Millis
) -> Iterator[tuple[IdempotentId, Tracked]]:
    for producer, ids in () if content.window is None else content.window.producers:
        for one in ids:
            yield IdempotentId(producer, one.id), Tracked(id_of(one.entry_id), one.dot, arrived)


def _named(
    state: State,
    stream: Stream,
    key: bytes,
    name: IdempotentId,
    mine: Tracked | None,
    theirs: Tracked | None,
) -> tuple[Dot, StreamId] | None:
    """The entry that a retry of an id stands for; None if it is a new message."""
    if state.idempotency.knows(key, name):
        return state.idempotency.recognised(key, name)
    # All appends with this id are causally stable: both sides have seen the same.
    both_have = mine is not None and theirs is not None
    for one in (mine, theirs):
        if one is not None and (both_have or _lives(stream, one)):
            return one.dot, one.entry_id
    return None


def _lives(stream: Stream, tracked: Tracked) -> bool:
    lane = stream.lanes.get(tracked.dot.region)
    found = None if lane is None else lane.find(tracked.entry_id)
    return found is not None and found[0].n[found[1]] == tracked.dot.n
