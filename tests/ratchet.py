"""Counts of words and sentences that are hard to read; they may only fall.

``tests/ratchet.txt`` has a line for each file that has some: how many words that the style puts
out, how many sentences that are too long, and the file.

Usage:
    python -m tests.ratchet         print what is more than the list allows
    python -m tests.ratchet --less  write the counts that have fallen to the list
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "ratchet.txt"
SENTENCE_WORDS_MAX = 35
# Processes and clients have names, numbers stand beside "so many", and things exist or arrive.
WORDS = re.compile(
    r"\b(nobody|somebody|so much|so many|so long|gives|is there|are there|is over|comes back)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"^\s*```.*?^\s*```|^ {4,}\S[^\n]*$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`[^`\n]+(?:\n[^`\n]+)?`")
_TARGET = re.compile(r"\]\([^)\s]*\)")
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*[-*#>] |\s*\d+\. |\|)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\)?\*{0,2}\s+")


class Counts(NamedTuple):
    """Of a file: words that are out, and sentences that are too long."""

    words: int
    sentences: int


def sentences(page: str) -> Iterator[str]:
    """Sentences of a page in Markdown; a span of code is a word, and a cell of a table ends one."""
    prose = _TARGET.sub("]", _SPAN.sub("x", _CODE.sub("", page)))
    for block in _BLOCK.split(prose):
        for cell in block.split("|") if block.lstrip().startswith("|") else [block]:
            yield from _SENTENCE_END.split(cell.replace("\n", " "))


def counts(name: str, text: str) -> Counts:
    """Counts of a file; sentences are counted in pages only."""
    long = [one for one in sentences(text) if len(one.split()) > SENTENCE_WORDS_MAX]
    return Counts(len(WORDS.findall(text)), len(long) if name.endswith(".md") else 0)


def found() -> dict[str, Counts]:
    """Counts of the product's sources and of all pages, of those that have some."""
    files = [*(ROOT / "crdtstream").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    names = {str(path.relative_to(ROOT)): path for path in files if "_pb2" not in path.name}
    all_counts = {name: counts(name, path.read_text()) for name, path in sorted(names.items())}
    return {name: one for name, one in all_counts.items() if any(one)}


def listed(text: str) -> dict[str, Counts]:
    lines = (line.split() for line in text.splitlines())
    return {name: Counts(int(words), int(long)) for words, long, name in lines}


def more(now: Mapping[str, Counts], allowed: Mapping[str, Counts]) -> list[str]:
    """Files with more than the list allows, and of what."""
    kinds = ("words that are out", f"sentences over {SENTENCE_WORDS_MAX} words")
    none = Counts(0, 0)
    return [
        f"{name}: {count} {kind}, of which {of_list} are allowed"
        for name, counted in now.items()
        for kind, count, of_list in zip(kinds, counted, allowed.get(name, none), strict=True)
        if count > of_list
    ]


def less(now: Mapping[str, Counts], allowed: Mapping[str, Counts]) -> dict[str, Counts]:
    """The list with what has fallen."""
    fallen = {name: Counts(*map(min, now[name], allowed[name])) for name in allowed if name in now}
    return {name: one for name, one in fallen.items() if any(one)}


def written(lines: Mapping[str, Counts]) -> str:
    return "".join(f"{one.words} {one.sentences} {name}\n" for name, one in sorted(lines.items()))


def main(words: Iterable[str]) -> int:
    allowed, now = listed(LIST.read_text()), found()
    if "--less" in words:
        LIST.write_text(written(less(now, allowed)))
    problems = more(now, allowed)
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
