"""Whom a log can serve that was cut: ``rules`` 17.

A puller that lacks effects which are in the log no more would apply what comes after them without
them.  So of each origin it is sent something only if it has all that was cut of that origin.  Both
ends of a link decide this, from the same two version vectors.
"""

from collections.abc import Iterable

from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import RegionId


def cut_off(
    origins: Iterable[RegionId], vv: VersionVector, begins: VersionVector
) -> frozenset[RegionId]:
    """Of these origins, those whose effects a puller that has ``vv`` cannot be sent.

    Args:
        begins: of each origin the last effect that was cut from the log.
    """
    return frozenset(origin for origin in origins if vv.get(origin, 0) < begins.get(origin, 0))


def needs_bootstrap(
    server: RegionId, origins: frozenset[RegionId], unserved: frozenset[RegionId]
) -> bool:
    """Whether a link is of no use: the server cannot send what it issued itself, or nothing.

    Else the origins that it relays and cannot serve are left out.
    """
    return server in unserved or (bool(origins) and unserved == origins)


def bootstrap_reason(
    server: RegionId, unserved: frozenset[RegionId], vv: VersionVector, begins: VersionVector
) -> str:
    """What the server cannot send to a region that has ``vv``, and what to do."""
    lacks = ", ".join(
        f"region {origin}'s effects {vv.get(origin, 0) + 1} to {begins[origin]}"
        for origin in sorted(unserved)
    )
    return (
        f"region {server} has cut {lacks} from its log, and this region lacks them. Peers "
        "that still have them are asked. If none sends them, this region takes over the state of "
        "a peer by itself: `crdtstream status` shows how far it is"
    )
