"""One client of a region: its requests run in order, its replies leave in order.

    run(requests) ── Database.call ── encode ──> parcels of the open tick ··> ``Receiver.receive``

It knows no socket.  A connection feeds it requests, and gets a parcel when the log has what that
parcel tells.  The client reports when it must not run more: it is blocked, postponed by CLIENT
PAUSE, the entries that its next command needs are read from disk, its replies pile up, or its turn
has ended.

Messages of channels come from other clients' requests and leave by the same way.  Always so: a
message leaves after the replies that were owed before it, and never between the parts of one.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final, TypeAlias

from crdtstream.commands.arguments import shown
from crdtstream.commands.groups.xack_run import XackRun
from crdtstream.commands.reply import CommandError, EncodedParts, Pushes, Reply
from crdtstream.commands.streams.mixed_run import MixedRun
from crdtstream.commands.streams.xadd_run import XaddRun
from crdtstream.commands.streams.xdel_run import XdelRun
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.cold import TRIES_MAX, ColdError
from crdtstream.core.size import Size
from crdtstream.database.admission import PostponedError
from crdtstream.database.database import WAITING, Database, Waiting
from crdtstream.database.session import Session, Talk
from crdtstream.region.fetching import Fetching
from crdtstream.region.ready import Parcel, Receiver
from crdtstream.region.tick import Tick

# The next thing to run: a command, or many XADDs, XACKs or XDELs at once.
Run: TypeAlias = XaddRun | MixedRun | XackRun | XdelRun
Request: TypeAlias = list[bytes] | Run
Encode = Callable[[Reply, int, list[bytes]], None]

# Replies are weighed after this many pieces, or when one is large.
MEASURE_CHUNKS: Final = Size(64, least=1)
MEASURE_BYTES: Final = Size(4096, least=1)
# A client with more to run than this takes turns with the others.
TURN_NS: Final = Size(5_000_000, least=0)
BROKEN: Final = "a bug: a command failed, and has changed nothing; the node goes on"
BROKEN_RUN: Final = (
    "a bug: commands that were called together failed, and have changed nothing; they are called"
    " one by one"
)
# Web pages can make a browser send commands; these words are its, no client's (as in Redis).
FOREIGN_WORDS: Final = frozenset({b"post", b"host:"})


class Stop(Enum):
    """Reason why ``run`` ended."""

    END = "end of the requests"
    BLOCKED = "a command waits"
    POSTPONED = "CLIENT PAUSE"
    COLD = "entries are read from disk"
    FULL = "its replies pile up"
    TURN = "others have their turn"
    CLOSING = "it is to be hung up on"
    FOREIGN = "it speaks HTTP"


class Client:
    """A client, from its first request to its last reply.

    Attributes:
        session: the client as the commands see it.
        receiver: the receiver of its parcels.
        is_blocked: a command of it waits.
        is_postponed: its next command waits for the end of CLIENT PAUSE; ``postponed`` is that
            command.
        is_cold: its next command, ``postponed``, waits for entries that are read from disk.
        has_ended: nothing of it is run any more.
        commands: how many it asked for.
        owed_parcels, owed_replies, owed_bytes: run, and not told yet.
    """

    __slots__ = (
        "_clock",
        "_database",
        "_encode",
        "_fetching",
        "_is_running",
        "_now",
        "_pushes",
        "_run_broke",
        "_settle",
        "_shown",
        "_tick",
        "_tries",
        "commands",
        "has_ended",
        "is_blocked",
        "is_cold",
        "is_postponed",
        "owed_bytes",
        "owed_parcels",
        "owed_replies",
        "postponed",
        "receiver",
        "session",
    )

    def __init__(
        self,
        session: Session,
        receiver: Receiver,
        *,
        database: Database,
        tick: Tick,
        fetching: Fetching,
        settle: Callable[[Millis], None],
        encode: Encode,
        clock: Callable[[], int],
    ) -> None:
        self.session = session
        self.is_blocked = False
        self.is_postponed = False
        self.is_cold = False
        self.postponed: list[bytes] | None = None
        self.commands = 0
        self.owed_parcels = self.owed_replies = self.owed_bytes = 0
        self.receiver = receiver
        self._database = database
        self._tick = tick
        self._fetching = fetching
        # Number of times that ``postponed`` was tried.
        self._tries = 0
        self._settle = settle
        self._encode = encode
        self._clock = clock
        self.has_ended = False
        # The run that ``taking_runs`` gave last is to be called one by one.
        self._run_broke = False
        # Messages to this client by the command that is running, besides its reply.
        self._is_running = False
        self._now = Millis(0)
        self._pushes: list[bytes] = []
        self._shown: list[bytes] = []

    def taking_runs(self, requests: Iterable[Request]) -> Iterator[Request]:
        """Requests for ``run``: runs that may be called as one, and single commands otherwise.

        That is decided at the time of the ``run`` that asks for the next one.

        A command may change this for the rest of its run: the first XADD creates the stream, and
        clients that waited for it are served.  A run that breaks by a bug is called one by one.
        """
        for request in requests:
            if isinstance(request, MixedRun):
                yield from self._parts_of(request)
                continue
            if isinstance(request, list):
                yield request
                continue
            run: XaddRun | XackRun | XdelRun = request
            if self._takes(run):
                yield run
                if not self._run_broke:
                    continue
            for count, argv in enumerate(run.requests(), 1):
                yield argv
                if not self._run_broke and count < len(run) and self._takes(run):
                    yield run.behind(count)
                    if not self._run_broke:
                        break
            self._run_broke = False

    def _takes(self, run: XaddRun | XackRun | XdelRun) -> bool:
        """True if the run may be called as one; not if checking that breaks by a bug."""
        issued = self._database.replica.issued
        try:
            return self._database.runs.takes(self.session, self._now, run)
        except Exception as bug:  # noqa: BLE001 - it is raised, or in the log
            self._go_on_one_by_one(run, bug, issued)
            return False

    def _go_on_one_by_one(self, run: Run, bug: Exception, issued: int) -> None:
        """Handle a broken run: call its commands one by one, unless half of it is done."""
        if self._is_half_done(issued):
            raise bug
        self._run_broke = True
        self._tick.notice("error", BROKEN_RUN, command=shown(run.name), exc_info=bug)

    def _is_half_done(self, issued: int) -> bool:
        """True if a command that broke has changed something; nothing of that may be logged.

        Args:
            issued: effects of this region before it, or since ``touched`` was empty last.
        """
        replica = self._database.replica
        # Appends are not counted among the changes.  A key is also touched when it expires.
        has_appended = bool(replica.touched) and replica.issued != issued
        return replica.has_unsettled_changes or has_appended

    def _parts_of(self, run: MixedRun) -> Iterator[Request]:
        """Parts of a mixed run that may be called as one, and the commands between them."""
        at = 0
        while at < len(run):
            part = None if self._run_broke else self._part_of(run, at)
            if part is not None:
                yield part
                if not self._run_broke:
                    at += len(part)
                    continue
            yield run.request(at)
            at += 1
        self._run_broke = False

    def _part_of(self, run: MixedRun, at: int) -> MixedRun | None:
        """The part from a command on that may be called as one; None if that breaks by a bug."""
        issued = self._database.replica.issued
        try:
            return self._database.runs.part_of(self.session, self._now, run, at)
        except Exception as bug:  # noqa: BLE001 - it is raised, or in the log
            self._go_on_one_by_one(run, bug, issued)
            return None

    def run(self, requests: Iterator[Request], now: Millis, *, bytes_max: int) -> Stop:
        """Run requests until they end, or the client has to wait.

        What is left in ``requests`` is to be run later; with POSTPONED or COLD, ``postponed``
        before it.

        Args:
            requests: if there may be runs among them, by ``taking_runs``.
            bytes_max: size of the owed replies beyond which it stops.

        Raises:
            Exception: an error that ``requests`` raises, once the replies before it are owed.
        """
        session, encode = self.session, self._encode
        call, replica, clock = self._database.call, self._database.replica, self._clock
        room = bytes_max - self.owed_bytes
        chunks: list[bytes] = []
        replies = size = measured = 0
        turn_ends = clock() + TURN_NS.value
        stop = Stop.END
        issued = replica.issued
        self._is_running = True
        self._now = now
        try:
            for request in requests:
                if not isinstance(request, list):
                    try:
                        told = self._database.runs.call(session, now, request)
                    except Exception as bug:  # noqa: BLE001 - it is raised, or in the log
                        self._go_on_one_by_one(request, bug, issued)
                        continue
                    chunks.append(told)
                    self.commands += len(request)
                    replies += len(request)
                    if replica.touched:
                        self._settle(now)
                        issued = replica.issued
                    size += sum(map(len, chunks[measured:]))
                    measured = len(chunks)
                    if size > room:
                        stop = Stop.FULL
                        break
                    if clock() > turn_ends:
                        stop = Stop.TURN
                        break
                    continue
                argv = request
                self.commands += 1
                try:
                    reply = call(session, now, argv)
                except ColdError as error:
                    tried = self._call_again(error, now, argv)
                    if tried is None:
                        stop = Stop.COLD
                        break
                    reply = tried
                except PostponedError:
                    raise
                except Exception as bug:
                    if self._is_half_done(issued):
                        # Nothing of it may be logged, so the node ends.
                        raise
                    reply = self._database.refuse_broken(session, argv)
                    self._tick.notice("error", BROKEN, command=shown(argv[0]), exc_info=bug)
                if replica.touched:
                    self._settle(now)
                    issued = replica.issued
                if self._shown:
                    chunks += self._shown
                    self._shown.clear()
                if reply is WAITING:
                    self.is_blocked = True
                    self._tick.open()
                    stop = Stop.BLOCKED
                    break
                is_silent = session.talk is not Talk.ON and self._is_silenced()
                if reply.__class__ is Pushes:
                    self._pushes.append(self._encoded(reply))
                elif not is_silent:
                    encode(reply, session.protocol, chunks)
                    replies += 1
                if reply.__class__ is CommandError and argv[0].lower() in FOREIGN_WORDS:
                    return Stop.FOREIGN
                if session.closing or self.has_ended:
                    stop = Stop.CLOSING
                    break
                if self._pushes:
                    self._owe_with_pushes(chunks, replies)
                    chunks, replies, size, measured = [], 0, 0, 0
                    room = bytes_max - self.owed_bytes
                    if room < 0:
                        stop = Stop.FULL
                        break
                # Measured now and then: it costs more than a PING.
                if (
                    len(chunks) - measured >= MEASURE_CHUNKS.value
                    or (chunks and len(chunks[-1]) > MEASURE_BYTES.value)
                    or reply.__class__ is EncodedParts
                ):
                    size += sum(map(len, chunks[measured:]))
                    measured = len(chunks)
                    if size > room:
                        stop = Stop.FULL
                        break
                if clock() > turn_ends:
                    stop = Stop.TURN
                    break
        except PostponedError:
            self.is_postponed = True
            self.commands -= 1
            self.postponed = argv
            stop = Stop.POSTPONED
        finally:
            self._is_running = False
            if chunks:
                self._owe(chunks, replies, size + sum(map(len, chunks[measured:])))
            else:
                # Commands without an answer (CLIENT REPLY) have to be logged as well.
                self._tick.open()
        return stop

    def _call_again(
        self, error: ColdError, now: Millis, argv: list[bytes]
    ) -> Reply | Waiting | None:
        """Handle a command that needs entries which are on disk only; None: it waits for them."""
        session = self.session
        if self.postponed is not argv:
            self._tries = 0
        if self._tries >= TRIES_MAX.value:
            return self._database.call_in_place(session, now, argv)
        reason = self._fetching.ask(error.images, self._note_fetched)
        if reason is not None:
            return self._database.refuse_unreadable(session, argv, reason)
        self._tries += 1
        self.is_cold = True
        self.commands -= 1
        self.postponed = argv
        return None

    def _note_fetched(self) -> None:
        """Note that what its command waits for was read, or could not be read."""
        if self.is_cold:
            self.is_cold = False
            self._tick.wake(self.receiver)

    def _is_silenced(self) -> bool:
        """True if CLIENT REPLY suppresses this command's answer; SKIP spares it and the next."""
        session = self.session
        if session.talk is Talk.SKIP_NEXT:
            session.talk = Talk.SKIP_THIS
        elif session.talk is Talk.SKIP_THIS:
            session.talk = Talk.ON
        return True

    # --- Replies and messages -----------------------------------------------------------------

    def answer(self, reply: Reply) -> None:
        """Owe the reply of the blocked command."""
        assert self.is_blocked
        self.is_blocked = False
        if self.session.talk is Talk.ON or not self._is_silenced():
            chunks: list[bytes] = []
            self._encode(reply, self.session.protocol, chunks)
            self._owe(chunks, 1, sum(map(len, chunks)))
        # Not at once: this may be in the middle of another client's requests.
        self._tick.wake(self.receiver)

    def refuse(self, error: bytes) -> None:
        """Owe one last reply, to something that is no request."""
        self._owe([error], 1, len(error))

    def push(self, message: bytes) -> None:
        """Send a message of a channel, behind all that this client is owed by now.

        One that the client's own command publishes stands behind the reply of that command.
        """
        if self.has_ended:
            return
        if self._is_running:
            self._pushes.append(message)
        else:
            self._owe([message], 0, len(message))

    def show(self, line: bytes) -> None:
        """Send a line of MONITOR: as ``push``, but its own command's before that one's reply."""
        if self._is_running and not self.has_ended:
            self._shown.append(line)
        else:
            self.push(line)

    def _owe_with_pushes(self, chunks: list[bytes], replies: int) -> None:
        """Owe the replies so far, and the messages to this client by its last command."""
        if chunks:
            self._owe(chunks, replies, sum(map(len, chunks)))
        pushes, self._pushes = self._pushes, []
        for message in pushes:
            self._owe([message], 0, len(message))

    def _owe(self, chunks: list[bytes], replies: int, size: int) -> None:
        self.owed_parcels += 1
        self.owed_replies += replies
        self.owed_bytes += size
        self._tick.owe(Parcel(self.receiver, chunks, replies, size))

    def note_told(self, parcel: Parcel) -> None:
        """Note that a parcel of it has left."""
        self.owed_parcels -= 1
        self.owed_replies -= parcel.replies
        self.owed_bytes -= parcel.size

    def _encoded(self, reply: Reply) -> bytes:
        chunks: list[bytes] = []
        self._encode(reply, self.session.protocol, chunks)
        return b"".join(chunks)

    # --- Pausing and ending -------------------------------------------------------------------

    def go_on(self) -> None:
        """Note that CLIENT PAUSE has ended."""
        if self.is_postponed:
            self.is_postponed = False
            self._tick.wake(self.receiver)

    def end(self) -> None:
        """It is gone, or is to be hung up on: it waits, watches, queues and listens no more."""
        if not self.has_ended:
            self.has_ended = True
            self._fetching.end(self._note_fetched)
            self._database.forget(self.session)
