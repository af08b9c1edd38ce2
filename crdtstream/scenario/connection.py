"""A plain client connection: sends commands, reads replies, with a bound on every wait."""

import socket
import time
from typing import Final

from crdtstream.scenario.replies import WAITING, Answer, ReplyReader

_CHUNK_BYTES: Final = 1 << 16


class ConnectionClosedError(Exception):
    """The node closed the connection, or cannot be reached."""


class Connection:
    """One client of a node at ``host:port``."""

    def __init__(self, address: str, *, connect_seconds_max: float = 5.0) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection(
                (host.strip("[]"), int(port)), timeout=connect_seconds_max
            )
        except OSError as error:
            raise ConnectionClosedError(f"{address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = ReplyReader()
        self._address = address

    def send(self, argv: tuple[bytes, ...]) -> None:
        parts = [b"*%d\r\n" % len(argv)]
        parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in argv]
        try:
            self._socket.sendall(b"".join(parts))
        except OSError as error:
            raise ConnectionClosedError(f"{self._address}: {error}") from error

    def read(self, *, seconds_max: float) -> Answer:
        """The next reply, or WAITING if none comes within the time.

        Raises:
            ConnectionClosedError: and none will come.
        """
        deadline = time.monotonic() + seconds_max
        while True:
            answer = self._reader.next()
            if answer is not WAITING:
                return answer
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except TimeoutError:
                return WAITING
            except OSError as error:
                raise ConnectionClosedError(f"{self._address}: {error}") from error
            if not data:
                raise ConnectionClosedError(f"{self._address}: closed by the node")
            self._reader.feed(data)

    def close(self) -> None:
        self._socket.close()
