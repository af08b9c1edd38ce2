"""Channels: who listens to what, and who hears a publication.

No sockets and no encoding: a shell sets ``deliver`` and is told who hears what.  A publication is
no effect.  It has no dot and is in no log, and a client that does not listen when it comes never
hears of it.  It goes two ways:

    PUBLISH ── publish ──┬── hand_out ── deliver ──> who listens in this region
                         └── forward ──> links ··> hand_out in every other region

Names are of three kinds, each a space of its own; one name of two kinds has nothing in common.

Always so: a name nobody listens to leaves nothing behind; ``session.subscriptions`` is the number
of names that the session listens to.
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import Protocol, TypeAlias

from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import CommandError, Push
from crdtstream.database.session import Session


class Kind(Enum):
    """What one can listen to; the value begins Redis's words for it (``psubscribe``, ``pmessage``).

    A shard channel is, on a server that is no cluster, a channel that patterns do not see.
    """

    CHANNEL = b""
    PATTERN = b"p"
    SHARD = b"s"


Deliver: TypeAlias = Callable[[Collection[Session], Push], None]


class Forward(Protocol):
    """Sends a publication to other regions."""

    def __call__(self, channel: bytes, payload: bytes, *, sharded: bool) -> None: ...


class Channels:
    """The subscriptions of all clients of one region.

    Attributes:
        deliver: tells listeners; the shell sets it.  It may make ``forget`` be called.
        forward: sends a publication of this region to the others; the shell sets it.
        forward_bytes_max: channel and payload together, beyond which PUBLISH is refused; None:
            nothing is forwarded, and everything may be published.
    """

    def __init__(self) -> None:
        self.deliver: Deliver = lambda _listeners, _push: None
        self.forward: Forward = _forward_nowhere
        self.forward_bytes_max: int | None = None
        # Dicts for sets: they keep the order in which names and listeners came.
        self._listeners: dict[Kind, dict[bytes, dict[Session, None]]] = {kind: {} for kind in Kind}
        self._names: dict[Session, dict[Kind, dict[bytes, None]]] = {}
        self._patterns = Patterns()

    # --- Subscribing --------------------------------------------------------------------------

    def subscribe(self, session: Session, kind: Kind, name: bytes) -> None:
        """Listen to a name; once more changes nothing."""
        names = self._names.setdefault(session, {each: {} for each in Kind})[kind]
        if name in names:
            return
        names[name] = None
        session.subscriptions += 1
        listeners = self._listeners[kind].setdefault(name, {})
        if kind is Kind.PATTERN and not listeners:
            self._patterns.add(name)
        listeners[session] = None

    def unsubscribe(self, session: Session, kind: Kind, name: bytes) -> None:
        """Listen to a name no more."""
        all_names = self._names.get(session)
        if all_names is None or name not in all_names[kind]:
            return
        del all_names[kind][name]
        session.subscriptions -= 1
        if not session.subscriptions:
            del self._names[session]
        listeners = self._listeners[kind][name]
        del listeners[session]
        if not listeners:
            del self._listeners[kind][name]
            if kind is Kind.PATTERN:
                self._patterns.remove(name)

    def forget(self, session: Session) -> None:
        """Stop listening to anything: RESET, or the client is gone."""
        for kind in Kind:
            for name in self.names(session, kind):
                self.unsubscribe(session, kind, name)

    # --- Asking -------------------------------------------------------------------------------

    def names(self, session: Session, kind: Kind) -> list[bytes]:
        """What a session listens to, in the order in which it subscribed."""
        names = self._names.get(session)
        return [] if names is None else list(names[kind])

    def name_count(self, session: Session, kind: Kind) -> int:
        names = self._names.get(session)
        return 0 if names is None else len(names[kind])

    def active(self, kind: Kind) -> Collection[bytes]:
        """The names that anyone listens to."""
        return self._listeners[kind].keys()

    def listener_count(self, kind: Kind, name: bytes) -> int:
        return len(self._listeners[kind].get(name, ()))

    @property
    def session_count(self) -> int:
        """How many clients listen to anything."""
        return len(self._names)

    # --- Publishing ---------------------------------------------------------------------------

    def publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> int:
        """Publish for a client of this region; returns how many were told here.

        Raises:
            CommandError: it is too large to be sent to the other regions.  Nobody was told then.
        """
        size = len(channel) + len(payload)
        if self.forward_bytes_max is not None and size > self.forward_bytes_max:
            raise CommandError(
                f"ERR publication of {size} bytes: channel and message together may have "
                f"{self.forward_bytes_max} bytes, because links carry no more to other regions"
            )
        self.forward(channel, payload, sharded=sharded)
        return self.hand_out(channel, payload, sharded=sharded)

    def hand_out(self, channel: bytes, payload: bytes, *, sharded: bool) -> int:
        """Tell those who listen in this region; returns how many messages that were.

        A client that listens to the channel and to two patterns that match it is told three times.

        Cost: O(1) and the messages, plus what ``Patterns.matching`` costs.
        """
        if sharded:
            return self._tell(Kind.SHARD, channel, Push([b"smessage", channel, payload]))
        count = self._tell(Kind.CHANNEL, channel, Push([b"message", channel, payload]))
        for pattern in self._patterns.matching(channel):
            push = Push([b"pmessage", pattern, channel, payload])
            count += self._tell(Kind.PATTERN, pattern, push)
        return count

    def _tell(self, kind: Kind, name: bytes, push: Push) -> int:
        # A copy: a listener that does not read may be hung up on, and is forgotten at once.
        listeners = tuple(self._listeners[kind].get(name, ()))
        if listeners:
            self.deliver(listeners, push)
        return len(listeners)


class Patterns:
    """Patterns, found by the literal bytes that they begin with.

    ``user:17:*`` is looked at only for channels that begin with ``user:17:``.  So thousands of such
    patterns cost a publication no more than one.
    """

    def __init__(self) -> None:
        # By literal beginning: the patterns, each with a check of the rest of a channel's name.
        self._by_beginning: dict[bytes, dict[bytes, Callable[[bytes], bool]]] = {}
        # How many different beginnings have this length.
        self._lengths: dict[int, int] = {}

    def add(self, pattern: bytes) -> None:
        beginning = literal_beginning(pattern)
        length = len(beginning)
        patterns = self._by_beginning.setdefault(beginning, {})
        if not patterns:
            self._lengths[length] = self._lengths.get(length, 0) + 1
        patterns[pattern] = compile_glob(pattern[length:])

    def remove(self, pattern: bytes) -> None:
        beginning = literal_beginning(pattern)
        patterns = self._by_beginning[beginning]
        del patterns[pattern]
        if not patterns:
            del self._by_beginning[beginning]
            self._lengths[len(beginning)] -= 1
            if not self._lengths[len(beginning)]:
                del self._lengths[len(beginning)]

    def matching(self, channel: bytes) -> list[bytes]:
        """The patterns that match a channel.

        Cost: a look-up per different length of a literal beginning, and a match per pattern whose
        beginning the channel has.
        """
        return [
            pattern
            for length in self._lengths
            if length <= len(channel)
            for pattern, fits in self._by_beginning.get(channel[:length], {}).items()
            if fits(channel[length:])
        ]


def _forward_nowhere(channel: bytes, payload: bytes, *, sharded: bool) -> None:
    """A region that is alone."""


def literal_beginning(pattern: bytes) -> bytes:
    """The bytes before the first one that stands for something else."""
    for at, byte in enumerate(pattern):
        if byte in b"*?[\\":
            return pattern[:at]
    return pattern
