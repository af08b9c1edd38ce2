"""Time at which a commit is durable: what an operator wants, for the code that writes the log."""

from collections.abc import Callable
from typing import Final

APPENDFSYNC: Final = ("everysec", "always", "no")


class Durability:
    """The value of ``appendfsync``.

    Attributes:
        appendfsync: the value that is wanted.  Commits follow it from the next one on.
        on_change: called when the value changes.
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
