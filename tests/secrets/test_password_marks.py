"""Regions whose passwords differ notice it, and what they say helps nobody to guess one."""

from collections import Counter

import pytest

from crdtstream.secrets.password_marks import (
    NO_PASSWORD,
    NOT_SAID,
    do_passwords_differ,
    password_mark,
)


def test_a_mark_fits_in_eight_bits_and_says_no_more() -> None:
    """Of ten thousand passwords about forty have the same mark, whichever it is."""
    marks = Counter(password_mark(f"password-{n}", "crdb") for n in range(10_000))
    assert set(marks) == set(range(2, 256))
    assert min(marks.values()) > 10


def test_a_mark_depends_on_the_database() -> None:
    """A table of marks that serves for all databases cannot be made."""
    marks = {password_mark("secret", f"crdb-{n}") for n in range(100)}
    assert len(marks) > 50


@pytest.mark.parametrize(
    ("marks", "differ"),
    [
        ((7, 7, 7), False),
        ((7, 7, 8), True),
        ((7, NO_PASSWORD), True),
        ((7, NOT_SAID), False),
        ((), False),
    ],
)
def test_marks_differ_if_two_nodes_say_other_ones(marks: tuple[int, ...], differ: bool) -> None:
    assert do_passwords_differ(*marks) is differ


def test_no_password_has_a_mark_of_its_own() -> None:
    assert password_mark("", "crdb") == NO_PASSWORD
