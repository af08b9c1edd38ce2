"""Programs that use a region without Redis's protocol: how they wait, and what can go wrong."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from crdtstream.core.lanes.cold import TRIES_MAX
from crdtstream.region.ready import Parcel
from crdtstream.region.region import Region

T = TypeVar("T")


class UnreadableError(Exception):
    """Entries cannot be read from disk; nothing has changed."""


class OutcomeUnknownError(Exception):
    """The disk refused while a change was being made durable: it may be written, or not."""


class Reader:
    """A program that needs entries which are on disk only, again and again perhaps."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._came = asyncio.Event()
        self._tries = 0

    @contextlib.contextmanager
    def in_place_at_last(self) -> Iterator[None]:
        """After many tries, entries are read in place: with little memory the first ones may be
        gone again before the last ones come."""
        if self._tries < TRIES_MAX.value:
            yield
        else:
            with self._region.replica.residency.in_place():
                yield

    async def fetch(self, images: Sequence[int]) -> None:
        """Wait until the first image is there, or could not be read.

        Raises:
            UnreadableError: it could not.
        """
        region = self._region
        self._tries += 1
        self._came.clear()
        assert region.fetching.ask(images, self._came.set) is None
        region.tick.open()
        try:
            await self._came.wait()
        finally:
            reason = region.fetching.end(self._came.set)
        if reason is not None:
            raise UnreadableError(reason)


class Program(Generic[T]):
    """A program that waits for the result of its change."""

    def __init__(self) -> None:
        self.told: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def receive(self, parcel: Parcel) -> None:
        # Who asked may have gone.
        if self.told.done():
            return
        if parcel.certain:
            self.told.set_result(parcel.chunks[0])
        else:
            self.told.set_exception(OutcomeUnknownError())

    def resume(self) -> None:
        raise AssertionError("a program's change never blocks")
