"""The documentation as a site: links, tables and search work; it asks no other host."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.console.browser import Browser, open_browser
from tests.patience import LONG, seconds
from tests.programs import module_at

SITE = ROOT / "tools" / "site"


pages = module_at(SITE / "pages.py")


def entries(part: Any) -> Iterator[str]:
    """Files that the navigation names."""
    match part:
        case str():
            yield part
        case list():
            for one in part:
                yield from entries(one)
        case dict():
            for one in part.values():
                yield from entries(one)


def test_each_page_has_one_place_in_the_navigation() -> None:
    named = list(entries(yaml.safe_load((SITE / "mkdocs.yml").read_text())["nav"]))
    folders = tuple(name for name in named if name.endswith("/"))
    docs = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted({*docs, *pages.PAGES.values()} - set(named)) == sorted(
        name for name in docs if name.startswith(folders) and name not in named
    ), "add the page to nav in tools/site/mkdocs.yml"
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("page", "written", "on_site"),
    [
        ("index.md", "docs/tls.md#clients", "tls.md#clients"),
        ("index.md", "deploy/README.md", "deploy/index.md"),
        ("index.md", "LICENSE", "license.md"),
        ("deploy/index.md", "../docs/tls.md", "../tls.md"),
        ("deploy/index.md", "closed/", "../files/deploy/closed.md"),
        ("semantics/keys.md", "../rules.md", "../rules.md"),
        ("semantics/keys.md", "../../README.md", "../index.md"),
        (
            "scenarios.md",
            "../scenarios/aa/strict-mode.yaml",
            "files/scenarios/aa/strict-mode.yaml.md",
        ),
        ("api/spark.md", "../../../docs/pipeline.md", "../pipeline.md"),
        ("tls.md", "#clients", "#clients"),
        ("tls.md", "https://redis.io/a.md", "https://redis.io/a.md"),
        ("tls.md", "not-there.md", "not-there.md"),
    ],
)
def test_a_link_leads_to_the_same_page_on_the_site(page: str, written: str, on_site: str) -> None:
    assert pages._prose(page, f"[x]({written})") == f"[x]({on_site})"


def test_tables_lists_and_details_are_written_for_the_site() -> None:
    written = "Two:\n- a\n- b\n\n| `A \\| <b>` | c \\| d |\n<details><summary>e</summary>\n"
    assert pages._prose("index.md", written) == (
        "Two:\n\n- a\n- b\n\n| <code>A &#124; &#60;b&#62;</code> | c \\| d |\n"
        '<details markdown="1"><summary>e</summary>\n'
    )


def test_code_stays_as_it_is() -> None:
    page = "[a](docs/tls.md)\n```\n[a](docs/tls.md)\n- b\n```\n"
    parts = [part for part, is_code in pages._parts(page) if is_code]
    assert parts == ["```\n[a](docs/tls.md)\n- b\n```"]


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    # With --quiet MkDocs counts no warnings, and is not strict.
    program = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config)]
    return subprocess.run(
        [*program, "--site-dir", str(site)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=seconds(LONG),
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(SITE / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _Loads(HTMLParser):
    """Addresses from which a page loads something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (name == "src" or (tag == "link" and name == "href")) and value:
                self.found.append(value)


def loads(text: str) -> list[str]:
    parser = _Loads()
    parser.feed(text)
    return parser.found


def test_loads_are_found() -> None:
    text = '<link href="https://a/b.css"><a href="https://c"></a><script src="//d/e.js"></script>'
    assert loads(text) == ["https://a/b.css", "//d/e.js"]


@pytest.mark.long
def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    found = list(site.rglob("*.html"))
    assert len(found) > 100
    assert [
        f"{page.relative_to(site)}: {load}"
        for page in found
        for load in loads(page.read_text())
        if re.match(r"(\w+:)?//", load)
    ] == []
    assert not [
        sheet.name
        for sheet in site.rglob("*.css")
        if re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text())
    ]


@pytest.mark.long
def test_a_link_to_a_missing_heading_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# One\n\n[a](#no-such-heading)\n")
    settings = (SITE / "mkdocs.yml").read_text().partition("\nnav:")[0]
    settings = settings.replace("../../docs", str(docs)).replace("hooks: [pages.py]", "")
    (tmp_path / "mkdocs.yml").write_text(settings)
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 1
    assert "no-such-heading" in built.stdout + built.stderr


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as found:
        yield found


@pytest.mark.long
@pytest.mark.live
@pytest.mark.parametrize("width", [1280, 380])
def test_a_browser_shows_pages_that_fit_and_asks_no_other_host(
    browser: Browser, address: str, width: int
) -> None:
    browser.looks_like(width=width)
    for page in ("index", "semantics/writing", "commands", "performance", "api/spark"):
        browser.open(f"{address}{page}.html")
        asked = browser.run("return performance.getEntriesByType('resource').map(one => one.name)")
        assert asked
        assert [url for url in asked if not url.startswith(address)] == []
        assert browser.run("return document.documentElement.scrollWidth") <= width, page
        assert browser.complaints() == [], page


@pytest.mark.long
@pytest.mark.live
def test_search_finds_a_page(browser: Browser, address: str) -> None:
    browser.looks_like(width=1280)
    browser.open(f"{address}index.html?q=XAUTOCLAIM")
    browser.until(
        lambda: browser.run("return document.querySelectorAll('.md-search-result__link').length"),
        "results of the search",
    )
    found = browser.run(
        "return [...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"
    )
    assert any("semantics/groups.html" in url for url in found), found
