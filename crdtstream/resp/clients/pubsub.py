"""Publications on their way to clients.

A message is encoded once per protocol version, and all who get it share those bytes: ten thousand
subscribers who do not read cost one copy.  A subscriber is cut off when it leaves too much unread,
by the bounds that Redis sets by default.
"""

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from crdtstream.commands.reply import Push
from crdtstream.core.ids import Millis
from crdtstream.database.session import Session
from crdtstream.resp.wire.encode import encode

# Redis's client-output-buffer-limit pubsub 32mb 8mb 60: cut off at once, or after this time.
UNREAD_BYTES_MAX: Final = 32 << 20
UNREAD_BYTES_SOFT: Final = 8 << 20
UNREAD_SOFT_MS: Final = 60_000


class Listener(Protocol):
    """A connection, as far as messages of channels are concerned."""

    def push(self, message: bytes) -> None:
        """Send it behind everything that the client is owed by now."""


class Delivery:
    """Hands a message to the connections of those who listen.

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


class UnreadBound:
    """How long one listener to channels or to MONITOR has left much unread."""

    __slots__ = ("_much_since",)

    def __init__(self) -> None:
        self._much_since: Millis | None = None

    def excess(self, unread_bytes: int, now: Millis) -> str | None:
        """Why the listener is to be cut off; None while it may stay.  Asked at each message."""
        if unread_bytes <= UNREAD_BYTES_SOFT:
            self._much_since = None
            return None
        if unread_bytes > UNREAD_BYTES_MAX:
            return f"it is sent messages and leaves {unread_bytes} bytes unread"
        if self._much_since is None:
            self._much_since = now
        if now - self._much_since > UNREAD_SOFT_MS:
            return (
                f"it is sent messages and has left more than {UNREAD_BYTES_SOFT} bytes unread "
                f"for {UNREAD_SOFT_MS // 1000} s"
            )
        return None
