"""Bounds of reports: beyond them one is refused, before a page is made of it.

A page has an element for each region, link, row and cell, and it is made on the event loop.  So a
small file could ask for much: 1,500 regions have 2,248,500 links.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from crdtstream.console import words
from crdtstream.core.size import Size
from crdtstream.drill.outcome import Report, Run
from crdtstream.scenario.report_file import ScenarioReport, ScenarioReports

REGIONS_MAX: Final = Size(32, least=3)
SCENARIOS_MAX: Final = Size(2_000, least=1)
ROWS_MAX: Final = Size(1_000, least=8)
# Of one scenario: calls, and a place for each region in each row.
CELLS_MAX: Final = Size(10_000, least=64)
RUNS_MAX: Final = Size(1_000, least=2)
# Of all drills of a report.
MARKS_MAX: Final = Size(2_000, least=16)
# Of any figure; in milliseconds this is 30,000 years.
FIGURE_MAX: Final = 1e15


class BoundsError(Exception):
    """A report is beyond a bound; the text says which, in a sentence without its end."""


def check(report: Report | ScenarioReports) -> None:
    """
    Raises:
        BoundsError: there is too much of something, or a figure that no run can have.
    """
    if isinstance(report, ScenarioReports):
        _at_most(len(report.scenarios), SCENARIOS_MAX, "the report has", "scenario")
        for number, scenario in enumerate(report.scenarios, 1):
            _check_scenario(scenario, f"scenario {number} of the report has")
        return
    _at_most(len(report.runs), RUNS_MAX, "the report has", "drill")
    _at_most(sum(len(one.marks) for one in report.runs), MARKS_MAX, "the report has", "event")
    for number, run in enumerate(report.runs, 1):
        _check_run(run, number)


def _check_scenario(one: ScenarioReport, subject: str) -> None:
    regions = len(one.regions)
    _at_most(max(regions, len(one.digests)), REGIONS_MAX, subject, "region")
    _at_most(len(one.rows), ROWS_MAX, subject, "row")
    calls = sum(len(cell.calls) for row in one.rows for cell in row.cells.values())
    _at_most(regions * len(one.rows) + calls, CELLS_MAX, subject, "cell")
    for row in one.rows:
        if len(row.crashed) > regions or len(row.cut) > regions**2:
            raise BoundsError(f"{subject} a row with more faults than regions and links")


def _check_run(run: Run, number: int) -> None:
    subject = f"drill {number} of the report has"
    regions = max(
        len(run.nodes),
        len(run.digests),
        len(run.throughput.acknowledged),
        len({one for link in run.links for one in (link.puller, link.peer)}),
    )
    _at_most(regions, REGIONS_MAX, subject, "region")
    if len(run.links) > REGIONS_MAX.value**2:
        raise BoundsError(f"{subject} more links than {REGIONS_MAX.value} regions can have")
    if any(abs(one) > FIGURE_MAX for one in _figures(run)):
        raise BoundsError(f"{subject} a time or a rate that no run can have")


def _figures(run: Run) -> Iterator[float]:
    """All that is added, scaled or rounded."""
    series: list[Sequence[float | None]] = [
        *(one.at for one in run.links),
        *(one.lag_ms for one in run.links),
        *(one.lag_effects for one in run.links),
        *(one.at for one in run.nodes),
        *(one.rss_bytes for one in run.nodes),
        *(one.cpu_percent for one in run.nodes),
        *(run.throughput.at, run.throughput.delivered),
        *run.throughput.acknowledged.values(),
    ]
    yield run.seconds
    yield from (one.at for one in run.marks)
    yield from (one for one in chain.from_iterable(series) if one is not None)


def _at_most(found: int, most: Size, subject: str, one: str) -> None:
    if found > most.value:
        raise BoundsError(
            f"{subject} {words.number_of(found, one)}, and {words.count(most.value)} at most are"
            " shown"
        )
