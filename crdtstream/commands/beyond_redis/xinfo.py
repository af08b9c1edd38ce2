"""CRDT.XINFO: what XINFO would report on a stream and its groups if Redis had several regions.

XINFO has the keys of the announced version of Redis and no others, because clients refuse what they
do not know.  What is reported here does not depend on the announced version.
"""

from typing import Final

from crdtstream.commands.groups.delivery import undelivered_count
from crdtstream.commands.lookup import stream_or_error
from crdtstream.commands.reply import Reply, RespMap
from crdtstream.commands.streams.idempotent_xadd import window_facts
from crdtstream.commands.streams.xinfo import lag
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis, RegionId, format_id
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.replica import Replica

HELP: Final = (
    "CRDT.XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GROUPS <key>",
    "    Show what this region knows of the stream's groups.",
    "STREAM <key>",
    "    Show the stream's lanes, and which producers are remembered.",
    "HELP",
    "    Print this help.",
)


def show_groups(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.XINFO GROUPS key: a map for each group, by name.

    ``undelivered`` is always known, unlike ``lag``: how many entries ``>`` would still deliver in
    this region, whatever was deleted.

    Cost: O(consumers and lanes) of each group.
    """
    stream = stream_or_error(replica, argv[2])
    return [_group(stream, replica.region, name) for name in sorted(stream.groups)]


def _group(stream: Stream, region: RegionId, name: bytes) -> Reply:
    group = stream.groups[name]
    return RespMap(
        [
            (b"name", name),
            (b"consumers", len(group.consumers)),
            (b"pending", group.pending_count),
            (b"nacked-count", group.unowned_count),
            (b"entries-read", group.entries_read(stream.lanes)),
            (b"lag", lag(stream, group)),
            (b"undelivered", undelivered_count(region, stream, group)),
            (b"mode", group.mode.mode.value.encode()),
            (b"home", group.home),
        ]
    )


def show_stream(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.XINFO STREAM key: its lanes by region, and its window of idempotent ids."""
    key = argv[2]
    stream = stream_or_error(replica, key)
    pairs: list[tuple[Reply, Reply]] = [
        (b"length", stream.length),
        (b"last-generated-id", format_id(stream.last_id)),
        (b"groups", len(stream.groups)),
        (b"lanes", [_lane(lane) for lane in stream.lanes.values()]),
        *window_facts(replica, now, key, stream),
    ]
    return RespMap(pairs)


def _lane(lane: Lane) -> Reply:
    return RespMap(
        [
            (b"region", lane.region),
            (b"length", lane.length),
            (b"first-id", format_id(lane.first_id)),
            (b"last-id", format_id(lane.last_id)),
            (b"entries-added", lane.entries_added),
        ]
    )


def show_help(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    return help_reply(HELP)
