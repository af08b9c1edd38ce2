"""XLEN, XRANGE, XREVRANGE, XDEL, XTRIM, XSETID: entries by ID."""

from crdtstream.commands.arguments import (
    SYNTAX_ERROR,
    ascending_ids,
    integer,
    interval_end,
    interval_start,
    strict_id,
)
from crdtstream.commands.lookup import stream_or_error, stream_or_none
from crdtstream.commands.reply import OK, CommandError, Null, Reply
from crdtstream.commands.streams.entries import encode_entries, encode_from
from crdtstream.commands.streams.trimming import TrimmingParser, trim
from crdtstream.core.effects import Remove, SetLastId
from crdtstream.core.id_columns import Ids
from crdtstream.core.ids import Millis, RegionId, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica


def xlen(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XLEN key: the number of entries, in all lanes."""
    stream = stream_or_none(replica, argv[1])
    return 0 if stream is None else stream.length


def xrange(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XRANGE key start end [COUNT n]: entries of all lanes, ascending.

    Cost: O(log n) to seek, O(m * log lanes) for m entries.
    """
    return _range(replica, argv, start=argv[2], end=argv[3], reverse=False)


def xrevrange(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XREVRANGE key end start [COUNT n]: as XRANGE, descending."""
    return _range(replica, argv, start=argv[3], end=argv[2], reverse=True)


def _range(
    replica: Replica, argv: list[bytes], *, start: bytes, end: bytes, reverse: bool
) -> Reply:
    first = interval_start(start)
    last = interval_end(end)
    count = _count_option(argv)
    stream = stream_or_none(replica, argv[1])
    if stream is None:
        return []
    if count is not None and count <= 0:
        return Null.ARRAY
    if first > last:
        return []
    if reverse:
        return encode_entries(stream.scan_back(first, last), count)[0]
    return encode_from(stream, first, last, count)[0]


def _count_option(argv: list[bytes]) -> int | None:
    count = None
    at = 4
    while at < len(argv):
        if argv[at].lower() != b"count" or at + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        count = integer(argv[at + 1])
        at += 2
    return count


def xdel(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XDEL key id [id …]: remove the entries that this region has observed.

    Returns:
        How many entries were removed.  It can exceed the number of IDs: in semi-strict and liberal
        mode one ID may stand in several lanes, and all of them are removed.

    Raises:
        CommandError: the key exists and an ID does not parse.  Nothing has changed then.

    Cost: O(k * lanes * log n) for k IDs.
    Source: redis.io/commands/xdel; AA, "ID generation modes".
    """
    key = argv[1]
    stream = stream_or_none(replica, key)
    if stream is None:
        return 0
    ids = ascending_ids(argv[2:])
    replica.read_entries(stream, ids)
    return sum(map(len, remove_observed(replica, key, stream, ids).values()))


def remove_observed(replica: Replica, key: bytes, stream: Stream, ids: Ids) -> dict[RegionId, Ids]:
    """Remove the entries with these IDs, which ascend; return those that existed, by lane."""
    found: dict[RegionId, Ids] = {}
    for region, lane in stream.lanes.items():
        lane_ids = lane.among(ids)
        if lane_ids:
            found[region] = lane_ids
    if found:
        replica.issue(Remove(key, found))
    return found


def xtrim(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT n] [KEEPREF|DELREF|ACKED]: how many entries
    were removed."""
    parser = TrimmingParser()
    at = 2
    while at < len(argv):
        taken = parser.take(argv, at)
        if not taken:
            raise CommandError(SYNTAX_ERROR)
        at += taken
    return trim(replica, argv[1], parser.finish(replica.node_limits.entries_max))


def xsetid(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XSETID key last-id [ENTRIESADDED n] [MAXDELETEDID id].

    Raises:
        CommandError: no such key; or the ID is below the last-generated one (AA, "Stream
            commands"), below a deleted one, or the counters contradict the stream.
    """
    key = argv[1]
    last_id = strict_id(argv[2])
    entries_added: int | None = None
    max_deleted_id: StreamId | None = None
    at = 3
    while at < len(argv):
        option = argv[at].lower()
        if at + 1 == len(argv):
            raise CommandError(SYNTAX_ERROR)
        if option == b"entriesadded":
            entries_added = integer(argv[at + 1])
            if entries_added < 0:
                raise CommandError("ERR entries_added must be positive")
        elif option == b"maxdeletedid":
            max_deleted_id = strict_id(argv[at + 1])
            if last_id < max_deleted_id:
                raise CommandError(
                    "ERR The ID specified in XSETID is smaller than the provided "
                    "max_deleted_entry_id"
                )
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 2
    stream = stream_or_error(replica, key)
    if last_id < max((lane.max_deleted_id for lane in stream.lanes.values()), default=0):
        raise CommandError(
            "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
        )
    if last_id < stream.last_id:
        raise CommandError(
            "ERR The ID specified in XSETID is smaller than the target stream top item"
        )
    if entries_added is not None and entries_added < stream.length:
        raise CommandError(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
        )
    replica.issue(SetLastId(key, last_id, entries_added, max_deleted_id))
    return OK
