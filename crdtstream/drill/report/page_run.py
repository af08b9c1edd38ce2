"""The part of the page for one drill."""

from collections.abc import Mapping

from crdtstream.drill.outcome import Run, Verdict
from crdtstream.drill.report.figures import Headline, milliseconds
from crdtstream.drill.report.page_plots import (
    cpu_plot,
    lag_effects_plot,
    lag_plot,
    memory_plot,
    moments_of,
    throughput_plot,
    timeline,
)
from crdtstream.drill.report.page_tables import (
    alerts_table,
    checks_table,
    clients_table,
    consumed_table,
    convergence_table,
    digests_table,
    environment_table,
    latency_table,
    links_table,
    marks_table,
    produced_table,
    read_table,
)
from crdtstream.page.document import tiles
from crdtstream.page.markup import Child, Markup, element, joined
from crdtstream.page.parts import folded, name_of


def run_part(run: Run, at: int, *, shared: Mapping[str, str]) -> Markup:
    """All that is told of one drill.

    Args:
        at: its place among the runs; links go to ``drill-AT``.
        shared: of its environment what the page says once for all drills.
    """
    moments = moments_of(run)
    verdict = element("span", run.verdict.value, class_=f"verdict {run.verdict.value}")
    return element(
        "article",
        element("h2", name_of(run.drill), ": ", verdict),
        element("p", element("bdi", run.about), class_="note"),
        _problems(run),
        _tiles(run) if run.produced or run.stalls else None,
        _titled("Findings", _findings(run)),
        _titled("Checks", checks_table(run)),
        _titled("Timeline", timeline(run, moments), marks_table(run)),
        _titled("Entries a second", throughput_plot(run, moments)),
        _titled("Lag by link", lag_plot(run, moments)),
        _titled("Effects behind, by link", lag_effects_plot(run, moments)),
        _titled("Latency as clients saw it", latency_table(run)),
        _titled("Clients", clients_table(run)),
        _titled("Produced", produced_table(run)),
        _titled("Consumed", consumed_table(run)),
        _titled("Read", read_table(run)),
        _titled("Equal again", convergence_table(run), digests_table(run)),
        _titled("Alerts", alerts_table(run)),
        _titled("Links", links_table(run)),
        _titled("Memory by node", memory_plot(run, moments)),
        _titled("CPU by node", cpu_plot(run, moments)),
        _folded("Load and environment", environment_table(run, shared)),
        id=f"drill-{at}",
    )


def _problems(run: Run) -> Child:
    """What a reader must know before any figure."""
    found: list[Child] = []
    if run.verdict is Verdict.ABORTED:
        why = run.problem or "it is not said why"
        found.append(_warning("Not judged: ", why))
    elif run.problem:
        found.append(_warning("Problem: ", run.problem))
    if not run.load.is_made:
        why = run.load.problem or "it is not said why"
        found.append(_warning("The load was not made, so latencies say nothing: ", why))
    return found


def _warning(what: str, why: str) -> Markup:
    # A program that ended is told with its last lines.
    return element("p", element("b", what), element("bdi", why, class_="lines"), class_="warn")


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
    """Nothing where there is nothing to show: no empty tables, no empty plots."""
    shown = [one for one in content if one is not None]
    return joined([element("h4", title), shown]) if shown else None


def _folded(title: str, content: Markup | None) -> Markup | None:
    return None if content is None else folded(title, content)
