"""Serving blocked clients: which commands are tried again, when, and in which order.

A blocked command is tried again when one of its keys changes, when its time to retry has come, or
when a peer acknowledges.  It ends with an answer, or when its own wait times out:

    keys changed ── settle ──────┐
    a peer's ack ── settle_acks ─┼──> try again ─┬> answered: served, and forgotten
    the clock ───── expire ──────┤       ^       ├> still Blocked: waits on
    read from disk, serve_fetched┘       └───────┴> needs entries that are on disk: they are read

Always so:
  * Blocked clients are served in the order in which they began to wait.
  * A WATCH is tripped before clients that wait for the same key are served.
  * ``replica.touched`` is empty afterwards.
  * A client that needs entries which are read from disk keeps its place: no client behind it that
    waits for one of its keys is served before it.

The host (``Database``) runs the commands; nothing here knows what a command does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from crdtstream.commands.reply import Blocked, CommandError, Reply, Wants
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.cold import TRIES_MAX, ColdError
from crdtstream.core.replica import Replica
from crdtstream.database.session import Handler, Session
from crdtstream.database.transactions import Transactions
from crdtstream.database.waiting import Waiter, WaitingRoom

Served: TypeAlias = tuple[Session, Reply]
# Things that no client finds at present, and when each is worth another look; None: when a key
# changes.
FoundEmpty: TypeAlias = dict[Wants | None, Millis | None]

UNBLOCKED: Final = "UNBLOCKED client unblocked via CLIENT UNBLOCK"


class Host(Protocol):
    """Runner of commands; it knows what stops them at present."""

    @property
    def replica(self) -> Replica: ...

    def is_held_back(self, waiter: Waiter) -> bool:
        """True if CLIENT PAUSE forbids to serve it."""

    def denial_of(self, waiter: Waiter) -> CommandError | None:
        """The refusal of a blocked command whose user has lost the right to it meanwhile."""

    def try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        """Run a blocked command once more; an error is a value."""

    def note_failure(self, handler: Handler, error: CommandError) -> CommandError:
        """Count an error that a command answers."""

    def ask_for(self, images: Sequence[int], go_on: Callable[[], None]) -> str | None:
        """Have images read from disk; return the reason if that was just tried and failed."""

    def unreadable(self, reason: str) -> CommandError:
        """The error of a command whose entries cannot be read from disk."""

    def note_end(self, waiter: Waiter) -> None:
        """Count a blocked command that has run to its end."""


class Serving:
    """The blocked clients of a database, and what wakes them.

    Attributes:
        waiting: who waits for what.
    """

    def __init__(self, host: Host, transactions: Transactions) -> None:
        self._host = host
        self._transactions = transactions
        self.waiting = WaitingRoom()
        # Those whose entries are read from disk, by their order of arrival.
        self._cold: dict[int, Waiter] = {}

    # --- What wakes them ----------------------------------------------------------------------

    def settle(self, now: Millis) -> list[Served]:
        """See ``Database.settle``.

        Serving one (XREADGROUP) may change a key that others wait for.  So it goes round until a
        round serves no client; each round takes at least one client out, so that ends.
        """
        touched, transactions = self._host.replica.touched, self._transactions
        served: list[Served] = []
        found_empty: FoundEmpty = {}
        while touched:
            keys = sorted(touched)
            touched.clear()
            transactions.note_changed(keys)
            round_served = self._serve(self.waiting.of_keys(keys), now, found_empty)
            served += round_served
            if not round_served:
                # Keys touched by clients that found nothing must not wake them once more.
                transactions.note_changed(touched)
                touched.clear()
        return served

    def settle_acks(self, now: Millis) -> list[Served]:
        """Try clients that wait for other regions (WAIT, CRDT.WAITFOR)."""
        return self._serve(self.waiting.keyless(), now)

    def serve_all(self, now: Millis) -> list[Served]:
        """Try all blocked commands, whatever they wait for."""
        return self._serve(self.waiting.all(), now) + self.settle(now)

    def serve_due(self, now: Millis) -> list[Served]:
        """Try clients whose time to retry has come, and answer those whose wait timed out."""
        retried, expired = self.waiting.take_due(now)
        served = self._serve(retried, now)
        for waiter in expired:
            served.append((waiter.session, self._last_answer(waiter, now)))
            self._host.note_end(waiter)
        return served

    def serve_fetched(self, now: Millis) -> list[Served]:
        """Try clients whose entries were read from disk, and those behind them."""
        fetched = [waiter for waiter in self._cold.values() if not waiter.is_cold]
        if not fetched:
            return []
        for waiter in fetched:
            del self._cold[waiter.seq]
        keyless = [waiter for waiter in fetched if not waiter.blocked.keys]
        keys = sorted({key for waiter in fetched for key in waiter.blocked.keys})
        served = self._serve(keyless + self.waiting.of_keys(keys), now)
        for waiter in fetched:
            if self.waiting.of(waiter.session.id) is waiter:
                # Its time to retry may have come since, or its wait may have timed out.
                self.waiting.keep(waiter, waiter.blocked)
        return served + self.settle(now)

    def unblock(self, session_id: int, *, with_error: bool) -> Served | None:
        """See ``Database.unblock``."""
        waiter = self.waiting.of(session_id)
        if waiter is None:
            return None
        self._remove(waiter)
        reply: Reply
        if with_error:
            reply = self._host.note_failure(waiter.handler, CommandError(UNBLOCKED))
        else:
            reply = self._last_answer(waiter, self._host.replica.keys.now)
        self._host.note_end(waiter)
        return waiter.session, reply

    def forget(self, session_id: int) -> None:
        """The client is gone: it waits no more."""
        waiter = self.waiting.of(session_id)
        if waiter is not None:
            self._remove(waiter)

    def _remove(self, waiter: Waiter) -> None:
        self.waiting.remove(waiter)
        self._cold.pop(waiter.seq, None)

    # --- Serving ------------------------------------------------------------------------------

    def _serve(
        self,
        waiters: list[Waiter],
        now: Millis,
        found_empty: FoundEmpty | None = None,
    ) -> list[Served]:
        """Try commands again, in order.

        Args:
            found_empty: what a client has just found nothing of, and when it is tried again.  The
                others who want the same are spared: thousands may wait for one group, and an
                entry serves one.
        """
        found_empty = {} if found_empty is None else found_empty
        host, waiting = self._host, self.waiting
        served: list[Served] = []
        for waiter in waiters:
            wants = waiter.blocked.wants
            if wants in found_empty:
                if waiter.blocked.retry_at != found_empty[wants]:
                    waiting.keep(waiter, replace(waiter.blocked, retry_at=found_empty[wants]))
                continue
            if host.is_held_back(waiter):
                # Not by the clock, either: it is tried again when the pause ends.
                waiting.keep(waiter, replace(waiter.blocked, retry_at=None))
                continue
            if self._cold and self._stands_behind(waiter):
                # Tried again when those before it were.
                waiting.keep(waiter, replace(waiter.blocked, retry_at=None))
                continue
            denied = host.denial_of(waiter)
            if denied is not None:
                self._remove(waiter)
                served.append((waiter.session, denied))
                continue
            reply = self._try_again(waiter, now)
            if reply is None:
                continue
            if isinstance(reply, Blocked):
                waiting.keep(waiter, reply)
                if wants is not None:
                    found_empty[wants] = reply.retry_at
            else:
                self._remove(waiter)
                host.note_end(waiter)
                served.append((waiter.session, reply))
        return served

    def _try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked | None:
        """Run a blocked command once more; None: its entries are read from disk first."""
        host = self._host
        try:
            reply = host.try_again(waiter, now)
        except ColdError as error:
            if waiter.tries >= TRIES_MAX.value:
                with host.replica.residency.in_place():
                    return host.try_again(waiter, now)
            reason = host.ask_for(error.images, waiter.note_fetched)
        else:
            waiter.tries = 0
            return reply
        if reason is not None:
            return host.unreadable(reason)
        waiter.tries += 1
        waiter.is_cold = True
        self._cold[waiter.seq] = waiter
        return None

    def _stands_behind(self, waiter: Waiter) -> bool:
        """True if a client before it, whose entries are read from disk, waits for one of its
        keys."""
        keys = waiter.blocked.keys
        return any(
            seq < waiter.seq and any(key in keys for key in cold.blocked.keys)
            for seq, cold in self._cold.items()
        )

    def _last_answer(self, waiter: Waiter, now: Millis) -> Reply:
        """A reader gets its null; WAIT, which waits for no key, counts once more."""
        if waiter.blocked.keys:
            return waiter.blocked.on_timeout
        reply = self._host.try_again(waiter, now)
        return reply.on_timeout if isinstance(reply, Blocked) else reply
