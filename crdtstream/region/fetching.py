"""Entries that are read from disk, and the callers that wait for them.

    a command, a blocked client, a batch of a peer …    says which images it needs: ``ask``
    Ready.fetch                                         the engine reads them, off the loop
    ``note_fetched``, ``note_failed``                   the caller goes on, and tries again

An image is read once, however many callers wait for it.  A caller that goes on may need more, and
waits again.  Or what it needs could not be read: then ``ask`` returns the reason.

Always so:
  * Callers that wait for an image go on when it came or failed, in the order in which they began.
  * What failed is read again when it is asked for next.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from crdtstream.core.checkpoint.parts import NO_IMAGE

# A function that is called when an image has been read, or could not be read.
GoOn: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class FetchStats:
    """Counters since the region was made.

    Attributes:
        images: number that were read from disk.
        failures: reads that failed, of one image or several.
        waited: how often a caller had to wait for images.
    """

    images: int = 0
    failures: int = 0
    waited: int = 0


class Fetching:
    """See the module's text.

    Attributes:
        fault: reason why the last read failed; None once one succeeded.
        requests: images that were asked for since the last ``take``.
    """

    __slots__ = ("_failed", "_waiters", "fault", "requests", "stats")

    def __init__(self) -> None:
        self.fault: str | None = None
        self.stats = FetchStats()
        # Per image that is being read the callers that wait for it, in the order in which they
        # began; dicts for sets.  Images that are read ahead have none.
        self._waiters: dict[int, dict[GoOn, int]] = {}
        self.requests: list[tuple[int, ...]] = []
        # Callers that have not heard yet that an image could not be read, and why it could not.
        self._failed: dict[GoOn, tuple[int, str]] = {}

    def __len__(self) -> int:
        """Number of images that are being read."""
        return len(self._waiters)

    def ask(self, images: Sequence[int], go_on: GoOn) -> str | None:
        """Read images, and call ``go_on`` when the first of them has arrived; the others are read
        ahead.

        A caller that waits for the first one already is called once, and nothing more is read: each
        tick asks for what it needs to tell what was acknowledged, however long a read takes.

        Returns:
            The reason if the first one could not be read when it was just tried for this caller;
            then nothing is read.  It is returned once: asking after that reads it again.
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
            self.requests.append(tuple(new))
        return None

    def take(self) -> list[tuple[int, ...]]:
        """Requests that were not taken yet, each to be read by itself; the image that it needs
        stands in front."""
        requests, self.requests = self.requests, []
        return requests

    def note_fetched(self, asked: Sequence[int], images: int) -> list[GoOn]:
        """Note that ``images`` images of a request were read; return the callers that go on."""
        self.stats.images += images
        self.fault = None
        return self._end(asked)

    def note_failed(self, asked: Sequence[int], reason: str) -> list[GoOn]:
        """Note that a request failed at its first image; return the callers that try again."""
        self.stats.failures += 1
        self.fault = reason
        for go_on in self._waiters.get(asked[0], ()):
            self._failed[go_on] = asked[0], reason
        return self._end(asked)

    def end(self, go_on: GoOn) -> str | None:
        """Stop waiting; return the reason if the image that was waited for could not be read."""
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
