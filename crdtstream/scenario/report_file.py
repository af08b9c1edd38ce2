"""Outcomes of scenarios as a file, to keep and to replay: what each call answered, row by row.

A row also has the state behind it: which regions are crashed, and which links are cut.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from crdtstream.scenario.markdown import describe
from crdtstream.scenario.outcome import Outcome
from crdtstream.scenario.replies import show
from crdtstream.scenario.rows import Call, Calls, Crash, Heal, Partition, Restart, Row, Script

# Of the file; a reader refuses another one.
FORMAT: Final = 1
PROBLEMS_SHOWN_MAX: Final = 3


class ScenarioFileError(Exception):
    """A file is no report of scenarios, or cannot be written; the text says what to do."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CallReport(_Value):
    """One call.

    Attributes:
        text: the command, as the file of the scenario writes it.
        answer: as it came; empty: it was not made.
        expected: empty: any answer but an error.
    """

    client: str
    text: str
    answer: str
    expected: str
    is_met: bool


class CellReport(_Value):
    """Events of one region in one row: calls, or a step in words."""

    calls: list[CallReport] = []
    step: str = ""


class RowReport(_Value):
    """One row.

    Attributes:
        cells: by region.
        crashed: regions without a process behind this row.
        cut: pairs of regions that hear nothing of each other behind it.
    """

    label: str
    explain: str
    cells: dict[int, CellReport]
    crashed: list[int]
    cut: list[tuple[int, int]]


class ScenarioReport(_Value):
    """One scenario.

    Attributes:
        file: its path, as it was named.
        seed: of the simulator; None: it ran on nodes.
        skipped: why it was not run; empty: it was.
        digests: by region, at the end; all must be equal.
    """

    file: str
    about: str
    source: str
    seed: int | None
    passed: bool
    skipped: str
    regions: list[int]
    rows: list[RowReport]
    digests: dict[int, str]


class ScenarioReports(_Value):
    """The scenarios of one call of ``crdtstream scenario run``."""

    kind: Literal["scenarios"] = "scenarios"
    format: int = FORMAT
    scenarios: list[ScenarioReport]


class _Head(BaseModel):
    format: int


def report_of(file: Path, outcome: Outcome, seed: int | None) -> ScenarioReport:
    """The report of one scenario."""
    script = outcome.script
    return ScenarioReport(
        file=str(file),
        about=script.about,
        source=script.source,
        seed=seed,
        passed=outcome.passed,
        skipped=outcome.skipped,
        regions=sorted(script.columns.values()),
        rows=list(_rows(script, outcome)),
        digests=dict(outcome.digests),
    )


def write_reports(reports: Iterable[ScenarioReport], path: Path) -> None:
    """Write a file whole, or not at all.

    Raises:
        ScenarioFileError: it cannot be written.
    """
    text = ScenarioReports(scenarios=list(reports)).model_dump_json(indent=1) + "\n"
    with _part_of(path) as part:
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def check_writable(path: Path) -> None:
    """See, before the work is done, that a report can be written.

    Raises:
        ScenarioFileError: it cannot.
    """
    with _part_of(path) as part:
        if path.is_dir():
            raise ScenarioFileError(f"{path}: is a folder; name a file, as {path / 'report.json'}")
        part.touch()


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    """Name of a file beside ``path``, of which nothing is left at the end.

    Raises:
        ScenarioFileError: what was done with it failed.
    """
    part = path.parent / f".{path.name[:50]}.part"
    try:
        yield part
    except OSError as error:
        raise ScenarioFileError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def parse_reports(text: str, name: str) -> ScenarioReports:
    """The reports in the text of a file.

    Raises:
        ScenarioFileError: it holds something else, or is of another format.
    """
    # Other formats may have other fields.
    with suppress(ValidationError):
        written = _Head.model_validate_json(text).format
        if written != FORMAT:
            raise ScenarioFileError(
                f"{name}: a report of format {written}, and this version reads format {FORMAT};"
                " run the scenarios again"
            )
    try:
        return ScenarioReports.model_validate_json(text)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)[:PROBLEMS_SHOWN_MAX]
        shown = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problems)
        raise ScenarioFileError(f"{name}: a damaged report of scenarios: {shown}") from error


def _rows(script: Script, outcome: Outcome) -> Iterator[RowReport]:
    numbers = script.columns
    crashed: set[int] = set()
    cut: set[tuple[int, int]] = set()
    for row in script.rows:
        match row.step:
            case Crash(region):
                crashed.add(numbers[region])
            case Restart(region):
                crashed.discard(numbers[region])
            case Partition(pairs):
                for one, other in pairs:
                    low, high = sorted((numbers[one], numbers[other]))
                    cut.add((low, high))
            case Heal():
                cut.clear()
            case _:
                pass
        yield RowReport(
            label=row.label,
            explain=row.explain,
            cells={number: _cell(row, name, outcome) for name, number in numbers.items()},
            crashed=sorted(crashed),
            cut=sorted(cut),
        )


def _cell(row: Row, name: str, outcome: Outcome) -> CellReport:
    if not isinstance(row.step, Calls):
        return CellReport(step=describe(row, name))
    return CellReport(calls=[_call(one, outcome) for one in row.step.cells.get(name, ())])


def _call(call: Call, outcome: Outcome) -> CallReport:
    return CallReport(
        client=call.client,
        text=call.text,
        answer=show(outcome.answers[call]) if call in outcome.answers else "",
        expected=call.expected_text,
        is_met=call in outcome.answers and all(one.call is not call for one in outcome.mismatches),
    )
