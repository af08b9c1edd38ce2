"""Who waits for what: blocked clients by key, in order of arrival, with their deadlines."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from crdtstream.commands.reply import Blocked
from crdtstream.commands.session import Row, Session
from crdtstream.core.ids import Millis

# The deadlines of clients served before their time stay in the heap until so many more stand in
# it than there are clients waiting: taking each out at once would mean a search.
STALE_DEADLINES_MAX: Final = 64


@dataclass(slots=True, eq=False)
class Waiter:
    """A blocked command.

    Attributes:
        seq: ascending in the order of arrival; the order of service.
        deadline: None is without end.
    """

    seq: int
    session: Session
    row: Row
    blocked: Blocked
    deadline: Millis | None


class WaitingRoom:
    """The blocked clients.

    Always so: a session waits for one command at most; a waiter stands under each of its keys,
    and one without keys (WAIT) in a list of its own; no key without a waiter is kept.
    """

    def __init__(self) -> None:
        self._seq = 0
        self._by_session: dict[int, Waiter] = {}
        self._by_key: dict[bytes, dict[int, Waiter]] = {}
        self._keyless: dict[int, Waiter] = {}
        self._deadlines: list[tuple[Millis, int, int]] = []  # deadline, seq, session id

    def __len__(self) -> int:
        return len(self._by_session)

    @property
    def key_count(self) -> int:
        """How many keys are waited for."""
        return len(self._by_key)

    def of(self, session_id: int) -> Waiter | None:
        return self._by_session.get(session_id)

    def add(self, session: Session, row: Row, blocked: Blocked, now: Millis) -> None:
        """Let a client wait.  O(keys + log waiters)."""
        assert session.id not in self._by_session, "a blocked client calls nothing"
        self._seq += 1
        deadline = Millis(now + blocked.timeout_ms) if blocked.timeout_ms else None
        waiter = Waiter(self._seq, session, row, blocked, deadline)
        self._by_session[session.id] = waiter
        for key in blocked.keys:
            self._by_key.setdefault(key, {})[waiter.seq] = waiter
        if not blocked.keys:
            self._keyless[waiter.seq] = waiter
        if deadline is not None:
            self._forget_stale_deadlines()
            heappush(self._deadlines, (deadline, waiter.seq, session.id))

    def remove(self, waiter: Waiter) -> None:
        del self._by_session[waiter.session.id]
        self._keyless.pop(waiter.seq, None)
        for key in waiter.blocked.keys:
            waiters = self._by_key[key]
            del waiters[waiter.seq]
            if not waiters:
                del self._by_key[key]

    def of_keys(self, keys: Iterable[bytes]) -> list[Waiter]:
        """Those who wait for any of the keys, in order of arrival, each once."""
        found: dict[int, Waiter] = {}
        for key in keys:
            found.update(self._by_key.get(key, {}))
        return [found[seq] for seq in sorted(found)]

    def keyless(self) -> list[Waiter]:
        """Those who wait for something that is not a key, in order of arrival."""
        return list(self._keyless.values())

    def next_deadline(self) -> Millis | None:
        """When the first of the waiting clients loses patience; None if nobody will."""
        while self._deadlines:
            deadline, seq, session_id = self._deadlines[0]
            if self._is_current(seq, session_id):
                return deadline
            heappop(self._deadlines)
        return None

    def take_expired(self, now: Millis) -> list[Waiter]:
        """Those whose time is over, removed; by deadline, and of one deadline by arrival."""
        expired = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            waiter = self._by_session[heappop(self._deadlines)[2]]
            self.remove(waiter)
            expired.append(waiter)
        return expired

    def _is_current(self, seq: int, session_id: int) -> bool:
        waiter = self._by_session.get(session_id)
        return waiter is not None and waiter.seq == seq

    def _forget_stale_deadlines(self) -> None:
        if len(self._deadlines) < len(self._by_session) + STALE_DEADLINES_MAX:
            return
        self._deadlines = [
            entry for entry in self._deadlines if self._is_current(entry[1], entry[2])
        ]
        heapify(self._deadlines)
