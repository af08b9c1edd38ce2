"""Pullers that a log can serve after it was cut: ``rules`` 17.

A puller that lacks effects which the log no longer has would apply what comes after them without
them.  So it is sent effects of an origin only if it has all that was cut of that origin.  Both ends
of a link decide this, from the same two version vectors.
"""

from collections.abc import Iterable
from typing import Final

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId

# Stands behind the reasons why links bring nothing: the next steps.
GOES_ON: Final = (
    "Peers that still have them are asked. If none sends them, this region takes over the state of"
    " a peer by itself: `crdtstream status` shows how far it is"
)


def cut_off(
    origins: Iterable[RegionId], vv: VersionVector, begins: VersionVector
) -> frozenset[RegionId]:
    """The ones of these origins whose effects cannot be sent to a puller that has ``vv``.

    Args:
        begins: the last effect that was cut from the log, by origin.
    """
    return frozenset(origin for origin in origins if vv.get(origin, 0) < begins.get(origin, 0))


def needs_bootstrap(
    server: RegionId, origins: frozenset[RegionId], unserved: frozenset[RegionId]
) -> bool:
    """True if a link is of no use: the server cannot send what it issued itself, or nothing at all.

    Otherwise only the origins that it relays and cannot serve are left out.
    """
    return server in unserved or (bool(origins) and unserved == origins)


def bootstrap_reason(
    server: RegionId, unserved: frozenset[RegionId], vv: VersionVector, begins: VersionVector
) -> str:
    """The effects that the server cannot send to a region that has ``vv``; ``GOES_ON`` follows."""
    lacks = ", ".join(
        f"region {origin}'s effects {vv.get(origin, 0) + 1} to {begins[origin]}"
        for origin in sorted(unserved)
    )
    return f"region {server} has cut {lacks} from its log, and this region lacks them"
