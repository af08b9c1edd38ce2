"""Entries that ``>`` delivers next, and their number.

Always so: an entry behind the group's start that no region acknowledged lies beyond last-delivered
of its lane, or is pending here, or was delivered here (I9).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain

from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.groups.reading import Reading
from crdtstream.core.ids import ID_MAX, RegionId, StreamId
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.lanes.slices import Found, Slice


def undelivered(reading: Reading, lanes: Iterable[Lane]) -> Iterator[Found]:
    """Entries that ``>`` delivers next: beyond last-delivered in every lane, merged by ID."""
    sources = [_entries_of(region, slices) for region, slices in _sources(reading, lanes)]
    return sources[0] if len(sources) == 1 else merge(*sources)


def undelivered_slices(
    reading: Reading, lanes: Iterable[Lane], count: int
) -> dict[RegionId, list[Slice]]:
    """As ``undelivered``: the first ``count`` entries, by lane as slices of macro nodes.

    What is read together is delivered, encoded and recorded by slices, and not entry by entry.
    """
    sources = _sources(reading, lanes)
    if len(sources) == 1:
        ((region, of_lane),) = sources
        first = _first(of_lane, count)
        return {region: first} if first else {}
    found = {region: _first(slices, count) for region, slices in sources}
    if sum(map(_length, found.values())) > count:
        # Where the last of them stands in the order of all lanes; equal IDs stand by lane.
        places = sorted(
            (entry_id, region)
            for region, slices in found.items()
            for entry_id, _, _, _ in _entries_of(region, iter(slices))
        )
        taken = Counter(region for _, region in places[:count])
        assert taken.total() == count
        found = {region: _first(iter(found[region]), taken[region]) for region in taken}
    return {region: slices for region, slices in found.items() if slices}


def _first(slices: Iterator[Slice], count: int) -> list[Slice]:
    """The slices of the first ``count`` entries."""
    first: list[Slice] = []
    for node, start, stop in slices:
        if stop - start >= count:
            first.append((node, start, start + count))
            break
        first.append((node, start, stop))
        count -= stop - start
    return first


def _length(slices: Iterable[Slice]) -> int:
    return sum(stop - start for _, start, stop in slices)


def _sources(reading: Reading, lanes: Iterable[Lane]) -> list[tuple[RegionId, Iterator[Slice]]]:
    """Each lane that may have something, and what it has."""
    sources = []
    for lane in lanes:
        region = lane.region
        if not lane.length:
            continue
        if reading.is_untouched(region):
            first = reading.first_position(region)
            if lane.last_id > first:
                sources.append((region, lane.scan_nodes(StreamId(first + 1), ID_MAX)))
            continue
        progress = reading.progress(region)
        if lane.last_id > progress.last_delivered:
            sources.append((region, _undelivered_in(reading, lane, progress)))
    return sources


def _entries_of(region: RegionId, slices: Iterator[Slice]) -> Iterator[Found]:
    for node, start, stop in slices:
        for index in range(start, stop):
            yield node.id_at(index), region, node, index


def _undelivered_in(reading: Reading, lane: Lane, progress: LaneProgress) -> Iterator[Slice]:
    position = progress.last_delivered
    was_taken_back = progress.skip_pending_until > position
    stretches: Iterable[tuple[StreamId, StreamId]] = ()
    if not reading.skips_nothing(lane.region, progress):
        stretches = reading.to_skip(lane.region, progress, position)
    for start, end in chain(stretches, [(ID_MAX, ID_MAX)]):
        if position < start:
            for piece in lane.scan_nodes(StreamId(position + 1), start):
                if was_taken_back:
                    yield from _without_pending(piece, progress)
                else:
                    yield piece
        position = end


def _without_pending(piece: Slice, progress: LaneProgress) -> Iterator[Slice]:
    """A lane was taken back: what is pending there already is not delivered again."""
    node, start, stop = piece
    for index in range(start, stop):
        entry_id = node.id_at(index)
        if entry_id > progress.skip_pending_until:
            yield node, index, stop
            return
        if entry_id not in progress.pel:
            yield node, index, index + 1


def undelivered_count(reading: Reading, lanes: Iterable[Lane]) -> int:
    """Number of entries that ``undelivered`` would yield.

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
    assert 0 <= count <= lane.length
    return count


def _is_skipped(
    reading: Reading, region: RegionId, progress: LaneProgress, entry_id: StreamId
) -> bool:
    """True if an ID beyond last-delivered lies in a stretch that is not to be delivered."""
    stretch = next(reading.to_skip(region, progress, StreamId(entry_id - 1)), None)
    return stretch is not None and stretch[0] < entry_id
