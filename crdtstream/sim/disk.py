"""A disk that can refuse, and that loses by a power cut what was not synced.

It is the memory log that tests use, with the three ways in which a real one fails.  What a node
calls is asynchronous and never waits here, so ``now`` runs it to its end at once.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from crdtstream.core.effects import Record
from crdtstream.folder import MEMBERSHIP
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, MemoryLog

T = TypeVar("T")


class Disk(MemoryLog):
    """The log of one simulated region, and what its folder says.

    Attributes:
        fsync: as the node's ``appendfsync``; with ``always`` a commit is a sync.
        refuses: why it takes nothing at present.
        synced: how many records a power cut cannot take.
        is_confirmed: a node goes on with this folder, and nothing has spoken against it since.
        was_clean: the last node that had it stopped in order.
    """

    def __init__(self, fsync: Fsync) -> None:
        super().__init__()
        self.fsync = fsync
        self.refuses: str | None = None
        self.synced = 0
        self.is_confirmed = False
        self.was_clean = False
        # What the folder ever said of the members, and how long its log was when it began to.
        self._memberships: list[tuple[int, str | None]] = [(0, None)]

    @property
    def is_proven(self) -> bool:
        """As a folder proves itself (``store/opening.py``): confirmed, and its end was not lost."""
        return self.is_confirmed and (self.was_clean or self.fsync is Fsync.ALWAYS)

    def _put(self, records: Sequence[Record]) -> None:
        self.check()
        super()._put(records)
        if self.fsync is Fsync.ALWAYS:
            self.synced = self.last_seq

    async def sync(self) -> None:
        self.check()
        self.synced = self.last_seq

    async def set_meta(self, key: str, value: str) -> None:
        self.check()
        await super().set_meta(key, value)
        if key == MEMBERSHIP:
            self._memberships.append((self.last_seq, value))

    async def confirm(self) -> None:
        self.check()
        self.is_confirmed = True

    async def revoke(self) -> None:
        self.check()
        self.is_confirmed = False

    def check(self) -> None:
        if self.refuses is not None:
            raise StoreError(self.refuses)

    # --- Faults -------------------------------------------------------------------------------

    def cut_power(self, kept: int) -> None:
        """The machine loses power: of what was not synced, ``kept`` records happen to be there."""
        self.truncate(min(self.last_seq, self.synced + kept))

    def put_back(self, count: int, *, votes_back: int = 0) -> None:
        """An earlier copy of the folder is put in its place.

        Args:
            votes_back: while the log was that long, the folder may have said several things of the
                members; the copy was made so many of them before the last.
        """
        count = min(self.last_seq, count)
        self._put_back_membership(count, votes_back)
        self.truncate(count)
        self.is_confirmed = False

    def _put_back_membership(self, count: int, votes_back: int) -> None:
        said = self._memberships
        last = max(at for at, (seq, _) in enumerate(said) if seq <= count)
        first = max((at for at, (seq, _) in enumerate(said) if seq < count), default=0)
        _, value = said[max(first, last - votes_back)]
        if value is None:
            self._meta.pop(MEMBERSHIP, None)
        else:
            self._meta[MEMBERSHIP] = value

    def truncate(self, count: int) -> None:
        """Keep the records up to position ``count``."""
        del self._records[max(0, count - self.first_seq + 1) :]
        self.synced = min(self.synced, count)
        # What it said, it says still; when the log has grown again, nobody knows how long it was.
        self._memberships = [(min(seq, self.last_seq), value) for seq, value in self._memberships]

    def records_behind(self, seq: int) -> list[Record]:
        """The records behind this position, none of which was cut off."""
        return [logged.record for logged in self._records[seq + 1 - self.first_seq :]]

    @property
    def records(self) -> list[Record]:
        return [logged.record for logged in self._records]


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a simulated disk does not wait")
