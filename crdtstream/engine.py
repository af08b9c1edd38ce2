"""The engine: run, log, then tell.

One engine owns the replica and the log of a region.  Everything that happens in one round of the
event loop - commands of many clients, batches of peers - is one *tick*.  When it ends:

    records of the tick ──> queue ──> committer ──> log (one group commit) ──> callbacks, links

Ticks go on while a commit is under way; what they leave queues, and the next commit takes all of
it.  A tick's callbacks (replies to clients, mostly) run when everything done up to its end is in
the log, in the order of the ticks.  So a reply, a read's too, never tells of something that a
crash of the process can undo - and, with ``appendfsync always``, where each commit is synced, not
a power cut either (``rules`` 19).  A tick that changed nothing while nothing is under way has
nothing to wait for and is answered at once.

When the disk refuses, the records stay queued and are tried again, the same bytes, with growing
pauses; ``fault`` says why, the waiting callbacks hear that the outcome is unknown, and whoever
executes commands refuses further writes.  Reads are answered meanwhile.

Nothing here awaits between reading the replica and changing it, so there are no locks.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from crdtstream.commands.reply import Reply
from crdtstream.core.clock import MutableVersionVector, VersionVector, covers, join
from crdtstream.core.effects import EffectBatch, Record
from crdtstream.core.ids import Millis, Region
from crdtstream.core.replica import Replica
from crdtstream.core.stability import StabilityTracker
from crdtstream.core.wire.codec import BatchError
from crdtstream.database.database import Database
from crdtstream.database.session import Session
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, Log, record_bytes

logger = structlog.get_logger(__name__)

# Between two syncs when commits do not sync: about what Redis does, and what Linux does by itself.
SYNC_SECONDS: Final = {Fsync.EVERYSEC: 1.0, Fsync.NO: 30.0}
# One group commit; more would make the first of its clients wait for the last one's bytes.
COMMIT_RECORDS_MAX: Final = 1_000
COMMIT_BYTES_MAX: Final = 16 << 20
# Queued for the disk beyond this, clients and links are not read until it is half of it again.
QUEUE_RECORDS_MAX: Final = 10_000
QUEUE_BYTES_MAX: Final = 64 << 20
RETRY_SECONDS_FIRST: Final = 0.05
RETRY_SECONDS_MAX: Final = 5.0
REPLAY_BYTES: Final = 8 << 20

Callback: TypeAlias = Callable[[bool], None]
Deliver: TypeAlias = Callable[[Session, Reply], None]


@dataclass(slots=True)
class Tick:
    """What one tick leaves to the committer."""

    records: list[Record]
    callbacks: list[Callback]
    bytes: int


@dataclass(slots=True)
class EngineStats:
    """Counters since the engine was made."""

    commits: int = 0
    records_committed: int = 0
    commit_failures: int = 0


def wall_clock() -> Millis:
    """Milliseconds since the epoch, as this machine believes."""
    return Millis(time.time_ns() // 1_000_000)


class Engine:
    """The one owner of a replica, its waiting clients and its log.

    Attributes:
        fault: why the disk refuses; None while it does not.  Writes are refused while it is set.
        stale: why this region must not issue effects: peers have effects of it that it lost.
        logged_vv: committed to the log.  Links send nothing beyond it.
        durable_vv: of that, what a power cut cannot take back.  Acks, WAIT and stability name
            nothing beyond it.  With ``appendfsync always`` the two are equal.
        durable_records: how many of the replica's records a power cut cannot take back.
        durable_seq: the row of the log up to which that is so.
        deliver: gets the reply for a waiting client whom a tick served; the RESP shell sets it.
        congested: more is queued for the disk than it should be; stop reading from clients.
        on_relief: called when congestion is over.
        on_logged: called after each commit, and each sync, for whoever sends or acknowledges.
    """

    def __init__(
        self,
        replica: Replica,
        database: Database,
        log: Log,
        *,
        fsync: Fsync = Fsync.ALWAYS,
        peers: Iterable[Region] = (),
        queue_records_max: int = QUEUE_RECORDS_MAX,
        now: Callable[[], Millis] = wall_clock,
    ) -> None:
        self.replica = replica
        self.database = database
        self.log = log
        self.fsync = fsync
        self.now = now
        self.fault: str | None = None
        self.stale: str | None = None
        self.logged_vv: MutableVersionVector = {}
        self.durable_vv: MutableVersionVector = {}
        self.durable_records = 0
        self._recovered_seq = 0
        self.deliver: Deliver = lambda _session, _reply: None
        self.congested = False
        self.on_relief: list[Callable[[], None]] = []
        self.on_logged: list[Callable[[], None]] = []
        self.stats = EngineStats()
        self.stability = StabilityTracker(replica.region, peers)
        self._peer_vvs: dict[Region, VersionVector] = {}
        self._scheduled = False
        self._callbacks: list[Callback] = []
        self._queue: deque[Tick] = deque()
        self._queued_bytes = 0
        self._queued_records = 0
        self._queue_records_max = queue_records_max
        self._committing: list[Tick] = []
        self._wake = asyncio.Event()
        self._stopping = False
        self._crash: BaseException | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._deadline: Millis | None = None

    # --- Recovery -----------------------------------------------------------------------------

    async def recover(self) -> None:
        """Rebuild the replica from the log; before anything else.

        Raises:
            StoreError: a row is damaged, or does not follow the rows before it.
        """
        assert not self.replica.vv
        seq = 1
        while rows := await self.log.read_from(seq, bytes_max=REPLAY_BYTES):
            for row in rows:
                try:
                    self.replica.replay(row.record)
                except BatchError as error:
                    raise StoreError(
                        f"row {row.seq} of the log does not follow the rows before it: {error}. "
                        "Start this region again from a backup, or empty under a new region id"
                    ) from error
            seq = rows[-1].seq + 1
        self.replica.touched.clear()
        # What was read back may still lie in the operating system's cache only.
        await self.log.sync()
        self._recovered_seq = self.log.last_seq
        self.logged_vv = dict(self.replica.vv)
        self.durable_vv = dict(self.replica.vv)

    @property
    def durable_seq(self) -> int:
        return self._recovered_seq + self.durable_records

    # --- The tick -----------------------------------------------------------------------------

    def defer(self, callback: Callback) -> None:
        """Call back when everything done up to the end of this tick is durable, in order.

        ``callback(False)``: a commit failed, and whether the tick survives a crash is unknown.
        """
        self._callbacks.append(callback)
        self.schedule()

    def schedule(self) -> None:
        """See to it that this tick ends, once, after what the event loop has ready now."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._end_tick)

    def apply(self, batch: EffectBatch, encoded: bytes) -> None:
        """Apply a batch of a peer, which must be next, and serve the clients that waited for it.

        Raises:
            BatchError: it cannot be applied.  Nothing has changed then.
        """
        self.replica.receive(batch, encoded, self.now())
        self.schedule()

    def settle(self) -> None:
        """Serve blocked clients after something was applied; once per run of batches is enough."""
        now = self.now()
        for session, reply in self.database.settle(now) + self.database.settle_acks(now):
            self.deliver(session, reply)

    def _end_tick(self) -> None:
        self._scheduled = False
        try:
            self._close_tick()
        except BaseException as error:  # noqa: BLE001 - a bug of ours: the node must stop
            self._crash = error
            self._wake.set()
        if self._stopping:
            # ``run`` waits for the tick that was open when it was told to end.
            self._wake.set()

    def _close_tick(self) -> None:
        records = self.replica.take_records(self.now())
        self.database.note_sealed()
        callbacks, self._callbacks = self._callbacks, []
        self._arm_deadline()
        if records:
            size = sum(map(record_bytes, records))
            self._queue.append(Tick(records, callbacks, size))
            self._queued_bytes += size
            self._queued_records += len(records)
            self.congested = self.congested or self._queue_exceeds(1)
            self._wake.set()
            return
        if self._must_wait():
            # It may have seen what the commits under way are about to write.
            (self._queue[-1] if self._queue else self._committing[-1]).callbacks.extend(callbacks)
            return
        for callback in callbacks:
            callback(True)

    def _queue_exceeds(self, divisor: int) -> bool:
        """Whether more waits for the disk than the bound's ``divisor``-th part."""
        return (
            self._queued_bytes > QUEUE_BYTES_MAX // divisor
            or self._queued_records > self._queue_records_max // divisor
        )

    def _must_wait(self) -> bool:
        """Whether a tick without records has something before it that is not in the log.

        While the disk refuses, reads are answered: what they may see beyond the log are the
        ticks whose clients were told that the outcome is unknown.
        """
        return self.fault is None and bool(self._queue or self._committing)

    # --- The committer ------------------------------------------------------------------------

    async def run(self) -> None:
        """Commit what the ticks leave until ``stop``; the node's task for as long as it lives.

        Raises:
            BaseException: whatever broke in a tick, a bug; the node must end, having lost nothing
                that it acknowledged.
        """
        async with asyncio.TaskGroup() as tasks:
            syncer = None
            if self.fsync is not Fsync.ALWAYS:
                syncer = tasks.create_task(self._sync_now_and_then(SYNC_SECONDS[self.fsync]))
            # The clock goes on while a process is down: keys may be over that nobody asks for.
            self.schedule()
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._crash is not None:
                    raise self._crash
                while self._queue:
                    await self._commit()
                if self._stopping and not self._scheduled:
                    break
            if syncer is not None:
                syncer.cancel()

    def stop(self) -> None:
        """Let ``run`` end once everything queued is committed."""
        self._stopping = True
        self.schedule()
        asyncio.get_running_loop().call_soon(self._wake.set)

    def _take_ticks(self) -> list[Tick]:
        """The queued ticks that fit into one group commit, and at least one."""
        ticks = [self._queue.popleft()]
        count, size = len(ticks[0].records), ticks[0].bytes
        while self._queue:
            count += len(self._queue[0].records)
            size += self._queue[0].bytes
            if count > COMMIT_RECORDS_MAX or size > COMMIT_BYTES_MAX:
                break
            ticks.append(self._queue.popleft())
        return ticks

    async def _commit(self) -> None:
        """One group commit of what is queued, repeated until it succeeds."""
        ticks = self._committing = self._take_ticks()
        # A single tick may be larger than a commit should be; it is cut then, and only its last
        # part lets its callbacks go.
        waiting = [record for tick in ticks for record in tick.records]
        pause = RETRY_SECONDS_FIRST
        while waiting:
            records = waiting[:COMMIT_RECORDS_MAX]
            try:
                await self.log.append(records)
            except StoreError as error:
                self._fail(error)
                if self._stopping:
                    raise
                await asyncio.sleep(pause)
                pause = min(RETRY_SECONDS_MAX, pause * 2)
                continue
            self.stats.commits += 1
            self.stats.records_committed += len(records)
            del waiting[: len(records)]
            self._note_logged(records)
        self._committing = []
        self._queued_bytes -= sum(tick.bytes for tick in ticks)
        self._queued_records -= sum(len(tick.records) for tick in ticks)
        self._recover_from_fault()
        self._tell(ticks, ok=True)

    def _note_logged(self, records: list[Record]) -> None:
        for record in records:
            if record.batch is not None:
                self.logged_vv[record.origin] = record.last_n
        if self.fsync is Fsync.ALWAYS:
            self._note_durable(dict(self.logged_vv), self.stats.records_committed)
        for notify in self.on_logged:
            notify()

    def _tell(self, ticks: Iterable[Tick], *, ok: bool) -> None:
        for tick in ticks:
            callbacks, tick.callbacks = tick.callbacks, []
            for callback in callbacks:
                callback(ok)
        if self.congested and not self._queue_exceeds(2):
            self.congested = False
            for relieve in self.on_relief:
                relieve()

    def _fail(self, error: StoreError) -> None:
        """The disk refused: everyone who waits hears that the outcome is unknown."""
        self.stats.commit_failures += 1
        if self.fault is None:
            logger.error("the log cannot be written; writes are refused", reason=str(error))
        self.fault = str(error)
        self._refuse_or_accept()
        self._tell([*self._committing, *self._queue], ok=False)

    def _recover_from_fault(self) -> None:
        if self.fault is not None:
            logger.info("the log can be written again; writes are accepted")
            self.fault = None
            self._refuse_or_accept()

    async def _sync_now_and_then(self, seconds: float) -> None:
        """Make commits durable that were not synced by themselves."""
        while True:
            await asyncio.sleep(seconds)
            if self.durable_records != self.stats.records_committed:
                await self._sync()

    async def _sync(self) -> None:
        reached, reached_records = dict(self.logged_vv), self.stats.records_committed
        try:
            await self.log.sync()
        except StoreError as error:
            self._fail(error)
            return
        self._recover_from_fault()
        self._note_durable(reached, reached_records)
        for notify in self.on_logged:
            notify()

    def _note_durable(self, vv: MutableVersionVector, records: int) -> None:
        self.durable_vv = vv
        self.durable_records = records
        self._learn_stability()
        if not self.database.waiting_count:
            return
        # WAITAOF may wait for nothing but this.
        for session, reply in self.database.settle_acks(self.now()):
            self.deliver(session, reply)

    # --- Peers --------------------------------------------------------------------------------

    def peer_vvs(self) -> Mapping[Region, VersionVector]:
        """Per region the durable version vector that it was last heard to have."""
        return self._peer_vvs

    def learn_peer_vv(self, region: Region, vv: VersionVector) -> None:
        """A region's durable version vector, from its ack or heartbeat or by gossip."""
        known = self._peer_vvs.get(region)
        if region == self.replica.region or (known is not None and covers(known, vv)):
            return
        grown = dict(known or {})
        join(grown, vv)
        self._peer_vvs[region] = grown
        self.stability.learn(region, grown)
        self._learn_stability()
        for session, reply in self.database.settle_acks(self.now()):
            self.deliver(session, reply)

    def _learn_stability(self) -> None:
        """Drop what is kept only for effects that can no longer arrive."""
        if self.replica.kept_until_stable:
            self.replica.forget_stable(self.stability.stable(self.durable_vv))

    def set_stale(self, reason: str | None) -> None:
        """Stop issuing effects, or go on: this region has effects out there that it lost."""
        if (reason is None) is not (self.stale is None):
            if reason is None:
                logger.info("writes are accepted")
            else:
                logger.warning("writes are refused", reason=reason)
        self.stale = reason
        self.replica.may_issue = reason is None
        self._refuse_or_accept()

    def _refuse_or_accept(self) -> None:
        refused_before = self.database.fault is not None
        self.database.fault = self.fault if self.fault is not None else self.stale
        if refused_before and self.database.fault is None:
            # Keys whose time came meanwhile are still to be deleted.
            asyncio.get_running_loop().call_soon(self._expire)

    # --- Time ---------------------------------------------------------------------------------

    def _arm_deadline(self) -> None:
        """Have the first of the blocked clients answered when its time is over."""
        deadline = self.database.next_deadline()
        if deadline == self._deadline:
            return
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        self._deadline = deadline
        if deadline is not None:
            seconds = max(0, deadline - self.now()) / 1000
            loop = asyncio.get_running_loop()
            self._deadline_timer = loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._deadline = self._deadline_timer = None
        for session, reply in self.database.expire(self.now()):
            self.deliver(session, reply)
        self.schedule()
