"""Reports as tables, 80 columns wide or as wide as the terminal; colours only on one.

Nothing is cut: text that is wider than its column continues in the next line, and findings are
lines of their own, which a terminal folds and ``grep`` finds whole.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from crdtstream.drill.outcome import Report, Run, Verdict
from crdtstream.drill.report.figures import began_text, problems
from crdtstream.drill.report.table import Cell, Kind, Table, Tone
from crdtstream.drill.report.tables import VERDICT_TONES, drills, tables_of
from crdtstream.page.markup import showable

WIDTH: Final = 80
_NAME_WIDTH_MAX: Final = 24

STYLES: Final = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.WARN: "yellow",
    Tone.BAD: "bold red",
}


def console_on(file: TextIO | None = None) -> Console:
    """Console on stdout, or a file: as wide as the terminal, or of ``WIDTH`` without one."""
    file = file or sys.stdout
    return Console(file=file) if file.isatty() else Console(file=file, width=WIDTH)


def print_report(console: Console, report: Report) -> None:
    """Print one run whole; of several a row each, and whole those that did not pass."""
    if not report.runs:
        console.print("no drill was run")
        return
    if len(report.runs) == 1:
        print_run(console, report.runs[0])
        return
    for run in report.runs:
        if run.verdict is not Verdict.PASSED:
            print_run(console, run)
            console.print()
    print_summary(console, report.runs)


def print_summary(console: Console, runs: Sequence[Run]) -> None:
    """A row per drill."""
    found = rich_table(drills(runs))
    # A name is whole if it fits at all: a user types it next.
    found.columns[0].min_width = min(max(len(run.drill) for run in runs), _NAME_WIDTH_MAX)
    found.padding = (0, 0)
    console.print(found)
    worst = Report(runs=list(runs)).verdict
    console.print(Text.assemble("verdict: ", verdict_text(worst)))


def print_run(console: Console, run: Run) -> None:
    """All that is known of one drill."""
    console.print(
        Text.assemble(
            (showable(run.drill), "bold"),
            ": ",
            verdict_text(run.verdict),
            (f"  {run.seconds:.0f} s, began {showable(began_text(run))}", "dim"),
        )
    )
    if run.about:
        console.print(Text(showable(run.about)))
    for what, why in problems(run):
        console.print(Text(showable(f"{what}: {why}"), style="yellow"), soft_wrap=True)
    for finding in run.findings:
        console.print(Text(showable(f"- {finding}")), soft_wrap=True)
    console.print()
    for table in tables_of(run):
        if table.rows:
            console.print(rich_table(table))
            console.print()
    for text in _last_lines(run):
        console.print(Text(showable(text)), soft_wrap=True)


def verdict_text(verdict: Verdict) -> Text:
    """Word of a verdict, in its colour."""
    return Text(verdict.value, style=STYLES[VERDICT_TONES[verdict]])


def rich_table(table: Table) -> RichTable:
    """A table in its narrow form."""
    found = RichTable(
        title=table.title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in table.columns:
        if column.narrow is not None:
            justify: JustifyMethod = "right" if column.kind is Kind.NUMBER else "left"
            found.add_column(column.narrow, justify=justify, overflow="fold")
    for row in table.rows:
        cells = zip(row, table.columns, strict=True)
        found.add_row(*(_text(Cell.of(one)) for one, column in cells if column.narrow is not None))
    return found


def _text(cell: Cell) -> Text:
    # As text, since words in brackets would be a style.
    text = cell.text if cell.narrow is None else cell.narrow
    return Text(showable(text), style=STYLES[cell.tone])


def _last_lines(run: Run) -> Iterable[str]:
    digests = set(run.digests.values())
    if len(digests) == 1:
        yield f"digest of all {len(run.digests)} regions at the end: {digests.pop()}"
    else:
        for region, digest in sorted(run.digests.items()):
            yield f"digest of region {region} at the end: {digest}"
    if run.environment:
        yield ", ".join(f"{name} {value}" for name, value in run.environment.items())
