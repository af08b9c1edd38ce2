"""Certificates of any authority that were revoked, at a real port with TLS."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
import trustme

from crdtstream.access.shown import ShownCertificates
from crdtstream.certificates.certificate import parse_certificates
from crdtstream.v1 import query_pb2, query_pb2_grpc
from tests.patience import seconds


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
    ca: trustme.CA
    guard: ShownCertificates
    service: Endless
    revoked: set[int] = field(default_factory=set)

    def shown(self, leaf: trustme.LeafCert) -> grpc.aio.Channel:
        """A connection with this certificate."""
        credentials = grpc.ssl_channel_credentials(
            self.ca.cert_pem.bytes(),
            leaf.private_key_pem.bytes(),
            b"".join(pem.bytes() for pem in leaf.cert_chain_pems),
        )
        return grpc.aio.secure_channel(self.address, credentials)

    def revoke(self, leaf: trustme.LeafCert) -> None:
        (parsed, *_) = parse_certificates(leaf.cert_chain_pems[0].bytes())
        self.revoked.add(parsed.serial)


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    ca, revoked, service = trustme.CA(), set[int](), Endless()
    guard = ShownCertificates(revoked.__contains__)
    server = grpc.aio.server(interceptors=(guard,))
    query_pb2_grpc.add_QueryServicer_to_server(service, server)
    own = ca.issue_cert("127.0.0.1")
    pair = own.private_key_pem.bytes(), b"".join(pem.bytes() for pem in own.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([pair], ca.cert_pem.bytes(), require_client_auth=True)
    number = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield Port(f"127.0.0.1:{number}", ca, guard, service, revoked)
    await server.stop(None)


def listing(channel: grpc.aio.Channel) -> Any:
    request = query_pb2.ListStreamsRequest()
    return query_pb2_grpc.QueryStub(channel).ListStreams(request, timeout=seconds())


async def test_a_call_with_a_revoked_certificate_is_refused_unread(port: Port) -> None:
    """So on a connection that is there already, and no other certificate is refused."""
    lost, other = port.ca.issue_cert("lost"), port.ca.issue_cert("other")
    async with port.shown(lost) as channel, port.shown(other) as others:
        assert (await listing(channel).read()).key == b"orders"
        port.revoke(lost)
        asked = port.service.asked
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await listing(channel).read()
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert port.service.asked == asked
        assert (await listing(others).read()).key == b"orders"


async def test_a_call_that_goes_on_ends_when_its_certificate_is_revoked(port: Port) -> None:
    lost = port.ca.issue_cert("lost")
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
    lost = port.ca.issue_cert("lost")
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
