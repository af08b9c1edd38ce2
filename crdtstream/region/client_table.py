"""The clients of a region: those that are connected, and the replies of those that waited.

    a change, news of peers, a sync, entries from disk ──> database: whom does it serve?
                                                               │
    the client gets the reply, and is woken in the open tick <─┘

A client that has gone gets nothing.
"""

from collections.abc import Callable, Iterable

from crdtstream.commands.reply import Reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.region.clients import Client, Encode
from crdtstream.region.fetching import Fetching
from crdtstream.region.ready import Receiver
from crdtstream.region.tick import Tick


class ClientTable:
    """See the module's text."""

    def __init__(
        self,
        database: Database,
        tick: Tick,
        fetching: Fetching,
        *,
        encode: Encode,
        clock: Callable[[], int],
    ) -> None:
        """A table without clients; ``encode`` and ``clock`` as of ``Region``."""
        self._database = database
        self._tick = tick
        self._fetching = fetching
        self._encode = encode
        self._clock = clock
        self._clients: dict[int, Client] = {}

    def connect(self, receiver: Receiver) -> Client:
        """Connect a client, whose replies ``receiver`` gets."""
        client = Client(
            self._database.open_session(),
            receiver,
            database=self._database,
            tick=self._tick,
            fetching=self._fetching,
            settle=self.settle,
            encode=self._encode,
            clock=self._clock,
        )
        self._clients[client.session.id] = client
        return client

    def disconnect(self, client: Client) -> None:
        """Forget a client that has disconnected."""
        client.end()
        self._clients.pop(client.session.id, None)

    def settle(self, now: Millis) -> None:
        """Serve clients that waited for a change."""
        served = self._database.settle(now)
        if served:
            self._answer_all(served)

    def change_anyway(self, change: Callable[[Replica, Millis], object], now: Millis) -> None:
        """Change the replica although writes are refused, and serve clients that waited for it.

        Raises:
            CommandError: it cannot be.
            UnreadableError: an entry that it needs cannot be read.
        """
        try:
            with self._database.replica.residency.in_place():
                self._database.change_anyway(now, change)
        finally:
            self.settle(now)
            self._tick.open()

    def settle_acks(self, now: Millis) -> None:
        """Serve clients that waited until other regions, or the disk, have more."""
        if self._database.waiting.by_session:
            self._answer_all(self._database.settle_acks(now))

    def serve_fetched(self, now: Millis) -> None:
        """Serve clients that waited for entries that are on disk."""
        self._answer_all(self._database.serve_fetched(now))

    def serve_all(self, now: Millis) -> None:
        """Let all that wait look again."""
        self._answer_all(self._database.serve_all(now))

    def expire(self, now: Millis) -> None:
        """Delete keys that have expired, and end waits whose time is over."""
        self._answer_all(self._database.expire(now))

    def unblock(self, session_id: int, *, with_error: bool) -> bool:
        """End a client's wait (CLIENT UNBLOCK); return True if it waited."""
        served = self._database.unblock(session_id, with_error=with_error)
        if served is None:
            return False
        self._answer(*served)
        return True

    def end_pause(self, now: Millis) -> None:
        """End CLIENT PAUSE: serve the blocked clients, then run what was postponed."""
        self.serve_all(now)
        for client in self._clients.values():
            client.go_on()
        self._tick.open()

    def try_again(self, session_id: int) -> bool:
        """Try a client's throttled write again; return True if the client is still connected."""
        client = self._clients.get(session_id)
        if client is not None:
            client.go_on()
        return client is not None

    def wake_all(self) -> None:
        """Wake all clients: what they wait for may be refused, or taken, from now on."""
        for client in self._clients.values():
            self._tick.wake(client.receiver)

    def _answer_all(self, served: Iterable[tuple[Session, Reply]]) -> None:
        for session, reply in served:
            self._answer(session, reply)

    def _answer(self, session: Session, reply: Reply) -> None:
        client = self._clients.get(session.id)
        # A session that is not ours belongs to another caller of the database.
        if client is not None:
            client.answer(reply)
