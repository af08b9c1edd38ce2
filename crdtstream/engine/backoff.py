"""The time before an attempt at what failed: it doubles with each attempt that fails again."""

from crdtstream.core.size import Seconds


class Backoff:
    """See the module's text.

    Attributes:
        seconds: time before the next attempt; 0: the last one did not fail.
    """

    __slots__ = ("_first", "_longest", "seconds")

    def __init__(self, first: Seconds, longest: Seconds) -> None:
        self._first, self._longest = first, longest
        self.seconds = 0.0

    def note_failed(self) -> None:
        self.seconds = min(self._longest.value, 2 * self.seconds or self._first.value)

    def end(self) -> None:
        """Note that an attempt succeeded."""
        self.seconds = 0.0
