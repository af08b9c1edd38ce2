"""Freshness: how far this region is behind its peers, in milliseconds of its own clock.

Each message by which a peer says what it has also says how much of this region's clock had passed
when it was sent: the time that this region had last sent it, and the time since then.  No clock of
another machine is used, so clocks that differ change nothing.

    this region   t=100 ──stamp 100──>          <── has 2:7, echo 130 ── t=150
    peer                     t'=..   30 ms pass   t'=..

What the peer had at 130 is in its message.  When all that is applied here, this region had at 130
all that the peer had: it is *current as of* 130.  Until then it is behind since 130.  If it was
last current long before, it counts as behind since then: after a silence it is unknown when it fell
behind.  The time on the line counts as lag, both ways, so the line makes no lag too small.

Heartbeats come at intervals, and a lag does not grow between two of them.  It grows once more than
``QUIET_HEARTBEATS`` are due, as the line may be cut.  A peer without news sends fewer, and says
with each when the next one comes at the latest.  It reports news at once, so there was none up to
then.

The lag is of the region, not of one link: what a majority of the active regions had, this region
among them once it is one of them (``docs/decisions/lag-is-of-the-region.md``).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crdtstream.core.clock import Versioned, VersionVector, capped, covers
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.region.peers import Peers, PeersChange

QUIET_HEARTBEATS: Final = 2
# Sayings of a peer that are not applied yet; beyond this number, the newest one replaces the last.
SAYINGS_MAX: Final = Size(128, least=1)


def to_ms(at: float) -> int:
    """A time in seconds, in the unit of the lags; never 0, which stands for an unknown one."""
    return max(1, int(at * 1000))


class Saying(NamedTuple):
    """Word of a peer, heard at ``heard_ms``: it had ``vv`` when our clock showed ``as_of_ms``.

    After ``silent_ms`` more without a message of it the line may be cut.
    """

    vv: VersionVector
    as_of_ms: int
    heard_ms: int
    silent_ms: int


@dataclass(slots=True)
class _Heard:
    """Sayings of one peer.

    Attributes:
        latest: the latest of those that are applied here.  The peer speaks in two ways, by its
            heartbeats and by its acks, and one may be faster than the other.
        ahead: those that are not all applied here, in the order in which they were heard.
        due_ms: time by which it speaks again, as it said last.
    """

    latest: Saying
    due_ms: int = 0
    ahead: deque[Saying] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Freshness of a region.

    Attributes:
        lag_ms: a majority of the regions had nothing, longer ago than this, that lacks here.
        linked: peers that are heard.
        peers: number of all active peers.
        counts_itself: this region is an active one; not while it joins, nor once it was removed.
    """

    lag_ms: int
    linked: int
    peers: int
    counts_itself: bool = True

    @property
    def is_minority(self) -> bool:
        """True if fewer than half of the regions hear each other here, this one included."""
        own = int(self.counts_itself)
        return 2 * (self.linked + own) < self.peers + own


class Lags:
    """The lag behind each peer, and that of the region.

    Times are milliseconds of a monotonic clock.
    """

    def __init__(
        self,
        peers: Peers,
        applied: Versioned,
        *,
        heartbeat_interval_ms: int,
    ) -> None:
        """``applied``: what is applied here."""
        self._peers = peers
        self._applied = applied
        self._interval_ms = heartbeat_interval_ms
        self._heard: dict[RegionId, _Heard] = {}

    def follow_peers(self, change: PeersChange) -> None:
        for peer in change.removed:
            self._heard.pop(peer, None)

    def note(
        self,
        peer: RegionId,
        vv: VersionVector,
        at_ms: int,
        echo_ms: int = 0,
        *,
        next_ms: int = 0,
    ) -> None:
        """Note what a peer has, as it said at ``at_ms``.

        Args:
            echo_ms: how much of this region's clock had passed when it was sent; 0: it does not
                say, so it counts as of now.
            next_ms: time within which its next heartbeat comes; 0: it does not say, so what it said
                before holds.
        """
        # A peer cannot know of a time that is still to come.
        as_of_ms = min(echo_ms, at_ms) if echo_ms else at_ms
        heard = self._heard.get(peer)
        if heard is None:
            # Nothing is known of the time before.
            heard = self._heard[peer] = _Heard(Saying({}, as_of_ms, at_ms, 0))
        if next_ms:
            # As late as the second of frequent ones would be.
            heard.due_ms = at_ms + next_ms + (QUIET_HEARTBEATS - 1) * self._interval_ms
        silent_ms = max(QUIET_HEARTBEATS * self._interval_ms, heard.due_ms - at_ms)
        saying = Saying(vv, as_of_ms, at_ms, silent_ms)
        if len(heard.ahead) < SAYINGS_MAX.value:
            heard.ahead.append(saying)
        else:
            heard.ahead[-1] = saying
        self._pass_applied(heard)

    def forget_announced(self, peer: RegionId) -> None:
        """Note that a peer's link ended: it could not report what came since, so its silence is not
        one that it announced."""
        heard = self._heard.get(peer)
        if heard is None:
            return
        silent_ms = QUIET_HEARTBEATS * self._interval_ms
        heard.due_ms = 0
        heard.latest = heard.latest._replace(silent_ms=silent_ms)
        heard.ahead = deque(saying._replace(silent_ms=silent_ms) for saying in heard.ahead)

    def note_ends(self, ends: Mapping[RegionId, int]) -> None:
        """Note that effects beyond these ends do not count any more: a lack of them is no lag."""
        for heard in self._heard.values():
            heard.ahead = deque(one._replace(vv=capped(one.vv, ends)) for one in heard.ahead)

    def _pass_applied(self, heard: _Heard) -> None:
        """Drop the sayings that are all applied by now."""
        applied = self._applied.vv
        while heard.ahead and covers(applied, heard.ahead[0].vv):
            saying = heard.ahead.popleft()
            if saying.as_of_ms >= heard.latest.as_of_ms:
                heard.latest = saying

    def lag_ms(self, peer: RegionId, at_ms: int) -> int | None:
        """Lag behind a peer; None: the peer was never heard.

        It grows while the peer is silent.
        """
        heard = self._heard.get(peer)
        if heard is None:
            return None
        self._pass_applied(heard)
        latest = heard.latest
        if heard.ahead:
            lacks_ms = heard.ahead[0].as_of_ms
            was_silent = lacks_ms - latest.as_of_ms > latest.silent_ms
            return at_ms - (latest.as_of_ms if was_silent else lacks_ms)
        is_quiet = at_ms - latest.heard_ms > latest.silent_ms
        return (at_ms if is_quiet else latest.heard_ms) - latest.as_of_ms

    def freshness(self, linked: Iterable[RegionId], at_ms: int) -> Freshness:
        """Freshness of this region, by the active peers that it hears."""
        active = self._peers.active
        lags = [self.lag_ms(peer, at_ms) for peer in active.intersection(linked)]
        known = sorted(lag for lag in lags if lag is not None)
        # As many peers as make a majority, with this region if it counts; of fewer all of them.
        own = int(self._peers.is_active_here)
        wanted = min((len(active) + own) // 2 + 1 - own, len(known))
        lag_ms = known[wanted - 1] if wanted else 0
        return Freshness(lag_ms, len(known), len(active), counts_itself=bool(own))
