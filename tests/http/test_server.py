"""The HTTP server: what it does about connections that ask for nothing, or never to the end; and
that uvicorn has, under the names that are built upon here, what it is expected to have."""

import asyncio
import contextlib
import inspect
import signal
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from crdtstream.http import server
from crdtstream.http.bodies import BodyBound
from crdtstream.http.server import HttpProtocol, HttpServer, http_server, listening_socket
from tests.patience import seconds

ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def page(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("well")


@contextlib.asynccontextmanager
async def serving(
    gate: asyncio.Event | None = None, reached: asyncio.Semaphore | None = None
) -> AsyncIterator[int]:
    """The port of a server with a page, and one that waits for the gate."""

    async def slow(_request: Request) -> PlainTextResponse:
        assert gate is not None
        assert reached is not None
        reached.release()
        await gate.wait()
        return PlainTextResponse("slow")

    listener = listening_socket("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    routes = [Route("/", page, methods=["GET", "POST"]), Route("/slow", slow)]
    running = http_server(Starlette(routes=routes, middleware=[Middleware(BodyBound)]))
    task = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(seconds()):
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
async def test_a_connection_with_an_unfinished_request_is_closed(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.1)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        assert await all_that_comes(reader) == b""
        writer.close()


async def test_a_head_without_end_is_refused() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK[:-2] + b"X: " + b"x" * (server.HEAD_BYTES_MAX + server.BODY_BYTES_MAX))
        answer = await all_that_comes(reader)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.endswith(b"The request is too large.")
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


async def test_an_idle_connection_after_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS_MAX", 0.1)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK)
        assert (await all_that_comes(reader)).endswith(b"well")
        writer.close()


async def test_a_connection_too_many_ends_the_one_that_has_asked_nothing_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half requests that fill all places must not make a region look unavailable."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    async with serving() as port, contextlib.AsyncExitStack() as opened:
        silent = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(b"GET / HT")
            silent.append(reader)
        for number in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(ASK)
            assert (await reader.readuntil(b"well")).startswith(b"HTTP/1.1 200 ")
            assert await all_that_comes(silent[number]) == b""


@pytest.mark.parametrize(("answering", "answer"), [(2, b"HTTP/1.1 200"), (3, b"HTTP/1.1 503")])
async def test_while_all_are_answered_one_more_is_answered_503(
    answering: int, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    gate, reached = asyncio.Event(), asyncio.Semaphore(0)
    async with serving(gate, reached) as port, contextlib.AsyncExitStack() as opened:
        for _ in range(answering):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(ASK.replace(b"/ ", b"/slow "))
            await reached.acquire()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.callback(writer.close)
        writer.write(ASK)
        assert await reader.readexactly(len(answer)) == answer
        gate.set()


# --- Bodies -------------------------------------------------------------------------------------


def posted(length: int, *more: bytes) -> bytes:
    head = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n" % length
    return b"\r\n".join([head.removesuffix(b"\r\n"), *more, b"", b""])


@pytest.mark.parametrize(
    ("length", "status"),
    [(0, b" 200 "), (server.BODY_BYTES_MAX, b" 200 "), (server.BODY_BYTES_MAX + 1, b" 413 ")],
)
async def test_a_large_body_is_refused_before_it_is_sent(length: int, status: bytes) -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(posted(length))
        assert status in await reader.readline()
        writer.close()


async def test_a_body_without_a_length_ends_the_connection_when_it_is_large() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        ended = asyncio.create_task(all_that_comes(reader))
        with contextlib.suppress(ConnectionError):
            while not ended.done():
                writer.write(b"1000\r\n" + b"x" * 4_096 + b"\r\n")
                await writer.drain()
                sent += 4_096
        await ended
        # The system's buffers take some before the end comes back.
        assert sent < 64 << 20
        writer.close()


async def test_a_head_is_bounded() -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * (17 << 10))
        assert b" 400 " in await reader.readline()
        writer.close()


# --- Uvicorn ------------------------------------------------------------------------------------

# What uvicorn does not have, and may not get without our knowing.
NEW = (
    *("end", "_make_protocol", "_await_request", "_stop_awaiting", "_give_up"),
    *("_is_answering", "_displace_idle"),
)


@pytest.mark.parametrize("ours", [HttpProtocol, HttpServer])
def test_a_method_that_replaces_one_of_uvicorn_is_called_as_that_one(ours: type) -> None:
    (parent,) = ours.__bases__
    own = {
        name: method
        for name, method in vars(ours).items()
        if inspect.isfunction(method) and name not in NEW
    }
    assert len(own) >= 3
    for name, method in own.items():
        replaced = getattr(parent, name)
        assert list(inspect.signature(method).parameters) == list(
            inspect.signature(replaced).parameters
        ), name
        assert inspect.iscoroutinefunction(method) == inspect.iscoroutinefunction(replaced), name


def test_uvicorn_has_no_methods_of_our_own_names() -> None:
    parents = {*dir(HttpProtocol.__bases__[0]), *dir(HttpServer.__bases__[0])}
    assert parents.isdisjoint(NEW)
    assert parents.isdisjoint(("_patience", "_idle_since", "_request_bytes", "context"))
    assert "_ends" not in vars(HttpServer.__bases__[0](http_server(Starlette()).config))


async def test_the_date_of_an_answer_is_that_of_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "DATE_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        dates: set[bytes] = set()
        while len(dates) < 2:
            writer.write(ASK)
            answer = await reader.readuntil(b"well")
            (date,) = (line for line in answer.split(b"\r\n") if line.startswith(b"date: "))
            dates.add(date)
        writer.close()


async def test_signals_are_left_to_the_node_and_an_end_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "DATE_SECONDS", 60.0)
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    running = http_server(Starlette(routes=[Route("/", page)]))
    listener = listening_socket("127.0.0.1", 0)
    task = asyncio.create_task(running.serve(sockets=[listener]))
    while not running.started:
        await asyncio.sleep(0)
    assert {one: signal.getsignal(one) for one in before} == before
    # Its next tick is far away, and it does not wait for it.
    ticks = 0
    original = running.on_tick

    async def on_tick(counter: int) -> bool:
        nonlocal ticks
        ticks += 1
        return await original(counter)

    running.on_tick = on_tick  # type: ignore[method-assign]
    running.end()
    await asyncio.wait_for(task, seconds())
    assert ticks == 1
