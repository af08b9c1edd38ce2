"""One simulated node: the real region, and a loop that does with its Ready what a node's does.

Each method is one step that the world may choose, or put off: a tick ends, a commit succeeds or is
refused, a sync is done, the folder is written, the process dies.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from typing import Final

from crdtstream.bootstrapper import Bootstrapper
from crdtstream.commands.reply import Reply
from crdtstream.core.checkpoint.parts import NO_IMAGE, Image
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import Record
from crdtstream.core.ids import REGION_MAX, IdMode, Millis, RegionId
from crdtstream.core.lanes.body import decode_body
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.lanes.columns import NodeColumns
from crdtstream.core.lanes.header import Header
from crdtstream.core.lanes.node import MacroNode
from crdtstream.core.lanes.packing import unpack
from crdtstream.core.membership.deciding import Letter
from crdtstream.core.membership.encoding import Kept
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid
from crdtstream.core.wire.local_codec import merged_in
from crdtstream.core.xread_mode import XreadMode
from crdtstream.cutting import read_absences
from crdtstream.database.database import Database
from crdtstream.folder import begin_joining, read_folder, write_change
from crdtstream.region.clients import Stop
from crdtstream.region.known_members import peers_of
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Identity
from crdtstream.region.links.readiness import DatabaseIdentity
from crdtstream.region.peers import Peers
from crdtstream.region.ready import Confirm, News, Parcel, Ready, StoreIdentity
from crdtstream.region.region import Region
from crdtstream.region.retention import BACKLOG_BYTES_DEFAULT
from crdtstream.region.staleness import LagAction
from crdtstream.resp.wire.encode import encode
from crdtstream.sim.bootstraps import BootstrapTurns, SimCopy, SimStaging
from crdtstream.sim.checkpoints import CheckpointTurns, SimCheckpoints, a_turn, through
from crdtstream.sim.disk import Disk, now
from crdtstream.sim.sizes import drawn_node_limits, redraw
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, next_commit
from crdtstream.store.replay import recover
from crdtstream.store.staging import staged_state
from crdtstream.turns import TURN_NS

BYTES_MAX: Final = 1 << 30
REGION_BITS: Final = REGION_MAX.bit_length()
LIMITS: Final = RegionLimits(
    inbox_batches_max=8, backoff_ms_min=10, backoff_ms_max=200, inbox_wait_ms_max=500
)
CATCHING_UP: Final = replace(LIMITS, catch_up_answer_ms_max=300, catch_up_stall_ms_max=2_000)
UID: Final = DatabaseUid(b"simulated world.")


@dataclass(frozen=True, slots=True)
class SimSettings:
    """How the nodes of a world are set."""

    id_mode: IdMode = IdMode.STRICT
    implicit_mkstream: bool = False
    xread_mode: XreadMode = XreadMode.BY_ID
    fsync: Fsync = Fsync.ALWAYS
    limits: RegionLimits = LIMITS
    # The regions belong to one database already; else they agree on one first.
    has_database: bool = True
    # What a lost region may take with it; 0: no bound.
    lag_effects_max: int = 0
    lag_ms_max: int = 0
    lag_action: LagAction = LagAction.WARN
    # How much of the log is kept for a region that is away.
    backlog_bytes_max: int = BACKLOG_BYTES_DEFAULT
    # Regions join and are removed.
    has_members: bool = False
    # What sizes are drawn from, again at each start; None: all are as they are by default.
    sizes: int | None = None


@dataclass(frozen=True, slots=True)
class Joins:
    """What the empty folder of a node that joins is to have."""

    database_uid: DatabaseUid
    kept: Kept


class Told(bytes):
    """A reply as it leaves, with what the region had seen when it was made.

    Attributes:
        number: which of the node's replies it is.
    """

    seen: VersionVector
    number: int


class SimClient:
    """A client of a simulated node.

    Attributes:
        received: the bytes that it was told, in order, a reply each.
        on_told: what to call with each of them; it may look at what the reply has seen.
    """

    def __init__(self, node: "SimNode") -> None:
        self.client = node.region.connect(self)
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
        number: which region it is.
        configured: the other regions that its file names, and where they are.
        clock: what its wall clock reads; the world moves it.
        disk: outlives the process, as do its checkpoints and its staging.
        is_up: False between ``crash`` and ``start``.
        on_told: called with the region's node and each reply that leaves, as the bytes that leave.
        on_link: called with each link that a Ready wakes.
        run_id: counts the processes.
        on_letters: called with the region's node and each letter that it sends.
        reach: the node of another region, if messages get there and back now.
        ready: the last Ready.
        last_reply: what a command last came to, told or not.
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
            joins: what its empty folder is to have, if it joins.
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
        self.on_letters: Callable[[SimNode, Sequence[Letter | News]], None] = _nobody_reads
        self.configured = dict(peers)
        self._settings = settings
        self.run_id = 0
        self.last_reply = b""
        self._reply_count = 0
        if joins is not None:
            now(begin_joining(self.disk, joins.database_uid, joins.kept))
        elif settings.has_database:
            now(write_change(self.disk, StoreIdentity(DatabaseIdentity(UID))))
            now(write_change(self.disk, Confirm()))
        self.start()

    def start(self) -> None:
        """A process with nothing in it but what the disk holds."""
        settings, disk = self._settings, self.disk
        self.run_id += 1
        self.is_up = True
        if self.run_id > 1:
            redraw(settings.sizes, self.run_id)
        folder = now(read_folder(disk, is_proven=disk.is_proven, is_same=disk.is_confirmed))
        known = peers_of(self.number, folder.membership.members, self.configured)
        recovered = through(recover(disk, self.checkpoints, partial(self._new_replica, known)))
        replica = recovered.replica
        disk.was_clean = False
        uniform: Callable[[float, float], float] = lambda low, high: (low + high) / 2
        uid = int(self.number)
        if settings.has_members:
            # Two that want a change at once must not meet again at the same moment.
            uniform = Random(f"pauses {settings.sizes} {self.number} {self.run_id}").uniform
            # Each folder has another one.
            uid |= self.run_id << REGION_BITS
        self.region = Region(
            replica,
            Database(replica),
            seq=disk.last_seq,
            folder=folder,
            now=self.clock,
            identity=Identity(self.number, "simulated", self.run_id),
            peers=Peers(self.number, known),
            configured=self.configured,
            encode=self._encode,
            clock=lambda: 0,
            uniform=uniform,
            make_uid=lambda: DatabaseUid(uid.to_bytes(16, "big")),
            limits=settings.limits,
        )
        self.region.staleness.tune(
            lag_effects_max=settings.lag_effects_max,
            lag_ms_max=settings.lag_ms_max,
            action=settings.lag_action,
        )
        self.region.database.channels.deliver = self._push
        if len(self.configured) == 1 or not settings.backlog_bytes_max:
            # Of two, what only this region has must be enough for the other one to catch up by,
            # however long it was away.  Of three, one that is away may come to need a bootstrap.
            self.region.retention.backlog_bytes_max = 0
        self.region.note_beginning(disk.first_seq, disk.begins)
        if recovered.checkpoint is not None:
            row = recovered.checkpoint.row
            self.region.checkpointing.note_found(row.seq, row.made_ms, size_bytes=0)
            self.region.retention.note_covered(row.seq)
        through(read_absences(self.region, disk))
        self._checkpointer = CheckpointTurns(self, disk, self.checkpoints)
        copy = SimCopy(self, self.number, self._reached)
        # Each slice of a merge is a turn, so that much may happen between them.
        turns = count(step=2 * TURN_NS)
        bootstrapper = Bootstrapper(
            self.region,
            disk,
            self.staging,
            self._checkpointer,
            copy,
            now=lambda: self.clock,
            timer_ns=lambda: next(turns),
            pause=a_turn,
        )
        through(bootstrapper.begin(recovered.merged_seq))
        self._bootstraps = BootstrapTurns(bootstrapper)
        self._requests: deque[tuple[int, ...]] = deque()
        # Of macro nodes that are cold, the image and what is in it, as it was last seen.
        self._columns: dict[MacroNode, tuple[int, NodeColumns]] = {}
        self.clients: dict[str, SimClient] = {}
        self._queue: deque[Record] = deque()
        self._asked = True
        self.region.tick.on_open = self._ask
        self.ready: Ready
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
        """One request of a client, in the open tick."""
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
        # While the disk refuses, who waits has heard that the outcome is unknown.
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

    # --- The loop, a step at a time -----------------------------------------------------------

    @property
    def has_queued(self) -> bool:
        """Whether records wait for the disk."""
        return bool(self._queue)

    def end_tick(self) -> None:
        """End the tick if one is open, and hand on what may leave."""
        asked, self._asked = self._asked, False
        # What left memory may have to be read as well; the read that is under way opens a tick.
        reads = len(self.region.fetching) > 0
        ready = self.ready = self.region.ready(self.clock)
        is_idle = not (ready.records or ready.parcels or ready.woken or ready.links)
        is_idle = is_idle and (reads or not ready.fetch) and not ready.letters
        assert asked or is_idle, (
            "something is to be done, and no tick was opened: a node would not have asked"
        )
        self._requests.extend(ready.fetch)
        for link in ready.links:
            self.on_link(link)
        if ready.letters:
            self.on_letters(self, ready.letters)
        self._queue.extend(ready.records)
        ready.tell()
        for receiver in ready.woken:
            receiver.resume()

    def commit(self) -> None:
        """One group commit, which succeeds or is refused."""
        if not self._queue:
            return
        records = next_commit(self._queue)
        try:
            now(self.disk.append(records))
        except StoreError as error:
            self.region.note_refused(str(error))
        else:
            for _ in records:
                self._queue.popleft()
            is_durable = self.disk.fsync is Fsync.ALWAYS
            self.region.note_logged(self.disk.last_seq, self.clock, durable=is_durable)
        self.end_tick()

    def sync(self) -> None:
        """Make durable what is logged and not synced by itself."""
        outstanding = self.region.outstanding
        if outstanding.durable_seq == outstanding.logged_seq:
            return
        mark = outstanding.mark()
        try:
            now(self.disk.sync())
        except StoreError as error:
            self.region.note_refused(str(error))
        else:
            self.region.note_synced(mark, self.clock)
        self.end_tick()

    def write_folder(self) -> None:
        """Have the folder say what it is to say."""
        change = self.region.folder_change
        if change is None:
            return
        try:
            now(write_change(self.disk, change))
        except StoreError:
            return
        self.region.note_folder(change, self.clock)
        self.end_tick()

    def apply(self) -> None:
        """Apply what peers sent."""
        self.region.apply_arrivals(self.clock)
        self.end_tick()

    def pass_time(self) -> None:
        """If the region wants to hear of the time by now."""
        if self.ready.deadline is not None and self.ready.deadline <= self.clock:
            self.region.pass_time(self.clock)
        self.end_tick()

    def settle(self) -> None:
        """Do everything that is to be done at once."""
        while True:
            self.end_tick()
            if self._requests:
                self.fetch()
            elif self._queue:
                self.commit()
            elif self.ready.folder is not None:
                self.write_folder()
            elif self.ready.applies:
                self.apply()
            # A checkpoint may have synced the disk; the region hears of it by its own sync only.
            elif self.region.outstanding.durable_seq < self.region.outstanding.logged_seq:
                self.sync()
            elif not self.region.tick.is_open:
                return
            if self.disk.refuses is not None:
                return

    # --- Checkpoints, and entries that are on disk only ---------------------------------------

    def go_on_with_checkpoint(self, turns: int) -> None:
        """Begin a checkpoint if none is under way, and take a few turns of it."""
        self._checkpointer.go_on(turns)
        self.end_tick()

    def go_on_with_bootstrap(self, turns: int) -> None:
        """Take over another region's state if one is wanted, a few turns of it."""
        self._bootstraps.go_on(turns)
        self.end_tick()

    @property
    def is_whole(self) -> bool:
        """Whether all that its replica has is in the log."""
        region = self.region
        is_open = region.tick.is_open or region.replica.has_open_section
        return not self.has_queued and not is_open and region.fault is None

    def restarted(self) -> Replica | None:
        """What a restart would make of the newest checkpoint and the log; None without one.

        Nothing changes by it, here or on the disk.
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

    def cut_log(self) -> None:
        """Cut off of the log what nobody needs."""
        self._checkpointer.cut_log()
        self.end_tick()

    def evict(self) -> None:
        """Whatever a checkpoint has leaves memory."""
        self.region.replica.residency.drop_all()

    def fetch(self) -> None:
        """Read what the region asked for."""
        while self._requests:
            asked = self._requests.popleft()
            try:
                bodies = now(self.checkpoints.fetch(asked))
            except StoreError as error:
                self.region.note_fetch_failed(asked, str(error), self.clock)
            else:
                self.region.note_fetched(asked, bodies, self.clock)
            self.end_tick()

    def change(self, change: Callable[[Replica, Millis], int], *, writes: int) -> None:
        """A program's change; as with a node's engine, what it needs is read first.

        Raises:
            CommandError: writes are refused.  Or what ``change`` raises.
            StoreError: entries cannot be read from disk; nothing has changed.
        """
        while True:
            try:
                self.region.change(self.clock, change, _NOBODY, writes=writes)
            except ColdError as error:
                for image, packed in now(self.checkpoints.fetch(error.images)).items():
                    self.region.replica.residency.arrive(image, packed)
            else:
                return

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Whoever looks at the replica without a command reads in place, and leaves nothing.

        What is cold has its columns meanwhile, and those are remembered for the next look.  Nothing
        is counted, as nothing stays.
        """
        residency = self.region.replica.residency
        with residency.in_place(), self.checkpoints.reading():
            cold = self._warm_unseen() if residency.cold_count else []
            yield
        for node, header, packed in cold:
            assert node.is_encoded, "who looks changes nothing"
            node.take_columns(header, packed)

    def _warm_unseen(self) -> list[tuple[MacroNode, Header, bytes | None]]:
        """Have all columns of the replica here, without saying so; returns what had none."""
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
        """End the process: connections, blocked commands and what is not in the log are gone.

        Args:
            commits: a commit was under way, and is in the log though nobody was told.
        """
        assert self.is_up
        if commits and self._queue and self.disk.refuses is None:
            now(self.disk.append(next_commit(self._queue)))
        self._checkpointer.end()
        self._bootstraps.end()
        self.is_up = False

    def put_back(self, count: int, *, votes_back: int = 0) -> None:
        """An earlier copy of the folder is put in its place; the process is down."""
        count = self.checkpoints.put_back(count)
        self.disk.put_back(count, votes_back=votes_back)
        self.staging.put_back(self._merged_behind_checkpoint())

    def wipe(self) -> None:
        """The folder is lost, and an empty one is in its place; the process is down."""
        self.disk = Disk(self._settings.fsync)
        self.checkpoints = SimCheckpoints(self.disk)
        self.staging = SimStaging(disk=self.disk)
        self.checkpoints.staging = self.staging

    def _merged_behind_checkpoint(self) -> bytes | None:
        """The state whose merging a restart would replay."""
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
    """Does not wait for what it asked for."""

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


def _nobody_reads(_node: SimNode, _letters: Sequence[Letter | News]) -> None:
    pass
