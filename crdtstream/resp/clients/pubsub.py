"""Publications on their way to clients.

A message is encoded once per protocol version, and all subscribers share those bytes: ten thousand
subscribers that do not read cost one copy.  A subscriber is cut off when it leaves too much unread
(``output_limits.py``).
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from crdtstream.commands.reply import Push
from crdtstream.database.session import Session
from crdtstream.resp.wire.encode import encode


class Listener(Protocol):
    """A connection, as far as messages of channels are concerned."""

    def push(self, message: bytes) -> None:
        """Send it behind everything that the client is owed by now."""


class Delivery:
    """Passes a message to the connections that listen.

    Args:
        connections: by session id; they come and go.
    """

    def __init__(self, connections: Mapping[int, Listener]) -> None:
        self._connections = connections

    def __call__(self, listeners: Collection[Session], push: Push) -> None:
        encoded: dict[int, bytes] = {}
        for session in listeners:
            connection = self._connections.get(session.id)
            # A session that is not ours belongs to another caller of the database.
            if connection is None:
                continue
            data = encoded.get(session.protocol)
            if data is None:
                chunks: list[bytes] = []
                encode(push, session.protocol, chunks)
                data = encoded[session.protocol] = b"".join(chunks)
            connection.push(data)
