"""Holding: the reasons for which batches of peers wait in their inboxes.

    a checkpoint is late, and a run was just applied ┐
    memory is full, and data are about to leave it   │
    a state is taken over, or a key is repaired      ├──> nothing is applied, and links read no more
    the folder does not have yet what was heard      │
    members have not answered a region that recovers ┘

All of it is asked for at the moment when batches could be applied, so nothing has to be told.
"""

from typing import Protocol

from crdtstream.region.bootstrap import Bootstrap
from crdtstream.region.checkpointing import Checkpointing
from crdtstream.region.members.membership import Membership
from crdtstream.region.numbering import Numbering
from crdtstream.region.readiness import Readiness
from crdtstream.region.repair import Repair
from crdtstream.region.room import MemoryBound


class HoldsLinks(Protocol):
    """Anything for which batches of peers may have to wait."""

    @property
    def holds_links(self) -> bool: ...


class Holding:
    """See the module's text."""

    def __init__(
        self,
        *,
        checkpointing: Checkpointing,
        memory: MemoryBound,
        bootstrap: Bootstrap,
        repair: Repair,
        numbering: Numbering,
        membership: Membership,
        readiness: Readiness,
    ) -> None:
        self._memory = memory
        self._checkpointing = checkpointing
        self._bootstrap = bootstrap
        self._repair = repair
        self._numbering = numbering
        self._membership = membership
        self._readiness = readiness

    @property
    def holds_links(self) -> bool:
        """True if batches of peers have to wait."""
        return (
            self._memory.holds_links
            or self._checkpointing.holds_links
            or self._bootstrap.holds_links
            or self._repair.holds_links
            or self.greets_only
        )

    @property
    def greets_only(self) -> bool:
        """True if a call that begins now asks for no effects: they could not be applied, and would
        be dropped when the links begin again, with what their peers said in the folder."""
        return self.asks_members or not self._numbering.is_kept

    @property
    def asks_members(self) -> bool:
        """True if this region recovers, and its folder does not know yet which regions were removed
        since, or go on in another folder: nothing of those is to be applied."""
        known, readiness = self._membership.known, self._readiness
        if not readiness.is_recovering:
            return False
        if self._membership.members.newest.epoch > known.epoch:
            return True
        return readiness.is_asking
