"""Regions in one process, on memory logs, with real gRPC links between them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from random import Random

import grpc

from crdtstream.core.ids import Region
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.database.database import Database
from crdtstream.engine import Engine
from crdtstream.region.links.readiness import DatabaseIdentity, Readiness
from crdtstream.region.links.routes import Routes
from crdtstream.replication.applier import Applier
from crdtstream.replication.gate import Gate, random_uid
from crdtstream.replication.puller import Identity, Puller
from crdtstream.replication.server import ReplicationService
from crdtstream.settings import Limits
from crdtstream.store.log import Log, MemoryLog
from crdtstream.v1 import replication_pb2_grpc
from tests.conftest import free_base_port

# As quick as can be: tests wait for what happens, not for the clock.
UID = DatabaseUid(bytes(range(16)))
LIMITS = Limits(
    inbox_wait_ms_max=200,
    backoff_ms_min=10,
    backoff_ms_max=50,
    heartbeat_interval_ms=20,
    link_silence_ms_max=1_000,
)
WAIT_SECONDS = 20.0


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.002)


class LiveRegion:
    """One region: replica, engine, links, gRPC server; a client of it is ``call``."""

    def __init__(
        self,
        number: int,
        addresses: Mapping[int, str],
        *,
        log: Log | None = None,
        database_id: str = "crdb",
        is_proven: bool = True,
        uid: DatabaseUid = UID,
        limits: Limits = LIMITS,
    ) -> None:
        """A region that goes on with its log; not ``is_proven``: it recovers first."""
        self.region = Region(number)
        self.log = log or MemoryLog()
        replica = Replica(self.region, peers=[Region(peer) for peer in addresses if peer != number])
        self.replica = replica
        peers = {Region(peer): address for peer, address in addresses.items() if peer != number}
        self.engine = Engine(replica, Database(replica), self.log, peers=list(peers))
        self.client = self.engine.database.open_session()
        self.applier = Applier(self.engine)
        identity = Identity.new(self.region, database_id)
        database = DatabaseIdentity(uid)
        readiness = Readiness(
            self.region,
            peers,
            database=database,
            is_proven=is_proven,
            has_effects=False,
            make_uid=random_uid,
        )
        self.gate = Gate(self.engine, readiness)
        if uid:
            self.gate.use_stored(database)
        self.service = ReplicationService(identity, self.engine, sorted(peers), limits, self.gate)
        self.routes = Routes(
            self.region,
            peers,
            now=self.engine.now(),
            relay_after_ms=limits.inbox_wait_ms_max,
            is_held=self.gate.peer_runs.is_held,
        )
        self.pullers = {
            peer: Puller(
                peer,
                address,
                identity=identity,
                engine=self.engine,
                applier=self.applier,
                routes=self.routes,
                gate=self.gate,
                limits=limits,
                random=Random(number),
            )
            for peer, address in peers.items()
        }
        self.gate.peer_runs.watch(puller.note_held for puller in self.pullers.values())
        self._address = addresses[number]

    def call(self, *argv: str) -> object:
        arguments = [argument.encode() for argument in argv]
        reply = self.engine.database.call(self.client, self.engine.now(), arguments)
        self.engine.settle()
        self.engine.schedule()
        return reply

    def add(self, count: int = 1, key: str = "s") -> None:
        """Append entries, each in a tick of its own if awaited between."""
        for _ in range(count):
            reply = self.call("XADD", key, "*", "field", "value")
            assert isinstance(reply, bytes), reply

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["LiveRegion"]:
        await self.engine.recover()
        await self.gate.follow()
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        replication_pb2_grpc.add_ReplicationServicer_to_server(self.service, server)
        server.add_insecure_port(self._address)
        await server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.engine.run())
                background = [
                    tasks.create_task(self.applier.run()),
                    tasks.create_task(self.gate.run()),
                ]
                background += [tasks.create_task(puller.run()) for puller in self.pullers.values()]
                try:
                    yield self
                finally:
                    for task in background:
                        task.cancel()
                    self.engine.stop()
        finally:
            self.service.stop()
            await server.stop(grace=0)


def addresses(count: int = 3) -> dict[int, str]:
    base = free_base_port(count)
    return {number: f"127.0.0.1:{base + number}" for number in range(1, count + 1)}


@contextlib.asynccontextmanager
async def live_regions(regions: Iterable[LiveRegion]) -> AsyncIterator[list[LiveRegion]]:
    """All of them running."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(region.running()) for region in regions]


async def converged(regions: Iterable[LiveRegion]) -> None:
    """Wait for equal version vectors, and see that digests are equal then."""
    regions = list(regions)
    await until(lambda: all(one.replica.vv == regions[0].replica.vv for one in regions))
    assert len({one.replica.digest() for one in regions}) == 1
