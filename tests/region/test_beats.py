"""A node at rest wakes once for all that is due; the tests move the clock themselves."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from crdtstream.core.ids import RegionId
from crdtstream.engine.bootstrapper import Bootstrapper
from crdtstream.engine.engine import Engine
from crdtstream.engine.storage_watch import LOOKS_LEFT_OUT, Measures, StorageWatch
from crdtstream.region.beats import beat_within
from crdtstream.store.log import Fsync, MemoryLog
from crdtstream.store.staging import MemoryStaging, Staging
from tests.harness.driven import make_region


class AtOnce(ThreadPoolExecutor):
    """Calls in a thread that are over when they are made."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Skipping(asyncio.SelectorEventLoop):
    """An event loop that does not wait for its next timer, but moves its clock to it.

    Attributes:
        wakes: times at which it had to wait for one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at = 1_000.3
        self.wakes: list[float] = []
        self.set_default_executor(AtOnce())
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def skip(timeout: float | None) -> Any:
            found = select(0)
            if timeout and not found:
                self.at += timeout
                self.wakes.append(self.at)
            return found

        selector.select = skip

    def time(self) -> float:
        return self.at


async def no_copy(source: RegionId, staging: Staging) -> None:
    raise AssertionError("nothing lacks")


class NoTicks:
    """No tick of a region at rest ends early."""

    def end_tick(self) -> int:
        raise AssertionError("nothing is merged")

    async def wait_logged(self, seq: int) -> None:
        raise AssertionError("nothing is merged")


class Rest:
    """A region at rest, with what looks at it now and then.

    Attributes:
        disk_looks: how often the folder was measured.
        shrinks: number of these in which it becomes smaller.
    """

    def __init__(self) -> None:
        self.disk_looks = self.shrinks = 0
        log = MemoryLog()
        self.engine = Engine(make_region(1), log, fsync=Fsync.EVERYSEC)
        measures = Measures(
            base=int,
            resident=int,
            clients=int,
            log_tail=int,
            bound_log_tail=lambda *, is_short: None,
            disk=self._disk,
        )
        self.watch = StorageWatch(self.engine, measures, log=log)
        self.bootstrapper = Bootstrapper(
            self.engine.region, log, MemoryStaging(), NoTicks(), no_copy, now=self.engine.now
        )

    def _disk(self) -> int:
        self.disk_looks += 1
        return max(0, self.shrinks - self.disk_looks)

    async def rest(self, seconds: float) -> None:
        """Each look begins at a time of its own."""
        async with asyncio.TaskGroup() as tasks:
            running = []
            for run in (self.engine.run, self.watch.run, self.bootstrapper.run):
                running.append(tasks.create_task(run()))
                await asyncio.sleep(0.13)
            await asyncio.sleep(seconds)
            for task in running:
                task.cancel()


@pytest.fixture
def resting() -> Rest:
    return Rest()


def test_a_region_at_rest_is_woken_once_a_second(resting: Rest) -> None:
    with contextlib.closing(Skipping()) as loop:
        loop.run_until_complete(resting.rest(60))
    # It ends between two beats, and the first looks are those of its beginning.
    assert len([at for at in loop.wakes if at >= loop.at - 50]) <= 50 + 1


def test_the_folder_of_a_region_at_rest_is_seldom_measured(resting: Rest) -> None:
    with contextlib.closing(Skipping()) as loop:
        loop.run_until_complete(resting.rest(10 * LOOKS_LEFT_OUT))
    assert 10 <= resting.disk_looks <= 11


def test_a_folder_that_becomes_smaller_is_measured_each_second(resting: Rest) -> None:
    """A checkpoint was made, and the log was cut: that is given back for a while."""
    resting.shrinks = 20
    with contextlib.closing(Skipping()) as loop:
        loop.run_until_complete(resting.rest(22))
    assert resting.disk_looks >= 20


async def rests(watch: StorageWatch, seq: int) -> float:
    """Time until the next look, after one when this was the last record."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await watch._until_written(seq, 1.0)
    return loop.time() - began


def test_looks_are_made_each_second_while_anything_is_written(resting: Rest) -> None:
    region = resting.engine.region
    seq = region.outstanding.left_seq
    with contextlib.closing(Skipping()) as loop:
        assert loop.run_until_complete(rests(resting.watch, seq)) >= LOOKS_LEFT_OUT - 1
        assert loop.run_until_complete(rests(resting.watch, seq - 1)) <= 1.25
        region.disk.maxdisk = 1 << 20
        assert loop.run_until_complete(rests(resting.watch, seq)) <= 1.25
        region.disk.maxdisk = 0
        # A checkpoint writes to the folder, and leaves no record.
        region.checkpointing.note_begun(resting.engine.now())
        assert loop.run_until_complete(rests(resting.watch, seq)) <= 1.25


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5, 5.0, 30.0])
@pytest.mark.parametrize("began", [0.0, 0.1, 0.74, 0.76, 0.999])
def test_looks_meet_wherever_they_began(seconds: float, began: float) -> None:
    """And none comes later than its interval says."""
    step = max(one for one in (1.0, 0.5) if seconds % one == 0)
    at, times = began, []
    for _ in range(8):
        beat = beat_within(at, seconds)
        assert 0 < beat - at <= seconds
        assert beat - at >= seconds / 4 or seconds == 0.5
        times.append(beat)
        # A timer is some milliseconds late.
        at = beat + 0.003
    # The first may be at a part of a step, where a whole one comes too soon.
    assert all(time % step == 0 for time in times[1:])
    assert {after - before for before, after in pairwise(times[1:])} == {seconds}


@pytest.mark.parametrize("seconds", [0.02, 0.25, 1.3])
def test_an_interval_that_no_beat_divides_is_kept(seconds: float) -> None:
    assert beat_within(7.123, seconds) == 7.123 + seconds
