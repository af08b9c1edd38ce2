"""The watch of memory and disk costs next to nothing: idle, and with many clients."""

import asyncio
import dataclasses
import time

import pytest
from structlog.testing import capture_logs

from crdtstream.engine import storage_watch
from crdtstream.engine.engine import Engine
from crdtstream.engine.storage_watch import (
    ACCOUNT_SECONDS,
    QUIET_LOG_SECONDS,
    QUIET_SECONDS,
    Measures,
    StorageWatch,
)
from crdtstream.region.room import MemoryBound
from crdtstream.store.errors import StoreError
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region

BASE_BYTES, MIB = 1_000, 1 << 20


class Measured:
    """A watch of a region, and what it asks for.

    Attributes:
        looks: how often it asked how much is in memory.
        counts: how often it asked what clients hold.
        client_seconds: how long that takes.
        log_bytes: what the log has in memory.
        resident_bytes, free_bytes: of the process, and what Python's allocator has free of that.
    """

    def __init__(self) -> None:
        self.looks = self.counts = self.log_bytes = 0
        self.client_seconds = 0.0
        self.resident_bytes, self.free_bytes = BASE_BYTES, 0
        self.engine = Engine(make_region(1), MemoryLog())
        self.watch = StorageWatch(
            self.engine,
            Measures(
                base=lambda: BASE_BYTES,
                resident=lambda: self.resident_bytes,
                free=lambda: self.free_bytes,
                clients=self._clients,
                log_tail=self._log_tail,
                bound_log_tail=lambda *, is_short: None,
                disk=lambda: 0,
                nodes=lambda: 0,
            ),
        )

    @property
    def memory(self) -> MemoryBound:
        return self.engine.region.room.memory

    def _log_tail(self) -> int:
        self.looks += 1
        return self.log_bytes

    def _clients(self) -> int:
        self.counts += 1
        time.sleep(self.client_seconds)
        return 0


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Intervals of the watch of memory, in seconds; they take no time."""
    slept: list[float] = []

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(storage_watch, "until_beat", noted)
    return slept


async def look(measured: Measured, pauses: list[float], times: int) -> list[float]:
    """Have it look so often; how long it slept in between."""
    del pauses[:]
    watching = asyncio.create_task(measured.watch._watch_memory())
    while len(pauses) < times:
        await asyncio.sleep(0)
    watching.cancel()
    return pauses[:times]


async def test_an_idle_node_measures_its_memory_seldom(pauses: list[float]) -> None:
    slept = await look(Measured(), pauses, 40)
    assert slept[-1] == QUIET_SECONDS
    assert slept == sorted(slept)


async def test_near_its_bound_memory_is_looked_at_as_often_as_ever(pauses: list[float]) -> None:
    measured = Measured()
    measured.memory.maxmemory = 1_999
    assert set(await look(measured, pauses, 20)) == {ACCOUNT_SECONDS}


async def used_after_a_look(measured: Measured) -> int:
    await measured.watch._look_at_overhead(measured.watch.account())
    return measured.watch.account().total - BASE_BYTES


async def test_freed_memory_that_the_process_keeps_is_not_counted_as_used() -> None:
    """Python's allocator gives an arena back only when nothing is left in it."""
    measured = Measured()
    measured.log_bytes = 200 * MIB
    measured.resident_bytes = BASE_BYTES + 230 * MIB
    assert await used_after_a_look(measured) == 230 * MIB, "30 MiB are overhead"
    measured.log_bytes, measured.free_bytes = 0, 190 * MIB
    assert await used_after_a_look(measured) == 40 * MIB


async def test_overhead_that_became_free_is_not_used() -> None:
    """A command has put together what nobody counts, and something else was deleted since."""
    measured = Measured()
    measured.resident_bytes = BASE_BYTES + 100 * MIB
    assert await used_after_a_look(measured) == 100 * MIB
    # Of the same size, so that there is nothing to be seen from outside.
    measured.log_bytes, measured.free_bytes = 20 * MIB, 80 * MIB
    assert await used_after_a_look(measured) == 20 * MIB


async def test_little_that_became_free_counts_while_writers_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given_back: list[bool] = []
    monkeypatch.setattr(
        "crdtstream.engine.storage_watch.give_back_memory", lambda: given_back.append(True)
    )
    measured = Measured()
    measured.resident_bytes = BASE_BYTES + 20 * MIB
    await used_after_a_look(measured)
    measured.memory.maxmemory = 20 * MIB
    measured.memory.look(measured.watch.account())
    assert measured.memory.is_full
    measured.free_bytes = MIB // 8
    del given_back[:]
    assert await used_after_a_look(measured) == 20 * MIB - MIB // 8
    assert given_back, "the C library may have kept some, too"


async def test_little_that_became_free_counts_soon_where_memory_is_half_full() -> None:
    """A checkpoint that ends frees what it had kept of deleted keys, and nothing else shows it."""
    measured = Measured()
    measured.resident_bytes = BASE_BYTES + 20 * MIB
    assert await used_after_a_look(measured) == 20 * MIB
    measured.free_bytes = 4 * MIB
    measured.memory.maxmemory = 60 * MIB
    measured.memory.look(measured.watch.account())
    assert await used_after_a_look(measured) == 20 * MIB, "far below the bound it is not urgent"
    measured.memory.maxmemory = 30 * MIB
    measured.memory.look(measured.watch.account())
    assert not measured.memory.is_full
    assert await used_after_a_look(measured) == 16 * MIB


async def test_free_memory_of_the_c_library_is_returned_after_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was overhead before, so nothing changes until the C library is told."""
    measured = Measured()
    measured.resident_bytes = BASE_BYTES + 12 * MIB
    assert await used_after_a_look(measured) == 12 * MIB

    def give_back() -> None:
        measured.resident_bytes = BASE_BYTES + 4 * MIB

    monkeypatch.setattr("crdtstream.engine.storage_watch.give_back_memory", give_back)
    assert await used_after_a_look(measured) == 12 * MIB
    measured.engine.region.checkpointing.count += 1
    assert await used_after_a_look(measured) == 4 * MIB


@pytest.mark.parametrize(
    ("grown_bytes", "is_given_back"), [(64 << 10, False), (3 * MIB, True), (-4 * MIB, True)]
)
async def test_overhead_that_has_changed_may_be_free(
    monkeypatch: pytest.MonkeyPatch, grown_bytes: int, *, is_given_back: bool
) -> None:
    """A part of it is what the C library keeps of what was counted before, or of what went."""
    measured = Measured()
    measured.memory.maxmemory = 30 * MIB
    measured.resident_bytes = BASE_BYTES + 20 * MIB
    await used_after_a_look(measured)
    measured.memory.look(measured.watch.account())
    assert not measured.memory.is_full
    given_back: list[bool] = []
    monkeypatch.setattr(
        "crdtstream.engine.storage_watch.give_back_memory", lambda: given_back.append(True)
    )
    measured.resident_bytes += grown_bytes
    await used_after_a_look(measured)
    assert given_back == [True] * is_given_back
    await used_after_a_look(measured)
    assert given_back == [True] * is_given_back, "once"


async def test_reused_memory_is_no_longer_counted_as_free() -> None:
    measured = Measured()
    measured.resident_bytes = BASE_BYTES + 100 * MIB
    measured.free_bytes = 90 * MIB
    assert await used_after_a_look(measured) == 10 * MIB
    # Less than what makes it worth to ask the allocator.
    measured.log_bytes = 8 * MIB
    assert await used_after_a_look(measured) == 18 * MIB
    measured.log_bytes, measured.free_bytes = 95 * MIB, 0
    assert await used_after_a_look(measured) == 100 * MIB


def test_a_log_that_nobody_writes_to_is_quiet_after_a_while() -> None:
    """Its last records leave memory: links that are up have them."""
    watch = Measured().watch
    outstanding = watch._region.outstanding
    assert not watch._is_log_quiet(100.0)
    outstanding.left_seq += 1
    assert not watch._is_log_quiet(100.0 + QUIET_LOG_SECONDS)
    assert not watch._is_log_quiet(99.0 + 2 * QUIET_LOG_SECONDS)
    assert watch._is_log_quiet(100.0 + 2 * QUIET_LOG_SECONDS)


def test_many_clients_are_not_counted_at_each_look() -> None:
    measured = Measured()
    measured.client_seconds = 0.02
    for _ in range(10):
        measured.watch.account()
    assert (measured.looks, measured.counts) == (10, 1)


async def test_a_disk_that_does_not_answer_does_not_end_the_node(pauses: list[float]) -> None:
    """It is told once, and the size that was found last counts until there is another one."""
    measured = Measured()
    region = measured.engine.region
    answers: list[int | StoreError] = [700, StoreError("EIO"), StoreError("EIO"), 800]
    seen: list[int] = []

    def measure() -> int:
        seen.append(region.disk.used)
        answer = answers[min(len(seen), len(answers)) - 1]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    measured.watch._measures = dataclasses.replace(measured.watch._measures, disk=measure)
    with capture_logs() as lines:
        watching = asyncio.create_task(measured.watch._watch_disk())
        while len(seen) < 6:
            assert not watching.done()
            await asyncio.sleep(0)
        watching.cancel()
    assert seen[:5] == [0, 700, 700, 700, 800]
    assert [line["reason"] for line in lines] == ["EIO"]
