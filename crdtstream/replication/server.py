"""Serving peers that pull: what lies beyond their version vector, from the log, then live.

A session stands at a row of the log and moves on; nothing is kept for it in memory but the
message under way.  A slow puller therefore costs disk, not memory: beyond a window of bytes that
it has not taken yet, its session rests.

Publications, which are in no log, have a bounded outbox of their own in each session
(``publications.py``), and take turns with the batches.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import grpc
import structlog

from crdtstream.core.clock import MutableVersionVector, VersionVector
from crdtstream.core.ids import Region
from crdtstream.core.wire.codec import encode_vv
from crdtstream.engine import Engine
from crdtstream.region.links.publications import PUBLICATION_BYTES_MAX, Outbox, Publication
from crdtstream.region.links.stats import ServeStats
from crdtstream.replication.errors import PeerError
from crdtstream.replication.gate import Gate
from crdtstream.replication.puller import Identity
from crdtstream.replication.wire import (
    PROTOCOL_VERSION,
    BatchPacker,
    Progress,
    Standing,
    checked_region,
    checked_vv,
    decode_progress,
    decode_standing,
    encode_progress,
    encode_publications,
    encode_standing,
)
from crdtstream.settings import Limits
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Logged
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc

logger = structlog.get_logger(__name__)

# Sent and not yet taken, uncompressed.
WINDOW_BYTES: Final = 8 << 20
# Between two messages of a live link: under load they gather more, an idle link waits for nothing.
SEND_SECONDS_MIN: Final = 0.002


@dataclass(slots=True, eq=False)
class Session:
    """One puller.

    Attributes:
        run_id: which start of the puller's node this is.
        sent_vv: what it has or was sent, per origin asked for.
        seq: the row of the log to look at next.
        outbox: publications that it is to be sent.
        told_vv: what the puller had, before this session, told to have durably.
        heartbeat_due: the puller should hear at once how this region stands.
        wake: something is in the log or the outbox, or was taken, or the session is over.
        is_over: the puller came anew, ended, or the node stops.
    """

    region: Region
    run_id: int
    origins: frozenset[Region]
    sent_vv: MutableVersionVector
    stats: ServeStats
    told_vv: VersionVector
    seq: int = 0
    sent_bytes: int = 0
    taken_bytes: int = 0
    heard: float = 0.0
    is_over: bool = False
    heartbeat_due: bool = False
    outbox: Outbox = field(default_factory=Outbox)
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def window_is_open(self) -> bool:
        return self.sent_bytes - self.taken_bytes < WINDOW_BYTES

    def pick(self, rows: Sequence[Logged]) -> list[bytes]:
        """The batches in these rows that the puller wants and has not got; counts them as sent."""
        picked = []
        for row in rows:
            record = row.record
            if record.batch is None or record.origin not in self.origins:
                continue
            if record.last_n > self.sent_vv.get(record.origin, 0):
                self.sent_vv[record.origin] = record.last_n
                self.stats.effects += record.last_n - record.first_n + 1
                picked.append(record.batch)
        return picked

    def end(self) -> None:
        self.is_over = True
        self.wake.set()


class ReplicationService(rpc.ReplicationServicer):
    """The ``Replication`` service of one node."""

    def __init__(
        self,
        identity: Identity,
        engine: Engine,
        peers: Sequence[Region],
        limits: Limits,
        gate: Gate,
    ) -> None:
        self.stats = {peer: ServeStats() for peer in peers}
        self._identity = identity
        self._engine = engine
        self._limits = limits
        self._gate = gate
        self._sessions: dict[Region, Session] = {}
        engine.on_logged.append(self._wake_all)
        gate.on_change.append(self._tell_all)
        if peers:
            channels = engine.database.channels
            channels.forward = self._publish
            channels.forward_bytes_max = PUBLICATION_BYTES_MAX

    def stop(self) -> None:
        """End all sessions: the node stops."""
        for session in self._sessions.values():
            session.end()

    def _wake_all(self) -> None:
        for session in self._sessions.values():
            session.wake.set()

    def _tell_all(self) -> None:
        for session in self._sessions.values():
            session.heartbeat_due = True
            session.wake.set()

    def _publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> None:
        """Send a publication to every peer that is linked; for the others it is lost."""
        publication = Publication(channel, payload, sharded, self._engine.replica.issued)
        for peer, stats in self.stats.items():
            session = self._sessions.get(peer)
            if session is None or session.is_over or not session.outbox.offer(publication):
                stats.publications_lost += 1
            else:
                session.wake.set()

    async def Sync(  # noqa: N802 - gRPC's name
        self,
        requests: AsyncIterator[pb.SyncRequest],
        context: "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]",
    ) -> None:
        """One link, from its Open on, until either side goes."""
        session = await self._open(requests, context)
        before = self._sessions.get(session.region)
        if before is not None:
            before.end()
        self._sessions[session.region] = session
        failure: tuple[grpc.StatusCode, str] | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read_acks(session, requests))
                await self._send(session, context)
                reader.cancel()
        except* PeerError as group:
            failure = (grpc.StatusCode.INVALID_ARGUMENT, str(group.exceptions[0]))
        except* StoreError as group:
            failure = (grpc.StatusCode.DATA_LOSS, str(group.exceptions[0]))
        finally:
            session.stats.publications_lost += session.outbox.close()
            if self._sessions.get(session.region) is session:
                del self._sessions[session.region]
        if failure is not None:
            logger.error("cannot serve a peer", peer=session.region, reason=failure[1])
            await context.abort(*failure)

    # --- Opening ------------------------------------------------------------------------------

    async def _open(
        self,
        requests: AsyncIterator[pb.SyncRequest],
        context: "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]",
    ) -> Session:
        """The session that a call asks for; one that may not be is refused with the reason."""
        request = await anext(aiter(requests), None)
        if request is None or request.WhichOneof("kind") != "open":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be open")
        assert request is not None
        opening = request.open
        refusal = self._refusal(opening)
        if refusal is not None:
            code, reason = refusal
            logger.warning("link refused", peer=opening.region, reason=reason)
            await context.abort(code, reason)
        region = Region(opening.region)
        try:
            vv = checked_vv(region, opening.vv)
            origins = frozenset(checked_region(region, origin) for origin in opening.origins)
            standing = decode_standing(region, opening.standing)
        except PeerError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        wrong_database = self._gate.readiness.note_database(region, standing.database)
        if wrong_database is not None:
            logger.warning("link refused", peer=region, reason=wrong_database)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, wrong_database)
        self._gate.look()
        # Before the Welcome, which is the answer: what is held unapplied goes.
        runs = self._gate.peer_runs
        runs.note_start(region, opening.run_id, recovering=standing.recovering)
        sent_vv = {origin: n for origin, n in vv.items() if origin in origins}
        told_vv = dict(self._engine.peer_vvs().get(region, {}))
        session = Session(region, opening.run_id, origins, sent_vv, self.stats[region], told_vv)
        session.heard = asyncio.get_running_loop().time()
        return session

    def _refusal(self, opening: pb.Open) -> tuple[grpc.StatusCode, str] | None:
        """Why there can be no link with this puller; None if there can."""
        own = self._identity
        if opening.protocol != PROTOCOL_VERSION:
            reason = (
                f"region {own.region} speaks link protocol {PROTOCOL_VERSION}, not "
                f"{opening.protocol}; run the same version everywhere"
            )
            return grpc.StatusCode.FAILED_PRECONDITION, reason
        if opening.database_id != own.database_id:
            reason = (
                f"region {own.region} holds database {own.database_id!r}, not "
                f"{opening.database_id!r}; correct database_id, or the peer's address"
            )
            return grpc.StatusCode.FAILED_PRECONDITION, reason
        if opening.region == own.region:
            reason = f"both sides are region {own.region}; each region needs a number of its own"
            return grpc.StatusCode.FAILED_PRECONDITION, reason
        if opening.region not in self.stats:
            reason = (
                f"region {opening.region} is no peer of region {own.region}; add it to its peers"
            )
            return grpc.StatusCode.PERMISSION_DENIED, reason
        linked = self._sessions.get(Region(opening.region))
        if linked is not None and not linked.is_over and linked.run_id != opening.run_id:
            # Two nodes that number effects as one region would give the same dots to different
            # ones.  A node that was restarted is let in: its old link ended with its process.
            reason = (
                f"another node is linked to region {own.region} as region {opening.region}; "
                "stop one of the two, or give it a region number of its own"
            )
            return grpc.StatusCode.ALREADY_EXISTS, reason
        return None

    # --- Reading ------------------------------------------------------------------------------

    async def _read_acks(self, session: Session, requests: AsyncIterator[pb.SyncRequest]) -> None:
        loop = asyncio.get_running_loop()
        async for request in requests:
            if request.WhichOneof("kind") != "ack":
                raise PeerError(session.region, "only acks may follow open")
            progress = decode_progress(session.region, request.ack)
            session.heard = loop.time()
            if progress.taken_bytes > session.taken_bytes:
                session.taken_bytes = progress.taken_bytes
                session.wake.set()
            if session.outbox.note_taken(progress.taken_publication_bytes):
                session.wake.set()
            self._engine.learn_peer_vv(session.region, progress.durable_vv)
            for region, vv in progress.others.items():
                self._engine.learn_peer_vv(region, vv)
            self._take_standing(session, progress.standing)
        session.end()

    def _take_standing(self, session: Session, standing: Standing) -> None:
        wrong_database = self._gate.readiness.note_database(session.region, standing.database)
        if wrong_database is not None:
            raise PeerError(session.region, wrong_database)
        self._gate.look()
        runs = self._gate.peer_runs
        runs.note(session.region, session.run_id, recovering=standing.recovering)

    # --- Sending ------------------------------------------------------------------------------

    async def _send(
        self,
        session: Session,
        context: "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]",
    ) -> None:
        """Send until the session is over; the only task that writes to the call."""
        loop = asyncio.get_running_loop()
        heartbeat_seconds = self._limits.heartbeat_interval_ms / 1000
        silence_seconds = self._limits.link_silence_ms_max / 1000
        packer = BatchPacker()
        session.seq = await self._engine.log.seek(session.sent_vv, session.origins)
        await context.write(self._welcome(session))
        next_heartbeat = 0.0
        while not session.is_over:
            now = loop.time()
            if now - session.heard > silence_seconds:
                logger.warning("puller is silent: its session ends", peer=session.region)
                return
            if now >= next_heartbeat or session.heartbeat_due:
                session.heartbeat_due = False
                await context.write(self._heartbeat())
                next_heartbeat = now + heartbeat_seconds
            session.wake.clear()
            sent = session.window_is_open and await self._send_some(session, context, packer)
            if await self._send_publications(session, context) or sent:
                await asyncio.sleep(SEND_SECONDS_MIN)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_heartbeat):
                    await session.wake.wait()

    async def _send_some(
        self,
        session: Session,
        context: "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]",
        packer: BatchPacker,
    ) -> bool:
        """Send the next message; returns whether there were rows to look at."""
        rows = await self._engine.log.read_from(
            session.seq, bytes_max=self._limits.link_message_bytes_target
        )
        if session.origins - {self._identity.region}:
            # Relayed: only what this region cannot lose, as others rely on its answer (rule 18).
            rows = [row for row in rows if row.seq <= self._engine.durable_seq]
        if not rows:
            return False
        session.seq = rows[-1].seq + 1
        batches = session.pick(rows)
        if batches:
            packed = packer.pack(batches)
            size = sum(map(len, batches))
            session.sent_bytes += size
            session.stats.batches += len(batches)
            session.stats.bytes_uncompressed += size
            session.stats.bytes_wire += len(packed)
            await context.write(pb.SyncResponse(batches=pb.Batches(zstd=packed)))
        return True

    async def _send_publications(
        self,
        session: Session,
        context: "grpc.aio.ServicerContext[pb.SyncRequest, pb.SyncResponse]",
    ) -> bool:
        """Send what the outbox lets go; returns whether there was anything."""
        region = self._identity.region
        publications = session.outbox.take(session.sent_vv.get(region, 0))
        if publications:
            session.stats.publications += len(publications)
            await context.write(
                pb.SyncResponse(publications=encode_publications(region, publications))
            )
        return bool(publications)

    def _standing(self) -> Standing:
        return Standing(self._gate.database, self._gate.is_asking)

    def _welcome(self, session: Session) -> pb.SyncResponse:
        return pb.SyncResponse(
            welcome=pb.Welcome(
                protocol=PROTOCOL_VERSION,
                region=self._identity.region,
                vv=encode_vv(self._engine.logged_vv),
                run_id=self._identity.run_id,
                standing=encode_standing(self._standing()),
                # What is applied and not in the log yet will be there: it counts.
                own_n=self._engine.replica.vv.get(session.region, 0),
                told_vv=encode_vv(session.told_vv),
            )
        )

    def _heartbeat(self) -> pb.SyncResponse:
        engine = self._engine
        others: dict[Region, VersionVector] = dict(engine.peer_vvs())
        progress = Progress(engine.durable_vv, engine.now(), self._standing(), others)
        return pb.SyncResponse(heartbeat=encode_progress(progress))
