"""Progress of a group in one region, lane by lane: for its own pages, and for those of others."""

from collections.abc import Iterator
from dataclasses import dataclass

from crdtstream.commands.groups.delivery import undelivered_count
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import RegionId, StreamId, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica
from crdtstream.v1 import admin_pb2 as pb


@dataclass(frozen=True, slots=True)
class LaneOfGroup:
    """A group's progress in one lane, in this region.

    Attributes:
        delivered: up to where it was delivered here; frontier: up to where all is acknowledged.
        pending: entries delivered here and not acknowledged.
    """

    region: RegionId
    delivered: StreamId
    frontier: StreamId
    pending: int


def lanes_of(group: Group, stream: Stream) -> Iterator[LaneOfGroup]:
    """A group's progress in each lane of its stream, in this region."""
    for region in stream.lanes:
        progress = group.lanes.get(region)
        yield LaneOfGroup(
            region,
            group.start_of(region) if progress is None else progress.last_delivered,
            group.frontier(region),
            0 if progress is None else len(progress.pel),
        )


def group_progress(replica: Replica, key: bytes, name: bytes) -> pb.GroupProgress | None:
    """Progress of a group in this region; None: it has no such group.  O(lanes).

    Raises:
        demand of entries that are on disk only; call it by ``Engine.read``.
    """
    stream = replica.stream(key)
    group = None if stream is None else stream.groups.get(name)
    if stream is None or group is None:
        return None
    return pb.GroupProgress(
        consumers=len(group.consumers),
        undelivered=undelivered_count(replica.region, stream, group),
        lanes=[
            pb.LaneProgress(
                lane=one.region,
                delivered=format_id(one.delivered),
                acknowledged=format_id(one.frontier),
                pending=one.pending,
            )
            for one in lanes_of(group, stream)
        ],
    )
