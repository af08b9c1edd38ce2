"""Looking ahead: the stored entries that a change will read are read before it is made.

Applying must not fail half-way, and must not wait for the disk.  So exactly what it is going to
read is looked up first.  If that is not in memory, ColdError is raised, and nothing has changed
(I10).

    Remove         the entries that it names
    Trim, deletes  the macro node where the removed part ends; nodes removed as a whole are not read
    AckFrontier    where the group stands afterwards, to count what it skips
    Deliver        the same, if something behind what is delivered is to be skipped

    Append         concurrent ones of the same idempotent id, or of the same numbered rows

For a caller that cannot wait, as a transaction that has begun, it is read in place; also before the
change.
"""

from crdtstream.core.clock import Dot, VersionVector
from crdtstream.core.effects import (
    AckFrontier,
    ChangeMembers,
    DeleteKey,
    Deliver,
    EffectBatch,
    ExpireKey,
    LocalChange,
    RareEffect,
    Remove,
    Trim,
)
from crdtstream.core.groups.group import Group
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import ID_MAX, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.whole.state import State


def read_for_effect(state: State, effect: RareEffect, context: VersionVector) -> None:
    """Read what applying the effect will read.

    Raises:
        ColdError: it is not in memory.
        UnreadableError: it was to be read in place, and cannot be.
    """
    residency = state.residency
    if not residency.absent_count or isinstance(effect, ChangeMembers):
        return
    stream = state.keys.streams.get(effect.key)
    if stream is None:
        return
    match effect:
        case Remove():
            for region, ids in effect.ids.items():
                if region in stream.lanes:
                    residency.read(stream.lanes[region].needs_for_remove(ids))
        case Trim():
            for region, limit in effect.up_to.items():
                if region in stream.lanes:
                    n_max = context.get(region, 0)
                    lane = stream.lanes[region]
                    residency.read(lane.needs_for_prefix(up_to=limit, n_max=n_max))
        case DeleteKey() | ExpireKey():
            for region, lane in stream.lanes.items():
                n_max = context.get(region, 0)
                residency.read(lane.needs_for_prefix(up_to=ID_MAX, n_max=n_max))
        case AckFrontier():
            group = stream.groups.get(effect.group)
            if group is not None:
                for region, (_, end) in effect.intervals.items():
                    _read_skipped(stream.lanes.get(region), group, region, end)
        case _:
            pass


def read_for_change(state: State, change: LocalChange) -> None:
    """As ``read_for_effect``, of a local change."""
    if not isinstance(change, Deliver) or not state.residency.absent_count:
        return
    stream = state.keys.streams[change.key]
    group = stream.groups[change.group]
    for region, ids in change.ids.items():
        if group.position_after(region, ids[-1]) != ids[-1]:
            _read_skipped(stream.lanes.get(region), group, region, ids[-1])


def needs_of(state: State, batch: EffectBatch) -> list[int]:
    """The images of what applying a batch will read and is not in memory."""
    if not state.residency.absent_count:
        return []
    images: dict[int, None] = {}
    # Its effects have observed all of their origin that stands before them.
    context = {**batch.context, batch.origin: batch.last_n}
    for _, effect in batch.others:
        try:
            read_for_effect(state, effect, context)
        except ColdError as error:
            images.update(dict.fromkeys(error.images))
    images.update(dict.fromkeys(_needs_of_rivals(state, batch)))
    return list(images)


def _needs_of_rivals(state: State, batch: EffectBatch) -> list[int]:
    """Images of nodes with concurrent appends of one name that may have to be removed."""
    images: list[int] = []
    columns = batch.appends
    for at, idempotent in columns.idempotent.items():
        key = columns.keys[columns.key_index[at]]
        stream = state.keys.streams.get(key)
        for dot, entry_id in state.idempotency.concurrent(batch.context, key, idempotent):
            if stream is not None and dot.region in stream.lanes:
                images += stream.lanes[dot.region].needs_for_remove([entry_id])
    first = Dot(batch.origin, batch.first_n)
    for run in columns.numbered:
        key = columns.keys[columns.key_index[run.at]]
        stream = state.keys.streams.get(key)
        if stream is None:
            continue
        for lost in state.numbered.losing(key, run.first, run.count, first, batch.context):
            # Rows of the batch itself are just being appended.
            if lost.first.region != batch.origin and lost.first.region in stream.lanes:
                lane = stream.lanes[lost.first.region]
                images += lane.needs_for_dots(lost.first.n, lost.count)
    return images


def read_entries(state: State, stream: Stream, ids: Ids) -> None:
    """Read the entries with these IDs, in whichever lanes they stand.

    Raises:
        ColdError: not all are in memory; it names all images, so that one fetch is enough.
        UnreadableError: they were to be read in place, and one cannot be.
    """
    if state.residency.absent_count:
        state.residency.read(
            [image for lane in stream.lanes.values() for image in lane.needs_for_remove(ids)]
        )


def _read_skipped(lane: Lane | None, group: Group, region: RegionId, position: StreamId) -> None:
    """Read what is needed to count the entries that a group skips on its way to a position."""
    before = group.progress(region).last_delivered
    if lane is not None and position > before:
        lane.count_above(before)
        lane.count_above(group.position_after(region, position))
