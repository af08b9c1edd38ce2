"""The replication lag: effects that this region issued and no other region durably has.

It has a number, and the time for which the oldest of them lags.  If the region is lost with its
disk, these effects are lost, and no more.

    issued here          1 2 3 4 5 6 7 8 9
    durable in a peer    1 2 3 4 5            the peer that has most: one other region will do
    replication lag                6 7 8 9    4 effects, as old as 6

Only a peer's own word counts, not what others report of it.  So a peer that lost its disk is
believed, and its effects here count as missing again.  What an earlier run issued may be anywhere,
or nowhere: until a peer reports it, it lags.

Only active peers count: the joining of a region may still be given up.
"""

from collections import deque
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.region.peers import Peers, PeersChange

# Time over which acknowledgements are counted for one rate.
RATE_MS: Final = Size(1_000, least=1)
# Number of times of issue that are kept; beyond it neighbours share the earlier time.
MARKS_MAX: Final = Size(4_096, least=2)


class ReplicationLag:
    """See the module's text.

    Attributes:
        known_n: effects of this region that the peer with most of them durably has.
        has_changed: another effect is the oldest that lags, since this was set back.
        now: when the last tick ended; set from outside, but by ``pass_time`` if the clock is back.
        sample_at: time from which on ``pass_time`` has something to do.
    """

    def __init__(self, replica: Replica, peers: Peers, *, now: Millis) -> None:
        self.known_n = 0
        self.has_changed = False
        self._replica = replica
        self._peers = peers
        self.now = now
        self._known: dict[RegionId, int] = {}
        # First effect that was issued at each time, ascending; none for what is known.
        self._marks: deque[tuple[int, Millis]] = deque()
        self._begin(now)
        self._was_alone = self.is_alone
        # The time and number where the counting began, for the rate; and the rate before.
        self._rate_from: tuple[Millis, int] = (now, 0)
        self.sample_at = Millis(now + RATE_MS.value)
        self._rate = 0

    def _begin(self, now: Millis) -> None:
        """Begin without any word of a peer on what was issued so far."""
        self._marked_n = self._replica.issued
        self._has_earlier = self._marked_n > 0
        self._marks.clear()
        if self._has_earlier:
            self._marks.append((1, now))

    @property
    def is_alone(self) -> bool:
        """True if there is no other active region: nothing lags."""
        return not self._peers.active

    @property
    def is_known(self) -> bool:
        """True if some peer has said what it has since this region started, if that matters."""
        return self._is_told or not self._has_earlier

    @property
    def _is_told(self) -> bool:
        return not self._peers.active.isdisjoint(self._known)

    @property
    def effects(self) -> int:
        """Number of effects of this region that no other region durably has."""
        return 0 if self.is_alone else max(0, self._replica.issued - self.known_n)

    @property
    def since_ms(self) -> Millis | None:
        """Time at which the oldest of them was issued, by this region's clock; of an earlier run:
        the start of this one.  None: all are of the open tick, or none lags."""
        return self._marks[0][1] if self._marks else None

    def ms(self, now: Millis) -> int:
        """Time for which the oldest of them lags."""
        return max(0, now - self._marks[0][1]) if self._marks else 0

    def acknowledged_per_second(self, now: Millis) -> int:
        """Effects of this region per second that another one made durable lately."""
        since, n = self._rate_from
        elapsed = now - since
        # A peer that lost its disk has less than before: the rate is 0 then.
        return self._rate if elapsed < RATE_MS.value else max(0, self.known_n - n) * 1000 // elapsed

    # --- What changes it ----------------------------------------------------------------------

    def note_issued(self, now: Millis) -> None:
        """Note that a tick ended and left records."""
        issued = self._replica.vv.get(self._replica.region, 0)
        if issued <= self._marked_n or not self._peers.active:
            return
        marks = self._marks
        if issued > self.known_n and not (marks and marks[-1][1] == now):
            marks.append((max(self._marked_n, self.known_n) + 1, now))
            if len(marks) == 1:
                self.has_changed = True
            elif len(marks) > MARKS_MAX.value:
                self._marks = deque(mark for at, mark in enumerate(marks) if at % 2 == 0)
        self._marked_n = issued

    def note_durable(self, peer: RegionId, n: int) -> None:
        """Note that a peer durably has ``n`` effects of this region, as it says itself."""
        if n <= self._known.get(peer, -1):
            return
        is_first = not self._is_told
        self._known[peer] = n
        if peer in self._peers.active and (n > self.known_n or is_first):
            self._set_known(max(n, self.known_n))

    def note_lost(self, peer: RegionId, n: int) -> None:
        """Note that a peer has only ``n`` effects of this region, whatever it had said before."""
        if n < self._known.get(peer, 0):
            self._known[peer] = n
            self._set_known(self._most_n)

    @property
    def _most_n(self) -> int:
        """Number of effects that the active peer with most of them has."""
        active = self._peers.active
        return max((n for peer, n in self._known.items() if peer in active), default=0)

    def follow_peers(self, change: PeersChange) -> None:
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
            # It is unknown since when they lack; they count from now on.
            marks.appendleft((n + 1, marks[0][1] if marks else self.now))
        self.known_n = n
        while len(marks) > 1 and marks[1][0] <= n + 1:
            marks.popleft()
        if marks and n >= self._marked_n:
            marks.clear()
        self.has_changed = True

    def pass_time(self, now: Millis) -> None:
        """Note that a tick ends: the clock is back, or a rate is due."""
        if now < self.now:
            # The clock was set back: what is older than it says counts from now.
            self._marks = deque((n, min(ms, now)) for n, ms in self._marks)
            self.has_changed = True
        self.now = now
        since, _ = self._rate_from
        if not since <= now < since + RATE_MS.value:
            self._rate = self.acknowledged_per_second(now) if now > since else 0
            self._rate_from = (now, self.known_n)
            self.sample_at = Millis(now + RATE_MS.value)
