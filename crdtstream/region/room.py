"""Room: the bounds of a region's memory and disk, and what happens at them; without any IO.

    maxmemory   cold data leave first; when no more can leave, commands that add data are refused
                with Redis's OOM error.  What other regions did waits while memory is being freed,
                so that links cannot outrun it.  When nothing is being freed it is applied all the
                same: refusing it here would only keep it in memory, or in the log, there.
    maxdisk     a checkpoint is asked for, which lets the log be cut; while the folder is larger
                nevertheless, commands that add data are refused

Deleting, trimming and acknowledging go on: they make room.  Memory and disk are measured several
times a second, and each time ``look`` is called, so a bound is exceeded by a fraction of a second's
writes at most.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.core.size import Size
from crdtstream.database.database import Database
from crdtstream.region.checkpointing import Checkpointing
from crdtstream.region.outstanding import Outstanding
from crdtstream.region.tick import Tick

# Redis's own words.
OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."
# Parts of ``maxmemory``: data begin to leave at 31/32 of it, until 15/16 of it are taken.  While
# they do, a turn of the event loop at a time, writers may get 1/32 ahead of that.
LEAVE_FROM: Final = (31, 32)
LEAVE_TO: Final = (15, 16)
FULL_FROM: Final = (33, 32)
# The least that a checkpoint must let leave, so that it is asked for at the bound.
WORTH_A_CHECKPOINT: Final = (1, 32)
# Memory that a region needs to work, beyond what cannot leave: for what commands have in hand, and
# for what the allocator cannot return when data leave.
SPARE_BYTES: Final = Size(16 << 20, least=0)
BOUND_BYTES_MAX: Final = 1 << 60
# Parts that are counted separately: the process before it read its log, macro nodes, what else keys
# take, records that are kept in memory, batches that wait to be applied, clients' requests and
# replies.  The last part is what else the system counts: memory that the allocator cannot return,
# the store's buffers.
NOTHING: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(("base", "nodes", "keys", "log", "inbox", "clients", "overhead"), 0)
)


@dataclass(frozen=True, slots=True)
class Account:
    """Account of memory, in bytes.

    Attributes:
        parts: by name, as in MEMORY STATS.
        may_leave: the share of it that is on disk as well, or will be with the next checkpoint.
    """

    parts: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    may_leave: int = 0

    @property
    def total(self) -> int:
        return sum(self.parts.values())


class MemoryBound:
    """``maxmemory``.

    Attributes:
        maxmemory: bytes; 0: no bound.
        account: what takes memory, at the last look.
        evicted_bytes: what left memory because of the bound.
        refused: commands that were answered OOM.
        evict: lets cold data leave, as many as one turn may take; returns the number of bytes
            freed.
        has_more: whether another turn could have more leave.
        is_leaving: more is to leave, and can: look again soon.
        is_full: commands that add data are refused.
        holds_links: it is full, and what peers sent waits for what is about to leave.
        measure: returns a new account if deletions since the last look make it less, else None.
    """

    def __init__(self, checkpointing: Checkpointing) -> None:
        self.maxmemory = 0
        self.account = Account()
        self.evicted_bytes = 0
        self.refused = 0
        self.evict: Callable[[int], int] = _nothing_leaves
        self.has_more: Callable[[], bool] = bool
        self.is_leaving = False
        self.is_full = False
        self.holds_links = False
        self._checkpointing = checkpointing
        self.measure: Callable[[], Account | None] = _nothing_was_deleted

    @property
    def used(self) -> int:
        """Memory that the process takes, by the last account."""
        return self.account.total

    @property
    def is_scarce(self) -> bool:
        """True if data have to leave, or will soon: a checkpoint under way should hurry."""
        return bool(self.maxmemory) and self.used > _part(self.maxmemory, LEAVE_TO)

    def look(self, account: Account) -> None:
        """Take a new account: let data leave if it is time."""
        self.account = account
        if not self.maxmemory:
            self.is_leaving = self.is_full = self.holds_links = False
            return
        used, goal = account.total, _part(self.maxmemory, LEAVE_TO)
        # Data that began to leave go on to do so down to the goal.
        begins_at = goal if self.is_leaving else _part(self.maxmemory, LEAVE_FROM)
        freed = self.evict(used - goal) if used > begins_at else 0
        self.evicted_bytes += freed
        # The next account has the true number.
        used -= freed
        self.is_leaving = used > goal and self.has_more()
        full_at = _part(self.maxmemory, FULL_FROM) if self.is_leaving else self.maxmemory
        self.is_full = used > full_at
        worth = _part(self.maxmemory, WORTH_A_CHECKPOINT)
        is_worth_it = account.may_leave >= worth > 0
        # Read before a checkpoint is wanted.  A checkpoint that let nothing leave is followed by a
        # moment in which links go on: so they wait for each checkpoint, and never for good.
        self.holds_links = self.is_full and (
            self.is_leaving or (is_worth_it and self._checkpointing.is_coming)
        )
        if self.is_full and not self.is_leaving and is_worth_it:
            # Nothing more can leave before it is on disk.
            self._checkpointing.want_an_end()

    def fixed(self) -> int:
        """Memory that is taken by what cannot leave it."""
        return max(0, self.used - self.account.may_leave)

    def refusal(self, maxmemory: int) -> str | None:
        """Reason why the bound cannot be set this low; None: it can."""
        fixed = self.fixed()
        least = fixed + SPARE_BYTES.value
        if not maxmemory or maxmemory >= least:
            return None
        return (
            f"{fixed} bytes are taken by what cannot leave memory, and {SPARE_BYTES.value} more "
            f"are needed to add anything: set at least {least}, or delete keys or groups first"
        )


class DiskBound:
    """``maxdisk``.

    Attributes:
        maxdisk: bytes; 0: no bound.
        used: size of the folder, at the last look.
        wal_bytes: the part of it in the write-ahead log.
        refused: commands that were refused because of it.
        is_full: commands that add data are refused.
    """

    def __init__(self, tick: Tick, checkpointing: Checkpointing, outstanding: Outstanding) -> None:
        self.maxdisk = 0
        self.used = 0
        self.wal_bytes = 0
        self.refused = 0
        self.is_full = False
        self._tick = tick
        self._checkpointing = checkpointing
        self._outstanding = outstanding

    def look(self, used: int) -> None:
        """Take the size of the folder as it is now."""
        self.used = used
        was_full, self.is_full = self.is_full, bool(self.maxdisk) and used > self.maxdisk
        # A checkpoint lets the log be cut, unless the last one has it all.
        if self.is_full and self._outstanding.logged_seq > self._checkpointing.seq:
            self._checkpointing.want()
        if self.is_full and not was_full:
            self._tick.notice(
                "error",
                "the folder is larger than maxdisk; what adds data is refused",
                bytes=used,
                maxdisk=self.maxdisk,
            )
        elif was_full and not self.is_full:
            self._tick.notice("info", "the folder is within maxdisk again", bytes=used)

    def refusal(self, maxdisk: int) -> str | None:
        """Reason why the bound cannot be set this low; None: it can."""
        if not maxdisk or maxdisk >= self.used:
            return None
        return (
            f"the folder takes {self.used} bytes already, so that nothing could be added any more: "
            "set more than that, or trim and let a checkpoint (BGSAVE) give space back first"
        )

    @property
    def reason(self) -> str:
        return (
            f"MISCONF the data folder takes {self.used} bytes, and maxdisk is {self.maxdisk}: "
            "nothing is added until it takes less. Trim or delete, and BGSAVE, or raise maxdisk"
        )


class Room:
    """Room for more data: both bounds together, as the database asks."""

    def __init__(
        self, memory: MemoryBound, disk: DiskBound, database: Database, tick: Tick
    ) -> None:
        self.memory = memory
        self.disk = disk
        self._database = database
        self._tick = tick

    @property
    def is_full(self) -> bool:
        return self.memory.is_full or self.disk.is_full

    def look(self, *, account: Account | None = None, disk_bytes: int | None = None) -> None:
        """Take what was measured."""
        was_full, held_links = self.is_full, self.memory.holds_links
        if account is not None:
            self.memory.look(account)
        if disk_bytes is not None:
            self.disk.look(disk_bytes)
        if self.is_full is not was_full:
            self._database.full = self if self.is_full else None
        if held_links and not self.memory.holds_links:
            self._tick.open()

    def tune(self, *, maxmemory: int | None = None, maxdisk: int | None = None) -> None:
        """Set a bound."""
        if maxmemory is not None:
            self.memory.maxmemory = maxmemory
            self.look(account=self.memory.account)
        if maxdisk is not None:
            self.disk.maxdisk = maxdisk
            self.look(disk_bytes=self.disk.used)

    def is_full_now(self) -> bool:
        """True if data cannot be added; asked before a command is refused for it.

        Deletions of a moment ago have made room, though it was not measured since.
        """
        if self.memory.is_full and (account := self.memory.measure()) is not None:
            self.look(account=account)
        return self.is_full

    def refuse(self) -> CommandError:
        """Count a command that would add data; return its error."""
        if self.memory.is_full:
            self.memory.refused += 1
            return CommandError(OOM)
        self.disk.refused += 1
        return CommandError(self.disk.reason)


def _part(size: int, part: tuple[int, int]) -> int:
    return size * part[0] // part[1]


def _nothing_leaves(_size: int) -> int:
    return 0


def _nothing_was_deleted() -> Account | None:
    return None
