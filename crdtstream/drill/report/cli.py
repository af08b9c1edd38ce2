"""``crdtstream drill report``: show a report again, write it in another form, compare two."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from crdtstream.command_line.exit import refuse
from crdtstream.drill.outcome import Report, Verdict
from crdtstream.drill.report.compare import compare
from crdtstream.drill.report.compare_table import print_comparison
from crdtstream.drill.report.files import ReportError, read_json, write_text
from crdtstream.drill.report.junit import junit_of
from crdtstream.drill.report.page import page_of
from crdtstream.drill.report.terminal import console_on, print_report

# Exit status of ``drill run`` and ``drill report``.
EXIT_STATUS: Final = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.ABORTED: 3}


class _Form(StrEnum):
    TABLES = "tables"
    JSON = "json"


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="A [B]",
            help="A report.json of `crdtstream drill run --out`; two: what changed from A to B.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the page of the report (of B) here."),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write JUnit XML of the report (of B) here, for CI."),
    ] = None,
    drill: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this drill; of one drill everything is shown."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the report, or the comparison.")
    ] = False,
) -> None:
    """Show what drills came to; or with two reports, what became better and what worse.

    Example: crdtstream drill report before/report.json after/report.json

    Exit status: 0 the (last) report passed, 1 it failed, 3 it was not judged, 2 a file is no
    report, or an option makes no sense.
    """
    if len(paths) > 2:
        refuse(f"one report, or two to compare; these are {len(paths)}")
    try:
        reports = [_selected(path, read_json(path), drill) for path in paths]
        last = reports[-1]
        if html is not None:
            write_text(html, page_of(last))
        if junit is not None:
            write_text(junit, junit_of(last))
    except ReportError as error:
        refuse(str(error))
    _show(reports, _Form.JSON if as_json else _Form.TABLES)
    raise typer.Exit(code=EXIT_STATUS[last.verdict])


def _selected(path: Path, found: Report, drill: str | None) -> Report:
    """The whole report, or the runs of one drill."""
    if drill is None:
        return found
    runs = [run for run in found.runs if run.drill == drill]
    if not runs:
        names = ", ".join(dict.fromkeys(run.drill for run in found.runs)) or "no drill"
        raise ReportError(f"{path}: no drill {drill!r} in it; it has {names}")
    return Report(runs=runs)


def _show(reports: list[Report], form: _Form) -> None:
    console = console_on()
    match reports, form:
        case [one], _Form.JSON:
            typer.echo(one.model_dump_json(indent=1))
        case [one], _Form.TABLES:
            print_report(console, one)
        case [before, after], _Form.JSON:
            typer.echo(compare(before, after).as_json())
        case [before, after], _Form.TABLES:
            print_comparison(console, compare(before, after))
        case _:
            raise AssertionError("one report or two")
