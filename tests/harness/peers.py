"""Peers of a region, for what needs no addresses."""

from typing import Protocol

from crdtstream.core.ids import RegionId
from crdtstream.region.peers import Peer, Peers, PeersChange


class FollowsPeers(Protocol):
    """A part that keeps something for a peer."""

    def follow_peers(self, change: PeersChange) -> None: ...


def peers_of(here: RegionId, *others: RegionId, joining: tuple[RegionId, ...] = ()) -> Peers:
    return Peers(here, these(*others, joining=joining))


def these(*others: RegionId, joining: tuple[RegionId, ...] = ()) -> dict[RegionId, Peer]:
    """As ``Peers.change`` takes them: these are active."""
    active = {number: Peer(f"region-{number}") for number in others}
    return active | {number: Peer(f"region-{number}", is_joining=True) for number in joining}


def follow(part: FollowsPeers, change: PeersChange | None) -> None:
    """Have a part follow a change of the peers, as the region does."""
    assert change is not None, "nothing has changed"
    part.follow_peers(change)
