"""Bugs that a rehearsal must notice, planted into a real node.

A drill proves nothing unless its verdict turns red when a node does lose something.  So a node can
be told to have one of these bugs (``drill.plant``), each a slip that somebody could make.
``plant`` replaces methods before the node is made; a node that is told nothing never imports this
file, and the code that runs in production has no switch in it.

``sim/bugs`` holds the bugs that the simulator must notice; one of them serves here, too.
"""

import asyncio
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from crdtstream.core.effects import AckFrontier, AppendColumns, RareEffect, Record, Remove
from crdtstream.core.ids import ID_MAX, StreamId
from crdtstream.core.issuing.grown_runs import GrownRuns
from crdtstream.core.lanes.lane import Lane
from crdtstream.core.replica import Replica
from crdtstream.core.stream import Stream
from crdtstream.core.wire.codec import decode_batch, encode_batch
from crdtstream.database.database import Database
from crdtstream.region.freshness import Freshness
from crdtstream.region.region import Region
from crdtstream.sim.bugs.bug import Patch
from crdtstream.sim.planted import BUGS, require_sources
from crdtstream.store.sqlite import SqliteLog

# Long enough that a kill falls into it, and a client has had many replies by then.
LATE_COMMIT_SECONDS: Final = 0.2
# Of so many batches one is lost: a region has a hundred and more when a drill restarts it.
LOST_EVERY_BATCHES: Final = 20


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug for a real node.

    Attributes:
        name: as in the settings.
        harm: what users would see.
        patches: what it replaces.
    """

    name: str
    harm: str
    patches: Callable[[], Sequence[Patch]]


def plant(name: str) -> None:
    """Have the bug of this name in this process, for as long as it lives.

    Raises:
        KeyError: there is none.
        CompiledError: the program is compiled; whoever starts the node has the sources run.
    """
    require_sources()
    for owner, attribute, wrong in PLANTS[name].patches():
        setattr(owner, attribute, wrong)


def _ack_before_commit() -> Sequence[Patch]:
    """Replies leave at once, and their records reach the log a good while later."""

    async def append(self: SqliteLog, records: Any) -> None:
        await asyncio.sleep(LATE_COMMIT_SECONDS)
        await right(self, records)

    def append_at_once(_self: SqliteLog, _records: Any) -> bool:
        return False

    right = SqliteLog.append
    return [
        *BUGS["reply-before-commit"].patches(),
        (SqliteLog, "append", append),
        (SqliteLog, "append_at_once", append_at_once),
    ]


def _frontier_too_far() -> Sequence[Patch]:
    """An acknowledged run is told to reach one entry further than it does."""

    def take(self: GrownRuns, names: Any, streams: Mapping[bytes, Stream]) -> Any:
        for frontier in right(self, names, streams):
            yield _one_further(frontier, streams)

    right = GrownRuns.take
    return [(GrownRuns, "take", take)]


def _one_further(frontier: AckFrontier, streams: Mapping[bytes, Stream]) -> AckFrontier:
    """Each interval ends with the entry behind its end, if there is one."""
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
    """A start counts all dots of its own, and some of their entries it does not read back.

    A log that had lost its end would not do: the peers give back what they know of.
    """
    count = 0

    def replay(self: Replica, record: Record) -> None:
        nonlocal count
        if record.origin == self.region and record.batch is not None:
            count += 1
            if count % LOST_EVERY_BATCHES == 2:
                record = replace(record, batch=_without_appends(record.batch))
        right(self, record)

    right = Replica.replay
    return [(Replica, "replay", replay)]


def _without_appends(encoded: bytes) -> bytes:
    """The batch, with effects that do nothing for its appends: its dots are as many as before."""
    batch = decode_batch(encoded)
    others: dict[int, RareEffect] = dict(batch.others)
    nothing = Remove(b"nothing", {batch.origin: (StreamId(1),)})
    kept = [(offset, others.get(offset, nothing)) for offset in range(batch.count)]
    none = AppendColumns([], array("I"), array("Q"), array("Q"), array("I"), b"")
    return encode_batch(replace(batch, appends=none, others=kept))


def _healthy_while_stale() -> Sequence[Patch]:
    """Whoever asks for its health hears that all is well, while writes are refused."""

    def freshness(self: Region, _at: float) -> Freshness:
        peers = len(self.links.pulls)
        return Freshness(0, peers, peers)

    return [
        (Region, "refuses_writes", property(lambda _self: None)),
        (Region, "freshness", freshness),
        (Database, "_asks_for_health", staticmethod(lambda _session, _handler: False)),
    ]


_ALL: Final = (
    Plant("ack-before-commit", "a kill takes what a reply told", _ack_before_commit),
    Plant("frontier-too-far", "a group in another region skips an entry", _frontier_too_far),
    Plant("dot-lost-on-restart", "an entry vanishes in one region", _dot_lost_on_restart),
    Plant("healthy-while-stale", "clients stay with a region that is no use", _healthy_while_stale),
)
PLANTS: Final = {one.name: one for one in _ALL}
