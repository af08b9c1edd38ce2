"""Peers of a region, for what needs no addresses."""

from crdtstream.core.ids import RegionId
from crdtstream.region.peers import Peer, Peers


def peers_of(here: RegionId, *others: RegionId, joining: tuple[RegionId, ...] = ()) -> Peers:
    return Peers(here, these(*others, joining=joining))


def these(*others: RegionId, joining: tuple[RegionId, ...] = ()) -> dict[RegionId, Peer]:
    """As ``Peers.change`` takes them: these are active."""
    active = {number: Peer(f"region-{number}") for number in others}
    return active | {number: Peer(f"region-{number}", is_joining=True) for number in joining}
