"""Records on the disks of a world: each dot stands for one thing, and regions believe no more.

No region is asked about its log: the disks' own records are counted.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join
from crdtstream.core.effects import ChangeMembers, EffectBatch, Record, SetGroupMode
from crdtstream.core.ids import RegionId
from crdtstream.core.wire.codec import decode_batch
from crdtstream.core.wire.local_codec import merged_in
from crdtstream.sim.branches import is_apart, members_of
from crdtstream.sim.model import Issued, unfold
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.streams import HOME, HOME_KEY
from crdtstream.sim.violation import ViolationError
from crdtstream.sim.world import World


@dataclass(slots=True)
class OnDisk:
    """Content of the records on one disk.

    Attributes:
        count: the position of the last one.
        synced: position of the last one that a power cut cannot take.
    """

    count: int = 0
    vv: MutableVersionVector = field(default_factory=dict)
    synced: int = 0
    synced_vv: MutableVersionVector = field(default_factory=dict)


class Records:
    """Everything that any disk of the world ever had, except what was lost.

    Attributes:
        logged: what is on each disk now.
        issued: the effects by their dots.
        doubted: by origin: effects beyond this number were lost, and only a state that is being
            copied has them.  They come again if it is merged; otherwise their dots may be used for
            others.
        apart: removed regions, and another part of a split database, in which dots stand for
            effects that they stand for nowhere else any more.
        homes: every region that ever was the home of the group of HOME_KEY.
        losses: how often dots came to stand for nothing, or for something else.
        reused: by origin, the first dot that was used again since somebody looked.
        on_members: called with each effect on the members that is found in a log.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.logged = {number: OnDisk() for number in world.nodes}
        self.issued: dict[tuple[RegionId, int], Issued] = {}
        self.doubted: dict[RegionId, int] = {}
        self.apart: set[RegionId] = set()
        self.homes: set[RegionId] = {HOME}
        self.losses = 0
        self.reused: dict[RegionId, int] = {}
        self.on_members: Callable[[ChangeMembers], None] = _nobody_looks
        self._contents: dict[tuple[RegionId, int], bytes] = {}
        self._batches: dict[bytes, EffectBatch] = {}

    def add(self, node: SimNode) -> None:
        """Watch one more region, which has joined."""
        self.logged[node.number] = OnDisk()
        if any(not is_apart(node, self._world.nodes[other]) for other in self.apart):
            self.apart.add(node.number)

    def note_lost(self) -> VersionVector:
        """Note that a log lost its end: the dots of effects that exist nowhere may be used again.

        Effects that are only on their way, or wait unapplied, do not count (``rules`` 18).  A state
        that is being copied may still be merged, and bring its effects again.

        Returns:
            Effects that are still in a log or in memory.
        """
        logged: dict[RegionId, int] = {}
        held: dict[RegionId, int] = {}
        copied: dict[RegionId, int] = {}
        for node in self._world.nodes.values():
            self._recount(node)
            join(logged, self.logged[node.number].vv)
            join(held, node.region.replica.vv if node.is_up else {})
            staged = node.staging.staged()
            join(copied, {} if staged is None else staged[0].vv)
        join(held, logged)
        join(copied, held)
        self._doubt(logged, held, copied)
        self._forget(lambda origin, n: n > copied.get(origin, 0))
        return held

    def _doubt(
        self,
        logged: Mapping[RegionId, int],
        held: Mapping[RegionId, int],
        copied: Mapping[RegionId, int],
    ) -> None:
        """Note which effects may come again, or never; each argument has what the one before has.

        Args:
            logged: what is in the logs.
            held: or in memory.
            copied: or in a state that is being copied.
        """
        sure = dict(held)
        for origin, n in self.doubted.items():
            # With such a dot a region may have another effect in memory, which is in no log yet.
            sure[origin] = min(held.get(origin, 0), max(n, logged.get(origin, 0)))
        self.doubted = {
            origin: sure.get(origin, 0) for origin, n in copied.items() if n > sure.get(origin, 0)
        }

    def _forget(self, is_lost: Callable[[RegionId, int], bool]) -> None:
        self.losses += 1
        self._contents = {dot: data for dot, data in self._contents.items() if not is_lost(*dot)}
        self.issued = {dot: one for dot, one in self.issued.items() if not is_lost(*dot)}

    def _settle_doubt(self, batch: EffectBatch, encoded: bytes) -> None:
        """Settle a doubted effect: a log has it again, or another one with its dot."""
        origin, first_n = batch.origin, batch.first_n
        if first_n <= self.doubted.get(origin, first_n):
            return
        if self._contents.get((origin, first_n)) == encoded:
            self.doubted[origin] = batch.last_n
            return
        del self.doubted[origin]
        self._forget(lambda other, n: other == origin and n >= first_n)

    # --- The disks ----------------------------------------------------------------------------

    def _recount(self, node: SimNode) -> None:
        disk = node.disk
        cut, begins = disk.first_seq - 1, disk.cut_vv
        self.logged[node.number] = OnDisk(cut, dict(begins), cut, dict(begins))
        self.count(node)

    def count(self, node: SimNode) -> None:
        """Take in new records of a disk."""
        logged, disk = self.logged[node.number], node.disk
        last_seq = disk.last_seq
        if logged.count != last_seq:
            for record in disk.records_behind(logged.count):
                self._look_at_record(node, record, logged)
            logged.count = last_seq
        if logged.synced != disk.synced:
            begin = max(logged.synced, disk.first_seq - 1)
            for record in disk.records_behind(begin)[: disk.synced - begin]:
                if record.batch is not None:
                    logged.synced_vv[record.origin] = record.last_n
                elif (merged := merged_in(record)) is not None:
                    join(logged.synced_vv, merged.vv)
            logged.synced = disk.synced

    def _look_at_record(self, node: SimNode, record: Record, logged: OnDisk) -> None:
        if record.batch is None:
            if (merged := merged_in(record)) is not None:
                join(logged.vv, merged.vv)
                for origin, n in self.doubted.items():
                    self.doubted[origin] = max(n, merged.vv.get(origin, 0))
            return
        batch = self._decoded(record.batch)
        origin = batch.origin
        if batch.first_n != logged.vv.get(origin, 0) + 1 or not covers(logged.vv, batch.context):
            raise ViolationError(
                f"I2: region {node.number} logs batch {origin}:{batch.first_n} with context "
                f"{batch.context} after {logged.vv}"
            )
        logged.vv[origin] = batch.last_n
        if node.number in self.apart:
            return
        self._settle_doubt(batch, record.batch)
        known = self._contents.setdefault((origin, batch.first_n), record.batch)
        if known != record.batch and not self._replaces(node, batch, record.batch):
            raise ViolationError(
                f"I3: dot {origin}:{batch.first_n} stands for two things, as region "
                f"{node.number} logs it"
            )
        if (origin, batch.first_n) not in self.issued:
            for one in unfold(batch):
                self.issued[one.origin, one.n] = one
                if isinstance(one.effect, ChangeMembers):
                    self.on_members(one.effect)
                elif isinstance(one.effect, SetGroupMode) and one.key == HOME_KEY:
                    self.homes.add(one.effect.home or HOME)

    def _replaces(self, node: SimNode, batch: EffectBatch, encoded: bytes) -> bool:
        """True if other effects had these dots only where nothing is of this database any more.

        A region that had lost its effects, and was to ask a region that was removed then, uses
        their dots again.  The removed region may have them still, and is not looked at any more.
        """
        origin, first_n = batch.origin, batch.first_n
        holders = {
            number
            for number, logged in self.logged.items()
            if number != node.number
            and max(logged.vv.get(origin, 0), _applied(self._world.nodes[number], origin))
            >= first_n
        } - self.apart
        if not all(is_apart(node, self._world.nodes[number]) for number in holders):
            return False
        self.apart |= holders | self._going_with(holders, node)
        self._forget(lambda other, n: other == origin and n >= first_n)
        self.reused[origin] = min(first_n, self.reused.get(origin, first_n))
        self._contents[origin, first_n] = encoded
        return True

    def _going_with(self, holders: Collection[RegionId], node: SimNode) -> set[RegionId]:
        """Regions that are to join some of the holders, and will copy what those have: they are no
        members to ``node``."""
        nodes = self._world.nodes
        return {
            number
            for number, other in nodes.items()
            if number not in {*members_of(node).remaining, node.number}
            and any(not is_apart(other, nodes[holder]) for holder in holders)
        }

    def _decoded(self, encoded: bytes) -> EffectBatch:
        batch = self._batches.get(encoded)
        if batch is None:
            batch = self._batches[encoded] = decode_batch(encoded)
        return batch

    def look_at_log(self, node: SimNode) -> None:
        """I3, I7: the region believes of its log no more than the disk has."""
        logged, outstanding = self.logged[node.number], node.region.outstanding
        if outstanding.logged_vv != logged.vv:
            raise ViolationError(
                f"I7: region {node.number} believes that {outstanding.logged_vv} is logged; its "
                f"log has {logged.vv}"
            )
        if not covers(logged.synced_vv, outstanding.durable_vv):
            raise ViolationError(
                f"I3: region {node.number} believes that {outstanding.durable_vv} is durable; a "
                f"power cut leaves it {logged.synced_vv}"
            )


def _applied(node: SimNode, origin: RegionId) -> int:
    return node.region.replica.vv.get(origin, 0) if node.is_up else 0


def _nobody_looks(_effect: ChangeMembers) -> None:
    pass
