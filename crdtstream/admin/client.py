"""Client of the admin service, over gRPC: region nodes as an operator's program sees them.

A survey asks every node it is given, and those that they name as peers, so one address is enough
to find all regions.  An address that does not answer is part of the result, not an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

import grpc

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import Ends, removed_ends
from crdtstream.v1 import admin_pb2, admin_pb2_grpc, effects_pb2

CALL_SECONDS_MAX: Final = 5.0
# A node ends its attempts sooner.
DECISION_SECONDS_MAX: Final = 30.0
KEEPALIVE_MS: Final = 10_000
# How long a failed call without a certificate may take to find out that the node speaks TLS.
PROBE_SECONDS_MAX: Final = 1.0


class AdminError(Exception):
    """A node did not do what it was asked.  The text says what to do next."""


class UnreachableError(AdminError):
    """No node answers at an address."""


class LoginError(AdminError):
    """The node does not take the user and password."""


class ForbiddenError(AdminError):
    """The user, or the certificate, has no right to the call."""


class OutcomeUnknownError(AdminError):
    """The request may have been done, or may still be done."""


class AdminClient:
    """The admin service of one node; a context manager, as it holds a connection."""

    def __init__(
        self,
        address: str,
        *,
        login: Login = NO_LOGIN,
        region: RegionId | None = None,
        call_seconds_max: float = CALL_SECONDS_MAX,
    ) -> None:
        """A client that connects at its first call.

        Args:
            region: with certificates, the one that must answer there; None: any of the database.
        """
        self.address = address
        self.login = login
        self._call_seconds_max = call_seconds_max
        # Each client its own connection: one that just failed is not waited for.
        self._options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            # A call without a time limit ends when the node is no longer there.
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
            # Answers come in pages of some 100 KiB, and a key in one may be as long as it likes.
            ("grpc.max_receive_message_length", -1),
        ]
        self._region = region
        self._channel: grpc.Channel | None = None
        self._made: admin_pb2_grpc.AdminStub | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()

    @property
    def _stub(self) -> admin_pb2_grpc.AdminStub:
        """The service.

        Raises:
            UnreachableError: with certificates: no node answers.
            LoginError: with certificates: it is no region that they trust.
        """
        if self._made is None:
            self._channel = channel_to(
                self.address,
                self.login,
                self._region,
                self._options,
                seconds_max=min(self._call_seconds_max, CALL_SECONDS_MAX),
            )
            self._made = admin_pb2_grpc.AdminStub(self._channel)
        return self._made

    def status(
        self, *, with_streams: bool = False, with_digest: bool = False
    ) -> admin_pb2.StatusReply:
        request = admin_pb2.StatusRequest(with_streams=with_streams, with_digest=with_digest)
        reply: admin_pb2.StatusReply = self._call(self._stub.Status, request)
        return reply

    def members(self) -> admin_pb2.MembersReply:
        """The members, as this node knows them."""
        reply: admin_pb2.MembersReply = self._call(self._stub.Members, admin_pb2.MembersRequest())
        return reply

    def push_users(self, request: admin_pb2.PushUsersRequest) -> admin_pb2.PushUsersReply:
        """Have the users of an aclfile, or only have it checked."""
        reply: admin_pb2.PushUsersReply = self._call(self._stub.PushUsers, request)
        return reply

    def change_members(
        self, request: admin_pb2.ChangeMembersRequest
    ) -> admin_pb2.ChangeMembersReply:
        """Have a change of the members decided."""
        reply: admin_pb2.ChangeMembersReply = self._call(
            self._stub.ChangeMembers, request, seconds_max=DECISION_SECONDS_MAX
        )
        return reply

    def remove_sealed(
        self, request: admin_pb2.RemoveSealedRequest
    ) -> Iterator[admin_pb2.SealedRemoval]:
        """Have a region removed whose node runs: how far it is, at last the members without it.

        Raises:
            UnreachableError: the node does not answer, or no longer does.
            AdminError: it was not removed; the text says why.
        """
        try:
            yield from self._stub.RemoveSealed(
                request,
                timeout=request.seconds + 2 * DECISION_SECONDS_MAX,
                metadata=self.login.metadata,
            )
        except grpc.RpcError as error:
            raise self._told(error) from error

    def flush(self, request: admin_pb2.FlushRequest) -> Iterator[admin_pb2.FlushReply]:
        """Delete all keys, or count them: how far it is, at last how it ended.

        Raises:
            UnreachableError: the node does not answer, or no longer does.
            OutcomeUnknownError: the disk refused, and some may be deleted.
            AdminError: the node refused, and says why.
        """
        try:
            yield from self._stub.Flush(request, metadata=self.login.metadata)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def set_links(self, peers: Iterable[RegionId], *, paused: bool) -> admin_pb2.SetLinksReply:
        """Pause or resume the links that pull from ``peers``; no peers means from every one."""
        request = admin_pb2.SetLinksRequest(peers=sorted(peers), paused=paused)
        reply: admin_pb2.SetLinksReply = self._call(self._stub.SetLinks, request)
        return reply

    def tune(self, parameter: str, value: str) -> admin_pb2.TuneReply:
        request = admin_pb2.TuneRequest(parameter=parameter, value=value)
        reply: admin_pb2.TuneReply = self._call(self._stub.Tune, request)
        return reply

    def reload_certificates(self) -> admin_pb2.ReloadCertificatesReply:
        """Have the node read the files of its certificate now."""
        reply: admin_pb2.ReloadCertificatesReply = self._call(
            self._stub.ReloadCertificates, admin_pb2.ReloadCertificatesRequest()
        )
        return reply

    def digests(self, request: admin_pb2.DigestsRequest) -> Iterator[admin_pb2.DigestsReply]:
        """The pages of an answer, in order; it takes as long as it takes.

        Raises:
            UnreachableError: the node does not answer, or no longer does.
            AdminError: the node refused, and says why.
        """
        try:
            yield from self._stub.Digests(request, metadata=self.login.metadata)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def repair_key(self, request: admin_pb2.RepairKeyRequest) -> Iterator[admin_pb2.RepairKeyReply]:
        """Have a key compared and replaced: how far it is, at last what came of it.

        Raises:
            UnreachableError: the node does not answer, or no longer does.
            AdminError: nothing has changed; the text says why.
        """
        try:
            yield from self._stub.RepairKey(request, metadata=self.login.metadata)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def backup(self) -> Iterator[admin_pb2.BackupPiece]:
        """The pieces of a backup, in order; it takes as long as it takes.

        Raises:
            UnreachableError: the node does not answer, or no longer does.
            AdminError: the node refused, and says why.
        """
        try:
            yield from self._stub.Backup(admin_pb2.BackupRequest(), metadata=self.login.metadata)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def _call(
        self, method: Callable[..., Any], request: object, *, seconds_max: float | None = None
    ) -> Any:
        """Make one call; its errors become texts.

        Raises:
            UnreachableError: the node does not answer, or not in time.
            LoginError: it does not take the login.
            AdminError: the node refused, and says why.
        """
        try:
            return method(
                request,
                timeout=seconds_max or self._call_seconds_max,
                metadata=self.login.metadata,
            )
        except grpc.RpcError as error:
            raise self._told(error) from error

    def _is_refused_over_tls(self, details: str) -> bool:
        """True if a connection over TLS found nothing that listens, so no certificate is to blame.

        gRPC has one status for all failures to connect, and tells them apart in its text only.
        """
        return self.login.certificates is not None and "Connection refused" in details

    def _lacks_tls(self) -> bool:
        """True if a call without a certificate failed because the node speaks TLS.

        gRPC reports a closed connection or a call that takes too long, and not the cause.
        """
        # A caller that waits for less polls the node, and needs no explanation.
        if self.login.certificates is not None or self._call_seconds_max < CALL_SECONDS_MAX:
            return False
        # Here, not above: commands start faster without it.
        from crdtstream.access.probing import speaks_tls

        return speaks_tls(self.address, PROBE_SECONDS_MAX)

    def _told(self, error: grpc.RpcError) -> AdminError:
        """An error of a call in words."""
        details = error.details() or "no reason given"
        code = error.code()
        unanswered = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        if code in unanswered and self._lacks_tls():
            return UnreachableError(
                f"the node at {self.address} speaks TLS, and no certificate was named: name"
                " --tls-cert-file, --tls-key-file and --tls-ca-cert-file, or the --dir of"
                " `crdtstream up --tls`"
            )
        match code:
            case grpc.StatusCode.UNAVAILABLE if self._is_refused_over_tls(details):
                return UnreachableError(
                    f"no region node answers at {self.address}: start it, or name the address of"
                    " its gRPC service (738r)"
                )
            case grpc.StatusCode.UNAVAILABLE if self.login.certificates is not None:
                return UnreachableError(
                    f"the node at {self.address} does not go on with this connection ({details}):"
                    " look into its log; its certificate must be of the region that is expected"
                    " there, and it must trust the authority of this one"
                )
            case grpc.StatusCode.UNAVAILABLE:
                return UnreachableError(
                    f"no region node answers at {self.address}:"
                    " start it (crdtstream up), or name the address of its gRPC service (738r),"
                    " or the --dir of `up`"
                )
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return UnreachableError(
                    f"the node at {self.address} did not answer within"
                    f" {self._call_seconds_max:g} s: look into its log"
                )
            case grpc.StatusCode.UNIMPLEMENTED:
                return AdminError(
                    f"what answers at {self.address} does not know this call: if it is a region"
                    " node, it runs an earlier version, so upgrade it; if not, name the address of"
                    " its gRPC service (738r)"
                )
            case grpc.StatusCode.UNAUTHENTICATED:
                return LoginError(
                    f"the node at {self.address} takes no call without its password"
                    f" ({'this one is wrong' if self.login.password else 'none was given'}): name"
                    " --password-file, or set CRDTSTREAM_PASSWORD; and --user, unless it is that of"
                    " user default"
                )
            case grpc.StatusCode.PERMISSION_DENIED:
                return ForbiddenError(details)
            case grpc.StatusCode.ABORTED:
                return OutcomeUnknownError(details)
            case _:
                return AdminError(details)


def channel_to(
    address: str,
    login: Login,
    region: RegionId | None,
    options: Iterable[tuple[str, int]],
    *,
    seconds_max: float = CALL_SECONDS_MAX,
) -> grpc.Channel:
    """A channel to a node; over TLS one that demands a region, which is found out if need be.

    Args:
        seconds_max: how long it may take to find out the region.

    Raises:
        UnreachableError: with certificates: no node answers.
        LoginError: with certificates: it is no region that they trust.
    """
    used = login.certificates
    if used is None:
        return grpc.insecure_channel(address, options=list(options))
    # Here, not above: programs without certificates start faster without it.
    from crdtstream.access.peer_calls import name_option
    from crdtstream.access.probing import UnansweredError, region_at
    from crdtstream.certificates.errors import CertificateError

    assert used.holder is not None
    try:
        found = region_at(address, used, seconds_max) if region is None else region
    except UnansweredError as error:
        raise UnreachableError(f"{error}; start it, or name its gRPC address") from error
    except CertificateError as error:
        raise LoginError(str(error)) from error
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(used.ca, used.key, used.certificates),
        options=[*options, name_option(used.holder.database_id, found)],
    )


@dataclass(slots=True)
class Survey:
    """Answers of all regions.

    Attributes:
        replies: by region, ascending.
        addresses: the gRPC address by which each region that answered was reached.
        unreachable: addresses that did not answer, or not with this login, and why.
        login: the one by which all were asked.
    """

    replies: dict[RegionId, admin_pb2.StatusReply] = field(default_factory=dict)
    addresses: dict[RegionId, str] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    login: Login = NO_LOGIN

    def client(self, region: RegionId) -> AdminClient:
        """A client of a region that answered."""
        return AdminClient(self.addresses[region], login=self.login, region=region)


def survey(
    addresses: Iterable[str], *, login: Login = NO_LOGIN, with_streams: bool = False
) -> Survey:
    """Ask the nodes at ``addresses``, then the peers that they name and that were not asked yet.

    Raises:
        AdminError: a node refused to answer.
    """
    found = Survey(login=login)
    for address in addresses:
        _ask(found, address, with_streams=with_streams)
    named = {
        RegionId(link.peer): link.address
        for reply in found.replies.values()
        for link in reply.links
    }
    for region, address in sorted(named.items()):
        if region not in found.replies and address not in found.unreachable:
            _ask(found, address, region, with_streams=with_streams)
    found.replies = dict(sorted(found.replies.items()))
    return found


def _ask(
    found: Survey, address: str, region: RegionId | None = None, *, with_streams: bool
) -> None:
    try:
        with AdminClient(address, login=found.login, region=region) as client:
            reply = client.status(with_streams=with_streams)
    except (UnreachableError, LoginError) as error:
        found.unreachable[address] = str(error)
        return
    found.replies[RegionId(reply.region)] = reply
    found.addresses[RegionId(reply.region)] = address


def link_state(link: admin_pb2.LinkStatus) -> str:
    """``up``, ``backoff``, ``needs bootstrap`` …"""
    return admin_pb2.LinkStatus.State.Name(link.state).lower().replace("_", " ")


def vv_of(message: effects_pb2.VersionVector) -> VersionVector:
    """The version vector in a message."""
    return {
        RegionId(region): count
        for region, count in zip(message.regions, message.counts, strict=True)
    }


def ends_of(found: Survey) -> Ends:
    """Ends of the effects of removed regions, as far as a region that answered knows them."""
    cuts: dict[RegionId, int] = {}
    for reply in found.replies.values():
        cuts |= vv_of(reply.cuts)
    return removed_ends(cuts)


def lacking(
    vvs: Mapping[RegionId, VersionVector],
    *,
    regions: Iterable[RegionId],
    peers: Iterable[RegionId],
    ends: Ends,
) -> dict[RegionId, dict[RegionId, int]]:
    """Count, by origin, the effects that ``regions`` lack and one of ``peers`` has applied.

    Args:
        ends: effects of a removed region beyond its end are lost, so no region lacks them.

    Returns:
        By region, by origin; without regions that lack nothing.  Empty: no region lacks any.
    """
    most: dict[RegionId, int] = {}
    for peer in peers:
        for origin, n in vvs[peer].items():
            counted = min(n, ends[origin].last_n) if origin in ends else n
            most[origin] = max(most.get(origin, 0), counted)
    result = {}
    for region in sorted(regions):
        lacks = {
            origin: n - vvs[region].get(origin, 0)
            for origin, n in sorted(most.items())
            if n > vvs[region].get(origin, 0)
        }
        if lacks:
            result[region] = lacks
    return result
