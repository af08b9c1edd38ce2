"""Words: docstrings begin with the thing that they are about, and some words stay out."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests import ratchet
from tests.conftest import ROOT

pytestmark = pytest.mark.house

# Docstrings and names of tests that begin with these have to be read twice.
QUESTIONS = frozenset(
    ("How", "That", "What", "Where", "Whether", "Which", "Who", "Whoever", "Whom", "Whose")
)
# Words that a reader whose first language is not English does not know, or reads as others.
OUT = re.compile(r"\b(anew|whoever|but for|insofar|thereof|whilst)\b", re.IGNORECASE)
SOURCES = sorted(
    path
    for folder in ("crdtstream", "tests", "benchmarks", "tools")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Docstrings by what they document."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", "the module"), text


def wrong_beginnings(source: str) -> list[str]:
    tree = ast.parse(source)
    found = [f"{name}: {text[:60]}" for name, text in documented(tree) if begins_wrong(text)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            test, _, rest = node.name.partition("_")
            if test == "test" and rest.partition("_")[0].capitalize() in QUESTIONS:
                found.append(node.name)
    return found


def begins_wrong(text: str) -> bool:
    return re.split(r"\W", text, maxsplit=1)[0] in QUESTIONS


def test_docstrings_and_tests_begin_with_the_thing() -> None:
    assert [
        f"{path.relative_to(ROOT)}: {found}"
        for path in SOURCES
        for found in wrong_beginnings(path.read_text())
    ] == []


def test_a_wrong_beginning_is_found() -> None:
    source = '''
def f():
    """Whether it is."""
def test_what_is_lost(): pass
class Whole:
    """Whole numbers."""
'''
    assert wrong_beginnings(source) == ["f: Whether it is.", "test_what_is_lost"]


def test_words_that_are_out_stay_out() -> None:
    product = [path for path in SOURCES if path.is_relative_to(ROOT / "crdtstream")]
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in product + PAGES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if OUT.search(line)
    ] == []


def test_words_and_long_sentences_become_fewer() -> None:
    allowed, now = ratchet.listed(ratchet.LIST.read_text()), ratchet.found()
    assert ratchet.more(now, allowed) == []
    assert ratchet.less(now, allowed) == allowed, "run python -m tests.ratchet --less"


def test_sentences_of_a_page_are_found() -> None:
    page = f"""# Title
One. Two `a b.
c` and [three](x.md#y).

| a cell | another |
    code that is. no prose
```
nor this. or that
```
- {"word " * 36}end. Short.
"""
    assert [len(one.split()) for one in ratchet.sentences(page)] == [3, 4, 0, 2, 1, 0, 38, 1, 0]
    assert ratchet.counts("page.md", page) == (0, 1)
    assert ratchet.counts("code.py", "# Nobody knows; there are somebody's.\n") == (2, 0)


def test_a_count_that_rises_is_refused_and_one_that_falls_is_kept() -> None:
    allowed = {"a.md": ratchet.Counts(2, 1), "b.md": ratchet.Counts(1, 0)}
    assert ratchet.more({"a.md": ratchet.Counts(2, 2), "c.py": ratchet.Counts(1, 0)}, allowed) == [
        "a.md: 2 sentences over 35 words, of which 1 are allowed",
        "c.py: 1 words that are out, of which 0 are allowed",
    ]
    assert ratchet.less({"a.md": ratchet.Counts(1, 3)}, allowed) == {"a.md": ratchet.Counts(1, 1)}
    assert ratchet.listed(ratchet.written(allowed)) == allowed
