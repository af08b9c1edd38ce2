"""The HTTP server: what it does about connections that ask for nothing, or never to the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from crdtstream.http import server
from crdtstream.http.server import http_server, listening_socket

WAIT_SECONDS = 10
ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def page(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("well")


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of a server with one page."""
    listener = listening_socket("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    running = http_server(Starlette(routes=[Route("/", page)]))
    task = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            yield port
    finally:
        running.end()
        await task


async def all_that_comes(reader: asyncio.StreamReader) -> bytes:
    """Until the server hangs up, one way or the other."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("said", [b"", b"GET / HTT", ASK[:-2]], ids=["nothing", "line", "head"])
async def test_who_does_not_finish_a_request_is_cut_off(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.1)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        assert await all_that_comes(reader) == b""
        writer.close()


async def test_bytes_that_come_slowly_buy_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.2)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        ended = asyncio.create_task(all_that_comes(reader))
        while not ended.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        writer.close()


async def test_a_connection_may_ask_again() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(ASK)
            assert (await reader.readuntil(b"well")).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_who_asked_and_says_nothing_more_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.1)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK)
        assert (await all_that_comes(reader)).endswith(b"well")
        writer.close()


@pytest.mark.parametrize(
    ("silent", "answer"),
    [(1, b"HTTP/1.1 200"), (2, b"HTTP/1.1 503"), (3, b"HTTP/1.1 503"), (4, b"")],
)
async def test_connections_beyond_the_bounds_are_answered_503_and_then_cut_off(
    silent: int, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(server, "CONNECTIONS_ANSWERED_MAX", 4)
    async with serving() as port, contextlib.AsyncExitStack() as opened:
        for _ in range(silent):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.callback(writer.close)
        writer.write(ASK)
        try:
            found = await reader.read(len(answer) or 1)
        except ConnectionResetError:
            found = b""
        assert found == answer
