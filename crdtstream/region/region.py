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
batches of peers.  The order **run, log, then tell** lies in the type.  A reply goes into the open
tick, and its parcel comes out of ``ready`` only after ``note_logged`` named the last record that it
may tell of - a read's reply too (``rules`` 19).  A tick that left nothing while nothing is under
way has nothing to wait for: its parcels are in its own Ready.

When the disk refuses, who waits hears that the outcome is unknown, and further writes are refused.
Reads are answered: what they may see beyond the log are ticks whose clients heard that.

No asyncio, no clock, no randomness, no file: a node's loop (``engine.py``) and the simulator drive
the same object.  Same inputs, same outputs, byte for byte.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Final, TypeVar

from crdtstream.commands.reply import Reply
from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import ChangeMembers, EffectBatch
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.membership.lost import removed_ends
from crdtstream.core.membership.members import Members
from crdtstream.core.merge.merging import Merging
from crdtstream.core.replica import Replica
from crdtstream.core.size import Size
from crdtstream.core.uid import DatabaseUid
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.region.answering import AnswerTime
from crdtstream.region.bootstrap import PATIENCE, Bootstrap, Phase
from crdtstream.region.catching_up import CatchingUp
from crdtstream.region.checkpointing import Checkpointing
from crdtstream.region.clients import Client, Encode
from crdtstream.region.durability import Durability
from crdtstream.region.fetching import Fetching, GoOn
from crdtstream.region.freshness import Freshness, Lags, to_ms
from crdtstream.region.knowledge import Knowledge
from crdtstream.region.lag import ReplicationLag
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.claims import Claims
from crdtstream.region.links.links import Links
from crdtstream.region.links.messages import Identity
from crdtstream.region.links.own_side import OwnSide
from crdtstream.region.links.peer_runs import PeerRuns
from crdtstream.region.links.readiness import Readiness
from crdtstream.region.links.routes import Routes
from crdtstream.region.membership import Membership
from crdtstream.region.opening import FolderState, Opening
from crdtstream.region.outstanding import Mark, Outstanding
from crdtstream.region.peers import Peer, Peers
from crdtstream.region.pins import Pins
from crdtstream.region.ready import (
    NO_RECORDS,
    Confirm,
    FolderChange,
    Parcel,
    Ready,
    Receiver,
    StoreMembership,
    made_uncertain,
)
from crdtstream.region.retention import Retention
from crdtstream.region.room import DiskBound, MemoryBound, Room
from crdtstream.region.staleness import Staleness
from crdtstream.region.tick import Tick
from crdtstream.region.wait import Wait

T = TypeVar("T")
# Why writes are refused, in a word, where refusals are counted.
REFUSED_BY_DISK: Final = "disk"
REFUSED_AS_STALE: Final = "stale"
# After entries could not be read from disk: when that is tried again for what no client waits for.
COLD_REST_MS: Final = Size(1_000, least=1)


class Region:
    """One region of a database.

    It is made of a replica that has replayed its log.  Every input opens a tick (``tick.on_open``
    says so), and ``ready`` ends it.

    Attributes:
        replica: the state.
        database: the commands of all clients on it.
        peers: the other regions, as they are now.
        tick: what is open.
        outstanding: what waits for the log, and how far the log is.
        knowledge: what other regions are known to have.
        lags: how far this region is behind them.
        fetching: entries that are read from disk, and who waits for them.
        opening: whether effects may be issued, and of which database.
        staleness: what would be lost with this region (its ``lag``), and what bounds that.
        retention: whom the log is kept for.
        checkpointing: when a checkpoint is due, and what is known of the last one.
        bootstrap: the state of another region that is taken over.
        membership: who is a member, and this region's part in changing that.
        durability: when a commit is to be on the disk for good.
        answer_time: how long requests wait for their answers.
        memory, disk, room: what may be taken of them, and what happens at these bounds.
        links: to the peers.
        fault: why the disk refuses; None while it does not.
    """

    def __init__(
        self,
        replica: Replica,
        database: Database,
        *,
        seq: int,
        folder: FolderState,
        now: Millis,
        identity: Identity,
        peers: Peers,
        encode: Encode,
        clock: Callable[[], int],
        uniform: Callable[[float, float], float],
        make_uid: Callable[[], DatabaseUid],
        configured: Mapping[RegionId, str] | None = None,
        limits: RegionLimits | None = None,
    ) -> None:
        """A region whose log is read.

        Args:
            seq: the last record of the log; all of it is durable, and in the replica.
            folder: what the folder says.
            identity: who it is; its region is the replica's.
            peers: the other regions; it is this region's alone.
            configured: those that the node's file names, and where they are; None: the peers.
            encode: a reply to the bytes of a protocol version.
            clock: nanoseconds that pass; for turns and answer times, not for anything that is
                decided.
            uniform: a random number between two; for the pauses between attempts.
            make_uid: 16 random bytes, for a database that begins.
        """
        assert identity.region == replica.region == peers.here
        replica.touched.clear()
        self.replica = replica
        self.database = database
        self.peers = peers
        self.limits = limits or RegionLimits()
        self.tick = Tick()
        self.fetching = Fetching()
        database.ask_for = self.fetching.ask
        # No client waits for acknowledgements to be told, keys to expire, batches of peers: until
        # when their entries are not read, as that has just failed.
        self._cold_rests_until: Millis | None = None
        self._pins = Pins(replica.residency)
        self.outstanding = Outstanding(
            seq, replica.vv, records_max=self.limits.commit_queue_records_max
        )
        self.knowledge = Knowledge(peers)
        self.lags = Lags(
            peers,
            lambda: replica.vv,
            heartbeat_interval_ms=self.limits.heartbeat_interval_ms,
        )
        lag = ReplicationLag(replica, peers, now=now)
        self.staleness = Staleness(replica, lag, self.tick, now=now)
        self.retention = Retention(peers, now=now)
        self.checkpointing = Checkpointing(self.tick, now=now)
        self.bootstrap = Bootstrap(
            self.tick,
            lambda: replica.vv,
            patience_ms=PATIENCE.value * self.limits.inbox_wait_ms_max,
        )
        self.checkpointing.on_end = lambda: self._settle_acks(replica.now)
        self.durability = Durability()
        self.answer_time = AnswerTime(clock)
        self.memory = MemoryBound()
        self.disk = DiskBound(self.tick)
        self.disk.wants_checkpoint = self._want_checkpoint_of_news
        self.memory.wants_checkpoint = self.checkpointing.want_an_end
        self.memory.checkpoint_comes = lambda: self.checkpointing.is_coming
        self.room = Room(self.memory, self.disk)
        self.room.on_change = self._refuse_or_take_data
        self.room.on_go_on = self.tick.open
        self.staleness.on_limit = self._limit_or_not
        self.staleness.on_room = self._try_again
        self.fault: str | None = None
        self._encode = encode
        self._clock = clock
        self._clients: dict[int, Client] = {}
        self._told: list[Parcel] = []
        self._was_refused = False
        self._cuts_noted: Set[RegionId] = frozenset()
        database.register(Wait(database, self.outstanding, self.knowledge).commands())
        self.membership = Membership(
            replica,
            self.tick,
            kept=folder.membership,
            instance=make_uid(),
            votes_are_proven=folder.is_proven or folder.is_same,
            configured=peers.addresses if configured is None else configured,
            uniform=uniform,
            issue=self._issue,
            is_stable=self._has_stable_members,
            lacking=self._lacking_members,
            is_level=self._is_level,
            durable_vv=lambda: self.outstanding.durable_vv,
            recovers=lambda: self.opening.is_recovering,
            now=now,
            surroundings=self,
        )
        readiness = Readiness(
            peers,
            database=folder.database,
            is_proven=folder.is_proven,
            has_effects=bool(replica.vv),
            make_uid=make_uid,
        )
        peer_runs = PeerRuns()
        self.opening = Opening(
            replica,
            self.outstanding,
            self.tick,
            readiness,
            stored=folder.database,
            peer_runs=peer_runs,
            catching_up=CatchingUp(
                peers,
                lambda: replica.vv,
                now=now,
                is_held=peer_runs.is_held,
                rests=self._holds_links,
                answer_ms_max=self.limits.catch_up_answer_ms_max,
                stall_ms_max=self.limits.catch_up_stall_ms_max,
            ),
        )
        self.opening.on_obstacle = self._refuse_or_accept
        self.opening.no_member = self._no_member
        peer_runs.watch([self._note_held])
        own = OwnSide(
            identity=identity,
            replica=replica,
            channels=database.channels,
            outstanding=self.outstanding,
            knowledge=self.knowledge,
            lags=self.lags,
            replication_lag=lag,
            opening=self.opening,
            membership=self.membership,
            retention=self.retention,
            bootstrap=self.bootstrap,
            claims=Claims(peers, self.outstanding, self.opening),
            routes=Routes(
                peers,
                now=now,
                relay_after_ms=self.limits.inbox_wait_ms_max,
                is_held=self.opening.peer_runs.is_held,
            ),
            tick=self.tick,
            limits=self.limits,
            learn=self.learn,
            arrived=self._note_arrived,
            is_awaited=self._is_awaited,
            holds_links=self._holds_links,
            is_held=self._is_held,
        )
        self.links = Links(own, peers, now=now, uniform=uniform, clock=clock)
        self.membership.members.on_known.append(self._follow_members)
        self.membership.members.on_removal = self.links.reopen
        # The log may tell of newer ones than the folder.
        self._follow_members()
        self.opening.look()
        # The clock goes on while a process is down: keys may be over that nobody asks for.
        self.tick.open()

    # --- Clients ------------------------------------------------------------------------------

    def connect(self, receiver: Receiver) -> Client:
        """A new client, whose replies ``receiver`` gets."""
        client = Client(
            self.database.open_session(),
            receiver,
            database=self.database,
            tick=self.tick,
            fetching=self.fetching,
            settle=self._settle,
            encode=self._encode,
            clock=self._clock,
        )
        self._clients[client.session.id] = client
        return client

    def disconnect(self, client: Client) -> None:
        """The client is gone."""
        client.end()
        self._clients.pop(client.session.id, None)

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
            # Also what was done before an error has to be told and logged.
            self._settle(now)
            self.tick.open()
        self.tick.owe(Parcel(receiver, [result], 1, 0))

    def unblock(self, session_id: int, *, with_error: bool) -> bool:
        """CLIENT UNBLOCK: end a client's waiting; returns whether it waited."""
        served = self.database.unblock(session_id, with_error=with_error)
        if served is None:
            return False
        self._answer(*served)
        return True

    def end_pause(self, now: Millis) -> None:
        """CLIENT PAUSE is over: serve the blocked, then run what was postponed."""
        for session, reply in self.database.serve_all(now):
            self._answer(session, reply)
        for client in self._clients.values():
            client.go_on()
        self.tick.open()

    def _limit_or_not(self) -> None:
        """A bound on what lags was set, or taken away."""
        self.database.limit = self.staleness if self.staleness.limits_writes else None

    def _refuse_or_take_data(self) -> None:
        """There is no room for more data, or there is again."""
        self.database.full = self.room if self.room.is_full else None

    def _try_again(self, session_id: int) -> bool:
        """A client's write was throttled, and may be tried again; returns whether it is there."""
        client = self._clients.get(session_id)
        if client is not None:
            client.go_on()
        return client is not None

    def _settle(self, now: Millis) -> None:
        """Something was changed: serve who waited for it."""
        for session, reply in self.database.settle(now):
            self._answer(session, reply)

    def _settle_acks(self, now: Millis) -> None:
        """Other regions, or the disk, have more: serve who waited for that."""
        if not self.database.waiting_count:
            return
        for session, reply in self.database.settle_acks(now):
            self._answer(session, reply)

    def _answer(self, session: Session, reply: Reply) -> None:
        client = self._clients.get(session.id)
        # A session that is not ours belongs to whoever else calls the database.
        if client is not None:
            client.answer(reply)

    # --- Peers --------------------------------------------------------------------------------

    def change_peers(
        self,
        now: Millis,
        peers: Mapping[RegionId, Peer],
        *,
        leaving: Collection[RegionId] = (),
        gone: Collection[RegionId] = (),
        is_active_here: bool = True,
    ) -> None:
        """The other regions are these from now on; see ``Peers.change``.

        Links begin and end by themselves.  Nothing happens if nothing has changed.
        """
        change = self.peers.change(
            now, peers, leaving=leaving, gone=gone, is_active_here=is_active_here
        )
        if change is None:
            return
        self.tick.notice(
            "info",
            "the peers have changed",
            peers=self.peers.addresses,
            added=change.added,
            removed=change.removed,
        )
        for peer in change.removed:
            self.opening.forget(peer)
            self.bootstrap.note_removed(peer)
        self.replica.note_peers(self.peers.counting)
        self.staleness.note_peers()
        self.opening.look()
        self.opening.note_time(now)
        self._forget_stable()
        # They may wait for a removed one, or have what an activated one has.
        self._settle_acks(now)
        self.tick.open()

    def learn(
        self,
        region: RegionId,
        durable_vv: VersionVector,
        *,
        by: RegionId | None = None,
        regains: bool = False,
    ) -> None:
        """A region's durable version vector, from its ack or heartbeat or by gossip.

        Args:
            by: who says so; None: the region itself.
            regains: the region says that it recovers.
        """
        if by in (None, region):
            self.retention.note_durable(region, durable_vv)
        else:
            self.retention.note_told(region, durable_vv)
        if self.knowledge.learn(region, durable_vv, regains=regains):
            self._forget_stable()
            self._settle_acks(self.replica.now)
            self.tick.open()

    def freshness(self, at: float) -> Freshness:
        """How current this region is, at a time in seconds of the clock that its links have."""
        return self.lags.freshness(self.links.heard, to_ms(at))

    def _note_arrived(self) -> None:
        self.links.may_apply = True

    def apply_arrivals(self, now: Millis) -> None:
        """Apply what peers sent, for a few milliseconds; ``Ready.applies`` says if there is more.

        It rests while the disk refuses or cannot keep up: what is applied must be logged; and while
        memory is full and being freed, or a checkpoint is late.  Links read nothing more
        meanwhile.
        """
        if not self._may_apply():
            return
        if self.links.apply(now):
            self.opening.note_time(now)
            self._settle(now)
            self._settle_acks(now)
        self.tick.open()

    def _may_apply(self) -> bool:
        return (
            self.links.may_apply
            and self.fault is None
            and not self.outstanding.is_congested
            and not self._holds_links()
        )

    def _holds_links(self) -> bool:
        """Whether what peers sent waits for a checkpoint, for what leaves memory, or until a state
        is taken over; or until all members have answered, as one of them may have been removed."""
        asks_members = self.membership.known.epoch > 0 and self.opening.is_asking
        return (
            self.memory.holds_links
            or self.checkpointing.holds_links
            or self.bootstrap.holds_links
            or asks_members
        )

    def bootstrap_wanted(self, now: Millis) -> RegionId | None:
        """From whom to take a state over now, as effects lack that no peer brings; None: from
        nobody."""
        if self.fault is not None:
            return None
        is_held = self.opening.peer_runs.is_held
        held = min(filter(is_held, self.links.pulls), default=None)
        return self.bootstrap.wanted(self._lacking, self.links.heard, now, held=held)

    @property
    def bootstrap_lacks(self) -> bool:
        """Whether effects lack here that a peer has cut from its log."""
        return any(self._lacking.values())

    @property
    def _lacking(self) -> dict[RegionId, Collection[RegionId]]:
        return {peer: pull.lacking for peer, pull in self.links.pulls.items()}

    def _note_held(self, peer: RegionId) -> None:
        if self.opening.peer_runs.is_held(peer):
            self.bootstrap.held.add(peer)

    def merge(self, merging: Merging, now: Millis) -> None:
        """Take over the state of another region: end a merge.

        The log must say already that it does not have the effects which come by it.

        Raises:
            ContentError: an image says what cannot be.  The region is of no use from then on.
            UnreadableError: an entry cannot be read.  Likewise.
        """
        self.replica.merge(merging, now)
        self.links.note_merged()
        self._settle(now)
        self._settle_acks(now)
        self.opening.note_time(now)
        self.opening.look()
        self.tick.open()

    def _forget_stable(self) -> None:
        """Drop what is kept only for effects that can no longer arrive.

        While this region recovers, effects of its own that it lost can: they are concurrent to
        whatever it has heard since.
        """
        if self.replica.kept_until_stable and not self.opening.is_recovering:
            self.replica.forget_stable(self.knowledge.stable(self.outstanding.durable_vv))

    # --- Entries that are on disk -------------------------------------------------------------

    def note_fetched(self, asked: Sequence[int], bodies: Mapping[int, bytes], now: Millis) -> None:
        """A request of ``Ready.fetch`` was read: the bodies of its images, as they are kept.

        What was read ahead may be missing.
        """
        residency = self.replica.residency
        for number, body in bodies.items():
            residency.arrive(number, body)
        self._pins.add(bodies)
        self._go_on(self.fetching.note_fetched(asked, len(bodies)), now)

    def note_fetch_failed(self, asked: Sequence[int], reason: str, now: Millis) -> None:
        """The image in front of a request cannot be read."""
        if self.fetching.fault is None:
            self.tick.notice("error", "entries cannot be read from disk", reason=reason)
        waiters = self.fetching.note_failed(asked, reason)
        if self._go_on_in_background in waiters:
            self._cold_rests_until = Millis(now + COLD_REST_MS.value)
        self._go_on([one for one in waiters if one != self._go_on_in_background], now)

    def _go_on(self, waiters: Sequence[GoOn], now: Millis) -> None:
        for go_on in waiters:
            go_on()
        for session, reply in self.database.serve_fetched(now):
            self._answer(session, reply)
        self.tick.open()

    def _ask_in_background(self, images: Sequence[int], now: Millis) -> None:
        """Have images read that no client waits for, unless that failed a moment ago."""
        if self._cold_rests_until is None:
            # What failed before the rest was told then.
            while self.fetching.ask(images, self._go_on_in_background) is not None:
                pass
            self.tick.open()

    def _go_on_in_background(self) -> None:
        """What stands still for want of entries is tried again; acknowledgements, by each tick."""
        self.links.may_apply = True
        self.replica.expiry_is_held = False

    def _is_awaited(self) -> bool:
        """Whether somebody waits to hear what peers have: WAIT, or a bound on what lags."""
        return self.database.is_awaiting_peers or self.database.limit is not None

    def _is_held(self, batch: EffectBatch, now: Millis) -> bool:
        """Whether a batch has to wait for entries that are on disk."""
        images = self.replica.needs_of(batch)
        if images:
            self._ask_in_background(images, now)
        return bool(images)

    # --- The log ------------------------------------------------------------------------------

    def note_logged(self, seq: int, now: Millis, *, durable: bool) -> None:
        """The log has every record up to ``seq``.

        Args:
            durable: a power cut cannot take them back either.
        """
        outstanding = self.outstanding
        self._told += outstanding.note_logged(seq)
        if durable:
            self.note_durable(outstanding.mark(), now)
        self._accept_again()
        if outstanding.relieve():
            self._wake_clients()
        self.opening.note_logged()
        self.opening.note_time(now)
        self.links.note_logged(seq, now)
        self.tick.open()

    def note_durable(self, mark: Mark, now: Millis) -> None:
        """A sync that began at ``mark`` is done."""
        self.outstanding.note_durable(mark)
        self.membership.note_durable(self.outstanding.durable_seq, now)
        self._accept_again()
        self._forget_stable()
        # WAITAOF may wait for nothing but this.
        self._settle_acks(now)
        self.tick.open()

    def _want_checkpoint_of_news(self) -> None:
        """The folder is full: one lets the log be cut, unless the last one has all there is."""
        if self.outstanding.logged_seq > self.checkpointing.seq:
            self.checkpointing.want()

    def note_synced(self, mark: Mark, now: Millis) -> None:
        """As ``note_durable``, and links are told of it, both ends: who waits there need not wait
        for what comes next on a quiet link."""
        before = self.outstanding.durable_vv
        self.note_durable(mark, now)
        self.opening.note_logged()
        self.links.wake_serves_with_news()
        if self.outstanding.durable_vv != before:
            self.links.ack_soon()

    def note_beginning(self, first_seq: int, begins: VersionVector) -> None:
        """The log begins there: it was opened, or cutting it came to an end."""
        self.retention.note_beginning(first_seq, begins)
        self.retention.cutting_seq = 0
        self.links.wake_serves()
        self.tick.open()

    def note_refused(self, reason: str) -> None:
        """The disk refused, commits or a sync: who waits hears that the outcome is unknown."""
        if self.fault is None:
            self.tick.notice(
                "error", "the log cannot be written; writes are refused", reason=reason
            )
        self.fault = reason
        self._refuse_or_accept()
        self._told += made_uncertain(self.outstanding.take_parcels())
        # Their writes are refused from here on, and their reads are answered.
        self._wake_clients()
        self.tick.open()

    @property
    def is_congested(self) -> bool:
        """More waits for the disk than should: take nothing new from clients."""
        return self.outstanding.is_congested and self.fault is None

    def _wake_clients(self) -> None:
        for client in self._clients.values():
            self.tick.wake(client.receiver)

    def _accept_again(self) -> None:
        if self.fault is not None:
            self.tick.notice("info", "the log can be written again; writes are accepted")
            self.fault = None
            self._refuse_or_accept()

    @property
    def refuses_writes(self) -> str | None:
        """Why writes are refused at present; None while they are accepted."""
        fault = self.database.fault
        if fault is not None and self.fault is None:
            return self._stale_reason(fault)
        return fault if fault is not None else self.staleness.obstacle

    def _stale_reason(self, reason: str) -> str:
        """Why a region that lacks effects takes no writes, with the state that it gets or could
        not get."""
        if self.bootstrap.phase in (Phase.COPYING, Phase.MERGING):
            told = self.bootstrap.told(self.replica.region)
            # A member that has not answered holds it back in any case.
            return f"{reason}. Meanwhile {told}" if self.opening.is_asking else told
        failure = self.bootstrap.told_failure()
        return f"{reason}; {failure}" if failure and self.bootstrap_lacks else reason

    def _refuse_or_accept(self) -> None:
        refused_before = self.database.fault is not None
        fault = self.fault if self.fault is not None else self.opening.obstacle
        self.database.fault = fault if fault is not None else self.membership.sealing.obstacle
        self.database.statistics.refused_because = (
            REFUSED_BY_DISK if self.fault is not None else REFUSED_AS_STALE
        )
        if refused_before and self.database.fault is None:
            # Keys whose time came meanwhile are still to be deleted.
            self._was_refused = True
            self.tick.open()

    def note_folder(self, change: FolderChange, now: Millis) -> None:
        """The folder says it, durably."""
        if isinstance(change, StoreMembership):
            self.membership.note_folder(change, now)
            return
        self.opening.note_folder(change)
        # Its peers answered while it recovered: it may be level with them already.
        self.opening.note_time(now)
        # It may have recovered.
        self._forget_stable()
        self.tick.open()

    @property
    def folder_change(self) -> FolderChange | None:
        """What the folder is to say next; None: it says what it should."""
        change = self.opening.folder_change
        if isinstance(change, Confirm):
            # A folder that is confirmed proves its votes: it must have what the members answered.
            return self.membership.folder_change or change
        return change or self.membership.folder_change

    # --- Members ------------------------------------------------------------------------------

    def _follow_members(self) -> None:
        """Other members are known: links begin and end by them."""
        members = self.membership.known
        if members.epoch:
            cuts = self.membership.cuts
            self.change_peers(
                self.replica.now,
                self.membership.members.peers,
                leaving=cuts.leaving,
                gone=cuts.final,
                is_active_here=self.membership.members.obstacle is None,
            )
            self._note_ends({one.region: one.cut for one in members.regions if one.cut is not None})
        self.opening.look()
        # What is said from here on is said at this epoch.
        self.links.tell_standing()

    def _note_ends(self, cuts: Mapping[RegionId, int]) -> None:
        """The cuts of these removed regions are final, and the folder has them: who waits for
        effects beyond one is told that they are lost, readers of streams too."""
        if cuts.keys() == self._cuts_noted:
            return
        self._cuts_noted = cuts.keys()
        self.replica.ends = removed_ends(cuts)
        for session, reply in self.database.serve_all(self.replica.now):
            self._answer(session, reply)
        self.tick.open()

    def _issue(self, effect: ChangeMembers) -> None:
        self.database.change(self.replica.now, lambda replica, _: replica.issue(effect))
        self.tick.open()

    def _is_level(self) -> bool:
        opening = self.opening
        return (
            not opening.is_recovering
            and opening.catching_up.is_level
            and not self.bootstrap_lacks
            and self.bootstrap.phase is Phase.IDLE
        )

    def _has_stable_members(self, members: Members) -> bool:
        """Whether the effect of the last epoch is causally stable here; not while it recovers."""
        if not members.epoch:
            return True
        dot = members.history[-1].dot
        if dot is None or self.opening.is_recovering:
            return False
        return self.knowledge.stable(self.outstanding.durable_vv).get(dot.region, 0) >= dot.n

    def _lacking_members(self, members: Members) -> list[RegionId]:
        """Who is not known to have the effect of the last epoch durably."""
        dot = members.history[-1].dot if members.epoch else None
        if dot is None:
            return []
        others = sorted(self.peers.counting - {dot.region})
        return [one for one in others if self.knowledge.of(one).get(dot.region, 0) < dot.n]

    # --- A seal (``sealing.Surroundings``) ----------------------------------------------------

    def _no_member(self) -> str | None:
        """Why nothing may be issued, as far as the members are concerned; None: it may."""
        sealing = self.membership.sealing
        return self.membership.members.obstacle or (sealing.obstacle if sealing.is_final else None)

    def others_have(self) -> Mapping[RegionId, int]:
        here = self.replica.region
        return {one: self.knowledge.of(one).get(here, 0) for one in self.peers.active}

    def durable_issued(self) -> int:
        return self.outstanding.durable_vv.get(self.replica.region, 0)

    def hand_over(self, change: Callable[[Replica, Millis], object], now: Millis) -> None:
        try:
            with self.replica.residency.in_place():
                self.database.change_anyway(now, change)
        finally:
            self._settle(now)
            self.tick.open()

    def keep_seal(self) -> None:
        self.membership.keep()

    def refuse_or_accept(self) -> None:
        self.opening.look()
        self._refuse_or_accept()

    # --- Time ---------------------------------------------------------------------------------

    def pass_time(self, now: Millis) -> None:
        """Do what the clock brings: keys expire, blocked commands end."""
        self.opening.note_time(now)
        if self._cold_rests_until is not None and self._cold_rests_until <= now:
            self._cold_rests_until = None
            self._go_on_in_background()
        for session, reply in self.database.expire(now):
            self._answer(session, reply)
        self.staleness.pass_time(now)
        self.membership.look(now)
        self.tick.open()

    def _next_deadline(self) -> Millis | None:
        deadlines = (
            self.database.next_deadline(),
            self.opening.catching_up.deadline,
            self.staleness.next_deadline(),
            self._cold_rests_until,
            self.membership.deadline,
        )
        return min((one for one in deadlines if one is not None), default=None)

    # --- Out ----------------------------------------------------------------------------------

    def ready(self, now: Millis) -> Ready:
        """End the tick; its output."""
        if self._was_refused:
            self._was_refused = False
            self.pass_time(now)
        records = self.replica.take_records(now)
        self.database.note_sealed()
        self._pins.note_tick()
        cold = self.replica.take_cold()
        if cold:
            self._ask_in_background(cold, now)
        if records:
            self.staleness.lag.note_issued(now)
        self.staleness.look(now)
        self.links.look_for_news()
        if isinstance(self.opening.folder_change, Confirm):
            self.membership.note_recovered(now)
        parcels, woken, links, notices = self.tick.close()
        told, self._told = self._told, []
        if records:
            if self.fault is not None:
                # Replies that follow do not wait, so these must not either.
                told += made_uncertain(parcels)
                parcels = []
            self.outstanding.add(records, parcels)
            self.links.note_left(self.outstanding.left_seq)
        elif parcels and (self.fault is not None or not self.outstanding.hold(parcels)):
            told += parcels
        self.membership.note_left(self.outstanding.left_seq, self.outstanding.durable_seq, now)
        return Ready(
            records=records or NO_RECORDS,
            parcels=told,
            woken=woken,
            links=links,
            fetch=self.fetching.take(),
            letters=self.membership.take_letters(),
            folder=self.folder_change,
            applies=self._may_apply(),
            deadline=self._next_deadline(),
            notices=notices,
        )
