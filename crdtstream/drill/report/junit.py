"""A report as JUnit XML: one suite per call, one test case per drill.

    <testsuites> <testsuite>  properties: the environment
                              testcase: a drill; system-out: its figures
                                failure: checks that are not met, with findings
                                error: it could not be judged

CI systems agree on little of this format, and the file keeps to the part that all of them read.
Jenkins keeps one failure of a test case, so all checks are in one.  GitLab shows a failure's text
and not its message, so the text has all of it.  Schemas know no properties of a test case, so
figures are among those of the suite, and in ``system-out``.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from typing import Final
from xml.etree import ElementTree as ET

from rich.console import Console

from crdtstream.drill.outcome import Report, Run, Verdict
from crdtstream.drill.report.figures import Headline, shared_environment
from crdtstream.drill.report.terminal import print_run
from crdtstream.page.markup import showable

WIDTH: Final = 160


def junit_of(report: Report) -> str:
    """The file's text."""
    root = ET.Element("testsuites", name="crdtstream drills")
    suite = ET.SubElement(root, "testsuite", name="crdtstream drill run")
    counts = {
        "tests": len(report.runs),
        "failures": sum(run.verdict is Verdict.FAILED for run in report.runs),
        "errors": sum(run.verdict is Verdict.ABORTED for run in report.runs),
    }
    for element in (root, suite):
        for name, count in counts.items():
            element.set(name, str(count))
        element.set("time", _time(math.fsum(run.seconds for run in report.runs)))
    suite.set("skipped", "0")
    if report.runs and (began := _timestamp(report.runs[0].began)):
        suite.set("timestamp", began)

    properties = list(_properties(report))
    if properties:
        group = ET.SubElement(suite, "properties")
        for name, value in properties:
            ET.SubElement(group, "property", name=showable(name), value=showable(value))
    for run in report.runs:
        _add_case(suite, run)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ET.Element, run: Run) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname="crdtstream.drill",
        name=showable(run.drill),
        time=_time(run.seconds),
    )
    match run.verdict:
        case Verdict.FAILED:
            failed = [check for check in run.checks if not check.is_met]
            names = ", ".join(check.name for check in failed) or "no check is named"
            _add_text(case, "failure", f"not met: {names}", run)
        case Verdict.ABORTED:
            # The first line here, and all of them in the text: a message is shown on one line.
            why = run.problem or "aborted"
            _add_text(case, "error", why.splitlines()[0], run, *why.splitlines()[1:])
        case Verdict.PASSED:
            pass
    ET.SubElement(case, "system-out").text = _figures(run)


def _add_text(case: ET.Element, tag: str, message: str, run: Run, *more: str) -> None:
    element = ET.SubElement(case, tag, message=showable(message), type=run.verdict.value)
    lines = [message, *more] if tag == "error" else []
    lines += [
        f"{check.name}: expected {check.expected}, found {check.found}"
        for check in run.checks
        if not check.is_met
    ]
    lines += run.findings
    element.text = showable("\n".join(lines))


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    """Properties: the environment once, where all runs share it; figures by drill."""
    shared = shared_environment(report.runs)
    yield from shared.items()
    for run in report.runs:
        for name, value in run.environment.items():
            if name not in shared:
                yield f"{run.drill}.{name}", value
        headline = Headline.of(run)
        yield f"{run.drill}.verdict", run.verdict.value
        yield f"{run.drill}.acknowledged", str(headline.acknowledged)
        yield f"{run.drill}.lost", str(headline.lost)
        yield f"{run.drill}.again", str(headline.again)
        yield f"{run.drill}.never", str(headline.never)
        if headline.recovery_s is not None and headline.is_recovered:
            yield f"{run.drill}.recovery_s", f"{headline.recovery_s:.3f}"
        if headline.equal_s is not None and headline.is_equal:
            yield f"{run.drill}.equal_s", f"{headline.equal_s:.3f}"


def _figures(run: Run) -> str:
    """All tables, as on a terminal with room for long names."""
    file = StringIO()
    print_run(Console(file=file, width=WIDTH, color_system=None), run)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def _time(value: float) -> str:
    return f"{value:.3f}"


def _timestamp(began: str) -> str | None:
    """Time in UTC and without a zone, as in the schemas."""
    try:
        moment = datetime.fromisoformat(began)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")
