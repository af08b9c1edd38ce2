"""Checkpoints of a simulated node: the real checkpointer, a turn of it at a time.

Between two turns anything may happen: clients write, what is cold leaves memory, the disk refuses,
the process dies.
"""

from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import coroutine
from typing import Any, Final, Protocol, TypeVar

from crdtstream.checkpointer import Checkpointer
from crdtstream.core.checkpoint.parts import Image
from crdtstream.core.ids import Millis
from crdtstream.cutting import cut_log
from crdtstream.region.region import Region
from crdtstream.sim.disk import Disk
from crdtstream.store.checkpoints import CheckpointRow, MemoryCheckpoints
from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS

T = TypeVar("T")

# By how much the time goes on whenever the checkpointer looks at it: a turn takes a few parts.
LOOK_NS: Final = 300_000


@coroutine
def a_turn() -> Generator[None, None, None]:
    """Wait for the next turn."""
    yield


def through(running: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing but its next turn."""
    while True:
        try:
            running.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result


class SimCheckpoints(MemoryCheckpoints):
    """Checkpoints on a simulated disk; each step of writing one is a turn."""

    async def begin(self) -> int:
        await a_turn()
        return await super().begin()

    async def put(self, images: Sequence[Image]) -> list[bytes]:
        await a_turn()
        return await super().put(images)

    async def commit(self, row: CheckpointRow, dropped: Sequence[int]) -> None:
        await a_turn()
        await super().commit(row, dropped)

    async def verify(self, generation: int) -> None:
        await a_turn()
        await super().verify(generation)

    async def forget_before(self, generation: int) -> None:
        await a_turn()
        await super().forget_before(generation)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whoever looks from outside is refused nothing."""
        armed, self.failpoints = self.failpoints, NO_FAILPOINTS
        disk = self.log
        assert isinstance(disk, Disk)
        reason, disk.refuses = disk.refuses, None
        try:
            yield
        finally:
            self.failpoints, disk.refuses = armed, reason

    def put_back(self, count: int) -> int:
        """An earlier copy of the folder is put in its place; how many records it has.

        A copy has the newest checkpoint, or is of a time when there was none.
        """
        newest = max(self._committed, default=0)
        if newest and count < self._committed[newest].row.seq:
            # What a merged state brought is in no record.
            if self.log.first_seq > 1 or self.log.begins:
                return self._committed[newest].row.seq
            self._discard_after(0)
        return count


class Process(Protocol):
    """What the checkpoints of a node need of its process."""

    region: Region
    clock: Millis

    def end_tick(self) -> None: ...


class CheckpointTurns:
    """The checkpointer of one process."""

    def __init__(self, process: Process, disk: Disk, checkpoints: SimCheckpoints) -> None:
        looks = count(step=LOOK_NS)
        self._process, self._disk, self._checkpoints = process, disk, checkpoints
        self._checkpointer = Checkpointer(
            process.region,
            disk,
            checkpoints,
            self,
            now=lambda: process.clock,
            timer_ns=lambda: next(looks),
            sleep=lambda _seconds: a_turn(),
        )
        self._running: Coroutine[Any, Any, None] | None = None

    def go_on(self, turns: int) -> None:
        """Begin a checkpoint if none is under way, and take a few turns of it."""
        running = self._running = self._running or self._checkpointer.checkpoint()
        try:
            for _ in range(turns):
                running.send(None)
        except StopIteration:
            self._running = None
        except StoreError as error:
            self._running = None
            self._process.region.checkpointing.note_failed(str(error))

    def cut_log(self) -> None:
        """Cut off of the log what nobody needs, however little that is."""
        process, cut = self._process, self._checkpoints.cut_log
        try:
            through(cut_log(process.region, self._disk, cut, process.clock, records_min=1))
        except StoreError:
            return

    def end(self) -> None:
        """The process dies."""
        if self._running is not None:
            self._running.close()

    # --- What the engine lets the checkpointer do ---------------------------------------------

    def end_tick(self) -> int:
        self._process.end_tick()
        # Who is woken may write at once.
        while self._process.region.replica.has_untaken_records:
            self._process.end_tick()
        return self._process.region.outstanding.left_seq

    async def wait_logged(self, seq: int) -> None:
        while self._process.region.outstanding.logged_seq < seq:
            await a_turn()
