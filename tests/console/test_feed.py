"""Figures for viewers: gathered once for all of them, while one watches, and changes only."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.types import Message

from crdtstream.console import feed as feed_module
from crdtstream.console import live, words
from crdtstream.console.feed import Feed, Viewer, ViewersFullError
from crdtstream.console.live import LiveResponse
from crdtstream.v1 import admin_pb2 as pb
from tests.console.shown import Shown, link, members, status
from tests.patience import seconds, until


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is a hundredth of one."""
    monkeypatch.setattr(feed_module.SAMPLE_SECONDS, "value", 0.01)
    monkeypatch.setattr(feed_module.OTHERS_SECONDS, "value", 0.05)


def read(event: bytes) -> tuple[str, Any]:
    """Kind and content of an event."""
    kind, data, end = event.decode().split("\n", 2)
    assert end == "\n"
    return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def next_of(viewer: Viewer, wanted: Callable[[str, Any], bool]) -> Any:
    """The content of the next event that is wanted."""
    async with asyncio.timeout(seconds()):
        while True:
            kind, content = read(await viewer.next())
            if wanted(kind, content):
                return content


def is_change(kind: str, _content: Any) -> bool:
    return kind == "change"


async def test_without_viewers_nothing_is_gathered() -> None:
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    with feed.watching() as viewer:
        await next_of(viewer, is_change)
        while_watched = feed.is_sampling
    assert (while_watched, feed.is_sampling) == (True, False)
    assert shown.samples >= 2


async def test_all_viewers_share_what_is_gathered() -> None:
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    with ExitStack() as stack:
        viewers = [stack.enter_context(feed.watching()) for _ in range(10)]
        events: list[list[bytes]] = [[] for _ in viewers]
        async with asyncio.timeout(seconds()):
            for _ in range(4):
                for viewer, found in zip(viewers, events, strict=True):
                    found.append(await viewer.next())
    changes = [found[1:] for found in events]
    # The very same bytes, which were made once.
    assert all(
        one is other for found in changes[1:] for one, other in zip(found, changes[0], strict=True)
    )


async def test_the_first_event_has_everything_and_the_next_ones_what_changed() -> None:
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    await feed.view()
    with feed.watching() as viewer:
        kind, whole = read(await viewer.next())
        assert kind == "whole"
        assert whole["cells"]["link.2-1.lag"] == "7 ms"
        shown.own = status(1, link(2, lag_ms=80), link(3))
        change = await next_of(viewer, lambda _, content: "link.2-1.lag" in content["cells"])
        assert change["cells"]["link.2-1.lag"] == "80 ms"
        assert "link.3-1.lag" not in change["cells"]
        assert change["curves"]["2-1.lag"] == 80
        shown.own = status(1, fault="the disk is full")
        change = await next_of(viewer, lambda _, content: "notices" in content)
        assert change["notices"][0]["alert"] == "CrdtstreamWritesRefused"


async def test_a_viewer_that_comes_takes_no_change_from_the_others() -> None:
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    with feed.watching() as viewer:
        await next_of(viewer, is_change)
        shown.own = status(1, link(2, lag_ms=80), link(3))
        # The next sample is due, and the newcomer is the first to want it.
        time.sleep(2 * feed_module.SAMPLE_SECONDS.value)
        with feed.watching():
            change = await next_of(viewer, lambda _, content: "link.2-1.lag" in content["cells"])
        assert change["cells"]["link.2-1.lag"] == "80 ms"


async def test_other_members_are_told_as_another_shape() -> None:
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    with feed.watching() as viewer:
        _, before = read(await viewer.next())
        shown.members = members(1, 2)
        after = await next_of(viewer, lambda kind, _: kind == "whole")
        assert after["shape"] != before["shape"]


async def test_others_are_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module.OTHERS_SECONDS, "value", 3600)
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    with feed.watching() as viewer:
        for _ in range(12):
            await next_of(viewer, is_change)
    assert shown.asked == 1


async def test_others_are_asked_again_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module.OTHERS_SECONDS, "value", 0.0)
    shown = Shown()
    may_answer, begun = asyncio.Event(), 0

    async def slow() -> Any:
        nonlocal begun
        begun += 1
        await may_answer.wait()
        return shown.others

    object.__setattr__(shown.parts, "others", slow)
    feed = Feed(shown.parts, assets="a")
    with feed.watching() as viewer:
        for _ in range(6):
            await next_of(viewer, is_change)
        assert begun == 1
        may_answer.set()
        async with asyncio.timeout(seconds()):
            while begun < 3:
                await viewer.next()


async def test_figures_that_are_gone_are_not_shown_as_of_now() -> None:
    copying = pb.BootstrapStatus(
        phase=pb.BootstrapStatus.COPYING, source=1, bytes=100, bytes_done=40
    )
    shown = Shown()
    shown.others = {2: status(2, bootstrap=copying), 3: status(3)}
    feed = Feed(shown.parts, assets="a")
    await feed.view()
    with feed.watching() as viewer:
        _, whole = read(await viewer.next())
        assert whole["cells"]["region.2.bootstrap.share"] == "40 %"
        shown.others = {2: "no answer", 3: status(3)}
        change = await next_of(
            viewer, lambda _, content: "region.2.bootstrap.share" in content["cells"]
        )
    cells = change["cells"]
    assert {cells[name] for name in whole["cells"] if name.startswith("region.2.bootstrap")} == {
        words.UNKNOWN
    }


async def test_a_page_waits_a_little_for_the_first_answers() -> None:
    view = await Feed(Shown().parts, assets="a").view()
    assert view.cells["region.2.state"] == "ok"


async def test_a_page_does_not_wait_long_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module.FIRST_ANSWERS_SECONDS, "value", 0.01)
    shown = Shown()
    never = asyncio.Event()

    async def stuck() -> Any:
        await never.wait()

    object.__setattr__(shown.parts, "others", stuck)
    feed = Feed(shown.parts, assets="a")
    async with asyncio.timeout(seconds()):
        view = await feed.view()
    assert view.cells["region.2.state"] == "not asked yet"
    assert view.notices == []


async def test_answers_of_a_time_when_somebody_watched_are_not_shown_as_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed_module.FIRST_ANSWERS_SECONDS, "value", 0.01)
    monkeypatch.setattr(feed_module.ANSWERS_SECONDS, "value", 0.05)
    shown = Shown()
    feed = Feed(shown.parts, assets="a")
    assert (await feed.view()).cells["region.2.state"] == "ok"
    never = asyncio.Event()

    async def stuck() -> Any:
        await never.wait()

    object.__setattr__(shown.parts, "others", stuck)
    async with asyncio.timeout(seconds()):
        while (await feed.view()).cells["region.2.state"] != "not asked yet":
            await asyncio.sleep(0.01)


async def test_a_curve_begins_again_after_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Feed(Shown().parts, assets="a")
    with feed.watching() as viewer:
        for _ in range(3):
            await next_of(viewer, is_change)
    assert len(feed.curve("2-1.lag")) >= 3
    monkeypatch.setattr(feed_module.CURVE_GAP_SECONDS, "value", 0.0)
    monkeypatch.setattr(feed_module.SAMPLE_SECONDS, "value", 0.0)
    await feed.view()
    assert len(feed.curve("2-1.lag")) == 1


async def test_a_page_is_shown_although_the_last_viewer_leaves_while_others_are_asked() -> None:
    shown = Shown()
    asked = asyncio.Event()

    async def stuck() -> Any:
        asked.set()
        await asyncio.Event().wait()

    object.__setattr__(shown.parts, "others", stuck)
    feed = Feed(shown.parts, assets="a")
    with feed.watching():
        page = asyncio.create_task(feed.view())
        await asked.wait()
    assert (await page).cells["region.1.state"] == "ok"


async def test_a_curve_has_a_bounded_number_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module.CURVE_POINTS, "value", 3)
    feed = Feed(Shown().parts, assets="a")
    with feed.watching() as viewer:
        for _ in range(6):
            await next_of(viewer, is_change)
    assert feed.curve("2-1.lag") == [7, 7, 7]


async def test_one_viewer_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module.VIEWERS_MAX, "value", 1)
    feed = Feed(Shown().parts, assets="a")
    with feed.watching():
        with pytest.raises(ViewersFullError), feed.watching():
            pass
        assert feed.viewer_count == 1
    with feed.watching():
        pass


async def test_a_viewer_that_leaves_changes_unread_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed_module.UNREAD_MAX, "value", 2)
    feed = Feed(Shown().parts, assets="a")
    with feed.watching() as viewer, feed.watching() as reads:
        async with asyncio.timeout(seconds()):
            while not viewer.is_behind:
                await reads.next()
        assert not reads.is_behind


# --- A browser's response -------------------------------------------------------------------------


class Browser:
    """The other end of a response."""

    def __init__(self) -> None:
        self.told: list[Message] = []
        self.leaves = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()

    async def receive(self) -> Message:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.told.append(message)

    @property
    def is_ended(self) -> bool:
        return bool(self.told) and not self.told[-1].get("more_body", False)

    async def serve(self, feed: Feed, still_may: Callable[[], bool] = lambda: True) -> None:
        scope = {"type": "http"}
        async with asyncio.timeout(seconds()):
            await LiveResponse(feed, still_may)(scope, self.receive, self.send)


async def test_a_response_ends_when_the_browser_leaves() -> None:
    feed, browser = Feed(Shown().parts, assets="a"), Browser()
    serving = asyncio.create_task(browser.serve(feed))
    await until(lambda: len(browser.told) >= 3, "three messages")
    browser.leaves.set()
    await serving
    assert feed.viewer_count == 0
    assert not feed.is_sampling


async def test_a_browser_that_does_not_read_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.SEND_SECONDS_MAX, "value", 0.05)
    feed, browser = Feed(Shown().parts, assets="a"), Browser()
    serving = asyncio.create_task(browser.serve(feed))
    await until(lambda: browser.told, "a message")
    browser.reads.clear()
    await serving
    assert feed.viewer_count == 0
    # Without an end, so that the server closes the connection.
    assert not browser.is_ended


async def test_a_viewer_that_loses_the_right_sees_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.RIGHTS_SECONDS, "value", 0.01)
    answers = iter([True, True, False])
    feed, browser = Feed(Shown().parts, assets="a"), Browser()
    await browser.serve(feed, lambda: next(answers))
    assert browser.is_ended
    assert feed.viewer_count == 0


async def test_one_viewer_too_many_is_answered_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed_module.VIEWERS_MAX, "value", 1)
    feed, browser = Feed(Shown().parts, assets="a"), Browser()
    with feed.watching():
        await browser.serve(feed)
    assert browser.told[0]["status"] == 503
    assert b"close one" in browser.told[1]["body"]
