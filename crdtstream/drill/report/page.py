"""A report as one HTML page: complete in itself, without scripts, light or dark as its reader is.

    header   the verdict, and when it was
    tiles    figures of all drills
    table    a row per drill, with a link to its part
    a part per drill: findings, timeline, plots, tables

Names, words of checks and findings come from whoever wrote the drill, and from streams: they are
text, whatever they hold; see ``crdtstream.page.markup``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from crdtstream.drill.outcome import Report, Run, Verdict
from crdtstream.drill.report.figures import NOTHING, Headline, began_text, milliseconds
from crdtstream.drill.report.page_run import run_part
from crdtstream.page.document import document, tiles
from crdtstream.page.markup import Child, Markup, element
from crdtstream.page.parts import name_of, numbers, table, texts, times

_NOTES: Final = (
    (
        "Verdict, deliveries and times come from what clients recorded, outside of the nodes; lag,"
        " memory and CPU are what nodes and the operating system say."
    ),
    (
        "Times in plots are seconds since the load began. A shaded span is one in which a fault"
        " lasted."
    ),
)

_COLUMNS: Final = (
    "again: deliveries beyond the first of an entry; never: entries that no consumer was given;"
    " recovery: of the slowest client, from a fault to its first good answer; lag: the highest of"
    " any link; equal after: from the end of a fault to equal digests."
)


def page_of(report: Report) -> str:
    """The page's text."""
    shared = _shared_environment(report.runs)
    return document(
        "crdtstream: failover drills",
        _header(report),
        element(
            "main",
            _tiles(report),
            _drills(report) if report.runs else element("p", "No drill was run."),
            [run_part(run, at, shared=shared) for at, run in enumerate(report.runs)],
            _environment(shared),
        ),
        element("footer", _notes()),
    )


def verdict_of(verdict: Verdict) -> Markup:
    """The word, in its colour."""
    return element("span", verdict.value, class_=f"verdict {verdict.value}")


def _header(report: Report) -> Markup:
    began = min((began_text(run) for run in report.runs), default="")
    return element(
        "header",
        element("h1", "Failover drills: ", verdict_of(report.verdict)),
        element("p", "crdtstream · began ", element("bdi", began)) if began else None,
    )


def _tiles(report: Report) -> Markup:
    counts = Counter(run.verdict for run in report.runs)
    passed, failed, aborted = (
        counts[one] for one in (Verdict.PASSED, Verdict.FAILED, Verdict.ABORTED)
    )
    headlines = [Headline.of(run) for run in report.runs]
    lost = sum(one.lost for one in headlines)
    never = sum(one.never for one in headlines)
    slowest = max((one.recovery_s for one in headlines if one.recovery_s is not None), default=None)
    recovery = "never" if not all(one.is_recovered for one in headlines) else _seconds(slowest)
    return tiles(
        [
            ("drills passed", f"{passed:,} of {len(report.runs):,}", "good" if passed else ""),
            ("failed", f"{failed:,}", "bad" if failed else "good"),
            ("not judged", f"{aborted:,}", "warn" if aborted else "good"),
            ("acknowledged", f"{sum(one.acknowledged for one in headlines):,}", ""),
            ("of these lost", f"{lost:,}", "bad" if lost else "good"),
            ("never delivered", f"{never:,}", "warn" if never else "good"),
            ("slowest recovery", recovery, "bad" if recovery == "never" else ""),
        ]
    )


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def _drills(report: Report) -> Markup:
    rows: list[Sequence[Child]] = []
    for at, run in enumerate(report.runs):
        headline = Headline.of(run)
        rows.append(
            [
                element("a", name_of(run.drill), href=f"#drill-{at}"),
                verdict_of(run.verdict),
                f"{headline.checks_met} of {headline.checks}",
                f"{headline.acknowledged:,}",
                f"{headline.lost:,}",
                f"{headline.again:,}",
                f"{headline.never:,}",
                headline.recovery,
                milliseconds(headline.lag_ms_max),
                headline.equal,
                f"{run.seconds:,.0f}",
            ]
        )
    columns = [
        *times("drill", "verdict"),
        *numbers("checks met", "acknowledged", "lost", "again", "never"),
        *numbers("recovery", "lag ms", "equal after", "seconds"),
    ]
    note = element("p", _COLUMNS, class_="note")
    return element("section", element("h2", "Drills"), table(columns, rows), note, id="drills")


def _shared_environment(runs: Sequence[Run]) -> dict[str, str]:
    """What is the same in all runs."""
    return {
        name: value
        for name, value in (runs[0].environment if runs else {}).items()
        if all(run.environment.get(name) == value for run in runs)
    }


def _environment(shared: Mapping[str, str]) -> Markup | None:
    if not shared:
        return None
    rows = [[name_of(name), element("bdi", value)] for name, value in shared.items()]
    return element(
        "section",
        element("h2", "Environment"),
        table(texts("what", "value"), rows),
        id="environment",
    )


def _notes() -> Child:
    return [element("p", text) for text in _NOTES]
