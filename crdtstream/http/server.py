"""The HTTP server, inside an event loop that is not its own."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from crdtstream.http.tls import TlsListener

BACKLOG: Final = 128
# Connections at a time.  One more ends the one that has been without a request for longest; while
# all are being answered it is answered 503.
CONNECTIONS_MAX: Final = 64
# Request line and headers together.
HEAD_BYTES_MAX: Final = 16 << 10
# The body behind them; only the console reads one, a small form.
BODY_BYTES_MAX: Final = 64 << 10
TOO_LARGE: Final = "The request is too large."
# Time after which the date in the answers' headers is set again.
DATE_SECONDS: Final = 1.0
# Longest rest of a connection between two requests.
KEEP_ALIVE_SECONDS: Final = 10
# Longest time until a request of a connection is answered: the first one, or the next.
REQUEST_SECONDS_MAX: Final = 10.0


class HttpProtocol(H11Protocol):
    """Uvicorn's, without its patience with connections that never ask for anything.

    They count as connections, so enough of them would make a region look unavailable.
    """

    _patience: asyncio.TimerHandle | None = None
    # When it began to be without a request, by the loop's clock.
    _idle_since = 0.0
    _request_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > CONNECTIONS_MAX:
            self._displace_idle()

    def data_received(self, data: bytes) -> None:
        self._request_bytes += len(data)
        if self._request_bytes > HEAD_BYTES_MAX + BODY_BYTES_MAX:
            if self._is_answering():
                self.transport.abort()
            else:
                self.send_400_response(TOO_LARGE)
            return
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._await_request()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting()
        super().connection_lost(exc)

    def _await_request(self) -> None:
        self._stop_awaiting()
        self._idle_since = self.loop.time()
        self._request_bytes = 0
        self._patience = self.loop.call_later(REQUEST_SECONDS_MAX, self._give_up)

    def _stop_awaiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _give_up(self) -> None:
        # An answer under way is finished here; then it begins again.
        if not self._is_answering():
            self.transport.abort()

    def _is_answering(self) -> bool:
        # No request, no cycle.
        return bool(self.cycle and not self.cycle.response_complete)  # type: ignore[truthy-bool]

    def _displace_idle(self) -> None:
        """End the connection that has been without a request for longest, if one is."""
        others = (one for one in self.connections if isinstance(one, HttpProtocol))
        idle = [one for one in others if one is not self and not one._is_answering()]
        if idle:
            longest = min(idle, key=lambda one: one._idle_since)
            # It counts no longer; the loop tells it that it is lost in the next turn.
            self.connections.discard(longest)
            longest.transport.abort()


class HttpServer(uvicorn.Server):
    """Uvicorn inside a loop that is not its own: it ignores signals, and ends when it is asked to.

    By itself it would check ten times a second whether to end, and keep one certificate for good.

    Attributes:
        context: returns the context of the next connection; None: connections are plain.
    """

    context: Callable[[], ssl.SSLContext] | None = None

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ends = asyncio.Event()

    def end(self) -> None:
        """Have ``serve`` return, soon."""
        self.should_exit = True
        self._ends.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.context is None:
            await super().startup(sockets)
            return
        assert sockets is not None, "it serves sockets that listen"
        listeners: list[Any] = [
            TlsListener(listener, self.context, self._make_protocol) for listener in sockets
        ]
        self.servers = listeners
        self.started = True

    def _make_protocol(self) -> asyncio.Protocol:
        return HttpProtocol(self.config, self.server_state, self.lifespan.state)

    async def main_loop(self) -> None:
        # With this count a tick of uvicorn's sets the headers.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._ends.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def http_server(app: Starlette, context: Callable[[], ssl.SSLContext] | None = None) -> HttpServer:
    """A server for ``serve(sockets=[...])``; ``end`` ends it.

    Args:
        context: see ``HttpServer``.
    """
    config = uvicorn.Config(
        app,
        # By h11, the one of uvicorn's parsers whose head of a request is bounded.
        http=HttpProtocol,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        ws="none",
        # Itself counts, too.
        limit_concurrency=CONNECTIONS_MAX + 1,
        backlog=BACKLOG,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        # A client that sends rubbish must not fill the log with it.
        log_level="error",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=1,
    )
    server = HttpServer(config)
    server.context = context
    return server


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
