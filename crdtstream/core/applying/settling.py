"""Of concurrent idempotent appends of one id, the one with the smallest dot stays: ``rules`` 20."""

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.effects import IdempotentId, Numbered
from crdtstream.core.ids import StreamId
from crdtstream.core.producers.idempotency import Collapsed, IdempotencyRecords
from crdtstream.core.producers.numbered import NumberedRecords
from crdtstream.core.stream import Stream


def collapse(
    records: IdempotencyRecords,
    stream: Stream,
    key: bytes,
    idempotent: IdempotentId,
    entry_id: StreamId,
    dot: Dot,
    context: VersionVector,
) -> tuple[Dot, StreamId]:
    """Remember an entry that was just appended, and remove it or its rivals.

    Returns:
        Dot and ID of the one that stays.
    """
    stream.lanes[dot.region].mark_idempotent(entry_id, dot.n, idempotent)
    rivals = records.concurrent(context, key, idempotent)
    records.add(dot, key, idempotent, entry_id)
    stays, stays_id = min([*rivals, (dot, entry_id)])
    for rival, rival_id in rivals:
        if rival > dot:
            stream.remove_entry(rival_id, rival)
    for lost, lost_id in [*rivals, (dot, entry_id)]:
        if lost >= dot and lost != stays:
            row = Collapsed(lost, idempotent, stays, stays_id)
            records.note_collapsed(key, lost_id, row)
    if stays != dot:
        lane = stream.lanes[dot.region]
        lane.remove(entry_id, n_max=dot.n)
        # Nobody here has seen it: as if it had not been added.
        lane.entries_added -= 1
    return stays, stays_id


def settle_rows(
    records: NumberedRecords,
    stream: Stream,
    key: bytes,
    rows: Numbered,
    count: int,
    first: Dot,
    context: VersionVector,
) -> bool:
    """Remember rows that were just appended, and remove what of them, or of their rivals, goes.

    Returns:
        Whether anything went.
    """
    lane = stream.lanes[first.region]
    lane.mark_numbered(first.n, count, rows)
    losers = records.add(key, rows, count, first, context)
    for lost in losers:
        if lost.first.region == first.region:
            # Nobody here has seen them: as if they had not been added.
            lane.entries_added -= len(lane.remove_dots(lost.first.n, lost.count))
        else:
            stream.remove_dots(lost.first, lost.count)
    return bool(losers)
