"""Pages of scenarios: those of one report, and one row by row."""

from collections.abc import Iterator

from starlette.responses import HTMLResponse

from crdtstream.console import words
from crdtstream.console.cells import Cells
from crdtstream.console.layout import Column, problem, section, state_cell, table
from crdtstream.console.map import region_map
from crdtstream.page.markup import Child, Markup, element
from crdtstream.replay.pages import controls, page_of, replay_path, report_path
from crdtstream.replay.steps import Steps
from crdtstream.scenario.report_file import CallReport, CellReport, ScenarioReport, ScenarioReports


def report(name: str, found: ScenarioReports) -> HTMLResponse:
    """The scenarios of one report."""
    rows = [
        (
            element("a", one.file, href=replay_path(name, at)),
            element("span", _verdict(one), class_="state", data_state=_verdict(one)),
            words.count(len(one.rows)),
            one.about if not one.skipped else f"{one.about} Skipped: {one.skipped}",
        )
        for at, one in enumerate(found.scenarios)
    ]
    columns = [
        Column("scenario", "key"),
        Column("outcome"),
        Column("rows", "number"),
        Column("about", "long"),
    ]
    return page_of(
        name,
        element("p", element("a", "← Reports", href="/")),
        section(
            "Scenarios",
            table("Scenarios", columns, rows)
            if rows
            else problem("No scenario was run.", "Open another report."),
            note="A scenario is replayed row by row.",
        ),
    )


def replay(name: str, number: int, steps: Steps, at: float) -> HTMLResponse:
    """One scenario as of a row."""
    cells, scenario = steps.cells(at), steps.report
    drawn = region_map(steps.regions_on_map(), steps.links_on_map(cells), cells, own=0)
    seed = "" if scenario.seed is None else f" Seed {scenario.seed}."
    return page_of(
        scenario.file,
        element("p", element("a", f"← {words.name(name.encode())}", href=report_path(name))),
        element("p", f"{scenario.about} Source: {scenario.source}.{seed}", class_="quiet"),
        section("Rows", controls(name, number, steps, at, cells, step="1"), _regions(steps, cells)),
        section("Map", drawn, note="Broken arrows are links that are cut.") if drawn else None,
        section(
            "Table",
            _table(name, number, steps, cells),
            note="A cell has the command, and the answer that came.",
        ),
        section("End", _end(scenario)),
        scripts=("console.js", "replay.js"),
    )


def _regions(steps: Steps, cells: Cells) -> Markup:
    return element(
        "p",
        [
            element(
                "span", f"region {one}: ", state_cell(f"region.{one}.state", cells), class_="lane"
            )
            for one in steps.regions
        ],
        class_="lane-list",
    )


def _table(name: str, number: int, steps: Steps, cells: Cells) -> Markup:
    rows = steps.report.rows
    has_words = any(one.explain for one in rows)
    columns = [
        Column("time"),
        Column("state"),
        *(Column(f"region {one}", "long") for one in steps.regions),
        *([Column("explanation", "long")] if has_words else []),
    ]
    return table(
        "Rows",
        columns,
        [
            (
                element("a", one.label or f"row {at + 1}", href=replay_path(name, number, at + 1)),
                state_cell(f"row.{at}.state", cells),
                *(_cell(one.cells.get(region, CellReport())) for region in steps.regions),
                *([element("span", one.explain)] if has_words else []),
            )
            for at, one in enumerate(rows)
        ],
    )


def _cell(cell: CellReport) -> Markup:
    return element("span", cell.step or [_call(one) for one in cell.calls], class_="calls")


def _call(call: CallReport) -> Iterator[Child]:
    client = f"({call.client}) " if call.client else ""
    yield element("code", f"{client}{call.text}")
    yield element("span", f" → {call.answer or 'no answer'}", class_="answer")
    if not call.is_met:
        expected = call.expected or "no error"
        yield element("b", f" expected: {expected}", class_="unmet")
    yield element("br")


def _end(scenario: ScenarioReport) -> Markup:
    if scenario.skipped:
        return element("p", f"It was not run: {scenario.skipped}")
    if len(set(scenario.digests.values())) <= 1:
        return element("p", "All regions have equal digests.")
    listed = ", ".join(f"region {one}: {digest}" for one, digest in scenario.digests.items())
    return element("p", f"The regions differ at the end: {listed}")


def _verdict(one: ScenarioReport) -> str:
    if one.skipped:
        return "skipped"
    return "passed" if one.passed else "failed"
