"""Certificates of any authority that were revoked, at a real port with TLS."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from crdtstream.access.shown import ShownCertificates
from crdtstream.v1 import query_pb2, query_pb2_grpc
from tests.certificates.making import Made, make, make_authority
from tests.patience import seconds
from tests.replication.identities import showing


class Endless(query_pb2_grpc.QueryServicer):
    """Lists one stream, and goes on with that for ever."""

    def __init__(self) -> None:
        self.asked = 0
        self.ended = asyncio.Event()
        # Called while the stream is written.
        self.on_write: Callable[[], None] = lambda: None

    async def ListStreams(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        self.asked += 1
        try:
            asyncio.get_running_loop().call_soon(self.on_write)
            yield query_pb2.StreamDescription(key=b"orders")
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@dataclass
class Port:
    """A port that asks for certificates, and the list of revoked ones."""

    address: str
    ca: Made
    guard: ShownCertificates
    service: Endless
    revoked: set[int] = field(default_factory=set)

    def issue(self, name: str, *uris: str) -> Made:
        return make(self.ca, name, dns=(), uris=uris)

    def shown(self, leaf: Made) -> grpc.aio.Channel:
        """A connection with this certificate."""
        return showing(self.address, leaf)

    def revoke(self, leaf: Made) -> None:
        self.revoked.add(leaf.certificate.serial_number)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    ca, revoked, service = make_authority(), set[int](), Endless()
    guard = ShownCertificates(revoked.__contains__)
    server = grpc.aio.server(interceptors=(guard,))
    query_pb2_grpc.add_QueryServicer_to_server(service, server)
    own = make(ca)
    pair = own.key_pem, own.pem
    credentials = grpc.ssl_server_credentials([pair], ca.pem, require_client_auth=True)
    number = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield Port(f"127.0.0.1:{number}", ca, guard, service, revoked)
    await server.stop(None)


def listing(channel: grpc.aio.Channel) -> Any:
    request = query_pb2.ListStreamsRequest()
    return query_pb2_grpc.QueryStub(channel).ListStreams(request, timeout=seconds())


async def test_a_call_with_a_revoked_certificate_is_refused_unread(port: Port) -> None:
    """So on a connection that is there already, and no other certificate is refused."""
    lost, other = port.issue("lost"), port.issue("other")
    async with port.shown(lost) as channel, port.shown(other) as others:
        assert (await listing(channel).read()).key == b"orders"
        port.revoke(lost)
        asked = port.service.asked
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await listing(channel).read()
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert port.service.asked == asked
        assert (await listing(others).read()).key == b"orders"


async def test_a_clients_certificate_reads_nothing(port: Port) -> None:
    """Its user may have the right, by a password: programs that read have a reader's."""
    uri = "spiffe://t/crdtstream/crdb/client/app"
    app = port.issue("app", uri)
    async with port.shown(app) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await listing(channel).read()
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "for the port of Redis clients alone" in str(caught.value.details())
    assert port.service.asked == 0


async def test_a_call_that_goes_on_ends_when_its_certificate_is_revoked(port: Port) -> None:
    lost = port.issue("lost")
    async with port.shown(lost) as channel:
        call = listing(channel)
        assert (await call.read()).key == b"orders"
        port.guard.end_revoked()
        port.revoke(lost)
        port.guard.end_revoked()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await asyncio.wait_for(port.service.ended.wait(), seconds())


async def test_a_call_that_ends_while_its_first_message_is_written_says_so(port: Port) -> None:
    """The caller may have the message before this side knows that it is sent."""
    lost = port.issue("lost")
    port.revoke(lost)
    revoked = port.revoked.copy()

    def revoke_again() -> None:
        port.revoked.update(revoked)
        port.guard.end_revoked()

    port.service.on_write = revoke_again
    async with port.shown(lost) as channel:
        for _ in range(5):
            port.revoked.clear()
            call = listing(channel)
            with pytest.raises(grpc.aio.AioRpcError):
                async for _ in call:
                    pass
            assert await call.code() is grpc.StatusCode.UNAVAILABLE
