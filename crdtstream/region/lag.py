"""The replication lag: what this region issued and no other region durably has.

How many effects, and for how long the oldest of them.  Losing the region with its disk loses so
much, and no more.

    issued here          1 2 3 4 5 6 7 8 9
    durable in a peer    1 2 3 4 5            the peer that has most: one other region will do
    replication lag                6 7 8 9    4 effects, as old as 6

What peers say themselves counts, not what others tell of them: a peer that lost its disk is taken
at its new word, and its effects here count as missing again.  What an earlier run issued may be
anywhere, or nowhere: until a peer says, it lags.

Only active peers count: a region that joins may yet be given up.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.peers import Peers, PeersChange

# How long what peers acknowledge is counted before it is a rate.
RATE_MS: Final = Size(1_000, least=1)
# When effects were issued is known this finely; beyond it neighbours share the earlier time.
MARKS_MAX: Final = Size(4_096, least=2)


class ReplicationLag:
    """See the module's text.

    Attributes:
        known_n: how many effects of this region the peer with most of them durably has.
        on_change: called when another effect is the oldest that lags.
    """

    def __init__(self, replica: Replica, peers: Peers, *, now: Millis) -> None:
        self.known_n = 0
        self.on_change: Callable[[], None] = _nobody_looks
        self._replica = replica
        self._peers = peers
        self._now = now
        self._known: dict[RegionId, int] = {}
        # From which effect on they were issued at that time, ascending; none for what is known.
        self._marks: deque[tuple[int, Millis]] = deque()
        self._begin(now)
        self._was_alone = self.is_alone
        # What was acknowledged by then, and how fast before.
        self._rate_from: tuple[Millis, int] = (now, 0)
        self._rate = 0
        peers.on_change.append(self._follow)

    def _begin(self, now: Millis) -> None:
        """Of what was issued so far nobody has said anything."""
        self._marked_n = self._replica.issued
        self._has_earlier = self._marked_n > 0
        self._marks.clear()
        if self._has_earlier:
            self._marks.append((1, now))

    @property
    def is_alone(self) -> bool:
        """No other region to have anything: nothing lags."""
        return not self._peers.active

    @property
    def is_known(self) -> bool:
        """Whether some peer has said what it has since this region started, if that matters."""
        return self._is_told or not self._has_earlier

    @property
    def _is_told(self) -> bool:
        return not self._peers.active.isdisjoint(self._known)

    @property
    def effects(self) -> int:
        """How many effects of this region no other region durably has."""
        return 0 if self.is_alone else max(0, self._replica.issued - self.known_n)

    @property
    def since_ms(self) -> Millis | None:
        """When the oldest of them was issued, by this region's clock; of an earlier run: when this
        one started.  None: there is none but in the open tick."""
        return self._marks[0][1] if self._marks else None

    def ms(self, now: Millis) -> int:
        """For how long the oldest of them lags."""
        return max(0, now - self._marks[0][1]) if self._marks else 0

    def acknowledged_per_second(self, now: Millis) -> int:
        """How many effects of this region another one made durable lately, per second."""
        since, n = self._rate_from
        elapsed = now - since
        # Less than before, if a peer lost its disk, is none.
        return self._rate if elapsed < RATE_MS.value else max(0, self.known_n - n) * 1000 // elapsed

    # --- What changes it ----------------------------------------------------------------------

    def note_issued(self, now: Millis) -> None:
        """A tick ended, and left records; ``pass_time`` is called next."""
        issued = self._replica.issued
        if issued <= self._marked_n or self.is_alone:
            return
        marks = self._marks
        if issued > self.known_n and not (marks and marks[-1][1] == now):
            marks.append((max(self._marked_n, self.known_n) + 1, now))
            if len(marks) == 1:
                self.on_change()
            elif len(marks) > MARKS_MAX.value:
                self._marks = deque(mark for at, mark in enumerate(marks) if at % 2 == 0)
        self._marked_n = issued

    def note_durable(self, peer: RegionId, n: int) -> None:
        """A peer itself says that it durably has ``n`` effects of this region."""
        if n <= self._known.get(peer, -1):
            return
        is_first = not self._is_told
        self._known[peer] = n
        if peer in self._peers.active and (n > self.known_n or is_first):
            self._set_known(max(n, self.known_n))

    def note_lost(self, peer: RegionId, n: int) -> None:
        """A peer has no more than ``n`` effects of this region, whatever it had said before."""
        if n < self._known.get(peer, 0):
            self._known[peer] = n
            self._set_known(self._most_n)

    @property
    def _most_n(self) -> int:
        """What the active peer that has most has."""
        active = self._peers.active
        return max((n for peer, n in self._known.items() if peer in active), default=0)

    def _follow(self, change: PeersChange) -> None:
        for peer in change.removed:
            self._known.pop(peer, None)
        was_alone, self._was_alone = self._was_alone, self.is_alone
        if self.is_alone:
            self._marks.clear()
            self.known_n = self._marked_n = 0
        elif was_alone:
            self._begin(change.now)
        self._set_known(self._most_n)

    def _set_known(self, n: int) -> None:
        marks = self._marks
        if n < self.known_n:
            # For how long they lack is not known; they do from now on.
            marks.appendleft((n + 1, marks[0][1] if marks else self._now))
        self.known_n = n
        while len(marks) > 1 and marks[1][0] <= n + 1:
            marks.popleft()
        if marks and n >= self._marked_n:
            marks.clear()
        self.on_change()

    def pass_time(self, now: Millis) -> None:
        """A tick ends."""
        if now < self._now:
            # The clock was set back: what is older than it says counts from now.
            self._marks = deque((n, min(ms, now)) for n, ms in self._marks)
            self.on_change()
        self._now = now
        since, _ = self._rate_from
        if not since <= now < since + RATE_MS.value:
            self._rate = self.acknowledged_per_second(now) if now > since else 0
            self._rate_from = (now, self.known_n)


def _nobody_looks() -> None:
    pass
