"""Many clients on one replica: each calls commands, and gets an answer now or later.

No sockets and no clock: a shell (the RESP server, the simulator) calls :meth:`Database.call` for
each request and hands the answers on.  What a call changed may satisfy others, so after every
call, and after every batch applied from another region, the shell calls :meth:`Database.settle`:

    reply = database.call(session, now, argv)       # WAITING: the answer comes later, from here:
    for served, reply in database.settle(now): …    # clients that waited for just this
    for served, reply in database.expire(now): …    # clients that waited long enough

This file runs commands.  ``dispatch`` finds them, ``admission`` says what may not run at present,
and ``refusing`` refuses it.  ``transactions`` queues, ``serving`` tries the blocked ones again,
``writes`` knows what each client wrote, and ``runs`` calls many XADDs as one.

Always so:
  * Between two calls ``replica.touched`` is empty: WATCH is tripped, and blocked commands are run
    again, after the command or transaction that touched their key has ended, never within it.
  * The replica's batch is not sealed during a call.  So all that one EXEC does is in one batch, and
    every region applies it as a whole.
  * Blocked clients are served in the order in which they began to wait.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeVar

from crdtstream.commands.command import Command
from crdtstream.commands.reply import Blocked, CommandError, Reply, Status
from crdtstream.commands.scripts.known import SCRIPT_COMMANDS
from crdtstream.commands.scripts.scripting import digest_of
from crdtstream.commands.table import COMMANDS
from crdtstream.core.ids import Millis
from crdtstream.core.issuing.issuer import TrialEndedError
from crdtstream.core.lanes.cold import ColdError, UnreadableError
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.database.acl.log import Context, Refused
from crdtstream.database.acl.selectors import Denial, Reason
from crdtstream.database.acl.texts import refusal_of, since_queued
from crdtstream.database.acl.users import User, Users
from crdtstream.database.admission import (
    Fullness,
    Pause,
    PostponedError,
    WriteLimit,
    adds_by_exec,
    queued_writes,
)
from crdtstream.database.channels import Channels
from crdtstream.database.dispatch import AnyCommand, Dispatch
from crdtstream.database.notifications import Notifications
from crdtstream.database.pubsub import PubSub
from crdtstream.database.refusing import FOR_SUBSCRIBERS, NO_AUTH, NOT_IN_MULTI, Refusals
from crdtstream.database.runs import Runs
from crdtstream.database.serving import Served, Serving
from crdtstream.database.session import RESP2, Handler, Session
from crdtstream.database.session_reads import SessionReads
from crdtstream.database.statistics import SAMPLES_MAX, Statistics
from crdtstream.database.transactions import Transactions
from crdtstream.database.waiting import Waiter
from crdtstream.database.writes import OpenWrites

T = TypeVar("T")
RUN_SCRIPTS: Final = frozenset({b"eval", b"evalsha"})
QUEUED: Final = Status(b"QUEUED")
UNREADABLE: Final = (
    "entries cannot be read from disk: {}; this command has changed nothing: look after the disk, "
    "or stop the node and run crdtstream fsck, and try again"
)
BROKEN: Final = (
    "ERR internal error: this command has changed nothing; what failed stands in the log of the "
    "node, please report it"
)
# Outside of transactions a batch is closed when it has grown beyond this.
BATCH_BYTES_TARGET: Final = Size(16 << 20, least=1)


class Waiting(Enum):
    """Value that ``call`` returns instead of a reply if the client is to wait."""

    WAITING = "waiting"


WAITING: Final = Waiting.WAITING


class Database:
    """The commands of all clients on one replica.

    Attributes:
        replica: the state that commands read and change.
        fault: why writes are refused at present (a full disk …), or None; the shell sets it.
            Commands flagged ``write`` then answer MISCONF with this text.
        pause: which commands are postponed at present; the shell sets it, and when it ends calls
            ``serve_all``.
        limit: asked before each write while a bound on what lags holds; the region sets it.
        full: there is no room for more data: commands flagged ``denyoom`` are refused; None: there
            is.  The region sets it.
        waiting: the blocked clients; those without keys wait for other regions.
        statistics: what ran, and how long it took by ``clock``.
        clock: nanoseconds that pass; the shell sets it.  Without one nothing takes any time.
        ask_for: has images read from disk; the shell sets it.  It gets a function to call when the
            first of them has arrived.  If reading them has just failed for this request, it returns
            the reason.
        slow_ns, on_slow: called for each command that took at least this long.
        on_call: called for each command just before it runs (MONITOR), and for EXEC after it.
        users: whose rights the requests of sessions need.
        on_refused: called for each request that its user has no right to (ACL LOG).
        on_program_refused: called for each refusal of a program that speaks another protocol, with
            its address.
        open_writes: clients whose last write is not yet measured; to be told when a section ends.
        runs: calls runs of XADDs, of XACKs and of XDELs.
        channels: which client listens to what; the shell says there how to send to them.
        notifications: what is published of changes of keys; to be told when a tick ends.
    """

    def __init__(self, replica: Replica, commands: Mapping[bytes, Command] = COMMANDS) -> None:
        self.replica = replica
        self.fault: str | None = None
        self.pause: Pause | None = None
        self.limit: WriteLimit | None = None
        self.full: Fullness | None = None
        self.statistics = Statistics()
        self.clock: Callable[[], int] = _no_clock
        self.ask_for: Callable[[Sequence[int], Callable[[], None]], str | None] = _nothing_is_cold
        self.slow_ns = sys.maxsize
        self.on_slow: Callable[[Session, Handler, list[bytes], int], None] | None = None
        self.on_call: Callable[[Session, list[bytes]], None] | None = None
        self.users = Users()
        self.on_refused: Callable[[Session, Refused], None] | None = None
        self.on_program_refused: Callable[[Refused, str], None] | None = None
        # What the command took that has just begun to wait.
        self._blocked_ns = 0
        self._session_id = 0
        self._dispatch = Dispatch(self.statistics)
        self._transactions = Transactions(self)
        self._refusals = Refusals(self.statistics, self._transactions)
        self._serving = Serving(self, self._transactions)
        self.waiting = self._serving.waiting
        self.open_writes = OpenWrites(replica)
        self._note_write = self.open_writes.note
        self.runs = Runs(
            self,
            dispatch=self._dispatch,
            transactions=self._transactions,
            serving=self._serving,
            writes=self.open_writes,
        )
        self.channels = Channels()
        self.notifications = Notifications(replica, self.channels, self._dispatch)

        self.register(commands.values())
        self.register(self._transactions.commands())
        self.register(PubSub(self.channels).commands())
        self.register(SessionReads(replica).commands())

    @property
    def commands(self) -> Mapping[bytes, AnyCommand]:
        """Every command known, by lower-case name."""
        return self._dispatch.commands

    def register(self, commands: Iterable[AnyCommand]) -> None:
        """Make commands known; of two with one name the later counts."""
        self._dispatch.register(commands)
        self._spelled = self._dispatch.spelled

    # --- Sessions -----------------------------------------------------------------------------

    def open_session(self) -> Session:
        """A new client."""
        self._session_id += 1
        return Session(self._session_id, self.users.default)

    def forget(self, session: Session) -> None:
        """The client is gone: it waits, watches, queues and listens no more."""
        self.end_transaction(session)
        self.channels.forget(session)
        self._serving.forget(session.id)
        if self.limit is not None:
            self.limit.forget(session.id)

    def end_transaction(self, session: Session) -> None:
        """Drop the queue and all watches."""
        self._transactions.end(session)

    @property
    def waiting_count(self) -> int:
        """Number of clients that are blocked."""
        return len(self.waiting.by_session)

    @property
    def awaited_key_count(self) -> int:
        """Number of keys that blocked clients wait for."""
        return self.waiting.key_count

    @property
    def watched_key_count(self) -> int:
        """Number of keys under WATCH."""
        return len(self._transactions.watchers)

    def is_waiting(self, session: Session) -> bool:
        return self.waiting.of(session.id) is not None

    # --- Calling ------------------------------------------------------------------------------

    def call(self, session: Session, now: Millis, argv: list[bytes]) -> Reply | Waiting:
        """Run a command, or queue it in a transaction.

        Returns:
            The reply; a CommandError as a value, nothing having changed then; or WAITING: the
            reply comes from ``settle``, ``expire`` or ``unblock``, and until then no further
            command of this session may be called.

        Raises:
            PostponedError: CLIENT PAUSE stops it, or it is throttled.
            ColdError: it needs entries that are on disk only.  Nothing has happened; call it again
                when they have arrived.

        Source: the order of the checks is Redis's processCommand.
        """
        assert argv, "an empty request is the parser's to skip"
        if now != self.replica.keys.now:
            self.advance(now)
        handler = self._spelled.get(argv[0])
        if handler is None:
            found = self._dispatch.find(argv)
            if isinstance(found, CommandError):
                return self._refusals.refuse(session, found)
            handler = found
        arity = handler.arity
        if len(argv) != arity and (arity >= 0 or len(argv) < -arity):
            return self._refusals.wrong_arity(session, handler)
        if handler.needs_auth and not session.authenticated and self.users.ask:
            return self._refusals.refuse(session, CommandError(NO_AUTH), handler)
        if session.queue is not None and handler.no_multi:
            return self._refusals.refuse(session, CommandError(NOT_IN_MULTI), handler)
        user = session.user
        if not user.is_unlimited:
            at = handler.touches.only_at
            if not at or at >= len(argv) or (handler.name, argv[at]) not in user.allowed_calls:
                denied = self._judge(session, handler, argv)
                if denied is not None:
                    return denied
        if (
            self.full is not None
            and (handler.adds or adds_by_exec(session, handler))
            and self.full.is_full_now()
        ):
            return self._refusals.not_now(session, handler, self.full.refuse().text)
        if self.fault is not None and (handler.writes or self._asks_for_health(session, handler)):
            return self._refusals.refuse(session, CommandError(f"MISCONF {self.fault}"), handler)
        if (
            session.subscriptions
            and session.protocol == RESP2
            and handler.name not in FOR_SUBSCRIBERS
        ):
            return self._refusals.not_for_subscribers(session, handler)

        session.last_command = handler.name
        if session.queue is not None or self.pause is not None:
            held_back = self._queue_or_postpone(session, handler, argv)
            if held_back is not None:
                return held_back
        if self.limit is not None and handler.is_limited and session.admitted is not argv:
            refusal = self._limited(self.limit, session, handler, now)
            if refusal is not None:
                return refusal
            session.admitted = argv
        reply = self._run(handler, session, now, argv)
        if handler.writes and self.replica.open_bytes > BATCH_BYTES_TARGET.value:
            # A pipeline must not grow a batch that no disk and no peer takes.
            self.replica.seal(now)
        if isinstance(reply, Blocked):
            self.waiting.add(session, handler, reply, now, argv=argv, ns=self._blocked_ns)
            return WAITING
        return reply

    def call_in_place(self, session: Session, now: Millis, argv: list[bytes]) -> Reply | Waiting:
        """As ``call``; entries that are on disk only are read in place, while all others wait."""
        with self.replica.residency.in_place():
            return self.call(session, now, argv)

    def refuse_unreadable(self, session: Session, argv: list[bytes], reason: str) -> CommandError:
        """Answer a command whose entries cannot be read from disk."""
        handler = self._spelled.get(argv[0]) or self._dispatch.find(argv)
        assert isinstance(handler, Handler)
        return self._refusals.not_now(session, handler, self.unreadable(reason).text)

    def refuse_broken(self, session: Session, argv: list[bytes]) -> CommandError:
        """Answer a command that failed by a bug of ours before it changed anything."""
        handler = self._spelled.get(argv[0]) or self._dispatch.find(argv)
        assert isinstance(handler, Handler)
        if handler.name == b"exec":
            self._transactions.end(session)
        return self._refusals.refuse(session, CommandError(BROKEN), handler)

    def unreadable(self, reason: str) -> CommandError:
        """The error of a command whose entries cannot be read from disk."""
        return CommandError(f"IOERR {UNREADABLE.format(reason)}")

    def change(
        self,
        now: Millis,
        change: Callable[[Replica, Millis], T],
        *,
        writes: int = 1,
        adds: bool = False,
    ) -> T:
        """Change the replica for a program that does not speak Redis's protocol.

        Args:
            writes: how many it counts as while what lags is bounded.  A program that is to be
                throttled waits before it asks.
            adds: it adds data.

        Raises:
            CommandError: writes are refused; nothing has changed then.  Or what ``change`` raises.
            ColdError: entries are needed that are on disk only; nothing has changed.
        """
        if self.fault is not None:
            raise self._note_refusal(f"MISCONF {self.fault}")
        if adds and self.full is not None and self.full.is_full_now():
            raise self._note_refusal(self.full.refuse().text)
        limit = self.limit
        if limit is not None and not limit.throttles and not limit.admits(0, writes, now):
            raise self._note_refusal(limit.refuse(writes, now))
        return self.change_anyway(now, change)

    def change_anyway(self, now: Millis, change: Callable[[Replica, Millis], T]) -> T:
        """As ``change``, also while writes are refused: what the region itself has to do."""
        self.advance(now)
        try:
            result = change(self.replica, now)
        finally:
            self.replica.note_settled()
        if self.replica.open_bytes > BATCH_BYTES_TARGET.value:
            self.replica.seal(now)
        return result

    def _note_refusal(self, text: str) -> CommandError:
        self.statistics.note_error(text)
        return CommandError(text)

    def advance(self, now: Millis) -> None:
        """Say what time it is, before something is called."""
        self.replica.advance(now)
        if self.replica.touched:
            # A watched key that has expired by now is a change, as EXEC has to know.
            self._transactions.note_changed(self.replica.touched)

    def has_room_in_batch(self, size: int) -> bool:
        """True if the open batch can take ``size`` more bytes without being closed."""
        return self.replica.open_bytes + size <= BATCH_BYTES_TARGET.value

    # --- After each call, and after each batch ------------------------------------------------

    def settle(self, now: Millis) -> list[Served]:
        """Trip WATCHes and serve blocked clients, by the changes since the last call.

        Returns:
            The replies of clients that were waiting, in the order in which they had begun to wait.

        Cost: O(1) if no client waits or watches; else the commands of clients that wait for the
        changed keys, run again.
        """
        touched = self.replica.touched
        if not touched:
            return []
        if not self._transactions.watchers and not self.waiting.by_session:
            touched.clear()
            return []
        return self._serving.settle(now)

    def settle_acks(self, now: Millis) -> list[Served]:
        """Serve clients that wait for other regions (WAIT, CRDT.WAITFOR); to be called when a peer
        acknowledged, and when something of a peer was applied."""
        return self._serving.settle_acks(now)

    def serve_fetched(self, now: Millis) -> list[Served]:
        """Serve those whose entries were read from disk, or could not be: to be called when
        ``ask_for`` has called them."""
        return self._serving.serve_fetched(now)

    def serve_all(self, now: Millis) -> list[Served]:
        """Try all blocked commands again: to be called when CLIENT PAUSE ends."""
        return self._serving.serve_all(now)

    @staticmethod
    def _asks_for_health(session: Session, handler: Handler) -> bool:
        """As in Redis, PING says so when writes are refused: clients move away by it.

        For a client that listens to channels it only keeps the connection.
        """
        return handler.name == b"ping" and not session.subscriptions

    def next_deadline(self) -> Millis | None:
        """Time at which ``expire`` is to be called next; None if nothing depends on time."""
        replica = self.replica
        # A command or batch may have come before the clock's turn and found expired keys.
        may_expire = self.fault is None and not replica.expiry_is_held
        at = replica.keys.next_deadline(may_expire=may_expire)
        waiting = self.waiting
        if waiting.times:
            woken_at = waiting.next_time()
            if at is None or (woken_at is not None and woken_at < at):
                return woken_at
        return at

    def expire(self, now: Millis) -> list[Served]:
        """Act on the time: expire keys, try commands again, end waits that timed out.

        Returns:
            The answers of clients that were waiting.
        """
        self.replica.advance(now)
        if self.fault is None:
            self.replica.expire_due()
        self.replica.note_settled()
        return self.settle(now) + self._serving.serve_due(now) + self.settle(now)

    def unblock(self, session_id: int, *, with_error: bool) -> Served | None:
        """CLIENT UNBLOCK: end a client's waiting as if its time were over, or with an error.

        Returns:
            The client and its answer, which the shell hands on; None if it waits for nothing.
        """
        return self._serving.unblock(session_id, with_error=with_error)

    def measure_writes(self, session: Session) -> None:
        """Issue the client's acknowledgements, so that they can be waited for."""
        self.open_writes.measure(session)

    def note_sealed(self) -> None:
        """The open section has ended: acknowledgements in it were measured, and it is a record.

        Needed only while ``open_writes`` has sessions.
        """
        if self.open_writes.sessions:
            self.open_writes.note_sealed()

    # --- Queueing and postponing --------------------------------------------------------------

    def _queue_or_postpone(
        self, session: Session, handler: Handler, argv: list[bytes]
    ) -> Reply | None:
        """Apply MULTI and CLIENT PAUSE to a command; None: it is to run now."""
        if self.pause is not None and self.pause.stops(session, handler):
            raise PostponedError
        if session.queue is None or handler.immediate:
            return None
        session.queue.append((handler, argv))
        session.queue_bytes += sum(map(len, argv))
        return QUEUED

    def is_held_back(self, waiter: Waiter) -> bool:
        """True if CLIENT PAUSE forbids to serve it; a waiter without keys changes nothing."""
        return (
            self.pause is not None
            and bool(waiter.blocked.keys)
            and self.pause.stops(waiter.session, waiter.handler)
        )

    @property
    def awaits_news(self) -> bool:
        """True if WAIT, or a bound on the lag, waits for news of peers."""
        return bool(self.waiting.without_keys) or self.limit is not None

    def _limited(
        self, limit: WriteLimit, session: Session, handler: Handler, now: Millis
    ) -> CommandError | None:
        """Apply a bound on what lags to a write: its refusal, or None: it is to run.

        Raises:
            PostponedError: it is throttled.
        """
        writes = queued_writes(session) if handler.name == b"exec" else 1
        if not writes or limit.admits(session.id, writes, now):
            return None
        if limit.throttles:
            raise PostponedError
        return self._refusals.not_now(session, handler, limit.refuse(writes, now))

    # --- Rights -------------------------------------------------------------------------------

    @staticmethod
    def denial(user: User, handler: Handler, argv: list[bytes]) -> Denial | None:
        """Check a request; returns what forbids it to the user, or None."""
        is_open = not handler.needs_auth
        return user.denial(handler.name, handler.touches, argv, is_open=is_open)

    def _judge(self, session: Session, handler: Handler, argv: list[bytes]) -> CommandError | None:
        """The refusal of a request that its user may not make; None: it may."""
        denial = self.denial(session.user, handler, argv)
        if denial is not None:
            session.last_command = handler.name
            refused = self._note_refused(session, handler, denial, argv)
            return self._refusals.not_permitted(session, handler, denial, refused)
        if handler.name in RUN_SCRIPTS and session.queue is None:
            return self._denial_in_script(session, handler, argv)
        return None

    def find(self, argv: list[bytes]) -> Handler | CommandError:
        """The handler of a request; or what to answer instead."""
        return self._dispatch.find(argv)

    def denial_of(self, waiter: Waiter) -> CommandError | None:
        """The refusal of a blocked command whose user has lost the right to it meanwhile."""
        session, handler = waiter.session, waiter.handler
        if session.user.is_unlimited:
            return None
        denial = self.denial(session.user, handler, waiter.argv)
        if denial is None:
            return None
        refused = self._note_refused(session, handler, denial, waiter.argv)
        return self._refusals.not_permitted(session, handler, denial, refused)

    def _denial_in_exec(
        self, session: Session, handler: Handler, argv: list[bytes]
    ) -> CommandError | None:
        """The error of a queued command that is not allowed any more."""
        denial = self.denial(session.user, handler, argv)
        if denial is not None:
            self._note_refused(session, handler, denial, argv, Context.MULTI)
            return self._note_refusal(since_queued(denial))
        if handler.name in RUN_SCRIPTS:
            return self._denial_in_script(session, handler, argv)
        return None

    def _denial_in_script(
        self, session: Session, handler: Handler, argv: list[bytes]
    ) -> CommandError | None:
        """The error of a script that runs a command which its user may not run.

        Redis finds that when the script comes to the command.  Here it is found before, also if the
        script would not have come so far.
        """
        digest = digest_of(argv)
        for name, line in SCRIPT_COMMANDS.get(digest, ()):
            command = self._dispatch.find([name])
            assert isinstance(command, Handler)
            denial = self.denial(session.user, command, [name])
            if denial is not None:
                refused = self._note_refused(session, command, denial, [name], Context.LUA)
                text = f"ERR ACL failure in script: {refusal_of(denial, refused)} script: "
                where = f"{digest.decode()}, on @user_script:{line}."
                return self.note_failure(handler, CommandError(text + where))
        return None

    def _note_refused(
        self,
        session: Session,
        handler: Handler,
        denial: Denial,
        argv: list[bytes],
        context: Context = Context.TOPLEVEL,
    ) -> Refused:
        subject = handler.name if denial.reason is Reason.COMMAND else argv[denial.at]
        if session.queue is not None and context is Context.TOPLEVEL:
            context = Context.MULTI
        refused = Refused(denial.reason, context, subject, session.user.name)
        if self.on_refused is not None:
            self.on_refused(session, refused)
        return refused

    # --- Running ------------------------------------------------------------------------------

    def _run(
        self, handler: Handler, session: Session, now: Millis, argv: list[bytes]
    ) -> Reply | Blocked:
        """Run a command and note that it ran, unless it is Blocked; an error is a value."""
        if self.on_call is not None and handler.monitored and session.shown is not argv:
            session.shown = argv
            self.on_call(session, argv)
        clock = self.clock
        on_replica = handler.on_replica
        reply: Reply | Blocked
        started = clock()
        try:
            if on_replica is not None:
                reply = on_replica(self.replica, now, argv)
                if handler.writes:
                    self._note_write(session)
            else:
                assert handler.on_session is not None
                reply = handler.on_session(session, now, argv)
        except CommandError as error:
            reply = self.note_failure(handler, error)
        except UnreadableError as unreadable:
            reply = self._note_unreadable(handler, unreadable)
        except ColdError:
            self._check_unchanged(handler)
            raise
        ns = clock() - started
        if reply.__class__ is Blocked:
            self._blocked_ns = ns
            return reply
        samples = handler.samples
        samples.append(ns)
        if ns >= self.slow_ns or len(samples) >= SAMPLES_MAX.value:
            self._note_rarely(handler, session, argv, ns)
        return reply

    def look_ahead(
        self, session: Session, now: Millis, queue: Iterable[tuple[Handler, list[bytes]]]
    ) -> None:
        """Read what a transaction will read of the entries that are stored, as far as that is known
        before it runs.

        Raises:
            ColdError: some is on disk only.
            UnreadableError: it was to be read in place, and cannot be.
        """
        replica = self.replica
        if not replica.residency.absent_count:
            return
        images: dict[int, None] = {}
        with replica.on_trial():
            for handler, argv in queue:
                try:
                    if handler.on_replica is not None:
                        handler.on_replica(replica, now, argv)
                    elif handler.name == b"xread":
                        assert handler.on_session is not None
                        handler.on_session(session.reading_aside(), now, argv)
                except ColdError as error:
                    images.update(dict.fromkeys(error.images))
                except (CommandError, TrialEndedError):
                    continue
        if images:
            raise ColdError(list(images))

    def run_queue(
        self, session: Session, now: Millis, queue: Sequence[tuple[Handler, list[bytes]]]
    ) -> Reply:
        """Run the commands of a transaction."""
        return self.runs.call_queued(session, now, queue)

    def run_queued(
        self, handler: Handler, session: Session, now: Millis, argv: list[bytes]
    ) -> Reply:
        """Run a command of a transaction; one that would block answers as if time were over."""
        if not session.user.is_unlimited:
            denied = self._denial_in_exec(session, handler, argv)
            if denied is not None:
                return denied
        reply = self._run(handler, session, now, argv)
        if not isinstance(reply, Blocked):
            return reply
        self._note_blocked(handler, session, argv, self._blocked_ns)
        return reply.on_timeout

    def _note_blocked(self, handler: Handler, session: Session, argv: list[bytes], ns: int) -> None:
        """A command that was Blocked has run to its end."""
        handler.samples.append(ns)
        self._note_rarely(handler, session, argv, ns)

    def _note_rarely(self, handler: Handler, session: Session, argv: list[bytes], ns: int) -> None:
        if len(handler.samples) >= SAMPLES_MAX.value:
            handler.stats.fold()
        if ns >= self.slow_ns and self.on_slow is not None:
            self.on_slow(session, handler, argv, ns)

    def note_failure(self, handler: Handler, error: CommandError) -> CommandError:
        """A command answers an error."""
        handler.stats.failed += 1
        self.replica.note_settled()
        self.statistics.note_error(error.text)
        # A value from here on.  Its traceback would keep the frames that it came through, and they
        # keep what the command had in hand: a cycle that only the garbage collector ends.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        return error

    def try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        """Run a blocked command once more; an error is a value."""
        if waiter.handler.writes and self.fault is not None:
            return self.note_failure(waiter.handler, CommandError(f"MISCONF {self.fault}"))
        started = self.clock()
        try:
            reply = waiter.blocked.retry(self.replica, now)
        except CommandError as error:
            reply = self.note_failure(waiter.handler, error)
        except UnreadableError as unreadable:
            reply = self._note_unreadable(waiter.handler, unreadable)
        except ColdError:
            self._check_unchanged(waiter.handler)
            raise
        finally:
            waiter.ns += self.clock() - started
        if waiter.handler.writes:
            self._note_write(waiter.session)
        return reply

    def _note_unreadable(self, handler: Handler, error: UnreadableError) -> CommandError:
        """A command was to read its entries in place, and cannot; a queued one fails by itself, and
        the others of its transaction run all the same."""
        self._check_unchanged(handler)
        return self.note_failure(handler, self.unreadable(str(error)))

    def _check_unchanged(self, handler: Handler) -> None:
        """A command needs entries that are on disk: it must not have changed anything (I10)."""
        assert not self.replica.has_unsettled_changes, (
            f"{handler.name.decode()} changed something before it read"
        )

    def note_end(self, waiter: Waiter) -> None:
        """A blocked command has run to its end."""
        self._note_blocked(waiter.handler, waiter.session, waiter.argv, waiter.ns)


def _nothing_is_cold(_images: Sequence[int], _go_on: Callable[[], None]) -> str | None:
    raise AssertionError("without a shell that reads from disk nothing leaves memory")


def _no_clock() -> int:
    return 0
