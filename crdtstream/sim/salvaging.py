"""``crdtstream crdb salvage`` in a simulated world: the real salvage, without the calls between."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.core.effects import Numbered
from crdtstream.core.ids import ID_MAX, ID_MIN, Millis, RegionId
from crdtstream.core.producers.numbered import StaleBatchError
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import BatchError, unpack
from crdtstream.query.append_rows import append_numbered, checked_rows
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.violation import ViolationError
from crdtstream.spark.connecting import StaleAppendError
from crdtstream.store.errors import StoreError
from crdtstream.upkeep.counting import (
    Beyond,
    Known,
    NotCountedError,
    Running,
    beyond_of,
    count_of,
)
from crdtstream.upkeep.salvage import Salvage
from crdtstream.upkeep.stranded import stranded_in
from crdtstream.v1 import query_pb2

# Errors of a salvage that was killed before its end.
ERRORS: Final = (CommandError, BatchError, StoreError)


@dataclass(frozen=True, slots=True)
class _Column:
    values: list[bytes | None]

    def to_pylist(self) -> list[bytes | None]:
        return self.values


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of entries, as a scan reports them."""

    columns: dict[str, _Column]

    def column(self, name: str) -> _Column:
        return self.columns[name]


@dataclass(frozen=True, slots=True)
class _Reached:
    """A region, as a salvage reaches it."""

    node: SimNode

    def append(self, request: query_pb2.AppendRequest) -> query_pb2.AppendReply:
        first = Numbered(request.producer, request.batch, request.first_row)
        rows = checked_rows(first, unpack("I", request.lengths, field="lengths"), request.fields)
        found: list[int] = []

        def append(replica: Replica, now: Millis) -> int:
            found.append(append_numbered(replica, now, request.key, first, rows))
            return found[-1]

        try:
            self.node.change(append, writes=len(rows))
        except StaleBatchError as error:
            raise StaleAppendError(str(error)) from error
        return query_pb2.AppendReply(appended=found[-1], known=len(rows) - found[-1])

    def streams(self, patterns: Sequence[bytes]) -> Iterable[query_pb2.StreamDescription]:
        (key,) = patterns
        stream = self.node.region.replica.keys.held_stream(key)
        lanes = [] if stream is None else sorted(stream.lanes)
        return [
            query_pb2.StreamDescription(
                key=key, lanes=[query_pb2.LaneDescription(origin=one) for one in lanes]
            )
        ]

    def scan(self, request: query_pb2.ScanRequest) -> Iterator[_Names]:
        with self.node.looking():
            stream = self.node.region.replica.keys.held_stream(request.key)
            assert stream is not None
            lane = stream.lanes[RegionId(request.origin)]
            names = [macro.idempotent_at(at) for _, macro, at in lane.scan(ID_MIN, ID_MAX)]
        yield _Names(
            {
                "producer": _Column([None if one is None else one.producer for one in names]),
                "idempotent_id": _Column([None if one is None else one.id for one in names]),
            }
        )


def salvage(removed: Replica, into: SimNode, *, streams_max: int) -> list[bytes]:
    """Append again the entries that only the folder of a removed region has, of any origin.

    Args:
        removed: the replica, as its folder says.
        streams_max: number of streams of an origin behind which it is killed.

    Returns:
        Keys of the streams that it reached.

    Raises:
        ViolationError: an entry is missing after it.
    """
    members, there = into.region.membership.known, _running(into)
    folder = Known(dict(removed.vv), removed.lineages, removed.histories.points())
    keys: list[bytes] = []
    for origin in sorted(folder.vv):
        try:
            count = count_of(origin, members, folder, there)
        except NotCountedError:
            # It is run again later.
            break
        if count.apart is not None:
            # Folders that nothing tells apart are in worlds of their own.
            continue
        for beyond in beyond_of(origin, count, folder):
            keys += _append(removed, into, beyond, streams_max)
    return keys


def _running(node: SimNode) -> Running:
    """Knowledge of a region, as operators read it."""
    replica, membership = node.region.replica, node.region.membership
    known, final = membership.known, membership.cuts.final
    return Running(
        dict(replica.vv),
        replica.lineages,
        replica.histories.points(),
        {region: final.get(region) for region in known.removed},
        known.epoch,
        known.hash,
        frozenset(one.region for one in known.regions),
    )


def _append(removed: Replica, into: SimNode, beyond: Beyond, streams_max: int) -> list[bytes]:
    """Append the entries of these effects; keys of the streams that were reached."""
    uid = into.region.replica.database_uid.hex()
    job = Salvage(_Reached(into), beyond.origin, uid, beyond.incarnation)
    keys = []
    with removed.residency.in_place():
        for key, entries in list(stranded_in(removed, beyond))[:streams_max]:
            try:
                done = job.append(key, entries)
            except ERRORS:
                break
            keys.append(key)
            if done.appended + done.known != len(entries):
                raise ViolationError(
                    f"I13: of {len(entries)} entries of region {beyond.origin} in {key!r} that only"
                    f" region {removed.region} has, {done} were salvaged into region {into.number}"
                )
    return keys
