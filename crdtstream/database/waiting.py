"""Waiting clients: by key, in order of arrival, with their deadlines."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from crdtstream.commands.reply import Blocked
from crdtstream.core.ids import Millis
from crdtstream.core.size import Size
from crdtstream.database.session import Handler, Session

# Stale times stay in the heap until they are the greater part of it, and more than this: taking
# each out at once would mean a search.
STALE_TIMES_MAX: Final = Size(64, least=0)


@dataclass(slots=True, init=False, eq=False)
class Waiter:
    """A blocked command.

    Attributes:
        seq: ascending in the order of arrival; the order of service.
        blocked: what it waits for, as it said last.
        deadline: None is without end.
        argv: the command as it came.
        ns: how long it has run so far, without the waiting.
        is_cold: its entries are read from disk.
        tries: how often its entries were read from disk.
        scheduled_at, generation: when it is to be woken, and which entry of the heap says so;
            entries of earlier generations are stale.
    """

    seq: int
    session: Session
    handler: Handler
    blocked: Blocked
    deadline: Millis | None
    argv: list[bytes]
    ns: int
    is_cold: bool
    tries: int
    scheduled_at: Millis | None
    generation: int

    def __init__(
        self,
        seq: int,
        session: Session,
        handler: Handler,
        blocked: Blocked,
        deadline: Millis | None,
        argv: list[bytes],
        ns: int,
    ) -> None:
        self.seq = seq
        self.session = session
        self.handler = handler
        self.blocked = blocked
        self.deadline = deadline
        self.argv = argv
        self.ns = ns
        self.is_cold = False
        self.tries = 0
        self.scheduled_at = None
        self.generation = 0

    @property
    def wakes_at(self) -> Millis | None:
        """Time at which something is to be done for it although no key changes."""
        times = [at for at in (self.deadline, self.blocked.retry_at) if at is not None]
        return min(times, default=None)

    def note_fetched(self) -> None:
        """Its entries were read from disk, or could not be."""
        self.is_cold = False


class WaitingRoom:
    """The blocked clients.

    Attributes:
        by_session: all waiters.
        without_keys: those that wait for something that is not a key, by arrival.
        times: a heap of (time, seq, generation, session id): times at which a waiter is to be woken
            although no key changes.

    Always so: a session waits for one command at most.  A waiter stands under each of its keys; one
    without keys (WAIT) stands in a list of its own.  No key without a waiter is kept.  At most one
    entry of the heap is current for a waiter.
    """

    def __init__(self) -> None:
        self._seq = 0
        self.by_session: dict[int, Waiter] = {}
        self._by_key: dict[bytes, dict[int, Waiter]] = {}
        self.without_keys: dict[int, Waiter] = {}
        self.times: list[tuple[Millis, int, int, int]] = []

    @property
    def key_count(self) -> int:
        """Number of keys that are waited for."""
        return len(self._by_key)

    def of(self, session_id: int) -> Waiter | None:
        return self.by_session.get(session_id)

    def add(
        self,
        session: Session,
        handler: Handler,
        blocked: Blocked,
        now: Millis,
        *,
        argv: list[bytes],
        ns: int,
    ) -> None:
        """Let a client wait.  O(keys + log waiters)."""
        assert session.id not in self.by_session, "a blocked client calls nothing"
        self._seq += 1
        deadline = Millis(now + blocked.timeout_ms) if blocked.timeout_ms else None
        waiter = Waiter(self._seq, session, handler, blocked, deadline, argv, ns)
        self.by_session[session.id] = waiter
        for key in blocked.keys:
            self._by_key.setdefault(key, {})[waiter.seq] = waiter
        if not blocked.keys:
            self.without_keys[waiter.seq] = waiter
        self._note_time(waiter)

    def keep(self, waiter: Waiter, blocked: Blocked) -> None:
        """It was tried again and still waits, for the same keys."""
        assert blocked.keys == waiter.blocked.keys, "it stands under other keys"
        waiter.blocked = blocked
        self._note_time(waiter)

    def _note_time(self, waiter: Waiter) -> None:
        when = waiter.wakes_at
        if when == waiter.scheduled_at:
            return
        waiter.scheduled_at = when
        waiter.generation += 1
        if when is not None:
            self._forget_stale_times()
            heappush(self.times, (when, waiter.seq, waiter.generation, waiter.session.id))

    def remove(self, waiter: Waiter) -> None:
        del self.by_session[waiter.session.id]
        self.without_keys.pop(waiter.seq, None)
        for key in waiter.blocked.keys:
            waiters = self._by_key[key]
            del waiters[waiter.seq]
            if not waiters:
                del self._by_key[key]
        assert self.by_session or not self._by_key, "a key is kept without a waiter"

    def of_keys(self, keys: Iterable[bytes]) -> list[Waiter]:
        """Waiters for any of the keys, in order of arrival, each once."""
        found: dict[int, Waiter] = {}
        for key in keys:
            found.update(self._by_key.get(key, {}))
        return [found[seq] for seq in sorted(found)]

    def has_any(self, key: bytes) -> bool:
        """True if any client waits for the key."""
        return key in self._by_key

    def all(self) -> list[Waiter]:
        """All waiters, in order of arrival."""
        return sorted(self.by_session.values(), key=lambda waiter: waiter.seq)

    def keyless(self) -> list[Waiter]:
        """Waiters for something that is not a key, in order of arrival."""
        return list(self.without_keys.values())

    def next_time(self) -> Millis | None:
        """Time at which ``take_due`` is to be asked next; None if no waiting client has a time."""
        while self.times:
            if self._is_current(*self.times[0]):
                return self.times[0][0]
            heappop(self.times)
        return None

    def take_due(self, now: Millis) -> tuple[list[Waiter], list[Waiter]]:
        """Waiters to be tried again, and those whose wait timed out, which are removed.

        One whose entries are read from disk may yet get its answer: it stays until it was tried.

        Both by time, and of one time by arrival.
        """
        retried = []
        expired = []
        while (when := self.next_time()) is not None and when <= now:
            waiter = self.by_session[heappop(self.times)[-1]]
            waiter.scheduled_at = None
            is_over = waiter.deadline is not None and waiter.deadline <= now
            if waiter.is_cold:
                continue
            if is_over:
                self.remove(waiter)
                expired.append(waiter)
            else:
                retried.append(waiter)
        return retried, expired

    def _is_current(self, _when: Millis, seq: int, generation: int, session_id: int) -> bool:
        waiter = self.by_session.get(session_id)
        return waiter is not None and waiter.seq == seq and waiter.generation == generation

    def _forget_stale_times(self) -> None:
        if len(self.times) < 2 * len(self.by_session) + STALE_TIMES_MAX.value:
            return
        self.times = [entry for entry in self.times if self._is_current(*entry)]
        heapify(self.times)
