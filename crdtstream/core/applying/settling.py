"""Appends that have a name of their own: of concurrent ones of one name, the smallest dot stays.

The name is a producer's idempotent id (XADD IDMP), or the number of a row (``numbered.py``).  Both
are settled alike, when the later of the two arrives in a region:

    R1  1:7  XADD x IDMP p a       ──╲╱──>  R1 has 1:7, hears of 2:3 and does not take it in
    R2  2:3  XADD x IDMP p a       ──╱╲──>  R2 has 2:3, hears of 1:7 and removes 2:3

Which one stays depends on dots and contexts alone, so no effect has to say it.  Source: ``rules``
20.
"""

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import Millis, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.producers.idempotency import Collapsed, IdempotencyRecords, Window
from crdtstream.core.whole.state import State


def settle_message(
    state: State,
    stream: Stream,
    key: bytes,
    idempotent: IdempotentId,
    entry_id: StreamId,
    dot: Dot,
    context: VersionVector,
    *,
    arrived: Millis,
) -> None:
    """An entry with an idempotent id was just appended: it or its rivals are removed.

    What stays is recognised from now on, as something that came at ``arrived``.  An append may give
    way to one that was deleted with its key.  Then a retry is answered with what was appended
    since; if there is no such entry, the retry becomes a new entry.
    """
    state.parts.note_producers(key)
    _keep_smallest(state.idempotency, stream, key, idempotent, entry_id, dot, context)
    recognised = state.idempotency.recognised(key, idempotent)
    if recognised is None:
        # What was recognised may have given way to this append, which gave way itself.
        if stream.window is not None:
            stream.window.forget(idempotent)
        return
    if stream.window is None:
        stream.window = Window()
    window = stream.window
    named, named_id = recognised
    maxsize = state.keys.idmp_maxsize_of(key)
    window.add(idempotent, named_id, named, arrived=arrived, maxsize=maxsize)
    window.forget_old(now=arrived, duration_s=state.keys.idmp_duration_of(key))


def _keep_smallest(
    records: IdempotencyRecords,
    stream: Stream,
    key: bytes,
    idempotent: IdempotentId,
    entry_id: StreamId,
    dot: Dot,
    context: VersionVector,
) -> None:
    """Remember the entry, and remove it or its rivals."""
    stream.lanes[dot.region].mark_idempotent(entry_id, dot.n, idempotent)
    rivals = records.concurrent(context, key, idempotent)
    records.add(dot, key, idempotent, entry_id)
    assert all(rival.region != dot.region for rival, _ in rivals), "it had observed its own"
    stays, stays_id = min([*rivals, (dot, entry_id)])
    for rival, rival_id in rivals:
        if rival > dot:
            stream.remove_entry(rival_id, rival)
    for lost, lost_id in [*rivals, (dot, entry_id)]:
        if lost >= dot and lost != stays:
            records.note_collapsed(key, lost_id, Collapsed(lost, idempotent, stays, stays_id))
    if stays != dot:
        lane = stream.lanes[dot.region]
        removed_n = lane.remove(entry_id, n_max=dot.n)
        assert removed_n == dot.n, "it was just appended"
        # No client here has seen it: as if it had not been added.
        lane.entries_added -= 1


def settle_rows(
    state: State,
    stream: Stream,
    key: bytes,
    rows: Numbered,
    count: int,
    first: Dot,
    context: VersionVector,
) -> bool:
    """Rows were just appended, from the dot ``first`` on: of them and their rivals, those are
    removed that others have with a smaller dot.

    Returns:
        True if anything was removed.
    """
    state.parts.note_producers(key)
    lane = stream.lanes[first.region]
    lane.mark_numbered(first.n, count, rows)
    losers = state.numbered.add(key, rows, count, first, context)
    for lost in losers:
        if lost.first.region == first.region:
            # No client here has seen them: as if they had not been added.
            lane.entries_added -= len(lane.remove_dots(lost.first.n, lost.count))
        else:
            stream.remove_dots(lost.first, lost.count)
    return bool(losers)
