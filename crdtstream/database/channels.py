"""Channels: which client listens to what, and which ones hear a publication.

No sockets and no encoding: a shell sets ``deliver`` and is told which clients hear what.  A
publication is no effect.  It has no dot and is in no log, and a client that does not listen when it
comes never hears of it.  It goes two ways:

    PUBLISH ── publish ──┬── hand_out ── deliver ──> clients of this region that listen
                         └── forward ──> links ··> hand_out in every other region

Names are of three kinds, each a space of its own; one name of two kinds has nothing in common.
Of listeners in other regions only the number is known (``elsewhere.py``); ``on_change`` says what
is to be sent to those regions.

Always so: a name without listeners leaves nothing behind; ``session.subscriptions`` is the number
of names that the session listens to.
"""

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from crdtstream.commands.reply import CommandError, Push
from crdtstream.core.ids import RegionId
from crdtstream.database.elsewhere import Elsewhere
from crdtstream.database.listening import Kind, Patterns
from crdtstream.database.session import Session

Deliver: TypeAlias = Callable[[Collection[Session], Push], None]


class Forward(Protocol):
    """Sends a publication to other regions; returns those that it is on its way to."""

    def __call__(
        self, channel: bytes, payload: bytes, *, sharded: bool
    ) -> Collection[RegionId]: ...


class Channels:
    """The subscriptions of all clients of one region.

    Attributes:
        elsewhere: numbers of listeners in other regions, as far as these have reported.
        on_change: called when the number of listeners to a name has changed; the shell sets it.
        deliver: sends to listeners; the shell sets it.  It may make ``forget`` be called.
        forward: sends a publication of this region to the others; the shell sets it.
        forward_bytes_max: channel and payload together, beyond which PUBLISH is refused; None:
            nothing is forwarded, and everything may be published.
    """

    def __init__(self) -> None:
        self.deliver: Deliver = lambda _listeners, _push: None
        self.forward: Forward = _forward_nowhere
        self.forward_bytes_max: int | None = None
        self.elsewhere = Elsewhere()
        self.on_change: Callable[[Kind, bytes], None] = _nobody_is_told
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
        self.on_change(kind, name)

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
        self.on_change(kind, name)

    def forget(self, session: Session) -> None:
        """Stop listening to anything: RESET, or the client is gone."""
        for kind in Kind:
            for name in self.names(session, kind):
                self.unsubscribe(session, kind, name)

    # --- Asking -------------------------------------------------------------------------------

    def names(self, session: Session, kind: Kind) -> list[bytes]:
        """Names that a session listens to, in the order in which it subscribed."""
        names = self._names.get(session)
        return [] if names is None else list(names[kind])

    def name_count(self, session: Session, kind: Kind) -> int:
        names = self._names.get(session)
        return 0 if names is None else len(names[kind])

    def active(self, kind: Kind) -> Collection[bytes]:
        """The names that have listeners in this region."""
        return self._listeners[kind].keys()

    def active_anywhere(self, kind: Kind) -> Collection[bytes]:
        """The names that have listeners in any connected region, those of this one first."""
        return dict.fromkeys([*self.active(kind), *self.elsewhere.names(kind)])

    def listener_count(self, kind: Kind, name: bytes) -> int:
        """Number of clients that listen to a name in this region."""
        return len(self._listeners[kind].get(name, ()))

    def listener_count_anywhere(self, kind: Kind, name: bytes) -> int:
        """Number of clients that listen to a name in all connected regions together."""
        return self.listener_count(kind, name) + self.elsewhere.count(kind, name)

    @property
    def session_count(self) -> int:
        """Number of clients that listen to anything."""
        return len(self._names)

    # --- Publishing ---------------------------------------------------------------------------

    def publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> int:
        """Publish for a client of this region.

        Returns:
            The number of messages: those sent here, and those of the listeners in the regions that
            it is sent to, as far as these have reported.

        Raises:
            CommandError: it is too large to be sent to the other regions.  Nothing was sent then.
        """
        size = len(channel) + len(payload)
        if self.forward_bytes_max is not None and size > self.forward_bytes_max:
            raise CommandError(
                f"ERR publication of {size} bytes: channel and message together may have "
                f"{self.forward_bytes_max} bytes, because links carry no more to other regions"
            )
        regions = self.forward(channel, payload, sharded=sharded)
        told_elsewhere = self.elsewhere.told(regions, channel, sharded=sharded)
        return told_elsewhere + self.hand_out(channel, payload, sharded=sharded)

    def hand_out(self, channel: bytes, payload: bytes, *, sharded: bool) -> int:
        """Send it to the clients that listen in this region; return the number of messages.

        A client that listens to the channel and to two patterns that match it gets three messages.

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


def _forward_nowhere(channel: bytes, payload: bytes, *, sharded: bool) -> Collection[RegionId]:
    """A region that is alone."""
    return ()


def _nobody_is_told(_kind: Kind, _name: bytes) -> None:
    """A region that is alone."""
