"""Checks the invariants of a replica's state, wherever it came from; see ``docs/invariants.md``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from crdtstream.core.groups.group import Group
from crdtstream.core.ids import ID_MAX, ID_MIN, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.replica import Replica

# Memory that macro nodes may take while lanes are walked through.
WALKED_BYTES_MAX: Final = 256 << 20


@dataclass(slots=True)
class StateCounts:
    """Counts of what is in a state."""

    keys: int = 0
    lanes: int = 0
    entries: int = 0
    groups: int = 0
    pending: int = 0


def wrong_lanes(replica: Replica, counts: StateCounts) -> Iterator[str]:
    """Lanes that break a rule, in words; counts what it walks over.  O(entries)."""
    for key in replica.keys.known():
        counts.keys += 1
        stream = replica.keys.held_stream(key)
        if stream is None:
            continue
        highest = max((register.id for register in stream.last_ids.values()), default=ID_MIN)
        if stream.last_id != highest:
            yield f"stream {key!r}: last-generated ID is not the highest of its registers"
        for region, lane in stream.lanes.items():
            counts.lanes += 1
            counts.entries += lane.length
            for problem in _wrong_in_lane(replica, stream, lane):
                yield f"stream {key!r}, lane {region}: {problem}"


def _wrong_in_lane(replica: Replica, stream: Stream, lane: Lane) -> Iterator[str]:
    last_id, last_n, count = -1, 0, 0
    residency, before = replica.residency, lane.head
    for entry_id, node, index in lane.scan(ID_MIN, ID_MAX):
        if node is not before:
            before = node
            # Only what is on disk, too, leaves.
            residency.evict(residency.warm_bytes + residency.packed_bytes - WALKED_BYTES_MAX)
        n = node.n[index]
        if not last_id < entry_id:
            yield f"ID {_id(entry_id)} does not ascend"
        if not last_n < n:
            yield f"dot {n} does not ascend"
        last_id, last_n, count = entry_id, n, count + 1
    if count != lane.length:
        yield f"counts {lane.length} entries and has {count}"
    if last_n > replica.vv.get(lane.region, 0):
        yield f"has dot {last_n}, beyond the version vector"
    register = stream.last_ids.get(lane.region)
    if count and (register is None or register.id < last_id):
        yield f"its last-ID register is below its last entry, {_id(last_id)}"


def wrong_groups(replica: Replica, counts: StateCounts) -> Iterator[str]:
    """Groups that break a rule, in words; counts what it walks over.  O(pending entries)."""
    for key in replica.keys.known():
        stream = replica.keys.held_stream(key)
        for name, group in ({} if stream is None else stream.groups).items():
            assert stream is not None
            counts.groups += 1
            for problem in _wrong_in_group(stream, group, counts):
                yield f"stream {key!r}, group {name!r}: {problem}"


def _wrong_in_group(stream: Stream, group: Group, counts: StateCounts) -> Iterator[str]:
    if not group.creates:
        yield "exists without a create"
    last, count = (-1, 0), 0
    for nack in group.pending():
        count += 1
        if (nack.id, nack.lane) <= last:
            yield f"pending {_id(nack.id)} does not ascend"
        last = nack.id, nack.lane
        register = stream.last_ids.get(nack.lane)
        if register is not None and nack.id > register.id:
            yield f"pending {_id(nack.id)} lies beyond lane {nack.lane}"
        owner = nack.consumer
        if owner is not None and group.consumers.get(owner.name) is not owner:
            yield f"pending {_id(nack.id)} belongs to a consumer that is not there"
    if count != group.pending_count:
        yield f"counts {group.pending_count} pending entries and has {count}"
    counts.pending += count


def _id(entry_id: int) -> str:
    return format_id(entry_id).decode()  # type: ignore[arg-type]
