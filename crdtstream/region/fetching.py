"""Entries that are read from disk, and who waits for them.

    a command, a blocked client, a batch of a peer …    says which images it needs: ``ask``
    Ready.fetch                                         the engine reads them, off the loop
    ``note_fetched``, ``note_failed``                   who waited goes on, and tries again

An image is read once however many wait for it.  Who goes on may find that it needs more, and waits
again; or that what it needs could not be read, which ``ask`` tells it.

Always so:
  * Who waits for an image goes on when that came or failed, in the order in which they began.
  * What failed is asked for again by the next who needs it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from crdtstream.core.checkpoint.parts import NO_IMAGE

# What to call when the image that somebody waits for is there, or could not be read.
GoOn: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class FetchStats:
    """Counters since the region was made.

    Attributes:
        images: read from disk.
        failures: reads that failed, of one image or several.
        waited: how often somebody had to wait for images.
    """

    images: int = 0
    failures: int = 0
    waited: int = 0


class Fetching:
    """See the module's text.

    Attributes:
        fault: why the last read failed; None once one succeeded.
    """

    __slots__ = ("_failed", "_requests", "_waiters", "fault", "stats")

    def __init__(self) -> None:
        self.fault: str | None = None
        self.stats = FetchStats()
        # By image that is being read who waits for it, in the order in which they began; dicts for
        # sets.  Nobody waits for what is read ahead.
        self._waiters: dict[int, dict[GoOn, int]] = {}
        # Asked for since the last ``take``.
        self._requests: list[tuple[int, ...]] = []
        # Who has still to hear that an image could not be read, and why.
        self._failed: dict[GoOn, tuple[int, str]] = {}

    def __len__(self) -> int:
        """How many images are being read."""
        return len(self._waiters)

    def ask(self, images: Sequence[int], go_on: GoOn) -> str | None:
        """Read images, and call somebody when the first of them is there; the others are read
        ahead.

        Who waits for the first one already is called once, and nothing more is read: each tick
        asks for what it needs to tell what was acknowledged, however long a read takes.

        Returns:
            Why the first one could not be read, if that was just tried for him; then nothing is
            read.  It is told once: who asks after that has it read again.
        """
        failed, reason = self._failed.pop(go_on, (NO_IMAGE, ""))
        if failed == images[0]:
            return reason
        if go_on in self._waiters.get(images[0], ()):
            return None
        self.stats.waited += 1
        new = [number for number in dict.fromkeys(images) if number not in self._waiters]
        for number in new:
            self._waiters[number] = {}
        self._waiters[images[0]][go_on] = self.stats.waited
        if new:
            self._requests.append(tuple(new))
        return None

    def take(self) -> list[tuple[int, ...]]:
        """What is to be read and nobody was told to read yet; each request by itself, what it is
        for in front."""
        if not self._requests:
            return []
        requests, self._requests = self._requests, []
        return requests

    def note_fetched(self, asked: Sequence[int], images: int) -> list[GoOn]:
        """A request was read, so many images of it; returns who goes on."""
        self.stats.images += images
        self.fault = None
        return self._end(asked)

    def note_failed(self, asked: Sequence[int], reason: str) -> list[GoOn]:
        """A request failed at its first image; returns who is to hear of it, or asks again."""
        self.stats.failures += 1
        self.fault = reason
        for go_on in self._waiters.get(asked[0], ()):
            self._failed[go_on] = asked[0], reason
        return self._end(asked)

    def end(self, go_on: GoOn) -> str | None:
        """Somebody waits no more; returns why the image he waited for could not be read."""
        for waiters in self._waiters.values():
            waiters.pop(go_on, None)
        failed = self._failed.pop(go_on, None)
        return None if failed is None else failed[1]

    def _end(self, asked: Sequence[int]) -> list[GoOn]:
        ended: dict[GoOn, int] = {}
        for number in asked:
            for go_on, began in self._waiters.pop(number, {}).items():
                ended[go_on] = min(began, ended.get(go_on, began))
        return sorted(ended, key=lambda go_on: ended[go_on])
