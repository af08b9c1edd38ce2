"""Ground that all parts of a region stand on: each may use it, and it is made before them."""

from dataclasses import dataclass, field

from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.region.deadlines import Deadlines
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.limits import RegionLimits
from crdtstream.region.peers import Peers
from crdtstream.region.runtime import Runtime
from crdtstream.region.tick import Tick


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """See the module's text; the attributes are as of ``Region``.

    Attributes:
        now: start of the node.
    """

    replica: Replica
    database: Database
    peers: Peers
    knowledge: Knowledge
    runtime: Runtime
    limits: RegionLimits
    now: Millis
    tick: Tick = field(default_factory=Tick)
    deadlines: Deadlines = field(default_factory=Deadlines)
