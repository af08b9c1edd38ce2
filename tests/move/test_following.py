"""Sources that go on while they are moved: producers, caps, deadlines."""

import asyncio
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, TypeVar

import pytest

from crdtstream.move import checking, groups, moving, pages, streams, strings
from crdtstream.move import connection as connections
from crdtstream.move.address import parse_address
from crdtstream.move.ends import Ends, Pair
from crdtstream.move.errors import MoveError
from crdtstream.move.moving import Move, Outcome
from crdtstream.move.streams import Lag
from crdtstream.move.survey import Selection
from tests.move.ends import Server, Silent, seen
from tests.patience import seconds

Result = TypeVar("Result")


def moved(source: Server, target: Server, work: Callable[[Move], Awaitable[Result]]) -> Result:
    """The result of work with a move that has copied everything, in this process."""

    async def run() -> Result:
        ends = Ends(parse_address(source.url), parse_address(target.url), retry_seconds=1)
        try:
            one = Move(ends, Selection(), Silent())
            await one.begin()
            await one.copy()
            return await asyncio.wait_for(work(one), seconds())
        finally:
            ends.close()

    return asyncio.run(run())


async def cut_over(one: Move) -> Outcome:
    return await one.cut_over(stop_writes=False)


def test_a_pass_that_is_slow_is_level_all_the_same(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many streams, of which each has something new in each pass."""
    old.do("XADD s 1-1 f v")
    copying: Any = streams.copy_entries

    async def copy_slowly(*words: Any, **options: Any) -> None:
        await copying(*words, **options)
        await asyncio.sleep(1.2)
        old.do("XADD s * f v")

    async def follow(one: Move) -> None:
        old.do("XADD s * f v")
        monkeypatch.setattr(moving, "copy_entries", copy_slowly)
        await one.follow(until_level=True)

    moved(old, old.database(1), follow)


def test_a_capped_stream_is_measured_by_its_counter_and_trimmed_in_each_pass(old: Server) -> None:
    target = old.database(1)
    old.do(*(f"XADD s {number}-1 f v" for number in range(1, 11)), "XADD level 1-1 f v")

    async def follow(one: Move) -> dict[bytes, Lag]:
        assert await one.behind() == {}
        old.do(*(f"XADD s MAXLEN 10 {number}-1 f v" for number in range(11, 41)))
        behind = await one.behind()
        await one.follow(until_level=True)
        return behind

    assert moved(old, target, follow) == {b"s": Lag(30, is_trimmed=True)}
    assert target.client.xrange("s") == old.client.xrange("s")


@pytest.mark.parametrize(
    ("step", "own"), [("check_stream", checking), ("bring_deadlines", strings)]
)
def test_keys_that_expire_during_a_cut_over_are_no_difference(
    old: Server, monkeypatch: pytest.MonkeyPatch, step: str, own: ModuleType
) -> None:
    """Before their deadline was brought, too: the target would keep them for ever."""
    target = old.database(1)
    old.do("XADD s 1-1 f v", "XADD t 1-1 f v", "SET name v", "SET other v")
    working: Any = getattr(own, step)

    async def work_late(*words: Any) -> Any:
        while old.client.exists("s", "name"):
            await asyncio.sleep(0.01)
        return await working(*words)

    monkeypatch.setattr(moving, step, work_late)
    old.do("PEXPIRE s 700", "PEXPIRE name 700")
    outcome = moved(old, target, cut_over)
    assert outcome.is_equal, outcome
    assert outcome.expired == 2
    assert [one.key for one in outcome.streams] == [b"t"]
    assert seen(target) == seen(old)
    assert seen(target).keys() == {b"t", b"other"}


def test_a_group_is_brought_while_producers_of_the_region_are_active(
    old: Server, region: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    region.do("XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 1-1")
    paging: Any = pages.Pages

    def page_after_another_entry(*words: Any, **options: Any) -> Any:
        region.do("XADD s * f new")
        return paging(*words, **options)

    monkeypatch.setattr(groups, "Pages", page_after_another_entry)
    moved(region, old, lambda one: one.finish())
    (group,) = old.client.xinfo_groups("s")
    assert group["last-delivered-id"] == b"1-1"


def test_large_entries_are_looked_at_in_smaller_pipelines(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        old.client.xadd(f"s:{number}", {"f": b"x" * 100_000}, id="1-1")
    monkeypatch.setattr(connections, "REPLY_BYTES_MAX", 1 << 20)

    async def look(one: Move) -> dict[bytes, Lag]:
        return await one.behind()

    assert moved(old, old.database(1), look) == {}


def test_a_string_that_is_too_large_is_named_at_once(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = old.database(1)
    old.do("SET small v", "SETRANGE large 2000000 v")
    monkeypatch.setattr(connections, "REPLY_BYTES_MAX", 1 << 20)
    with pytest.raises(MoveError, match="the string large has 2000001 bytes"):
        moved(old, target, cut_over)
    assert seen(target) == {}


def test_a_reply_that_is_too_large_is_no_outage(
    old: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all the patience it would never come to be smaller."""
    target = old.database(1)
    target.do("XADD s 1-1 f v")
    target.client.xadd("s", {"f": b"x" * (2 << 20)}, id="2-1")
    old.do("XADD s 1-1 f v")
    monkeypatch.setattr(connections, "REPLY_BYTES_MAX", 1 << 20)

    async def read(work: Callable[[Pair], Awaitable[object]]) -> None:
        ends = Ends(parse_address(old.url), parse_address(target.url), retry_seconds=3_600)
        try:
            await asyncio.wait_for(ends.work(work), seconds())
        finally:
            ends.close()

    with pytest.raises(MoveError, match="s: its first and last entry are too large"):
        asyncio.run(read(lambda pair: streams.facts_of(pair.target, b"s")))
    with pytest.raises(MoveError, match="a reply exceeds 1 MiB"):
        asyncio.run(read(lambda pair: pair.target.call("XRANGE", "s", "-", "+")))
