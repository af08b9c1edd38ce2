"""Names in the documentation exist: links, headings, files, tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").glob("*.md")),
]
# Where a path in `backticks` may start.
ROOTS = (ROOT, ROOT / "crdtstream")
# What make makes is there or not; a page may name it all the same.
MADE = frozenset(
    line.strip("/*") for line in (ROOT / ".gitignore").read_text().split() if line.startswith("/")
)
TOP = frozenset(path.name for root in ROOTS for path in root.iterdir() if path.is_dir()) - MADE

_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
# Not the text of a link, whose target is looked up.
_CODE = re.compile(r"(?<!\[)`([^`\n]+)`")
_PATH = re.compile(r"(?P<path>[\w.-]+(?:/[\w.*-]+)+/?)(?:::(?P<test>\w+))?")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# The line below the header of a table.
_RULER = re.compile(r"\|(?: *:?-+:? *\|)+ *")
# Terms of the glossary are rows of tables, and have anchors of their own.
_ANCHOR = re.compile(r'<a id="([\w-]+)">')


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them in links, and the anchors written in it."""
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    headings = {one.strip().replace(" ", "-") for one in words}
    return headings | set(_ANCHOR.findall(prose(page)))


def broken_links(page: Path) -> Iterator[str]:
    for link in _LINK.findall(prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        has_anchor = not anchor or target.suffix != ".md" or anchor in anchors(target)
        if not target.exists() or not has_anchor:
            yield link


def missing_paths(page: Path) -> Iterator[str]:
    """Paths in backticks that are nowhere, and tests that are not in the file."""
    for code in _CODE.findall(prose(page)):
        named = _PATH.fullmatch(code)
        if named is None or named["path"].split("/")[0] not in TOP:
            continue
        found = [path for root in ROOTS for path in root.glob(named["path"].rstrip("/"))]
        if not found or not defines(found[0], named["test"]):
            yield code


def defines(path: Path, test: str | None) -> bool:
    """True if a file of tests has this one; Hypothesis makes classes by assignment."""
    return test is None or bool(
        re.search(rf"^(?:(?:async )?def |class )?{test}\b", path.read_text(), re.MULTILINE)
    )


def tables(page: Path) -> Iterator[list[str]]:
    """Lines of each table: rows that follow one another."""
    rows: list[str] = []
    for line in [*prose(page).splitlines(), ""]:
        if line.startswith("|"):
            rows.append(line)
        elif rows:
            yield rows
            rows = []


def broken_tables(page: Path) -> Iterator[str]:
    """Rows without a header above them, and pages that the first cells of a table link twice."""
    for rows in tables(page):
        if len(rows) < 2 or not _RULER.fullmatch(rows[1]):
            yield rows[0]
        links = [link for row in rows for link in _LINK.findall(row.split("|")[1])]
        yield from sorted({link for link in links if links.count(link) > 1})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_have_a_header_and_no_page_twice(page: Path) -> None:
    assert list(broken_tables(page)) == []


def test_a_broken_table_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| a | b |\n| --- | --: |\n| [one](1.md) | [two](2.md) |\n| [two](2.md) | |\n\ntext\n"
        "| lost | row |\n\n| a |\n|---|\n| [one](1.md) |\n| [again](1.md) |\n"
        "```\n| not | a table |\n```\n"
    )
    assert list(broken_tables(page)) == ["| lost | row |", "1.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_a_page_exist(page: Path) -> None:
    assert list(broken_links(page)) == []
    assert list(missing_paths(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_units_in_a_page_are_instances(page: Path) -> None:
    """There is one unit for all regions of a machine, and none without a name of an instance."""
    assert not re.findall(r"systemctl (?:\S+ )+crdtstream(?!@\w)", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_installs_a_version_that_is_not_published(page: Path) -> None:
    versions = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    is_published = not all(version.endswith(" - unreleased") for version in versions)
    assert is_published or not re.findall(r"pip install (?:-\S+ )*crdtstream\b", page.read_text())


def test_missing_names_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# Two Words\n<a id="term"></a>[t](#term) [s](#terms) '
        "[a](#two-words) [b](#three) [c](no.md) `core/no.py` `tests/test_docs.py`"
        " `tests/test_docs.py::test_no` `tests/test_docs.py::test_missing_names_are_found`\n"
    )
    assert list(broken_links(page)) == ["#terms", "#three", "no.md"]
    assert list(missing_paths(page)) == ["core/no.py", "tests/test_docs.py::test_no"]
