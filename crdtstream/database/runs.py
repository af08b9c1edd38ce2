"""Runs of XADDs, XACKs and XDELs, called as one command where no client can see a difference.

Commands are called one by one if anything looks at single ones: a transaction, MONITOR, a SLOWLOG
of quick ones, a bound on what lags, clients that wait for the stream or watch it.  Else what
``call`` of the database checks and does for each of them is the same for all, and done once.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, Protocol, TypeAlias, cast

from crdtstream.commands.groups.pending import xack
from crdtstream.commands.groups.xack_run import XackRun, xack_run
from crdtstream.commands.reply import Replies, Reply, Several
from crdtstream.commands.streams.mixed_run import MixedRun, fitting, mixed_run
from crdtstream.commands.streams.range import xdel
from crdtstream.commands.streams.xadd import xadd
from crdtstream.commands.streams.xadd_run import XaddRun, fits, xadd_run
from crdtstream.commands.streams.xdel_run import XdelRun, xdel_run
from crdtstream.core.ids import Millis
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.database.acl.users import User, Users
from crdtstream.database.admission import Fullness, Pause, WriteLimit
from crdtstream.database.dispatch import Dispatch
from crdtstream.database.queued import Queued, run_at
from crdtstream.database.serving import Serving
from crdtstream.database.session import Handler, Session, Talk
from crdtstream.database.statistics import SAMPLES_MAX
from crdtstream.database.transactions import Transactions
from crdtstream.database.writes import OpenWrites

Run: TypeAlias = XaddRun | MixedRun | XackRun | XdelRun

# A run takes a millisecond or two.  If commands that take no longer than this are to be reported,
# each of them is measured.
SLOW_NS_MIN: Final = Size(5_000_000, least=0)
# Macro nodes that a run of XDELs may unpack, some 0.5 ms each; of one that would unpack more the
# commands are called, so that other clients come between.
UNPACKED_MAX: Final = Size(8, least=0)


class Host(Protocol):
    """Caller of commands; the attributes are those of ``Database``."""

    fault: str | None
    pause: Pause | None
    limit: WriteLimit | None
    full: Fullness | None
    slow_ns: int
    clock: Callable[[], int]
    on_slow: Callable[[Session, Handler, list[bytes], int], None] | None
    on_call: Callable[[Session, list[bytes]], None] | None
    users: Users

    @property
    def replica(self) -> Replica: ...

    def advance(self, now: Millis) -> None:
        """Say what time it is."""

    def has_room_in_batch(self, size: int) -> bool:
        """True if the open batch can take ``size`` more bytes without being closed."""

    def run_queued(
        self, handler: Handler, session: Session, now: Millis, argv: list[bytes]
    ) -> Reply:
        """Run a command of a transaction."""


class Runs:
    """See the module's text.

    Attributes:
        xadds_called: how many runs of XADDs, mixed ones too, were called since the start.
        xacks_called, xdels_called: how many runs of XACKs, of XDELs.
    """

    __slots__ = (
        "_dispatch",
        "_host",
        "_serving",
        "_transactions",
        "_writes",
        "xacks_called",
        "xadds_called",
        "xdels_called",
    )

    def __init__(
        self,
        host: Host,
        *,
        dispatch: Dispatch,
        transactions: Transactions,
        serving: Serving,
        writes: OpenWrites,
    ) -> None:
        self._host = host
        self._dispatch = dispatch
        self._transactions = transactions
        self._serving = serving
        self._writes = writes
        self.xadds_called = 0
        self.xacks_called = 0
        self.xdels_called = 0

    def takes(self, session: Session, now: Millis, run: XaddRun | XackRun | XdelRun) -> bool:
        """True if the run may be called now as one command; else its commands are, one by one."""
        handler = self._handler_of(session, now, run)
        if handler is None:
            return False
        if isinstance(run, XaddRun):
            return self._takes_xadds(handler, now, run)
        if isinstance(run, XackRun):
            return self._takes_xacks(handler, run)
        return self._takes_xdels(handler, run)

    def part_of(self, session: Session, now: Millis, run: MixedRun, at: int) -> MixedRun | None:
        """The part of a mixed run, from a command on, that may be called now as one command; None:
        that command is called by itself."""
        handler = self._handler_of(session, now, run)
        if handler is None or not self._takes_appends(handler, run):
            return None
        is_any_seen = self._transactions.watchers or self._serving.waiting.key_count
        # The look ends at the first key that is seen, as it begins again behind it.
        is_seen = self._is_seen if is_any_seen else None
        streams = fitting(self._host.replica, run, at, is_seen)
        if not streams:
            return None
        part = run.part(at, at + len(streams))
        part.streams = streams
        return part

    def _is_seen(self, key: bytes) -> bool:
        """True if a client watches the key, or waits for it."""
        return key in self._transactions.watchers or self._serving.waiting.has_any(key)

    def _handler_of(self, session: Session, now: Millis, run: Run) -> Handler | None:
        """The handler of a run's commands, if no client can tell these from one command."""
        host = self._host
        if now != host.replica.keys.now:
            host.advance(now)
        handler = self._dispatch.spelled.get(run.name)
        is_unseen = (
            # Nothing refuses it, or puts it off.
            (session.authenticated or not host.users.ask)
            and not session.subscriptions
            and session.queue is None
            and host.fault is None
            and host.pause is None
            and host.limit is None
            # Nothing looks at each command.
            and session.talk is Talk.ON
            and host.on_call is None
            and host.slow_ns >= SLOW_NS_MIN.value
        )
        if not is_unseen or handler is None:
            return None
        user = session.user
        return handler if user.is_unlimited or _may_call(user, handler, run) else None

    def _takes_xadds(self, handler: Handler, now: Millis, run: XaddRun) -> bool:
        return (
            self._takes_appends(handler, run)
            and run.key not in self._transactions.watchers
            and not self._serving.waiting.has_any(run.key)
            and fits(self._host.replica, now, run)
        )

    def _takes_appends(self, handler: Handler, run: XaddRun | MixedRun) -> bool:
        """True if there is room: all of a run is to be in one batch."""
        host = self._host
        return (
            handler.on_replica is xadd
            and host.full is None
            and host.has_room_in_batch(run.batch_bytes)
        )

    def _takes_xacks(self, handler: Handler, run: XackRun) -> bool:
        """No client waits for an acknowledgement, or watches one; it takes no room, and no entry is
        read for it."""
        return handler.on_replica is xack and self._host.replica.stream(run.key) is not None

    def _takes_xdels(self, handler: Handler, run: XdelRun) -> bool:
        """No client watches the stream or waits for it, there is room, and nobody wants to hear of
        each XDEL: a run is one effect."""
        stream = self._host.replica.stream(run.key)
        return (
            handler.on_replica is xdel
            and stream is not None
            and not self._host.replica.is_noting
            and not self._is_seen(run.key)
            and self._host.has_room_in_batch(run.batch_bytes)
            and _is_warm(stream, run)
        )

    def call(self, session: Session, now: Millis, run: Run) -> bytes:
        """Call a run that is taken; its replies, one behind the other.
        What it took is shared out evenly.  If it was as long as a slow command takes, something
        else came in between, and one of its commands would have been reported, too.
        """
        host = self._host
        started = host.clock()
        if isinstance(run, XaddRun):
            replies = xadd_run(host.replica, now, run)
            self.xadds_called += 1
        elif isinstance(run, MixedRun):
            replies = mixed_run(host.replica, now, run)
            self.xadds_called += 1
        elif isinstance(run, XackRun):
            replies = xack_run(host.replica, run)
            self.xacks_called += 1
        else:
            replies = xdel_run(host.replica, run)
            self.xdels_called += 1
        self._writes.note(session)
        handler = self._dispatch.spelled[run.name]
        session.last_command = handler.name
        ns = host.clock() - started
        handler.samples.extend([ns // len(run)] * len(run))
        if len(handler.samples) >= SAMPLES_MAX.value:
            handler.stats.fold()
        if ns >= host.slow_ns and host.on_slow is not None:
            host.on_slow(session, handler, next(run.requests()), ns)
        return replies

    # --- Transactions -------------------------------------------------------------------------

    def call_queued(self, session: Session, now: Millis, queue: Sequence[Queued]) -> Reply:
        """Call the commands of a transaction, XADDs in runs; EXEC's reply."""
        host = self._host
        parts: list[Reply | Several] = []
        at = has_runs = 0
        while at < len(queue):
            run = self._queued_run(session, now, queue, at)
            ends = at + (1 if run is None else len(run))
            begins = at
            while at < ends:
                # The command before may have made the stream.
                part = None if run is None else self._queued_part(run, at - begins, now)
                if part is None:
                    handler, argv = queue[at]
                    parts.append(host.run_queued(handler, session, now, argv))
                    at += 1
                else:
                    parts.append(Several(len(part), self.call(session, now, part)))
                    at += len(part)
                    has_runs = 1
        return Replies(parts) if has_runs else cast("list[Reply]", parts)

    def _queued_run(
        self, session: Session, now: Millis, queue: Sequence[Queued], at: int
    ) -> XaddRun | MixedRun | None:
        handler, argv = queue[at]
        if handler.on_replica is not xadd or argv[2] != b"*" or self._host.full is not None:
            return None
        run = run_at(queue, at)
        return None if run is None or self._handler_of(session, now, run) is None else run

    def _queued_part(
        self, run: XaddRun | MixedRun, start: int, now: Millis
    ) -> XaddRun | MixedRun | None:
        """The part of a run from a command on that may be called as one; None: that command is
        called by itself."""
        replica = self._host.replica
        if isinstance(run, XaddRun):
            if not fits(replica, now, run):
                return None
            return run.behind(start) if start else run
        streams = fitting(replica, run, start, None)
        if not streams:
            return None
        part = run.part(start, start + len(streams))
        part.streams = streams
        return part


def _may_call(user: User, handler: Handler, run: Run) -> bool:
    """True if the user may call all commands of a run; if not, each is judged by itself."""
    if isinstance(run, MixedRun):
        # Of many keys: only a user who needs no pattern has rights on all of them for sure.
        return any(
            selector.all_keys and selector.has_commands((handler.name,))
            for selector in user.selectors
        )
    return user.denial(handler.name, handler.touches, [run.name, run.key]) is None


def _is_warm(stream: Stream, run: XdelRun) -> bool:
    """True if a run finds nearly all that it needs in memory, unpacked: it is not interrupted."""
    cold = list(chain.from_iterable(lane.cold_nodes_of(run.ids) for lane in stream.lanes.values()))
    return len(cold) <= UNPACKED_MAX.value and not any(node.is_absent for node in cold)
