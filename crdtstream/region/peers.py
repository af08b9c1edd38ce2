"""The other regions, as they are now: the address of each, and what it counts for.

    change(…) ──> addresses, active, counting …
       └──> PeersChange ──> ``follow_peers`` of all parts that keep something for a peer

                                joining   active   leaving   gone
    links, retention               x        x
    causal stability               x        x         x
    asked for its effects          x        x         x               (of a leaving one: of others)
    WAIT, lag, majority, health              x

A *joining* region has not got everything yet, so no other may rely on it.  A *leaving* one was
removed, and effects of it may still be on their way from others; when all of them are here, it is
*gone*.

This region itself counts for a majority as the others do: once it is active, until it is removed.

All code that needs to know looks at this value and not at a copy of it.  The sets are made when
they change, so looking costs an attribute.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import Millis, RegionId


@dataclass(frozen=True, slots=True)
class Peer:
    """One other region.

    Attributes:
        address: host:port that this region pulls from.
        has: read when the peer is added: it durably has these effects, or gets them from elsewhere
            before it issues any.  For causal stability and for the log it begins with them.
        former: the address before, which goes on until the region answers at this one; empty: none
            is known.
    """

    address: str
    is_joining: bool = False
    has: VersionVector = field(default_factory=dict)
    former: str = ""


@dataclass(frozen=True, slots=True)
class PeersChange:
    """Changes of the peers, each ascending.

    Attributes:
        added, removed: links begin, links end.
        moved: the address is another one.
        activated: they were joining.
        gone: they count for nothing any more, not even for causal stability.
    """

    now: Millis
    added: tuple[RegionId, ...]
    removed: tuple[RegionId, ...]
    moved: tuple[RegionId, ...]
    activated: tuple[RegionId, ...]
    gone: tuple[RegionId, ...]


class Peers:
    """See the module's text.

    Attributes:
        here: this region.
        is_active_here: whether this region counts itself.
        addresses: addresses of the peers that have links, joining ones included; ascending.
        has, formers: of the same, see ``Peer``.
        active: peers that count for everything.
        leaving: removed ones that still count for causal stability.
        counting: all that count for causal stability.
        on_change: called when something has changed; for code outside of the region, which keeps a
            task for a peer.
    """

    def __init__(
        self,
        here: RegionId,
        peers: Mapping[RegionId, Peer],
        *,
        leaving: Collection[RegionId] = (),
        gone: Collection[RegionId] = (),
        is_active_here: bool = True,
    ) -> None:
        self.here = here
        self.is_active_here = is_active_here
        self.on_change: list[Callable[[PeersChange], None]] = []
        self._gone = frozenset(gone)
        self._set(peers, leaving)

    @classmethod
    def at(cls, here: RegionId, addresses: Mapping[RegionId, str]) -> "Peers":
        """Peers that are all active, as in configuration files."""
        return cls(here, {peer: Peer(address) for peer, address in addresses.items()})

    def _set(self, peers: Mapping[RegionId, Peer], leaving: Collection[RegionId]) -> None:
        assert self.here not in peers
        assert not set(leaving) & peers.keys()
        ordered = sorted(peers.items())
        self.addresses: Mapping[RegionId, str] = {one: peer.address for one, peer in ordered}
        self.has: Mapping[RegionId, VersionVector] = {one: peer.has for one, peer in ordered}
        self.formers: Mapping[RegionId, str] = {one: peer.former for one, peer in ordered}
        self.active = frozenset(one for one, peer in ordered if not peer.is_joining)
        self.leaving = frozenset(leaving)
        self.counting = frozenset(self.addresses) | self.leaving

    def is_joining(self, region: RegionId) -> bool:
        return region in self.addresses and region not in self.active

    def is_gone(self, region: RegionId) -> bool:
        """True if no word about a region counts: it was removed, and is not leaving."""
        return region in self._gone

    def change(
        self,
        now: Millis,
        peers: Mapping[RegionId, Peer],
        *,
        leaving: Collection[RegionId] = (),
        gone: Collection[RegionId] = (),
        is_active_here: bool = True,
    ) -> PeersChange | None:
        """Take the peers as they are from now on; the caller has the parts follow.

        Args:
            peers: all that have links; a peer that is not among them any more is removed.
            leaving: removed ones that still count for causal stability.
            gone: other regions that were removed, whether or not they were known here.
            is_active_here: this region is neither joining nor removed.

        Returns:
            None: nothing has changed.
        """
        before, active_before = self.addresses, self.active
        counting_before, gone_before = self.counting, self._gone
        # Code that counts this region looks here, so it needs no call.
        self.is_active_here = is_active_here
        self._set(peers, leaving)
        known = counting_before | self._gone | frozenset(gone)
        self._gone = known - self.counting
        after = self.addresses
        change = PeersChange(
            now=now,
            added=tuple(one for one in after if one not in before),
            removed=tuple(one for one in before if one not in after),
            moved=tuple(one for one in after if before.get(one, after[one]) != after[one]),
            activated=tuple(
                one for one in after if one in before and one in self.active - active_before
            ),
            gone=tuple(sorted(self._gone - gone_before)),
        )
        if self.counting == counting_before and not (
            change.added or change.removed or change.moved or change.activated or change.gone
        ):
            return None
        for tell in self.on_change:
            tell(change)
        return change
