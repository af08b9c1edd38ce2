"""CRDT.WHY: where an entry or a string comes from, and what became of it in this region."""

from enum import Enum

from crdtstream.commands.arguments import strict_id
from crdtstream.commands.lookup import NO_SUCH_KEY, stream_or_error
from crdtstream.commands.reply import CommandError, Reply, RespMap
from crdtstream.core.clock import Dot
from crdtstream.core.effects import IdempotentId
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.pel_chunk import Nack
from crdtstream.core.ids import Millis, RegionId, StreamId, format_id
from crdtstream.core.intervals import Intervals
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.producers.idempotency import Collapsed
from crdtstream.core.replica import Replica


class State(Enum):
    """State of an entry in a group, as far as this region knows; the value is the answer's word."""

    PENDING = b"pending"  # delivered here, or taken over, and not acknowledged
    ACKNOWLEDGED = b"acknowledged"  # delivered and acknowledged here; the others do not know yet
    COVERED = b"covered-by-frontier"  # in an acknowledged run that is replicated
    UNDELIVERED = b"undelivered"  # still to be delivered with >
    BEFORE_START = b"before-start"  # the group begins behind it
    PASSED = b"passed-over"  # given up (DELCONSUMER), or jumped over (SETID, LASTID)


def crdt_why(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.WHY key id: a map for each entry with this ID, by lane.

    Without an ID it reports on the key's string: a map for each value that concurrent SETs left,
    the one that counts first, and for what each region added; and whether GET shows it, or a stream
    stands in front.

    Behind the entries stand those that were removed because a concurrent append of the same
    idempotent id stayed, each with the ID of the one that stayed.  They are remembered until they
    are causally stable.

    Returns:
        The maps; none if no such entry is known.

    Raises:
        CommandError: the key does not exist, or the ID does not parse.
    """
    key = argv[1]
    if len(argv) > 3:
        raise CommandError("ERR wrong number of arguments for 'crdt.why' command")
    if len(argv) == 2:
        return _string_values(replica, key)
    entry_id = strict_id(argv[2])
    stream = stream_or_error(replica, key)
    live: list[Reply] = [
        _entry(replica, key, stream, entry_id, region, node, index, now)
        for _, region, node, index in stream.find(entry_id)
    ]
    return live + [_collapsed(gone) for gone in replica.collapsed(key, entry_id)]


def _entry(
    replica: Replica,
    key: bytes,
    stream: Stream,
    entry_id: StreamId,
    region: RegionId,
    node: MacroNode,
    index: int,
    now: Millis,
) -> Reply:
    idempotent = node.idempotent_at(index)
    return RespMap(
        [
            (b"origin", region),
            (b"dot", _dot(Dot(region, node.n[index]))),
            (b"arrived", node.arrived_at(index) or None),
            (b"bytes", node.lengths[index]),
            (b"producer", None if idempotent is None else idempotent.producer),
            (b"idempotent-id", None if idempotent is None else idempotent.id),
            (b"duplicates", _duplicates(replica, key, idempotent)),
            (
                b"groups",
                RespMap(
                    [
                        (name, _group(stream.groups[name], region, entry_id, now))
                        for name in sorted(stream.groups)
                    ]
                ),
            ),
        ]
    )


def _collapsed(gone: Collapsed) -> Reply:
    return RespMap(
        [
            (b"origin", gone.dot.region),
            (b"dot", _dot(gone.dot)),
            (b"producer", gone.idempotent.producer),
            (b"idempotent-id", gone.idempotent.id),
            (b"collapsed-into", format_id(gone.stays_id)),
            (b"collapsed-into-dot", _dot(gone.stays)),
        ]
    )


def _dot(dot: Dot) -> bytes:
    return b"%d:%d" % dot


def _duplicates(replica: Replica, key: bytes, idempotent: IdempotentId | None) -> int | None:
    """Retries that were recognised here; None if the id is not remembered."""
    tracked = None if idempotent is None else replica.find_idempotent(key, idempotent)
    return None if tracked is None else tracked.hits


# --- Strings ------------------------------------------------------------------------------------


def _string_values(replica: Replica, key: bytes) -> Reply:
    string = replica.keys.string(key)
    if string is None:
        if replica.stream(key) is None:
            raise CommandError(NO_SUCH_KEY)
        raise CommandError("ERR the key holds a stream: name the ID of an entry")
    is_hidden = replica.stream(key) is not None
    values: list[Reply] = [
        RespMap(
            [
                (b"origin", dot.region),
                (b"dot", _dot(dot)),
                (b"value", value.data),
                (b"deadline", deadline[0] if (deadline := value.deadline()) else None),
                (b"shown", int(dot == string.dot and not is_hidden)),
            ]
        )
        for dot, value in string.values()
    ]
    return values + [
        RespMap(
            [
                (b"origin", region),
                (b"dot", _dot(Dot(region, share.n))),
                (b"added", share.live),
                (b"added-to", None if share.base is None else _dot(share.base)),
                (b"deadline", deadline[0] if (deadline := share.deadline()) else None),
                (b"shown", int(string.dot in (None, share.base) and not is_hidden)),
            ]
        )
        for region, share in string.shares()
    ]


# --- Groups -------------------------------------------------------------------------------------


def _group(group: Group, region: RegionId, entry_id: StreamId, now: Millis) -> Reply:
    state = state_of(group, region, entry_id)
    pairs: list[tuple[Reply, Reply]] = [(b"state", state.value)]
    nack = group.progress(region).pel.get(entry_id)
    if nack is not None:
        pairs += _pending(nack, now)
    if state is State.UNDELIVERED:
        pairs.append((b"handed-out-by", group.who_hands_out(region)))
    return RespMap(pairs)


def _pending(nack: Nack, now: Millis) -> list[tuple[Reply, Reply]]:
    """As XPENDING shows it, except that an entry without an owner has a null for its name."""
    owner = nack.consumer
    return [
        (b"consumer", None if owner is None else owner.name),
        (b"delivery-count", nack.delivery_count),
        (b"idle", -1 if owner is None else max(0, now - nack.delivered_ms)),
    ]


def state_of(group: Group, region: RegionId, entry_id: StreamId) -> State:
    """State of a lane's entry in a group."""
    progress = group.progress(region)
    if entry_id in progress.pel:
        return State.PENDING
    is_covered = group.intervals.get(region, Intervals()).contains(entry_id)
    if entry_id > progress.last_delivered:
        if progress.handed_out.contains(entry_id):
            return State.ACKNOWLEDGED
        # If XGROUP SETID moved the group back behind it, the region hands it out once more.
        if is_covered and entry_id > progress.ignore_until:
            return State.COVERED
        return State.UNDELIVERED
    if is_covered:
        return State.COVERED
    if entry_id > progress.run_from:
        return State.ACKNOWLEDGED
    return State.BEFORE_START if entry_id <= group.start_of(region) else State.PASSED
