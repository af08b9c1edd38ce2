"""A client as the commands see it (identity, transaction, watches, no socket), and its commands."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from crdtstream.commands.command import RunCommand
from crdtstream.commands.reply import Blocked, Reply
from crdtstream.commands.streams.never_skip import GivenReplies
from crdtstream.core.ids import Millis
from crdtstream.database.acl.touched import Touches
from crdtstream.database.acl.users import User, unlimited_user
from crdtstream.database.statistics import CallStatistics

RESP2: Final = 2
RESP3: Final = 3


class Talk(Enum):
    """Modes of sending replies (CLIENT REPLY)."""

    ON = "on"
    SKIP_NEXT = "skip"  # CLIENT REPLY SKIP is running: the command after it goes unanswered
    SKIP_THIS = "skipping"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Handler:
    """A command as dispatch needs it: its function, and what its flags decide, worked out once.

    Attributes:
        name: lower case; ``client|id`` for a subcommand that is called by itself.
        arity: Redis's convention, negative is "at least".
        on_replica, on_session: the function; exactly one of the two is set.
        writes: refused while the disk refuses (flags ``write``, ``names_dots``, ``runs_script``).
        is_limited: waits or is refused while too much lags (``write`` and ``runs_script`` without
            ``despite_lag``, and EXEC for what was queued).
        adds: refused while there is no room for more data (``denyoom``).
        needs_auth: refused until the client has authenticated (all without ``no_auth``).
        immediate: runs inside MULTI, where others are queued (EXEC, DISCARD, QUIT …).
        no_multi: refused inside MULTI.
        may_write: waits while CLIENT PAUSE stops writes (``write``, ``may_replicate``,
            ``runs_script``).
        fast: what it takes counts as the event ``fast-command`` of LATENCY.
        monitored, slowlogged: whether MONITOR and SLOWLOG show it (all without ``admin`` or
            ``skip_monitor``; all without ``skip_slowlog``).
        touches: the keys and channels of its requests, which a user needs rights on.
        stats, samples: its counters, and their durations that are not added up yet.
    """

    name: bytes
    arity: int
    on_replica: RunCommand | None
    on_session: "RunSessionCommand | None"
    writes: bool
    is_limited: bool
    adds: bool
    needs_auth: bool
    immediate: bool
    no_multi: bool
    may_write: bool
    fast: bool
    monitored: bool
    slowlogged: bool
    touches: Touches
    stats: CallStatistics
    samples: list[int]


@dataclass(slots=True, eq=False)
class Session:
    """A client of the database.

    Attributes:
        id: ascending in the order in which clients came; never used twice.
        name: what CLIENT SETNAME said.
        protocol: 2 or 3; only replies whose shape differs ask for it.
        user: whose rights its requests need.
        authenticated: it has logged in, or did not have to when it came.
        queue: the commands since MULTI; None outside a transaction.
        queue_bytes: size of their arguments.
        queue_broken: one of them was refused when it was queued, so EXEC will abort.
        watched: keys of WATCH.
        dirty: one of them changed, so EXEC will answer null.
        in_exec: its transaction is running.
        subscriptions: how many channels, patterns and shard channels it listens to.
        wrote_n: how many effects this region had issued when this client last wrote; WAIT waits for
            them.
        wrote_record: the replica's record that has its last local change, for WAITAOF.
        has_open_write: it wrote in the open section, and how many effects that leads to is known
            when the section ends (XACK); see ``OpenWrites``.
        last_command: name of the last one, for CLIENT LIST.
        library: what CLIENT SETINFO said.
        talk: whether replies are sent; the shell keeps to it.
        closing: QUIT or CLIENT KILL; the shell hangs up after the reply.
        admitted, shown: the command that a bound on what lags last let through, and the one that
            MONITOR last showed.  They may be run again: what it needed was on disk.
        given: replies of XREAD to it, if XREAD is to skip nothing; None: none yet.
    """

    id: int
    user: User = field(default_factory=unlimited_user)
    name: bytes = b""
    protocol: int = RESP2
    authenticated: bool = True
    queue: list[tuple[Handler, list[bytes]]] | None = None
    queue_bytes: int = 0
    queue_broken: bool = False
    watched: set[bytes] = field(default_factory=set)
    dirty: bool = False
    in_exec: bool = False
    subscriptions: int = 0
    wrote_n: int = 0
    wrote_record: int = 0
    has_open_write: bool = False
    last_command: bytes = b"NULL"
    library: dict[bytes, bytes] = field(default_factory=dict)
    talk: Talk = Talk.ON
    closing: bool = False
    admitted: list[bytes] | None = None
    shown: list[bytes] | None = None
    given: GivenReplies | None = None

    def reading_aside(self) -> "Session":
        """A client that reads as this one would, and leaves no trace of it."""
        given = None if self.given is None else self.given.copied()
        return Session(self.id, self.user, protocol=self.protocol, given=given)


RunSessionCommand: TypeAlias = Callable[[Session, Millis, list[bytes]], Reply | Blocked]


@dataclass(frozen=True, slots=True)
class SessionCommand:
    """A command about the client or the server; the attributes are those of ``Command``."""

    name: bytes
    run: RunSessionCommand
    arity: int
    flags: frozenset[str] = field(default_factory=frozenset)
