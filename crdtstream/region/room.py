"""What a region may take of memory and disk, and what happens at these bounds; without any IO.

    maxmemory   cold data leave first; when no more can leave, commands that add data are refused
                with Redis's OOM error.  What other regions did is applied all the same: to refuse
                it would only take it from memory here into memory, or the log, there.
    maxdisk     a checkpoint is asked for, which lets the log be cut; while the folder is larger
                nevertheless, commands that add data are refused

Deleting, trimming and acknowledging go on: they are how room is made.  Who measures calls ``look``
several times a second, so that a bound is passed by a fraction of a second's writes at most.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from crdtstream.commands.reply import CommandError
from crdtstream.region.tick import Tick

# Redis's own words.
OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."
# Of ``maxmemory``: data begin to leave at 31/32 of it, until 15/16 of it are taken.
LEAVE_FROM: Final = (31, 32)
LEAVE_TO: Final = (15, 16)
BOUND_BYTES_MAX: Final = 1 << 60
# What is told apart: the process before it read its log, macro nodes, what else keys take, records
# that are kept in memory, batches that wait to be applied, and clients' requests and replies.
NOTHING: Final[Mapping[str, int]] = MappingProxyType(
    dict.fromkeys(("base", "nodes", "keys", "log", "inbox", "clients"), 0)
)


@dataclass(frozen=True, slots=True)
class Account:
    """What takes memory, in bytes.

    Attributes:
        parts: by name, as MEMORY STATS tells them.
        may_leave: of all that, what is on disk as well, or will be with the next checkpoint.
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
        evict: has cold data leave, as many as one turn may take; tells how many bytes became free.
        has_more: whether another turn could have more leave.
        is_leaving: more is to leave, and can: look again soon.
        is_full: commands that add data are refused.
    """

    def __init__(self) -> None:
        self.maxmemory = 0
        self.account = Account()
        self.evicted_bytes = 0
        self.refused = 0
        self.evict: Callable[[int], int] = _nothing_leaves
        self.has_more: Callable[[], bool] = bool
        self.is_leaving = False
        self.is_full = False

    @property
    def used(self) -> int:
        """What the process takes, by the last account."""
        return self.account.total

    def look(self, account: Account) -> None:
        """A new account: have data leave if it is time to."""
        self.account = account
        if not self.maxmemory:
            self.is_leaving = self.is_full = False
            return
        used, goal = account.total, _part(self.maxmemory, LEAVE_TO)
        # What began to leave goes on down to the goal.
        begins_at = goal if self.is_leaving else _part(self.maxmemory, LEAVE_FROM)
        freed = self.evict(used - goal) if used > begins_at else 0
        self.evicted_bytes += freed
        # The next account says what it came to.
        used -= freed
        self.is_leaving = used > goal and self.has_more()
        self.is_full = used > self.maxmemory and not self.is_leaving

    def needs(self) -> int:
        """The least ``maxmemory`` that would not refuse everything from now on."""
        return max(0, self.used - self.account.may_leave)

    def refusal(self, maxmemory: int) -> str | None:
        """Why the bound cannot be set so low; None: it can."""
        needs = self.needs()
        if not maxmemory or maxmemory >= needs:
            return None
        return (
            f"{needs} bytes are taken by what cannot leave memory, so that nothing could be added "
            "any more: set at least so much, or delete something first"
        )


class DiskBound:
    """``maxdisk``.

    Attributes:
        maxdisk: bytes; 0: no bound.
        used: what the folder takes, at the last look.
        refused: commands that were refused because of it.
        is_full: commands that add data are refused.
        wants_checkpoint: called at the bound: a checkpoint lets the log be cut.
    """

    def __init__(self, tick: Tick) -> None:
        self.maxdisk = 0
        self.used = 0
        self.refused = 0
        self.is_full = False
        self.wants_checkpoint: Callable[[], None] = _nobody_writes
        self._tick = tick

    def look(self, used: int) -> None:
        """The folder takes so much now."""
        self.used = used
        was_full, self.is_full = self.is_full, bool(self.maxdisk) and used > self.maxdisk
        if self.is_full:
            self.wants_checkpoint()
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
        """Why the bound cannot be set so low; None: it can."""
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
    """Whether data may be added: both bounds together, as the database asks.

    Attributes:
        on_change: called when that changes.
    """

    def __init__(self, memory: MemoryBound, disk: DiskBound) -> None:
        self.memory = memory
        self.disk = disk
        self.on_change: Callable[[], None] = _nobody_writes

    @property
    def is_full(self) -> bool:
        return self.memory.is_full or self.disk.is_full

    def look(self, *, account: Account | None = None, disk_bytes: int | None = None) -> None:
        """Take what was measured."""
        was_full = self.is_full
        if account is not None:
            self.memory.look(account)
        if disk_bytes is not None:
            self.disk.look(disk_bytes)
        if self.is_full is not was_full:
            self.on_change()

    def tune(self, *, maxmemory: int | None = None, maxdisk: int | None = None) -> None:
        """Set a bound."""
        if maxmemory is not None:
            self.memory.maxmemory = maxmemory
            self.look(account=self.memory.account)
        if maxdisk is not None:
            self.disk.maxdisk = maxdisk
            self.look(disk_bytes=self.disk.used)

    def refuse(self) -> CommandError:
        """Count a command that would add data; its error."""
        if self.memory.is_full:
            self.memory.refused += 1
            return CommandError(OOM)
        self.disk.refused += 1
        return CommandError(self.disk.reason)


def _part(size: int, part: tuple[int, int]) -> int:
    return size * part[0] // part[1]


def _nothing_leaves(_size: int) -> int:
    return 0


def _nobody_writes() -> None:
    pass
