"""Reports of scenarios: what each call answered; regions and links behind each row."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crdtstream.scenario.cli import app
from crdtstream.scenario.parse import parse
from crdtstream.scenario.report_file import (
    CallReport,
    CellReport,
    ScenarioFileError,
    ScenarioReport,
    ScenarioReports,
    parse_reports,
    report_of,
    write_reports,
)
from crdtstream.scenario.scenario import Scenario
from crdtstream.scenario.simulated import Simulator

TEXT = """\
about: What a report keeps.
source: this test
regions: {r1: 1, r2: 2, r3: 3}
rows:
  - r1: XADD s 110 f v      -> 110-1
    r2: XLEN s              -> 7
    explain: The second one differs.
  - partition: [[r1, r2]]
  - crash: r3
  - heal
  - restart: r3
  - sync
  - r3: XLEN s
"""


def made() -> ScenarioReport:
    scenario = Scenario(parse(TEXT))
    outcome = scenario.run(Simulator(scenario.regions, seed=7))
    return report_of(Path("a.yaml"), outcome, 7)


def test_a_report_has_each_answer_and_what_differs() -> None:
    report = made()
    first, last = report.rows[0], report.rows[-1]
    assert first.cells[1].calls == [
        CallReport(client="", text="XADD s 110 f v", answer="110-1", expected="110-1", is_met=True)
    ]
    assert first.cells[2].calls == [
        CallReport(client="", text="XLEN s", answer="0", expected="7", is_met=False)
    ]
    assert first.cells[3] == CellReport()
    assert first.explain == "The second one differs."
    assert last.cells[3].calls[0].answer == "1"
    assert last.cells[3].calls[0].is_met
    assert not report.passed
    assert len(set(report.digests.values())) == 1


def test_a_row_has_the_regions_and_links_behind_it() -> None:
    rows = made().rows
    assert [row.cut for row in rows] == [[], [(1, 2)], [(1, 2)], [], [], [], []]
    assert [row.crashed for row in rows] == [[], [], [3], [3], [], [], []]


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    report = made()
    write_reports([report, report], tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    assert parse_reports(text, "out.json") == ScenarioReports(scenarios=[report, report])
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('"format": 1', '"format": 2'), "of format 2"),
        (('"passed"', '"past"'), "damaged report of scenarios: scenarios.0"),
        (("{", "["), "damaged"),
    ],
)
def test_a_file_that_is_no_report_says_why(
    tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    write_reports([made()], tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text().replace(*change)
    with pytest.raises(ScenarioFileError, match=why):
        parse_reports(text, "out.json")


def test_a_report_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match="cannot be written"):
        write_reports([made()], tmp_path / "missing" / "out.json")


def test_nothing_is_left_of_a_report_that_cannot_be_moved_to_its_place(tmp_path: Path) -> None:
    (tmp_path / "out.json").mkdir()
    with pytest.raises(ScenarioFileError, match="cannot be written"):
        write_reports([made()], tmp_path / "out.json")
    assert [one.name for one in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (".", "is a folder; name a file"),
        ("missing/out.json", "cannot be written"),
        ("x" * 300, "cannot be written"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_scenarios_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: str, why: str
) -> None:
    (tmp_path / "a.yaml").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["run", "a.yaml", "--report", report])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: --report {report}: {why}" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["a.yaml"]
    done = CliRunner().invoke(app, ["run", "a.yaml", "--report", "out.json"])
    assert done.exit_code == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.yaml", "out.json"]
