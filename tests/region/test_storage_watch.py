"""What is looked at all the time costs next to nothing: idle, and with many clients."""

import asyncio
import time

import pytest

from crdtstream.engine import Engine
from crdtstream.region.room import MemoryBound
from crdtstream.storage_watch import ACCOUNT_SECONDS, QUIET_SECONDS, Measures, StorageWatch
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region


class Measured:
    """A watch of a region, and what it asks for.

    Attributes:
        looks: how often it asked how much is in memory.
        counts: how often it asked what clients hold.
        client_seconds: how long that takes.
        log_bytes: what the log is told to keep in memory.
    """

    def __init__(self) -> None:
        self.looks = self.counts = self.log_bytes = 0
        self.client_seconds = 0.0
        self.engine = Engine(make_region(1), MemoryLog())
        self.watch = StorageWatch(
            self.engine,
            Measures(
                base=lambda: 1_000,
                resident=lambda: 1_000,
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
    """How long the watch of memory slept, each time; the sleeps themselves take no time."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return slept


async def look(measured: Measured, pauses: list[float], times: int) -> list[float]:
    """Have it look so often; how long it slept in between."""
    del pauses[:]
    watching = asyncio.create_task(measured.watch._watch_memory())
    while len(pauses) < times:
        await asyncio.sleep(0)
    watching.cancel()
    # Those of this loop are none of the watch's.
    return [seconds for seconds in pauses if seconds][:times]


async def test_who_has_nothing_to_do_looks_seldom(pauses: list[float]) -> None:
    slept = await look(Measured(), pauses, 40)
    assert slept[-1] == QUIET_SECONDS
    assert slept == sorted(slept)


async def test_near_its_bound_memory_is_looked_at_as_often_as_ever(pauses: list[float]) -> None:
    measured = Measured()
    measured.memory.maxmemory = 1_999
    assert set(await look(measured, pauses, 20)) == {ACCOUNT_SECONDS}


def test_many_clients_are_not_counted_at_each_look() -> None:
    measured = Measured()
    measured.client_seconds = 0.02
    for _ in range(10):
        measured.watch.account()
    assert (measured.looks, measured.counts) == (10, 1)
