"""A region as one value: requests, messages and time in, one ``Ready`` per tick out.

              clients' requests   peers' messages   time   what the log says
                      │                 │             │          │
                      v                 v             v          v
    Region      ┌ database ──── replica ──── links, knowledge, opening ┐
                └────────────────── the open tick ─────────────────────┘
                                        │
                                        v  ready()
                records · parcels · woken · links · folder · deadline

Everything that happens between two calls of ``ready`` is one *tick*: commands of many clients,
batches of peers.  The type keeps the order **run, log, then tell**.  A reply goes into the open
tick.  Its parcel leaves ``ready`` only after ``note_logged`` named the last record that it may tell
of; so does a read's reply (``rules`` 19).  A tick that left nothing has nothing to wait for if
nothing is under way: its parcels are in its own Ready.

When the disk refuses, waiting clients hear that the outcome is unknown, and further writes are
refused.  Reads are answered: what they may see beyond the log are ticks whose clients heard that.

No asyncio, no clock, no randomness, no file: a node's loop (``engine.py``) and the simulator drive
the same object.  Same inputs, same outputs, byte for byte.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar, assert_never

from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.merge.merging import Merging
from crdtstream.core.merge.repairing import Repairing
from crdtstream.core.replica import Replica
from crdtstream.database.database import Database
from crdtstream.region.assembled import Assembled
from crdtstream.region.bootstrap import Phase
from crdtstream.region.changing_peers import ChangingPeers
from crdtstream.region.client_side import ClientSide
from crdtstream.region.events import (
    BidUnanswered,
    EffectsEnded,
    Event,
    HeldChanged,
    HistoriesDiffer,
    NewerFolder,
    Signal,
)
from crdtstream.region.folder_side import FolderSide
from crdtstream.region.freshness import Freshness, to_ms
from crdtstream.region.ground import Ground
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.links import Links
from crdtstream.region.links.messages import Identity
from crdtstream.region.links.own_side import OwnSide
from crdtstream.region.links.pull import Pull
from crdtstream.region.log_side import LogSide
from crdtstream.region.opening import FolderState
from crdtstream.region.others import Others
from crdtstream.region.participation import Participation
from crdtstream.region.peers import Peers
from crdtstream.region.ready import (
    NO_RECORDS,
    Parcel,
    Ready,
    Receiver,
    made_uncertain,
)
from crdtstream.region.runtime import Runtime
from crdtstream.region.storage import Storage

T = TypeVar("T")


class Region:
    """One region of a database.

    It is made of a replica that has replayed its log.  Every input opens a tick (``tick.on_open``
    says so), and ``ready`` ends it.

    Attributes:
        replica: the state.
        database: the commands of all clients on it.
        peers: the other regions, as they are now.
        limits: of queues and waits.
        tick: the open tick.
        deadlines: when time is to be passed to the parts.

        Its clients (``client_side.py``):

        fetching: entries that are read from disk, and the callers that wait for them.
        clients: who is connected.
        cold: reads entries from disk.
        gate: reasons for which clients' writes are refused.
        answer_time: time that requests wait for their answers.

        Its folder, and the memory (``storage.py``):

        outstanding: what waits for the log, and how far the log is.
        retention: the members that the log is kept for.
        checkpointing: when a checkpoint is due, and what is known of the last one.
        durability: time at which a commit is to be durable.
        memory, disk, room: what may be taken of them, and what happens at these bounds.
        bootstrap: the state of another region that is taken over.
        repair: the key that is compared with that of another region, and perhaps replaced.

        Its part in its database (``participation.py``):

        membership: the members, and this region's part in changing them.
        numbering: the folders that numbered the effects of this region and of others.
        compared: whether peers have the effects that are here.
        opening: whether effects may be issued, and of which database.
        holding: reasons for which batches of peers wait.

        The other regions (``others.py``):

        knowledge: what they are known to have.
        lags: how far this region is behind them.
        staleness: what would be lost with this region (its ``lag``), and the bounds of that.
        stability: what all regions have; what was kept for others only is dropped then.
        links: to the peers.
        changing_peers: has the parts follow the members.

        The disk (``log_side.py``, ``folder_side.py``):

        log: hears how far the log is.
        folder: hears what the folder says, and chooses what it is to say next.
    """

    def __init__(
        self,
        replica: Replica,
        database: Database,
        runtime: Runtime,
        *,
        seq: int,
        folder: FolderState,
        identity: Identity,
        peers: Peers,
        configured: Mapping[RegionId, str],
        limits: RegionLimits,
    ) -> None:
        """A region whose log is read.

        Args:
            seq: the last record of the log; all of it is durable, and in the replica.
            folder: what the folder says.
            identity: its name for peers; its region is the replica's.
            peers: the other regions; it is this region's alone.
            configured: those that the node's file names, and where they are.
        """
        assert identity.region == replica.region == peers.here
        replica.touched.clear()
        now = runtime.now()
        self.replica, self.database, self.peers = replica, database, peers
        self.limits = limits
        ground = Ground(replica, database, peers, Knowledge(peers), runtime, limits, now)
        self.tick, self.deadlines = ground.tick, ground.deadlines

        front = ClientSide(ground)
        self.fetching, self.clients, self.cold = front.fetching, front.clients, front.cold
        self.gate, self.answer_time = front.gate, front.answer_time

        storage = Storage(ground, front.gate, seq=seq)
        self.outstanding, self.retention = storage.outstanding, storage.retention
        self.checkpointing, self.durability = storage.checkpointing, storage.durability
        self.memory, self.disk, self.room = storage.memory, storage.disk, storage.room
        self.bootstrap, self.repair = storage.bootstrap, storage.repair

        self._participation = part = Participation(
            ground,
            front,
            storage,
            region=self,
            folder=folder,
            configured=configured,
            run_id=identity.run_id,
        )
        self.membership, self.numbering = part.membership, part.numbering
        self.compared, self.opening, self.holding = part.compared, part.opening, part.holding

        others = Others(ground, front, storage, part)
        self.knowledge, self.lags = others.knowledge, others.lags
        self.staleness, self.stability = others.staleness, others.stability

        made = Assembled(ground, front, storage, part, others)
        self.links = Links(OwnSide(identity, made), ground)
        self.log = LogSide(made, self.links)
        self.folder = FolderSide(made, self.links)
        self.changing_peers = ChangingPeers(made, self.links)
        self.tick.follow = self._follow
        # The log may have newer members than the folder.
        self.changing_peers.follow_members(self.folder.now)
        self.opening.look()
        # The clock goes on while a process is down: keys may have expired that no client asks for.
        self.tick.open()

    def _follow(self, event: Event) -> None:
        """Have the parts follow what another one posted; see ``events.py``."""
        match event:
            case Signal.REASONS:
                self.opening.look()
            case Signal.STANDING:
                self.links.tell_standing()
            case Signal.ROUTES:
                self.links.look_at_routes()
            case Signal.CHECKPOINT_ENDED:
                # SAVE waits for it.
                self.clients.settle_acks(self.replica.keys.now)
            case Signal.ASKING | Signal.REMOVAL:
                self.links.reopen()
            case Signal.LOSS:
                self.membership.note_lost()
            case Signal.MEMBERS:
                self.changing_peers.follow_members(self.folder.now)
            case Signal.FOLDER_BEGUN:
                self.links.begin_again()
            case NewerFolder(region, has_begun):
                self.folder.follow_newer(region, has_begun=has_begun)
            case EffectsEnded(ends):
                self.folder.follow_ends(ends)
            case BidUnanswered(peer):
                self.links.ask_again(peer)
            case HeldChanged(region):
                if self._participation.peer_runs.is_held(region):
                    self.bootstrap.held.add(region)
                self.links.note_held(region)
            case HistoriesDiffer(peer):
                self.links.part_from(peer)
            case _:
                assert_never(event)

    # --- Clients ------------------------------------------------------------------------------

    def change(
        self,
        now: Millis,
        change: Callable[[Replica, Millis], T],
        receiver: Receiver,
        *,
        writes: int = 1,
        adds: bool = False,
    ) -> None:
        """Change the replica for a program that does not speak Redis's protocol.

        Its result is the one chunk of the parcel that the receiver gets.

        Args:
            writes, adds: how many it counts as, and whether it adds data; see ``Database.change``.

        Raises:
            CommandError: writes are refused; nothing has changed then.  Or what ``change`` raises.
        """
        try:
            result = self.database.change(now, change, writes=writes, adds=adds)
        finally:
            # Changes made before an error have to be told and logged as well.
            self.clients.settle(now)
            self.tick.open()
        self.tick.owe(Parcel(receiver, [result], 1, 0))

    # --- Peers --------------------------------------------------------------------------------

    def freshness(self, at: float) -> Freshness:
        """Freshness of this region, at a time in seconds of the clock that its links have."""
        return self.lags.freshness(self.links.heard, to_ms(at))

    def behind_ms(self, pull: Pull, at: float, now: Millis) -> int:
        """Time for which this region may have lacked something that a peer has.

        Args:
            at: as of ``freshness``.
        """
        lag_ms = self.lags.lag_ms(pull.peer, to_ms(at))
        # A peer that was never heard is behind since the node started.
        return pull.silent_ms(now) if lag_ms is None else lag_ms

    def apply_arrivals(self, now: Millis) -> None:
        """Apply what peers sent, for a few milliseconds; ``Ready.applies`` says if more waits.

        It rests while the disk refuses or cannot keep up, as what is applied must be logged.  It
        also rests while memory is full and being freed, and most of the time while a checkpoint is
        late.  Links read nothing more then.
        """
        if not (self.tick.may_apply and self._may_apply()):
            return
        if self.links.apply(now):
            self.checkpointing.note_applied(now)
            self.opening.note_time(now)
            self.clients.settle(now)
            self.clients.settle_acks(now)
        self.tick.open()

    def _may_apply(self) -> bool:
        return (
            self.gate.fault is None
            and not self.outstanding.is_congested
            and not self.holding.holds_links
        )

    def bootstrap_wanted(self, now: Millis) -> RegionId | None:
        """Peer whose state to take over now, as effects lack that no peer brings; None: none."""
        if self.fault is not None or self.holding.asks_members or not self.repair.is_idle:
            return None
        is_held = self._participation.peer_runs.is_held
        held = min(filter(is_held, self.links.pulls), default=None)
        return self.bootstrap.wanted(self._lacking, self.links.heard, now, held=held)

    @property
    def bootstrap_lacks(self) -> bool:
        """True if effects lack here that a peer has cut from its log."""
        return any(self._lacking.values())

    @property
    def _lacking(self) -> dict[RegionId, Collection[RegionId]]:
        return {peer: pull.lacking for peer, pull in self.links.pulls.items()}

    @property
    def is_level(self) -> bool:
        """True if this region has what the others have, and may issue except for its status."""
        opening = self.opening
        return (
            not opening.is_recovering
            and opening.catching_up.is_level
            and not self.bootstrap_lacks
            and self.bootstrap.phase is Phase.IDLE
        )

    def merge(self, merging: Merging | Repairing, now: Millis) -> None:
        """Take over the state of another region, or a key of it: end a merge.

        The log must already say that it lacks the effects which come by the merge.

        Raises:
            ContentError: an image has impossible content.  The region is of no use from then on.
            UnreadableError: an entry cannot be read.  Likewise.
        """
        self.replica.merge(merging, now)
        if merging.merged.key is None:
            self.links.note_merged()
        self.clients.settle(now)
        self.clients.settle_acks(now)
        self.opening.note_time(now)
        self.opening.look()
        self.tick.open()

    # --- Refusals ------------------------------------------------------------------------------

    @property
    def fault(self) -> str | None:
        """Reason why the disk refuses; None while it does not."""
        return self.gate.fault

    @property
    def refuses_writes(self) -> str | None:
        """Reason why writes are refused at present; None while they are accepted."""
        fault = self.database.fault
        if fault is not None and self.fault is None:
            return self._stale_reason(fault)
        return fault if fault is not None else self.staleness.obstacle

    def _stale_reason(self, reason: str) -> str:
        """Reason why a region that lacks effects takes no writes, with the progress or the failure
        of the state that it takes over."""
        if self.bootstrap.phase in (Phase.COPYING, Phase.MERGING):
            told = self.bootstrap.told(self.replica.region)
            # A member that has not answered holds writes back in any case.
            return f"{reason}. Meanwhile {told}" if self.opening.is_asking else told
        failure = self.bootstrap.told_failure()
        return f"{reason}; {failure}" if failure and self.bootstrap_lacks else reason

    # --- Time ---------------------------------------------------------------------------------

    def pass_time(self, now: Millis) -> None:
        """Act on the time: keys expire, blocked commands end."""
        self.opening.note_time(now)
        self.cold.pass_time(now)
        self.checkpointing.pass_time(now)
        self.clients.expire(now)
        self.staleness.pass_time(now)
        self.numbering.bidding.look(now)
        self.membership.look(now)
        self.tick.open()

    # --- Out ----------------------------------------------------------------------------------

    def ready(self, now: Millis) -> Ready:
        """End the tick; return its output.

        A part is called only if an attribute shows that it has something to do; see ``tick.py``.
        """
        replica, database, tick = self.replica, self.database, self.tick
        if self.gate.takes_again:
            self.gate.takes_again = False
            self.pass_time(now)
        if database.notifications.is_on:
            database.notifications.tell()
        records = replica.take_records(now)
        if database.open_writes.sessions:
            database.note_sealed()
        if self.cold.pins.pinned:
            self.cold.pins.note_tick()
        if replica.cold:
            self.cold.ask_in_background(replica.take_cold())
        lag = self.staleness.lag
        if records:
            lag.note_issued(now)
        if self.staleness.is_on or not lag.now <= now < lag.sample_at:
            self.staleness.look(now)
        lag.now = now
        waiting = database.waiting
        if tick.has_quiet_links or waiting.without_keys or database.limit is not None:
            self.links.look_for_news()
        if tick.folder_is_due:
            self.folder.note_recovered(now)
        parcels, woken, links, notices = tick.close()
        told, self.log.told = self.log.told, []
        if records:
            if self.gate.fault is not None:
                # Replies that follow do not wait, so these must not either.
                told += made_uncertain(parcels)
                parcels = []
            self.outstanding.add(records, parcels)
            if self.links.applied:
                self.links.note_left(self.outstanding.left_seq)
            if replica.members is not self.membership.seen:
                outstanding = self.outstanding
                self.membership.note_left(outstanding.left_seq, outstanding.durable_seq, now)
        elif parcels and (self.gate.fault is not None or not self.outstanding.hold(parcels)):
            told += parcels
        deadline = self.deadlines.earliest
        if waiting.times or replica.stream_deadlines or replica.string_deadlines:
            at = database.next_deadline()
            if at is not None and (deadline is None or at < deadline):
                deadline = at
        return Ready(
            records=records or NO_RECORDS,
            parcels=told,
            woken=woken,
            links=links,
            fetch=self.fetching.take() if self.fetching.requests else [],
            letters=tick.take_letters() if tick.letters else [],
            folder=self.folder.due_change() if tick.folder_is_due else None,
            applies=tick.may_apply and self._may_apply(),
            deadline=deadline,
            notices=notices,
        )
