"""How far this region is behind its peers, in milliseconds of its own clock.

Each message by which a peer says what it has also says how much of this region's clock had passed
when it was sent: the time that this region had last told it, and what passed since.  No clock of
another machine comes into it, so clocks that differ change nothing.

    this region   t=100 ──stamp 100──>          <── has 2:7, echo 130 ── t=150
    peer                     t'=..   30 ms pass   t'=..

What the peer had at 130 is in what it says.  When all that is applied here, this region had at 130
all that the peer had: it is *current as of* 130.  Until then it is behind since 130; or since when
it was last current, if that is long before: after a silence nobody knows when it fell behind.  How
long the line took counts as lag, both ways, so a lag is never told too small by that.

Heartbeats come now and then, and a lag does not grow between two of them; it does once more than
``QUIET_HEARTBEATS`` are due, as the line may be cut.  A peer with nothing new to tell sends fewer,
and says with each when the next one comes at the latest.  It tells at once of what is new, so
nothing was new up to then.

A lag of the region, not of one link: what a majority of the active regions had, itself among them
once it is one of them (``docs/decisions/lag-is-of-the-region.md``).
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from crdtstream.core.clock import VersionVector, covers
from crdtstream.core.ids import RegionId
from crdtstream.core.size import Size
from crdtstream.region.peers import Peers, PeersChange

QUIET_HEARTBEATS: Final = 2
# What a peer said and is not applied yet; beyond it, the newest one takes the place of the last.
SAYINGS_MAX: Final = Size(128, least=1)


def to_ms(at: float) -> int:
    """A time in seconds as the lags count it; never 0, which stands for an unknown one."""
    return max(1, int(at * 1000))


class Saying(NamedTuple):
    """A peer had ``vv`` when this region's clock showed ``as_of_ms``; heard at ``heard_ms``.

    After ``silent_ms`` more without a word of it the line may be cut.
    """

    vv: VersionVector
    as_of_ms: int
    heard_ms: int
    silent_ms: int


@dataclass(slots=True)
class _Heard:
    """What one peer said.

    Attributes:
        latest: of all that it said and is applied here, the latest.  It speaks in two ways, by
            its heartbeats and by its acks, and one may be faster than the other.
        ahead: what it said and is not all applied here, in the order in which it was heard.
        due_ms: by when it speaks again, as it said last.
    """

    latest: Saying
    due_ms: int = 0
    ahead: deque[Saying] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class Freshness:
    """How current a region is.

    Attributes:
        lag_ms: a majority of the regions had nothing, longer ago than this, that lacks here.
        linked: peers that are heard.
        peers: all that there are.
        counts_itself: it is one of the regions; not while it joins, nor once it was removed.
    """

    lag_ms: int
    linked: int
    peers: int
    counts_itself: bool = True

    @property
    def is_minority(self) -> bool:
        """Whether fewer than half of the regions hear each other here, this one included."""
        own = int(self.counts_itself)
        return 2 * (self.linked + own) < self.peers + own


class Lags:
    """The lag behind each peer, and that of the region.

    Times are milliseconds of a clock that only goes forward.
    """

    def __init__(
        self,
        peers: Peers,
        vv: Callable[[], VersionVector],
        *,
        heartbeat_interval_ms: int,
    ) -> None:
        """``vv``: what is applied here."""
        self._peers = peers
        self._vv = vv
        self._interval_ms = heartbeat_interval_ms
        self._heard: dict[RegionId, _Heard] = {}
        peers.on_change.append(self._follow)

    def _follow(self, change: PeersChange) -> None:
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
        """A peer said at ``at_ms`` what it has.

        Args:
            echo_ms: how much of this region's clock had passed when it was sent; 0: it does not
                say, as of now.
            next_ms: its next heartbeat comes after so long at the latest; 0: it does not say, so
                what it said before holds.
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
        """Its link ended: it could not tell of what came since, so its silence is none that it
        announced."""
        heard = self._heard.get(peer)
        if heard is None:
            return
        silent_ms = QUIET_HEARTBEATS * self._interval_ms
        heard.due_ms = 0
        heard.latest = heard.latest._replace(silent_ms=silent_ms)
        heard.ahead = deque(saying._replace(silent_ms=silent_ms) for saying in heard.ahead)

    def _pass_applied(self, heard: _Heard) -> None:
        """Leave behind what is all applied by now."""
        applied = self._vv()
        while heard.ahead and covers(applied, heard.ahead[0].vv):
            saying = heard.ahead.popleft()
            if saying.as_of_ms >= heard.latest.as_of_ms:
                heard.latest = saying

    def lag_ms(self, peer: RegionId, at_ms: int) -> int | None:
        """How far this region is behind a peer; None: nothing was ever heard of it.

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
        """How current this region is, by the active peers that it hears."""
        active = self._peers.active
        lags = [self.lag_ms(peer, at_ms) for peer in active.intersection(linked)]
        known = sorted(lag for lag in lags if lag is not None)
        # As many peers as make a majority, with this region if it counts; of fewer all of them.
        own = int(self._peers.is_active_here)
        wanted = min((len(active) + own) // 2 + 1 - own, len(known))
        lag_ms = known[wanted - 1] if wanted else 0
        return Freshness(lag_ms, len(known), len(active), counts_itself=bool(own))
