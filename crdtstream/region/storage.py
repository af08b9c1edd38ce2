"""Storage of a region: what it knows of its log, its checkpoints, its memory and its disk.

Outstanding     what waits for the log       Checkpointing   when one is due   ┐
Retention       whom the log is kept for     MemoryBound     what may be taken ├─ Room
Durability      when a commit is durable     DiskBound       what may be taken ┘
Bootstrap, Repair   a state, or a key, of another region that is staged here
"""

from crdtstream.region.bootstrap import PATIENCE, Bootstrap
from crdtstream.region.checkpointing import Checkpointing
from crdtstream.region.durability import Durability
from crdtstream.region.ground import Ground
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.repair import Repair
from crdtstream.region.retention import Retention
from crdtstream.region.room import DiskBound, MemoryBound, Room
from crdtstream.region.write_gate import WriteGate


class Storage:
    """See the module's text; the attributes are as of ``Region``."""

    def __init__(self, ground: Ground, gate: WriteGate, *, seq: int) -> None:
        """
        Args:
            seq: as of ``Region``.
        """
        replica, tick, limits, now = ground.replica, ground.tick, ground.limits, ground.now
        self.outstanding = Outstanding(seq, replica.vv, records_max=limits.commit_queue_records_max)
        self.retention = Retention(ground.peers, now=now)
        self.checkpointing = Checkpointing(tick, ground.deadlines, now=now)
        self.durability = Durability()
        self.memory = MemoryBound(self.checkpointing)
        self.disk = DiskBound(tick, self.checkpointing, self.outstanding)
        self.room = Room(self.memory, self.disk, ground.database, tick)
        self.bootstrap = Bootstrap(
            tick, replica, patience_ms=PATIENCE.value * limits.inbox_wait_ms_max
        )
        self.repair = Repair(replica, tick, gate, self.bootstrap)
