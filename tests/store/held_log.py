"""A log whose disk a test holds back, to see what is said of things that are not durable yet."""

import asyncio
from collections.abc import Sequence

from crdtstream.core.effects import Record
from crdtstream.store.log import Fsync, MemoryLog


class HeldLog(MemoryLog):
    """A log whose disk can be held back: with ``always`` commits wait, else syncs do.

    Attributes:
        is_syncing: a sync is under way, held back or not.
    """

    def __init__(self, fsync: Fsync) -> None:
        super().__init__()
        self._fsync = fsync
        self.is_syncing = False
        self._goes_on = asyncio.Event()
        self._goes_on.set()

    def hold(self) -> None:
        self._goes_on.clear()

    def let_go(self) -> None:
        self._goes_on.set()

    def let_one_go(self) -> None:
        """Let go what waits now, and hold back what comes next."""
        self._goes_on.set()
        self._goes_on.clear()

    def append_at_once(self, records: Sequence[Record]) -> bool:
        is_held = self._fsync is Fsync.ALWAYS and not self._goes_on.is_set()
        return not is_held and super().append_at_once(records)

    async def append(self, records: Sequence[Record]) -> None:
        if self._fsync is Fsync.ALWAYS:
            await self._goes_on.wait()
        await super().append(records)

    async def sync(self) -> None:
        if self._fsync is not Fsync.ALWAYS:
            self.is_syncing = True
            await self._goes_on.wait()
            self.is_syncing = False
