"""The engine: the agenda of a region, done with asyncio and a disk.

    region ──> agenda ──> Ready ──> clients, links, letters
                 │  ^
                 │  └───────────── outcomes ──────────────┐
                 ├─> a commit: at once, where the tick ends, or by the committer ──> log
                 ├─> a sync, another appendfsync, the folder ──────────────────────> log
                 ├─> entries on disk ─────────────────────────────────────> images
                 └─> timers: the deadline, backoffs

The engine decides nothing: what is done next, and with which records, ``agenda.py`` says.  Short
commits are made where the tick ends, and their replies leave in the same turn of the event loop;
the log says which commits are short.  Otherwise the committer makes them, and ticks go on
meanwhile.

While the committer works nothing is committed past it, so the log has one user at a time.
Everything else runs between two turns of the event loop.  Nothing here awaits between reading the
region and changing it, so no locks are needed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeVar

import structlog

from crdtstream.core.effects import Record
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica
from crdtstream.core.size import Seconds, Size
from crdtstream.engine.agenda import Agenda
from crdtstream.engine.folder import write_change
from crdtstream.engine.programs import Program, Reader, attempts
from crdtstream.engine.stats import EngineStats
from crdtstream.engine.turns import next_beat, until_beat
from crdtstream.machine.inputs import wall_clock
from crdtstream.region.outstanding import Mark
from crdtstream.region.ready import AnyLetter, Notice, Ready
from crdtstream.region.region import Region
from crdtstream.store.errors import FolderGoneError, NoRoomError, StoreError
from crdtstream.store.log import Fsync, Log

T = TypeVar("T")
logger = structlog.get_logger(__name__)

# Interval at which it looks whether the folder still exists.
FOLDER_LOOK_SECONDS: Final = Seconds(1.0, least=0.01)
# Number of requests for entries on disk that are read at a time.
FETCHES_AT_ONCE: Final = Size(4, least=1)
# Interval at which a program's change looks whether it may run.
HELD_BACK_SECONDS: Final = Seconds(0.02, least=0.001)


class Images(Protocol):
    """Reader of entries that are on disk only."""

    async def fetch(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Bodies of images, as they are kept; those that are read ahead may be missing.

        Raises:
            StoreError: the first one cannot be read.
        """


class Engine:
    """The one owner of a region and its log.

    Attributes:
        now: this machine's clock, for all that pass something to the region.
        on_link: function to call when a link has something to do, by link.
        on_letters: called with messages for other regions' parts in deciding on members.
        standing_changed: set when the region begins or ceases to take writes, or to know its
            database.
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
        self.now = now
        self._agenda = Agenda(region, fsync)
        self.stats = EngineStats()
        self.on_link: dict[object, Callable[[], None]] = {}
        self._scheduled = False
        self._images = images
        self._request_came = asyncio.Event()
        # Since when the oldest queued record waits, and that of the commit that is next.
        self._queued_ns = self._waits_since_ns = 0
        # The committer has nothing to do until ``_wake`` is set.
        self._rests = False
        self._wake = asyncio.Event()
        self._folder_wake = asyncio.Event()
        self._fsync_changed = asyncio.Event()
        region.durability.on_change = self._wake.set
        self.standing_changed = asyncio.Event()
        self._takes_writes = self._knows_database = False
        self._apply_is_scheduled = False
        self._stopping = False
        self._crash: BaseException | None = None
        self._deadline_timer: asyncio.TimerHandle | None = None
        # The deadline for which the timer is set.
        self._armed: Millis | None = None
        # Futures of callers that wait until the log has a position.
        self._logged: list[tuple[int, asyncio.Future[None]]] = []
        self.on_letters: Callable[[Sequence[AnyLetter]], None] = _nobody_delivers

    @property
    def fsync(self) -> Fsync:
        """The present rule of when commits become durable."""
        return self._agenda.fsync

    async def begin(self) -> None:
        """Let the folder say what it is to say by now; before anything is served.

        On a full disk the region can be read until space is free.

        Raises:
            StoreError: the folder cannot be written.
        """
        self.region.tick.on_open = self._schedule
        try:
            await self.log.look()
            await self._follow_folder()
        except NoRoomError as error:
            self._agenda.note_folder_missing(str(error), is_gone=False)
            self._folder_wake.set()
        self._schedule()

    # --- The tick -----------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Schedule the end of the tick, once, after what the event loop has ready now."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._end_scheduled_tick)

    def _end_scheduled_tick(self) -> None:
        # Another caller may have ended it before.
        if self._scheduled:
            self._end_tick()

    def _end_tick(self) -> None:
        if self._crash is not None:
            # Half of something may have been done: nothing of it is logged, or reported.
            self._scheduled = False
            return
        agenda = self._agenda
        try:
            now: Millis | None = self.now()
            while now is not None:
                self._scheduled = False
                ready = agenda.end_tick(now)
                if ready.parcels or ready.woken:
                    ready.tell()
                self._hand_on(ready)
                # What waited for a commit that was made at once is told by the next Ready.
                now = self._commit_at_once(len(ready.records)) if ready.records else None
            if self._logged:
                self._tell_logged()
            self._look_at_standing()
        except BaseException as error:  # noqa: BLE001 - it is raised where it can be
            self.stop_on_bug(error)
        if self._stopping:
            # ``run`` waits for the tick that was open when ``stop`` was called.
            self._wake.set()

    def _look_at_standing(self) -> None:
        """Look at the standing; it changes only within a tick."""
        region = self.region
        takes_writes = region.refuses_writes is None
        knows_database = bool(region.replica.database_uid)
        if takes_writes is not self._takes_writes or knows_database is not self._knows_database:
            self._takes_writes, self._knows_database = takes_writes, knows_database
            self.standing_changed.set()

    @contextlib.contextmanager
    def _stopping_on_bugs(self) -> Iterator[None]:
        """Let ``run`` raise what fails here: it is a bug of ours, and the node must stop."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - it is raised where it can be
            self.stop_on_bug(error)

    def stop_on_bug(self, error: BaseException) -> None:
        """Let ``run`` raise what broke in the middle of something; no tick ends any more."""
        if self._crash is None:
            self._crash = error
        self._wake.set()

    def _hand_on(self, ready: Ready) -> None:
        """Hand on what links, peers and the operator get, and wake the tasks of what is due."""
        agenda = self._agenda
        for link in ready.links:
            wake = self.on_link.get(link)
            if wake is not None:
                wake()
        if ready.fetch:
            self._request_came.set()
        if ready.letters:
            self.on_letters(ready.letters)
        if agenda.folder_is_due:
            self._folder_wake.set()
        if agenda.applies and not self._apply_is_scheduled:
            self._apply_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._apply)
        deadline = agenda.deadline
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._arm(deadline)
        for notice in ready.notices:
            _log_notice(notice)

    def _apply(self) -> None:
        self._apply_is_scheduled = False
        with self._stopping_on_bugs():
            self._agenda.apply(self.now())

    def _arm(self, deadline: Millis) -> None:
        """Schedule the call that passes time to the region when it asked for it.

        If the deadline moves to a later time, or ends, the timer stays, and looks again when it
        fires: each blocked client that is served moves it.
        """
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._armed = deadline
        seconds = max(0, deadline - self.now()) / 1000
        self._deadline_timer = asyncio.get_running_loop().call_later(seconds, self._pass_time)

    def _pass_time(self) -> None:
        self._armed = self._deadline_timer = None
        deadline, now = self._agenda.deadline, self.now()
        if deadline is not None and now < deadline:
            self._arm(deadline)
        elif deadline is not None:
            with self._stopping_on_bugs():
                self._agenda.pass_time(now)

    # --- Checkpoints --------------------------------------------------------------------------

    def end_tick(self) -> int:
        """End the open tick; return the position of the last record that exists then.

        All that the replica has is in records then.
        """
        for _ in self._agenda.ticks():
            self._end_tick()
            if self._crash is not None:
                break
        return self.region.outstanding.left_seq

    async def wait_logged(self, seq: int) -> None:
        """Return when the log has everything up to this position."""
        if self.region.outstanding.logged_seq >= seq:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._logged.append((seq, told))
        await told

    def _tell_logged(self) -> None:
        logged_seq = self.region.outstanding.logged_seq
        waiting, self._logged = self._logged, []
        for seq, told in waiting:
            if seq > logged_seq:
                self._logged.append((seq, told))
            elif not told.done():
                told.set_result(None)

    # --- The log ------------------------------------------------------------------------------

    def _commit_at_once(self, count: int) -> Millis | None:
        """Commit the records of a tick at once, or leave them to the committer.

        Args:
            count: their number.

        Returns:
            The time if it is known by now what became of them, so that the next Ready can tell it.
        """
        agenda = self._agenda
        records = agenda.at_once
        if records and self._rests:
            began_ns = time.perf_counter_ns()
            try:
                is_logged = self.log.append_at_once(records)
            except StoreError as error:
                self._waits_since_ns = began_ns
                self.stats.commit_failures += 1
                agenda.note_refused(str(error))
                self._wake.set()
                return self.now()
            if is_logged:
                self.stats.commits_at_once += 1
                # The tick that this opens is ended by the caller.
                self._scheduled = True
                ended_ns = time.perf_counter_ns()
                self.region.answer_time.note_logged(ended_ns - began_ns, ended_ns)
                now = self.now()
                self._count_commit(
                    records, agenda.note_committed(self.log.last_seq, now), ended_ns - began_ns
                )
                return now
        agenda.put_off()
        if agenda.queued == count:
            self._queued_ns = time.perf_counter_ns()
        self._wake.set()
        return None

    async def run(self) -> None:
        """Commit what the ticks leave until ``stop``; the node's task for its whole life.

        Raises:
            BaseException: an error that broke a tick, a bug; the node must end, having lost nothing
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
                while self._agenda.has_commit and self._crash is None:
                    await self._commit()
                    # Perhaps it did not have to wait: other tasks have their turn.
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

    async def _commit(self) -> None:
        """Attempt the group commit that is next, after its backoff.

        Raises:
            StoreError: the disk refused, and the engine is to stop.
        """
        agenda, answer_time = self._agenda, self.region.answer_time
        if not agenda.is_refused:
            # What is left has waited for about as long as those that come meanwhile.
            self._waits_since_ns, self._queued_ns = self._queued_ns, time.perf_counter_ns()
        records = agenda.next_commit()
        answer_time.log_waits_since_ns = self._waits_since_ns
        if agenda.is_refused:
            await asyncio.sleep(agenda.commit_backoff.seconds)
        began_ns = time.perf_counter_ns()
        try:
            await self.log.append(records)
        except StoreError as error:
            self.stats.commit_failures += 1
            agenda.note_refused(str(error))
            self._end_tick()
            if self._stopping:
                raise
            return
        ended_ns = time.perf_counter_ns()
        answer_time.log_waits_since_ns = None
        answer_time.note_logged(ended_ns - self._waits_since_ns, ended_ns)
        size = agenda.note_committed(self.log.last_seq, self.now())
        self._count_commit(records, size, ended_ns - began_ns)
        # Clients that wait for this commit need not wait for the event loop's next turn.
        self._end_tick()

    def _count_commit(self, records: Sequence[Record], size: int, ns: int) -> None:
        stats = self.stats
        stats.commits += 1
        stats.records_committed += len(records)
        for record in records:
            stats.batches_committed += record.batch is not None
        stats.bytes_committed += size
        stats.commit_us.note(ns // 1000)
        stats.commit_records.note(len(records))

    # --- When commits are synced --------------------------------------------------------------

    async def _follow_fsync(self) -> None:
        """Let commits become durable as the operator wants it, from the next one on."""
        agenda = self._agenda
        change = agenda.next_fsync()
        if change is None:
            return
        try:
            if change.mark is not None:
                await self.log.sync()
                agenda.note_synced(change.mark, self.now())
            await self.log.set_fsync(change.fsync)
        except StoreError as error:
            self.stats.commit_failures += 1
            seconds = agenda.note_fsync_refused(change, str(error))
            asyncio.get_running_loop().call_later(seconds, self._try_fsync_again)
        else:
            agenda.note_fsync(change)
            self._fsync_changed.set()
            logger.info("appendfsync changed", appendfsync=change.fsync.value)
        self._end_tick()

    def _try_fsync_again(self) -> None:
        self._agenda.try_fsync_again()
        self._wake.set()

    async def _sync_now_and_then(self) -> None:
        """Sync at intervals, to make commits durable that did not sync by themselves."""
        agenda = self._agenda
        while True:
            with contextlib.suppress(TimeoutError):
                seconds = agenda.sync_seconds
                async with asyncio.timeout_at(None if seconds is None else next_beat(seconds)):
                    await self._fsync_changed.wait()
                    self._fsync_changed.clear()
                    continue
            mark = agenda.next_sync()
            if mark is not None:
                await self._sync(mark)

    async def _sync(self, mark: Mark) -> None:
        """Make durable what is committed."""
        began_ns = time.perf_counter_ns()
        try:
            await self.log.sync()
        except StoreError as error:
            self.stats.commit_failures += 1
            self._agenda.note_sync_refused(str(error))
            self._end_tick()
            return
        self.stats.sync_us.note((time.perf_counter_ns() - began_ns) // 1000)
        self._agenda.note_synced(mark, self.now())

    # --- The folder ---------------------------------------------------------------------------

    async def _follow_folder(self) -> None:
        """Write what the folder is to say by now.

        Raises:
            StoreError: it cannot be written.
        """
        agenda = self._agenda
        while (change := agenda.next_folder_change()) is not None:
            await write_change(self.log, change)
            agenda.note_folder_written(change, self.now())

    async def _follow_folder_for_ever(self) -> None:
        agenda, told = self._agenda, ""
        while True:
            await self._folder_wake.wait()
            self._folder_wake.clear()
            while agenda.folder_is_due:
                try:
                    await self._follow_folder()
                except StoreError as error:
                    agenda.note_folder_refused()
                    # Once: a log on the same disk would take up the little space that becomes free.
                    if str(error) != told:
                        told = str(error)
                        logger.error("the folder cannot be written; it is tried again", reason=told)
                    await asyncio.sleep(agenda.folder_backoff.seconds)
                else:
                    if told:
                        logger.info("the folder is written again")
                        told = ""

    async def _look_at_folder_for_ever(self) -> None:
        """Look whether what is committed is where a restart will look for it."""
        agenda = self._agenda
        while True:
            await until_beat(FOLDER_LOOK_SECONDS.value)
            try:
                await self.log.look()
            except StoreError as error:
                is_gone = isinstance(error, FolderGoneError)
                agenda.note_folder_missing(str(error), is_gone=is_gone)
                continue
            mark = agenda.note_folder_found()
            if mark is not None:
                await self._sync(mark)

    # --- Entries that are on disk -------------------------------------------------------------

    async def _fetch_for_ever(self, images: Images) -> None:
        """Read what the region asks for, one request after the other."""
        while True:
            await self._request_came.wait()
            if not self._agenda.has_fetch:
                self._request_came.clear()
                continue
            asked = self._agenda.next_fetch()
            began_ns = time.perf_counter_ns()
            try:
                bodies = await images.fetch(asked)
            except StoreError as error:
                self.region.cold.note_failed(asked, str(error), self.now())
                continue
            self.stats.fetch_us.note((time.perf_counter_ns() - began_ns) // 1000)
            with self._stopping_on_bugs():
                self.region.cold.note_fetched(asked, bodies, self.now())
            # Clients that wait for these entries do not have to wait for the event loop's next
            # turn.
            self._end_tick()

    # --- Programs -----------------------------------------------------------------------------

    async def change(
        self, change: Callable[[Replica, Millis], T], *, writes: int = 1, adds: bool = False
    ) -> T:
        """Change the replica; returns once everything seen and done is in the log.

        Args:
            writes: number of writes that it counts as while what lags is bounded.
            adds: it adds data, for which room is needed.

        Raises:
            CommandError: writes are refused; nothing has changed then.  Or what ``change`` raises.
            UnreadableError: entries cannot be read from disk; nothing has changed.
            OutcomeUnknownError: the disk refused.
        """
        region = self.region
        asked_ms = self.now()
        program = Program[T]()
        reader = Reader(region)

        def attempt() -> None:
            region.change(self.now(), change, program, writes=writes, adds=adds)

        await self._until_admitted(writes, asked_ms)
        for images in attempts(region.replica, attempt):
            await reader.fetch(images)
            await self._until_admitted(writes, asked_ms)
        return await program.told

    async def read(self, look: Callable[[], T]) -> T:
        """Look at entries of the replica; those that are on disk only are read before.

        Args:
            look: a function that is called again each time that some were read.  It changes
                nothing.

        Raises:
            UnreadableError: they cannot be read.
        """
        reader = Reader(self.region)
        found: list[T] = []
        for images in attempts(self.region.replica, lambda: found.append(look())):
            await reader.fetch(images)
        return found[0]

    async def fetch(self, images: Sequence[int]) -> None:
        """Bring entries into memory that are on disk only.

        Raises:
            UnreadableError: they cannot be read.
        """
        await Reader(self.region).fetch(images)

    async def _until_admitted(self, writes: int, asked_ms: Millis) -> None:
        while self._holds_back(writes, asked_ms):  # noqa: ASYNC110 - its end is not signalled
            await asyncio.sleep(HELD_BACK_SECONDS.value)

    def _holds_back(self, writes: int, asked_ms: Millis) -> bool:
        """True if a program that asked to write at ``asked_ms`` still has to wait."""
        region = self.region
        return (
            region.log.is_congested
            or region.database.pause is not None
            or region.staleness.holds_back(writes, asked_ms, self.now())
        )


def _nobody_delivers(letters: Sequence[AnyLetter]) -> None:
    """Drop the letters."""


def _log_notice(notice: Notice) -> None:
    getattr(logger, notice.level)(notice.text, **notice.details)
