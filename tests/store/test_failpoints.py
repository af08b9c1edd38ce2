"""Failpoints by their text."""

import pytest

from crdtstream.store.errors import StoreError
from crdtstream.store.failpoints import NO_FAILPOINTS, parse_failpoint


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("log.append refused", [1]),
        ("log.append:3 refused", [3]),
        ("log.append:2-4 refused", [2, 3, 4]),
    ],
)
def test_a_disk_refuses_the_times_that_are_named(text: str, refused: list[int]) -> None:
    failpoints = parse_failpoint(text)
    found = []
    for time in range(1, 7):
        failpoints.reach("log.sync")
        try:
            failpoints.reach("log.append")
        except StoreError:
            found.append(time)
    assert found == refused


def test_no_text_is_no_failpoint() -> None:
    assert parse_failpoint("") is NO_FAILPOINTS


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("checkpoint.puts", "is no step; there are checkpoint.begin"),
        ("log.append:0", "steps count from 1"),
        ("log.append:5-4 refused", "the second number is the greater one"),
        ("log.append:x", "must be STEP, STEP:N"),
        ("log.append:1 broken", "must be STEP, STEP:N"),
    ],
)
def test_malformed_failpoints_are_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_failpoint(text)
