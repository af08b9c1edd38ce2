"""A node that was held up hears its peers before it judges them."""

import asyncio

import pytest

from crdtstream.replication.sleeping import LATE_SECONDS, sleep_until
from tests.patience import exactly


class HeldUp(asyncio.SelectorEventLoop):
    """An event loop whose clock can jump, as if something had held it for that time."""

    held_s = 0.0

    def time(self) -> float:
        return super().time() + self.held_s


@pytest.mark.parametrize("is_woken", [False, True])
def test_a_link_that_is_woken_late_lets_its_reader_read(is_woken: bool) -> None:
    heard: list[str] = []

    async def read() -> None:
        # The loop learns of what came in some of its next turns.
        for _ in range(5):
            await asyncio.sleep(0)
        heard.append("a heartbeat")

    async def held_up() -> list[str]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, HeldUp)
        wake = asyncio.Event()
        link = asyncio.create_task(sleep_until(wake, loop.time() + exactly(3)))
        await asyncio.sleep(0)
        loop.held_s += exactly(3) + 2 * LATE_SECONDS.value
        if is_woken:
            wake.set()
        reader = asyncio.create_task(read())
        await link
        told = list(heard)
        await reader
        return told

    with asyncio.Runner(loop_factory=HeldUp) as runner:
        assert runner.run(held_up()) == ["a heartbeat"]


def test_a_link_that_is_woken_in_time_goes_on_at_once() -> None:
    async def woken() -> float:
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        wake.set()
        began = loop.time()
        await sleep_until(wake, began + 3)
        await sleep_until(wake, None)
        await sleep_until(wake, began)
        return loop.time() - began

    class Still(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return 1_000.0

    with asyncio.Runner(loop_factory=Still) as runner:
        assert runner.run(woken()) == 0
