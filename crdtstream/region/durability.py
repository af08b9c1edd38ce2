"""When a commit is on the disk for good: what an operator wants, for whoever writes the log."""

from collections.abc import Callable
from typing import Final

APPENDFSYNC: Final = ("everysec", "always", "no")


class Durability:
    """The word of ``appendfsync``.

    Attributes:
        appendfsync: what is wanted.  Commits follow it from the next one on.
        on_change: called when another word is.
    """

    def __init__(self) -> None:
        self.appendfsync = "always"
        self.on_change: Callable[[], None] = _nobody_writes

    def tune(self, appendfsync: str) -> None:
        assert appendfsync in APPENDFSYNC
        if appendfsync != self.appendfsync:
            self.appendfsync = appendfsync
            self.on_change()


def _nobody_writes() -> None:
    pass
