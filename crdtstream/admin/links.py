"""Links of a region, for operators: paused and resumed."""

from collections.abc import Collection

from crdtstream.core.ids import Millis, RegionId
from crdtstream.region.region import Region


class LinksError(Exception):
    """There is no such link; the text names those that there are."""


def set_links(region: Region, peers: Collection[RegionId], now: Millis, *, paused: bool) -> None:
    """Pause the links over which a region pulls from these peers, or resume them.

    Args:
        peers: none: all of them.

    Raises:
        LinksError: one is no peer.  Nothing has changed then.
    """
    pulls = region.links.pulls
    for peer in peers:
        if peer not in pulls:
            known = ", ".join(map(str, sorted(pulls))) or "none"
            raise LinksError(
                f"region {peer} is no peer of region {region.replica.region}; its peers are {known}"
            )
    for peer in peers or sorted(pulls):
        if paused:
            pulls[peer].pause(now)
        else:
            pulls[peer].resume(now)
