"""Slips of a real node, which drills must notice.

A drill proves nothing unless its verdict turns red when a node does lose something.
"""

import asyncio
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from crdtstream.core.effects import AckFrontier, AppendColumns, RareEffect, Record, Remove
from crdtstream.core.histories import Point, hash_of
from crdtstream.core.ids import ID_MAX, StreamId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.replica import Replica
from crdtstream.core.whole.grown_runs import GrownRuns
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.database.database import Database
from crdtstream.region.freshness import Freshness
from crdtstream.region.region import Region
from crdtstream.store.sqlite import SqliteLog
from tests.planted.bug import NodeBug, Patch
from tests.planted.in_region import reply_before_commit

# Long enough that a kill happens within it, and that a client has many replies by then.
LATE_COMMIT_SECONDS: Final = 0.2
# One of this many batches is lost: a region has a hundred and more when a drill restarts it.
LOST_EVERY_BATCHES: Final = 20


def _ack_before_commit() -> Sequence[Patch]:
    """Replies leave at once, and their records reach the log a good while later."""

    async def append(self: SqliteLog, records: Any) -> None:
        await asyncio.sleep(LATE_COMMIT_SECONDS)
        await right(self, records)

    def append_at_once(_self: SqliteLog, _records: Any) -> bool:
        return False

    right = SqliteLog.append
    return [
        *reply_before_commit(),
        (SqliteLog, "append", append),
        (SqliteLog, "append_at_once", append_at_once),
    ]


def _frontier_too_far() -> Sequence[Patch]:
    """An acknowledged run is reported to reach one entry further than it does."""

    def take(self: GrownRuns, names: Any, streams: Mapping[bytes, Stream]) -> Any:
        for frontier in right(self, names, streams):
            yield _one_further(frontier, streams)

    right = GrownRuns.take
    return [(GrownRuns, "take", take)]


def _one_further(frontier: AckFrontier, streams: Mapping[bytes, Stream]) -> AckFrontier:
    """Each interval ends with the entry behind its end, if that exists."""
    lanes = streams[frontier.key].lanes
    intervals = {
        region: (start, _entry_behind(lanes.get(region), end))
        for region, (start, end) in frontier.intervals.items()
    }
    return replace(frontier, intervals=intervals)


def _entry_behind(lane: Lane | None, entry_id: StreamId) -> StreamId:
    if lane is None:
        return entry_id
    return next((found for found, _, _ in lane.scan(StreamId(entry_id + 1), ID_MAX)), entry_id)


def _dot_lost_on_restart() -> Sequence[Patch]:
    """A start counts all dots of its own, and does not read back some of their entries.

    A log that had lost its end would not do: the peers restore what they know of it.
    """
    count = 0

    def replay(self: Replica, record: Record) -> None:
        nonlocal count
        if record.origin == self.region and record.batch is not None:
            count += 1
            if count % LOST_EVERY_BATCHES == 2:
                right(self, replace(record, batch=_without_appends(record.batch)))
                _hide(self, record)
                return
        right(self, record)

    right = Replica.replay
    return [(Replica, "replay", replay)]


def _hide(replica: Replica, record: Record) -> None:
    """Make the batch known as the one that it should have been: peers would refuse the link."""
    assert record.batch is not None
    points = replica.histories.points()[record.origin]
    points[-1] = Point(record.last_n, hash_of(record.batch))
    replica.histories.set_points(record.origin, points)


def _without_appends(encoded: bytes) -> bytes:
    """The batch, with effects that do nothing for its appends: its dots are as many as before."""
    batch = decode_batch(encoded)
    others: dict[int, RareEffect] = dict(batch.others)
    nothing = Remove(b"nothing", {batch.origin: (StreamId(1),)})
    kept = [(offset, others.get(offset, nothing)) for offset in range(batch.count)]
    none = AppendColumns([], array("I"), array("Q"), array("Q"), array("I"), b"")
    return encode_batch(replace(batch, appends=none, others=kept))


def _healthy_while_stale() -> Sequence[Patch]:
    """Its health is reported as good while writes are refused."""

    def freshness(self: Region, _at: float) -> Freshness:
        peers = len(self.links.pulls)
        return Freshness(0, peers, peers)

    return [
        (Region, "refuses_writes", property(lambda _self: None)),
        (Region, "freshness", freshness),
        (Database, "_asks_for_health", staticmethod(lambda _session, _handler: False)),
    ]


IN_NODES: Final = (
    NodeBug("ack-before-commit", "a kill takes what a reply told", _ack_before_commit),
    NodeBug("frontier-too-far", "a group in another region skips an entry", _frontier_too_far),
    NodeBug("dot-lost-on-restart", "an entry vanishes in one region", _dot_lost_on_restart),
    NodeBug(
        "healthy-while-stale", "clients stay with a region that is no use", _healthy_while_stale
    ),
)
