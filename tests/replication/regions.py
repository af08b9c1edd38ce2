"""Regions in one process, on memory logs, with real gRPC links between them."""

import asyncio
import contextlib
import math
import secrets
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter_ns
from typing import Any

import grpc

from crdtstream.access.callers import Callers
from crdtstream.access.certified import CertificateGuard
from crdtstream.access.logins import Logins, one_user
from crdtstream.access.peer_calls import PeerCalls
from crdtstream.access.server_credentials import server_credentials
from crdtstream.certificates.watching import Certificates
from crdtstream.commands.reply import Reply
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.database.database import Waiting
from crdtstream.database.session import Session
from crdtstream.engine.assembling import assemble
from crdtstream.engine.engine import Engine
from crdtstream.machine.inputs import random_uid, wall_clock
from crdtstream.node.rights import RIGHTS
from crdtstream.node.trust import follow_authorities
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.links.pull import Pull
from crdtstream.region.links.serve import Serve
from crdtstream.region.opening import FolderState
from crdtstream.region.peers import Peer
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.runtime import Runtime
from crdtstream.replication.membership_client import Courier
from crdtstream.replication.membership_server import MembershipService
from crdtstream.replication.puller import Pullers
from crdtstream.replication.server import ReplicationService
from crdtstream.secrets.password_marks import password_mark
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.checkpoints import MemoryCheckpoints
from crdtstream.store.log import Fsync, Log, MemoryLog
from crdtstream.v1 import membership_pb2_grpc, replication_pb2_grpc
from tests.conftest import free_base_port
from tests.harness.driven import UID, Capture, Told
from tests.patience import until

# As quick as can be: tests wait for what happens, not for the clock.
LIMITS = RegionLimits(
    inbox_wait_ms_max=200,
    backoff_ms_min=10,
    backoff_ms_max=50,
    heartbeat_interval_ms=20,
    link_silence_ms_max=1_000,
)
# Where no link may end by itself: on a busy machine a second of silence says nothing.
PATIENT = replace(LIMITS, link_silence_ms_max=60_000)


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
        certificates: Certificates | None = None,
        check_s: float = math.inf,
    ) -> None:
        """A region that goes on with its log; not ``is_proven``: it recovers first.

        With certificates it speaks mutual TLS, as a node does.
        """
        self.certificates = certificates
        # Serial numbers of certificates that are refused here.
        self.revoked: set[int] = set()
        self.callers = (
            None if certificates is None else Callers(certificates, self.revoked.__contains__)
        )
        self.guard: CertificateGuard | None = None
        self._calls = PeerCalls(database_id, certificates=certificates)
        self._check_s = check_s
        self.number = RegionId(number)
        self.log = log or MemoryLog()
        self._capture = Capture()
        self._peers = {
            RegionId(peer): address for peer, address in addresses.items() if peer != number
        }
        self.address = addresses[number]
        self._identity = Identity(self.number, database_id, secrets.randbits(63))
        self._folder = FolderState(is_proven=is_proven, database=DatabaseIdentity(uid))
        self._limits = limits
        self._fsync = fsync
        self._password_mark = password_mark(password, database_id)
        self._has_begun = False

    async def begin(self) -> None:
        """Read the log; no links yet."""
        assembled = await assemble(
            self.log,
            # No checkpoint was made: a start reads the whole log.
            MemoryCheckpoints(MemoryLog()),
            self._folder,
            lambda known: Replica(self.number, peers=known),
            identity=self._identity,
            configured=self._peers,
            limits=self._limits,
            runtime=Runtime(
                now=wall_clock,
                encode=self._capture,
                clock=perf_counter_ns,
                uniform=Random(self.number).uniform,
                make_uid=random_uid,
            ),
        )
        self.region = assembled.region
        self.replica = self.region.replica
        self.engine = Engine(self.region, self.log, fsync=self._fsync)
        self.service = ReplicationService(
            self.engine, password_mark=self._password_mark, callers=self.callers
        )
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
        """The durable version vector of a peer, as known here."""
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
        self.region.changing_peers.change(self.engine.now(), peers, leaving=leaving)

    # --- Running ------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["LiveRegion"]:
        if not self._has_begun:
            await self.begin()
        pullers = Pullers(
            self.engine,
            batch_bytes_max=1 << 30,
            password_mark=self._password_mark,
            calls=self._calls,
            check_s=self._check_s,
        )
        self.guard = None if self.callers is None else self._guard(self.callers)
        guards = () if self.guard is None else (self.guard,)
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),), interceptors=guards)
        replication_pb2_grpc.add_ReplicationServicer_to_server(self.service, server)
        # Of the settings only the database's name is of use without a folder.
        settings = NodeSettings(
            region=self.number, dir=Path("none"), database_id=self._identity.database_id
        )
        letters = MembershipService(self.engine, settings, callers=self.callers)
        membership_pb2_grpc.add_MembershipServicer_to_server(letters, server)
        if self.callers is None:
            server.add_insecure_port(self.address)
        else:
            server.add_secure_port(self.address, server_credentials(self.callers.certificates))
        await server.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.engine.run())
                calling = [
                    tasks.create_task(pullers.run()),
                    tasks.create_task(Courier(self.engine, self._calls).run()),
                ]
                for guard in guards:
                    following = follow_authorities(guard.callers.certificates, guard, self.engine)
                    calling.append(tasks.create_task(following))
                try:
                    yield self
                finally:
                    for task in calling:
                        task.cancel()
                    self.engine.stop()
        finally:
            self.region.links.stop()
            await server.stop(grace=0)

    def _guard(self, callers: Callers) -> CertificateGuard:
        return CertificateGuard(
            callers,
            Logins(one_user(""), asks=lambda: False),
            rights=RIGHTS,
            is_member=lambda region: region in self.region.peers.addresses,
        )


def addresses(count: int = 3) -> dict[int, str]:
    base = free_base_port(count)
    return {number: f"127.0.0.1:{base + number}" for number in range(1, count + 1)}


@contextlib.asynccontextmanager
async def live_regions(regions: Iterable[LiveRegion]) -> AsyncIterator[list[LiveRegion]]:
    """All of them running."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(region.running()) for region in regions]


@contextlib.asynccontextmanager
async def meshed(count: int = 3, **settings: Any) -> AsyncIterator[list[LiveRegion]]:
    """Regions that are each other's peers, running, with the same settings."""
    where = addresses(count)
    async with live_regions(LiveRegion(number, where, **settings) for number in where) as regions:
        yield regions


async def converged(regions: Iterable[LiveRegion]) -> None:
    """Wait for equal version vectors, and see that digests are equal then."""
    regions = list(regions)
    await until(lambda: all(one.replica.vv == regions[0].replica.vv for one in regions))
    assert len({one.replica.digest() for one in regions}) == 1
