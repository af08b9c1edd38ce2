"""The engine: the loop around a region that makes records durable and hands on what may leave.

    region.ready() ──> records ──> queue ──> committer ──> log (one group commit) ──┐
         ^                                                                          │
         └───────────────────── note_logged, note_durable, note_refused <───────────┘

It decides nothing.  Ticks go on while a commit is under way; what they leave queues, and the next
commit takes all of it.  When the disk refuses, the same records are tried again, with growing
pauses.  The log is one task's; everything else runs between two turns of the event loop, and
nothing here awaits between reading the region and changing it, so there are no locks.
"""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Final, Generic, TypeVar

import structlog

from crdtstream.core.effects import Record, record_bytes
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.uid import UID_BYTES, DatabaseUid
from crdtstream.folder import write_change
from crdtstream.region.histogram import Histogram
from crdtstream.region.ready import Notice, Parcel, Ready
from crdtstream.region.region import Region
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, Log

T = TypeVar("T")
logger = structlog.get_logger(__name__)

# Between two syncs when commits do not sync: about what Redis does, and what Linux does by itself.
SYNC_SECONDS: Final = {Fsync.EVERYSEC: 1.0, Fsync.NO: 30.0}
# One group commit; more would make the first of its clients wait for the last one's bytes.
COMMIT_RECORDS_MAX: Final = 1_000
COMMIT_BYTES_MAX: Final = 16 << 20
RETRY_SECONDS_FIRST: Final = 0.05
RETRY_SECONDS_MAX: Final = 5.0
FOLDER_RETRY_SECONDS: Final = 1.0
# How often a program's change looks whether it may go ahead.
HELD_BACK_SECONDS: Final = 0.02

COMMIT_US_BOUNDS: Final = (
    *(100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000),
    *(250_000, 500_000, 1_000_000, 2_500_000, 5_000_000),
)
COMMIT_RECORDS_BOUNDS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000)


class OutcomeUnknownError(Exception):
    """The disk refused while a change was being made durable: it may be written, or not."""


@dataclass(slots=True)
class EngineStats:
    """Counters since the engine was made.

    Attributes:
        batches_committed: of the records committed, those with effects; the others are local.
        commit_us: how long the commits took that succeeded, in microseconds.
        commit_records: how many records each of them had.
        sync_us: how long syncs took that were no part of a commit.
    """

    commits: int = 0
    records_committed: int = 0
    batches_committed: int = 0
    bytes_committed: int = 0
    commit_failures: int = 0
    commit_us: Histogram = field(default_factory=lambda: Histogram(COMMIT_US_BOUNDS))
    commit_records: Histogram = field(default_factory=lambda: Histogram(COMMIT_RECORDS_BOUNDS))
    sync_us: Histogram = field(default_factory=lambda: Histogram(COMMIT_US_BOUNDS))


def wall_clock() -> Millis:
    """Milliseconds since the epoch, as this machine believes."""
    return Millis(time.time_ns() // 1_000_000)


def wall_clock_off_by(offset_ms: int) -> Callable[[], Millis]:
    """The wall clock of a machine whose time is wrong."""
    if not offset_ms:
        return wall_clock
    return lambda: Millis(time.time_ns() // 1_000_000 + offset_ms)


def random_uid() -> DatabaseUid:
    return DatabaseUid(secrets.token_bytes(UID_BYTES))


def uniform(low: float, high: float) -> float:
    return SystemRandom().uniform(low, high)


class Engine:
    """The one owner of a region and its log.

    Attributes:
        now: this machine's clock, for whoever gives the region something.
        on_link: what to call when a link has something to do, by link.
    """

    def __init__(
        self,
        region: Region,
        log: Log,
        *,
        fsync: Fsync = Fsync.ALWAYS,
        now: Callable[[], Millis] = wall_clock,
    ) -> None:
        self.region = region
        self.log = log
        self.fsync = fsync
        self.now = now
        self.stats = EngineStats()
        self.on_link: dict[object, Callable[[], None]] = {}
        self._scheduled = False
        self._queue: deque[Record] = deque()
        self._wake = asyncio.Event()
        self._folder_wake = asyncio.Event()
        self._applies = False
        self._stopping = False
        self._crash: BaseException | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._deadline: Millis | None = None

    async def begin(self) -> None:
        """Have the folder say what it is to say by now; before anything is served.

        Raises:
            StoreError: the folder cannot be written.
        """
        self.region.tick.on_open = self._schedule
        await self._follow_folder()
        self._schedule()

    # --- The tick -----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """See to it that the tick ends, once, after what the event loop has ready now."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._end_tick)

    def _end_tick(self) -> None:
        self._scheduled = False
        with self._stopping_on_bugs():
            self._hand_on(self.region.ready(self.now()))
        if self._stopping:
            # ``run`` waits for the tick that was open when it was told to end.
            self._wake.set()

    @contextlib.contextmanager
    def _stopping_on_bugs(self) -> Iterator[None]:
        """Have ``run`` raise what goes wrong here: a bug of ours, and the node must stop."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised where it can be
            self._crash = error
            self._wake.set()

    def _hand_on(self, ready: Ready) -> None:
        """Do what a Ready says."""
        if ready.records:
            self._queue.extend(ready.records)
            self._wake.set()
        ready.tell()
        for receiver in ready.woken:
            receiver.resume()
        for link in ready.links:
            wake = self.on_link.get(link)
            if wake is not None:
                wake()
        if ready.folder is not None:
            self._folder_wake.set()
        if ready.applies and not self._applies:
            self._applies = True
            asyncio.get_running_loop().call_soon(self._apply)
        if ready.deadline != self._deadline:
            self._arm(ready.deadline)
        for notice in ready.notices:
            _log(notice)

    def _apply(self) -> None:
        self._applies = False
        with self._stopping_on_bugs():
            self.region.apply_arrivals(self.now())

    def _arm(self, deadline: Millis | None) -> None:
        """Have time passed to the region when it asked for it."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        self._deadline = deadline
        if deadline is not None:
            seconds = max(0, deadline - self.now()) / 1000
            loop = asyncio.get_running_loop()
            self._deadline_timer = loop.call_later(seconds, self._pass_time)

    def _pass_time(self) -> None:
        self._deadline = self._deadline_timer = None
        with self._stopping_on_bugs():
            self.region.pass_time(self.now())

    # --- The log ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Commit what the ticks leave until ``stop``; the node's task for as long as it lives.

        Raises:
            BaseException: whatever broke in a tick, a bug; the node must end, having lost nothing
                that it acknowledged.
        """
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(self._follow_folder_for_ever())]
            if self.fsync is not Fsync.ALWAYS:
                background.append(
                    tasks.create_task(self._sync_now_and_then(SYNC_SECONDS[self.fsync]))
                )
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._crash is not None:
                    raise self._crash
                while self._queue:
                    await self._commit()
                if self._stopping and not self._scheduled:
                    break
            for task in background:
                task.cancel()

    def stop(self) -> None:
        """Let ``run`` end once everything queued is committed."""
        self._stopping = True
        self._schedule()
        asyncio.get_running_loop().call_soon(self._wake.set)

    def _take_records(self) -> list[Record]:
        """The queued records that fit into one group commit, and at least one."""
        records = [self._queue.popleft()]
        size = record_bytes(records[0])
        while self._queue and len(records) < COMMIT_RECORDS_MAX:
            size += record_bytes(self._queue[0])
            if size > COMMIT_BYTES_MAX:
                break
            records.append(self._queue.popleft())
        return records

    async def _commit(self) -> None:
        """One group commit of what is queued, repeated until it succeeds."""
        records = self._take_records()
        pause = RETRY_SECONDS_FIRST
        while True:
            began_ns = time.perf_counter_ns()
            try:
                await self.log.append(records)
                break
            except StoreError as error:
                self._note_refused(error)
                if self._stopping:
                    raise
                await asyncio.sleep(pause)
                pause = min(RETRY_SECONDS_MAX, pause * 2)
        self._count_commit(records, time.perf_counter_ns() - began_ns)
        is_durable = self.fsync is Fsync.ALWAYS
        self.region.note_logged(self.log.last_seq, self.now(), durable=is_durable)
        # Who waits for this commit need not wait for the event loop's next turn.
        self._end_tick()

    def _count_commit(self, records: Sequence[Record], ns: int) -> None:
        stats = self.stats
        stats.commits += 1
        stats.records_committed += len(records)
        stats.batches_committed += sum(record.batch is not None for record in records)
        stats.bytes_committed += sum(map(record_bytes, records))
        stats.commit_us.note(ns // 1000)
        stats.commit_records.note(len(records))

    def _note_refused(self, error: StoreError) -> None:
        self.stats.commit_failures += 1
        self.region.note_refused(str(error))
        self._end_tick()

    async def _sync_now_and_then(self, seconds: float) -> None:
        """Make commits durable that were not synced by themselves."""
        outstanding = self.region.outstanding
        while True:
            await asyncio.sleep(seconds)
            if outstanding.durable_seq != outstanding.logged_seq:
                await self._sync()

    async def _sync(self) -> None:
        mark = self.region.outstanding.mark()
        began_ns = time.perf_counter_ns()
        try:
            await self.log.sync()
        except StoreError as error:
            self._note_refused(error)
            return
        self.stats.sync_us.note((time.perf_counter_ns() - began_ns) // 1000)
        self.region.note_synced(mark, self.now())

    # --- The folder ---------------------------------------------------------------------------

    async def _follow_folder(self) -> None:
        """Write what the folder is to say by now.

        Raises:
            StoreError: it cannot be written.
        """
        while (change := self.region.opening.folder_change) is not None:
            await write_change(self.log, change)
            self.region.note_folder(change)

    async def _follow_folder_for_ever(self) -> None:
        while True:
            await self._folder_wake.wait()
            self._folder_wake.clear()
            try:
                await self._follow_folder()
            except StoreError as error:
                logger.error("the folder cannot be written; it is tried again", reason=str(error))
                await asyncio.sleep(FOLDER_RETRY_SECONDS)
                self._folder_wake.set()

    # --- Programs -----------------------------------------------------------------------------

    async def change(self, change: Callable[[Replica, Millis], T], *, writes: int = 1) -> T:
        """Change the replica; returns once everything seen and done is in the log.

        Args:
            writes: how many it counts as while what lags is bounded.

        Raises:
            CommandError: writes are refused; nothing has changed then.  Or what ``change`` raises.
            OutcomeUnknownError: the disk refused.
        """
        region = self.region
        asked_ms = self.now()
        while self._holds_back(writes, asked_ms):  # noqa: ASYNC110 - nobody tells when it is over
            await asyncio.sleep(HELD_BACK_SECONDS)
        program = _Program[T]()
        region.change(self.now(), change, program, writes=writes)
        return await program.told

    def _holds_back(self, writes: int, asked_ms: Millis) -> bool:
        """Whether a program that asked to write then has to wait."""
        region = self.region
        return (
            region.is_congested
            or region.database.pause is not None
            or region.staleness.holds_back(writes, asked_ms, self.now())
        )


class _Program(Generic[T]):
    """A program that waits for the result of its change."""

    def __init__(self) -> None:
        self.told: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def receive(self, parcel: Parcel) -> None:
        # Who asked may have gone.
        if self.told.done():
            return
        if parcel.certain:
            self.told.set_result(parcel.chunks[0])
        else:
            self.told.set_exception(OutcomeUnknownError())

    def resume(self) -> None:
        raise AssertionError("a program's change never blocks")


def _log(notice: Notice) -> None:
    getattr(logger, notice.level)(notice.text, **notice.details)
