"""entries-read and lag of a group: Redis's own rules, lane by lane.

Redis counts what was added, not what is there, and gives up (None) where an XDEL may have taken
something that the group had still to read.  ``last_id`` is the lane's last-generated ID.
"""

from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import ID_MIN, StreamId
from crdtstream.core.lanes.lane import Lane


def entries_read_after(
    progress: LaneProgress, lane: Lane, last_id: StreamId, ids: Ids
) -> int | None:
    """Redis's entries-read counter after these entries of the lane were delivered."""
    position, read = progress.last_delivered, progress.entries_read
    if ids[-1] <= position:
        return read
    for index, entry_id in enumerate(ids):
        if read is not None and position >= lane.first_id and not _is_holed(lane, position):
            return read + len(ids) - index
        if lane.entries_added:
            read = _added_up_to(lane, last_id, entry_id)
        position = entry_id
    return read


def entries_read_skipped(
    progress: LaneProgress, lane: Lane | None, last_id: StreamId, position: StreamId
) -> int | None:
    """The counter after last-delivered moved here from ``position`` over what others acknowledged.

    Redis has no such thing.  They count as read; where deletions hide how many they were, as when
    Redis begins to count in the middle.
    """
    if lane is None:
        return None
    if lane.entries_added == lane.length:
        return lane.entries_added - lane.count_above(progress.last_delivered)
    read = progress.entries_read
    if read is not None and position >= lane.first_id and not _is_holed(lane, position):
        skipped = lane.count_above(position) - lane.count_above(progress.last_delivered)
        return read + skipped
    return _added_up_to(lane, last_id, progress.last_delivered)


def lane_lag(
    last_delivered: StreamId, read: int | None, lane: Lane, last_id: StreamId
) -> int | None:
    """Number of entries of the lane still to be read, None if Redis could not know it either."""
    if not lane.entries_added or not lane.length:
        return 0
    if last_delivered < lane.first_id > lane.max_deleted_id:
        # Everything is still ahead, whatever ENTRIESREAD once claimed.
        return lane.length
    if read is None or _is_holed(lane, last_delivered):
        read = _added_up_to(lane, last_id, last_delivered)
    return None if read is None else lane.entries_added - read


def _added_up_to(lane: Lane, last_id: StreamId, entry_id: StreamId) -> int | None:
    """Number of entries ever added up to ``entry_id``; None if deletions hide it."""
    if not lane.entries_added:
        return 0
    if not lane.length and entry_id <= last_id:
        return lane.entries_added
    if entry_id != ID_MIN and entry_id < lane.max_deleted_id:
        return None
    if entry_id == last_id:
        return lane.entries_added
    if entry_id > last_id:
        return None
    if lane.max_deleted_id < lane.first_id:
        if entry_id < lane.first_id:
            return lane.entries_added - lane.length
        if entry_id == lane.first_id:
            return lane.entries_added - lane.length + 1
    return None


def _is_holed(lane: Lane, position: StreamId) -> bool:
    """True if XDEL may have removed an entry at or behind this position."""
    if not lane.length or lane.max_deleted_id < lane.first_id:
        return False
    return position <= lane.max_deleted_id
