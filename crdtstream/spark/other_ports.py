"""Recognising a port of a region node that is not for queries, by what it answers to a PING."""

import contextlib
import socket
from typing import Final

# A command to a Redis server, and half a request to one of HTTP, which the empty line ends.
_PING: Final = b"PING\r\n\r\n"
SECONDS_MAX: Final = 1.0
# No answer that is recognised has to be read further.
_ANSWER_BYTES: Final = 64

_CLIENTS: Final = "the port of Redis clients"
_PAGES: Final = "a port of HTTP pages"
# By the first bytes of the answer.
_ANSWERS: Final = {b"+PONG": _CLIENTS, b"-": _CLIENTS, b"HTTP/": _PAGES}


def port_at(address: str) -> str:
    """The use of a port ``host:port`` that is not for queries; empty: that is not known."""
    answer = _answer(address)
    return next((what for first, what in _ANSWERS.items() if answer.startswith(first)), "")


def _answer(address: str) -> bytes:
    host, _, port = address.rpartition(":")
    answer = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_MAX) as connection,
    ):
        connection.sendall(_PING)
        answer = connection.recv(_ANSWER_BYTES)
    return answer
