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

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, TypeAlias

from crdtstream.commands.arguments import shown
from crdtstream.commands.channels import Channels
from crdtstream.commands.command import Command
from crdtstream.commands.pubsub import PubSub
from crdtstream.commands.reply import OK, Blocked, CommandError, Null, Reply, Status
from crdtstream.commands.session import RESP2, Row, Session, SessionCommand
from crdtstream.commands.statistics import SAMPLES_MAX, CallStatistics, Statistics
from crdtstream.commands.table import COMMANDS
from crdtstream.commands.waiting import Waiter, WaitingRoom
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

Served: TypeAlias = tuple[Session, Reply]

QUEUED: Final = Status(b"QUEUED")
ABORTED: Final = "EXECABORT Transaction discarded because of previous errors."
NO_AUTH: Final = "NOAUTH Authentication required."
UNBLOCKED: Final = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
NOT_IN_MULTI: Final = "ERR Command not allowed inside a transaction"
# What a RESP2 client may call while it listens to a channel: there, nothing but its shape tells a
# message from a reply.
FOR_SUBSCRIBERS: Final = frozenset(
    prefix + word for prefix in (b"", b"p", b"s") for word in (b"subscribe", b"unsubscribe")
) | {b"ping", b"quit", b"reset"}
# How much of an unknown command an error repeats.
SHOWN_BYTES_MAX: Final = 128


class Waiting(Enum):
    """What ``call`` returns instead of a reply when the client is to wait."""

    WAITING = "waiting"


WAITING: Final = Waiting.WAITING


class Pause(Enum):
    """Which commands CLIENT PAUSE stops."""

    WRITE = "write"
    ALL = "all"


class PostponedError(Exception):
    """CLIENT PAUSE stops this command: nothing has happened, call it again when that is over."""


class Database:
    """The commands of all clients on one replica.

    Attributes:
        replica: the state that commands read and change.
        fault: why writes are refused at present (a full disk …), or None; the shell sets it.
            Commands flagged ``write`` then answer MISCONF with this text.
        pause: which commands are postponed at present; the shell sets it, and when it is over
            calls ``serve_all``.
        commands: every command known, by lower-case name.
        statistics: what ran, and how long it took by ``clock``.
        clock: nanoseconds that pass; the shell sets it.  Without one nothing takes any time.
        slow_ns, on_slow: told of each command that took at least so long.
        on_call: told of each command just before it runs (MONITOR), of EXEC after it.
        channels: who listens to what; the shell says there how to tell them.
    """

    def __init__(self, replica: Replica, commands: Mapping[bytes, Command] = COMMANDS) -> None:
        self.replica = replica
        self.fault: str | None = None
        self.pause: Pause | None = None
        self.statistics = Statistics()
        self.clock: Callable[[], int] = _no_clock
        self.slow_ns = sys.maxsize
        self.on_slow: Callable[[Session, Row, list[bytes], int], None] | None = None
        self.on_call: Callable[[Session, list[bytes]], None] | None = None
        # What the command took that has just begun to wait.
        self._blocked_ns = 0
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
        self.channels = Channels()
        self.register(PubSub(self.channels).commands())

    def register(self, commands: Iterable[Command | SessionCommand]) -> None:
        """Make commands known; of two with one name the later counts."""
        for command in commands:
            self.commands[command.name] = command
            self._rows[command.name] = _row(command, self.statistics.of(command.name))
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
        """The client is gone: it waits, watches, queues and listens no more."""
        self.end_transaction(session)
        self.channels.forget(session)
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

        Raises:
            PostponedError: CLIENT PAUSE stops it.

        Source: the order of the checks is Redis's processCommand.
        """
        assert argv, "an empty request is the parser's to skip"
        if now != self.replica.now:
            self.replica.advance(now)
        row = self._spelled.get(argv[0])
        if row is None:
            found = self._find(argv)
            if isinstance(found, CommandError):
                return self._refuse(session, found)
            row = found
        arity = row.arity
        if len(argv) != arity and (arity >= 0 or len(argv) < -arity):
            return self._wrong_arity(session, row)
        if row.needs_auth and not session.authenticated:
            return self._refuse(session, CommandError(NO_AUTH), row)
        if row.writes and self.fault is not None:
            return self._refuse(session, CommandError(f"MISCONF {self.fault}"), row)
        if session.subscriptions and session.protocol == RESP2 and row.name not in FOR_SUBSCRIBERS:
            return self._refuse_subscriber(session, row)

        session.last_command = row.name
        if session.queue is not None or self.pause is not None:
            held_back = self._queue_or_postpone(session, row, argv)
            if held_back is not None:
                return held_back
        reply = self._run(row, session, now, argv)
        if isinstance(reply, Blocked):
            self._waiting.add(session, row, reply, now, argv=argv, ns=self._blocked_ns)
            return WAITING
        return reply

    def _queue_or_postpone(self, session: Session, row: Row, argv: list[bytes]) -> Reply | None:
        """What MULTI and CLIENT PAUSE do to a command; None: it is to run now."""
        if session.queue is not None and row.no_multi:
            return self._refuse(session, CommandError(NOT_IN_MULTI), row)
        if self.pause is not None and self._is_paused(session, row):
            raise PostponedError
        if session.queue is None or row.immediate:
            return None
        session.queue.append((row, argv))
        return QUEUED

    def _run(self, row: Row, session: Session, now: Millis, argv: list[bytes]) -> Reply | Blocked:
        """Run a command and note that it ran, unless it is Blocked; an error is a value."""
        if self.on_call is not None and row.monitored:
            self.on_call(session, argv)
        clock = self.clock
        on_replica = row.on_replica
        reply: Reply | Blocked
        started = clock()
        try:
            if on_replica is not None:
                reply = on_replica(self.replica, now, argv)
                if row.writes:
                    session.wrote_n = self.replica.issued
            else:
                assert row.on_session is not None
                reply = row.on_session(session, now, argv)
        except CommandError as error:
            reply = self._note_failure(row, error)
        ns = clock() - started
        if reply.__class__ is Blocked:
            self._blocked_ns = ns
            return reply
        samples = row.samples
        samples.append(ns)
        if ns >= self.slow_ns or len(samples) >= SAMPLES_MAX:
            self._note_rarely(row, session, argv, ns)
        return reply

    def _note_call(self, waiter: Waiter) -> None:
        """A blocked command has run to its end."""
        waiter.row.samples.append(waiter.ns)
        self._note_rarely(waiter.row, waiter.session, waiter.argv, waiter.ns)

    def _note_rarely(self, row: Row, session: Session, argv: list[bytes], ns: int) -> None:
        if len(row.samples) >= SAMPLES_MAX:
            row.stats.fold()
        if ns >= self.slow_ns and self.on_slow is not None:
            self.on_slow(session, row, argv, ns)

    def _note_failure(self, row: Row, error: CommandError) -> CommandError:
        row.stats.failed += 1
        self.statistics.note_error(error.text)
        return error

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
        if row.name == b"exec":
            self.end_transaction(session)
            return self._refuse(
                session, CommandError(f"EXECABORT Transaction discarded because of: {what}"), row
            )
        return self._refuse(session, CommandError(f"ERR {what}"), row)

    def _refuse_subscriber(self, session: Session, row: Row) -> Reply:
        what = (
            f"Can't execute '{row.name.decode()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
            "QUIT / RESET are allowed in this context"
        )
        if row.name == b"exec":
            self.end_transaction(session)
            return self._refuse(
                session, CommandError(f"EXECABORT Transaction discarded because of: {what}"), row
            )
        return self._refuse(session, CommandError(f"ERR {what}"), row)

    def _refuse(
        self, session: Session, error: CommandError, row: Row | None = None
    ) -> CommandError:
        """Refuse a command before it runs; inside MULTI that spoils the transaction."""
        if session.queue is not None:
            session.queue_broken = True
        if row is not None:
            row.stats.rejected += 1
        self.statistics.note_error(error.text)
        return error

    def _is_paused(self, session: Session, row: Row) -> bool:
        """Whether CLIENT PAUSE stops it: EXEC counts as a write if something queued is one."""
        return (
            self.pause is Pause.ALL
            or row.may_write
            or (row.name == b"exec" and any(queued.may_write for queued, _ in session.queue or ()))
        )

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
        """Serve those who wait for other regions (WAIT, CRDT.WAITFOR); to be called when a peer
        acknowledged, and when something of a peer was applied."""
        return self._serve(self._waiting.keyless(), now)

    def serve_all(self, now: Millis) -> list[Served]:
        """Try all blocked commands again: to be called when CLIENT PAUSE is over."""
        return self._serve(self._waiting.all(), now) + self.settle(now)

    def next_deadline(self) -> Millis | None:
        """When ``expire`` is to be called next; None if nothing depends on time."""
        if self.fault is None and self.replica.has_due:
            # A command or batch has come before the clock's turn and found keys that are over.
            return self.replica.now
        times = (self._waiting.next_time(), self.replica.next_deadline())
        return min((time for time in times if time is not None), default=None)

    def expire(self, now: Millis) -> list[Served]:
        """What the clock brings: keys expire, commands are tried again, patience ends.

        Returns:
            The answers of those who were waiting.
        """
        self.replica.advance(now)
        if self.fault is None:
            self.replica.expire_due()
        served = self.settle(now)
        retried, expired = self._waiting.take_due(now)
        served += self._serve(retried, now)
        for waiter in expired:
            reply = self._last_answer(waiter, now)
            self._note_call(waiter)
            served.append((waiter.session, reply))
        return served + self.settle(now)

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
        reply = waiter.blocked.on_timeout
        if with_error:
            reply = self._note_failure(waiter.row, CommandError(UNBLOCKED))
        self._note_call(waiter)
        return waiter.session, reply

    def _serve(self, waiters: list[Waiter], now: Millis) -> list[Served]:
        served: list[Served] = []
        for waiter in waiters:
            if self.pause is not None and self._is_held_back(waiter):
                # Not by the clock, either: it is tried again when the pause is over.
                self._waiting.keep(waiter, replace(waiter.blocked, retry_at=None))
                continue
            reply = self._try_again(waiter, now)
            if isinstance(reply, Blocked):
                self._waiting.keep(waiter, reply)
            else:
                self._waiting.remove(waiter)
                self._note_call(waiter)
                served.append((waiter.session, reply))
        return served

    def _is_held_back(self, waiter: Waiter) -> bool:
        """Whether CLIENT PAUSE forbids to serve it; who waits for no key changes nothing."""
        return bool(waiter.blocked.keys) and self._is_paused(waiter.session, waiter.row)

    def _try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        if waiter.row.writes and self.fault is not None:
            return self._note_failure(waiter.row, CommandError(f"MISCONF {self.fault}"))
        started = self.clock()
        try:
            reply = waiter.blocked.retry(self.replica, now)
        except CommandError as error:
            reply = self._note_failure(waiter.row, error)
        waiter.ns += self.clock() - started
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
        fast = frozenset({"noscript", "fast", "immediate"})
        # Within a transaction it waits its turn: EXEC has to look at the watches first.
        for_unwatch = fast - {"immediate"}
        for_exec = frozenset({"noscript", "immediate", "skip_slowlog"})
        return [
            SessionCommand(
                name,
                run,
                arity,
                {b"exec": for_exec, b"unwatch": for_unwatch}.get(name, fast),
                group="transactions",
                summary=summary,
                since=since,
            )
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

    def _exec(self, session: Session, now: Millis, argv: list[bytes]) -> Reply:
        """EXEC: run the transaction, and tell monitors of it after what it ran."""
        try:
            return self._run_transaction(session, now)
        finally:
            if self.on_call is not None:
                self.on_call(session, argv)

    def _run_transaction(self, session: Session, now: Millis) -> Reply:
        """The queued commands one after the other, with nothing between them.

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
        session.in_exec = True
        try:
            return [self._run_queued(row, session, now, argv) for row, argv in queue]
        finally:
            session.in_exec = False

    def _run_queued(self, row: Row, session: Session, now: Millis, argv: list[bytes]) -> Reply:
        reply = self._run(row, session, now, argv)
        if not isinstance(reply, Blocked):
            return reply
        row.samples.append(self._blocked_ns)
        self._note_rarely(row, session, argv, self._blocked_ns)
        return reply.on_timeout

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


def _no_clock() -> int:
    return 0


def _row(command: Command | SessionCommand, stats: CallStatistics) -> Row:
    flags = command.flags
    is_ours = isinstance(command, SessionCommand)
    return Row(
        command.name,
        command.arity,
        on_replica=command.run if isinstance(command, Command) else None,
        on_session=command.run if isinstance(command, SessionCommand) else None,
        writes=bool(flags & {"write", "names_dots"}),
        needs_auth=not (is_ours and "no_auth" in command.flags),
        immediate=is_ours and "immediate" in command.flags,
        no_multi="no_multi" in flags,
        may_write=bool(flags & {"write", "may_replicate"}),
        fast="fast" in flags,
        # EXEC tells of itself, after what it ran.
        monitored=not flags & {"admin", "skip_monitor"} and command.name != b"exec",
        slowlogged="skip_slowlog" not in flags,
        stats=stats,
        samples=stats.samples,
    )


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
