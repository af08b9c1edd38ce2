"""Pages of the site that are not in docs/, and links as the site needs them; a hook of MkDocs.

Pages are written for people who read them in the repository: their links are paths of files there.
The site has three kinds of pages:

    docs/*.md                 as they are
    README.md and others      PAGES says where on the site
    every other linked file   files/PATH.md, its text as a block of code; of a folder, its contents

A link is resolved as in the repository and written again as the way between two pages of the site.
So every link works in both places, and MkDocs, which is strict, finds those that work in none.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = "docs"
# Where pages of the repository outside docs/ are on the site.
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "deploy/README.md": "deploy/index.md",
    "tools/site/api/spark.md": "api/spark.md",
    "tools/site/api/scenario.md": "api/scenario.md",
}
STYLES: Final = "site.css"
FILES: Final = "files"
# Names of languages by the ends of names, for colours.
LANGUAGES: Final = {
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".py": "python",
    ".service": "ini",
}

_FENCED: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ ]*$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)(?P<after>\))")
_CODE: Final = re.compile(r"`(?P<text>[^`\n]+)`")
_LIST: Final = re.compile(r"^(?P<indent> *)(?:[-*]|\d+\.) ")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the entries of the navigation that name a folder; name headings as GitHub does."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    assert isinstance(config.nav, list)
    named = set(_names(config.nav))
    config.nav = [_filled(entry, named, Path(config.docs_dir)) for entry in config.nav]
    return config


def _names(entries: list[object]) -> Iterator[str]:
    for entry in entries:
        match entry:
            case str():
                yield entry
            case dict():
                for below in entry.values():
                    yield from _names(below if isinstance(below, list) else [below])


def _filled(entry: object, named: set[str], docs: Path) -> object:
    if not isinstance(entry, dict):
        return entry
    filled: dict[str, object] = {}
    for title, below in entry.items():
        assert isinstance(below, list)
        filled[title] = [
            page
            for one in below
            for page in (
                _pages_of(one, named, docs)
                if isinstance(one, str) and one.endswith("/")
                else [_filled(one, named, docs)]
            )
        ]
    return filled


def _pages_of(folder: str, named: set[str], docs: Path) -> list[str]:
    paths = sorted(path.relative_to(docs).as_posix() for path in (docs / folder).glob("*.md"))
    return [path for path in paths if path not in named]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository that are not in docs/, and the files that pages link to."""
    for source, target in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if not source.endswith(".md"):
            text = f"# {Path(source).name.capitalize()}\n\n```text\n{text}\n```\n"
        files.append(File.generated(config, target, content=text))
    styles = Path(__file__).with_name(STYLES).read_text(encoding="utf-8")
    files.append(File.generated(config, STYLES, content=styles))

    due = [
        linked
        for file in files.documentation_pages()
        for linked in _linked(file.src_uri, file.content_string)
    ]
    done: set[str] = set()
    while due:
        path = due.pop()
        if path in done or _on_site(path) is None:
            continue
        done.add(path)
        text, more = _text_of(path)
        due += more
        files.append(File.generated(config, _copy_of(path), content=text))
    return files


def _linked(page: str, text: str) -> Iterator[str]:
    """Paths in the repository that a page links to and that become pages of files."""
    for target in _targets(text):
        path = _path_in_repository(page, target.partition("#")[0])
        if path is not None and _on_site(path) == _copy_of(path):
            yield path


def _targets(text: str) -> Iterator[str]:
    for match in _LINK.finditer(_FENCED.sub("", text)):
        yield match["target"]


def _path_in_repository(page: str, link: str) -> str | None:
    """Path of a link's target in the repository; None: it leads elsewhere, or is an anchor."""
    if not link or "://" in link or link.startswith(("mailto:", "/")):
        return None
    origin = next((source for source, site in PAGES.items() if site == page), f"{DOCS}/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _on_site(path: str) -> str | None:
    """Name of a path's page on the site; None if the path does not exist."""
    if path in PAGES:
        return PAGES[path]
    if not (ROOT / path).exists():
        return None
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return _copy_of(path)


def _copy_of(path: str) -> str:
    return f"{FILES}/{path}.md"


def _text_of(path: str) -> tuple[str, list[str]]:
    """Page of a file or a folder, and the paths that it links to."""
    # They would hide what the documentation says in every search.
    head = f"---\nsearch:\n  exclude: true\ntitle: {path}\n---\n\n# `{path}`\n\n"
    if (ROOT / path).is_dir():
        inside = sorted(
            child.name for child in (ROOT / path).iterdir() if child.name[0] not in "._"
        )
        # As seen from files/PATH.md.
        lines = [f"- [{name}]({Path(path).name}/{name}.md)" for name in inside]
        return head + "\n".join(lines) + "\n", [f"{path}/{name}" for name in inside]
    language = LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8")
    return f"{head}~~~~{language}\n{text.rstrip()}\n~~~~\n", []


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page for this site."""
    if page.file.src_uri.startswith(f"{FILES}/"):
        return markdown
    return "".join(
        part if is_code else _prose(page.file.src_uri, part) for part, is_code in _parts(markdown)
    )


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """A page in pieces: prose, and blocks of code, which stay as they are."""
    at = 0
    for block in _FENCED.finditer(markdown):
        yield markdown[at : block.start()], False
        yield block[0], True
        at = block.end()
    yield markdown[at:], False


def _prose(page: str, text: str) -> str:
    text = _LINK.sub(
        lambda link: link["before"] + _link(page, link["target"]) + link["after"], text
    )
    # Markdown in blocks of HTML: GitHub reads it if a blank line is before it.
    text = text.replace("<details>", '<details markdown="1">')
    lines = (_row(line) if line.startswith("|") else line for line in text.split("\n"))
    return "\n".join(_with_gaps(lines))


def _row(line: str) -> str:
    """A row of a table; code in it keeps the backslash that a ``|`` needs there otherwise."""
    return _CODE.sub(lambda code: _with_bars(code["text"]) if r"\|" in code[0] else code[0], line)


def _with_bars(code: str) -> str:
    """Code as HTML, each sign as a number: Markdown is read in there too."""
    signs = re.sub(r"[^\w ]", lambda sign: f"&#{ord(sign[0])};", code.replace(r"\|", "|"))
    return f"<code>{signs}</code>"


def _link(page: str, target: str) -> str:
    name, hash_mark, anchor = target.partition("#")
    path = _path_in_repository(page, name)
    on_site = None if path is None else _on_site(path)
    if on_site is None:
        return target
    return posixpath.relpath(on_site, posixpath.dirname(page) or ".") + hash_mark + anchor


def _with_gaps(lines: Iterable[str]) -> Iterator[str]:
    """Lines with a blank one before each list, which GitHub does not need and MkDocs does."""
    before = ""
    for line in lines:
        is_item = _LIST.match(line) is not None
        if is_item and before.strip() and not before.startswith(" ") and not _LIST.match(before):
            yield ""
        yield line
        before = line
