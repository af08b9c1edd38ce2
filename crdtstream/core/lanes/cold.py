"""Entries that are not in memory: what a command says that needs some.

Columns of a macro node that is on disk only cannot be read.  Who tries gets a ``ColdError`` before
it has changed anything (I10), the images it names are fetched, and it is run again.  Where nobody
can wait they are read in place, and who needs one that cannot be read gets an ``UnreadableError``.
"""

from collections.abc import Sequence
from typing import Final

from crdtstream.core.size import Size

# Who still needs more after so many fetches is given its entries in place: with little memory the
# first ones may be gone again before the last ones come.
TRIES_MAX: Final = Size(24, least=1)


class ColdError(Exception):
    """Entries are needed that are on disk only; nothing has changed.

    Attributes:
        images: numbers of the images to be fetched, the one that is needed first in front; the
            others are read ahead.
    """

    def __init__(self, images: Sequence[int]) -> None:
        super().__init__(f"{len(images)} images to be fetched")
        self.images = tuple(images)


class UnreadableError(Exception):
    """Entries are needed that cannot be read from disk; the text says which, and why.

    Whoever raises it has changed nothing, as with ``ColdError``.
    """
