"""Regions in one process, on memory logs, with real gRPC links between them."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from random import Random
from time import perf_counter_ns

import grpc

from crdtstream.commands.reply import Reply
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.database.database import Database, Waiting
from crdtstream.database.session import Session
from crdtstream.engine import Engine
from crdtstream.machine import random_uid, wall_clock
from crdtstream.passwords import password_mark
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.links.pull import Pull
from crdtstream.region.links.readiness import DatabaseIdentity
from crdtstream.region.links.serve import Serve
from crdtstream.region.opening import FolderState
from crdtstream.region.peers import Peer, Peers
from crdtstream.region.region import Region
from crdtstream.replication.puller import Pullers
from crdtstream.replication.server import ReplicationService
from crdtstream.store.log import Fsync, Log, MemoryLog
from crdtstream.store.replay import replay_log
from crdtstream.v1 import replication_pb2_grpc
from tests.conftest import free_base_port
from tests.harness.driven import UID, Capture, Told

# As quick as can be: tests wait for what happens, not for the clock.
LIMITS = RegionLimits(
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
    """One region: its value, engine, links and gRPC server; a client of it is ``call``."""

    def __init__(
        self,
        number: int,
        addresses: Mapping[int, str],
        *,
        log: Log | None = None,
        database_id: str = "crdb",
        is_proven: bool = True,
        uid: DatabaseUid = UID,
        limits: RegionLimits = LIMITS,
        fsync: Fsync = Fsync.ALWAYS,
        password: str = "",
    ) -> None:
        """A region that goes on with its log; not ``is_proven``: it recovers first."""
        self.number = RegionId(number)
        self.log = log or MemoryLog()
        self._capture = Capture()
        self._peers = {
            RegionId(peer): address for peer, address in addresses.items() if peer != number
        }
        self._address = addresses[number]
        self._identity = Identity(self.number, database_id, secrets.randbits(63))
        self._folder = FolderState(is_proven=is_proven, database=DatabaseIdentity(uid))
        self._limits = limits
        self._fsync = fsync
        self._password_mark = password_mark(password, database_id)
        self._has_begun = False

    async def begin(self) -> None:
        """Read the log; no links yet."""
        self.replica = Replica(self.number, peers=list(self._peers))
        await replay_log(self.log, self.replica)
        self.region = Region(
            self.replica,
            Database(self.replica),
            seq=self.log.last_seq,
            folder=self._folder,
            now=wall_clock(),
            identity=self._identity,
            peers=Peers.at(self.number, self._peers),
            encode=self._capture,
            clock=perf_counter_ns,
            uniform=Random(self.number).uniform,
            make_uid=random_uid,
            limits=self._limits,
        )
        self.engine = Engine(self.region, self.log, fsync=self._fsync)
        self.service = ReplicationService(self.engine, password_mark=self._password_mark)
        self._client = Told(self.region)
        self._has_begun = True
        await self.engine.begin()

    def call(self, *argv: str) -> Reply | Waiting:
        """Run a command; its reply as the commands know it, before it is durable."""
        arguments = [argument.encode() for argument in argv]
        return self._capture.call(self._client.client, self.engine.now(), *arguments)

    def add(self, count: int = 1, key: str = "s") -> None:
        """Append entries, each in a tick of its own if awaited between."""
        for _ in range(count):
            reply = self.call("XADD", key, "*", "field", "value")
            assert isinstance(reply, bytes), reply

    @property
    def answers(self) -> list[Reply]:
        """Every reply so far."""
        return self._capture.replies

    @property
    def session(self) -> Session:
        return self._client.client.session

    # --- What tests look at -------------------------------------------------------------------

    @property
    def obstacle(self) -> str | None:
        return self.region.opening.obstacle

    @property
    def logged_vv(self) -> VersionVector:
        return self.region.outstanding.logged_vv

    @property
    def durable_vv(self) -> VersionVector:
        return self.region.outstanding.durable_vv

    @property
    def pulls(self) -> Mapping[RegionId, Pull]:
        return self.region.links.pulls

    @property
    def serves(self) -> Mapping[RegionId, Serve]:
        return self.region.links.serves

    def knows_of(self, peer: RegionId) -> VersionVector:
        """What it believes that a peer durably has."""
        return self.region.knowledge.of(peer)

    def pause(self, peer: RegionId) -> None:
        self.pulls[peer].pause(self.engine.now())

    def resume(self, peer: RegionId) -> None:
        self.pulls[peer].resume(self.engine.now())

    def change_peers(
        self,
        addresses: Mapping[int, str],
        *,
        joining: Collection[RegionId] = (),
        leaving: Collection[RegionId] = (),
    ) -> None:
        """The regions are at these addresses from now on."""
        peers = {
            RegionId(number): Peer(address, is_joining=RegionId(number) in joining)
            for number, address in addresses.items()
            if number != self.number
        }
        self.region.change_peers(self.engine.now(), peers, leaving=leaving)

    # --- Running ------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["LiveRegion"]:
        if not self._has_begun:
            await self.begin()
        pullers = Pullers(self.engine, batch_bytes_max=1 << 30, password_mark=self._password_mark)
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        replication_pb2_grpc.add_ReplicationServicer_to_server(self.service, server)
        server.add_insecure_port(self._address)
        await server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.engine.run())
                pulling = tasks.create_task(pullers.run())
                try:
                    yield self
                finally:
                    pulling.cancel()
                    self.engine.stop()
        finally:
            self.region.links.stop()
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
