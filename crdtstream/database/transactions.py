"""MULTI, EXEC, DISCARD, WATCH and UNWATCH.

What a client queues is kept in its session.  The clients that watch a key are kept here, so that a
change makes their transactions fail.

Source: redis.io/docs/latest/develop/using-commands/transactions.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from crdtstream.commands.command import documented
from crdtstream.commands.reply import OK, CommandError, Null, Reply
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.cold import UnreadableError
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size
from crdtstream.database.session import Handler, RunSessionCommand, Session, SessionCommand

# A transaction is one record of the log and one message to the peers, which would not take more
# than twice this.
TRANSACTION_BYTES_MAX: Final = Size(512 << 20, least=1, scope=Scope.CLIENTS)
ABORTED: Final = "EXECABORT Transaction discarded because of previous errors."


class Host(Protocol):
    """Runner of a transaction's commands; the attributes are those of ``Database``."""

    fault: str | None
    on_call: Callable[[Session, list[bytes]], None] | None

    @property
    def replica(self) -> Replica: ...

    def look_ahead(
        self, session: Session, now: Millis, queue: Iterable[tuple[Handler, list[bytes]]]
    ) -> None:
        """Read what the commands will read, as far as that is known; ColdError if it is on disk."""

    def unreadable(self, reason: str) -> CommandError:
        """The error of a command whose entries cannot be read from disk."""

    def run_queue(
        self, session: Session, now: Millis, queue: Sequence[tuple[Handler, list[bytes]]]
    ) -> Reply:
        """Run queued commands; one that would block answers as if its time were over."""


class Transactions:
    """The transactions and watches of a database's clients.

    Attributes:
        watchers: of each key under WATCH, the sessions that watch it, by id.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.watchers: dict[bytes, dict[int, Session]] = {}

    def commands(self) -> list[SessionCommand]:
        functions: dict[bytes, RunSessionCommand] = {
            b"multi": self._multi,
            b"exec": self._exec,
            b"discard": self._discard,
            b"watch": self._watch,
            b"unwatch": self._forget_watches,
        }
        return documented(SessionCommand, functions)

    def note_changed(self, keys: Iterable[bytes]) -> None:
        """These keys changed: the next EXEC of a client that watches one answers null."""
        if not self.watchers:
            return
        for key in keys:
            for session in self.watchers.get(key, {}).values():
                session.dirty = True

    def end(self, session: Session) -> None:
        """Drop the queue and all watches."""
        session.queue = None
        session.queue_bytes = 0
        session.queue_broken = False
        self._unwatch(session)

    # --- Commands -----------------------------------------------------------------------------

    def _multi(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MULTI: what follows is queued until EXEC."""
        if session.queue is not None:
            raise CommandError("ERR MULTI calls can not be nested")
        session.queue = []
        return OK

    def _exec(self, session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """EXEC: run the transaction, and show it to monitors after what it ran.

        Raises:
            ColdError: it needs entries that are on disk only; nothing has happened.
            CommandError: as ``_run_transaction``; or they cannot be read.
        """
        if session.queue and not (session.queue_broken or session.dirty):
            # Before anything is changed: a transaction must not be half run.
            try:
                self._host.look_ahead(session, now, session.queue)
            except UnreadableError as error:
                self.end(session)
                reason = self._host.unreadable(str(error)).text
                raise CommandError(
                    f"EXECABORT Transaction discarded because of: {reason}"
                ) from error
        try:
            return self._run_transaction(session, now)
        finally:
            if self._host.on_call is not None:
                self._host.on_call(session, argv)

    def _run_transaction(self, session: Session, now: Millis) -> Reply:
        """The queued commands one after the other, with nothing between them.

        A command that fails answers its error in its place and the others run all the same.  One
        that would block answers at once as if its time were over.

        Returns:
            The replies; null if a watched key changed.

        Raises:
            CommandError: EXECABORT, if a command was refused when it was queued, or all together
                are more than one batch may be.
        """
        queue, broken, dirty = session.queue, session.queue_broken, session.dirty
        queue_bytes = session.queue_bytes
        if queue is None:
            raise CommandError("ERR EXEC without MULTI")
        self.end(session)
        if broken:
            raise CommandError(ABORTED)
        if dirty:
            return Null.ARRAY
        if self._host.fault is not None and any(handler.writes for handler, _ in queue):
            raise CommandError(
                f"EXECABORT Transaction discarded because of: MISCONF {self._host.fault}"
            )
        if queue_bytes > TRANSACTION_BYTES_MAX.value:
            raise CommandError(
                "EXECABORT Transaction discarded because of: more than "
                f"{TRANSACTION_BYTES_MAX.value >> 20} MiB of arguments; divide it"
            )
        session.in_exec = True
        try:
            # What one command did may have another one read what was not looked for.  If that
            # cannot be read, the other one answers an error.
            with self._host.replica.residency.in_place():
                return self._host.run_queue(session, now, queue)
        finally:
            session.in_exec = False

    def _discard(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """DISCARD: forget the queue and the watches."""
        if session.queue is None:
            raise CommandError("ERR DISCARD without MULTI")
        self.end(session)
        return OK

    def _watch(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """WATCH key …: the next EXEC answers null if one of them changes before, here or by a
        batch from another region."""
        if session.queue is not None:
            raise CommandError("ERR WATCH inside MULTI is not allowed")
        for key in argv[1:]:
            session.watched.add(key)
            self.watchers.setdefault(key, {})[session.id] = session
        return OK

    def _forget_watches(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """UNWATCH: forget the watches, and that a watched key changed."""
        self._unwatch(session)
        return OK

    def _unwatch(self, session: Session) -> None:
        for key in session.watched:
            watchers = self.watchers[key]
            del watchers[session.id]
            if not watchers:
                del self.watchers[key]
        session.watched.clear()
        session.dirty = False
