"""Regions that only append: what a node under measurement pulls from its peers.

A real peer would spend most of two cores on taking the same writes.  This one makes batches as a
region would, columns of appends under IDs of its own, and sends them over the real protocol; the
node checks, applies, logs and acknowledges them as it does any peer's.
"""

import asyncio
import contextlib
import multiprocessing
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import grpc

from benchmarks.nodes import KEY, RegionNode
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import AppendColumns, EffectBatch
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import SEQ_STRIDE, Millis, RegionId
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.core.wire.codec import encode_batch
from crdtstream.region.links.messages import Batches, Progress, Standing, Welcome
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.replication.wire import BatchPacker, decode_ack, decode_open, encode_response
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc

BATCH_ENTRIES: Final = 1_000
# Sent and not yet taken by the node.
WINDOW_BYTES: Final = 4 << 20
HEARTBEAT_SECONDS: Final = 0.5
MESSAGE_BYTES_MAX: Final = 64 << 20
BATCHES: Final = 32
FIRST_PORT: Final = 17_450
UID: Final = DatabaseUid(b"u" * UID_BYTES)
R2: Final = RegionId(2)


@dataclass(frozen=True, slots=True)
class Origin:
    """One of them.

    Attributes:
        entries: how many it appends, a multiple of BATCH_ENTRIES.
        shape: makes the fields of one; BATCHES batches are different, and come again and again.
    """

    region: RegionId
    key: bytes
    entries: int
    shape: Callable[[Random], list[bytes]]

    @property
    def standing(self) -> Standing:
        return Standing(DatabaseIdentity(UID, True), recovering=False, regains=False)

    def vv(self, entries: int) -> VersionVector:
        """With so many of its own."""
        return {self.region: entries} if entries else {}


class OriginService(rpc.ReplicationServicer):
    """Serves one origin's effects."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        draw = Random(origin.region)
        self._fields: list[tuple[bytes, array[int]]] = []
        for _ in range(BATCHES):
            fields = [encode_fields(origin.shape(draw)) for _ in range(BATCH_ENTRIES)]
            self._fields.append((b"".join(fields), array("I", map(len, fields))))
        self._last_ms = 0

    async def Sync(  # noqa: N802 - gRPC's name
        self,
        requests: AsyncIterator[pb.SyncRequest],
        context: "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]",
    ) -> None:
        """One link: all batches beyond what the node has, as fast as it takes them.

        A node that begins is ready when it has what its peers have: until then they have no more.
        """
        origin, packer = self._origin, BatchPacker()
        opening = decode_open((await anext(aiter(requests))).open)
        n = opening.vv.get(origin.region, 0)
        taken = _Taken(opening.region, opening.standing)
        offered = origin.entries if taken.is_ready else n
        welcome = Welcome(origin.region, 1, origin.vv(offered), origin.standing, own_n=0)
        await context.write(encode_response(welcome, packer))
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(taken.read(requests))
            sent_bytes, heartbeat_at = 0, 0.0
            while not reader.done():
                if taken.is_ready:
                    offered = origin.entries
                if time.monotonic() >= heartbeat_at:
                    heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
                    beat = Progress(origin.vv(offered), _now(), origin.standing)
                    await context.write(encode_response(beat, packer))
                if n >= offered or sent_bytes - taken.bytes >= WINDOW_BYTES:
                    taken.came.clear()
                    await _within(taken.came.wait(), HEARTBEAT_SECONDS)
                    continue
                batch = encode_batch(self._batch(n))
                n += BATCH_ENTRIES
                sent_bytes += len(batch)
                await context.write(encode_response(Batches([batch]), packer))

    def _batch(self, after_n: int) -> EffectBatch:
        # IDs grow by the time, as XADD's would.
        self._last_ms = ms = max(_now(), self._last_ms + 1)
        region, count = self._origin.region, BATCH_ENTRIES
        fields, lengths = self._fields[after_n // count % BATCHES]
        columns = AppendColumns(
            keys=[self._origin.key],
            key_index=array("I", bytes(4 * count)),
            ms=array("Q", [ms]) * count,
            seq=array("Q", range(region, region + count * SEQ_STRIDE, SEQ_STRIDE)),
            lengths=lengths,
            fields=fields,
        )
        return EffectBatch(region, after_n + 1, count, {}, _now(), columns, [])


class _Taken:
    """Figures that the node reports of itself, and that it has taken."""

    def __init__(self, region: RegionId, standing: Standing) -> None:
        self.bytes = 0
        self.came = asyncio.Event()
        self._region = region
        self._standing = standing

    @property
    def is_ready(self) -> bool:
        return not (self._standing.recovering or self._standing.regains)

    async def read(self, requests: AsyncIterator[pb.SyncRequest]) -> None:
        """Until the node goes."""
        async for request in requests:
            told = decode_ack(self._region, request)
            self.bytes, self._standing = told.taken_bytes, told.standing
            self.came.set()


async def _within(waiting: Awaitable[object], seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await waiting


def _now() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


async def _serve(origin: Origin) -> None:
    server = grpc.aio.server(options=(("grpc.max_send_message_length", MESSAGE_BYTES_MAX),))
    rpc.add_ReplicationServicer_to_server(OriginService(origin), server)
    server.add_insecure_port(address_of(origin.region))
    await server.start()
    try:
        await server.wait_for_termination()
    finally:
        await server.stop(0)


def address_of(region: RegionId) -> str:
    return f"127.0.0.1:{FIRST_PORT + region}"


def _run(origin: Origin) -> None:
    asyncio.run(_serve(origin))


@contextmanager
def origins(
    shape: Callable[[Random], list[bytes]], entries: int, regions: Sequence[RegionId] = (R2,)
) -> Iterator[dict[str, Any]]:
    """Regions with so many entries each, as processes; yields the settings of who pulls them."""
    assert not entries % BATCH_ENTRIES
    context = multiprocessing.get_context("spawn")
    made = [Origin(region, KEY, entries, shape) for region in regions]
    processes = [context.Process(target=_run, args=(origin,)) for origin in made]
    for process in processes:
        process.start()
    try:
        yield {
            "peers": [{"region": one, "address": address_of(one)} for one in regions],
            # They never pull: nothing is kept for them.
            "replication_backlog_size": 0,
        }
    finally:
        for process in processes:
            process.terminate()
            process.join()


def wait_for_entries(node: RegionNode, entries: int) -> None:
    """Until the node has pulled so many."""
    while node.client.xlen(KEY) < entries:
        time.sleep(0.5)
