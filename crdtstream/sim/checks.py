"""Invariants that must always hold, checked after every step of a simulated history.

The numbers are those of ``docs/invariants.md``.  Each kind of check has a module of its own:

    records.py       the disks: I2, I3, I7              loss_check.py    what a loss takes: I15
    state_checks.py  one region: I5, I6, I9, I12, I13   model_check.py   beside the model: I1
    plan_reader.py   a program that reads by plans: I14
    id_reader.py     a program that reads by IDs: I17
    member_checks.py members: I20

Here they are called, and regions are compared with each other, and with themselves after a restart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.core.clock import covers
from crdtstream.core.ids import RegionId, StreamId, format_id
from crdtstream.region.links.messages import Progress
from crdtstream.region.ready import Parcel, Receiver
from crdtstream.sim import state_checks
from crdtstream.sim.facts import Facts, facts_of, traces_of
from crdtstream.sim.id_reader import IdReader
from crdtstream.sim.loss_check import LossCheck
from crdtstream.sim.model_check import ModelCheck
from crdtstream.sim.plan_reader import PlanReader
from crdtstream.sim.records import Records
from crdtstream.sim.simulated_node import SimNode, Told
from crdtstream.sim.state_checks import Incarnations
from crdtstream.sim.streams import READ_KEY, ROWS_KEY
from crdtstream.sim.violation import ViolationError
from crdtstream.sim.world import World

# Entries of one XREAD at the end, and the number of XREADs: more than the entries need.
LAST_READ_ENTRIES: Final = 50
LAST_READS_MAX: Final = 1_000
# Number of looks between two that look at everything, changed or not.
EVERYTHING_EVERY: Final = 50


@dataclass(slots=True)
class Looked:
    """Findings of the last look at the state of a region.

    Attributes:
        traces: values that differ after any change of the state (``traces_of``), as they were
            then.
        vv: of the replica; None while it had an open section.
        digest: of the replica, once another region had the same ``vv``.
        is_judged: the model was asked as well.
    """

    traces: tuple[object, ...]
    vv: tuple[tuple[RegionId, int], ...] | None
    digest: bytes | None = None
    is_judged: bool = False


class Checker:
    """Checker of one world.

    Attributes:
        records: all that is and was on the disks.
        row_keys: streams to which rows of numbered producers are appended.

    Args:
        refused_beyond: number of entries in no other region beyond which a region refuses more.
    """

    def __init__(self, world: World, *, refused_beyond: int | None = None) -> None:
        self._world = world
        self.records = Records(world)
        self.row_keys = {ROWS_KEY}
        self._loss = LossCheck(self.records, refused_beyond)
        self._model = ModelCheck(self.records)
        self._plans = PlanReader(self.records)
        self._looked: dict[RegionId, Looked] = {}
        self._look_count = 0
        self._acknowledged: set[bytes] = set()
        # Per client, by number.
        self._last_told: dict[Receiver, int] = {}
        # Per region a reader of READ_KEY by IDs, and its groups.
        self._id_readers = {number: IdReader(READ_KEY) for number in world.nodes}
        self._incarnations = {number: Incarnations() for number in world.nodes}
        self._listen()

    def _listen(self) -> None:
        for node in self._world.nodes.values():
            node.on_told = self._note_told
        for line in self._world.lines.values():
            line.on_progress = self._note_progress

    def add(self, node: SimNode) -> None:
        """Watch one more region, which has joined."""
        self.records.add(node)
        self._id_readers[node.number] = IdReader(READ_KEY)
        self._incarnations[node.number] = Incarnations()
        self._listen()

    # --- While things happen ------------------------------------------------------------------

    def _note_told(self, node: SimNode, chunk: bytes, parcel: Parcel) -> None:
        """I7: a reply, a read's too, waits for every commit that it could have seen.

        While the disk refuses, reads are answered: what they see beyond the log are ticks whose
        clients were told that the outcome is unknown.
        """
        if not isinstance(chunk, Told):
            return
        if self._last_told.get(parcel.receiver, 0) >= chunk.number:
            raise ViolationError(
                f"I7: region {node.number} tells {chunk!r} after the replies that follow it"
            )
        self._last_told[parcel.receiver] = chunk.number
        if parcel.certain and node.region.fault is None:
            self.records.count(node)
            logged = self.records.logged[node.number].vv
            if not covers(logged, chunk.seen):
                raise ViolationError(
                    f"I7: region {node.number} tells {chunk!r}, which has seen {chunk.seen}; its "
                    f"log has {logged}"
                )

    def _note_progress(self, node: SimNode, progress: Progress) -> None:
        """I3, rule 3: acks and heartbeats name nothing that a power cut can take back."""
        self.records.count(node)
        synced = self.records.logged[node.number].synced_vv
        if not covers(synced, progress.durable_vv):
            raise ViolationError(
                f"I3: region {node.number} says it has {progress.durable_vv} durably; a power cut "
                f"leaves it {synced}"
            )

    def note_acknowledged(self, ids: Iterable[bytes]) -> None:
        """Note that a client sent XACK for these entries of READ_KEY."""
        self._acknowledged.update(ids)

    def note_lost(self) -> None:
        """Note that a log lost its end: dots of effects that exist nowhere may be used again."""
        self._plans.note_lost(self.records.note_lost())
        self._loss.note_lost()
        self._looked.clear()

    # --- After a step -------------------------------------------------------------------------

    def look(self) -> None:
        """Check all that can be seen from outside between two steps.

        The state of a region is looked at when something in it may have changed, and at intervals
        besides: a change that leaves no trace is noticed a little later.

        Raises:
            ViolationError: one of the invariants does not hold.
        """
        self._look_count += 1
        if self._look_count % EVERYTHING_EVERY == 0:
            self._looked.clear()
        for node in self._world.up():
            self.records.count(node)
            self.records.look_at_log(node)
            traces = traces_of(node.region.replica)
            looked = self._looked.get(node.number)
            if looked is None or looked.traces != traces:
                with node.looking():
                    self._looked[node.number] = self._look_at_state(node, traces)
        self._loss.look()
        self._compare()

    def _look_at_state(self, node: SimNode, traces: tuple[object, ...]) -> Looked:
        replica = node.region.replica
        state_checks.check_order(replica)
        state_checks.check_reading(node, self._acknowledged)
        self._incarnations[node.number].check(node)
        state_checks.check_home(node, self.records.homes)
        state_checks.check_rows(replica, self.row_keys)
        is_open = replica.has_open_section
        return Looked(traces, None if is_open else tuple(sorted(replica.vv.items())))

    def _compare(self) -> None:
        """I1, I4: equal version vectors, equal digests; and equal to the model."""
        first_with: dict[tuple[tuple[RegionId, int], ...], SimNode] = {}
        for node in self._world.up():
            looked = self._looked[node.number]
            if looked.vv is None or node.number in self.records.apart:
                continue
            if not node.region.membership.members.is_kept:
                # Its folder is empty, and members may be reported that its file does not name.
                continue
            other = first_with.setdefault(looked.vv, node)
            if other is not node and self._digest(other) != self._digest(node):
                raise ViolationError(
                    f"I1: regions {other.number} and {node.number} differ, and both have "
                    f"{dict(looked.vv)}"
                )
            # Effects that are applied and not logged are not known here yet.
            if not looked.is_judged and covers(
                self.records.logged[node.number].vv, dict(looked.vv)
            ):
                looked.is_judged = True
                with node.looking():
                    self._model.judge(node)

    def _digest(self, node: SimNode) -> bytes:
        looked = self._looked[node.number]
        if looked.digest is None:
            with node.looking():
                looked.digest = node.region.replica.digest()
        return looked.digest

    # --- Programs that read -------------------------------------------------------------------

    def read_plan(self, node: SimNode) -> None:
        """I14: continue to read READ_KEY by a plan, in any region."""
        self._plans.read(node)

    def read_by_id(self, node: SimNode, count: int, *, reconnects: bool) -> None:
        """I17: continue to read READ_KEY in a region, where nothing may be skipped."""
        reader = self._id_readers[node.number]
        if reader.may_read(node):
            _refuse_skipped(node, reader.read(node, count, reconnects=reconnects))

    def begin_reading_again(self, number: RegionId) -> None:
        """Begin again, as the region's log lost its end: IDs from before mean nothing there any
        more."""
        self._id_readers[number].begin_again()

    def _read_to_the_end(self, node: SimNode) -> None:
        reader = self._id_readers[node.number]
        for _ in range(LAST_READS_MAX):
            before = len(reader.given)
            _refuse_skipped(node, reader.read(node, LAST_READ_ENTRIES))
            if len(reader.given) == before:
                return
        raise ViolationError(f"I17: XREAD in region {node.number} comes to no end")

    # --- At a restart, and at the end ---------------------------------------------------------

    def look_at_restart(self, node: SimNode, before: Facts) -> None:
        """I8: replaying the log restores replicated and local state alike."""
        after = facts_of(node.region.replica)
        if after != before:
            raise ViolationError(
                f"I8: region {node.number} was\n{before}\nand is after a restart\n{after}"
            )

    def look_at_checkpoint(self, node: SimNode) -> None:
        """I18: a checkpoint, and the log behind it, restore the present state."""
        restarted = node.restarted()
        if restarted is None:
            return
        now = facts_of(node.region.replica)
        with restarted.residency.in_place():
            then = facts_of(restarted)
        if then != now:
            raise ViolationError(
                f"I18: region {node.number} is\n{now}\nand would be after a restart\n{then}"
            )

    def look_at_end(self, kept: Sequence[SimNode]) -> None:
        """Check that all regions are equal, as is the model, and that no client waits any more.

        Args:
            kept: regions that are still members.
        """
        self._looked.clear()
        self.look()
        for node in self._world.up():
            for name, client in node.clients.items():
                if client.is_waiting or client.client.owed_parcels:
                    raise ViolationError(
                        f"I7: client {name!r} of region {node.number} was never answered"
                    )
            self._read_to_the_end(node)
        vvs = {tuple(sorted(node.region.replica.vv.items())) for node in kept}
        if len(vvs) != 1:
            raise ViolationError(f"I1: the regions never become equal: {vvs}")


def _refuse_skipped(node: SimNode, skipped: Iterable[StreamId]) -> None:
    if skipped:
        ids = [format_id(entry_id).decode() for entry_id in sorted(skipped)]
        raise ViolationError(f"I17: XREAD in region {node.number} comes to its end without {ids}")
