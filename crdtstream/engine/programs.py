"""Programs that use a region without Redis's protocol: how they wait, and what can fail."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from crdtstream.core.lanes.cold import TRIES_MAX, ColdError, UnreadableError
from crdtstream.core.replica import Replica
from crdtstream.region.ready import Parcel
from crdtstream.region.region import Region

T = TypeVar("T")


class OutcomeUnknownError(Exception):
    """The disk refused while a change was being made durable: it may be written, or not."""


def attempts(replica: Replica, act: Callable[[], object]) -> Iterator[Sequence[int]]:
    """Do what may need entries that are on disk only; each time it does, yield their images.

    The caller brings them into memory, or at least the first one, and goes on.  After many attempts
    entries are read in place: with little memory the first ones may have left again before the last
    ones come.

    Args:
        act: raises ``ColdError`` before it changes anything.

    Raises:
        UnreadableError: entries were to be read in place, and cannot be; nothing has changed.
    """
    tries = 0
    while True:
        in_place = tries >= TRIES_MAX.value
        try:
            with replica.residency.in_place() if in_place else contextlib.nullcontext():
                act()
        except ColdError as error:
            images = error.images
        else:
            return
        tries += 1
        yield images


class Reader:
    """A program that needs entries which are on disk only, perhaps several times."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._came = asyncio.Event()

    async def fetch(self, images: Sequence[int]) -> None:
        """Wait until the first image has been read, or could not be read.

        Raises:
            UnreadableError: it could not.
        """
        region = self._region
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
        # The caller may have ended.
        if self.told.done():
            return
        if parcel.certain:
            self.told.set_result(parcel.chunks[0])
        else:
            self.told.set_exception(OutcomeUnknownError())

    def resume(self) -> None:
        raise AssertionError("a program's change never blocks")
