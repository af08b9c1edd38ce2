"""Removed parts take no memory until the next checkpoint, which removes their images."""

import sys
import time
from typing import ClassVar

import pytest

from crdtstream.core.checkpoint.parts import (
    BYTES_PER_LOOK,
    NO_IMAGE,
    STAGED,
    Changes,
    Cut,
    Encoded,
    Image,
    Kind,
    Part,
)
from crdtstream.core.lanes.cold import UnreadableError


class Piece(Part):
    kind: ClassVar[Kind] = Kind.KEY

    def encode(self) -> Encoded:
        return Encoded(0, 0, b"", b"")


def write(cut: Cut) -> None:
    while cut.take() is not None:
        pass


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def saved(changes: Changes) -> Piece:
    """A part that the last checkpoint has, as image 1."""
    part = Piece()
    changes.note(part)
    cut = changes.cut()
    write(cut)
    cut.finish()
    return part


def test_a_part_that_is_gone_is_not_kept_for_the_next_checkpoint(
    changes: Changes, saved: Piece
) -> None:
    """A stream's macro node has its columns: a million deleted streams would stay in memory."""
    before = sys.getrefcount(saved)
    changes.drop(saved)
    assert sys.getrefcount(saved) == before
    assert changes.count == 1
    assert list(changes.cut().replaced()) == [1]


@pytest.mark.parametrize("written", [False, True])
def test_a_part_that_goes_during_a_checkpoint_goes_with_the_next_one(
    changes: Changes, saved: Piece, written: bool
) -> None:
    before = sys.getrefcount(saved)
    changes.note(saved)
    cut = changes.cut()
    if written:
        write(cut)
    changes.drop(saved)
    write(cut)
    assert list(cut.replaced()) == [1]
    cut.finish()
    del cut
    assert sys.getrefcount(saved) == before
    assert list(changes.cut().replaced()) == [2]


def test_parts_dropped_during_a_failed_checkpoint_are_not_written_again(
    changes: Changes, saved: Piece
) -> None:
    changes.note(saved)
    cut = changes.cut()
    write(cut)
    changes.drop(saved)
    cut.abandon()
    after = changes.cut()
    assert after.left == 0
    assert list(after.replaced()) == [1]


class Node(Part):
    """A macro node that was read from the staging: its body is packed already."""

    kind: ClassVar[Kind] = Kind.NODE

    def encode(self) -> Encoded:
        return Encoded(3, 2, b"head", b"frame", is_packed=True)


@pytest.fixture
def staged(changes: Changes) -> Node:
    part = Node()
    part.image = STAGED + 7
    changes.note(part)
    return part


def test_an_image_says_that_its_body_is_packed(changes: Changes, staged: Node) -> None:
    assert changes.cut().take() == (
        staged,
        Image(1, Kind.NODE, 3, 2, b"head", b"frame", is_packed=True),
    )


def test_a_checkpoint_drops_no_image_of_the_staging(changes: Changes, staged: Node) -> None:
    """No table has it; what the checkpoint is to drop and does not find makes it fail."""
    cut = changes.cut()
    write(cut)
    assert list(filter(None, cut.replaced())) == []
    assert list(cut.replaced()) == [NO_IMAGE]
    cut.abandon()
    assert staged.image == STAGED + 7
    changes.drop(staged)
    cut = changes.cut()
    write(cut)
    assert list(filter(None, cut.replaced())) == []


def test_of_a_part_that_left_the_staging_the_own_image_is_dropped(
    changes: Changes, staged: Node
) -> None:
    cut = changes.cut()
    write(cut)
    cut.finish()
    assert staged.image == 1
    changes.drop(staged)
    assert list(changes.cut().replaced()) == [1]


# --- Taking --------------------------------------------------------------------------------------

MANY = 100_000
SLICE = 2_000
# What is taken last is looked for behind all others otherwise, which takes 20 times as long.
SLOWER_MAX = 5


def test_the_last_part_is_taken_as_quickly_as_the_first(changes: Changes) -> None:
    for _ in range(MANY):
        changes.note(Piece())
    cut = changes.cut()

    def took() -> int:
        began = time.thread_time_ns()
        for _ in range(SLICE):
            cut.take()
        return time.thread_time_ns() - began

    took_ns = [took() for _ in range(MANY // SLICE)]
    # A pause of the process meets a slice or two.
    assert min(took_ns[-5:]) < SLOWER_MAX * max(took_ns[:5])


class Unreadable(Piece):
    def encode(self) -> Encoded:
        raise UnreadableError("a page is damaged")


def test_a_part_that_cannot_be_encoded_is_still_to_be_written(changes: Changes) -> None:
    part = Unreadable()
    changes.note(part)
    cut = changes.cut()
    with pytest.raises(UnreadableError):
        cut.take()
    cut.abandon()
    assert changes.count == 1


@pytest.mark.parametrize(
    ("image_bytes", "taken"), [(10, BYTES_PER_LOOK.value // 10 + 2), (BYTES_PER_LOOK.value + 1, 2)]
)
def test_parts_are_taken_until_the_turn_is_over(
    changes: Changes, image_bytes: int, taken: int
) -> None:
    """The clock is looked at behind the first one, and behind each few bytes."""
    for _ in range(300):
        changes.note(Wide(image_bytes))
    cut = changes.cut()
    looks = iter([False, True])
    some, size = cut.take_some(1 << 20, lambda: next(looks))
    assert len(some) == taken
    assert size == taken * image_bytes
    assert cut.left == 300 - taken


def test_no_more_is_taken_than_is_asked_for(changes: Changes) -> None:
    for _ in range(5):
        changes.note(Wide(100))
    cut = changes.cut()
    assert len(cut.take_some(201, lambda: False)[0]) == 3
    assert len(cut.take_some(1 << 20, lambda: False)[0]) == 2
    assert cut.take_some(1 << 20, lambda: False) == ([], 0)


class Wide(Piece):
    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def encode(self) -> Encoded:
        return Encoded(0, 0, bytes(self._size), b"")
