"""Listening sockets: bound at once or not at all, on all addresses of a host."""

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

BACKLOG: Final = 511


@dataclass(frozen=True, slots=True)
class Address:
    """One address of a host; ``rest`` stands behind host and port in IPv6."""

    family: int
    host: str
    rest: tuple[Any, ...]

    def with_port(self, port: int) -> tuple[Any, ...]:
        return (self.host, port, *self.rest)


async def addresses_of(host: str) -> list[Address]:
    """The addresses of a host, each once.

    Raises:
        OSError: it has none.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host.strip("[]"), 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    addresses = [Address(family, str(name[0]), tuple(name[2:])) for family, *_, name in found]
    return list(dict.fromkeys(addresses))


def listening_sockets(addresses: Sequence[Address], port: int) -> list[socket.socket]:
    """Sockets that listen on one port of each address, and do not block; 0: any free port.

    Raises:
        OSError: one cannot be had; then there is none.
    """
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            own = socket.socket(address.family, socket.SOCK_STREAM)
            sockets.append(own)
            own.setblocking(False)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address.family == socket.AF_INET6:
                own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            own.bind(address.with_port(port))
            own.listen(BACKLOG)
            # The others get the port that the first one found.
            port = own.getsockname()[1]
    except OSError:
        for own in sockets:
            own.close()
        raise
    return sockets
