"""Trims entries that are no longer needed: read, acknowledged by every group, and old.

XTRIM MINID takes an ID, and its caller must know that no entry below that is still needed; but an
entry that another region appended late may have any ID.  Here the region decides lane by lane, in
one step with the trim.  Dots and IDs ascend together in a lane, so "read up to this dot",
"acknowledged up to this ID" and "older than this" are all prefixes of it, and the shortest of them
is removed.  It is replicated as a Trim, as XTRIM's is.

``trimmable`` finds these entries before the trim, so that a caller can verify its own copy of them,
and then trim no others.
"""

from collections.abc import Mapping
from typing import NamedTuple

from crdtstream.core.effects import Trim
from crdtstream.core.ids import (
    ID_MIN,
    U64_MAX,
    Millis,
    RegionId,
    StreamId,
    id_ms,
    make_id,
)
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.bulk_reading import Columns
from crdtstream.core.lanes.slices import Within
from crdtstream.core.replica import Replica


def trim_read(
    replica: Replica,
    key: bytes,
    *,
    read: Mapping[RegionId, int],
    before_ms: Millis,
    nodes_max: int,
) -> int:
    """Trim what is read, acknowledged and old, at most ``nodes_max`` macro nodes of it.

    Args:
        read: by origin the dot number up to which entries were read.
        before_ms: only entries whose ID is below this moment.

    Returns:
        How many entries went; 0: nothing is left that may go.
    """
    stream = replica.stream(key)
    if stream is None:
        return 0
    up_to: dict[RegionId, StreamId] = {}
    removed = 0
    for origin, lane in stream.lanes.items():
        end = _acknowledged_upto(stream, origin, _last_before(before_ms))
        within = Within(upto_n=read.get(origin, 0), end=end)
        slices = lane.slices(within, entries_max=U64_MAX, nodes_max=nodes_max)
        nodes_max -= len(slices)
        if slices:
            columns = Columns(slices)
            up_to[origin] = columns.last_id
            removed += len(columns)
    if up_to:
        replica.issue(Trim(key, up_to))
    return removed


class Trimmable(NamedTuple):
    """Place of the entries that may be trimmed: their lanes, first and last millisecond."""

    origins: tuple[RegionId, ...]
    first_ms: Millis
    last_ms: Millis


def trimmable(
    replica: Replica, key: bytes, *, read: Mapping[RegionId, int], before_ms: Millis
) -> Trimmable | None:
    """Find what :func:`trim_read` would remove now; None: nothing.  O(lanes x log n)."""
    stream = replica.stream(key)
    if stream is None:
        return None
    spans: dict[RegionId, tuple[StreamId, StreamId]] = {}
    for origin, lane in sorted(stream.lanes.items()):
        end = _acknowledged_upto(stream, origin, _last_before(before_ms))
        within = Within(upto_n=read.get(origin, 0), end=end)
        for node, _, _ in lane.slices(within, entries_max=1, nodes_max=1):
            spans[origin] = (node.first_id, min(end, lane.last_id))
    if not spans:
        return None
    first, last = min(low for low, _ in spans.values()), max(high for _, high in spans.values())
    return Trimmable(tuple(spans), Millis(id_ms(first)), Millis(id_ms(last)))


def _last_before(moment: Millis) -> StreamId:
    return StreamId(max(ID_MIN, make_id(moment, 0) - 1))


def _acknowledged_upto(stream: Stream, origin: RegionId, end: StreamId) -> StreamId:
    """Up to where every group is done with a lane, at most ``end``."""
    return min([end, *(group.settled_upto(origin) for group in stream.groups.values())])
