"""TLS for the HTTP port: connections are accepted one by one, and each makes its handshake.

    listener ── accept ──> handshake, at most HANDSHAKES_MAX at a time ──> HttpProtocol
                               │
                               └── too late, or the oldest when there are too many: cut

The node shows its certificate and asks for none: pages that are not open ask for user and password.
TLS is asyncio's, as this port has few requests (the port for Redis clients has its own).

Always so: a connection without a whole handshake is none of the server's, takes no page's place,
and ends by itself.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

import structlog

from crdtstream.certificates.watching import Certificates

# As many as connections that are being served: a server has twice that in all.
HANDSHAKES_MAX: Final = 64
HANDSHAKE_SECONDS_MAX: Final = 10.0
# A client that does not answer the end of TLS is not waited for.
END_SECONDS_MAX: Final = 1.0
# Pause after the system gave no connection, as when the process has no file left.
ACCEPT_PAUSE_SECONDS: Final = 0.1
ALPN: Final = "http/1.1"

logger = structlog.get_logger(__name__)


class HttpsContexts:
    """The context of new connections, made again when the certificates changed."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._made: tuple[int, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """For the next connection; open ones go on with theirs."""
        current = self._certificates.current
        if self._made is None or self._made[0] != current.version:
            context = current.server_context()
            context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
            context.set_alpn_protocols([ALPN])
            self._made = current.version, context
        return self._made[1]


class TlsListener:
    """Accepts connections of a listening socket until it is closed; it has a server's interface.

    Args:
        listener: listens already, and does not block; it stays the caller's.
        context: returns the context of the next connection.
        make_protocol: makes the protocol of a connection whose handshake is done.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext],
        make_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self._listener = listener
        self._context = context
        self._make_protocol = make_protocol
        # In the order in which they began.
        self._handshakes: dict[asyncio.Task[None], None] = {}
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and cut those whose handshake is not done."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                logger.warning("no HTTP connection can be accepted", reason=str(error))
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            if len(self._handshakes) >= HANDSHAKES_MAX:
                self._cut_oldest()
            task = loop.create_task(self._shake_hands(accepted))
            self._handshakes[task] = None
            task.add_done_callback(self._forget)

    def _cut_oldest(self) -> None:
        """Make room: one that speaks TLS is done in a moment, so strangers give way first."""
        oldest = next(iter(self._handshakes))
        del self._handshakes[oldest]
        oldest.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        # A client that speaks no TLS, or ends, or is too late: no other connection is affected.
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
            await loop.connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
                ssl_shutdown_timeout=END_SECONDS_MAX,
            )
