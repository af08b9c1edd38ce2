"""The ``Admin`` service: this node's status, its links, its tunables, its digest, the members."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import grpc

from crdtstream.access.peer_calls import PeerCalls
from crdtstream.access.rights import CALLER_RIGHTS, may_see_keys
from crdtstream.admin.digests import Digests, DigestsError
from crdtstream.admin.flushing import FlushError, Flushing
from crdtstream.admin.group_progress import group_progress
from crdtstream.admin.links import LinksError, set_links
from crdtstream.admin.machine import machine_status
from crdtstream.admin.members import STATUSES, change_members, members_reply
from crdtstream.admin.repairs import repair
from crdtstream.admin.sealed_removal import SealedRemoval
from crdtstream.admin.tunables import Tunables, TuneError, TuneNotKnownError
from crdtstream.certificates.watching import Certificates
from crdtstream.commands.beyond_redis.version_vectors import encode_without_hashes
from crdtstream.commands.streams.xinfo import lag
from crdtstream.core.clock import join
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.member_changes import MembersError
from crdtstream.core.membership.revoked import serial_bytes
from crdtstream.core.uid import shown_uid
from crdtstream.core.wire.codec import encode_vv
from crdtstream.engine.engine import Engine
from crdtstream.engine.repairer import Repairer, RepairError
from crdtstream.region.bootstrap import Phase
from crdtstream.region.links.link import LinkState
from crdtstream.region.links.pull import Pull
from crdtstream.region.members.wishes import UndecidedError
from crdtstream.region.retention import Keeping
from crdtstream.secrets.aclfiles import Fault, PushError
from crdtstream.secrets.password_marks import password_mark
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.errors import StoreError
from crdtstream.v1 import admin_pb2 as pb
from crdtstream.v1 import admin_pb2_grpc as rpc

LINK_STATES: Final = {
    LinkState.CONNECTING: pb.LinkStatus.State.CONNECTING,
    LinkState.CATCHING_UP: pb.LinkStatus.State.UP,
    LinkState.LIVE: pb.LinkStatus.State.UP,
    LinkState.WAITING: pb.LinkStatus.State.BACKOFF,
    LinkState.REFUSED: pb.LinkStatus.State.REFUSED,
    LinkState.NEEDS_BOOTSTRAP: pb.LinkStatus.State.NEEDS_BOOTSTRAP,
    LinkState.PAUSED: pb.LinkStatus.State.PAUSED,
}
KEEPINGS: Final = {
    Keeping.NOTHING: pb.Kept.Keeping.NOTHING,
    Keeping.KEPT: pb.Kept.Keeping.KEPT,
    Keeping.AWAY: pb.Kept.Keeping.AWAY,
    Keeping.ONLY_COPY: pb.Kept.Keeping.ONLY_COPY,
    Keeping.GIVEN_UP: pb.Kept.Keeping.GIVEN_UP,
    Keeping.BOOTSTRAP: pb.Kept.Keeping.BOOTSTRAP,
    Keeping.STAGING: pb.Kept.Keeping.STAGING,
}
PHASES: Final = {
    Phase.IDLE: pb.BootstrapStatus.Phase.IDLE,
    Phase.COPYING: pb.BootstrapStatus.Phase.COPYING,
    Phase.MERGING: pb.BootstrapStatus.Phase.MERGING,
    Phase.SAVING: pb.BootstrapStatus.Phase.SAVING,
}

PUSH_FAULTS: Final = {
    Fault.CONTENT: grpc.StatusCode.INVALID_ARGUMENT,
    Fault.NODE: grpc.StatusCode.FAILED_PRECONDITION,
    Fault.DISK: grpc.StatusCode.UNAVAILABLE,
}

# A region that is to be removed is waited for no longer than this.
SEALED_SECONDS_MAX: Final = 24 * 3600.0
# Nor are others that are to get the deletes of a flush.
FLUSH_SECONDS_MAX: Final = 24 * 3600.0
# Number of calls that walk through the state at a time, turn by turn.
DIGESTS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of a node that the service looks at.

    Attributes:
        backup: a consistent cut of the folder as it is now, in pieces.
        repairer: replaces a key that is damaged.
        users: the users of the node.
        calls: to the other regions.
        certificates: of this node; None: it has none.
    """

    settings: NodeSettings
    engine: Engine
    tunables: Tunables
    version: str
    started_ms: Millis
    clients: Callable[[], int]
    log_bytes: Callable[[], int]
    backup: Callable[[], AsyncGenerator[pb.BackupPiece, None]]
    repairer: Repairer
    calls: PeerCalls
    users: "NodeUsers"
    certificates: Certificates | None = None


class NodeUsers(Protocol):
    """Users of a node, as far as operators push them."""

    @property
    def epoch(self) -> int:
        """Epoch of the aclfile that was pushed last; 0: none was."""

    def count_and_hash(self) -> tuple[int, str]:
        """Number of users, and a short hash of them."""

    def push(
        self,
        content: bytes,
        epoch: int,
        *,
        only_check: bool,
        caller: bytes | None,
        may_lock_out: bool,
    ) -> tuple[int, str]:
        """Have the users of an aclfile.

        Args:
            caller: the user that pushes it; None: it has logged in otherwise.
            may_lock_out: also if nobody, or not the caller, could administer the node then.

        Returns:
            As ``count_and_hash`` of the users that the node has then, or would have.

        Raises:
            PushError: the text says why nothing has changed.
        """


class AdminService(rpc.AdminServicer):
    """Answers for one node."""

    def __init__(self, parts: NodeParts) -> None:
        self._parts = parts
        self._region = parts.engine.region
        self._now = parts.engine.now
        self._is_backing_up = False
        self._digests_asked = 0
        self._is_flushing = False

    async def Status(  # noqa: N802 - gRPC's name
        self,
        request: pb.StatusRequest,
        context: "grpc.aio.ServicerContext[pb.StatusRequest, pb.StatusReply]",
    ) -> pb.StatusReply:
        if (request.with_streams or request.with_digest) and not may_see_keys(CALLER_RIGHTS.get()):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "streams and digests name keys: this user needs the rights +info and +keys",
            )
        try:
            # Digests and counts may need entries that are on disk only.
            return await self._parts.engine.read(lambda: self._status(request))
        except UnreadableError:
            # All else is the more wanted when the disk is damaged.
            return self.status()

    def status(self) -> pb.StatusReply:
        """The reply to a request that asks for nothing that takes time."""
        return self._status(pb.StatusRequest())

    def _status(self, request: pb.StatusRequest) -> pb.StatusReply:
        parts, settings = self._parts, self._parts.settings
        region = self._region
        replica = region.replica
        inbox_batches, inbox_bytes = region.links.waiting
        return pb.StatusReply(
            region=replica.region,
            database_id=settings.database_id,
            database_uid=shown_uid(replica.database_uid),
            version=parts.version,
            started_ms=parts.started_ms,
            now_ms=self._now(),
            pid=os.getpid(),
            resp_address=settings.resp_address,
            grpc_address=settings.grpc_address,
            http_address=settings.http_address,
            resp_tls=not settings.resp_port,
            http_tls=settings.tls_http,
            certificate_serial=self._certificate_serial(),
            machine=machine_status(),
            vv=encode_vv(replica.vv),
            durable_vv=encode_vv(region.outstanding.durable_vv),
            digest=replica.digest().decode() if request.with_digest else "",
            links=self._links(),
            tunables=self._tunables(),
            fault=region.refuses_writes or "",
            keys=len(replica),
            clients=parts.clients(),
            effects_issued=replica.issued,
            ack_effects_issued=replica.frontier_count,
            acks_by_clients=replica.acknowledged_count,
            log_bytes=parts.log_bytes(),
            streams=self._streams() if request.with_streams else [],
            inbox_batches=inbox_batches,
            inbox_bytes=inbox_bytes,
            storage=self._storage(),
            password_mark=password_mark(settings.requirepass, settings.database_id),
            bootstrap=self._bootstrap(),
            cuts=encode_vv({origin: end.last_n for origin, end in replica.ends.items()}),
            member_status=self._member_status(),
            leaving=self._leaving(),
            lacks_votes=not region.membership.part.may_vote,
            incarnations=region.numbering.said(),
            histories=region.compared.said(),
            incarnation=0 if region.numbering.own is None else region.numbering.own.number,
            token=encode_without_hashes(replica, replica.vv).decode(),
            users_hash=parts.users.count_and_hash()[1],
            users_epoch=parts.users.epoch,
            durable_token=encode_without_hashes(replica, region.outstanding.durable_vv).decode(),
        )

    async def PushUsers(  # noqa: N802
        self,
        request: pb.PushUsersRequest,
        context: "grpc.aio.ServicerContext[pb.PushUsersRequest, pb.PushUsersReply]",
    ) -> pb.PushUsersReply:
        try:
            count, users_hash = self._parts.users.push(
                request.aclfile,
                request.epoch,
                only_check=request.only_check,
                caller=CALLER_RIGHTS.get().user,
                may_lock_out=request.may_lock_out,
            )
        except PushError as error:
            await context.abort(PUSH_FAULTS[error.fault], str(error))
        return pb.PushUsersReply(users=count, users_hash=users_hash)

    def _certificate_serial(self) -> bytes:
        """Of the certificate by which other regions know this one; empty: there is none."""
        used = self._parts.calls.certificates
        return b"" if used is None else serial_bytes(used.current.serial)

    def _leaving(self) -> list[pb.LeavingRegion]:
        cuts = self._region.membership.cuts
        # A removed region hears no words of others, so it does not look for its own cut.
        leaving = sorted(cuts.leaving - {self._region.replica.region})
        return [pb.LeavingRegion(region=one, silent=cuts.missing(one)) for one in leaving]

    def _member_status(self) -> "pb.MemberStatus.Status":
        """Status of this region as a member, as far as it knows itself."""
        member = self._region.membership.known.find(self._region.replica.region)
        return (
            pb.MemberStatus.Status.STATUS_UNSPECIFIED if member is None else STATUSES[member.status]
        )

    async def SetLinks(  # noqa: N802
        self,
        request: pb.SetLinksRequest,
        context: "grpc.aio.ServicerContext[pb.SetLinksRequest, pb.SetLinksReply]",
    ) -> pb.SetLinksReply:
        peers = [RegionId(peer) for peer in request.peers]
        try:
            set_links(self._region, peers, self._now(), paused=request.paused)
        except LinksError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return pb.SetLinksReply(links=self._links())

    async def Tune(  # noqa: N802
        self,
        request: pb.TuneRequest,
        context: "grpc.aio.ServicerContext[pb.TuneRequest, pb.TuneReply]",
    ) -> pb.TuneReply:
        try:
            before, value = await self._parts.tunables.set(request.parameter, request.value)
        except TuneError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (StoreError, TuneNotKnownError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return pb.TuneReply(before=before, value=value)

    async def Backup(  # noqa: N802
        self,
        _request: pb.BackupRequest,
        context: "grpc.aio.ServicerContext[pb.BackupRequest, pb.BackupPiece]",
    ) -> AsyncIterator[pb.BackupPiece]:
        if self._is_backing_up:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "another backup of this node runs; try again when it is done",
            )
        self._is_backing_up = True
        try:
            async with contextlib.aclosing(self._parts.backup()) as pieces:
                async for piece in pieces:
                    yield piece
        except StoreError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        finally:
            self._is_backing_up = False

    async def Digest(  # noqa: N802
        self,
        request: pb.DigestRequest,
        context: "grpc.aio.ServicerContext[pb.DigestRequest, pb.DigestReply]",
    ) -> pb.DigestReply:
        try:
            return await self._parts.engine.read(lambda: self._digest(request))
        except UnreadableError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"entries cannot be read: {error}")

    async def Digests(  # noqa: N802
        self,
        request: pb.DigestsRequest,
        context: "grpc.aio.ServicerContext[pb.DigestsRequest, pb.DigestsReply]",
    ) -> AsyncIterator[pb.DigestsReply]:
        if self._digests_asked >= DIGESTS_AT_ONCE:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{DIGESTS_AT_ONCE} others ask this node for digests; try again when they are done",
            )
        self._digests_asked += 1
        try:
            digests = Digests(self._region.replica, self._parts.engine)
            async with contextlib.aclosing(digests.pages(request)) as pages:
                async for page in pages:
                    yield page
        except DigestsError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except UnreadableError as error:
            await context.abort(grpc.StatusCode.DATA_LOSS, f"entries cannot be read: {error}")
        finally:
            self._digests_asked -= 1

    async def GroupProgress(  # noqa: N802
        self,
        request: pb.GroupProgressRequest,
        context: "grpc.aio.ServicerContext[pb.GroupProgressRequest, pb.GroupProgressReply]",
    ) -> pb.GroupProgressReply:
        replica = self._region.replica
        try:
            found = await self._parts.engine.read(
                lambda: group_progress(replica, request.key, request.group)
            )
            return pb.GroupProgressReply(
                region=replica.region,
                database_id=self._parts.settings.database_id,
                progress=found,
            )
        except UnreadableError as error:
            await context.abort(grpc.StatusCode.DATA_LOSS, f"entries cannot be read: {error}")

    async def Members(  # noqa: N802
        self,
        _request: pb.MembersRequest,
        _context: "grpc.aio.ServicerContext[pb.MembersRequest, pb.MembersReply]",
    ) -> pb.MembersReply:
        return members_reply(self._parts.engine, self._parts.settings)

    async def ChangeMembers(  # noqa: N802
        self,
        request: pb.ChangeMembersRequest,
        context: "grpc.aio.ServicerContext[pb.ChangeMembersRequest, pb.ChangeMembersReply]",
    ) -> pb.ChangeMembersReply:
        parts = self._parts
        try:
            return await change_members(
                parts.engine, parts.settings, parts.calls, request, draw=secrets.randbits(32)
            )
        except UndecidedError as error:
            await context.abort(grpc.StatusCode.ABORTED, str(error))
        except MembersError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    async def RemoveSealed(  # noqa: N802
        self,
        request: pb.RemoveSealedRequest,
        context: "grpc.aio.ServicerContext[pb.RemoveSealedRequest, pb.SealedRemoval]",
    ) -> AsyncIterator[pb.SealedRemoval]:
        removal = SealedRemoval(
            self._parts.engine,
            self._parts.settings,
            self._parts.calls,
            RegionId(request.region),
            RegionId(request.heir),
            min(max(request.seconds, 0.0), SEALED_SECONDS_MAX),
        )
        try:
            async with contextlib.aclosing(removal.run(dry_run=request.dry_run)) as steps:
                async for step in steps:
                    yield step
        except UndecidedError as error:
            await context.abort(grpc.StatusCode.ABORTED, str(error))
        except MembersError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    async def RepairKey(  # noqa: N802
        self,
        request: pb.RepairKeyRequest,
        context: "grpc.aio.ServicerContext[pb.RepairKeyRequest, pb.RepairKeyReply]",
    ) -> AsyncIterator[pb.RepairKeyReply]:
        try:
            steps = repair(self._region, self._parts.repairer, request)
            async with contextlib.aclosing(steps):
                async for step in steps:
                    yield step
        except RepairError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    async def Flush(  # noqa: N802
        self,
        request: pb.FlushRequest,
        context: "grpc.aio.ServicerContext[pb.FlushRequest, pb.FlushReply]",
    ) -> AsyncIterator[pb.FlushReply]:
        seconds = min(max(request.seconds, 0.0), FLUSH_SECONDS_MAX)
        flushing = Flushing(self._parts.engine, seconds=seconds)
        if request.dry_run:
            yield await flushing.counted()
            return
        if self._is_flushing:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"another flush runs at region {self._region.replica.region}; when it has ended,"
                " run this again",
            )
        self._is_flushing = True
        try:
            async with contextlib.aclosing(flushing.run()) as steps:
                async for step in steps:
                    yield step
        except FlushError as error:
            status = grpc.StatusCode
            await context.abort(
                status.ABORTED if error.is_unknown else status.FAILED_PRECONDITION, str(error)
            )
        finally:
            self._is_flushing = False

    async def ReloadCertificates(  # noqa: N802
        self,
        _request: pb.ReloadCertificatesRequest,
        context: "grpc.aio.ServicerContext[pb.ReloadCertificatesRequest,"
        " pb.ReloadCertificatesReply]",
    ) -> pb.ReloadCertificatesReply:
        certificates = self._parts.certificates
        if certificates is None:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"region {self._region.replica.region} has no certificate; set tls_cert_file and"
                " tls_key_file in its file, and restart it",
            )
        fault = await certificates.reload()
        used = certificates.current
        return pb.ReloadCertificatesReply(
            region=self._region.replica.region,
            version=used.version,
            valid_until_ms=int(used.not_after.timestamp() * 1000),
            serial=f"{used.serial:x}",
            fault=fault or "",
        )

    def _digest(self, request: pb.DigestRequest) -> pb.DigestReply:
        replica = self._region.replica
        key = request.key if request.HasField("key") else None
        return pb.DigestReply(digest=replica.digest(key).decode(), vv=encode_vv(replica.vv))

    # --- Parts of the status ------------------------------------------------------------------

    def _links(self) -> list[pb.LinkStatus]:
        return [self._link(pull) for _, pull in sorted(self._region.links.pulls.items())]

    def _link(self, pull: Pull) -> pb.LinkStatus:
        peer, pulled, served = pull.peer, pull.stats, self._region.links.serve_stats[pull.peer]
        p50, p95, p99, highest = pulled.lag.percentiles(0.5, 0.95, 0.99, 1.0)
        # By the link itself, by the one in the other direction, and by what others say of it.
        known = dict(pulled.peer_vv)
        join(known, self._region.knowledge.of(peer))
        return pb.LinkStatus(
            peer=peer,
            address=pull.address,
            state=LINK_STATES[pull.link.state],
            paused=pull.link.state is LinkState.PAUSED,
            error="" if pull.link.is_up else pull.link.error,
            lag_ms=pull.lag_ms(self._now()),
            lag_effects=pull.lag_effects,
            lag_ms_p50=p50,
            lag_ms_p95=p95,
            lag_ms_p99=p99,
            lag_ms_max=highest,
            batches_received=pulled.batches,
            effects_received=pulled.effects,
            bytes_received=pulled.bytes_wire,
            bytes_uncompressed=pulled.bytes_uncompressed,
            bytes_again=pulled.bytes_again,
            batches_sent=served.batches,
            effects_sent=served.effects,
            bytes_sent=served.bytes_wire,
            peer_vv=encode_vv(known),
            heard_ms=pulled.heard_ms,
            clock_skew_ms=pulled.clock_skew_ms,
            reconnects=pull.link.reconnects,
            relayed_origins=sorted(pull.origins - {peer}),
            behind_ms=self._region.behind_ms(pull, asyncio.get_running_loop().time(), self._now()),
        )

    def _storage(self) -> pb.Storage:
        region = self._region
        retention, checkpointing = region.retention, region.checkpointing
        return pb.Storage(
            first_seq=retention.first_seq,
            last_seq=region.outstanding.logged_seq,
            log_begins=encode_vv(retention.begins),
            checkpoint_seq=checkpointing.seq,
            checkpoint_ms=checkpointing.written_ms,
            checkpoint_in_progress=checkpointing.began_ms is not None,
            checkpoint_bytes=checkpointing.size_bytes,
            backlog_bytes=retention.backlog_bytes,
            disk_bytes=region.disk.used,
            maxdisk=region.disk.maxdisk,
            used_memory=region.memory.used,
            maxmemory=region.memory.maxmemory,
            kept=[
                pb.Kept(
                    region=peer,
                    keeping=KEEPINGS[held.keeping],
                    since_ms=held.since_ms,
                    bytes=held.bytes,
                )
                for peer, held in sorted(retention.held.items())
            ],
        )

    def _bootstrap(self) -> pb.BootstrapStatus:
        bootstrap = self._region.bootstrap
        progress = bootstrap.progress
        return pb.BootstrapStatus(
            phase=PHASES[bootstrap.phase],
            source=bootstrap.source or 0,
            began_ms=bootstrap.began_ms,
            images_done=progress.images_done,
            images=progress.images,
            bytes_done=progress.bytes_done,
            bytes=progress.bytes,
            bytes_per_s=round(progress.rate),
            seconds_left=progress.seconds_left or 0,
            taken_over=bootstrap.count,
            failures=bootstrap.failures,
            failure=bootstrap.failure,
        )

    def _tunables(self) -> list[pb.Tunable]:
        tunables = self._parts.tunables
        return [
            pb.Tunable(name=name, value=value, allowed=tunables.allowed(name))
            for name, value in sorted(tunables.values().items())
        ]

    def _streams(self) -> list[pb.StreamStatus]:
        replica = self._region.replica
        found = []
        for key in sorted(replica):
            stream = replica.stream(key)
            if stream is not None:
                found.append(_stream_status(key, stream))
        return found


def _stream_status(key: bytes, stream: Stream) -> pb.StreamStatus:
    return pb.StreamStatus(
        key=key,
        entries=stream.length,
        lanes=[
            pb.LaneStatus(origin=region, entries=lane.length)
            for region, lane in sorted(stream.lanes.items())
        ],
        groups=[
            pb.GroupStatus(
                name=name,
                consumers=len(group.consumers),
                pending=group.pending_count,
                lag=lag(stream, group) or 0,
            )
            for name, group in sorted(stream.groups.items())
        ],
    )
