"""Progress of a group in one region, lane by lane, for pages that show all regions."""

from crdtstream.commands.groups.delivery import undelivered_count
from crdtstream.core.ids import format_id
from crdtstream.core.replica import Replica
from crdtstream.v1 import admin_pb2 as pb


def group_progress(replica: Replica, key: bytes, name: bytes) -> pb.GroupProgress | None:
    """Progress of a group in this region; None: it has no such group.  O(lanes).

    Raises:
        demand of entries that are on disk only; call it by ``Engine.read``.
    """
    stream = replica.stream(key)
    group = None if stream is None else stream.groups.get(name)
    if stream is None or group is None:
        return None
    lanes = []
    for region in stream.lanes:
        found = group.lanes.get(region)
        delivered = group.start_of(region) if found is None else found.last_delivered
        lanes.append(
            pb.LaneProgress(
                lane=region,
                delivered=format_id(delivered),
                acknowledged=format_id(group.frontier(region)),
                pending=0 if found is None else len(found.pel),
            )
        )
    return pb.GroupProgress(
        consumers=len(group.consumers),
        undelivered=undelivered_count(replica.region, stream, group),
        lanes=lanes,
    )
