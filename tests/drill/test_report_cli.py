"""``crdtstream drill report``: what is printed and written, and how it ends."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from crdtstream.drill.outcome import Report, Run
from crdtstream.drill.report.cli import report
from crdtstream.drill.report.files import read_json, write_json
from tests.drill.making import a_failed_run, a_run, all_drills, an_aborted_run


def run(*words: str | Path) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(report)
    return CliRunner().invoke(app, [str(word) for word in words])


def kept(path: Path, *runs: Run) -> Path:
    write_json(Report(runs=list(runs)), path)
    return path


@pytest.mark.parametrize(
    ("runs", "status"),
    [
        ([], 0),
        ([a_run()], 0),
        ([a_run(), a_failed_run()], 1),
        ([a_run(), an_aborted_run()], 3),
        ([an_aborted_run(), a_failed_run()], 1),
    ],
)
def test_it_ends_with_the_verdict(tmp_path: Path, runs: list[Run], status: int) -> None:
    assert run(kept(tmp_path / "a.json", *runs)).exit_code == status


def test_the_verdict_of_two_is_that_of_the_last(tmp_path: Path) -> None:
    good = kept(tmp_path / "good.json", a_run("x"))
    bad = kept(tmp_path / "bad.json", a_failed_run("x"))
    assert run(good, bad).exit_code == 1
    found = run(bad, good)
    assert found.exit_code == 0
    assert "x: failed → passed" in found.stdout


def test_a_report_is_shown_as_tables(tmp_path: Path) -> None:
    found = run(kept(tmp_path / "a.json", *all_drills().runs))
    assert "13 drills" in found.stdout
    assert found.stderr == ""


def test_one_drill_of_several_is_shown_whole(tmp_path: Path) -> None:
    path = kept(tmp_path / "a.json", *all_drills().runs)
    found = run(path, "--drill", "thin-link")
    assert found.exit_code == 0
    assert "latency as clients saw it" in found.stdout
    assert "partition-heal" not in found.stdout

    found = run(path, "--drill", "thinlink")
    assert found.exit_code == 2
    assert "no drill 'thinlink' in it; it has partition-heal, one-way-partition" in found.stderr


def test_the_page_and_the_xml_are_written_besides(tmp_path: Path) -> None:
    page, xml = tmp_path / "drills.html", tmp_path / "drills.xml"
    found = run(kept(tmp_path / "a.json", a_failed_run()), "--html", page, "--junit", xml)
    assert found.exit_code == 1
    assert page.read_text().startswith("<!doctype html>")
    assert 'failures="1"' in xml.read_text()


def test_of_two_reports_the_last_is_written(tmp_path: Path) -> None:
    page = tmp_path / "drills.html"
    before = kept(tmp_path / "a.json", a_run("before"))
    after = kept(tmp_path / "b.json", a_run("after"))
    run(before, after, "--html", page)
    assert "after" in page.read_text()
    assert "<bdi>before</bdi>" not in page.read_text()


def test_json_of_one_is_the_report_and_of_two_the_comparison(tmp_path: Path) -> None:
    path = kept(tmp_path / "a.json", a_run())
    assert Report.model_validate_json(run(path, "--json").stdout) == read_json(path)
    assert json.loads(run(path, path, "--json").stdout)["drills"][0]["drill"] == "region-loss"


def test_files_that_are_no_report_end_the_command_with_status_2(tmp_path: Path) -> None:
    good = kept(tmp_path / "good.json", a_run())
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    for words, told in (
        ([tmp_path / "absent.json"], "there is no such file"),
        ([good, bad], f"error: {bad}: not a report of drills"),
        ([good, good, good], "one report, or two to compare; these are 3"),
        ([good, "--html", tmp_path / "absent" / "a.html"], "make it first"),
        ([good, "--junit", tmp_path], "cannot be written"),
    ):
        found = run(*words)
        assert found.exit_code == 2
        assert told in found.stderr
        assert found.stdout == ""
