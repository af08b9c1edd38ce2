"""The part of the page for one drill."""

from collections.abc import Mapping
from typing import Final

from crdtstream.drill.outcome import Run
from crdtstream.drill.report.figures import Headline, milliseconds, problems
from crdtstream.drill.report.page_plots import (
    cpu_plot,
    lag_effects_plot,
    lag_plot,
    memory_plot,
    moments_of,
    throughput_plot,
    timeline,
)
from crdtstream.drill.report.page_table import html_of, verdict_of
from crdtstream.drill.report.table import Table
from crdtstream.drill.report.tables import digests, environment, tables_of
from crdtstream.page.document import tiles
from crdtstream.page.elements import folded, name_of, whole
from crdtstream.page.markup import Markup, element, joined

# If marks exceed this number, they are shown on request.
MARKS_SHOWN_MAX: Final = 12


def run_part(run: Run, at: int, *, shared: Mapping[str, str]) -> Markup:
    """All that the page shows of one drill.

    Args:
        at: its place among the runs; links go to ``drill-AT``.
        shared: the part of its environment that the page shows once for all drills.
    """
    moments = moments_of(run)
    checks, marks, *tables = tables_of(run)
    return element(
        "article",
        element("h2", name_of(run.drill), ": ", verdict_of(run.verdict)),
        element("p", element("bdi", run.about), class_="note"),
        [_warning(what, why) for what, why in problems(run)],
        _tiles(run) if run.produced or run.stalls else None,
        _titled("Findings", _findings(run)),
        _titled("Checks", _checks(checks)),
        _titled("Timeline", timeline(run, moments), _marks(marks)),
        _titled("Entries a second", throughput_plot(run, moments)),
        _titled("Lag by link", lag_plot(run, moments)),
        _titled("Effects behind, by link", lag_effects_plot(run, moments)),
        [_titled(table.title.capitalize(), html_of(table)) for table in tables],
        _digests(run),
        _titled("Memory by node", memory_plot(run, moments)),
        _titled("CPU by node", cpu_plot(run, moments)),
        folded("Load and environment", joined([html_of(environment(run, shared))])),
        id=f"drill-{at}",
    )


def _warning(what: str, why: str) -> Markup:
    # A program that ended is shown with its last lines.
    return element(
        "p",
        element("b", f"{what.capitalize()}: "),
        element("bdi", why, class_="lines"),
        class_="warn",
    )


def _checks(table: Table) -> Markup | None:
    found = html_of(table)
    # A check that is not met must not be below an edge.
    return None if found is None else whole(found)


def _marks(table: Table) -> Markup | None:
    found = html_of(table)
    if found is None or len(table.rows) <= MARKS_SHOWN_MAX:
        return found
    return folded(f"all {len(table.rows)} moments", found)


def _digests(run: Run) -> Markup | None:
    """The digests at the end; one line if they are equal."""
    if len(set(run.digests.values())) != 1:
        return html_of(digests(run))
    (digest,) = set(run.digests.values())
    text = f"Digest of all {len(run.digests)} regions at the end: {digest}"
    return element("p", text, class_="note")


def _tiles(run: Run) -> Markup:
    headline = Headline.of(run)
    return tiles(
        [
            ("acknowledged", f"{headline.acknowledged:,}", ""),
            ("lost", f"{headline.lost:,}", "bad" if headline.lost else "good"),
            ("delivered again", f"{headline.again:,}", ""),
            ("never delivered", f"{headline.never:,}", "warn" if headline.never else "good"),
            ("slowest recovery", headline.recovery, "" if headline.is_recovered else "bad"),
            ("highest lag, ms", milliseconds(headline.lag_ms_max), ""),
            ("equal after", headline.equal, "" if headline.is_equal else "bad"),
        ]
    )


def _findings(run: Run) -> Markup | None:
    if not run.findings:
        return None
    return element(
        "ul", [element("li", element("bdi", text, class_="lines")) for text in run.findings]
    )


def _titled(title: str, *content: Markup | None) -> Markup | None:
    """Titled content; None without content: no empty tables, no empty plots."""
    shown = [one for one in content if one is not None]
    return joined([element("h4", title), shown]) if shown else None
