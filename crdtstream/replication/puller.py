"""A pulling link: the loop of calls around the state machine in ``link.py``.

One session is one ``Sync`` call: a task that receives, one that acknowledges, one that watches for
silence and for reasons to begin again.  The first of them that ends, ends the session; its reason
becomes an event of the link.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

import grpc
import structlog

from crdtstream.core.clock import join, missing
from crdtstream.core.ids import Millis, Region
from crdtstream.core.inbox import Inbox
from crdtstream.core.wire.codec import encode_vv
from crdtstream.engine import Engine
from crdtstream.region.links.link import (
    BackoffOver,
    CaughtUp,
    Failed,
    Link,
    LinkEvent,
    LinkState,
    Pause,
    Refused,
    Reopen,
    Resume,
    Welcomed,
)
from crdtstream.region.links.publications import Arrived
from crdtstream.region.links.readiness import Answer
from crdtstream.region.links.routes import Routes
from crdtstream.region.links.stats import PullStats
from crdtstream.replication.applier import Applier, Arrivals
from crdtstream.replication.errors import PeerError, RefusedError
from crdtstream.replication.gate import Gate
from crdtstream.replication.wire import (
    PROTOCOL_VERSION,
    BatchUnpacker,
    Progress,
    Standing,
    checked_batch,
    checked_publications,
    checked_vv,
    decode_progress,
    decode_standing,
    encode_progress,
    encode_standing,
)
from crdtstream.settings import Limits
from crdtstream.v1 import replication_pb2 as pb
from crdtstream.v1 import replication_pb2_grpc as rpc

Call: TypeAlias = "grpc.aio.StreamStreamCall[pb.SyncRequest, pb.SyncResponse]"

logger = structlog.get_logger(__name__)

# Acks are gathered for so long: a busy link would otherwise send one per commit.
ACK_SECONDS_MIN: Final = 0.005
# How often a session looks at its routes and at silence.
WATCH_SECONDS: Final = 0.1
# Added to a message's batches by protobuf and compression at worst, generously.
FRAMING_BYTES_MAX: Final = 1 << 20

REFUSALS: Final = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
)


class InterruptedSessionError(Exception):
    """The session is to end for a reason that is no failure: paused, or other origins wanted."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are to peers; ``run_id`` differs from one start of the node to the next."""

    region: Region
    database_id: str
    run_id: int

    @classmethod
    def new(cls, region: Region, database_id: str) -> "Identity":
        return cls(region, database_id, secrets.randbits(63))


class Puller:
    """The link by which this region pulls from one peer."""

    def __init__(
        self,
        peer: Region,
        address: str,
        *,
        identity: Identity,
        engine: Engine,
        applier: Applier,
        routes: Routes,
        gate: Gate,
        limits: Limits,
        random: Random,
    ) -> None:
        self.peer = peer
        self.address = address
        self.stats = PullStats()
        self.origins = frozenset({peer})
        self.link = Link(
            random.uniform,
            backoff_ms_min=limits.backoff_ms_min,
            backoff_ms_max=limits.backoff_ms_max,
        )
        self._identity = identity
        self._engine = engine
        self._applier = applier
        self._routes = routes
        self._gate = gate
        self._peer_run = 0
        self._asked = False
        self._limits = limits
        self._unpacker = BatchUnpacker(peer, bytes_max=limits.batch_bytes_max)
        self._ack_due = asyncio.Event()
        self._changed = asyncio.Event()
        self._rejected: str | None = None
        self._is_interrupted = False
        self._heard = 0.0
        self._is_reading = False
        self._taken_bytes = 0
        self._logged_error = ""
        self._made_ms = engine.now()
        inbox = Inbox(
            engine.replica,
            batches_max=limits.inbox_batches_max,
            bytes_max=limits.inbox_bytes_max,
        )
        self.arrivals = Arrivals(peer, inbox, self.stats, self._note_durable, self._reject)
        self._publications = Arrived()
        applier.add(self.arrivals)
        gate.on_change.append(self._ack_due.set)
        gate.on_recovering.append(self.reopen)

    # --- From outside -------------------------------------------------------------------------

    def pause(self) -> None:
        """Pull nothing until ``resume``; what waits in the inbox is forgotten, and comes again."""
        self._is_interrupted = True
        self._feed(Pause())
        self.arrivals.inbox.discard()
        self._publications.clear()

    def resume(self) -> None:
        self._feed(Resume())

    def reopen(self) -> None:
        """Begin the session again, and forget what it brought and was not applied yet."""
        self._is_interrupted = True
        self.arrivals.inbox.discard()
        self._changed.set()

    def note_held(self, origin: Region) -> None:
        """The effects of an origin are held from now on, or are not any more."""
        if origin in self.origins:
            self.reopen()
        else:
            self._changed.set()

    @property
    def lag_effects(self) -> int:
        """What the peer is known to have of the origins asked for, and is not applied here.

        Known from the link itself, and, while it is paused or down, from the peer's acks.
        """
        known = dict(self.stats.peer_vv)
        join(known, self._engine.peer_vvs().get(self.peer, {}))
        wanted = {region: n for region, n in known.items() if region in self.origins}
        return missing(self._engine.replica.vv, wanted)

    @property
    def lag_ms(self) -> int:
        """How late the newest batch was; of a link that is not up, how long nothing was heard."""
        if not self.lag_effects:
            return 0
        if self.link.is_up:
            return self.stats.lag.newest
        # A link that was never up has heard nothing since the node started.
        heard_ms = self.stats.heard_ms or self._made_ms
        return max(self.stats.lag.newest, self._engine.now() - heard_ms)

    # --- The loop -----------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep the link for as long as the node lives."""
        while True:
            self._changed.clear()
            match self.link.state:
                case LinkState.PAUSED:
                    await self._changed.wait()
                case LinkState.WAITING | LinkState.REFUSED:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.link.backoff_seconds()):
                            await self._changed.wait()
                    self._feed(BackoffOver())
                case LinkState.CONNECTING | LinkState.CATCHING_UP | LinkState.LIVE:
                    assert self.link.state is LinkState.CONNECTING
                    self._feed(await self._session())

    def _feed(self, event: LinkEvent) -> None:
        before = self.link.state
        if not self.link.feed(event):
            return
        self._changed.set()
        after = self.link.state
        self._routes.note(
            self.peer,
            is_up=self.link.is_up,
            paused=after is LinkState.PAUSED,
            now=self._engine.now(),
        )
        log = logger.bind(peer=self.peer, address=self.address)
        match event:
            # A peer that stays away is told of once, not at each attempt.
            case Failed(reason) | Refused(reason) if reason != self._logged_error:
                self._logged_error = reason
                log.warning("link down", reason=reason)
            case CaughtUp():
                self._logged_error = ""
                log.info("link live", origins=sorted(self.origins))
            case _:
                log.debug("link", before=before.value, after=after.value)

    def _reject(self, reason: str) -> None:
        self._rejected = reason
        self._changed.set()

    async def _session(self) -> LinkEvent:
        """One call from its beginning to its end; returns what that means to the link."""
        self.origins = self._routes.wanted(self.peer, self._engine.now())
        self._rejected = None
        self._is_interrupted = False
        self._taken_bytes = 0
        self._is_reading = True
        self._heard = asyncio.get_running_loop().time()
        self.arrivals.inbox.discard()
        self._publications.clear()
        try:
            async with self._call() as call, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(call))
                tasks.create_task(self._acknowledge(call))
                # Watching is the body, not a task: only so does Python 3.11 keep count of who
                # cancelled whom, which is looked at below.
                await self._watch()
        except BaseExceptionGroup as group:
            # A TaskGroup that is cancelled forgets it if a task fails on its way out.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError from group
            event = self._event_of(group)
            if isinstance(event, Refused):
                readiness = self._gate.readiness
                note = readiness.note_duplicate if _is_duplicate(group) else readiness.note_refusal
                note(self.peer, event.reason)
                self._gate.look()
            return event
        raise AssertionError("a session ends by an exception")

    def _event_of(self, group: BaseExceptionGroup[BaseException]) -> LinkEvent:
        """The reason why a session ended; bugs and cancellation go on upwards."""
        known, others = group.split((InterruptedSessionError, PeerError, grpc.RpcError))
        if others is not None:
            raise others
        assert known is not None
        errors = list(known.exceptions)
        for kind in (InterruptedSessionError, RefusedError, PeerError, grpc.RpcError):
            for error in errors:
                if isinstance(error, kind):
                    return _event_of_error(error)
        raise AssertionError(errors)

    @contextlib.asynccontextmanager
    async def _call(self) -> AsyncIterator[Call]:
        bytes_max = self._limits.batch_bytes_max + FRAMING_BYTES_MAX
        silence_ms = self._limits.link_silence_ms_max
        options = (
            ("grpc.max_receive_message_length", bytes_max),
            ("grpc.keepalive_time_ms", max(1_000, silence_ms)),
            ("grpc.keepalive_timeout_ms", silence_ms),
            ("grpc.http2.max_pings_without_data", 0),
            # One connection per session, without gRPC's own pauses between attempts: ours count.
            ("grpc.use_local_subchannel_pool", 1),
        )
        async with grpc.aio.insecure_channel(self.address, options=options) as channel:
            call = rpc.ReplicationStub(channel).Sync(wait_for_ready=False)
            try:
                yield call
            finally:
                call.cancel()

    def _standing(self) -> Standing:
        return Standing(self._gate.database, self._gate.is_asking)

    def _open_request(self) -> pb.SyncRequest:
        self._asked = self._gate.is_asking
        return pb.SyncRequest(
            open=pb.Open(
                protocol=PROTOCOL_VERSION,
                region=self._identity.region,
                database_id=self._identity.database_id,
                origins=sorted(self.origins),
                vv=encode_vv(self._engine.replica.vv),
                run_id=self._identity.run_id,
                standing=encode_standing(self._standing()),
            )
        )

    # --- Receiving ----------------------------------------------------------------------------

    async def _receive(self, call: Call) -> None:
        loop = asyncio.get_running_loop()
        while True:
            message = await call.read()
            if message is grpc.aio.EOF:
                raise PeerError(self.peer, "ended the call")
            if not isinstance(message, pb.SyncResponse):
                # gRPC gives None for bytes that are no message of this kind.
                raise PeerError(self.peer, "a message that cannot be read; is it a region node?")
            self._heard = loop.time()
            match message.WhichOneof("kind"):
                case "batches":
                    await self._take_batches(message.batches.zstd)
                case "heartbeat":
                    self._take_progress(decode_progress(self.peer, message.heartbeat))
                case "welcome":
                    self._take_welcome(message.welcome)
                case "publications":
                    self._take_publications(message.publications)
                case _:
                    raise PeerError(self.peer, "a message of a kind this version does not know")

    def _take_welcome(self, welcome: pb.Welcome) -> None:
        if welcome.region != self.peer:
            raise RefusedError(
                self.peer,
                f"{self.address} is region {welcome.region}, not region {self.peer}; "
                "correct the peer's address",
            )
        self.stats.peer_vv = checked_vv(self.peer, welcome.vv)
        standing = decode_standing(self.peer, welcome.standing)
        self._note_database(standing)
        readiness = self._gate.readiness
        readiness.note_welcome(self.peer)
        if self._asked:
            told_vv = checked_vv(self.peer, welcome.told_vv)
            answer = Answer(welcome.own_n, self.stats.peer_vv, told_vv)
            self._gate.note_answer(self.peer, answer)
        self._feed(Welcomed())
        self._look_at_own_effects()
        self._peer_run = welcome.run_id
        runs = self._gate.peer_runs
        runs.note_start(self.peer, self._peer_run, recovering=standing.recovering)

    def _note_database(self, standing: Standing) -> None:
        refusal = self._gate.readiness.note_database(self.peer, standing.database)
        if refusal is not None:
            raise RefusedError(self.peer, refusal)

    def _take_progress(self, progress: Progress) -> None:
        now = self._engine.now()
        self.stats.heard_ms = now
        self._note_skew(progress.now - now)
        self.stats.peer_vv = progress.durable_vv
        self._engine.learn_peer_vv(self.peer, progress.durable_vv)
        for region, vv in progress.others.items():
            self._engine.learn_peer_vv(region, vv)
        self._note_database(progress.standing)
        self._look_at_own_effects()
        runs = self._gate.peer_runs
        runs.note(self.peer, self._peer_run, recovering=progress.standing.recovering)
        self._hand_out_publications()
        if self.link.state is LinkState.CATCHING_UP and self.lag_effects == 0:
            self._feed(CaughtUp())

    def _note_skew(self, skew_ms: int) -> None:
        """Report a clock that is far from ours, once until it is near again."""
        far = self._limits.skew_warning_ms
        if far and abs(skew_ms) > far >= abs(self.stats.clock_skew_ms):
            logger.warning("clocks differ", peer=self.peer, skew_ms=skew_ms)
        self.stats.clock_skew_ms = skew_ms

    def _look_at_own_effects(self) -> None:
        """Stop issuing, or go on, by what the peers have of this region's effects."""
        readiness = self._gate.readiness
        readiness.note_known(self.peer, self.stats.peer_vv.get(self._identity.region, 0))
        self._routes.own_lost = readiness.are_lost(self._engine.replica.issued)
        self._gate.look()

    async def _take_batches(self, packed: bytes) -> None:
        if self._is_interrupted:
            return
        stats, arrivals = self.stats, self.arrivals
        encoded_batches = self._unpacker.unpack(packed)
        stats.bytes_wire += len(packed)
        for encoded in encoded_batches:
            batch = checked_batch(self.peer, encoded, self.origins)
            stats.batches += 1
            stats.effects += batch.count
            stats.bytes_uncompressed += len(encoded)
            arrivals.inbox.offer(batch, encoded)
        self._applier.wake()
        self._is_reading = False
        while arrivals.inbox.full:
            arrivals.progressed.clear()
            await arrivals.progressed.wait()
        self._is_reading = True
        self._heard = asyncio.get_running_loop().time()
        self._taken_bytes += sum(map(len, encoded_batches))
        self._ack_due.set()

    def _take_publications(self, message: pb.Publications) -> None:
        if self._is_interrupted:
            return
        for publication in checked_publications(self.peer, message):
            if not self._publications.offer(publication):
                raise PeerError(self.peer, "publications: more than their window allows")
        self._hand_out_publications()

    def _hand_out_publications(self) -> None:
        """Tell those who listen here what does not wait for effects of the peer any more."""
        applied_n = self._engine.replica.vv.get(self.peer, 0)
        for publication in self._publications.take(applied_n):
            self._engine.database.channels.hand_out(
                publication.channel, publication.payload, sharded=publication.sharded
            )
            self.stats.publications += 1
            self._ack_due.set()

    def _note_durable(self) -> None:
        """Something that came by this link has become durable."""
        self._hand_out_publications()
        self._ack_due.set()

    # --- Acknowledging ------------------------------------------------------------------------

    async def _acknowledge(self, call: Call) -> None:
        """Open, then say how far we are: soon after something became durable, and now and then.

        The only task that writes to the call.
        """
        await call.write(self._open_request())
        heartbeat_seconds = self._limits.heartbeat_interval_ms / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(heartbeat_seconds):
                    await self._ack_due.wait()
            self._ack_due.clear()
            progress = Progress(
                durable_vv=self._engine.durable_vv,
                now=self._engine.now(),
                others=self._engine.peer_vvs(),
                taken_bytes=self._taken_bytes,
                taken_publication_bytes=self._publications.taken_bytes,
                standing=self._standing(),
            )
            try:
                await call.write(pb.SyncRequest(ack=encode_progress(progress)))
            except asyncio.InvalidStateError:
                # The call is over; whoever receives hears why.
                return
            await asyncio.sleep(ACK_SECONDS_MIN)

    # --- Watching -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        """End the session when the peer is silent, its batches are bad, or others are wanted."""
        loop = asyncio.get_running_loop()
        silence_seconds = self._limits.link_silence_ms_max / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            if self._is_interrupted:
                raise InterruptedSessionError
            if self._rejected is not None:
                raise PeerError(self.peer, self._rejected)
            if self._is_reading and loop.time() - self._heard > silence_seconds:
                raise PeerError(self.peer, f"silent for {silence_seconds:g} s")
            self._ask_for_what_is_waited_for(self._engine.now())

    def _ask_for_what_is_waited_for(self, now: Millis) -> None:
        arrivals = self.arrivals
        since = arrivals.waits_since
        if since is not None and now - since > self._limits.inbox_wait_ms_max:
            arrivals.waits_since = now
            if self._routes.ask(self.peer, arrivals.inbox.waiting_for(), now):
                logger.info(
                    "batches wait for other origins: asking this peer for them too",
                    peer=self.peer,
                    origins=sorted(arrivals.inbox.waiting_for()),
                )
        # Only a link that is up begins again; another one asks for the right origins anyway.
        if self.link.is_up and self._routes.wanted(self.peer, now) != self.origins:
            raise InterruptedSessionError


def _is_duplicate(group: BaseExceptionGroup[BaseException]) -> bool:
    """Whether the peer refused because another node is this region."""
    refused = group.subgroup(
        lambda error: (
            isinstance(error, grpc.aio.AioRpcError)
            and error.code() is grpc.StatusCode.ALREADY_EXISTS
        )
    )
    return refused is not None


def _event_of_error(error: BaseException) -> LinkEvent:
    match error:
        case InterruptedSessionError():
            return Reopen()
        case RefusedError():
            return Refused(str(error))
        case grpc.aio.AioRpcError() if error.code() in REFUSALS:
            return Refused(error.details() or error.code().name)
        case grpc.aio.AioRpcError():
            return Failed(f"{error.code().name}: {error.details()}")
        case _:
            return Failed(str(error))
