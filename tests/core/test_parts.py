"""What is gone takes no memory until the next checkpoint, and its images go with that one."""

import sys
from typing import ClassVar

import pytest

from crdtstream.core.checkpoint.parts import (
    NO_IMAGE,
    STAGED,
    Changes,
    Cut,
    Encoded,
    Image,
    Kind,
    Part,
)


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


def test_what_went_during_a_checkpoint_that_failed_is_not_written_again(
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
