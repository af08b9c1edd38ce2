"""One simulated region: the real replica and database, around them a clock and a disk.

It keeps the order that every node keeps: run, log, then tell.  A tick is one command or one
delivery; its records are committed before replies are handed out or peers can pull its effects.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from crdtstream.commands.reply import Push, Pushes, Reply
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import IdMode, Millis, Region
from crdtstream.core.inbox import Inbox
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.database.database import WAITING as DATABASE_WAITING
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.resp.wire.encode import encode
from crdtstream.sim.disk import Disk

# More than a simulation can have in flight: the real links' bounds are tested with the links.
_INBOX_BATCHES_MAX = 1 << 30
_INBOX_BYTES_MAX = 1 << 60


@dataclass(frozen=True, slots=True)
class NodeSettings:
    id_mode: IdMode = IdMode.STRICT
    implicit_mkstream: bool = False


class SimNode:
    """A region that can be called, delivered to, crashed and restarted.

    Attributes:
        clock: what its wall clock reads; whoever owns the node moves it.
        is_up: False between ``crash`` and ``restart``.
    """

    def __init__(
        self, region: Region, peers: Collection[Region], settings: NodeSettings, clock: Millis
    ) -> None:
        self.region = region
        self._peers = peers
        self.clock = clock
        self._settings = settings
        self._disk = Disk()
        self._start()

    def _start(self) -> None:
        """A process with nothing in it but what the disk holds."""
        self.is_up = True
        self.replica = Replica(
            self.region,
            id_mode=self._settings.id_mode,
            implicit_mkstream=self._settings.implicit_mkstream,
            peers=self._peers,
        )
        for record in self._disk.durable():
            self.replica.replay(record)
        self._database = Database(self.replica)
        self._database.channels.deliver = self._note_push
        self._pushed: list[tuple[Session, Push]] = []
        self._inbox = Inbox(
            self.replica, batches_max=_INBOX_BATCHES_MAX, bytes_max=_INBOX_BYTES_MAX
        )
        self._sessions: dict[str, Session] = {}
        self._replies: dict[int, deque[bytes]] = {}

    # --- Clients ------------------------------------------------------------------------------

    def call(self, client: str, argv: tuple[bytes, ...]) -> None:
        """One command of one client, a tick of its own."""
        assert self.is_up
        session = self._session(client)
        reply = self._database.call(session, self.clock, list(argv))
        self._end_tick([] if reply is DATABASE_WAITING else [(session, reply)])

    def take_reply(self, client: str) -> bytes | None:
        """The next reply for this client, as the bytes that it would receive."""
        replies = self._replies[self._session(client).id]
        return replies.popleft() if replies else None

    def let_time_pass(self) -> None:
        """Answer blocked commands whose time is over."""
        if self.is_up:
            self._end_tick(self._database.expire(self.clock))

    def _session(self, client: str) -> Session:
        if client not in self._sessions:
            session = self._database.open_session()
            self._sessions[client] = session
            self._replies[session.id] = deque()
        return self._sessions[client]

    # --- Peers --------------------------------------------------------------------------------

    @property
    def vv(self) -> VersionVector:
        return self.replica.vv

    def batches_beyond(self, vv: VersionVector) -> list[bytes]:
        """What a peer with this version vector lacks, in the order it was applied here."""
        return [
            record.batch
            for record in self._disk.durable()
            if record.batch is not None and record.last_n > vv.get(record.origin, 0)
        ]

    def deliver(self, encoded: bytes) -> None:
        """A batch arrived; apply it and all that waited for it, as one tick."""
        assert self.is_up
        self._inbox.offer(decode_batch(encoded), encoded)
        while ready := self._inbox.pop_ready():
            for batch, its_bytes in ready:
                self.replica.receive(batch, its_bytes, self.clock)
        self._end_tick([])

    # --- Ticks, crashes -----------------------------------------------------------------------

    def _end_tick(self, answered: list[tuple[Session, Reply]]) -> None:
        answered += self._database.settle(self.clock)
        answered += self._database.settle_acks(self.clock)
        self._disk.write(self.replica.take_records(self.clock))
        self._disk.commit()
        pushed, self._pushed = self._pushed, []
        for session, reply in [*answered, *pushed]:
            for one in reply.pushes if isinstance(reply, Pushes) else [reply]:
                chunks: list[bytes] = []
                encode(one, session.protocol, chunks)
                self._replies[session.id].append(b"".join(chunks))

    def _note_push(self, listeners: Collection[Session], push: Push) -> None:
        """A publication, for who listens in this region.

        It goes to no other: between two syncs links are held, and a publication does not wait.
        """
        self._pushed += [(session, push) for session in listeners]

    def crash(self) -> None:
        """End the process: connections, blocked commands and what is not durable are gone."""
        assert self.is_up
        self._disk.crash()
        self.is_up = False

    def restart(self) -> None:
        """Begin again from the durable log."""
        assert not self.is_up
        before = dict(self.replica.vv)
        self._start()
        # Each tick was committed before it was told, so nothing can be missing.
        assert dict(self.replica.vv) == before
