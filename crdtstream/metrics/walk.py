"""Figures of all streams and groups, gathered in small slices so that no client is held up.

A scrape starts a walk and gets what the last walk found.  A walk reads all streams in SCAN's
order, for a millisecond at a time, and rests between two slices: it takes a tenth of a core at
most.  Without scrapes there are no walks.

    scrape ── ask ──> walk   ██____██____██____██ ──> Found     (██ 1 ms, ____ 9 ms)

A stream that is created or deleted during a walk is counted or not; one that exists all the time is
counted once.
"""

import asyncio
import contextlib
import heapq
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from crdtstream.commands.streams.xinfo import lag
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

T = TypeVar("T", "StreamFigures", "GroupFigures")
SLICE_NS: Final = 1_000_000
REST_SECONDS: Final = 0.009
# Keys that one look at the keyspace returns, and groups of one key, between looks at the clock.
KEYS_AT_ONCE: Final = 16
GROUPS_AT_ONCE: Final = 32
# Scrapes that come sooner after each other share a walk.
WALK_SECONDS_MIN: Final = 1.0


@dataclass(frozen=True, slots=True, order=True)
class StreamFigures:
    """A stream's place in the list of the longest."""

    entries: int
    key: bytes

    @property
    def rank(self) -> int:
        return self.entries


@dataclass(frozen=True, slots=True, order=True)
class GroupFigures:
    """A group's place in the list of those with the most to do.

    Attributes:
        unfinished: entries to deliver here and entries to acknowledge here, together.
        lag: None: deletions hide it.
    """

    unfinished: int
    key: bytes
    name: bytes
    lag: int | None = field(compare=False)
    pending: int = field(compare=False)
    consumers: int = field(compare=False)

    @property
    def rank(self) -> int:
        return self.unfinished


@dataclass(slots=True)
class Found:
    """Findings of one walk.

    Attributes:
        began_ns, ended_ns: by the walker's clock.
        longest_streams, busiest_groups: the greatest first.
    """

    began_ns: int
    ended_ns: int = 0
    entries: int = 0
    groups: int = 0
    consumers: int = 0
    pending: int = 0
    lag: int = 0
    lag_unknown: int = 0
    longest_streams: list[StreamFigures] = field(default_factory=list)
    busiest_groups: list[GroupFigures] = field(default_factory=list)


class Walker:
    """Walks over the streams of a replica when it is asked to.

    Attributes:
        found: by the last walk; None before the first one ended.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        names_max: int,
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """A walker that has not walked yet.

        Args:
            names_max: how many streams and how many groups are listed one by one.
            clock: nanoseconds that pass.
            sleep: waits for a number of seconds, after each slice.
        """
        self.found: Found | None = None
        self._replica = replica
        self._names_max = names_max
        self._clock = clock
        self._sleep = sleep
        self._asked = asyncio.Event()
        self._ended = asyncio.Event()

    async def fresh(self, seconds_max: float) -> Found | None:
        """Ask for a walk and wait a little for its end; returns what the last one found."""
        self._ended.clear()
        self._asked.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._ended.wait()
        return self.found

    async def run(self) -> None:
        """Walk each time after a request for figures, for as long as the node runs."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            if not self._is_fresh():
                await self._walk()
            self._ended.set()

    def _is_fresh(self) -> bool:
        found = self.found
        return found is not None and self._clock() - found.ended_ns < WALK_SECONDS_MIN * 1e9

    async def _walk(self) -> None:
        found = Found(self._clock())
        ends = found.began_ns + SLICE_NS
        for _ in self.steps(found):
            if self._clock() >= ends:
                await self._sleep(REST_SECONDS)
                ends = self._clock() + SLICE_NS
        found.ended_ns = self._clock()
        self.found = found

    def steps(self, found: Found) -> Iterator[None]:
        """The walk in steps of a few microseconds; between two of them anything may change."""
        longest: _Greatest[StreamFigures] = _Greatest(self._names_max)
        busiest: _Greatest[GroupFigures] = _Greatest(self._names_max)
        replica, cursor = self._replica, 0
        while True:
            cursor, keys = replica.keys.scan(cursor, KEYS_AT_ONCE)
            for key in keys:
                stream = replica.stream(key)
                # A key may be gone that was there when the one before had its many groups counted.
                if stream is None:
                    continue
                entries = stream.length
                found.entries += entries
                if entries > longest.least:
                    longest.offer(StreamFigures(entries, key))
                if stream.groups:
                    yield from _groups_of(key, stream, found, busiest)
            yield
            if not cursor:
                break
        found.longest_streams = longest.descending()
        found.busiest_groups = busiest.descending()


def _groups_of(
    key: bytes, stream: Stream, found: Found, busiest: "_Greatest[GroupFigures]"
) -> Iterator[None]:
    for number, (name, group) in enumerate(list(stream.groups.items()), start=1):
        behind, pending, consumers = lag(stream, group), group.pending_count, len(group.consumers)
        found.groups += 1
        found.consumers += consumers
        found.pending += pending
        if behind is None:
            found.lag_unknown += 1
        else:
            found.lag += behind
        unfinished = (behind or 0) + pending
        if unfinished > busiest.least:
            group_figures = GroupFigures(unfinished, key, name, behind, pending, consumers)
            busiest.offer(group_figures)
        if number % GROUPS_AT_ONCE == 0:
            yield


class _Greatest(Generic[T]):
    """The greatest of what was offered, a few of them.

    Attributes:
        least: an item that does not rank above it need not be offered.
    """

    def __init__(self, count: int) -> None:
        self.least = -1 if count else sys.maxsize
        self._count = count
        # The least of them first.
        self._heap: list[T] = []

    def offer(self, item: T) -> None:
        """Take it if it is one of the greatest."""
        if len(self._heap) < self._count:
            heapq.heappush(self._heap, item)
        elif self._heap[0] < item:
            heapq.heapreplace(self._heap, item)
        if len(self._heap) == self._count:
            self.least = self._heap[0].rank

    def descending(self) -> list[T]:
        return sorted(self._heap, reverse=True)
