"""The engine: the loop around a region that makes records durable and hands on what may leave.

    region.ready() ──> records ──> log: at once, where the tick ends ───────────────┐
         ^                │                                                         │
         │                └─> queue ──> committer ──> log (one group commit) ───────┤
         └───────────────────── note_logged, note_durable, note_refused <───────────┘

It decides nothing.  A commit that takes little time is made where the tick ends, and its replies
leave in the same turn of the event loop; whether it does is for the log to say.  Otherwise the
records queue, ticks go on while a commit is under way, and the next commit takes all that they
leave.  When the disk refuses, the same records are tried again, with growing pauses.

While the committer is about something nothing is committed past it.  So the log has one user at a
time; everything else runs between two turns of the event loop, and nothing here awaits between
reading the region and changing it, so there are no locks.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

import structlog

from crdtstream.core.effects import Record, record_bytes, replay_us
from crdtstream.core.ids import Millis
from crdtstream.core.lanes.cold import ColdError
from crdtstream.core.membership.deciding import Letter
from crdtstream.core.replica import Replica
from crdtstream.core.size import Seconds, Size
from crdtstream.engine_stats import EngineStats
from crdtstream.folder import write_change
from crdtstream.machine import wall_clock
from crdtstream.programs import Program, Reader
from crdtstream.region.ready import News, Notice, Ready
from crdtstream.region.region import Region
from crdtstream.store.errors import FolderGoneError, NoRoomError, StoreError
from crdtstream.store.log import Fsync, Log, next_commit

T = TypeVar("T")
logger = structlog.get_logger(__name__)

# Between two syncs when commits do not sync: about what Redis does, and what Linux does by itself.
SYNC_SECONDS: Final = {Fsync.EVERYSEC: 1.0, Fsync.NO: 30.0}
RETRY_SECONDS_FIRST: Final = Seconds(0.05, least=0.001)
RETRY_SECONDS_MAX: Final = Seconds(5.0, least=0.001)
FOLDER_RETRY_SECONDS: Final = Seconds(1.0, least=0.001)
# How often it looks whether the folder is still there.
FOLDER_LOOK_SECONDS: Final = Seconds(1.0, least=0.01)
# How many requests for entries on disk are read at a time.
FETCHES_AT_ONCE: Final = Size(4, least=1)
# How often a program's change looks whether it may go ahead.
HELD_BACK_SECONDS: Final = Seconds(0.02, least=0.001)


class Images(Protocol):
    """Where entries are that are on disk only."""

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The bodies of images, as they are kept; what is read ahead may be missing.

        Raises:
            StoreError: the first one cannot be read.
        """


class Engine:
    """The one owner of a region and its log.

    Attributes:
        fsync: when commits are on the disk for good, at present.
        now: this machine's clock, for whoever gives the region something.
        on_link: what to call when a link has something to do, by link.
        on_letters: given messages for other regions' parts in deciding who is a member.
        on_logged: told by how many bytes the log has grown, and how long a restart takes to replay
            them, in microseconds.
        standing_changed: set when the region takes writes, or knows its database, and did not
            before, or the other way round.
    """

    def __init__(
        self,
        region: Region,
        log: Log,
        *,
        fsync: Fsync = Fsync.ALWAYS,
        now: Callable[[], Millis] = wall_clock,
        images: Images | None = None,
    ) -> None:
        """An engine of a region.

        Args:
            images: reads entries that are on disk; None: all are in memory.
        """
        self.region = region
        self.log = log
        self.fsync = fsync
        self.now = now
        self.stats = EngineStats()
        self.on_link: dict[object, Callable[[], None]] = {}
        self._scheduled = False
        self._images = images
        self._requests: deque[tuple[int, ...]] = deque()
        self._request_came = asyncio.Event()
        self._queue: deque[Record] = deque()
        # Since when the oldest of them waits.
        self._queued_ns = 0
        # A commit that was refused where its tick ended.
        self._refused: Sequence[Record] = ()
        # The committer has nothing to do, but for what ``_wake`` will tell it.
        self._rests = False
        self._wake = asyncio.Event()
        self._folder_wake = asyncio.Event()
        self._fsync_changed = asyncio.Event()
        region.durability.appendfsync = fsync.value
        region.durability.on_change = self._wake.set
        self.standing_changed = asyncio.Event()
        self._takes_writes = self._knows_database = False
        self._applies = False
        self._stopping = False
        self._crash: BaseException | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._deadline: Millis | None = None
        # Who waits until the log has so much.
        self._logged: list[tuple[int, asyncio.Future[None]]] = []
        self.on_logged: Callable[[int, int], None] = _nobody_counts
        self.on_letters: Callable[[Sequence[Letter | News]], None] = _nobody_delivers

    async def begin(self) -> None:
        """Have the folder say what it is to say by now; before anything is served.

        On a full disk the region is read until there is room.

        Raises:
            StoreError: the folder cannot be written.
        """
        self.region.tick.on_open = self._schedule
        try:
            await self.log.look()
            await self._follow_folder()
        except NoRoomError as error:
            self.region.note_refused(str(error))
            self._folder_wake.set()
        self._schedule()

    # --- The tick -----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """See to it that the tick ends, once, after what the event loop has ready now."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._end_scheduled_tick)

    def _end_scheduled_tick(self) -> None:
        # Somebody may have ended it before.
        if self._scheduled:
            self._end_tick()

    def _end_tick(self) -> None:
        if self._crash is not None:
            # Half of something may have been done: nothing of it is logged, or told.
            self._scheduled = False
            return
        with self._stopping_on_bugs():
            goes_on = True
            while goes_on:
                self._scheduled = False
                ready = self.region.ready(self.now())
                self._hand_on(ready)
                # What waited for a commit that was made at once is told by the next Ready.
                goes_on = bool(ready.records) and self._log(ready.records)
            self._look_at_standing()
        if self._stopping:
            # ``run`` waits for the tick that was open when it was told to end.
            self._wake.set()

    def _look_at_standing(self) -> None:
        """Whatever changes it happens within a tick."""
        region = self.region
        takes_writes = region.refuses_writes is None
        knows_database = bool(region.replica.database_uid)
        if takes_writes is not self._takes_writes or knows_database is not self._knows_database:
            self._takes_writes, self._knows_database = takes_writes, knows_database
            self.standing_changed.set()

    @contextlib.contextmanager
    def _stopping_on_bugs(self) -> Iterator[None]:
        """Have ``run`` raise what goes wrong here: a bug of ours, and the node must stop."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised where it can be
            self.stop_on_bug(error)

    def stop_on_bug(self, error: BaseException) -> None:
        """Have ``run`` raise what broke in the middle of something; no tick ends any more."""
        if self._crash is None:
            self._crash = error
        self._wake.set()

    def _hand_on(self, ready: Ready) -> None:
        """Do what a Ready says, but for its records."""
        ready.tell()
        for receiver in ready.woken:
            receiver.resume()
        for link in ready.links:
            wake = self.on_link.get(link)
            if wake is not None:
                wake()
        if ready.fetch:
            self._requests.extend(ready.fetch)
            self._request_came.set()
        if ready.letters:
            self.on_letters(ready.letters)
        if ready.folder is not None:
            self._folder_wake.set()
        if ready.applies and not self._applies:
            self._applies = True
            asyncio.get_running_loop().call_soon(self._apply)
        if ready.deadline != self._deadline:
            self._arm(ready.deadline)
        for notice in ready.notices:
            _log_notice(notice)

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

    # --- Checkpoints --------------------------------------------------------------------------

    def end_tick(self) -> int:
        """End the open tick; returns the position of the last record that there is then.

        All that the replica has is in records then: a client that is woken may write at once what
        it holds, and that tick is ended as well.
        """
        self._end_tick()
        while self.region.replica.has_untaken_records and self._crash is None:
            self._end_tick()
        return self.region.outstanding.left_seq

    async def wait_logged(self, seq: int) -> None:
        """Return when the log has everything up to this position."""
        if self.region.outstanding.logged_seq >= seq:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._logged.append((seq, told))
        await told

    def _tell_logged(self) -> None:
        if not self._logged:
            return
        logged_seq = self.region.outstanding.logged_seq
        waiting, self._logged = self._logged, []
        for seq, told in waiting:
            if seq > logged_seq:
                self._logged.append((seq, told))
            elif not told.done():
                told.set_result(None)

    # --- The log ------------------------------------------------------------------------------

    def _log(self, records: Sequence[Record]) -> bool:
        """Commit the records at once, or leave them to the committer.

        Returns:
            Whether it is known by now what became of them, so that the next Ready can tell it.
        """
        if self._rests and not self._wake.is_set():
            began_ns = time.perf_counter_ns()
            try:
                is_logged = self.log.append_at_once(records)
            except StoreError as error:
                self._refused = records
                self._wake.set()
                self._count_refusal(error)
                return True
            if is_logged:
                self.stats.commits_at_once += 1
                # The tick that this opens is ended by who called.
                self._scheduled = True
                ended_ns = time.perf_counter_ns()
                self.region.answer_time.note_logged(ended_ns - began_ns, ended_ns)
                self._note_logged(records, ended_ns - began_ns)
                return True
        if not self._queue:
            self._queued_ns = time.perf_counter_ns()
        self._queue.extend(records)
        self._wake.set()
        return False

    async def run(self) -> None:
        """Commit what the ticks leave until ``stop``; the node's task for as long as it lives.

        Raises:
            BaseException: whatever broke in a tick, a bug; the node must end, having lost nothing
                that it acknowledged.
        """
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._follow_folder_for_ever()),
                tasks.create_task(self._sync_now_and_then()),
                tasks.create_task(self._look_at_folder_for_ever()),
            ]
            if self._images is not None:
                fetches = [self._fetch_for_ever(self._images) for _ in range(FETCHES_AT_ONCE.value)]
                background += map(tasks.create_task, fetches)
            while True:
                self._rests = True
                try:
                    await self._wake.wait()
                finally:
                    self._rests = False
                self._wake.clear()
                if self._crash is not None:
                    raise self._crash
                await self._follow_fsync()
                while (self._queue or self._refused) and self._crash is None:
                    await self._commit()
                    # Perhaps it did not have to wait for anything: others have their turn.
                    await asyncio.sleep(0)
                    await self._follow_fsync()
                if self._crash is not None:
                    raise self._crash
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
        records = next_commit(self._queue)
        for _ in records:
            self._queue.popleft()
        return records

    async def _commit(self) -> None:
        """One group commit of what is queued, repeated until it succeeds."""
        records, is_refused = self._refused, bool(self._refused)
        answer_time = self.region.answer_time
        answer_time.log_waits_since_ns = waits_since_ns = time.perf_counter_ns()
        if not is_refused:
            answer_time.log_waits_since_ns = waits_since_ns = self._queued_ns
            records = self._take_records()
            # What is left has waited for about as long as those that come meanwhile.
            self._queued_ns = time.perf_counter_ns()
        pause = RETRY_SECONDS_FIRST.value
        while True:
            if is_refused:
                await asyncio.sleep(pause)
                pause = min(RETRY_SECONDS_MAX.value, pause * 2)
            began_ns = time.perf_counter_ns()
            try:
                await self.log.append(records)
                break
            except StoreError as error:
                self._note_refused(error)
                if self._stopping or self._crash is not None:
                    raise
                is_refused = True
        self._refused = ()
        ended_ns = time.perf_counter_ns()
        answer_time.log_waits_since_ns = None
        answer_time.note_logged(ended_ns - waits_since_ns, ended_ns)
        self._note_logged(records, ended_ns - began_ns)
        # Who waits for this commit need not wait for the event loop's next turn.
        self._end_tick()

    def _note_logged(self, records: Sequence[Record], ns: int) -> None:
        """A commit of these succeeded; it took so long."""
        self._count_commit(records, ns)
        is_durable = self.fsync is Fsync.ALWAYS
        self.region.note_logged(self.log.last_seq, self.now(), durable=is_durable)
        self._tell_logged()

    def _count_commit(self, records: Sequence[Record], ns: int) -> None:
        stats = self.stats
        stats.commits += 1
        stats.records_committed += len(records)
        stats.batches_committed += sum(record.batch is not None for record in records)
        size = sum(map(record_bytes, records))
        stats.bytes_committed += size
        self.on_logged(size, sum(map(replay_us, records)))
        stats.commit_us.note(ns // 1000)
        stats.commit_records.note(len(records))

    def _note_refused(self, error: StoreError) -> None:
        self._count_refusal(error)
        self._end_tick()

    def _count_refusal(self, error: StoreError) -> None:
        self.stats.commit_failures += 1
        self.region.note_refused(str(error))

    # --- When commits are synced --------------------------------------------------------------

    async def _follow_fsync(self) -> None:
        """Commit as the operator wants it from here on."""
        wanted = Fsync(self.region.durability.appendfsync)
        if wanted is self.fsync:
            return
        try:
            await self.set_fsync(wanted)
        except StoreError as error:
            self._note_refused(error)
            asyncio.get_running_loop().call_later(RETRY_SECONDS_MAX.value, self._wake.set)
            return
        logger.info("appendfsync changed", appendfsync=wanted.value)

    async def set_fsync(self, fsync: Fsync) -> None:
        """Have commits be on the disk for good as this says, from the next one on.

        With ``ALWAYS`` all that is committed is durable when it returns.  Only the task that
        commits may call this.

        Raises:
            StoreError: the disk refused; it stays as it was.
        """
        region = self.region
        if fsync is Fsync.ALWAYS:
            mark = region.outstanding.mark()
            await self.log.sync()
            region.note_synced(mark, self.now())
        await self.log.set_fsync(fsync)
        self.fsync = fsync
        self._fsync_changed.set()
        self._end_tick()

    async def _sync_now_and_then(self) -> None:
        """Make commits durable that were not synced by themselves."""
        outstanding = self.region.outstanding
        while True:
            seconds = SYNC_SECONDS.get(self.fsync)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._fsync_changed.wait()
                    self._fsync_changed.clear()
                    continue
            if outstanding.durable_seq != outstanding.logged_seq:
                await self._sync()

    async def _sync(self) -> bool:
        """Make durable what is committed; whether the disk did not refuse."""
        mark = self.region.outstanding.mark()
        began_ns = time.perf_counter_ns()
        try:
            await self.log.sync()
        except StoreError as error:
            self._note_refused(error)
            return False
        self.stats.sync_us.note((time.perf_counter_ns() - began_ns) // 1000)
        self.region.note_synced(mark, self.now())
        return True

    # --- The folder ---------------------------------------------------------------------------

    async def _follow_folder(self) -> None:
        """Write what the folder is to say by now.

        Raises:
            StoreError: it cannot be written.
        """
        while (change := self.region.folder_change) is not None:
            await write_change(self.log, change)
            self.region.note_folder(change, self.now())

    async def _follow_folder_for_ever(self) -> None:
        told = ""
        while True:
            await self._folder_wake.wait()
            self._folder_wake.clear()
            try:
                await self._follow_folder()
                if told:
                    logger.info("the folder is written again")
                    told = ""
            except StoreError as error:
                # Once: a log on the same disk would take what little room there comes to be.
                if str(error) != told:
                    told = str(error)
                    logger.error("the folder cannot be written; it is tried again", reason=told)
                await asyncio.sleep(FOLDER_RETRY_SECONDS.value)
                self._folder_wake.set()

    async def _look_at_folder_for_ever(self) -> None:
        """Refuse writes while what is committed is not where a restart will look for it."""
        # What a start on a full disk refused is taken again here, too.
        is_refused = self.region.fault is not None
        while True:
            await asyncio.sleep(FOLDER_LOOK_SECONDS.value)
            try:
                await self.log.look()
            except StoreError as error:
                is_refused = True
                self.region.outstanding.is_gone = isinstance(error, FolderGoneError)
                if self.region.fault != str(error):
                    self.region.note_refused(str(error))
                    self._end_tick()
                continue
            self.region.outstanding.is_gone = False
            if is_refused:
                is_refused = not await self._sync()

    # --- Entries that are on disk -------------------------------------------------------------

    async def _fetch_for_ever(self, images: Images) -> None:
        """Read what the region asks for, one request after the other."""
        while True:
            await self._request_came.wait()
            if not self._requests:
                self._request_came.clear()
                continue
            asked = self._requests.popleft()
            began_ns = time.perf_counter_ns()
            try:
                bodies = await images.fetch(asked)
            except StoreError as error:
                self.region.note_fetch_failed(asked, str(error), self.now())
                continue
            self.stats.fetch_us.note((time.perf_counter_ns() - began_ns) // 1000)
            with self._stopping_on_bugs():
                self.region.note_fetched(asked, bodies, self.now())
            # Who waits for these entries need not wait for the event loop's next turn.
            self._end_tick()

    # --- Programs -----------------------------------------------------------------------------

    async def change(
        self, change: Callable[[Replica, Millis], T], *, writes: int = 1, adds: bool = False
    ) -> T:
        """Change the replica; returns once everything seen and done is in the log.

        Args:
            writes: how many it counts as while what lags is bounded.
            adds: it adds data, for which there must be room.

        Raises:
            CommandError: writes are refused; nothing has changed then.  Or what ``change`` raises.
            UnreadableError: entries cannot be read from disk; nothing has changed.
            OutcomeUnknownError: the disk refused.
        """
        region = self.region
        asked_ms = self.now()
        program = Program[T]()
        reader = Reader(region)
        while True:
            while self._holds_back(writes, asked_ms):  # noqa: ASYNC110 - nobody tells the end of it
                await asyncio.sleep(HELD_BACK_SECONDS.value)
            try:
                with reader.in_place_at_last():
                    region.change(self.now(), change, program, writes=writes, adds=adds)
            except ColdError as error:
                await reader.fetch(error.images)
            else:
                return await program.told

    async def read(self, look: Callable[[], T]) -> T:
        """Look at entries of the replica; those that are on disk only are read before.

        Args:
            look: is called again each time that some were read.  It changes nothing.

        Raises:
            UnreadableError: they cannot be read.
        """
        reader = Reader(self.region)
        while True:
            try:
                with reader.in_place_at_last():
                    return look()
            except ColdError as error:
                await reader.fetch(error.images)

    async def fetch(self, images: Sequence[int]) -> None:
        """Have entries in memory that are on disk only.

        Raises:
            UnreadableError: they cannot be read.
        """
        await Reader(self.region).fetch(images)

    def _holds_back(self, writes: int, asked_ms: Millis) -> bool:
        """Whether a program that asked to write then has to wait."""
        region = self.region
        return (
            region.is_congested
            or region.database.pause is not None
            or region.staleness.holds_back(writes, asked_ms, self.now())
        )


def _nobody_counts(size: int, replay_us: int) -> None:
    """Nobody makes checkpoints."""


def _nobody_delivers(letters: Sequence[Letter | News]) -> None:
    """They are lost."""


def _log_notice(notice: Notice) -> None:
    getattr(logger, notice.level)(notice.text, **notice.details)
