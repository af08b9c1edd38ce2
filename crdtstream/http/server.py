"""The HTTP server, inside a loop that is not its own."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG: Final = 128
# Connections at a time; some more are answered 503 at once, and what comes beyond is cut off.
CONNECTIONS_MAX: Final = 256
CONNECTIONS_ANSWERED_MAX: Final = 2 * CONNECTIONS_MAX
# Request line and headers together.
HEAD_BYTES_MAX: Final = 16 << 10
# How often the date in the answers' headers is set.
DATE_SECONDS: Final = 1.0
# How long a connection may rest between two requests.
KEEP_ALIVE_SECONDS: Final = 30
# How long a connection may take until a request of it is answered: the first one, or the next.
REQUEST_SECONDS_MAX: Final = 30.0


class HttpProtocol(H11Protocol):
    """Uvicorn's, without its patience with connections that never ask for anything.

    They count as connections, so enough of them would make a region look unavailable.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_ANSWERED_MAX:
            transport.abort()
        self._await_request()

    def on_response_complete(self) -> None:
        self._await_request()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._stop_awaiting()
        self._patience = self.loop.call_later(REQUEST_SECONDS_MAX, self._give_up)

    def _stop_awaiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _give_up(self) -> None:
        # What is being answered is ours to finish; then it begins again.  No request, no cycle.
        is_answering = self.cycle and not self.cycle.response_complete  # type: ignore[truthy-bool]
        if not is_answering:
            self.transport.abort()


class HttpServer(uvicorn.Server):
    """Uvicorn inside a loop that is not its own: it leaves signals alone, and is told when to end.

    By itself it would look ten times a second whether to.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ends = asyncio.Event()

    def end(self) -> None:
        """Have ``serve`` return, soon."""
        self.should_exit = True
        self._ends.set()

    async def main_loop(self) -> None:
        # With this count a tick of uvicorn's sets the headers.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._ends.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: Starlette) -> HttpServer:
    """A server for ``serve(sockets=[...])``; ``end`` ends it."""
    config = uvicorn.Config(
        app,
        # By h11, the one of uvicorn's parsers whose head of a request is bounded.
        http=HttpProtocol,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        ws="none",
        limit_concurrency=CONNECTIONS_MAX,
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        # Whoever sends rubbish must not fill the log with it.
        log_level="error",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    return HttpServer(config)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on the address.

    Raises:
        OSError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
