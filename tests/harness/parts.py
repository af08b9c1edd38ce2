"""Small stand-ins for what a part of a region is given."""

from dataclasses import dataclass, field

from crdtstream.core.clock import MutableVersionVector
from crdtstream.region.events import Event
from crdtstream.region.peer_runs import PeerRuns
from crdtstream.region.tick import Tick


@dataclass(slots=True)
class Applied:
    """A replica that is nothing but its version vector."""

    vv: MutableVersionVector = field(default_factory=dict)


@dataclass(slots=True)
class Links:
    """Links whose batches may have to wait."""

    holds_links: bool = False


@dataclass(slots=True)
class Start:
    """The start of a region that may recover."""

    is_recovering: bool = False


def nothing_held() -> PeerRuns:
    """No region's effects are held."""
    return PeerRuns(Tick())


def noted(tick: Tick) -> list[Event]:
    """The events that are posted from now on; nobody follows them."""
    events: list[Event] = []
    tick.follow = events.append
    return events
