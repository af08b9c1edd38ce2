"""Reports as tables, 80 columns wide or as wide as the terminal; colours only on one.

Nothing is cut: what is wider than its column goes on in the next line, and findings are lines of
their own, which a terminal folds and ``grep`` finds whole.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crdtstream.drill.outcome import MarkKind, Report, Run, Verdict
from crdtstream.drill.report.figures import (
    NEVER,
    Headline,
    began_text,
    counted,
    highest,
    link_name,
    milliseconds,
    seconds,
    size,
)
from crdtstream.page.markup import showable
from crdtstream.page.plots import short

WIDTH: Final = 80
_NAME_WIDTH_MAX: Final = 24

VERDICT_STYLES: Final = {
    Verdict.PASSED: "bold green",
    Verdict.FAILED: "bold red",
    Verdict.ABORTED: "bold yellow",
}
MARK_STYLES: Final = {MarkKind.FAULT: "red", MarkKind.END: "green", MarkKind.NOTE: ""}


def console_on(file: TextIO | None = None) -> Console:
    """On stdout, or a file: as wide as the terminal, or of ``WIDTH`` where there is none."""
    file = file or sys.stdout
    return Console(file=file) if file.isatty() else Console(file=file, width=WIDTH)


def print_report(console: Console, report: Report) -> None:
    """One run whole; of several a row each, and whole those that did not pass."""
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
    rows = [_summary(run) for run in runs]
    names = ["drill", "", ">checks", ">acked", ">lost", ">again", ">never", ">RTO", ">lag ms"]
    title = "1 drill" if len(runs) == 1 else f"{len(runs)} drills"
    found = table(title, [*names, ">equal"], rows)
    # A name is whole where there is any room for it: it is what one types next.
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
    for style, text in _problems(run):
        console.print(Text(showable(text), style=style), soft_wrap=True)
    for finding in run.findings:
        console.print(Text(showable(f"- {finding}")), soft_wrap=True)
    console.print()
    for make in _TABLES:
        found = make(run)
        if found.row_count:
            console.print(found)
            console.print()
    for text in _last_lines(run):
        console.print(Text(showable(text)), soft_wrap=True)


def verdict_text(verdict: Verdict) -> Text:
    """The word, in its colour."""
    return Text(verdict.value, style=VERDICT_STYLES[verdict])


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table; a column whose name begins with ``>`` holds numbers."""
    found = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        name = column.removeprefix(">")
        found.add_column(name, justify="right" if name != column else "left", overflow="fold")
    for row in rows:
        # As text, or what stands in brackets would be a style.
        found.add_row(*(cell if isinstance(cell, Text) else Text(showable(cell)) for cell in row))
    return found


def _summary(run: Run) -> list[str | Text]:
    headline = Headline.of(run)
    return [
        run.drill,
        verdict_text(run.verdict),
        f"{headline.checks_met}/{headline.checks}",
        short(headline.acknowledged),
        _count(headline.lost, bad="bold red"),
        short(headline.again),
        _count(headline.never, bad="yellow"),
        headline.recovery,
        milliseconds(headline.lag_ms_max),
        headline.equal,
    ]


def _problems(run: Run) -> Iterable[tuple[str, str]]:
    """What a reader must know before any figure."""
    if run.verdict is Verdict.ABORTED:
        yield "yellow", f"not judged: {run.problem or 'it is not said why'}"
    elif run.problem:
        yield "yellow", f"problem: {run.problem}"
    if not run.load.is_made:
        why = run.load.problem or "it is not said why"
        yield "yellow", f"the load was not made, so latencies say nothing: {why}"


def _checks(run: Run) -> Table:
    met, not_met = Text("met", style="green"), Text("not met", style="bold red")
    rows = [
        (check.name, met if check.is_met else not_met, check.expected, check.found)
        for check in run.checks
    ]
    return table("checks", ["check", "", "expected", "found"], rows)


def _timeline(run: Run) -> Table:
    rows = [
        (
            f"{mark.at:.1f} s",
            Text("" if mark.kind is MarkKind.NOTE else mark.kind.value, MARK_STYLES[mark.kind]),
            mark.what,
        )
        for mark in sorted(run.marks, key=lambda one: one.at)
    ]
    return table("timeline", [">at", "", "what"], rows)


def _produced(run: Run) -> Table:
    rows = [
        (
            one.kind,
            f"{one.acknowledged:,}",
            f"{one.unknown:,}",
            f"{one.refused:,}",
            _count(one.lost, bad="bold red"),
            f"{one.repeated:,}",
            f"{one.repeated_after_unknown:,}",
        )
        for one in run.produced
    ]
    names = [">acknowledged", ">no answer", ">refused", ">lost", ">repeated", ">no answer before"]
    return table("produced", ["producer", *names], rows)


def _consumed(run: Run) -> Table:
    rows = [
        (
            one.group,
            one.mode,
            f"{one.delivered:,}",
            f"{one.acknowledged:,}",
            f"{sum(one.again.values()):,}",
            f"{one.out_of_order:,}",
            _count(one.never, bad="yellow"),
        )
        for one in run.consumed
    ]
    names = [">delivered", ">acknowledged", ">again", ">out of order", ">never"]
    return table("consumed", ["group", "mode", *names], rows)


def _again(run: Run) -> Table:
    rows = [
        (one.group, reason, f"{count:,}")
        for one in run.consumed
        for reason, count in sorted(one.again.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return table("delivered again", ["group", "why", ">times"], rows)


def _read(run: Run) -> Table:
    rows = [
        (
            one.kind,
            *(f"{count:,}" for count in (one.read, one.skipped, one.again)),
            f"{one.out_of_order:,}",
        )
        for one in run.read
    ]
    return table("read", ["reader", ">read", ">skipped", ">again", ">out of order"], rows)


def _clients(run: Run) -> Table:
    rows = [
        (
            one.kind,
            f"{one.hit:,}/{one.clients:,}",
            (NEVER if one.recovery_s is None else seconds(one.recovery_s if one.hit else None)),
            seconds(one.longest_s),
            f"{one.moves:,}",
            counted(one.errors),
        )
        for one in run.stalls
    ]
    return table("clients", ["client", ">hit", ">RTO", ">stall", ">moves", "errors"], rows)


def _latencies(run: Run) -> Table:
    rows = [
        (
            one.kind,
            one.phase.value,
            f"{one.count:,}",
            *(milliseconds(ms) for ms in (one.p50_ms, one.p99_ms, one.p999_ms, one.max_ms)),
        )
        for one in run.latencies
    ]
    names = [">requests", ">p50", ">p99", ">p99.9", ">max"]
    return table("latency as clients saw it, in ms", ["client", "phase", *names], rows)


def _links(run: Run) -> Table:
    rows = [
        (
            link_name(one),
            milliseconds(highest(one.lag_ms)),
            "" if (most := highest(one.lag_effects)) is None else f"{most:,.0f}",
            size(one.bytes_received),
            size(one.bytes_again),
        )
        for one in sorted(run.links, key=lambda link: (link.peer, link.puller))
    ]
    names = [">lag ms max", ">effects max", ">received", ">again"]
    return table("links (from → to)", ["link", *names], rows)


def _nodes(run: Run) -> Table:
    rows = [
        (
            f"region {one.region}",
            size(highest(one.rss_bytes)),
            "" if (most := highest(one.cpu_percent)) is None else f"{most:.0f} %",
        )
        for one in run.nodes
    ]
    return table("nodes", ["node", ">memory max", ">CPU max"], rows)


def _convergences(run: Run) -> Table:
    never = Text(NEVER, style="bold red")
    rows = [
        (one.after, never if one.seconds is None else seconds(one.seconds))
        for one in run.convergences
    ]
    return table("equal digests", ["after", ">in"], rows)


def _alerts(run: Run) -> Table:
    rows = []
    for one in run.alerts:
        match one.is_expected, one.fired_at:
            case True, None:
                how = Text("should have fired", style="bold red")
            case True, _:
                how = Text("fired, as expected", style="green")
            case _:
                how = Text("fired", style="yellow")
        labels = ", ".join(f"{name}={value}" for name, value in one.labels.items())
        rows.append(
            (one.name, labels, how, "" if one.fired_at is None else f"{one.fired_at:.1f} s")
        )
    return table("alerts", ["alert", "labels", "", ">at"], rows)


def _last_lines(run: Run) -> Iterable[str]:
    digests = set(run.digests.values())
    if len(digests) == 1:
        yield f"digest of all {len(run.digests)} regions at the end: {digests.pop()}"
    else:
        for region, digest in sorted(run.digests.items()):
            yield f"digest of region {region} at the end: {digest}"
    if run.environment:
        yield ", ".join(f"{name} {value}" for name, value in run.environment.items())


def _count(count: int, *, bad: str) -> Text:
    """A count that ought to be 0."""
    return Text(f"{count:,}", style=bad if count else "")


_TABLES: Final[tuple[Callable[[Run], Table], ...]] = (
    _checks,
    _timeline,
    _produced,
    _consumed,
    _again,
    _read,
    _clients,
    _latencies,
    _links,
    _nodes,
    _convergences,
    _alerts,
)
