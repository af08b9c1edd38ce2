"""A report as one HTML page: complete in itself, without scripts, light or dark as its reader is.

    header   the verdict, and when it was
    tiles    figures of all drills
    table    a row per drill, with a link to its part
    a part per drill: findings, timeline, plots, tables

Names, words of checks and findings come from the author of the drill, and from streams: they are
text, whatever they hold; see ``crdtstream.page.markup``.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from crdtstream.drill.outcome import Report, Verdict
from crdtstream.drill.report.figures import NEVER, Headline, began_text, seconds, shared_environment
from crdtstream.drill.report.page_run import run_part
from crdtstream.drill.report.page_table import html_of, verdict_of
from crdtstream.drill.report.table import Table, texts
from crdtstream.drill.report.tables import drills
from crdtstream.page.document import document, tiles
from crdtstream.page.markup import Markup, element

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
    shared = shared_environment(report.runs)
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
        element("footer", [element("p", text) for text in _NOTES]),
    )


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
    recovery = seconds(slowest) if all(one.is_recovered for one in headlines) else NEVER
    return tiles(
        [
            ("drills passed", f"{passed:,} of {len(report.runs):,}", "good" if passed else ""),
            ("failed", f"{failed:,}", "bad" if failed else "good"),
            ("not judged", f"{aborted:,}", "warn" if aborted else "good"),
            ("acknowledged", f"{sum(one.acknowledged for one in headlines):,}", ""),
            ("of these lost", f"{lost:,}", "bad" if lost else "good"),
            ("never delivered", f"{never:,}", "warn" if never else "good"),
            ("slowest recovery", recovery, "bad" if recovery == NEVER else ""),
        ]
    )


def _drills(report: Report) -> Markup:
    note = element("p", _COLUMNS, class_="note")
    return element(
        "section", element("h2", "Drills"), html_of(drills(report.runs)), note, id="drills"
    )


def _environment(shared: Mapping[str, str]) -> Markup | None:
    if not shared:
        return None
    table = Table("environment", texts("what", "value"), list(shared.items()))
    return element("section", element("h2", "Environment"), html_of(table), id="environment")
