"""Many clients on one replica: finding the command, transactions, waiting.

No sockets and no clock: a shell (the RESP server, the simulator) calls :meth:`Database.call` for
each request and hands the answers on.  What a call changed may satisfy others, so after every
call, and after every batch applied from another region, the shell calls :meth:`Database.settle`:

    reply = database.call(session, now, argv)       # WAITING: the answer comes later, from below
    for served, reply in database.settle(now): …    # clients that waited for just this
    for served, reply in database.expire(now): …    # clients whose time is over

Always so:
  * Between two calls ``replica.touched`` is empty: WATCH is tripped, and blocked commands are run
    again, after the command or transaction that touched their key has ended, never within it.
  * Nobody seals the replica's batch during a call.  So all that one EXEC does lands in one batch,
    and every region applies it as a whole.
  * Blocked clients are served in the order in which they began to wait.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeAlias

from crdtstream.commands.arguments import shown
from crdtstream.commands.command import Command
from crdtstream.commands.reply import OK, Blocked, CommandError, Null, Reply, Status
from crdtstream.commands.session import Row, Session, SessionCommand
from crdtstream.commands.table import COMMANDS
from crdtstream.commands.waiting import Waiter, WaitingRoom
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

Served: TypeAlias = tuple[Session, Reply]

QUEUED: Final = Status(b"QUEUED")
ABORTED: Final = "EXECABORT Transaction discarded because of previous errors."
NO_AUTH: Final = "NOAUTH Authentication required."
UNBLOCKED: Final = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
# How much of an unknown command an error repeats.
SHOWN_BYTES_MAX: Final = 128


class Waiting(Enum):
    """What ``call`` returns instead of a reply when the client is to wait."""

    WAITING = "waiting"


WAITING: Final = Waiting.WAITING


class Database:
    """The commands of all clients on one replica.

    Attributes:
        replica: the state that commands read and change.
        fault: why writes are refused at present (a full disk …), or None; the shell sets it.
            Commands flagged ``write`` then answer MISCONF with this text.
        commands: every command known, by lower-case name.
    """

    def __init__(self, replica: Replica, commands: Mapping[bytes, Command] = COMMANDS) -> None:
        self.replica = replica
        self.fault: str | None = None
        self.commands: dict[bytes, Command | SessionCommand] = {}
        self._rows: dict[bytes, Row] = {}
        # The rows again by the spellings that clients use, without containers: one look-up finds
        # nearly every command.
        self._spelled: dict[bytes, Row] = {}
        self._containers: set[bytes] = set()

        self._session_id = 0
        self._watchers: dict[bytes, dict[int, Session]] = {}
        self._waiting = WaitingRoom()

        self.register(commands.values())
        self.register(self._transaction_commands())

    def register(self, commands: Iterable[Command | SessionCommand]) -> None:
        """Make commands known; of two with one name the later counts."""
        for command in commands:
            self.commands[command.name] = command
            self._rows[command.name] = _row(command)
        self._containers = {name.partition(b"|")[0] for name in self._rows if b"|" in name}
        self._spelled = {
            spelling: row
            for name, row in self._rows.items()
            if b"|" not in name and name not in self._containers
            for spelling in (name, name.upper())
        }

    # --- Sessions -----------------------------------------------------------------------------

    def open_session(self) -> Session:
        """A new client."""
        self._session_id += 1
        return Session(self._session_id)

    def forget(self, session: Session) -> None:
        """The client is gone: it waits, watches and queues no more."""
        self.end_transaction(session)
        waiter = self._waiting.of(session.id)
        if waiter is not None:
            self._waiting.remove(waiter)

    def end_transaction(self, session: Session) -> None:
        """Drop the queue and all watches."""
        session.queue = None
        session.queue_broken = False
        self._unwatch(session)

    @property
    def waiting_count(self) -> int:
        """How many clients are blocked."""
        return len(self._waiting)

    @property
    def awaited_key_count(self) -> int:
        """How many keys blocked clients wait for."""
        return self._waiting.key_count

    @property
    def watched_key_count(self) -> int:
        """How many keys are under WATCH."""
        return len(self._watchers)

    def is_waiting(self, session: Session) -> bool:
        return self._waiting.of(session.id) is not None

    # --- Calling ------------------------------------------------------------------------------

    def call(self, session: Session, now: Millis, argv: list[bytes]) -> Reply | Waiting:
        """Run a command, or queue it in a transaction.

        Returns:
            The reply; a CommandError as a value, nothing having changed then; or WAITING: the
            reply comes from ``settle``, ``expire`` or ``unblock``, and until then no further
            command of this session may be called.

        Source: the order of the checks is Redis's processCommand.
        """
        assert argv, "an empty request is the parser's to skip"
        row = self._spelled.get(argv[0])
        if row is None:
            found = self._find(argv)
            if isinstance(found, CommandError):
                return _refuse(session, found)
            row = found
        arity = row.arity
        if len(argv) != arity and (arity >= 0 or len(argv) < -arity):
            return self._wrong_arity(session, row)
        if row.needs_auth and not session.authenticated:
            return _refuse(session, CommandError(NO_AUTH))
        if row.writes and self.fault is not None:
            return _refuse(session, CommandError(f"MISCONF {self.fault}"))

        session.last_command = row.name
        if session.queue is not None and not row.immediate:
            session.queue.append((row, argv))
            return QUEUED
        try:
            reply = self._run(row, session, now, argv)
        except CommandError as error:
            return error
        if isinstance(reply, Blocked):
            self._waiting.add(session, row, reply, now)
            return WAITING
        return reply

    def _run(self, row: Row, session: Session, now: Millis, argv: list[bytes]) -> Reply | Blocked:
        if row.on_replica is None:
            assert row.on_session is not None
            return row.on_session(session, now, argv)
        reply = row.on_replica(self.replica, now, argv)
        if row.writes:
            session.wrote_n = self.replica.issued
        return reply

    def _find(self, argv: list[bytes]) -> Row | CommandError:
        """The command's row whatever its case, subcommands included; or what to answer."""
        name = argv[0].lower()
        if name in self._containers and len(argv) > 1:
            row = self._rows.get(name + b"|" + argv[1].lower())
            if row is not None:
                return row
            return CommandError(
                f"ERR unknown subcommand '{shown(argv[1][:SHOWN_BYTES_MAX])}'. "
                f"Try {shown(name).upper()} HELP."
            )
        row = self._rows.get(name)
        return row if row is not None and b"|" not in name else _unknown_command(argv)

    def _wrong_arity(self, session: Session, row: Row) -> Reply:
        what = f"wrong number of arguments for '{row.name.decode()}' command"
        if row.name == b"exec" and session.queue is not None:
            self.end_transaction(session)
            return CommandError(f"EXECABORT Transaction discarded because of: {what}")
        return _refuse(session, CommandError(f"ERR {what}"))

    # --- Serving who waits --------------------------------------------------------------------

    def settle(self, now: Millis) -> list[Served]:
        """What the changes since the last call mean to others: trip WATCHes, serve the blocked.

        Serving one (XREADGROUP) may change a key that others wait for, so it goes round until a
        round serves nobody; each round takes at least one client out, so that ends.

        Returns:
            The replies of those who were waiting, in the order in which they had come.

        Cost: O(1) if nobody waits or watches; else the commands of those who wait for the changed
        keys, run again.
        """
        touched = self.replica.touched
        if not touched:
            return []
        if not self._watchers and not self._waiting:
            touched.clear()
            return []
        served: list[Served] = []
        while touched:
            keys = sorted(touched)
            touched.clear()
            self._trip_watches(keys)
            round_served = self._serve(self._waiting.of_keys(keys), now)
            served += round_served
            if not round_served:
                # What those touched who found nothing must not wake them once more.
                self._trip_watches(touched)
                touched.clear()
        return served

    def settle_acks(self, now: Millis) -> list[Served]:
        """Serve those who wait for other regions (WAIT); to be called when a peer acknowledged."""
        return self._serve(self._waiting.keyless(), now)

    def next_deadline(self) -> Millis | None:
        """When ``expire`` is to be called next; None if nobody waits with a limit."""
        return self._waiting.next_deadline()

    def expire(self, now: Millis) -> list[Served]:
        """The answers of those whose time is over."""
        return [
            (waiter.session, self._last_answer(waiter, now))
            for waiter in self._waiting.take_expired(now)
        ]

    def unblock(self, session_id: int, *, with_error: bool) -> Served | None:
        """CLIENT UNBLOCK: end a client's waiting as if its time were over, or with an error.

        Returns:
            The client and its answer, which is for the shell to hand on; None if it waits for
            nothing.
        """
        waiter = self._waiting.of(session_id)
        if waiter is None:
            return None
        self._waiting.remove(waiter)
        if with_error:
            return waiter.session, CommandError(UNBLOCKED)
        return waiter.session, waiter.blocked.on_timeout

    def _serve(self, waiters: list[Waiter], now: Millis) -> list[Served]:
        served: list[Served] = []
        for waiter in waiters:
            reply = self._try_again(waiter, now)
            if not isinstance(reply, Blocked):
                self._waiting.remove(waiter)
                served.append((waiter.session, reply))
        return served

    def _try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        if waiter.row.writes and self.fault is not None:
            return CommandError(f"MISCONF {self.fault}")
        try:
            reply = waiter.blocked.retry(self.replica, now)
        except CommandError as error:
            return error
        if waiter.row.writes:
            waiter.session.wrote_n = self.replica.issued
        return reply

    def _last_answer(self, waiter: Waiter, now: Millis) -> Reply:
        """A reader gets its null; WAIT, which waits for no key, counts once more."""
        if waiter.blocked.keys:
            return waiter.blocked.on_timeout
        reply = self._try_again(waiter, now)
        return waiter.blocked.on_timeout if isinstance(reply, Blocked) else reply

    def _trip_watches(self, keys: Iterable[bytes]) -> None:
        if not self._watchers:
            return
        for key in keys:
            for session in self._watchers.get(key, {}).values():
                session.dirty = True

    # --- Transactions -------------------------------------------------------------------------

    def _transaction_commands(self) -> list[SessionCommand]:
        flags = frozenset({"noscript", "fast", "immediate"})
        return [
            SessionCommand(name, run, arity, flags, 0, 0, 0, "transactions", summary, since)
            for name, run, arity, summary, since in (
                (b"multi", self._multi, 1, "Starts a transaction.", "1.2.0"),
                (b"exec", self._exec, 1, "Executes all commands in a transaction.", "1.2.0"),
                (b"discard", self._discard, 1, "Discards a transaction.", "2.0.0"),
                (b"watch", self._watch, -2, "Monitors keys for changes.", "2.2.0"),
                (b"unwatch", self._forget_watches, 1, "Forgets all watched keys.", "2.2.0"),
            )
        ]

    def _multi(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """MULTI: what follows is queued until EXEC."""
        if session.queue is not None:
            raise CommandError("ERR MULTI calls can not be nested")
        session.queue = []
        return OK

    def _exec(self, session: Session, now: Millis, _argv: list[bytes]) -> Reply:
        """EXEC: the queued commands one after the other, with nothing between them.

        A command that fails answers its error in its place and the others run all the same.  One
        that would block answers at once as if its time were over.

        Returns:
            The replies; null if a watched key changed.

        Raises:
            CommandError: EXECABORT, if a command was refused when it was queued.
        """
        queue, broken, dirty = session.queue, session.queue_broken, session.dirty
        if queue is None:
            raise CommandError("ERR EXEC without MULTI")
        self.end_transaction(session)
        if broken:
            raise CommandError(ABORTED)
        if dirty:
            return Null.ARRAY
        if self.fault is not None and any(row.writes for row, _ in queue):
            raise CommandError(f"EXECABORT Transaction discarded because of: MISCONF {self.fault}")
        return [self._run_queued(row, session, now, argv) for row, argv in queue]

    def _run_queued(self, row: Row, session: Session, now: Millis, argv: list[bytes]) -> Reply:
        try:
            reply = self._run(row, session, now, argv)
        except CommandError as error:
            return error
        return reply.on_timeout if isinstance(reply, Blocked) else reply

    def _discard(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """DISCARD: forget the queue and the watches."""
        if session.queue is None:
            raise CommandError("ERR DISCARD without MULTI")
        self.end_transaction(session)
        return OK

    def _watch(self, session: Session, _now: Millis, argv: list[bytes]) -> Reply:
        """WATCH key …: the next EXEC answers null if one of them changes before, here or by a
        batch from another region."""
        if session.queue is not None:
            raise CommandError("ERR WATCH inside MULTI is not allowed")
        for key in argv[1:]:
            session.watched.add(key)
            self._watchers.setdefault(key, {})[session.id] = session
        return OK

    def _forget_watches(self, session: Session, _now: Millis, _argv: list[bytes]) -> Reply:
        """UNWATCH: forget the watches, and that one was tripped."""
        self._unwatch(session)
        return OK

    def _unwatch(self, session: Session) -> None:
        for key in session.watched:
            watchers = self._watchers[key]
            del watchers[session.id]
            if not watchers:
                del self._watchers[key]
        session.watched.clear()
        session.dirty = False


def _row(command: Command | SessionCommand) -> Row:
    is_ours = isinstance(command, SessionCommand)
    return Row(
        command.name,
        command.arity,
        on_replica=command.run if isinstance(command, Command) else None,
        on_session=command.run if isinstance(command, SessionCommand) else None,
        writes="write" in command.flags,
        needs_auth=not (is_ours and "no_auth" in command.flags),
        immediate=is_ours and "immediate" in command.flags,
    )


def _refuse(session: Session, error: CommandError) -> CommandError:
    """Refuse a command before it runs; inside MULTI that spoils the transaction."""
    if session.queue is not None:
        session.queue_broken = True
    return error


def _unknown_command(argv: list[bytes]) -> CommandError:
    """Redis's words: the name and as many arguments as fit into 128 bytes."""
    arguments = ""
    for argument in argv[1:]:
        left = SHOWN_BYTES_MAX - len(arguments)
        if left <= 0:
            break
        arguments += f"'{shown(argument[:left])}' "
    name = shown(argv[0][:SHOWN_BYTES_MAX])
    return CommandError(f"ERR unknown command '{name}', with args beginning with: {arguments}")
