"""The disk and the turns of a simulated node's checkpointer, which is the real one.

Between two turns anything may happen: clients write, cold data leaves memory, the disk refuses, the
process dies.
"""

from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import coroutine
from typing import Any, Protocol, TypeVar

from crdtstream.core.checkpoint.parts import Image
from crdtstream.core.ids import Millis
from crdtstream.region.region import Region
from crdtstream.sim.disk import Disk
from crdtstream.store.checkpoints import CheckpointRow, MemoryCheckpoints
from crdtstream.store.failpoints import NO_FAILPOINTS

T = TypeVar("T")


@coroutine
def a_turn() -> Generator[None, None, None]:
    """Wait for the next turn."""
    yield


def through(running: Coroutine[Any, Any, T]) -> T:
    """Result of a coroutine that waits only for its next turn."""
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
        """Look from outside: nothing is refused."""
        armed, self.failpoints = self.failpoints, NO_FAILPOINTS
        disk = self.log
        assert isinstance(disk, Disk)
        reason, disk.refuses = disk.refuses, None
        try:
            yield
        finally:
            self.failpoints, disk.refuses = armed, reason

    def put_back(self, count: int) -> int:
        """Put an earlier copy of the folder in its place; return the number of its records.

        A copy has the newest checkpoint, or is of a time before the first.
        """
        newest = max(self._committed, default=0)
        if newest and count < self._committed[newest].row.seq:
            # No record has what a merged state brought.
            if self.log.first_seq > 1 or self.log.begins:
                return self._committed[newest].row.seq
            self._discard_after(0)
        return count


class Process(Protocol):
    """Parts of the process that the checkpoints of a node use."""

    region: Region
    clock: Millis

    def end_tick_for_good(self) -> None: ...


class SimTicks:
    """Ticks of a process, for its checkpointer and its bootstrapper."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def end_tick(self) -> int:
        self._process.end_tick_for_good()
        return self._process.region.outstanding.left_seq

    async def wait_logged(self, seq: int) -> None:
        while self._process.region.outstanding.logged_seq < seq:
            await a_turn()


class Turns:
    """A task of one process, a turn at a time."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A task that rests.

        Args:
            begin: returns it from its beginning.
        """
        self._begin = begin
        self._running: Coroutine[Any, Any, None] | None = None

    def go_on(self, turns: int) -> None:
        """Begin the task unless it is under way, and run a few turns of it."""
        running = self._running = self._running or self._begin()
        try:
            for _ in range(turns):
                running.send(None)
        except StopIteration:
            self._running = None

    def end(self) -> None:
        """Stop, as the process dies."""
        if self._running is not None:
            self._running.close()
            self._running = None
