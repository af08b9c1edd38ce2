"""The agenda: what is to be done for a region next, and what becomes of it; without IO.

    end_tick ─> Ready
        records ──> queue ── next_commit ──> log ──┬ note_committed
                       ^                           └ note_refused: after a backoff, the same again
                       └ at_once: the same, where the tick ends, if nothing stands before them
        fetch ────> next_fetch ────────────> reads, in the order in which they were asked for
        folder ───> next_folder_change ────┬ note_folder_written
                                           └ note_folder_refused: after a backoff, what is next then
        applies, deadline ─────────────────> apply, pass_time
        parcels, woken, links, letters, notices: for the driver to hand on, at once

    next_sync, next_fsync, note_folder_found ─> Mark ─> sync of the log ─> note_synced

Two drivers do what it says: the engine, with asyncio and a real disk, and the simulated node, a
step at a time and in any order.  Neither decides anything, so a simulated history repeats a refused
commit, or tells that something is durable, exactly as a node does.

It knows no clock.  Times are arguments, and a backoff is a length that the driver waits, or leaves
out.

Always so:
  * Records are committed in the order in which ticks left them.
  * Whether a refused commit is in the log is unknown, so the one that repeats it has the same
    records at the same places.
  * Nothing is called durable that was not in the log when a sync began.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crdtstream.core.effects import Record, record_bytes, replay_us
from crdtstream.core.ids import Millis
from crdtstream.core.size import Seconds
from crdtstream.engine.backoff import Backoff
from crdtstream.region.outstanding import Mark
from crdtstream.region.ready import NO_RECORDS, FolderChange, Ready
from crdtstream.region.region import Region
from crdtstream.store.log import Fsync, next_commit

# Time between two syncs when commits do not sync: about as in Redis, and as Linux does by itself.
SYNC_SECONDS: Final = {Fsync.EVERYSEC: 1.0, Fsync.NO: 30.0}
COMMIT_RETRY_SECONDS_FIRST: Final = Seconds(0.05, least=0.001)
COMMIT_RETRY_SECONDS_MAX: Final = Seconds(5.0, least=0.001)
FOLDER_RETRY_SECONDS: Final = Seconds(1.0, least=0.001)


@dataclass(frozen=True, slots=True)
class FsyncChange:
    """A rule of when commits become durable, and what comes before it.

    Attributes:
        mark: what a sync makes durable first; None: no sync is needed.
    """

    fsync: Fsync
    mark: Mark | None


class Agenda:
    """See the module's text.

    Attributes:
        fsync: the rule by which commits become durable.
        at_once: the records of the tick that has ended, if nothing stands before them: they are
            committed, or put off, before another tick ends.  Else empty: they are queued.
        is_refused: the disk has refused the commit that is next.
        commit_backoff: time before the next attempt at it.
        folder_is_due: the folder is to say something new.
        folder_backoff: time before the next attempt at that.
        applies: batches have arrived that can be applied.
        deadline: time at which time is to be passed next; None: nothing depends on time.
    """

    def __init__(self, region: Region, fsync: Fsync) -> None:
        self.region = region
        self.fsync = fsync
        self.at_once: Sequence[Record] = NO_RECORDS
        self.is_refused = False
        self.commit_backoff = Backoff(COMMIT_RETRY_SECONDS_FIRST, COMMIT_RETRY_SECONDS_MAX)
        self.folder_is_due = False
        self.folder_backoff = Backoff(FOLDER_RETRY_SECONDS, FOLDER_RETRY_SECONDS)
        self.applies = False
        self.deadline: Millis | None = None
        self._queue: deque[Record] = deque()
        # Records of one commit, from when it may be made until it is in the log.
        self._under_way: Sequence[Record] = NO_RECORDS
        self._requests: deque[tuple[int, ...]] = deque()
        # The wish for a rule that is fulfilled, or was refused and is not tried at present.
        self._followed = region.durability.appendfsync = fsync.value
        self._was_missing = False

    # --- The tick -----------------------------------------------------------------------------

    def end_tick(self, now: Millis) -> Ready:
        """End the tick; return what the driver hands on, before it does anything else.

        Its records, and all that is to be read and written, are taken from it already.
        """
        region = self.region
        ready = region.ready(now)
        if ready.records:
            is_free = not self._under_way and not self._queue
            # A rule that is wanted holds from the next commit on.
            is_free = is_free and region.durability.appendfsync == self._followed
            if is_free:
                self.at_once = self._under_way = ready.records
            else:
                self._queue.extend(ready.records)
        if ready.fetch:
            self._requests.extend(ready.fetch)
        self.folder_is_due = ready.folder is not None
        self.applies = ready.applies
        self.deadline = ready.deadline
        return ready

    def ticks(self) -> Iterator[None]:
        """Yield for each tick that has to end until all that the replica has is in records.

        A client that is woken may at once write what it holds, so that tick ends as well.
        """
        yield
        while self.region.replica.has_untaken_records:
            yield

    def apply(self, now: Millis) -> None:
        """Apply what peers sent."""
        self.applies = False
        self.region.apply_arrivals(now)

    def pass_time(self, now: Millis) -> None:
        """Pass time to the region."""
        self.deadline = None
        self.region.pass_time(now)

    # --- Commits ------------------------------------------------------------------------------

    @property
    def has_commit(self) -> bool:
        """True if some record is not in the log yet."""
        return bool(self._under_way or self._queue)

    @property
    def queued(self) -> int:
        """Number of records that are in no commit yet."""
        return len(self._queue)

    def put_off(self) -> None:
        """Queue the commit that might have been made at once, if one might: it would take long."""
        if self.at_once:
            self._queue.extendleft(reversed(self.at_once))
            self.at_once = self._under_way = NO_RECORDS

    def next_commit(self) -> Sequence[Record]:
        """Records that one commit is to have: those that were refused, else as many as fit."""
        if not self._under_way:
            self._under_way = next_commit(self._queue)
            for _ in self._under_way:
                self._queue.popleft()
        return self._under_way

    def note_committed(self, seq: int, now: Millis) -> int:
        """Note that the log has the commit, and everything up to ``seq``.

        Returns:
            The size of the commit, in bytes.
        """
        records, self._under_way, self.at_once = self._under_way, NO_RECORDS, NO_RECORDS
        if self.is_refused:
            self.is_refused = False
            self.commit_backoff.end()
        size = took_us = 0
        for record in records:
            size += record_bytes(record)
            took_us += replay_us(record)
        region = self.region
        checkpointing = region.checkpointing
        checkpointing.grown_bytes += size
        checkpointing.grown_us += took_us
        if checkpointing.grown_bytes >= checkpointing.log_bytes > 0:
            checkpointing.on_wanted()
        region.log.note_logged(seq, now, durable=self.fsync is Fsync.ALWAYS)
        return size

    def note_refused(self, reason: str) -> None:
        """Note that the disk refused the commit: ``next_commit`` returns the same records."""
        assert self._under_way, "no commit was made"
        self.at_once = NO_RECORDS
        self.is_refused = True
        self.commit_backoff.note_failed()
        self.region.log.note_refused(reason)

    # --- Syncs --------------------------------------------------------------------------------

    @property
    def sync_seconds(self) -> float | None:
        """Time between two looks at ``next_sync``; None: each commit is a sync."""
        return SYNC_SECONDS.get(self.fsync)

    def next_sync(self) -> Mark | None:
        """The place up to which a sync is to make the log durable; None: all is."""
        outstanding = self.region.outstanding
        if outstanding.durable_seq == outstanding.logged_seq:
            return None
        return outstanding.mark()

    def note_synced(self, mark: Mark, now: Millis) -> None:
        """Note that a sync of the log is done.

        Args:
            mark: as it was when the sync began; what was committed meanwhile may not be in it.
        """
        self._was_missing = False
        self.region.log.note_synced(mark, now)

    def note_sync_refused(self, reason: str) -> None:
        """Note that the disk refused to sync: it is tried again when a sync is next."""
        self.region.log.note_refused(reason)

    def next_fsync(self) -> FsyncChange | None:
        """The rule by which commits are to become durable from now on; None: it stays.

        It never changes within a commit, which may have to be repeated.
        """
        wanted = self.region.durability.appendfsync
        if wanted == self._followed or self._under_way:
            return None
        fsync = Fsync(wanted)
        if fsync is self.fsync:
            self._followed = wanted
            return None
        # An operator who wants ``always`` relies on what was committed before as well.
        mark = self.region.outstanding.mark() if fsync is Fsync.ALWAYS else None
        return FsyncChange(fsync, mark)

    def note_fsync(self, change: FsyncChange) -> None:
        """Note that the log follows a rule from the next commit on."""
        self.fsync = change.fsync
        self._followed = change.fsync.value

    def note_fsync_refused(self, change: FsyncChange, reason: str) -> float:
        """Note that the disk refused a change of the rule: commits follow the one before.

        Returns:
            Seconds after which ``try_fsync_again`` is to be called.
        """
        self._followed = change.fsync.value
        self.region.log.note_refused(reason)
        return COMMIT_RETRY_SECONDS_MAX.value

    def try_fsync_again(self) -> None:
        """Let ``next_fsync`` return what was refused."""
        self._followed = self.fsync.value

    # --- The folder ---------------------------------------------------------------------------

    def next_folder_change(self) -> FolderChange | None:
        """The next thing that the folder is to say; None: it says what it should."""
        change = self.region.folder.next_change
        self.folder_is_due = change is not None
        return change

    def note_folder_written(self, change: FolderChange, now: Millis) -> None:
        """Note that the folder says it, durably."""
        self.folder_backoff.end()
        self.region.folder.note_written(change, now)

    def note_folder_refused(self) -> None:
        """Note that the folder could not be written: the change stays the next one."""
        self.folder_backoff.note_failed()

    def note_folder_missing(self, reason: str, *, is_gone: bool) -> None:
        """Note that a restart would not find what is committed: writes are refused.

        Args:
            is_gone: the files that hold the log are no longer in the folder.
        """
        self._was_missing = True
        self.region.outstanding.is_gone = is_gone
        if self.region.fault != reason:
            self.region.log.note_refused(reason)

    def note_folder_found(self) -> Mark | None:
        """Note that the folder has the log.

        Returns:
            What a sync is to make durable if it was missing before, or if the disk refused anything
            but a commit, which is repeated anyway: then writes are taken again.
        """
        outstanding = self.region.outstanding
        outstanding.is_gone = False
        was_refused = self.region.fault is not None and not self.has_commit
        return outstanding.mark() if self._was_missing or was_refused else None

    # --- Entries that are on disk -------------------------------------------------------------

    @property
    def has_fetch(self) -> bool:
        """True if some request for entries on disk was not taken yet."""
        return bool(self._requests)

    def next_fetch(self) -> tuple[int, ...]:
        """Images that are to be read together, the needed one in front.

        Their outcome is for ``ColdReads.note_fetched`` or ``note_failed``.
        """
        return self._requests.popleft()
