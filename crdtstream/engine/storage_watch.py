"""Storage watch: measures a node's memory and disk, and reports them to its region.

    several times a second    memory: the account, by which cold data leave and writes are refused
    each second               lets data leave memory that were not read for a while
    when it is worth it       free memory is returned to the system; the rest is *overhead*
    each second               the folder, while anything is written to it
    each few seconds          what the log is kept for

The size of macro nodes is known at any time if something counts it (``node_bytes``); the rest of
the state is added up by a walk over the keys, in slices.

What the system counts beyond all that is mostly free memory within the process, where something was
removed or was put together (``machine/heap.py``): the C library returns it when told to.  What
Python's allocator keeps for the next objects is *free*, and not used.  All else is ``overhead``:
what the C library cannot return, the store's page caches, stacks of threads.

    resident = used + free,  used = what is counted + overhead

So ``maxmemory`` bounds what the process uses, and a client that deletes everything may write again.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from crdtstream.core.footprint import Footprint
from crdtstream.engine.engine import Engine
from crdtstream.engine.log_cutting import look_at_log
from crdtstream.engine.turns import Turn, until_beat
from crdtstream.machine.heap import give_back_memory
from crdtstream.region.room import Account, MemoryBound
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Log

logger = structlog.get_logger(__name__)

ACCOUNT_SECONDS: Final = 0.1
# The longest interval while nothing changes and more than half of maxmemory is free: that is not
# filled before the next look.
QUIET_SECONDS: Final = 1.0
# Counting what waits for each of thousands of clients takes milliseconds: it rests for this many
# times as long, at most for CLIENTS_REST_SECONDS.
CLIENTS_REST: Final = 100
CLIENTS_REST_SECONDS_MAX: Final = 1.0
# While data leave memory, a turn of the event loop at a time.
LEAVING_SECONDS: Final = 0.002
# Bytes that must be free, or uncounted, before a look is worth it; and the shortest interval.
GIVE_BACK_BYTES: Final = 16 << 20
GIVE_BACK_SECONDS: Final = 1.0
# The same if the overhead has changed by this part of the process, as some of it may be free.  The
# look takes longer the larger the process is: up to 0.2 s for a GiB in pieces.
UNTRIMMED_PART: Final = 64
# Memory that is not counted may become free at any time, and nothing shows it from outside.  If
# more than half of maxmemory is used, it is looked at each GIVE_BACK_SECONDS.
COMPARE_SECONDS: Final = 10.0
# Finding out what is free takes milliseconds for each GiB: it rests for this many times as long.
FREE_REST: Final = 100
# The last records that the log keeps in memory are for links that follow closely.
QUIET_LOG_SECONDS: Final = 15.0
IDLE_SECONDS: Final = 1.0
# Pause between two turns of a millisecond in which idle data leave: 5 % of the processor at most.
IDLE_REST_SECONDS: Final = 0.02
DISK_SECONDS: Final = 1.0
LOG_SECONDS: Final = 5.0
# A walk rests after each slice, and so takes 1 % of the time at most; and after each walk.
SLICE_NS: Final = 500_000
REST_SECONDS: Final = 0.05
WALK_SECONDS: Final = 1.0
# Walks, and looks at the disk, that are left out one after the other while nothing is written.
LOOKS_LEFT_OUT: Final = 15


def _is_half_full(memory: MemoryBound) -> bool:
    return bool(memory.maxmemory) and 2 * memory.used > memory.maxmemory


class BoundTail(Protocol):
    """Function that bounds how many of the log's last records are kept in memory."""

    def __call__(self, *, is_short: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class Measures:
    """Measurements outside of the region, in bytes.

    Attributes:
        base: memory of the process when it began to serve, without what it had read from its log.
        resident: what the system counts for the process.
        free: the part of it that Python's allocator keeps for the next objects.
        clients: requests and replies that wait, of all clients.
        log_tail: records that the log keeps in memory.
        bound_log_tail: makes the log keep few of them, or as many as is good for links.
        disk: the folder's files; asked in a thread.  A StoreError: it cannot be measured.
        wal: the part of them in the write-ahead log; in a thread, too.
        nodes: macro nodes in memory; None: a walk finds out.
        may_leave: the part of all this that is on disk too, or will be with the next checkpoint.
    """

    base: Callable[[], int]
    resident: Callable[[], int]
    clients: Callable[[], int]
    log_tail: Callable[[], int]
    bound_log_tail: BoundTail
    disk: Callable[[], int]
    wal: Callable[[], int] = int
    free: Callable[[], int] = int
    nodes: Callable[[], int] | None = None
    may_leave: Callable[[], int] | None = None


class StorageWatch:
    """The watch of one node; ``run`` is one of its tasks."""

    def __init__(self, engine: Engine, measures: Measures, *, log: Log | None = None) -> None:
        """A watch that has not looked yet.

        Args:
            log: one that can be cut; None: the log is not cut, and no reports of it are made.
        """
        self._engine = engine
        self._region = engine.region
        self._measures = measures
        self._log = log
        self._footprint = Footprint(engine.region.replica)
        self._overhead_bytes = self._free_bytes = 0
        # State when free memory was returned last: the overhead, and the checkpoints by then.
        self._trimmed_bytes = self._trimmed_checkpoints = 0
        # Size of what was counted, without the overhead, when that was found out last.
        self._compared_bytes = 0
        self._look_due_at = self._compare_due_at = 0.0
        # The last record when memory was looked at, and the time since when it is the last.
        self._last_seq, self._last_seq_s = -1, 0.0
        self._client_bytes = 0
        self._clients_due_at = 0.0
        engine.region.memory.measure = self._account_if_less

    async def run(self) -> None:
        """Look at intervals, for as long as the node lives."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._walk())
            tasks.create_task(self._watch_memory())
            tasks.create_task(self._watch_idle())
            tasks.create_task(self._watch_disk())
            if self._log is not None:
                tasks.create_task(self._watch_log(self._log))

    # --- Memory -------------------------------------------------------------------------------

    def account(self) -> Account:
        """Account of what takes memory now."""
        region, measures = self._region, self._measures
        inbox_bytes = region.links.waiting[1]
        nodes = self._footprint.node_bytes if measures.nodes is None else measures.nodes()
        return Account(
            {
                "base": measures.base(),
                "nodes": nodes,
                "keys": self._footprint.rest_bytes,
                "log": measures.log_tail() + region.outstanding.queued_bytes,
                "inbox": inbox_bytes,
                "clients": self._held_by_clients(),
                "overhead": self._overhead_bytes,
            },
            0 if measures.may_leave is None else measures.may_leave(),
        )

    def _held_by_clients(self) -> int:
        began = time.monotonic()
        if began >= self._clients_due_at:
            self._client_bytes = self._measures.clients()
            ended = time.monotonic()
            rest = min((ended - began) * CLIENTS_REST, CLIENTS_REST_SECONDS_MAX)
            self._clients_due_at = ended + rest
        return self._client_bytes

    def _account_if_less(self) -> Account | None:
        """Account of what takes memory now, if macro nodes left since the last look."""
        nodes = self._measures.nodes
        if nodes is None or nodes() >= self._region.memory.account.parts["nodes"]:
            return None
        return self.account()

    async def _walk(self) -> None:
        while True:
            seq = self._region.outstanding.left_seq
            ends = time.perf_counter_ns() + SLICE_NS
            for _ in self._footprint.steps():
                if time.perf_counter_ns() >= ends:
                    await asyncio.sleep(REST_SECONDS)
                    ends = time.perf_counter_ns() + SLICE_NS
            await self._until_written(seq, WALK_SECONDS)

    async def _until_written(self, seq: int, seconds: float) -> None:
        """Sleep ``seconds``; and on, for a while, as long as nothing changes.

        Args:
            seq: the last record when it was looked at what may change.
        """
        region = self._region
        for _ in range(LOOKS_LEFT_OUT):
            await until_beat(seconds)
            # A copy and a checkpoint are written to the folder without a record.
            is_written = region.bootstrap.needs_staging or region.checkpointing.is_under_way
            if is_written or region.disk.maxdisk or region.outstanding.left_seq != seq:
                return

    async def _watch_memory(self) -> None:
        memory = self._region.room.memory
        seconds, before_bytes = ACCOUNT_SECONDS, 0
        while True:
            account = self.account()
            self._region.room.look(account=account)
            is_scarce = memory.is_leaving or memory.is_full
            is_quiet = self._is_log_quiet(time.monotonic())
            self._measures.bound_log_tail(is_short=is_scarce or is_quiet)
            if time.monotonic() >= self._look_due_at:
                await self._look_at_overhead(account)
            if memory.is_leaving:
                seconds = LEAVING_SECONDS
            else:
                is_quiet = account.total == before_bytes and not _is_half_full(memory)
                seconds = min(2 * seconds, QUIET_SECONDS) if is_quiet else ACCOUNT_SECONDS
            before_bytes = account.total
            await until_beat(seconds)

    def _is_log_quiet(self, now_s: float) -> bool:
        """True if nothing was written for a while: links that are up have the last records."""
        seq = self._region.outstanding.left_seq
        if seq != self._last_seq:
            self._last_seq, self._last_seq_s = seq, now_s
        return now_s - self._last_seq_s >= QUIET_LOG_SECONDS

    async def _look_at_overhead(self, account: Account) -> None:
        """Compare the account with what the system counts."""
        counted = account.total - self._overhead_bytes
        gap = self._measures.resident() - account.total - self._free_bytes
        memory, saved_count = self._region.memory, self._region.checkpointing.count
        # While writers are refused, each second.  Memory that a checkpoint frees may stay overhead:
        # it was so before, and the C library keeps it.
        is_worth_it = (
            gap >= GIVE_BACK_BYTES or memory.is_full or saved_count != self._trimmed_checkpoints
        )
        has_changed = abs(counted - self._compared_bytes) >= GIVE_BACK_BYTES
        if is_worth_it:
            await asyncio.to_thread(give_back_memory)
        # Memory that is free in Python shows nowhere else, and near the bound writers wait for it.
        is_due = time.monotonic() >= self._compare_due_at or _is_half_full(memory)
        if is_worth_it or has_changed or is_due:
            self._compare()
            if not is_worth_it and self._may_be_untrimmed:
                await asyncio.to_thread(give_back_memory)
                is_worth_it = True
                self._compare()
            if is_worth_it:
                self._trimmed_bytes = self._overhead_bytes
                self._trimmed_checkpoints = saved_count
        elif gap < 0:
            # Counts that grew although the process did not show that something was free.
            self._overhead_bytes = max(0, self._overhead_bytes + min(0, self._free_bytes + gap))
            self._free_bytes = max(0, self._free_bytes + gap)
        # Otherwise memory that was freed in between may be about to be used again.

    @property
    def _may_be_untrimmed(self) -> bool:
        """True if so much came or left since that a part of the overhead may be free."""
        changed_bytes = abs(self._overhead_bytes - self._trimmed_bytes)
        return changed_bytes >= min(GIVE_BACK_BYTES, self._measures.resident() // UNTRIMMED_PART)

    def _compare(self) -> None:
        """Find out what is free, and what is overhead."""
        began = time.monotonic()
        self._free_bytes = self._measures.free()
        ended = time.monotonic()
        self._look_due_at = ended + max(GIVE_BACK_SECONDS, (ended - began) * FREE_REST)
        self._compare_due_at = self._look_due_at + COMPARE_SECONDS
        self._compared_bytes = self.account().total - self._overhead_bytes
        used = self._measures.resident() - self._free_bytes
        self._overhead_bytes = max(0, used - self._compared_bytes)

    async def _watch_idle(self) -> None:
        residency = self._region.replica.residency
        while True:
            has_more = residency.leave_idle(self._engine.now(), Turn().is_over)
            await until_beat(IDLE_REST_SECONDS if has_more else IDLE_SECONDS)

    # --- Disk ---------------------------------------------------------------------------------

    async def _watch_disk(self) -> None:
        told = ""
        while True:
            seq, is_still = self._region.outstanding.left_seq, False
            try:
                # In one go: each switch to another thread and back wakes both.
                disk_bytes, wal_bytes = await asyncio.to_thread(self._measure_disk)
            except StoreError as error:
                # The last result counts; the writer notices faults of the disk.
                if str(error) != told:
                    told = str(error)
                    logger.warning("cannot see how large the folder is", reason=told)
            else:
                told = ""
                # A cut frees its room bit by bit.
                is_still = disk_bytes == self._region.disk.used
                self._region.disk.wal_bytes = wal_bytes
                self._region.room.look(disk_bytes=disk_bytes)
            await (self._until_written(seq, DISK_SECONDS) if is_still else until_beat(DISK_SECONDS))

    def _measure_disk(self) -> tuple[int, int]:
        return self._measures.disk(), self._measures.wal()

    async def _watch_log(self, log: Log) -> None:
        while True:
            try:
                await look_at_log(self._region, log, self._engine.now())
            except StoreError as error:
                logger.warning("cannot see whom the log is kept for", reason=str(error))
            await until_beat(LOG_SECONDS)
