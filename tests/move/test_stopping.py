"""A move that is stopped leaves the source as it was."""

import asyncio

import pytest

from crdtstream.cli.moving import until_stopped
from crdtstream.move.address import parse_address
from crdtstream.move.ends import Ends
from crdtstream.move.moving import Move
from crdtstream.move.survey import Selection
from tests.move.ends import Server


async def test_work_that_is_stopped_has_the_time_to_clean_up() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            ended.append("clean")

    asked = iter([False, False])
    with pytest.raises(asyncio.CancelledError):
        await until_stopped(lambda: next(asked, True), work())
    assert ended == ["clean"]


async def test_work_that_ends_by_itself_has_a_result() -> None:
    async def work() -> int:
        return 7

    assert await until_stopped(lambda: False, work()) == 7


class _Stopping:
    """A watcher that stops the move when it first shows something."""

    def __init__(self) -> None:
        self.task: asyncio.Task[object] | None = None
        self.seen: list[object] = []

    def show(self, what: str, done: int, total: int) -> None:
        if self.task is not None:
            self.task.cancel()
            self.task = None

    def say(self, text: str) -> None:
        pass


def test_a_cut_over_that_is_stopped_lowers_the_fence(old: Server) -> None:
    old.do("XADD s 1-1 f v")
    target = old.database(1)
    watcher = _Stopping()

    async def run() -> None:
        ends = Ends(parse_address(old.url), parse_address(target.url), retry_seconds=1)
        move = Move(ends, Selection(), watcher)
        try:
            await move.begin()
            watcher.task = asyncio.create_task(move.cut_over(stop_writes=True))
            with pytest.raises(asyncio.CancelledError):
                await watcher.task
        finally:
            ends.close()

    asyncio.run(run())
    assert watcher.task is None
    assert old.do("XADD s 2-1 f v") == b"2-1"
