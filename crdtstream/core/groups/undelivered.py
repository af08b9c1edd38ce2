"""What ``>`` hands out next, and how many entries that are.

Always so: an entry behind the group's start that no region acknowledged lies beyond last-delivered
of its lane, or is pending here, or was handed out here (I9).
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain

from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.groups.reading import Reading
from crdtstream.core.ids import ID_MAX, RegionId, StreamId
from crdtstream.core.lanes.lane import Found, Lane


def undelivered(reading: Reading, lanes: Iterable[Lane]) -> Iterator[Found]:
    """What ``>`` hands out next: beyond last-delivered in every lane, merged by ID."""
    sources = []
    for lane in lanes:
        progress = reading.progress(lane.region)
        if lane.length and lane.last_id > progress.last_delivered:
            sources.append(_undelivered_in(reading, lane, progress))
    return sources[0] if len(sources) == 1 else merge(*sources)


def _undelivered_in(reading: Reading, lane: Lane, progress: LaneProgress) -> Iterator[Found]:
    region = lane.region
    position = progress.last_delivered
    stretches: Iterable[tuple[StreamId, StreamId]] = ()
    if not reading.skips_nothing(region, progress):
        stretches = reading.to_skip(region, progress, position)
    for start, end in chain(stretches, [(ID_MAX, ID_MAX)]):
        if position < start:
            for entry_id, node, index in lane.scan(StreamId(position + 1), start):
                if entry_id <= progress.skip_pending_until and entry_id in progress.pel:
                    continue
                yield entry_id, region, node, index
        position = end


def undelivered_count(reading: Reading, lanes: Iterable[Lane]) -> int:
    """How many entries ``undelivered`` would give.

    O(stretches to skip * macro nodes between them and the nearer end of the lane); entries that
    are pending and not to be delivered again count one by one.
    """
    return sum(
        _undelivered_count_in(reading, lane, reading.progress(lane.region))
        for lane in lanes
        if lane.length
    )


def _undelivered_count_in(reading: Reading, lane: Lane, progress: LaneProgress) -> int:
    position = progress.last_delivered
    count = lane.count_above(position)
    for start, end in reading.to_skip(lane.region, progress, position):
        if lane.last_id <= position:
            break
        # Stretches may overlap: of each only what lies beyond the one before.
        if end > position:
            count -= lane.count_above(max(start, position)) - lane.count_above(end)
            position = end
    for entry_id in progress.pel.within(progress.last_delivered, progress.skip_pending_until):
        is_counted = not _is_skipped(reading, lane.region, progress, entry_id)
        if is_counted and lane.find(entry_id) is not None:
            count -= 1
    return count


def _is_skipped(
    reading: Reading, region: RegionId, progress: LaneProgress, entry_id: StreamId
) -> bool:
    """Whether an ID beyond last-delivered lies in a stretch that is not to be delivered."""
    stretch = next(reading.to_skip(region, progress, StreamId(entry_id - 1)), None)
    return stretch is not None and stretch[0] < entry_id
