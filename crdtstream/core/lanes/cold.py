"""Entries that are not in memory: the errors of a command that needs some.

Columns of a macro node that is on disk only cannot be read.  A command that needs them gets a
``ColdError`` before it has changed anything (I10); the images that it names are fetched, and the
command is run again.  If the caller cannot wait, they are read in place; an image that cannot be
read raises ``UnreadableError``.
"""

from collections.abc import Sequence
from typing import Final

from mypy_extensions import mypyc_attr

from crdtstream.core.size import Size

# A command that still needs more after this number of fetches reads its entries in place: with
# little memory the first ones may be gone again before the last ones come.
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


@mypyc_attr(allow_interpreted_subclasses=True)
class UnreadableError(Exception):
    """Entries are needed that cannot be read from disk; the text says which, and why.

    As with ``ColdError``, nothing has changed.  The store raises a kind of its own, which compiled
    code takes for this one only if it is told that there are others.
    """
