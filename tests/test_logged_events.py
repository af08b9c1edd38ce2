"""Events that nodes log: every one that is in the code has a name, and the page lists them all."""

from pathlib import Path
from typing import Any

import pytest

from crdtstream.node.log_names import NAMES
from tests.conftest import ROOT
from tests.programs import module_at

pytestmark = pytest.mark.house


@pytest.fixture(scope="module")
def logs() -> Any:
    """The program that finds what the code logs."""
    return module_at(ROOT / "tools" / "logs.py")


@pytest.fixture(scope="module")
def calls(logs: Any) -> Any:
    """All places in the code that log."""
    return logs.all_calls()


def test_every_logged_event_has_a_name_and_no_name_is_idle(logs: Any, calls: Any) -> None:
    assert len(calls) > 80
    assert logs.problems(calls) == []


def test_the_page_of_events_is_current(logs: Any, calls: Any) -> None:
    page = logs.PAGE.read_text()
    assert logs.filled(page, calls) == page, "run python tools/logs.py"
    assert all(f"| `{name}` |" in page for name in NAMES)


@pytest.mark.parametrize(
    ("line", "texts", "details"),
    [
        ('logger.warning("gone", peer=1)', ("gone",), ("peer",)),
        ('logger.error("gone", exc_info=bug)', ("gone",), ()),
        ('logger.info(f"gone ({N} of {M})")', ("gone ({} of {})",), ()),
        ('logger.info("a" if x else "b")', ("a", "b"), ()),
        ("logger.info(GONE)", ("gone for good",), ()),
        ('self._tick.notice("error", "gone")', ("gone",), ()),
        ("tick.notice(LEVEL, told(x))", ("one", "two"), ()),
        ('self._log_seldom("gone", "?", "why")', ("gone",), ()),
        ("print('no event')", None, None),
    ],
)
def test_the_sentences_of_a_line_of_code_are_found(
    logs: Any,
    tmp_path: Path,
    line: str,
    texts: tuple[str, ...] | None,
    details: tuple[str, ...] | None,
) -> None:
    path = tmp_path / "planted.py"
    path.write_text(
        'GONE: Final = "gone for good"\nLEVEL = "info"\n'
        f'def told(x):\n    if x:\n        return "one"\n    return "two"\n\ndef f():\n    {line}\n'
    )
    found = list(logs.calls_in(path, tmp_path))
    assert [(call.texts, call.details) for call in found] == ([(texts, details)] if texts else [])


def test_a_sentence_that_cannot_be_read_is_an_error(logs: Any, tmp_path: Path) -> None:
    path = tmp_path / "planted.py"
    path.write_text("def f(texts):\n    logger.warning(texts[0])\n")
    with pytest.raises(logs.UnreadableError, match=r"planted.py:2: write the sentence where"):
        list(logs.calls_in(path, tmp_path))


def test_a_missing_name_an_idle_one_and_a_second_one_are_found(logs: Any) -> None:
    call = logs.LoggingCall("a.py:1", ("info",), ("new",), ())
    names = {"one": ("old",), "two": ("twice",), "three": ("twice",)}
    found = logs.problems([call], names)
    assert found == [
        "a.py:1: give the sentence a name in crdtstream/node/log_names.py: new",
        *["no code logs this any more: old", "no code logs this any more: twice"],
        "no code logs this any more: twice",
        "two names: twice",
    ]
