"""KEEPREF, DELREF, ACKED: what deleting does about groups; XDELEX and XACKDEL.

Entries deleted under a policy travel by ID, never as a prefix of the stream (``rules`` 8):

* KEEPREF leaves what is pending; it reads as nil from then on.
* DELREF takes the pending entries along, in every region.
* ACKED deletes what every group is done with: it lies in a run that is replicated, or was
  acknowledged here, where this region delivers.  If another region delivered it too, it stays
  pending there and reads as nil.  What was given up or jumped over here (XGROUP DELCONSUMER, SETID)
  is done with only if no other region still has to deliver it.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    parse_i64,
    strict_ids,
)
from crdtstream.commands.lookup import group_or_none, stream_or_none
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.core.effects import Ack, Remove
from crdtstream.core.groups.group import Group
from crdtstream.core.id_columns import IdColumns, Ids
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

_DELETED: Final = 1
_NOT_FOUND: Final = -1
_REFERENCED: Final = 2


class ReferencePolicy(Enum):
    """Rule for pending entries whose entry is to be deleted."""

    KEEPREF = b"keepref"
    DELREF = b"delref"
    ACKED = b"acked"


_POLICIES: Final = {policy.value: policy for policy in ReferencePolicy}


def parse_policy(text: bytes) -> ReferencePolicy | None:
    """The policy of that name, whatever its case; None if there is none."""
    return _POLICIES.get(text.lower())


def is_settled(groups: Iterable[Group], lane: RegionId, entry_id: StreamId, *, alone: bool) -> bool:
    """True if all groups are done with an entry, or there is no group."""
    return all(group.is_settled(lane, entry_id, alone=alone) for group in groups)


def remove(
    replica: Replica,
    key: bytes,
    ids: Mapping[RegionId, Ids],
    policy: ReferencePolicy,
    *,
    trims: bool = False,
) -> None:
    """Issue the Remove of these IDs, if there are any.

    Args:
        ids: by lane, ascending, each once.
        trims: they are trimmed, not deleted.
    """
    if ids:
        by_lane = dict(sorted(ids.items()))
        with_references = policy is ReferencePolicy.DELREF
        replica.issue(Remove(key, by_lane, with_references, trims))


class _Removed:
    """Entries that a command is going to remove, lane by lane."""

    def __init__(self) -> None:
        self._ids: dict[RegionId, set[StreamId]] = {}

    def add(self, lanes: Iterable[RegionId], entry_id: StreamId) -> None:
        for lane in lanes:
            self._ids.setdefault(lane, set()).add(entry_id)

    def by_lane(self) -> dict[RegionId, Ids]:
        """The IDs, ascending."""
        return {lane: IdColumns.of(sorted(lane_ids)) for lane, lane_ids in self._ids.items()}


def _parse(argv: list[bytes], at: int) -> tuple[ReferencePolicy, list[bytes]]:
    """``[policy] IDS n id …`` in either order; of several IDS blocks the last counts, as in Redis.

    Returns:
        The policy and the IDs as they stand there, not parsed yet.
    """
    policy: ReferencePolicy | None = None
    ids: list[bytes] | None = None
    while at < len(argv):
        found = parse_policy(argv[at])
        if found is not None and policy is None:
            policy = found
            at += 1
        elif argv[at].lower() == b"ids" and at + 1 < len(argv):
            count = parse_i64(argv[at + 1])
            if count is None or count <= 0:
                raise CommandError("ERR Number of IDs must be a positive integer")
            ids = argv[at + 2 : at + 2 + count]
            if len(ids) < count:
                raise CommandError("ERR The `numids` parameter must match the number of arguments")
            at += 2 + count
        else:
            raise CommandError(SYNTAX_ERROR)
    if ids is None:
        raise CommandError(SYNTAX_ERROR)
    return policy or ReferencePolicy.KEEPREF, ids


# --- XDELEX -------------------------------------------------------------------------------------


def xdelex(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XDELEX key [KEEPREF | DELREF | ACKED] IDS n id …

    Returns:
        Per ID 1 (deleted), -1 (no such entry) or 2 (ACKED, and some group is not done with it).
        An ID that stands in several lanes is deleted in all of them; with ACKED in none, as long
        as a group is not done with one of them.

    DELREF of an entry that is gone already clears what is left pending of it.

    Raises:
        CommandError: the syntax is wrong; or the key exists and an ID does not parse.

    Source: redis.io/commands/xdelex.
    """
    key = argv[1]
    policy, texts = _parse(argv, 2)
    stream = stream_or_none(replica, key)
    if stream is None:
        return [_NOT_FOUND] * len(texts)
    removed = _Removed()
    deleted: set[StreamId] = set()
    replies: list[Reply] = []
    ids = strict_ids(texts)
    replica.read_entries(stream, ids)
    for entry_id in ids:
        lanes = () if entry_id in deleted else _lanes_of(stream, entry_id)
        if policy is ReferencePolicy.ACKED and not _may_go(replica, stream, lanes, entry_id):
            replies.append(_REFERENCED)
        elif lanes:
            removed.add(lanes, entry_id)
            deleted.add(entry_id)
            replies.append(_DELETED)
        else:
            if policy is ReferencePolicy.DELREF and entry_id not in deleted:
                removed.add(_lanes_of_dangling(stream, entry_id), entry_id)
            replies.append(_NOT_FOUND)
    remove(replica, key, removed.by_lane(), policy)
    return replies


def _lanes_of(stream: Stream, entry_id: StreamId) -> tuple[RegionId, ...]:
    return tuple(lane for _, lane, _, _ in stream.find(entry_id))


def _may_go(
    replica: Replica, stream: Stream, lanes: tuple[RegionId, ...], entry_id: StreamId
) -> bool:
    """True if every group is done with an ID, in the lanes where it stands or is still pending.

    One that is nowhere counts as referenced, as in Redis, while a group has not come so far.
    """
    groups = stream.groups.values()
    lanes = lanes or _pending_lanes(groups, entry_id)
    if lanes:
        return all(is_settled(groups, lane, entry_id, alone=replica.is_alone) for lane in lanes)
    return all(entry_id <= group.last_delivered_id(stream.lanes) for group in groups)


def _pending_lanes(groups: Iterable[Group], entry_id: StreamId) -> tuple[RegionId, ...]:
    lanes = {
        lane
        for group in groups
        for lane, progress in group.lanes.items()
        if entry_id in progress.pel
    }
    return tuple(sorted(lanes))


def _lanes_of_dangling(stream: Stream, entry_id: StreamId) -> tuple[RegionId, ...]:
    """Lanes where an entry that is gone may be pending, here or, unknown here, elsewhere."""
    groups = stream.groups.values()
    known = {lane for group in groups for lane in group.lanes} | stream.lanes.keys()
    return _pending_lanes(groups, entry_id) or (tuple(sorted(known)) if groups else ())


# --- XACKDEL ------------------------------------------------------------------------------------


def xackdel(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XACKDEL key group [KEEPREF | DELREF | ACKED] IDS n id …: acknowledge here, then delete.

    Returns:
        Per ID 1 (acknowledged and deleted), -1 (not pending in this group) or 2 (acknowledged;
        ACKED, and another group is not done with it).  What is deleted of an ID that stands in
        several lanes is what was pending.

    Source: redis.io/commands/xackdel.
    """
    key, name = argv[1:3]
    policy, texts = _parse(argv, 3)
    found = group_or_none(replica, key, name)
    if found is None:
        return [_NOT_FOUND] * len(texts)
    stream, group = found

    acked: dict[StreamId, tuple[RegionId, ...]] = {}
    order: list[tuple[RegionId, ...]] = []
    ids = strict_ids(texts)
    for entry_id in ids:
        lanes = () if entry_id in acked else _pending_lanes([group], entry_id)
        order.append(lanes)
        if lanes:
            acked[entry_id] = lanes
    if acked:
        # Before anything changes: what is deleted is looked for below.
        replica.read_entries(stream, sorted(acked))
        replica.note(Ack(key, name, _by_lane(acked)))

    removed = _Removed()
    replies: list[Reply] = []
    for entry_id, lanes in zip(ids, order, strict=True):
        if not lanes:
            replies.append(_NOT_FOUND)
        elif policy is ReferencePolicy.ACKED and not _may_go(replica, stream, lanes, entry_id):
            replies.append(_REFERENCED)
        else:
            _add_removed(removed, stream, lanes, entry_id, policy)
            replies.append(_DELETED)
    remove(replica, key, removed.by_lane(), policy)
    return replies


def _add_removed(
    removed: _Removed,
    stream: Stream,
    lanes: tuple[RegionId, ...],
    entry_id: StreamId,
    policy: ReferencePolicy,
) -> None:
    """With DELREF also where the entry is gone: other groups and regions may hold it pending."""
    if policy is not ReferencePolicy.DELREF:
        lanes = tuple(lane for lane in lanes if lane in _lanes_of(stream, entry_id))
    removed.add(lanes, entry_id)


def _by_lane(
    ids: Mapping[StreamId, tuple[RegionId, ...]],
) -> dict[RegionId, tuple[StreamId, ...]]:
    by_lane: dict[RegionId, list[StreamId]] = {}
    for entry_id in sorted(ids):
        for lane in ids[entry_id]:
            by_lane.setdefault(lane, []).append(entry_id)
    return {lane: tuple(lane_ids) for lane, lane_ids in sorted(by_lane.items())}
