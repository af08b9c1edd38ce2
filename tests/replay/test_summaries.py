"""Summaries of reports: what they hold and how they ended, each file read once."""

from pathlib import Path

import pytest

from crdtstream.drill.outcome import Report
from crdtstream.drill.report.files import write_json
from crdtstream.replay.folder import ReportFolder
from crdtstream.replay.summaries import BYTES_MAX, NOT_READ, NOT_SHOWN, Summaries, Summary
from crdtstream.scenario.report_file import ScenarioReport, write_reports
from tests.drill.making import a_failed_run, a_run, an_aborted_run
from tests.scenario.test_report import made

PASSED = made().model_copy(update={"passed": True, "skipped": ""})
FAILED = PASSED.model_copy(update={"passed": False})
SKIPPED = PASSED.model_copy(update={"passed": False, "skipped": "it needs a newer server"})


def found_in(folder: Path, summaries: Summaries | None = None) -> dict[str, Summary]:
    root = ReportFolder(folder)
    found = (summaries or Summaries(root)).of(root.listing().files)
    return {file.name: summary for file, summary in found.items()}


def test_drills_are_as_the_worst_of_them(tmp_path: Path) -> None:
    write_json(Report(runs=[a_run(), a_run()]), tmp_path / "passed.json")
    write_json(Report(runs=[an_aborted_run(), a_run()]), tmp_path / "aborted.json")
    write_json(Report(runs=[a_run(), a_failed_run(), an_aborted_run()]), tmp_path / "failed.json")
    assert found_in(tmp_path) == {
        "passed.json": ("2 drills", "passed"),
        "aborted.json": ("2 drills", "aborted"),
        "failed.json": ("3 drills", "failed"),
    }


@pytest.mark.parametrize(
    ("scenarios", "summary"),
    [
        ([PASSED], ("1 scenario", "passed")),
        ([PASSED, SKIPPED], ("2 scenarios", "passed")),
        ([SKIPPED], ("1 scenario", "skipped")),
        ([SKIPPED, PASSED, FAILED], ("3 scenarios", "failed")),
    ],
)
def test_scenarios_are_as_the_worst_of_them(
    tmp_path: Path, scenarios: list[ScenarioReport], summary: tuple[str, str]
) -> None:
    write_reports(scenarios, tmp_path / "one.json")
    assert found_in(tmp_path) == {"one.json": summary}


def test_a_file_that_no_page_shows_is_listed_as_such(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{}")
    assert found_in(tmp_path) == {"bad.json": NOT_SHOWN}


def test_a_list_reads_a_bounded_number_of_bytes_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        write_json(Report(runs=[a_run()]), tmp_path / f"{name}.json")
    size = (tmp_path / "a.json").stat().st_size
    monkeypatch.setattr(BYTES_MAX, "value", 2 * size)
    summaries = Summaries(ReportFolder(tmp_path))
    assert list(found_in(tmp_path, summaries).values()).count(NOT_READ) == 1
    assert list(found_in(tmp_path, summaries).values()).count(NOT_READ) == 0


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    summaries = Summaries(ReportFolder(tmp_path))
    write_json(Report(runs=[a_run()]), tmp_path / "one.json")
    assert found_in(tmp_path, summaries) == {"one.json": ("1 drill", "passed")}
    write_json(Report(runs=[a_failed_run(), a_run()]), tmp_path / "one.json")
    assert found_in(tmp_path, summaries) == {"one.json": ("2 drills", "failed")}
