"""The walk over all streams finds what is there, in slices, and only when it is asked for."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from crdtstream.metrics.walk import REST_SECONDS, SLICE_NS, Found, Walker
from tests.harness.regions import Node


def filled() -> Node:
    node = Node(1)
    for number in range(1, 11):
        key = f"stream-{number}"
        node.run(*(f"XADD {key} {entry}-1 f v" for entry in range(1, number + 1)))
        node.run(f"XGROUP CREATE {key} early 0", f"XGROUP CREATE {key} late $")
    # Of 10 entries 4 are delivered, and 1 of these acknowledged.
    node.run("XREADGROUP GROUP early alice COUNT 4 STREAMS stream-10 >", "XACK stream-10 early 1-1")
    return node


def walked(node: Node, *, names_max: int = 100) -> Found:
    found = Found(0)
    for _ in Walker(node.replica, names_max=names_max).steps(found):
        pass
    return found


def test_sums_are_of_all_streams_and_groups() -> None:
    found = walked(filled())
    assert (found.entries, found.groups, found.consumers) == (55, 20, 1)
    assert (found.pending, found.lag, found.lag_unknown) == (3, 55 - 4, 0)


def test_only_the_longest_and_busiest_are_named() -> None:
    found = walked(filled(), names_max=3)
    assert [(one.key, one.entries) for one in found.longest_streams] == [
        (b"stream-10", 10),
        (b"stream-9", 9),
        (b"stream-8", 8),
    ]
    assert [(one.key, one.name, one.lag, one.pending) for one in found.busiest_groups] == [
        # To deliver and to acknowledge together: 6 + 3.
        (b"stream-9", b"early", 9, 0),
        (b"stream-10", b"early", 6, 3),
        (b"stream-8", b"early", 8, 0),
    ]
    assert found.entries == 55


def test_with_none_to_be_named_no_name_is_kept() -> None:
    found = walked(filled(), names_max=0)
    assert found.longest_streams == []
    assert found.busiest_groups == []
    assert found.entries == 55


def test_a_lag_that_deletions_hide_is_counted_as_unknown() -> None:
    node = filled()
    node.run("XDEL stream-10 8-1", "XGROUP CREATE stream-10 middle 5-1")
    found = walked(node)
    # Of "early", which has read half of it, and of "middle"; 45 are those of the other streams.
    assert (found.lag_unknown, found.lag) == (2, 45)


def test_streams_may_come_and_go_between_two_steps() -> None:
    node = Node(1)
    for number in range(500):
        node.run(f"XADD {'stays' if number % 2 else 'goes'}-{number} 1-1 f v")
    # Of a stream with many groups, other streams may go in the middle.
    node.run(*(f"XGROUP CREATE stays-1 group-{number} 0" for number in range(300)))
    found = Found(0)
    for step, _ in enumerate(Walker(node.replica, names_max=10_000).steps(found)):
        node.run(f"XADD comes-{step} 1-1 f v", f"DEL goes-{2 * step}")
    named = Counter(one.key for one in found.longest_streams)
    assert set(named.values()) == {1}
    # Whatever was there all the time is counted; what came or went may be.
    assert sum(key.startswith(b"stays") for key in named) == 250


class Clock:
    """A clock that a test turns; each look at it takes a little."""

    def __init__(self) -> None:
        self.ns = 10**12

    def __call__(self) -> int:
        self.ns += SLICE_NS // 10
        return self.ns


@contextmanager
def walking(walker: Walker) -> Iterator[None]:
    task = asyncio.get_running_loop().create_task(walker.run())
    try:
        yield
    finally:
        task.cancel()


async def test_without_a_scrape_there_is_no_walk() -> None:
    walker = Walker(filled().replica, names_max=5)
    with walking(walker):
        await asyncio.sleep(0)
        assert walker.found is None
        found = await walker.fresh(10)
    assert found is not None
    assert found.entries == 55


async def test_the_walk_rests_after_each_slice() -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await asyncio.sleep(0)

    node = filled()
    # Each look at the clock takes a tenth of a slice, and there are some dozens.
    node.run(*(f"XADD more-{number} 1-1 f v" for number in range(500)))
    walker = Walker(node.replica, names_max=5, clock=Clock(), sleep=rest)
    with walking(walker):
        await walker.fresh(10)
    assert rests
    assert set(rests) == {REST_SECONDS}


async def test_scrapes_that_follow_each_other_closely_share_a_walk() -> None:
    node = filled()
    walker = Walker(node.replica, names_max=5, clock=lambda: 10**12)
    with walking(walker):
        first = await walker.fresh(10)
        second = await walker.fresh(10)
    assert first is second


async def test_a_scrape_does_not_wait_for_a_long_walk() -> None:
    walker = Walker(filled().replica, names_max=5)
    # Nobody walks: the scrape gets what there is, here nothing.
    assert await walker.fresh(0.001) is None
