"""Redis's protocol on raw sockets."""

import socket
from collections.abc import Iterable
from typing import Any, Final

import hiredis

HOST: Final = "127.0.0.1"
RECEIVE_BYTES: Final = 1 << 18
# How many requests are on their way at once when a stream is filled.
IN_FLIGHT: Final = 1_000


class LoadError(Exception):
    """A server answered what it must not."""


def command(*words: bytes) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


class Connection:
    """A socket and a parser of replies."""

    __slots__ = ("_reader", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> list[Any]:
        """Whole replies among the bytes that have come; waits for some bytes.

        Raises:
            LoadError: an error reply, or the end of the connection.
        """
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise LoadError("the server closed the connection")
        self._reader.feed(data)
        found: list[Any] = []
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, hiredis.ReplyError):
                raise LoadError(str(reply))
            found.append(reply)
        return found

    def call(self, *words: bytes) -> Any:
        """A request and its reply; nothing else is on its way."""
        self.send(command(*words))
        while not (found := self.receive()):
            pass
        (reply,) = found
        return reply

    def call_many(self, requests: Iterable[bytes]) -> None:
        """Send requests, a thousand at a time, and wait for all replies."""
        some: list[bytes] = []
        for request in requests:
            some.append(request)
            if len(some) == IN_FLIGHT:
                self._call_some(some)
                some.clear()
        self._call_some(some)

    def _call_some(self, some: list[bytes]) -> None:
        self.send(b"".join(some))
        replies = 0
        while replies < len(some):
            replies += len(self.receive())
