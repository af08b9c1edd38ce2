"""Each counterexample of the design is planted, and its test is named."""

from pathlib import Path

import pytest

from tests.mutations.catalogue import MUTATIONS
from tests.mutations.counterexamples import COUNTEREXAMPLES, PAGE, page

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent.parent
LAST = {"M": 22, "C": 10, "V": 18}


@pytest.mark.parametrize("kind", LAST)
def test_each_one_has_a_planted_bug(kind: str) -> None:
    numbers = {f"{kind}{number}" for number in range(1, LAST[kind] + 1)}
    planted = {mutation.name for mutation in MUTATIONS}
    for number in numbers:
        bugs = COUNTEREXAMPLES[number].bugs
        assert bugs
        assert planted.issuperset(bugs), number


def test_the_page_is_of_the_table() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert text == page(), "again: python -m tests.mutations.counterexamples > " + PAGE
