"""The HTTP port over TLS: who is served, what a stranger can hold, and renewed certificates."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from crdtstream.http import tls
from crdtstream.http.server import http_server, listening_socket
from crdtstream.http.tls import HttpsContexts
from tests.certificates.making import outdated_context
from tests.patience import seconds
from tests.resp.tls import Party

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def scheme(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.url.scheme)


@contextlib.asynccontextmanager
async def serving(context: Callable[[], ssl.SSLContext]) -> AsyncIterator[int]:
    """The port of a server whose page answers the scheme."""
    listener = listening_socket("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    running = http_server(Starlette(routes=[Route("/", scheme)]), context)
    task = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(seconds()):
            yield port
    finally:
        running.end()
        await task


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party.of(tmp_path)


async def answer(port: int, context: ssl.SSLContext) -> bytes:
    """All that the page answers."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    writer.write(ASK)
    text = await reader.read()
    writer.close()
    return text


async def serial_shown(port: int, context: ssl.SSLContext) -> str:
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    shown = str(writer.get_extra_info("peercert")["serialNumber"])
    writer.close()
    return shown


async def test_pages_are_served_by_tls_and_only_by_tls(party: Party) -> None:
    contexts = HttpsContexts(party.certificates())
    async with serving(contexts.context) as port:
        found = await answer(port, party.context())
        assert found.startswith(b"HTTP/1.1 200 ")
        assert found.endswith(b"https")
        # Plain HTTP is no handshake: the connection ends, and the next one is served.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK)
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in await reader.read()
        writer.close()
        assert (await answer(port, party.context())).endswith(b"https")


@pytest.mark.parametrize("version", ["1.2", "1.3"])
async def test_both_versions_are_spoken(party: Party, version: str) -> None:
    async with serving(HttpsContexts(party.certificates()).context) as port:
        assert (await answer(port, party.context(version=version))).endswith(b"https")


async def test_tls_below_1_2_is_refused(party: Party) -> None:
    old = outdated_context()
    async with serving(HttpsContexts(party.certificates()).context) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await answer(port, old)


async def test_a_renewed_certificate_is_shown_to_new_connections(party: Party) -> None:
    certificates = party.certificates()
    async with serving(HttpsContexts(certificates).context) as port:
        before = await serial_shown(port, party.context())
        party.folder.put_all(party.issue("server"))
        assert await certificates.reload() is None
        assert await serial_shown(port, party.context()) != before


async def test_half_a_handshake_ends_by_itself(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS_MAX", 0.1)
    async with serving(HttpsContexts(party.certificates()).context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


async def test_strangers_who_begin_handshakes_keep_nobody_out(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest gives way at each further connection, so what they hold is bounded."""
    monkeypatch.setattr(tls, "HANDSHAKES_MAX", 3)
    # None of them ends by its time.
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS_MAX", 3_600.0)
    async with serving(HttpsContexts(party.certificates()).context) as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        assert (await answer(port, party.context())).endswith(b"https")
        # The first five were cut, and one more for the one that was served.
        for one in silent[:6]:
            one.setblocking(False)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.get_running_loop().sock_recv(one, 1) == b""
        for one in silent[6:]:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
        for one in silent:
            one.close()


async def test_the_end_of_the_server_ends_handshakes(party: Party) -> None:
    async with serving(HttpsContexts(party.certificates()).context) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # One that is served shows that the first one was accepted.
        assert (await answer(port, party.context())).endswith(b"https")
    async with asyncio.timeout(seconds()):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()
