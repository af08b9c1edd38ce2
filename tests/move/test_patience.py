"""Patience with an end: how long nothing may come, and what counts as something."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from crdtstream.cli import moving
from crdtstream.move.address import parse_address
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import LostError, MoveError
from crdtstream.move.pages import Pages
from tests.move.ends import Server

RETRY_SECONDS = 0.4


def worked(old: Server, work: Callable[[Pair], Awaitable[None]]) -> list[str]:
    """Lines that are said while work is done that may break."""
    said: list[str] = []

    async def run() -> None:
        target = parse_address(old.database(1).url)
        ends = Ends(parse_address(old.url), target, retry_seconds=RETRY_SECONDS, say=said.append)
        try:
            await ends.work(work)
        finally:
            ends.close()

    asyncio.run(run())
    return said


def test_patience_begins_with_the_first_failure(old: Server) -> None:
    """A step that ran well for longer than the patience has all of it."""
    runs: list[None] = []

    async def break_late(_: Pair) -> None:
        runs.append(None)
        if len(runs) == 1:
            await asyncio.sleep(1.5 * RETRY_SECONDS)
            raise LostError("it broke")

    assert worked(old, break_late) == ["it broke; tries again for 0 s"]
    assert len(runs) == 2


def test_pages_that_are_read_are_progress(old: Server) -> None:
    for _ in range(100):
        old.do("XADD s * f v")
    runs: list[None] = []

    async def read_and_break(pair: Pair) -> None:
        runs.append(None)
        async for _ in Pages(pair.source, b"s"):
            await asyncio.sleep(0.1)
        if len(runs) < 5:
            raise LostError("it broke")

    assert len(worked(old, read_and_break)) == 1
    assert len(runs) == 5


def test_an_end_that_answers_nothing_but_its_first_page_is_given_up(old: Server) -> None:
    old.do("XADD s * f v")

    async def read_and_break(pair: Pair) -> None:
        await Pages(pair.source, b"s").next()
        raise LostError("the other end is loading")

    with pytest.raises(MoveError, match="the other end is loading; tried for"):
        worked(old, read_and_break)


def test_the_time_that_is_left_is_reckoned_from_the_beginning_of_that_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The comparison begins after minutes of copying, and is as fast as it is."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = moving._Lines()
    lines.show("entries", 0, 10)
    now = 1_000.0
    lines.show("entries compared", 0, 100)
    now = 1_010.0
    lines.show("entries compared", 50, 100)
    assert "entries compared: 50 of 100, 10 s left" in capsys.readouterr().err
