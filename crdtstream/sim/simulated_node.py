"""One simulated node: the real region and the real agenda, on a disk and a clock of the world.

Each method is one step that the world may choose, or put off: a tick ends, a commit succeeds or is
refused, a sync is done, the folder is written, the process dies.  What the step is, the agenda
says, as it says it to the engine of a node.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from typing import Final

from crdtstream.commands.reply import Reply
from crdtstream.core.checkpoint.parts import NO_IMAGE, Image
from crdtstream.core.clock import VersionVector
from crdtstream.core.ids import REGION_MAX, IdMode, Millis, RegionId
from crdtstream.core.incarnations import incarnations_of
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.lanes.header import Header
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.packing import unpack
from crdtstream.core.member_changes import INSTANCE_BYTES
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.membership.members import beginning_of, genesis
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.core.wire.local_codec import merged_in
from crdtstream.core.xread_mode import XreadMode
from crdtstream.engine.agenda import Agenda
from crdtstream.engine.assembling import assemble, begun
from crdtstream.engine.bootstrapper import Bootstrapper
from crdtstream.engine.checkpointer import Checkpointer
from crdtstream.engine.folder import INCARNATIONS, begin_joining, read_folder, write_change
from crdtstream.engine.programs import attempts
from crdtstream.engine.turns import TURN_NS
from crdtstream.region.clients import Stop
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.ready import (
    AnyLetter,
    Confirm,
    Parcel,
    Ready,
    StoreIdentity,
    StoreMembership,
)
from crdtstream.region.retention import BACKLOG_BYTES_DEFAULT
from crdtstream.region.runtime import Runtime
from crdtstream.region.staleness import LagAction
from crdtstream.resp.wire.encode import encode
from crdtstream.sim.bootstraps import SimCopy, SimStaging
from crdtstream.sim.checkpoints import SimCheckpoints, SimTicks, Turns, a_turn, through
from crdtstream.sim.disk import Disk, now
from crdtstream.sim.sizes import drawn_node_limits, redraw
from crdtstream.sim.tick_check import forgotten
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync
from crdtstream.store.replay import recover
from crdtstream.store.staging import staged_state

BYTES_MAX: Final = 1 << 30
# Before the first tick.
NOTHING: Final = Ready((), [], [], [], [], [], None, False, None, [])
# Time that passes whenever the checkpointer looks at it: a turn takes a few parts.
LOOK_NS: Final = 300_000
REGION_BITS: Final = REGION_MAX.bit_length()
LIMITS: Final = RegionLimits(
    inbox_batches_max=8, backoff_ms_min=10, backoff_ms_max=200, inbox_wait_ms_max=500
)
CATCHING_UP: Final = replace(LIMITS, catch_up_answer_ms_max=300, catch_up_stall_ms_max=2_000)
UID: Final = DatabaseUid(b"simulated world.")


@dataclass(frozen=True, slots=True)
class SimSettings:
    """Settings of the nodes of a world."""

    id_mode: IdMode = IdMode.STRICT
    implicit_mkstream: bool = False
    xread_mode: XreadMode = XreadMode.BY_ID
    fsync: Fsync = Fsync.ALWAYS
    limits: RegionLimits = LIMITS
    # The regions belong to one database already; otherwise they agree on one first.
    has_database: bool = True
    # Bound of what may be lost with a region; 0: none.
    lag_effects_max: int = 0
    lag_ms_max: int = 0
    lag_action: LagAction = LagAction.WARN
    # Size of the log that is kept for a region that is away.
    backlog_bytes_max: int = BACKLOG_BYTES_DEFAULT
    # Regions join and are removed.
    has_members: bool = False
    # Seed from which sizes are drawn, again at each start; None: all have their defaults.
    sizes: int | None = None


@dataclass(frozen=True, slots=True)
class Joins:
    """Content for the empty folder of a node that joins."""

    database_uid: DatabaseUid
    kept: Kept


class Told(bytes):
    """A reply as it leaves, with the effects that the region had observed when it was made.

    Attributes:
        number: which of the node's replies it is.
    """

    seen: VersionVector
    number: int


class SimClient:
    """A client of a simulated node.

    Attributes:
        received: bytes that it got, in order, a reply each.
        on_told: called with each of them; it may look at what the reply has observed.
    """

    def __init__(self, node: "SimNode") -> None:
        self.client = node.region.clients.connect(self)
        self.received: deque[bytes] = deque()
        self._node = node
        self._held: deque[list[bytes]] = deque()

    @property
    def is_waiting(self) -> bool:
        return self.client.is_blocked or bool(self._held)

    @property
    def held(self) -> int:
        """Requests that wait for a blocked one."""
        return len(self._held)

    def send(self, argv: tuple[bytes, ...]) -> None:
        self._held.append(list(argv))
        self.resume()

    def resume(self) -> None:
        # Throttled writes wait, like those behind a blocked command.
        client = self.client
        while self._held and not (client.is_blocked or client.is_postponed or client.is_cold):
            request = self._held.popleft()
            stop = client.run(iter([request]), self._node.clock, bytes_max=BYTES_MAX)
            if stop in (Stop.POSTPONED, Stop.COLD):
                self._held.appendleft(request)

    def receive(self, parcel: Parcel) -> None:
        self.client.note_told(parcel)
        for chunk in parcel.chunks:
            self._node.note_told(chunk, parcel)
            if parcel.certain:
                self.received.append(bytes(chunk))


class SimNode:
    """A region that can be called, linked, crashed and restarted.

    Attributes:
        number: number of the region.
        configured: the other regions that its file names, and where they are.
        clock: time of its wall clock; the world moves it.
        disk: outlives the process, as do its checkpoints and its staging.
        is_up: False between ``crash`` and ``start``.
        on_told: called with the region's node and each reply that leaves, as the bytes that leave.
        on_link: called with each link that a Ready wakes.
        run_id: number of processes so far.
        on_letters: called with the region's node and each letter that it sends.
        reach: the node of another region, if messages get there and back now.
        ready: the last Ready.
        last_reply: last result of a command, sent or not.
    """

    def __init__(
        self,
        number: RegionId,
        peers: Mapping[RegionId, str],
        settings: SimSettings,
        clock: Millis,
        *,
        joins: Joins | None = None,
    ) -> None:
        """A node that starts.

        Args:
            peers: the other regions that its file names.
            joins: content for its empty folder, if it joins.
        """
        self.number = number
        self.clock = clock
        self.disk = Disk(settings.fsync)
        self.checkpoints = SimCheckpoints(self.disk)
        self.staging = SimStaging(disk=self.disk)
        self.checkpoints.staging = self.staging
        self.reach: Callable[[RegionId], SimNode | None] = _nobody_is_reached
        self.on_told: Callable[[SimNode, bytes, Parcel], None] = _nobody_looks
        self.on_link: Callable[[object], None] = _nobody_sleeps
        self.on_letters: Callable[[SimNode, Sequence[AnyLetter]], None] = _nobody_reads
        self.configured = dict(peers)
        self._settings = settings
        self.run_id = 0
        self.last_reply = b""
        self._reply_count = 0
        if joins is not None:
            now(begin_joining(self.disk, joins.database_uid, joins.kept))
        elif settings.has_database:
            first = genesis([self.number, *self.configured])
            kept = Kept(self.number.to_bytes(INSTANCE_BYTES, "big"), members=first)
            now(write_change(self.disk, StoreIdentity(DatabaseIdentity(UID))))
            now(write_change(self.disk, StoreMembership(kept, 0)))
            now(write_change(self.disk, Confirm()))
        self.start()

    def start(self) -> None:
        """Start a process with nothing in it but the content of the disk."""
        settings, disk = self._settings, self.disk
        self.run_id += 1
        self.is_up = True
        if self.run_id > 1:
            redraw(settings.sizes, self.run_id)
        folder = now(read_folder(disk, is_proven=disk.is_proven, is_same=disk.is_confirmed))
        uniform: Callable[[float, float], float] = lambda low, high: (low + high) / 2
        # Each start draws another one.
        uid = int(self.number) | self.run_id << REGION_BITS
        if settings.has_members:
            # Two regions that want a change at once must not meet again at the same moment.
            uniform = Random(f"pauses {settings.sizes} {self.number} {self.run_id}").uniform
        assembled = through(
            assemble(
                disk,
                self.checkpoints,
                folder,
                self._new_replica,
                identity=Identity(self.number, "simulated", self.run_id),
                configured=self.configured,
                limits=settings.limits,
                runtime=Runtime(
                    now=lambda: self.clock,
                    encode=self._encode,
                    clock=lambda: 0,
                    uniform=uniform,
                    make_uid=lambda: DatabaseUid(uid.to_bytes(16, "big")),
                ),
            )
        )
        self.region = assembled.region
        self._agenda = Agenda(self.region, disk.fsync)
        disk.was_clean = False
        self.region.staleness.tune(
            lag_effects_max=settings.lag_effects_max,
            lag_ms_max=settings.lag_ms_max,
            action=settings.lag_action,
        )
        self.region.database.channels.deliver = self._push
        if len(self.configured) == 1 or not settings.backlog_bytes_max:
            # Of two regions, what only this one has must be enough for the other one to catch up
            # by, however long it was away.  Of three, one that is away may come to need a
            # bootstrap.
            self.region.retention.backlog_bytes_max = 0
        ticks = SimTicks(self)
        looks = count(step=LOOK_NS)
        self._checkpointer = Checkpointer(
            self.region,
            disk,
            self.checkpoints,
            ticks,
            now=lambda: self.clock,
            timer_ns=lambda: next(looks),
            sleep=lambda _seconds: a_turn(),
        )
        self._checkpoints = Turns(self._checkpointer.attempt)
        # Each slice of a merge is a turn, so that many events may happen between them.
        slices = count(step=2 * TURN_NS)
        bootstrapper = Bootstrapper(
            self.region,
            disk,
            self.staging,
            ticks,
            SimCopy(self, self.number, self._reached),
            now=lambda: self.clock,
            timer_ns=lambda: next(slices),
            pause=a_turn,
        )
        through(bootstrapper.begin(assembled.recovered.merged_seq))
        self._bootstraps = Turns(bootstrapper.look)
        # Per macro node that is cold, the image and its content, as it was last seen.
        self._columns: dict[MacroNode, tuple[int, NodeColumns]] = {}
        self.clients: dict[str, SimClient] = {}
        self._asked = True
        self.region.tick.on_open = self._ask
        self.ready = NOTHING
        self.end_tick()

    def _new_replica(self, peers: Iterable[RegionId]) -> Replica:
        settings = self._settings
        entries_max, bytes_max = drawn_node_limits(settings.sizes, self.run_id)
        replica = Replica(
            self.number,
            node_entries_max=entries_max,
            node_bytes_max=bytes_max,
            id_mode=settings.id_mode,
            implicit_mkstream=settings.implicit_mkstream,
            peers=peers,
        )
        replica.xread_mode = settings.xread_mode
        replica.staged = partial(staged_state, self.staging)
        return replica

    def _reached(self, region: RegionId) -> "SimNode | None":
        return self.reach(region)

    def _ask(self) -> None:
        self._asked = True

    # --- Clients ------------------------------------------------------------------------------

    def call(self, client: str, argv: tuple[bytes, ...]) -> SimClient:
        """Run one request of a client, in the open tick."""
        assert self.is_up
        if client not in self.clients:
            self.clients[client] = SimClient(self)
        self.clients[client].send(argv)
        return self.clients[client]

    def _encode(self, reply: Reply, protocol: int, chunks: list[bytes]) -> None:
        encoded: list[bytes] = []
        encode(reply, protocol, encoded)
        told = Told(b"".join(encoded))
        replica = self.region.replica
        # While the disk refuses, waiting clients have heard that the outcome is unknown.
        refuses = self.region.fault is not None
        self._reply_count += 1
        told.number = self._reply_count
        told.seen = {} if refuses else {**replica.vv, self.number: replica.issued}
        self.last_reply = bytes(told)
        chunks.append(told)

    def _push(self, listeners: object, push: Reply) -> None:
        assert isinstance(listeners, list | tuple | dict | set | frozenset)
        for client in list(self.clients.values()):
            if client.client.session in listeners:
                chunks: list[bytes] = []
                encode(push, client.client.session.protocol, chunks)
                client.client.push(b"".join(chunks))

    def note_told(self, chunk: bytes, parcel: Parcel) -> None:
        self.on_told(self, chunk, parcel)

    # --- What the agenda says, a step at a time -----------------------------------------------

    # The world chooses when a step is taken, and in which order.  So no commit is made at once,
    # where its tick ends, and backoffs are left out: they change no outcome but that.

    @property
    def has_queued(self) -> bool:
        """True if records wait for the disk."""
        return self._agenda.has_commit

    def end_tick(self) -> None:
        """End the tick if one is open, and hand on what may leave."""
        asked, self._asked = self._asked, False
        # Evicted entries may have to be read as well; the read that is under way opens a tick.
        reads = len(self.region.fetching) > 0
        before = self.ready
        ready = self.ready = self._agenda.end_tick(self.clock)
        self._agenda.put_off()
        assert asked or reads or not ready.fetch, "entries are to be read, and no tick was opened"
        left = forgotten(self.region, ready, before, self.clock, was_open=asked)
        assert not left, f"a node would not have asked, or asked in vain: {', '.join(left)}"
        for link in ready.links:
            self.on_link(link)
        if ready.letters:
            self.on_letters(self, ready.letters)
        ready.tell()

    def end_tick_for_good(self) -> None:
        """End ticks until all that the replica has is in records."""
        for _ in self._agenda.ticks():
            self.end_tick()

    def commit(self) -> None:
        """One group commit, which succeeds or is refused."""
        records = self._agenda.next_commit()
        if not records:
            return
        try:
            now(self.disk.append(records))
        except StoreError as error:
            self._agenda.note_refused(str(error))
        else:
            self._agenda.note_committed(self.disk.last_seq, self.clock)
        self.end_tick()

    def sync(self) -> None:
        """Make durable what is logged and not synced by itself."""
        mark = self._agenda.next_sync()
        if mark is None:
            return
        try:
            now(self.disk.sync())
        except StoreError as error:
            self._agenda.note_sync_refused(str(error))
        else:
            self._agenda.note_synced(mark, self.clock)
        self.end_tick()

    def write_folder(self) -> None:
        """Let the folder say what it is to say."""
        change = self._agenda.next_folder_change()
        if change is None:
            return
        try:
            now(write_change(self.disk, change))
        except StoreError:
            self._agenda.note_folder_refused()
            return
        self._agenda.note_folder_written(change, self.clock)
        self.end_tick()

    def apply(self) -> None:
        """Apply what peers sent."""
        self._agenda.apply(self.clock)
        self.end_tick()

    def pass_time(self) -> None:
        """Pass time to the region, if it wants to hear of it by now."""
        deadline = self._agenda.deadline
        if deadline is not None and deadline <= self.clock:
            self._agenda.pass_time(self.clock)
        self.end_tick()

    def fetch(self) -> None:
        """Read what the region asked for."""
        while self._agenda.has_fetch:
            asked = self._agenda.next_fetch()
            try:
                bodies = now(self.checkpoints.fetch(asked))
            except StoreError as error:
                self.region.cold.note_failed(asked, str(error), self.clock)
            else:
                self.region.cold.note_fetched(asked, bodies, self.clock)
            self.end_tick()

    def settle(self) -> None:
        """Do everything that is to be done at once."""
        agenda = self._agenda
        while True:
            self.end_tick()
            if agenda.has_fetch:
                self.fetch()
            elif agenda.has_commit:
                self.commit()
            elif agenda.folder_is_due:
                self.write_folder()
            elif agenda.applies:
                self.apply()
            # A checkpoint may have synced the disk; the region hears of it by its own sync only.
            elif agenda.next_sync() is not None:
                self.sync()
            elif not self.region.tick.is_open:
                return
            if self.disk.refuses is not None:
                return

    # --- Checkpoints, and entries that are on disk only ---------------------------------------

    def go_on_with_checkpoint(self, turns: int) -> None:
        """Begin a checkpoint if none is under way, and run a few turns of it."""
        self._checkpoints.go_on(turns)
        self.end_tick()

    def go_on_with_bootstrap(self, turns: int) -> None:
        """Take over another region's state if one is wanted, a few turns of it."""
        self._bootstraps.go_on(turns)
        self.end_tick()

    @property
    def is_whole(self) -> bool:
        """True if all that its replica has is in the log."""
        region = self.region
        is_open = region.tick.is_open or region.replica.has_open_section
        return not self.has_queued and not is_open and region.fault is None

    def restarted(self) -> Replica | None:
        """Replica that a restart would make of the newest checkpoint and the log; None without one.

        Nothing changes by this, here or on the disk.
        """
        found = now(self.checkpoints.newest())
        if found is None:
            return None
        replica = self._new_replica(self.region.peers.counting)
        replica.restore(through(_images(self.checkpoints, found.row.generation)))
        replica.residency.loader = self.checkpoints.load
        with replica.residency.in_place():
            for record in self.disk.records_behind(found.row.seq):
                replica.replay(record)
        return replica

    def as_found(self) -> Replica:
        """Replica as the folder says; the process is down."""
        kept = now(read_folder(self.disk, is_proven=False, is_same=False)).membership
        beginning = partial(begun, self._new_replica, (), beginning_of(kept.members))
        replica = through(recover(self.disk, self.checkpoints, beginning)).replica
        replica.residency.loader = self.checkpoints.load
        said = now(self.disk.get_meta(INCARNATIONS))
        if said is not None:
            replica.lineages = incarnations_of(said).lineages
        return replica

    def cut_log(self) -> None:
        """Cut records off the log that are not needed, however few."""
        through(self._checkpointer.cut_log(records_min=1))
        self.end_tick()

    def evict(self) -> None:
        """Let all leave memory that a checkpoint has."""
        self.region.replica.residency.drop_all()

    def change(self, change: Callable[[Replica, Millis], int], *, writes: int) -> None:
        """Make a program's change, which is never held back; what it needs is read first.

        Raises:
            CommandError: writes are refused.  Or what ``change`` raises.
            StoreError: entries cannot be read from disk; nothing has changed.
        """
        replica = self.region.replica

        def attempt() -> None:
            self.region.change(self.clock, change, _NOBODY, writes=writes)

        for images in attempts(replica, attempt):
            for image, packed in now(self.checkpoints.fetch(images)).items():
                replica.residency.arrive(image, packed)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look at the replica without a command: it reads in place, and leaves nothing.

        Cold data has its columns during the look, and those are remembered for the next one.
        Nothing is counted, as nothing stays.
        """
        residency = self.region.replica.residency
        with residency.in_place(), self.checkpoints.reading():
            cold = self._warm_unseen() if residency.cold_count else []
            yield
        for node, header, packed in cold:
            assert node.is_encoded, "who looks changes nothing"
            node.take_columns(header, packed)

    def _warm_unseen(self) -> list[tuple[MacroNode, Header, bytes | None]]:
        """Bring all columns of the replica into memory, unnoticed; return what had none."""
        known, self._columns = self._columns, {}
        found = []
        replica = self.region.replica
        for stream in replica._streams.values():
            for node in (node for lane in stream.lanes.values() for node in lane.macro_nodes()):
                header, packed = node.cold, node.packed
                if header is None:
                    continue
                found.append((node, header, packed))
                image, columns = known.get(node, (NO_IMAGE, None))
                if columns is None or image != node.image:
                    body = replica.residency.packed_of(node, back=False)
                    columns = decode_body(unpack(body, size=header.body_bytes), header)
                self._columns[node] = node.image, columns
                node.put_columns(columns)
                node.digest = header.digest
        return found

    # --- The end ------------------------------------------------------------------------------

    def crash(self, *, commits: bool = False) -> None:
        """End the process: connections, blocked commands and what is not in the log are lost.

        Args:
            commits: a commit was under way, and is in the log although it was not reported.
        """
        assert self.is_up
        if commits and self.has_queued and self.disk.refuses is None:
            now(self.disk.append(self._agenda.next_commit()))
        self._checkpoints.end()
        self._bootstraps.end()
        self.is_up = False

    def put_back(self, count: int, *, votes_back: int = 0) -> None:
        """Put an earlier copy of the folder in its place; the process is down."""
        count = self.checkpoints.put_back(count)
        self.disk.put_back(count, votes_back=votes_back)
        self.staging.put_back(self._merged_behind_checkpoint())

    def wipe(self) -> None:
        """Put an empty folder in the place of the lost one; the process is down."""
        self.disk = Disk(self._settings.fsync)
        self.checkpoints = SimCheckpoints(self.disk)
        self.staging = SimStaging(disk=self.disk)
        self.checkpoints.staging = self.staging

    def _merged_behind_checkpoint(self) -> bytes | None:
        """The state whose merge a restart would replay."""
        found = now(self.checkpoints.newest())
        seq = self.disk.first_seq - 1 if found is None else found.row.seq
        cuts = [
            merged.cut_id
            for record in self.disk.records_behind(seq)
            if (merged := merged_in(record)) is not None
        ]
        return cuts[-1] if cuts else None


async def _images(checkpoints: SimCheckpoints, generation: int) -> list[Image]:
    return [image async for some in checkpoints.heads(generation) for image in some]


class _Nobody:
    """Receiver that does not wait for what it asked for."""

    def receive(self, parcel: Parcel) -> None:
        pass

    def resume(self) -> None:
        raise AssertionError("a program's change never blocks")


_NOBODY: Final = _Nobody()


def _nobody_looks(_node: SimNode, _chunk: bytes, _parcel: Parcel) -> None:
    pass


def _nobody_is_reached(_region: RegionId) -> None:
    return None


def _nobody_sleeps(_link: object) -> None:
    pass


def _nobody_reads(_node: SimNode, _letters: Sequence[AnyLetter]) -> None:
    pass
