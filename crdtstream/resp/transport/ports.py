"""The two ports of Redis clients: one without TLS, one with it; each may be moved while it serves.

Connections that are open stay, whatever becomes of the port they came by.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from socket import socket
from typing import Any, Final

from crdtstream.resp.transport.contexts import TlsContexts
from crdtstream.resp.transport.handshakes import Handshakes
from crdtstream.resp.transport.listening import (
    BACKLOG,
    Address,
    addresses_of,
    listening_sockets,
)

# Names of the two, as CONFIG has them.
PLAIN: Final = "port"
TLS: Final = "tls-port"


class PortError(Exception):
    """A port cannot be listened on.

    Attributes:
        name: PLAIN or TLS.
        number: the port that was wanted.
    """

    def __init__(self, name: str, number: int, error: OSError) -> None:
        super().__init__(f"{name} {number}: {error}")
        self.name = name
        self.number = number


class ClientPorts:
    """Listens for clients.

    Attributes:
        handshakes: of the port with TLS.
        contexts: their contexts.

    Args:
        make_protocol: makes the protocol of a client.
        describe: see ``Handshakes``.
    """

    def __init__(
        self,
        contexts: TlsContexts,
        *,
        make_protocol: Callable[[], asyncio.Protocol],
        describe: Callable[[ssl.SSLSocket], dict[str, Any]],
    ) -> None:
        self.contexts = contexts
        self.handshakes = Handshakes(
            context=contexts.context, make_protocol=make_protocol, describe=describe
        )
        self._make_protocol = make_protocol
        self._addresses: Sequence[Address] = ()
        self._numbers: dict[str, int] = {PLAIN: 0, TLS: 0}
        self._servers: list[asyncio.Server] = []
        # Begins to serve at the sockets of a port that was moved.
        self._moving: asyncio.Task[None] | None = None

    def number(self, name: str) -> int:
        """The number of a port; 0: there is none."""
        return self._numbers[name]

    async def start(self, host: str, numbers: Mapping[str, int]) -> None:
        """Listen.

        Args:
            numbers: by name; 0: any free one.  A name that is absent: no such port.

        Raises:
            OSError: the host has no address.
            PortError: as of ``bound``.
        """
        self._addresses = await addresses_of(host)
        sockets = self.bound(numbers)
        if TLS in sockets:
            self._listen_tls(sockets[TLS])
        if PLAIN in sockets:
            self._numbers[PLAIN] = _number(sockets[PLAIN])
            await self._listen_plain(sockets[PLAIN], after=None)

    def bound(self, numbers: Mapping[str, int]) -> dict[str, list[socket]]:
        """Sockets that listen on these ports, all or none.

        Raises:
            PortError: another process has one.
        """
        sockets: dict[str, list[socket]] = {}
        for name, number in numbers.items():
            try:
                sockets[name] = listening_sockets(self._addresses, number)
            except OSError as error:
                for own in chain.from_iterable(sockets.values()):
                    own.close()
                raise PortError(name, number, error) from error
        return sockets

    def move(self, sockets: Mapping[str, list[socket]]) -> None:
        """Listen at these sockets from now on; a port without any is closed."""
        if TLS in sockets:
            self._listen_tls(sockets[TLS])
        if PLAIN in sockets:
            self._close_plain()
            self._numbers[PLAIN] = _number(sockets[PLAIN])
            self._moving = asyncio.get_running_loop().create_task(
                self._listen_plain(sockets[PLAIN], after=self._moving)
            )

    async def close(self) -> None:
        """Listen no more, and drop handshakes in progress."""
        if self._moving is not None:
            await self._moving
        self._close_plain()
        self.handshakes.close()
        self._numbers = {PLAIN: 0, TLS: 0}

    def _listen_tls(self, sockets: list[socket]) -> None:
        if sockets:
            # Made before the first client comes: it takes a moment.
            self.contexts.context()
        self.handshakes.listen(sockets)
        self._numbers[TLS] = _number(sockets)

    async def _listen_plain(
        self, sockets: list[socket], *, after: asyncio.Task[None] | None
    ) -> None:
        if after is not None:
            await after
            self._close_plain()
        loop = asyncio.get_running_loop()
        for own in sockets:
            self._servers.append(
                await loop.create_server(self._make_protocol, sock=own, backlog=BACKLOG)
            )

    def _close_plain(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []


def _number(sockets: Sequence[socket]) -> int:
    return int(sockets[0].getsockname()[1]) if sockets else 0
