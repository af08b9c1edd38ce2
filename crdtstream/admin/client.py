"""Region nodes as an operator's program sees them: the admin service, over gRPC.

A survey asks every node it is given, and those that they name as peers, so one address is enough
to find all regions.  What does not answer is part of the result, not an error.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import grpc

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId
from crdtstream.core.membership.lost import Ends, removed_ends
from crdtstream.v1 import admin_pb2, admin_pb2_grpc, effects_pb2

CALL_SECONDS_MAX: Final = 5.0
# A node gives up sooner, twice if it has to adopt the members before.
DECISION_SECONDS_MAX: Final = 30.0
KEEPALIVE_MS: Final = 10_000


class AdminError(Exception):
    """A node did not do what it was asked.  The text says what to do next."""


class UnreachableError(AdminError):
    """No node answers at an address."""


class OutcomeUnknownError(AdminError):
    """What was asked for may be done, or may yet be."""


class AdminClient:
    """The admin service of one node; a context manager, as it holds a connection."""

    def __init__(self, address: str, *, call_seconds_max: float = CALL_SECONDS_MAX) -> None:
        self.address = address
        self._call_seconds_max = call_seconds_max
        # Each client its own connection: one that just failed is not waited for.
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
            # A call that takes as long as it takes ends when nobody is there any more.
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
        ]
        self._channel = grpc.insecure_channel(address, options=options)
        self._stub = admin_pb2_grpc.AdminStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def status(
        self, *, with_streams: bool = False, with_digest: bool = False
    ) -> admin_pb2.StatusReply:
        request = admin_pb2.StatusRequest(with_streams=with_streams, with_digest=with_digest)
        reply: admin_pb2.StatusReply = self._call(self._stub.Status, request)
        return reply

    def members(self) -> admin_pb2.MembersReply:
        """Who is a member, as this node knows it."""
        reply: admin_pb2.MembersReply = self._call(self._stub.Members, admin_pb2.MembersRequest())
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
            UnreachableError: nobody answers, or not any more.
            AdminError: it was not removed; the text says why.
        """
        try:
            yield from self._stub.RemoveSealed(
                request, timeout=request.seconds + 2 * DECISION_SECONDS_MAX
            )
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

    def digests(self, request: admin_pb2.DigestsRequest) -> Iterator[admin_pb2.DigestsReply]:
        """The pages of an answer, in order; it takes as long as it takes.

        Raises:
            UnreachableError: nobody answers, or not any more.
            AdminError: the node refused, and says why.
        """
        try:
            yield from self._stub.Digests(request)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def backup(self) -> Iterator[admin_pb2.BackupPiece]:
        """The pieces of a backup, in order; it takes as long as it takes.

        Raises:
            UnreachableError: nobody answers, or not any more.
            AdminError: the node refused, and says why.
        """
        try:
            yield from self._stub.Backup(admin_pb2.BackupRequest())
        except grpc.RpcError as error:
            raise self._told(error) from error

    def _call(
        self, method: Callable[..., Any], request: object, *, seconds_max: float | None = None
    ) -> Any:
        """One call, its errors told in words.

        Raises:
            UnreachableError: nobody answers, or not in time.
            AdminError: the node refused, and says why.
        """
        try:
            return method(request, timeout=seconds_max or self._call_seconds_max)
        except grpc.RpcError as error:
            raise self._told(error) from error

    def _told(self, error: grpc.RpcError) -> AdminError:
        """An error of a call in words."""
        details = error.details() or "no reason given"
        match error.code():
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
                    f"what answers at {self.address} is no region node of this version:"
                    " name the gRPC port (738r)"
                )
            case grpc.StatusCode.ABORTED:
                return OutcomeUnknownError(details)
            case _:
                return AdminError(details)


@dataclass(slots=True)
class Survey:
    """What all regions answered.

    Attributes:
        replies: by region, ascending.
        addresses: the gRPC address by which each region that answered was reached.
        unreachable: what did not answer: address and why.
    """

    replies: dict[RegionId, admin_pb2.StatusReply] = field(default_factory=dict)
    addresses: dict[RegionId, str] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)


def survey(addresses: Iterable[str], *, with_streams: bool = False) -> Survey:
    """Ask the nodes at ``addresses``, then the peers that they name and that were not asked yet.

    Raises:
        AdminError: a node refused to answer.
    """
    found = Survey()
    for address in addresses:
        _ask(found, address, with_streams=with_streams)
    named = {
        RegionId(link.peer): link.address
        for reply in found.replies.values()
        for link in reply.links
    }
    for region, address in sorted(named.items()):
        if region not in found.replies and address not in found.unreachable:
            _ask(found, address, with_streams=with_streams)
    found.replies = dict(sorted(found.replies.items()))
    return found


def _ask(found: Survey, address: str, *, with_streams: bool) -> None:
    try:
        with AdminClient(address) as client:
            reply = client.status(with_streams=with_streams)
    except UnreachableError as error:
        found.unreachable[address] = str(error)
        return
    found.replies[RegionId(reply.region)] = reply
    found.addresses[RegionId(reply.region)] = address


def vv_of(message: effects_pb2.VersionVector) -> VersionVector:
    """The version vector in a message."""
    return {
        RegionId(region): count
        for region, count in zip(message.regions, message.counts, strict=True)
    }


def ends_of(found: Survey) -> Ends:
    """Where the effects of removed regions end, as far as a region that answered knows."""
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
    """How many effects of each origin ``regions`` lack that one of ``peers`` has applied.

    Args:
        ends: of a removed region effects beyond its end are lacking nowhere: they are lost.

    Returns:
        By region, by origin; regions that lack nothing are not in it.  Empty: they have it all.
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
