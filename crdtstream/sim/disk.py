"""A disk that can refuse, and that loses unsynced data in a power cut.

It is the memory log that tests use, with the three ways in which a real one fails.  The calls of a
node are asynchronous and never wait here, so ``now`` runs each to its end at once.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from crdtstream.core.effects import Record
from crdtstream.engine.folder import INCARNATIONS, MEMBERSHIP
from crdtstream.store.errors import StoreError
from crdtstream.store.log import Fsync, MemoryLog

T = TypeVar("T")


class Disk(MemoryLog):
    """Log of one simulated region, and the settings of its folder.

    Attributes:
        fsync: as the node's ``appendfsync``; with ``always`` a commit is a sync.
        refuses: reason why it refuses everything at present.
        synced: number of records that a power cut cannot take.
        is_confirmed: a node goes on with this folder, and nothing has contradicted it since.
        was_clean: the last node that had it stopped in order.
    """

    def __init__(self, fsync: Fsync) -> None:
        super().__init__()
        self.fsync = fsync
        self.refuses: str | None = None
        self.synced = 0
        self.is_confirmed = False
        self.was_clean = False
        # All that the folder ever said of these, each with the length of its log at that time.
        self._said: dict[str, list[tuple[int, str | None]]] = {
            MEMBERSHIP: [(0, None)],
            INCARNATIONS: [(0, None)],
        }

    @property
    def is_proven(self) -> bool:
        """True if a folder proves itself (``store/opening.py``): confirmed, and its end was not
        lost."""
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
        if key in self._said:
            self._said[key].append((self.last_seq, value))

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
        """Cut the power: ``kept`` records remain of those that were not synced."""
        self.truncate(min(self.last_seq, self.synced + kept))

    def put_back(self, count: int, *, votes_back: int = 0) -> None:
        """Put an earlier copy of the folder in its place.

        Args:
            votes_back: at that length of the log the folder may have said several things of the
                members; the copy was made this many of them before the last.
        """
        count = min(self.last_seq, count)
        self._put_back_said(MEMBERSHIP, count, votes_back)
        self._put_back_said(INCARNATIONS, count, 0)
        self.truncate(count)
        self.is_confirmed = False

    def _put_back_said(self, key: str, count: int, back: int) -> None:
        said = self._said[key]
        last = max(at for at, (seq, _) in enumerate(said) if seq <= count)
        first = max((at for at, (seq, _) in enumerate(said) if seq < count), default=0)
        _, value = said[max(first, last - back)]
        if value is None:
            self._meta.pop(key, None)
        else:
            self._meta[key] = value

    def truncate(self, count: int) -> None:
        """Keep the records up to position ``count``."""
        del self._records[max(0, count - self.first_seq + 1) :]
        self.synced = min(self.synced, count)
        # All that it said, it still says; when the log has grown again, its length then is unknown.
        for key, said in self._said.items():
            self._said[key] = [(min(seq, self.last_seq), value) for seq, value in said]

    def records_behind(self, seq: int) -> list[Record]:
        """Records behind this position, none of which was cut off."""
        return [logged.record for logged in self._records[seq + 1 - self.first_seq :]]

    @property
    def records(self) -> list[Record]:
        return [logged.record for logged in self._records]


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("a simulated disk does not wait")
