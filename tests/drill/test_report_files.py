"""Reports as JSON: what is read is what was written, and what is no report says so."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from crdtstream.drill.outcome import Report
from crdtstream.drill.report.files import ReportError, read_json, write_json, write_text
from tests.drill.making import a_failed_run, a_run, all_drills, an_aborted_run
from tests.page.elements import HOSTILE

REPORTS = {
    "no runs": Report(runs=[]),
    "one": Report(runs=[a_run()]),
    "failed": Report(runs=[a_failed_run()]),
    "aborted": Report(runs=[an_aborted_run()]),
    "hostile": Report(runs=[a_run(HOSTILE, about=HOSTILE, findings=[HOSTILE])]),
    "all": all_drills(),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_reports_are_read_back_as_written(tmp_path: Path, report: Report) -> None:
    path = tmp_path / "report.json"
    write_json(report, path)
    assert read_json(path) == report


def changed(change: str, value: Any) -> str:
    """The JSON of a report with one field changed, ``a.0.b``."""
    found = json.loads(Report(runs=[a_run()]).model_dump_json())
    *way, last = change.split(".")
    place = found
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not JSON"),
        ('{"runs": [', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a report of drills; `crdtstream drill run --out DIR` writes one, report.json"),
        ("7", "not a report of drills"),
        ('{"seed": 1}', "not a report of drills"),
        (changed("format", 2), "a report of format 2, and this version reads format 1"),
        (changed("runs.0.format", "x"), "a report of format 'x'"),
        (changed("runs.0.seconds", "long"), "damaged report: runs.0.seconds: "),
        (changed("runs.0.verdict", "fine"), "'passed', 'failed' or 'aborted'"),
        (changed("runs.0.extra", 1), "runs.0.extra: Extra inputs are not permitted"),
        (changed("runs.0.throughput.at", []), "0 times, but 60 values"),
        (changed("runs.0.nodes.0.cpu_percent", [1.0]), "60 times, but 1 values"),
        (changed("runs.0.links.0.lag_effects", []), "120 times, but 0 values"),
        (changed("runs", [{}]), "and "),
    ],
)
def test_files_that_are_no_report_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ReportError) as raised:
        read_json(path)
    assert told in str(raised.value)
    assert str(raised.value).startswith(f"{path}: ")


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, told in (
        ("absent", "no such file"),
        ("binary", "not UTF-8"),
        (".", "report.json: there is no such file"),
    ):
        with pytest.raises(ReportError, match=told):
            read_json(tmp_path / name)


def test_a_folder_means_the_report_in_it(tmp_path: Path) -> None:
    """As ``drill run --out`` writes it."""
    write_json(Report(runs=[]), tmp_path / "report.json")
    assert read_json(tmp_path) == Report(runs=[])


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.mkdir()
    (path / "kept").touch()
    with pytest.raises(ReportError, match="cannot be written"):
        write_text(path, "new")
    with pytest.raises(ReportError, match=r"there is no folder .*/absent; make it first"):
        write_text(tmp_path / "absent" / "report.json", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]


def test_a_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old")

    def fails(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(ReportError, match="No space left on device"):
            write_text(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]

    write_text(path, "new")
    assert path.read_text() == "new"


def test_others_may_read_a_report_as_the_mask_says(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    old = os.umask(0o027)
    try:
        write_text(path, "text")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
