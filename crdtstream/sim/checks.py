"""What must always hold, looked at after every step of a simulated history.

The numbers are those of ``docs/invariants.md``.  Nothing here asks the region what it believes of
the log: what is in the log is counted from the disk's own records.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crdtstream.core.clock import Dot, MutableVersionVector, VersionVector, covers, join, meet
from crdtstream.core.effects import Append, ChangeMembers, EffectBatch, IdempotentId, Record
from crdtstream.core.groups.pel_chunk import PelChunk
from crdtstream.core.ids import ID_MAX, ID_MIN, SEQ_BITS, RegionId, StreamId, format_id
from crdtstream.core.lanes.reading import dot_numbers
from crdtstream.core.lanes.slices import Within
from crdtstream.core.replica import Replica
from crdtstream.core.wire.codec import decode_batch
from crdtstream.core.wire.local_codec import merged_in
from crdtstream.query import planning
from crdtstream.region.links.messages import Progress
from crdtstream.region.ready import Parcel, Receiver
from crdtstream.sim.branches import is_apart
from crdtstream.sim.id_reader import IdReader
from crdtstream.sim.model import (
    Issued,
    members_told,
    model,
    recognised,
    skipped,
    unfold,
)
from crdtstream.sim.node import SimNode, Told
from crdtstream.sim.violation import ViolationError
from crdtstream.sim.world import World

# The stream that is only appended to and read by one group, and never deleted.
READ_KEY: Final = b"z"
# The stream whose group has a home from the beginning, and whose mode nobody changes.
HOME_KEY: Final = b"h"
HOME: Final = RegionId(1)
# The stream that a program appends to by numbered rows.
ROWS_KEY: Final = b"rows"
GROUP: Final = b"g"
# Of one range of a plan.
PLAN_ENTRIES: Final = 2
# Of one XREAD at the end, and how often it is asked: more than there are entries.
LAST_READ_ENTRIES: Final = 50
LAST_READS_MAX: Final = 1_000
# So many looks come between two that look at everything, changed or not.
EVERYTHING_EVERY: Final = 50


@dataclass(slots=True)
class OnDisk:
    """What the records on one disk say.

    Attributes:
        count: the position of the last one.
        synced: of the last one that a power cut cannot take.
    """

    count: int = 0
    vv: MutableVersionVector = field(default_factory=dict)
    synced: int = 0
    synced_vv: MutableVersionVector = field(default_factory=dict)


@dataclass(slots=True)
class Looked:
    """What was found when the state of a region was last looked at.

    Attributes:
        traces: what every change of the state leaves traces in (``_traces_of``), as it was then.
        vv: of the replica; None while it had an open section.
        digest: of the replica, once another region had the same ``vv``.
        is_judged: the model was asked as well.
    """

    traces: tuple[object, ...]
    vv: tuple[tuple[RegionId, int], ...] | None
    digest: bytes | None = None
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A group of one region: which incarnation it is, and the chunks of its PEL."""

    creates: frozenset[Dot]
    pending: list[PelChunk]


class Checker:
    """Watches one world.

    Attributes:
        on_members: called with each effect on the members that is found in a log.

    Args:
        refused_beyond: of how many entries a region refuses more, while no other region has them.
    """

    def __init__(self, world: World, *, refused_beyond: int | None = None) -> None:
        self._world = world
        self._refused_beyond = refused_beyond
        # Of each region's effects how many were durable in another one at some time.
        self._elsewhere: dict[RegionId, int] = {}
        self._contents: dict[tuple[RegionId, int], bytes] = {}
        self._issued: dict[tuple[RegionId, int], Issued] = {}
        # By origin: effects beyond this number were lost, and only a state that is being copied has
        # them.  They come again if it is merged; else their dots may stand for others.
        self._doubted: dict[RegionId, int] = {}
        # Removed regions in which dots stand for what they stand for nowhere else any more.
        self._apart: set[RegionId] = set()
        self._logged = {number: OnDisk() for number in world.nodes}
        self._looked: dict[RegionId, Looked] = {}
        self._look_count = 0
        # What the model says of a key, by the dots of the effects on it that were applied.
        self._modelled: dict[tuple[bytes, tuple[tuple[RegionId, int], ...]], dict[str, object]] = {}
        # What is on the disks, as it was when it was last looked at who would lose what.
        self._weighed: list[tuple[int, int]] = []
        self._acknowledged: set[bytes] = set()
        # Of each client, by number.
        self._last_told: dict[Receiver, int] = {}
        # Where the program that reads by plans is.
        self._planned_vv: VersionVector = {}
        # In each region one who reads READ_KEY by IDs.
        self._id_readers = {number: IdReader(READ_KEY) for number in world.nodes}
        # Each group, as it was seen last, and those that are gone.
        self._groups: dict[RegionId, dict[tuple[bytes, bytes], SeenGroup]] = {
            number: {} for number in world.nodes
        }
        self._ended: dict[RegionId, dict[tuple[bytes, bytes], SeenGroup]] = {
            number: {} for number in world.nodes
        }
        self._batches: dict[bytes, EffectBatch] = {}
        self.on_members: Callable[[ChangeMembers], None] = _nobody_looks
        self._listen()

    def _listen(self) -> None:
        for node in self._world.nodes.values():
            node.on_told = self._note_told
        for line in self._world.lines.values():
            line.on_progress = self._note_progress

    def add(self, node: SimNode) -> None:
        """One more region has joined."""
        self._logged[node.number] = OnDisk()
        self._id_readers[node.number] = IdReader(READ_KEY)
        self._groups[node.number] = {}
        self._ended[node.number] = {}
        self._listen()

    # --- While things happen ------------------------------------------------------------------

    def _note_told(self, node: SimNode, chunk: bytes, parcel: Parcel) -> None:
        """I7: a reply, a read's too, waits for every commit it could have seen.

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
            self._count(node)
            logged = self._logged[node.number].vv
            if not covers(logged, chunk.seen):
                raise ViolationError(
                    f"I7: region {node.number} tells {chunk!r}, which has seen {chunk.seen}; its "
                    f"log has {logged}"
                )

    def _note_progress(self, node: SimNode, progress: Progress) -> None:
        """I3, rule 3: acks and heartbeats name nothing that a power cut can take back."""
        self._count(node)
        synced = self._logged[node.number].synced_vv
        if not covers(synced, progress.durable_vv):
            raise ViolationError(
                f"I3: region {node.number} says it has {progress.durable_vv} durably; a power cut "
                f"leaves it {synced}"
            )

    def note_acknowledged(self, ids: Iterable[bytes]) -> None:
        """A client sent XACK for these entries of READ_KEY."""
        self._acknowledged.update(ids)

    def is_elsewhere(self, node: SimNode) -> bool:
        """Whether the other regions durably have all that this one has."""
        elsewhere: dict[RegionId, int] = {}
        for other in self._world.nodes.values():
            self._recount(other)
            if other is not node:
                join(elsewhere, self._logged[other.number].synced_vv)
        here = dict(self._logged[node.number].vv)
        join(here, node.region.replica.vv if node.is_up else {})
        return covers(elsewhere, here)

    def note_lost(self) -> None:
        """Some log lost its end: what nobody has any more may be issued again, as something else.

        What is only on its way, or waits unapplied, counts for nothing (``rules`` 18).  A state
        that is being copied may still be merged, and bring its effects again.
        """
        logged: dict[RegionId, int] = {}
        held: dict[RegionId, int] = {}
        copied: dict[RegionId, int] = {}
        for node in self._world.nodes.values():
            self._recount(node)
            join(logged, self._logged[node.number].vv)
            join(held, node.region.replica.vv if node.is_up else {})
            staged = node.staging.staged()
            join(copied, {} if staged is None else staged[0].vv)
        join(held, logged)
        join(copied, held)
        self._doubt(logged, held, copied)
        self._forget(lambda origin, n: n > copied.get(origin, 0))
        # What was told was durable, but for a folder that somebody put back.
        self._planned_vv = meet([self._planned_vv, held])
        # A dot may come to stand for something else.
        self._looked.clear()
        self._modelled.clear()
        self._weighed.clear()

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
        for origin, n in self._doubted.items():
            # With such a dot a region may have another effect in memory, which no log has yet.
            sure[origin] = min(held.get(origin, 0), max(n, logged.get(origin, 0)))
        self._doubted = {
            origin: sure.get(origin, 0) for origin, n in copied.items() if n > sure.get(origin, 0)
        }

    def _forget(self, is_lost: Callable[[RegionId, int], bool]) -> None:
        self._contents = {dot: data for dot, data in self._contents.items() if not is_lost(*dot)}
        self._issued = {dot: one for dot, one in self._issued.items() if not is_lost(*dot)}

    def _settle_doubt(self, batch: EffectBatch, encoded: bytes) -> None:
        """A log has one of the doubted effects again, or another one with its dot."""
        origin, first_n = batch.origin, batch.first_n
        if first_n <= self._doubted.get(origin, first_n):
            return
        if self._contents.get((origin, first_n)) == encoded:
            self._doubted[origin] = batch.last_n
            return
        del self._doubted[origin]
        self._forget(lambda other, n: other == origin and n >= first_n)
        self._modelled.clear()

    # --- The disks ----------------------------------------------------------------------------

    def _recount(self, node: SimNode) -> None:
        disk = node.disk
        cut, begins = disk.first_seq - 1, disk.cut_vv
        self._logged[node.number] = OnDisk(cut, dict(begins), cut, dict(begins))
        self._count(node)

    def _count(self, node: SimNode) -> None:
        """Take in what is new on a disk."""
        logged, disk = self._logged[node.number], node.disk
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
                for origin, n in self._doubted.items():
                    self._doubted[origin] = max(n, merged.vv.get(origin, 0))
            return
        batch = self._decoded(record.batch)
        origin = batch.origin
        if batch.first_n != logged.vv.get(origin, 0) + 1 or not covers(logged.vv, batch.context):
            raise ViolationError(
                f"I2: region {node.number} logs batch {origin}:{batch.first_n} with context "
                f"{batch.context} after {logged.vv}"
            )
        logged.vv[origin] = batch.last_n
        if node.number in self._apart:
            return
        self._settle_doubt(batch, record.batch)
        known = self._contents.setdefault((origin, batch.first_n), record.batch)
        if known != record.batch and not self._replaces(node, batch, record.batch):
            raise ViolationError(
                f"I3: dot {origin}:{batch.first_n} stands for two things, as region "
                f"{node.number} logs it"
            )
        if (origin, batch.first_n) not in self._issued:
            for one in unfold(batch):
                self._issued[one.origin, one.n] = one
                if isinstance(one.effect, ChangeMembers):
                    self.on_members(one.effect)

    def _replaces(self, node: SimNode, batch: EffectBatch, encoded: bytes) -> bool:
        """Whether other effects had these dots only where nothing of this database is any more.

        A region that had lost its effects, and was to ask a region that was removed then, gives
        their dots again; the removed one may have them still, and is looked at no more.
        """
        origin, first_n = batch.origin, batch.first_n
        holders = {
            number
            for number, logged in self._logged.items()
            if number != node.number
            and max(logged.vv.get(origin, 0), _applied(self._world.nodes[number], origin))
            >= first_n
        } - self._apart
        if not all(is_apart(node, self._world.nodes[number]) for number in holders):
            return False
        self._apart |= holders
        self._forget(lambda other, n: other == origin and n >= first_n)
        self._contents[origin, first_n] = encoded
        self._modelled.clear()
        return True

    def _decoded(self, encoded: bytes) -> EffectBatch:
        batch = self._batches.get(encoded)
        if batch is None:
            batch = self._batches[encoded] = decode_batch(encoded)
        return batch

    # --- After a step -------------------------------------------------------------------------

    def look(self) -> None:
        """Everything that can be seen from outside between two steps.

        The state of a region is looked at when something in it may have changed, and now and then
        besides: a change that leaves no trace is noticed a little later.

        Raises:
            ViolationError: one of the invariants does not hold.
        """
        self._look_count += 1
        if self._look_count % EVERYTHING_EVERY == 0:
            self._looked.clear()
        for node in self._world.up():
            self._count(node)
            self._look_at_log(node)
            traces = _traces_of(node.region.replica)
            looked = self._looked.get(node.number)
            if looked is None or looked.traces != traces:
                with node.looking():
                    self._looked[node.number] = self._look_at_state(node, traces)
        self._look_at_loss()
        self._compare()

    def _look_at_state(self, node: SimNode, traces: tuple[object, ...]) -> Looked:
        replica = node.region.replica
        self._look_at_order(replica)
        self._look_at_reading(node)
        self._look_at_incarnations(node)
        self._look_at_home(node)
        self._look_at_rows(replica)
        is_open = replica.has_open_section
        return Looked(traces, None if is_open else tuple(sorted(replica.vv.items())))

    def _look_at_log(self, node: SimNode) -> None:
        """I3, I7: the region believes of its log no more than the disk has."""
        logged, outstanding = self._logged[node.number], node.region.outstanding
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

    def _look_at_order(self, replica: Replica) -> None:
        """I5, I6, I11: lanes ascend by ID and by dot, and no macro node is empty."""
        for key in replica.known_keys():
            stream = replica.held_stream(key)
            for lane in () if stream is None else stream.lanes.values():
                last_id, last_n = -1, 0
                for node in lane.macro_nodes():
                    columns = node.columns
                    for ms, seq, n in zip(columns.ms, columns.seq, columns.n, strict=True):
                        entry_id = ms << SEQ_BITS | seq
                        if not (last_id < entry_id and last_n < n):
                            raise ViolationError(
                                f"I5: lane {lane.region} of {key!r} in region {replica.region} has "
                                f"dot {n} with ID {entry_id} after {last_n}, {last_id}"
                            )
                        last_id, last_n = entry_id, n
                if lane.length and not last_n:
                    raise ViolationError(f"I6: a lane of {key!r} counts what it does not have")

    def _look_at_reading(self, node: SimNode) -> None:
        """I9: what lies behind the reader is pending, acknowledged somewhere, or was deleted."""
        stream = node.region.replica.held_stream(READ_KEY)
        group = None if stream is None else stream.groups.get(GROUP)
        if stream is None or group is None:
            return
        for origin, lane in stream.lanes.items():
            progress = group.progress(origin)
            for entry_id, _, _ in lane.scan(ID_MIN, progress.last_delivered):
                text = b"%d-%d" % (entry_id >> 64, entry_id & (1 << 64) - 1)
                if entry_id not in progress.pel and text not in self._acknowledged:
                    raise ViolationError(
                        f"I9: region {node.number} reads on at {progress.last_delivered} of lane "
                        f"{origin} and never handed out {text.decode()}"
                    )

    def _look_at_incarnations(self, node: SimNode) -> None:
        """I9, rule 12: what was pending ends with the group, and is not its successor's."""
        before, ended = self._groups[node.number], self._ended[node.number]
        found = {}
        replica = node.region.replica
        for key in replica.known_keys():
            stream = replica.held_stream(key)
            for name, group in ({} if stream is None else stream.groups).items():
                seen = found[key, name] = SeenGroup(frozenset(group.creates), [*group.chunks()])
                earlier = before.get((key, name), ended.get((key, name)))
                if earlier is None or seen.creates & earlier.creates:
                    continue
                known = {id(chunk) for chunk in earlier.pending}
                kept = sum(len(chunk) for chunk in seen.pending if id(chunk) in known)
                if kept:
                    raise ViolationError(
                        f"I9: region {node.number} made {name!r} of {key!r} again, and {kept} "
                        "entries are still pending from before"
                    )
        # A group that is gone is remembered: the next one of its name is another one.
        ended |= before
        for at in found:
            ended.pop(at, None)
        self._groups[node.number] = found

    def _look_at_home(self, node: SimNode) -> None:
        """I12: where a group has a home, no other region delivers, but for its heir."""
        replica = node.region.replica
        stream = replica.held_stream(HOME_KEY)
        group = None if stream is None else stream.groups.get(GROUP)
        homes = (HOME, replica.members.heir_of(HOME))
        if group is not None and node.number not in homes and group.pending_count:
            raise ViolationError(
                f"I12: region {node.number} delivered entries of {HOME_KEY!r}, whose home is "
                f"region {HOME}"
            )

    def _look_at_rows(self, replica: Replica) -> None:
        """I13: each row of a numbered producer stands in the stream once."""
        stream = replica.held_stream(ROWS_KEY)
        names = [
            macro.idempotent_at(index)
            for lane in ({} if stream is None else stream.lanes).values()
            for _, macro, index in lane.scan(ID_MIN, ID_MAX)
        ]
        if len(names) != len(set(names)):
            raise ViolationError(f"I13: region {replica.region} has a row twice: {names}")

    def _look_at_loss(self) -> None:
        """I15: what a region would take with it, entries that only XADD and programs append.

        A peer's disk that is lost, too, is a second loss: what it had counts as elsewhere still.
        """
        bound = self._refused_beyond
        weighed = [(one.count, one.synced) for one in self._logged.values()]
        if bound is None or weighed == self._weighed:
            return
        self._weighed = weighed
        numbers = self._world.nodes.keys()
        for number in numbers:
            known = [self._logged[other].synced_vv.get(number, 0) for other in numbers - {number}]
            elsewhere = max(*known, self._elsewhere.get(number, 0))
            self._elsewhere[number] = elsewhere
            lost = [
                n
                for (origin, n), one in self._issued.items()
                if origin == number
                and elsewhere < n <= self._doubted.get(number, n)
                and isinstance(one.effect, Append)
                and one.effect.key in (READ_KEY, HOME_KEY, ROWS_KEY)
            ]
            if len(lost) > bound:
                raise ViolationError(
                    f"I15: region {number} would take {len(lost)} entries with it, and writes are "
                    f"refused beyond {bound}"
                )

    # --- A program that reads by plans --------------------------------------------------------

    def read_plan(self, node: SimNode) -> None:
        """I14: go on with reading READ_KEY, in whichever region: each entry comes once.

        The program begins where its last plan ended, as Spark does from one micro-batch to the
        next.  A region that is behind that refuses it.
        """
        replica, upto = node.region.replica, dict(node.region.outstanding.durable_vv)
        for removed, cut in node.region.membership.members.cuts.final.items():
            # What it had read beyond is lost, and it goes on.
            self._planned_vv = _clamped(self._planned_vv, removed, cut)
        if not covers(upto, self._planned_vv):
            return
        bounds = planning.Bounds([READ_KEY], self._planned_vv, upto, frozenset())
        counts: list[planning.LaneCount] = []
        ranges: list[planning.Range] = []
        for steps in (
            planning.count(replica, bounds, counts),
            planning.cut(counts, bounds, range_entries=PLAN_ENTRIES, into=ranges),
        ):
            deque(steps, maxlen=0)
        found = sorted(dot for each in ranges for dot in _dots_in(replica, each))
        expected = sorted(
            (origin, n)
            for (origin, n), one in self._issued.items()
            if isinstance(one.effect, Append)
            and one.effect.key == READ_KEY
            and self._planned_vv.get(origin, 0) < n <= upto.get(origin, 0)
        )
        if found != expected:
            raise ViolationError(
                f"I14: a plan of region {node.number} from {self._planned_vv} to {upto} has "
                f"{found} instead of {expected}"
            )
        self._planned_vv = upto

    # --- A program that reads by IDs ----------------------------------------------------------

    def read_by_id(self, node: SimNode, count: int, *, reconnects: bool) -> None:
        """I17: go on with reading READ_KEY in a region, where nothing may be skipped."""
        reader = self._id_readers[node.number]
        if reader.may_read(node):
            _refuse_skipped(node, reader.read(node, count, reconnects=reconnects))

    def begin_reading_again(self, number: RegionId) -> None:
        """The region's log lost its end: an ID of before says nothing there any more."""
        self._id_readers[number].begin_again()

    def look_at_delivery(self, kept: Iterable[SimNode]) -> None:
        """I9, I12: who is to hand out has handed out everything, what a removed region left too."""
        for node in kept:
            members = node.region.replica.members
            home = members.heir_of(HOME) or HOME
            for key in (READ_KEY, HOME_KEY) if node.number == home else (READ_KEY,):
                stream = node.region.replica.held_stream(key)
                group = None if stream is None else stream.groups.get(GROUP)
                if stream is None or group is None:
                    continue
                for origin, lane in stream.lanes.items():
                    position = group.progress(origin).last_delivered
                    runs = list(group.intervals.get(origin, ()))
                    left = [
                        entry_id
                        for entry_id, _, _ in lane.scan(ID_MIN, ID_MAX)
                        if entry_id > position
                        and not any(start < entry_id <= end for start, end in runs)
                    ]
                    if left:
                        raise ViolationError(
                            f"I9: region {node.number} hands nothing out of {key!r} any more, and"
                            f" {len(left)} entries of lane {origin} were handed out nowhere"
                        )

    def look_at_deadlines(self, kept: Iterable[SimNode]) -> None:
        """Rule 7: a key whose time is over everywhere is deleted, whoever had set the deadline."""
        for node in kept:
            for key, held in node.region.replica._registers.items():
                deadlines = list(held.expiry.values.values())
                if deadlines and None not in deadlines:
                    raise ViolationError(
                        f"rule 7: in region {node.number} the time of {key!r} is over, and nobody"
                        f" deletes it: {held.expiry.values}"
                    )

    def _read_to_the_end(self, node: SimNode) -> None:
        reader = self._id_readers[node.number]
        for _ in range(LAST_READS_MAX):
            before = len(reader.given)
            _refuse_skipped(node, reader.read(node, LAST_READ_ENTRIES))
            if len(reader.given) == before:
                return
        raise ViolationError(f"I17: XREAD in region {node.number} comes to no end")

    def _compare(self) -> None:
        """I1, I4: equal version vectors, equal digests; and what the model says."""
        first_with: dict[tuple[tuple[RegionId, int], ...], SimNode] = {}
        for node in self._world.up():
            looked = self._looked[node.number]
            if looked.vv is None or node.number in self._apart:
                continue
            other = first_with.setdefault(looked.vv, node)
            if other is not node and self._digest(other) != self._digest(node):
                raise ViolationError(
                    f"I1: regions {other.number} and {node.number} differ, and both have "
                    f"{dict(looked.vv)}"
                )
            # What is applied and not logged is not known here yet.
            if not looked.is_judged and covers(self._logged[node.number].vv, dict(looked.vv)):
                looked.is_judged = True
                with node.looking():
                    self._judge(node)

    def _digest(self, node: SimNode) -> bytes:
        looked = self._looked[node.number]
        if looked.digest is None:
            with node.looking():
                looked.digest = node.region.replica.digest()
        return looked.digest

    def _judge(self, node: SimNode) -> None:
        replica = node.region.replica
        applied: dict[bytes, list[Issued]] = {}
        for (origin, n), one in self._issued.items():
            if one.key is not None and n <= replica.vv.get(origin, 0):
                applied.setdefault(one.key, []).append(one)
        for key, mine in sorted(applied.items()):
            expected, found = self._expected(key, mine), shown(replica, key)
            if found != expected:
                raise ViolationError(
                    f"I1: region {node.number} shows {key!r} as\n{found}\nthe model says\n"
                    f"{expected}"
                )
            for wrong in wrong_retries(replica, mine, key):
                raise ViolationError(f"rule 20: in region {node.number} {wrong}")
        told = members_told(
            one for (origin, n), one in self._issued.items() if n <= replica.vv.get(origin, 0)
        )
        history = [(step.hash, step.dot) for step in replica.members.history]
        if history != told:
            raise ViolationError(
                f"I20: region {node.number} has {replica.members.listed()}, told by\n{history}\n"
                f"the model says\n{told}"
            )

    def _expected(self, key: bytes, applied: list[Issued]) -> dict[str, object]:
        """What the model says; it is asked once about the same effects."""
        about = key, tuple((one.origin, one.n) for one in applied)
        expected = self._modelled.get(about)
        if expected is None:
            expected = self._modelled[about] = model(applied, key)
            for entry in skipped(applied, key):
                raise ViolationError(f"I9: of {key!r} {entry}")
        return expected

    # --- At a restart, and at the end ---------------------------------------------------------

    def look_at_restart(self, node: SimNode, before: "Facts") -> None:
        """I8: replaying the log restores replicated and local state alike."""
        after = facts_of(node.region.replica)
        if after != before:
            raise ViolationError(
                f"I8: region {node.number} was\n{before}\nand is after a restart\n{after}"
            )

    def look_at_checkpoint(self, node: SimNode) -> None:
        """I18: a checkpoint, and the log behind it, give what there is now."""
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
        """All regions are equal, and have what the model says; nobody waits any more.

        Args:
            kept: those that are still members.
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


def _applied(node: SimNode, origin: RegionId) -> int:
    return node.region.replica.vv.get(origin, 0) if node.is_up else 0


def _clamped(vv: VersionVector, region: RegionId, n: int) -> VersionVector:
    return {**vv, region: min(vv.get(region, 0), n)} if vv.get(region, 0) > n else vv


def _nobody_looks(_effect: ChangeMembers) -> None:
    pass


def _traces_of(replica: Replica) -> tuple[object, ...]:
    """What is not the same any more when the state of a region has changed: effects and other
    changes, records, checkpoints, and what is in memory."""
    residency = replica.residency
    return (
        replica,
        dict(replica.vv),
        replica.record_count,
        replica._issuer.changes,
        replica.images_made,
        replica.acknowledged_count,
        residency.warm_bytes,
        residency.packed_bytes,
        residency.absent_bytes,
        residency.absent_count,
        residency.cold_count,
    )


def _refuse_skipped(node: SimNode, skipped: Iterable[StreamId]) -> None:
    if skipped:
        ids = [format_id(entry_id).decode() for entry_id in sorted(skipped)]
        raise ViolationError(f"I17: XREAD in region {node.number} comes to its end without {ids}")


def _dots_in(replica: Replica, part: planning.Range) -> list[tuple[RegionId, int]]:
    """The entries of one range of a plan, as a scan reads them."""
    stream = replica.held_stream(part.key)
    lane = None if stream is None else stream.lanes.get(part.origin)
    if lane is None:
        return []
    within = Within(part.above_n, part.upto_n, ID_MIN, ID_MAX)
    return [(part.origin, n) for n in dot_numbers(lane, within)]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a region knows, replicated and local."""

    vv: VersionVector
    digest: bytes
    local: object


def facts_of(replica: Replica) -> Facts:
    """Asked without a client, so that nothing changes by it."""
    return Facts(dict(replica.vv), replica.digest(), local_facts(replica))


def local_facts(replica: Replica) -> object:
    """What a region knows of its own reading."""
    found = []
    for key in replica.known_keys():
        stream = replica.held_stream(key)
        if stream is None:
            continue
        for name, group in sorted(stream.groups.items()):
            consumers = sorted(group.pel.consumers)
            for lane in sorted(stream.lanes):
                progress = group.progress(lane)
                pending = [
                    (
                        nack.id,
                        nack.consumer and nack.consumer.name,
                        nack.delivered_ms,
                        nack.delivery_count,
                    )
                    for nack in progress.pel.nacks()
                ]
                found.append((key, name, consumers, lane, progress.last_delivered, pending))
    return found


def wrong_retries(replica: Replica, applied: list[Issued], key: bytes) -> list[str]:
    """Retries that a window takes for something else than the model says (``rules`` 20).

    A window may have forgotten an id, by its size and age.
    """
    stream = replica._streams.get(key)
    if stream is None or stream.window is None:
        return []
    expected = recognised(applied, key)
    return [
        f"a retry of {name!r} of {producer!r} to {key!r} is taken for {found} and not for {right}"
        for producer, ids in stream.window.items()
        for name, tracked in ids
        for found in [(tuple(tracked.dot), tracked.entry_id)]
        for right in [expected.get(IdempotentId(producer, name))]
        if found != right
    ]


def shown(replica: Replica, key: bytes) -> dict[str, Any]:
    """The facts of the model as a replica holds them; also of a key whose time is over."""
    stream = replica._streams.get(key)
    held = replica._registers.get(key)
    string = replica.held_string(key)
    groups = {} if stream is None else stream.groups
    return {
        "entries": sorted(
            (
                lane.region,
                macro.n[index],
                entry_id,
                bytes(macro.fields_at(index)),
                macro.idempotent_at(index) or (),
            )
            for lane in (stream.lanes.values() if stream else ())
            for entry_id, macro, index in lane.scan(ID_MIN, ID_MAX)
        ),
        "groups": {name: sorted(group.creates) for name, group in groups.items()},
        "acked": {
            name: {lane: list(one) for lane, one in group.intervals.items()}
            for name, group in groups.items()
        },
        "modes": {
            name: (group.mode.epoch, group.mode.issuer, group.mode.mode, group.mode.home)
            for name, group in groups.items()
        },
        "last_ids": {region: (one.id, one.n) for region, one in stream.last_ids.items()}
        if stream
        else {},
        "exists": stream is not None and stream.exists,
        "registers": {
            "expiry": sorted(held.expiry.values.items()) if held else [],
            "duration": sorted(held.idmp_duration_s.values.items()) if held else [],
            "maxsize": sorted(held.idmp_maxsize.values.items()) if held else [],
        },
        "strings": sorted(
            (
                (tuple(dot), value.data, sorted(value.expiry.values.items()))
                for dot, value in (string.values() if string is not None else ())
            ),
            key=repr,
        ),
    }
