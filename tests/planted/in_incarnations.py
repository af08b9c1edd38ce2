"""Slips in incarnations: the folders that number effects, and the knowledge of others' folders."""

from collections.abc import Sequence
from typing import Final

from crdtstream.region.bidding import Bidding
from crdtstream.region.folder_side import FolderSide
from crdtstream.region.numbering import Numbering
from tests.planted.bug import Bug, Patch

# The first seeds in which folders are copied begin here (``sim/folder_making.py``).
FIRST: Final = 5_000_000_000


def _a_folder_begins_without_asking() -> Sequence[Patch]:
    return [(Bidding, "is_granted", property(lambda self: self.bid is not None))]


def _an_earlier_folder_takes_writes() -> Sequence[Patch]:
    return [(Numbering, "obstacle", None)]


def _words_do_not_end_with_their_incarnation() -> Sequence[Patch]:
    """A region's version vector over effects that it lost counts until they exist again."""
    return [(FolderSide, "follow_ends", lambda _self, _ends: None)]


IN_INCARNATIONS: Final = (
    Bug(
        "a-folder-begins-without-asking",
        "both folders of a region number effects, and nobody knows which one is the region",
        _a_folder_begins_without_asking,
        frozenset({"I23"}),
        seed=FIRST + 460,
    ),
    Bug(
        "an-earlier-folder-takes-writes",
        "clients write into a folder that has no links, for good",
        _an_earlier_folder_takes_writes,
        frozenset({"I23"}),
        seed=FIRST,
    ),
    Bug(
        "words-do-not-end-with-their-incarnation",
        "a region that joined never becomes active, as another one lost its last effects",
        _words_do_not_end_with_their_incarnation,
        frozenset({"liveness"}),
        seed=3_000_000_080,
    ),
)
