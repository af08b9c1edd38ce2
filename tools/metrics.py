"""Writes the tables of docs/metrics.md from the definitions of the metrics, or checks them.

This program writes the text between two comments:

    <!-- metrics -->
    …
    <!-- end -->

Usage: python tools/metrics.py [--check]

Exit status: 0 written, or current; 1 stale (--check).
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from crdtstream.metrics.definitions import PROCESS_METRICS, REGION, SECTIONS, Definition

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "metrics.md"

_BLOCK = re.compile(r"(<!-- metrics -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """The page with its tables written again."""
    return _BLOCK.sub(lambda block: block[1] + "\n".join(_lines()) + "\n" + block[2], text)


def _lines() -> Iterator[str]:
    for title, definitions in SECTIONS.items():
        yield f"\n## {title}\n"
        yield "| metric | kind | unit | labels | meaning |"
        yield "| --- | --- | --- | --- | --- |"
        yield from map(_row, definitions)
    yield "\n## The process\n"
    yield "These are the usual metrics of a Prometheus client, with the label `region` as well:"
    yield ", ".join(f"`{name}`" for name in PROCESS_METRICS) + "."
    yield ""


def _row(definition: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in (REGION, *definition.labels))
    meaning = definition.help
    if definition.bounds:
        bounds = ", ".join(f"{bound:g}" for bound in definition.bounds)
        meaning += f" Buckets: {bounds}."
    cells = (f"`{definition.name}`", definition.kind, definition.unit or "-", labels, meaning)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def main(check_only: bool) -> int:
    before = PAGE.read_text()
    now = filled(before)
    if now == before:
        return 0
    if check_only:
        print(f"{PAGE.relative_to(ROOT)} is not current: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main(check_only="--check" in sys.argv[1:]))
