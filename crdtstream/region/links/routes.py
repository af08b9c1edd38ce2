"""Routes: the origins that each link asks for; without any IO.

Usually a link asks for its peer's own effects.  It asks for another origin as well while

  * the direct link to that origin has not worked for ``relay_after_ms`` (relay),
  * what this link brought waits for that origin (``rules`` 2),
  * effects of this very region are out there that it has lost itself (``rules`` 18),
  * that origin is leaving (``peers.py``): any peer may have the last of its effects.

A peer whose effects are held, as it recovers (``peer_runs.py``), is not asked for them itself; what
others have of them is relayed as if its link were down.  If an operator pauses the link to an
origin, nothing of it is wanted: it is not relayed either.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.size import Size
from crdtstream.region.events import Signal
from crdtstream.region.peer_runs import PeerRuns
from crdtstream.region.peers import Peers, PeersChange
from crdtstream.region.tick import Tick

# An origin asked for because batches waited for it stays so for this long, even if its direct
# link is up: otherwise the link would be opened again and again.
EXTRA_KEPT_MS: Final = Size(30_000, least=1)


@dataclass(slots=True)
class Route:
    """One link.

    Attributes:
        down_since: time when the link stopped working; None while it works.
        extras: origins that batches on this link waited for, each with when that was.
    """

    down_since: Millis | None
    paused: bool = False
    extras: dict[RegionId, Millis] = field(default_factory=dict)


class Routes:
    """The links of one region.

    Attributes:
        own_lost: other regions have effects of this very region that it has lost.
    """

    def __init__(
        self,
        peers: Peers,
        peer_runs: PeerRuns,
        tick: Tick,
        *,
        now: Millis,
        relay_after_ms: int,
    ) -> None:
        self._peers = peers
        self._relay_after_ms = relay_after_ms
        self._routes = {peer: Route(down_since=now) for peer in peers.addresses}
        self._peer_runs = peer_runs
        self._tick = tick
        self.own_lost = False

    def follow_peers(self, change: PeersChange) -> None:
        for peer in change.removed:
            del self._routes[peer]
        for peer in change.added:
            self._routes[peer] = Route(down_since=change.now)
        for route in self._routes.values():
            for origin in change.gone:
                route.extras.pop(origin, None)
        self._tick.post(Signal.ROUTES)

    @property
    def are_usual(self) -> bool:
        """True if ``wanted`` cannot change before a ``Signal.ROUTES`` or another region's run."""
        return not self.own_lost and not any(
            route.extras or (route.down_since is not None and not route.paused)
            for route in self._routes.values()
        )

    def note_own_lost(self, lost: bool) -> None:
        """Note whether other regions have effects of this region that it has lost."""
        if lost is not self.own_lost:
            self.own_lost = lost
            self._tick.post(Signal.ROUTES)

    def note(self, peer: RegionId, *, is_up: bool, paused: bool, now: Millis) -> None:
        """Note the present state of the direct link to ``peer``."""
        route = self._routes[peer]
        before = route.paused, route.down_since
        route.paused = paused
        if is_up:
            route.down_since = None
        elif route.down_since is None:
            route.down_since = now
        if (route.paused, route.down_since) != before:
            self._tick.post(Signal.ROUTES)

    def ask(self, peer: RegionId, origins: Iterable[RegionId], now: Millis) -> bool:
        """Note origins that batches from ``peer`` wait for; return True if asking ``peer`` is
        new."""
        extras = self._routes[peer].extras
        # An origin whose direct link is down is relayed anyway, for just as long as it is down.
        wanted = [origin for origin in origins if self._brings_nothing_though_up(origin)]
        is_new = any(origin not in extras for origin in wanted)
        extras.update((origin, now) for origin in wanted)
        return is_new

    def wanted(self, peer: RegionId, now: Millis) -> frozenset[RegionId]:
        """Origins that the link to ``peer`` should ask for now."""
        route = self._routes[peer]
        origins = {peer, *self._peers.leaving}
        for other, direct in self._routes.items():
            if direct.paused:
                continue
            if self._peer_runs.is_held(other):
                origins.add(other)
            if direct.down_since is None:
                continue
            if now - direct.down_since > self._relay_after_ms:
                origins.add(other)
        for origin, asked in list(route.extras.items()):
            if self._works(origin) and now - asked > EXTRA_KEPT_MS.value:
                del route.extras[origin]
            elif not self._is_paused(origin):
                origins.add(origin)
        if self.own_lost:
            origins.add(self._peers.here)
        return frozenset(origins - {peer} if self._peer_runs.is_held(peer) else origins)

    def _brings_nothing_though_up(self, origin: RegionId) -> bool:
        route = self._routes.get(origin)
        return route is None or (route.down_since is None and not route.paused)

    def _works(self, origin: RegionId) -> bool:
        route = self._routes.get(origin)
        return route is not None and route.down_since is None

    def _is_paused(self, origin: RegionId) -> bool:
        route = self._routes.get(origin)
        return route is not None and route.paused
