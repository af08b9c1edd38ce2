"""Writes what was recorded into docs/performance.md, docs/scaling.md and docs/sizing.md.

Outcomes are in benchmarks/results, a file for each part.  What stands between two comments is
written by this program:

    <!-- aims -->
    …
    <!-- end -->
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import scaling, sizing, tables
from benchmarks.aims import AIMS, Outcomes
from benchmarks.measured import Outcome
from benchmarks.parts.all import PARTS
from benchmarks.systems import TREE

RESULTS: Final = TREE / "benchmarks" / "results"
PAGES: Final = tuple(TREE / "docs" / name for name in ("performance.md", "scaling.md", "sizing.md"))
NOTHING: Final = "Nothing is recorded yet: `make bench ARGS=--record`."

_BLOCK: Final = re.compile(r"(<!-- (?P<name>[a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def record(outcome: Outcome, folder: Path = RESULTS) -> None:
    """Keep an outcome in place of the part's earlier one."""
    folder.mkdir(exist_ok=True)
    (folder / f"{outcome.part}.json").write_text(json.dumps(outcome.to_json(), indent=1) + "\n")


def recorded(folder: Path = RESULTS) -> dict[str, Outcome]:
    """Recorded figures, in the order of the parts."""
    found = {}
    for name in PARTS:
        path = folder / f"{name}.json"
        if path.exists():
            found[name] = Outcome.from_json(json.loads(path.read_text()))
    return found


def filled(page: str, outcomes: Outcomes) -> str:
    """A page with its blocks written again."""

    def block(found: re.Match[str]) -> str:
        body = _BLOCKS[found["name"]](outcomes) or NOTHING
        return f"{found[1]}\n{body}\n\n{found[3]}"

    return _BLOCK.sub(block, page)


def write() -> None:
    """Bring pages up to date with what is recorded."""
    outcomes = recorded()
    for path in PAGES:
        path.write_text(filled(path.read_text(), outcomes))


def _aims(outcomes: Outcomes) -> str:
    if not outcomes:
        return ""
    head = ["what", "the peer", "aim", "measured", "reached"]
    return tables.markdown([head, *(aim.row(outcomes) for aim in AIMS)])


def _details(outcomes: Outcomes) -> str:
    return "\n\n".join(
        _detail(outcome) for name, outcome in outcomes.items() if not PARTS[name].curve
    )


def _curves(outcomes: Outcomes) -> str:
    return "\n\n".join(_detail(outcome) for name, outcome in outcomes.items() if PARTS[name].curve)


def _detail(outcome: Outcome) -> str:
    """A part: what it is, where it was measured, the table."""
    rounds = len({sample.round for sample in outcome.samples})
    lines = [
        f"### {outcome.part}",
        (
            f"{outcome.about} {outcome.machine}; load {outcome.load:.1f} at its start, version"
            f" {outcome.version}, medians of {rounds} {'round' if rounds == 1 else 'rounds'}"
            f" (lowest … highest){outcome.legend()}."
        ),
        *(f"{system} was left out: {why}." for system, why in outcome.skipped.items()),
        tables.markdown(list(tables.rows_of(outcome))),
    ]
    return "\n\n".join(lines)


def _regions(outcomes: Outcomes) -> str:
    rows = list(scaling.regions_rows(outcomes))
    return tables.markdown(rows) if rows else ""


def _entries(outcomes: Outcomes) -> str:
    rows = list(scaling.entries_rows(outcomes))
    return tables.markdown(rows) if rows else ""


def _costs(outcomes: Outcomes) -> str:
    rows = list(sizing.cost_rows(outcomes))
    return tables.markdown(rows) if rows else ""


def _sizes(outcomes: Outcomes) -> str:
    rows = list(sizing.size_rows(outcomes))
    return tables.markdown(rows) if rows else ""


_BLOCKS: Final[dict[str, Callable[[Outcomes], str]]] = {
    "aims": _aims,
    "details": _details,
    "curves": _curves,
    "regions": _regions,
    "entries": _entries,
    "message costs": _costs,
    "sizes": _sizes,
}
