"""Serving blocked clients: who is tried again, when, and in which order.

A blocked command is tried again when one of its keys changes, when its time to retry has come, or
when a peer acknowledges.  It ends with an answer, or when its own time is over:

    keys changed ── settle ──────┐
    a peer's ack ── settle_acks ─┼──> try again ──> answered: served, and forgotten
    the clock ───── expire ──────┘         └──────> still Blocked: waits on

Always so:
  * Blocked clients are served in the order in which they began to wait.
  * A WATCH is tripped before those who wait for the same key are served.
  * ``replica.touched`` is empty afterwards.

The host (``Database``) runs the commands; nothing here knows what a command does.
"""

from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from crdtstream.commands.reply import Blocked, CommandError, Reply, Wants
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.session import Handler, Session
from crdtstream.database.transactions import Transactions
from crdtstream.database.waiting import Waiter, WaitingRoom

Served: TypeAlias = tuple[Session, Reply]
# What nobody finds at present, and when it is worth another look; None: when a key changes.
FoundEmpty: TypeAlias = dict[Wants | None, Millis | None]

UNBLOCKED: Final = "UNBLOCKED client unblocked via CLIENT UNBLOCK"


class Host(Protocol):
    """Who runs commands, and knows what stops them at present."""

    @property
    def replica(self) -> Replica: ...

    def is_held_back(self, waiter: Waiter) -> bool:
        """Whether CLIENT PAUSE forbids to serve it."""

    def try_again(self, waiter: Waiter, now: Millis) -> Reply | Blocked:
        """Run a blocked command once more; an error is a value."""

    def note_failure(self, handler: Handler, error: CommandError) -> CommandError:
        """Count an error that a command answers."""

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

    # --- What wakes them ----------------------------------------------------------------------

    def settle(self, now: Millis) -> list[Served]:
        """See ``Database.settle``.

        Serving one (XREADGROUP) may change a key that others wait for.  So it goes round until a
        round serves nobody; each round takes at least one client out, so that ends.
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
                # What those touched who found nothing must not wake them once more.
                transactions.note_changed(touched)
                touched.clear()
        return served

    def settle_acks(self, now: Millis) -> list[Served]:
        """Try those who wait for other regions (WAIT, CRDT.WAITFOR)."""
        return self._serve(self.waiting.keyless(), now)

    def serve_all(self, now: Millis) -> list[Served]:
        """Try all blocked commands, whatever they wait for."""
        return self._serve(self.waiting.all(), now) + self.settle(now)

    def serve_due(self, now: Millis) -> list[Served]:
        """Try those whose time to retry has come, and answer those whose time is over."""
        retried, expired = self.waiting.take_due(now)
        served = self._serve(retried, now)
        for waiter in expired:
            served.append((waiter.session, self._last_answer(waiter, now)))
            self._host.note_end(waiter)
        return served

    def unblock(self, session_id: int, *, with_error: bool) -> Served | None:
        """See ``Database.unblock``."""
        waiter = self.waiting.of(session_id)
        if waiter is None:
            return None
        self.waiting.remove(waiter)
        reply: Reply
        if with_error:
            reply = self._host.note_failure(waiter.handler, CommandError(UNBLOCKED))
        else:
            reply = self._last_answer(waiter, self._host.replica.now)
        self._host.note_end(waiter)
        return waiter.session, reply

    def forget(self, session_id: int) -> None:
        """The client is gone: it waits no more."""
        waiter = self.waiting.of(session_id)
        if waiter is not None:
            self.waiting.remove(waiter)

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
                # Not by the clock, either: it is tried again when the pause is over.
                waiting.keep(waiter, replace(waiter.blocked, retry_at=None))
                continue
            reply = host.try_again(waiter, now)
            if isinstance(reply, Blocked):
                waiting.keep(waiter, reply)
                if wants is not None:
                    found_empty[wants] = reply.retry_at
            else:
                waiting.remove(waiter)
                host.note_end(waiter)
                served.append((waiter.session, reply))
        return served

    def _last_answer(self, waiter: Waiter, now: Millis) -> Reply:
        """A reader gets its null; WAIT, which waits for no key, counts once more."""
        if waiter.blocked.keys:
            return waiter.blocked.on_timeout
        reply = self._host.try_again(waiter, now)
        return reply.on_timeout if isinstance(reply, Blocked) else reply
